"""Numbers that keep quotients and logarithms finite do so in 16 bits too: what onnxruntime gives in fp32, at the points guarded against."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest

from aoec.base.precision import PRECISIONS
from aoec.frontend.translate.onnx import load
from aoec.ops import evaluate
from aoec.ops.narrowed import kept_words, nodes_kept, table
from aoec.ops.run import NUMPY
from tests.frontend.models import model, node, run

ROWS = np.array([[0.0] * 6, [1.0] * 6, [0.5] * 6, [0, 1, 0.25, 0.75, 1e-3, 1 - 2.0**-10], [-1, 1, 0, 0.5, -0.5, 0.125]], np.float32)
SHARES = np.abs(ROWS)  # what lies between 0 and 1
F = np.float32
INVERSE = [node("Max", "x e", "a"), node("Sub", "one x", "s"), node("Max", "s e", "b"), node("Div", "a b", "q"), node("Log", "q", "y")]
ENTROPY = [node("Clip", "x lo hi", "p"), node("Sub", "one p", "q"), node("Log", "p", "a"), node("Log", "q", "b"), node("Sub", "a b", "y")]
SPREAD = [node("Mul", "x x", "s"), node("ReduceMean", "s", "m", axes=[0]), node("Add", "m e", "c"), node("Sqrt", "c", "r"),
          node("Div", "x r", "y")]
# name -> (nodes, constants, what is fed)
GUARDED: dict[str, tuple[Sequence[onnx.NodeProto], dict[str, np.ndarray], np.ndarray]] = {
    "a sum under a logarithm": ([node("Add", "x e", "a"), node("Log", "a", "y")], {"e": F(1e-10)}, SHARES),
    "an inverse sigmoid": (INVERSE, {"e": F(1e-5), "one": F(1)}, SHARES),
    "a finer inverse sigmoid": (INVERSE, {"e": F(1e-8), "one": F(1)}, SHARES),
    "a length": ([node("ReduceL2", "x", "n", axes=[1]), node("Clip", "n e", "c"), node("Div", "x c", "y")], {"e": F(1e-12)}, ROWS),
    "LpNormalization": ([node("LpNormalization", "x", "y")], {}, ROWS),
    "a length's reciprocal": ([node("ReduceL1", "x", "n", axes=[1]), node("Add", "n e", "c"), node("Reciprocal", "c", "r"),
                               node("Mul", "x r", "y")], {"e": F(1e-9)}, ROWS),
    "the root of a mean": (SPREAD, {"e": F(1e-12)}, ROWS * F([[0, 1, 1, 1, 1, 1]])),
    "cross entropy": (ENTROPY, {"lo": F(1e-6), "hi": F(1 - 1e-6), "one": F(1)}, SHARES),
    "what 1 is left by": ([node("Sub", "one x", "q"), node("Add", "q e", "a"), node("Log", "a", "y")], {"one": F(1), "e": F(1e-8)}, SHARES),
    "a power": ([node("Add", "x e", "a"), node("Pow", "a p", "y")], {"e": F(1e-9), "p": F(-0.5)}, SHARES),
    "an entropy": ([node("Add", "x e", "a"), node("Log", "a", "l"), node("Mul", "x l", "y")], {"e": F(1e-12)}, SHARES),
    "a choice": ([node("Equal", "x zero", "is"), node("Where", "is e x", "a"), node("Div", "x a", "y")],
                 {"zero": F(0), "e": F(1e-12)}, ROWS),
    "an area tangent": ([node("Clip", "x lo hi", "c"), node("Atanh", "c", "y")], {"lo": F(-1 + 1e-6), "hi": F(1 - 1e-6)}, ROWS),
    "moved and scaled": ([node("Max", "x e", "a"), node("Transpose", "a", "t", perm=[1, 0]), node("Mul", "t two", "s"),
                          node("Log", "s", "y")], {"e": F(1e-9), "two": F(2)}, SHARES),
    "a factor": ([node("Mul", "x big", "a"), node("Relu", "a", "b"), node("Mul", "b small", "y")],
                 {"big": F([3e4] * 6), "small": F(1.3e-7)}, ROWS),
}


@pytest.mark.parametrize("precision", ["fp16", "mixed", "bf16"])
@pytest.mark.parametrize("name", GUARDED)
def test_guards_hold_in_16_bits(name: str, precision: str) -> None:
    nodes, constants, x = GUARDED[name]
    proto = model(nodes, {"x": x.shape}, ["y"], constants)
    graph, weights, notices = load(proto, precision=precision)
    x = x.astype(NUMPY["bf16" if precision == "bf16" else "fp16"]).astype(np.float32)  # points that 16 bits hold
    (wanted,), got = run(proto, {"x": x}), evaluate(graph, {"x": x}, weights)["y"].astype(np.float32)
    assert np.isfinite(wanted).all() and np.isfinite(got).all()
    most = 3e-2 if precision == "bf16" else 4e-3
    assert np.all(np.abs(got - wanted) <= most * np.maximum(np.abs(wanted), np.abs(wanted).max() * 0.1))
    if precision != "bf16":
        assert any("stay" in line and precision.replace("mixed", "fp16") in line for line in notices)


FREE = {
    "a sum of what is no guard": [node("Add", "x one", "a"), node("Log", "a", "y")],
    "a guard that fp16 holds": [node("Max", "x e", "a"), node("Log", "a", "y")],
    "no pole": [node("Add", "x tiny", "a"), node("Sigmoid", "a", "y")],
    "a dividend": [node("Add", "x tiny", "a"), node("Div", "a one", "y")],
    "an exact factor": [node("Mul", "x power", "y")],
}


@pytest.mark.parametrize("name", FREE)
def test_what_guards_nothing_is_not_kept(name: str) -> None:
    constants = {"one": F(1.5), "e": F(1e-3), "tiny": F(1e-9), "power": F(2.0**-20)}
    used = {i for n in FREE[name] for i in n.input}
    proto = model(FREE[name], {"x": (5, 6)}, ["y"], {k: v for k, v in constants.items() if k in used})
    graph, _, notices = load(proto, precision="fp16")
    assert notices == [] and {t.dtype for t in graph.tensors} == {"fp16"} and nodes_kept(graph, "fp16") == []


@pytest.mark.parametrize("precision", PRECISIONS)
def test_what_was_kept_is_said(precision: str) -> None:
    nodes, constants, x = GUARDED["a sum under a logarithm"]
    graph, _, notices = load(model(nodes, {"x": x.shape}, ["y"], constants), precision=precision)
    short = precision in ("fp16", "mixed")
    assert len(notices) == short and len(kept_words(graph, precision)) == short
    assert [n.op for n, _ in nodes_kept(graph, precision)] == ["adds"] * short
    rows = table({"": graph}, precision).splitlines()[1:]
    assert any(row.endswith(",adds,fp32,fp32") for row in rows) == short


def test_two_numbers_are_not_joined_where_one_is_lost() -> None:
    """In fp32 too: 1 - x + 1e-8 is 1e-8 where x is 1, not 0; but an ordinary chain is one addition."""
    nodes, constants, _ = GUARDED["what 1 is left by"]
    proto = model(nodes, {"x": (3,)}, ["y"], constants)
    graph, weights, _ = load(proto, precision="fp32")
    x = np.array([0, 0.5, 1], np.float32)
    np.testing.assert_allclose(evaluate(graph, {"x": x}, weights)["y"], run(proto, {"x": x})[0], rtol=1e-5)
    graph, _, _ = load(model(nodes[:2], {"x": (3,)}, ["a"], constants | {"e": F(0.25)}), precision="fp32")
    assert sorted(n.op for n in graph.nodes) == ["adds", "muls"]
