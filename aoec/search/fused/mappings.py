"""How many mappings the space of a chain holds, without any of them being made."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import permutations, product
from math import prod

from aoec.search.fused.fused import GM, Boundary, Search
from aoec.search.fused.leaf import Kept, slides
from aoec.search.fused.places import Loops, Nest
from aoec.search.fused.spans import Spans, divisors

CUT, WHOLE, ANY = "cut", "whole", "any"


@lru_cache(maxsize=1 << 16)
def nestings(box: int, rules: tuple[str, ...]) -> int:
    """Count the chains of divisors of a box, with one divisor for each rule. Each divides the one before it. A rule allows any divisor, one
    that is cut, or the whole box."""
    counts = {box: 1}
    for rule in rules:
        after: dict[int, int] = {}
        for tile, count in counts.items():
            for inner in divisors(tile):
                if rule == ANY or (rule == CUT and inner != tile) or (rule == WHOLE and inner == box):
                    after[inner] = after.get(inner, 0) + count
        counts = after
    return sum(counts.values())


def rows_below(where: Mapping[str, Spans], kept: Sequence[Kept]) -> int:
    """Return the chains of tiles for tensors below fused loops, in every order of the tensors."""
    total = 0
    for order in permutations(kept):
        free = {v: [k for k in order if v in k.access.loops() and (k is not order[-1] or any(len(d.terms) > 1 and v in dict(d.terms)
                                                                                               for d in k.access.dims))] for v in where}
        for chosen in product(*([None, *slides(k.access)] for k in order)):
            sliding = {k.access.tensor: c for k, c in zip(order, chosen, strict=True) if c}
            total += prod(nestings(where[v].box, rules(v, where[v], free[v], sliding)) for v in where if free[v])
    return total


def rules(v: str, spans: Spans, free: Sequence[Kept], sliding: Mapping[str, tuple[int, str]]) -> tuple[str, ...]:
    """Return what the tiles of a loop must be where some tensors slide: cut where one slides along it, whole where one slides along another
    loop of its index."""
    out = []
    for k in free:
        dim, along = sliding.get(k.access.tensor, (0, ""))
        if along == v:
            out.append(CUT)
        elif along and v in dict(k.access.dims[dim].terms):
            out.append(WHOLE if spans.trips == 1 else "none")
        else:
            out.append(ANY)
    return tuple(out)


class Counter:
    """Counts of one operator, by what they depend on."""

    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self.known: dict[object, int] = {}

    def count(self, loops: Loops, before: bool, after: bool) -> int:
        """Return the mappings of the operator under fused loops."""
        key = tuple((v, s.box, s.trips == 1, bool(s.overlap)) for v, s in loops), before, after
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._count(loops, before, after)
        return found

    def _count(self, loops: Loops, before: bool, after: bool) -> int:
        nest, where = self.nest, self.nest.under(loops, len(loops))
        free = [k for name, k in nest.kept.items() if not (before and name == nest.link) and not (after and k.written)]
        ways = {k.access.tensor: sum(1 for _ in nest.ways(k, loops)) for k in free}
        total = 0
        for leaf in product((False, True), repeat=len(free)):
            below = [k for k, here in zip(free, leaf, strict=True) if here]
            rest = prod(ways[k.access.tensor] for k, here in zip(free, leaf, strict=True) if not here)
            total += rest * (rows_below(where, below) if below else 1)
        return total


def size(search: Search) -> tuple[int, int]:
    """Return (mappings of each operator, summed over operators; mappings of the whole chain). An operator's are counted at every pair of
    boundaries, as a mapper that makes them before it joins them has to."""
    chain = search.chain
    alone, wholes = 0, {GM: 1}
    for i in range(len(chain.operators) - 1, -1, -1):
        counter, before_of = Counter(search.nests[i]), dict[Boundary, int]()
        for after, count in wholes.items():
            for before, loops, left, right in search.moves(i, after, len(chain.operators[i].sizes)):
                here = counter.count(loops, left is not None, right is not None)
                alone += here
                before_of[before] = before_of.get(before, 0) + here * count
        wholes = before_of
    return alone, wholes[GM]
