"""Timelines of the toy machine, computed by hand: the kernel and the slow simulator must both give the number in the comment.

The toy machine: issue 1 cycle, flag hop 2, cross flag 5. GM <-> UB 32 bytes a cycle, done 10 cycles later; L1 -> L0 64 bytes
a cycle, done 4 later; vector 5 + repeat; mmad 5 + fractals, done 3 later; FIXP 32 bytes a cycle, done 6 later. All cores
share 32 bytes a cycle of HBM and 128 of L2.
"""
from __future__ import annotations

import pytest

from aoec.ir.text.parse import parse_program
from aoec.simulate.timing.state import COLD
from aoec.simulate.timing.time import measure
from aoec.target.machine import load
from tests.oracle.slow_timeline import simulate

TOY = load("toy")
HEAD = """program p for toy {{
  input A: fp16[32768]
{more}
  space X: fp16 in UB at 0 size 1024 depth 2
  space Y: fp16 in UB at 4096 size 1024
  space A1: fp16 in L1 at 0 size 2048
  space A0: fp16 in L0A at 0 size 2048
  space B0: fp16 in L0B at 0 size 2048
  space C: fp32 in L0C at 0 size 4096
"""
LOAD = "copy_gm_ub(dst=X[0], src=A[c*256], bursts=1, length={}, src_gap=0, dst_gap=0)"
STORE = "copy_ub_gm(dst=B[0], src=Y[0], bursts=1, length={}, src_gap=0, dst_gap=0)"
ADD = ("vadd(dst=Y[0], src0=X[0], src1=X[0], lanes=128, repeat={}, dst_blk=1, src0_blk=1, src1_blk=1, dst_rep=8, src0_rep=8, src1_rep=8)")


def vector(body, grid="c in 1", counters="", more=""):
    return HEAD.format(more=more) + f"  stream v aiv grid [{grid}]{counters} {{\n{body}\n  }}\n}}\n"


def both(text, state=COLD):
    """Cycles by kernel and oracle, which must agree."""
    program = parse_program(text)
    fast, slow = measure(program, TOY, state).ticks, simulate(program, TOY, state).ticks
    assert fast == slow
    return fast / 1024


def test_a_copy():
    # issued at 1, 320 bytes take 1..11, done 10 later
    assert both(vector(LOAD.format(320))) == 21


def test_two_copies_overlap_their_latency():
    # 1..11 and 11..21, the second done at 31
    assert both(vector(LOAD.format(320) + "\n" + LOAD.format(320))) == 31


def test_load_add_store():
    # load 1..11, done 21; V free at 23; add of 5 repeats 23..33; MTE3 free at 35; store max(10, 320/128): 35..45, done 55.
    # Where B bypasses L2, both take HBM 10 cycles at once, so each takes 20: load done 31; V 33..43; store 45..65, done 75
    body = [LOAD.format(320), "set(MTE2, V, 0)", "wait(MTE2, V, 0)", ADD.format(5), "set(V, MTE3, 0)", "wait(V, MTE3, 0)"]
    body.append(STORE.format(320))
    assert both(vector("\n".join(body), more="  output B: fp16[256]")) == 55
    assert both(vector("\n".join(body), more="  output B: fp16[256] uncached")) == 75


def test_two_cores_share_hbm():
    # 320 bytes at 32 a cycle for the chip are 10 cycles, 20 while two cores run: 1..21, done 31
    assert both(vector(LOAD.format(320), grid="c in 2")) == 31


def test_two_cores_share_l2():
    # the same from L2: max(10 cycles of the path, 2 * 320/128 = 5): 1..11, done 21
    assert both(vector(LOAD.format(320), grid="c in 2"), (("A", 65536),)) == 21


def test_half_resident():
    # half of A is in L2: of 512 bytes 8 cycles at HBM's rate and 2 at L2's; two cores: max(16, 2 * 10) = 20: 1..21, done 31
    assert both(vector(LOAD.format(512), grid="c in 2"), (("A", 32768),)) == 31


def test_epochs():
    # core 1 makes one copy: 1..21 while two run, ends at 31. Core 0 makes three: 1..21, 21..41, and the third, which starts
    # at 41 when core 1 has ended, at the full rate: 41..51, done 61
    assert both(vector("for i in 3 - 2*c {\n" + LOAD.format(320).replace("c*256", "c*512 + i*160") + "\n}", grid="c in 2")) == 61


def test_one_address_crosses_hbm_once():
    # two cores read the same 320 bytes: half from HBM, 160/32 + 160/128 = 6.25 cycles of the chip, 12.5 while two run: 1..13.5, done
    # 23.5. Three times over, a sixth of 1920 bytes: (320/6)/32 + (320*5/6)/128 = 3.75, no more than the path's 10: 1..31, done 41
    same = LOAD.format(320).replace("c*256", "0")
    assert both(vector(same, grid="c in 2")) == 23.5
    assert both(vector("for i in 3 {\n" + same + "\n}", grid="c in 2")) == 41
    bypassing = vector(same, grid="c in 2").replace("A: fp16[32768]", "A: fp16[32768] uncached")
    assert both(bypassing) == 31  # each core's own 320 bytes come from HBM


