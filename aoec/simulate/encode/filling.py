"""Tables filled by a kernel as a plan says, a few hundred rows at once, and what is found of these rows before the next."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from aoec.base.errors import UnsupportedError
from aoec.kernels import columns as kernel
from aoec.kernels import timeline
from aoec.kernels.registers import distinct
from aoec.simulate.encode.encode import Encoded
from aoec.simulate.encode.plan import Planner, SitePlan
from aoec.simulate.encode.plan_sizes import ALL
from aoec.simulate.encode.sizes import dependence
from aoec.simulate.encode.tables import fixed_costs, opened_loops, queues
from aoec.simulate.encode.tape import Packed
from aoec.simulate.reasons.detail import fresh_state
from aoec.simulate.timing.state import State
from aoec.simulate.timing.totals import Opened
from aoec.simulate.values.arena import Arena
from aoec.target.legality.deal import longer

Array = np.ndarray[Any, Any]
ENTRIES = 8  # of a site that a row has at first guess
FEW, SELDOM = 16, 1  # rows that are timed at once, and how often, for which it does not pay to make a plan
PART, SHORTEST = 256, 64  # rows whose tables are filled at once, at most and where there are as many: fewer take less than the call
POSITIONS = 1 << 22  # of them together


class Filler:
    """A plan as arrays, with what of the tables no row changes."""

    def __init__(self, planner: Planner) -> None:
        with np.errstate(divide="ignore", invalid="ignore"):
            sites, trips, pipe_heads = planner.sites(), planner.trips(), planner.pipe_heads()
            extents, merge = planner.extents(), planner.merge()
        encoded = planner.encoded  # which knows its fillers: it is not kept here, and goes when nobody asks for it
        extent = {(s, name): e for s, name, e in encoded.axes}
        self.inputs, self.streams = list(planner.holes), len(encoded.starts)
        self.dealt = [(dependence(encoded, s).dealt[name], name, extent[s, name]) for s, name in planner.dealt]
        bad = planner.tape.any(planner.uneven())
        single = np.array([bad.register if bad is not None else -1])
        fields = np.concatenate([np.zeros(0, np.int32), *[g.registers.reshape(-1) for s in sites for g in s.groups]])
        of_rows = [of for s in sites for _, g, of in s.reads if g < 0]
        trip_at = np.concatenate([np.zeros(0, np.int32), *[own for _, own in trips]])
        wanted = np.concatenate([fields, of_rows, trip_at, *map(np.ravel, (merge, *extents, pipe_heads, single))]).astype(np.int64)
        rows = planner.tape.pack(np.unique(wanted[wanted >= 0]))
        lanes = planner.lanes.pack(np.unique(np.array([c for s in sites for c in s.costs], np.int64)))
        heads = [planner.streams[s].heads[name].register for s, name in planner.dealt]
        self.registers, self.lane_registers = max(1, rows.registers), max(1, lanes.registers)
        self.plan = kernel.Plan(
            code=rows.code, pool=rows.pool, constant_at=rows.constant_at, constant=rows.constant,
            input_at=_places(rows, [*[h.register for h in planner.holes.values()], *heads]), extent_at=_places(rows, extents[0]),
            head_at=_places(rows, extents[1]), pipe_head_at=_places(rows, pipe_heads), bad_at=_places(rows, single),
            merge_at=_places(rows, merge), **_trips(planner, trips, _places(rows, trip_at)),
            **_groups(planner, sites, _places(rows, fields)),
            lane_start=np.append(lanes.cuts, len(lanes.code)).astype(np.int32), lane_code=lanes.code, lane_pool=lanes.pool,
            lane_constant_at=lanes.constant_at, lane_constant=lanes.constant, **_reads(sites, rows, lanes),
            out_at=np.array([[lanes.place[c] for c in s.costs] for s in sites], np.int32).reshape(-1, 4))
        self.idle = [int(at) for at, loop in zip(self.plan.trip_base, encoded.loops) if loop.idle]  # columns of trip counts
        self.widest = max([1, *[len(g.registers) for s in sites for g in s.groups]])
        self.groups = max([1, *[len(s.groups) for s in sites]])
        self.most = max([1, *[s.layout.positions for s in sites], *[layout.positions for layout, _ in trips]])
        self.fixed = fixed_tables(planner, self.plan)

    def heads(self, rows: Mapping[str, Array], count: int) -> list[Array]:
        """Return how many coordinates have one more iteration, for each axis over which iterations are dealt out; a column for each
        axis."""
        return [np.broadcast_to(longer(trips, name, extent, rows), count) for trips, name, extent in self.dealt]


class Batch:
    """Rows with their inputs, equal ones once, in the order in which they are done. Rows that share tables are next to each other.

    `order` [place] is the row. `work` [place] is its inputs' row in `given`. `parts` are the places that are done at once.
    """

    def __init__(self, filler: Filler, encoded: Encoded, rows: Mapping[str, Array], count: int, threads: int) -> None:
        self.filler, self.encoded = filler, encoded
        given = np.empty((count, len(filler.inputs)), np.int64)
        for i, name in enumerate(filler.inputs):
            given[:, i] = rows[name]
        first, work = different(given)
        self.order = np.argsort(work, kind="stable") if len(first) < count else np.arange(count)
        self.work = work[self.order]
        heads = filler.heads({name: values[first] for name, values in rows.items()}, len(first))
        self.given = np.ascontiguousarray(np.column_stack([given[first], *heads])) if heads else given[first]
        own = row_tables(encoded, rows, count)
        self.own = {name: values[self.order] for name, values in own.items()} if len(first) < count else own
        room = min(PART, POSITIONS // max(1, int(filler.plan.positions[-1]), len(filler.plan.trip_at)))
        self.most = max(SHORTEST, min(room, -(-len(first) // (2 * threads))))
        self.parts = [(at, min(at + self.most, len(first))) for at in range(0, len(first), self.most)]

    def tables(self, worker: Worker, first: int, last: int) -> tuple[slice, timeline.Tables, Array]:
        """Return (places of the rows whose inputs are these, their tables, whether a size of theirs varies as no table says)."""
        out, n, e = worker.fill(self.given[first:last]), last - first, self.encoded
        own = slice(int(np.searchsorted(self.work, first)), int(np.searchsorted(self.work, last)))
        work = self.work[own] - first
        trips = out.trips[:n] if len(work) == n else out.trips[work]
        trips[:, self.filler.idle] = self.own["idle"][own]
        t = timeline.Tables(
            **self.filler.fixed, code=e.code, flat=e.code.ravel(), starts=e.starts, used=e.used, heard=e.heard,
            form_constant=self.own["form_constant"][own], form_coefficient=self.own["form_coefficient"][own],
            depth=np.maximum(self.own["depth"][own], 1), trips=trips, work=work, cost=out.costs.ravel(),
            place=out.place[:n], entry_of=out.entry_of, pipe_head=out.pipe_head[:n],
            extent=out.extent[:n], head=out.head[:n], merge=out.merge[:n])
        return own, t, out.bad[work] != 0

    def statuses(self, no_depth: int) -> Array:
        """Return int32[place]: 0, or that a counter has no depth."""
        wrong = (self.own["depth"] < 1).any(axis=1) if self.encoded.counters else np.zeros(len(self.order), bool)
        return np.where(wrong, no_depth, 0).astype(np.int32)

    def back(self, values: Array) -> Array:
        """Return what is given by place, by row."""
        out = np.empty_like(values)
        out[self.order] = values
        return out


class Worker:
    """The arrays of one thread: those of a few hundred rows' tables, and what the kernels work in, for rows with such core counts. They lie
    in an arena, whose next user takes their place."""

    def __init__(self, filler: Filler, encoded: Encoded, rows: int, cores: Array, arena: Arena) -> None:
        def zeros(*shape: int) -> Array:
            return arena.zeros(shape, np.int64)

        def empty(*shape: int, dtype: Any = np.int64) -> Array:
            return arena.empty(shape, dtype)

        self.filler, p = filler, filler.plan
        ints, lane_ints = empty(filler.registers, kernel.LANES), empty(filler.lane_registers, kernel.LANES)
        groups, widest = filler.groups, filler.widest
        self.space = kernel.Space(ints, ints.view(float), lane_ints, lane_ints.view(float), empty(groups, widest), empty(groups, widest),
                                  empty(groups, widest), empty(groups), empty(groups), empty(filler.most), empty(filler.most))
        sites, streams = len(p.positions) - 1, filler.streams
        self.out = kernel.Out(
            zeros(rows, len(p.extent_at)), zeros(rows, len(p.extent_at)), zeros(rows, streams, timeline.PIPE_COUNT),
            arena.zeros((rows, len(p.merge_at), 3), np.int8), empty(rows, max(1, len(p.trip_at))),
            zeros(rows, max(1, sites), 2), empty(max(1, rows * int(p.positions[-1])), dtype=np.int32),
            empty(max(1, rows * sites * ENTRIES), timeline.COST), zeros(rows))
        self.state = fresh_state(encoded, len(filler.fixed["cursor_base"]), cores, room=arena)

    def fill(self, given: Array) -> kernel.Out:
        """Fill the tables of rows with these inputs, in arrays that the next call reuses."""
        while kernel.fill(self.filler.plan, self.space, given, self.out) < 0:
            self.out = self.out._replace(costs=np.empty((2 * len(self.out.costs), timeline.COST), np.int64))
        return self.out


def different(values: Array) -> tuple[Array, Array]:
    """Return (where each different row of a matrix comes first, which of them each row is)."""
    count = len(values)
    which, first, slots = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(2 << count.bit_length(), np.int64)
    return first[:distinct(values, which, first, slots)], which


def grid_cores(encoded: Encoded, rows: Mapping[str, Array], count: int) -> Array:
    """Return cores [row, stream]."""
    out, extents = np.ones((count, len(encoded.starts)), np.int64), encoded.grid(rows, count)
    for k, (stream, _, _) in enumerate(encoded.axes):
        out[:, stream] *= extents[:, k]
    return out


def filler_of(encoded: Encoded, state: State, lenient: bool, opened: Opened, count: int, first: bool = False) -> Filler | None:
    """Return what fills the tables of a program, or of its first cores. Return None where no plan can be made. Return None also the first
    time for few rows, because a plan takes longer than to do without, and stays in memory. More is asked at once of rows with open holes:
    their work and their ends."""
    key = state, lenient, opened, first
    found = encoded.fillers.get(key, 0)
    if isinstance(found, int) and found is not False:
        found = encoded.fillers[key] = found + 1 if found < SELDOM and count < FEW and not opened else _filler(encoded, *key)
    return found if isinstance(found, Filler) else None


def _filler(encoded: Encoded, state: State, lenient: bool, opened: Opened, first: bool) -> Filler | bool:
    try:
        return Filler(Planner(encoded, state, lenient, opened, first))
    except UnsupportedError:
        return False


def fixed_tables(planner: Planner, p: kernel.Plan) -> dict[str, Array]:
    """Return those of the timeline's tables that no row changes, but for the code."""
    encoded = planner.encoded
    moves: list[list[tuple[int, Array]]] = [[] for _ in range(len(p.merge_at))]
    for cursor, (stream, layout) in enumerate(planner.layouts):
        for name, x, step in layout.steps:
            places = np.arange(timeline.OUTSIDE) - (ALL - layout.classes[x])  # FIRST of a narrow axis, which none has: below zero
            moves[planner.variable[stream, name]].append((cursor, np.append(places * step, 0)))
    flat = [move for some in moves for move in some]
    base = [0] * len(encoded.sites)
    base += [at - layout.origin for at, (_, layout) in zip(p.trip_base.tolist(), planner.layouts[len(base):])] if encoded.loops else [0]
    return {
        "axis_start": np.array([sum(s < x for s, _, _ in encoded.axes) for x in range(len(encoded.starts) + 1)], np.int32),
        "form_start": np.cumsum([0] + [len(terms) for _, terms in encoded.forms], dtype=np.int32),
        "form_register": np.array([r for _, terms in encoded.forms for r, _ in terms] or [0], np.int32),
        "depend_start": np.cumsum([0] + [len(some) for some in moves], dtype=np.int32),
        "depend_cursor": np.array([c for c, _ in flat], np.int32),
        "depend_step": np.array([s for _, s in flat], np.int64).reshape(-1, timeline.OUTSIDE + 1),
        "cursor_base": np.array(base, np.int64), "counter_of": np.array([r for r, _ in encoded.counters] or [0], np.int32),
        "joined": np.array([encoded.joined, encoded.emitted], np.int64), "preset": np.array([encoded.preset, encoded.granular], np.int64),
        "costs": fixed_costs(encoded.machine), "queue": queues(encoded), "opened": opened_loops(encoded, planner.opened)}


