"""What an operator costs under given fused loops, for each place of its tensors: time, and bits held under each number of loops.

Every point of the nest reads each input and a sum, and writes the sum, where they lie: the buffer, or GM for a tensor that is not kept. The
first value of a sum is not read. What the buffer brings in is read in GM and written in the buffer; sums go the other way too.
The time of an operator is that of the slowest of GM, the buffer and the computation.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

import numpy as np

from aoec.search.fused.chain import Access, Chain, Machine
from aoec.search.fused.leaf import Front, Kept, Stand, front, pareto, slides
from aoec.search.fused.spans import Spans, fresh, tile_loop, touches

Table = np.ndarray[Any, np.dtype[Any]]
Loops = tuple[tuple[str, Spans], ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A tensor kept under the first `depth` fused loops, which slides along the last of them or not; `depth` None: it stays in GM."""

    tensor: str
    depth: int | None
    slide: bool = False


@dataclass(frozen=True, slots=True)
class Shared:
    """A tensor that stays in the buffer between two operators, under the first `depth` loops of one: bits of its tile, and bits of it that
    stay from iteration to iteration of the last of these loops."""

    depth: int
    bits: int
    halo: int = 0


@dataclass(frozen=True)
class Costs:
    """Choices of which none is better than another: seconds, bits held under 0, 1, ... fused loops, and where tensors stand."""

    seconds: Table
    held: Table
    places: tuple[tuple[tuple[Place, ...], tuple[Stand, ...]], ...]

    def beside(self, before: Shared | None, after: Shared | None) -> Costs:
        """Return the same with what is shared with other operators. What stays from iteration to iteration is held once, while the loop
        runs."""
        more = np.zeros(self.held.shape[1])
        for tile in (before, after):
            if tile:
                more[tile.depth] += tile.bits - tile.halo
        if before and before.halo:
            more[before.depth - 1] += before.halo
        return replace(self, held=self.held + more)


