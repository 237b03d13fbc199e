"""Sizes of a stream's expressions by class, for a batch of rows of hole values.

A loop variable or grid axis takes, on an array axis of its own, the values of its first, second, last but one and last iteration. The inner
two must give equal sizes (else the row is an error). Then the classes first, body and last describe all iterations.

An expression is evaluated once for each different choice of the holes that it depends on, however many rows there are. Rows of a batch
differ in all their holes together, and a size depends on few of them.
"""
from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from aoec.base.errors import UnsupportedError
from aoec.ir.index import Binary, Call, Expr, Int, Var, evaluate, hole_names, variables, walk
from aoec.kernels import timeline as kernel
from aoec.simulate.encode.encode import MAX_AXES, Encoded
from aoec.target.legality.deal import dealt, longer

SPARSE = 4  # places a value, up to which different ones are looked up
APART = frozenset(("==", "!=", "<", "<=", ">", ">=", "%"))
VARIES = -8  # error of a row, beside those of the kernel
Array = np.ndarray[Any, Any]


@dataclass
class Sized:
    """A size by class: `own` [choice, axis...] with extent 1 or 3 (first, body, last) per axis, for the choices `at`."""

    own: Array
    at: Choices
    first_differs: dict[int, Array] = field(default_factory=dict)  # axis -> bool[choice]: first and body differ
    last_differs: dict[int, Array] = field(default_factory=dict)

    @property
    def values(self) -> Array:
        """Return the size of every row [row, axis...]."""
        return self.at.spread(self.own)


@dataclass(frozen=True)
class Choices:
    """The different values that some holes have together: a row of each, and for every row of the batch which of them it has."""

    rows: Array
    which: Array

    def spread(self, values: Array) -> Array:
        """Return `values` [choice, ...] for every row of the batch."""
        if len(values) == 1:
            return np.broadcast_to(values, (len(self.which), *values.shape[1:]))
        return values.take(self.which, 0)

    def of(self, others: Choices, values: Array) -> Array:
        """Return `values` [choice, ...] for each of other choices, which are of these holes and maybe more. One value stands for all where
        `values` has only one."""
        return values if len(values) == 1 else values.take(self.which[others.rows], 0)


class Dependence:
    """What the sizes of one stream depend on: the same for every batch of its rows."""

    def __init__(self, encoded: Encoded, stream: int) -> None:
        self.trips = {name: extent for s, name, extent in encoded.axes if s == stream}
        self.grid = frozenset(self.trips)
        self.trips |= {loop.var: loop.trips for loop in encoded.loops if loop.stream == stream}
        self.dealt = dealt(encoded.program.streams[stream])
        self.axis = self.assign_axes(encoded, stream)
        self.rank = max(self.axis.values(), default=0)
        self.narrow = self.narrow_axes(encoded, stream)
        self.known: dict[Expr, frozenset[str]] = {}
        if self.rank > MAX_AXES:
            raise UnsupportedError(f"sizes of stream {stream} depend on {self.rank} loops and axes, each in the one before; {MAX_AXES} at "
                                   "most can be timed")

    def assign_axes(self, encoded: Encoded, stream: int) -> dict[str, int]:
        """Return variable -> axis, for those that some size depends on; outer ones first. Loops beside each other share an axis: no size
        depends on both."""
        needed = self.closure(frozenset().union(*[variables(e) for e in size_exprs(encoded, stream)]))
        around = {loop.var: loop.outer for loop in encoded.loops if loop.stream == stream}
        grid = [name for s, name, _ in encoded.axes if s == stream]
        out: dict[str, int] = {}
        for name in [name for name in self.trips if name in needed]:
            out[name] = 1 + max((out.get(o, 0) for o in (*grid, *around.get(name, ()))), default=0)
        return out

    def narrow_axes(self, encoded: Encoded, stream: int) -> frozenset[int]:
        """Return the axes on which sizes are expected to differ in the last iteration alone, as those of tiles and their remainders do.
        This does not hold where an expression asks for its begin, such as the padding of an image. Rows in which it is not true are found
        (plan_sizes.py)."""
        begins = frozenset().union(self.dealt, *map(beginning, size_exprs(encoded, stream)))
        return frozenset(self.axis.values()) - {x for name, x in self.axis.items() if name in begins}

    def closure(self, names: frozenset[str]) -> frozenset[str]:
        """Return `names` and all variables that their trip counts depend on."""
        found: set[str] = set()
        todo = [n for n in names if n in self.trips]
        while todo:
            name = todo.pop()
            if name not in found:
                found.add(name)
                todo += [n for n in variables(self.trips[name]) if n in self.trips]
        return frozenset(found)

    def holes_of(self, e: Expr) -> frozenset[str]:
        """Return the holes that the samples of an expression depend on."""
        if e not in self.known:
            names = self.closure(variables(e))
            behind = [e, *[self.trips[n] for n in names], *[self.dealt[n] for n in names if n in self.dealt]]
            self.known[e] = frozenset().union(*map(hole_names, behind))
        return self.known[e]


