"""`aoec bank import-cann --compare`: compare a vendor's tiling with our default and our best, all on our model, and rank it in our
space."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from aoec.base.errors import AoecError
from aoec.base.text import plural
from aoec.jobs import interrupt
from aoec.jobs.bank.cann_import import Seed, short_name
from aoec.jobs.tune.budget import PROOF_ROWS, Budget, limits
from aoec.jobs.tune.tuning import Problem, problem, search, start
from aoec.search.proof.rank import Rank, rank
from aoec.search.space.nearest import nearest_candidates

RANK_ROWS = 100  # that a rank looks at for each trial of the budget


@dataclass(frozen=True, slots=True)
class Compared:
    """Modelled µs, from cold inputs, of one key's first schedule: the vendor's, our default, our best. `member`: whether the vendor's is a
    candidate of our space; `proof`: of our best, "" where there is none."""

    seed: Seed
    vendor_us: float
    default_us: float
    best_us: float
    rank: Rank
    member: bool
    proof: str


def compare_seeds(seeds: Sequence[Seed], budget: Budget, number: int, hear: Callable[[int, int], None]) -> Iterator[Compared | str]:
    """Yield each seed compared, or why it cannot be; Ctrl-C ends it between two. `number`: the seed of the searches; `hear` is told (done,
    of how many)."""
    for at, seed in enumerate(seeds):
        if interrupt.is_asked():
            return
        hear(at, len(seeds))
        try:
            yield one(seed, budget, number)
        except AoecError as e:
            yield f"{short_name(seed.problem)}: {str(e).splitlines()[0]}"


def one(seed: Seed, budget: Budget, number: int) -> Compared:
    """Return a seed compared."""
    func, trace, ticks = seed.schedules[0]
    p = problem(func, seed.machine)
    near = nearest_candidates([s.trace for s in p.sketches], p.space.grids, trace)
    first = start(p)
    found = search(p, first, "portfolio", budget, number, lambda _: interrupt.is_asked(), near)
    best = min(found.ticks, ticks)
    us = seed.machine.us_per_tick
    place = rank_time(p, found.best, ticks, budget) if best < ticks else Rank(0, found.proof == "space")
    if not place.closed:
        place = Rank(max(place.faster, sum(t is not None and t < ticks for t in p.costs.values())), False)
    return Compared(seed, ticks * us, first.default_ticks * us, best * us, place, any(p.trace(c) == trace for c in near), found.proof)


def rank_time(p: Problem, some: tuple[int, tuple[int, ...]], ticks: int, budget: Budget) -> Rank:
    """Return the rank of a time in a problem's space, as far as a share of the budget decides it."""
    return rank(p.space.grids, p, some, ticks, limits(budget).alone * RANK_ROWS // PROOF_ROWS)


def place(c: Compared) -> str:
    """Return the vendor's rank in words."""
    outside = " (itself no candidate of it)" * (not c.member)
    if c.rank.closed:
        return (f"{c.rank.faster:,} faster" if c.rank.faster else "none faster") + outside
    known = f"at least {c.rank.faster:,} faster" if c.rank.faster else "whether any is faster is not known"
    return known + outside


HEAD = ("operator", "machine", "vendor µs", "default µs", "best µs", "vendor/best", "in our space")


def table(found: Iterable[Compared | str]) -> str:
    """Return the comparison, a line a key. Return "" where there are none."""
    found = list(found)
    good, refused = [c for c in found if isinstance(c, Compared)], [c for c in found if isinstance(c, str)]
    rows = [(short_name(c.seed.problem), c.seed.machine.name, *(f"{us:,.2f}" for us in (c.vendor_us, c.default_us, c.best_us)),
             f"{c.vendor_us / c.best_us:.3f}", place(c)) for c in good]
    lines = ["modelled, from cold inputs:", *align_rows([HEAD, *rows]), summary(good)] if good else []
    return "".join(f"{line}\n" for line in [*lines, *refused])


def align_rows(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows in columns, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(f"{c:<{w}}" if i in (0, 1, 6) else f"{c:>{w}}" for i, (c, w) in enumerate(zip(row, widths))).rstrip() for row in rows]


def summary(found: list[Compared]) -> str:
    """Return what the comparison comes to."""
    ratios = sorted(c.vendor_us / c.best_us for c in found)
    beaten = sum(c.vendor_us < c.default_us for c in found)
    none = sum(c.rank == Rank(0, True) for c in found)
    middle, most = ratios[len(ratios) // 2], ratios[-1]
    return f"{plural(len(found), 'key')}: the vendor's tiling takes {middle:.3f} times our best's modelled time (median; at " \
           f"most {most:.3f}), is faster than our default for {beaten:,}, and has nothing faster in our space for {none:,}"


def facts(found: Iterable[Compared | str]) -> list[dict[str, object]]:
    """Return the same as a program reads it."""
    return [{"why_not": c} if isinstance(c, str) else {
        "operator": short_name(c.seed.problem), "soc": c.seed.soc, "target": c.seed.machine.name, "kind": "modelled",
        "vendor_us": round(c.vendor_us, 3), "default_us": round(c.default_us, 3), "best_us": round(c.best_us, 3),
        "faster": c.rank.faster, "faster_is_all": c.rank.closed, "in_our_space": c.member, "proof": c.proof} for c in found]
