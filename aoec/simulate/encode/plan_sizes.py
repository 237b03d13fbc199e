"""Sizes of a program's streams by class, and what its transfers move, noted on a tape: once for all plans of the program.

On an axis that is narrow (sizes.py: Dependence) two classes are told apart, and its first iteration is as those between. On other axes
three classes are.

Timing a candidate and finding its bounds use plans of their own (plan.py). These differ in how costs are charged, or in whether all cores
are looked at or the first alone. Sizes and traffic are the same.
"""
from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np

from aoec.ir.index import INT_CALLS, INT_OPS, Binary, Call, Expr, Float, Int, Var, evaluate, hole_names, variables
from aoec.kernels import columns as kernel
from aoec.simulate.encode.encode import Encoded
from aoec.simulate.encode.sizes import Dependence, dependence
from aoec.simulate.encode.tables import gm_bytes
from aoec.simulate.encode.tape import Tape, Traced
from aoec.simulate.timing.bus import bus_stretch
from aoec.simulate.timing.reuse import Flow, Traffic, least_traffic, traffic
from aoec.simulate.timing.state import State
from aoec.simulate.timing.totals import Opened
from aoec.target.isa.instructions import INSTRUCTIONS

Array = np.ndarray[Any, Any]
Values = Any  # Traced: NumPy's functions take it, and its types do not know
ALL, FEWER = 3, 2  # classes of a loop: first, body, last; those of a narrow axis: body, last
SHARED = 1 << 16  # columns of a tape that no further plan goes on with: it might not hold that plan's


@dataclass
class Sized:
    """A size by class, with an axis a loop as in sizes.py; axis -> whether the first (not of narrow ones), and the last, iteration
    differs from the others."""

    own: Values
    first_differs: dict[int, Array]
    last_differs: dict[int, Array]


