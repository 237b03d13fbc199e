"""The value tables of an encoded program for a batch of rows: every formula is evaluated here, none in the walk.

A loop variable or grid axis takes, on an axis of its own, the values of its first, second, last but one and last
iteration. The inner two must give equal sizes (else the row is an error): then first, body and last say all about it.
"""
from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np

from aoec.base.errors import UnsupportedError
from aoec.ir.index import Expr, evaluate, variables
from aoec.kernels import timeline as kernel
from aoec.simulate.bus import bus_stretch
from aoec.simulate.encode import MAX_AXES, PIPE, Encoded, Site
from aoec.simulate.reuse import Flow, Traffic, traffic
from aoec.simulate.state import State
from aoec.target.deal import dealt, longer
from aoec.target.instructions import INSTRUCTIONS

TICKS = kernel.TICKS_PER_CYCLE
MAX_CYCLES = 1e12  # of one instruction, so that sums stay far within int64
VARIES, DEPTH_RANGE = -8, -9  # errors of a row beside those of the kernel
Array = np.ndarray[Any, Any]


@dataclass
class Sized:
    """A size by class: `values` [row, axis...] with extent 1 or 3 (first, body, last) per axis."""

    values: Array
    first_differs: dict[int, Array] = field(default_factory=dict)  # axis -> bool[row]: first and body differ
    last_differs: dict[int, Array] = field(default_factory=dict)


@dataclass
class Filled:
    """What the kernel walks, for some rows. `moved` [row, entry, (hbm, l2)] bytes is filled when asked for."""

    tables: kernel.Tables
    status: Array
    site_of: Array  # entry -> site
    moved: Array
    traffic: Traffic


@dataclass
class Sizes:
    """What a site's costs are made of, by class: its fields, and the bytes that a transfer moves (0 where nothing crosses GM)."""

    fields: dict[str, Sized]
    layout: Layout
    gm_bytes: Array


