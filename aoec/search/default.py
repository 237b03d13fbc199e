"""The default schedule: a stock block fitted to the shape, slots doubled, all cores busy, then each axis settled in turn.

For every sketch a short list is laid out around the vendor's stock cube block (128 x 256 x 64, double buffered) and around
even shares of each axis, with core grids of every shape; the stock block itself joins it, on every grid that is busy. The best few
are then settled once: for each axis, its tile and its parts over cores are tried together; of the best of all then the L0 tile of k with
the chunk in L1, and fewer slots. A few thousand candidates, timed in batches; no randomness but a fixed sample.
`settle` over all holes is also what a search ends with.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Protocol

import numpy as np

from aoec.base.errors import ScheduleError
from aoec.search.grid import NEVER, Candidate, Grid, Rows, Space
from aoec.search.stock import Legal, stock

# hole -> values around which the short list is laid
STOCK = {"tm": (128, 64, 256), "tn": (256, 128, 64), "n1": (16, 8, 4), "tk": (64, 128, 256), "sk": (4, 1, 1024), "w0": (128, 256, 64),
         "h0": (1 << 20, 4, 1), "rk": (1, 2), "pm": (1, 2), "pn": (1, 2), "uc": (4, 2),
         "tr": (64, 128, 32), "tp": (2, 4, 1), "k1": (8, 16, 4), "vc": (2, 1)}
SLOTS = ("da", "db", "d0a", "d0b", "dc", "uf", "pl", "ps", "di", "do")
# holes that are settled together: a tile with what it leaves of L0C and with the parts in which it leaves it, the slots of those parts,
# and a tile with its parts over cores
TILES = (("tm", "uc"), ("th", "uc"), ("tn", "dc"), ("n1", "dc"), ("tn", "dc", "uc"), ("n1", "dc", "uc"), ("uc", "do", "dc"),
         ("uc", "do", "du"), ("tm", "gm"), ("tn", "gn"), ("n1", "gn"), ("tw", "gw"), ("th", "gh"), ("t0", "g0"), ("t1", "g1"), ("tr", "gm"),
         ("tr", "tp", "di"))
# a search settles these too, and then each hole alone
MORE = (("gm", "gn"), ("gh", "gn"), ("gw", "gn"), ("gb", "gn"), ("gb", "gh"), ("g0", "g1"), ("tk", "sk"), ("sk", "rk"), ("sc", "gm"),
        ("sc", "gn"), ("h0", "tk"),
        ("w0", "tk"))
# at last, of the best alone: L0 tiles of k that come out even in the chunk in L1, which hang together (a chunk of a plane of 3 x 3 is
# 144, two of 64 and one of 16); and a tile that has the room of second slots, where the vector unit is what takes long
LAST = (("tk", "sk"), ("t0", "di", "do"))
LIST = 600  # of a sketch
LEADING, STARTS = 4, 8  # sketches, and of each the cheapest of its list, each settled further

FIRST = 5  # every so many of a list are timed first, and tell what is too slow among the others

Found = tuple[int, Candidate]  # ticks first


class Cost(Protocol):
    """Ticks of candidates, None where there are none; with limits, one each, also where a candidate takes that long or longer."""

    def __call__(self, candidates: Sequence[Candidate], limits: Sequence[int] | None = None) -> Sequence[int | None]: ...


def default(space: Space, cost: Cost, legal: Legal, others: Callable[[], list[Candidate]]) -> Found:
    """The default schedule and its cost; ScheduleError where nothing legal is found. `legal` is cheaper than `cost`: all that is laid out
    is timed in one batch a sketch. `others`: candidates drawn from all that are legal, for where the list has none."""
    listed = [c for g in range(len(space.grids)) for c in shortlist(space, g)] + stock(space, legal)
    found = spread(listed, cost)
    found = found or spread(others(), cost)
    if not found:
        raise ScheduleError(f"no legal schedule in a space of {space.size:,}: the smallest tiles do not fit")
    return settle(space, [settle(space, found, cost, TILES, True)], cost, LAST, True)


def spread(candidates: Sequence[Candidate], cost: Cost) -> list[Found]:
    """What is settled: the cheapest few of each of the leading sketches, since the first is not always of the one that ends best.

    Some are timed whole; of the others those that are not among the cheapest few of their sketch need not be timed to their end."""
    candidates = list(dict.fromkeys(candidates))
    some = set(candidates[::FIRST])
    found = cheapest_first(candidates[::FIRST], cost(candidates[::FIRST]))
    others = [c for c in candidates if c not in some]
    limits = {number: own[STARTS - 1][0] + 1 for number, own in of_sketches(found).items() if len(own) >= STARTS}
    found += cheapest_first(others, cost(others, [limits.get(number, NEVER) for number, _ in others]))
    return [f for own in list(of_sketches(sorted(found)).values())[:LEADING] for f in own[:STARTS]]


def cheapest_first(candidates: Sequence[Candidate], ticks: Sequence[int | None]) -> list[Found]:
    """The candidates that have a time."""
    return sorted((t, c) for t, c in zip(ticks, candidates) if t is not None)


def of_sketches(found: Sequence[Found]) -> dict[int, list[Found]]:
    """What was found by sketch, in the same order."""
    out: dict[int, list[Found]] = {}
    for f in found:
        out.setdefault(f[1][0], []).append(f)
    return out


def shortlist(space: Space, number: int) -> list[Candidate]:
    """Candidates of one sketch: stock and even tiles, doubled slots, grids of every shape; thinned by a fixed sample."""
    grid = space.grids[number]
    choices = [around(grid, name, values) for name, values in zip(grid.names, grid.choices)]
    if prod(len(c) for c in choices) <= LIST:
        return [(number, v) for v in product(*choices)]
    random = np.random.RandomState(0)  # whose numbers are the same in every version of NumPy
    drawn = {name: np.array(c)[random.randint(len(c), size=8 * LIST)] for name, c in zip(grid.names, choices)}
    kept = np.stack(list(drawn.values()), axis=1)[busy(grid, drawn)][:4 * LIST]
    return [(number, tuple(v)) for v in np.unique(kept, axis=0).tolist()]


def around(grid: Grid, name: str, values: tuple[int, ...]) -> tuple[int, ...]:
    """The choices of a hole that the short list uses."""
    if name in SLOTS:
        return (max(v for v in values if v <= 2),)
    if name in STOCK:
        return tuple(dict.fromkeys(min(values, key=lambda v: abs(v - s)) for s in STOCK[name]))
    if name.startswith("g"):
        return values
    return tuple(sorted({values[(len(values) - 1) * i // 7] for i in range(8)}))


def busy(grid: Grid, rows: Rows) -> np.ndarray:
    """bool[row]: where the grid takes at least half of the cores that its holes could."""
    largest = {name: max(c) for name, c in zip(grid.names, grid.choices)}
    most = max((v for name, v in largest.items() if name.startswith("g")), default=1)
    used = np.ones_like(next(iter(rows.values())))
    for name, values in rows.items():
        if name == "sc":  # an extent of k for each core
            used = used * -(-largest[name] // values)
        elif name.startswith("g"):
            used = used * values
    return (most // 2 <= used) & (used <= most)


def settle(space: Space, starts: Sequence[Found], cost: Cost, turns: Sequence[tuple[str, ...]] = (), limited: bool = False) -> Found:
    """The best of what the starts become with the holes that each turn names together at their best; without turns: tiles with their
    parts, further pairs and each hole. A turn of all starts is timed as one batch; among equals the earlier start wins.

    `limited`: what takes as long as its start need not be timed to its end: faster, but what comes near the best stays unknown."""
    names = dict.fromkeys(name for _, (number, _) in starts for name in space.grids[number].names)
    for together in turns or [*TILES, *MORE, *[(n,) for n in names]]:
        options = [variations(space, c, together) for _, c in starts]
        limits = [ticks for (ticks, _), o in zip(starts, options) for _ in o]
        ticks = iter(cost([c for o in options for c in o], limits if limited else None))
        starts = list(dict.fromkeys(cheapest(start, o, ticks) for start, o in zip(starts, options)))
    return min(starts, key=lambda found: found[0])


def cheapest(start: Found, options: Sequence[Candidate], ticks: Iterator[int | None]) -> Found:
    """The start, or the option that is strictly cheaper and the cheapest; takes a cost for each option."""
    found = min(((t, c) for c, t in zip(options, ticks) if t is not None), default=start)
    return found if found[0] < start[0] else start


def variations(space: Space, candidate: Candidate, names: Sequence[str]) -> list[Candidate]:
    """The candidate with the named holes at all of their choices; none where its sketch has not all of them."""
    number, values = candidate
    grid = space.grids[number]
    if not set(names) <= set(grid.names):
        return []
    places = [grid.names.index(n) for n in names]
    out = []
    for picked in product(*[grid.choices[i] for i in places]):
        moved = list(values)
        for i, v in zip(places, picked):
            moved[i] = v
        out.append((number, tuple(moved)))
    return out
