"""A node of a draft while its gradient is made: what it reads and gives, and how nodes of the backward graph are added for it."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import NodeProto, helper

from aoec.frontend.own.own import Words
from aoec.frontend.rules.reduce import reduce_axes
from aoec.frontend.translate.node import Node
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Attribute, OpNode
from aoec.ops.declare import Shape
from aoec.ops.run import REALS

OPSET = 18  # of the ONNX nodes that gradients borrow rules of


@dataclass(frozen=True)
class Site:
    """`node` is the forward node and `dy` the gradient of its result. Nodes are added by `n`, which names them after the tensor whose
    gradient is made. `known`: the definitions of the draft."""

    n: Node
    node: OpNode
    dy: str
    known: Words

    @property
    def y(self) -> str:
        """Return the result of the forward node."""
        return self.node.outputs[0]

    def x(self, at: int) -> str:
        """Return an argument of the forward node."""
        return self.node.inputs[at]

    def has(self, at: int) -> bool:
        """Return whether the forward node has an argument."""
        return at < len(self.node.inputs) and bool(self.node.inputs[at])

    def shape(self, at: int) -> Shape:
        """Return the shape of an argument of the forward node."""
        return self.n.made_shape(self.node.inputs[at])

    @property
    def out(self) -> Shape:
        """Return the shape of the forward node's result."""
        return self.n.made_shape(self.y)

    @property
    def attributes(self) -> dict[str, Attribute]:
        """Return the attributes of the forward node."""
        return dict(self.node.attributes)

    def list(self, name: str, default: Sequence[int] = ()) -> tuple[int, ...]:
        """Return an attribute of the forward node that is a list of whole numbers."""
        found = self.node.attribute(name, tuple(default))
        assert isinstance(found, tuple)
        return tuple(int(v) for v in found)

    def integer(self, name: str, default: int = 0) -> int:
        """Return an attribute of the forward node that is a whole number."""
        return int(self.node.attribute(name, default))  # type: ignore[arg-type]

    def number(self, name: str, default: float = 0.0) -> float:
        """Return an attribute of the forward node that is a number."""
        return float(self.node.attribute(name, default))  # type: ignore[arg-type]

    def is_real(self, x: str) -> bool:
        """Return whether a tensor is of reals."""
        return self.n.made_dtype(x) in REALS

    # ------------------------------------------------------------ nodes

    def step(self, op: str, inputs: Sequence[str], dtype: str = "", /, **attributes: Attribute) -> str:
        """Return the tensor that a new node of the backward graph makes."""
        return self.n.step(op, inputs, attributes, dtype)

    def reshape(self, x: str, shape: Sequence[int]) -> str:
        """Return the tensor as another shape; itself where it has it."""
        return x if self.n.made_shape(x) == tuple(shape) else self.step("reshape", [x], shape=tuple(shape))

    def transpose(self, x: str, perm: Sequence[int]) -> str:
        """Return the tensor with its dimensions in another order; itself where that is its own."""
        return x if tuple(perm) == tuple(range(len(perm))) else self.step("transpose", [x], perm=tuple(perm))

    def sum(self, x: str, axes: Sequence[int]) -> str:
        """Return the sum over axes, which stay as extents of 1. Images are summed by pooling, which takes channels in blocks."""
        shape = self.n.made_shape(x)
        axes = tuple(a for a in sorted(axes) if shape[a] != 1)
        if len(shape) == 4 and axes[-2:] == (2, 3) and len(axes) < 4:
            pooled = self.n.wide(self.step("global_avg_pool", [x]))
            return self.scale(self.sum(pooled, axes[:-2]), float(shape[2] * shape[3]))
        return reduce_axes(self.n, "reduce_sum", x, axes)

    def expand(self, x: str, shape: Sequence[int]) -> str:
        """Return the tensor, repeated along axes of extent 1 until it has a shape."""
        return x if self.n.made_shape(x) == tuple(shape) else self.step("expand", [x], shape=tuple(shape))

    def reduce_to(self, x: str, shape: Shape) -> str:
        """Return the sum of a tensor over what broadcasting repeated: of the shape that was broadcast."""
        own = self.n.made_shape(x)
        lead = len(own) - len(shape)
        axes = [a for a, extent in enumerate(own) if a < lead or shape[a - lead] == 1]
        return self.reshape(self.sum(x, axes), shape)

    def behind(self, x: str, size: int) -> str:
        """Return a row with zeros behind it, up to a size."""
        return self.n.pad(x, 0, 0, size - self.n.made_shape(x)[0])

    def scale(self, x: str, by: float) -> str:
        """Return the tensor times a number."""
        return x if by == 1 else self.step("muls", [x], scalar=by)

    def flip(self, x: str, axis: int) -> str:
        """Return the tensor backwards along an axis."""
        shape = self.n.made_shape(x)
        if shape[axis] < 2:
            return x
        starts, steps = (tuple(own if at == axis else plain for at in range(len(shape))) for own, plain in ((shape[axis] - 1, 0), (-1, 1)))
        return self.step("slice", [x], starts=starts, sizes=shape, steps=steps)

    def insert_zeros(self, x: str, axis: int, step: int) -> str:
        """Return the tensor with `step` - 1 zeros between its elements along an axis."""
        shape = self.n.made_shape(x)
        if step == 1 or shape[axis] < 2:
            return x
        apart = self.n.pad(self.reshape(x, (*shape[:axis + 1], 1, *shape[axis + 1:])), axis + 1, 0, step - 1)
        whole = self.reshape(apart, (*shape[:axis], shape[axis] * step, *shape[axis + 1:]))
        return self.n.piece(whole, axis, 0, (shape[axis] - 1) * step + 1)

    def with_dy(self, dy: str) -> Site:
        """Return the site with another gradient of the result."""
        return replace(self, dy=dy)

    def zero(self) -> str:
        """Return a constant of one element, 0."""
        return self.constant("zero", np.zeros(()))

    def zeros(self, shape: Sequence[int]) -> str:
        """Return zeros of a shape."""
        return self.expand(self.constant("zero", np.zeros((1,) * len(shape))), shape)

    def constant(self, label: str, array: np.ndarray, dtype: str = "fp32") -> str:
        """Return a new constant."""
        return self.n.constant(label, array, dtype)

    def as_onnx(self, op: str, inputs: Sequence[str], shape: Sequence[int], domain: str = "",
                **attributes: Any) -> tuple[Node, str]:
        """Return (the node of ONNX that is to be translated, its result) of a shape, as our rules of ONNX take it."""
        return make_node(self.n.draft, self.n.proto.name, f"{self.n.proto.output[0]}_{op.lower()}", op, inputs, [shape], domain, attributes)


def make_node(draft: Draft, label: str, result: str, op: str = "", inputs: Sequence[str] = (), shapes: Sequence[Sequence[int]] = ((),),
              domain: str = "", attributes: Mapping[str, Any] | None = None) -> tuple[Node, str]:
    """Return (a node of ONNX for the builder, its first result, a free name); results are real, of these shapes."""
    names = [draft.fresh(result) for _ in shapes]
    proto: NodeProto = helper.make_node(op, list(inputs), names, label, domain=domain, **(attributes or {}))
    made = dict(zip(names, map(tuple, shapes)))
    return Node(proto, draft, OPSET, made, dict.fromkeys(names, "fp32"), set(names)), names[0]


Rule = Callable[[Site, int], str]  # a node and which argument -> the argument's gradient, or one that broadcasting repeated; "": zero


def inverse(perm: Sequence[int]) -> tuple[int, ...]:
    """Return the order that undoes one."""
    return tuple(int(v) for v in np.argsort(perm))

