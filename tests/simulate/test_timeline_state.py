"""Memory states, launches and a model as one timeline, on the toy machine."""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aoec.base.errors import CheckError
from aoec.ir.text.parse import parse_program
from aoec.simulate.encode.encode import encode
from aoec.simulate.encode.tables import Tabulator
from aoec.simulate.timing.state import CLEARED, COLD, PREVIOUS_LAUNCH, Resident, after, cap
from aoec.simulate.timing.time import Measure, chain, measure, measure_chain
from aoec.target.machine import load

TOY = load("toy")  # 32768 usable bytes of L2; launch 100 us + 10 a core + 50 a further stream; gap 20, enqueue 5; a cycle is 1 us


def copier(source, target, elements, length=320):
    return parse_program(f"""program p for toy {{
  input {source}: fp16[{elements}]
  output {target}: fp16[{elements}]
  temp T: fp16[64]
  space X: fp16 in UB at 0 size 4096
  stream v aiv grid [c in 1] {{
    copy_gm_ub(dst=X[0], src={source}[0], bursts=1, length={length}, src_gap=0, dst_gap=0)
    set(MTE2, MTE3, 0)
    wait(MTE2, MTE3, 0)
    copy_ub_gm(dst={target}[0], src=X[0], bursts=1, length={length}, src_gap=0, dst_gap=0)
  }}
}}
""")


STORE = "copy_ub_gm(dst={}[{}], src=X[0], bursts=1, length={}, src_gap=0, dst_gap=0)"
LOAD = "copy_gm_ub(dst=X[0], src={}[{}], bursts=1, length={}, src_gap=0, dst_gap=0)"


def test_after_keeps_the_most_recent():
    state = after(copier("A", "B", 1000), COLD, TOY)
    assert state == (("A", 2000), ("B", 2000))
    assert after(copier("B", "A", 1000), state, TOY) == (("B", 2000), ("A", 2000))
    assert after(copier("C", "D", 1000), state, TOY) == (("A", 2000), ("B", 2000), ("C", 2000), ("D", 2000))
    assert after(copier("C", "D", 8000), state, TOY) == (("B", 768), ("C", 16000), ("D", 16000))
    assert after(copier("C", "D", 1000), state, TOY, {"C": "x", "D": "y"})[-2:] == (("x", 2000), ("y", 2000))


def test_after_needs_sizes():
    p = parse_program("program p for toy {\n  input A: fp16[?n]\n  stream v aiv grid [c in 1] {\n    set(V, MTE2, 0)\n  }\n}\n")
    with pytest.raises(CheckError, match="tensor A has a hole"):
        after(p, COLD, TOY)


def test_cap():
    assert cap((("a", 10), ("b", 10), ("c", 10)), 25) == (("a", 5), ("b", 10), ("c", 10))
    assert cap((("a", 10), ("b", 10)), 10) == (("b", 10),)
    assert cap((), 10) == ()


@pytest.mark.parametrize("window_kb, share", [(0, 1.0), (32, 1.0), (40, 0.75), (64, 0.0), (1000, 0.0)])
def test_what_stays_falls_from_usable_to_whole_l2(window_kb, share):
    assert TOY.l2_keeps(window_kb * 1024) == share


@pytest.mark.parametrize("elements, share", [(16384, 0.0), (24576, 0.5), (32768, 1.0)])
def test_what_a_previous_launch_leaves_to_the_same_program(elements, share):
    body = "for i in {} {{\n" + LOAD.format("A", f"c*{elements // 2} + i*2048", 4096) + "\n}}"
    text = f"input A: fp16[{elements}]"
    read = f"  stream v aiv grid [c in 2] {{\n{body.format(elements // 4096)}\n  }}"
    assert moved(text, read, PREVIOUS_LAUNCH) == (2 * elements * share, 2 * elements)
    assert moved(text, read, COLD) == (2 * elements, 2 * elements)
    past = read.replace("\n  }", "\n" + STORE.format("B", 0, 64) + "\n  }")
    assert moved(text + "\n  output B: fp16[32] uncached", past, PREVIOUS_LAUNCH)[0] == 2 * elements * share + 128  # evicts nothing


