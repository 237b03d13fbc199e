"""The stand-in's toolkit of a release as the environment of a test, and compiled models that need no search."""
from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from aoec.artifact.artifact import write
from aoec.artifact.compiled import Artifact
from aoec.frontend.translate.onnx import load
from aoec.jobs.compile.untuned import compile_untuned
from aoec.target.machine import load as load_machine
from tests.acl.kits import kit

LIMIT = ["--limit", "60"]  # of a kernel, on a computer that does other things too


def use_kit(monkeypatch: pytest.MonkeyPatch, folder: Path, release: int = 91, **environ: str) -> None:
    """Makes the stand-in what this process finds; its leases lie in the test's folder."""
    for name in ("ASCEND_TOOLKIT_HOME", "ASCEND_RT_VISIBLE_DEVICES", "AOEC_STANDIN_FAULT", "AOEC_STANDIN_SOC", "AOEC_STANDIN_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"ASCEND_HOME_PATH": str(kit(release).root), "AOEC_LEASE_DIR": str(folder / "leases"), **environ}.items():
        monkeypatch.setenv(name, value)


def without_cann(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Makes this a computer without CANN."""
    for name in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(folder))


def untuned(proto: onnx.ModelProto, target: str = "Ascend910B3", precision: str = "fp16") -> Artifact:
    """A compiled model of legal schedules that nobody timed."""
    graph, weights, _ = load(proto, {}, precision)
    return compile_untuned(graph, weights, precision, load_machine(target))[0]


def write_untuned(proto: onnx.ModelProto, folder: Path, target: str = "Ascend910B3") -> str:
    """The path of its file."""
    write(folder / "model.aoec", untuned(proto, target))
    return str(folder / "model.aoec")
