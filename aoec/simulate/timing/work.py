"""How long the first core of each stream keeps its pipes at work, summed up in closed form for many rows at once.

An instruction's time depends on few loops, and these depend on few holes. So it is computed once for each different choice of those holes,
and the other loops around it multiply it. *Modelled*. It equals what `work_rows` of the timeline kernel finds iteration class by class,
except that all of GM's bytes hit L2 (tests/simulate/test_work.py). It takes a twentieth of that kernel's time.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from math import prod

import numpy as np

from aoec.ir.index import Binary, Expr, Var, children, variables
from aoec.kernels import timeline as kernel
from aoec.simulate.encode.encode import PIPE, Encoded, Site
from aoec.simulate.encode.sizes import Array, Choices, Dependence, Layout, StreamValues, dependence, size_exprs
from aoec.simulate.encode.tables import Around, costs, fixed_costs, rates_of
from aoec.target.isa.instructions import INSTRUCTIONS

MOST = 1 << 24  # combinations of classes and choices of one place that are looked at; its work is left out where there are more
MANY = 1 << 11  # rows from which on those that a pipe excludes are left out of the sums of the next
ORDER = [PIPE[name] for name in ("MTE1", "MTE2", "S", "FIXP", "M", "MTE3", "V")]  # in which pipes are summed up
ISSUED = (kernel.INSTR, kernel.SET, kernel.WAIT, kernel.EARLY_SET, kernel.EARLY_WAIT, kernel.CROSS_SET, kernel.CROSS_WAIT)


@dataclass(frozen=True)
class Place:
    """`count` instructions of a site with the same loops around them. `bound` holds the loops on which its sizes depend, and the loops
    whose trips depend on these. `apart` holds the others, in groups that do not depend on each other. Outer loops come first."""

    site: int
    count: int
    bound: tuple[str, ...]
    apart: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Outline:
    """What is counted of a stream. `places` are those of instructions. Ticks of the scalar unit are counted for an iteration of loops (in
    groups). `holes` are those on which any of it depends."""

    places: tuple[Place, ...]
    holes: frozenset[str]
    scalar: tuple[tuple[tuple[tuple[str, ...], ...], int], ...]


def first_core_work(encoded: Encoded, rows: Mapping[str, Array], opened: bool, limits: Array | None = None) -> tuple[Array, Array]:
    """Return ticks [row, stream, pipe] for which the first core of a stream keeps a pipe busy at the least, and the status of each row. The
    status is VARIES where the sizes are none of a table.

    `opened` says that some holes stand for all of their choices. In rows where a pipe is busy for their `limits`, other pipes may be 0.
    Pipes are summed up one after the other. Those that exclude most in the least time come first. Each pipe is summed up for the rows that
    are left, once these are so few that it pays to begin anew with them.
    """
    count = len(next(iter(rows.values()), (0,)))
    status = np.zeros(count, np.int32)
    out = np.zeros((count, len(encoded.program.streams), kernel.PIPE_COUNT), np.int64)
    with np.errstate(all="ignore"):
        for stream in range(out.shape[1]):
            own, core = np.arange(count), FirstCore(encoded, stream, FirstValues(encoded, stream, rows, status), opened)
            for pipe in core.pipes:
                if limits is not None and len(own) >= MANY:
                    left = own[(out[own, stream].max(axis=1) < limits[own]) | (core.values.status != 0)]
                    if not len(left):
                        break
                    if 2 * len(left) < len(own):
                        status[own] = core.values.status
                        own, some = left, {n: v[left] for n, v in rows.items()}
                        core = FirstCore(encoded, stream, FirstValues(encoded, stream, some, status[own]), opened)
                out[own, stream, pipe] += core.busy(pipe)
            status[own] = core.values.status
    return out, status


class FirstValues(StreamValues):
    """Sizes of the first core alone: of a grid axis only the first place is looked at, where all its classes took most of the time."""

    def samples(self, name: str) -> Array:
        if name not in self.on.grid:
            return super().samples(name)
        return np.zeros((len(self.choices(Var(name)).rows), *[1] * self.rank), np.int64)


class FirstCore:
    """The sums of one stream."""

    def __init__(self, encoded: Encoded, stream: int, values: StreamValues, opened: bool) -> None:
        self.encoded, self.machine, self.stream, self.values, self.opened = encoded, encoded.machine, stream, values, opened
        self.outline = outline(encoded, stream)
        self.grid = {name: extent for s, name, extent in encoded.axes if s == stream}
        self.counts: dict[tuple[str, ...], Array] = {}

    @property
    def pipes(self) -> list[int]:
        """Return the pipes that have work, in the order in which they are summed up."""
        used = {self.encoded.sites[place.site].pipe for place in self.outline.places} | ({PIPE["S"]} if self.outline.scalar else set())
        return [pipe for pipe in ORDER if pipe in used]

    def busy(self, pipe: int) -> Array:
        """Return int64[row, or 1]: ticks for which a pipe is busy."""
        out: Array = np.zeros(1, np.int64)
        for place in self.outline.places:
            site = self.encoded.sites[place.site]
            if site.pipe == pipe:
                out = out + place.count * self.work(place, site) * self.rounds(place.apart)
        for groups, ticks in self.outline.scalar if pipe == PIPE["S"] else ():
            out = out + ticks * self.rounds(groups)
        return out

    @cached_property
    def alike(self) -> Array:
        """Return int64[row]: how many cores are sure to do what the first does; one where sizes are none of a table."""
        status = np.zeros(self.values.rows, np.int32)
        values = StreamValues(self.encoded, self.stream, self.values.holes, status, self.values)
        cores = times([self.alike_along(name, parts, values) for name, parts in told_apart(self.encoded, self.stream).items()])
        return np.where(status == 0, cores, 1) if status.any() else cores

    def alike_along(self, name: str, parts: Sequence[Expr], values: StreamValues) -> Array:
        """Return int64[row]: the same along one grid axis, of whose cores these parts of sizes say which differ."""
        x, extent, sizes = values.axis.get(name, 0), values.size(self.grid[name]), [values.size(e) for e in parts]
        at = values.choices(Var(name), *parts)
        n = extent.at.of(at, extent.own.reshape(-1))
        heads = values.dealt[name].reshape(-1)[at.rows] if name in values.dealt else 1
        first = any_of([s.at.of(at, s.first_differs[x]) for s in sizes if x in s.first_differs])
        last = any_of([s.at.of(at, s.last_differs[x]) for s in sizes if x in s.last_differs])
        return at.spread(np.where(first, np.clip(n - 1, 1, heads), np.where(last, np.maximum(n - 1, 1), n)))

    def work(self, place: Place, site: Site) -> Array:
        """Return int64[row]: ticks of one instruction over the iterations of the loops on which it depends; 0 where these are too many."""
        exprs, trips = sizes_of(site), [self.values.trips[v] for v in place.bound]
        layout = self.values.layout([*exprs, *trips])
        at = self.values.choices(*exprs, *trips, *(self.grid.values() if asks_for_cores(site) else ()))
        if len(at.rows) * prod(layout.shape(self.values.rank)) > MOST:
            return np.zeros(1, np.int64)
        fields = {name: self.first(e, at, layout) if name in charged_fields(site) else np.int64(0) for name, e in site.fields}
        cores = times([self.first(e, at, layout) for e in self.grid.values()] if asks_for_cores(site) else [])
        (busy, _, unit, _), _ = costs(site, fields, Around(cores), rates_of(self.machine), True, self.opened)
        own = at.spread(self.sum_over(busy, place.bound, at, layout))
        return np.maximum(own, at.spread(self.sum_over(unit, place.bound, at, layout)) * self.alike) if site.access else own

    def first(self, e: Expr, at: Choices, layout: Layout) -> Array:
        """Return the values of a size [choice, axis...]."""
        size = self.values.size(e)
        return size.at.of(at, layout.narrow(size.own))

    def sum_over(self, values: Array, names: Sequence[str], at: Choices, layout: Layout) -> Array:
        """Return [choice]: the sum of values by class over all iterations of some loops."""
        out = np.asarray(values)
        for name in reversed(names):
            x, n = self.values.axis.get(name, 0), np.maximum(self.first(self.values.trips[name], at, layout), 0)
            if x and out.ndim > x and out.shape[x] > 1:
                out = times_classes(out, by_class(n, layout.kept[x]), x)
            else:
                out = out * n
        return np.broadcast_to(out.reshape(-1), len(at.rows))

    def rounds(self, groups: Iterable[tuple[str, ...]]) -> Array:
        """Return int64[row]: how often what stands in groups of loops is done."""
        return times([self.count_iterations(group) for group in groups])

    def count_iterations(self, names: tuple[str, ...]) -> Array:
        """Return int64[row]: the iterations of loops that depend on each other."""
        if names not in self.counts:
            trips = [self.values.trips[v] for v in names]
            layout, at = self.values.layout(trips), self.values.choices(*trips)
            self.counts[names] = at.spread(self.sum_over(np.ones((1,) * (1 + self.values.rank), np.int64), names, at, layout))
        return self.counts[names]


def times(factors: Sequence[Array]) -> Array:
    """Return the product of columns; 1 where there are none."""
    out: Array = np.ones(1, np.int64)
    for x in factors:
        out = out * x
    return out


def any_of(columns: Sequence[Array]) -> Array:
    """Return whether any column holds; where there are none, none does."""
    out: Array = np.zeros(1, bool)
    for x in columns:
        out = out | x
    return out


def by_class(n: Array, kept: list[int]) -> list[Array]:
    """Return how many of n iterations are of each class that is kept apart; the others are of the body's."""
    of = {k: count for k, count in ((0, np.minimum(np.maximum(n - 1, 0), 1)), (2, np.minimum(n, 1))) if k in kept}
    return [of[k] if k in of else reduce(np.subtract, of.values(), n) for k in kept]