def size_exprs(encoded: Encoded, stream: int) -> list[Expr]:
    """Return all sizes of a stream, each once. Cores in which they are equal do the same."""
    found = [e for site in encoded.sites if site.stream == stream for _, e in site.fields]
    return list(dict.fromkeys([*found, *[loop.trips for loop in encoded.loops if loop.stream == stream]]))


def beginning(e: Expr) -> frozenset[str]:
    """Return variables of which an expression may ask more than how far their end is: those under a `max`, in a remainder or a comparison,
    unless it is with what is no number."""
    found: frozenset[str] = frozenset()
    for part in walk(e):
        if isinstance(part, Call) and part.fn == "max" or isinstance(part, Binary) and part.op in APART:
            last = isinstance(part, Binary) and part.op == "==" and not any(isinstance(side, Int) for side in (part.left, part.right))
            found |= frozenset() if last else variables(part)
    return found


def dependence(encoded: Encoded, stream: int) -> Dependence:
    """Return what the sizes of a stream depend on, found once for an encoded program; UnsupportedError where that is too much to time."""
    if stream not in encoded.dependences:
        encoded.dependences[stream] = Dependence(encoded, stream)
    found: Dependence = encoded.dependences[stream]
    return found


class StreamValues:
    """Sizes of one stream's expressions by class, each evaluated once for all rows.

    Arrays are [row, axis...], one axis per loop or grid axis that any size of the stream depends on, in nest order. `same`: other values
    of the same stream and holes, which know already how the rows' choices differ.
    """

    def __init__(self, encoded: Encoded, stream: int, holes: Mapping[str, Array], status: Array, same: StreamValues | None = None) -> None:
        self.rows, self.status, self.holes = len(status), status, holes
        self.on = dependence(encoded, stream)
        self.trips, self.axis, self.rank = self.on.trips, self.on.axis, self.on.rank
        self.codes: dict[str, tuple[Array, int]] = same.codes if same else codes(holes)
        self.chosen: dict[frozenset[str], Choices] = same.chosen if same else {}
        self.sampled: dict[str, Array] = {}
        self.dealt = {name: np.broadcast_to(np.maximum(longer(trips, name, self.trips[name], holes), 1), self.rows).reshape(self.column)
                      for name, trips in self.on.dealt.items()}
        self.sizes: dict[Expr, Sized] = {}
        self.iterations: dict[str, Array] = {}

    @property
    def column(self) -> tuple[int, ...]:
        """Return the shape of what depends on holes alone."""
        return (-1,) + (1,) * self.rank

    def layout(self, expressions: Collection[Expr]) -> Layout:
        """Return how the sizes of one place of the program, where loops lie in each other, are indexed."""
        names = self.on.closure(frozenset().union(*[variables(e) for e in expressions]))
        return Layout([self.size(e) for e in expressions], {n: x for n, x in self.axis.items() if n in names})

    def choices(self, *expressions: Expr) -> Choices:
        """Return the different values that the holes have together on which expressions depend."""
        return self.chosen_by(frozenset().union(*map(self.on.holes_of, expressions)))

    def chosen_by(self, holes: frozenset[str]) -> Choices:
        """Return the different values that some holes have together."""
        names = holes.intersection(self.codes)
        if names not in self.chosen:
            self.chosen[names] = Choices(*together({name: self.codes[name] for name in names}, self.rows))
        return self.chosen[names]

    def raw(self, e: Expr, at: Choices) -> Array:
        """Return the values of `e` [choice, axis...] at every sample of the variables it depends on."""
        env: dict[str, Any] = {name: self.holes[name][at.rows].reshape(self.column) for name in hole_names(e)}
        for name in variables(e):
            env[name] = self.samples(name).take(self.choices(Var(name)).which[at.rows], 0)
        value = np.asarray(evaluate(e, env))
        return value if value.ndim else np.full((1,) * (1 + self.rank), value)

    def samples(self, name: str) -> Array:
        """Return the first, second, last but one and last value of a variable, on its axis; short loops repeat their last.

        Where iterations are dealt out over an axis, the class of the first has `longer` cores. The samples are then the first and last of
        these, and the others as above. [choice of what the variable depends on, axis...]
        """
        if name not in self.sampled:
            at = self.choices(Var(name))
            n = self.raw(self.trips[name], at)
            last = np.maximum(n - 1, 0)
            if name in self.dealt:
                head = self.dealt[name][at.rows]
                inner = [np.where(head < n - 1, head, last), np.where(head < n - 1, n - 2, last)]
                parts = [0 * last, np.minimum(head - 1, last), *inner, last]
            else:
                parts = [0 * last, np.where(n >= 3, 1, last), np.where(n >= 3, n - 2, last), last]
            shape = np.broadcast_shapes(*[p.shape for p in parts])
            self.sampled[name] = np.concatenate([np.broadcast_to(p, shape) for p in parts], axis=self.axis[name])
        return self.sampled[name]

    def size(self, e: Expr) -> Sized:
        """Return the values of `e` by class; rows in which the inner samples differ get the error VARIES."""
        if e not in self.sizes:
            at = self.choices(e)
            self.sizes[e] = self.by_class(self.raw(e, at), at)
        return self.sizes[e]

    def by_class(self, values: Array, at: Choices) -> Sized:
        for axis in range(1, values.ndim):
            for first, samples in ((0, 5), (1, 4)):  # pairs that must be equal
                if values.shape[axis] == samples:
                    if (uneven := differs(values, axis, first, first + 1)).any():
                        self.status[at.spread(uneven) & (self.status == 0)] = VARIES
                    values = values.take([k for k in range(samples) if k != first + 1], axis)
        axes = [axis for axis in range(1, values.ndim) if values.shape[axis] == 3]
        return Sized(values, at, {x: differs(values, x, kernel.FIRST, kernel.BODY) for x in axes},
                     {x: differs(values, x, kernel.LAST, kernel.BODY) for x in axes})

    def most(self, name: str) -> Array:
        """Return int64[row]: the most iterations that a loop or grid axis has, one where it has none."""
        return np.asarray(np.maximum(self.size(self.trips[name]).values.reshape(self.rows, -1).max(axis=1), 1))

    def by_class_of(self, name: str) -> Array:
        """Return how many iterations of a loop or grid axis with classes are of each, [row, axis...] with extent 3 on its own axis."""
        if name not in self.iterations:
            n = self.size(self.trips[name]).values
            first = np.clip(n - 1, 0, self.dealt.get(name, 1))
            self.iterations[name] = np.concatenate([first, np.maximum(n - 1 - first, 0), np.clip(n, 0, 1)], axis=self.axis[name])
        return self.iterations[name]

    def total(self, values: Array, names: tuple[str, ...]) -> Array:
        """Return [row]: the sum of `values` by class over all iterations of the loops and axes `names`, outermost first."""
        out = np.asarray(values, float)
        for name in reversed(names):
            x = self.axis.get(name, 0)
            if x and out.shape[x] > 1:
                out = (out * self.by_class_of(name)).sum(axis=x, keepdims=True)
            else:  # all iterations are alike
                out = out * np.maximum(self.size(self.trips[name]).values, 0)
        return out.reshape(self.rows)


