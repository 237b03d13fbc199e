"""Attention, rotary embedding and quantised operators against ONNX's reference and onnxruntime: as imported and as fused."""
from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

from aoec import ops
from aoec.frontend.translate.onnx import load
from aoec.lowering.arrange.fuse import fuse

from .models import feeds_of, model, node, normal, run

Shape = tuple[int, ...]


def attention(*shapes: Shape | np.ndarray | None, outputs: str = "y", opset: int = 24, **attributes: object) -> onnx.ModelProto:
    """A model of Attention over inputs of these shapes, constants where arrays stand for them."""
    names = [f"i{at}" if s is not None else "-" for at, s in enumerate(shapes)]
    inputs = {name: s for name, s in zip(names, shapes) if isinstance(s, tuple)}
    constants = {name: s for name, s in zip(names, shapes) if isinstance(s, np.ndarray)}
    proto = node("Attention", " ".join(names), outputs, **attributes)
    proto.output[:] = ["" if o == "-" else o for o in proto.output]
    return model([proto], inputs, [o for o in proto.output if o], constants, opset)


HEADS = ((2, 4, 3, 8), (2, 2, 5, 8), (2, 2, 5, 6))  # queries of four heads on keys and values of two
SEEN = np.random.default_rng(0).random((2, 1, 3, 5)) < 0.6
ATTENTION = {
    "heads": attention(*HEADS), "causal": attention(*HEADS, is_causal=1, scale=0.3),
    "rows of heads side by side": attention((2, 3, 12), (2, 5, 6), (2, 5, 4), q_num_heads=4, kv_num_heads=2),
    "past": attention(*HEADS, (3, 9), (2, 2, 4, 8), (2, 2, 4, 6), outputs="y k v"),
    "mask": attention(*HEADS, SEEN), "rows that see nothing": attention(*HEADS, SEEN & (np.arange(3) > 0)[:, None]),
    "short mask": attention(*HEADS, normal(3, 4)), "capped": attention(*HEADS, softcap=1.5, outputs="y - - s", qk_matmul_output_mode=1),
    "shares": attention(*HEADS, outputs="y - - s", qk_matmul_output_mode=3), "lengths": attention(
        *HEADS, None, None, None, np.array([4, 2]), is_causal=1),
    "window": attention(*HEADS, left_window_size=1, right_window_size=0, opset=25),
}
ROTARY = {
    "by places": ({"x": (2, 3, 4, 8), "c": (9, 4), "s": (9, 4)}, {"p": np.array([[0, 5, 2, 1], [3, 4, 8, 7]])}, {}),
    "side by side": ({"x": (2, 4, 12), "c": (2, 4, 2), "s": (2, 4, 2)}, {}, {"num_heads": 3, "interleaved": 1}),
    "in part": ({"x": (2, 3, 4, 8), "c": (2, 4, 2), "s": (2, 4, 2)}, {}, {"rotary_embedding_dim": 4}),
}


def agree(proto: onnx.ModelProto) -> None:
    """Asserts that the graph, and the fused graph, give what ONNX's reference gives, and that nothing of them is the host's."""
    feeds = feeds_of(proto)
    graph, weights, notices = load(proto, precision="fp32")
    assert not notices
    fused = fuse(graph, weights)
    for of, constants in ((graph, weights), fused):
        got = ops.evaluate(of, feeds, constants)
        for name, expected in zip(graph.outputs, ReferenceEvaluator(proto).run(None, feeds)):
            np.testing.assert_allclose(got[name], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ATTENTION)
def test_attention(name: str) -> None:
    agree(ATTENTION[name])


@pytest.mark.parametrize("name", ["heads", "causal", "rows of heads side by side", "window"])
def test_attention_is_one_operator_where_its_scores_are_scaled_and_shifted_alone(name: str) -> None:
    assert {"attention"} == {n.op for n in load(ATTENTION[name], precision="fp32")[0].nodes} - {"reshape", "transpose"}


@pytest.mark.parametrize("name", ROTARY)
def test_rotary_embedding(name: str) -> None:
    inputs, constants, attributes = ROTARY[name]
    agree(model([node("RotaryEmbedding", " ".join([*inputs, *constants]), "y", **attributes)], inputs, ["y"], constants, 23))


# ---------------------------------------------------------------- quantised

def whole(dtype: str, *shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, shape).astype(dtype)


def of_bytes(op: str, arrays: dict[str, np.ndarray], constant: str, **attributes: object) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """(a model of one operator over arrays of which those named are constants, the arrays of its inputs)."""
    kinds = {name: onnx.helper.np_dtype_to_tensor_dtype(x.dtype) for name, x in arrays.items()}
    inputs = {name: x for name, x in arrays.items() if name not in constant.split()}
    proto = model([node(op, " ".join(arrays), "y", **attributes)], {name: x.shape for name, x in inputs.items()}, ["y"],
                  {name: x for name, x in arrays.items() if name not in inputs}, types={**kinds, "y": TensorProto.UNDEFINED}, opset=21)
    return onnx.shape_inference.infer_shapes(proto), inputs


