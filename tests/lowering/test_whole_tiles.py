"""Tiles that may be cut at the end of a tensor cost what whole ones do where they are whole, whether or not a schedule says so."""
from __future__ import annotations

import pytest

from aoec import primitives
from aoec.ir.rewrite import fill, normalise
from aoec.ir.text.parse import parse_func, parse_trace
from aoec.lowering.emit.emit import emit
from aoec.simulate.timing.time import measure
from aoec.target.machine import load

FUNC = """func mm_silu(A: fp16[256, 512], B: fp16[512, 512] ZN) -> (Y: fp16[256, 512]) {
  local C: fp32[256, 512]
  local D: fp32[256, 512]
  local N: fp32[256, 512]
  local E: fp32[256, 512]
  local P: fp32[256, 512]
  local R: fp32[256, 512]
  local S: fp32[256, 512]
  for m in 256 { for n in 512 { for k in 512 { mm: C[m, n] += A[m, k] * B[k, n] } } }
  for dm in 256 { for dn in 512 { d: D[dm, dn] = C[dm, dn] } }
  for nm in 256 { for nn in 512 { neg: N[nm, nn] = D[nm, nn] * -1.0 } }
  for em in 256 { for en in 512 { e: E[em, en] = exp(N[em, en]) } }
  for pm in 256 { for pn in 512 { p: P[pm, pn] = E[pm, pn] + 1.0 } }
  for rm in 256 { for rn in 512 { r: R[rm, rn] = reciprocal(P[rm, rn]) } }
  for sm in 256 { for sn in 512 { s: S[sm, sn] = D[sm, sn] * R[sm, sn] } }
  for om in 256 { for on in 512 { out: Y[om, on] = fp16(S[om, on]) } }
}
"""
SCHED = """sched {
  split(loop=om, factor=64, outer=oc, inner=oi)
  split(loop=on, factor=128, outer=onc, inner=oni)
  reorder(loops=[oc, onc, oi, oni])
  compute_at(block=s, loop=onc)
  compute_at(block=r, loop=onc)
  compute_at(block=p, loop=onc)
  compute_at(block=e, loop=onc)
  compute_at(block=neg, loop=onc)
  compute_at(block=d, loop=onc)
  compute_at(block=mm, loop=onc)
  set_scope(buffer=C, scope=L0C, layout=NZ)
  cache_read(block=[neg, s], buffer=D, scope=UB, at=onc)
  split(loop=k, factor=256, outer=k1, inner=kr)
  split(loop=kr, factor=64, outer=k0, inner=ki)
  reorder(loops=[k1, k0, m, n, ki])
  cache_read(block=mm, buffer=A, scope=L1, at=k1, layout=NZ)
  cache_read(block=mm, buffer=A_L1, scope=L0A, at=k0, layout=ZZ)
  cache_read(block=mm, buffer=B, scope=L1, at=k1, layout=ZN)
  cache_read(block=mm, buffer=B_L1, scope=L0B, at=k0, layout=ZN)
  set_scope(buffer=N, scope=UB)
  set_scope(buffer=E, scope=UB)
  set_scope(buffer=P, scope=UB)
  set_scope(buffer=R, scope=UB)
  set_scope(buffer=S, scope=UB)
  cache_write(block=out, buffer=Y, scope=UB, at=onc)
  tensorize(loop=m, instr=mmad)
  tensorize(loop=dm, instr=fixpipe)
  tensorize(loop=nm, instr=vector)
  tensorize(loop=em, instr=vector)
  tensorize(loop=pm, instr=vector)
  tensorize(loop=rm, instr=vector)
  tensorize(loop=sm, instr=vector)
  tensorize(loop=oi, instr=vector)
  set_scope(buffer=D, scope=GM)
  double_buffer(buffer=D, depth=2)
  bind(loop=oc)
  bind(loop=onc)
}
"""
EVEN = """  even(loop=oc, extent=256, factor=64)
  even(loop=onc, extent=512, factor=128)
  reorder(loops=[oc, onc, oi, oni])
"""
B3 = load("Ascend910B3")


def time_us(schedule: str) -> float:
    """The modelled time of the func by a schedule."""
    return measure(normalise(emit(primitives.apply(parse_func(FUNC), parse_trace(schedule)), B3)), B3).time_us


def test_a_product_with_an_activation_fused_by_hand_needs_no_even() -> None:
    plain, even = time_us(SCHED), time_us(SCHED.replace("  reorder(loops=[oc, onc, oi, oni])\n", EVEN))
    assert plain == pytest.approx(even, rel=0.01) and even < 9.5


@pytest.mark.parametrize("rows, columns", [(64, 128), (32, 256), (96, 96), (64, 112)])
def test_holes_filled_before_or_after_give_one_program_and_time(rows: int, columns: int) -> None:
    """Tiles that divide, and tiles that do not."""
    holes = {"tm": rows, "tn": columns}
    text = SCHED.replace("loop=om, factor=64", "loop=om, factor=?tm").replace("loop=on, factor=128", "loop=on, factor=?tn")
    func, trace = parse_func(FUNC), parse_trace(text)
    late = normalise(fill(emit(normalise(primitives.apply(func, trace)), B3), holes))
    early = normalise(emit(normalise(primitives.apply(func, fill(trace, holes))), B3))
    assert late == early and measure(late, B3).ticks == measure(early, B3).ticks
