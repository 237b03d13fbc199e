"""Tables that a plan fills are those that NumPy makes row by row: equal times, floors and errors; and a tape gives what NumPy gives."""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from aoec.kernels import columns as kernel
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.ir.index import evaluate
from aoec.ir.text.parse import parse_program
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.tuning import problem
from aoec.search.space.draws import some
from aoec.simulate.encode.encode import encode
from aoec.simulate.encode.filling import FEW, Filler, filler_of
from aoec.simulate.encode.formulas import SELDOM
from aoec.simulate.encode.lanes import piece
from aoec.simulate.encode.plan import Planner
from aoec.simulate.encode.sizes import dependence
from aoec.simulate.encode.tables import first_false, rates_of
from aoec.simulate.encode.tape import Tape, Traced
from aoec.simulate.timing import time
from aoec.simulate.timing.floors import alone_rows, floor_rows
from aoec.simulate.timing.state import CLEARED, COLD, PREVIOUS_LAUNCH
from aoec.simulate.timing.time import time_rows
from aoec.simulate.timing.totals import CLOSED, open_accesses
from aoec.target.machine import load
from tests.laws.test_skip_laws import cases, columns
from tests.laws.turns import examples
from tests.oracle.pipelines import twisted, twists
from tests.primitives.funcs import emitted, random_rows

STATES = st.sampled_from([COLD, PREVIOUS_LAUNCH, CLEARED])


def found(encoded, rows, state):
    """Times, floors and floors with open holes of rows."""
    least = {name: int(values.min()) for name, values in rows.items()}
    return [time_rows(encoded, rows, state), floor_rows(encoded, rows, state), alone_rows(encoded, rows, state),
            floor_rows(encoded, rows, state, least, True)]


def assert_same_both_ways(encoded, rows, state=COLD):
    """The statuses of the rows; what plans give must be what it is without."""
    least = {name: int(values.min()) for name, values in rows.items()}
    modes = {(False, CLOSED, False), (True, CLOSED, False), (True, CLOSED, True), (True, open_accesses(encoded, least), True)}
    without = replace(encoded, fillers={(state, *mode): False for mode in modes})
    planned = replace(encoded, fillers={(state, *mode): Filler(Planner(encoded, state, *mode)) for mode in modes})
    for a, b in zip(found(planned, rows, state), found(without, rows, state), strict=True):
        for name in ("ticks", "launch_ticks", "status", "cores"):
            assert np.array_equal(getattr(a, name), getattr(b, name)), name
    return time_rows(planned, rows, state).status


@settings(max_examples=examples(20), deadline=None)
@given(cases, STATES, st.data())
def test_programs_by_hand(case, state, data):
    program, rows = case
    assert_same_both_ways(encode(program, twisted(load(program.target), data.draw(twists))), columns([*rows, *rows[:1]]), state)


@pytest.mark.parametrize("name", ["matmul", "conv2d", "elementwise", "softmax"])
def test_emitted_programs(name):
    program = emitted(name, load("toy"))
    assert_same_both_ways(encode(program, load("toy")), {hole: values[:150] for hole, values in random_rows(program).items()})


SPACES = ("Ascend910B3 matmul(m=1024, k=200, n=1024, fp16)", "Ascend310P3 conv2d(n=2, c=40, h=17, w=19, co=35, kh=3, kw=3, pad=1, relu)",
          "Ascend910B3 attention(b=3, m=150, n=300, d=32)",
          "Ascend910B3 layer_norm(m=100, n=700)",
          "Ascend910B3 softmax(m=3, n=6200)")  # its sites share what is of constants alone, and have different numbers of entries


@pytest.fixture
def by_numpy(monkeypatch):
    """Rows of each call that were left to tables that NumPy makes."""
    counts, slowly = [], time._slowly
    monkeypatch.setattr(time, "_slowly", lambda encoded, rows, limits, *more: counts.append(len(limits)) or slowly(
        encoded, rows, limits, *more))
    return counts