def moved(text, body, state=COLD):
    """(HBM bytes, all bytes) of a program of one vector stream on the toy."""
    m = measure(parse_program(f"program p for toy {{\n  {text}\n  space X: fp16 in UB at 0 size 8192\n{body}\n}}\n"), TOY, state)
    return m.hbm_bytes, m.hbm_bytes + m.l2_bytes


@pytest.mark.parametrize("elements, share", [(16384, 0.0), (24576, 0.5), (32768, 1.0)])
def test_what_is_written_reaches_hbm_as_far_as_it_does_not_stay(elements, share):
    body = "for i in {} {{\n" + STORE.format("B", f"c*{elements // 2} + i*2048", 4096) + "\n}}"
    once = body.format(elements // 4096)
    for store, times in ((once, 1), (f"for again in 2 {{\n{once}\n}}", 2)):
        found = moved(f"output B: fp16[{elements}]", f"  stream v aiv grid [c in 2] {{\n{store}\n  }}")
        assert found == (2 * times * elements * share, 2 * times * elements)


@pytest.mark.parametrize("window_kb", [1, 32, 40, 64, 1000])
def test_what_l2_holds_at_the_end_is_the_mean_of_what_stays(window_kb):
    touched_after = (np.arange(100_000) + 0.5) * window_kb * 1024 / 100_000  # of each byte that a launch touches
    assert TOY.l2_ends_with(window_kb * 1024) == pytest.approx(TOY.l2_keeps(touched_after).mean(), rel=1e-4)


@pytest.mark.parametrize("elements", [8192, 16384, 24576, 65536])
def test_a_cleared_l2_takes_what_is_written_until_it_is_full(elements):
    at = f"c*{elements // 2} + i*2048"
    body = "for i in {} {{\n" + LOAD.format("A", at, 4096) + STORE.format("B", at, 4096) + "\n}}"
    text, size = f"input A: fp16[{elements}]\n  output B: fp16[{elements}]", 2 * elements
    found = moved(text, f"  stream v aiv grid [c in 2] {{\n{body.format(elements // 4096)}\n  }}", CLEARED)
    assert found == (pytest.approx(size + size * (1 - TOY.l2_ends_with(2 * size))), 2 * size)  # all is read from HBM


AGAIN = "for i in 4 {\n" + LOAD.format("A", 0, 192) + "\n}"


@pytest.mark.parametrize("text, body, factor", [
    ("input A: fp16[96]", LOAD.format("A", 0, 192), 1.0), ("output B: fp16[96] uncached", STORE.format("B", 0, 192), 1.0),
    ("input A: fp16[96]\n  output B: fp16[96] uncached", LOAD.format("A", 0, 192) + STORE.format("B", 0, 192), 2.0),
    ("input A: fp16[96]\n  output B: fp16[96] uncached", LOAD.format("A", 0, 192) + STORE.format("B", 0, 96), 1.5),
    ("input A: fp16[96]\n  output B: fp16[96]", LOAD.format("A", 0, 192) + STORE.format("B", 0, 192), 1.0),  # absorbed by L2
    ("input A: fp16[96]\n  output B: fp16[96] uncached", AGAIN + STORE.format("B", 0, 96), 1.0),  # 6 + 3 * 1.5 cycles of reads, 3 of writes
    ("input A: fp16[96]\n  output B: fp16[96] uncached", AGAIN + STORE.format("B", 0, 192), 12 / 10.5),
])
def test_reads_and_writes_share_hbm(text, body, factor):
    body = f"  stream v aiv grid [c in 1] {{\n{body}\n  }}"
    p = parse_program(f"program p for toy {{\n  {text}\n  space X: fp16 in UB at 0 size 8192\n{body}\n}}\n")
    assert Tabulator(encode(p, TOY), {}, 1, COLD, False).fill().traffic.both_ways == pytest.approx(factor)


@pytest.mark.parametrize("read, written, factor", [(192, 192, 2 * 1.25), (192, 96, 1.5 + 0.25), (192, 0, 1.0), (0, 192, 1.0)])
def test_hbm_loses_time_where_it_turns_around(read, written, factor):
    body = (LOAD.format("A", 0, read) if read else "") + (STORE.format("B", 0, written) if written else "")
    machine = replace(TOY, hbm_turnaround=0.25)  # all of it where as much is written as read
    p = parse_program("program p for toy {\n  input A: fp16[96]\n  output B: fp16[96] uncached\n  space X: fp16 in UB at 0 size 8192\n"
                      f"  stream v aiv grid [c in 1] {{\n{body}\n  }}\n}}\n")
    assert Tabulator(encode(p, machine), {}, 1, COLD, False).fill().traffic.both_ways == pytest.approx(factor)


def test_launch_is_outside_the_walk():
    m = measure(copier("A", "B", 160), TOY)
    # load 1..11, done 10 later; MTE3 2 later; store 10, done 10 later
    load = 10
    assert (m.cycles, m.launch_us, m.time_us, m.bound_by) == (1 + load + 10 + 2 + 10 + 10, 110, m.cycles + 110, "launch")
    assert m.run_us == m.cycles
    assert m.bytes_by_path == {"GM->UB": 320, "UB->GM": 320} and (m.hbm_bytes, m.l2_bytes) == (320, 320)
    longer = measure(copier("A", "B", 2048, 4096), TOY)
    assert longer.bound_by == "MTE2" and longer.busy_cycles["MTE3"] == 128
    assert longer.busy_cycles["MTE2"] == pytest.approx(128, abs=0.001)


def fake(run, launch):
    return Measure(run, 0, run + launch, launch, 1, {}, "", {}, 0, 0)


def test_chain_hides_launches_behind_work():
    # first starts at 110 and ends at 160; the second waits for it: 160 + 20 .. 210; third 230..240
    c = chain([fake(50, 110), fake(30, 110), fake(10, 110)], TOY)
    assert c.spans_us == ((110, 160), (180, 210), (230, 240))
    assert (c.latency_us, c.sum_us) == (240, 420)
    assert c.throughput_us == 50 + 30 + 10 + 3 * 20
    assert c.steady_us == ((20, 70), (90, 120), (140, 150))  # a later one from the end of the one before, whose launches are hidden


def test_chain_waits_for_the_host():
    c = chain([fake(50, 110), fake(30, 110)], replace(TOY, enqueue_us=200.0))
    assert c.spans_us == ((110, 160), (310, 340))
    assert c.throughput_us == 400


def test_nothing_takes_no_time():
    assert chain([], TOY).latency_us == 0


def test_measure_chain_carries_the_state():
    a, b = copier("A", "B", 160), copier("B", "C", 160)
    measures, state = measure_chain([a, b], TOY)
    assert measures[0].hbm_bytes == 320 and measures[1].hbm_bytes == 0  # B is where the first left it
    assert state == (("A", 320), ("B", 320), ("C", 320))
    renamed, state = measure_chain([a, a], TOY, names=[{"A": "x", "B": "y"}, {"A": "y", "B": "z"}])
    assert [m.hbm_bytes for m in renamed] == [320, 0] and state == (("x", 320), ("y", 320), ("z", 320))


def test_a_part_of_what_l2_cannot_hold_reaches_memory():
    """B is written where it lay as long as all that it is a part of stays in L2; then it goes out as far as that does not."""
    alone, kept, passing = (measure(copier("A", "B", 160), TOY, (("A", 320), *whole)).hbm_bytes for whole in (
        (), (("B", TOY.l2_usable_bytes),), (("B", 10 * TOY.l2_size_bytes),)))
    assert (alone, kept, passing) == (0, 0, 320)


@given(st.lists(st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 30), max_size=3), max_size=12), st.integers(0, 50))
def test_what_is_resident_is_the_capped_state(steps: list[dict[str, int]], usable: int):
    resident, state = Resident(usable), ()
    for sizes in steps:
        resident.touch(sizes)
        state = cap(tuple(e for e in state if e[0] not in sizes) + tuple(sizes.items()), usable)
        assert resident.part("fedcba") == state
        assert resident.part("ad") == tuple(e for e in state if e[0] in "ad")
