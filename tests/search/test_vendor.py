"""The vendor's tilings are traces: any that fits the chip can be said, scheduled, emitted and proved, and the published ladder too."""
from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from aoec import primitives
from aoec.ir.func.tir import Func
from aoec.ir.rewrite import holes, normalise
from aoec.jobs.stages.stages import lower_operator
from aoec.lowering.emit.emit import emit
from aoec.search.sketches.nests import find_product
from aoec.search.vendor.vendor import ORDER_M, ORDER_N, MatmulTiling, matmul_choice, matmul_trace
from aoec.search.vendor.vendor_conv import ConvTiling, conv_trace
from aoec.simulate.encode.encode import encode
from aoec.simulate.timing.time import measure, time_rows
from aoec.target.legality.check import check
from aoec.target.machine import load
from tests.lowering.groups import cases
from tests.oracle.slow_timeline import simulate
from tests.search.test_choices import summed

MACHINE = load("Ascend910B1")
SHAPES = ("matmul(m=512, k=768, n=1024, trans_b)", "matmul(m=1000, k=333, n=520, nd)", "matmul(m=2048, k=512, n=768, nd, trans_a)",
          "matmul(m=256, k=1024, n=512, fp32)", "matmul(m=48, k=4096, n=2000, bias)", "matmul(m=1, k=700, n=1000, relu)")


def drawn(random: Random) -> MatmulTiling:
    """Any tiling whose L0 blocks fit the chip's L0 and whose L1 tiles fit L1, in bytes of fp16."""
    while True:
        step_m, step_n = random.choice((1, 1, 2, 3)), random.choice((1, 1, 2, 4))
        ka, kb = random.choice((1, 2, 3, 4, 6, 8, 64)), random.choice((1, 2, 4, 8, 16, 64))
        t = MatmulTiling(
            usedCoreNum=random.choice((0, 1, 7, 20, 24)), singleCoreM=random.choice((0, 128, 200, 256, 512)),
            singleCoreN=random.choice((0, 128, 256, 384)), baseM=16 * random.randint(1, 16), baseN=16 * random.randint(1, 16),
            baseK=random.choice((16, 32, 48, 64, 128)), stepM=step_m, stepN=step_n, stepKa=ka, stepKb=kb,
            depthA1=random.choice((0, 1, 2, 3)) * step_m * ka, depthB1=random.choice((0, 1, 2)) * step_n * kb,
            iterateOrder=random.choice((ORDER_M, ORDER_N)), dbL0A=random.choice((1, 2)), dbL0B=random.choice((1, 2)),
            dbL0C=random.choice((1, 2)), l2MTileCnt=random.choice((1, 1, 2, 3)), l2NTileCnt=random.choice((1, 1, 2)),
            l2MTileBlock=random.choice((0, 0, 1, 3)), l2NTileBlock=random.choice((0, 1, 2)),
            l2IterateOrder=random.choice((ORDER_M, ORDER_N)))
        if fits(t):
            return t


def fits(t: MatmulTiling) -> bool:
    l0a, l0b, l0c = t.baseM * t.baseK * 2 * t.dbL0A, t.baseN * t.baseK * 2 * t.dbL0B, t.baseM * t.baseN * 4 * t.dbL0C
    return max(l0a, l0b) <= 65536 and l0c <= 131072


def cases_of(count: int, seed: int) -> Iterator[tuple[Func, MatmulTiling]]:
    """So many tilings over all shapes; those whose L1 tiles do not fit are drawn again."""
    random, funcs = Random(seed), [lower_operator(s) for s in SHAPES]
    for i in range(count):
        func = funcs[i % len(funcs)]
        while True:
            t = drawn(random)
            if l1_bytes(func, t) <= MACHINE.scope("L1").size_bytes - 8192:  # a bias may lie there too
                yield func, t
                break


def l1_bytes(func: Func, t: MatmulTiling) -> int:
    _, v = matmul_choice(func, MACHINE, t)
    size = 4 if func.inputs[0].dtype == "fp32" else 2
    k = min(v["tk"] * v["sk"] * v["rk"], 1 << 20)
    whole = max(int(e.value) for b in func.inputs[:2] for e in b.shape)  # type: ignore[union-attr]
    a, b = (max(k, whole if v[steps] > 1 else 0) * v[tile] * v[steps] for tile, steps in (("tm", "pm"), ("tn", "pn")))
    return size * (a * v["da"] + b * v["db"])


