"""Rows shorter than half a repeat, and rows of whole repeats, are worked on many at a time, with what pads them: values are those of the
operators, on every family."""
from __future__ import annotations

from functools import cache
from math import prod

import numpy as np
import pytest

from aoec import primitives
from aoec.frontend.translate.onnx import load as load_model
from aoec.ir.graph.graph import Graph
from aoec.ir.index import evaluate as number
from aoec.ir.program import Program
from aoec.ir.rewrite import normalise
from aoec.jobs.tune.tuning import problem, start
from aoec.lowering.arrange.fuse import fuse
from aoec.lowering.emit.emit import emit
from aoec.ops.run import evaluate
from aoec.target.legality.check import check
from aoec.target.machine import load
from tests.frontend.written import written
from tests.laws.turns import in_turn
from tests.lowering.groups import Case, case, legal
from tests.lowering.test_over_rows import issued

LAST, KEPT = "a = Constant <value = int64[1] {-1}> ()", "keepdims=0"
# result and nodes; sizes with tails in every axis, of one block and of a few, in types that pad rows to other lengths
MODELS = {
    "softmax_block": ("fp16", "float[905,12] x", "float[905,12] y", "y = Softmax<axis=1>(x)"),
    "softmax_tiny": ("fp16", "float[70,3] x", "float[70,3] y", "y = Softmax<axis=1>(x)"),
    "softmax_eight": ("fp16", "float[70,8] x", "float[70,8] y", "y = Softmax<axis=1>(x)"),  # whole blocks of fp32, halves of fp16
    "softmax_two": ("fp32", "float[41,13] x", "float[41,13] y", "y = Softmax<axis=1>(x)"),
    "softmax_half": ("fp16", "float[90,48] x", "float[90,48] y", "y = Softmax<axis=1>(x)"),
    "layer_norm_block": ("fp16", "float[77,12] x, float[12] w, float[12] b", "float[77,12] y", "y = LayerNormalization(x, w, b)"),
    "column": ("fp16", "float[3,50,1] x, float[3,1,16] z", "float[3,50,16] y", "y = Mul(x, z)"),
    "column_padded": ("fp32", "float[3,50,1] x, float[3,1,5] z", "float[3,50,5] y", "y = Sub(x, z)"),
    "sums": ("fp16", "float[135,12] x, float[135,12] z", "float[135] y", f"{LAST} t = Mul(x, z) y = ReduceSum<{KEPT}>(t, a)"),
    "sums_each": ("fp16", "float[5,43,16] x, float[5,1,16] z", "float[5,43] y", f"{LAST} t = Mul(x, z) y = ReduceSum<{KEPT}>(t, a)"),
    "sums_tiny": ("fp32", "float[6,27,3] x, float[6,1,3] z", "float[6,27] y", f"{LAST} t = Mul(x, z) y = ReduceSum<{KEPT}>(t, a)"),
    # rows of whole repeats: neighbours folded at once, blocks reduced, numbers of rows laid out for each part
    "layer_norm_long": ("fp16", "float[37,768] x, float[768] w, float[768] b", "float[37,768] y", "y = LayerNormalization(x, w, b)"),
    "softmax_long": ("fp32", "float[29,640] x", "float[29,640] y", "y = Softmax<axis=1>(x)"),
    "softmax_repeat": ("fp16", "float[51,64] x", "float[51,64] y", "y = Softmax<axis=1>(x)"),
    "column_long": ("fp32", "float[21,1] x, float[21,1280] z", "float[21,1280] y", "y = Sub(z, x)"),
    "greatest_long": ("fp32", "float[19,1536] x", "float[19] y", f"y = ReduceMax<{KEPT}, axes=[1]>(x)"),
    "least_many": ("fp16", "float[2500,7] x", "float[2500] y", f"y = ReduceMin<{KEPT}, axes=[1]>(x)"),
}
FAMILIES = ("Ascend910B3", "Ascend310P3", "Ascend310B1", "Ascend910A")


@cache
def graph_of(name: str) -> tuple[Graph, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The graph of a model, its constants, and what goes in: whole numbers, so that sums are exact in any order."""
    precision, inputs, result, nodes = MODELS[name]
    random = np.random.default_rng(5)
    model = written(f'<ir_version: 8, opset_import: ["": 17]>\n{name} ({inputs}) => ({result}) {{ {nodes} }}',
                    lambda name, shape: random.integers(-2, 3, shape).astype(np.float32) if name[0] in "wb" else None)
    graph, weights, _ = load_model(model, {}, precision)
    sizes = {t.name: t.shape for t in graph.tensors}
    return graph, weights, {i: random.integers(-2, 3, sizes[i]).astype(np.float32) for i in graph.inputs}


def group_of(name: str, target: str) -> Case:
    """The one group of a model that works, with the values that NumPy gives."""
    graph, weights, feeds = graph_of(name)
    fused, packed = fuse(graph, weights, load(target))
    values = evaluate(fused, feeds, packed, every=True)
    (group,) = (g.name for g in fused.groups if g.kind == "vector")
    return case(name, fused, group, values)


# `make test` asks each model of one family, in turn; make test-all asks the values of two and the instructions of all
@pytest.mark.parametrize("name, target", [pytest.param(name, FAMILIES[(at + more) % 4], marks=[pytest.mark.slow] * more)
                                          for at, name in enumerate(MODELS) for more in (0, 1)])
def test_values_are_those_of_the_operators(name: str, target: str) -> None:
    """Of the default and of a candidate of each sketch, whether holes are filled first or last."""
    machine, own = load(target), group_of(name, target)
    p = problem(own.func, machine)
    drawn = [c for sketch in range(len(p.sketches)) for c in legal(p, sketch, 1, 2)]
    for candidate in dict.fromkeys([start(p).best, *drawn]):
        program = p.program(candidate)
        check(program, machine)
        assert own.agrees(own.run(program)), p.values(candidate)
        assert program == normalise(emit(primitives.apply(p.func, p.trace(candidate)), machine))


def total(program: Program) -> int:
    """Vector instructions of all cores, each taken for as busy as the first."""
    (stream,) = program.streams
    first = sum(n for op, n in issued(stream.body, {v: 0 for v, _ in stream.grid}).items() if op.startswith("v"))
    return first * prod(int(number(cores, {})) for _, cores in stream.grid)


@pytest.mark.parametrize("name, target", in_turn(["softmax_block", "column", "sums_each", "least_many"], FAMILIES))
def test_instructions_are_fewer_than_rows(name: str, target: str) -> None:
    """Of the programs of some candidates the best has fewer than one a row, where one by one they took up to ten."""
    own = group_of(name, target)
    p = problem(own.func, load(target))
    rows = own.stored["x"].size // (own.stored["x"].shape[-1] if name != "column" else 1)
    few = min(total(p.program(c)) for sketch in range(len(p.sketches)) for c in legal(p, sketch, 8, 3))
    assert few < rows
