"""Effects of hardware on time: each program is the case of a published measurement, each bound the tolerance that is claimed.

Chip and source stand with each; memory is as the source had it: what a micro-benchmark repeats is in L2. Vector banks are in
test_banks.py, what hits L2 in test_reuse.py.
"""
from __future__ import annotations

from dataclasses import replace

import pytest

from aoec.ir.text.parse import parse_program
from aoec.simulate.timing.time import measure
from aoec.target.machine import load

B3 = load("Ascend910B3")
FREE = replace(B3, launch_fixed_us=0.0, launch_per_core_us=0.0,
               cores={k: replace(c, heads=()) for k, c in B3.cores.items()})  # what happens after the launch alone

CUBE = """program cube for Ascend910B3 {{
  input A: {dtype}[4096, 4096]
  input B: {dtype}[4096, 4096]
  output Y: {out}[4096, 4096]
  space A1: {dtype} in L1 at 0 size 65536 depth {slots}
  space B1: {dtype} in L1 at 131072 size 65536 depth {slots}
  space A0: {dtype} in L0A at 0 size 32768 depth 2
  space B0: {dtype} in L0B at 0 size 32768 depth 2
  space C: {acc} in L0C at 0 size 65536 depth 2
  stream cube aic grid [c in {cores}] {{
{body}
  }}
}}
"""
WARM = (("A", 1 << 26), ("B", 1 << 26))


def cube(body, machine=FREE, dtype="fp16", acc="fp32", out="fp32", cores=1, slots=1, state=WARM):
    text = CUBE.format(body=body, dtype=dtype, acc=acc, out=out, cores=cores, slots=slots)
    program = parse_program(text.replace("Ascend910B3", machine.name))
    return measure(program, machine, state)


def times(count, body):
    return f"for i in {count} {{\n{body}\n}}"


def mmad(m, n, k, more=""):
    return f"mmad(dst=C[0], a=A0[0], b=B0[0], m={m}, n={n}, k={k}, init=1{more})"


def nd2nz(rows, cols, stride=4096, dst="A1", src="A"):
    return f"copy_gm_l1_nd2nz(dst={dst}[0], src={src}[0], rows={rows}, cols={cols}, src_stride={stride}, dst_rows={rows})"


def load0(side, fractals):
    return f"load_l0{side}(dst={side.upper()}0[0], src={side.upper()}1[0], repeat={fractals}, src_stride=1, dst_gap=0, transpose=0)"


def drain(m, n, stride=4096, more=""):
    return f"fixpipe_nd(dst=Y[0], src=C[0], m={m}, n={n}, src_rows={m}, dst_stride={stride}, relu=0{more})"


def period(body, pipe, machine=FREE, **more):
    """Cycles that one repetition takes when it is repeated, on the pipe that does it."""
    few, many = (cube(times(n, body), machine, **more) for n in (20, 60))
    return (many.busy_cycles[pipe] - few.busy_cycles[pipe]) / 40


# ---------------------------------------------------------------- micro-benchmarks of a 910B3 (vTriton perfbound): cycles

def test_a_product_alone_575_and_queued():
    """128 x 128 x 128 fp16 alone: 575.0; queued it starts 9 cycles after the one before ends (asc-devkit 8192^3 sample)."""
    assert cube(mmad(128, 128, 128)).cycles - FREE.issue_cycles == pytest.approx(575, abs=1)
    assert period(mmad(128, 128, 128), "M") == pytest.approx(512 + 9, abs=1)


def test_loads_into_l0_421_and_65():
    """A and B of 32 KB in 16 instructions: 421; 16 KB to L0A queued: 65.15."""
    both = "\n".join([load0("a", 8)] * 8 + [load0("b", 8)] * 8)
    assert period(both, "MTE1") == pytest.approx(421, rel=0.01)
    assert period(load0("a", 32), "MTE1") == pytest.approx(65.15, rel=0.02)


def test_l1_is_slower_while_another_slot_of_it_fills():
    """MTE1 takes 1.34 of its bytes' time in the asc-devkit 8192^3 sample, with L1 in two slots and 24 instructions a step."""
    step = "\n".join([load0("a", 4)] * 8 + [load0("b", 4)] * 16)
    ratio = period(step, "MTE1", slots=2) / (8 * 4 * 2 + 16 * 4 * 4)
    assert 1.25 < ratio < 1.40