def codes(holes: Mapping[str, Array]) -> dict[str, tuple[Array, int]]:
    """Return (number of its value, how many values there are) by hole, of those that have several."""
    found = {name: unique_values(values) for name, values in holes.items()}
    return {name: (which, len(first)) for name, (first, which) in found.items() if len(first) > 1}


def together(numbers: Mapping[str, tuple[Array, int]], count: int) -> tuple[Array, Array]:
    """Return (a row of each different choice of the holes together, which of them each of `count` rows has)."""
    first, code = np.zeros(min(count, 1), np.int64), np.zeros(count, np.int64)
    for _, (own, many) in sorted(numbers.items()):  # each time as few codes as there are, so that they never grow beyond int64
        first, code = unique_values(code * many + own)
    return first, code


def unique_values(values: Array) -> tuple[Array, Array]:
    """Return (where each different value comes first, the smallest value first; which of them each value is).
    Values near each other are looked up. Sorting takes ten times as long."""
    if not len(values):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    low = values.min()
    span = int(values.max()) - int(low) + 1
    if span > SPARSE * len(values) + SPARSE:
        _, first, which = np.unique(values, return_index=True, return_inverse=True)
        return first, which.reshape(-1)
    at, places = values - low, np.full(span, -1)
    places[at[::-1]] = np.arange(len(values) - 1, -1, -1)  # of equal ones the last that is put there stays
    there = places >= 0
    return places[there], (np.cumsum(there) - 1)[at]


