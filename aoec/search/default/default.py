"""The default schedule: a stock block fitted to the shape, slots doubled, all cores busy, then each axis settled in turn.

First a short list of legal candidates of the first sketches is timed. The cheapest of them are carried over to the other sketches, hole by
hole, and show which of those sketches lead. The short lists of these are timed too (search/default/shortlist.py). The best few candidates
are then settled once: for each axis, its tile and its parts over cores are tried together. The best of all is settled again, with its
slots, and with the L0 tile of k together with its chunk in L1. This takes some thousand candidates, timed in batches. Nothing is random but
a fixed sample. A search also ends with `settle`, over all holes.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Protocol

import numpy as np

from aoec.base.errors import ScheduleError
from aoec.ir.index import Expr, hole_names
from aoec.search.default.block import Conditions
from aoec.search.default.shortlist import alike, few, list_candidates
from aoec.search.space.draws import holding, some
from aoec.search.space.grid import NEVER, Candidate, Grid, Space

# holes that are settled together: a tile with what it leaves of L0C and with the parts in which it leaves it, the slots of those parts,
# and a tile with its parts over cores, and with the slots of its operand in L1
TILES = (("tm", "uc"), ("th", "uc"), ("tn", "dc"), ("n1", "dc"), ("tn", "dc", "uc"), ("n1", "dc", "uc"), ("uc", "do", "dc"),
         ("uc", "do", "du"), ("tm", "gm"), ("tn", "gn"), ("n1", "gn"), ("tw", "gw"), ("th", "gh"), ("t0", "g0"), ("t1", "g1"), ("tr", "gm"),
         ("tr", "tp", "di"), ("tm", "da"), ("tn", "db"), ("th", "da"), ("n1", "db"))
# a search settles these too, and then each hole alone
MORE = (("gm", "gn"), ("gh", "gn"), ("gw", "gn"), ("gb", "gn"), ("gb", "gh"), ("g0", "g1"), ("tk", "sk"), ("sk", "rk"), ("sc", "gm"),
        ("sc", "gn"), ("h0", "tk"),
        ("w0", "tk"))
# at last, of the best alone: L0 tiles of k that come out even in the chunk in L1, which hang together (a chunk of a plane of 3 x 3 is
# 144, two of 64 and one of 16); a tile that has the room of second slots, where the vector unit is what takes long; and slots, which the
# list has by twos: where an operand stays in L1 one slot of it leaves room for four of the other, and larger tiles fit beside one of L0C
LAST = (("tk", "sk"), ("t0", "di", "do"), ("di", "do"), ("da", "db"), *TILES, ("tk", "sk"), ("da", "db"), ("d0a", "d0b"), ("du", "do"),
        ("tk", "sk"))
DRAWN = 256  # of a sketch, where no list has one
LISTED = 2  # sketches whose lists are timed before any others: most of what a default takes is to begin on a sketch, not its rows
ALIKE = 6  # of the cheapest of these, those like which others are timed
LIKELY = 3  # sketches that lead then, whose lists are timed
LEADING, STARTS = 2, 8  # sketches, and of each the cheapest, each settled further
FIRST = 64  # of a list that are timed to their end before the others: of as many a plan of their tables is made at once

Found = tuple[int, Candidate]  # ticks first


class Cost(Protocol):
    """Ticks of candidates, None where there are none; with limits, one each, also where a candidate takes that long or longer."""

    def __call__(self, candidates: Sequence[Candidate], limits: Sequence[int] | None = None) -> Sequence[int | None]: ...


def default(space: Space, cost: Cost, conditions: Conditions) -> Found:
    """Return the default schedule and its cost; ScheduleError where nothing legal is found. `conditions`: of a sketch, what its candidates
    must keep. Where no list has one that does, candidates are drawn from all that do."""
    found = spread(space, cost, conditions) or time_sample(space, cost, conditions)
    if not found:
        raise ScheduleError(f"none of {space.size:,} candidates is legal; `aoec search G.tir --space` counts what each limit leaves")
    best = settle(space, of_leading(found), cost, TILES, True, conditions)
    return settle(space, [best], cost, LAST, True, conditions)


def time_sample(space: Space, cost: Cost, conditions: Conditions) -> list[Found]:
    """Time some candidates of each sketch, and return those that have a time, cheapest first."""
    candidates = [(g, v) for g, grid in enumerate(space.grids) for v in some(grid, conditions(g), DRAWN)]
    return cheapest_first(candidates, cost(candidates))


def spread(space: Space, cost: Cost, conditions: Conditions) -> list[Found]:
    """Return candidates of all sketches and their times, cheapest first. Of the first sketches, and of those that lead, whole lists are
    timed. The timing of a candidate ends early where it is not among the cheapest few of its sketch. Of the other sketches, candidates like
    the cheapest are timed, or a few of their lists."""
    found: list[Found] = []
    begun = set[int]()
    lists = cache(lambda number: list_candidates(space, number, conditions))
    for number in range(len(space.grids)):
        if len(begun) < LISTED and (own := timed_list(lists(number), cost)):
            found += own
            begun.add(number)
    tops = [c for _, c in sorted(found)[:ALIKE]]
    near = [c for number in range(len(space.grids)) if number not in begun for c in hints(space, tops, number, conditions, lists)]
    found = sorted([*found, *cheapest_first(near, cost(near))])
    for number in list(of_sketches(found))[:LIKELY]:
        if number not in begun:
            found += timed_list(lists(number), cost, of_sketches(found)[number])
    return sorted(set(found))


def hints(space: Space, tops: Sequence[Candidate], number: int, conditions: Conditions,
          lists: Callable[[int], Sequence[Candidate]]) -> list[Candidate]:
    """Return candidates of a sketch that tell whether it leads: those like the cheapest of other sketches. A few of its own list are added
    where it has holes of its own, such as cores that share k, or where no candidates are like those."""
    known = {name for other, _ in tops for name in space.grids[other].names}
    found = alike(space, tops, number, conditions(number))
    if found and known.issuperset(space.grids[number].names):
        return found
    return list(dict.fromkeys([*found, *few(lists(number))]))


def timed_list(candidates: Sequence[Candidate], cost: Cost, known: Sequence[Found] = ()) -> list[Found]:
    """Return those of a sketch's candidates that have a time, the cheapest few of them and of what is known among them."""
    step = max(1, len(candidates) // FIRST)
    first = candidates[::step]
    found = cheapest_first(first, cost(first))
    best = sorted({*found, *known})
    limit = best[STARTS - 1][0] + 1 if len(best) >= STARTS else NEVER
    others = [c for at, c in enumerate(candidates) if at % step]
    return found + cheapest_first(others, cost(others, [limit] * len(others)))


def of_leading(found: Sequence[Found]) -> list[Found]:
    """Return the cheapest few of each of the leading sketches, since the first is not always of the one that ends best."""
    return [f for own in list(of_sketches(found).values())[:LEADING] for f in own[:STARTS]]


def cheapest_first(candidates: Sequence[Candidate], ticks: Sequence[int | None]) -> list[Found]:
    """Return the candidates that have a time."""
    return sorted((t, c) for t, c in zip(ticks, candidates) if t is not None)


def of_sketches(found: Sequence[Found]) -> dict[int, list[Found]]:
    """Return what was found by sketch, in the same order."""
    out: dict[int, list[Found]] = {}
    for f in found:
        out.setdefault(f[1][0], []).append(f)
    return out


def settle(space: Space, starts: Sequence[Found], cost: Cost, turns: Sequence[tuple[str, ...]] = (), limited: bool = False,
           conditions: Conditions = lambda number: ()) -> Found:
    """Return the best candidate that the starts lead to when the holes that each turn names are set together to their best values. Without
    turns, the turns are tiles with their parts, further pairs and each hole. A turn of all starts is timed as one batch. Among equals the
    earlier start wins.

    `limited`: what takes as long as its start need not be timed to its end. This is faster, but what comes near the best stays unknown.
    `conditions` are of a sketch: a candidate that breaks one is not asked for its cost.
    """
    names = dict.fromkeys(name for _, (number, _) in starts for name in space.grids[number].names)
    for together in turns or [*TILES, *MORE, *[(n,) for n in names]]:
        options = options_of(space, [c for _, c in starts], together, conditions)
        limits = [ticks for (ticks, _), o in zip(starts, options) for _ in o]
        ticks = iter(cost([c for o in options for c in o], limits if limited else None))
        starts = list(dict.fromkeys(cheapest(start, o, ticks) for start, o in zip(starts, options)))
    return min(starts, key=lambda found: found[0])


def cheapest(start: Found, options: Sequence[Candidate], ticks: Iterator[int | None]) -> Found:
    """Return the start, or the option that is strictly cheaper and the cheapest; takes a cost for each option."""
    found = min(((t, c) for c, t in zip(options, ticks) if t is not None), default=start)
    return found if found[0] < start[0] else start


def options_of(space: Space, candidates: Sequence[Candidate], names: Sequence[str], conditions: Conditions) -> list[list[Candidate]]:
    """Return the variations of each candidate. The variations of all candidates of a sketch are laid out together."""
    out: dict[int, list[Candidate]] = {}
    for number in dict.fromkeys(number for number, _ in candidates):
        places = [at for at, (other, _) in enumerate(candidates) if other == number]
        out |= zip(places, find_variations(space, number, [candidates[at][1] for at in places], names, conditions(number)))
    return [out[at] for at in range(len(candidates))]


def variations(space: Space, candidate: Candidate, names: Sequence[str], conditions: Sequence[Expr] = ()) -> list[Candidate]:
    """Return the candidate with the named holes at all of their choices that keep the conditions; none where its sketch has not all of
    them."""
    return find_variations(space, candidate[0], [candidate[1]], names, conditions)[0]


def find_variations(space: Space, number: int, given: Sequence[tuple[int, ...]], names: Sequence[str],
                    conditions: Sequence[Expr]) -> list[list[Candidate]]:
    """Return the variations of each of several candidates of a sketch."""
    grid = space.grids[number]
    if not set(names) <= set(grid.names):
        return [[] for _ in given]
    part = Grid(tuple(names), tuple(grid.choices[grid.names.index(n)] for n in names))
    named = {name: np.tile(column, len(given)) for name, column in part.rows(0, part.size).items()}
    columns = {name: named.get(name, np.repeat([v[at] for v in given], part.size)) for at, name in enumerate(grid.names)}
    kept = holding([c for c in conditions if not hole_names(c).isdisjoint(names)], columns, part.size * len(given))
    rows = iter(zip(*[c[kept].tolist() for c in columns.values()]))
    return [[(number, next(rows)) for _ in range(count)] for count in kept.reshape(len(given), -1).sum(axis=1).tolist()]