def test_rows_into_nz_and_what_a_load_of_them_costs():
    """A and B of 128 rows of 256 bytes from L2: 871 (vTriton). On one core asc-devkit's 8192^3 takes 514 for 64 rows of 128 bytes of each
    and 1380 for 128 and 256 of them, 17 and 15 % of them from HBM. Longer rows go at the port's rate, 78.3 bytes a cycle from HBM
    (256 KB: 3346)."""
    both = nd2nz(128, 128) + "\n" + nd2nz(128, 128, dst="B1", src="B")
    assert period(both, "MTE2") == pytest.approx(871, rel=0.01)
    for rows, published, cold in (((64, 64), 513.9, 0.171), ((128, 256), 1380.5, 0.152)):
        hot, from_hbm = (sum(cube(nd2nz(n, 64), state=s).busy_cycles["MTE2"] for n in rows) for s in (WARM, ()))
        assert hot * (1 - cold) + from_hbm * cold == pytest.approx(published, rel=0.015)
    plain = "copy_gm_l1(dst=A1[0], src=A[c*2048], bursts=1, length=2048, src_gap=0, dst_gap=0)"
    assert cube(plain, state=()).busy_cycles["MTE2"] * 4 == pytest.approx(3346, rel=0.01)


def test_a_drain_856_and_817():
    """128 x 128 fp32 to ND alone 856, back to back 817: 80 bytes a cycle; bytes count: asc-devkit's 8192^3 drains 128 x 256 fp16 in 973
    with its latency, 45.8 us a core of 1.85 GHz (its steps with large loads), where 20 elements a cycle would take 1638."""
    alone = cube(drain(128, 128)).cycles - FREE.issue_cycles
    assert alone == pytest.approx(856, rel=0.01)
    assert period(drain(128, 128), "FIXP") == pytest.approx(817.4, rel=0.01)
    assert cube(drain(128, 256), out="fp16").cycles == pytest.approx(973, rel=0.15)
    narrow = period(drain(128, 16), "FIXP", out="fp16")
    assert narrow > 3 * period(drain(128, 128), "FIXP", out="fp16") / 8  # rows of 32 bytes take a request of 128
    assert period(drain(128, 128, stride=4100), "FIXP", out="fp16") > 1.2 * period(drain(128, 128), "FIXP", out="fp16")


ALTERNATE = ("wait(FIXP, M, 0)\n" + mmad(128, 128, 128, "{unit}") + "\nset(M, FIXP, 0)\nwait(M, FIXP, 0)\n" + drain(128, 128, 128, "{unit}")
             + "\nset(FIXP, M, 0)")


def alternating(unit, k=128):
    body = ALTERNATE.format(unit=unit).replace("k=128", f"k={k}")
    few, many = (cube("set(FIXP, M, 0)\n" + times(n, body) + "\nwait(FIXP, M, 0)").cycles for n in (10, 30))
    return (many - few) / 20


def test_a_tile_of_one_slot_1453_and_with_unit_flag():
    """Product and drain by turns on one tile of L0C: 1453.6. Handed over in granules, only the slower of the two shows: the vendor's
    UnitFlag takes 37.39 to 34.66 us where a drain of 128 x 256 follows each product of k = 64."""
    assert alternating("") == pytest.approx(1453.6, rel=0.02)
    assert max(521, 817) < alternating(", unit=1") < 1.15 * 819
    assert alternating(", unit=1", k=64) < alternating("", k=64) - 0.8 * 265


@pytest.mark.parametrize("dtype, acc, rate", [
    ("fp16", "fp32", 4096), ("bf16", "fp32", 4096), ("fp32", "fp32", 1024), ("int8", "int32", 8192)])
def test_rates_by_dtype(dtype, acc, rate):
    """asc-devkit tests/perf/mmad_perf: products a cycle; sizes are rounded to fractals."""
    full = period(mmad(128, 128, 128), "M", dtype=dtype, acc=acc, out=acc)
    assert full - 9 == pytest.approx(128**3 / rate, abs=1)
    assert period(mmad(113, 128, 128), "M", dtype=dtype, acc=acc, out=acc) == full


