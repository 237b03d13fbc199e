"""The report and the delivery of a gradient tuning job, by the command: figures are those of the plan, files belong together."""
from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from aoec import cli
from aoec.collectives import system
from aoec.jobs.gdat import gradient_report
from aoec.jobs.gdat.trace_files import read_trace
from aoec.search.buckets import Limits, baselines, plan
from tests.oracle.schemas import faults
from tests.report.test_page import Read, check_numbers

ROWS = "# forward_us = 4785\n# optimiser_us = 320\nname,bytes,ready_us,read_us\n" + "".join(
    f"layer{60 - i}.weight,{4 * (1 + 7919 * i % 500_000)},{150.0 * (i + 1)},{70.0 * (59 - i)}\n" for i in range(60))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a trace, and the result and report of planning it."""
    at = tmp_path_factory.mktemp("gdat")
    (at / "steps.csv").write_text(ROWS)
    words = ["tune", "--job", "gdat", "--trace", str(at / "steps.csv"), "--system", "ib56-8", "--results", str(at)]
    assert cli.main([*words, "--report", str(at / "report")]) == 0
    yield at


def result(made: Path) -> Path:
    (found,) = made.glob("aoe_result_gdat_*.json")
    return found


def test_the_report_says_what_the_plan_is(made: Path) -> None:
    said = json.loads((made / "report" / "report.json").read_text())
    assert faults("gradients", said) == []
    check_numbers(said, Read((made / "report" / "index.html").read_text()).numbers)
    trace, costs = read_trace(str(made / "steps.csv")).trace, system.load("ib56-8")
    ours, others = plan(trace, costs, Limits()), baselines(trace, costs)
    plans = {p["name"]: p for p in said["plans"]}
    assert {name: plans[name]["step_us"] for name in others} == {name: p.timeline.step_us for name, p in others.items()}
    assert said["plans"][0]["step_us"] == ours.timeline.step_us and said["plans"][0]["ends"] == list(ours.plan.ends)
    assert said["before"] == "ddp" and said["saved_us"] == others["ddp"].timeline.step_us - ours.timeline.step_us
    assert said["times"]["compute"] == "measured"
    limits = said["limits"]
    assert [x["most"] for x in limits] == list(range(1, 17)) and all(x["buckets"] <= x["most"] for x in limits)
    assert all(a["step_us"] >= b["step_us"] - 1e-6 for a, b in pairwise(limits))
    assert limits[0]["step_us"] == pytest.approx(others["one"].timeline.step_us)
    for k in (2, 5):
        assert limits[k - 1]["step_us"] == pytest.approx(plan(trace, costs, Limits(most_segments=k)).timeline.step_us)
    for c in said["system"]["costs"]:
        assert c["us"] == costs.us(c["collective"], [c["bytes"]])[0]
    assert {name.name for name in (made / "report").iterdir()} == {"index.html", "report.json", "step.svg", "step.trace.json"}
    written = json.loads(result(made).read_text())[1]["GDAT"]
    assert written["plan"]["step_us"] == pytest.approx(said["plans"][0]["step_us"], abs=1e-5) and written["lines"] == said["lines"]
    assert written["plan"]["hidden_share"] == pytest.approx(said["plans"][0]["hidden_share"], abs=1e-5)


def test_a_page_beside_a_model_leads_back(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = []
    monkeypatch.setattr("aoec.jobs.gdat.trace_job.write_page", lambda f, folder: found.append(f) or folder)
    assert cli.main(["tune", "--job", "gdat", "--trace", str(made / "steps.csv"), "--system", "910b-8", "--scheme", "split",
                     "--results", str(made / "more"), "--report", str(made / "unused")]) == 0
    files = gradient_report.page_files(found[0], alone=False)
    assert set(files) == {"gradients.html", "gradients.json", "step.svg", "step.trace.json"} and not (made / "unused").exists()
    said = json.loads(files["gradients.json"])
    assert faults("gradients", said) == [] and said["plans"][0]["scheme"] == "split"
    links = [a.get("href") for tag, a in Read(files["gradients.html"]).tags if tag == "a"]
    assert "index.html" in links and "gradients.json" in links
    assert any("by all-reduce" in note for note in said["notes"]) and "whole" in {p["name"] for p in said["plans"]}


def test_many_gradients_have_no_chart_of_limits(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradient_report, "MOST_LIMITED", 59)
    assert cli.main(["tune", "--job", "gdat", "--trace", str(made / "steps.csv"), "--system", "910b-8", "--results", str(made / "many"),
                     "--report", str(made / "many")]) == 0
    said = json.loads((made / "many" / "report.json").read_text())
    assert said["limits"] == [] and faults("gradients", said) == []
    assert "The same in numbers" not in (made / "many" / "index.html").read_text()


# ---------------------------------------------------------------- deliver

def test_a_delivery_of_gradients_alone_holds_the_runs_files(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = made / "out"
    assert cli.main(["deliver", str(result(made)), "--to", str(out)]) == 0
    table, said = capsys.readouterr().out, json.loads((out / "deliver.json").read_text())
    assert faults("deliver", said) == [] and table == (out / "deliver.txt").read_text()
    assert {*said["files"]} == {str(p.relative_to(out)) for p in out.rglob("*") if p.is_file()}
    of = json.loads(result(made).read_text())[1]["GDAT"]
    g = said["gradients"]
    assert (g["step_us"], g["before_us"]) == (of["plan"]["step_us"], of["other_plans"]["ddp"]["step_us"]) and g["lines"] == of["lines"]
    planned = json.loads((out / "gradients" / "plan.json").read_text())
    assert [b["bytes"] for b in planned["buckets"]] == of["plan"]["bucket_bytes"]
    assert [name for b in planned["buckets"] for name in b["gradients"]] == [f"layer{60 - i}.weight" for i in range(60)]
    text = (out / "APPLY.md").read_text()
    assert all(line in text for line in of["lines"].values()) and "hcom_parallel=True" in text and "Undo" in text
    assert "not yet run on a device by us" in text and "atc " not in text and "None" not in text
    again = str(out / "gradients" / "gradient_trace.json")
    assert cli.main(["tune", "--job", "gdat", "--trace", again, "--system", "ib56-8", "--results", str(made / "again")]) == 0
    (new,) = (made / "again").glob("aoe_result_gdat_*.json")
    assert json.loads(new.read_text())[1]["GDAT"]["plan"]["ends"] == of["plan"]["ends"]


@pytest.mark.parametrize("change, words", [
    (lambda f: f.unlink(), "the files of this run are not beside it"),
    (lambda f: f.write_text(ROWS.replace("layer60.weight,4,", "layer60.weight,8,")), "the record's sizes are not those of the trace"),
    (lambda f: f.write_text("\n".join(ROWS.splitlines()[:-1])), "the plan is not of the trace beside it"),
])
def test_files_that_do_not_belong_together_are_refused(made: Path, tmp_path: Path, change: Any, words: str,
                                                       capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(result(made), tmp_path)
    run = result(made).name.removeprefix("aoe_result_gdat_").removesuffix(".json")
    shutil.copytree(made / f"tuning_results_{run}", tmp_path / f"tuning_results_{run}")
    change(tmp_path / f"tuning_results_{run}" / "gradients" / "gradient_trace.json")
    assert cli.main(["deliver", str(tmp_path / result(made).name), "--to", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert words in said and "Traceback" not in said and not (tmp_path / "out").exists()


@pytest.mark.parametrize("text", ["", "[", "{}", "[{}, {}]", '[{"basic": {}}, {"GDAT": {}}]', '[{"basic": []}, {"GDAT": 4}]', "[1, 2]",
                                  '[{"basic": {"tuning_name": "a"}}]'])
def test_a_damaged_result_is_one_sentence(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "aoe_result_gdat_1.json"
    path.write_text(text)
    assert cli.main(["deliver", str(path), "--to", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said and len(said.strip().splitlines()) == 1 and not (tmp_path / "out").exists()
