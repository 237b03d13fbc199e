"""What an operator costs under given fused loops, for each place of its tensors: time, and bits held under each number of loops.

Every point of the nest reads each input and a sum, and writes the sum, from where they lie: the buffer, or GM for a tensor that is not kept.
The first value of a sum is not read. What the buffer brings in is read in GM and written in the buffer; sums go the other way too.
The time of an operator is that of the slowest of GM, the buffer and the computation.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from aoec.search.fused.chain import Access, Chain, Machine
from aoec.search.fused.leaf import Front, Kept, Stand, front, pareto, slides
from aoec.search.fused.spans import Spans, cut, fresh, touches

Table = np.ndarray[Any, np.dtype[Any]]
Loops = tuple[tuple[str, Spans], ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A tensor kept under the first `depth` fused loops, which slides along the last of them or not; `depth` None: it stays in GM."""

    tensor: str
    depth: int | None
    slide: bool = False


@dataclass(frozen=True)
class Costs:
    """Choices of which none is better than another: seconds, bits held under 0, 1, ... fused loops, and where tensors stand."""

    seconds: Table
    held: Table
    places: tuple[tuple[tuple[Place, ...], tuple[Stand, ...]], ...]


@dataclass(frozen=True, slots=True)
class Shared:
    """A tensor that stays in the buffer between two operators, under the first `depth` loops of one: bits of its tile."""

    depth: int
    bits: int


