"""Vector work in place: what is read element by element where the result is written shares its place, and nothing else does."""
from __future__ import annotations

import numpy as np
import pytest

from aoec.ir.graph.graph import Graph, OpNode, Tensor
from aoec.ir.program import Program
from aoec.ir.text.show import show
from aoec.jobs.tune.tuning import problem, start
from aoec.lowering.arrange.fuse import fuse
from aoec.ops.run import evaluate
from aoec.target.machine import load
from tests.lowering.groups import Case, case, legal

CHIPS = "Ascend310P3", "Ascend910B3"


def masked(rows: int, width: int, dtype: str = "fp16") -> Graph:
    """Scores that are scaled and masked, and their softmax."""
    sizes = {"x": (rows, width), "z": (1, width), "s": (rows, width), "t": (rows, width), "y": (rows, width)}
    nodes = (OpNode("s", "muls", ("x",), ("s",), (("scalar", 0.125),)), OpNode("t", "add", ("s", "z"), ("t",)),
             OpNode("y", "softmax", ("t",), ("y",), (("axis", 1),)))
    return fuse(Graph("masked", ("x", "z"), ("y",), tuple(Tensor(n, dtype, s) for n, s in sizes.items()), nodes), {})[0]


def found(graph: Graph) -> Case:
    """Its one group with data."""
    random = np.random.default_rng(1)
    values = evaluate(graph, {t.name: random.standard_normal(t.shape) for t in graph.tensors if t.name in graph.inputs}, {}, every=True)
    return case("softmax", graph, "g0", values)


def default(graph: Graph, chip: str) -> Program:
    p = problem(found(graph).func, load(chip))
    return p.program(start(p).default)


@pytest.mark.parametrize("width", [80, 208, 256])
@pytest.mark.parametrize("chip", CHIPS)
def test_values_are_those_of_the_reference(chip: str, width: int) -> None:
    """Of rows that end within a repeat what is written behind them would be lost in place."""
    group = found(masked(37, width))
    p = problem(group.func, load(chip))
    for sketch in range(len(p.sketches)):
        for c in [start(p).default, *legal(p, sketch, 3)]:
            assert np.abs(group.run(p.program(c)) - group.wanted).max() <= 2.0 ** -10 * np.abs(group.wanted).max()


@pytest.mark.parametrize("dtype, word", [("fp16", "vmul"), ("bf16", "vmul"), ("fp32", "vdiv")])
def test_a_quotient_by_row_is_a_product_where_the_result_has_16_bits(dtype: str, word: str) -> None:
    text = show(default(masked(64, 256, dtype), "Ascend910B3"))
    assert f"{word}(" in text and "vrec(" not in text  # which is an estimate: the reciprocal of a row is a quotient
