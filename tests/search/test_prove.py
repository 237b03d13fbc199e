"""Proofs: the floors that they rest on are below the times of every candidate, and what they find is what trying all finds."""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from aoec.ir.index import Binary, Call, Int, Var
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.budget import limits
from aoec.jobs.tune.tuning import Problem, hopeless, problem, search, start
from aoec.search.proof import prove as prove_module
from aoec.search.proof.parts import Part
from aoec.search.proof.prove import Learned, Levels, Proof, prove, share
from aoec.search.space.draws import few
from aoec.search.space.grid import NEVER
from aoec.search.space.restrict import Restriction
from aoec.simulate.encode.tables import first_false
from aoec.simulate.timing.floors import alone_rows
from aoec.simulate.timing.time import time_rows
from aoec.target.machine import load

ROWS = 100_000  # random rows of a sketch, of which few are legal
FUNCS = ("matmul(m=512, k=768, n=320, bias)", "conv2d(n=1, c=64, h=56, w=56, co=64, kh=3, kw=3, pad=1, bias, relu)",
         "conv2d(n=2, c=128, h=14, w=14, co=256, kh=1, kw=1, stride=2, bias)", "softmax(m=300, n=700)", "add(m=256, n=3136, relu)")
TARGETS = ("Ascend910B1", "Ascend310P3")  # cube and vector apart, and on one core
LONG = [(f, "Ascend310P3") for f in FUNCS[:2]] + [(FUNCS[2], "Ascend910B1")]  # in `make test` each of the cube is tried on one machine


def legal_rows(p: Problem, sketch: int, random: np.random.Generator, most: int) -> dict[str, np.ndarray]:
    """Columns of random legal candidates of a sketch."""
    grid = p.space.grids[sketch]
    columns = {name: random.choice(values, ROWS) for name, values in zip(grid.names, grid.choices)}
    good = np.flatnonzero(first_false(p.sketches[sketch].encoded, columns, ROWS) == 0)[:most]
    return {name: values[good] for name, values in columns.items()}


@pytest.mark.parametrize("text", [FUNCS[0], FUNCS[2]])
def test_known_work_leaves_out_what_the_floors_of_all_leave_out(text: str) -> None:
    """With what closed sums know of rows, and a limit, floors of those below it are what they are without, and of no other row too low."""
    p, random, left_out = problem(lower_operator(text), load("Ascend910B1")), np.random.default_rng(1), 0
    for sketch in range(0, len(p.space.grids), 3):
        levels, columns = Levels(sketch, p.space.grids[sketch], p, Learned()), legal_rows(p, sketch, random, 100)
        if not (count := len(next(iter(columns.values())))):
            continue
        rows = levels.fill_open({n: v for n, v in columns.items() if n in levels.outer_names}, count, levels.inner)
        known = p.work_floors(sketch, rows, levels.switches, True)
        least, nothing = levels.least(levels.inner), np.zeros((count, 1), np.int64)
        whole = np.maximum(known, p.parts(sketch, rows, least, False, NEVER, nothing))
        floors = np.where(whole[0] > 0, whole[0] + whole[1], 0).max(axis=1)
        limit = int(np.quantile(floors, 0.3))
        some = p.parts(sketch, rows, least, False, limit, known[0])
        both = np.maximum(known, some)
        found = np.where(both[0] > 0, both[0] + both[1], 0).max(axis=1)
        assert (found[floors < limit] == floors[floors < limit]).all() and (found <= floors).all(), sketch
        assert (found[floors >= limit] >= limit).all(), sketch
        left_out += int((some[0] == 0).all(axis=1).sum())
    assert left_out > 0


@pytest.mark.parametrize("text, target", [pytest.param(f, t, marks=[pytest.mark.slow] * ((f, t) in LONG)) for f in FUNCS for t in TARGETS])
def test_no_candidate_is_faster_than_a_floor_of_its_assignment_at_any_level(text: str, target: str) -> None:
    p, random, seen = problem(lower_operator(text), load(target)), np.random.default_rng(0), 0
    alike = 0  # rows in which slots change no cost that do in others
    for sketch in range(len(p.space.grids)):
        levels, columns = Levels(sketch, p.space.grids[sketch], p, Learned()), legal_rows(p, sketch, random, 200)
        if not len(next(iter(columns.values()))):
            continue
        ticks = p.times(sketch, columns, NEVER)
        late = {*levels.switches, *(n for n in levels.slots if n not in levels.outer_names)}
        part, proof = Part(sketch, columns, np.zeros(len(ticks), np.int64)), Proof((sketch, ()), NEVER)
        for open_from in range(len(levels.inner) + 1):
            rest = levels.inner[open_from:]
            assigned = {n: v for n, v in columns.items() if n not in {*late, *rest}}
            part = levels.prune_by_work(replace(part, columns=assigned), rest, proof)  # beside what is known with one hole more open
            assert len(part.floors) == len(ticks)
            assert (part.floors <= ticks).all(), (sketch, rest, (part.floors - ticks).max())
            part = levels.prune_by_bounds(part, rest, proof)
            assert (part.floors <= ticks).all(), (sketch, rest, (part.floors - ticks).max())
        assert (p.core_floors(sketch, columns, NEVER) <= ticks).all(), sketch
        whole = Part(sketch, {n: v for n, v in columns.items() if n not in late}, np.zeros(len(ticks), np.int64))
        for some, eased in [both for both in levels.by_cost(whole) if both[1]]:
            ways, each = levels.ways(some, eased), levels.ways(some, levels.eased)
            loose, least = levels.loosely_walked(ways, proof), levels.least_alone(ways, ways.columns, ways.source, NEVER)
            assert (loose <= least).all(), sketch
            more = sum(max(levels.choices[n]) - min(levels.choices[n]) for n in eased if n not in levels.eased)
            assert (least <= levels.least_alone(each, each.columns, each.source, NEVER) + more * p.slot_ticks).all(), sketch
            alike += len(eased) > len(levels.eased) and len(some.floors)
        seen += len(ticks)
    assert seen >= 80 and (alike or target != TARGETS[1] or "conv2d" not in text)


