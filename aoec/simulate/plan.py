"""How the tables of an encoded program are filled, found once for all rows: what `tables.Tabulator` calculates, noted on tapes.

Sizes by class are those of sizes.py, with each combination of classes a column of its own: so what differs between rows are numbers, and
the order of work is known beforehand. Rows in which a size varies in another way are left to the Tabulator, which knows why.
"""
from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from aoec.base.errors import UnsupportedError
from aoec.ir.index import INT_CALLS, INT_OPS, Binary, Call, Expr, Float, Int, Var, evaluate, hole_names, variables
from aoec.ir.program import PIPES
from aoec.kernels import columns as kernel
from aoec.simulate.bus import bus_stretch
from aoec.simulate.encode import PIPE, Encoded, Site
from aoec.simulate.reuse import Flow, Traffic, least_traffic, traffic
from aoec.simulate.sizes import dependence
from aoec.simulate.state import State
from aoec.simulate.tables import Around, costs, gm_bytes, ticks
from aoec.simulate.tape import Tape, Traced
from aoec.simulate.totals import CLOSED, Opened
from aoec.simulate.work import told_apart
from aoec.target.instructions import INSTRUCTIONS

Array = np.ndarray[Any, Any]
Values = Any  # Traced: NumPy's functions take it, and its types do not know
MOST = 1 << 17  # positions of a row, beyond which its tables are not filled so
SAMPLES = 3  # classes of a loop: first, body, last


@dataclass
class Sized:
    """A size by class, with an axis a loop as in sizes.py; axis -> whether the first, and the last, iteration differs from the others."""

    own: Values
    first_differs: dict[int, Array]
    last_differs: dict[int, Array]


class Layout:
    """How a cursor indexes its part of a table: (variable, axis, step) for each that moves it, and where something differs."""

    def __init__(self, sizes: Sequence[Sized], axis: Mapping[str, int]) -> None:
        self.steps: list[tuple[str, int, int]] = []
        self.differs: dict[str, tuple[list[Array], list[Array]]] = {}
        self.positions = 1
        for name, x in reversed(list(axis.items())):
            users = [s for s in sizes if x in s.last_differs]
            if users:
                self.differs[name] = [s.first_differs[x] for s in users], [s.last_differs[x] for s in users]
                self.steps.append((name, x, self.positions))
                self.positions *= SAMPLES

    def flat(self, values: Values) -> Array:
        """The register of each position, of what varies with axes of the layout at most."""
        axes = sorted(x for _, x, _ in self.steps)
        shape = tuple(SAMPLES if x in axes else 1 for x in range(1, values.regs.ndim + 1))
        order = [x for _, x, _ in reversed(self.steps)]
        spread = np.broadcast_to(values.regs, shape).squeeze(tuple(x - 1 for x in range(1, len(shape) + 1) if x not in axes))
        return np.ascontiguousarray(spread.transpose([axes.index(x) for x in order])).reshape(-1)


class Trips(dict[str, Any]):
    """Trip counts by loop, found when they are asked for."""

    def __init__(self, stream: StreamPlan) -> None:
        self.stream = stream

    def __missing__(self, name: str) -> Any:
        self[name] = self.stream.most(name)
        return self[name]


