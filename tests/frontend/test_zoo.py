"""The zoo: full size, unit variance, classes that differ by more than fp16 rounds; and the models that the onnx package carries."""
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from aoec import ops
from aoec.frontend import zoo
from aoec.frontend.translate.onnx import load
from aoec.ir.text.parse import parse_graph
from aoec.ir.text.show import show
from aoec.lowering.arrange.fuse import fuse

from .models import LIGHT, normal, run, varied

SLOW = ("alexnet", "vgg19", "zfnet512", "inception_v1")  # hundreds of megabytes of constants, or much like another


def watched(proto: onnx.ModelProto, names: list[str]) -> onnxruntime.InferenceSession:
    """A session that gives these tensors as well."""
    proto.graph.output.extend(onnx.helper.make_value_info(name, onnx.TypeProto()) for name in names)
    return onnxruntime.InferenceSession(proto.SerializeToString())


def test_resnet50_tells_inputs_apart() -> None:
    proto = zoo.resnet50()
    assert 102_000_000 < proto.ByteSize() < 103_000_000
    assert sum(n.op_type == "Conv" for n in proto.graph.node) == sum(n.op_type == "BatchNormalization" for n in proto.graph.node) == 53
    stages = ["stem", "stage1_2_sum", "stage2_3_sum", "stage3_5_sum", "stage4_2_sum"]
    session = watched(proto, stages)
    results = [session.run(None, {"data": np.random.default_rng(seed).standard_normal((1, 3, 224, 224), np.float32)}) for seed in range(20)]
    logits = np.array([r[0][0] for r in results])
    assert logits.shape == (20, 1000)
    top = np.sort(logits, axis=1)
    margins = (top[:, -1] - top[:, -2]) / np.abs(logits).max(axis=1)
    assert len(set(logits.argmax(axis=1))) >= 5
    assert np.sum(margins > 2e-2) >= 15
    for at, stage in enumerate(stages):
        assert 0.5 < results[0][at + 1].std() < 1.5, stage  # neither dies out nor grows over 50 layers


def test_equal_seeds_give_equal_files() -> None:
    one, two, other = (zoo.tiny_resnet(seed=seed).SerializeToString(deterministic=True) for seed in (0, 0, 1))
    assert one == two != other
    assert zoo.tiny_resnet(batch=3).graph.input[0].type.tensor_type.shape.dim[0].dim_value == 3


@pytest.mark.parametrize("name", sorted(set(zoo.MODELS) - {"resnet50"}))
@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-5), ("fp16", 1e-2)])
def test_small_models_match_onnxruntime(name: str, precision: str, tolerance: float) -> None:
    proto = zoo.MODELS[name](2, 0)
    graph, weights, notices = load(proto, precision=precision)
    x = normal(*graph.tensors[0].shape)
    expected = run(proto, {"data": x})[0]
    got = ops.evaluate(graph, {"data": x}, weights)[graph.outputs[0]].astype(np.float32)
    assert np.abs(got - expected).max() <= tolerance * np.abs(expected).max()
    assert notices == []


def test_bench_command(tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "bench/zoo.py"
    command = [sys.executable, script, "mlp_softmax", "--batch", "3", "-o", tmp_path / "m.onnx"]
    out = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"{(tmp_path / 'm.onnx').stat().st_size:,} bytes" in out.stdout
    assert load(tmp_path / "m.onnx")[0].tensors[0].shape == (3, 40)


@pytest.mark.parametrize("path", [
    pytest.param(p, marks=[pytest.mark.slow] if any(n in p.stem for n in SLOW) else [], id=p.stem) for p in LIGHT])
def test_light_models_import_fuse_and_match(path: Path) -> None:
    proto = varied(path)
    graph, weights, notices = load(proto, precision="fp32")
    assert notices == []
    fused, stored = fuse(graph, weights)
    assert parse_graph(show(fused)) == fused
    name, (out,) = graph.inputs[0], graph.outputs
    x = normal(*graph.tensors[0].shape)
    expected = run(proto, {name: x})[0]
    got = ops.evaluate(fused, {name: x}, stored)[out]
    assert np.abs(got - expected).max() <= 1e-4 * np.abs(expected).max()
    assert expected.std() > 0


def test_there_are_nine_light_models() -> None:
    assert len(LIGHT) == 9
