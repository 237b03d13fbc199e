"""Nodes that a training step adds to a draft, named after what they are for."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aoec import ops
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Attribute, OpNode, Tensor


class Added:
    """Makes nodes that belong to `label`, which their names begin with. They are appended to `nodes`, those of the draft unless given."""

    def __init__(self, draft: Draft, label: str, nodes: list[OpNode] | None = None) -> None:
        self.draft, self.label, self._own = draft, label, nodes

    @property
    def nodes(self) -> list[OpNode]:
        """Return where nodes are added."""
        return self.draft.nodes if self._own is None else self._own

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor of the draft."""
        return self.draft.tensors[name].shape

    def step(self, op: str, inputs: Sequence[str], dtype: str = "", result: str = "", **attributes: Attribute) -> str:
        """Return the tensor that a new node makes, of the first argument's dtype where none is stated. `result`: its name, which nobody
        has."""
        shape = ops.shape(op, [self.shape(i) for i in inputs], attributes)
        dtype = dtype or self.draft.tensors[inputs[0]].dtype
        if result:
            self.draft.put(Tensor(result, dtype, shape))
        out = result or self.draft.tensor(f"{self.label}_{op}", dtype, shape)
        self.nodes.append(self.draft.node(op, inputs, out, attributes, f"{self.label}_{op}"))
        return out

    def wide(self, name: str) -> str:
        """Return the tensor, which stays in fp32 whatever the precision of others is."""
        self.draft.wide.add(name)
        return name

    def constant(self, label: str, array: np.ndarray, dtype: str) -> str:
        """Return a new constant."""
        return self.draft.constant(f"{self.label}_{label}", array, dtype)

    def add_input(self, name: str, dtype: str, shape: Sequence[int]) -> str:
        """Return a new input of the graph."""
        made = self.draft.tensor(name, dtype, shape)
        self.draft.inputs = (*self.draft.inputs, made)
        return made
