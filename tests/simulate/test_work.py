"""Sums in closed form: what keeps the pipes of a first core at work, and which reads move the same bytes however they are cut."""
from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from aoec.kernels import timeline as kernel
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.ir.index import Expr, Hole, Int, Var, ceildiv, evaluate, minimum, normalise, substitute, variables
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.tuning import Problem, problem
from aoec.search.proof.slots import INNER
from aoec.simulate.encode.encode import Encoded, Site
from aoec.simulate.encode.sizes import unique_values
from aoec.simulate.encode.tables import first_false
from aoec.simulate.timing import work
from aoec.simulate.timing.time import columns_of, found_rows
from aoec.simulate.timing.totals import open_accesses, sum_over, total
from aoec.simulate.timing.work import FirstCore, FirstValues, first_core_work
from aoec.target.isa.instructions import INSTRUCTIONS
from aoec.target.machine import load

ROWS = 30_000  # random rows of a sketch, of which few are legal
CASES = [("Ascend910B1", "matmul(m=200, k=768, n=320, bias)"),
         ("Ascend910B1", "conv2d(n=1, c=64, h=30, w=29, co=96, kh=3, kw=3, pad=1, bias)"),
         ("Ascend310P3", "conv2d(n=1, c=64, h=14, w=14, co=128, kh=1, kw=1, bias, relu)"), ("Ascend910B3", "softmax(m=300, n=700)")]


def legal_rows(p: Problem, sketch: int, most: int) -> dict[str, np.ndarray]:
    """Columns of random legal candidates of a sketch."""
    grid, random = p.space.grids[sketch], np.random.default_rng(sketch)
    columns = {name: random.choice(values, ROWS) for name, values in zip(grid.names, grid.choices)}
    good = np.flatnonzero(first_false(p.sketches[sketch].encoded, columns, ROWS) == 0)[:most]
    return {name: values[good] for name, values in columns.items()}


@pytest.mark.parametrize(("target", "text"), CASES)
def test_closed_sums_are_what_the_kernel_counts_class_by_class(target: str, text: str) -> None:
    p, same = problem(lower_operator(text), load(target)), 0
    for sketch in range(0, len(p.sketches), 4):
        encoded, columns = p.sketches[sketch].encoded, legal_rows(p, sketch, 40)
        count = len(next(iter(columns.values())))
        if not count:
            continue
        shape = len(encoded.program.streams), kernel.PIPE_COUNT
        walked = found_rows(encoded, columns_of(encoded, columns)[0], np.full(count, kernel.NEVER), kernel.WORK, p.state, True,
                            shape=shape)
        ticks, status = first_core_work(encoded, columns, False)
        good = (walked.status == 0) & (status == 0)
        assert (ticks[good] <= walked.ticks[good]).all(), sketch
        apart = [site.pipe for site in encoded.sites if site.access]  # those go by what hits L2, and the scalar unit by slots
        plain = [pipe for pipe in range(1, kernel.PIPE_COUNT) if pipe not in apart]
        assert (ticks[good][:, :, plain] == walked.ticks[good][:, :, plain]).all(), sketch
        assert (2 * ticks[good][:, :, 0] > walked.ticks[good][:, :, 0]).all(), sketch
        same += int(good.sum())
    assert same >= 40


@pytest.mark.parametrize(("target", "text"), CASES[1:3])
def test_of_rows_below_a_limit_sums_are_whole_and_of_others_reach_it(target: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "MANY", 8)
    p, left_out = problem(lower_operator(text), load(target)), 0
    for sketch in range(0, len(p.sketches), 4):
        encoded, columns = p.sketches[sketch].loose, legal_rows(p, sketch, 200)
        if len(next(iter(columns.values()))) < 8:
            continue
        whole, status = first_core_work(encoded, columns, True)
        most = whole.max(axis=(1, 2))
        for limit in (int(np.quantile(most, 0.2)), 1):  # of 1 nobody is left behind the first pipe
            ticks, same = first_core_work(encoded, columns, True, np.full(len(most), limit))
            below = most < limit
            assert (ticks[below] == whole[below]).all() and (same[below] == status[below]).all(), sketch
            assert (ticks <= whole).all() and (ticks.max(axis=(1, 2))[~below & (status == 0)] >= limit).all(), sketch
            left_out += int((ticks < whole).any(axis=(1, 2)).sum())
    assert left_out > 0


def done(encoded: Encoded, env: dict[str, int]) -> list[tuple[int, ...]]:
    """What a core of the first stream does: the fields of each instruction, iteration by iteration."""
    trips = {loop.var: loop.trips for loop in encoded.loops}

    def inside(number: int, loops: tuple[str, ...], env: dict[str, int]) -> Iterator[tuple[int, ...]]:
        if not loops:
            yield (number, *[int(evaluate(e, env)) for _, e in encoded.sites[number].fields])
        for i in range(int(evaluate(trips[loops[0]], env)) if loops else 0):
            yield from inside(number, loops[1:], {**env, loops[0]: i})

    told = [(a, place.outer) for (op, a, _, _), place in zip(encoded.code.tolist(), encoded.places) if op == kernel.INSTR]
    return [fields for number, outer in told for fields in inside(number, outer, env)]


