"""Choices of a hole that say the same: a tile that is no smaller than what it cuts leaves it whole, whatever its size.

Such a hole appears in a program in three ways. In min(hole, size of the piece) the value is the piece. In ceildiv(size, hole) the value is
one. And the only iteration over such pieces multiplies terms with the hole by its number, 0. A program's expressions may hold the hole in
no other way. Then take an expression of other holes that is an upper bound of every such size. Candidates whose hole is at least as large
as this expression differ in nothing that is emitted or asked. Of these candidates, a proof decides only the one with the smallest hole.
Constraints leave no part empty, so sizes are one at the least.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from aoec.ir.index import Binary, Call, Expr, Hole, Int, Var, call, children, evaluate, hole_names, rebuild, substitute, variables, walk
from aoec.ir.program import For, Item, Program
from aoec.ir.rewrite import bare_holes, map_exprs

Choices = Mapping[str, tuple[int, ...]]
Ceiling = tuple[str, Expr, Expr]
ZERO, ONE = Int(0), Int(1)


def ceilings(program: Program, choices: Choices) -> list[Ceiling]:
    """Return (hole, a tile that grows with it, expression of other holes): of rows of hole values that differ in this hole alone, and in
    which the tile is no less than that, all are the same program, and all or none are legal."""
    bare = map_exprs(program, bare_holes)
    parts = [Part(replace(bare, streams=())), *[Part(Program("", "", (), (), (s,))) for s in bare.streams]]
    cutting = dict.fromkeys(x for part in parts for e in part.stated for x in walk(e) if isinstance(x, Call) and x.fn in ("min", "ceildiv"))
    cuts = dict.fromkeys(cut for x in cutting for cut in cuts_of(x))
    return [(name, tile, cap) for hole in choices for name, tile, cap in cuts if name == hole and may_reach_cap(name, tile, cap, choices)
            and all(part.is_settled(name, Piece(tile, cap, choices)) for part in parts)]


def may_reach_cap(hole: str, tile: Expr, cap: Expr, choices: Choices) -> bool:
    """Return whether a tile may be as large as a cap with other than the largest choice of its hole."""
    smaller = sorted(choices[hole])[:-1]
    largest = {n: max(c) for n, c in choices.items()} | {hole: max(smaller, default=0)}
    return bool(smaller) and (not isinstance(cap, Int) or evaluate(tile, largest) >= cap.value)


def cuts_of(e: Call) -> Iterator[Ceiling]:
    """Yield (hole, tile that grows with it, expression of other holes that the size it cuts is seen to be no more than) of a min or
    ceildiv."""
    growing = [x for x in (e.args if e.fn == "min" else e.args[1:]) if grows(x)]
    for hole in sorted(frozenset().union(*map(hole_names, growing))):
        tiles = [x for x in growing if hole in hole_names(x)]
        sizes = [x for x in (e.args if e.fn == "min" else e.args[:1]) if x not in tiles]
        yield from ((hole, tile, cap) for tile in tiles for size in sizes for cap in most(size) if hole not in hole_names(cap))


def grows(e: Expr) -> bool:
    """Return whether an expression is a product of holes and numbers, which are above 0."""
    if isinstance(e, Binary) and e.op == "*":
        return grows(e.left) and grows(e.right)
    return isinstance(e, Hole) or (isinstance(e, Int) and e.value > 0)


def most(size: Expr) -> Iterator[Expr]:
    """Yield expressions of holes alone that a size is seen to be no more than."""
    if not variables(size):
        yield size
    if isinstance(size, Call) and size.fn == "min":
        for x in size.args:
            yield from most(x)
    elif isinstance(size, Binary) and size.op == "-":
        yield from most(size.left)


class Part:
    """One stream of a program, or what it says beside its streams: all of its expressions, and its loops, outer ones first."""

    def __init__(self, program: Program) -> None:
        self.stated: dict[Expr, frozenset[str]] = {}  # with its holes
        map_exprs(program, self.note)
        self.loops = [loop for s in program.streams for loop in loops(s.body)]

    def note(self, e: Expr) -> Expr:
        """Return the expression, which is kept."""
        if e not in self.stated:
            self.stated[e] = hole_names(e)
        return e

    def naming(self, hole: str) -> list[Expr]:
        """Return the expressions in which a hole is."""
        return [e for e, names in self.stated.items() if hole in names]

    def is_settled(self, hole: str, piece: Piece) -> bool:
        """Return whether no expression depends on a hole whose tile is as large as a cap."""
        numbers: dict[str, Expr] = {}
        for loop in self.loops:
            if hole in hole_names(loop.trips) and piece.drop_cuts(substitute(loop.trips, numbers)) == ONE:
                numbers[loop.var] = ZERO
        return not any(hole in hole_names(piece.drop_cuts(substitute(e, numbers))) for e in self.naming(hole))


def loops(body: Iterable[Item]) -> Iterator[For]:
    """Yield the loops of a body, outer ones first."""
    for item in body:
        if isinstance(item, For):
            yield item
            yield from loops(item.body)


@dataclass(frozen=True)
class Piece:
    """A tile that is no less than `cap`, and so than every size that this is a cap of."""

    tile: Expr
    cap: Expr
    choices: Choices

    def drop_cuts(self, e: Expr) -> Expr:
        """Return the expression where the tile cuts none of these sizes any more."""
        if not hole_names(self.tile) <= hole_names(e):
            return e
        e = rebuild(e, self.drop_cuts)
        if isinstance(e, Call) and e.fn == "min" and self.tile in e.args and any(map(self.holds, e.args)):
            return call("min", *rest) if len(rest := [x for x in e.args if x != self.tile]) > 1 else rest[0]
        if isinstance(e, Call) and e.fn == "ceildiv" and e.args[1] == self.tile and self.holds(e.args[0]):
            return ONE
        if isinstance(e, Binary) and e.op == "or" and ONE in (e.left, e.right):
            return ONE
        return e

    def holds(self, size: Expr) -> bool:
        """Return whether a size is sure to be no more than the cap."""
        if isinstance(size, Call) and size.fn == "min":
            return any(map(self.holds, size.args))
        return size == self.cap or (isinstance(size, Binary) and size.op == "-" and self.holds(size.left) and self.positive(size.right))

    def positive(self, e: Expr) -> bool:
        """Return whether an expression is sure to be no less than 0: what counts is."""
        if isinstance(e, Hole):
            return min(self.choices.get(e.name, (-1,))) >= 0
        if isinstance(e, Int):
            return e.value >= 0
        word = e.op if isinstance(e, Binary) else e.fn if isinstance(e, Call) else ""
        return (isinstance(e, Var) or word in ("+", "*", "//", "min", "max", "ceildiv")) and all(map(self.positive, children(e)))
