"""The value tables of an encoded program for a batch of rows: every formula is evaluated here, none in the walk. Sizes: sizes.py."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from aoec.ir.index import Expr, evaluate
from aoec.kernels import timeline as kernel
from aoec.simulate.bus import bus_stretch
from aoec.simulate.encode import PIPE, Encoded, Site
from aoec.simulate.reuse import Flow, Traffic, traffic
from aoec.simulate.sizes import Array, Layout, Sized, StreamValues
from aoec.simulate.state import State
from aoec.target.instructions import INSTRUCTIONS

TICKS = kernel.TICKS_PER_CYCLE
MAX_CYCLES = 1e12  # of one instruction, so that sums stay far within int64
DEPTH_RANGE = -9  # error of a row, beside those of the kernel and of sizes


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
