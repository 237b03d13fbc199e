"""What results of the zoo are held against: rounding alone, quantised tensors one by one, LSTMs written out; unit variance; and that
networks treat each of a batch alike."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from aoec import backend
from bench.networks import decoders, disentangled
from bench.networks.levelled import levelled
from bench.networks.net import Net, Network
from bench.networks.reference import apart, results
from bench.networks.rounded import rounded
from bench.networks.speech import crnn, gru
from bench.networks.steps import held, quantised, separated, watched
from bench.networks.unrolled import unrolled
from bench.networks.vision import shufflenet
from bench.networks.vision_transformers import mobilevit_s, vit_b16


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
    assert (steps.tensors, steps.elements) == (3, 3 * 40 * 32) and steps.most <= 1 and steps.different < 40  # ten bits of a scale
    first, second, last = names
    wrong = found[second].copy()
    wrong[5, 7] += 2 if wrong[5, 7] < 128 else -2
    assert held(net.model, net.feeds, {**found, second: wrong}).most >= 2
    assert {i.name for i in separated(net.model).graph.input} == {"x", f"{first}_given", f"{second}_given", f"{last}_given"}


SMALL: dict[str, tuple[Callable[[], Network], int, int]] = {  # each with the axis of the batch, of inputs and of results
    "vit": (lambda: vit_b16(2, 0, 32, 1), 0, 0), "mobilevit": (lambda: mobilevit_s(2, 0, 64), 0, 0),
    "shufflenet": (lambda: shufflenet(2, 0, 32), 0, 0), "deberta": (lambda: disentangled.deberta_base(2, 0, 24, 1), 0, 0),
    "llama": (lambda: decoders.llama_block(2, 0, 6, 1), 0, 0), "decode": (lambda: decoders.llama_decode(2, 0, 7), 0, 0),
    "crnn": (lambda: crnn(2, 0, 36, 8), 0, 1), "gru": (lambda: gru(2, 0, 4, 5, 8), 1, 1)}


@pytest.mark.parametrize("name", list(SMALL))
def test_networks_treat_each_of_a_batch_alike(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs in another order give results in that order, of the shapes that the model states."""
    for module, sizes in ((decoders, {"WIDTH": 256, "HEADS": 4, "SHARED": 2, "INNER": 64}), (disentangled, {"VOCABULARY": 50})):
        for size, value in sizes.items():
            monkeypatch.setattr(module, size, value)
    make, given, made = SMALL[name]
    net = make()
    onnx.checker.check_model(net.model, full_check=True)
    shapes = {o.name: tuple(d.dim_value for d in o.type.tensor_type.shape.dim) for o in net.model.graph.output}
    wanted = results(net.model, net.feeds, list(shapes))
    turned = results(net.model, {k: np.flip(v, given).copy() for k, v in net.feeds.items()}, list(shapes))
    assert {k: v.shape for k, v in wanted.items()} == shapes
    assert max(apart({k: np.flip(v, made) for k, v in turned.items()}, wanted).values()) < 1e-5
    assert max(apart(turned, wanted).values()) > 1e-2


def test_far_words_share_a_bucket() -> None:
    """Near ones have their own, and the farthest that there is the last."""
    found = disentangled.buckets(512)
    assert [int(v) for v in found[200, 198:203]] == [2, 1, 0, -1, -2] and (found == -found.T).all()
    assert int(found.max()) == 255 and int(found[511, 300]) == int(found[511, 301]) < 255