def test_what_is_handed_over_at_once_takes_no_longer_than_in_granules_or_whole() -> None:
    p = problem(lower_operator("conv2d(n=1, c=128, h=28, w=28, co=128, kh=3, kw=3, pad=1, bias, relu)"), load(TARGETS[0]))
    random = np.random.default_rng(0)
    for sketch in (1, 5):
        columns = legal_rows(p, sketch, random, 100)
        either = [{**columns, "uf": np.full(len(columns["uf"]), uf)} for uf in (0, 1)]
        whole, granules = (alone_rows(p.sketches[sketch].encoded, rows, p.state).ticks for rows in either)
        assert (granules > whole).any() and (granules < whole).any()  # so neither stands for both
        assert (p.core_floors(sketch, either[1], NEVER) <= np.minimum(whole, granules) + launch(p, sketch, columns)).all()


def launch(p: Problem, sketch: int, columns: dict[str, np.ndarray]) -> np.ndarray:
    """Ticks of each row's launch."""
    return time_rows(p.sketches[sketch].encoded, columns, p.state).launch_ticks


def all_tried(p: Problem) -> int:
    """Ticks of the fastest of all legal candidates."""
    least = []
    for i, grid in enumerate(p.space.grids):
        ranks = few(grid, p.constraints(i), 10**6)
        assert ranks is not None and len(ranks) > 100
        digits = np.unravel_index(ranks, grid.counts)
        columns = {n: np.array(values)[d] for n, values, d in zip(grid.names, grid.choices, digits)}
        least.append(int(time_rows(p.sketches[i].encoded, columns, p.state).total_ticks.min()))
    return min(least)


SMALL = (
    ("Ascend910B1", "matmul(m=256, k=512, n=384, fp16)",
     ("tm=64,128", "tn=64,128", "tk=64,128", "sk=1,4", "gm=2,4", "gn=3,6", "da=1,2"), (0, 6)),
    ("Ascend310P3", "matmul(m=128, k=256, n=256, bias)",
     ("tm=32,64", "tn=64,128", "tk=64", "sk=1,2", "gm=2,4", "gn=2,4", "uc=2,8", "da=1,2"), (0, 7)),
    ("Ascend910B3", "conv2d(n=1, c=64, h=28, w=28, co=64, kh=3, kw=3, pad=1, bias, relu)",
     ("n1=2,4", "th=2,4,7", "gh=2,4,7", "gn=1,2", "sk=1,2", "tk=48,144", "da=1,2", "db=2"), (0, 2)),
    ("Ascend910B3", "softmax(m=300, n=700)", (), (0,)),
)


@pytest.mark.parametrize(("target", "text", "pins", "sketches"), SMALL)
def test_a_proof_finds_what_trying_all_candidates_finds(target: str, text: str, pins: tuple[str, ...], sketches: tuple[int, ...]) -> None:
    machine = load(target)
    left = Restriction(tuple((name, tuple(map(int, values.split(",")))) for name, _, values in (pin.partition("=") for pin in pins)),
                       (), (), sketches)
    least = all_tried(problem(lower_operator(text), machine, restriction=left))
    first = start(problem(lower_operator(text), machine, restriction=left))
    again = problem(lower_operator(text), machine, restriction=left)
    found = prove(again.space.grids, again, first.default, 2 * first.default_ticks, 10**7)  # it has to find the best itself
    assert found.closed and again.cost([found.best]) == [found.ticks]
    slots = sum(max(again.space.grids[g].choices[again.space.grids[g].names.index(n)]) for g in range(len(again.space.grids))
                for n in again.slots(g)[1])
    flags = round(2 * slots * machine.issue_cycles * 1024)  # a slot less saves a set and a wait: those alone are not tried
    assert least <= found.ticks <= least + flags


