"""Vector instructions against published cycles: banks of UB, heads, classes; each case with its source."""
from __future__ import annotations

from dataclasses import replace

import pytest

from aoec.ir.text.parse import parse_program
from aoec.simulate.timing.time import measure
from aoec.target.machine import load
from tests.oracle.slow_timeline import simulate

CHIP = load("Ascend910B3")
MACHINE = replace(CHIP, cores={k: replace(c, heads=()) for k, c in CHIP.cores.items()}, loop_cycles=0.0)  # the instructions alone
TICK_CYCLES = 0.02 * 1850  # the system counter of the asc-devkit bank sample: 50 MHz, on a 910B1 of 1.85 GHz


def cycles(spaces: str, body: str, times: int = 1) -> float:
    """Modelled cycles of `times` rounds of an instruction sequence on one vector core."""
    text = f"program p for Ascend910B3 {{\n{spaces}\n  stream v aiv {{\n    for i in {times} {{\n{body}\n    }}\n  }}\n}}"
    return measure(parse_program(text), MACHINE, ()).cycles


def unary(op: str, repeat: int, src: int = 0, dst: int = 65536, dtype: str = "fp32", extra: str = "", **strides: int) -> float:
    s = {"dst_blk": 1, "src_blk": 1, "dst_rep": 8, "src_rep": 8} | strides
    size = 2 if dtype == "fp16" else 4
    fields = ", ".join(f"{k}={v}" for k, v in s.items())
    return cycles(f"  space a: {dtype} in UB at {src} size 65536\n  space b: {dtype} in UB at {dst} size 65536",
                  f"{op}(dst=b[0], src=a[0], {extra}lanes={256 // size}, repeat={repeat}, {fields})")


def add(x: int, y: int, z: int, repeat: int = 64, dtype: str = "fp32", op: str = "vadd", times: int = 1000) -> float:
    spaces = "\n".join(f"  space {n}: {dtype} in UB at {at} size 16384" for n, at in (("x", x), ("y", y), ("z", z)))
    lanes = 64 if dtype == "fp32" else 128
    return cycles(spaces, f"{op}(dst=z[0], src0=x[0], src1=y[0], lanes={lanes}, repeat={repeat}, dst_blk=1, src0_blk=1, src1_blk=1, "
                          "dst_rep=8, src0_rep=8, src1_rep=8)", times)


@pytest.mark.parametrize("x, y, z, ticks", [
    (0, 16640, 131072, 2390),     # none meet: y half a period after x, z in another bank
    (0, 16384, 131072, 4167),     # the reads meet
    (0, 16640, 33280, 3751),      # the result meets a read in its bank
    (0, 16640, 16640, 2390),      # in place
])
def test_add_of_4096_fp32_meets_the_published_bank_conflicts(x: int, y: int, z: int, ticks: int) -> None:
    """asc-devkit bank conflict sample: 1000 Adds in ticks of 20 ns."""
    assert add(x, y, z) == pytest.approx(ticks * TICK_CYCLES, rel=0.02)


@pytest.mark.parametrize("x, y, z", [(0, 16640, 131072), (0, 16384, 131072), (0, 16640, 33280), (0, 16640, 16640)])
def test_a_sum_cut_off_takes_as_long_as_a_sum(x: int, y: int, z: int) -> None:
    """asc-devkit vector theoretical performance: AddRelu takes as many elements a cycle as Add; and so msKPP's table of a 910B1, in which
    reads meet: 32.0 cycles for 16 repeats of each."""
    assert add(x, y, z, op="vaddrelu") == add(x, y, z)
    assert add(x, y, z, dtype="fp16", op="vaddrelu") == add(x, y, z, dtype="fp16")


def test_partly_overlapping_reads_meet_as_well_as_equal_ones() -> None:
    assert add(0, 16384 + 128, 131072) == add(0, 16384, 131072) > 1.6 * add(0, 16384 + 256, 131072)


def stepping(x_rep: int, y_rep: int, y: int) -> float:
    """An addition of 32 repeats whose sources step by so many blocks."""
    places = (("x", 0, 98304), ("y", 98304 + y, 16384), ("z", 131072, 16384))
    spaces = "\n".join(f"  space {n}: fp32 in UB at {at} size {size}" for n, at, size in places)
    return cycles(spaces, "vadd(dst=z[0], src0=x[0], src1=y[0], lanes=64, repeat=32, dst_blk=1, src0_blk=1, src1_blk=1, dst_rep=8, "
                          f"src0_rep={x_rep}, src1_rep={y_rep})")


def test_sources_that_step_by_periods_more_or_less_stay_as_they_start() -> None:
    """A row of one scale for each column (step 0) beside rows 96 blocks apart: sixteen blocks are a period of the bank groups."""
    assert stepping(96, 0, 256) == stepping(8, 8, 256) < stepping(96, 0, 0) == stepping(8, 8, 0)
    assert stepping(8, 8, 256) < stepping(88, 0, 256) == stepping(88, 0, 0) < stepping(8, 8, 0)


def test_a_bank_ends_after_64_kilobytes() -> None:
    assert add(65536, 65536 + 16640, 131072) == add(65536, 65536 + 16640, 0) < add(65536, 65536 + 16640, 65536 + 33024)


