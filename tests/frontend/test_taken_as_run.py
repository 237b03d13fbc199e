"""Models that onnxruntime runs and ONNX's checker or reference does not take: norms of groups, sparse constants, absent arguments."""
from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from aoec import backend, ops
from aoec.base.errors import AoecError, UnsupportedError
from aoec.frontend.read import sparse
from aoec.frontend.translate.onnx import load
from aoec.ops.host.host_reference import OPERATORS

from .models import graph_of, model, node, normal, run


@pytest.mark.parametrize("opset", [18, 20])
@pytest.mark.parametrize("shape, groups", [((2, 4, 3), 2), ((1, 6, 5, 2), 3), ((3, 4, 2), 4), ((2, 3, 7), 1)])
def test_scales_of_groups(opset: int, shape: tuple[int, ...], groups: int) -> None:
    x, scale, bias = normal(*shape), normal(groups, seed=1), normal(groups, seed=2)
    proto = model([node("GroupNormalization", "x s b", "y", num_groups=groups, epsilon=1e-3)], {"x": shape}, ["y"], {"s": scale, "b": bias},
                  opset=opset)
    (got,) = backend.run_model(proto, [x])
    np.testing.assert_allclose(got, run(proto, {"x": x})[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape, groups", [((2, 4, 3), 2), ((1, 6, 5, 2), 3), ((3, 4, 2), 4), ((2, 3, 7), 1), ((2, 6), 2)])
def test_scales_of_channels(shape: tuple[int, ...], groups: int) -> None:
    """As onnxruntime does it, but with a mean of squared differences, which keeps its digits far from 0."""
    channels = shape[1]
    proto = model([node("GroupNormalization", "x s b", "y", num_groups=groups, epsilon=1e-3)], {"x": shape}, ["y"],
                  {"s": normal(channels, seed=1), "b": normal(channels, seed=2)}, opset=21)
    graph, _, _ = load(proto)
    assert "layer_norm" in [n.op for n in graph.nodes]
    x = normal(*shape)
    np.testing.assert_allclose(backend.run_model(proto, [x])[0], run(proto, {"x": x})[0], rtol=1e-5, atol=1e-5)
    (far,) = backend.run_model(proto, [x + np.float32(1000)])
    np.testing.assert_allclose(far, backend.run_model(proto, [x])[0], rtol=1e-3, atol=1e-3)


def test_scales_of_groups_in_a_branch() -> None:
    branch = graph_of([node("GroupNormalization", "x s b", "y", num_groups=2)], {}, ["y"])
    other = graph_of([node("Neg", "x", "z")], {}, ["z"])
    proto = model([node("If", "c", "w", then_branch=branch, else_branch=other)], {"x": (2, 4, 3), "c": ()}, ["w"],
                  {"s": normal(2, seed=1), "b": normal(2, seed=2)}, opset=18, types={"c": TensorProto.BOOL})
    feeds = {"x": normal(2, 4, 3), "c": np.array(True)}
    np.testing.assert_allclose(backend.run_model(proto, feeds)[0], run(proto, feeds)[0], rtol=1e-5, atol=1e-5)


def stored(array: np.ndarray, name: str, flat: bool) -> onnx.SparseTensorProto:
    places = np.flatnonzero(array) if flat else np.argwhere(array)
    return helper.make_sparse_tensor(numpy_helper.from_array(array[array != 0], name), numpy_helper.from_array(places.astype(np.int64)),
                                     list(array.shape))


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("place", ["initializer", "node", "branch"])
def test_sparse_constants_are_made_dense(flat: bool, place: str) -> None:
    w, x = np.zeros((3, 4), np.float32), normal(2, 3)
    w[0, 1], w[2, 3], w[1, 0] = 2, -3, 0.5
    value = stored(w, "w" if place == "initializer" else "", flat)
    constant = [] if place == "initializer" else [helper.make_node("Constant", [], ["w"], sparse_value=value)]
    nodes = [*constant, node("MatMul", "x w", "y")]
    types = {"c": TensorProto.BOOL}
    if place == "branch":
        other = graph_of([node("MatMul", "x w2", "z")], {}, ["z"])
        proto = model([node("If", "c", "y", then_branch=graph_of(nodes, {}, ["y"]), else_branch=other)], {"x": (2, 3), "c": ()}, ["y"],
                      {"w2": w}, types=types)
    else:
        proto = model(nodes, {"x": (2, 3)}, ["y"])
    if place == "initializer":
        proto.graph.sparse_initializer.append(value)
    (got,) = backend.run_model(proto, {"x": x, **({"c": np.array(True)} if place == "branch" else {})})
    np.testing.assert_allclose(got, x @ w, rtol=1e-6)


def test_sparse_constants_have_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    proto = model([node("Add", "x w", "y")], {"x": (4, 4)}, ["y"])
    proto.graph.sparse_initializer.append(stored(np.eye(4, dtype=np.float32), "w", True))
    load(proto)
    monkeypatch.setattr(sparse, "MOST_ELEMENTS", 15)
    with pytest.raises(UnsupportedError, match=r"sparse constant w has the shape \[4, 4\]; sparse constants of up to 15 elements"):
        load(proto)
    monkeypatch.undo()
    proto.graph.sparse_initializer[0].indices.CopyFrom(numpy_helper.from_array(np.array([0, 5, 10, 99])))
    with pytest.raises(AoecError, match="invalid"):
        load(proto)


@pytest.mark.parametrize("given", [(), (0,), (3,), (3, 0.5), (2, 0.4, 0.3), (None, 0.5, 0.1), (3, None, 0.2), (-1, 0.5)])
def test_boxes_with_absent_arguments(given: tuple[float | None, ...]) -> None:
    """No boxes a class where the maximum is absent, 0 or less: three columns and no row."""
    random = np.random.default_rng(3)
    corners, scores = random.random((2, 9, 2, 2)).astype(np.float32), random.random((2, 3, 9)).astype(np.float32)
    feeds = {"b": np.sort(corners, axis=2).reshape(2, 9, 4), "s": scores}
    names = [n if v is not None else "-" for n, v in zip("mio", given)]
    constants = {n: np.array([v], np.int64 if n == "m" else np.float32) for n, v in zip("mio", given) if v is not None}
    proto = model([node("NonMaxSuppression", " ".join(["b", "s", *names]), "y")], {"b": (2, 9, 4), "s": (2, 3, 9)}, ["y"], constants,
                  types={"y": TensorProto.INT64})
    got, wanted = backend.run_model(proto, feeds)[0], run(proto, feeds)[0]
    assert got.shape == wanted.shape and got.shape[1] == 3
    np.testing.assert_array_equal(got, wanted)


def test_the_cell_is_not_clipped() -> None:
    """As onnxruntime has it, on the AI Core and on the host: only what gates take is."""
    random = np.random.default_rng(1)
    constants = {n: random.standard_normal(s).astype(np.float32) * 2 for n, s in {"w": (1, 12, 2), "r": (1, 12, 3), "b": (1, 24)}.items()}
    proto = model([node("LSTM", "x w r b", "y", hidden_size=3, clip=0.4, activations=["HardSigmoid", "Affine", "Softsign"],
                        activation_alpha=[1.0, 2.0], activation_beta=[1.0, 0.5])], {"x": (5, 2, 2)}, ["y"], constants, opset=14)
    x = random.standard_normal((5, 2, 2)).astype(np.float32)
    wanted = run(proto, {"x": x})[0]
    graph, weights, _ = load(proto, precision="fp32")
    np.testing.assert_allclose(ops.evaluate(graph, {"x": x}, weights)["y"], wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ReferenceEvaluator(proto, new_ops=list(OPERATORS)).run(None, {"x": x})[0], wanted, rtol=1e-5, atol=1e-6)
