"""TopK of many, in rounds of lists: values and places are onnxruntime's, the first of equals first, in every dtype and precision."""
from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto

from aoec import backend, ops
from aoec.frontend.rules import top
from aoec.frontend.translate.onnx import load

from .models import model, node, run

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def net(shape: tuple[int, ...], k: int, dtype: int = FLOAT, **given: int) -> onnx.ModelProto:
    return model([node("TopK", "x k", "y i", **given)], {"x": shape}, ["y", "i"], {"k": np.array([k])},
                 types={"x": dtype, "y": dtype, "i": INT64})


@settings(max_examples=12)
@given(st.data())
def test_many_are_found_in_rounds(data: st.DataObject) -> None:
    """Few different values, so that there are many equal ones, and infinities."""
    shape = data.draw(st.sampled_from([(300,), (2, 5, 90), (3, 270, 2), (1, 129), (128, 3)]))
    axis = data.draw(st.sampled_from([at for at, extent in enumerate(shape) if extent > 33]))
    k, largest = data.draw(st.integers(33, shape[axis]) | st.just(shape[axis])), data.draw(st.integers(0, 1))
    dtype = data.draw(st.sampled_from([FLOAT, INT64, TensorProto.INT8]))
    x = np.random.default_rng(data.draw(st.integers(0, 99))).integers(-20, 20, shape)
    x = x.astype(onnx.helper.tensor_dtype_to_np_dtype(dtype))
    if dtype == FLOAT:
        x[np.abs(x) == 20] *= np.inf
    proto = net(shape, k, dtype, axis=axis, largest=largest)
    graph, weights, notices = load(proto, precision="fp32")
    assert notices == []
    got = ops.evaluate(graph, {"x": x}, weights)
    for name, expected in zip(graph.outputs, run(proto, {"x": x}) if dtype != TensorProto.INT8 else _stable(x, k, axis, bool(largest))):
        np.testing.assert_array_equal(got[name], expected)


def _stable(x: np.ndarray, k: int, axis: int, largest: bool) -> list[np.ndarray]:
    """By NumPy, for dtypes that onnxruntime lacks."""
    order = np.argsort(-x.astype(np.int64) if largest else x.astype(np.int64), axis, kind="stable").take(range(k), axis)
    return [np.take_along_axis(x, order, axis), order]


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_places_are_whole_numbers_in_any_precision(precision: str) -> None:
    """Of 40,000 elements, whose places no real of 16 bits holds; values are those of the precision."""
    x = np.random.default_rng(1).permutation(40000).astype(np.float32)[None]
    x = np.where(x < 100, -x, np.float32(-1000))  # a hundred different ones that bf16 holds
    graph, weights, _ = load(net((1, 40000), 99), precision=precision)
    got = ops.evaluate(graph, {"x": x}, weights)
    np.testing.assert_array_equal(got["i"], run(net((1, 40000), 99), {"x": x})[1])


def test_its_programs_give_the_same() -> None:
    x = np.random.default_rng(2).integers(0, 60, (2, 300)).astype(np.float32)
    prepared = backend.prepare(net((2, 300), 40))
    for got, expected in zip(prepared.run({"x": x}), run(net((2, 300), 40), {"x": x})):
        np.testing.assert_array_equal(got, expected)
    assert not prepared.on_host


def test_too_many_pairs_are_the_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(top, "MOST_PAIRS", 300 * 128)
    graph, _, _ = load(net((1, 300), 40))
    assert [n.op for n in graph.nodes] == ["host.TopK"]
