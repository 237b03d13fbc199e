"""The search chooses what the machine rewards: parts of k where blocks leave cores idle; more structures where L2 is exceeded."""
from __future__ import annotations

from dataclasses import replace

from aoec.ir.func.tir import Func
from aoec.jobs.stages.operators import graph_of
from aoec.jobs.stages.stages import lower_operator, operator_group
from aoec.jobs.tune.solve import total_ticks
from aoec.jobs.tune.tuning import problem, start
from aoec.lowering.arrange.fuse import fuse
from aoec.lowering.lower.lower import lower
from aoec.search.sketches.nests import find_product
from aoec.search.sketches.sketches_matmul import FORMS, LARGE, PARTS_OF_K, TURNS, forms
from aoec.simulate.timing.time import measure
from aoec.target.machine import load
from tests.lowering.groups import legal

MACHINE = load("Ascend910B3")


def summed(text: str) -> Func:
    """The func of a product whose result is what it sums in, fp32."""
    graph, _ = fuse(*graph_of(text))
    tensors = tuple(replace(t, dtype="fp32") if t.name in graph.outputs else t for t in graph.tensors)
    return lower(replace(graph, tensors=tensors), operator_group(graph))


def laid_out(func: Func) -> list[object]:
    mm = find_product(func)
    assert mm is not None
    return list(forms(func, mm, MACHINE))


def test_a_long_sum_of_few_blocks_is_shared_over_cores() -> None:
    p = problem(summed("matmul(m=64, k=4096, n=128)"), MACHINE)
    first = start(p)
    assert "sc" in p.values(first.default) and p.values(first.default)["sc"] < 4096
    assert total_ticks(measure(p.program(first.default), MACHINE, p.state), MACHINE) == first.ticks  # as a bank compares them
    split = p.sketches.index(p.sketches[first.default[0]])
    others = [c for s in range(len(p.sketches)) if s != split for c in legal(p, s, 30)]
    assert first.ticks < min(t for t in p.cost(others) if t is not None)
    assert p.bound().ticks <= min(t for t in p.cost(legal(p, split, 60)) if t is not None)


def test_structures_are_laid_out_only_where_they_can_pay() -> None:
    assert laid_out(lower_operator("matmul(m=512, k=1024, n=1024)")) == list(FORMS)
    assert laid_out(lower_operator("matmul(m=1024, k=1024, n=1024)")) == [*FORMS, *TURNS]  # 32 blocks on 20 cores
    assert laid_out(lower_operator("matmul(m=1000, k=1024, n=2048)")) == list(FORMS)  # no equal blocks
    assert laid_out(summed("matmul(m=64, k=4096, n=128)")) == [*FORMS, PARTS_OF_K]
    assert laid_out(summed("matmul(m=64, k=4096, n=128, relu)")) == list(FORMS)  # relu is of the whole sum
    assert laid_out(lower_operator("matmul(m=64, k=4096, n=128)")) == list(FORMS)  # and so is the rounding to fp16
    assert laid_out(lower_operator("matmul(m=16384, k=4096, n=8192)")) == [*FORMS, *LARGE, *TURNS]
