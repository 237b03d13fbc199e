"""Elements of few bits are bytes of a graph: cast, moved, quantised, given and returned as the model declares them."""
from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from aoec import backend, ops
from aoec.base.errors import CheckError
from aoec.frontend.translate.onnx import load
from aoec.ir.text.parse import parse_graph
from aoec.ir.text.show import show
from aoec.jobs.run.run import plain_arrays
from aoec.ops import typed as typed_values

from .models import model, node, normal

KINDS = {"FLOAT8E4M3FN": ml_dtypes.float8_e4m3fn, "FLOAT8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz, "FLOAT4E2M1": ml_dtypes.float4_e2m1fn,
         "INT4": ml_dtypes.int4, "UINT4": ml_dtypes.uint4, "INT2": ml_dtypes.int2, "UINT2": ml_dtypes.uint2}
X = (3, 8)


def typed(nodes: list[onnx.NodeProto], result: int, **constants: np.ndarray) -> onnx.ModelProto:
    proto = model(nodes, {"x": X}, ["y"], constants, opset=25, types={"y": result})
    proto.ir_version = 13
    return proto


@pytest.mark.parametrize("kind", KINDS)
def test_casts_there_and_back(kind: str) -> None:
    """By way of a transpose, which moves bytes; the graph's text says what they are. To whole numbers ONNX's pages on 4 and 2 bits round to
    the nearest, of two to the even one, and keep the low bits, as onnxruntime does; its reference alone cuts off."""
    element = getattr(TensorProto, kind)
    proto = typed([node("Cast", "x", "c", to=element), node("Transpose", "c", "y")], element)
    x = normal(*X) * np.float32(3)
    x[0, :4] = 0.5, 1.5, -2.5, 2.75
    graph, weights, _ = load(proto, precision="fp32")
    assert not any(n.op.startswith("host.") for n in graph.nodes)
    whole = np.rint(x).astype(np.int8).T.astype(KINDS[kind])  # which keeps low bits
    (wanted,) = ReferenceEvaluator(proto).run(None, {"x": x}) if kind.startswith("FLOAT") else (whole,)
    got = ops.evaluate(parse_graph(show(graph)), {"x": x}, weights)["y"]
    assert np.array_equal(got, wanted.view(np.uint8) if kind.startswith("FLOAT") else wanted.astype(got.dtype))

    back = helper.make_model(helper.make_graph(
        [node("Cast", "x", "y", to=TensorProto.FLOAT)], "back", [helper.make_tensor_value_info("x", element, X[::-1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, X[::-1])]), opset_imports=[helper.make_opsetid("", 25)])
    graph, weights, _ = load(back, precision="fp32")
    assert np.array_equal(ops.evaluate(graph, {"x": wanted}, weights)["y"], wanted.astype(np.float32))


@pytest.mark.parametrize("kind", [k for k in KINDS if not k.startswith("FLOAT")])
def test_constants_and_doubles_are_rounded_as_well(kind: str) -> None:
    x, element = np.array([[0.5, 1.5, -2.5, 2.75, -0.75, 0.25, 1.25, 1.0]] * 3), getattr(TensorProto, kind)
    wanted = np.rint(x).astype(np.int8).astype(KINDS[kind]).astype(np.float32)
    cast = [node("Cast", "c", "f", to=element), node("Cast", "f", "g", to=TensorProto.FLOAT), node("Add", "x g", "y")]
    for nodes, constants in ((cast, {"c": x}), ([node("Cast", "x", "c", to=TensorProto.DOUBLE), *cast[:2], node("Neg", "g", "y")], {})):
        graph, weights, _ = load(typed(nodes, TensorProto.FLOAT, **constants), precision="fp32")
        feed = np.zeros(X, np.float32) if constants else x.astype(np.float32)
        (y,) = ops.evaluate(graph, {"x": feed}, weights).values()
        assert np.array_equal(y, wanted if constants else -wanted)


def test_a_compiled_model_takes_and_gives_them() -> None:
    proto = typed([node("Cast", "x", "y", to=TensorProto.INT4)], TensorProto.INT4)
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.UINT2
    x = (np.arange(24).reshape(X) % 4).astype(ml_dtypes.uint2)
    prepared = backend.prepare(proto)
    (y,) = prepared.run([x])
    assert not prepared.on_host and y.dtype == ml_dtypes.int4 and np.array_equal(y.astype(int), x.astype(int))


def test_files_hold_them_as_bytes() -> None:
    x = (np.arange(24).reshape(X) % 16 - 8).astype(ml_dtypes.int4)
    z = np.arange(24, dtype=np.uint8).reshape(X).view(ml_dtypes.float8_e5m2)
    held = plain_arrays({"y": x, "z": z})
    assert (held["y"].dtype, held["z"].dtype) == (np.int8, np.uint8)
    for text, value, byte in (("tensor(int4)", x, held["y"]), ("tensor(float8e5m2)", z, held["z"])):
        taken = typed_values.read_value("x", byte, f"{text}[3,8]")
        assert taken.dtype == value.dtype and np.array_equal(taken.view(np.uint8) & 15, value.view(np.uint8) & 15)
    with pytest.raises(CheckError, match="-8 to 7 as bytes, and values from -9 to 0"):
        typed_values.read_value("x", np.array([0, -9], np.int8), "tensor(int4)[2]")
    with pytest.raises(CheckError, match="cast it first"):
        typed_values.read_value("x", np.array([0.0, 1.0]), "tensor(uint2)[2]")


def test_weights_of_four_bits_are_constants() -> None:
    """Dequantised at import: the model's product is all that is left."""
    w = (np.arange(32).reshape(8, 4) % 16 - 8).astype(ml_dtypes.int4)
    proto = typed([node("DequantizeLinear", "w s", "d"), node("MatMul", "x d", "y")], TensorProto.FLOAT, w=w, s=np.float32(0.5).reshape(()))
    graph, weights, _ = load(proto, precision="fp32")
    assert [n.op for n in graph.nodes] == ["matmul"]
    x = normal(*X)
    np.testing.assert_allclose(ops.evaluate(graph, {"x": x}, weights)["y"], x @ (w.astype(np.float32) / 2), rtol=1e-5, atol=1e-5)


def test_the_host_takes_and_gives_them_as_declared() -> None:
    """A branch that only the run decides is taken on the host, between two casts of the AI Core, and casts itself."""
    element = TensorProto.FLOAT8E4M3FN
    nodes = [node("Cast", "x", "c", to=element), node("If", "b", "i", then_branch=branch("p"), else_branch=branch("q")),
             node("Cast", "i", "y", to=TensorProto.FLOAT)]
    proto = typed(nodes, TensorProto.FLOAT)
    proto.graph.input.append(helper.make_tensor_value_info("b", TensorProto.BOOL, ()))
    x = normal(*X)
    graph, weights, _ = load(proto, precision="fp32")
    assert [n.op for n in graph.nodes] == ["encode", "host.If", "decode"]
    got = ops.evaluate(graph, {"x": x, "b": np.array(True)}, weights)["y"]
    assert np.array_equal(got, x.astype(ml_dtypes.float8_e4m3fn).astype(np.float32))


def branch(result: str) -> onnx.GraphProto:
    there_and_back = [node("Cast", "c", f"{result}_wide", to=TensorProto.FLOAT),
                      node("Cast", f"{result}_wide", result, to=TensorProto.FLOAT8E4M3FN)]
    return helper.make_graph(there_and_back, result, [],
                             [helper.make_tensor_value_info(result, TensorProto.FLOAT8E4M3FN, X)])