def holds(func: Func, t: MatmulTiling) -> bool:
    """Whether the tiling becomes a program that is legal on the chip; a refusal is a capacity that `drawn` cannot see."""
    trace = matmul_trace(func, MACHINE, t)
    assert holes(trace) == {}
    program = normalise(emit(primitives.apply(func, trace), MACHINE))
    broken = [c.reason for c in program.constraints]
    assert all("holds" in reason for reason in broken), (t, broken)
    if broken:
        return False
    check(program, MACHINE)
    assert measure(program, MACHINE).cores <= 24
    return True


def expressed(count: int, seed: int) -> None:
    found = [holds(func, t) for func, t in cases_of(count, seed)]
    assert sum(found) >= 0.8 * count


def test_random_tilings_can_be_said() -> None:
    expressed(12, 1)


@pytest.mark.slow
def test_a_thousand_random_tilings_can_be_said() -> None:
    expressed(1000, 2)


# ---------------------------------------------------------------- the ladder

ROWS = {"singleCoreM": 1024, "singleCoreN": 1536, "usedCoreNum": 24, "stepKa": 8, "stepKb": 4, "depthA1": 16, "depthB1": 8, "l2MTileCnt": 2}
LADDER = {  # 8192^3 fp16 on 24 cubes, B stored as [n, k], as the asc-devkit's best practices take it apart
    "norm": MatmulTiling(singleCoreM=2048, singleCoreN=1536, depthA1=1, depthB1=1),
    "large loads": MatmulTiling(singleCoreM=2048, singleCoreN=1536, stepKa=4, stepKb=4),
    "L1 full": MatmulTiling(singleCoreM=2048, singleCoreN=1536, stepKa=8, stepKb=4, depthA1=16, depthB1=8),
    "L2 blocks": MatmulTiling(**ROWS),
    "granules": MatmulTiling(**ROWS, unitFlag=1), "staggered": MatmulTiling(**ROWS, unitFlag=1, kRotate=1),
}


def test_the_published_ladder_is_said_step_by_step() -> None:
    func = lower_operator("matmul(m=8192, k=8192, n=8192, trans_b)")
    made = {name: normalise(emit(primitives.apply(func, matmul_trace(func, MACHINE, t)), MACHINE)) for name, t in LADDER.items()}
    assert all(p.constraints == () for p in made.values())
    times = {name: measure(p, MACHINE).time_us for name, p in made.items()}
    assert times["norm"] > 2 * times["large loads"]
    assert times["granules"] <= times["L2 blocks"]
    assert measure(made["norm"], MACHINE).cores == 24


def test_split_k_adds_in_gm_and_uses_cores_that_blocks_leave_idle() -> None:
    func = summed("matmul(m=128, k=8192, n=256, nd)")
    alone, split = (normalise(emit(primitives.apply(func, matmul_trace(func, MACHINE, t)), MACHINE))
                    for t in (MatmulTiling(stepKa=4, stepKb=4), MatmulTiling(stepKa=4, stepKb=4, singleCoreK=1024)))
    check(split, MACHINE)
    assert (measure(alone, MACHINE).cores, measure(split, MACHINE).cores) == (1, 8)
    m = measure(split, MACHINE)
    assert m.time_us < measure(alone, MACHINE).time_us
    zeros_us = 128 * 256 * 4 / MACHINE.hbm_bytes_per_cycle / MACHINE.clock_mhz + MACHINE.queue_gap_us
    assert m.time_us == pytest.approx(m.launch_us + m.cycles / MACHINE.clock_mhz + zeros_us)
    times = time_rows(encode(split, MACHINE), {})
    assert times.total_ticks[0] == pytest.approx(m.time_us * MACHINE.clock_mhz * 1024, abs=1)


def test_an_axis_of_one_block_is_dealt_out_too() -> None:
    """Six blocks of 20 rows on four cores: two of them do a second, alone; the slow simulator agrees to the tick."""
    func = lower_operator("matmul(m=20, k=64, n=192)")
    tiling = MatmulTiling(usedCoreNum=4, baseM=32, baseN=32, baseK=32, singleCoreM=32, singleCoreN=32, l2MTileBlock=1, l2NTileBlock=1)
    program = normalise(emit(primitives.apply(func, matmul_trace(func, MACHINE, tiling)), MACHINE))
    assert program.constraints == ()
    check(program, MACHINE)
    m = measure(program, MACHINE)
    assert m.cores == 4 and m.ticks == simulate(program, MACHINE).ticks
    assert m.reasons is not None and m.reasons.imbalance > 1.1


# ---------------------------------------------------------------- convolutions

CONVS = ("conv2d(n=2, c=64, h=28, w=28, co=96, kh=3, kw=3, pad=1, bias, relu)", "conv2d(n=1, c=256, h=14, w=14, co=512, kh=1, kw=1)",
         "conv2d(n=1, c=32, h=30, w=17, co=48, kh=3, kw=3, stride=2, pad=1)")