def row_tables(encoded: Encoded, rows: Mapping[str, Array], count: int) -> dict[str, Array]:
    """Return those of the timeline's tables that are each row's own, slots and all: int64[row, ...], one zero column where there is
    none."""
    values, out, at = encoded.own(rows, count), dict[str, Array](), 0
    for name, expressions in encoded.parts_of_own().items():
        part = values[:, at:at + len(expressions)]
        out[name], at = np.ascontiguousarray(part) if expressions else np.zeros((count, 1), np.int64), at + len(expressions)
    return out


def _places(packed: Packed, registers: Any) -> Array:
    """Return where registers of a tape are in the kernel; -1 stays."""
    given = np.asarray(registers, np.int64)
    return np.append(packed.place, -1)[given].astype(np.int32)


def _trips(planner: Planner, trips: Sequence[Any], at: Array) -> dict[str, Array]:
    """Return the parts of a plan that say how trip counts are filled."""
    loops = planner.encoded.loops
    steps = [[(planner.variable[loop.stream, name], step) for name, _, step in layout.steps] for loop, (layout, _) in zip(loops, trips)]
    flat = np.array([x for s in steps for x in s], np.int32).reshape(-1, 2)
    base = np.cumsum([0] + [len(own) for _, own in trips])[:-1] + [layout.origin for layout, _ in trips]
    return {"trip_start": np.cumsum([0] + [len(s) for s in steps]).astype(np.int32), "trip_axis": flat[:, 0].copy(),
            "trip_step": flat[:, 1].copy(), "trip_base": base.astype(np.int32), "trip_at": at}


