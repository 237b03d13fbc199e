"""GridSample gives what onnxruntime gives, in every mode that the AI Core takes, and beyond the image's edges."""
from __future__ import annotations

import numpy as np
import onnx
import pytest

from aoec import backend, ops
from aoec.frontend.translate.onnx import load

from .models import model, node, normal, run

IMAGE, VOLUME = (2, 3, 5, 6), (1, 2, 3, 4, 5)


def sampled(shape: tuple[int, ...], mode: str, padding: str, aligned: int) -> onnx.ModelProto:
    points = (shape[0], 4, 3, len(shape) - 2) if len(shape) == 4 else (shape[0], 2, 3, 2, len(shape) - 2)
    made = node("GridSample", "x g", "y", mode=mode, padding_mode=padding, align_corners=aligned)
    return model([made], {"x": shape, "g": points}, ["y"], opset=20)


def feeds_of(proto: onnx.ModelProto) -> dict[str, np.ndarray]:
    shapes = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in proto.graph.input}
    return {"x": normal(*shapes["x"]), "g": normal(*shapes["g"], seed=1) * np.float32(1.5)}


@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("shape", [IMAGE, VOLUME])
def test_points_between_and_beyond_pixels(shape: tuple[int, ...], mode: str, padding: str, aligned: int) -> None:
    proto = sampled(shape, mode, padding, aligned)
    feeds = feeds_of(proto)
    graph, weights, notices = load(proto, precision="fp32")
    assert notices == []
    np.testing.assert_allclose(ops.evaluate(graph, feeds, weights)["y"], run(proto, feeds)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("shape", [IMAGE, (1, 2, 1, 7), (2, 1, 3, 2)])
def test_cubic_curves_through_pixels_between_and_beyond(shape: tuple[int, ...], padding: str, aligned: int) -> None:
    """Of a point just beyond the edge the curve still bends: each of its pixels is clipped alone."""
    proto = sampled(shape, "cubic", padding, aligned)
    feeds = feeds_of(proto)
    prepared = backend.prepare(proto)
    (got,) = prepared.run(feeds)
    assert not prepared.on_host
    if padding == "reflection" and aligned and 1 in shape[2:]:
        assert np.isfinite(got).all()  # onnxruntime divides by the span, which is 0
        return
    np.testing.assert_allclose(got, run(proto, feeds)[0], rtol=1e-4, atol=1e-5)


def test_programs_read_where_the_grid_says() -> None:
    proto = sampled(IMAGE, "linear", "zeros", 0)
    feeds = feeds_of(proto)
    prepared = backend.prepare(proto)
    (got,) = prepared.run(feeds)
    assert not prepared.on_host
    np.testing.assert_allclose(got, run(proto, feeds)[0], rtol=1e-4, atol=1e-5)


def test_what_lies_outside_is_zero_beside_infinities() -> None:
    proto = sampled((1, 1, 2, 2), "nearest", "zeros", 1)
    feeds = {"x": np.full((1, 1, 2, 2), np.inf, np.float32), "g": np.full((1, 4, 3, 2), -3, np.float32)}
    graph, weights, _ = load(proto, precision="fp32")
    assert not ops.evaluate(graph, feeds, weights)["y"].any()