class Nest:
    """An operator of a chain on a machine, under fused loops."""

    def __init__(self, chain: Chain, i: int, machine: Machine) -> None:
        self.op, self.machine = chain.operators[i], machine
        self.whole = {v: cut(n, n) for v, n in self.op.extents}
        link = chain.link(i)
        self.link = link.tensor if link else ""
        self.kept = {a.tensor: Kept(a, chain.tensors[a.tensor].shape, chain.tensors[a.tensor].bits, a is self.op.output)
                     for a in (*self.op.inputs, self.op.output)}
        self.fronts: dict[Any, Front] = {}
        self.moves: dict[Any, tuple[float, int]] = {}

    def under(self, loops: Loops, depth: int) -> dict[str, Spans]:
        """Where each loop of the operator stands under so many of the fused loops."""
        return {**self.whole, **dict(loops[:depth])}

    def bring(self, kept: Kept, loops: Loops, depth: int, slide: bool) -> tuple[float, int]:
        """(bits moved, bits held) of a tensor kept under so many loops, which may slide along the last of them."""
        key = kept.access.tensor, loops[:depth], slide
        found = self.moves.get(key)
        if found is None:
            found = self.moves[key] = self._bring(kept, loops, depth, slide)
        return found

    def _bring(self, kept: Kept, loops: Loops, depth: int, slide: bool) -> tuple[float, int]:
        where, names = self.under(loops, depth), kept.access.loops()
        last = loops[depth - 1][0] if slide else ""
        volume = float(prod(s.trips for v, s in loops[:depth] if v not in names))
        held = kept.bits
        for dim, extent in zip(kept.access.dims, kept.shape, strict=True):
            of = touches(dim, where, extent)
            held *= of.box
            volume *= (fresh(of) if any(v == last for v, _ in dim.terms) else of).total
        return float(kept.moved(volume, self.first(loops))), held

    def first(self, loops: Loops) -> int:
        """Elements that the operator writes for the first time."""
        where = self.under(loops, len(loops))
        return prod(where[v].total for v in self.op.output.loops())

    def steps(self, loops: Loops) -> int:
        """Points of the nest, those computed again too."""
        return prod(s.total for s in self.under(loops, len(loops)).values())

    def ways(self, kept: Kept, loops: Loops) -> Iterator[Place]:
        """The places of a tensor that are not below all fused loops."""
        yield Place(kept.access.tensor, None)
        for depth in range(len(loops)):
            yield Place(kept.access.tensor, depth)
        for depth in range(1, len(loops) + 1):
            if may_slide(kept.access, loops, depth):
                yield Place(kept.access.tensor, depth, True)

    def leaf(self, loops: Loops, tensors: Sequence[Kept]) -> Front:
        """The choices below all fused loops."""
        where = self.under(loops, len(loops))
        key = tuple(k.access.tensor for k in tensors), tuple(where.values())
        found = self.fronts.get(key)
        if found is None:
            found = self.fronts[key] = front(where, tensors)
        return found

    def seconds(self, gm: Any, buffer: Any, steps: int) -> Any:
        """The time of the slowest part."""
        m = self.machine
        return np.maximum(np.maximum(gm / m.gm_rate, buffer / m.buffer_rate), steps / m.step_rate)

    def costs(self, loops: Loops, before: Shared | None, after: Shared | None) -> Costs:
        """The choices under fused loops, with what the operator shares with the one before it and with the one after it."""
        steps, first = self.steps(loops), self.first(loops)
        shared = np.zeros(len(loops) + 1)
        for tile in (before, after):
            if tile:
                shared[tile.depth] += tile.bits
        free = [k for k in self.kept.values() if not (before and k.access.tensor == self.link) and not (after and k.written)]
        always = sum(k.bits * (2 * steps - first if k.written else steps) for k in self.kept.values() if k not in free)
        seconds, held, places = [], [], []
        for choice in product(*(tuple(self.ways(k, loops)) + (None,) for k in free)):
            gm, buffer, row = 0.0, float(always), shared.copy()
            for k, place in zip(free, choice, strict=True):
                touched = k.bits * (2 * steps - first if k.written else steps)
                if place is not None and place.depth is None:
                    gm += touched
                    continue
                buffer += touched
                if place is not None and place.depth is not None:
                    moved, bits = self.bring(k, loops, place.depth, place.slide)
                    gm, buffer = gm + moved, buffer + moved
                    row[place.depth] += bits
            below = self.leaf(loops, [k for k, place in zip(free, choice, strict=True) if place is None])
            seconds.append(self.seconds(gm + below.moved, buffer + below.moved, steps))
            some = np.repeat(row[None], len(below.held), 0)
            some[:, -1] += below.held
            held.append(some)
            fixed = tuple(p for p in choice if p is not None)
            places += [(fixed, s) for s in below.stands]
        time, rows = np.concatenate(seconds), np.concatenate(held)
        best = pareto(np.column_stack((time, rows)))
        return Costs(time[best], rows[best], tuple(places[i] for i in best))

    def floor(self, first_of_chain: bool, last_of_chain: bool) -> float:
        """Seconds that no choice of any mapping is below: each tensor moves once, or stays in GM or in the buffer."""
        steps = self.op.steps
        size = {name: k.bits * prod(touches(d, self.whole, n).total for d, n in zip(k.access.dims, k.shape, strict=True))
                for name, k in self.kept.items()}
        best = float("inf")
        ways = [("gm", "kept") + (("shared",) if (name == self.link and not first_of_chain) or (k.written and not last_of_chain) else ())
                for name, k in self.kept.items()]
        for choice in product(*ways):
            gm = buffer = 0.0
            for (name, k), way in zip(self.kept.items(), choice, strict=True):
                touched = 2 * k.bits * steps - size[name] if k.written else k.bits * steps
                moved = size[name] if way == "kept" else 0
                gm += touched if way == "gm" else moved
                buffer += 0 if way == "gm" else touched + moved
            best = min(best, float(self.seconds(gm, buffer, steps)))
        return best


def may_slide(access: Access, loops: Loops, depth: int) -> bool:
    """Whether a tensor may keep from trip to trip of a fused loop what both touch: a loop of one of its windows, whose other loops are whole."""
    name = loops[depth - 1][0]
    above = {v for v, _ in loops[:depth - 1]}
    return any(v == name and not above & {o for o, _ in access.dims[d].terms} for d, v in slides(access)) or (
        name in access.loops() and loops[depth - 1][1].overlap and len(access.dims[access.dim_of(name) or 0].terms) == 1)
