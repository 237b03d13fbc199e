"""Padding and the loops that walk it: where a copy into UB is cut differently in more than a loop's first and last iteration."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from aoec.ir.func.tir import Func
from aoec.ir.index import Binary, Call, Expr, Int, Read, Var, affine, evaluate, reads, variables
from aoec.primitives.patterns import conjuncts
from aoec.search.sketches.nests import Nest, nests

COMPARISONS = ("<", "<=", ">", ">=")
MOST_PLACES = 1 << 20  # that are looked at one by one


@dataclass(frozen=True)
class Inside:
    """Conditions on a variable that say which of its values lie inside what is read."""

    conditions: tuple[Expr, ...]
    name: str
    places: range

    def all_of(self, places: range) -> bool:
        """Return whether the conditions hold for all these values. A comparison of affine terms that holds at both ends holds between."""
        return not places or all(self._holds(c, places) for c in self.conditions)

    def _holds(self, condition: Expr, places: range) -> bool:
        if isinstance(condition, Binary) and condition.op in COMPARISONS and all(
                affine(side, frozenset((self.name,))) for side in (condition.left, condition.right)):
            return all(evaluate(condition, {self.name: at}) for at in (places[0], places[-1]))
        return len(places) <= MOST_PLACES and all(evaluate(condition, {self.name: at}) for at in places)


def padded_far(func: Func, out: Nest) -> set[str]:
    """Return loops of the output that, walked one by one, meet padding in more than their first and last iteration: what is copied then has
    more sizes than those two and the one between, and no program may have them."""
    order, found = nests(func), set[str]()
    for n in order:
        for place, inside in guards(n):
            for reader in order:
                for r in reads(reader.block.value):
                    if r.buffer == n.block.target.buffer:
                        found |= walking(reader, r.indices[place], out, inside)
    return found


def guards(n: Nest) -> Iterator[tuple[int, Inside]]:
    """Yield (dimension of a block's target, which places along it lie inside what is read) for a copy with padding. A copy of which data
    decide is none."""
    value = n.block.value
    if not (isinstance(value, Call) and value.fn == "select" and isinstance(value.args[1], Read)):
        return
    tests = [(c, variables(c)) for c in conjuncts(value.args[0])]
    for place, i in enumerate(n.block.target.indices):
        own = [c for c, names in tests if isinstance(i, Var) and names == {i.name} and not reads(c)]
        if own and isinstance(i, Var):
            yield place, Inside(tuple(own), i.name, range(n.extent(i.name)))


def walking(reader: Nest, index: Expr, out: Nest, inside: Inside) -> set[str]:
    """Return the loops of the output that an index of what is padded steps with, where their second or last but one iteration meets
    padding."""
    parts = affine(index, frozenset(lp.var for lp in reader.loops))
    if parts is None or not all(isinstance(c, Int) for c in (*parts[0].values(), parts[1])):
        return set()
    steps, found = {v: c.value for v, c in parts[0].items() if isinstance(c, Int)}, set[str]()
    for v, step in steps.items():
        named = [lp.var for lp in out.loops if own_name(out, lp.var) == own_name(reader, v)]
        if not named or (count := out.extent(named[0])) < 4:
            continue
        span = 1 + sum(c * (reader.extent(w) - 1) for w, c in steps.items() if w != v)
        if not all(inside.all_of(inside.places[at * step:at * step + span]) for at in (1, count - 2)):
            found.add(named[0])
    return found


def own_name(n: Nest, loop: str) -> str:
    """Return a loop's name behind that of its block: lowering names an axis alike in all blocks, behind the name of what each makes."""
    return loop.removeprefix(n.block.name.rstrip("_") + "_")