def distinct(holes: Mapping[str, Array], count: int) -> tuple[Array, Array]:
    """Return `together` of plain columns."""
    return together(codes(holes), count)


def differs(values: Array, axis: int, a: int, b: int) -> Array:
    """Return bool[choice]: whether positions a and b of an axis hold unequal values anywhere."""
    at: tuple[Any, ...] = (slice(None),) * axis
    unequal = values[*at, a] != values[*at, b]
    return np.asarray(unequal.reshape(len(unequal), -1).any(axis=1))


def positions(first: bool, last: bool) -> tuple[list[int], Array]:
    """Return (classes kept, position of each class among them), where only those that differ from the body are kept apart."""
    if first and last:
        return [0, 1, 2], np.array([0, 1, 2])
    if first:
        return [0, 1], np.array([0, 1, 1])
    return ([1, 2], np.array([0, 0, 1])) if last else ([1], np.array([0, 0, 0]))


class Layout:
    """How one cursor indexes its part of a table: the classes kept per axis, and its step per class of each variable; `first`, `last`: by
    variable the sizes that differ there in some row, for which choices and where."""

    def __init__(self, sizes: list[Sized], axis: Mapping[str, int]) -> None:
        self.kept: dict[int, list[int]] = {}
        self.steps: dict[str, Array] = {}
        self.first: dict[str, list[tuple[Choices, Array]]] = {}
        self.last: dict[str, list[tuple[Choices, Array]]] = {}
        places: dict[str, Array] = {}
        for name, x in axis.items():
            users = [s for s in sizes if x in s.last_differs]
            if users:
                self.first[name] = [(s.at, s.first_differs[x]) for s in users if s.first_differs[x].any()]
                self.last[name] = [(s.at, s.last_differs[x]) for s in users if s.last_differs[x].any()]
                self.kept[x], places[name] = positions(bool(self.first[name]), bool(self.last[name]))
        self.entries = 1
        for name in reversed(places):
            self.steps[name] = places[name] * self.entries
            self.entries *= len(self.kept[axis[name]])

    def narrow(self, values: Array) -> Array:
        """Return `values` with only the classes kept."""
        for x, kept in self.kept.items():
            if values.shape[x] == 3:
                values = values.take(kept, x)
        return values

    def shape(self, rank: int) -> tuple[int, ...]:
        """Return how many classes are kept on each axis."""
        return tuple(len(self.kept.get(x, [1])) for x in range(1, rank + 1))

    def flatten(self, values: Any, rows: int, rank: int) -> Array:
        """Return [row, position] of a result that broadcasts over the kept classes."""
        return np.broadcast_to(values, (rows, *self.shape(rank))).reshape(rows, -1)


