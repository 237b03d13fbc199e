"""The value tables of an encoded program for a batch of rows: every formula is evaluated here, none in the walk. Sizes: sizes.py."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from aoec.ir.index import Expr, Known, evaluate, variables
from aoec.kernels import timeline as kernel
from aoec.simulate.encode.encode import PIPE, Encoded, Site
from aoec.simulate.encode.sizes import Array, Choices, Entries, Layout, StreamValues, dependence, distinct
from aoec.simulate.timing.bus import bus_stretch
from aoec.simulate.timing.reuse import Flow, Traffic, least_traffic, traffic
from aoec.simulate.timing.state import State
from aoec.simulate.timing.totals import CLOSED, Opened
from aoec.target.isa.instructions import INSTRUCTIONS
from aoec.target.machine import Machine

TICKS = kernel.TICKS_PER_CYCLE
MAX_CYCLES = 1e12  # of one instruction, so that sums stay far within int64
KEPT = 1 << 12  # values of an instruction's fields up to which what formulas find on the way is kept
AT_ONCE = 1 << 14  # rows of which constraints are looked at together
DEPTH_RANGE = -9  # error of a row, beside those of the kernel and of sizes


@dataclass
class Filled:
    """What the kernel walks, for some rows. `moved` [entry, (hbm, l2)] bytes is filled when asked for."""

    tables: kernel.Tables
    status: Array
    site_of: Array  # entry -> site
    moved: Array
    traffic: Traffic


@dataclass
class Sizes:
    """What a site's costs are made of: its fields by entry, and by class the bytes that a transfer moves (0 where nothing crosses GM)."""

    layout: Layout
    entries: Entries
    gm_bytes: Array


def first_false(encoded: Encoded, rows: Mapping[str, Array], count: int) -> Array:
    """Return int32[row]: 1 + the index of the first constraint that is false, 0 where all hold."""
    status = np.zeros(count, np.int32)
    for start in range(0, count if encoded.program.constraints else 0, AT_ONCE):
        part = {name: values[start:start + AT_ONCE] for name, values in rows.items()}
        broken = encoded.legality(part, min(AT_ONCE, count - start)) == 0
        status[start:start + AT_ONCE] = np.where(broken.any(axis=1), broken.argmax(axis=1) + 1, 0)
    return status


