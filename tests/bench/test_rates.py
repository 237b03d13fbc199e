"""Rates of candidates: what is counted is legal, and every figure of a group is found."""
from __future__ import annotations

from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.tuning import problem
from aoec.simulate.encode.tables import first_false
from aoec.target.machine import load
from bench.rates import line, page, said, sample, summed_up

MACHINE = load("Ascend910B1")


def test_only_legal_candidates_are_drawn():
    p = problem(lower_operator("conv2d(n=1, c=16, h=6, w=6, co=16, kh=1, kw=1)"), MACHINE)
    for sketch, columns in sample(p, 64):
        count = len(next(iter(columns.values())))
        assert count and not first_false(p.sketches[sketch].encoded, columns, count).any()


def test_a_group_has_all_its_figures():
    row = line(("softmax", lower_operator("softmax(m=64, n=128, fp16)"), ()), MACHINE, 40, 0)
    assert 0 < row["legal"] <= row["space"] and row["candidates"] <= 40
    assert min(row["skipped_a_second"], row["limited_a_second"], row["ns_an_operation"], row["slowest_ms"]) > 0
    text = page([row], summed_up([row]), "Ascend910B1")
    assert said(row) and f"| softmax | {row['legal']:,} |" in text and "Most memory" in text
