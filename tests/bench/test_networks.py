"""What results of the zoo are held against: rounding alone, quantised tensors one by one, LSTMs written out; and unit variance."""
from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from aoec import backend
from bench.networks.levelled import levelled
from bench.networks.net import Net, Network
from bench.networks.reference import apart, results
from bench.networks.rounded import rounded
from bench.networks.steps import held, quantised, separated, watched
from bench.networks.unrolled import unrolled


def small_speech() -> Network:
    """An LSTM of both directions on three words."""
    n = Net(3)
    x = n.input("x", n.random.standard_normal((3, 2, 5), np.float32))
    y, _, _ = n.parts("LSTM", 3, x, n.normal(2, 16, 5), n.normal(2, 16, 4), n.normal(2, 32), hidden_size=4, direction="bidirectional")
    return n.network("speech", {"y": (y, (3, 2, 2, 4))})


def test_an_lstm_written_out_gives_the_same() -> None:
    net = small_speech()
    model = unrolled(net.model)
    assert "LSTM" not in {n.op_type for n in model.graph.node}
    wanted = results(net.model, net.feeds, ["y"])
    assert apart(results(model, net.feeds, ["y"]), wanted)["y"] < 1e-6
    assert 1e-5 < apart(results(rounded(model), net.feeds, ["y"], optimised=False), wanted)["y"] < 2e-3


@pytest.mark.parametrize(("precision", "dtype"), [("fp16", "float16"), ("bf16", "bfloat16")])
def test_rounding_is_of_every_tensor_that_is_stored(precision: str, dtype: str) -> None:
    """As NumPy rounds: the input, the constants, what lies between; the result is left as it was calculated."""
    n = Net(0)
    x = n.input("x", n.random.standard_normal((7, 9), np.float32))
    net = n.network("sums", {"y": (n.dense(n.dense(x, 9, 5), 5, 3), (7, 3))})
    half = lambda a: np.asarray(a, np.float32).astype(helper.tensor_dtype_to_np_dtype(  # noqa: E731
        onnx.TensorProto.DataType.Value(dtype.upper()))).astype(np.float32)
    a, b, c, d = (half(numpy_helper.to_array(w)) for w in net.model.graph.initializer)
    wanted = half(half(half(half(half(net.feeds["x"]) @ a) + b) @ c) + d)
    got = results(rounded(net.model, precision), net.feeds, ["y"], optimised=False)["y"]
    assert np.abs(got - wanted).max() <= np.abs(wanted).max() * {"fp16": 2.0 ** -10, "bf16": 2.0 ** -7}[precision]  # sums in another order
    assert np.abs(got - results(net.model, net.feeds, ["y"])["y"]).max() > 0


def test_convolutions_are_levelled_one_behind_the_other() -> None:
    n = Net(1)
    x = n.image("x", 1, 4, 12, 12)
    for _ in range(3):
        x = n.conv(n.kept("MaxPool", x, kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4), 8, 3, act="silu")
    net = levelled(n.network("images", {"y": (x, (1, 8, 12, 12))}))
    raw = [node.output[0] for node in net.model.graph.node if node.op_type == "Conv"]
    net.model.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in raw)
    for value in results(net.model, net.feeds, raw).values():
        assert np.sqrt(np.square(value).mean()) == pytest.approx(1.0, abs=0.02)


def quantised_products() -> Network:
    """Two products of eight bits, with conversions as quantisers leave them."""
    n = Net(2)
    scale, zero = n.constant(0.03), n.constant(120, np.uint8)
    x = n.input("x", n.random.standard_normal((40, 32), np.float32))
    for _ in range(2):
        eight = n.node("DequantizeLinear", n.node("QuantizeLinear", x, scale, zero), scale, zero)
        numbers = n.constant(n.random.integers(-127, 128, (32, 32)), np.int8)
        weight = n.node("DequantizeLinear", numbers, n.constant(2e-3), n.constant(0, np.int8))
        x = n.node("MatMul", eight, weight)
    y = n.node("DequantizeLinear", n.node("QuantizeLinear", x, scale, zero), scale, zero)
    return n.network("eight", {"y": (y, (40, 32))})


def test_tensors_of_eight_bits_are_held_against_those_before() -> None:
    net = quantised_products()
    names = quantised(net.model)
    assert len(names) == 3
    found = dict(zip(names, backend.prepare(watched(net.model)).run(net.feeds)[1:]))
    steps = held(net.model, net.feeds, found)
    assert (steps.tensors, steps.elements) == (3, 3 * 40 * 32) and steps.most <= 1 and steps.different < 4
    first, second, last = names
    wrong = found[second].copy()
    wrong[5, 7] += 2 if wrong[5, 7] < 128 else -2
    assert held(net.model, net.feeds, {**found, second: wrong}).most >= 2
    assert {i.name for i in separated(net.model).graph.input} == {"x", f"{first}_given", f"{second}_given", f"{last}_given"}