def _groups(planner: Planner, sites: Sequence[SitePlan], at: Array) -> dict[str, Array]:
    """Return the parts of a plan that say which sizes vary together."""
    groups = [(site.stream, g) for site, s in zip(planner.encoded.sites, sites) for g in s.groups]
    steps = [[(planner.variable[stream, name], own, full) for name, own, full in g.steps] for stream, g in groups]
    flat = np.array([x for s in steps for x in s], np.int32).reshape(-1, 3)
    return {"group_start": np.cumsum([0] + [len(s.groups) for s in sites]).astype(np.int32),
            "group_axis": np.cumsum([0] + [len(s) for s in steps]).astype(np.int32), "axis_which": flat[:, 0].copy(),
            "axis_step": flat[:, 1].copy(), "axis_full": flat[:, 2].copy(),
            "group_origin": np.array([g.origin for _, g in groups], np.int32).reshape(-1, 2),
            "group_fields": np.array([len(g.names) for _, g in groups], np.int32),
            "group_at": np.cumsum([0] + [g.registers.size for _, g in groups]).astype(np.int32)[:-1], "field_at": at,
            "positions": np.cumsum([0] + [s.layout.positions for s in sites]).astype(np.int64)}


def _reads(sites: Sequence[SitePlan], rows: Packed, lanes: Packed) -> dict[str, Array]:
    """Return the parts of a plan that say what the formulas of an entry read."""
    reads = [[(lanes.place[own], g, of if g >= 0 else rows.place[of]) for own, g, of in s.reads if lanes.place[own] >= 0]
             for s in sites]
    flat = np.array([x for r in reads for x in r], np.int32).reshape(-1, 3)
    return {"in_start": np.cumsum([0] + [len(r) for r in reads]).astype(np.int32), "in_at": flat[:, 0].copy(),
            "in_group": flat[:, 1].copy(), "in_of": flat[:, 2].copy()}