BUFFERED = """for d in {depth} {{
  set(V, MTE2, d)
}}
for i in {tiles} {{
  wait(V, MTE2, a)
  copy_gm_ub(dst=X.a[0], src=A[0], bursts=1, length=320, src_gap=0, dst_gap=0)
  set(MTE2, V, a)
  wait(MTE2, V, a)
  {add}
  set(V, MTE2, a)
  advance(a)
}}
for e in {depth} {{
  wait(V, MTE2, e)
}}"""


def buffered(depth, tiles):
    return vector(BUFFERED.format(depth=depth, tiles=tiles, add=ADD.format(15)), counters=f" counters [a depth {depth}]")


def test_single_buffer():
    # bit at 1, MTE2 free at 3. Tile 0: load 3..13, done 23, V at 25, add of 20 cycles 25..45, bit at 45.
    # Tile 1: MTE2 at 47, load 47..57, done 67, add 69..89. Tile 2: 91..101, done 111, add 113..133; last wait 135
    assert both(buffered(1, 3)) == 135


def test_double_buffer():
    # bits at 1 and 2. Tile 0: issued at 4, load 4..14, done 24, add 26..46. Tile 1: load 14..24, done 34, V at max(46, 36): add
    # 46..66. Tile 2: bit 0 at 46, load 48..58, done 68, V at max(66, 70): add 70..90, bit at 90; last waits at 92
    assert both(buffered(2, 3)) == 92


def test_no_trips():
    # set at 1 and 2, waits issued at 3 and 4: the first holds MTE2 until max(3, 1 + 2), the second until max(4, 2 + 2)
    assert both(buffered(2, 0)) == 4


def test_tail():
    # 320, 320 and 160 bytes: 1..11, 11..21, 21..26, done 36
    body = "for i in 3 {\n" + LOAD.format("min(320, 800 - i*320)").replace("c*256", "i*160") + "\n}"
    assert both(vector(body)) == 36


def test_cube():
    # A and B of 2048 bytes each, one after the other on MTE1: 1..33, 33..65, done 69; M at 71; 2*2*2 fractals and 5: 71..84, done
    # 87; FIXP at 89; 2048 bytes: 89..153, done 159
    body = """
    load_l0a(dst=A0[0], src=A1[0], repeat=4, src_stride=1, dst_gap=0, transpose=0)
    load_l0b(dst=B0[0], src=A1[0], repeat=4, src_stride=1, dst_gap=0, transpose=0)
    set(MTE1, M, 0)
    wait(MTE1, M, 0)
    mmad(dst=C[0], a=A0[0], b=B0[0], m=32, n=32, k=32, init=1)
    set(M, FIXP, 0)
    wait(M, FIXP, 0)
    fixpipe_nd(dst=W[0], src=C[0], m=32, n=32, src_rows=32, dst_stride=32, relu=0)"""
    assert both(vector(body, more="  temp W: fp16[1024]").replace("stream v aiv", "stream v aic")) == 159


def test_scalar_unit_waits():
    # add 1..11, bit at 11, S goes on at 13; issue 14, add 14..24, S at 26; issue 27, add 27..37, S at 39
    assert both(vector("for i in 3 {\n" + ADD.format(5) + "\nset(V, S, 0)\nwait(V, S, 0)\n}")) == 39


def test_scalar_unit_is_the_limit():
    # flags alone: each costs the scalar unit a cycle; the last bit is set at 39, MTE2 goes on at 41
    assert both(vector("for i in 20 {\nset(S, MTE2, 0)\nwait(S, MTE2, 0)\n}")) == 41


def test_two_streams():
    # cube: 512 bytes 1..17, done 23; token at 23. Vector: MTE2 goes on at 28; what was just written is in L2: 28..44, done 54
    text = HEAD.format(more="  temp W: fp16[1024]") + """
  stream cube aic grid [m in 1] {
    fixpipe_nd(dst=W[0], src=C[0], m=16, n=16, src_rows=16, dst_stride=16, relu=0)
    cross_set(FIXP, vec, 0)
  }
  stream vec aiv grid [v in 1] {
    cross_wait(MTE2, cube, 0)
    copy_gm_ub(dst=X[0], src=W[0], bursts=1, length=512, src_gap=0, dst_gap=0)
  }
}
"""
    assert both(text) == 54


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("tiles", [0, 1, 2, 7])
def test_more_slots_are_never_slower(depth, tiles):
    # the waits of one more free flag cost the scalar unit two cycles
    assert both(buffered(depth + 1, tiles)) <= both(buffered(depth, tiles)) + 2
