"""Convolutions with steps, pads and kernels beyond what img2col takes give what onnxruntime gives, on the AI Core where there is a way."""
from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from aoec import backend, ops
from aoec.frontend.translate.onnx import load

from .models import model, node, normal, run

Case = tuple[tuple[int, ...], tuple[int, ...], dict[str, object]]
CASES: dict[str, Case] = {
    "an stft": ((2, 1, 1200), (18, 1, 400), {"strides": [160]}),
    "pads and a rest": ((1, 3, 700), (5, 3, 70), {"strides": [64], "pads": [33, 300]}),
    "steps beyond the kernel": ((1, 2, 500), (4, 2, 7), {"strides": [100]}),
    "groups": ((1, 4, 400), (6, 2, 130), {"strides": [65], "pads": [5, 6], "group": 2}),
    "one axis of two": ((1, 2, 9, 300), (4, 2, 3, 80), {"strides": [2, 80], "pads": [1, 0, 1, 0]}),
    "a volume": ((1, 2, 5, 6, 200), (3, 2, 3, 3, 70), {"strides": [1, 1, 66], "pads": [1, 1, 0, 1, 1, 0]}),
    "wide pads": ((1, 2, 40), (3, 2, 300), {"pads": [270, 290]}),
}


@pytest.mark.parametrize("case", CASES)
def test_long_steps(case: str) -> None:
    image, kernel, given = CASES[case]
    proto = model([node("Conv", "x w b", "y", **given)], {"x": image}, ["y"], {"w": normal(*kernel), "b": normal(kernel[0])})
    feeds = {"x": normal(*image)}
    graph, weights, notices = load(proto, precision="fp32")
    assert notices == []
    np.testing.assert_allclose(ops.evaluate(graph, feeds, weights)["y"], run(proto, feeds)[0], rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize("case", ["an stft", "wide pads"])
def test_a_long_window_is_a_program(case: str) -> None:
    image, kernel, given = CASES[case]
    proto = model([node("Conv", "x w", "y", **given)], {"x": image}, ["y"], {"w": normal(*kernel)})
    prepared = backend.prepare(proto)
    assert not prepared.on_host
    np.testing.assert_allclose(prepared.run({"x": normal(*image)})[0], run(proto, {"x": normal(*image)})[0], rtol=1e-4, atol=2e-3)


def whole(op: str, case: str, zero: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A convolution of bytes with feeds; `zero`: the zero point of its weights, that of the image is 7."""
    image, kernel, given = CASES[case]
    rng = np.random.default_rng([len(case), zero])
    held = {"w": rng.integers(-128, 128, kernel).astype(np.int8), "xz": np.uint8(7), "wz": np.int8(zero), "xs": np.float32(0.05),
            "ws": np.float32(0.01), "ys": np.float32(0.5), "yz": np.uint8(120), "b": rng.integers(-500, 500, kernel[0]).astype(np.int32)}
    words, dtype = ("x w xz wz", TensorProto.INT32) if op == "ConvInteger" else ("x xs xz w ws wz ys yz b", TensorProto.UINT8)
    proto = model([node(op, words, "y", **given)], {"x": image}, ["y"], {name: held[name] for name in words.split()[1:]},
                  types={"x": TensorProto.UINT8, "y": dtype})
    return proto, {"x": rng.integers(0, 256, image).astype(np.uint8)}


@pytest.mark.parametrize("zero", [0, 3])
@pytest.mark.parametrize("case", CASES)
def test_bytes(case: str, zero: int) -> None:
    for op in ("ConvInteger", "QLinearConv"):
        proto, feeds = whole(op, case, zero)
        graph, weights, notices = load(proto)
        assert notices == []
        made, wanted = ops.evaluate(graph, feeds, weights)["y"], run(proto, feeds)[0]
        assert np.abs(made.astype(np.int64) - wanted).max() <= (op == "QLinearConv")  # ties and their scales are rounded in fp32


@pytest.mark.parametrize(("op", "case"), [("ConvInteger", "wide pads"), ("QLinearConv", "one axis of two")])
def test_bytes_are_a_program(op: str, case: str) -> None:
    proto, feeds = whole(op, case, 0)
    prepared = backend.prepare(proto)
    assert not prepared.on_host
    np.testing.assert_allclose(prepared.run(feeds)[0].astype(np.int64), run(proto, feeds)[0], rtol=0, atol=op == "QLinearConv")


@pytest.mark.parametrize(("image", "kernel", "given"), [((1, 1, 700), (2, 1, 600), {}), ((1, 1, 900), (2, 1, 3), {"dilations": [300]}),
                                                        ((1, 1, 900), (2, 1, 3), {"dilations": [2], "strides": [70]})])
def test_what_has_no_way_runs_on_the_host(image: tuple[int, ...], kernel: tuple[int, ...], given: dict[str, object]) -> None:
    proto = model([node("Conv", "x w", "y", **given)], {"x": image}, ["y"], {"w": normal(*kernel)})
    prepared = backend.prepare(proto)
    assert prepared.on_host == ("host.Conv",)
    np.testing.assert_allclose(prepared.run({"x": normal(*image)})[0], run(proto, {"x": normal(*image)})[0], rtol=1e-4, atol=2e-4)
