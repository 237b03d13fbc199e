"""Search for the regions of a model that run faster in slices on the model machine, and for their counts of slices. It searches the cuts of
the model's order of groups.

The slice of a group is timed once for each count of slices and each state of L2 that matters: its inputs are there or not. Its schedule is
the whole group's default, fitted to the slice. Two slices of a region are walked through L2: the first from cold, and another that finds
what the first left. Dynamic programming, from the front on, finds the cheapest row of regions and whole groups.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, log, prod

from aoec.base.errors import AoecError
from aoec.ir.func.tir import Func
from aoec.ir.graph.graph import Graph, Group, Tensor
from aoec.ir.program import Program
from aoec.ir.text.keys import key
from aoec.ir.text.parse import parse_trace
from aoec.ir.text.show import show
from aoec.jobs.choose.model_tasks import size_bytes
from aoec.jobs.known import recall
from aoec.jobs.tune.made import emit_trace
from aoec.jobs.tune.starts import candidates
from aoec.jobs.tune.tuning import Problem, problem, start
from aoec.lowering.arrange.slices import Region, Shares, sliceable
from aoec.lowering.arrange.views import places
from aoec.lowering.lower.lower import Indexed
from aoec.ops.slices import Box, part_of, sizes, uneven
from aoec.search.default.default import Found, settle
from aoec.search.sketches.sketches import sketches
from aoec.search.space.nearest import match_structure
from aoec.simulate.timing.state import Resident, State
from aoec.simulate.timing.time import Measure, measure
from aoec.target.machine import Machine

COUNTS = 4  # counts of slices that are tried, the most promising ones
WIDER = 8  # times as many slices as a group needs for its tensors to fit L2 are tried at most
LONGEST = 64  # groups in a region
STEP = 1.5  # between sizes of what comes by while a result is written
SHARED = (("gb", "gh"), ("gb", "gw"), ("gb", "gn"), ("g0", "g1"), ("gm", "gn"))  # holes that share out a batch, which a slice has less of


@dataclass(frozen=True)
class Whole:
    """A group as it runs whole: its default schedule, as text, and its measure in its place."""

    trace: str
    measure: Measure


@dataclass(frozen=True)
class Piece:
    """A group in one slice of so many. `reads`, `makes`: (func's tensor, the graph's, bytes of a part); `boxes`: what the last slice reads
    of each tensor. A view has no func."""

    func: Func | None
    func_key: str
    reads: tuple[tuple[str, str, int], ...]
    makes: tuple[tuple[str, str, int], ...]
    boxes: Mapping[str, Box]


def regions(graph: Graph, machine: Machine, whole: Mapping[str, Whole], ends: Callable[[], bool] = lambda: False) -> list[Region]:
    """Return the regions of a fused graph that take less time in slices on the model machine, by default schedules. `whole`: what its cube
    and vector groups take now. `ends` is called before each step and returns whether time is over. Then only the regions found so far
    count."""
    if graph.bodies or any(g.kind in ("cube", "vector") and g.name not in whole for g in graph.groups):
        return []
    return Search(graph, machine, whole).best(ends)


class Search:
    """The search for one graph: pieces and times, each made once."""

    def __init__(self, graph: Graph, machine: Machine, whole: Mapping[str, Whole]) -> None:
        self.graph, self.machine, self.whole, self.indexed = graph, machine, whole, Indexed(graph)
        self.tensors, self.nodes = {t.name: t for t in graph.tensors}, {n.name: n for n in graph.nodes}
        self.places, self.usable, self.shares = places(graph), machine.l2_usable_bytes, Shares(graph)
        self.pieces: dict[tuple[int, int], Piece | None] = {}
        self.programs: dict[str, Program | None] = {}
        self.times: dict[tuple[str, State], float] = {}
        at = {name: i for i, g in enumerate(graph.groups) for name in g.nodes}
        self.last_read = dict.fromkeys(graph.outputs, len(graph.groups))  # tensor -> the last group that reads it
        for n in graph.nodes:
            for i in n.inputs:
                self.last_read[i] = max(self.last_read.get(i, 0), at[n.name])

    def best(self, ends: Callable[[], bool]) -> list[Region]:
        """Return the regions of the row of regions and whole groups that takes least."""
        groups, counts = self.graph.groups, self.counts()
        cheapest: list[tuple[float, tuple[Region, ...]]] = [(0.0, ())]
        offers: list[list[tuple[float, int, int]]] = [[] for _ in groups]  # by last group: (cost, first, slices)
        for first, count in product(range(len(groups)), counts):
            if ends():
                break
            for last, cost in self.grown(first, count):
                offers[last].append((cost, first, count))
        for last, g in enumerate(groups):
            own = [(cheapest[last][0] + self.whole_us(g), cheapest[last][1])]
            own += [(cheapest[first][0] + cost, (*cheapest[first][1], Region(groups[first].name, g.name, count)))
                    for cost, first, count in offers[last]]
            cheapest.append(min(own, key=lambda row: (row[0], len(row[1]))))
        return list(cheapest[-1][1])

    def counts(self) -> list[int]:
        """Return the counts of slices with which groups begin to fit L2 that take most time, in order."""
        weight: Counter[int] = Counter()
        for i, g in enumerate(self.graph.groups):
            for count in self.fitting(i) if g.name in self.whole else ():
                weight[count] += round(1000 * self.whole_us(g))
        return sorted(count for count, _ in weight.most_common(COUNTS))

    def fitting(self, at: int) -> list[int]:
        """Return the two least counts of slices in which a group's inputs and results fit L2. One of them may be of uneven slices."""
        result, least = self.tensors[self.nodes[self.graph.groups[at].nodes[-1]].outputs[0]], self.least(at)
        lead = prod(result.shape[:2] if len(result.shape) > 2 and result.layout == "ND" else result.shape[:1])
        equal = [n for n in range(least, min(lead, WIDER * least) + 1) if lead % n == 0][:2] if least > 1 else []
        return [least, *equal][:2] if least > 1 and uneven(least, self.shares.units) else equal

    def least(self, at: int) -> int:
        """Return in how many slices what a group reads and makes of its own fits L2."""
        g = self.graph.groups[at]
        if g.kind not in ("cube", "vector"):
            return 1 if g.kind == "host" else 1 << 30
        ins, outs = self.indexed.operands(g)
        return max(1, -(-sum(size_bytes(t) for t in (*ins, *outs) if not t.data) // self.usable))

    def whole_us(self, g: Group) -> float:
        """Return what a group takes whole, in its place, in µs of the queue."""
        return self.queue_us(self.whole[g.name].measure) if g.name in self.whole else 0.0

    def queue_us(self, m: Measure) -> float:
        """Return what a launch adds to a row of them, in µs."""
        return max(m.run_us + min(self.machine.queue_gap_us, m.launch_us), self.machine.enqueue_us)

    # ------------------------------------------------------------ regions

    def grown(self, first: int, slices: int) -> Iterator[tuple[int, float]]:
        """Yield (last group, µs) of regions in so many slices that begin at a group, for each group at which one may end. Stop where
        regions are far from paying."""
        made: set[str] = set()
        pieces: list[Piece] = []
        before = 0.0
        for last in range(first, min(first + LONGEST, len(self.graph.groups))):
            piece = self.piece(last, slices)
            if piece is None or not self.joins(piece, made, slices):
                return
            pieces.append(piece)
            made.update(o for n in self.graph.groups[last].nodes for o in self.nodes[n].outputs)
            before += self.whole_us(self.graph.groups[last])
            results = [o for o in made if self.last_read.get(o, 0) > last]
            if before and all(sliceable(self.tensors[o], self.share(o, slices)) for o in results):
                cost = self.cost(pieces, made, results, slices, 2 * before)
                if cost < before:
                    yield last, cost
                elif cost > 2 * before and last - first > 2:
                    return

    def joins(self, piece: Piece, made: set[str], slices: int) -> bool:
        """Return whether a piece reads its own slice of tensors that the region makes, and contiguous parts of other tensors."""
        return all(box == self.share(name, slices) if name in made else sliceable(self.tensors[name], box)
                   for name, box in piece.boxes.items())

    def share(self, name: str, slices: int, at: int = -1) -> Box | None:
        """Return a slice's part of a tensor, by default the last one's."""
        return self.shares.share(name, at % slices, slices)

    def cost(self, pieces: Sequence[Piece], made: set[str], results: Sequence[str], slices: int, most: float) -> float:
        """Return the time of a region in slices, in µs: the first slice from cold, the others as the second. Return inf where a piece has
        no schedule, or where the time is more than `most`."""
        once = {self.spot(t, p, made, 0): size for p in pieces for _, t, size in (*p.reads, *p.makes)}
        beside = sum(size * (slices if spot.endswith(" 0") else 1) for spot, size in once.items())
        passing = dict.fromkeys(results, self.round_bytes(beside)) if beside > self.usable else {}
        l2, total = Resident(self.usable), 0.0
        for at, often in ((0, 1), (1, slices - 1)):
            for p in pieces:
                if p.func is None:
                    continue
                spots = [(name, self.spot(t, p, made, at), size) for name, t, size in (*p.reads, *p.makes)]
                there = dict(l2.part(spot for _, spot, _ in spots))
                state = tuple((name, size) for name, spot, size in spots[:len(p.reads)] if there.get(spot, 0) >= size)
                state += tuple((name, passing[t]) for name, t, _ in p.makes if t in passing)
                total += often * self.us(p, state)
                if total > most:
                    return total
                l2.touch({spot: size for _, spot, size in spots})
        return total

    def round_bytes(self, size_bytes: int) -> int:
        """Return a number of bytes rounded up to steps of half as much again. Each region has its own number. So pieces are timed once for
        all nearly equal ones."""
        return ceil(self.usable * STEP ** ceil(log(size_bytes / self.usable, STEP)))

    def spot(self, name: str, piece: Piece, made: set[str], at: int) -> str:
        """Return a name for what a slice reads or makes of a tensor: of whole ones the same for all slices."""
        shared = name not in made and piece.boxes.get(name) == tuple((0, n) for n in self.tensors[name].shape)
        whose, start = self.places.get(name, (name, 0))
        return f"{whose} {start}" if shared else f"{whose} {start} {at}"

    # ------------------------------------------------------------ pieces

    def piece(self, at: int, slices: int) -> Piece | None:
        """Return a group in slices. Return None where it cannot be cut so, or is nowhere near needing it."""
        if (at, slices) not in self.pieces and slices > WIDER * self.least(at):
            self.pieces[at, slices] = None
        if (at, slices) not in self.pieces:
            self.pieces[at, slices] = self.last_piece(self.graph.groups[at], slices)
        return self.pieces[at, slices]

    def last_piece(self, group: Group, slices: int) -> Piece | None:
        """Return the last piece of a group, which lies worst; where parts are uneven with the work of the first, the largest."""
        last = self.make_piece(group, slices, -1)
        if last is None or not uneven(slices, self.shares.units):
            return last
        first = self.make_piece(group, slices, 0)
        return first and replace(first, boxes=last.boxes)

    def make_piece(self, group: Group, slices: int, at: int) -> Piece | None:
        own, boxes, nodes = dict[str, Tensor](), dict[str, Box](), []
        made = {o for n in group.nodes for o in self.nodes[n].outputs}
        for n in (self.nodes[name] for name in group.nodes):
            result = n.outputs[0]
            box = self.share(result, slices, at)
            part = box and part_of(n, [self.tensors[i].shape if i else None for i in n.inputs], self.tensors[result].shape, box)
            if group.kind == "host" or not part or box is None:
                return None
            nodes.append(part.node)
            own[result] = replace(self.tensors[result], shape=sizes(box))
            for i, b in zip(n.inputs, part.boxes):
                if not i or b is None:
                    continue
                if b != (self.share(i, slices, at) if i in made else boxes.setdefault(i, b)):
                    return None
                own.setdefault(i, replace(self.tensors[i], shape=sizes(b)))
        if group.kind == "view":
            return Piece(None, "", (), (), boxes)
        outputs = self.indexed.escaping(group)
        graph = Graph("slice", tuple(boxes), outputs, tuple(own.values()), tuple(nodes), (group,))
        return self.lower_piece(Indexed(graph), group, boxes)

    def lower_piece(self, indexed: Indexed, group: Group, boxes: Mapping[str, Box]) -> Piece | None:
        """Return the piece of a group. Return None where a slice of it has no lowering."""
        try:
            func = indexed.lower(group)
        except AoecError:
            return None
        ins, outs = indexed.operands(group)
        named = [(b.name, t.name, size_bytes(t)) for b, t in zip((*func.inputs, *func.outputs), (*ins, *outs))]
        piece = Piece(func, key(func), tuple(named[:len(ins)]), tuple(named[len(ins):]), boxes)
        if piece.func_key not in self.programs:
            self.programs[piece.func_key] = self.fit_program(func, tuple((n, size) for n, _, size in piece.reads), group.name)
        return piece if self.programs[piece.func_key] is not None else None

    # ------------------------------------------------------------ times

    def us(self, piece: Piece, state: State) -> float:
        """Return what a launch of a piece takes of the queue, in µs, from a state of L2."""
        if (piece.func_key, state) not in self.times:
            program = self.programs[piece.func_key]
            assert program is not None
            self.times[piece.func_key, state] = self.queue_us(measure(program, self.machine, state))
        return self.times[piece.func_key, state]

    def fit_program(self, func: Func, state: State, group: str) -> Program | None:
        """Return the program of a slice, by the schedule of the whole group where it fits, else by a default of the slice's own. Return
        None where it has none."""
        trace = self.whole[group].trace
        at = ("slice", show(func), self.machine.name, self.machine.hash, str(state), trace)
        text = recall(at, lambda: self.schedule(func, state, trace), str, str)
        return emit_trace(func, text, self.machine)[1] if text else None

    def schedule(self, func: Func, state: State, trace: str) -> str:
        """Return the schedule of a slice, as text. Return "" where it has none."""
        try:
            whole = parse_trace(trace)
            alike = [t for t in sketches(func, self.machine) if match_structure(t, whole) is not None]
            p = problem(func, self.machine, state, alike or None)
            found = fit(p, trace)
            if found is None:
                p = problem(func, self.machine, state)
                found = start(p).best
            return show(p.trace(found))
        except AoecError:
            return ""


def fit(p: Problem, trace: str) -> tuple[int, tuple[int, ...]] | None:
    """Return the candidate nearest to a schedule, settled. Return None where none is legal."""
    found = candidates(p, [trace])
    legal = [(ticks, c) for ticks, c in zip(p.cost(found), found) if ticks is not None]
    return refit(p, min(legal))[1] if legal else None


def refit(p: Problem, found: Found) -> Found:
    """Return a candidate that served another batch, settled: as it is, and after how it shares the batch out."""
    return settle(p.space, [settle(p.space, [found], p.cost, SHARED), found], p.cost)