class Tabulator:
    """Builds the tables of one batch of rows, all of which meet the program's constraints.

    Rows may differ only in holes that no size, trip count or grid depends on (slots). Such rows share a row of all tables but those of
    flags and counters. `holes` are of the rows. `rows` below are rows of such shared work. `lenient` says that slots of a buffer do not
    conflict, as if there were one. `opened` gives holes at choices that stand for all of them. Then only what no choice avoids crosses HBM,
    and holds up other cores.
    """

    def __init__(self, encoded: Encoded, rows: Mapping[str, Array], count: int, state: State, detail: bool = False,
                 lenient: bool = False, opened: Opened = CLOSED) -> None:
        self.encoded, self.machine, self.detail, self.lenient, self.opened = encoded, encoded.machine, detail, lenient, opened
        self.given = {name: np.asarray(values, np.int64) for name, values in rows.items()}
        first, self.work = distinct({n: v for n, v in self.given.items() if n in encoded.work_holes}, count)
        self.holes = {name: values[first] for name, values in self.given.items()}
        self.count = len(first)
        self.status = np.zeros(self.count, np.int32)
        self.state = state
        self.loops = max(1, len(encoded.loops))
        self.cursors: list[int] = []
        self.moves: list[list[tuple[int, Array]]] = [[] for _ in range(self.loops + max(1, len(encoded.axes)))]
        self.merge = np.full((self.count, len(self.moves), 3), kernel.BODY, np.int8)
        self.variable = {(loop.stream, loop.var): i for i, loop in enumerate(encoded.loops)}
        self.variable |= {(s, name): self.loops + i for i, (s, name, _) in enumerate(encoded.axes)}
        self.cores = [self.grid_cores(s) for s in range(len(encoded.program.streams))]

    def fill(self) -> Filled:
        encoded = self.encoded
        with np.errstate(divide="ignore", invalid="ignore"):
            values = [StreamValues(encoded, s, self.holes, self.status) for s in range(len(encoded.program.streams))]
            place, entry_of, cost, moved, site_of = self.sites(values)
            trips = self.trips(values)
        axis_start = [sum(s < stream for s, _, _ in encoded.axes) for stream in range(len(values) + 1)]
        start, cursor, step = self.dependents()
        tables = kernel.Tables(
            code=encoded.code, flat=encoded.code.ravel(), starts=encoded.starts, axis_start=np.array(axis_start, np.int32),
            form_start=np.cumsum([0] + [len(terms) for _, terms in encoded.forms], dtype=np.int32),
            form_register=np.array([r for _, terms in encoded.forms for r, _ in terms] or [0], np.int32),
            depend_start=start, depend_cursor=cursor, depend_step=step, cursor_base=np.array(self.cursors, np.int64),
            counter_of=np.array([r for r, _ in encoded.counters] or [0], np.int32),
            joined=np.array([encoded.joined, encoded.emitted], np.int64),
            preset=np.array([encoded.preset, encoded.granular], np.int64),
            used=encoded.used, heard=encoded.heard, costs=fixed_costs(encoded.machine), queue=queues(encoded),
            pipe_head=self.pipe_heads(), place=place, trips=trips,
            entry_of=entry_of, cost=cost.T.ravel(),
            form_constant=columns([c for c, _ in encoded.forms], self.given, len(self.work)),
            form_coefficient=columns([c for _, terms in encoded.forms for _, c in terms], self.given, len(self.work)),
            depth=columns([d for _, d in encoded.counters], self.given, len(self.work)), work=self.work,
            extent=columns([e for _, _, e in encoded.axes], self.holes, self.count), head=self.heads(values), merge=self.merge,
            opened=opened_loops(encoded, self.opened))
        return Filled(tables._replace(depth=np.maximum(tables.depth, 1)), self.statuses(tables.depth), site_of, moved, self.traffic)

    def statuses(self, depth: Array) -> Array:
        """Return int32[row]: of a row's work, or that a counter has no depth."""
        status = self.status[self.work]
        if self.encoded.counters:
            status[(depth < 1).any(axis=1) & (status == 0)] = DEPTH_RANGE
        return status

    def evaluate(self, e: Expr) -> Array:
        """Return int64 values of an expression of holes, per row."""
        return np.asarray(evaluate(e, self.holes))

    def grid_cores(self, stream: int) -> Array:
        """Return int64[row]: cores that the grid of a stream takes."""
        extents = [self.evaluate(e) for s, _, e in self.encoded.axes if s == stream]
        return np.broadcast_to(np.prod(np.broadcast_arrays(np.int64(1), *extents), axis=0), (self.count,))

    def heads(self, values: list[StreamValues]) -> Array:
        """Return int64[row, axis]: how many coordinates of a grid axis are of its first class."""
        out = np.ones((self.count, max(1, len(self.encoded.axes))), np.int64)
        for i, (stream, name, _) in enumerate(self.encoded.axes):
            if name in values[stream].dealt:
                out[:, i] = values[stream].dealt[name].reshape(-1)
        return out

    def pipe_heads(self) -> Array:
        """Return ticks before a pipe that the stream uses first runs [row, stream, pipe]."""
        streams = self.encoded.program.streams
        out = np.zeros((self.count, len(streams), kernel.PIPE_COUNT), np.int64)
        used = {(site.stream, site.pipe) for site in self.encoded.sites}
        for i, stream in enumerate(streams):
            cores = np.prod([self.evaluate(e) * np.ones(self.count) for _, e in stream.grid], axis=0)
            for pipe, cycles, per_core in self.machine.core(stream.core).heads:
                if (i, PIPE[pipe]) in used:
                    out[:, i, PIPE[pipe]] = ticks(cycles + per_core * cores)
        return out

    def cursor(self, stream: int, layout: Layout, base: int) -> None:
        """Add a cursor that starts at `base` and moves with the variables of its layout.

        The first or last iteration, or core, stays a class of its own in rows where a size differs.
        """
        for name, step in layout.steps.items():
            which = self.variable[stream, name]
            if step.any():
                self.moves[which].append((len(self.cursors), step))
            for kind, found in ((kernel.FIRST, layout.first[name]), (kernel.LAST, layout.last[name])):
                for at, differs in found:
                    self.merge[at.spread(differs), which, kind] = kind
        self.cursors.append(base)

    def dependents(self) -> tuple[Array, Array, Array]:
        flat = [move for moves in self.moves for move in moves]
        start = np.cumsum([0] + [len(moves) for moves in self.moves], dtype=np.int32)
        steps = np.array([np.append(step, 0) for _, step in flat], np.int64).reshape(-1, kernel.OUTSIDE + 1)
        return start, np.array([c for c, _ in flat], np.int32), steps

    def sites(self, values: list[StreamValues]) -> tuple[Array, Array, Array, Array, Array]:
        """Return place[row, site, (entry, position)], entry_of[position], costs[busy, latency, unit, granule][entry], moved[entry, 2] bytes
        (no entries where no detail is asked for) and site[entry].

        What a site's costs depend on has fewer different values than there are rows. This does not hold where it touches GM, because what
        hits L2 there depends on all that a launch moves.
        """
        sites = self.encoded.sites
        sizes = [self.sizes(site, values[site.stream]) for site in sites]
        choices = [self.cost_choices(site, values[site.stream]) for site in sites]
        self.charge_memory(sizes, values)
        counts = [len(at.rows) * size.entries.count for at, size in zip(choices, sizes)]
        ends, starts = np.cumsum([0, *counts]), np.cumsum([0, *[size.entries.of.size for size in sizes]])
        place, cost = np.zeros((2, max(1, len(sites)), self.count), np.int64), np.zeros((4, max(1, ends[-1])), np.int64)
        moved = np.zeros((ends[-1] if self.detail else 0, 2))
        for i, (site, size, at) in enumerate(zip(sites, sizes, choices)):
            self.cursor(site.stream, size.layout, 0)
            place[:, i] = ends[i] + at.which * size.entries.count, starts[i] + size.entries.pattern * size.entries.of.shape[1]
            own = slice(ends[i], ends[i + 1])
            self.price(site, size, at, cost[:, own], moved[own])
        entry_of = np.concatenate([size.entries.of.reshape(-1) for size in sizes] or [np.zeros(1, np.int32)])
        return np.ascontiguousarray(place.transpose(2, 1, 0)), entry_of, cost, moved, np.repeat(np.arange(len(sites)), counts)

    def cost_choices(self, site: Site, stream: StreamValues) -> Choices:
        """Return the rows for which the costs of a site are computed."""
        if site.access:
            return self.everything
        return stream.choices(*[e for _, e in site.fields], *self.grid_of(site))

    @cached_property
    def everything(self) -> Choices:
        """Return each row for itself."""
        return Choices(np.arange(self.count), np.arange(self.count))

    def grid_of(self, site: Site) -> list[Expr]:
        """Return the grid of a site's stream, and where it reads in it, where its cost depends on that or on the number of cores."""
        if site.access:
            return [site.start, *[e for s, _, e in self.encoded.axes if s == site.stream]]
        formulas = (site.timing.busy, site.timing.latency, site.timing.granule)
        return [e for s, _, e in self.encoded.axes if s == site.stream] if any("cores" in variables(f) for f in formulas) else []

    def sizes(self, site: Site, stream: StreamValues) -> Sizes:
        moved = np.zeros(1)
        if site.access:
            moved = np.asarray(gm_bytes(site, {name: stream.size(e).values for name, e in site.fields}))
        layout = stream.layout([e for _, e in site.fields])
        return Sizes(layout, Entries(stream, layout, dict(site.fields)), moved)

    def charge_memory(self, sizes: list[Sizes], values: list[StreamValues]) -> None:
        """Find what of each site's traffic hits L2, from what all of them move."""
        flows: dict[Any, Flow] = {}
        for site, size in zip(self.encoded.sites, sizes, strict=True):
            if site.access:
                stream, a = values[site.stream], site.access
                moved = np.broadcast_to(size.gm_bytes, (self.count, *size.gm_bytes.shape[1:]))
                largest, total = moved.reshape(self.count, -1).max(axis=1), stream.total(moved, a.grid + a.loops)
                before = flows.get(a, Flow(a, 0, 0))
                flows[a] = Flow(a, np.maximum(before.largest, largest), before.total + total)
        trips = [{name: stream.most(name) for name in stream.trips} for stream in values]
        of = self.encoded.program, self.machine, self.state, list(flows.values()), trips, self.holes
        if self.opened:
            self.traffic, self.bus = least_traffic(*of, self.opened.holes, self.opened.settled), [1.0] * len(values)
            return
        self.traffic = traffic(*of)
        self.bus = bus_stretch(self.encoded.program, self.machine, list(flows.values()), self.traffic.shares)

    def price(self, site: Site, size: Sizes, at: Choices, cost: Array, moved: Array) -> None:
        """Fill ticks[(busy, latency, unit, granule), entry] of a site, and bytes[entry, (hbm, l2)] where detail is asked for, for each of
        the choices `at` in turn."""
        entries = size.entries

        def column(values: Any) -> Any:
            return upright(values, at.rows, entries)

        around = Around(column(self.cores[site.stream]))
        if site.access:
            a, t = site.access, self.traffic
            around = Around(around.cores, *map(column, (t.shares[a], *t.crowding[a], t.both_ways, self.bus[site.stream], t.waits_for[a])))
        site, rates = self.cost_inputs(site, at, entries)
        parts, env = costs(site, {name: entries.values(name, at.rows) for name, _ in site.fields}, around, rates, self.lenient,
                           bool(self.opened))
        shape = len(at.rows), *entries.shape
        for i, part in enumerate(parts):
            cost[i].reshape(shape)[:] = part
        for i, name in enumerate(("hbm_bytes", "l2_bytes") if self.detail else ()):
            moved[:, i].reshape(shape)[:] = env[name]

    def cost_inputs(self, site: Site, at: Choices, entries: Entries) -> tuple[Site, Rates]:
        """Return (a site, the memory's rates) with their numbers for the choices `at`."""
        return site, rates_of(self.machine)

    def trips(self, values: list[StreamValues]) -> Array:
        """Return trip counts [row, entry], with a cursor per loop."""
        blocks, base = [], 0
        for loop in self.encoded.loops:
            stream = values[loop.stream]
            layout = stream.layout([loop.trips])
            self.cursor(loop.stream, layout, base)
            if loop.idle:  # its slots are a row's own
                blocks.append(np.broadcast_to(np.asarray(evaluate(loop.trips, self.given)).reshape(-1, 1), (len(self.work), 1)))
            else:
                blocks.append(layout.flatten(layout.narrow(stream.size(loop.trips).values), self.count, stream.rank)[self.work])
            base += layout.entries
        if not blocks:
            self.cursors.append(0)
            return np.zeros((len(self.work), 1), np.int64)
        return np.ascontiguousarray(np.concatenate(blocks, axis=1), np.int64)