def conv_drawn(random: Random) -> ConvTiling:
    pick = random.choice
    rows, columns = pick((1, 2, 4, 7)), pick((0, 4, 8, 16))
    return ConvTiling(hoL1=rows * pick((1, 2)), woL1=columns, hoL0=rows, woL0=columns, kL0=pick((16, 32, 64)), nL0=pick((16, 32, 48, 64)),
                      kAL1=pick((0, 144, 288, 64)), kBL1=pick((0, 144, 576, 128)),
                      batchDim=pick((1, 2)), hoDim=pick((1, 3)), woDim=pick((1, 2)),
                      nDim=pick((1, 2)), pbAL1=pick((1, 2)), pbBL1=pick((1, 2)), pbAL0=pick((1, 2)), pbBL0=pick((1, 2)), pbCL0=pick((1, 2)),
                      iterateMNOrder=pick((0, 1)), al1FullLoad=pick((0, 0, 1)), bl1FullLoad=pick((0, 0, 1)))


def convs_expressed(count: int, seed: int) -> None:
    random, funcs = Random(seed), [lower_operator(s) for s in CONVS]
    for i in range(count):
        func, t = funcs[i % len(funcs)], conv_drawn(random)
        trace = conv_trace(func, MACHINE, t)
        assert holes(trace) == {}
        program = normalise(emit(primitives.apply(func, trace), MACHINE))
        assert program.constraints == (), (t, program.constraints)
        check(program, MACHINE)


def test_random_convolution_tilings_can_be_said() -> None:
    convs_expressed(9, 1)


@pytest.mark.slow
def test_a_thousand_random_convolution_tilings_can_be_said() -> None:
    convs_expressed(1000, 2)


@pytest.mark.parametrize("tiling", [
    ConvTiling(hoL0=2, kL0=16, nL0=16, kAL1=144, kBL1=288), ConvTiling(hoL0=3, kL0=32, nL0=32, kAL1=432, kBL1=144, iterateMNOrder=0),
    ConvTiling(hoL0=1, woL0=3, hoDim=2, kL0=48, nL0=16, kAL1=144, kBL1=144, iterateMNOrder=0),
    ConvTiling(hoL0=2, nL0=16, al1FullLoad=1, nDim=2)])
def test_a_convolution_tiling_means_the_operator(tiling: ConvTiling) -> None:
    case = next(c for c in cases("conv_dilated") if find_product(c.func))
    program = normalise(emit(primitives.apply(case.func, conv_trace(case.func, MACHINE, tiling)), MACHINE))
    assert program.constraints == ()
    assert case.agrees(case.run(program))


def test_a_tiling_of_few_channels_takes_whole_rows() -> None:
    """The image has four channels a pixel and k one chunk of 7 x 7 x 4: a tiled width and chunks of k become whole."""
    case = next(c for c in cases("conv_few") if find_product(c.func))
    trace = conv_trace(case.func, MACHINE, ConvTiling(hoL1=2, hoL0=2, woL0=2, kL0=64, kAL1=64, kBL1=128, nL0=16, hoDim=3))
    program = normalise(emit(primitives.apply(case.func, trace), MACHINE))
    assert program.constraints == ()
    check(program, MACHINE)
    assert case.agrees(case.run(program))


@pytest.mark.parametrize(("model", "tiling"), [
    ("matmul_even", MatmulTiling(baseM=16, baseN=32, baseK=16, singleCoreM=32, singleCoreN=32, l2MTileBlock=2, l2NTileBlock=1,
                                 usedCoreNum=4, stepKa=3)),
    ("matmul32", MatmulTiling(baseM=32, baseN=16, baseK=16, singleCoreK=16, singleCoreM=32)),  # parts of k are of a result in fp32
    ("matmul_even", MatmulTiling(baseM=16, baseN=16, baseK=16, kRotate=1, singleCoreM=16, unitFlag=1)),
    ("matmul_even", MatmulTiling(baseM=16, baseN=16, baseK=16, stepKa=3, stepM=2, stepKb=3, stepN=3, l2MTileCnt=2))])
def test_a_matmul_tiling_means_the_operator(model: str, tiling: MatmulTiling) -> None:
    case = cases(model)[-1]
    program = normalise(emit(primitives.apply(case.func, matmul_trace(case.func, MACHINE, tiling)), MACHINE))
    assert program.constraints == ()
    check(program, MACHINE)
    assert case.agrees(case.run(program))
    assert measure(program, MACHINE).ticks == simulate(program, MACHINE).ticks
