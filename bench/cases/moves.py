"""Vendor kernels that only move elements, as operators of ours: what a row's shapes leave open is the plainest that they allow."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from aoec.base.errors import UnsupportedError
from aoec.ir.graph.graph import Attribute
from bench.cases.case import Case

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Move:
    """An operator that moves elements, its operands and their dtypes and layouts, and the layout of its result."""

    op: str
    inputs: tuple[Shape, ...]
    attributes: Mapping[str, Attribute]
    dtypes: tuple[str, ...] = ()  # "": the case's
    layouts: tuple[str, str] = ("ND", "ND")


def moved(case: Case) -> Move:
    """Return what a case moves. Raise UnsupportedError where its shapes do not say what goes where."""
    first, result = case.shape.inputs[0], case.shape.output or case.shape.inputs[0]
    return MOVES[case.operator](case.shape.inputs, result, first)


def _part(inputs: Sequence[Shape], result: Shape, x: Shape) -> Move:
    """Return the first elements of each axis."""
    if result == x or len(result) != len(x):
        raise UnsupportedError(f"which part of {'x'.join(map(str, x))} is taken is not stated")
    return Move("slice", (x,), {"starts": (0,) * len(x), "sizes": result, "steps": (1,) * len(x)})


def _copy(inputs: Sequence[Shape], result: Shape, x: Shape) -> Move:
    """Return all of a tensor."""
    return Move("slice", (x,), {"starts": (0,) * len(x), "sizes": x, "steps": (1,) * len(x)})


def _turned(inputs: Sequence[Shape], result: Shape, x: Shape) -> Move:
    """Return the order of the axes that leads to the result, of equal ones the first first."""
    left, perm = dict(enumerate(x)), []
    for extent in result:
        axis = next((a for a, n in left.items() if n == extent), None)
        if axis is None:
            raise UnsupportedError(f"no order of the axes of {'x'.join(map(str, x))} gives {'x'.join(map(str, result))}")
        perm.append(axis)
        del left[axis]
    if perm == list(range(len(x))):
        raise UnsupportedError("the order of the axes is not stated")
    return Move("transpose", (x,), {"perm": tuple(perm)})


def _joined(inputs: Sequence[Shape], result: Shape, x: Shape) -> Move:
    axis = next((a for a, (n, m) in enumerate(zip(x, result)) if n != m), None)
    if axis is None:
        raise UnsupportedError("along which axis tensors are joined is not stated")
    return Move("concat", tuple(inputs), {"axis": axis})


def _read(inputs: Sequence[Shape], result: Shape, x: Shape) -> Move:
    """Return rows of a table by int32 indices."""
    if len(inputs) < 2:
        raise UnsupportedError("how many indices read the table is not stated")
    return Move("gather", (x, inputs[1]), {"axis": 0}, ("", "int32"))


def _fractals(inputs: Sequence[Shape], result: Shape, x: Shape) -> Move:
    """Return a move between ND and NZ, where [n1, m1, 16, 16] holds [16 m1, 16 n1] at most, or NC1HWC0, where [n, c1, h, w, 16] holds 16 c1
    channels."""
    if len(result) == 2 and x[-2:] == (16, 16):
        return Move("from_nz", (result,), {}, (), ("NZ", "ND"))
    if len(x) == 2 and result[-2:] == (16, 16):
        return Move("to_nz", (x,), {}, (), ("ND", "NZ"))
    if image_of(x, result):
        return Move("from_nc1hwc0", (result,), {}, (), ("NC1HWC0", "ND"))
    if image_of(result, x):
        return Move("to_nc1hwc0", (x,), {}, (), ("ND", "NC1HWC0"))
    raise UnsupportedError("between which layouts it converts is not stated")


def image_of(blocks: Shape, image: Shape) -> bool:
    """Return whether an image [n, c, h, w] lies in blocks of 16 channels [n, c1, h, w, 16]."""
    return len(blocks) == 5 and len(image) == 4 and blocks[4] == 16 and (
        blocks[0], -(-image[1] // 16), *blocks[2:4]) == (image[0], blocks[1], *image[2:])


def _filled(inputs: Sequence[Shape], result: Shape, x: Shape) -> Move:
    """Return elements of a tensor or one number, by a truth each."""
    return Move("where", (x, (1,), x), {}, ("bool", "", ""))


MOVES: Mapping[str, Callable[[Sequence[Shape], Shape, Shape], Move]] = {
    "slice": _part, "copy": _copy, "transpose": _turned, "concat": _joined, "gather": _read, "index": _read, "trans_data": _fractals,
    "masked_fill": _filled, "broadcast": lambda inputs, result, x: Move("expand", (x,), {"shape": result})}
