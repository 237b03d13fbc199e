"""Operator tuning as a job: what the bank had, has and did not take up, as AOE counts it, and the file that says so."""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest

from aoec import cli
from aoec.frontend.zoo import mlp_softmax
from aoec.jobs import opat


class Job:
    """A small model and its bank in a folder of their own."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys
        self.path = folder / "net.onnx"
        onnx.save(mlp_softmax(), self.path)

    def run(self, *words: str, budget: int = 20) -> int:
        self.capsys.readouterr()
        places = {"--bank": "bank.db", "--results": "out", "-o": "net.aoec"}
        return cli.main(["tune", str(self.path), "--job", "opat", "--budget", str(budget), "--jobs", "1", *words,
                         *[word for option, name in places.items() for word in (option, str(self.folder / name))]])

    def tasks(self, budget: int) -> list[dict[str, Any]]:
        """What is listed of the tasks."""
        self.capsys.readouterr()
        assert cli.main(["tasks", str(self.path), "--json", "--budget", str(budget), "--bank", str(self.folder / "bank.db")]) == 0
        listed: list[dict[str, Any]] = json.loads(self.capsys.readouterr().out)["tasks"]
        return listed

    def results(self) -> dict[str, Any]:
        """Of the last run."""
        path = max((self.folder / "out").glob("aoe_result_opat_*_pid*.json"))
        said: dict[str, Any] = json.loads(path.read_text())[1]["OPAT"]
        return said




def counters(job: Job) -> tuple[int, ...]:
    n = job.results()["repo_summary"]
    return tuple(n[f"repo_{k}_num"] for k in ("add", "update", "reserved", "unsatisfied"))


def test_a_bank_is_filled_kept_and_improved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = Job(tmp_path, capsys)
    assert {t["bank"] for t in job.tasks(20)} == {"none"} and all(t["to_do_s"] > 0 for t in job.tasks(20))
    assert job.run() == 0
    add, update, reserved, unsatisfied = counters(job)
    first = job.results()
    assert add > 0 and update == reserved == 0 and len(first["repo_modified_operators"]) == add
    assert first["opat_tuning_result"] == "tuning successful"
    assert first["model_result_performance(ms)"] <= first["model_baseline_performance(ms)"]
    listed = job.tasks(20)
    assert sum("tuned" in t["bank"] for t in listed) == add and len(listed) == add + unsatisfied and not any(t["to_do_s"] for t in listed)
    assert sum(t["weight"] for t in listed) == pytest.approx(1) and sum(t["to_do_s"] for t in job.tasks(9999)) > 0
    assert job.run("--frozen") == 0  # nothing is searched, and what was not better is no hit
    assert counters(job) == (0, 0, add, unsatisfied) and job.results()["repo_modified_operators"] == []
    assert job.run("--repeat", budget=200) == 0
    again = counters(job)
    assert again[1] + again[2] == add and again[0] + again[3] == unsatisfied
    assert job.results()["model_result_performance(ms)"] <= first["model_result_performance(ms)"]


def test_frozen_names_what_the_bank_has_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = Job(tmp_path, capsys)
    assert job.run("--frozen") == 2
    said = capsys.readouterr().err
    assert "--frozen forbids to search: g" in said and "bank.db has no schedule" in said and not (tmp_path / "net.aoec").exists()


def test_a_job_that_is_stopped_leaves_its_results_so_far(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    job, write, written = Job(tmp_path, capsys), opat.write_text, []

    def stop(path: Path, text: str) -> None:
        write(path, text)
        written.append(path)
        if len(written) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(opat, "write_text", stop)
    assert job.run() == 130
    assert job.results()["opat_tuning_result"] == "tuning incomplete" and job.results()["repo_summary"]["total_num"] == 1
