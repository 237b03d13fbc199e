"""Skipping a steady loop changes nothing (rule 9 of kernels/timeline.py): ticks, errors and where the time went are those of every
iteration walked, on programs with long loops."""
from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from aoec.kernels import timeline as kernel
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.ir.index import Hole, Int
from aoec.ir.program import For, SetFlag, WaitFlag
from aoec.ir.text.parse import parse_program
from aoec.simulate.encode.encode import encode
from aoec.simulate.reasons.detail import walk
from aoec.simulate.timing.state import COLD, PREVIOUS_LAUNCH
from aoec.simulate.timing.time import time_rows
from aoec.target.machine import load
from bench.cases.build import build
from bench.cases.case import parse_cases
from bench.cases.chips import machine_of
from tests.laws.test_attention import B1, SLOTS, sketch_of
from tests.laws.turns import examples
from tests.oracle.pipelines import TARGETS, cube_program, filled, mixed_program, twisted, twists, vector_program
from tests.oracle.slow_timeline import Illegal, simulate
from tests.primitives.funcs import emitted, random_rows

TOY = load("toy")


def eager(encoded):
    """Looks for steady loops however short they are."""
    used = encoded.used.copy()
    used[:, [2, 4]] = np.where(used[:, [2, 4]] < kernel.NEVER, 1, kernel.NEVER)
    return replace(encoded, used=used)


def walked(encoded):
    """Walks every iteration."""
    return replace(encoded, used=np.full_like(encoded.used, kernel.NEVER))