class StreamPlan:
    """Sizes of one stream's expressions by class (sizes.StreamValues), on a tape; `first`: on the first core alone."""

    def __init__(self, encoded: Encoded, stream: int, tape: Tape, holes: Mapping[str, Values], heads: Mapping[str, Values],
                 first: bool = False) -> None:
        self.tape, self.holes, self.heads = tape, holes, heads
        self.on = dependence(encoded, stream)
        self.still = self.on.grid if first else frozenset()  # variables that stay at 0
        self.axis, self.rank, self.extents = self.on.axis, self.on.rank, self.on.trips
        self.values: dict[Expr, Any] = {}
        self.sizes: dict[Expr, Sized] = {}
        self.uneven: list[Array] = []  # not 0 where a size varies in other than the first and last iteration

    def raw(self, e: Expr) -> Any:
        """The value of `e` at every sample of its variables, or by class where two parts of it that vary with other loops meet."""
        if e not in self.values:
            self.values[e] = self.found(e)
        return self.values[e]

    def found(self, e: Expr) -> Any:
        if isinstance(e, (Int, Float)):
            return e.value
        if isinstance(e, Var):
            return 0 if e.name in self.still else self.samples(e.name)
        if isinstance(e, (Binary, Call)):
            parts = [self.raw(x) for x in ((e.left, e.right) if isinstance(e, Binary) else e.args)]
            parts = self.aligned(parts, isinstance(e, Binary) and e.op == "*")
            if isinstance(e, Binary):
                return INT_OPS[e.op](*parts)
            return np.ceil(parts[0]) if e.fn == "ceil" else np.floor(parts[0]) if e.fn == "floor" else INT_CALLS[e.fn](*parts)
        return self.upright(self.holes[e.name])  # type: ignore[attr-defined]

    def upright(self, column: Values) -> Values:
        """A column where all axes are of one sample."""
        return column.reshape((1,) * self.rank)

    def aligned(self, parts: list[Any], apart: bool) -> list[Any]:
        """Parts that can meet: by class where one of them is, or where (`apart`) they vary with different loops, so that no more than what
        differs need be combined."""
        shapes = [p.shape for p in parts if isinstance(p, Traced)]
        axes = [{x for x, n in enumerate(s) if n > 1} for s in shapes]
        if apart and len(axes) == 2 and axes[0] and axes[1] and not axes[0] & axes[1]:
            return [self.by_class(p) for p in parts]
        mixed = any(len({s[x] for s in shapes if s[x] > 1}) > 1 for x in range(self.rank))
        return [self.by_class(p) if mixed and isinstance(p, Traced) else p for p in parts]

    def samples(self, name: str) -> Values:
        """The first, second, last but one and last value of a variable on its axis; of one over which iterations are dealt out five."""
        key = Var(name)
        if key not in self.values:
            n = self.columns(self.raw(self.extents[name]))
            last = np.maximum(n - 1, 0)
            if name in self.heads:
                head = np.maximum(self.upright(self.heads[name]), 1)
                inner = [np.where(head < n - 1, head, last), np.where(head < n - 1, n - 2, last)]
                parts = [last * 0, np.minimum(head - 1, last), *inner, last]
            else:
                parts = [last * 0, np.where(n >= 3, 1, last), np.where(n >= 3, n - 2, last), last]
            regs = np.concatenate(np.broadcast_arrays(*[p.regs for p in parts]), axis=self.axis[name] - 1)
            self.values[key] = Traced(self.tape, regs, False)
        return self.values[key]

    def columns(self, value: Any) -> Values:
        """A number or columns as columns of all axes."""
        if isinstance(value, Traced):
            return value if value.regs.ndim == self.rank else self.upright(value)
        return self.upright(self.tape.either(value, False))

    def by_class(self, value: Any) -> Values:
        """First, body and last of what was taken at samples; rows in which the inner samples differ are noted as uneven."""
        value = self.columns(value)
        for axis in range(self.rank):
            for first, samples in ((0, 5), (1, 4)):  # pairs that must be equal
                if value.shape[axis] == samples:
                    self.uneven.append((_slice(value, axis, first) != _slice(value, axis, first + 1)).regs)
                    value = Traced(self.tape, np.delete(value.regs, first + 1, axis), value.real)
        return value

    def size(self, e: Expr) -> Sized:
        """The values of `e` by class."""
        if e not in self.sizes:
            own = self.by_class(self.raw(e))
            axes = [x for x in range(1, self.rank + 1) if own.shape[x - 1] > 1]
            differs = [{x: (_slice(own, x - 1, k) != _slice(own, x - 1, kernel.BODY)).regs for x in axes}
                       for k in (kernel.FIRST, kernel.LAST)]
            self.sizes[e] = Sized(own, *differs)
        return self.sizes[e]

    def layout(self, expressions: Collection[Expr]) -> Layout:
        """How the sizes of one place of the program, where loops lie in each other, are indexed."""
        sizes = [self.size(e) for e in expressions]
        return Layout(sizes, {name: x for name, x in self.axis.items() if any(x in s.last_differs for s in sizes)
                              and name in self.on.closure(frozenset().union(*map(variables, expressions)))})

    def most(self, name: str) -> Any:
        """The most iterations that a loop or grid axis has, one where it has none."""
        parts = self.size(self.extents[name]).own.regs.reshape(-1)
        return np.maximum(self.greatest(Traced(self.tape, parts, False)), 1)

    def greatest(self, values: Values) -> Values:
        """The greatest of some columns."""
        parts: list[Values] = [Traced(self.tape, np.int32(x), values.real) for x in np.unique(values.regs)]
        return reduce(lambda a, b: np.maximum(a, b), parts)

    def by_class_of(self, name: str) -> Values:
        """How many iterations of a loop or grid axis are of each class, along its own axis."""
        n = self.size(self.extents[name]).own
        first = np.minimum(np.maximum(n - 1, 0), np.maximum(self.upright(self.heads[name]), 1) if name in self.heads else 1)
        parts = [first, np.maximum(n - 1 - first, 0), np.minimum(np.maximum(n, 0), 1)]
        return Traced(self.tape, np.concatenate([p.regs for p in parts], axis=self.axis[name] - 1), False)

    def total(self, values: Values, names: tuple[str, ...]) -> Values:
        """The sum of what is given by class over all iterations of the loops and axes `names`, outermost first."""
        out = self.columns(values).astype(float)
        for name in reversed(names):
            x = self.axis.get(name, 0)
            if x and out.shape[x - 1] > 1:
                each = out * self.by_class_of(name)
                out = reduce(np.add, [_slice(each, x - 1, k, keep=True) for k in range(SAMPLES)])
            else:  # all iterations are alike
                out = out * np.maximum(self.size(self.extents[name]).own, 0)
        return out.reshape(())


