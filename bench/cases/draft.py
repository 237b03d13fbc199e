"""A graph of aoec's own while it grows, node by node: what rows of tables become."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from aoec.base.errors import UnsupportedError
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Attribute, Graph, Group, Tensor
from aoec.jobs.choose.attention import fuse_exceptions
from aoec.jobs.choose.wide_sums import wide
from aoec.lowering.arrange.fuse import fuse
from aoec.ops import OPS
from aoec.ops.meanings import shape as result_shape
from aoec.target.machine import Machine
from bench.cases.operators import near

NUMPY: Mapping[str, Callable[[int], np.generic]] = {
    "fp16": np.float16, "bf16": np.uint16, "fp32": np.float32, "int8": np.int8, "uint8": np.uint8, "int32": np.int32}  # type: ignore[dict-item]


class Net:
    """A draft that grows node by node, in the case's dtype."""

    def __init__(self, name: str, dtype: str) -> None:
        self.draft, self.dtype = Draft(name, (), ()), dtype
        self.machine: Machine | None = None  # whose groups are wanted

    def input(self, name: str, shape: Sequence[int], layout: str = "ND", dtype: str = "") -> str:
        self.draft.put(Tensor(name, dtype or self.dtype, tuple(shape), layout))
        self.draft.inputs += (name,)
        return name

    def zeros(self, name: str, shape: Sequence[int], dtype: str = "") -> str:
        """Return a constant whose values do not matter to time; its bytes are not held."""
        return self.draft.constant(name, np.broadcast_to(NUMPY[dtype or self.dtype](0), tuple(shape)), dtype or self.dtype)

    def shape(self, name: str) -> tuple[int, ...]:
        return self.draft.tensors[name].shape

    def node(self, op: str, inputs: Sequence[str], dtype: str = "", layout: str = "ND", **attributes: Attribute) -> str:
        """Return the result of an operator; its shape is the operator's own rule's."""
        if op not in OPS:
            raise UnsupportedError(f"aoec has no operator {op}{near(op, OPS)}")
        shape = result_shape(op, [self.shape(i) for i in inputs], attributes)
        out = self.draft.tensor(op, dtype or self.dtype, shape, layout)
        self.draft.nodes.append(self.draft.node(op, inputs, out, attributes))
        return out

    def own(self, op: str, definition: str, inputs: Sequence[str], shape: Sequence[int], dtype: str = "", layout: str = "ND",
            **attributes: Attribute) -> str:
        """Return the result of an operator by its own definition in index notation, of that shape."""
        out = self.draft.tensor(op, dtype or self.dtype, tuple(shape), layout)
        self.draft.nodes.append(replace(self.draft.node(op, inputs, out, attributes), definition=definition))
        return out

    def one(self, output: str) -> Graph:
        """Return the graph of one cube operator as it stands: operands lie in GM as the case says, nothing converts them."""
        self.draft.outputs = (output,)
        graph, _ = self.draft.finish()
        return replace(graph, groups=(Group("g0", "cube", tuple(n.name for n in graph.nodes)),))

    def graph(self, *outputs: str) -> Graph:
        """Return the fused graph, sums as a compile for the machine has them."""
        self.draft.outputs = outputs
        graph, weights = self.draft.finish()
        if self.machine is None:
            return fuse(graph, weights)[0]
        graph = wide(graph, self.machine)
        return fuse(graph, weights, self.machine, fuse_exceptions(graph, self.machine))[0]