class Rates(NamedTuple):
    """Bytes a cycle between all cores and HBM, and L2: a number each, or columns upright."""

    hbm: Any
    l2: Any


def rates_of(machine: Machine) -> Rates:
    """Return the rates of a machine's memory."""
    return Rates(machine.hbm_bytes_per_cycle, machine.l2_bytes_per_cycle)


@dataclass(frozen=True)
class Around:
    """What the costs of an instruction depend on beside its own sizes. One number is the stream's cores. The others are of a transfer: the
    share that crosses HBM; how much longer HBM and L2 take because cores crowd, and because both ways share HBM; how the bus of a core
    stretches it; and the cores whose share of the memory it waits for."""

    cores: Any
    share: Any = 0.0
    hbm: Any = 1.0
    l2: Any = 1.0
    both: Any = 1.0
    stretch: Any = 1.0
    whole: Any = 0.0


def costs(site: Site, fields: Mapping[str, Any], around: Around, rates: Rates, lenient: bool,
          opened: bool) -> tuple[list[Any], dict[str, Any]]:
    """Return ([busy, latency, unit, granule] in ticks, the bytes that they follow from among what formulas read): see Tabulator."""
    moved = {"gm_bytes": 0.0, "hbm_bytes": 0.0, "l2_bytes": 0.0}
    env: dict[str, Any] = {**dict(site.numbers), **fields, **moved, "crowding": around.hbm, "cores": around.cores}
    if lenient:
        env |= {name: fields[f"{name.removesuffix('_last')}_at"] for name in fields if name.endswith("_last")}
    if opened and "filter_h" in env:  # img2col brings the more a cycle the fewer rows of the filter a load spans
        env["filter_h"] = 1
    unit: Any = 0.0
    value = evaluator(env, fields)
    if site.access:
        gm = gm_bytes(site, fields)
        env |= {"gm_bytes": gm, "hbm_bytes": gm * around.share, "l2_bytes": gm - gm * around.share}
        through_l2 = env["l2_bytes"] + gm * env.get("atomic", 0)  # L2 reads what it adds to
        unit = env["hbm_bytes"] / rates.hbm * around.hbm + through_l2 / rates.l2 * around.l2
        unit = unit * around.both * value(site.timing.memory)
    busy = np.maximum(value(site.timing.busy) * around.stretch, unit * around.whole)
    parts = [ticks(busy), ticks(value(site.timing.latency)), ticks(unit), -1]
    if "unit" in env:
        parts[3] = np.where(env["unit"] != 0, ticks(value(site.timing.granule)), -1)
    return parts, env


