"""What rows of hole values take at the least, whatever becomes of holes that are still open: what a proof excludes assignments by.

*Modelled*, like the times that they are never above (tests/search/test_prove.py, tests/laws/test_time_laws.py).
"""
from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType

import numpy as np

from aoec.ir.index import Binary, Call, Cast, Expr, Int, Var, evaluate, hole_names, rebuild, substitute, variables
from aoec.kernels import timeline as kernel
from aoec.simulate.encode.encode import Encoded
from aoec.simulate.encode.filling import grid_cores
from aoec.simulate.encode.sizes import Array
from aoec.simulate.timing.state import COLD, State
from aoec.simulate.timing.time import Times, columns_of, found_rows, launch_ticks
from aoec.simulate.timing.totals import Opened
from aoec.simulate.timing.totals import open_accesses as standing
from aoec.simulate.timing.work import first_core_work, outline
from aoec.target.parts import Timing

NONE: Mapping[str, int | None] = MappingProxyType({})


def floor_rows(encoded: Encoded, rows: Mapping[str, Array], state: State = COLD, opened: Mapping[str, int | None] = NONE,
               whole: bool = False, limit: int = kernel.NEVER) -> Times:
    """Return the least that each row takes, by what keeps a pipe of some core busy or the memory of all. It is never above the row's times,
    nor above those of rows with more slots. Constraints are not asked. A floor of `limit` or more may be any such number.

    `opened` gives the least choices of holes whose largest choices the rows have. These holes cut the same tiles into fewer or more pieces.
    None says that a hole is assigned, but treated alike, so that a program needs one plan for all. A floor is then not above the times of
    rows with any choices of these holes. With the largest choice an instruction does the most, so the total work is least. With the least
    choice there is the least time before the first instruction on a pipe, and after the last. `whole` says that no such hole cuts what
    leaves L0C. Results then leave L0C when all of a tile's products are made.
    """
    columns, count = columns_of(encoded, rows)
    limits = np.full(count, limit)
    if not opened:
        return found_rows(encoded, columns, limits, kernel.FLOORS, state, lenient=True)
    found, beside = open_floors(encoded, columns, state, opened, whole, limits)
    return replace(found, ticks=busiest_ticks(found.ticks, beside))


def floor_parts(encoded: Encoded, rows: Mapping[str, Array], opened: Mapping[str, int | None], whole: bool, state: State = COLD,
                limit: int = kernel.NEVER, known: Array | None = None) -> Array:
    """Return int64[2, row, pipe of a stream]: the floors of rows with open holes (`floor_rows`) in two parts. The first are ticks for which
    the first core keeps a pipe at work, 0 where none are known. The second are ticks that go by beside these, launch included. No choice of
    the open holes goes below either part. So where rows assign some of these holes, one part may be raised while the other still holds.
    `known` gives the first part as far as closed sums tell it. Rows that reach the limit with it are examined no further."""
    columns, count = columns_of(encoded, rows)
    found, beside = open_floors(encoded, columns, state, opened, whole, np.full(count, limit), known)
    return parts(found.ticks, beside, found.launch_ticks, found.status)


def work_parts(encoded: Encoded, rows: Mapping[str, Array], whatever: Collection[str], opened: bool, limit: int = kernel.NEVER) -> Array:
    """Return int64[2, row, pipe of a stream]. The first are ticks for which the first core keeps a pipe at work at the least, with any
    choice of the holes `whatever`, 0 where that is not known. The second are the ticks of the launch. In rows that reach the limit not all
    pipes are known. It takes a tenth of the time of `floor_parts`."""
    count = len(next(iter(rows.values()), (0,)))
    launch = launch_ticks(encoded, grid_cores(encoded, rows, count), rows)
    if any(not outline(encoded, stream).holes.isdisjoint(whatever) for stream in range(len(encoded.program.streams))):
        return np.zeros((2, count, len(encoded.program.streams) * kernel.PIPE_COUNT), np.int64)
    ticks, status = first_core_work(encoded, rows, opened, limit - launch)
    return parts(ticks, 0, launch, status)


def parts(work: Array, beside: Array | int, launch: Array, status: Array) -> Array:
    """Return int64[2, row, pipe of a stream]: work by [row, stream, pipe], and what goes by beside it with the launch; 0 where a status is
    not."""
    both = np.stack([work, np.broadcast_to(beside + launch[:, None, None], work.shape)]).reshape(2, len(work), -1)
    return np.where(status[:, None] == 0, both, 0)


def alone_rows(encoded: Encoded, rows: Mapping[str, Array], state: State = COLD, limit: int = kernel.NEVER) -> Times:
    """Return how long the first core of each row takes with its slots given, where slots conflict with nothing and only cores like it share
    the memory. It is never above the row's times, and 0 where it is not known. What takes `limit` or more may be any such number."""
    columns, count = columns_of(encoded, rows)
    return found_rows(encoded, columns, np.full(count, limit), kernel.ALONE, state, lenient=True)


