"""Laws of lowering, sketches, emission and bounds: for every group of every small model, every sketch, legal candidates drawn by seed."""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import settings

from aoec import primitives
from aoec.base.errors import CapacityError, CheckError
from aoec.ir.index import Int, evaluate, reads
from aoec.ir.program import CrossSet, CrossWait, For, Item, Program, SetFlag, WaitFlag
from aoec.ir.rewrite import fill, normalise
from aoec.jobs.stages.operators import parse_call
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.tuning import Problem, problem, start
from aoec.lowering.emit.emit import emit
from aoec.search.proof.bounds import bound
from aoec.search.sketches.nests import find_product
from aoec.search.space.grid import Candidate
from aoec.simulate.encode.encode import encode
from aoec.simulate.timing.state import State
from aoec.simulate.timing.time import measure, time_rows
from aoec.target.legality.check import check
from tests.laws.turns import SAME, in_turn
from tests.lowering.groups import MODELS, ON_COUPLED, Case, cases, edited, legal, machine_named, tuning

FLAGS = (SetFlag, WaitFlag, CrossSet, CrossWait)


# the five of what joins a convolution on coupled cores (test_coupled.py runs them there) are on the default machine groups of kinds that
# other models have: of these make test-all has them too
BEHIND = ("active", "active_blocks", "joined", "joined_points", "joined_blocks")
EACH = [pytest.param(m, marks=[pytest.mark.slow] * (m in BEHIND)) for m in MODELS]


def scheduled(model: str) -> Iterator[tuple[Case, Problem]]:
    """The groups of a model with their tuning problems."""
    for i, c in enumerate(cases(model)):
        yield c, tuning(model, i)


# `make test` asks the laws of every sixth sketch of a group, and of one at least: of one model those from the first, of the next those
# from the second, so that each structure is met with several operators. Where a group has more than three sketches, mutants ask every
# second, and make test-all, which asks new questions, all; where it has fewer, both ask all
TURN = {"random": 1, "same": 6}.get(settings.get_current_profile_name(), 2)
# a scheduled func is evaluated point by point, which takes longer than all its programs, and these are made of it: a twelfth of the groups
SLOWLY = {1: 1, 2: 3, 6: 12}[TURN]
HALF = 2 if SAME else 1  # `make test` draws half as many candidates of a sketch where many are drawn


def groups_in_turn(model: str) -> Iterator[tuple[int, Case, Problem, range]]:
    """The groups of a model by number with their tuning problems and the sketches whose turn it is."""
    for i, (case, p) in enumerate(scheduled(model)):
        count = len(p.sketches)
        first = (list(MODELS).index(model) + i) % (min(TURN, count) if SAME else TURN)
        yield i, case, p, range(first, count, TURN) if SAME or count > 3 else range(count)


def everywhere(p: Problem, count: int, seed: int = 0, sketches: Iterable[int] | None = None) -> list[Candidate]:
    """Legal candidates of every sketch, or of some."""
    return [c for s in (range(len(p.sketches)) if sketches is None else sketches) for c in legal(p, s, count, seed)]