class Layout:
    """How a cursor indexes its part of a table: (variable, axis, step) for each that moves it, and where something differs.

    A class moves it by its number times the step, from `origin` on: below zero, where the body of narrow axes, which is number one, has
    the first place.
    """

    def __init__(self, sizes: Sequence[Sized], axis: Mapping[str, int], narrow: Container[int]) -> None:
        self.steps: list[tuple[str, int, int]] = []
        self.differs: dict[str, tuple[list[Array], list[Array]]] = {}
        self.classes: dict[int, int] = {}  # by axis
        self.positions, self.origin = 1, 0
        for name, x in reversed(list(axis.items())):
            users = [s for s in sizes if x in s.last_differs]
            if users:
                self.differs[name] = [s.first_differs[x] for s in users if x in s.first_differs], [s.last_differs[x] for s in users]
                self.steps.append((name, x, self.positions))
                self.classes[x] = FEWER if x in narrow else ALL
                self.origin -= self.positions * (ALL - self.classes[x])
                self.positions *= self.classes[x]

    def shape(self, axes: Container[int], rank: int) -> tuple[int, ...]:
        """Return how many classes are told apart along each of so many axes, of those given."""
        return tuple(self.classes[x] if x in axes else 1 for x in range(1, rank + 1))

    def flat(self, values: Values) -> Array:
        """Return the register of each position, of what varies with axes of the layout at most."""
        axes = sorted(x for _, x, _ in self.steps)
        shape = self.shape(axes, values.regs.ndim)
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

    def __init__(self, on: Dependence, tape: Tape, holes: Mapping[str, Values], heads: Mapping[str, Values], first: bool) -> None:
        self.on, self.tape, self.holes, self.heads = on, tape, holes, heads
        self.still = self.on.grid if first else frozenset()  # variables that stay at 0
        self.axis, self.rank, self.extents = self.on.axis, self.on.rank, self.on.trips
        self.values: dict[Expr, Any] = {}
        self.sizes: dict[Expr, Sized] = {}
        self.uneven: list[Array] = []  # not 0 where a size varies in other than the first and last iteration

    def raw(self, e: Expr) -> Any:
        """Return the value of `e` at every sample of its variables, or by class where two parts of it that vary with other loops meet."""
        if e not in self.values:
            self.values[e] = self.evaluate(e)
        return self.values[e]

    def evaluate(self, e: Expr) -> Any:
        if isinstance(e, (Int, Float)):
            return e.value
        if isinstance(e, Var):
            return 0 if e.name in self.still else self.samples(e.name)
        if isinstance(e, (Binary, Call)):
            parts = [self.raw(x) for x in ((e.left, e.right) if isinstance(e, Binary) else e.args)]
            parts = self.align_parts(parts, isinstance(e, Binary) and e.op == "*")
            if isinstance(e, Binary):
                return INT_OPS[e.op](*parts)
            return np.ceil(parts[0]) if e.fn == "ceil" else np.floor(parts[0]) if e.fn == "floor" else INT_CALLS[e.fn](*parts)
        return self.upright(self.holes[e.name])  # type: ignore[attr-defined]

    def upright(self, column: Values) -> Values:
        """Return a column where all axes are of one sample."""
        return column.reshape((1,) * self.rank)

    def align_parts(self, parts: list[Any], apart: bool) -> list[Any]:
        """Return parts that can be combined: by class where one of them is.
        They are by class too where (`apart`) they vary with different loops, so that no more than what differs is combined."""
        shapes = [p.shape for p in parts if isinstance(p, Traced)]
        axes = [{x for x, n in enumerate(s) if n > 1} for s in shapes]
        if apart and len(axes) == 2 and axes[0] and axes[1] and not axes[0] & axes[1]:
            return [self.by_class(p) for p in parts]
        mixed = any(len({s[x] for s in shapes if s[x] > 1}) > 1 for x in range(self.rank))
        return [self.by_class(p) if mixed and isinstance(p, Traced) else p for p in parts]

    def samples(self, name: str) -> Values:
        """Return the first, second, last but one and last value of a variable on its axis. An axis over which iterations are dealt out has
        five samples. A narrow axis has three: its first and last stand for all values but the last."""
        key = Var(name)
        if key not in self.values:
            n = self.columns(self.raw(self.extents[name]))
            last = np.maximum(n - 1, 0)
            if name in self.heads:
                head = np.maximum(self.upright(self.heads[name]), 1)
                inner = [np.where(head < n - 1, head, last), np.where(head < n - 1, n - 2, last)]
                parts = [last * 0, np.minimum(head - 1, last), *inner, last]
            elif self.axis[name] in self.on.narrow:
                parts = [last * 0, np.where(n >= 3, n - 2, 0), last]
            else:
                parts = [last * 0, np.where(n >= 3, 1, last), np.where(n >= 3, n - 2, last), last]
            regs = np.concatenate(np.broadcast_arrays(*[p.regs for p in parts]), axis=self.axis[name] - 1)
            self.values[key] = Traced(self.tape, regs, False)
        return self.values[key]

    def columns(self, value: Any) -> Values:
        """Return a number or columns as columns of all axes."""
        if isinstance(value, Traced):
            return value if value.regs.ndim == self.rank else self.upright(value)
        return self.upright(self.tape.either(value, False))

    def by_class(self, value: Any) -> Values:
        """Return first, body and last of what was taken at samples, or body and last. Rows in which other samples differ, and must not, are
        noted as uneven."""
        value = self.columns(value)
        for axis in range(self.rank):
            for first, samples in ((0, 3),) if axis + 1 in self.on.narrow else ((0, 5), (1, 4)):  # pairs that must be equal
                if value.shape[axis] == samples:
                    self.uneven.append((_slice(value, axis, first) != _slice(value, axis, first + 1)).regs)
                    value = Traced(self.tape, value.regs.take([k for k in range(samples) if k != first + 1], axis), value.real)
        return value

    def size(self, e: Expr) -> Sized:
        """Return the values of `e` by class."""
        if e not in self.sizes:
            own = self.by_class(self.raw(e))
            axes = [x for x in range(1, self.rank + 1) if own.shape[x - 1] > 1]
            wide = [x for x in axes if x not in self.on.narrow]
            self.sizes[e] = Sized(own, {x: self.differs(own, x, kernel.FIRST - ALL) for x in wide},
                                  {x: self.differs(own, x, kernel.LAST - ALL) for x in axes})
        return self.sizes[e]

    def differs(self, values: Values, x: int, kind: int) -> Array:
        """Return where a class along an axis, counted from behind, is not as the body."""
        return (_slice(values, x - 1, kind) != _slice(values, x - 1, kernel.BODY - ALL)).regs

    def layout(self, expressions: Collection[Expr]) -> Layout:
        """Return how the sizes of one place of the program, where loops lie in each other, are indexed."""
        sizes = [self.size(e) for e in expressions]
        return Layout(sizes, {name: x for name, x in self.axis.items() if any(x in s.last_differs for s in sizes)
                              and name in self.on.closure(frozenset().union(*map(variables, expressions)))}, self.on.narrow)

    def most(self, name: str) -> Any:
        """Return the most iterations that a loop or grid axis has, one where it has none."""
        parts = self.size(self.extents[name]).own.regs.reshape(-1)
        return np.maximum(self.greatest(Traced(self.tape, parts, False)), 1)

    def greatest(self, values: Values) -> Values:
        """Return the greatest of some columns."""
        parts: list[Values] = [Traced(self.tape, np.int32(x), values.real) for x in np.unique(values.regs)]
        return reduce(lambda a, b: np.maximum(a, b), parts)

    def by_class_of(self, name: str) -> Values:
        """Return how many iterations of a loop or grid axis are of each class, along its own axis."""
        n, x = self.size(self.extents[name]).own, self.axis[name]
        last = np.minimum(np.maximum(n, 0), 1)
        if x in self.on.narrow:
            parts = [np.maximum(n - 1, 0), last]
        else:
            first = np.minimum(np.maximum(n - 1, 0), np.maximum(self.upright(self.heads[name]), 1) if name in self.heads else 1)
            parts = [first, np.maximum(n - 1 - first, 0), last]
        return Traced(self.tape, np.concatenate([p.regs for p in parts], axis=x - 1), False)

    def total(self, values: Values, names: tuple[str, ...]) -> Values:
        """Return the sum of what is given by class over all iterations of the loops and axes `names`, outermost first."""
        out = self.columns(values).astype(float)
        for name in reversed(names):
            x = self.axis.get(name, 0)
            if x and out.shape[x - 1] > 1:
                each = out * self.by_class_of(name)
                out = reduce(np.add, [_slice(each, x - 1, k, keep=True) for k in range(out.shape[x - 1])])
            else:  # all iterations are alike
                out = out * np.maximum(self.size(self.extents[name]).own, 0)
        return out.reshape(())


