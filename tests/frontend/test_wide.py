"""What 16 bits cannot hold stays in fp32 whatever the precision of the others is: angles, sums of whole numbers, places and lengths."""
from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from aoec import ops
from aoec.frontend.passes.wide import wide_tensors
from aoec.frontend.translate.onnx import load

from .models import model, node, normal, run
from .test_passes import draft

LONG = TensorProto.INT64


def apart(proto: onnx.ModelProto, feeds: dict[str, np.ndarray], precision: str) -> list[float]:
    """Of each result the largest difference to onnxruntime's, relative to its largest number."""
    graph, weights, notices = load(proto, precision=precision)
    assert notices == []
    got = ops.evaluate(graph, feeds, weights)
    pairs = zip((got[o.name] for o in proto.graph.output), run(proto, feeds), strict=True)
    return [float(np.abs(g.astype(np.float64) - w).max() / np.abs(w).max()) for g, w in pairs]


def rotary() -> onnx.ModelProto:
    """Rotary places as exporters of Llama write them: a product of frequencies and places, twice, its cosine and sine."""
    turns = (1e4 ** (-np.arange(0, 64, 2) / 64)).astype(np.float32)[None, :, None]
    return model([node("Cast", "at", "real", to=TensorProto.FLOAT), node("Unsqueeze", "real one", "row"),
                  node("MatMul", "turns row", "angles"), node("Transpose", "angles", "each", perm=[0, 2, 1]),
                  node("Concat", "each each", "wide", axis=-1), node("Cos", "wide", "c"), node("Sin", "wide", "s"),
                  node("Mul", "x c", "left"), node("Mul", "x s", "right"), node("Add", "left right", "y")],
                 {"at": (1, 8), "x": (1, 8, 64)}, ["y"], {"turns": turns, "one": np.array([1])}, types={"at": LONG})


@pytest.mark.parametrize(("precision", "most"), [("fp16", 2e-3), ("mixed", 2e-3), ("bf16", 2e-2)])
def test_places_of_a_long_text_turn_as_they_should(precision: str, most: float) -> None:
    feeds = {"at": np.array([[0, 1, 257, 2049, 4095, 8191, 30001, 131071]]), "x": normal(1, 8, 64)}
    assert apart(rotary(), feeds, precision)[0] < most
    graph = load(rotary(), precision=precision)[0]
    assert next(t for t in graph.tensors if t.name == "y").dtype == ("bf16" if precision == "bf16" else "fp16")
    assert not any(n.op == "matmul" for n in graph.nodes)  # of one column and one row


def test_a_sine_of_what_others_read_is_as_precise_as_that() -> None:
    proto = model([node("Mul", "x x", "square"), node("Sin", "square", "s"), node("Add", "s square", "y")], {"x": (4, 8)}, ["y"])
    assert {t.dtype for t in load(proto, precision="fp16")[0].tensors} == {"fp16"}


def test_sums_of_whole_numbers_are_scaled_before_they_are_rounded() -> None:
    """Quantised when it runs, as onnxruntime's tools write it: sums of some millions, scales of some millionths."""
    weights = np.random.default_rng(0).integers(100, 128, (512, 16)).astype(np.int8)
    proto = model([node("DynamicQuantizeLinear", "x", "q s z"), node("MatMulInteger", "q w z zero", "sums"),
                   node("Cast", "sums", "real", to=TensorProto.FLOAT), node("Mul", "s each", "scale"), node("Mul", "real scale", "scaled"),
                   node("Add", "scaled b", "y")],
                  {"x": (4, 512)}, ["y"], {"w": weights, "zero": np.int8(0), "each": np.float32(2e-5), "b": normal(16)})
    assert apart(proto, {"x": np.abs(normal(4, 512))}, "fp16")[0] < 2e-3


@pytest.mark.parametrize("last", ["scaled", "root"])
def test_what_16_bits_cannot_hold_may_end_in_a_result(last: str) -> None:
    """The product with its scale, or the root of a sum, is the last node: what it reads is beyond fp16, and what it gives is not."""
    weights = np.random.default_rng(0).integers(100, 128, (512, 16)).astype(np.int8)
    scaled = [node("DynamicQuantizeLinear", "x", "q s z"), node("MatMulInteger", "q w z zero", "sums"),
              node("Cast", "sums", "real", to=TensorProto.FLOAT), node("Mul", "s each", "scale"), node("Mul", "real scale", "y")]
    proto = model(scaled, {"x": (4, 512)}, ["y"], {"w": weights, "zero": np.int8(0), "each": np.float32(2e-5)}) if last == "scaled" else \
        model([node("ReduceL2", "x", "y", axes=[1])], {"x": (4, 512)}, ["y"])
    assert apart(proto, {"x": np.abs(normal(4, 512)) * (1 if last == "scaled" else 100)}, "fp16")[0] < 2e-3


def test_an_image_is_sampled_between_the_right_pixels() -> None:
    proto = model([node("Add", "g shift", "at"), node("GridSample", "x at", "y", mode="linear", padding_mode="border", align_corners=0)],
                  {"x": (1, 1, 4, 1280), "g": (1, 16, 16, 2)}, ["y"], {"shift": np.float32([0.0125, 0.0])}, opset=20)
    feeds = {"x": normal(1, 1, 4, 1280), "g": np.random.default_rng(0).uniform(-1, 1, (1, 16, 16, 2)).astype(np.float32)}
    assert apart(proto, feeds, "fp16")[0] < 3e-3


