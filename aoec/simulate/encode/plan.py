"""How the tables of an encoded program are filled, found once for all rows: what `tables.Tabulator` calculates, noted on tapes.

Sizes by class are those of sizes.py, with a column for each combination of classes. So rows differ only in numbers, and the order of work
is known beforehand. Rows in which a size varies in another way are left to the Tabulator, which knows why.
"""
from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aoec.base.errors import UnsupportedError
from aoec.ir.index import Expr, evaluate
from aoec.ir.program import PIPES
from aoec.simulate.encode.encode import PIPE, Encoded, Site
from aoec.simulate.encode.lanes import brought, piece
from aoec.simulate.encode.plan_sizes import ALL, Array, Layout, Sized, shared_notes
from aoec.simulate.encode.tables import rates_of, ticks
from aoec.simulate.encode.tape import Tape, Traced
from aoec.simulate.timing.state import State
from aoec.simulate.timing.totals import CLOSED, Opened
from aoec.simulate.timing.work import told_apart

MOST = 1 << 17  # positions of a row, beyond which its tables are not filled so


class Group:
    """Sizes of a site that vary with the same axes, by combination of their classes."""

    def __init__(self, names: Sequence[str], sizes: Mapping[str, Sized], layout: Layout) -> None:
        axes = {x for name in names for x in sizes[name].last_differs}
        self.names = list(names)
        self.steps: list[tuple[str, int, int]] = []  # variable, its step here, its step in the site
        self.origin = [0, 0]  # of what these add up to (see Layout), in the site and here
        self.positions = 1
        for name, x, full in layout.steps:
            if x in axes:
                self.steps.append((name, self.positions, full))
                self.origin[0] -= full * (ALL - layout.classes[x])
                self.origin[1] -= self.positions * (ALL - layout.classes[x])
                self.positions *= layout.classes[x]
        order = [x for _, x, _ in reversed(layout.steps) if x in axes]
        rank = len(next(iter(sizes.values())).own.shape)
        shape = layout.shape(axes, rank)
        rest = tuple(x for x in range(rank) if x + 1 not in axes)
        self.registers = np.stack([np.broadcast_to(sizes[name].own.regs, shape).squeeze(rest).transpose(
            [sorted(axes).index(x) for x in order]).reshape(-1) for name in names], axis=1)


def together(sizes: Mapping[str, Sized]) -> list[list[str]]:
    """Return the sizes that vary at all, those with axes in common together."""
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
    """A site: how its entries are found, and what they cost; `reads` (register of the lanes, group or -1, field or register of the row)."""

    layout: Layout
    groups: list[Group]
    reads: list[tuple[int, int, int]]
    costs: list[int]