def test_slots_count_as_far_as_the_last_one() -> None:
    def slots(depth: int) -> float:
        return cycles(f"  space x: fp32 in UB at 131072 size 16384\n  space y: fp32 in UB at 147712 size 16384\n"
                      f"  space z: fp32 in UB at 49408 size 16384 depth {depth}",
                      "vadd(dst=z[0], src0=x[0], src1=y[0], lanes=64, repeat=64, dst_blk=1, src0_blk=1, src1_blk=1, dst_rep=8, "
                      "src0_rep=8, src1_rep=8)")
    assert slots(1) == slots(5) < slots(6)


@pytest.mark.parametrize("stride, turns", [(1, 1), (2, 1), (3, 1), (4, 2), (8, 4), (12, 2), (16, 8), (144, 8), (145, 1)])
def test_blocks_written_at_a_stride_take_turns_in_their_groups(stride: int, turns: int) -> None:
    """asc-devkit nd2nz sample: stride 144 against 145 blocks, vector time 47.8 against 7.1 us (x6.7 with the heads in it)."""
    flat = unary("vcopy", 128, dst_rep=1)
    assert unary("vcopy", 128, dst_blk=stride, dst_rep=1) - flat == pytest.approx((turns - 1) * 128)


def test_the_padded_stride_of_the_nd2nz_sample_is_faster_by_what_was_measured() -> None:
    worst, best = (unary("vcopy", 128, dst_blk=stride, dst_rep=1) for stride in (144, 145))
    assert worst / best == pytest.approx(47.8 / 7.1, rel=0.12)


@pytest.mark.parametrize("op, busy", [("vadd", 26.0), ("vmul", 27.0), ("vmax", 24.0)])
def test_256_halves_take_the_busy_cycles_of_the_board(op: str, busy: float) -> None:
    """vTriton perfbound/calibration on a 910B3."""
    issue = MACHINE.issue_cycles
    assert add(0, 16640, 131072, 2, "fp16", op, 1) == pytest.approx(busy + issue, abs=0.6)


def test_the_slow_functions_of_256_halves_take_122_cycles_together() -> None:
    """vTriton perfbound/calibration on a 910B3: exp, ln, sqrt and rsqrt one after the other."""
    total = sum(unary(op, 2, dtype="fp16") - MACHINE.issue_cycles for op in ("vexp", "vln", "vsqrt", "vrsqrt"))
    assert total == pytest.approx(122, rel=0.06)


@pytest.mark.parametrize("op, dtype, rate", [("vexp", "fp32", 2), ("vexp", "fp16", 4), ("vsqrt", "fp32", 2), ("vrsqrt", "fp32", 1),
                                             ("vrec", "fp16", 1), ("vabs", "fp32", 1)])
def test_a_repeat_of_a_class_costs_its_official_rate(op: str, dtype: str, rate: int) -> None:
    """asc-devkit vector theoretical performance, 2201: 32 elements a cycle of exp, ln, sqrt and div whatever their size."""
    assert unary(op, 200, dtype=dtype) - unary(op, 100, dtype=dtype) == pytest.approx(100 * rate)


def test_a_whole_reduce_costs_seven_cycles_a_repeat() -> None:
    body = "vcadd(dst=b[0], src=a[0], lanes=64, repeat={}, dst_rep=1, src_blk=1, src_rep=8)"
    spaces = "  space a: fp32 in UB at 0 size 65536\n  space b: fp32 in UB at 65536 size 65536"
    assert cycles(spaces, body.format(200)) - cycles(spaces, body.format(100)) == pytest.approx(700)


def test_a_cast_to_the_narrow_type_is_faster_than_one_to_the_wide() -> None:
    """graph-autofusion perf_param_v1: 0.56 against 0.94 cycles for 64 elements."""
    def cast(src: str, dst: str, repeat: int) -> float:
        sizes = {"fp16": 4, "fp32": 8}
        return cycles(f"  space a: {src} in UB at 0 size 65536\n  space b: {dst} in UB at 65536 size 65536",
                      f"vconv(dst=b[0], src=a[0], lanes=64, repeat={repeat}, dst_blk=1, src_blk=1, dst_rep={sizes[dst]}, "
                      f"src_rep={sizes[src]})")
    narrow, wide = (cast(*pair, 200) - cast(*pair, 100) for pair in (("fp32", "fp16"), ("fp16", "fp32")))
    assert narrow == pytest.approx(56) and wide == pytest.approx(100)


@pytest.mark.parametrize("y, z, depth", [(16384, 131072, 1), (16640, 131072, 2), (16640, 33280, 1)])
def test_the_slow_oracle_sees_the_same_places(y: int, z: int, depth: int) -> None:
    text = (f"program p for Ascend910B3 {{\n  space x: fp32 in UB at 0 size 512\n  space y: fp32 in UB at {y} size 16384\n"
            f"  space z: fp32 in UB at {z} size 8192 depth {depth}\n  stream v aiv counters [c depth {depth}] {{\n    for i in 3 {{\n"
            "      vadd(dst=z.c[i*64], src0=x[0], src1=y[i*64], lanes=64, repeat=1, dst_blk=1, src0_blk=1, src1_blk=1, dst_rep=8, "
            "src0_rep=8, src1_rep=8)\n      advance(c)\n    }\n  }\n}")
    program = parse_program(text)
    assert simulate(program, MACHINE).ticks == measure(program, MACHINE, ()).ticks
