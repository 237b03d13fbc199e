"""What finds places in rows that hold NaN: the places are inside, and those of NumPy; programs and references agree."""
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto

from aoec import backend, ops
from aoec.frontend.translate.onnx import load

from .models import model, node, normal

INT64 = TensorProto.INT64


def rows(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """Few different values, NaN and infinities among them; the first row is all NaN."""
    x = np.random.default_rng(seed).choice(np.array([np.nan, np.inf, -np.inf, -1, 0, 1, 2], np.float32), shape)
    x.reshape(-1, shape[-1])[0] = np.nan
    return x


@settings(max_examples=10)
@given(st.integers(0, 999), st.sampled_from(["ArgMax", "ArgMin"]), st.integers(0, 1), st.integers(0, 1), st.integers(1, 40))
def test_the_place_of_a_nan_is_found(seed: int, op: str, axis: int, last: int, extent: int) -> None:
    x = rows(seed, (3, extent))
    proto = model([node(op, "x", "y", axis=axis, select_last_index=last, keepdims=0)], {"x": x.shape}, ["y"], types={"y": INT64})
    f = getattr(np, op.lower())
    wanted = x.shape[axis] - 1 - f(np.flip(x, axis), axis) if last else f(x, axis)
    graph, weights, _ = load(proto, precision="fp32")
    np.testing.assert_array_equal(ops.evaluate(graph, {"x": x}, weights)["y"], wanted)


@settings(max_examples=12)
@given(st.integers(0, 999), st.sampled_from([(1, 5), (3, 40), (2, 300)]), st.integers(0, 1), st.data())
def test_the_greatest_and_smallest_are_in_order_and_values_lie_at_their_places(seed: int, shape: tuple[int, ...], largest: int,
                                                                              data: st.DataObject) -> None:
    """NaN is sorted above all numbers, but may stand among infinities."""
    k = data.draw(st.integers(1, min(shape[1], 70)))
    x = rows(seed, shape)
    proto = model([node("TopK", "x k", "y i", largest=largest)], {"x": shape}, ["y", "i"], {"k": np.array([k])}, types={"i": INT64})
    graph, weights, _ = load(proto, precision="fp32")
    got = ops.evaluate(graph, {"x": x}, weights)
    assert all(len({*row}) == k and 0 <= min(row) <= max(row) < shape[1] for row in got["i"].tolist())
    np.testing.assert_array_equal(np.take_along_axis(x, got["i"], 1), got["y"])
    keys = np.where(np.isnan(x), np.inf, x)
    order = np.argsort(-keys if largest else keys, 1, kind="stable")[:, :k]
    np.testing.assert_array_equal(np.take_along_axis(keys, got["i"], 1), np.take_along_axis(keys, order, 1))
    if largest and k <= 32:  # found in turn: NaN first
        np.testing.assert_array_equal(got["y"], -np.sort(-x, 1)[:, :k] if not np.isnan(x).any() else np.take_along_axis(x, np.argsort(
            np.where(np.isnan(x), 0, 1) * 4 - np.where(np.isnan(x), 0, np.clip(x, -3, 3)) / 3, 1, kind="stable"), 1)[:, :k])


@pytest.mark.parametrize("k", [1, 3])
def test_a_gather_behind_reads_the_row_of_the_nan(k: int) -> None:
    """By programs: the place is inside, and so is what is read there."""
    x = normal(4, 300)
    x[1, 7], x[2] = np.nan, np.nan
    table = np.arange(300, dtype=np.float32)[:, None] + np.zeros((1, 8), np.float32)
    nodes = [node("TopK", "x k", "v i"), node("ArgMax", "x", "j", axis=1), node("Gather", "t i", "y"), node("Gather", "t j", "z")]
    proto = model(nodes, {"x": x.shape}, ["v", "i", "j", "y", "z"], {"k": np.array([k]), "t": table},
                  types={"i": INT64, "j": INT64})
    v, i, j, y, z = backend.run_model(proto, [x])
    assert (i >= 0).all() and (i < 300).all() and j.ravel()[1:3].tolist() == [7, 0]
    assert (y[..., 0] == i).all() and (z[..., 0] == j).all()
    np.testing.assert_array_equal(np.take_along_axis(x, i, 1), v)


def test_a_row_with_nan_has_one_hit() -> None:
    x = rows(3, (6, 9))
    (got,) = backend.run_model(model([node("Hardmax", "x", "y")], {"x": x.shape}, ["y"]), [x])
    np.testing.assert_array_equal(got.argmax(1), x.argmax(1))
    assert (got.sum(1) == 1).all()


def test_places_of_pools_lie_in_the_tensor() -> None:
    """The last NaN of a window, as PyTorch; where all is -inf the first element, not the padding before it."""
    x = np.full((1, 1, 4, 4), -np.inf, np.float32)
    x[0, 0, 2, 2] = x[0, 0, 2, 3] = np.nan
    proto = model([node("MaxPool", "x", "y i", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])], {"x": x.shape}, ["y", "i"],
                  types={"i": INT64})
    y, i = backend.run_model(proto, [x])
    assert i.ravel().tolist() == [0, 1, 4, 11] and np.isnan(y.ravel()[3]) and (y.ravel()[:3] == -np.inf).all()
    doubles = model([node("Cast", "x", "d", to=TensorProto.DOUBLE), node("MaxPool", "d", "e i", kernel_shape=[3, 3], pads=[1, 1, 1, 1],
                                                                        strides=[2, 2])], {"x": x.shape}, ["i"], types={"i": INT64})
    assert backend.run_model(doubles, [x])[0].ravel().tolist() == [0, 1, 4, 11]  # the host's
