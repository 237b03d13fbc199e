"""Where the time went, on programs of the toy machine whose timelines are worked out in test_timeline_by_hand.py."""
from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.ir.text.parse import parse_program
from aoec.report.reasons import lines
from aoec.simulate.reasons.guards import guards
from aoec.simulate.timing.time import measure
from aoec.target.machine import load
from tests.laws.test_event_laws import first_legal
from tests.oracle.pipelines import cases
from tests.simulate.test_timeline_by_hand import ADD, LOAD, TOY, buffered, vector

QUICK = replace(TOY, launch_fixed_us=0.0, launch_per_core_us=0.0, launch_stream_us=0.0)


def told(text, machine=QUICK, state=()):
    return measure(parse_program(text), machine, state)


@settings(max_examples=30, deadline=None)
@given(cases, st.data())
def test_what_a_pipe_does_adds_up_to_the_time_of_its_core(case, data):
    program, machine, slow = first_legal(case, data)
    m = measure(program, machine)
    for pipe, a in m.reasons.accounts.items():
        stream = pipe.rpartition(".")[0] or program.streams[0].name
        assert a.busy + a.memory + a.issue + a.queue + a.flags + a.cross + a.head + a.idle == pytest.approx(a.total)
        assert min(asdict(a).values()) >= 0 and round(a.total * 1024) == max(c.end for c in slow.cores if c.stream.name == stream)
        waits = [w for w in m.reasons.waits if w.pipe == pipe]
        assert sum(w.cycles for w in waits if w.why != "cross") == pytest.approx(a.flags)
        assert sum(w.cycles for w in waits if w.why == "cross") == pytest.approx(a.cross)
        if pipe.rpartition(".")[2] != "S":
            assert sum(w.cycles for w in m.reasons.work if w.pipe == pipe) == pytest.approx(a.busy + a.memory)
    assert m.reasons.imbalance == pytest.approx(1.0) or m.reasons.imbalance > 1


def test_a_single_buffer_is_named_and_a_second_slot_ends_the_wait():
    # tile 1 waits 14..47 and tile 2 58..91 for V to give X back, less what the scalar unit still issues
    one, two = told(buffered(1, 3)), told(buffered(2, 3))
    wait = next(w for w in one.reasons.waits if w.pipe == "MTE2")
    assert (wait.source, wait.buffer, wait.why, wait.depth) == ("V", "X", "slot", 2)  # X has two slots, of which one flag makes one
    assert wait.cycles > next(w.cycles for w in two.reasons.waits if w.pipe == "MTE2")
    depth_one = buffered(1, 3).replace("size 1024 depth 2", "size 1024")
    assert any("X, which has one slot" in a for a in told(depth_one).verdict.advice)
    assert not any("one slot" in a for a in two.verdict.advice)


def test_what_flags_guard():
    program = parse_program((Path(__file__).parents[1] / "programs" / "matmul.prog").read_text())
    found = {(s, t, str(i)[:3]): g for (s, t, i), g in guards(program, program.streams[0]).items()}
    assert {(s, t): (g.buffers, g.why, g.depth) for (s, t, _), g in found.items()} == {
        ("MTE1", "MTE2"): (("A_L1", "B_L1"), "slot", 2), ("MTE2", "MTE1"): (("A_L1", "B_L1"), "data", 2),
        ("M", "MTE1"): (("A_L0A", "B_L0B"), "slot", 2), ("MTE1", "M"): (("A_L0A", "B_L0B"), "data", 2),
        ("FIXP", "M"): (("C",), "slot", 2), ("M", "FIXP"): (("C",), "data", 2)}


def test_flags_with_constant_ids_guard_what_comes_next():
    relu = "vrelu(dst=Y[0], src=X[0], lanes=64, repeat=1, dst_blk=1, src_blk=1, dst_rep=8, src_rep=8)"
    program = parse_program(vector("\n".join([LOAD.format(320), "set(MTE2, V, 0)", "wait(MTE2, V, 0)", relu])))
    assert [(g.buffers, g.why) for g in guards(program, program.streams[0]).values()] == [(("X",), "data")]


COPIES = "for i in 40 {\n" + LOAD.format(512).replace("c*256", "c*16384 + i*256") + "\n}"