class StreamValues:
    """Sizes of one stream's expressions by class, each evaluated once for all rows.

    Arrays are [row, axis...], one axis per loop or grid axis that any size of the stream depends on, in nest order.
    """

    def __init__(self, encoded: Encoded, stream: int, holes: Mapping[str, Array], status: Array) -> None:
        self.rows, self.status = len(status), status
        self.trips = {name: extent for s, name, extent in encoded.axes if s == stream}
        self.trips |= {loop.var: loop.trips for loop in encoded.loops if loop.stream == stream}
        self.axis = self.assign_axes(encoded, stream)
        column = (self.rows,) + (1,) * self.rank
        self.env: dict[str, Any] = {name: values.reshape(column) for name, values in holes.items()}
        self.dealt = {name: np.broadcast_to(np.maximum(longer(trips, name, self.trips[name], holes), 1), self.rows).reshape(column)
                      for name, trips in dealt(encoded.program.streams[stream]).items()}
        for name in self.axis:
            self.env[name] = self.samples(name)
        self.sizes: dict[Expr, Sized] = {}
        self.iterations: dict[str, Array] = {}

    def assign_axes(self, encoded: Encoded, stream: int) -> dict[str, int]:
        """Variable -> axis, for those that some size depends on; outer ones first. Loops beside each other share an axis: no size
        depends on both."""
        wanted = [e for site in encoded.sites if site.stream == stream for _, e in site.fields]
        wanted += [loop.trips for loop in encoded.loops if loop.stream == stream]
        needed = self.closure(frozenset().union(*[variables(e) for e in wanted]))
        around = {loop.var: loop.outer for loop in encoded.loops if loop.stream == stream}
        grid = [name for s, name, _ in encoded.axes if s == stream]
        out: dict[str, int] = {}
        for name in [name for name in self.trips if name in needed]:
            out[name] = 1 + max((out.get(o, 0) for o in (*grid, *around.get(name, ()))), default=0)
        self.rank = max(out.values(), default=0)
        if self.rank > MAX_AXES:
            raise UnsupportedError(f"sizes of stream {stream} depend on {self.rank} loops and axes, each in the one before; {MAX_AXES} at "
                                   "most can be timed")
        return out

    def layout(self, expressions: Collection[Expr]) -> Layout:
        """How the sizes of one place of the program, where loops lie in each other, are indexed."""
        names = self.closure(frozenset().union(*[variables(e) for e in expressions]))
        return Layout([self.size(e) for e in expressions], {n: x for n, x in self.axis.items() if n in names})

    def closure(self, names: frozenset[str]) -> frozenset[str]:
        """`names` and all variables that their trip counts depend on."""
        found: set[str] = set()
        todo = [n for n in names if n in self.trips]
        while todo:
            name = todo.pop()
            if name not in found:
                found.add(name)
                todo += [n for n in variables(self.trips[name]) if n in self.trips]
        return frozenset(found)

    def raw(self, e: Expr) -> Array:
        """The values of `e` at every sample of the variables it depends on."""
        value = np.asarray(evaluate(e, self.env))
        return value if value.ndim else np.full((self.rows,) + (1,) * self.rank, value)

    def samples(self, name: str) -> Array:
        """The first, second, last but one and last value of a variable, on its axis; short loops repeat their last.

        Where iterations are dealt out over an axis, the class of the first has `longer` cores: the first and last of these, then
        the others as above.
        """
        n = self.raw(self.trips[name])
        last = np.maximum(n - 1, 0)
        if name in self.dealt:
            head = self.dealt[name]
            inner = [np.where(head < n - 1, head, last), np.where(head < n - 1, n - 2, last)]
            return np.concatenate([0 * last, np.minimum(head - 1, last), *inner, last], axis=self.axis[name])
        inner = [np.where(n >= 3, 1, last), np.where(n >= 3, n - 2, last)]
        return np.concatenate([0 * last, *inner, last], axis=self.axis[name])

    def size(self, e: Expr) -> Sized:
        """The values of `e` by class; rows in which the inner samples differ get the error VARIES."""
        if e not in self.sizes:
            self.sizes[e] = self.by_class(self.raw(e))
        return self.sizes[e]

    def by_class(self, values: Array) -> Sized:
        for axis in range(1, values.ndim):
            for at, samples in ((0, 5), (1, 4)):  # pairs that must be equal
                if values.shape[axis] == samples:
                    self.status[differs(values, axis, at, at + 1) & (self.status == 0)] = VARIES
                    values = np.delete(values, at + 1, axis)
        axes = [axis for axis in range(1, values.ndim) if values.shape[axis] == 3]
        return Sized(values, {x: differs(values, x, kernel.FIRST, kernel.BODY) for x in axes},
                     {x: differs(values, x, kernel.LAST, kernel.BODY) for x in axes})

    def most(self, name: str) -> Array:
        """int64[row]: the most iterations that a loop or grid axis has, one where it has none."""
        return np.asarray(np.maximum(self.size(self.trips[name]).values.reshape(self.rows, -1).max(axis=1), 1))

    def by_class_of(self, name: str) -> Array:
        """How many iterations of a loop or grid axis with classes are of each, [row, axis...] with extent 3 on its own axis."""
        if name not in self.iterations:
            n = self.size(self.trips[name]).values
            first = np.clip(n - 1, 0, self.dealt.get(name, 1))
            self.iterations[name] = np.concatenate([first, np.maximum(n - 1 - first, 0), np.clip(n, 0, 1)], axis=self.axis[name])
        return self.iterations[name]

    def total(self, values: Array, names: tuple[str, ...]) -> Array:
        """[row]: the sum of `values` by class over all iterations of the loops and axes `names`, outermost first."""
        out = np.asarray(values, float)
        for name in reversed(names):
            x = self.axis.get(name, 0)
            if x and out.shape[x] > 1:
                out = (out * self.by_class_of(name)).sum(axis=x, keepdims=True)
            else:  # all iterations are alike
                out = out * np.maximum(self.size(self.trips[name]).values, 0)
        return out.reshape(self.rows)


def differs(values: Array, axis: int, a: int, b: int) -> Array:
    """bool[row]: whether positions a and b of an axis hold unequal values anywhere."""
    unequal = values.take(a, axis) != values.take(b, axis)
    return np.asarray(unequal.reshape(len(unequal), -1).any(axis=1))


def positions(first: bool, last: bool) -> tuple[list[int], Array]:
    """(classes kept, position of each class among them), where only those that differ from the body are kept apart."""
    if first and last:
        return [0, 1, 2], np.array([0, 1, 2])
    if first:
        return [0, 1], np.array([0, 1, 1])
    return ([1, 2], np.array([0, 0, 1])) if last else ([1], np.array([0, 0, 0]))