def test_a_first_iteration_of_its_own_is_found_where_none_is_expected(by_numpy):
    """An axis is narrow where nothing asks for its begin; rows that differ there all the same are left to NumPy, and to it alone."""
    copy = "copy_gm_ub(dst=X[0], src=A[0], bursts=1, length=32*min(2, i*?s + 1), src_gap=0, dst_gap=0)"
    encoded = encode(parse_program(f"""program p for toy {{
  input A: fp16[512]
  space X: fp16 in UB at 0 size 1024
  stream v aiv grid [c in 1] {{
    for i in ?n {{
      {copy}
    }}
  }}
}}
"""), load("toy"))
    assert dependence(encoded, 0).narrow == {1}
    rows = {"n": np.array([1, 2, 3, 4, 7, 7]), "s": np.array([1, 1, 1, 1, 1, 0])}
    assert assert_same_both_ways(encoded, rows).tolist() == [0] * 6
    by_numpy.clear()
    filler = Filler(Planner(encoded, COLD))
    ticks = time_rows(replace(encoded, fillers={(COLD, False, CLOSED, False): filler}), rows).ticks
    assert by_numpy == [3] and ticks[4] > ticks[5]


def test_padding_asks_where_an_image_begins():
    p = problem(lower_operator("conv2d(n=2, c=32, h=20, w=20, co=32, kh=3, kw=3, pad=1, relu)"), load("Ascend910B3"))
    for sketch in p.sketches:
        on = dependence(sketch.encoded, 0)
        wide = {name for name, x in on.axis.items() if x not in on.narrow}
        assert {"h_c", "h_s"} <= wide and not {"n_c", "o_c", "o_s", "k_1"} & wide


