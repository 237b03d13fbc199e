"""Models compiled by the command that users have, with default schedules, and how far their outputs are from onnxruntime's."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from aoec.artifact.artifact import load
from aoec.artifact.compiled import Artifact
from aoec.cli import main

TOLERANCE = {"fp32": 1e-4, "fp16": 2e-2}  # max|a - b| / max|b|


def compiled(proto: onnx.ModelProto, precision: str, folder: Path, *more: str) -> Artifact:
    """The artifact that `aoec compile` without --tune writes, with an empty bank of its own; `more`: further options."""
    source, out = folder / "model.onnx", folder / f"{precision}.aoec"
    onnx.save(proto, source)
    words = ["compile", str(source), "--precision", precision, "--bank", str(folder / f"{precision}.bank"), "-o", str(out), "--jobs", "1"]
    assert main([*words, *more, "--json"]) == 0
    return load(out)


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """max|a - b| / max|b|, the relative error by which models are accepted."""
    assert a.shape == b.shape and a.dtype == b.dtype == np.float32
    return float(np.abs(a - b).max() / np.abs(b).max())


def operators_on_host(artifact: Artifact) -> list[str]:
    """The operators that run on the host, sorted: every other group that moves or computes has a program."""
    members = {n for g in artifact.graph.groups if g.kind == "host" for n in g.nodes}
    programs = {c.group: c.program for c in artifact.groups}
    assert all(programs[g.name] is not None for g in artifact.graph.groups if g.kind in ("cube", "vector"))
    return sorted(n.op for n in artifact.graph.nodes if n.name in members)
