"""Bad models: each is one sentence of our error tree, which says what would help."""
from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from aoec import ops
from aoec.base.errors import AoecError, BackendError, CheckError, ParseError, UnsupportedError
from aoec.frontend.read import read
from aoec.frontend.translate.gears import Asked, gears
from aoec.frontend.translate.onnx import load

from .models import Shape, model, node, normal, run

GOOD = model([node("Conv", "x w", "a"), node("Relu", "a", "y")], {"x": (1, 3, 8, 8)}, ["y"], {"w": normal(4, 3, 3, 3)})


def free(*shape: int | str | None, **more: Shape) -> onnx.ModelProto:
    inputs = {"data": shape, **more}
    return model([node("Relu", name, f"{name}_y") for name in inputs], inputs, [f"{name}_y" for name in inputs])


def sentence(error: type[AoecError], *args: object, **options: object) -> str:
    with pytest.raises(error) as caught:
        load(*args, **options)  # type: ignore[arg-type]
    text = str(caught.value)
    assert len(text.splitlines()) == 1 and len(text) < 700
    return text


def test_files(tmp_path: Path) -> None:
    assert "cannot read" in sentence(BackendError, tmp_path / "none.onnx")
    assert "directory" in sentence(BackendError, tmp_path)
    (tmp_path / "text.onnx").write_text("hello, I am no model")
    (tmp_path / "empty.onnx").write_bytes(b"")
    whole = GOOD.SerializeToString()
    (tmp_path / "cut.onnx").write_bytes(whole[:len(whole) // 2])
    for name in ("text", "empty", "cut"):
        assert f"{name}.onnx" in sentence(ParseError, tmp_path / f"{name}.onnx")
    (tmp_path / "good.onnx").write_bytes(whole)
    assert load(str(tmp_path / "good.onnx"))[0].outputs == ("y",)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs a device without an end")
# in `make test` each command reads a file of one ending, endings in turn
@pytest.mark.parametrize("ending, words", [
    pytest.param(ending, words, id=f"{ending}-{words[0]}", marks=[pytest.mark.slow] * ((i + j) % 3 > 0))
    for i, ending in enumerate(("", ".onnx", ".aoec"))
    for j, words in enumerate((["import", "{}"], ["compile", "{}"], ["run", "{}", "--random"], ["export", "{}", "-o", "x.onnx"],
                               ["deliver", "{}", "--to", "x"], ["tasks", "{}"]))])
def test_a_device_is_not_read(words: list[str], ending: str, tmp_path: Path) -> None:
    """In a process of its own, which may not take the memory that it would fill."""
    (tmp_path / f"zero{ending}").symlink_to("/dev/zero")
    started = [sys.executable, "-c", "import resource, sys; resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30)); "
               "from aoec.cli import main; sys.exit(main())", *(w.format(f"zero{ending}") for w in words)]
    own = {**os.environ, "XDG_DATA_HOME": str(tmp_path)}
    made = subprocess.run(started, cwd=tmp_path, capture_output=True, text=True, timeout=60, env=own)
    assert made.returncode == 2 and len(os.listdir(tmp_path)) == 1
    last = made.stderr.splitlines()[-1]
    assert f"zero{ending}" in last and ("it is a device" in last or "larger than" in last), made.stderr


def test_a_pipe_is_read_as_far_as_a_model_may_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is behind stays in the pipe."""
    pipe, whole = tmp_path / "pipe", GOOD.SerializeToString()
    os.mkfifo(pipe)

    def feed(data: bytes) -> threading.Thread:
        def write() -> None:
            with suppress(BrokenPipeError), open(pipe, "wb", buffering=0) as f:
                f.write(data)
        thread = threading.Thread(target=write)
        thread.start()
        return thread

    writer = feed(whole)
    assert load(pipe)[0].outputs == ("y",)
    writer.join()
    monkeypatch.setattr(read, "LIMIT_BYTES", len(whole) - 1)
    writer = feed(whole + bytes(1 << 20))
    assert f"is larger than {len(whole) - 1:,} bytes" in sentence(BackendError, pipe)
    writer.join(20)
    assert not writer.is_alive()
    (tmp_path / "large.onnx").write_bytes(whole)
    assert f"has {len(whole):,} bytes; ONNX files of up to" in sentence(UnsupportedError, tmp_path / "large.onnx")


@given(st.integers(0, 10**6), st.binary(min_size=1, max_size=8))
@settings(max_examples=60)
def test_damaged_bytes_never_give_a_traceback(at: int, noise: bytes) -> None:
    whole = bytearray(GOOD.SerializeToString())
    at %= len(whole)
    whole[at:at + len(noise)] = noise
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(bytes(whole))
    except Exception:  # protobuf's DecodeError: what test_files covers
        return
    try:
        load(proto)
    except AoecError as e:
        assert str(e)


def test_invalid_graphs() -> None:
    assert "invalid" in sentence(ParseError, model([node("Relu", "nobody", "y")], {"x": (2,)}, ["y"]))
    assert "invalid" in sentence(ParseError, model([node("Conv", "x w", "y")], {"x": (1, 3, 8, 8)}, ["y"], {"w": normal(4, 5, 3, 3)}))
    assert "no nodes" in sentence(ParseError, model([], {"x": (2,)}, ["x"]))


def test_unknown_operators_are_listed_at_once() -> None:
    nodes = [node("Foo", "x", "a"), node("Foo", "a", "b"), helper.make_node("Bar", ["b"], ["y"], domain="my.ops")]
    proto = model(nodes, {"x": (2,)}, ["y"])
    proto.opset_import.append(helper.make_opsetid("my.ops", 1))
    text = sentence(UnsupportedError, proto)
    assert "Foo (2 nodes)" in text and "my.ops.Bar (1 node)" in text


def test_newer_and_older_operator_sets() -> None:
    assert "upgrade onnx" in sentence(UnsupportedError, model([node("Relu", "x", "y")], {"x": (2,)}, ["y"], opset=999))
    old = model([node("Add", "x b", "y", broadcast=1, axis=1)], {"x": (1, 3, 2, 2)}, ["y"], {"b": np.ones(3, np.float32)}, opset=6)
    assert load(old)[0].tensors[0].shape == (1, 3, 2, 2)


def test_types() -> None:
    strings = model([node("Identity", "x", "y")], {"x": (2,)}, ["y"], types={"x": TensorProto.STRING, "y": TensorProto.STRING})
    assert [(t.dtype, t.declared) for t in load(strings)[0].tensors] == [("opaque", "tensor(string)[2]")] * 2
    halves = model([node("Relu", "x", "y")], {"x": (2,)}, ["y"], types={"x": TensorProto.FLOAT16, "y": TensorProto.FLOAT16})
    assert [(t.dtype, t.declared) for t in load(halves)[0].tensors] == [("fp16", "tensor(float16)")] * 2
    assert "precision fp8" in sentence(CheckError, GOOD, precision="fp8")


def test_dimensions() -> None:
    text = sentence(UnsupportedError, free("N", 3, "H", "W"))
    assert text.endswith("--input-shape data:1,3,224,224")
    text = sentence(UnsupportedError, free(None, None, other=(None, 3, None, None)))
    assert text.endswith("--input-shape data:1,128 --input-shape other:1,3,224,224")
    graph, _, notices = load(free("N", 3, 8, 8))
    assert graph.tensors[0].shape == (1, 3, 8, 8) and len(notices) == 1 and "--input-shape data:1,3,8,8" in notices[0]
    graph, _, notices = load(free("N", 3, "H", 8), {"data": (5, 3, 7, 8)})
    assert graph.tensors[0].shape == (5, 3, 7, 8) and not notices
    graph, _, _ = load(free("N", 3, other=("N", 4)), {"data": (5, 3)})
    assert {t.name: t.shape for t in graph.tensors}["other"] == (5, 4)


def rankless() -> onnx.ModelProto:
    proto = free(1, 8)
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    return proto


def test_an_input_without_a_rank() -> None:
    """It may be left out, as onnxruntime has it; whoever gives the shape is believed."""
    text = sentence(UnsupportedError, rankless())
    assert "data states no shape" in text and text.endswith("--input-shape data:1,3,224,224")
    assert load(rankless(), {"data": (5, 3)})[0].tensors[0].shape == (5, 3)
    graph, _, notices = load(rankless(), {"data": (-1, 3)})
    assert graph.tensors[0].shape == (1, 3) and "--input-shape data:1,3" in notices[0]
    with pytest.raises(CheckError, match=r"data states no shape.* for example: --input-shape data:-1,3,224,224"):
        gears(rankless().graph, {}, Asked(batches=(1, 2)))
    assert [g.shapes for g in gears(rankless().graph, {"data": (-1, 4)}, Asked(batches=(1, 2)))] == [(("data", (n, 4)),) for n in (1, 2)]


def test_results_without_a_type() -> None:
    """They have the type that their node gives them; an input has none then."""
    proto = model([node("Relu", "x", "a"), node("Cast", "a", "b", to=TensorProto.INT64)], {"x": (2, 3)}, ["a", "b"])
    for o in proto.graph.output:
        o.ClearField("type")
    graph, _, _ = load(proto)
    assert {t.name: (t.dtype, t.declared, t.shape) for t in graph.tensors if t.name in graph.outputs} == {
        "a": ("fp16", "", (2, 3)), "b": ("int64", "", (2, 3))}
    del proto.graph.output[:]
    proto.graph.output.append(onnx.ValueInfoProto(name="nobody"))
    assert "its output nobody states no type" in sentence(ParseError, proto)
    nameless = free(2, 3)
    nameless.graph.input[0].ClearField("type")
    assert "its input data states no type" in sentence(ParseError, nameless)


@pytest.mark.parametrize("opset", [7, 8, 9, 10])
@pytest.mark.parametrize("alpha", [None, 0.5, -0.5])
def test_an_experiment_that_onnx_took_back(opset: int, alpha: float | None) -> None:
    """ThresholdedRelu, which onnxruntime runs in every operator set."""
    given = {} if alpha is None else {"alpha": alpha}
    proto = model([node("ThresholdedRelu", "x", "y", **given)], {"x": (4, 8)}, ["y"], opset=opset)
    x = np.linspace(-2, 2, 32, dtype=np.float32).reshape(4, 8)
    x[0, :4] = np.inf, -np.inf, 0.5, -0.5
    graph, weights, _ = load(proto, precision="fp32")
    np.testing.assert_array_equal(ops.evaluate(graph, {"x": x}, weights)["y"], run(proto, {"x": x}, as_it_is=True)[0], strict=True)


def test_dimensions_that_do_not_fit() -> None:
    assert "[N, 3]" in sentence(CheckError, free("N", 3), input_shapes={"data": (1, 4)})
    assert "inputs of test are data" in sentence(CheckError, free("N", 3), input_shapes={"datum": (1, 3)})
    assert "negative" in sentence(CheckError, free("N", 3), input_shapes={"data": (-2, 3)})
    assert "two values" in sentence(CheckError, free("N", 3, other=("N", 3)), input_shapes={"data": (1, 3), "other": (2, 3)})


def test_shapes_that_a_model_states() -> None:
    """Of results they may be of other input shapes; of a constant, as PyTorch's exporter states them, they take nothing from it."""
    proto = model([node("Slice", "x start end axis", "a"), node("Neg", "a", "y")], {"x": ("N", 6)}, ["y"],
                  {"start": np.array([2]), "end": np.array([9]), "axis": np.array([1])}, opset=20)
    proto.graph.value_info.extend([helper.make_tensor_value_info(name, TensorProto.INT64, [1]) for name in ("start", "end", "axis")])
    proto.graph.value_info.append(helper.make_tensor_value_info("a", TensorProto.FLOAT, [1, 4]))
    graph, _, _ = load(proto, {"x": (5, 6)})
    assert {t.name: t.shape for t in graph.tensors}["y"] == (5, 4)


def test_a_constant_too_large_to_compute_is_refused() -> None:
    proto = model([node("ConstantOfShape", "s", "c"), node("Add", "x c", "y")], {"x": (1,)}, ["y"], {"s": np.array([1 << 20, 1 << 20])})
    assert "at most" in sentence(UnsupportedError, proto)


@pytest.mark.parametrize("op, types, zero", [
    ("QuantizeLinear", TensorProto.UINT8, np.zeros(3, np.uint8)), ("QuantizeLinear", TensorProto.UINT8, None),
    ("DequantizeLinear", TensorProto.FLOAT, None)])
def test_scales_that_are_not_as_many_as_their_axis_are_refused(op: str, types: int, zero: np.ndarray | None) -> None:
    given = {"s": np.ones(3, np.float32), **({"z": zero} if zero is not None else {})}
    x = {"x": TensorProto.UINT8} if op == "DequantizeLinear" else {}
    proto = model([node(op, "x s z" if zero is not None else "x s", "y")], {"x": (127, 4)}, ["y"], given, types={"y": types, **x})
    with pytest.raises(ParseError, match=r"the ONNX graph is invalid: node .*: 3 elements do not make the shape"):
        load(proto, precision="fp32")


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scale", [-np.inf, np.nan, np.inf, -2.0, 1e30])
def test_scales_that_no_image_has_are_refused(scale: float, mode: str) -> None:
    """ONNX's inference makes a shape of them."""
    net = model([node("Resize", "x none scales", "y", mode=mode)], {"x": (1, 2, 4, 4)}, ["y"],
                {"scales": np.array([1, 1, scale, 2], np.float32), "none": np.zeros(0, np.float32)}, opset=13)
    with pytest.raises(ParseError, match=r"node Resize -> y: ONNX infers the shape \[1, 2, -\d+, 8\] of y"):
        load(net)


@pytest.mark.parametrize("op", ["Resize", "LSTM"])
def test_attributes_that_are_no_text_end_in_no_other_error(op: str) -> None:
    """Bytes beyond UTF-8 where a word is wanted."""
    given = {"mode": b"\xff\xfe"} if op == "Resize" else {"activations": [b"\xff", b"Tanh", b"Tanh"], "hidden_size": 4}
    names, constants = ("x none scales", {"scales": np.array([1, 1, 2, 2], np.float32), "none": np.zeros(0, np.float32)}) \
        if op == "Resize" else ("x w r", {"w": normal(1, 16, 8), "r": normal(1, 16, 4)})
    net = model([node(op, names, "y", **given)], {"x": (1, 2, 4, 4) if op == "Resize" else (3, 1, 8)}, ["y"], constants, opset=14)
    with suppress(AoecError):  # another error ends the test
        load(net)
