"""Where buffers lie: what `place` asks for is what emission gives, and what the default schedule gains by it."""
from __future__ import annotations

import pytest

from aoec import primitives
from aoec.ir.rewrite import fill, normalise
from aoec.ir.text.parse import parse_trace
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.tuning import problem, start
from aoec.lowering.emit.emit import emit
from aoec.simulate.encode.encode import encode
from aoec.simulate.timing.time import measure, time_rows
from aoec.target.machine import load

MACHINE = load("Ascend910B3")
ADD = """sched add {{
  split(loop=out_i0, factor=4096, outer=t, inner=i)
  cache_read(block=[out], buffer=X0, scope=UB, at=t)
  cache_read(block=[out], buffer=X1, scope=UB, at=t)
  cache_write(block=out, buffer=Y, scope=UB, at=t)
  tensorize(loop=i, instr=vector)
  double_buffer(buffer=X0_UB, depth=2)
{}
}}"""


def placed(steps: str):  # type: ignore[no-untyped-def]
    func = lower_operator("add(m=64, n=1024, fp32)")
    return emit(primitives.apply(func, parse_trace(ADD.format(steps))), MACHINE)


def test_a_buffer_starts_where_place_says_and_none_overlaps() -> None:
    program = normalise(fill(placed("  place(buffer=X1_UB, skew=?s in [0, 256])\n  place(buffer=Y_UB, align=?a in [512, 65536])"),
                             {"s": 256, "a": 65536}))
    at = {s.name: s.address.value for s in program.spaces}  # type: ignore[attr-defined]
    assert at == {"X0_UB": 0, "X1_UB": 32768 + 256, "Y_UB": 65536}


@pytest.mark.parametrize("align, skew", [(512, 16), (48, 0), (0, 0)])
def test_a_place_that_is_no_block_makes_the_row_illegal(align: int, skew: int) -> None:
    program = placed("  place(buffer=X1_UB, align=?a in [0, 48, 512], skew=?s in [0, 16])")
    times = time_rows(encode(program, MACHINE), {"a": [align, 512], "s": [skew, 0]})
    assert times.status[0] != 0 and times.status[1] == 0
    assert "X1_UB must start on a block" in times.reason(0, program)


def test_sources_half_a_period_apart_are_added_faster() -> None:
    """Values are those of the same instructions; the time between the two is the conflict."""
    slow, fast = (measure(normalise(placed(f"  place(buffer=X1_UB, skew={skew})\n  place(buffer=Y_UB, align=65536)")), MACHINE, ())
                  for skew in (0, 256))
    assert slow.busy_cycles["V"] > 1.6 * fast.busy_cycles["V"]


def test_the_default_schedule_of_an_addition_meets_in_no_bank() -> None:
    p = problem(lower_operator("add(m=64, n=4096, fp32)"), MACHINE)
    first = start(p)
    spread = measure(p.program(first.default), MACHINE, ())
    at = {s.name: s.address.value for s in p.program(first.default).spaces}  # type: ignore[attr-defined]
    assert (at["X1_UB"] - at["X0_UB"]) % 512 == 256
    plain = normalise(fill(emit(primitives.apply(p.func, without_places(p.sketches[0].trace)), MACHINE), p.values(first.default)))
    assert measure(plain, MACHINE, ()).busy_cycles["V"] > 1.5 * spread.busy_cycles["V"]


def without_places(trace):  # type: ignore[no-untyped-def]
    return type(trace)(tuple(s for s in trace.steps if s.primitive != "place"))
