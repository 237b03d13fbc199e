"""Rewriting of logical accesses to what lies in GM: images get five indices, whole images one axis."""
from __future__ import annotations

from aoec.ir.func.meaning import Meaning
from aoec.ir.func.tir import Block, Buffer, Loop, Node
from aoec.ir.graph.graph import Attribute, OpNode, Tensor
from aoec.ir.index import (
    Binary,
    Expr,
    Float,
    Int,
    Read,
    Var,
    binary,
    both,
    ge,
    lt,
    normalise,
    select,
    substitute,
    walk,
)
from aoec.ops.words.layout import PIXEL, pixel_channels, stored_shape

ZERO = Float(0.0)


def buffer_of(t: Tensor, name: str, shape: tuple[int, ...] | None = None) -> Buffer:
    """Return the GM buffer of a graph tensor: logical dimensions for ND and for matrices in other layouts, five for images."""
    matrix = t.layout in ("ZN", "NZ") or t.layout == "NC1HWC0" and len(t.shape) == 2
    own = t.shape if matrix else stored_shape(t)
    return Buffer(name, t.dtype, tuple(Int(d) for d in (shape or own)), "GM", t.layout if matrix else "ND")


def extents(said: Meaning) -> dict[str, int]:
    """Return loop -> extent, for every loop of a meaning whose sizes are filled in."""
    dims = [*said.loops, *(d for a in (*said.inputs, *said.outputs) for d in a.dims)]
    return {d.name: d.extent.value for d in dims if isinstance(d.extent, Int)}


def split_channel(e: Expr, c0: int) -> tuple[Expr, Expr]:
    """Return (e // c0, e % c0) of a channel index; `a * c0 + b % c0` comes apart without divisions."""
    parts = [n for n in walk(e) if isinstance(n, Binary) and n.op == "%" and n.right == Int(c0)]
    if len(parts) == 1:
        rest = normalise(_without(e, parts[0]))
        if normalise(rest % c0) == Int(0):
            return normalise(rest // c0), parts[0]
    return normalise(e // c0), normalise(e % c0)


def stored_move(node: OpNode, x: Tensor) -> dict[str, Attribute] | None:
    """Return the attributes with which a slice or pad of an image in NC1HWC0 is one of its stored array; None where it does not move whole
    blocks of channels, or would leave something other than zeros behind the last channel."""
    if x.layout != "NC1HWC0":
        return None
    given, unit, channels = dict(node.attributes), pixel_channels(x), x.shape[1]
    ends = {name: tuple(int(v) for v in value) for name, value in given.items() if isinstance(value, tuple)}
    if node.op == "pad":
        before, after = ends["before"], ends["after"]
        kept = before[1] == after[1] == 0 and given["value"] == 0
        alike = kept or not (channels % unit or before[1] % unit or after[1] % unit)
        return given | {"before": _of_blocks(before, unit, 0), "after": _of_blocks(after, unit, 0)} if alike else None
    starts, sizes, steps = ends["starts"], ends["sizes"], ends["steps"]
    alike = steps[1] == 1 and starts[1] % unit == 0 and (sizes[1] % unit == 0 or starts[1] + sizes[1] == channels)
    return {"starts": _of_blocks(starts, unit, 0), "sizes": _of_blocks(sizes, unit, unit), "steps": (*steps, 1)} if alike else None


def _of_blocks(numbers: tuple[int, ...], unit: int, last: int) -> tuple[int, ...]:
    """Return numbers of each dimension of an image as those of its stored array, `last` of the dimension of one block."""
    n, c, *image = numbers
    return (n, -(-c // unit), *image, last)


def _without(e: Expr, part: Expr) -> Expr:
    if e == part:
        return Int(0)
    if isinstance(e, Binary):
        return binary(e.op, _without(e.left, part), _without(e.right, part))
    return e


def physical_indices(t: Tensor, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
    if t.layout not in PIXEL:
        return indices
    n, c, h, w = indices
    c1, c0 = split_channel(c, stored_shape(t)[-1])
    return (n, c1, h, w, c0)


def guard_bounds(read: Read, shape: tuple[int, ...], ranges: dict[str, int]) -> Expr | None:
    """Return the condition that a read lies inside its tensor, leaving out what always holds; None where nothing is left."""
    out: Expr | None = None
    for i, size in zip(read.indices, shape, strict=True):
        low, high = interval(i, ranges)
        for needed, test in ((low < 0, ge(i, 0)), (high >= size, lt(i, size))):
            if needed:
                out = test if out is None else both(out, test)
    return out


def interval(e: Expr, ranges: dict[str, int]) -> tuple[int, int]:
    """Return (least, largest) value an index can take, for loops from 0 below their ranges (exact where loops do not repeat)."""
    if isinstance(e, Int):
        return e.value, e.value
    if isinstance(e, Var):
        return 0, ranges[e.name] - 1
    assert isinstance(e, Binary), "index expressions of operators are sums, products, quotients and remainders"
    a, b = interval(e.left, ranges), interval(e.right, ranges)
    if e.op == "+":
        return a[0] + b[0], a[1] + b[1]
    if e.op == "-":
        return a[0] - b[1], a[1] - b[0]
    if e.op == "%":
        return (a if a[0] >= 0 and a[1] < b[0] else (0, b[0] - 1))
    ends = [x * y if e.op == "*" else x // y for x in a for y in b]
    return min(ends), max(ends)


def guard_read(read: Read, shape: tuple[int, ...], ranges: dict[str, int], otherwise: Expr = ZERO) -> Expr:
    """Return the read, or a select that gives `otherwise` outside the tensor where the loops can leave it."""
    condition = guard_bounds(read, shape, ranges)
    return read if condition is None else select(condition, read, otherwise)


def nest(loops: list[tuple[str, int]], body: Node) -> Node:
    """Return `body` in serial loops, outermost first."""
    for var, extent in reversed(loops):
        body = Loop(var, Int(extent), (body,))
    return body


def stage(name: str, loops: list[tuple[str, int]], to: Read, value: Read) -> Node:
    """Return a copy in loops of its own, their names behind its own name."""
    own: dict[str, Expr] = {v: Var(f"{name}_{v}") for v, _ in loops}
    moved = [Read(r.buffer, tuple(substitute(i, own) for i in r.indices)) for r in (to, value)]
    return nest([(f"{name}_{v}", n) for v, n in loops], Block(name, moved[0], "=", moved[1]))
