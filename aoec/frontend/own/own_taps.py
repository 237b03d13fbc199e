"""Takes windows in definitions of the user's own apart into their taps, where their weights change from row to row.

`Y[c, t] += X[c, t + k - 1] else 0.0 * W[c, k]` reads a window along t and another weight for every k. Lanes of the vector unit hold
neighbours of one tensor. No schedule can combine weights that change with rows and windows that overlap. For one k it is elementwise: a
slice of X (padded where it leaves X), a slice of W, and a definition without k. So each tap is cut out, and a few at a time are summed.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod

from aoec.frontend.translate.node import Node
from aoec.ir.func.meaning import Argument, Dim, Meaning, Statement
from aoec.ir.index import Call, Expr, Float, Int, Read, Var, affine, binary, call, normalise, reads, rebuild, substitute, variables

MOST_TAPS = 64  # each is two slices and a part of an operator
MOST_INPUTS = 6  # of one operator: each is a tile in UB
MOST_PADDED = 4096  # elements at each end of an axis
JOINED: dict[str, Callable[[Expr, Expr], Expr]] = {
    "+=": lambda a, b: binary("+", a, b), "max=": lambda a, b: call("max", a, b), "min=": lambda a, b: call("min", a, b)}
Add = Callable[[Meaning, list[str]], str]  # adds a node of an operator with a meaning, on these tensors


@dataclass(frozen=True)
class Cut:
    """What one tap reads of a tensor: where it starts, steps and pads along each axis, and the loop of each, "" where one element is."""

    starts: tuple[int, ...]
    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    labels: tuple[str, ...]


def taps(s: Statement, extents: Mapping[str, int]) -> list[dict[str, Expr]]:
    """Return, for each tap of a statement, the values of the loops that it sums over. Return none where it is no window with weights that
    change along it, or where it has too many taps."""
    own = variables(s.target)
    over = [v for v in extents if v not in own and v in variables(s.value)]
    found = [r for r in reads(s.value) if not variables(r).isdisjoint(over)]
    window = any(not variables(i).isdisjoint(over) and not variables(i).isdisjoint(own) for r in found for i in r.indices)
    if s.op not in JOINED or s.init is not None or not window or len(found) < 2 or prod(extents[v] for v in over) > MOST_TAPS:
        return []
    return [dict(zip(over, map(Int, at))) for at in product(*(range(extents[v]) for v in over))]


def cuts(s: Statement, shapes: Mapping[str, tuple[int, ...]], extents: Mapping[str, int]) -> dict[Read, Cut] | None:
    """Return access -> the part of its tensor that it reads, for the statement of a tap. Return None where one is no slice."""
    stated, out = _outside_values(s.value), {}
    for r in reads(s.value):
        if (found := find_cut(r, shapes[r.buffer], variables(s.target), extents, r in stated)) is None:
            return None
        out[r] = found
    return out


def find_cut(r: Read, shape: tuple[int, ...], own: frozenset[str], extents: Mapping[str, int], padded: bool) -> Cut | None:
    """Return the slice of a tensor of a shape that an access reads, over the loops that are its own. Return None where it is no slice."""
    axes = []
    for index, size in zip(r.indices, shape):
        found = affine(normalise(index), own)
        if found is None or len(found[0]) > 1 or not isinstance(found[1], Int):
            return None
        (loop, step), first = next(iter(found[0].items()), ("", Int(1))), found[1].value
        if not isinstance(step, Int) or step.value < 1:
            return None
        many = extents[loop] if loop else 1
        before, after = max(0, -first), max(0, first + step.value * (many - 1) + 1 - size)
        if max(before, after) > (MOST_PADDED if padded else 0):
            return None
        axes.append((first + before, many, step.value, before, after, loop))
    labels = [a[-1] for a in axes if a[-1]]
    return Cut(*zip(*axes)) if axes and len(set(labels)) == len(labels) else None


def sum_taps(n: Node, s: Statement, held: Mapping[str, str], extents: Mapping[str, int], node: Add) -> str:
    """Add the nodes that sum a window's taps, and return their tensor; "", and no nodes, where some tap is no slice."""
    shapes = {r.buffer: n.made_shape(held[r.buffer]) for r in reads(s.value)}
    each = [Statement(s.target, "=", substitute(s.value, at)) for at in taps(s, extents)]
    waiting = [(t.value, found) for t in each if (found := cuts(t, shapes, extents)) is not None]
    if len(waiting) < len(each):
        return ""
    made: dict[tuple[str, Cut], str] = {}
    total, many = "", max(1, MOST_INPUTS // max(len(found) for _, found in waiting))
    while waiting:
        total, waiting = _add_taps(n, s, held, waiting[:many], total, made, node), waiting[many:]
    return total


def _add_taps(n: Node, s: Statement, held: Mapping[str, str], part: list[tuple[Expr, dict[Read, Cut]]], total: str,
              made: dict[tuple[str, Cut], str], node: Add) -> str:
    """Add some more taps to the total, as one operator."""
    inputs, args = ([total], [Argument("total", _dims(s.target))]) if total else ([], [])
    value: Expr | None = Read("total", s.target.indices) if total else None
    for tap, found in part:
        names = {}
        for r, c in found.items():
            names[r] = Read(f"{r.buffer}_{len(args)}", tuple(Var(v) for v in c.labels if v) or (Int(0),))
            args.append(Argument(names[r].buffer, _dims(names[r])))
            at = (r.buffer, c)
            if at not in made:
                made[at] = make_slice(n, held[r.buffer], c, _outside_values(tap).get(r))
            inputs.append(made[at])
        value = JOINED[s.op](value, _with(tap, names)) if value is not None else _with(tap, names)
    assert value is not None  # of one tap at least
    return node(Meaning("taps", tuple(args), (), (Argument(s.target.buffer, _dims(s.target)),), (Statement(s.target, "=", value),)), inputs)


def make_slice(n: Node, x: str, c: Cut, otherwise: float | None) -> str:
    """Return the tensor that a cut gives, with an axis for each of its loops."""
    if any(c.before) or any(c.after):
        x = n.step("pad", [x], {"before": c.before, "after": c.after, "value": float(otherwise or 0)})
    if (c.sizes, c.steps) != (n.made_shape(x), (1,) * len(c.sizes)):
        x = n.step("slice", [x], {"starts": c.starts, "sizes": c.sizes, "steps": c.steps})
    shape = tuple(size for size, loop in zip(c.sizes, c.labels) if loop) or (1,)
    return x if shape == n.made_shape(x) else n.step("reshape", [x], {"shape": shape})


def _dims(r: Read) -> tuple[Dim, ...]:
    return tuple(Dim(i.name) if isinstance(i, Var) else Dim("one", Int(1)) for i in r.indices)


def _outside_values(e: Expr) -> dict[Read, float]:
    """Return, for each guarded access, what it gives outside of its tensor."""
    if isinstance(e, Call) and e.fn == "guard":
        read, otherwise = e.args
        return {read: otherwise.value} if isinstance(read, Read) and isinstance(otherwise, (Int, Float)) else {}
    out: dict[Read, float] = {}
    rebuild(e, lambda part: (out.update(_outside_values(part)), part)[1])
    return out


def _with(e: Expr, names: Mapping[Read, Read]) -> Expr:
    """Return the expression with other accesses, which leave no tensor."""
    if isinstance(e, Call) and e.fn == "guard":
        return _with(e.args[0], names)
    return names[e] if isinstance(e, Read) else rebuild(e, lambda part: _with(part, names))
