"""Programs whose cores share the tiles of a product in one numbering can be read back, and timed."""
from __future__ import annotations

from aoec.ir.text.parse import parse_func, parse_program
from aoec.ir.text.show import show
from aoec.jobs.tune.made import emit_trace
from aoec.simulate.timing.time import measure
from aoec.target.machine import load

FUNC = """
func product(A: fp16[64, 128], B: fp16[128, 256] ZN, bias: fp32[256]) -> (Y: fp16[64, 256]) {
  local C: fp32[64, 256]
  for m in 64 {
    for n in 256 {
      for k in 128 {
        mm: C[m, n] += A[m, k] * B[k, n] init bias[n]
      }
    }
  }
  for out_m in 64 {
    for out_n in 256 {
      out: Y[out_m, out_n] = fp16(C[out_m, out_n])
    }
  }
}
"""
TRACE = """
sched {
  postpone_init(block=mm)
  split(loop=m, factor=16, outer=m_t, inner=m_u)
  split(loop=m_u, factor=16, outer=m_s, inner=m_i)
  split(loop=n, factor=64, outer=n_t, inner=n_u)
  split(loop=n_u, factor=64, outer=n_s, inner=n_i)
  split(loop=k, factor=128, outer=k_1, inner=k_r)
  split(loop=k_r, factor=64, outer=k_0, inner=k_i)
  reorder(loops=[m_t, n_t, m_s, n_s, k_1, k_0, m_i, n_i, k_i])
  compute_at(block=out, loop=n_s)
  set_scope(buffer=C, scope=L0C, layout=NZ)
  cache_read(block=mm, buffer=A, scope=L1, at=k_1, layout=NZ)
  cache_read(block=mm, buffer=A_L1, scope=L0A, at=k_0, layout=ZZ)
  cache_read(block=mm, buffer=B, scope=L1, at=k_1, layout=ZN)
  cache_read(block=mm, buffer=B_L1, scope=L0B, at=k_0, layout=ZN)
  tensorize(loop=m_i, instr=mmad)
  split(loop=out_n, factor=64, outer=u_p, inner=out_n)
  reorder(loops=[u_p, out_m, out_n])
  stage(block=out, scope=UB, layout=ND, at=u_p)
  cache_read(block=Y_UB, buffer=C, scope=UB, at=u_p, layout=NZ)
  cache_read(block=Y_UB, buffer=bias, scope=UB, at=n_s)
  tensorize(loop=Y_UB_0, instr=epilogue)
  tensorize(loop=out_m, instr=store)
  even(loop=m_t, extent=64, factor=16)
  even(loop=n_t, extent=256, factor=64)
  split(loop=m_t, factor=1, outer=t_g, inner=t_o)
  even(loop=t_g, extent=4, factor=1)
  reorder(loops=[t_g, n_t, t_o])
  fuse(outer=t_g, inner=n_t, fused=t_1)
  fuse(outer=t_1, inner=t_o, fused=t)
  split(loop=t, parts=8, outer=t_c, inner=t_s, deal=cyclic)
  reorder(loops=[t_c, t_s])
  bind(loop=t_c)
}
"""


def test_steps_of_no_rows_divide_nothing() -> None:
    """Where cores are numbered over columns first, the next core has the same rows: its step along them is 0."""
    machine = load("Ascend310P3")
    _, program = emit_trace(parse_func(FUNC), TRACE, machine)
    assert parse_program(show(program)) == program
    assert measure(program, machine).ticks > 0
