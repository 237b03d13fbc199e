"""Resize by every rule, of fractional scales and sizes: the values are onnxruntime's, on the AI Core and on the host."""
from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from aoec import ops
from aoec.frontend.translate.onnx import load
from aoec.ops.host import resizing
from aoec.ops.host.resizing import Axis

from .models import model, node, normal, run

F = np.float32
RULES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric", "tf_crop_and_resize")
X = normal(1, 2, 5, 7)


def net(rule: str, mode: str, scales: tuple[float, float] | None = None, sizes: tuple[int, int] | None = None, host: bool = False,
        **given: object) -> onnx.ModelProto:
    roi = np.array([0, 0, 0.1, 0.2, 1, 1, 0.9, 1.1], F) if rule == "tf_crop_and_resize" else np.zeros(0, F)
    constants = {"r": roi, "s": np.array([1, 1, *scales], F) if scales else np.zeros(0, F)}
    constants |= {"n": np.array([1, 2, *sizes])} if sizes else {}
    resize = node("Resize", f"{'d' if host else 'x'} r s" + (" n" if sizes else ""), "e" if host else "y", mode=mode,
                  coordinate_transformation_mode=rule, **given)
    nodes = [node("Cast", "x", "d", to=TensorProto.DOUBLE), resize, node("Cast", "e", "y", to=TensorProto.FLOAT)] if host else [resize]
    return model(nodes, {"x": X.shape}, ["y"], constants, opset=19)


def values(proto: onnx.ModelProto) -> np.ndarray:
    graph, weights, _ = load(proto, precision="fp32")
    return np.asarray(ops.evaluate(graph, {"x": X}, weights)["y"])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_values_are_those_of_onnxruntime(rule: str, mode: str) -> None:
    share = 0.62 if rule == "half_pixel_symmetric" else 0.6  # of which a coordinate lies half way: the table has it
    for given in ({"scales": (2.5, share)}, {"scales": (0.4, 1.7)}, {"sizes": (7, 3)}, {"sizes": (1, 12)}, {"scales": (1.3, 2.1)}):
        proto = net(rule, mode, **given)  # type: ignore[arg-type]
        wanted = run(proto, {"x": X})[0]
        np.testing.assert_allclose(values(proto), wanted, rtol=1e-4, atol=1e-5, err_msg=f"{given}")
        np.testing.assert_allclose(values(net(rule, mode, host=True, **given)), wanted, rtol=1e-4, atol=1e-5)  # type: ignore[arg-type]


@pytest.mark.parametrize("rounding", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
def test_nearest_ones_by_every_rounding(rounding: str) -> None:
    for rule in RULES[:4]:
        for scales in ((2.0, 3.0), (1.3, 0.55), (0.8, 2.1)):
            proto = net(rule, "nearest", scales, nearest_mode=rounding)
            np.testing.assert_array_equal(values(proto), run(proto, {"x": X})[0], err_msg=f"{rule} {scales}")


@pytest.mark.parametrize("op, opset", [("Upsample", 9), ("Resize", 10)])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_older_operators(op: str, opset: int, mode: str) -> None:
    """The next element where there are fewer, else the last: ONNX's text says nothing."""
    for scales in ((2.0, 1.5), (1.0, 2.3), *([(0.6, 0.4), (0.7, 1.4)] if op == "Resize" else [])):
        proto = model([node(op, "x s", "y", mode=mode)], {"x": X.shape}, ["y"], {"s": np.array([1, 1, *scales], F)}, opset=opset)
        np.testing.assert_allclose(values(proto), run(proto, {"x": X})[0], rtol=1e-5, atol=1e-6, err_msg=f"{scales}")


def test_copies_stand_side_by_side_only_where_the_scale_is_the_ratio() -> None:
    """3 elements at the scale 2.1 are 6, of which the third is the second again, not the first of another pair."""
    x = np.arange(9, dtype=F).reshape(1, 1, 3, 3)
    proto = model([node("Resize", "x r s", "y", mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")],
                  {"x": x.shape}, ["y"], {"r": np.zeros(0, F), "s": np.array([1, 1, 2.1, 2.0], F)})
    graph, weights, _ = load(proto, precision="fp32")
    got = ops.evaluate(graph, {"x": x}, weights)["y"]
    np.testing.assert_array_equal(got, run(proto, {"x": x})[0])
    assert got[0, 0, :, 0].tolist() == [0, 0, 0, 3, 3, 6]


def test_coordinates_by_hand() -> None:
    """PyTorch's Upsample(scale_factor=2.5, align_corners=True) of 3 elements has 7, the ends at 0 and 2; its half pixels of one element
    begin at 0; tf_half_pixel_for_nn has no half taken off."""
    assert resizing.coordinates("align_corners", Axis(0, 3, 7, 2.5, (0, 1))) == pytest.approx(np.arange(7) / 3, abs=1e-6)
    assert resizing.coordinates("pytorch_half_pixel", Axis(0, 4, 1, 0.25, (0, 1))).tolist() == [0]
    assert resizing.coordinates("tf_half_pixel_for_nn", Axis(0, 3, 6, 2.0, (0, 1))).tolist() == [0.25, 0.75, 1.25, 1.75, 2.25, 2.75]


def test_what_lies_outside_a_crop_is_the_value_even_beside_what_is_no_number() -> None:
    x = X.copy()
    x[0, 0, 0, 0] = np.nan
    x[0, 1] = np.inf
    proto = net("tf_crop_and_resize", "nearest", sizes=(7, 3), extrapolation_value=4.0)
    graph, weights, _ = load(proto, precision="fp32")
    np.testing.assert_array_equal(ops.evaluate(graph, {"x": x}, weights)["y"], run(proto, {"x": x})[0])
