"""Operators that move elements and change none: reshape (a view of a row-major tensor), transpose, concat."""
from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod

import numpy as np

from aoec.ops.declare import Attributes, Op, Shape, names, tensor


def _reshape_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    """The element at the same place in row-major order."""
    shape: Shape = attributes["shape"]  # type: ignore[assignment]
    loops = names("o", len(shape))
    flat = " + ".join(f"{loop} * {prod(shape[at + 1:])}" for at, loop in enumerate(loops)) or "0"
    reads = [f"({flat}) // {prod(shapes[0][at + 1:])} % {extent}" for at, extent in enumerate(shapes[0])]
    dims = [f"{loop}: {extent}" for loop, extent in zip(loops, shape)]
    x, y = tensor("X", names("i", len(shapes[0]))), tensor("Y", dims)
    return f"reshape({x}) -> {y} {{\n  {tensor('Y', loops)} = {tensor('X', reads)}\n}}"


def _transpose_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    loops = names("i", len(shapes[0]))
    y = tensor("Y", [loops[axis] for axis in attributes["perm"]])  # type: ignore[union-attr, index]
    return f"transpose({tensor('X', loops)}) -> {y} {{\n  {y} = {tensor('X', loops)}\n}}"


def _concat_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    """One statement for each argument X0, X1, ..., writing at its offset along the axis."""
    axis = int(attributes["axis"])  # type: ignore[arg-type]
    loops = names("i", len(shapes[0]))
    offsets = [0, *accumulate(shape[axis] for shape in shapes)]
    arguments, statements = [], []
    for at in range(len(shapes)):
        own = [*loops[:axis], f"a{at}", *loops[axis + 1:]]
        arguments.append(tensor(f"X{at}", own))
        statements.append(f"  {tensor('Y', [*loops[:axis], f'a{at} + {offsets[at]}', *loops[axis + 1:]])} = {arguments[-1]}")
    y = tensor("Y", [*loops[:axis], f"i{axis}: {offsets[-1]}", *loops[axis + 1:]])
    return f"concat({', '.join(arguments)}) -> {y} {{\n" + "\n".join(statements) + "\n}"


OPS = (
    Op("reshape", _reshape_text, lambda x, *, shape: x.reshape(shape), "view"),
    Op("transpose", _transpose_text, lambda x, *, perm: np.ascontiguousarray(x.transpose(perm)), "movement"),
    Op("concat", _concat_text, lambda *xs, axis: np.concatenate(xs, axis=axis), "movement"),
)
