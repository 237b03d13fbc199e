"""Holes of a sketch by kind, for a proof: which say what a core does, which cut that finer, which only count slots; and how slots fit."""
from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from aoec.ir.index import Expr, Known, evaluate, hole_names, walk
from aoec.search.proof.parts import Bounds, Part
from aoec.search.space.grid import Grid, Rows

INNER = ("h0", "w0", "tk", "sk", "rk", "uc", "pl")  # in the order in which they are assigned
LEAST = ("pl",)  # of inner ones those that add work the larger they are
SWITCHES = ("uf",)  # change when something is done, not what


class Grown(Rows):
    """Columns of rows that came of others by one more hole, each made when it is asked for; `source`: the row that each came of."""

    def __init__(self, columns: Rows, source: np.ndarray, newest: str, values: np.ndarray) -> None:
        super().__init__({newest: values})
        self.columns, self.source = columns, source

    def __missing__(self, name: str) -> np.ndarray:
        self[name] = self.columns[name][self.source]
        return self[name]


class Kinds:
    """One sketch of a proof: its holes by kind, its constraints by the holes that they ask about."""

    def __init__(self, number: int, grid: Grid, bounds: Bounds) -> None:
        self.number, self.grid, self.bounds = number, grid, bounds
        self.choices = dict(zip(grid.names, grid.choices))
        slots, plain, eased = bounds.slots(number)
        self.slots = tuple(n for n in grid.names if n in slots)
        self.shifting = tuple(n for n in self.slots if n not in plain)
        self.plain = tuple(n for n in self.slots if n in plain)
        self.eased = tuple(n for n in self.slots if n in eased)
        self.inner = tuple(n for n in INNER if n in self.choices and n not in slots)
        self.switches = tuple(n for n in SWITCHES if n in self.choices)
        early = () if self.inner else self.shifting
        outer = [n for n in grid.names if n in early or n not in {*self.inner, *self.switches, *slots}]
        self.outer_names = tuple(sorted(outer, key=lambda n: len(self.choices[n]) > 1))  # more can be asked of others then
        self.counting = frozenset(self.slots)
        constraints = sorted(dict.fromkeys(bounds.constraints(number)), key=lambda c: sum(1 for _ in walk(c)))  # the cheapest first
        self.asked = [(c, frozenset(hole_names(c))) for c in constraints]
        self.ceilings = [(name, tile, cap, hole_names(tile) | hole_names(cap)) for name, tile, cap in bounds.ceilings(number)]

    def grown(self, columns: Rows, count: int, name: str) -> tuple[Rows, np.ndarray]:
        """Return (columns with a further hole at each of its choices with which every constraint can still hold that can be asked now, some
        slots being open; the row that each came of). Each constraint is asked of the rows that the ones before it leave."""
        grown = Grown(columns, np.repeat(np.arange(count), len(self.choices[name])), name, np.tile(self.choices[name], count))
        known = Known(grown)
        for condition, names in self.asked:
            if name in names and names - columns.keys() - {name} <= self.counting:
                good = self.possible(condition, known, sorted(names - columns.keys() - {name}), len(grown.source))
                if not good.all():
                    grown = Grown(columns, grown.source[good], name, grown[name][good])
                    known = Known(grown)
        out = {n: grown[n] for n in (*columns, name)}
        first = self.leading(out, name, len(grown.source))
        return {n: v[first] for n, v in out.items()}, grown.source[first]

    def possible(self, condition: Expr, known: Known, opened: Sequence[str], count: int) -> np.ndarray:
        """Return bool[row]: where a condition holds for some choice of what is open."""
        with np.errstate(divide="ignore", invalid="ignore"):
            if not opened:
                return np.broadcast_to(known[condition] != 0, count)
            out, left = np.zeros(count, bool), np.arange(count)
            rows = {n: known.env[n] for n in hole_names(condition).difference(opened)}
            for values in product(*[self.choices[n] for n in opened]):
                out[left] = evaluate(condition, {**rows, **dict(zip(opened, values))}) != 0
                if len(still := np.flatnonzero(~out[left])) < len(left):
                    left, rows = left[still], {n: v[still] for n, v in rows.items()}
                if not len(left):
                    break
        return out

    def leading(self, columns: Rows, newest: str, count: int) -> np.ndarray:
        """Return bool[row]: where, of the choices of a hole that say the same, each has the smallest, as can be told since hole `newest` is
        assigned. The one that has is a row of its own, legal where the others are."""
        good = np.ones(count, bool)
        for name, tile, cap, names in self.ceilings:
            if newest in names and names <= columns.keys():
                choices = np.sort(self.choices[name])
                smaller = np.searchsorted(choices, columns[name]) - 1
                good &= (smaller < 0) | (evaluate(tile, {**columns, name: choices[smaller]}) < evaluate(cap, columns))
        return good

    def fill_open(self, columns: Rows, count: int, rest: Sequence[str]) -> Rows:
        """Return the columns with open holes, slots and switches among them, at the choices that stand for all."""
        opened = (*rest, *(n for n in (*self.slots, *self.switches) if n not in columns))
        return {**columns, **{n: np.full(count, self.lenient(n)) for n in opened}}

    def lenient(self, name: str) -> int:
        """Return the choice of an open hole at which no row takes longer than at another: of slots, which floors take to be enough, two,
        for which there are flags; of switches, which bounds take to cost no time, the one that hands over early."""
        if name in self.slots:
            return max((v for v in self.choices[name] if v <= 2), default=min(self.choices[name]))
        return (min if name in LEAST else max)(self.choices[name])

    def by_cost(self, part: Part) -> list[tuple[Part, tuple[str, ...]]]:
        """Return the part in two, each with the slots that change no cost in it. The first has the rows where no slot changes a cost. The
        second has the rows where slots do: those on which some instruction's cost depends wherever they lie."""
        placed = [n for n in self.shifting if n not in self.eased and n not in part.columns]
        if not placed or not len(part.floors):
            return [(part, self.eased)]
        alike = self.alike(part, placed)
        return [(part.rows(alike), (*self.eased, *placed)), (part.rows(~alike), self.eased)]

    def alike(self, part: Part, placed: Sequence[str]) -> np.ndarray:
        """Return bool[row]: where all costs are the same for every choice of some slots."""
        count = len(part.floors)
        columns, good = self.fill_open(part.columns, count, ()), np.ones(count, bool)
        first: np.ndarray | None = None
        for values in product(*[self.choices[n] for n in placed]):
            told = self.bounds.slot_places(self.number, {**columns, **{n: np.full(count, v) for n, v in zip(placed, values)}})
            first = told if first is None else first
            good &= (told == first).all(axis=0)
        return good

    def with_slots(self, part: Part, each: Sequence[str], largest: Sequence[str]) -> tuple[Rows, np.ndarray]:
        """Return (the rows of a part once for each choice of some slots and the `largest` choices of others that fit together, the row that
        each came of)."""
        columns, source = part.columns, np.arange(len(part.floors))
        for name in each:
            if name not in columns:
                columns, grown = self.grown(columns, len(source), name)
                source = source[grown]
        choices = [n for n in largest if n not in columns]
        *digits, kept = np.nonzero(most(self.fitting(columns, len(source), choices)))
        chosen = {n: np.sort(self.choices[n])[d] for n, d in zip(choices, digits)}
        return {n: v[kept] for n, v in columns.items()} | chosen, source[kept]

    def fitting(self, columns: Rows, count: int, names: Sequence[str]) -> np.ndarray:
        """Return bool[place of a choice of each slot..., row]: where the constraints on slots hold, smaller choices first. What depends on
        some of the slots is evaluated once for each choice of these."""
        good = np.ones((*[len(self.choices[n]) for n in names], count), bool)
        for condition, asked in self.asked:
            if not asked.isdisjoint(names) and asked <= columns.keys() | set(names):
                chosen = {n: np.sort(self.choices[n]).reshape(-1, *[1] * (len(names) - at)) for at, n in enumerate(names)}
                with np.errstate(divide="ignore", invalid="ignore"):
                    good &= evaluate(condition, {**columns, **chosen}) != 0
        return good


def most(good: np.ndarray) -> np.ndarray:
    """Return bool[place of a choice of each slot..., row]: those good choices of which none that has one slot more is good."""
    out = good.copy()
    for axis in range(good.ndim - 1):
        np.moveaxis(out, axis, 0)[:-1] &= ~np.moveaxis(good, axis, 0)[1:]
    return out