# first, as it needs all kernels: a fresh clone's are compiled here, before the other process comes to a file that needs them (conftest.py)
@pytest.mark.parametrize("model", EACH)
def test_func_scheduled_func_and_program_mean_the_operators(model: str) -> None:
    for i, case, p, sketches in groups_in_turn(model):
        assert case.agrees(case.evaluated(case.func))
        candidates = everywhere(p, 2 // HALF, 2, sketches)
        for c in candidates:
            assert case.agrees(case.run(p.program(c))), (case.name, p.values(c))
        if (list(MODELS).index(model) + i) % SLOWLY == 0:
            c = candidates[len(candidates) // 2]
            assert case.agrees(case.evaluated(primitives.apply(p.func, p.trace(c)))), (case.name, p.values(c))


@pytest.mark.parametrize("model", EACH)
def test_every_sketch_rule_that_applies_can_be_emitted(model: str) -> None:
    for _, p in scheduled(model):
        assert p.refused == []


@pytest.mark.parametrize("model", EACH)
def test_filling_first_or_last_gives_one_program_and_one_time(model: str) -> None:
    for *_, p, sketches in groups_in_turn(model):
        one_program_and_one_time(p, everywhere(p, 1, 1, sketches))


# sums with terms between what is kept, whose rows lie a tile of terms apart; padding that more than one row of a loop meets; planes of
# whose lanes there are tiles, the last one shorter
@pytest.mark.parametrize("model", ["sum_planes", "pad_image", "max_planes"])
def test_every_sketch_of_what_broke_a_law_once(model: str) -> None:
    for _, p in scheduled(model):
        candidates = everywhere(p, 4 // HALF, 11)
        one_program_and_one_time(p, candidates)
        for c in candidates:
            check(normalise(emit(primitives.apply(p.func, p.trace(c)), p.machine)), p.machine)


FAMILIES = ("Ascend310P3", "Ascend310B1", "Ascend910A", "Ascend310", "Ascend950PR_958x")


@pytest.mark.slow
@pytest.mark.parametrize("machine", FAMILIES)
@pytest.mark.parametrize("model", [*MODELS, *ON_COUPLED])
def test_every_sketch_on_every_family(model: str, machine: str) -> None:
    for case in cases(model, machine):
        product = find_product(case.func)
        if product and case.func.buffer(reads(product.block.value)[1].buffer).dtype not in machine_named(machine).tables["kf"]:
            continue  # fp32 is for hosts where the cube has none
        p = problem(case.func, machine_named(machine))
        assert p.refused == []
        candidates = everywhere(p, 1, 11)
        one_program_and_one_time(p, candidates)
        for c in candidates:
            program = p.program(c)
            check(program, p.machine)
            assert case.agrees(case.run(program)), (case.name, p.values(c))


def one_program_and_one_time(p: Problem, candidates: list[Candidate]) -> None:
    """Nothing; holes filled before emission or after it give the same program, of the same time."""
    for c, cost in zip(candidates, p.cost(candidates)):
        sketch = p.sketches[c[0]]
        late = normalise(fill(sketch.program, p.values(c)))
        early = normalise(emit(primitives.apply(p.func, p.trace(c)), p.machine))
        assert late == early and all(depth != Int(1) for stream in late.streams for _, depth in stream.counters)
        rows = time_rows(sketch.encoded, {n: np.array([v]) for n, v in p.values(c).items()})
        m = measure(early, p.machine)
        assert rows.status[0] == 0 and rows.ticks[0] == m.ticks == cost - rows.launch_ticks[0]


@pytest.mark.parametrize("model", EACH)
def test_programs_are_accepted_and_none_can_spare_a_flag(model: str) -> None:
    for *_, p, sketches in groups_in_turn(model):
        for c in everywhere(p, 1, 3, sketches):
            check(p.program(c), p.machine)
        least = min(everywhere(p, 2, 4, sketches), key=lambda c: (p.cost([c])[0], c))
        program = p.program(least)
        for cut in without_one_flag(program):
            with pytest.raises(CheckError):
                check(cut, p.machine)


def without_one_flag(program: Program) -> Iterator[Program]:
    """The program with each of its flag instructions taken out in turn, but for those in a loop that never has an iteration."""
    (stream,) = program.streams
    grid = [dict(zip((v for v, _ in stream.grid), at)) for at in product(*({0, evaluate(e, {}) - 1} for _, e in stream.grid))]
    for body in cuts(stream.body, grid):
        yield replace(program, streams=(replace(stream, body=body),))


def cuts(body: tuple[Item, ...], places: list[dict[str, int]]) -> Iterator[tuple[Item, ...]]:
    """`places`: the values of the loop variables around a body, at the first and last iteration of each loop."""
    for i, item in enumerate(body):
        if isinstance(item, FLAGS):
            yield body[:i] + body[i + 1:]
        elif isinstance(item, For):
            trips = [(at, evaluate(item.trips, at)) for at in places]
            inside = [{**at, item.var: k} for at, n in trips for k in sorted({0, n - 1}) if 0 <= k < n]
            for inner in cuts(item.body, inside) if inside else ():
                yield (*body[:i], replace(item, body=inner), *body[i + 1:])


# ---------------------------------------------------------------- bounds

def resident(p: Problem) -> State:
    """All inputs in L2, as far as they fit it."""
    left, out = p.machine.l2_usable_bytes, []
    sizes = {t.name: measure_bytes(t.shape, t.dtype) for t in p.func.inputs}
    for name, size in sizes.items():
        out.append((name, min(size, left)))
        left -= min(size, left)
    return tuple(e for e in out if e[1])


def measure_bytes(shape: tuple, dtype: str) -> int:
    return int(np.prod([e.value for e in shape])) * {"fp32": 4, "fp16": 2}[dtype]


# of the two machines whose numbers are far off each takes a sixth of the models in turn, and all of them where time is no matter
TURNS = {"fast": 0, "slow": 3}
ON = [pytest.param(m, on, marks=[pytest.mark.slow] * (m in BEHIND or i % 6 != TURNS.get(on, i % 6)), id=f"{m}-{on}")
      for i, m in enumerate(MODELS) for on in ("Ascend910B3", *TURNS)]


@pytest.mark.parametrize("model, machine", ON)
def test_no_legal_candidate_is_faster_than_the_bound(model: str, machine: str) -> None:
    for i, case, _, sketches in groups_in_turn(model):
        cold = tuning(model, i, machine)
        warm = replace(cold, state=resident(cold), costs={})
        candidates = everywhere(cold, 40 // HALF, 5, sketches)
        for p in (cold, warm):
            costs = [t for t in p.cost(candidates) if t is not None]
            assert 0 < p.bound().ticks <= min(costs), (case.name, p.state)


LARGE = ("matmul(m=1000, k=300, n=520, bias)", "conv2d(n=2, c=64, h=57, w=57, co=96, kh=1, kw=1, stride=2)",
         "conv2d(n=1, c=64, h=40, w=44, co=64, kh=3, kw=3, pad=1, bias, relu)", "max_pool(n=2, c=64, h=60, w=60, kh=2, kw=2, stride=3)",
         "add(m=60, n=3000, relu)", "conv2d(n=1, c=16, h=224, w=224, co=16, kh=1, kw=1, stride=4)")


# `make test` asks each of one machine, in turn; make test-all asks both
@pytest.mark.parametrize("text, machine", in_turn(LARGE, ["Ascend910B3", "slow"]))
def test_the_bound_holds_where_memory_decides_and_charges_what_must_be_done(text: str, machine: str) -> None:
    p = problem(lower_operator(text), machine_named(machine))
    costs = [t for t in p.cost([*everywhere(p, 60 // HALF, seed=6), start(p).default]) if t is not None]
    b = p.bound()
    assert 0 < b.ticks <= min(costs)
    peak = products(text) / (16 * 16 * p.machine.tables["kf"]["fp16"]) / p.machine.core("aic").count
    assert b.cycles >= b.launch_cycles + max(peak, needed_bytes(text) / p.machine.hbm_bytes_per_cycle)


def test_the_bound_counts_products_at_peak_on_all_cores() -> None:
    text, machine = "matmul(m=2048, k=2048, n=2048)", machine_named("Ascend910B3")
    b = bound(lower_operator(text), machine, {})
    assert b.cycles >= b.launch_cycles + products(text) / 4096 / 20


def products(text: str) -> int:
    """Multiplications of a product operator by its sizes; none for others."""
    call = parse_call(text)
    s = call.sizes
    if call.name == "matmul":
        return s["m"] * s["k"] * s["n"]
    if call.name != "conv2d":
        return 0
    return s["n"] * s["co"] * s["c"] * s["kh"] * s["kw"] * outputs(s, "h") * outputs(s, "w")


def outputs(s: dict[str, int], axis: str) -> int:
    return (s[axis] + 2 * s["pad"] - s["dilation"] * (s[f"k{axis}"] - 1) - 1) // s["stride"] + 1


def needed_bytes(text: str) -> int:
    """fp16 bytes of the inputs that some output depends on, each counted once, by the operator's sizes."""
    call = parse_call(text)
    s = call.sizes
    if call.name in ("matmul", "add"):
        return 2 * (s["m"] * s["k"] + s["k"] * s["n"] if call.name == "matmul" else 2 * s["m"] * s["n"])
    read = [{o * s["stride"] + k * s["dilation"] - s["pad"] for o in range(outputs(s, a)) for k in range(s[f"k{a}"])} for a in "hw"]
    used = [len(places & set(range(s[a]))) for places, a in zip(read, "hw")]
    return 2 * (s["n"] * s["c"] * used[0] * used[1] + (s["co"] * s["c"] * s["kh"] * s["kw"] if call.name == "conv2d" else 0))


@pytest.mark.parametrize("text", ["matmul(m=336, k=64, n=64)", "matmul(m=1000, k=64, n=520)",
                                  "conv2d(n=1, c=32, h=21, w=40, co=48, kh=3, kw=3, pad=1)"])
def test_each_input_that_is_read_whole_comes_from_hbm_once_at_least(text: str) -> None:
    """However unevenly a grid of the cores there are cuts it: the shares of all transfers add up to the first touch."""
    p = problem(lower_operator(text), machine_named("Ascend910B3"))
    needed = sum(measure_bytes(b.shape, b.dtype) for b in p.func.inputs)
    for c in everywhere(p, 12 // HALF, seed=7):
        m = measure(p.program(c), p.machine)
        assert m.cores <= p.machine.core("aic").count and m.hbm_bytes >= needed * (1 - 1e-9), p.values(c)


# ---------------------------------------------------------------- capacity

@pytest.mark.parametrize("name, group", [("matmul", 0), ("conv", 1), ("point", 1), ("residual", 2), ("max_pool", 1), ("softmax", 0)])
def test_a_scope_one_byte_too_small_makes_the_row_illegal_and_names_scope_and_buffers(name: str, group: int) -> None:
    p = tuning(name, group)
    c = everywhere(p, 1, seed=8)[-1]
    program, trace = p.program(c), p.sketches[c[0]].trace
    rows = {n: np.array([v]) for n, v in p.values(c).items()}
    for scope in {s.scope for s in program.spaces}:
        spaces = [s for s in program.spaces if s.scope == scope]
        need = max(whole(s.address) + whole(s.size_bytes) * whole(s.depth) for s in spaces)
        fits, short = (edited({"size_bytes": size / p.machine.scope(scope).size_bytes}, f"scopes.{scope}") for size in (need, need - 1))
        assert [m.scope(scope).size_bytes for m in (fits, short)] == [need, need - 1]
        func = primitives.apply(p.func, trace)
        assert time_rows(encode(emit(func, fits), fits), rows).status[0] == 0
        tight = emit(func, short)
        times = time_rows(encode(tight, short), rows)
        reason = times.reason(0, tight)
        assert times.status[0] > 0 and f"{scope} holds {need - 1} bytes" in reason and any(s.name in reason for s in spaces)
        with pytest.raises(CapacityError, match=scope):
            check(normalise(fill(tight, p.values(c))), short)


def whole(e: object) -> int:
    assert isinstance(e, Int)
    return e.value
