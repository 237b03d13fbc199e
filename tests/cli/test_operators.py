"""Operators by name: what the text says is what the graph holds; every misspelling has its place."""
from __future__ import annotations

import hashlib

import numpy as np
import pytest

from aoec.base.errors import ParseError
from aoec.jobs.stages.operators import graph_of, sized_operators
from aoec.ops import OPS, evaluate
from aoec.ops.check import check as check_graph


def test_matmul() -> None:
    graph, weights = graph_of("matmul(m=5, k=6, n=7, fp16)")
    shapes = {t.name: (t.dtype, t.shape) for t in graph.tensors}
    assert shapes == {"a": ("fp16", (5, 6)), "b": ("fp16", (6, 7)), "y": ("fp16", (5, 7))}
    assert [n.op for n in graph.nodes] == ["matmul"] and graph.inputs == ("a",) and graph.outputs == ("y",)
    assert hashlib.sha256(weights["b"].tobytes()).hexdigest() == next(t.data for t in graph.tensors if t.name == "b")


def test_products_of_int8_are_sums_of_int32() -> None:
    graph, weights = graph_of("matmul(m=5, k=6, n=7, int8, bias)")
    assert [t.dtype for t in graph.tensors] == ["int8", "int8", "int32", "int32"]
    assert [weights[w].dtype for w in ("b", "bias")] == [np.int8, np.int32]


def test_conv2d_with_everything() -> None:
    graph, weights = graph_of(" conv2d ( n=1,c=64,h=56,w=57,co=32,kh=3,kw=3,stride=2,pad=1,dilation=2,fp32,relu,bias ) ")
    shapes = {t.name: t.shape for t in graph.tensors}
    assert shapes["y"] == (1, 32, (56 + 2 - 5) // 2 + 1, (57 + 2 - 5) // 2 + 1) == shapes["z"]
    assert [n.op for n in graph.nodes] == ["conv2d", "relu"] and graph.outputs == ("z",)
    assert set(weights) == {"w", "bias"} and weights["w"].shape == (32, 64, 3, 3) and weights["w"].dtype == "float32"


@pytest.mark.parametrize("text", [
    "matmul(m=5, k=6, n=7, bias)", "conv2d(n=1, c=20, h=7, w=7, co=18, kh=3, kw=3, pad=1, bias, relu)", "softmax(m=4, n=7)",
    "relu(m=3, n=5)", "log_softmax(m=3, n=5)", "attention(b=2, m=3, n=5, d=4, mask)",
    "layer_norm(m=3, n=5, bias)", "rms_norm(m=3, n=5, fp32)", "gelu(m=3, n=5)", "swiglu(m=3, n=5)",
    "max_pool(n=1, c=20, h=7, w=7, kh=3, kw=3, stride=2, pad=1, fp32)", "global_avg_pool(n=1, c=20, h=7, w=7)", "add(m=3, n=5, relu)"])
def test_the_dictionary_knows_them_all(text: str) -> None:
    graph, weights = graph_of(text)
    shapes = {t.name: t.shape for t in graph.tensors}
    feeds = {i: np.ones(shapes[i]) for i in graph.inputs}
    assert evaluate(graph, feeds, weights)[graph.outputs[0]].shape == shapes[graph.outputs[0]]


@pytest.mark.parametrize("name", sized_operators())
def test_each_operator_with_a_rule_of_sizes_is_called_and_run(name: str) -> None:
    """Its reference takes what the rule makes, and gives the shape and dtype that the graph states."""
    rule = OPS[name].sizes
    assert rule
    small = {"kh": 3, "kw": 3, "h": 9, "w": 11}
    sizes = [*(f"{r}={small.get(r, 4)}" for r in rule.required), *(f"{n}=0.5" for n in rule.numbers)]
    for flags in ([], ["fp32"], *[[f] for f in rule.flags]):
        graph, weights = graph_of(f"{name}({', '.join([*sizes, *flags])})")
        check_graph(graph)
        tensors = {t.name: t for t in graph.tensors}
        feeds = {i: np.full(tensors[i].shape, 0.5) for i in graph.inputs}
        made = evaluate(graph, feeds, weights)[graph.outputs[0]]
        assert made.shape == tensors[graph.outputs[0]].shape and (made.dtype == bool) == (tensors[graph.outputs[0]].dtype == "bool")


def test_a_window_may_need_both_paddings() -> None:
    graph, _ = graph_of("conv2d(n=1, c=4, h=1, w=1, co=8, kh=3, kw=3, pad=1)")
    assert {t.name: t.shape for t in graph.tensors}["y"] == (1, 8, 1, 1)


def test_every_elementwise_operator_of_reals_has_one() -> None:
    names = set(sized_operators())
    assert {"sin", "less", "power", "shrink", "hard_sigmoid", "transpose", "reduce_max"} <= names and len(names) > 70


@pytest.mark.parametrize("text, column, message", [
    ("concat(m=4)", 1, "concat cannot be called by sizes"), ("leaky_relu(m=4, n=4)", 20, "leaky_relu needs alpha=... too"),
    ("matmul(m=1, k=2, n=3", 21, "expected ',' or ')'"),
    ("matmul(m=1, k=2)", 16, "matmul needs n=... too"),
    ("matmul(m=1, k=2, n=0)", 18, "n must lie between 1 and"),
    ("matmul(m=1, k=2, n=99999999999)", 18, "n must lie between 1 and"),
    ("matmul(m=1, k=2, q=3)", 18, "matmul has no size q"),
    ("matmul(m=1, k=2, n=3, fast)", 23, "unknown flag fast"),
    ("matmul(m=-1)", 8, "m must lie between 1 and 1,048,576"),
    ("polish(m=1)", 1, "unknown operator polish"),
    ("matmul(m=1,, k=2)", 12, "expected a name"),
    ("matmul(m=1, k=2, n=3) x", 23, "expected nothing more"),
    ("matmul(m=1, k=2, n=3, fp16, fp32)", 1, "fp16 and fp32 exclude each other"),
    ("matmul(m=1, k=2, n=3, int8, fp32)", 1, "fp32 and int8 exclude each other"),
    ("softmax(m=1, n=3, int8)", 19, "unknown flag int8"),
    ("conv2d(n=1, c=1, h=2, w=2, co=1, kh=5, kw=5)", 0, "the window 5x5 does not fit"),
    ("(", 1, "expected a name"),
])
def test_misspelt(text: str, column: int, message: str) -> None:
    with pytest.raises(ParseError) as e:
        graph_of(text)
    assert message in str(e.value) and e.value.column == column
