"""Models of the transformers package as PyTorch's exporters write them, by the command that users have, against onnxruntime.

The networks are small, with seeded weights, and exported here (architectures.py). PyTorch is some 3 GB to fetch, so `make test-all` alone
installs it, with the group `exporters` of pyproject.toml.
"""
from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest

from aoec.artifact.compiled import Artifact
from aoec.jobs.run.execute import run_model
from tests.frontend.models import run

from .compiled import compiled, distance, operators_on_host

pytest.importorskip("torch", reason="PyTorch is not installed; make test-all does that")
from .architectures import ARCHITECTURES, TRACED, exported

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # exporters warn of much, of themselves too
TOLERANCE = {"fp32": 1e-4, "fp16": 5e-3}  # max|a - b| / max|b|; the most that was seen is 2e-6 and 2.3e-3
NOT_TRACED = ("gemma", "qwen2", "whisper")  # the exporter before has no rule for an operator of theirs
Feeds = dict[str, np.ndarray]


@cache
def made(name: str, opset: int = 20) -> tuple[onnx.ModelProto, Feeds]:
    """(model, its inputs): exporters leave out inputs that nothing reads."""
    proto, feeds = exported(name, opset)
    return proto, {i.name: feeds[i.name] for i in proto.graph.input}


def agrees(artifact: Artifact, proto: onnx.ModelProto, feeds: Feeds, precision: str) -> None:
    """Nothing; no node runs on the host, and every result is onnxruntime's."""
    assert operators_on_host(artifact) == []
    for got, expected in zip(run_model(artifact, feeds).values(), run(proto, feeds), strict=True):
        assert expected.std() > 0
        assert distance(got, expected) <= TOLERANCE[precision]


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_an_exported_model_compiles_and_matches(name: str, precision: str, tmp_path: Path) -> None:
    proto, feeds = made(name)
    agrees(compiled(proto, precision, tmp_path, "--no-host"), proto, feeds, precision)


@pytest.mark.parametrize("name", [n for n in ARCHITECTURES if n not in NOT_TRACED])
def test_a_traced_model_compiles_and_matches(name: str, tmp_path: Path) -> None:
    proto, feeds = made(name, TRACED)
    agrees(compiled(proto, "fp32", tmp_path), proto, feeds, "fp32")


@pytest.mark.parametrize("opset", [18, 23])
@pytest.mark.parametrize("name", ["bert", "llama", "t5", "vit"])
def test_older_and_newer_operator_sets(name: str, opset: int, tmp_path: Path) -> None:
    """GELU spelt out in the one, Attention and RMSNormalization in the other."""
    proto, feeds = made(name, opset)
    assert any(n.op_type == "Attention" for n in proto.graph.node) == (opset == 23)
    agrees(compiled(proto, "fp32", tmp_path), proto, feeds, "fp32")


@pytest.mark.parametrize("name", ["gpt2", "resnet", "segformer", "swin", "wav2vec2"])
def test_cores_that_hold_cube_and_vector_both(name: str, tmp_path: Path) -> None:
    proto, feeds = made(name)
    agrees(compiled(proto, "fp16", tmp_path, "--target", "Ascend310P3"), proto, feeds, "fp16")


@pytest.mark.parametrize("name", ["bert", "convnext", "llama"])
def test_tuned(name: str, tmp_path: Path) -> None:
    """A small budget finds something faster, in the model's own time, and values stay."""
    proto, feeds = made(name)
    artifact = compiled(proto, "fp16", tmp_path, "--tune", "--budget", "24", "--search", "random")
    figures = dict(artifact.figures)
    assert figures["latency_ns"] < figures["latency_default_ns"]
    agrees(artifact, proto, feeds, "fp16")


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_dimensions_that_the_model_leaves_open(name: str, tmp_path: Path) -> None:
    """Bound to others than those that it was exported with."""
    proto, _ = exported(name, free=("batch", "seq"))
    words = np.random.default_rng(0).integers(3, 99, (3, 11))
    feeds = {"input_ids": words, "attention_mask": (np.arange(11) < np.array([[11], [4], [9]])).astype(np.int64)}
    assert all(d.dim_param for i in proto.graph.input for d in i.type.tensor_type.shape.dim)
    shapes = [word for x in feeds for word in ("--input-shape", f"{x}:3,11")]
    agrees(compiled(proto, "fp32", tmp_path, *shapes), proto, feeds, "fp32")