def _slice(value: Values, axis: int, at: int, keep: bool = False) -> Values:
    """One place along an axis."""
    return Traced(value.tape, value.regs.take([at] if keep else at, axis), value.real)


class Group:
    """Sizes of a site that vary with the same axes, by combination of their classes."""

    def __init__(self, names: Sequence[str], sizes: Mapping[str, Sized], layout: Layout) -> None:
        axes = {x for name in names for x in sizes[name].last_differs}
        self.names = list(names)
        self.steps: list[tuple[str, int, int]] = []  # variable, its step here, its step in the site
        self.positions = 1
        for name, x, full in layout.steps:
            if x in axes:
                self.steps.append((name, self.positions, full))
                self.positions *= SAMPLES
        order = [x for _, x, _ in reversed(layout.steps) if x in axes]
        rank = len(next(iter(sizes.values())).own.shape)
        shape = tuple(SAMPLES if x in axes else 1 for x in range(1, rank + 1))
        rest = tuple(x for x in range(rank) if x + 1 not in axes)
        self.registers = np.stack([np.broadcast_to(sizes[name].own.regs, shape).squeeze(rest).transpose(
            [sorted(axes).index(x) for x in order]).reshape(-1) for name in names], axis=1)


def together(sizes: Mapping[str, Sized]) -> list[list[str]]:
    """The sizes that vary at all, those with axes in common together."""
    groups: list[tuple[set[int], list[str]]] = []
    for name, size in sizes.items():
        axes = set(size.last_differs)
        if axes:
            joined = [g for g in groups if g[0] & axes]
            groups = [g for g in groups if g not in joined]
            groups.append((axes.union(*[g[0] for g in joined]), [n for g in joined for n in g[1]] + [name]))
    return [names for _, names in groups]


@dataclass
class SitePlan:
    """A site: how its entries are found, and what they cost; `reads` (column of the lanes, group or -1, field or column of the row)."""

    layout: Layout
    groups: list[Group]
    reads: list[tuple[Traced, int, int]]
    costs: list[Traced]


