"""Models between QuantizeLinear and DequantizeLinear work on whole numbers, and give what onnxruntime gives, to the last step."""
from __future__ import annotations

import numpy as np
import onnx
import pytest

import aoec
from aoec import ops
from aoec.frontend.translate.onnx import load
from aoec.lowering.arrange.fuse import fuse
from aoec.target.machine import load as load_machine

from .models import model, node, normal, run

# values are the same by any schedule: one that is found soon is enough
pytestmark = pytest.mark.usefixtures("poor", "few")

Nodes = list[onnx.NodeProto]
Constants = dict[str, np.ndarray]


class Net:
    """Nodes between conversions to and from eight bits, as onnxruntime's static quantisation leaves them."""

    def __init__(self, kind: str = "uint8", weights: str = "int8") -> None:
        self.kind, self.weights = kind, weights
        self.nodes: Nodes = []
        self.constants: Constants = {}

    def constant(self, value: np.ndarray) -> str:
        name = f"k{len(self.constants)}"
        self.constants[name] = value
        return name

    def real(self, x: str, scale: float = 0.03, zero: int = 3) -> str:
        """A tensor in eight bits and in reals again: "x" -> the name of the reals."""
        kind = np.dtype(self.kind)
        given = self.constant(np.float32(scale)), self.constant(kind.type(zero + (120 if kind == np.uint8 else 0)))
        q, r = f"{x}_q{len(self.nodes)}", f"{x}_r{len(self.nodes)}"
        self.nodes += [node("QuantizeLinear", f"{x} {given[0]} {given[1]}", q), node("DequantizeLinear", f"{q} {given[0]} {given[1]}", r)]
        return r

    def weight(self, *shape: int, axis: int = -1, zero: int = 0, seed: int = 0) -> str:
        """A constant of eight bits, with a scale for each place of an axis or one for all."""
        kind = np.dtype(self.weights)
        middle = 128 if kind == np.uint8 else 0
        numbers = np.random.default_rng([seed, *shape]).integers(-127, 128, shape) + middle
        count = () if axis < 0 else (shape[axis],)
        scale = np.abs(normal(*count, seed=seed) * np.float32(0.001) + np.float32(0.004)).astype(np.float32)
        names = [self.constant(a) for a in (numbers.astype(kind), scale, np.full(count, middle + zero, kind))]
        out = f"w{len(self.nodes)}"
        self.nodes.append(node("DequantizeLinear", " ".join(names), out, **({"axis": axis} if axis >= 0 else {})))
        return out

    def done(self, shape: tuple[int, ...], result: str) -> onnx.ModelProto:
        return model([*self.nodes, node("Identity", result, "y")], {"x": shape}, ["y"], self.constants)


