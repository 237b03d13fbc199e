"""Loads that are issued iterations before the one that uses them (the primitive preload): a loop in three parts.

    for k in min(a, n):      the first loads
    for k in n - a:          load of iteration k + a, then the work of iteration k
    for k in min(a, n):      the work of the last iterations

A load counts its own slots, so that both may stand at another one. What is cut short in the last iteration of the loop is so in the
last of a part, as timing asks.
"""
from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from aoec.ir.index import Expr, Int, Var, maximum, minimum, normalise, substitute
from aoec.ir.program import Advance, For, Item
from aoec.ir.rewrite import map_items
from aoec.lowering.emit.tile import Piece

LATE = Int(-1)  # of a buffer: what touches it is done an iteration later


@dataclass
class Parts:
    """A loop of `extent` iterations whose loads run `ahead` of it, while its body is emitted."""

    loop: str
    extent: Expr
    ahead: Expr
    first: list[Item] = field(default_factory=list)
    last: list[Item] = field(default_factory=list)

    def load(self, items: tuple[Item, ...], slot: str, own: str) -> list[Item]:
        """Return the load of a later iteration, in place of that of its own. `slot`: the counter of the pieces that use the buffer; ""
        where there are no others. `own`: the counter of the load."""
        moved = [*map_items(items, lambda e: substitute(e, {slot: Var(own)})), Advance(own)] if slot else items
        var = f"{own}_first"
        self.first.append(For(var, normalise(minimum(self.ahead, self.extent)), items_at(moved, self.loop, Var(var))))
        return list(items_at(moved, self.loop, Var(self.loop) + self.ahead))

    def items(self, body: Sequence[Item]) -> tuple[Item, ...]:
        """Return the whole: loads, the body with loads in it, and the body without them as often as loads stand before."""
        before = maximum(self.extent - self.ahead, Int(0))
        var = f"{self.loop}_last"
        after = For(var, normalise(minimum(self.ahead, self.extent)), items_at(self.last, self.loop, before + Var(var)))
        return (*self.first, For(self.loop, normalise(before), tuple(body)), after)


def items_at(items: Sequence[Item], loop: str, at: Expr) -> tuple[Item, ...]:
    """Return the items of iteration `at` of a loop."""
    return map_items(tuple(items), lambda e: normalise(substitute(e, {loop: at})))


def filling(runs: Sequence[tuple[str, int, int]]) -> list[int]:
    """Return the pieces that make all of a buffer before others read it: one load, or a load into what pipe V has filled for it just before
    (padding); none where it is made otherwise. Pieces of a run of one pipe: (pipe, first, last)."""
    load = 1 if runs and runs[0][0] == "V" else 0
    if len(runs) < load + 2 or runs[load][0] != "MTE2" or runs[load][2] - runs[0][1] != load:
        return []
    return list(range(runs[0][1], runs[load][2] + 1))


# ---------------------------------------------------------------- which pieces go together

def touching(names: Collection[str], pieces: Sequence[Piece]) -> set[int]:
    """Return the pieces that touch any of some buffers."""
    return {i for i, p in enumerate(pieces) if any(a.buffer in names for a in p.accesses)}


def private_buffers(names: Collection[str], pieces: Sequence[Piece], found: Collection[int]) -> list[str]:
    """Return the buffers that only these pieces touch."""
    return [n for n in names if found and touching([n], pieces) <= set(found)]


def place(pieces: Sequence[Piece], late: Collection[int]) -> int:
    """Return the index of the piece before which the late pieces of the previous iteration run. That is the first piece that touches one
    of their buffers; if there is none, they run behind all pieces."""
    shared = {a.buffer for i in late for a in pieces[i].accesses}
    others = [i for i, p in enumerate(pieces) if i not in late and any(a.buffer in shared for a in p.accesses)]
    return min(others, default=len(pieces))