def test_load3d_by_stride_and_filter():
    """asc-devkit appendix: 256 bytes a cycle at stride 1 with one row of the filter, 512 / (2 s + n) with n more, 32 at s = 3."""
    def rate(stride, rows, channels=16, k=16):
        fields = (f"h=64, w=64, channels={channels}, k_start=0, k_size={k * rows}, m_start=0, m_size=256, "
                  f"stride_h={stride}, stride_w={stride}, filter_h={rows}, filter_w=1, dilation_h=1, dilation_w=1, "
                  "pad_top=0, pad_bottom=0, pad_left=0, pad_right=0")
        cycles = period(f"load3d(dst=A0[0], src=A1[0], {fields})", "MTE1") - FREE.constants["l0_issue"]
        return 256 * 2 * k * rows / cycles
    assert [rate(1, 1), rate(1, 3), rate(2, 1), rate(4, 1), rate(3, 1)] == pytest.approx([256, 512 / 4, 128, 64, 32], rel=0.01)
    assert rate(1, 8, 4, 4) == pytest.approx(512 / 9, rel=0.01)  # columns of eight taps, each in a row of the filter of its own


# ---------------------------------------------------------------- samples and other sources

def test_rows_cost_more_from_hbm():
    """Loads of 64 rows of 128 bytes: from HBM 5.3 cycles a row (asc-devkit DataCopy sample, 24 cube cores), from L2 3.7."""
    hot, cold = (cube(nd2nz(64, 64), state=s).busy_cycles["MTE2"] for s in (WARM, ()))
    assert hot / 64 == pytest.approx(3.7, rel=0.02) and cold / 64 == pytest.approx(5.3, rel=0.01)


def test_one_core_gets_its_rows_from_hbm_in_sectors_of_512_bytes():
    """CATLASS matmul practice: 6 cores with 2.6 MB each in rows of 1 KB take 36.3 us; 20 cores with 16384 rows of 640 bytes each 252.4,
    as many requests as of 1 KB, where blocks as they are take 139.6."""
    b1, b3 = load("Ascend910B1"), load("Ascend910B3")
    wide = cube(nd2nz(128, 256, 5120), b1, "fp32", state=()).busy_cycles["MTE2"]
    assert 20 * wide / b1.clock_mhz == pytest.approx(36.3, rel=0.1)  # 20 chunks of k
    ragged = cube(nd2nz(128, 320, 6144), b3, state=()).busy_cycles["MTE2"]
    assert 128 * ragged / b3.clock_mhz == pytest.approx(252.4, rel=0.1)


def test_rows_from_l2_come_in_requests_of_128_bytes():
    """asc-devkit: bus requests of 128, 256 or 512 bytes: rows of 400 bytes take as long as rows of 512, in a load as wide."""
    short, whole = (cube(nd2nz(64, cols)).busy_cycles["MTE2"] for cols in (200, 256))
    assert short == whole > cube(nd2nz(64, 192)).busy_cycles["MTE2"]


def test_unaligned_rows_take_twice_as_long_into_nz():
    """asc-devkit DataCopy sample: 302 MB by 24 cube cores, rows of 12287 halves 422.5 us against 214.5 of HBM's own time; N = 4095 in
    the Ascend C guide: 39 cycles a row of 512 bytes, from L2."""
    b1 = load("Ascend910B1")
    ragged, whole = (cube(nd2nz(64, 256, stride).replace("A[0]", "A[c * 262144]"), b1, cores=24, state=()).reasons.accounts["MTE2"]
                     for stride in (12287, 4096))
    ratio = (ragged.busy + ragged.memory) / (whole.busy + whole.memory)
    assert ratio == pytest.approx(422.5 / 214.5, rel=0.2)
    assert cube(nd2nz(64, 256, 4095)).busy_cycles["MTE2"] / 64 == pytest.approx(39, rel=0.15)


def test_atomic_stores_hold_l2_twice():
    """L2 reads what it adds to: with all cores draining at once the chip's L2 is held twice as long."""
    slow = replace(FREE, l2_bytes_per_s=FREE.l2_bytes_per_s / 4)
    plain, added = (cube(times(20, drain(128, 128, more=m)), slow, cores=20).cycles for m in ("", ", atomic=1"))
    assert 1.3 < added / plain < 2.01