def test_places_of_greatest_elements_and_lengths_are_counted_beyond_2048() -> None:
    order = np.random.default_rng(0).permutation(2048).reshape(1, 2, 32, 32).astype(np.float32)
    pooled = model([node("MaxPool", "x", "y at", kernel_shape=[2, 2], strides=[2, 2])], {"x": (1, 4, 32, 32)}, ["y", "at"],
                   types={"at": LONG})
    compared = model([node("Cast", "at", "real", to=TensorProto.FLOAT), node("Less", "real last", "seen"),
                      node("Where", "seen x never", "y")],
                     {"at": (1, 4096), "x": (1, 4096)}, ["y"], {"last": np.float32(3001), "never": np.float32(-9)}, types={"at": LONG})
    for precision in ("fp16", "bf16"):
        wide = np.concatenate([order, order], axis=1) % 256
        graph, weights, _ = load(pooled, precision=precision)
        assert np.array_equal(ops.evaluate(graph, {"x": wide}, weights)["at"], run(pooled, {"x": wide})[1])
        assert apart(compared, {"at": np.arange(4096)[None], "x": np.ones((1, 4096), np.float32)}, precision) == [0.0]


def deviation(last: str, difference: bool) -> onnx.ModelProto:
    """A norm of channels spelled out, by a variance that is a mean of squares or a difference of two means."""
    one = [node("Mul", "d d", "square"), node("ReduceMean", "square over", "v")]
    two = [node("Mul", "x x", "square"), node("ReduceMean", "square over", "all"), node("Mul", "m m", "own"), node("Sub", "all own", "v")]
    variance = two if difference else one
    ends = {"Div": [node("Sqrt", "ve", "s"), node("Div", "d s", "y")],
            "Mul": [node("Sqrt", "ve", "s"), node("Reciprocal", "s", "r"), node("Mul", "d r", "y")]}[last]
    return model([node("ReduceMean", "x over", "m"), node("Sub", "x m", "d"), *variance, node("Add", "v eps", "ve"), *ends],
                 {"x": (1, 96, 14, 14)}, ["y"], {"over": np.array([1]), "eps": np.float32(1e-6)}, opset=18)


@pytest.mark.parametrize("precision", ["fp16", "mixed"])
@pytest.mark.parametrize("difference", [False, True])
@pytest.mark.parametrize("last", ["Div", "Mul"])
def test_a_mean_of_squares_may_be_beyond_fp16(last: str, difference: bool, precision: str) -> None:
    """Squares of 600 are (airockchip/rknn-toolkit2#274): the deviation was infinite and every result 0."""
    assert apart(deviation(last, difference), {"x": 600 * normal(1, 96, 14, 14)}, precision)[0] < 2e-3


def brought_back(kind: str) -> tuple[onnx.ModelProto, np.ndarray]:
    """A model in which something grows beyond fp16 on its way to a result that does not, and its input."""
    over, eps, count = np.array([-1]), np.float32(1e-9), np.float32(65536)
    of = {"over": over, "eps": eps, "count": count, "one": np.float32(1), "share": np.float32(1 / 65536)}
    return {
        "softplus": (model([node("Exp", "x", "e"), node("Add", "e one", "a"), node("Log", "a", "y")], {"x": (4, 64)}, ["y"], of),
                     np.clip(12 * normal(4, 64), -60, 40)),
        "magnitude": (model([node("Mul", "x x", "a"), node("Pow", "z two", "b"), node("Add", "a b", "c"), node("Sqrt", "c", "y")],
                            {"x": (4, 64), "z": (4, 64)}, ["y"], {"two": np.float32(2)}), 400 * normal(4, 64)),
        "quotient": (model([node("ReduceSum", "x over", "s"), node("Div", "s count", "y")], {"x": (4, 65536)}, ["y"], of),
                     10 + normal(4, 65536)),
        "factor": (model([node("ReduceSum", "x over", "s"), node("Mul", "s share", "y")], {"x": (4, 65536)}, ["y"], of),
                   10 + normal(4, 65536)),
        "share": (model([node("ReduceSum", "x over", "s"), node("Add", "s eps", "d"), node("Div", "x d", "y")], {"x": (4, 512)}, ["y"], of),
                  np.concatenate([300 + normal(3, 512), np.zeros((1, 512), np.float32)])),
        "length": (model([node("LpNormalization", "x", "y", p=1)], {"x": (4, 512)}, ["y"]), 300 * normal(4, 512)),
    }[kind]


@pytest.mark.parametrize("precision", ["fp16", "mixed"])
@pytest.mark.parametrize("kind", ["softplus", "magnitude", "quotient", "factor", "share", "length"])
def test_what_grows_beyond_fp16_comes_back(kind: str, precision: str) -> None:
    proto, data = brought_back(kind)
    assert apart(proto, {i.name: data for i in proto.graph.input}, precision)[0] < 2e-3


@pytest.mark.parametrize("op", ["sqrt", "rsqrt", "log"])
def test_a_root_of_a_constant_grows_from_nothing(op: str) -> None:
    """A pass may meet it before constants are folded."""
    held = draft((op, "c", "r", {}), ("reduce_sum", "x", "s", {"axes": (3,), "keepdims": 1}), ("div", "s r", "y", {}),
                 c=np.ones((2, 3, 4, 1)))
    assert {"s", "y"} <= wide_tensors(held).keys()