def _slice(value: Values, axis: int, at: int, keep: bool = False) -> Values:
    """Return one place along an axis."""
    return Traced(value.tape, value.regs.take([at] if keep else at, axis), value.real)


class Noted:
    """What the plans of a program in one memory state share: the tape, its inputs, sizes, and what of each site's traffic hits L2."""

    def __init__(self, encoded: Encoded, state: State) -> None:
        self.program, self.machine, self.sites, self.state, self.tape = encoded.program, encoded.machine, encoded.sites, state, Tape()
        self.holes = {name: self.tape.input() for name in input_holes(encoded)}
        self.on = [dependence(encoded, s) for s in range(len(encoded.program.streams))]
        self.dealt = [(s, name) for s, on in enumerate(self.on) for name in on.dealt]
        heads = {key: self.tape.input() for key in self.dealt}
        self.heads = [{n: h for (at, n), h in heads.items() if at == s} for s in range(len(self.on))]
        self.whole = self.streams(False)  # of all cores
        self.cores = [self.grid_cores(on) for on in self.on]

    def grid_cores(self, on: Dependence) -> Any:
        """Return cores that the grid of a stream takes."""
        return reduce(lambda a, b: a * b, [evaluate(e, self.holes) for name, e in on.trips.items() if name in on.grid], 1)

    @cached_property
    def first(self) -> list[StreamPlan]:
        """Return sizes on the first core of each stream."""
        return self.streams(True)

    def streams(self, first: bool) -> list[StreamPlan]:
        """Return sizes of each stream."""
        return [StreamPlan(on, self.tape, self.holes, heads, first) for on, heads in zip(self.on, self.heads)]

    @cached_property
    def flows(self) -> list[Flow]:
        """Return what each access moves (Tabulator.charge_memory)."""
        flows: dict[Any, Flow] = {}
        for site in self.sites:
            if site.access:
                stream, a = self.whole[site.stream], site.access
                asked = variables(INSTRUCTIONS[site.op].gm_bytes)
                moved = stream.columns(gm_bytes(site, {name: stream.size(e).own for name, e in site.fields if name in asked}))
                before = flows.get(a, Flow(a, 0, 0))
                flows[a] = Flow(a, np.maximum(before.largest, stream.greatest(moved)),
                                before.total + stream.total(moved, a.grid + a.loops))
        return list(flows.values())

    @cached_property
    def trips(self) -> list[Trips]:
        """Return the trip counts of each stream."""
        return [Trips(stream) for stream in self.whole]

    @cached_property
    def traffic(self) -> tuple[Traffic, list[Any]]:
        """Return (the traffic, the stretch of each stream's transfers) with every hole assigned."""
        found = traffic(self.program, self.machine, self.state, self.flows, self.trips, self.holes)
        return found, bus_stretch(self.program, self.machine, self.flows, found.shares)

    def least_traffic(self, opened: Opened) -> tuple[Traffic, list[Any]]:
        """Return the same while some holes are open."""
        found = least_traffic(self.program, self.machine, self.state, self.flows, self.trips, self.holes, opened.holes, opened.settled)
        return found, [1.0] * len(self.whole)


def shared_notes(encoded: Encoded, state: State) -> Noted:
    """Return what the plans of a program share. Programs that differ in flags alone share it too, where sizes depend on the same axes."""
    found_on = [dependence(encoded, s) for s in range(len(encoded.program.streams))]
    axes = tuple((tuple(on.axis.items()), on.narrow) for on in found_on)
    key = state, axes, tuple(input_holes(encoded))
    found: Noted | None = encoded.noted.get(key)
    if found is None or found.tape.columns > SHARED:
        found = encoded.noted[key] = Noted(encoded, state)
    return found


def input_holes(encoded: Encoded) -> list[str]:
    """Return the holes that a row of the tables is calculated from."""
    more = [loop.trips for loop in encoded.loops]
    return sorted(encoded.work_holes.union(*map(hole_names, more)) & set(encoded.holes))
