"""The fastest fused mapping of a chain of operators, and a proof that no mapping of the space is faster.

A mapping says for each tensor between two operators whether it goes through GM or stays in the buffer. For a tensor that stays, it also
says under which loops of both operators it stays, in which order and with which tiles. For each windowed index, a mapping says whether the
halo is kept or computed again. For each other tensor, it says where in the nest the tensor is kept, if it is. Operators that share loops
are in one nest: later operators are in the body of earlier ones.

The chain is decided from its last operator to its first. A boundary is the set of loops that two operators share. Each boundary keeps the
partial mappings that no other one equals or beats in time, in bits held under each shared loop, and in the most bits held inside it. Shared
loops are added one at a time. After each step, partial mappings that cannot become faster than the best mapping are dropped.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations, product
from math import inf, prod
from typing import Any

import numpy as np

from aoec.search.fused.chain import Access, Chain, Machine
from aoec.search.fused.leaf import Stand, pareto
from aoec.search.fused.places import Costs, Loops, Nest, Place, Shared
from aoec.search.fused.spans import Spans, cover, divisors, fresh, tile_loop, touches

ROUNDING = 1e-12  # of times that are sums of the same parts

Table = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Boundary:
    """What two operators share: loops over dimensions of the tensor between them, in the order in which its producer visits them, bits of
    its tile, and bits that stay from iteration to iteration. `fused` False: the tensor goes through GM."""

    fused: bool
    loops: tuple[tuple[int, Spans], ...] = ()
    bits: int = 0
    halo: int = 0

    def share(self, depth: int) -> Shared | None:
        """Return what is shared, under so many loops of an operator."""
        return Shared(depth, self.bits, self.halo) if self.fused else None


GM = Boundary(False)


@dataclass(frozen=True)
class Step:
    """An operator in a mapping: its fused loops, how many it shares with the one before and the one after, and where tensors stand."""

    operator: str
    loops: Loops
    before: Shared | None
    after: Shared | None
    places: tuple[Place, ...]
    stands: tuple[Stand, ...]


@dataclass(frozen=True)
class Found:
    """The fastest mapping: no mapping of the space takes less. `rows`: partial mappings whose cost was worked out."""

    seconds: float
    steps: tuple[Step, ...]
    rows: int


@dataclass(frozen=True)
class Origin:
    """Where partial mappings come from: the boundary after an operator, the operator, its choices."""

    after: Boundary
    step: Step
    costs: Costs


def through(link: Access, loops: Loops, shape: tuple[int, ...], whole: dict[str, Spans], bits: int) -> Iterator[Boundary]:
    """Yield the boundaries at a tensor that is read under fused loops: halo computed again, or kept along the last of them. None come where
    a loop does not index the tensor, or two index one dimension of it."""
    dims = [link.dim_of(v) for v, _ in loops]
    if None in dims or len(set(dims)) < len(dims):
        return
    where = {**whole, **dict(loops)}
    images = [cover(touches(dim, where, extent), extent) for dim, extent in zip(link.dims, shape, strict=True)]
    tile = prod(s.box for s in images) * bits
    shared = tuple((d, images[d]) for d in dims if d is not None)
    yield Boundary(True, shared, tile)
    if shared and shared[-1][1].overlap:
        last, of = shared[-1]
        yield Boundary(True, (*shared[:-1], (last, fresh(of))), tile, tile // of.box * of.overlap)


def orders(link: Access, sizes: dict[str, int], used: frozenset[str], most: int) -> Iterator[Loops]:
    """Yield every sequence of at most so many loops of a tensor's indices, cut into each tile that divides them, beside those in use."""
    taken = {link.dim_of(v) for v in used}
    free = [v for v in sorted(link.loops()) if link.dim_of(v) not in taken and sizes[v] > 1]
    for n in range(1, min(most, len(free)) + 1):
        for names in permutations(free, n):
            if len({link.dim_of(v) for v in names}) == n:
                for tiles in product(*(divisors(sizes[v])[1:] for v in names)):
                    yield tuple((v, tile_loop(sizes[v], t)) for v, t in zip(names, tiles, strict=True))


Decision = tuple[float, tuple[Step, ...]]


