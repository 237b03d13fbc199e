"""What a tuning job says that it gained is what it gained: against a build of the model with the bank as it was before."""
from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from aoec import cli
from aoec.artifact.artifact import load as load_artifact
from tests.jobs.test_slices import SMALL, folder

__all__ = ["folder"]  # a fixture
pytestmark = pytest.mark.usefixtures("few")

COMMON = ["--target", "small.toml", "--base", "none", "--jobs", "1", "--no-verify"]


def built(bank: str) -> int:
    """Nanoseconds, modelled, of an inference of a build with a copy of the bank: what the baseline of the next job must be."""
    copy = Path("copy.db")
    copy.unlink(missing_ok=True)
    if Path(bank).exists():
        shutil.copyfile(bank, copy)
    assert cli.main(["compile", "images.onnx", *COMMON, "--bank", str(copy), "-o", "built.aoec"]) == 0
    return int(dict(load_artifact("built.aoec").figures)["latency_ns"])


def tuned(job: str, number: int) -> tuple[dict[str, Any], Path]:
    """What the result file of a job says, and the folder of its results."""
    to = Path(f"results{number}")
    assert cli.main(["tune", "images.onnx", "--job", job, *COMMON, "--bank", "b.db", *(["--budget", "8"] if job == "opat" else []),
                     "--results", str(to), "-o", "tuned.aoec"]) == 0
    result, = to.glob(f"aoe_result_{job}_*.json")
    found: dict[str, Any] = json.loads(result.read_text())[1][job.upper()]
    return found, next(iter(to.glob("tuning_results_*")), to)


def latency_us(profile: Path) -> float:
    """When the last task of a profile ends."""
    rows = list(csv.DictReader(profile.open()))
    return max(float(r["Task Start Time(us)"]) + float(r["Task Duration(us)"]) for r in rows)


def test_each_job_counts_what_it_found_and_nothing_twice(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Subgraphs, then operators, then both again: each baseline is the build that the bank made possible before, and what is found once is
    said once. The rows of operators are of the model as it is: of slices, where it runs in slices."""
    (folder / "small.toml").write_text(SMALL)
    seen = []
    for number, job in enumerate(("sgat", "opat", "opat", "sgat")):
        before_ns = built("b.db")
        assert ("not tuned: --tune" in capsys.readouterr().out) == (number < 2)  # not where the bank knows all of the model
        said, files = tuned(job, number)
        told = capsys.readouterr().out
        assert "not tuned" not in told
        after_ns = dict(load_artifact("tuned.aoec").figures)["latency_ns"]
        assert [round(1e6 * said[f"model_{name}_performance(ms)"]) for name in ("baseline", "result")] == [before_ns, after_ns]
        counted = said["repo_summary"]
        new = counted["repo_add_num"] + counted["repo_update_num"]
        assert (new == 0) == (said["model_performance_improvement"] == "0.00%") == ("nothing new was found" in told)
        seen.append((new, before_ns, after_ns))
        if job == "opat":
            summary = json.loads((files / "summary.json").read_text())
            assert (summary["latency_before_ms"], summary["latency_after_ms"]) == (before_ns / 1e6, after_ns / 1e6)
            for when, ns in (("before", before_ns), ("after", after_ns)):
                assert latency_us(files / f"profiling/{when}_tuning/op_summary.csv") == pytest.approx(ns / 1e3, abs=2e-3)
            nodes = {n.name for n in load_artifact("tuned.aoec").graph.nodes}
            assert nodes >= {o["name"] for o in summary["operators"]} and any("_1of" in o["name"] for o in summary["operators"])
            assert sorted(p.name for p in (files / "op_tuning").iterdir()) == sorted(Path(o["file"]).name for o in summary["operators"])
    assert [new > 0 for new, _, _ in seen] == [True, True, False, seen[3][0] > 0]
    assert seen[0][1] > seen[0][2] and [before for _, before, _ in seen[1:]] == [after for _, _, after in seen[:3]]
