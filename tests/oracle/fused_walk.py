"""A slow walk of a fused mapping, element by element: what moves between GM and the buffer, what is held, and whether each value that is
read was whole. It shares no formula with the search."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

from aoec.search.fused.chain import Access, Chain, Machine
from aoec.search.fused.fused import Step

Element = tuple[int, ...]
Ranges = dict[str, tuple[int, int]]


def element(access: Access, shape: tuple[int, ...], point: dict[str, int]) -> Element | None:
    """The element of a tensor at a point of the nest; None outside of the tensor."""
    at = tuple(dim.offset + sum(step * point[v] for v, step in dim.terms) for dim in access.dims)
    return at if all(0 <= i < n for i, n in zip(at, shape, strict=True)) else None


def points(ranges: Ranges) -> Iterator[dict[str, int]]:
    for values in product(*(range(*r) for r in ranges.values())):
        yield dict(zip(ranges, values, strict=True))


class Walk:
    """One operator of a mapping as it is walked. `shared`: values of tensors that stay in the buffer between operators, by name."""

    def __init__(self, chain: Chain, i: int, step: Step, shared: dict[str, dict[Element, int]]) -> None:
        self.chain, self.op, self.step, self.shared = chain, chain.operators[i], step, shared
        self.gm = self.buffer = self.points = 0
        self.held: dict[str, set[Element]] = {}
        self.before: dict[str, tuple[tuple[int, ...], set[Element]]] = {}  # of a sliding tensor: the trips and the tile of the last time
        self.sums: dict[Element, int] = {}
        self.begun: set[Element] = set()  # of a shared output: what this run of the producer wrote
        self.access = {a.tensor: a for a in (*self.op.inputs, self.op.output)}
        self.largest: dict[str, int] = {}  # the most elements of a tensor that are held below all fused loops, or under some of them
        self.halo: dict[str, int] = {}  # the most of them that stay from trip to trip of a fused loop
        self.peak: Callable[[], None] = lambda: None
        self.whole_sum = 1
        for v, n in self.op.extents:
            self.whole_sum *= 1 if v in self.op.output.loops() else n

    def bits(self) -> int:
        return sum(len(tile) * self.chain.tensors[name].bits for name, tile in self.held.items())

    def ranges(self, trips: tuple[int, ...]) -> Ranges:
        out = {v: (0, n) for v, n in self.op.extents}
        for (v, spans), t in zip(self.step.loops, trips, strict=False):
            out[v] = spans.pairs()[t]
        return out

    def tile(self, name: str, ranges: Ranges) -> set[Element]:
        """The box of what the points touch."""
        shape = self.chain.tensors[name].shape
        touched = [e for p in points(ranges) if (e := element(self.access[name], shape, p)) is not None]
        return set(product(*(range(min(axis), max(axis) + 1) for axis in zip(*touched, strict=True)))) if touched else set()

    def bring(self, name: str, ranges: Ranges, have: set[Element]) -> None:
        tile = self.tile(name, ranges)
        self.held[name] = tile
        self.largest[name] = max(self.largest.get(name, 0), len(tile))
        written = name == self.op.output.tensor
        come = sum(1 for e in tile if e not in have and (not written or e in self.sums))
        self.gm += come * self.chain.tensors[name].bits
        self.buffer += come * self.chain.tensors[name].bits
        self.peak()

    def drop(self, name: str) -> None:
        tile = self.held.pop(name)
        if name == self.op.output.tensor:
            self.gm += len(tile) * self.chain.tensors[name].bits
            self.buffer += len(tile) * self.chain.tensors[name].bits

    def open(self, trips: tuple[int, ...]) -> None:
        """Brings in what is kept under so many loops."""
        for place in self.step.places:
            if place.depth == len(trips):
                have: set[Element] = set()
                if place.slide and place.tensor in self.before:
                    last, tile = self.before[place.tensor]
                    have = tile if last[:-1] == trips[:-1] and last[-1] + 1 == trips[-1] else have
                self.bring(place.tensor, self.ranges(trips), have)
                self.before[place.tensor] = trips, self.held[place.tensor]

    def close(self, trips: tuple[int, ...]) -> None:
        """Ends what is kept under so many loops; of what slides, the part that the next trip reads stays."""
        for place in self.step.places:
            if place.depth == len(trips):
                tile = self.held[place.tensor]
                self.drop(place.tensor)
                if place.slide and trips[-1] + 1 < self.step.loops[len(trips) - 1][1].trips:
                    halo = self.held[place.tensor] = tile & self.tile(place.tensor, self.ranges((*trips[:-1], trips[-1] + 1)))
                    self.halo[place.tensor] = max(self.halo.get(place.tensor, 0), len(halo))

    def alone(self, trips: tuple[int, ...] = ()) -> None:
        """Walks the operator with no other one: what it reads from the buffer is there and whole."""
        depth = len(trips)
        if self.step.after and self.step.after.depth == depth:
            self.begun = set()
        self.open(trips)
        if depth == len(self.step.loops):
            self.leaf(trips)
        else:
            for t in range(self.step.loops[depth][1].trips):
                self.alone((*trips, t))
        self.close(trips)

    def leaf(self, trips: tuple[int, ...]) -> None:
        """The nest below all fused loops."""
        self.below(0, self.ranges(trips))

    def below(self, i: int, ranges: Ranges) -> None:
        if i == len(self.step.stands):
            for p in points(ranges):
                self.point(p)
            return
        stand = self.step.stands[i]
        tiles = dict(stand.tiles)
        loops = sorted(ranges, key=lambda v: v == stand.slide)  # the loop along which it slides is the innermost
        pieces = []
        for v in loops:
            lo, hi = ranges[v]
            pieces.append([(a, min(a + tiles[v], hi)) for a in range(lo, hi, tiles[v])] or [(lo, lo)])
        last: tuple[tuple[tuple[int, int], ...], set[Element]] | None = None
        for piece in product(*pieces):
            inner = dict(zip(loops, piece, strict=True))
            inner = {v: inner[v] for v in ranges}
            have = last[1] if stand.slide and last and last[0] == piece[:-1] else set()
            self.bring(stand.tensor, inner, have)
            last = piece[:-1], self.held[stand.tensor]
            self.below(i + 1, inner)
            self.drop(stand.tensor)

    def point(self, p: dict[str, int]) -> None:
        """One step of computation."""
        self.points += 1
        for name, access in self.access.items():
            tensor = self.chain.tensors[name]
            at = element(access, tensor.shape, p)
            times = 1
            if name == self.op.output.tensor:
                assert at is not None
                sums = self.shared.get(name, self.sums)
                if name in self.shared:
                    if at not in self.begun:
                        self.begun.add(at)
                        sums[at] = 0
                    times = 2 if sums[at] else 1
                else:
                    times = 2 if at in sums else 1
                sums[at] = sums.get(at, 0) + 1
            elif name in self.shared and at is not None:
                assert self.shared[name].get(at) == -1, f"{self.op.name} reads {name}{at}, which is not whole"
            if name in self.shared or name in self.held:
                assert name in self.shared or at is None or at in self.held[name]
                self.buffer += times * tensor.bits
            else:
                self.gm += times * tensor.bits


class Walked:
    """A mapping of a whole chain, walked: seconds as the machine says, and the most bits held."""

    def __init__(self, chain: Chain, steps: tuple[Step, ...], machine: Machine) -> None:
        self.chain = chain
        self.shared: dict[str, dict[Element, int]] = {chain.operators[i].output.tensor: {} for i, s in enumerate(steps) if s.after}
        self.walks = [Walk(chain, i, s, self.shared) for i, s in enumerate(steps)]
        self.most = 0
        for w in self.walks:
            w.peak = self.look
        self.run(list(range(len(steps))), ())
        self.seconds = sum(max(w.gm / machine.gm_rate, w.buffer / machine.buffer_rate, w.points / machine.step_rate) for w in self.walks)

    def look(self) -> None:
        own = sum(w.bits() for w in self.walks)
        between = sum(len(v) * self.chain.tensors[name].bits for name, v in self.shared.items())
        self.most = max(self.most, own + between)

    def run(self, group: list[int], trips: tuple[int, ...]) -> None:
        depth = len(trips)
        parts = [[group[0]]]
        for i in group[1:]:
            after = self.walks[i - 1].step.after
            if after and after.depth > depth:
                parts[-1].append(i)
            else:
                parts.append([i])
        for part in parts:
            first, last = self.walks[part[0]], self.walks[part[-1]]
            if last.step.after and last.step.after.depth == depth:  # the tile of what it writes begins
                last.begun = set()
            for i in part:
                self.walks[i].open(trips)
            self.look()
            if len(part) == 1 and depth == len(first.step.loops):
                first.leaf(trips)
            else:
                for t in range(first.step.loops[depth][1].trips):
                    self.run(part, (*trips, t))
            self.look()
            for i in part:
                self.walks[i].close(trips)
            if last.step.after and last.step.after.depth == depth:  # what it wrote is whole
                values = self.shared[last.op.output.tensor]
                for e in last.begun:
                    assert values[e] == last.whole_sum
                    values[e] = -1
            if first.step.before and first.step.before.depth == depth:
                self.retain(part[0], trips)

    def retain(self, i: int, trips: tuple[int, ...]) -> None:
        """Lets go of what an operator has read, but for what the next trip reads and its producer does not write again."""
        reader, producer = self.walks[i], self.walks[i - 1]
        name, stays = producer.op.output.tensor, set[Element]()
        if trips and trips[-1] + 1 < reader.step.loops[len(trips) - 1][1].trips:
            after = (*trips[:-1], trips[-1] + 1)
            stays = reader.tile(name, reader.ranges(after)) - producer.tile(name, producer.ranges(after))
        self.shared[name] = {e: n for e, n in self.shared[name].items() if e in stays}