def times_classes(values: Array, counts: Sequence[Array], axis: int) -> Array:
    """Return the sum of what is given by class along an axis, each so many times: class by class, since NumPy sums up along so short an
    axis in three times the time."""
    at = (slice(None),) * axis
    return reduce(np.add, [values[*at, k:k + 1] * count for k, count in enumerate(counts)])


def asks_for_cores(site: Site) -> bool:
    """Return whether an instruction's time depends on the number of cores."""
    return "cores" in variables(site.timing.busy) | variables(site.timing.memory)


def charged_fields(site: Site) -> frozenset[str]:
    """Return the names of fields that say how long an instruction keeps its pipe, or the memory."""
    moved = variables(INSTRUCTIONS[site.op].gm_bytes) | {"atomic"} if site.access else frozenset()
    names = variables(site.timing.busy) | variables(site.timing.memory) | moved
    return names | {f"{name.removesuffix('_last')}_at" for name in names}


def sizes_of(site: Site) -> list[Expr]:
    """Return those of a site's fields."""
    return [e for name, e in site.fields if name in charged_fields(site)]


def sites_of(encoded: Encoded, stream: int) -> list[Site]:
    """Return the sites of a stream."""
    return [site for site in encoded.sites if site.stream == stream]


def told_apart(encoded: Encoded, stream: int) -> dict[str, list[Expr]]:
    """Return, for each grid axis, the parts of sizes that depend on it, and on no other axis where that can be told. Cores along the axis
    do the same work where these parts are equal. The answer is found once for an encoded program."""
    key = "told apart", stream
    if key not in encoded.dependences:
        on = dependence(encoded, stream)
        parts = dict.fromkeys(part for e in size_exprs(encoded, stream) for part in parts_by_axis(e, on))
        encoded.dependences[key] = {name: [e for e in parts if name in on.closure(variables(e))] for name in on.grid}
    found: dict[str, list[Expr]] = encoded.dependences[key]
    return found