def test_a_proof_that_is_cut_short_keeps_what_it_found_and_says_what_is_left() -> None:
    p = problem(lower_operator(FUNCS[0]), load(TARGETS[0]))
    first = start(p)
    found = prove(p.space.grids, p, first.default, first.default_ticks, 15_000)
    assert not found.closed and 0 < found.floor <= found.ticks <= first.default_ticks and found.effort < 30_000
    assert prove(p.space.grids, p, first.default, first.default_ticks, 10**7, lambda: True).closed is False
    assert not prove(p.space.grids, p, first.default, first.default_ticks, 1).closed


def test_a_proof_that_is_foreseen_to_take_too_long_is_given_up_early_and_one_that_is_not_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    p = problem(lower_operator("matmul(m=128, k=256, n=256, fp16)"), load(TARGETS[0]))
    first = start(p)
    cut = prove(p.space.grids, p, first.default, first.default_ticks, 15_000)
    given_up = prove(p.space.grids, p, first.default, first.default_ticks, 15_000, hope=1.5)
    assert not cut.closed and not given_up.closed and given_up.effort < 0.7 * cut.effort and 0 < given_up.floor <= cut.floor
    assert prove(p.space.grids, p, first.default, first.default_ticks, 100_000, hope=1.0).closed
    floors = np.array([60, 90, 80, 120])
    half = Proof(first.default, 100, bounded=90, floors=floors, decided=1, begun=10)  # 80 rows for 40 of 70 ticks below the best
    assert half.foreseen(100) == 150 and half.foreseen(80) == 10 + 80 * 20 / 40 and Proof(first.default, 100).foreseen(100) == 0
    assert replace(half, ahead=40).foreseen(100) == 10 + 120 * 70 / 40
    assert half.hopeless(140, 1.0) and not half.hopeless(140, 1.1) and not half.hopeless(90 * 32, 0.01)
    monkeypatch.setattr(prove_module, "WALKED", 64)
    early = prove(p.space.grids, p, first.default, first.default_ticks, 60_000, hope=0.01)  # within the first assignments
    assert not early.closed and early.ahead > 0 and early.foreseen(early.ticks) > early.effort
    many = Proof(first.default, 100, bounded=300_000, floors=floors, decided=1)  # 525,000 are foreseen, 225,000 with 20 ticks less
    thousand, more = (limits(("trials", n)) for n in (1000, 1600))
    assert hopeless(many, 100, thousand) and not hopeless(many, 80, thousand) and not hopeless(many, 100, limits(("trials", 2000)))
    assert hopeless(many, 100, more) and not hopeless(replace(many, bounded=100_000, ahead=200_000), 100, more)
    assert not hopeless(many, 100, limits(("trials", 900))) and not hopeless(many, 100, limits(("seconds", 5000)))
    assert share(floors, 1, 100) == 40 / 70 and share(floors, 3, 100) == 1.0 == share(floors, 0, 50)


def test_a_search_by_proof_is_never_slower_than_the_default_and_says_how_far_it_came() -> None:
    p = problem(lower_operator(FUNCS[0]), load(TARGETS[0]))
    first = start(p)
    found = search(p, first, "proof", ("trials", 30), 0)
    assert found.floor_ticks <= found.ticks <= first.default_ticks and found.bound_ticks <= found.ticks
    assert found.proof in ("", "space")


def test_a_portfolio_s_result_is_proven_from_where_it_ended() -> None:
    p = problem(lower_operator("matmul(m=128, k=256, n=256, fp16)"), load(TARGETS[0]))
    first = start(p)
    found = search(p, first, "portfolio", ("trials", 600), 0)
    again = problem(p.func, p.machine)
    proof = prove(again.space.grids, again, found.best, found.ticks + 1, 10**6)
    assert found.trials > 0 and found.floor_ticks <= proof.ticks <= found.ticks
    assert proof.closed and (found.proof == "" or proof.ticks == found.ticks)


def test_slots_are_looked_at_together_where_instructions_take_as_long_with_each_of_them_and_nowhere_else() -> None:
    machine = load("Ascend310P3")
    parity = Binary("%", Binary("//", Var("src1_at"), Int(2048)), Int(2))
    slow = replace(machine.timing["vadd"], busy=Call("select", (parity, Int(100), Int(50))))  # behind slots of the result
    machine = replace(machine, timing={**machine.timing, "vadd": slow})
    p = problem(lower_operator(FUNCS[2]), machine, restriction=Restriction((), (), (), (0,)))
    levels, columns = Levels(0, p.space.grids[0], p, Learned()), legal_rows(p, 0, np.random.default_rng(0), 200)
    placed = [n for n in levels.shifting if n not in levels.eased]
    part = Part(0, {n: v for n, v in columns.items() if n not in levels.slots}, np.zeros(len(columns["do"]), np.int64))
    rows = [{**levels.fill_open(part.columns, len(part.floors), ()), "do": np.full(len(part.floors), do)} for do in levels.choices["do"]]
    same = (np.ptp([p.work_floors(0, each, (), False)[0] for each in rows], axis=0) == 0).all(axis=1)
    assert placed == ["do"] and not same.all()
    assert (levels.alike(part, placed) == same).all() and same.any()
