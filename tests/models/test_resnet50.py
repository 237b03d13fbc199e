"""The zoo's full-size ResNet-50 by its programs, against onnxruntime: fp32 to 1e-4, fp16 to 2e-2 of the largest logit.

In fp32 it is slow, as are the models of test_light.py; `make test` has a block of rows in fp32 (test_rows.py).
"""
from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import onnx
import onnxruntime
import pytest

from aoec.artifact.compiled import Artifact
from aoec.frontend.zoo import resnet50
from aoec.jobs.run.execute import run_model
from tests.jobs.small import few_sketches, poor_defaults, small_searches

from .compiled import TOLERANCE, compiled, distance, operators_on_host

SEEDS = range(20)
QUICK = (0, 7)  # of seed 7, onnxruntime's two largest logits lie closer together than fp16 rounds


@pytest.fixture(scope="session")
def proto() -> onnx.ModelProto:
    return resnet50()


@pytest.fixture(scope="session")
def session(proto: onnx.ModelProto) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(proto.SerializeToString())


@pytest.fixture(scope="session", params=["fp16", pytest.param("fp32", marks=pytest.mark.slow)])
def artifact(request: pytest.FixtureRequest, proto: onnx.ModelProto, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Artifact]:
    """Compiled once for a precision, by schedules that are found soon: values are the same by any."""
    with small_searches(), few_sketches(), poor_defaults():
        made = compiled(proto, request.param, tmp_path_factory.mktemp("resnet50"))
    yield made


@lru_cache(maxsize=1)
def image(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((1, 3, 224, 224), np.float32)


def margin(logits: np.ndarray) -> float:
    """How far the largest logit is above the second, relative to the largest magnitude: the unit of the tolerance."""
    second, first = np.sort(logits[0])[-2:]
    return float((first - second) / np.abs(logits).max())


def test_every_group_has_a_program(artifact: Artifact) -> None:
    assert operators_on_host(artifact) == []
    kinds = [g.kind for g in artifact.graph.groups]
    assert kinds.count("cube") == 54 and kinds.count("vector") >= 18


@pytest.mark.parametrize("seed", [pytest.param(s, marks=[] if s in QUICK else [pytest.mark.slow]) for s in SEEDS])
def test_logits_match_onnxruntime(artifact: Artifact, session: onnxruntime.InferenceSession, seed: int) -> None:
    expected = session.run(None, {"data": image(seed)})[0]
    logits = run_model(artifact, {"data": image(seed)})["logits"]
    assert distance(logits, expected) <= TOLERANCE[artifact.precision]
    if artifact.precision == "fp32" or margin(expected) > TOLERANCE["fp16"]:
        assert logits.argmax() == expected.argmax()