def open_floors(encoded: Encoded, rows: dict[str, Array], state: State, opened: Mapping[str, int | None], whole: bool,
                limits: Array, known: Array | None = None) -> tuple[Times, Array]:
    """Return the work of rows with open holes as their times [row, stream, pipe], and what goes by beside it. `known` is their work by
    closed sums. What goes by beside is found first: with the known work most rows then reach their limit, and nothing more is found of
    them. The work of M before others start is found last, for the rows that do not reach their limit yet."""
    count, shape, holes = len(limits), (len(encoded.program.streams), kernel.PIPE_COUNT), standing(encoded, opened)
    least = {**rows, **{n: np.full(count, own) for n, own in opened.items() if own is not None}}
    cores = grid_cores(encoded, rows, count)
    out = Times(np.zeros((count, *shape), np.int64), launch_ticks(encoded, cores, rows), np.zeros(count, np.int32), cores)
    left = limits - out.launch_ticks
    first = ends(encoded, least, state, holes)
    heads, beside = first[:, :, 0], first[:, :, 0] + first[:, :, 2]
    work = out.ticks if known is None else np.broadcast_to(known, (count, shape[0] * shape[1])).reshape(out.ticks.shape)
    near = np.flatnonzero(busiest_ticks(work, beside) < left)
    if len(near):
        found = found_rows(encoded, {n: v[near] for n, v in rows.items()}, limits[near], kernel.WORK, state, True, holes, shape)
        out.ticks[near], out.status[near] = found.ticks, found.status
    if whole and len(near := near[(busiest_ticks(out.ticks[near], beside[near]) < left[near]) & (out.status[near] == 0)]):
        made = ends(encoded, {n: v[near] for n, v in rows.items()}, state, holes)[:, :, 1]  # it is least where it is cut least
        beside[near] += np.maximum(0, np.where(made > 0, heads[near, :, kernel.M:kernel.M + 1] + made - heads[near], 0))
    return out, beside


def busiest_ticks(work: Array, beside: Array) -> Array:
    """Return int64[row]: ticks of the pipe that takes most, of those whose work is known."""
    found: Array = np.where(work > 0, work + beside, 0).max(axis=(1, 2), initial=0)
    return found


def ends(encoded: Encoded, rows: dict[str, Array], state: State, holes: Opened) -> Array:
    """Return int64[row, stream, 3, pipe]: ticks before the first instruction on a pipe, what M does before others start, ticks after the
    last."""
    shape = len(encoded.program.streams), 3, kernel.PIPE_COUNT
    return found_rows(encoded, rows, np.full(len(next(iter(rows.values()))), kernel.NEVER), kernel.ENDS, state, True, holes, shape).ticks


def placing_holes(encoded: Encoded) -> frozenset[str]:
    """Return the holes on which costs depend even where a buffer's slots conflict with nothing. Of those that count slots, these say where
    something lies whose place matters."""
    found = [e for site in encoded.sites for name, e in site.fields if name in asked_in_one_slot(site.timing) or not name.endswith(PLACES)]
    return frozenset().union(*map(hole_names, found))


PLACES = ("_at", "_last")
Placed = tuple[Expr, tuple[tuple[str, Expr], ...], tuple[tuple[str, float], ...]]  # what is asked, where operands lie, numbers


def placed_rows(encoded: Encoded, rows: Mapping[str, Array]) -> Array:
    """Return int64[question, row]: what formulas ask about the places of operands, where slots conflict with nothing. An instruction costs
    the same with other slots that give the same answers. Slots that decide more than places are answers themselves."""
    columns, count = columns_of(encoded, rows)
    key = "placed", 0
    if key not in encoded.dependences:
        encoded.dependences[key] = questions(encoded)
    asked, told = encoded.dependences[key]
    found = [columns[n] for n in told]
    for e, places, numbers in asked:
        found.append(np.asarray(evaluate(e, {**dict(numbers), **{name: evaluate(at, columns) for name, at in places}})))
    return np.array([np.broadcast_to(v, count) for v in found], np.int64).reshape(len(found), count)


def questions(encoded: Encoded) -> tuple[tuple[Placed, ...], tuple[str, ...]]:
    """Return (what is asked of places, each once; the holes that count slots and decide more than places)"""
    found: dict[Placed, None] = {}
    for site in encoded.sites:
        places, numbers = {n: e for n, e in site.fields if n.endswith(PLACES)}, dict(site.numbers)
        for formula in (site.timing.busy, site.timing.latency, site.timing.granule, site.timing.memory):
            for e in placed_in(in_one_slot(formula), frozenset(places), places.keys() | numbers):
                names = sorted(variables(e))
                found[e, tuple([(n, places[n]) for n in names if n in places]),
                      tuple([(n, numbers[n]) for n in names if n not in places])] = None
    more = [hole_names(e) for site in encoded.sites for name, e in site.fields if not name.endswith(PLACES)]
    slots = frozenset().union(*(hole_names(depth) for _, depth in encoded.counters))
    return tuple(found), tuple(sorted(slots & frozenset().union(*more)))


def placed_in(e: Expr, places: frozenset[str], known: Collection[str]) -> Iterator[Expr]:
    """Yield the largest parts of an expression that ask for places, and for nothing else that is not known."""
    names = variables(e)
    if not names & places:
        return
    if names <= set(known):
        yield e
        return
    parts = (e.left, e.right) if isinstance(e, Binary) else e.args if isinstance(e, Call) else (e.value,) if isinstance(e, Cast) else ()
    for x in parts:
        yield from placed_in(x, places, known)


def asked_in_one_slot(timing: Timing) -> frozenset[str]:
    """Return the names that formulas ask for where an operand's last slot is its first."""
    formulas = (timing.busy, timing.latency, timing.granule, timing.memory)
    return frozenset().union(*[variables(in_one_slot(f)) for f in formulas])


@lru_cache(4096)
def in_one_slot(formula: Expr) -> Expr:
    """Return a formula where an operand's last slot is its first."""
    last = [name for name in variables(formula) if name.endswith("_last")]
    return without_equals(substitute(formula, {name: Var(f"{name.removesuffix('_last')}_at") for name in last}))


def without_equals(e: Expr) -> Expr:
    """Return an expression in which nothing is asked to be larger than itself."""
    if isinstance(e, Binary) and e.op in ("<", ">") and e.left == e.right:
        return Int(0)
    return rebuild(e, without_equals)