F, U = np.float32, np.uint8
MATRICES = {"a": whole("uint8", 5, 70), "b": whole("int8", 70, 6)}
IMAGES = {"x": whole("uint8", 1, 3, 5, 6), "w": whole("uint8", 4, 3, 3, 2)}
SCALES = {"xs": F(0.1), "xz": U(7), "ws": F(0.02), "wz": U(130), "ys": F(1.3), "yz": U(90)}


def interleaved(images: dict[str, np.ndarray], **more: np.ndarray) -> dict[str, np.ndarray]:
    """The arguments of QLinearConv in their order."""
    scales = {name: np.asarray(value) for name, value in SCALES.items()}
    return {"x": images["x"], "xs": scales["xs"], "xz": scales["xz"], "w": images["w"], "ws": scales["ws"], "wz": scales["wz"],
            "ys": scales["ys"], "yz": scales["yz"], **more}


BYTES = {
    "MatMulInteger": of_bytes("MatMulInteger", MATRICES, "b"),
    "MatMulInteger zeros": of_bytes("MatMulInteger", {**MATRICES, "az": np.array(U(200)), "bz": np.array(np.int8(-3))}, "az"),
    "MatMulInteger columns": of_bytes("MatMulInteger", {**MATRICES, "az": np.array(U(9)), "bz": whole("int8", 6)}, "b az bz"),
    "ConvInteger": of_bytes("ConvInteger", {**IMAGES, "xz": np.array(U(40))}, "w", pads=[1, 1, 0, 1]),
    "ConvInteger constant": of_bytes("ConvInteger", {**IMAGES, "xz": np.array(U(40)), "wz": np.array(U(140))}, "w xz wz", strides=[2, 1]),
    "QLinearConv": of_bytes("QLinearConv", interleaved(IMAGES, b=whole("int32", 4) // 10**6), "w ws wz xs xz ys yz b", pads=[1, 1, 1, 1]),
    "QLinearConv inputs": of_bytes("QLinearConv", interleaved(IMAGES), "w"),
    "QLinearMatMul": of_bytes("QLinearMatMul", {
        "a": MATRICES["a"], "as": np.array(F(0.1)), "az": np.array(U(3)), "b": MATRICES["b"], "bs": np.array(F(0.02)),
        "bz": np.array(np.int8(5)), "ys": np.array(F(4.0)), "yz": np.array(U(120))}, "b as"),
    "QuantizeLinear": of_bytes("QuantizeLinear", {"x": 9 * normal(2, 3, 4), "s": np.abs(normal(3)) + F(0.1), "z": whole("int8", 3)}, "s"),
    "QuantizeLinear blocks": of_bytes("QuantizeLinear", {"x": 9 * normal(4, 6), "s": np.abs(normal(4, 2)) + F(0.1)}, "s", block_size=3),
    "DequantizeLinear": of_bytes("DequantizeLinear", {"x": whole("uint8", 4, 3), "s": np.array(F(0.5)), "z": np.array(U(3))}, "z"),
    "DequantizeLinear sums": of_bytes("DequantizeLinear", {"x": whole("int32", 4, 3) // 999, "s": normal(3)}, "s"),
}

RULED = {"Attention", "DynamicQuantizeLinear", "RotaryEmbedding", *(name.split()[0] for name in BYTES)}  # operators with a case here


@pytest.mark.parametrize("name", BYTES)
def test_bytes(name: str) -> None:
    """Against ONNX's own evaluator: on processors without VNNI onnxruntime adds products of uint8 and int8 in 16 bits, which saturate,
    where the int8 are no constants."""
    proto, feeds = BYTES[name]
    graph, weights, notices = load(proto, precision="fp32")
    assert not notices
    (expected,) = ReferenceEvaluator(proto).run(None, feeds)
    for of, constants in ((graph, weights), fuse(graph, weights)):
        got = ops.evaluate(of, feeds, constants)["y"]
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_dynamic_quantisation() -> None:
    proto = model([node("DynamicQuantizeLinear", "x", "y s z")], {"x": (3, 5)}, ["y", "s", "z"],
                  types={"y": TensorProto.UINT8, "z": TensorProto.UINT8})
    graph, weights, notices = load(proto, precision="fp32")
    assert not notices
    feeds = {"x": normal(3, 5)}
    got = ops.evaluate(graph, feeds, weights)
    for output, expected in zip(graph.outputs, run(proto, feeds)):
        np.testing.assert_allclose(got[output], expected, rtol=1e-6)