def conv(kind: str = "uint8", weights: str = "int8", axis: int = 0, relu: bool = True, zero: int = 0, **given: object) -> onnx.ModelProto:
    n = Net(kind, weights)
    w, b = n.weight(64, 8 // int(given.get("group", 1)), 3, 3, axis=axis, zero=zero), n.constant(normal(64))  # type: ignore[call-overload]
    n.nodes.append(node("Conv", f"{n.real('x')} {w} {b}", "c", **given))
    if relu:
        n.nodes.append(node("Relu", "c", "r"))
    return n.done((2, 8, 7, 9), n.real("r" if relu else "c", 0.02))


def gemm(op: str) -> onnx.ModelProto:
    n = Net()
    x = n.real("x")
    if op == "Gemm":
        n.nodes.append(node("Gemm", f"{x} {n.weight(40, 33, axis=0)} {n.constant(normal(40))}", "c", transB=1))
    else:
        n.nodes += [node("MatMul", f"{x} {n.weight(33, 40, axis=1)}", "p"), node("Add", f"{n.constant(normal(40))} p", "c")]
    return n.done((5, 33), n.real("c", 0.05))


def moves() -> onnx.ModelProto:
    """A residual, pooling and a join of tensors of one scale."""
    n = Net()
    x = n.real("x")
    n.nodes.append(node("MaxPool", x, "p", kernel_shape=[3, 3], pads=[1, 1, 1, 1]))
    n.nodes.append(node("Concat", f"{x} {n.real('p')}", "c", axis=1))
    joined = n.real("c")
    n.nodes.append(node("MaxPool", joined, "m", kernel_shape=[3, 1], pads=[1, 0, 1, 0]))
    n.nodes.append(node("Add", f"{joined} {n.real('m')}", "a"))
    n.nodes.append(node("Transpose", n.real("a", 0.05), "t", perm=[0, 2, 3, 1]))
    return n.done((1, 32, 6, 5), n.real("t", 0.05))


def join() -> onnx.ModelProto:
    """A join of tensors of several scales, one of them that of the result."""
    n = Net()
    parts = [n.real("x"), n.real("x", 0.011, -7), n.real("x", 0.04, 9)]
    n.nodes.append(node("Concat", " ".join(parts), "c", axis=1))
    return n.done((1, 20, 6, 5), n.real("c", 0.04, 9))


def residual() -> onnx.ModelProto:
    """Relu behind an addition, whose least number stands for 0."""
    n = Net()
    n.nodes += [node("Add", f"{n.real('x')} {n.real('x', 0.011, -7)}", "a"), node("Relu", "a", "r")]
    return n.done((2, 3, 40), n.real("r", 0.02, -120))


def linear(op: str) -> onnx.ModelProto:
    """A product of ONNX's own of quantised operands, an addend for each channel."""
    n = Net()
    shape, w = ((1, 8, 6, 5), (32, 8, 3, 3)) if op == "QLinearConv" else ((4, 33), (33, 40))
    given = [n.constant(np.float32(0.03)), n.constant(np.uint8(123))]
    scale = np.abs(normal(32 if op == "QLinearConv" else 40)) * np.float32(0.004) + np.float32(0.001)
    numbers = np.random.default_rng(0).integers(-127, 128, w).astype(np.int8)
    weight = [n.constant(numbers), n.constant(scale), n.constant(np.zeros(len(scale), np.int8))]
    result = [n.constant(np.float32(0.02)), n.constant(np.uint8(100))]
    bias = [n.constant(np.arange(32, dtype=np.int32) * 50)] if op == "QLinearConv" else []
    more: dict[str, object] = {"pads": [1, 1, 1, 1]} if op == "QLinearConv" else {}
    n.nodes += [node("QuantizeLinear", f"x {' '.join(given)}", "q"),
                node(op, " ".join(["q", *given, *weight, *result, *bias]), "c", **more),
                node("DequantizeLinear", f"c {' '.join(result)}", "r")]
    return n.done(shape, "r")


FOUND = {
    "QLinearConv": (linear("QLinearConv"), ["quantise", "conv2d", "requantise", "dequantise"]),
    "QLinearMatMul": (linear("QLinearMatMul"), ["quantise", "matmul", "requantise", "dequantise"]),
    "residual": (residual(), ["quantise", "quantise", "add_quantised", "dequantise"]),
    "conv": (conv(pads=[1, 1, 1, 1]), ["quantise", "conv2d", "relu", "requantise", "dequantise"]),
    "conv of int8": (conv("int8", axis=-1, relu=False, pads=[2, 0, 1, 2], strides=[2, 1]),
                     ["quantise", "conv2d", "requantise", "dequantise"]),
    "conv of uint8 weights": (conv("int8", "uint8", group=2), ["quantise", "conv2d", "relu", "requantise", "dequantise"]),
    "gemm": (gemm("Gemm"), ["quantise", "matmul", "requantise", "dequantise"]),
    "matmul and add": (gemm("MatMul"), ["quantise", "matmul", "requantise", "dequantise"]),
    "join": (join(), ["quantise", "dequantise", "quantise", "dequantise", *["quantise"] * 3, "concat", "dequantise"]),
    "moves": (moves(), ["quantise", "max_pool", "concat", "max_pool", "add_quantised", "dequantise", "transpose"]),
}


def given(proto: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {"x": normal(*[d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim], seed=4)}


@pytest.mark.parametrize("name", FOUND)
def test_whole_numbers_are_worked_on(name: str) -> None:
    proto, wanted = FOUND[name]
    graph, weights, _ = load(proto, precision="fp32")
    assert [n.op for n in graph.nodes] == wanted
    np.testing.assert_array_equal(ops.evaluate(graph, given(proto), weights)["y"], run(proto, given(proto))[0])


def test_weights_with_a_zero_point_are_left_in_reals() -> None:
    proto = conv(weights="uint8", zero=2)
    graph, weights, _ = load(proto, precision="fp32")
    assert "requantise" not in [n.op for n in graph.nodes]
    np.testing.assert_allclose(ops.evaluate(graph, given(proto), weights)["y"], run(proto, given(proto))[0], atol=0.0201)


@pytest.mark.parametrize("precision", ["fp16", "fp32"])
def test_scales_stay_exact_in_either_precision(precision: str) -> None:
    proto, _ = FOUND["conv"]
    graph, *_ = load(proto, precision=precision)
    scales = [t.dtype for n in graph.nodes if n.op in ("quantise", "requantise", "dequantise") for t in graph.tensors
              if t.name == n.inputs[1]]
    assert set(scales) == {"fp32"}


def deep() -> onnx.ModelProto:
    """Two convolutions with an addition around the second, which is of two groups."""
    n = Net()
    n.nodes += [node("Conv", f"{n.real('x')} {n.weight(64, 8, 3, 3, axis=0)}", "c", pads=[1, 1, 1, 1], strides=[2, 2]),
                node("Relu", "c", "r")]
    first = n.real("r", 0.02)
    n.nodes.append(node("Conv", f"{first} {n.weight(64, 32, 1, 1, axis=0, seed=2)} {n.constant(normal(64))}", "d", group=2))
    n.nodes.append(node("Add", f"{n.real('d', 0.05)} {first}", "a"))
    return n.done((1, 8, 9, 7), n.real("a", 0.04))


def test_sums_leave_as_int8_and_images_stay_in_blocks() -> None:
    """A convolution and its scales are one group, an addition reads what lies in blocks of 32 channels."""
    graph, weights, _ = load(deep(), precision="fp32")
    fused, _ = fuse(graph, weights, load_machine("Ascend910B3"))
    named = {n.name: n.op for n in fused.nodes}
    assert [" ".join(named[n] for n in g.nodes) for g in fused.groups] == [
        "quantise", "to_nc1hwc0", "conv2d_packed relu requantise", "conv2d_packed requantise", "add_quantised", "from_nc1hwc0",
        "dequantise"]


def assert_near(got: np.ndarray, wanted: np.ndarray, step: float, target: str) -> None:
    """Equal where scales are fp32; where FIXPIPE takes ten bits of their fractions, elements are a step off, or two behind two of them."""
    apart = np.abs(got.astype(np.float64) - wanted)
    if load_machine(target).has("fixpipe_nz_scale"):
        assert apart.max() < 2.01 * step and np.mean(apart > 0) < 0.05
    else:
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("target", ["Ascend910B3", "Ascend310P3"])
def test_programs_give_what_onnxruntime_gives(target: str, tmp_path) -> None:
    proto = deep()
    compiled = aoec.compile(proto, tmp_path / "net.aoec", target=target, precision="fp32", verify=True)
    assert not compiled.on_host
    assert_near(compiled.run(None, given(proto))[0], run(proto, given(proto))[0], 0.04, target)


def test_a_gemm_of_bytes_leaves_in_rows(tmp_path) -> None:
    proto, _ = FOUND["gemm"]
    compiled = aoec.compile(proto, tmp_path / "net.aoec", precision="fp32")
    assert_near(compiled.run(None, given(proto))[0], run(proto, given(proto))[0], 0.05, "Ascend910B3")


def narrow(channels: int, group: int = 1, relu: bool = True, zero: int = 3) -> onnx.ModelProto:
    """Two convolutions after one another whose channels fill no whole blocks of int8; the second has a window and perhaps groups."""
    n = Net()
    start = [n.constant(normal(channels, seed=seed)) for seed in (5, 6)]
    n.nodes.append(node("Conv", f"{n.real('x')} {n.weight(channels, 8, 1, 1, axis=0)} {start[0]}", "c"))
    n.nodes += [node("Relu", "c", "r")] if relu else []
    w = n.weight(channels, channels // group, 3, 3, axis=0, seed=2)
    n.nodes.append(node("Conv", f"{n.real('r' if relu else 'c', 0.02, zero)} {w} {start[1]}", "d", pads=[1, 1, 1, 1], group=group))
    return n.done((1, 8, 9, 7), n.real("d", 0.2))


MACHINES = ("Ascend910B3", "Ascend310P3", "Ascend310B1", "Ascend910A")
CHANNELS = ((24, 1), (7, 1), (40, 1), (58, 58), (104, 2))


# in `make test` each number of channels on two of the machines, which are met in turn
@pytest.mark.parametrize("channels, group, target", [
    pytest.param(*of, machine, marks=[pytest.mark.slow] * ((i + j) % 2))
    for i, of in enumerate(CHANNELS) for j, machine in enumerate(MACHINES)])
def test_channels_of_no_whole_blocks_run_on_the_ai_core(channels: int, group: int, target: str, tmp_path) -> None:
    proto = narrow(channels, group)
    graph, weights, _ = load(proto, precision="fp32")
    fused, _ = fuse(graph, weights, load_machine(target))
    named = {n.name: n.op for n in fused.nodes}
    assert [" ".join(named[n] for n in g.nodes) for g in fused.groups if g.kind != "view"] == [
        "quantise", "to_nc1hwc0", "conv2d_packed relu requantise", "conv2d_packed requantise", "from_nc1hwc0", "dequantise"]
    compiled = aoec.compile(proto, tmp_path / "net.aoec", target=target, precision="fp32", verify=True)
    assert not compiled.on_host
    assert_near(compiled.run(None, given(proto))[0], run(proto, given(proto))[0], 0.2, target)