class Planner:
    """Notes what fills the tables of a program: see Tabulator for `lenient` and `opened`. `first`: the tables of the first core of each
    stream, in which no size varies with the grid; of the others it is said only which are sure to do the same (`told_apart`)."""

    def __init__(self, encoded: Encoded, state: State, lenient: bool = False, opened: Opened = CLOSED, first: bool = False) -> None:
        self.encoded, self.machine, self.state, self.lenient, self.opened = encoded, encoded.machine, state, lenient, opened
        self.tape, self.lanes = Tape(), Tape()
        streams = range(len(encoded.program.streams))
        self.holes = {name: self.tape.input() for name in input_holes(encoded)}
        self.dealt = [(s, name) for s in streams for name in dependence(encoded, s).dealt]
        heads = {key: self.tape.input() for key in self.dealt}
        own = [{n: h for (at, n), h in heads.items() if at == s} for s in streams]
        self.whole = [StreamPlan(encoded, s, self.tape, self.holes, own[s]) for s in streams]  # of all cores
        self.streams = [StreamPlan(encoded, s, self.tape, self.holes, own[s], True) for s in streams] if first else self.whole
        self.variable = {(loop.stream, loop.var): i for i, loop in enumerate(encoded.loops)}
        self.loops = max(1, len(encoded.loops))
        self.variable |= {(s, name): self.loops + i for i, (s, name, _) in enumerate(encoded.axes)}
        self.layouts: list[tuple[int, Layout]] = []
        self.cores = [self.grid_cores(s) for s in streams]

    def grid_cores(self, stream: int) -> Any:
        """Cores that the grid of a stream takes."""
        return reduce(lambda a, b: a * b, [evaluate(e, self.holes) for s, _, e in self.encoded.axes if s == stream], 1)

    def trips(self) -> list[tuple[Layout, Array]]:
        """Of each loop its layout, and the register of each position; -1 where slots have a say, which are a row's own."""
        out = []
        for loop in self.encoded.loops:
            layout = self.laid(loop.stream, [loop.trips])
            own = np.array([-1]) if loop.idle else layout.flat(self.streams[loop.stream].size(loop.trips).own)
            out.append((layout, own))
        return out

    def merge(self) -> Array:
        """int[loop or axis, (first, last)]: the register that is not 0 where a size differs there, -1 where none does in any row."""
        out = np.full((self.loops + max(1, len(self.encoded.axes)), 2), -1)
        found: dict[tuple[int, int], list[Array]] = {}
        for stream, layout in self.layouts:
            for name, parts in layout.differs.items():
                for k in range(2):
                    found.setdefault((self.variable[stream, name], k), []).extend(parts[k])
        for stream, name, x, size in self.told_apart():
            for k, differs in enumerate((size.first_differs, size.last_differs)):
                found.setdefault((self.variable[stream, name], k), []).extend([differs[x]] if x in differs else [])
        for at, columns in found.items():
            out[at] = any_of.register if (any_of := self.tape.any(columns)) is not None else -1
        return out

    def told_apart(self) -> Iterator[tuple[int, str, int, Sized]]:
        """(stream, grid axis, its place among the axes of sizes, a part of sizes that varies with it), where the tables say no such."""
        for stream, (own, whole) in enumerate(zip(self.streams, self.whole)):
            for name, parts in told_apart(self.encoded, stream).items() if own is not whole else ():
                yield from ((stream, name, whole.axis.get(name, 0), whole.size(e)) for e in parts)

    def uneven(self) -> list[Array]:
        """Not 0 where a size varies in other than the first and last iteration, of all that was asked for."""
        return [x for stream in dict.fromkeys([*self.streams, *self.whole]) for x in stream.uneven]

    def extents(self) -> tuple[Array, Array]:
        """(register of the extent of each grid axis; of how many of its coordinates are of the first class, -1: one)."""
        extent = [self.tape.either(evaluate(e, self.holes), False).register for _, _, e in self.encoded.axes]
        heads = [np.maximum(h[name], 1).register if name in (h := self.streams[s].heads) else -1 for s, name, _ in self.encoded.axes]
        return np.array(extent or [-1]), np.array(heads or [-1])

    def pipe_heads(self) -> Array:
        """int[stream, pipe]: the register of the ticks before a pipe first runs, -1: none."""
        streams, out = self.encoded.program.streams, np.full((len(self.streams), len(PIPES)), -1)
        used = {(site.stream, site.pipe) for site in self.encoded.sites}
        for i, stream in enumerate(streams):
            for pipe, cycles, per_core in self.machine.core(stream.core).heads:
                if (i, PIPE[pipe]) in used:
                    out[i, PIPE[pipe]] = self.tape.either(ticks(cycles + per_core * self.cores[i]), False).register
        return out

    def laid(self, stream: int, expressions: Collection[Expr]) -> Layout:
        """The layout of a place, noted among all."""
        layout = self.streams[stream].layout(expressions)
        if layout.positions > MOST:
            raise UnsupportedError("sizes vary with too many loops for tables of all their combinations")
        self.layouts.append((stream, layout))
        return layout

    def sites(self) -> list[SitePlan]:
        """All sites, in order."""
        encoded = self.encoded
        sizes = [{name: self.streams[site.stream].size(e) for name, e in site.fields} for site in encoded.sites]
        self.charge_memory()
        out = []
        for site, sized in zip(encoded.sites, sizes):
            layout = self.laid(site.stream, [e for _, e in site.fields])
            out.append(self.site(site, sized, layout))
        return out

    def charge_memory(self) -> None:
        """Notes what of each site's traffic hits L2, from what all of them move (Tabulator.charge_memory)."""
        program, trips = self.encoded.program, [Trips(stream) for stream in self.whole]
        self.traffic: Traffic
        self.bus: list[Any] = [1.0] * len(self.streams)
        flows: dict[Any, Flow] = {}
        for site in self.encoded.sites:
            if site.access:
                stream, a = self.whole[site.stream], site.access
                asked = variables(INSTRUCTIONS[site.op].gm_bytes)
                moved = stream.columns(gm_bytes(site, {name: stream.size(e).own for name, e in site.fields if name in asked}))
                before = flows.get(a, Flow(a, 0, 0))
                flows[a] = Flow(a, np.maximum(before.largest, stream.greatest(moved)),
                                before.total + stream.total(moved, a.grid + a.loops))
        of = program, self.machine, self.state, list(flows.values()), trips, self.holes
        if self.opened:
            self.traffic = least_traffic(*of, self.opened.holes, self.opened.settled)
            return
        self.traffic = traffic(*of)
        self.bus = bus_stretch(program, self.machine, list(flows.values()), self.traffic.shares)

    def site(self, site: Site, sized: Mapping[str, Sized], layout: Layout) -> SitePlan:
        """How the costs of a site's entries follow from their sizes and the row's numbers."""
        groups = [Group(names, sized, layout) for names in together(sized)]
        at = {name: (g, f) for g, group in enumerate(groups) for f, name in enumerate(group.names)}
        reads: list[tuple[Traced, int, int]] = []
        self.lanes.mark()

        def brought(value: Any, group: int = -1, field: int = 0) -> Any:
            if not isinstance(value, Traced):
                return value
            own = self.lanes.input()
            reads.append((own, group, field if group >= 0 else value.register))
            return Traced(self.lanes, own.regs, value.real)

        plain = {name: self.streams[site.stream].raw(e) for name, e in site.fields}
        fields = {name: plain[name] if not isinstance(plain[name], Traced) else brought(s.own, *at[name]) if name in at
                  else brought(s.own.reshape(())) for name, s in sized.items()}
        around = Around(brought(self.cores[site.stream]))
        if site.access:
            a, t = site.access, self.traffic
            around = Around(around.cores, *map(brought, (t.shares[a], *t.crowding[a], t.both_ways, self.bus[site.stream], t.waits_for[a])))
        parts, _ = costs(site, fields, around, self.machine, self.lenient, bool(self.opened))
        return SitePlan(layout, groups, reads, [self.lanes.either(p, False) for p in parts])


def input_holes(encoded: Encoded) -> list[str]:
    """The holes that a row of the tables is calculated from."""
    more = [loop.trips for loop in encoded.loops]
    return sorted(encoded.work_holes.union(*map(hole_names, more)) & set(encoded.holes))