class Entries:
    """Which of a place's positions (its combinations of classes) differ within a row. A tail of a tail has 3 x 3 positions, and two
    entries.

    Sizes that vary with the same axes vary together. Others vary by themselves, and each such group has an axis of its own. An entry is one
    value of each group. `of` [pattern, position] is the entry that a position has, in rows of one pattern. `pattern` [row] is the pattern
    of a row.
    """

    def __init__(self, stream: StreamValues, layout: Layout, sizes: Mapping[str, Expr]) -> None:
        found = {name: stream.size(e) for name, e in sizes.items()}
        self.narrowed = {name: (layout.narrow(s.own), s.at) for name, s in found.items()}  # with only the classes kept
        positions = layout.shape(stream.rank)
        self.groups: list[Group] = []
        self.group_of: dict[str, int] = {}
        for names in self.together():
            self.group_of |= dict.fromkeys(names, len(self.groups))
            self.groups.append(Group({name: self.narrowed[name] for name in names}, stream.choices(*[sizes[name] for name in names])))
        self.shape = tuple(g.count for g in self.groups)
        self.count = prod(self.shape)
        first, self.pattern = together({str(i): (g.pattern[g.at.which], len(g.patterns)) for i, g in enumerate(self.groups)}, stream.rows)
        of, step = np.zeros((len(first), *positions), np.int32), self.count
        for g in self.groups:
            step //= g.count
            of += g.patterns[g.pattern[g.at.which[first]]] * np.int32(step)
        self.of = of.reshape(len(first), -1)

    def together(self) -> list[list[str]]:
        """Return the sizes that vary at all, those with axes in common together."""
        groups: list[tuple[set[int], list[str]]] = []
        for name, (own, _) in self.narrowed.items():
            axes = {x for x, n in enumerate(own.shape) if x and n > 1}
            if axes:
                joined = [g for g in groups if g[0] & axes]
                groups = [g for g in groups if g not in joined]
                groups.append((axes.union(*[g[0] for g in joined]), [n for g in joined for n in g[1]] + [name]))
        return [names for _, names in groups]

    def values(self, name: str, rows: Array) -> Array:
        """Return a size of some rows: [row or 1, value of each group or 1]."""
        at = self.group_of.get(name)
        if at is None:
            own, choices = self.narrowed[name]
            own = own.reshape((-1,) + (1,) * len(self.groups))
        else:
            own, choices = self.groups[at].values[name], self.groups[at].at
            own = own.reshape((len(own),) + (1,) * at + (-1,) + (1,) * (len(self.groups) - 1 - at))
        return own if len(own) == 1 else own.take(choices.which[rows], 0)


class Group:
    """Sizes that vary with the same axes, for the choices `at` of the holes that they depend on.

    `values` [size][choice, number]: those that they have together, `count` of them at most; `patterns` [pattern, axis...]: the number that
    a position has; `pattern` [choice]: which of these.
    """

    def __init__(self, sizes: Mapping[str, tuple[Array, Choices]], at: Choices) -> None:
        self.at = at
        axes = np.broadcast_shapes(*[own.shape[1:] for own, _ in sizes.values()])
        flat = {name: np.broadcast_to(own.take(its.which[at.rows], 0) if len(own) > 1 else own, (len(at.rows), *axes)).reshape(
            len(at.rows), -1) for name, (own, its) in sizes.items()}
        equal = np.logical_and.reduce([v[:, :, None] == v[:, None, :] for v in flat.values()])
        first = equal.argmax(axis=2)  # position that each one is equal to
        leads = first == np.arange(first.shape[1])
        number = np.cumsum(leads, axis=1) - 1
        self.count = int(number[:, -1].max(initial=0)) + 1
        leaders = np.argsort(~leads, axis=1, kind="stable")[:, :self.count]  # of fewer values some stand twice, and nobody asks for them
        self.values = {name: np.take_along_axis(v, leaders, 1) for name, v in flat.items()}
        patterns, pattern = np.unique(np.take_along_axis(number, first, 1).astype(np.int32), axis=0, return_inverse=True)
        self.patterns, self.pattern = patterns.reshape(-1, *axes), pattern.reshape(-1)