class Planner:
    """Notes what fills the tables of a program: see Tabulator for `lenient` and `opened`. `first`: the tables of the first core of each
    stream, in which no size varies with the grid; of the others it is said only which are sure to do the same (`told_apart`)."""

    def __init__(self, encoded: Encoded, state: State, lenient: bool = False, opened: Opened = CLOSED, first: bool = False) -> None:
        self.encoded, self.machine, self.state, self.lenient, self.opened = encoded, encoded.machine, state, lenient, opened
        self.noted = shared_notes(encoded, state)
        self.tape, self.lanes = self.noted.tape, Tape()
        self.holes, self.dealt, self.cores, self.whole = self.noted.holes, self.noted.dealt, self.noted.cores, self.noted.whole
        self.streams = self.noted.first if first else self.whole
        self.variable = {(loop.stream, loop.var): i for i, loop in enumerate(encoded.loops)}
        self.loops = max(1, len(encoded.loops))
        self.variable |= {(s, name): self.loops + i for i, (s, name, _) in enumerate(encoded.axes)}
        self.layouts: list[tuple[int, Layout]] = []

    def trips(self) -> list[tuple[Layout, Array]]:
        """Return the layout of each loop, and the register of each position. It is -1 for a loop that depends on slots, which each row
        fills itself."""
        out = []
        for loop in self.encoded.loops:
            layout = self.laid(loop.stream, [loop.trips])
            own = np.array([-1]) if loop.idle else layout.flat(self.streams[loop.stream].size(loop.trips).own)
            out.append((layout, own))
        return out

    def merge(self) -> Array:
        """Return int[loop or axis, (first, last)]: the register that is not 0 where a size differs there, -1 where none does in any row."""
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
        """Yield (stream, grid axis, its place among the axes of sizes, a part of sizes that varies with it), where the tables say no
        such."""
        for stream, (own, whole) in enumerate(zip(self.streams, self.whole)):
            for name, parts in told_apart(self.encoded, stream).items() if own is not whole else ():
                yield from ((stream, name, whole.axis.get(name, 0), whole.size(e)) for e in parts)

    def uneven(self) -> list[Array]:
        """Return registers that are not 0 where a size varies in other than the first and last iteration, of all that was asked for."""
        return [x for stream in dict.fromkeys([*self.streams, *self.whole]) for x in stream.uneven]

    def extents(self) -> tuple[Array, Array]:
        """Return (register of the extent of each grid axis; of how many of its coordinates are of the first class, -1: one)."""
        extent = [self.tape.either(evaluate(e, self.holes), False).register for _, _, e in self.encoded.axes]
        heads = [np.maximum(h[name], 1).register if name in (h := self.streams[s].heads) else -1 for s, name, _ in self.encoded.axes]
        return np.array(extent or [-1]), np.array(heads or [-1])

    def pipe_heads(self) -> Array:
        """Return int[stream, pipe]: the register of the ticks before a pipe first runs, -1: none."""
        streams, out = self.encoded.program.streams, np.full((len(self.streams), len(PIPES)), -1)
        used = {(site.stream, site.pipe) for site in self.encoded.sites}
        for i, stream in enumerate(streams):
            for pipe, cycles, per_core in self.machine.core(stream.core).heads:
                if (i, PIPE[pipe]) in used:
                    out[i, PIPE[pipe]] = self.tape.either(ticks(cycles + per_core * self.cores[i]), False).register
        return out

    def laid(self, stream: int, expressions: Collection[Expr]) -> Layout:
        """Return the layout of a place, noted among all."""
        layout = self.streams[stream].layout(expressions)
        if layout.positions > MOST:
            raise UnsupportedError("sizes vary with too many loops for tables of all their combinations")
        self.layouts.append((stream, layout))
        return layout

    def sites(self) -> list[SitePlan]:
        """Return all sites, in order."""
        encoded = self.encoded
        sizes = [{name: self.streams[site.stream].size(e) for name, e in site.fields} for site in encoded.sites]
        self.traffic, self.bus = self.noted.least_traffic(self.opened) if self.opened else self.noted.traffic
        out = []
        for site, sized in zip(encoded.sites, sizes):
            layout = self.laid(site.stream, [e for _, e in site.fields])
            out.append(self.site(site, sized, layout))
        return out

    def site(self, site: Site, sized: Mapping[str, Sized], layout: Layout) -> SitePlan:
        """Return how the costs of a site's entries follow from their sizes and the row's numbers."""
        groups = [Group(names, sized, layout) for names in together(sized)]
        at = {name: (g, f) for g, group in enumerate(groups) for f, name in enumerate(group.names)}
        plain = {name: self.streams[site.stream].raw(e) for name, e in site.fields}
        around: tuple[Any, ...] = (self.cores[site.stream],)
        if site.access:
            a, t = site.access, self.traffic
            around = *around, t.shares[a], *t.crowding[a], t.both_ways, self.bus[site.stream], t.waits_for[a]
        self.lanes.mark()
        columns = {name: s.own for name, s in sized.items() if isinstance(plain[name], Traced)}
        kinds = {name: brought(columns.get(name, plain[name])) for name in sized}
        own = piece(site, kinds, tuple(map(brought, around)), rates_of(self.machine), self.lenient, bool(self.opened))
        inputs, outputs = own.put(self.lanes)
        read = [at.get(name) or (-1, value.register) for name, value in columns.items()]
        read += [(-1, value.register) for value in around if isinstance(value, Traced)]
        return SitePlan(layout, groups, [(register, *of) for register, of in zip(inputs, read, strict=True)], outputs)