def test_a_full_queue_stalls_the_scalar_unit():
    """asc-devkit: a queue holds 32 instructions. What stands behind 100 loads is not issued until 68 have started."""
    text = "\n".join([times(100, load0("b", 32)), nd2nz(16, 64)])
    late = cube(text).reasons.accounts["MTE2"].issue
    early = cube(text, replace(FREE, cores={k: replace(c, queue_depth=1000) for k, c in FREE.cores.items()})).reasons.accounts["MTE2"].issue
    start = (100 - 32) * (32 * 512 / 128 + FREE.constants["l0_issue"])
    assert late == pytest.approx(start, rel=0.05) and early < 0.15 * start


def test_the_scalar_unit_binds_many_small_instructions():
    """asc-devkit 8192^3 by the basic API: 337 us at 1.85 GHz for 12288 steps of some ten operations, so 51 cycles a step."""
    step = "set(M, MTE1, 0)\nwait(M, MTE1, 0)\n" + load0("a", 1) + "\n" + load0("b", 1) + "\nset(MTE1, M, 0)\nwait(MTE1, M, 0)\n" \
        + "\n".join([mmad(16, 16, 16)] * 2) + "\nset(M, MTE1, 1)\nwait(M, MTE1, 1)"
    few, many = (cube(times(n, step)).reasons.accounts["S"].busy for n in (20, 60))
    assert (many - few) / 40 == pytest.approx(51, rel=0.1)


VECTOR = """program vector for Ascend910B3 {{
  input X: fp32[67108864]
  input Z: fp32[67108864]
  output Y: fp32[67108864]
  space x: fp32 in UB at 0 size 49152 depth 4
  stream vec aiv grid [c in {cores}] {{
{body}
  }}
}}
"""


def vector(body, cores=1, machine=FREE, state=()):
    return measure(parse_program(VECTOR.format(body=body, cores=cores)), machine, state)


def move(op, length, bursts=1, gap=0, tensor=None, slot=0, step=0):
    to = op == "copy_gm_ub"
    gm, ub = f"{tensor or ('X' if to else 'Y')}[i*{step}]", f"x.{slot}[0]"
    return (f"{op}(dst={ub if to else gm}, src={gm if to else ub}, bursts={bursts}, length={length}, "
            f"src_gap={gap if to else 0}, dst_gap={0 if to else gap})")


def moved(body, pipe, count=20, **more):
    return vector(times(count, body), **more).busy_cycles[pipe] / count


def test_small_copies_cost_an_instruction_each():
    """asc-devkit DataCopy sample: copies of 128 bytes one by one take 20.6 cycles each, in one instruction of 64 rows 8.6 each."""
    assert moved(move("copy_gm_ub", 128, step=32), "MTE2") == pytest.approx(20.6, rel=0.01)
    assert moved(move("copy_gm_ub", 128, 64, 24448, step=32), "MTE2") / 64 == pytest.approx(8.6, rel=0.06)


def test_unaligned_rows_hold_the_chips_memory_longer():
    """asc-devkit DataCopy sample: 302 MB into UB by 48 vector cores, rows of 12287 halves 259 us against 202.7."""
    def read(gap):
        body = times(24, move("copy_gm_ub", 2048, 16, gap).replace("i*0", "(c*24 + i)*65536"))
        return vector(body, 40).reasons.accounts["MTE2"]
    ragged, whole = (a.busy + a.memory for a in (read(22526), read(22528)))
    assert ragged / whole == pytest.approx(259.047 / 202.657, rel=0.03)


def test_memory_that_turns_around_loses_time():
    """Reading 302 MB takes a 910B1 202.7 us (asc-devkit DataCopy sample, 1.49 TB/s); reading and writing as much alternately a 910B
    1.29 to 1.35 TB/s (EvoKernel, eight elementwise kernels of 12.9 GB in 9.53 to 9.99 ms)."""
    both = "copy_gm_ub(dst=X[0], src=A[{at}], bursts=1, length=32768, src_gap=0, dst_gap=0)\n" \
           "copy_ub_gm(dst=Y[{at}], src=X[0], bursts=1, length=32768, src_gap=0, dst_gap=0)"
    text = "program p for Ascend910B1 {{\n  input A: fp16[1006632960]\n  output Y: fp16[1006632960]\n" \
           "  space X: fp16 in UB at 0 size 32768\n  stream v aiv grid [c in 48] {{\n    for i in 1280 {{\n{body}\n    }}\n  }}\n}}\n"
    rates = []
    for body in (both, both.splitlines()[0]):
        m = measure(parse_program(text.format(body=body.format(at="(c*1280 + i)*16384"))), load("Ascend910B1"), ())
        rates.append(m.hbm_bytes / m.run_us / 1e6)
    assert rates[1] == pytest.approx(302 / 202.7, rel=0.01) and 1.26 < rates[0] < 1.35