def pieces(draw, n, most):
    """A tile of which n holds `most` at most."""
    return -(-n // draw(st.integers(1, most)))


@st.composite
def vector_cases(draw):
    n = draw(st.integers(1, 3000))
    program = vector_program(draw(TARGETS), n, halo=draw(st.booleans()), repeats=draw(st.integers(0, 9)),
                             op=draw(st.sampled_from(["vadd", "vexp"])))
    return program, [{"p": pieces(draw, n, 5) + draw(st.integers(0, 3)), "t": pieces(draw, n, 120), "d": draw(st.integers(1, 4))}
                     for _ in range(3)]


@st.composite
def cube_cases(draw):
    m, n, k = draw(st.integers(1, 200)), draw(st.integers(1, 200)), draw(st.integers(1, 400))
    unit = draw(st.sampled_from([Int(0), Int(1), Hole("u")]))
    program = cube_program(draw(TARGETS), m, n, k, unit, draw(st.integers(0, 1)))
    return program, [{"pm": pieces(draw, m, 3) + 1, "pn": pieces(draw, n, 3), "tm": pieces(draw, m, 9), "tn": pieces(draw, n, 9),
                      "tk": pieces(draw, k, 50), "da": draw(st.integers(1, 4)), "dc": draw(st.integers(1, 2)), "u": draw(st.integers(0, 1))}
                     for _ in range(3)]


@st.composite
def mixed_cases(draw):
    cubes, parts, tm = draw(st.integers(1, 3)), draw(st.integers(1, 12)), draw(st.integers(1, 20))
    ratio = draw(st.sampled_from([1, 2] + ([-cubes] if cubes > 1 else [])))
    n, k = draw(st.integers(1, 60)), draw(st.integers(1, 300))
    program = mixed_program(draw(TARGETS), cubes * parts * tm, n, k, cubes, ratio, draw(st.integers(0, 3)), draw(st.integers(0, 1)))
    return program, [{"pm": parts * tm, "tm": tm, "tn": pieces(draw, n, 5), "tk": pieces(draw, k, 50), "da": draw(st.integers(1, 3)),
                      "dc": draw(st.integers(1, 2))} for _ in range(2)]


cases = st.one_of(vector_cases(), cube_cases(), mixed_cases())


def machine_for(program, data):
    """A machine with queues, heads and costs of the scalar unit of any size, nothing among them."""
    machine = twisted(load(program.target), data.draw(twists))
    return replace(machine, issue_cycles=data.draw(st.sampled_from([machine.issue_cycles, 0.0, 0.5, 9.0])),
                   flag_hop_cycles=data.draw(st.sampled_from([machine.flag_hop_cycles, 0.0, 40.0])))


def columns(rows):
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def told(encoded):
    """What a walk with probes says, but for how much of it was looked at one by one."""
    w = walk(encoded, COLD)
    return [w.status, w.ticks, *(getattr(w.told, f.name) for f in fields(w.told)[:-1]), w.told.operations[0]]


def same_without(encoded, rows, state=COLD):
    """The times of rows, which are the same if nothing is skipped."""
    times = time_rows(encoded, rows, state)
    for other in (eager(encoded), walked(encoded)):
        again = time_rows(other, rows, state)
        assert np.array_equal(times.ticks, again.ticks) and np.array_equal(times.status, again.status)
    return times


@settings(max_examples=examples(60), deadline=None)
@given(cases, st.data())
def test_times_are_those_of_every_iteration_walked(case, data):
    program, rows = case
    machine = machine_for(program, data)
    same_without(encode(program, machine), columns(rows))
    alone = encode(filled(program, rows[0]), machine)
    for found in (told(alone), told(eager(alone))):
        for a, b in zip(found, told(walked(alone)), strict=True):
            assert np.array_equal(a, b)


@settings(max_examples=examples(12), deadline=None)
@given(cases, st.data())
def test_a_simulator_that_skips_nothing_agrees(case, data):
    program, rows = case
    machine, program = machine_for(program, data), filled(program, rows[0])
    times = time_rows(eager(encode(program, machine)), {})
    try:
        assert times.status[0] == 0 and times.ticks[0] == simulate(program, machine).ticks
    except Illegal:
        assert times.status[0] < 0


@settings(max_examples=examples(25), deadline=None)
@given(cases, st.data())
def test_an_error_is_found_wherever_it_stands(case, data):
    """A flag operation dropped, or done in one iteration only."""
    program, rows = case
    stream = data.draw(st.integers(0, len(program.streams) - 1))
    found = [i for i in flags(program.streams[stream].body)]
    broken = without(program.streams[stream].body, data.draw(st.sampled_from(found)))
    streams = tuple(replace(s, body=broken) if i == stream else s for i, s in enumerate(program.streams))
    same_without(encode(replace(program, streams=streams), machine_for(program, data)), columns(rows))


def flags(items):
    for item in items:
        if isinstance(item, For):
            yield from flags(item.body)
        elif isinstance(item, (SetFlag, WaitFlag)):
            yield item


def without(items, flag):
    return tuple(replace(i, body=without(i.body, flag)) if isinstance(i, For) else i for i in items if i is not flag)


@pytest.mark.parametrize("name", ["matmul", "conv2d", "elementwise", "softmax"])
def test_emitted_programs(name):
    machine = load()
    program = emitted(name, machine)
    assert (same_without(encode(program, machine), random_rows(program)).status == 0).any()


ATTENTION = ("b=3, m=150, n=300, d=32", "b=5, m=260, n=640, d=16, mask", "b=2, m=500, n=450, d=32, e=64, bias")


@settings(max_examples=examples(6), deadline=None)
@given(st.sampled_from(ATTENTION), st.data())
def test_streams_that_meet(sizes, data):
    """Parts, tiles and heads on a cube core and its vector cores, with tails in each; on cores of several classes."""
    def row():
        picked = {"tr": (16, 32, 48, 64), "tp": (1, 2), "vc": (1, 2), "gb": (1, 2), "gm": (1, 2), "n1": (4, 8), "k1": (4, 8), "pl": (0, 1),
                  "ps": (1, 2), "dc": (1, 2), "di": (1, 2), "do": (1, 2), "d0b": (1, 2)}
        return {name: data.draw(st.sampled_from(values), name) for name, values in picked.items()}
    program, rows = sketch_of(sizes), [row() for _ in range(3)]
    machine = machine_for(program, data)
    times = same_without(encode(program, machine), columns(rows))
    for legal in np.flatnonzero(times.status == 0)[:1]:
        alone = encode(filled(program, rows[legal]), machine)
        for a, b in zip(told(eager(alone)), told(walked(alone)), strict=True):
            assert np.array_equal(a, b)


MEETING = """program p for toy {{
  input A: fp16[4096] uncached
  temp T: fp16[4, 1024]
  output Y: fp16[4096]
  space L: fp16 in L1 at 0 size 4096
  space C: fp32 in L0C at 0 size 4096
  space X: fp16 in UB at 0 size 4096
  stream c aic grid [g in {cores}] {{
    for j in {tiles} {{
      for i in {parts} {{
        copy_gm_l1_nd2nz(dst=L[0], src=A[0], rows={load}, cols=16, src_stride=16, dst_rows={load})
        cross_wait(FIXP, v, 1)
        fixpipe_nd(dst=T[0], src=C[0], m=16, n=16, src_rows=16, dst_stride=16, relu=0)
        cross_set(FIXP, v, 0)
      }}
    }}
    for r in {ring} {{
      cross_wait(FIXP, v, 1)
    }}
  }}
  stream v aiv grid [g in {cores}] {{
    for f in {ring} {{
      cross_set(MTE2, c, 1)
    }}
    for j in {tiles} {{
      for i in {parts} {{
        cross_wait(MTE2, c, 0)
        copy_gm_ub(dst=X[0], src=T[0], bursts=1, length=512, src_gap=0, dst_gap=0)
        set(MTE2, V, 0)
        wait(MTE2, V, 0)
        vadds(dst=X[0], src=X[0], lanes=64, repeat={work}, dst_blk=1, src_blk=1, dst_rep=8, src_rep=8)
        set(V, MTE2, 0)
        wait(V, MTE2, 0)
        cross_set(MTE2, c, 1)
      }}
      copy_ub_gm(dst=Y[0], src=X[0], bursts=1, length=512, src_gap=0, dst_gap=0)
    }}
  }}
}}
"""


@pytest.mark.parametrize("ring, load, work", [(1, 16, 1), (1, 16, 200), (2, 255, 1), (3, 16, 200), (3, 100, 20)])
def test_who_waits_for_whom(ring, load, work):
    """The one that makes, or the one that takes and gives slots back; where parts go round, and where a core of another class ends."""
    for tiles, parts, cores in ((2, 150, 1), ("12 - g*5", 20, 2)):
        program = parse_program(MEETING.format(ring=ring, load=load, work=work, tiles=tiles, parts=parts, cores=cores))
        encoded = encode(program, TOY)
        assert same_without(encoded, {}).ticks[0] == simulate(program, TOY).ticks
        for a, b in zip(told(eager(encoded)), told(walked(encoded)), strict=True):
            assert np.array_equal(a, b)
        operations = walk(eager(encoded), COLD).told.operations
        assert operations[1] < operations[0] or cores == 2


def test_attention_as_the_slow_simulator_has_it():
    program = filled(sketch_of("b=1, m=16, n=2048, d=16"), {**SLOTS, "tr": 16, "tp": 1, "vc": 1, "gb": 1, "gm": 1, "n1": 4, "k1": 4})
    encoded = encode(program, B1)
    operations = walk(encoded, COLD).told.operations
    assert operations[1] < operations[0] / 2 and time_rows(encoded, {}).ticks[0] == simulate(program, B1).ticks


def test_long_attention_is_hardly_walked():
    """Four times the parts and four times the tiles take no operation more: parts, tiles and heads go round."""
    holes = {**SLOTS, "tr": 64, "tp": 2, "vc": 2, "gb": 4, "gm": 1, "n1": 8, "k1": 8}
    walks = [walk(encode(filled(sketch_of(f"b=32, m={n}, n={n}, d=64"), holes), B1), COLD).told.operations for n in (2048, 8192)]
    assert walks[1][0] > 15 * walks[0][0] and walks[1][1] == walks[0][1] < walks[0][0] / 8


LADDER = ("base=128x256x64 grid=2x12 norm", "base=128x256x64 grid=4x6 mdl", "base=128x256x64 grid=4x6 stepka=8 deptha=16 mdl",
          "base=128x256x64 grid=4x6 stepka=8 deptha=16 mdl l2=2", "base=128x256x64 grid=4x6 stepka=8 deptha=16 mdl l2=2 unitflag")
CASE = "id,chip,operator,shape,dtype,layout,tile,metric,value,unit,source,class\nladder,910B1,matmul,{},fp16,nd:nk,{},time,1,us,none,tile\n"


@pytest.mark.parametrize("words", LADDER)
@pytest.mark.parametrize("shape", ["m=n=k=2048", "m=1400 n=3000 k=1100"])
def test_products_of_a_published_ladder(words, shape):
    case, = parse_cases(CASE.format(shape, words))
    machine = machine_of(case.chip)
    encoded = encode(build(case, machine), machine)
    same_without(encoded, {}, PREVIOUS_LAUNCH)
    for a, b in zip(told(encoded), told(walked(encoded)), strict=True):
        assert np.array_equal(a, b)


LOAD = "copy_gm_ub(dst=X[0], src=A[c*64], bursts=1, length=128, src_gap=0, dst_gap=0)"


ADD = "vadds(dst=X[0], src=X[0], lanes=64, repeat={}, dst_blk=1, src_blk=1, dst_rep=8, src_rep=8)"
ASIDE = "set(MTE2, MTE3, 0)\nwait(MTE2, MTE3, 0)\n"


def by_hand(body, counters="", machine=TOY, cores=2):
    return encode(parse_program(f"""program p for toy {{
  input A: fp16[4096] uncached
  space X: fp16 in UB at 0 size 4096
  stream v aiv grid [c in {cores}] {counters}{{
{body}
  }}
}}
"""), machine)


@pytest.mark.parametrize("trips", [0, 1, 2, *range(100, 106)])
def test_a_counter_goes_on(trips):
    """What stands behind a loop takes up the counter where the last iteration, not the first steady one, left it."""
    encoded = by_hand(f"for i in {trips} {{\n{LOAD}\nadvance(a)\n}}\nset(MTE2, V, a)\nwait(MTE2, V, {trips % 3})", "counters [a depth 3] ")
    assert same_without(encoded, {}).status[0] == 0


def test_an_id_that_follows_the_loop_is_looked_at_each_time():
    """Id 4 is set already when its turn comes, behind four iterations that look alike."""
    body = f"set(S, V, 4)\nfor i in 6 {{\nset(S, V, i)\nwait(S, V, i)\n{ASIDE * 2}}}"
    assert same_without(by_hand(body, machine=replace(TOY, flag_ids=6)), {}).status[0] == kernel.SET_ON_SET


@pytest.mark.parametrize("trips", [3, 20, 270])
def test_transfers_are_faster_when_another_core_has_ended(trips):
    """Core 1 has fewer iterations: what is skipped on core 0 ends where core 1 does, and begins again there."""
    encoded = by_hand(f"for i in 300 - c*{trips} {{\n{LOAD}\n}}")
    times = same_without(encoded, {})
    alike = same_without(by_hand(f"for i in 300 {{\n{LOAD}\n}}"), {})
    # the last of core 1 is done 10 cycles after it, so that two more start on core 0 before; then 4 cycles each, not 8
    assert times.ticks[0] == alike.ticks[0] - (trips - 2) * 4 * 1024


@pytest.mark.parametrize("kept", [1, 8])
@pytest.mark.parametrize("apart", [20, 150])
def test_a_walk_that_stopped_behind_the_end_of_another(apart, kept, monkeypatch):
    """Core 1 stops where core 2 has ended, and core 0, which is walked last, ends before that: what core 1 transferred in between is done
    again, faster. With room for one walk none goes on."""
    monkeypatch.setattr(kernel, "KEPT", kept)
    encoded = by_hand(f"for i in 300 + c*10 - (1 - c)*(1 - c)*{apart} {{\n{LOAD}\n}}", cores=3)
    assert same_without(encoded, {}).ticks[0] == simulate(encoded.program, TOY).ticks


def test_what_is_skipped_may_be_held_back_last():
    """The last iteration of core 0 moves nothing: that its transfers go on when core 1 ends is known from those that were skipped alone."""
    size = "min(128, 400*128 - c*200*128 - i*128)"
    encoded = by_hand(f"for i in 401 - c*200 {{\n{LOAD.replace('128', size)}\n}}")
    assert same_without(encoded, {}).ticks[0] == (10 + 1 + 202 * 8 + 198 * 4) * 1024  # as above, and the first is issued at 1


def test_a_pipe_that_does_nothing_in_a_loop_is_idle_all_along():
    """V has work in the loop on core 1 alone, and on core 0 before and behind it."""
    encoded = by_hand(f"{ADD.format(3)}\nfor i in 300 {{\n{LOAD}\nfor k in c {{\n{ADD.format(3)}\n}}\n}}\n{ADD.format(3)}")
    for a, b in zip(told(eager(encoded)), told(walked(encoded)), strict=True):
        assert np.array_equal(a, b)
    assert walk(eager(encoded), COLD).told.operations[1] < 400


def test_a_queue_that_fills_up_changes_the_pace():
    """V works 255 cycles behind the scalar unit, both at 7 an iteration, until the 32nd before has not started yet; MTE2 shows when."""
    for trips in (3, 33, 34, 100):
        body = f"{ADD.format(255)}\nfor i in {trips} {{\n{ADD.format(2)}\n{ASIDE * 3}}}\nfor j in 60 {{\n{LOAD}\n}}"
        same_without(by_hand(body), {})


def test_what_waits_in_a_queue_is_no_like_another():
    """The scalar unit goes at the pace of V's starts 32 before, alike for 31 iterations, until the long one starts; MTE2 shows it."""
    before = f"for j in 40 {{\n{ADD.format(20)}\n}}\n{ADD.format(200)}"
    body = f"{before}\nfor i in 200 {{\n{ADD.format(20)}\n{ASIDE}}}\nfor k in 200 {{\n{LOAD}\n}}"
    assert same_without(by_hand(body), {}).status[0] == 0


SHORT_FIRST, SHORT_LAST = "{u} + {i}*{u}*3", "{u} + ({n} - 1 - {i})*{u}*4"


@pytest.mark.parametrize("other", ["", f", {SHORT_FIRST}", f", {SHORT_LAST}", f", {SHORT_FIRST}, {SHORT_LAST}"])
def test_a_loop_of_one_instruction_with_other_ends(other):
    """None of its iterations is shorter, the first, the last or both, on a pipe that shares the memory and on one that fills its queue.
    The plain simulator knows no such loops."""
    for n in (1, 2, 3, 4, 40):
        length, repeat = (f"min({4 * u}{other.format(u=u, i=i, n=n)}, {4 * u})" for u, i in ((32, "i"), (2, "k")))
        load, add = LOAD.replace("128", length), ADD.format(repeat)
        encoded = by_hand(f"for i in {n} {{\n{load}\n}}\n{ASIDE}for k in {n} {{\n{add}\n}}\n{ADD.format(9)}")
        assert same_without(encoded, {}).ticks[0] == simulate(encoded.program, TOY).ticks


def test_a_long_loop_is_hardly_walked():
    """A thousand times a thousand iterations, of which some dozens are."""
    encoded = by_hand(f"for j in 1000 {{\nfor i in 1000 {{\n{LOAD}\n{ADD.format(20)}\n}}\n{ADD.format(3)}\n}}")
    for found in (walk(encoded, COLD), walk(eager(encoded), COLD)):
        assert found.told.operations[0] == 2_001_000 and found.told.operations[1] < 2000


NEST = """for j in 30 - c*{apart} {{
for k in 1 + min(j, 1) {{
set(V, S, 0)
wait(V, S, 0)
for i in 10 {{
{load}
set(MTE2, V, a)
wait(MTE2, V, a)
{add}
set(V, MTE2, a)
wait(V, MTE2, a)
advance(a)
{more}
}}
{add}
}}
{add}
}}
"""


@pytest.mark.parametrize("apart", [0, 1, 7, 13, 29])
@pytest.mark.parametrize("size", ["128", "min(128, (30 - c*{apart})*128 - 32 - j*128)"])
def test_a_loop_in_loops(apart, size):
    """What an inner loop did is put in its place when an outer one comes back to it, on this core or the other one, while both run and when
    one has ended; an id that goes round in three, a scalar unit that waits for what is done, and tails of either core."""
    for work, more in ((3, ""), (40, ADD.format(2))):
        body = NEST.format(apart=apart, load=LOAD.replace("128", size.format(apart=apart)), add=ADD.format(work), more=more)
        encoded = by_hand(body, "counters [a depth 3] ")
        assert same_without(encoded, {}).ticks[0] == simulate(encoded.program, TOY).ticks


@pytest.mark.parametrize("apart", [7, 13])
def test_loops_in_loops_walked_from_the_start_in_each_epoch(apart, monkeypatch):
    """As where more classes of cores run than walks are kept of."""
    monkeypatch.setattr(kernel, "KEPT", 1)
    size = f"min(128, (30 - c*{apart})*128 - 32 - j*128)"
    test_a_loop_in_loops(apart=apart, size=size)


def test_a_counter_goes_on_behind_loops_in_loops():
    """As often as they went round, whether they were walked or not: 11 times 10 in three."""
    inner = f"{LOAD}\nset(MTE2, V, a)\nwait(MTE2, V, a)\n{ADD.format(3)}\nset(V, MTE2, a)\nwait(V, MTE2, a)\nadvance(a)"
    encoded = by_hand(f"for j in 11 {{\nfor i in 10 {{\n{inner}\n}}\n}}\nset(MTE2, V, a)\nwait(MTE2, V, 2)", "counters [a depth 3] ")
    assert same_without(encoded, {}).status[0] == 0


GRANULES = """program p for toy {{
  input A: fp16[4096]
  output Y: fp16[4096]
  space L: fp16 in L0A at 0 size 4096
  space R: fp16 in L0B at 0 size 4096
  space C: fp32 in L0C at 0 size 4096
  stream c aic grid [g in 1] {{
    for j in 30 {{
      mmad(dst=C[0], a=L[0], b=R[0], m=16, n=16, k={k}, init=1, unit=1)
      set(M, FIXP, 0)
      for i in 20 {{
        wait(M, FIXP, 0)
        fixpipe_nd(dst=Y[0], src=C[0], m=16, n={n}, src_rows=16, dst_stride=16, relu=0, unit=1)
        mmad(dst=C[0], a=L[0], b=R[0], m=16, n=16, k={k}, init=1, unit=1)
        set(M, FIXP, 0)
      }}
      wait(M, FIXP, 0)
      fixpipe_nd(dst=Y[0], src=C[0], m=16, n={n}, src_rows=16, dst_stride=16, relu=0, unit=1)
      set(FIXP, M, 0)
      wait(FIXP, M, 0)
    }}
  }}
}}
"""


@pytest.mark.parametrize("k, n", [(320, 8), (640, 16)])
def test_the_last_granule_is_remembered(k, n):
    """Behind an inner loop a product is on its way to pipe FIXP, which may not end before its last granule is there."""
    program = parse_program(GRANULES.format(k=k, n=n))
    assert same_without(encode(program, TOY), {}).ticks[0] == simulate(program, TOY).ticks
