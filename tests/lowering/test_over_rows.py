"""Windows that slide, on the vector unit: short rows are worked on a repeat a row, all rows of a tile an instruction."""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
import pytest

from aoec import primitives
from aoec.ir.func.tir import blocks
from aoec.ir.index import evaluate
from aoec.ir.program import For, Instr, Item, Program
from aoec.ir.rewrite import normalise
from aoec.ir.text.parse import parse_trace
from aoec.ir.text.show import show
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.made import emit_trace
from aoec.jobs.tune.tuning import problem, start
from aoec.lowering.emit.emit import emit
from aoec.simulate.values.values import execute
from aoec.target.machine import load
from tests.lowering.groups import cases

POOL = """sched pool {{
  split(loop=out_c1, factor=1, outer=t, inner=c)
  split(loop=out_ho, factor={}, outer=s, inner=h)
  reorder(loops=[t, s, out_kh, out_kw, c, h, out_wo, out_c0])
  compute_at(block=t0_, loop=s)
  set_scope(buffer=t0, scope=UB)
  cache_write(block=out, buffer=Y, scope=UB, at=s)
  tensorize(loop=out_kh, instr=vector)
  tensorize(loop=t0_pad0, instr=copy)
}}"""


def pooled(high: int, width: int, rows: int, stride: int) -> Program:
    func = lower_operator(f"max_pool(n=1, c=32, h={high}, w={width}, kh=3, kw=3, stride={stride}, pad=1, fp16)")
    return normalise(emit(primitives.apply(func, parse_trace(POOL.format(rows))), load("Ascend310P3")))


def issued(items: Iterable[Item], names: dict[str, int]) -> Counter[str]:
    """How often each instruction is issued by a core."""
    out: Counter[str] = Counter()
    for i in items:
        if isinstance(i, Instr):
            out[i.op] += 1
        elif isinstance(i, For):
            for turn in range(int(evaluate(i.trips, names))):
                out += issued(i.body, {**names, i.var: turn})
    return out


@pytest.mark.parametrize("width, rows, stride, instructions", [
    (15, 8, 2, 1),  # eight columns of all rows at once
    (31, 8, 2, 2),
    (37, 8, 2, 3),  # the third ends with the rows, and does five columns again
    (9, 8, 2, 5),  # a column of all rows at once
    (9, 4, 2, 4),  # no more rows than columns: a row an instruction
    (37, 3, 2, 3), (37, 2, 2, 2),
])
def test_short_rows_take_an_instruction_for_eight_columns(width: int, rows: int, stride: int, instructions: int) -> None:
    """And give the greatest of each window."""
    high = 2 * rows * stride - stride + 1
    program = pooled(high, width, rows, stride)
    x = np.random.default_rng(7).standard_normal((2, high, width, 16)).astype(np.float16)
    framed = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=-np.inf)
    wanted = np.lib.stride_tricks.sliding_window_view(framed, (3, 3), axis=(1, 2))[:, ::stride, ::stride].max(axis=(4, 5))
    assert np.array_equal(execute(program, {"X": x})["Y"].reshape(wanted.shape).view(np.float16), wanted)
    assert issued(program.streams[0].body, {})["vmax"] == 4 * 9 * instructions


@pytest.mark.parametrize("target", ["Ascend910B3", "Ascend310P3"])
def test_a_number_is_spread_once_for_all_rows(target: str) -> None:
    """And what it is multiplied with is worked on as one run, in which rows lie with what pads them."""
    (case,) = cases("softmax_number", target)
    p = problem(case.func, load(target))
    _, program = emit_trace(case.func, show(p.trace(start(p).best)), load(target))
    assert case.agrees(case.run(program))
    counts = issued(program.streams[0].body, dict.fromkeys([v for v, _ in program.streams[0].grid], 0))
    tiles = counts["copy_ub_gm"]
    assert counts["vmul"] <= 4 * tiles  # one by the number, and by one element a row a repeat of each row at a time


@pytest.mark.parametrize("target", ["Ascend910B3", "Ascend310P3"])
def test_windows_are_folded_along_rows_and_then_along_columns(target: str) -> None:
    """Ten instructions a row of results in place of 25; windows that overlap little stay as they are, and sums."""
    func = lower_operator("max_pool(n=1, c=256, h=20, w=20, kh=5, kw=5, pad=2, fp16)")
    folds = [[lp.extent.value for lp in above if lp.var.endswith(("kh", "kw"))] for b, above in blocks(func.body) if b.op == "max="]
    assert folds == [[5], [5]]
    found = start(problem(func, load(target)))
    assert found.default_ticks < 3 * found.bound_ticks  # 4.0 of one that was folded at once on 310P3
    apart = lower_operator("max_pool(n=1, c=64, h=112, w=112, kh=3, kw=3, stride=2, pad=1, fp16)")
    assert [b.op for b, _ in blocks(apart.body)].count("max=") == 1


@pytest.mark.parametrize("target", ["Ascend910B3", "Ascend310P3"])
def test_folded_windows_hold_the_greatest(target: str) -> None:
    """Of images with what pads them, in blocks of channels."""
    for case in cases("max_pool_wide", target):
        p = problem(case.func, load(target))
        _, program = emit_trace(case.func, show(p.trace(start(p).best)), load(target))
        assert case.agrees(case.run(program))
