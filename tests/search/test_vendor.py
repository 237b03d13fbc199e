"""The vendor's tilings are traces: any that fits the chip can be said, scheduled, emitted and proved, and the published ladder too."""
from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from aoec import primitives
from aoec.ir.rewrite import holes, normalise
from aoec.ir.tir import Func
from aoec.jobs.stages import lower_operator
from aoec.lowering.emit import emit
from aoec.search.vendor import ORDER_M, ORDER_N, MatmulTiling, matmul_choice, matmul_trace
from aoec.simulate.time import measure
from aoec.target.check import check
from aoec.target.machine import load

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