def evaluator(env: Mapping[str, Any], fields: Mapping[str, Any]) -> Callable[[Expr], Any]:
    """Return what evaluates formulas in an environment. Of few entries what several hold is found once; of many it would be kept too
    long."""
    if sum(getattr(v, "size", 1) for v in fields.values()) > KEPT:
        return lambda e: evaluate(e, env)
    return Known(env).__getitem__


def opened_loops(encoded: Encoded, opened: Opened) -> Array:
    """Return int8[loop + 1]: whether a loop's trips depend on open holes, and at last whether any hole is open."""
    found = [not dependence(encoded, loop.stream).holes_of(loop.trips).isdisjoint(opened.holes) for loop in encoded.loops]
    return np.array([*found, *[False] * (not found), bool(opened)], np.int8)


def fixed_costs(m: Machine) -> Array:
    """Return what issues, flags and loops cost, and how many flags there are: see kernel.Tables."""
    cycles = [round(c * TICKS) for c in (m.issue_cycles, m.flag_hop_cycles, m.cross_cycles, m.loop_cycles)]
    return np.array([*cycles[:3], m.flag_ids, m.cross_ids, m.cross_count, cycles[3]], np.int64)


def queues(encoded: Encoded) -> Array:
    """Return instructions that a queue holds [stream]."""
    return np.array([encoded.machine.core(s.core).queue_depth for s in encoded.program.streams], np.int64)


def columns(expressions: list[Expr], holes: Mapping[str, Array], count: int) -> Array:
    """Return int64[row, expression]; one zero column where there is none."""
    out = np.zeros((count, max(1, len(expressions))), np.int64)
    for i, e in enumerate(expressions):
        out[:, i] = evaluate(e, holes)
    return out


def gm_bytes(site: Site, fields: Mapping[str, Any]) -> Any:
    """Return bytes that an instruction of a site moves to or from GM."""
    return evaluate(INSTRUCTIONS[site.op].gm_bytes, {**fields, "size": site.gm_size})


def upright(values: Any, rows: Array, entries: Entries) -> Array:
    """Return a number, or the given rows of a column, upright: it meets arrays [row, value of each group]."""
    column = np.asarray(values)
    return column[rows].reshape((-1,) + (1,) * len(entries.shape)) if column.ndim and len(column) > 1 else column


def ticks(cycles: Any) -> Any:
    """Return cycles as whole ticks, half to even; what is below zero or not a number (a class that no iteration is of) counts as zero."""
    return np.rint(np.fmin(np.fmax(cycles, 0.0), MAX_CYCLES) * TICKS).astype(np.int64)
