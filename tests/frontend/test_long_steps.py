"""Convolutions with steps, pads and kernels beyond what img2col takes give what onnxruntime gives, on the AI Core where there is a way."""
from __future__ import annotations

import numpy as np
import pytest

from aoec import backend, ops
from aoec.frontend.onnx import load

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


def test_an_stft_is_a_program() -> None:
    image, kernel, given = CASES["an stft"]
    proto = model([node("Conv", "x w", "y", **given)], {"x": image}, ["y"], {"w": normal(*kernel)})
    prepared = backend.prepare(proto)
    assert not prepared.on_host
    np.testing.assert_allclose(prepared.run({"x": normal(*image)})[0], run(proto, {"x": normal(*image)})[0], rtol=1e-4, atol=2e-3)


@pytest.mark.parametrize(("image", "kernel", "given"), [((1, 1, 700), (2, 1, 600), {}), ((1, 1, 900), (2, 1, 3), {"dilations": [300]}),
                                                        ((1, 1, 900), (2, 1, 3), {"dilations": [2], "strides": [70]})])
def test_what_has_no_way_runs_on_the_host(image: tuple[int, ...], kernel: tuple[int, ...], given: dict[str, object]) -> None:
    proto = model([node("Conv", "x w", "y", **given)], {"x": image}, ["y"], {"w": normal(*kernel)})
    prepared = backend.prepare(proto)
    assert prepared.on_host == ("host.Conv",)
    np.testing.assert_allclose(prepared.run({"x": normal(*image)})[0], run(proto, {"x": normal(*image)})[0], rtol=1e-4, atol=2e-4)
