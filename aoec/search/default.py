"""The default schedule: a stock block fitted to the shape, slots doubled, all cores busy, then each axis settled in turn.

For every sketch a short list of legal candidates is drawn around the vendor's stock cube block (128 x 256 x 64, double buffered) and around
even shares of each axis, with core grids of every shape; the stock block itself joins it, on every grid that is busy. Some of each list
tell which sketches lead, and the lists of these are timed. The best few are then settled once: for each axis, its tile and its parts over
cores are tried together; and of the best of all again, with its slots and with the L0 tile of k and its chunk in L1. Some thousand
candidates, timed in batches; no randomness but a fixed sample. `settle` over all holes is also what a search ends with.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from aoec.base.errors import ScheduleError
from aoec.ir.index import Expr, hole_names
from aoec.search.draws import holding, some
from aoec.search.grid import NEVER, Candidate, Grid, Space
from aoec.search.stock import Conditions, busy, stock

# hole -> values around which the short list is laid
STOCK = {"tm": (128, 64, 256), "tn": (256, 128, 64), "n1": (16, 8, 4), "tk": (64, 128, 256), "sk": (4, 1, 1024), "w0": (128, 256, 64),
         "h0": (1 << 20, 4, 1), "rk": (1, 2), "pm": (1, 2), "pn": (1, 2), "uc": (4, 2),
         "tr": (64, 128, 32), "tp": (2, 4, 1), "k1": (8, 16, 4), "vc": (2, 1)}
SLOTS = ("da", "db", "d0a", "d0b", "dc", "uf", "pl", "ps", "di", "do")
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
LAST = (("tk", "sk"), ("t0", "di", "do"), ("da", "db"), *TILES, ("tk", "sk"), ("da", "db"), ("d0a", "d0b"), ("du", "do"),
        ("tk", "sk"))
LIST = 200  # of a sketch
DRAWN = 256  # of a sketch, where no list has one
LEADING, STARTS = 4, 8  # sketches, and of each the cheapest of its list, each settled further
LIKELY = 5  # sketches whose lists are timed whole

FIRST = 60  # of a list that are timed first, at most: so few are timed without a plan of their tables, which takes as long as some of these
PLANNED = 128  # the same where a plan will be made for every sketch

Found = tuple[int, Candidate]  # ticks first


class Cost(Protocol):
    """Ticks of candidates, None where there are none; with limits, one each, also where a candidate takes that long or longer."""

    def __call__(self, candidates: Sequence[Candidate], limits: Sequence[int] | None = None) -> Sequence[int | None]: ...


def default(space: Space, cost: Cost, conditions: Conditions) -> Found:
    """The default schedule and its cost; ScheduleError where nothing legal is found. `conditions`: of a sketch, what its candidates must
    keep. Where the list has none that does, candidates are drawn from all that do."""
    sketches = range(len(space.grids))
    listed = [c for g in sketches for c in shortlist(space.grids[g], g, conditions(g))] + stock(space, conditions)
    found = spread(listed, cost) or spread([(g, v) for g in sketches for v in some(space.grids[g], conditions(g), DRAWN)], cost)
    if not found:
        raise ScheduleError(f"no legal schedule in a space of {space.size:,}: the smallest tiles do not fit")
    best = settle(space, found, cost, TILES, True, conditions)
    return settle(space, [best], cost, LAST, True, conditions)


def spread(candidates: Sequence[Candidate], cost: Cost) -> list[Found]:
    """What is settled: the cheapest few of each of the leading sketches, since the first is not always of the one that ends best.

    Some of each sketch are timed to their end, which tells the sketches that lead; of the others those of these sketches, and not to their
    end where they are not among the cheapest few."""
    listed = in_sketches(dict.fromkeys(candidates))
    few = FIRST if len(listed) > LIKELY else PLANNED
    some = [c for own in listed.values() for c in own[::-(-len(own) // few)]]
    found = cheapest_first(some, cost(some))
    leading = dict(list(of_sketches(found).items())[:LIKELY])
    begun = set(some)
    others = [c for number in leading for c in listed[number] if c not in begun]
    limits = {number: own[STARTS - 1][0] + 1 for number, own in leading.items() if len(own) >= STARTS}
    found += cheapest_first(others, cost(others, [limits.get(number, NEVER) for number, _ in others]))
    return [f for own in list(of_sketches(sorted(found)).values())[:LEADING] for f in own[:STARTS]]


def in_sketches(candidates: Iterable[Candidate]) -> dict[int, list[Candidate]]:
    """The candidates by sketch."""
    out: dict[int, list[Candidate]] = {}
    for c in candidates:
        out.setdefault(c[0], []).append(c)
    return out


def cheapest_first(candidates: Sequence[Candidate], ticks: Sequence[int | None]) -> list[Found]:
    """The candidates that have a time."""
    return sorted((t, c) for t, c in zip(ticks, candidates) if t is not None)


def of_sketches(found: Sequence[Found]) -> dict[int, list[Found]]:
    """What was found by sketch, in the same order."""
    out: dict[int, list[Found]] = {}
    for f in found:
        out.setdefault(f[1][0], []).append(f)
    return out


def shortlist(grid: Grid, number: int, conditions: Sequence[Expr]) -> list[Candidate]:
    """Legal candidates of one sketch: stock and even tiles, doubled slots, grids of every shape that keep the cores busy; at most LIST
    of them, drawn from all."""
    part = Grid(grid.names, tuple(around(grid, name, values) for name, values in zip(grid.names, grid.choices)))
    kept = [*conditions, *busy(grid)]
    return [(number, v) for v in sorted(set(some(part, kept, LIST)))]


def around(grid: Grid, name: str, values: tuple[int, ...]) -> tuple[int, ...]:
    """The choices of a hole that the short list uses."""
    if name in SLOTS:
        return (max(v for v in values if v <= 2),)
    if name in STOCK:
        return tuple(dict.fromkeys(min(values, key=lambda v: abs(v - s)) for s in STOCK[name]))
    if name.startswith("g"):
        return values
    return tuple(sorted({values[(len(values) - 1) * i // 7] for i in range(8)}))


def settle(space: Space, starts: Sequence[Found], cost: Cost, turns: Sequence[tuple[str, ...]] = (), limited: bool = False,
           conditions: Conditions = lambda number: ()) -> Found:
    """The best of what the starts become with the holes that each turn names together at their best; without turns: tiles with their
    parts, further pairs and each hole. A turn of all starts is timed as one batch; among equals the earlier start wins.

    `limited`: what takes as long as its start need not be timed to its end: faster, but what comes near the best stays unknown.
    `conditions`: of a sketch; what breaks one is not asked the cost of."""
    names = dict.fromkeys(name for _, (number, _) in starts for name in space.grids[number].names)
    for together in turns or [*TILES, *MORE, *[(n,) for n in names]]:
        options = [variations(space, c, together, conditions(c[0])) for _, c in starts]
        limits = [ticks for (ticks, _), o in zip(starts, options) for _ in o]
        ticks = iter(cost([c for o in options for c in o], limits if limited else None))
        starts = list(dict.fromkeys(cheapest(start, o, ticks) for start, o in zip(starts, options)))
    return min(starts, key=lambda found: found[0])


def cheapest(start: Found, options: Sequence[Candidate], ticks: Iterator[int | None]) -> Found:
    """The start, or the option that is strictly cheaper and the cheapest; takes a cost for each option."""
    found = min(((t, c) for c, t in zip(options, ticks) if t is not None), default=start)
    return found if found[0] < start[0] else start


def variations(space: Space, candidate: Candidate, names: Sequence[str], conditions: Sequence[Expr] = ()) -> list[Candidate]:
    """The candidate with the named holes at all of their choices that keep the conditions; none where its sketch has not all of them."""
    number, values = candidate
    grid = space.grids[number]
    if not set(names) <= set(grid.names):
        return []
    places = [grid.names.index(n) for n in names]
    part = Grid(grid.names, tuple(c if i in places else (v,) for i, (c, v) in enumerate(zip(grid.choices, values))))
    rows = part.rows(0, part.size)
    kept = holding([c for c in conditions if not hole_names(c).isdisjoint(names)], rows, part.size)
    return [(number, v) for v in zip(*[c[kept].tolist() for c in rows.values()])]