class Nest:
    """An operator of a chain on a machine, under fused loops."""

    def __init__(self, chain: Chain, i: int, machine: Machine) -> None:
        self.op, self.machine = chain.operators[i], machine
        self.whole = {v: tile_loop(n, n) for v, n in self.op.extents}
        link = chain.link(i)
        self.link = link.tensor if link else ""
        self.kept = {a.tensor: Kept(a, chain.tensors[a.tensor].shape, chain.tensors[a.tensor].bits, a is self.op.output)
                     for a in (*self.op.inputs, self.op.output)}
        self.fronts: dict[Any, Front] = {}
        self.moves: dict[Any, tuple[float, int, int]] = {}
        self.known: dict[Any, Costs] = {}
        self.floors: dict[tuple[bool, bool, int], float] = {}
        self.sizes = {name: k.bits * prod(touches(d, self.whole, n).total for d, n in zip(k.access.dims, k.shape, strict=True))
                      for name, k in self.kept.items()}

    def under(self, loops: Loops, depth: int) -> dict[str, Spans]:
        """Return where each loop of the operator stands under so many of the fused loops."""
        return {**self.whole, **dict(loops[:depth])}

    def bring(self, kept: Kept, loops: Loops, depth: int, slide: bool) -> tuple[float, int, int]:
        """Return (bits moved, bits held, those of them that stay from iteration to iteration) of a tensor kept under so many loops. It may
        slide along the last of them."""
        key = kept.access.tensor, loops[:depth], slide
        found = self.moves.get(key)
        if found is None:
            found = self.moves[key] = self._bring(kept, loops, depth, slide)
        return found

    def _bring(self, kept: Kept, loops: Loops, depth: int, slide: bool) -> tuple[float, int, int]:
        where, names = self.under(loops, depth), kept.access.loops()
        last = loops[depth - 1][0] if slide else ""
        volume = float(prod(s.trips for v, s in loops[:depth] if v not in names))
        held = halo = kept.bits
        for dim, extent in zip(kept.access.dims, kept.shape, strict=True):
            of = touches(dim, where, extent)
            slides_here = any(v == last for v, _ in dim.terms)
            held, halo = held * of.box, halo * (of.overlap if slides_here else of.box)
            volume *= (fresh(of) if slides_here else of).total
        return float(kept.traffic(volume, self.first(loops))), held, halo if slide else 0

    def first(self, loops: Loops) -> int:
        """Return elements that the operator writes for the first time."""
        where = self.under(loops, len(loops))
        return prod(where[v].total for v in self.op.output.loops())

    def steps(self, loops: Loops) -> int:
        """Return points of the nest, those computed again too."""
        return prod(s.total for s in self.under(loops, len(loops)).values())

    def ways(self, kept: Kept, loops: Loops) -> Iterator[Place]:
        """Yield the places of a tensor that are not below all fused loops."""
        yield Place(kept.access.tensor, None)
        for depth in range(len(loops)):
            yield Place(kept.access.tensor, depth)
        for depth in range(1, len(loops) + 1):
            if may_slide(kept.access, loops, depth):
                yield Place(kept.access.tensor, depth, True)

    def leaf(self, loops: Loops, tensors: Sequence[Kept]) -> Front:
        """Return the choices below all fused loops."""
        where = self.under(loops, len(loops))
        if len(tensors) == 1 and not slides(tensors[0].access):  # each element moves once in each trip of the other loops
            kept, names = tensors[0], tensors[0].access.loops()
            volume = float(prod(s.total if v in names else s.trips for v, s in where.items()))
            tiles = tuple((v, 1 if v in names else s.box) for v, s in where.items())
            moved = kept.traffic(volume, self.first(loops))
            return Front(np.array([moved]), np.array([float(kept.bits)]), ((Stand(kept.access.tensor, tiles),),))
        key = tuple(k.access.tensor for k in tensors), tuple(where.values())
        found = self.fronts.get(key)
        if found is None:
            found = self.fronts[key] = front(where, tensors)
        return found

    def seconds(self, gm: Any, buffer: Any, steps: int) -> Any:
        """Return the time of the slowest part."""
        m = self.machine
        return np.maximum(np.maximum(gm / m.gm_rate, buffer / m.buffer_rate), steps / m.step_rate)

    def costs(self, loops: Loops, before: bool, after: bool) -> Costs:
        """Return the choices under fused loops for what lies in GM, where what comes from the operator before, or goes to the one after,
        stays in the buffer or not. What is shared there holds bits that are not counted here."""
        key = loops, before, after
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._costs(loops, before, after)
        return found

    def _costs(self, loops: Loops, before: bool, after: bool) -> Costs:
        steps, first = self.steps(loops), self.first(loops)
        touched = {name: k.bits * (2 * steps - first if k.written else steps) for name, k in self.kept.items()}
        free = [k for name, k in self.kept.items() if not (before and name == self.link) and not (after and k.written)]
        always = sum(touched.values())
        in_gm, in_buffer, held, places = [], [], [], list[tuple[tuple[Place, ...], tuple[Stand, ...]]]()
        for choice in product(*(tuple(self.ways(k, loops)) + (None,) for k in free)):
            below = self.leaf(loops, [k for k, place in zip(free, choice, strict=True) if place is None])
            moved, direct, row = below.moved, 0.0, np.zeros((len(below.held), len(loops) + 1))
            row[:, -1] = below.held
            for k, place in zip(free, choice, strict=True):
                if place is not None and place.depth is None:
                    direct += touched[k.access.tensor]
                elif place is not None and place.depth is not None:
                    more, bits, halo = self.bring(k, loops, place.depth, place.slide)
                    moved = moved + more
                    row[:, place.depth] += bits - halo
                    row[:, place.depth - 1] += halo  # 0 where there is no loop
            in_gm.append(moved + direct)
            in_buffer.append(moved + (always - direct))
            held.append(row)
            fixed = tuple(p for p in choice if p is not None)
            places += [(fixed, s) for s in below.stands]
        time, rows = self.seconds(np.concatenate(in_gm), np.concatenate(in_buffer), steps), np.concatenate(held)
        best = pareto(np.column_stack((time, rows)))
        best = best[rows[best].sum(1) <= self.machine.buffer_bits]
        return Costs(time[best], rows[best], tuple(places[i] for i in best))

    def floor(self, before: bool, after: bool, steps: int = 0) -> float:
        """Return seconds that no choice of any mapping is below: each tensor moves once, or is not kept, or is shared where that is told.
        `steps`: points of the nest, those computed again too."""
        steps = steps or self.op.steps
        found = self.floors.get((before, after, steps))
        if found is None:
            found = self.floors[before, after, steps] = self._floor(before, after, steps)
        return found

    def _floor(self, before: bool, after: bool, steps: int) -> float:
        best = float("inf")
        ways = [("shared",) if (before and name == self.link) or (after and k.written) else ("gm", "kept") for name, k in self.kept.items()]
        for choice in product(*ways):
            gm = buffer = 0.0
            for (name, k), way in zip(self.kept.items(), choice, strict=True):
                touched = 2 * k.bits * steps - self.sizes[name] * steps // self.op.steps if k.written else k.bits * steps
                moved = self.sizes[name] if way == "kept" else 0
                gm += touched if way == "gm" else moved
                buffer += 0 if way == "gm" else touched + moved
            best = min(best, float(self.seconds(gm, buffer, steps)))
        return best


def may_slide(access: Access, loops: Loops, depth: int) -> bool:
    """Return whether a tensor may keep what two iterations of a fused loop both touch. It may where the loop is of a window whose other
    loops are whole."""
    name = loops[depth - 1][0]
    above = {v for v, _ in loops[:depth - 1]}
    return any(v == name and not above & {o for o, _ in access.dims[d].terms} for d, v in slides(access)) or (
        name in access.loops() and loops[depth - 1][1].overlap > 0 and len(access.dims[access.dim_of(name) or 0].terms) == 1)