@pytest.mark.parametrize("text", SPACES)
def test_candidates_of_whole_spaces(text, by_numpy):
    """With tails in every axis, blocks dealt out, slots that share tables; and none of them is left to NumPy."""
    target, _, operator = text.partition(" ")
    p = problem(lower_operator(operator), load(target))
    for i in range(0, len(p.sketches), 1 + len(p.sketches) // 4):
        sketch, grid = p.sketches[i], p.space.grids[i]
        rows = np.array(some(grid, p.constraints(i), 70), np.int64).reshape(70, -1)
        rows[35:50] = rows[:15]
        if "dc" in grid.names:
            rows[40, grid.names.index("dc")] ^= 3  # other slots, the same tables
        named = {name: rows[:, k].copy() for k, name in enumerate(grid.names)}
        by_numpy.clear()
        for _ in range(2):  # of few rows a plan is made the second time
            time_rows(sketch.encoded, {name: values[:FEW - 1] for name, values in named.items()})
        assert len(by_numpy) == 1
        assert (assert_same_both_ways(sketch.encoded, named, PREVIOUS_LAUNCH if i % 2 else COLD)[:40] >= 0).all()


def test_blocks_along_two_axes_leave_no_row_to_numpy(by_numpy):
    """What is left of an extent after the blocks of cores and of vector units rises with each: how much of a tile that is does not."""
    p = problem(lower_operator("attention(b=3, m=150, n=300, d=32)"), load("Ascend910B3"))
    sketch, grid = p.sketches[0], p.space.grids[0]
    rows = np.array(some(grid, p.constraints(0), 70), np.int64).reshape(70, -1)
    planned = replace(sketch.encoded, fillers={(COLD, True, CLOSED, True): Filler(Planner(sketch.encoded, COLD, True, first=True))})
    found = alone_rows(planned, {name: rows[:, k].copy() for k, name in enumerate(grid.names)})
    assert by_numpy == [] and (found.status == 0).all() and len(set(rows[:, grid.names.index("gm")].tolist())) > 2


def test_a_plan_is_made_when_it_pays():
    encoded = encode(emitted("matmul", load("toy")), load("toy"))
    assert [isinstance(filler_of(encoded, COLD, False, CLOSED, 3), Filler) for _ in range(3)] == [False, True, True]
    assert isinstance(filler_of(encoded, COLD, True, CLOSED, 1000), Filler) and encoded.on(load("toy")).fillers == {}


def test_sites_alike_share_a_piece_and_others_do_not():
    """What entries cost is noted once for sites of all sketches whose formulas read the same kinds of numbers; a number of another value or
    kind, another formula or another rate of the memory is another piece."""
    machine = load("toy")
    site = next(s for s in encode(emitted("matmul", machine), machine).sites if s.access)
    fields, around = {name: (Traced, False) for name, _ in site.fields}, ((Traced, False), *[(Traced, True)] * 6)
    rates = rates_of(machine)
    own = piece(site, fields, around, rates, False, False)
    assert own is piece(replace(site, stream=site.stream + 1), dict(fields), around, rates, False, False)
    name = site.fields[0][0]
    others = [piece(site, {**fields, name: (int, 1)}, around, rates, False, False),
              piece(site, {**fields, name: (float, 1.0)}, around, rates, False, False), piece(site, fields, around, rates, True, True),
              piece(site, fields, around, rates_of(replace(machine, clock_mhz=machine.clock_mhz * 2)), False, False),
              piece(replace(site, timing=replace(site.timing, busy=site.timing.busy + 1)), fields, around, rates, False, False)]
    assert all(p is not own for p in others) and len(set(map(id, others))) == len(others)


@pytest.mark.parametrize("name", ["matmul", "conv2d", "elementwise", "softmax"])
def test_what_rows_have_of_their_own_is_the_same_noted(name):
    """Constraints of rows that break them too, grids, slots: by a kernel what NumPy gives; rows as many as lanes, and more and fewer."""
    program = emitted(name, load("toy"))
    encoded, rows = encode(program, load("toy")), random_rows(program)
    assert encoded.legality.expressions and encoded.grid.expressions and encoded.own.expressions
    for count in (1, 64, 1000):
        some_rows = {hole: values[:count] for hole, values in rows.items()}
        for formulas in (encoded.legality, encoded.grid, encoded.own):
            plain = formulas.plain(some_rows, count)
            for _ in range(SELDOM + 1):
                assert np.array_equal(formulas(some_rows, count), plain)
            assert formulas.noted is not None
    broken = [evaluate(c.condition, rows) == 0 for c in program.constraints]
    first = [next((i + 1 for i, b in enumerate(broken) if np.broadcast_to(b, 20_000)[row]), 0) for row in range(0, 20_000, 97)]
    assert first_false(encoded, rows, 20_000)[::97].tolist() == first and len(set(first)) > 2


# ---------------------------------------------------------------- tapes

WHOLE = (np.add, np.subtract, np.multiply, np.floor_divide, np.remainder, np.minimum, np.maximum, np.gcd)
REAL = (np.add, np.subtract, np.multiply, np.divide, np.floor_divide, np.minimum, np.maximum, np.fmin, np.fmax)
COMPARED = (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal)
ONE = (np.ceil, np.floor, np.rint, np.absolute)


def replayed(tape: Tape, inputs: list[Traced], wanted: Traced, given: np.ndarray) -> np.ndarray:
    """What a kernel makes of columns [lane, input] for the registers wanted."""
    packed = tape.pack(np.unique(wanted.regs))
    ints = np.zeros((packed.registers, kernel.LANES), np.int64)
    for at, value in zip(packed.constant_at, packed.constant):
        ints[at] = value
    for k, x in enumerate(inputs):
        if packed.place[x.register] >= 0:
            ints[packed.place[x.register]] = given[:, k]
    kernel.replay(packed.code, packed.pool, ints, ints.view(float))
    out = ints.view(float) if wanted.real else ints
    return out[packed.place[np.ravel(wanted.regs)]].reshape(*wanted.shape, kernel.LANES)


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_a_tape_gives_what_numpy_gives(data):
    numbers = st.one_of(st.integers(-9, 9), st.integers(-2**40, 2**40))
    given = np.array([[data.draw(numbers) for _ in range(3)] for _ in range(8)] * 8, np.int64)
    tape = Tape()
    inputs = [tape.input() for _ in range(3)]
    values = [(x, given[:, k]) for k, x in enumerate(inputs)]
    with np.errstate(all="ignore"):
        for _ in range(12):
            (a, x), (b, y) = (data.draw(st.sampled_from(values)) for _ in range(2))
            if data.draw(st.booleans()):
                b = y = data.draw(st.sampled_from([0, 1, 2, 0.5, 3.0]))
            real = x.dtype == float or np.asarray(y).dtype == float
            f = data.draw(st.sampled_from((*REAL, *COMPARED, *ONE) if real else (*WHOLE, *COMPARED, np.divide, np.where)))
            traced, plain = (f(a), f(x)) if f in ONE else (f(a, b, 3), f(x, y, 3)) if f is np.where else (f(a, b), f(x, y))
            plain = plain * 1 if plain.dtype == bool else plain
            if plain.dtype == float or np.abs(plain).max() < 2**52:
                values.append((traced, plain))
        for traced, plain in values[3:]:
            assert np.array_equal(replayed(tape, inputs, traced, given), plain, equal_nan=plain.dtype == float)