@pytest.mark.parametrize("text", ["matmul(m=40, k=16, n=48)", "conv2d(n=1, c=16, h=7, w=6, co=80, kh=1, kw=1, bias)"])
def test_cores_that_are_taken_to_do_what_the_first_does_do_it(text: str) -> None:
    p, found = problem(lower_operator(text), load("Ascend310P3")), set()
    for sketch in range(0, len(p.sketches), 3):
        encoded, columns = p.sketches[sketch].encoded, legal_rows(p, sketch, 12)
        for row in range(len(columns["gn"])):
            one = {n: v[row:row + 1] for n, v in columns.items()}
            values = {n: int(v[0]) for n, v in one.items()}
            extents = {n: int(evaluate(e, values)) for _, n, e in encoded.axes}
            cores = [done(encoded, values | dict(zip(extents, place))) for place in product(*map(range, extents.values()))]
            alike = FirstCore(encoded, 0, FirstValues(encoded, 0, one, np.zeros(1, np.int32)), False).alike
            assert int(np.max(alike)) <= cores.count(cores[0])
            found.add((int(np.max(alike)) == cores.count(cores[0]), len(cores) > cores.count(cores[0]) > 1))
    assert {(True, True), (True, False)} <= found


def moved(encoded: Encoded, site: Site, values: dict[str, int]) -> int:
    """Bytes that a site moves on core 0, iteration by iteration."""
    assert site.access is not None
    env = {**values, **{name: 0 for _, name, _ in encoded.axes}, **dict(site.numbers), "size": site.gm_size}
    trips = {loop.var: loop.trips for loop in encoded.loops}

    def inside(loops: tuple[str, ...], env: dict[str, float]) -> int:
        if not loops:
            fields = {name: evaluate(e, env) for name, e in site.fields}
            return int(evaluate(INSTRUCTIONS[site.op].gm_bytes, {**env, **fields}))
        return sum(inside(loops[1:], {**env, loops[0]: i}) for i in range(int(evaluate(trips[loops[0]], env))))

    return inside(site.access.loops, env)


@pytest.mark.parametrize(("target", "text"), CASES[:3])
def test_bytes_that_are_settled_are_the_same_however_open_holes_are_chosen(target: str, text: str) -> None:
    p, known = problem(lower_operator(text), load(target)), 0
    for sketch, grid in list(enumerate(p.space.grids))[::3]:
        encoded, columns = p.sketches[sketch].encoded, legal_rows(p, sketch, 4)
        inner = [n for n in INNER if n in grid.names and n not in p.slots(sketch)[0]]
        choices = dict(zip(grid.names, grid.choices))
        for held in (0, 1):
            still = inner[held:]
            settled = open_accesses(encoded, dict.fromkeys(still, 1)).settled
            for row, site in product(range(len(next(iter(columns.values())))), encoded.sites):
                if site.access not in settled or site.access.writes:
                    continue
                values = {n: int(v[row]) for n, v in columns.items()}
                others = [{n: choices[n][at % len(choices[n])] for n in still} for at in (0, row + 1, -1)]
                found = {moved(encoded, site, values | other) for other in others}
                assert len(found) == 1, (sketch, site.op, still)
                told = substitute(total(encoded, site), {name: Int(0) for _, name, _ in encoded.axes})
                if not variables(told):
                    assert {evaluate(told, values)} == found
                known += 1
    assert known > 20


@pytest.mark.parametrize(("unit", "trips", "known"), [
    (16, ceildiv(100, Hole("t", ())), True), (8, ceildiv(100, Hole("t", ())), False), (16, ceildiv(90, Hole("t", ())), False)])
def test_pieces_are_their_extent_where_they_are_whole_units_and_all_of_it(unit: int, trips: Expr, known: bool) -> None:
    t = Hole("t", ())
    piece = ceildiv(minimum(t, 100 - Var("i") * t), 16)
    assert (normalise(sum_over(piece, "i", trips, {"t": unit})) == Int(7)) == known


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-40, 40), max_size=30), st.sampled_from([1, 7, 2**57]))
def test_values_are_numbered_as_sorting_numbers_them(values: list[int], apart: int) -> None:
    given_values = np.array(values, np.int64) * apart
    _, first, which = np.unique(given_values, return_index=True, return_inverse=True)
    assert [x.tolist() for x in unique_values(given_values)] == [first.tolist(), which.reshape(-1).tolist()]
