"""Operator tuning as a job: what the bank had, has and did not take up, as AOE counts it, and the file that says so."""
from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import onnx
import pytest

from aoec import cli
from aoec.frontend.zoo import mlp_softmax
from aoec.jobs.results import opat_file as opat
from aoec.report.results.folder import AFTER, BEFORE
from tests.oracle.schemas import faults

pytestmark = pytest.mark.usefixtures("poor", "few")


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

    @property
    def path_of_results(self) -> Path:
        """Of the last run."""
        return max((self.folder / "out").glob("aoe_result_opat_*_pid*.json"))

    @property
    def folder_of_results(self) -> Path:
        """Of the same run."""
        return max((self.folder / "out").glob("tuning_results_*_pid*"))

    def results(self) -> dict[str, Any]:
        """What it says, after all that it says was held against the schemas."""
        written = json.loads(self.path_of_results.read_text())
        assert faults("result", written) == [] and faults("summary", self.summary()) == []
        said: dict[str, Any] = written[1]["OPAT"]
        return said

    def summary(self) -> dict[str, Any]:
        """The same of the folder."""
        said: dict[str, Any] = json.loads((self.folder_of_results / "summary.json").read_text())
        return said

    def profile(self, when: str) -> list[dict[str, str]]:
        with open(self.folder_of_results / "profiling" / when / "op_summary.csv", newline="") as f:
            return list(csv.DictReader(f))



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
    the_folder_says_the_same(job, first)
    listed = job.tasks(20)
    assert sum("tuned" in t["bank"] for t in listed) == add and len(listed) == add + unsatisfied and not any(t["to_do_s"] for t in listed)
    assert sum(t["weight"] for t in listed) == pytest.approx(1) and sum(t["to_do_s"] for t in job.tasks(9999)) > 0
    assert job.run("--frozen") == 0  # nothing is searched, and what was not better is no hit
    assert counters(job) == (0, 0, add, unsatisfied) and job.results()["repo_modified_operators"] == []
    assert job.run("--repeat", budget=200) == 0
    again = counters(job)
    assert again[1] + again[2] == add and again[0] + again[3] == unsatisfied
    assert job.results()["model_result_performance(ms)"] <= first["model_result_performance(ms)"]


def the_folder_says_the_same(job: Job, said: dict[str, Any]) -> None:
    """As the result file, operator by operator; each task of the profile stands at its place, and the last ends with the model."""
    summary = job.summary()
    assert summary["counters"] == said["repo_summary"] and summary["status"] == said["opat_tuning_result"]
    assert summary["latency_after_ms"] == said["model_result_performance(ms)"]
    for op in summary["operators"]:
        told = json.loads((job.folder_of_results / op["file"]).read_text())
        assert faults("operator", told) == [] and all(told[k] == op[k] for k in ("name", "types", "outcome", "before_us", "after_us"))
        assert (told["schedule"] == told["default_schedule"]) == (op["outcome"] == "unsatisfied")
    for when, key in ((BEFORE, "model_baseline_performance(ms)"), (AFTER, "model_result_performance(ms)")):
        rows = job.profile(when)
        ends = [float(r["Task Start Time(us)"]) + float(r["Task Duration(us)"]) for r in rows]
        assert ends[-1] == pytest.approx(1e3 * said[key], abs=2e-3) and {r["source"] for r in rows} == {"modelled"}
        assert [float(r["Task Start Time(us)"]) - float(r["Task Wait Time(us)"]) for r in rows] == pytest.approx([0, *ends[:-1]], abs=1e-5)


def test_what_the_host_does_has_its_place_in_the_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = Job(tmp_path, capsys)
    onnx.save(onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> net (float[4, 40] x) => (float[4, 40] z) '
                                      "{ a = Relu(x) d = Cast<to = 11>(a) e = Sin(d) y = Cast<to = 1>(e) z = Exp(y) }"), job.path)
    assert job.run(budget=8) == 0
    rows = job.profile(AFTER)
    kinds = [r["Task Type"] for r in rows]
    assert kinds[0] == kinds[-1] == "AI_VECTOR_CORE" and set(kinds[1:-1]) == {"AI_CPU"}
    assert float(rows[-1]["Task Start Time(us)"]) > 20 * len(kinds[1:-1])  # a node on the host takes 20 µs or more
    assert float(rows[-1]["Task Start Time(us)"]) + float(rows[-1]["Task Duration(us)"]) == pytest.approx(
        1e3 * job.results()["model_result_performance(ms)"], abs=2e-3)


def test_frozen_names_what_the_bank_has_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = Job(tmp_path, capsys)
    assert job.run("--frozen") == 2
    said = capsys.readouterr().err
    assert "--frozen forbids to search: g" in said and "bank.db, which is not there, has no schedule" in said
    assert not [*tmp_path.glob("net.aoec"), *tmp_path.glob("*.db*")]


def test_a_job_that_is_stopped_leaves_its_results_so_far(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    job, write, written = Job(tmp_path, capsys), opat.write_text, []

    def stop(path: Path, text: str) -> None:
        write(path, text)
        written.append(path)
        if path.name == "summary.json" and written.count(path) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(opat, "write_text", stop)
    assert job.run() == 130
    assert job.results()["opat_tuning_result"] == "tuning incomplete" and job.results()["repo_summary"]["total_num"] == 1
    assert job.summary()["status"] == "tuning incomplete" and not (job.folder_of_results / "profiling").exists()
