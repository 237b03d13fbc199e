"""Operators that read where data say: gather (whole slices of an axis) and gather_elements. A negative index counts from the end.

With `rows` = 1 the axis is the last one, and its rows are brought whole before elements are taken of them; values are the same.
"""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aoec.ops.declare import Attributes, Onnx, Op, Shape, names, tensor
from aoec.ops.samples import places, sample


def _count_from_start(index: str, extent: int) -> str:
    """Return the index from the start of its axis."""
    return f"select({index} < 0, {index} + {extent}, {index})"


def _axis(shapes: Sequence[Shape], attributes: Attributes) -> int:
    axis = int(attributes["axis"])  # type: ignore[arg-type]
    if not 0 <= axis < len(shapes[0]):
        raise ValueError(f"a tensor of shape {list(shapes[0])} has no axis {axis}")
    return axis


def _gather_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    """Return the index's axes stand in place of the axis that it speaks of."""
    axis = _axis(shapes, attributes)
    i, j = names("i", len(shapes[0])), names("j", len(shapes[1]))
    index = tensor("I", j)
    y = tensor("Y", [*i[:axis], *j, *i[axis + 1:]])
    read = tensor("X", [*i[:axis], _count_from_start(index, shapes[0][axis]), *i[axis + 1:]])
    return f"gather({tensor('X', i)}, {index}) -> {y} {{\n  {y} = {read}\n}}"


def _gather_elements_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    """Return the text of a gather by elements. Each element of the index gives the place along the axis; along other axes the place is its
    own."""
    axis = _axis(shapes, attributes)
    j = names("j", len(shapes[1]))
    if len(shapes[0]) != len(j) or any(m > n for at, (n, m) in enumerate(zip(*shapes)) if at != axis):
        raise ValueError("the index has an axis that is longer than the tensor's, or another rank")
    read = tensor("X", [_count_from_start(tensor("I", j), shapes[0][axis]) if at == axis else v for at, v in enumerate(j)])
    x = tensor("X", names("i", len(j)))
    return f"gather_elements({x}, {tensor('I', j)}) -> {tensor('Y', j)} {{\n  {tensor('Y', j)} = {read}\n}}"


def _gather(x: np.ndarray, index: np.ndarray, *, axis: int, rows: int = 0) -> np.ndarray:
    return np.take(x, index.astype(np.int64), axis)


def _gather_elements(x: np.ndarray, index: np.ndarray, *, axis: int, rows: int = 0) -> np.ndarray:
    inside = x[tuple(slice(None) if at == axis else slice(n) for at, n in enumerate(index.shape))]
    return np.take_along_axis(inside, index.astype(np.int64), axis)


OPS = (
    Op("gather", _gather_text, _gather, "movement", cann=("GatherV2",),
       onnx=Onnx("Gather", {"axis": 0}, types=("own",)), samples=(sample((3, 4), places(4, 2, 2), axis=1),)),
    Op("gather_elements", _gather_elements_text, _gather_elements, "movement", cann=("GatherElements",),
       onnx=Onnx("GatherElements", {"axis": 0}, types=("own",)), samples=(sample((3, 4), places(4, 3, 5), axis=1),)),
)