@pytest.mark.parametrize(("text", "machine", "state", "bound", "resource"), [
    (vector(LOAD.format(320)), TOY, (), "launch bound", "launch"),
    (vector(COPIES), replace(QUICK, hbm_bytes_per_s=1e9), (), "insufficient parallelism", "cores"),
    (vector(COPIES, grid="c in 2"), QUICK, (), "memory bound (HBM)", "HBM"),
    (vector(COPIES), QUICK, (), "memory bound (HBM)", "HBM"),  # one core of two holds it: the other would not help
    (vector(COPIES, grid="c in 2"), replace(QUICK, l2_bytes_per_s=64e6), (("A", 65536),), "memory bound (L2)", "L2"),
    (vector(COPIES, grid="c in 2"), replace(QUICK, hbm_bytes_per_s=1e9), (), "MTE2 bound", "MTE2"),
    (vector("for i in 40 {\nset(S, MTE2, 0)\nwait(S, MTE2, 0)\n}", grid="c in 2"), QUICK, (), "scalar bound", "S"),
    (buffered(1, 30).replace("c in 1", "c in 2"), replace(QUICK, hbm_bytes_per_s=1e9), (), "latency bound: pipeline", "V"),
])
def test_the_binding_resource(text, machine, state, bound, resource):
    m = told(text, machine, state)
    assert (m.verdict.bound, m.verdict.resource) == (bound, resource) and 0 < m.verdict.utilisation <= 1.001
    assert m.verdict.sentence.startswith(bound)


def test_the_share_that_other_cores_cost_and_bytes_by_path():
    # two cores at the full rate of HBM: each load takes 10 cycles of its own and 10 more
    m = told(vector(LOAD.format(320), grid="c in 2"))
    a = m.reasons.accounts["MTE2"]
    assert (a.busy, a.memory, a.issue, a.idle, a.mean_busy) == (10, 10, 1, 10, 20)
    assert m.reasons.bytes_by_path == {"GM->UB": {"hbm": 640.0, "l2": 0.0}} and m.reasons.l2_hit_rate == 0
    half = told(vector(LOAD.format(512), grid="c in 2"), state=(("A", 32768),))
    assert half.reasons.bytes_by_path == {"GM->UB": {"hbm": 512.0, "l2": 512.0}} and half.reasons.l2_hit_rate == 0.5


def test_hbm_is_held_while_it_turns_around():
    text = vector(LOAD.format(320) + "\ncopy_ub_gm(dst=B[c*256], src=X[0], bursts=1, length=160, src_gap=0, dst_gap=0)", grid="c in 2")
    text = text.replace("  input A", "  output B: fp16[1024] uncached\n  input A")
    plain, turning = (told(text, replace(TOY, hbm_turnaround=t)) for t in (None, 0.25))
    (hbm,) = {sum(p["hbm"] for p in m.reasons.bytes_by_path.values()) for m in (plain, turning)}
    for m, lost in ((plain, 0.0), (turning, 2 * 0.25 * min(p["hbm"] for p in plain.reasons.bytes_by_path.values()))):
        assert m.reasons.hbm_held == pytest.approx((hbm + lost) / TOY.hbm_bytes_per_cycle / m.cycles)


def test_an_uneven_split_shows():
    # ends at 31 and 61, see test_epochs there
    m = told(vector("for i in 3 - 2*c {\n" + LOAD.format(320).replace("c*256", "c*512 + i*160") + "\n}", grid="c in 2"))
    assert m.reasons.imbalance == pytest.approx(61 / 46) and any("1.33 times the mean" in a for a in m.verdict.advice)
    assert m.reasons.last_core == {"v": 0} and m.reasons.cores == {"v": (2, 2)}


def test_short_rows_are_named():
    machine = load("Ascend910B3")
    copy = "copy_gm_l1_nd2nz(dst=A1[0], src=A[0], rows=256, cols=64, src_stride=64, dst_rows=256)"
    head = "program p for Ascend910B3 { input A: fp16[16384]\n space A1: fp16 in L1 at 0 size 32768\n"
    m = told(f"{head} stream c aic grid [c in 20] {{ for i in 400 {{ {copy} }} }} }}", machine, (("A", 1 << 20),))
    assert any("256 rows of 128 bytes" in a for a in m.verdict.advice)


def test_lines_for_people():
    text = lines({"kind": "modelled", **asdict(told(buffered(1, 3).replace("size 1024 depth 2", "size 1024")))})
    assert "hint: MTE2 waits" in text and "wait flag" in text and "V for data in X (1 slot) from MTE2" in text
    assert "insufficient parallelism" in text and text.count("\n\n") == 3


def test_a_full_queue_that_keeps_another_pipe_from_its_work_is_named():
    """Eight adds a load: the scalar unit stands before V's full queue while MTE2, which has much to do, waits for its next copy."""
    cores = {k: replace(c, queue_depth=2) for k, c in QUICK.cores.items()}
    body = "for i in 30 {\n" + LOAD.format(512) + "\n" + "\n".join([ADD.format(1)] * 8) + "\n}"
    m = told(vector(body, grid="c in 2"), replace(QUICK, cores=cores, hbm_bytes_per_s=1e9))
    assert any("MTE2 is idle" in a and "full queue of another pipe" in a for a in m.verdict.advice), m.verdict.advice
    ample = {k: replace(c, queue_depth=600) for k, c in QUICK.cores.items()}
    free = told(vector(body, grid="c in 2"), replace(QUICK, cores=ample, hbm_bytes_per_s=1e9))
    assert not any("full queue" in a for a in free.verdict.advice)
