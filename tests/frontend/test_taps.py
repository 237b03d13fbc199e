"""Windows whose weights change from row to row, taken apart into taps, mean what their definition says, interpreted whole."""
from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from aoec import ops
from aoec.frontend.own import own_taps
from aoec.frontend.translate.onnx import load
from aoec.lowering.arrange.fuse import fuse
from aoec.ops.own import read_definitions
from aoec.target import machine

from .models import normal

# definition -> the shapes of its arguments, and how many operators sum its taps
WINDOWS = {
    "w(X[m, c], W[m, j]) -> Y[m, n: c - j + 1] { Y[m, n] += X[m, n + j] * W[m, j] }": ([(5, 19), (5, 3)], 1),
    "w(X[m, c], W[m, j]) -> Y[m, c] { Y[m, c] += X[m, c + j - 2] else 0.5 * W[m, j] }": ([(5, 19), (5, 4)], 2),
    "w(X[c, a], W[c, k]) -> Y[c, t: 6] { Y[c, t] max= X[c, 3 * t + k] + W[c, k] }": ([(4, 18), (4, 3)], 1),
    "w(X[m, a, b], W[m, k, l]) -> Y[m, a, b] { Y[m, a, b] += X[m, a + k - 1, b + l - 1] else 0.5 * W[m, k, l] }": (
        [(3, 7, 9), (3, 3, 3)], 3),
    "w(X[t, c], W[c, k]) -> Y[t, c] { S[t, c] += X[t - k, c] else 0.0 * W[c, k]\n Y[t, c] = S[t, c] * sigmoid(S[t, c]) }": (
        [(9, 20), (20, 4)], 2),
    "w(X[t, c], W[k]) -> Y[t, c] { Y[t, c] min= abs(X[t, c + k] else 9.0) + W[k] * X[t, c] }": ([(9, 20), (3,)], 2),
}
WHOLE = {  # no slice gives what these read, or there are too many taps
    "w(X[m, c], W[m, j]) -> Y[m, c] { Y[m, c] += X[m, j - c] else 0.0 * W[m, j] }": [(5, 19), (5, 3)],
    "w(X[m, c], W[m, j]) -> Y[m, c] { Y[m, c] += X[m, c // 2 + j] else 0.0 * W[m, j] }": [(5, 19), (5, 3)],
    "w(X[m, c], W[m, j]) -> Y[m, c] { Y[m, c] += X[m, c + j] else 0.0 * W[m, j] }": [(2, 90), (2, 65)],
}


def made(definition: str, shapes: list[tuple[int, ...]]) -> tuple[list[str], dict[str, np.ndarray], dict[str, np.ndarray]]:
    """(the operators of the fused graph, its results, its feeds)."""
    names = ["X", "W"][:len(shapes)]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in zip(names, shapes)]
    node = helper.make_node("w", names, ["Y"], domain="my")
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("Y", TensorProto.FLOAT, None)])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("my", 1)])
    fused, weights = fuse(*load(proto, None, "fp32", read_definitions(definition))[:2], machine.load())
    feeds = {name: normal(*shape, seed=at) for at, (name, shape) in enumerate(zip(names, shapes))}
    return [n.op for n in fused.nodes], ops.evaluate(fused, feeds, weights), feeds


@pytest.mark.parametrize("definition", WINDOWS)
def test_taps_come_to_the_window(definition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes, operators = WINDOWS[definition]
    apart, got, _ = made(definition, shapes)
    assert len([op for op in apart if op.startswith("w.taps")]) == operators
    monkeypatch.setattr(own_taps, "MOST_TAPS", 0)
    whole, wanted, _ = made(definition, shapes)
    assert whole == ["w"]
    np.testing.assert_allclose(got["Y"], wanted["Y"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("definition", WHOLE)
def test_others_stay_one_operator(definition: str) -> None:
    operators, _, _ = made(definition, WHOLE[definition])
    assert len(operators) == 1 and "taps" not in operators[0]
