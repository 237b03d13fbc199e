"""The models that the onnx package carries, compiled, and by their programs against onnxruntime."""
from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from aoec.jobs.run.execute import run_model
from tests.frontend.models import LIGHT, normal, run, varied

from .compiled import TOLERANCE, compiled, distance, operators_on_host

QUICK = ()  # 20 s to a minute each; in fp32 `make test` has a block of rows (test_rows.py) and each operator (laws/test_emit_laws.py)
# what has no schedule: the concatenation of 112 and 24 whole channels of 28 x 28, since only axes before the joined one are tiled
ON_HOST = {"shufflenet": ["concat"]}


def short(path: Path) -> str:
    return path.stem.removeprefix("light_")


@pytest.mark.parametrize("path", [pytest.param(p, marks=[] if short(p) in QUICK else [pytest.mark.slow], id=short(p)) for p in LIGHT])
@pytest.mark.parametrize("precision", ["fp32", pytest.param("fp16", marks=pytest.mark.slow)])
def test_light_models_compile_and_match(path: Path, precision: str, tmp_path: Path) -> None:
    proto = varied(path)
    artifact = compiled(proto, precision, tmp_path)
    assert set(operators_on_host(artifact)) <= set(ON_HOST.get(short(path), []))
    (name, shape), = [(p.name, p.shape) for p in artifact.inputs]
    x = normal(*shape)
    (got,), (expected,) = run_model(artifact, {name: x}).values(), run(proto, {name: x})
    assert expected.std() > 0
    assert distance(got, expected) <= TOLERANCE[precision]


@pytest.mark.slow
@pytest.mark.parametrize("path", LIGHT, ids=short)
def test_light_models_compile_as_they_are(path: Path, tmp_path: Path) -> None:
    """With their constants of one value, which fold into weights as they come."""
    artifact = compiled(onnx.load(path), "fp16", tmp_path)
    assert operators_on_host(artifact) == ON_HOST.get(short(path), [])
