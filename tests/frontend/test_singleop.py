"""Single operators as ATC describes them: each means what NumPy computes of the same, and a description that says otherwise is refused."""
from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from aoec.base.errors import AoecError
from aoec.frontend.vendor.ascend_ir import RULES
from aoec.frontend.vendor.singleop import model, read

A = [2, 3, 4]
IMAGE, HWC = [1, 3, 6, 7], [1, 6, 7, 3]
POSITIVE = ("Rsqrt", "Log1p", "RealDiv")  # whose results of other numbers are none, or large
Oracle = Callable[..., np.ndarray]


def tensor(shape: list[int], dtype: str = "float", layout: str = "ND", **more: Any) -> dict[str, Any]:
    return {"format": layout, "shape": shape, "type": dtype, **more}


def operator(op: str, inputs: list[Any], output: Any, **attributes: Any) -> dict[str, Any]:
    described = [t if isinstance(t, dict) else tensor(t) for t in inputs]
    kinds = {bool: "bool", int: "int", float: "float", str: "string", list: "list_int"}
    return {"op": op, "input_desc": described, "output_desc": [output if isinstance(output, dict) else tensor(output)],
            "attr": [{"name": n, "type": kinds[type(v)], "value": v} for n, v in attributes.items()]}


def of(folder: Path, *operators: Any) -> Any:
    (folder / "ops.json").write_text(json.dumps(list(operators)))
    return read(str(folder / "ops.json"))


def views(x: np.ndarray, size: tuple[int, int], stride: int) -> np.ndarray:
    """The windows of an NCHW image, in two more dimensions."""
    return np.lib.stride_tricks.sliding_window_view(x, size, (2, 3))[:, :, ::stride, ::stride]


def windows(x: np.ndarray, size: int, stride: int, reduce: Callable[..., Any]) -> np.ndarray:
    """Each window of an NCHW image as one number."""
    out: np.ndarray = reduce(views(x, (size, size), stride), axis=(-2, -1))
    return out


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    out: np.ndarray = e / e.sum(-1, keepdims=True)
    return out


def normal(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
    d = x - x.mean(-1, keepdims=True)
    out: np.ndarray = d / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-7) * gamma + beta
    return out


