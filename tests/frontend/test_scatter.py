"""Operators that write where data say give what onnxruntime gives, whatever the dtype, in graphs without nodes of the host."""
from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

from aoec import backend, ops
from aoec.frontend.translate.onnx import load

from .models import model, node, normal, run

X = (3, 5, 4)
RANDOM = np.random.default_rng(3)
ALONG = np.stack([RANDOM.permutation(5)[:3] for _ in range(12)]).reshape(3, 4, 3).transpose(0, 2, 1) - np.array([0, 5, 0, 5])
ROWS = np.array([[0, 1], [-1, 3], [2, -5]])


def elements(index: np.ndarray, **attributes: object) -> onnx.ModelProto:
    return model([node("ScatterElements", "x i u", "y", **attributes)], {"x": X}, ["y"], {"i": index, "u": normal(*index.shape)}, 18)


def rows(index: np.ndarray, reduction: str = "none") -> onnx.ModelProto:
    updates = normal(*index.shape[:-1], *X[index.shape[-1]:])
    return model([node("ScatterND", "x i u", "y", reduction=reduction)], {"x": X}, ["y"], {"i": index, "u": updates}, 18)


def tensors(index: np.ndarray | None, many: int, opset: int = 24, **attributes: object) -> onnx.ModelProto:
    proto = model([node("TensorScatter", "x u" + " w" * (index is not None), "y", **attributes)], {"x": (2, 3, 5, 4)}, ["y"],
                  {"u": normal(2, 3, many, 4)} | ({"w": index} if index is not None else {}), opset)
    proto.ir_version = 12
    return proto


CASES = {
    "elements": elements(ALONG, axis=1), "elements that stop short": elements(ALONG[:2, :, 1:3], axis=1),
    "the first axis": elements(ALONG.transpose(1, 0, 2)[:, :, :1] % 3, axis=0, reduction="add"),
    "elements twice": elements(np.array([[[1], [1], [0]]]), axis=1, reduction="max"),
    **{f"elements by {r}": elements(np.array(ALONG % 2), axis=1, reduction=r) for r in ("add", "mul", "min")},
    "rows": rows(ROWS), "rows of planes": rows(np.array([[2], [0]])), "single elements": rows(np.array([[[0, 1, 2]], [[2, 4, -1]]])),
    **{f"rows by {r}": rows(np.array([[1, 1], [0, 2], [1, 1]]), r) for r in ("add", "mul", "max")},
}
TENSORS = {"from the start": tensors(None, 2), "from a place each": tensors(np.array([3, 0]), 2),
           "in a circle": tensors(np.array([4, 1]), 3, mode="circular", axis=2)}


@pytest.mark.parametrize("name", [*CASES, *TENSORS])
def test_what_is_written_where_data_say(name: str) -> None:
    proto = (CASES | TENSORS)[name]
    feeds = {"x": normal(*[d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim], seed=7)}
    graph, weights, notices = load(proto, precision="fp32")
    assert notices == []
    (wanted,) = run(proto, feeds) if name in CASES else ReferenceEvaluator(proto).run(None, feeds)
    np.testing.assert_allclose(ops.evaluate(graph, feeds, weights)["y"], wanted, rtol=1e-6, atol=1e-6)


def test_programs_and_places_that_are_data() -> None:
    """Whole numbers; of an index twice the last update stands."""
    nodes = [node("ScatterND", "x i u", "y")]
    proto = model(nodes, {"x": (6, 3), "i": (4, 1)}, ["y"], {"u": np.arange(12).reshape(4, 3)}, 18,
                  dict.fromkeys("xiy", TensorProto.INT64))
    prepared = backend.prepare(proto)
    x, i = -np.arange(18).reshape(6, 3), np.array([[4], [-6], [4], [2]])
    (got,) = prepared.run([x, i])
    x[[4, 0, 4, 2]] = np.arange(12).reshape(4, 3)
    assert not prepared.on_host and np.array_equal(got, x)
