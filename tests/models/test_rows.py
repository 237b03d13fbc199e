"""A block of a transformer's rows as exporters write it, compiled and run by its programs, against onnxruntime."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from aoec.jobs.run.execute import run_model
from tests.frontend.models import model, node, normal, run

from .compiled import TOLERANCE, compiled, distance, operators_on_host

F = np.float32
NUMBERS = {"two": F(2), "e": F(1e-5), "one": F(1), "half": F(0.5), "root2": F(np.sqrt(2)), "g": normal(48) + 1, "b": normal(48, seed=1),
           "w": normal(48, 96) * F(0.1), "wb": normal(96), "v": normal(48, 48) * F(0.1)}


def block() -> onnx.ModelProto:
    """Layer norm and GELU spelt out, SwiGLU of a split, a residual sum under RMS norm's own operator, the logarithm of a softmax."""
    nodes = [
        node("ReduceMean", "x m0", "m", keepdims=1), node("Sub", "x m", "d"), node("Pow", "d two", "q"), node("ReduceMean", "q m0", "r"),
        node("Add", "r e", "r1"), node("Sqrt", "r1", "r2"), node("Div", "d r2", "n0"), node("Mul", "n0 g", "n1"), node("Add", "n1 b", "n"),
        node("MatMul", "n w", "h0"), node("Add", "h0 wb", "h"), node("Div", "h root2", "f0"), node("Erf", "f0", "f1"),
        node("Add", "f1 one", "f2"), node("Mul", "h f2", "f3"), node("Mul", "f3 half", "f"),
        node("Split", "f", "p s", axis=-1, num_outputs=2), node("Sigmoid", "p", "t0"), node("Mul", "p t0", "t1"), node("Mul", "t1 s", "t"),
        node("MatMul", "t v", "o"), node("Add", "o x", "z0"), node("RMSNormalization", "z0 g", "z", axis=-1),
        node("LogSoftmax", "z", "y", axis=-1)]
    return model(nodes, {"x": (2, 9, 48)}, ["y"], {**NUMBERS, "m0": np.array([-1])}, opset=23)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_block_of_rows_compiles_and_matches(precision: str, tmp_path: Path) -> None:
    proto = block()
    artifact = compiled(proto, precision, tmp_path)
    assert operators_on_host(artifact) == []
    assert {"layer_norm", "gelu", "swiglu", "rms_norm", "log_softmax"} <= {n.op for n in artifact.graph.nodes}
    x = normal(2, 9, 48, seed=5)
    (got,), (expected,) = run_model(artifact, {"x": x}).values(), run(proto, {"x": x})
    assert distance(got, expected) <= TOLERANCE[precision]