NCHW, NHWC = tensor(IMAGE, layout="NCHW"), tensor(HWC, layout="NHWC")
OUT = tensor([1, 5, 3, 4], layout="NCHW")
CASES: list[tuple[dict[str, Any], Oracle]] = [
    (operator("Add", [A, A], A), np.add), (operator("RealDiv", [A, A], A), np.divide), (operator("Maximum", [A, [4]], A), np.maximum),
    (operator("Minimum", [A, A], A), np.minimum), (operator("AddN", [A, A, A], A), lambda a, b, c: a + b + c),
    (operator("GreaterEqual", [A, A], tensor(A, "bool")), np.greater_equal),
    (operator("Elu", [A], A, alpha=0.5), lambda x: np.where(x > 0, x, 0.5 * (np.exp(x) - 1))),
    (operator("LeakyRelu", [A], A, negative_slope=0.25), lambda x: np.where(x > 0, x, x / 4)),
    (operator("LeakyRelu", [A], A), lambda x: np.where(x > 0, x, 0 * x)),
    (operator("PRelu", [A, [1]], A), lambda x, w: np.where(x > 0, x, w * x)),
    (operator("Swish", [A], A, scale=2.0), lambda x: x / (1 + np.exp(-2 * x))), (operator("Rsqrt", [A], A), lambda x: 1 / np.sqrt(x)),
    (operator("Gelu", [A], A), lambda x: x / (1 + np.exp(-1.5957691216 * (x + 0.044715 * x**3)))),
    (operator("Square", [A], A), np.square),
    (operator("SquaredDifference", [A, A], A), lambda a, b: (a - b)**2), (operator("Log1p", [A], A), np.log1p),
    (operator("Muls", [A], A, value=3.0), lambda x: 3 * x),
    (operator("Adds", [tensor(A, "float16")], tensor(A, "float16"), value=2), lambda x: x + 2),
    (operator("ClipByValue", [A, [], []], A), lambda x, low, high: np.minimum(np.maximum(x, low), high)),
    (operator("BiasAdd", [A, [4]], A), np.add), (operator("BiasAdd", [NCHW, [3]], NCHW), lambda x, b: x + b[:, None, None]),
    (operator("Cast", [A], tensor(A, "int32"), dst_type=3), lambda x: x.astype(np.int32)),
    (operator("SoftmaxV2", [A], A, axes=[-1]), softmax), (operator("LogSoftmaxV2", [A], A), lambda x: np.log(softmax(x))),
    (operator("LayerNorm", [A, [4], [4]], A, begin_norm_axis=2), normal),
    (operator("ReduceSumD", [A], [2, 4], axes=[1]), lambda x: x.sum(1)),
    (operator("ReduceMeanD", [A], [2, 1, 1], axes=[1, -1], keep_dims=True), lambda x: x.mean((1, 2), keepdims=True)),
    (operator("ReduceMaxD", [A], [3, 4], axes=[0]), lambda x: x.max(0)),
    (operator("ReduceMinD", [A], [3, 4], axes=[0]), lambda x: x.min(0)),
    (operator("ReduceProdD", [A], [3, 4], axes=[0]), lambda x: x.prod(0)),
    (operator("MatMulV2", [[5, 3], [4, 5], [4]], [3, 4], transpose_x1=True, transpose_x2=True), lambda a, b, c: a.T @ b.T + c),
    (operator("MatMul", [[3, 5], [5, 4]], tensor([3, 4], "float16")), lambda a, b: (a @ b).astype(np.float16)),
    (operator("BatchMatMul", [[2, 3, 5], [2, 4, 5]], [2, 3, 4], adj_x2=True), lambda a, b: a @ b.swapaxes(1, 2)),
    (operator("GEMM", [[3, 5], [4, 5], [3, 4], [], []], [3, 4], transpose_b=True), lambda a, b, c, s, t: s * (a @ b.T) + t * c),
    (operator("Conv2D", [NCHW, tensor([5, 3, 3, 2], layout="NCHW"), [5]], OUT, strides=[1, 1, 2, 2], pads=[1, 0, 0, 1],
              dilations=[1, 1, 1, 1]),
     lambda x, w, b: b[:, None, None] + np.einsum(
         "nchwij,ocij->nohw", views(np.pad(x, [(0, 0), (0, 0), (1, 0), (0, 1)]), (3, 2), 2), w)),
    (operator("MaxPool", [NCHW], tensor([1, 3, 3, 3], layout="NCHW"), ksize=[1, 1, 2, 2], strides=[1, 1, 2, 2], padding="VALID"),
     lambda x: windows(x, 2, 2, np.max)),
    (operator("AvgPool", [NCHW], tensor([1, 3, 4, 5], layout="NCHW"), ksize=[1, 1, 3, 3], strides=[1, 1, 1, 1], padding="VALID"),
     lambda x: windows(x, 3, 1, np.mean)),
    (operator("MaxPoolV3", [NCHW], tensor([1, 3, 3, 4], layout="NCHW"), ksize=[1, 1, 3, 3], strides=[1, 1, 2, 2], pads=[1, 0, 1, 1]),
     lambda x: windows(np.pad(x, [(0, 0), (0, 0), (1, 0), (1, 1)], constant_values=-9), 3, 2, np.max)),
    (operator("AvgPoolV2", [NCHW], tensor([1, 3, 1, 1], layout="NCHW"), ksize=[1, 1, 1, 1], strides=[1, 1, 1, 1], global_pooling=True),
     lambda x: x.mean((2, 3), keepdims=True)),
    (operator("TransposeD", [A], [4, 2, 3], perm=[2, 0, 1]), lambda x: x.transpose(2, 0, 1)),
    (operator("ConcatD", [A, A], [2, 6, 4], concat_dim=1), lambda a, b: np.concatenate([a, b], 1)),
    (operator("TileD", [A], [4, 3, 4], multiples=[2, 1, 1]), lambda x: np.tile(x, (2, 1, 1))),
    (operator("ExpandD", [[3, 1]], [3, 4], shape=[3, 4]), lambda x: np.broadcast_to(x, (3, 4))),
]


@pytest.mark.parametrize("described, oracle", CASES, ids=[f"{i}-{c['op']}" for i, (c, _) in enumerate(CASES)])
def test_an_operator_means_what_numpy_says(described: dict[str, Any], oracle: Oracle, tmp_path: Path) -> None:
    one, = of(tmp_path, described)
    made, random = model(one), np.random.default_rng(7)
    types = {"float": np.float32, "float16": np.float16}
    low = 0.1 if one.op in POSITIVE else -2
    feeds = {f"x{i}": np.asarray(random.uniform(low, 2, t["shape"]), types[t["type"]]) for i, t in enumerate(described["input_desc"])}
    found, = ReferenceEvaluator(made).run(None, feeds)
    wanted = oracle(*feeds.values())
    assert found.shape == wanted.shape and found.dtype == wanted.dtype
    np.testing.assert_allclose(found.astype(np.float64), np.asarray(wanted, np.float64), rtol=2e-3, atol=2e-3)


def test_every_rule_is_one_of_the_cases_or_of_another_name() -> None:
    tested = {c["op"] for c, _ in CASES} | {"MatMulV3", "BatchMatMulV2", "BatchMatMulV3"}
    from aoec.frontend.vendor.ascend_ir import SAME
    assert set(RULES) - tested <= set(SAME)