class Layout:
    """How one cursor indexes its part of a table: the classes kept per axis, and its step per class of each variable."""

    def __init__(self, sizes: list[Sized], axis: Mapping[str, int]) -> None:
        self.kept: dict[int, list[int]] = {}
        self.steps: dict[str, Array] = {}
        self.first: dict[str, Array] = {}
        self.last: dict[str, Array] = {}
        places: dict[str, Array] = {}
        for name, x in axis.items():
            users = [s for s in sizes if x in s.last_differs]
            if users:
                self.first[name] = reduce(np.logical_or, [s.first_differs[x] for s in users])
                self.last[name] = reduce(np.logical_or, [s.last_differs[x] for s in users])
                self.kept[x], places[name] = positions(bool(self.first[name].any()), bool(self.last[name].any()))
        self.entries = 1
        for name in reversed(places):
            self.steps[name] = places[name] * self.entries
            self.entries *= len(self.kept[axis[name]])

    def narrow(self, values: Array) -> Array:
        """`values` with only the classes kept."""
        for x, kept in self.kept.items():
            if values.shape[x] == 3:
                values = values.take(kept, x)
        return values

    def flatten(self, values: Any, rows: int, rank: int) -> Array:
        """[row, entry] of a result that broadcasts over the kept classes."""
        shape = (rows,) + tuple(len(self.kept.get(x, [1])) for x in range(1, rank + 1))
        return np.broadcast_to(values, shape).reshape(rows, -1)


def first_false(encoded: Encoded, rows: Mapping[str, Array], count: int) -> Array:
    """int32[row]: 1 + the index of the first constraint that is false, 0 where all hold."""
    status = np.zeros(count, np.int32)
    with np.errstate(divide="ignore", invalid="ignore"):
        for i, constraint in enumerate(encoded.program.constraints):
            status[(status == 0) & (evaluate(constraint.condition, rows) == 0)] = i + 1
    return status


