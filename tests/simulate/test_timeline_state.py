"""Memory states, launches and a model as one timeline, on the toy machine."""
from __future__ import annotations

from dataclasses import replace

import pytest

from aoec.base.errors import CheckError
from aoec.ir.parse import parse_program
from aoec.simulate.state import COLD, after, both_ways, cap, compulsory_hbm_bytes, hbm_share, hbm_shares
from aoec.simulate.time import Measure, chain, measure, measure_chain
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


@pytest.mark.parametrize("role, footprint, passes, resident, working, share", [
    ("input", 100, 1, 0, 100, 1.0),  # first touch comes from HBM
    ("input", 100, 1, 100, 100, 0.0),  # resident
    ("input", 100, 4, 0, 100, 0.25),  # three of four crossings hit
    ("input", 100, 4, 40, 100, 0.15),  # and 40 of the first 100 bytes
    ("input", 100, 2, 0, 2000, 0.75),  # half of the second crossing is gone from a cache half as large
    ("output", 100, 1, 0, 100, 0.0),  # absorbed
    ("output", 100, 1, 0, 4000, 0.75),  # three quarters do not fit
    ("temp", 100, 2, 0, 4000, 0.75),
    ("input", 0, 1, 0, 0, 0.0),
])
def test_hbm_share(role, footprint, passes, resident, working, share):
    assert hbm_share(role, footprint, passes, resident, working, 1000) == pytest.approx(share)


@pytest.mark.parametrize("text, factor", [
    ("input A: fp16[100]", 1.0), ("output B: fp16[100]", 1.0), ("temp T: fp16[100]", 2.0), ("", 1.0),
    ("input A: fp16[100]\n  output B: fp16[400]", 2.0),  # 200 bytes at 32 a cycle, 800 at 128
    ("input A: fp16[100]\n  output B: fp16[100]", 1.25),
    ("input A: fp16[100] passes 5\n  output B: fp16[400]", (6.25 + 6.25 + 6.25) / 12.5),
])
def test_reads_and_writes_share_the_memory(text, factor):
    p = parse_program(f"program p for toy {{\n  {text}\n  stream v aiv grid [c in 1] {{\n    set(V, MTE2, 0)\n  }}\n}}\n")
    assert both_ways(p, {}, hbm_shares(p, {}, COLD, TOY), TOY) == pytest.approx(factor)


def test_compulsory_bytes():
    p = copier("A", "B", 1000)
    assert compulsory_hbm_bytes(p, COLD, TOY) == 2000
    assert compulsory_hbm_bytes(p, (("A", 500),), TOY) == 1500
    large = copier("A", "B", 16384)  # 65536 bytes and a temp of 128: half fits
    assert compulsory_hbm_bytes(large, COLD, TOY) == 32768 + int(32768 * (1 - 32768 / 65664))


def test_launch_is_outside_the_walk():
    m = measure(copier("A", "B", 160), TOY)
    # 320 bytes from HBM take the chip 10 cycles, 320 to L2 2.5, and the unused temp of 128 bytes 1, half each way: stretched by
    # (10.5 + 3) / 10.5; load 1..1 + 10 * that, done 10 later; MTE3 2 later; store 10, done 10 later
    load = round(10 * 13.5 / 10.5 * 1024) / 1024
    assert (m.cycles, m.launch_us, m.time_us, m.bound_by) == (1 + load + 10 + 2 + 10 + 10, 110, m.cycles + 110, "launch")
    assert m.run_us == m.cycles
    assert m.bytes_by_path == {"GM->UB": 320, "UB->GM": 320} and (m.hbm_bytes, m.l2_bytes) == (320, 320)
    longer = measure(copier("A", "B", 2048, 4096), TOY)
    assert longer.bound_by == "MTE2" and longer.busy_cycles["MTE3"] == 128
    assert longer.busy_cycles["MTE2"] == pytest.approx(128 * (128 + 32 + 1) / 128.5, abs=0.001)


def fake(run, launch):
    return Measure(run, 0, run + launch, launch, 1, {}, "", {}, 0, 0)


def test_chain_hides_launches_behind_work():
    # first starts at 110 and ends at 160; the second waits for it: 160 + 20 .. 210; third 230..240
    c = chain([fake(50, 110), fake(30, 110), fake(10, 110)], TOY)
    assert c.spans_us == ((110, 160), (180, 210), (230, 240))
    assert (c.latency_us, c.sum_us) == (240, 420)
    assert c.throughput_us == 50 + 30 + 10 + 3 * 20


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