def test_images_and_filters_of_other_formats_are_turned(tmp_path: Path) -> None:
    """NHWC and HWCN, with strides in their order: the same model as in NCHW."""
    turned = operator("Conv2D", [NHWC, tensor([3, 2, 3, 5], layout="HWCN")], tensor([1, 2, 6, 5], layout="NHWC"), strides=[1, 2, 1, 1],
                      pads=[0, 0, 0, 0])
    plain = operator("Conv2D", [NCHW, tensor([5, 3, 3, 2], layout="NCHW")], tensor([1, 5, 2, 6], layout="NCHW"), strides=[1, 1, 2, 1],
                     pads=[0, 0, 0, 0])
    first, second = of(tmp_path, turned, plain)
    assert [o.label for o in (first, second)] == ["0_conv2d", "1_conv2d"]
    one, other = (model(o).SerializeToString().replace(o.label[:1].encode(), b"_") for o in (first, second))
    assert len(one) == len(other) and model(first).graph.node[0].attribute == model(second).graph.node[0].attribute
    assert model(first).graph.input == model(second).graph.input and model(first).graph.output == model(second).graph.output


def test_constants_absent_inputs_and_what_is_meant_by_origin(tmp_path: Path) -> None:
    left_out = {"format": "RESERVED", "type": "UNDEFINED"}
    one, = of(tmp_path, operator("MatMulV2", [tensor([1, 1, 16, 16], "float16", "FRACTAL_NZ", origin_shape=[3, 2], origin_format="ND"),
                                              tensor([2, 2], "float16", const_value=[1, 2, 3, 4]), left_out], tensor([3, 2], "float16")))
    made = model(one)
    assert [i.name for i in made.graph.input] == ["x0"] and made.graph.initializer[0].name == "x1"
    x = np.ones((3, 2), np.float16)
    assert (ReferenceEvaluator(made).run(None, {"x0": x})[0] == [[4, 6]] * 3).all()


BAD: list[tuple[Any, str]] = [
    ({}, "is no description"), ([], "is no description"), ([3], "operator 0 is no object with op"), ([{"op": "Add"}], "output_desc"),
    ([operator("Add", [tensor([2], "complex64")], A)], "type 'complex64'"),
    ([operator("Add", [tensor([2], layout="NC1HWC0")], A)], "origin_format"),
    *(([operator("Add", [shape], A)], "fixed shapes") for shape in ([2, -1], [1] * 9, [1 << 20, 1 << 20])),
    ([operator("Add", [tensor([2], const_value=[1])], A)], "const_value"),
    ([operator("A\x1b[2J", [A], A)], "op cannot be"),
    ([operator("TileD", [A], A, multiples=[10**30, 1, 1])], "cannot be as it is described"),
    ([operator("TransposeD", [A], A, perm=[10**30, 1, 2])], "cannot be as it is described"),
    ([operator("Add", [A, tensor([], "int32", const_value=[10**30])], A)], "cannot be as it is described"),
    ([operator("Elu", [A], A, alpha=10**400)], "cannot be as it is described"), ([operator("Muls", [A], A, value=10**400)], "cannot be"),
    ([operator("SoftmaxV2", [A], A, axes=[7])], "cannot be as it is described"),
    ([operator("TransposeD", [A], A, perm=[0, 0, 9])], "cannot be"),
    ([operator("Conv2D", [A, A], A, strides=[1, 1, 1, 1])], "not 4"), ([operator("BatchMatMul", [[2], [2]], [1], adj_x1=True)], ""),
    ([operator("Nothing", [A], A)], "operator Nothing has no meaning here"),
    ([operator("Add", [A, A], [2, 3])], "its description says [2, 3]"),
    ([operator("Add", [A, [5]], A)], "cannot be as it is described"), ([operator("ReduceSumD", [A], [2, 4])], "needs the attribute axes"),
    ([operator("ReduceSumD", [A], [2, 4], axes="x")], "attribute axes cannot be 'x'"),
    ([operator("Muls", [A], A, value="x")], "attribute value"),
    ([operator("Conv2D", [NCHW], OUT, strides=[1, 1, 1, 1])], "has no input 1"), ([operator("Cast", [A], A, dst_type=99)], "dst_type"),
    ([operator("SoftmaxV2", [A], A, axes=[1, 2])], "axes is one axis"), ([operator("Conv2D", [NCHW, IMAGE], OUT, strides=[1, 1])], "not 4"),
    ([operator("MaxPool", [NCHW], NCHW, ksize=[1, 1, 1, 1], strides=[1, 1, 1, 1], padding="ROUND")], "SAME, VALID or CALCULATED"),
    ([{"op": "Add", "input_desc": [], "output_desc": [], "attr": []}], "")]


@pytest.mark.parametrize("said, why", BAD, ids=range(len(BAD)))
def test_what_is_no_description_is_one_sentence(said: Any, why: str, tmp_path: Path) -> None:
    (tmp_path / "ops.json").write_text(json.dumps(said))
    with pytest.raises(AoecError) as caught:
        for one in read(str(tmp_path / "ops.json")):
            model(one)
    assert why in str(caught.value) and "\n" not in str(caught.value)