class Search:
    """The decisions of one chain on one machine."""

    def __init__(self, chain: Chain, machine: Machine) -> None:
        self.chain, self.machine = chain, machine
        last = len(chain.operators) - 1
        self.nests = [Nest(chain, i, machine) for i in range(last + 1)]
        self.rest = self.rests()
        self.rows = 0

    def rests(self) -> list[tuple[float, float]]:
        """Return seconds that the operators before each one take at least, where what it reads of them goes through GM, and where it
        stays."""
        out = [(0.0, inf)]
        for nest in self.nests:
            gm, stays = out[-1]
            through_gm, kept = (min(gm + nest.floor(False, after), stays + nest.floor(True, after)) for after in (False, True))
            out.append((through_gm, kept))
        return out

    def moves(self, i: int, after: Boundary, most: int) -> Iterator[tuple[Boundary, Loops, Shared | None, Shared | None]]:
        """Yield (boundary before, fused loops, what is shared before, what is shared after) of an operator with a boundary after it."""
        op, link = self.chain.operators[i], self.chain.link(i)
        outer = tuple((op.output.dims[d].terms[0][0], s) for d, s in after.loops)
        shared = after.share(len(outer))
        yield GM, outer, None, shared
        if link is None:
            return
        tensor = self.chain.tensors[link.tensor]
        whole = self.nests[i].whole
        for depth in range(len(outer) + 1):
            for before in through(link, outer[:depth], tensor.shape, whole, tensor.bits):
                yield before, outer, before.share(depth), shared
        if all(link.dim_of(v) is not None for v, _ in outer):
            for more in orders(link, op.sizes, frozenset(v for v, _ in outer), most - len(outer)):
                loops = outer + more
                for before in through(link, loops, tensor.shape, whole, tensor.bits):
                    yield before, loops, before.share(len(loops)), shared

    def join(self, rows: Table, after: int, before: int, costs: Costs) -> tuple[Table, Table, Table]:
        """Return rows of every partial mapping with every choice of the next operator: those that fit, and of each its row and its
        choice."""
        n, m = len(rows), len(costs.seconds)
        of_row, of_choice = np.repeat(np.arange(n), m), np.tile(np.arange(m), n)
        old, own = rows[of_row], costs.held[of_choice]
        self.rows += n * m
        seconds = old[:, 0] + costs.seconds[of_choice]
        held = np.concatenate((old[:, 1:1 + after], np.zeros((n * m, own.shape[1] - after))), 1) + own
        inside = np.zeros(held.shape)  # most bits of what is complete under so many loops, beside what is held above
        inside[:, 1:after + 1] = old[:, 1 + after:]
        depth = own.shape[1] - 1
        inside[:, depth] = np.maximum(inside[:, depth], own[:, depth])
        for d in range(depth - 1, before - 1, -1):
            inside[:, d] = np.maximum(inside[:, d], held[:, d] + inside[:, d + 1])
        peak = inside[:, before]
        for d in range(before - 1, -1, -1):
            peak = np.maximum(inside[:, d], held[:, d] + peak)
        out = np.column_stack((seconds, held[:, :before], inside[:, 1:before + 1]))
        fits = peak <= self.machine.buffer_bits
        return out[fits], of_row[fits], of_choice[fits]

    def decide(self, most: int, limit: float) -> Decision | None:
        """Return the fastest mapping with at most so many loops shared at a boundary; None where none takes less than the limit, in
        seconds."""
        layers: list[dict[Boundary, tuple[Table, list[tuple[Origin, int, int]]]]] = [{GM: (np.zeros((1, 1)), [])}]
        for i in range(len(self.nests) - 1, -1, -1):
            nest = self.nests[i]
            buckets: dict[Boundary, list[tuple[Origin, Table, Table, Table]]] = {}
            for after, (rows, _) in layers[-1].items():
                fastest = float(rows[:, 0].min())
                for before, loops, left, right in self.moves(i, after, most):
                    rest = self.rest[i][before.fused]
                    if fastest + rest + nest.floor(left is not None, right is not None, nest.steps(loops)) >= limit:
                        continue
                    costs = nest.costs(loops, left is not None, right is not None).beside(left, right)
                    made, of_row, of_choice = self.join(rows, len(after.loops), len(before.loops), costs)
                    good = made[:, 0] + rest < limit
                    if good.any():
                        origin = Origin(after, Step(self.chain.operators[i].name, loops, left, right, (), ()), costs)
                        buckets.setdefault(before, []).append((origin, made[good], of_row[good], of_choice[good]))
            layers.append({key: narrow(some) for key, some in buckets.items()})
        end = layers[-1].get(GM)
        return (float(end[0][0, 0]), self.way_back(layers)) if end else None

    def way_back(self, layers: list[dict[Boundary, tuple[Table, list[tuple[Origin, int, int]]]]]) -> tuple[Step, ...]:
        """Return the operators of the fastest mapping, from the first."""
        key, row, steps = GM, 0, []
        for layer in layers[:0:-1]:
            origin, above, choice = layer[key][1][row]
            places, stands = origin.costs.places[choice]
            steps.append(replace(origin.step, places=places, stands=stands))
            key, row = origin.after, above
        return tuple(steps)


def narrow(some: list[tuple[Origin, Table, Table, Table]]) -> tuple[Table, list[tuple[Origin, int, int]]]:
    """Return the partial mappings of one boundary of which none is better, and where each comes from: what, row, choice."""
    every = np.concatenate([rows for _, rows, _, _ in some])
    back = [(origin, r, c) for origin, _, of_row, of_choice in some for r, c in zip(of_row.tolist(), of_choice.tolist(), strict=True)]
    best = pareto(every)
    return every[best], [back[i] for i in best]


def fuse(chain: Chain, machine: Machine) -> Found:
    """Return the fastest mapping of a chain; there is one, for every tensor may stay in GM."""
    search = Search(chain, machine)
    floor = search.rest[-1][0]
    best: Decision = inf, ()
    deepest = max((len(link.loops()) for i in range(len(chain.operators)) if (link := chain.link(i))), default=0)
    for most in range(deepest + 1):
        best = search.decide(most, best[0]) or best
        if best[0] <= floor * (1 + ROUNDING):
            break
    return Found(*best, search.rows)