def test_a_hand_over_between_cores_takes_a_cross_flag():
    """vTriton mandatory_handoff on a 910B3: a cube core's result reaches the vector core's next instruction 235 to 375 cycles later
    than it would on one core; a flag between pipes of one core takes 11."""
    def ends(flag, wait):
        text = CUBE.format(dtype="fp16", out="fp32", acc="fp32", cores=1, slots=1, body=drain(128, 128) + flag)
        text = text.replace("  stream", "  space X: fp32 in UB at 0 size 4096\n  stream")
        text = text[:text.rindex("}")] + "  stream vec aiv grid [v in 1] {\n" + wait + \
            "copy_gm_ub(dst=X[0], src=Y[0], bursts=1, length=4096, src_gap=0, dst_gap=0)\n  }\n}\n"
        return measure(parse_program(text), FREE).cycles
    handed, own = ends("\ncross_set(FIXP, vec, 0)", "cross_wait(MTE2, cube, 0)\n"), cube(drain(128, 128)).cycles
    alone = ends("", "")
    read = handed - own - FREE.cross_cycles
    assert 235 <= FREE.cross_cycles <= 375 and 0 < read < alone and FREE.flag_hop_cycles == 11


def test_reads_and_writes_of_one_core_share_its_bus():
    """vTriton mte_gm_to_ub on a 910B3: reading alone 58.6 bytes a cycle, while writing as much 48; two reads a write keep their rate."""
    read, write = move("copy_gm_ub", 32768, step=8192), move("copy_ub_gm", 32768, step=8192)
    other = move("copy_gm_ub", 32768, tensor="Z", slot=1, step=8192)
    assert 32768 / moved(read, "MTE2") == pytest.approx(58.6, rel=0.01)
    assert 32768 / moved(read + "\n" + write, "MTE2") == pytest.approx(48, rel=0.01)
    assert 65536 / moved(read + "\n" + other + "\n" + write, "MTE2") == pytest.approx(58.6, rel=0.01)


def test_the_first_load_waits_for_the_launch():
    """graph-autofusion perf_param_v1: a first MTE2 after 882 + 15.9 cycles a core, so more cores start later; MTE3 after 497."""
    body = move("copy_gm_ub", 1024).replace("i*0", "0") + "\n" + move("copy_ub_gm", 1024).replace("i*0", "0")
    one, all_ = (vector(body, cores, B3).reasons.accounts for cores in (1, 40))
    assert one["MTE2"].head == pytest.approx(882 + 15.9, abs=1) and one["MTE3"].head == pytest.approx(497, abs=1)
    assert all_["MTE2"].head == pytest.approx(882 + 40 * 15.9, abs=1) and one["MTE2"].total > one["MTE2"].head + 400


def test_a_tiny_task_takes_its_launch():
    """A3: an addition of 1536 bf16 takes 1.886 us in all (msModeling): launch, first load, store, nothing else of size. CV 4 %."""
    body = "\n".join([move("copy_gm_ub", 3072), move("copy_gm_ub", 3072, tensor="Z", slot=1), "set(MTE2, V, 0)", "wait(MTE2, V, 0)",
                      "vadds(dst=x.2[0], src=x.0[0], scalar=1.0, lanes=64, repeat=12, dst_blk=1, src_blk=1, dst_rep=8, src_rep=8)",
                      "set(V, MTE3, 0)", "wait(V, MTE3, 0)", move("copy_ub_gm", 3072, slot=2)]).replace("i*0", "0")
    assert vector(body, 1, B3, (("X", 4096), ("Z", 4096))).time_us == pytest.approx(1.886, rel=0.15)


def test_more_cores_cost_more_to_launch():
    """vTriton op_summary: a copy of 1 MB on 40 vector cores takes 6.06 us, 1.9 of them outside the cores; on one core 0.5 to 1.0."""
    assert 0.5 <= B3.launch_us(1) <= 1.0 and B3.launch_us(40) == pytest.approx(1.9, rel=0.05)
    assert B3.launch_us(24, 2) - B3.launch_us(24, 1) == pytest.approx(3.0, abs=2.0)  # asc-devkit: 1 to 5 more together
