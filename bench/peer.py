"""AccelForge (PyPI `accelforge`, Python 3.12 or later) in a process and perhaps an interpreter of its own: its dependencies are not ours.

A question goes to a program of ours there as JSON on stdin, and the answer comes as JSON on stdout. That program imports nothing of aoec.
"""
from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SECONDS = 1800.0  # after which the peer is stopped
MISSING = 3  # exit code of a process that finds no package


def ask(program: Path, question: dict[str, Any], python: str = sys.executable) -> dict[str, Any] | None:
    """Return what a program answers. Return None where the interpreter does not have the peer. Raise RuntimeError where it fails."""
    try:
        done = subprocess.run([python, str(program.resolve())], input=json.dumps(question), text=True, capture_output=True, timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise RuntimeError(f"{python}: {e}") from e
    if done.returncode == MISSING:
        return None
    if done.returncode:
        raise RuntimeError(f"{python}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    return dict(json.loads(done.stdout))


# ---------------------------------------------------------------- its side

def answer(rows: Callable[[Any, Path, dict[str, Any]], dict[str, Any]]) -> int:
    """Answer one question on stdin, and return the exit code. `rows` takes the package, a folder and the question."""
    sys.path = [p for p in sys.path if Path(p or ".").resolve() != Path(__file__).resolve().parent]
    started = time.process_time()
    try:
        import accelforge as package  # type: ignore[import-not-found]
    except ImportError:
        return MISSING
    imported = time.process_time() - started
    told = json.load(sys.stdin)
    package.set_n_parallel_jobs(1)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        found = rows(package, Path(folder), told)
    from importlib.metadata import version
    print(json.dumps({"version": version("accelforge"), "import_s": imported, **found}))
    return 0


def map_workload(package: Any, architecture: Path, workload: Path) -> dict[str, Any]:
    """Return the least seconds of a workload on an architecture, the size of the space, how many mappings were evaluated, and CPU
    seconds."""
    from accelforge.mapper.FFM.main import join_pmappings, make_pmappings  # type: ignore[import-not-found]
    started = time.process_time()
    spec = package.Spec.from_yaml(architecture, workload)
    spec.mapper.metrics = package.mapper.Metrics.LATENCY
    made = make_pmappings(spec, print_progress=False)
    best = join_pmappings(made, metrics=package.mapper.Metrics.LATENCY, print_progress=False)
    return {"seconds": float(best.data["Total<SEP>latency"].astype(float).min()), "space": float(made.n_total_pmappings()),
            "evaluated": float(made.n_evaluated_pmappings()), "cpu_s": time.process_time() - started}