def parts_by_axis(e: Expr, on: Dependence) -> Iterator[Expr]:
    """Yield the largest parts of an expression that depend on one grid axis. A part may depend on several axes where a part of one axis
    alone grows with every core, such as what is left of an extent after the blocks along two axes. A loop whose trips depend on several
    axes counts as these do."""
    several = len(on.closure(variables(e)) & on.grid)
    if several == 1 or several and any(rises(x, on) for x in children(e)):
        yield e
    elif several:
        for x in children(e):
            yield from parts_by_axis(x, on)


def rises(e: Expr, on: Dependence) -> bool:
    """Return whether a grid axis is part of an expression by sums and products alone: then it has a value of its own on each core."""
    if isinstance(e, Binary) and e.op in "+-*":
        return rises(e.left, on) or rises(e.right, on)
    return isinstance(e, Var) and e.name in on.grid


def outline(encoded: Encoded, stream: int) -> Outline:
    """Return what of a stream is counted, found once for an encoded program."""
    key = "work", stream
    if key not in encoded.dependences:
        encoded.dependences[key] = outline_stream(encoded, stream)
    found: Outline = encoded.dependences[key]
    return found


def outline_stream(encoded: Encoded, stream: int) -> Outline:
    """Return what of a stream is counted."""
    on, costs_of = dependence(encoded, stream), fixed_costs(encoded.machine)
    issue, loop = int(costs_of[0]), int(costs_of[6])
    idle = {(x.stream, x.var) for x in encoded.loops if x.idle}
    sites: Counter[tuple[int, tuple[str, ...]]] = Counter()
    scalar: Counter[tuple[str, ...]] = Counter()
    for (op, a, _, _), place in zip(encoded.code.tolist(), encoded.places, strict=True):
        if place.stream != stream or any((stream, v) in idle for v in place.outer):
            continue
        if op == kernel.INSTR:
            sites[a, place.outer] += 1
        if op in ISSUED:
            scalar[place.outer] += issue
        elif op == kernel.LOOP and not encoded.loops[a].idle:
            scalar[*place.outer, encoded.loops[a].var] += loop
    places = []
    for (number, outer), count in sites.items():
        first, *rest = together(on, outer, on.closure(frozenset().union(*map(variables, sizes_of(encoded.sites[number])))))
        places.append(Place(number, count, first, tuple(rest)))
    holes = [on.holes_of(e) for site in sites_of(encoded, stream) for e in sizes_of(site)] + [on.holes_of(e) for e in on.trips.values()]
    groups = tuple((tuple(together(on, outer)[1:]), ticks) for outer, ticks in scalar.items())
    return Outline(tuple(places), frozenset().union(*holes), groups)


def together(on: Dependence, outer: tuple[str, ...], wanted: frozenset[str] = frozenset()) -> list[tuple[str, ...]]:
    """Return loops in groups of which none has trips that depend on another's; the first is that of the `wanted`."""
    groups = [set(wanted).intersection(outer)]
    for name in outer:
        own = on.closure(frozenset((name,))).intersection(outer)
        joined = [g for g in groups[1:] if g & own]
        if groups[0] & own:
            groups[0] |= own.union(*joined)
        elif own:
            joined.append(set(own))
        groups = [groups[0], *[g for g in groups[1:] if g not in joined]]
        if joined and not groups[0] & own:
            groups.append(set().union(*joined))
    return [tuple(v for v in outer if v in g) for g in groups]