class Tabulator:
    """Builds the tables of one batch of rows, all of which meet the program's constraints."""

    def __init__(self, encoded: Encoded, rows: Mapping[str, Array], count: int, state: State, detail: bool) -> None:
        self.encoded, self.machine, self.count, self.detail = encoded, encoded.machine, count, detail
        self.holes = {name: np.asarray(values, np.int64) for name, values in rows.items()}
        self.status = np.zeros(count, np.int32)
        self.state = state
        self.loops = max(1, len(encoded.loops))
        self.cursors: list[int] = []
        self.moves: list[list[tuple[int, Array]]] = [[] for _ in range(self.loops + max(1, len(encoded.axes)))]
        self.merge = np.broadcast_to(np.array([kernel.BODY] * 3, np.int8), (count, max(1, len(encoded.axes)), 3)).copy()
        self.variable = {(loop.stream, loop.var): i for i, loop in enumerate(encoded.loops)}
        self.variable |= {(s, name): self.loops + i for i, (s, name, _) in enumerate(encoded.axes)}
        self.cores = [self.grid_cores(s) for s in range(len(encoded.program.streams))]

    def fill(self) -> Filled:
        encoded = self.encoded
        with np.errstate(divide="ignore", invalid="ignore"):
            values = [StreamValues(encoded, s, self.holes, self.status) for s in range(len(encoded.program.streams))]
            cost, moved, site_of = self.sites(values)
            trips = self.trips(values)
        axis_start = [sum(s < stream for s, _, _ in encoded.axes) for stream in range(len(values) + 1)]
        start, cursor, step = self.dependents()
        tables = kernel.Tables(
            code=encoded.code, starts=encoded.starts, axis_start=np.array(axis_start, np.int32),
            form_start=np.cumsum([0] + [len(terms) for _, terms in encoded.forms], dtype=np.int32),
            form_register=np.array([r for _, terms in encoded.forms for r, _ in terms] or [0], np.int32),
            depend_start=start, depend_cursor=cursor, depend_step=step, cursor_base=np.array(self.cursors, np.int64),
            counter_of=np.array([r for r, _ in encoded.counters] or [0], np.int32), joined=np.array([int(encoded.joined)], np.int64),
            used=encoded.used, costs=self.costs(), queue=self.queues(), pipe_head=self.pipe_heads(), cost=cost, trips=trips,
            form_constant=self.columns([c for c, _ in encoded.forms]),
            form_coefficient=self.columns([c for _, terms in encoded.forms for _, c in terms]), depth=self.depths(),
            extent=self.columns([e for _, _, e in encoded.axes]), head=self.heads(values),
            merge=self.merge)
        return Filled(tables, self.status, site_of, moved, self.traffic)

    def evaluate(self, e: Expr) -> Array:
        """int64 values of an expression of holes, per row."""
        return np.asarray(evaluate(e, self.holes))

    def columns(self, expressions: list[Expr]) -> Array:
        """int64[row, expression]; one zero column where there is none."""
        out = np.zeros((self.count, max(1, len(expressions))), np.int64)
        for i, e in enumerate(expressions):
            out[:, i] = self.evaluate(e)
        return out

    def depths(self) -> Array:
        depths = self.columns([d for _, d in self.encoded.counters])
        if self.encoded.counters:
            self.status[(depths < 1).any(axis=1) & (self.status == 0)] = DEPTH_RANGE
        return np.maximum(depths, 1)

    def grid_cores(self, stream: int) -> Array:
        """int64[row]: cores that the grid of a stream takes."""
        extents = [self.evaluate(e) for s, _, e in self.encoded.axes if s == stream]
        return np.broadcast_to(np.prod(np.broadcast_arrays(np.int64(1), *extents), axis=0), (self.count,))

    def heads(self, values: list[StreamValues]) -> Array:
        """int64[row, axis]: how many coordinates of a grid axis are of its first class."""
        out = np.ones((self.count, max(1, len(self.encoded.axes))), np.int64)
        for i, (stream, name, _) in enumerate(self.encoded.axes):
            if name in values[stream].dealt:
                out[:, i] = values[stream].dealt[name].reshape(-1)
        return out

    def costs(self) -> Array:
        m = self.machine
        cycles = [round(c * TICKS) for c in (m.issue_cycles, m.flag_hop_cycles, m.cross_cycles, m.loop_cycles)]
        return np.array([*cycles[:3], m.flag_ids, m.cross_ids, m.cross_count, cycles[3]], np.int64)

    def queues(self) -> Array:
        """Instructions that a queue holds [stream]."""
        return np.array([self.machine.core(s.core).queue_depth for s in self.encoded.program.streams], np.int64)

    def pipe_heads(self) -> Array:
        """Ticks before a pipe that the stream uses first runs [row, stream, pipe]."""
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
        """Adds a cursor that starts at `base` and moves with the variables of its layout."""
        for name, step in layout.steps.items():
            which = self.variable[stream, name]
            if step.any():
                self.moves[which].append((len(self.cursors), step))
            if which >= self.loops:
                self.keep_apart(which - self.loops, layout.first[name], layout.last[name])
        self.cursors.append(base)

    def keep_apart(self, axis: int, first: Array, last: Array) -> None:
        """Cores at the first or last coordinate of a grid axis stay classes of their own in rows where a size differs."""
        self.merge[first, axis, kernel.FIRST] = kernel.FIRST
        self.merge[last, axis, kernel.LAST] = kernel.LAST

    def dependents(self) -> tuple[Array, Array, Array]:
        flat = [move for moves in self.moves for move in moves]
        start = np.cumsum([0] + [len(moves) for moves in self.moves], dtype=np.int32)
        steps = np.array([step for _, step in flat], np.int64).reshape(-1, 3)
        return start, np.array([c for c, _ in flat], np.int32), steps

    def sites(self, values: list[StreamValues]) -> tuple[Array, Array, Array]:
        """cost[row, entry, 4], moved[row, entry, 2] bytes (no entries where no detail is asked for), site[entry]."""
        blocks, moved, site_of, base = [], [], [], 0
        sizes = [self.sizes(site, values[site.stream]) for site in self.encoded.sites]
        self.charge_memory(sizes, values)
        for i, (site, size) in enumerate(zip(self.encoded.sites, sizes, strict=True)):
            stream, layout = values[site.stream], size.layout
            self.cursor(site.stream, layout, base)
            block, bytes_moved = self.price(site, size, stream.rank)
            blocks.append(block)
            moved.append(bytes_moved)
            site_of += [i] * layout.entries
            base += layout.entries
        if not blocks:
            return np.zeros((self.count, 1, 4), np.int64), np.zeros((self.count, 1, 2)), np.zeros(1, np.int64)
        return np.concatenate(blocks, axis=1), np.concatenate(moved, axis=1), np.array(site_of)

    def sizes(self, site: Site, stream: StreamValues) -> Sizes:
        fields = {name: stream.size(e) for name, e in site.fields}
        moved = np.zeros(1)
        if site.access:
            moved = evaluate(INSTRUCTIONS[site.op].gm_bytes, {n: s.values for n, s in fields.items()} | {"size": site.gm_size})
        return Sizes(fields, stream.layout([e for _, e in site.fields]), moved)

    def charge_memory(self, sizes: list[Sizes], values: list[StreamValues]) -> None:
        """Finds what of each site's traffic hits L2, from what all of them move."""
        flows: dict[Any, Flow] = {}
        for site, size in zip(self.encoded.sites, sizes, strict=True):
            if site.access:
                stream, a = values[site.stream], site.access
                largest, total = size.gm_bytes.reshape(self.count, -1).max(axis=1), stream.total(size.gm_bytes, a.grid + a.loops)
                before = flows.get(a, Flow(a, 0, 0))
                flows[a] = Flow(a, np.maximum(before.largest, largest), before.total + total)
        trips = [{name: stream.most(name) for name in stream.trips} for stream in values]
        self.traffic = traffic(self.encoded.program, self.machine, self.state, list(flows.values()), trips, self.holes)
        self.bus = bus_stretch(self.encoded.program, self.machine, list(flows.values()), self.traffic.shares)

    def price(self, site: Site, size: Sizes, rank: int) -> tuple[Array, Array]:
        """(ticks[row, entry, (busy, latency, unit, granule)], bytes[row, entry, (hbm, l2)]) of a site."""
        layout = size.layout
        fields = {name: layout.narrow(s.values) for name, s in size.fields.items()}
        env: dict[str, Any] = {**dict(site.numbers), **fields, "gm_bytes": 0.0, "hbm_bytes": 0.0, "l2_bytes": 0.0}
        env["cores"] = self.cores[site.stream].reshape((self.count,) + (1,) * rank)
        unit: Any = 0.0
        stretch: Any = 1.0  # of the core's bus
        whole: Any = 0.0  # cores that count as long as any of them runs
        if site.access:
            gm = layout.narrow(size.gm_bytes)
            share = upright(self.traffic.shares[site.access], rank)
            env |= {"gm_bytes": gm, "hbm_bytes": gm * share, "l2_bytes": gm - gm * share}
            through_l2 = env["l2_bytes"] + gm * env.get("atomic", 0)  # L2 reads what it adds to
            hbm, l2, both = (upright(x, rank) for x in (*self.traffic.crowding[site.access], self.traffic.both_ways))
            unit = env["hbm_bytes"] / self.machine.hbm_bytes_per_cycle * hbm + through_l2 / self.machine.l2_bytes_per_cycle * l2
            unit = unit * both * evaluate(site.timing.memory, env)
            stretch, whole = upright(self.bus[site.stream], rank), upright(self.traffic.waits_for[site.access], rank)
        cycles = (np.maximum(evaluate(site.timing.busy, env) * stretch, unit * whole), evaluate(site.timing.latency, env), unit)
        flat = [ticks(layout.flatten(x, self.count, rank)) for x in cycles]
        granule = np.where(np.asarray(env.get("unit", 0)) != 0, ticks(evaluate(site.timing.granule, env)), -1)
        flat.append(layout.flatten(granule, self.count, rank))
        moved = [layout.flatten(env[x], self.count, rank) for x in ("hbm_bytes", "l2_bytes")] if self.detail else []
        return np.stack(flat, axis=2), np.stack(moved, axis=2) if moved else np.zeros((self.count, 0, 2))

    def trips(self, values: list[StreamValues]) -> Array:
        """Trip counts [row, entry], with a cursor per loop."""
        blocks, base = [], 0
        for loop in self.encoded.loops:
            stream = values[loop.stream]
            size = stream.size(loop.trips)
            layout = stream.layout([loop.trips])
            self.cursor(loop.stream, layout, base)
            blocks.append(layout.flatten(layout.narrow(size.values), self.count, stream.rank))
            base += layout.entries
        if not blocks:
            self.cursors.append(0)
            return np.zeros((self.count, 1), np.int64)
        return np.ascontiguousarray(np.concatenate(blocks, axis=1), np.int64)


def upright(rows: Any, rank: int) -> Array:
    """A number, or a column [row], that meets arrays [row, axis...] of `rank` axes."""
    values = np.asarray(rows)
    return values.reshape(values.shape + (1,) * rank) if values.ndim else values


def ticks(cycles: Array) -> Array:
    """Cycles as whole ticks, half to even; what is below zero or not a number (a class that no iteration is of) counts as zero."""
    return np.asarray(np.rint(np.fmin(np.fmax(cycles, 0.0), MAX_CYCLES) * TICKS).astype(np.int64))
