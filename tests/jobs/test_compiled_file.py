"""What a compile with --results says of the model that it wrote: shares of the gain that add up, each launch once, and its own figures."""
from __future__ import annotations

import json
import os
import signal
from decimal import Decimal
from pathlib import Path
from typing import Any

import onnx
import pytest

from aoec import cli
from aoec.artifact.artifact import load, load_gears
from aoec.artifact.compiled import Artifact
from aoec.jobs.choose.model_tasks import host_times
from aoec.jobs.choose.rounds import passes_of_groups
from aoec.report.shares import Shares, as_dict, words
from aoec.target.machine import load as load_machine
from tests.frontend.test_walked import WALKED
from tests.frontend.written import seeded
from tests.jobs import test_slices
from tests.jobs.test_formats import job
from tests.jobs.test_slices import SMALL
from tests.oracle.schemas import faults

__all__ = ["job"]  # a fixture
pytestmark = pytest.mark.usefixtures("poor", "few")

COMMON = ["--base", "none", "--jobs", "1", "--no-verify", "--no-stock", "--budget", "8"]
TINY = """<ir_version: 8, opset_import: ["": 17]>
tiny (float[4,8] x) => (float[4,8] y) { y = Relu(x) }"""


@pytest.fixture
def place(job: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with models, and machines on which one gains by slices and one by NZ."""
    onnx.save(seeded(test_slices.TEXT), job / "images.onnx")
    onnx.save(seeded(TINY), job / "tiny.onnx")
    (job / "small.toml").write_text(SMALL)
    monkeypatch.chdir(job)
    return job


def compiled(model: str, target: str, *words: str, command: tuple[str, ...] = ("compile", "--tune")) -> Path:
    """The folder of results of a run that has come through."""
    to = Path(f"results{len(list(Path().glob('results*')))}")
    assert cli.main([*command, f"{model}.onnx", "--target", target, "--bank", "b.db", *COMMON, "--results", str(to), "--report", "r",
                     "-o", "out.aoec", *words]) == 0
    return to


def said_by(to: Path, name: str = "compiled_model.json") -> dict[str, Any]:
    """What is in the compiled model, after all files were held against their schemas."""
    (file,) = to.glob(f"tuning_results_*/{name}")
    said: dict[str, Any] = json.loads(file.read_text())
    assert name != "compiled_model.json" or faults("compiled", said) == []
    for kind, schema in (("opat", "result"), ("sgat", "sgat")):
        for result in to.glob(f"aoe_result_{kind}_*.json"):
            assert faults(schema, json.loads(result.read_text())) == []
    return said


def block(to: Path, job: str) -> dict[str, Any]:
    """What AOE's file of a kind of job says."""
    (file,) = to.glob(f"aoe_result_{job}_*.json")
    found: dict[str, Any] = json.loads(file.read_text())[1][job.upper()]
    return found


def exact(us: float) -> Decimal:
    return Decimal(repr(us))


def is_the_artifact(gear: dict[str, Any], artifact: Artifact, metric: str = "latency") -> None:
    """Figures are the artifact's, gains add up without a rest, and every launch of the artifact is there once with its time. A model in
    the default plan has its default figure too."""
    figures, shares, us = dict(artifact.figures), gear["shares"], load_machine_of(artifact).us_per_tick
    assert gear["figures"] == figures
    assert 1000 * exact(shares["after_sgat_us"]) == figures["throughput_period_ns" if metric == "throughput" else "latency_ns"]
    if metric == "latency" and not shares["sgat_gain_us"]:
        assert 1000 * exact(shares["default_us"]) == figures["latency_default_ns"]
    assert exact(shares["opat_gain_us"]) == exact(shares["default_us"]) - exact(shares["after_opat_us"])
    assert exact(shares["opat_gain_us"]) + exact(shares["sgat_gain_us"]) == exact(shares["gain_us"])
    assert exact(shares["default_us"]) - exact(shares["gain_us"]) == exact(shares["after_sgat_us"])
    assert shares["opat_share"] is None or shares["opat_share"] + shares["sgat_share"] == pytest.approx(1)
    listed = [x for o in gear["operators"] for x in o["launches"]]
    often, host = passes_of_groups(artifact.graph), host_times(artifact.graph)
    wanted = {g.group: g.ticks * us for g in artifact.groups if g.trace is not None} | host
    assert sorted(x["name"] for x in listed) == sorted(wanted)
    for x in listed:
        assert x["us"] == pytest.approx(wanted[x["name"]], rel=1e-9) and x["passes"] == often[x["name"]]
    assert sum(o["us"] for o in gear["operators"]) == pytest.approx(figures["isolated_ns"] / 1000, abs=1e-3)
    assert max(x["stop_us"] for x in listed) == pytest.approx(figures["latency_ns"] / 1000, abs=1e-3)
    for o in gear["operators"]:
        assert o["slices"] == len(o["launches"]) and o["us"] == pytest.approx(sum(x["passes"] * x["us"] for x in o["launches"]))


def load_machine_of(artifact: Artifact) -> Any:
    from aoec.target.machine import parse_machine
    return parse_machine(artifact.machine, "the artifact") if artifact.machine else load_machine(artifact.target)


def is_told_alike(to: Path, gear: dict[str, Any]) -> None:
    """The report, and a delivery, say the same figures; profile and rows are of the model's own nodes."""
    report = json.loads(Path("r/report.json").read_text())
    assert report["shares"] == gear["shares"] and faults("report", report) == []
    launches = {x["name"]: x for x in report["structure"]["launches"]}
    for o in gear["operators"]:
        assert launches[o["name"]]["slices"] == o["slices"]
        assert launches[o["name"]]["us"] == pytest.approx(sum(x["us"] for x in o["launches"]))
    assert cli.main(["deliver", "out.aoec", "--to", str(to / "delivery"), "--soc", "Ascend310P3"]) == 0
    delivery = json.loads((to / "delivery/deliver.json").read_text())
    assert faults("deliver", delivery) == [] and delivery["figures"] == [{"gear": "", **gear["figures"]}]
    assert delivery["total_us"] == pytest.approx(gear["figures"]["isolated_ns"] / 1000, abs=1e-3)
    nodes = {n.name for n in load("out.aoec").graph.nodes}
    assert {o["name"] for o in said_by(to, "summary.json")["operators"]} <= nodes


def test_a_model_that_runs_in_slices(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both kinds of tuning have brought something; what was tuned whole is named apart. A second run says the same, and no new gain."""
    to = compiled("images", "small.toml")
    assert "(OPAT)" in capsys.readouterr().out
    said = said_by(to)
    (gear,) = said["gears"]
    is_the_artifact(gear, load("out.aoec"))
    is_told_alike(to, gear)
    assert gear["shares"]["opat_gain_us"] > 0 < gear["shares"]["sgat_gain_us"]
    assert {o["slices"] for o in gear["operators"]} != {1} and all(o["imported"] or o["added"] for o in gear["operators"])
    opat, sgat = block(to, "opat"), block(to, "sgat")
    assert opat["shares"] == sgat["shares"] == gear["shares"]
    assert opat["model_result_performance(ms)"] == sgat["model_baseline_performance(ms)"] == gear["shares"]["after_opat_us"] / 1000
    assert sgat["model_result_performance(ms)"] == gear["shares"]["after_sgat_us"] / 1000
    assert opat["model_baseline_performance(ms)"] == gear["shares"]["default_us"] / 1000
    whole = {x["op_name"] for x in said["tuned_not_in_model"]}
    assert whole and not whole & {n.name for n in load("out.aoec").graph.nodes}
    assert cli.main(["results", str(to)]) == 0 and "by layouts and slices (sgat" in capsys.readouterr().out
    before = Path("out.aoec").read_bytes()
    again = compiled("images", "small.toml")
    assert said_by(again) == {**said, "tuned_not_in_model": []} and Path("out.aoec").read_bytes() == before
    assert {block(again, job)["model_performance_improvement"] for job in ("opat", "sgat")} == {"0.00%"}


def test_a_model_with_matrices_in_nz(place: Path) -> None:
    """What layouts bring is subgraph tuning's where both kinds are tuned."""
    to = compiled("mlp", "rows.toml", "--metric", "throughput")
    said = said_by(to)
    (gear,) = said["gears"]
    is_the_artifact(gear, load("out.aoec"), "throughput")
    is_told_alike(to, gear)
    assert gear["shares"]["sgat_gain_us"] > 0 and {x["op_type"] if isinstance(x["op_type"], str) else x["op_type"][0]
                                                  for x in said["tuned_not_in_model"]} == {"MatMulV2"}
    (layout,) = block(to, "sgat")["repo_modified_layouts"]
    assert layout["tune_performance"].keys() == {"Format"}
    assert not any("Format" in e["tune_performance"] for e in block(to, "opat")["repo_modified_operators"])
    assert block(to, "opat")["repo_summary"]["total_num"] == len({c.func_key for c in load("out.aoec").groups if c.func_key})


def test_a_model_that_gains_nothing(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    to = compiled("tiny", "Ascend910B3")
    (gear,) = said_by(to)["gears"]
    is_the_artifact(gear, load("out.aoec"))
    is_told_alike(to, gear)
    assert gear["shares"]["gain_us"] == 0 and gear["shares"]["opat_share"] is None and "(OPAT)" not in capsys.readouterr().out
    assert block(to, "opat")["model_performance_improvement"] == "0.00%"


def test_each_kind_of_job_alone_says_what_its_model_has(place: Path) -> None:
    for kind in ("opat", "sgat"):
        to = compiled("images", "small.toml", command=("tune", "--job", kind)) if kind == "opat" else alone(kind)
        (gear,) = said_by(to)["gears"]
        is_the_artifact(gear, load("out.aoec"))
        assert [p.name.split("_")[2] for p in to.glob("aoe_result_*")] == [kind]
        assert block(to, kind)["shares"] == gear["shares"]
        assert block(to, kind)["model_result_performance(ms)"] == gear["shares"]["after_sgat_us"] / 1000


def alone(kind: str) -> Path:
    """The results of a job without a budget."""
    words = ["tune", "images.onnx", "--job", kind, "--target", "small.toml", "--bank", "c.db", "--base", "none", "--jobs", "1"]
    assert cli.main([*words, "--no-verify", "--results", "alone", "-o", "out.aoec"]) == 0
    return Path("alone")


def test_a_loop_is_there_as_often_as_it_runs(place: Path) -> None:
    """With a profile: it could not be written before."""
    onnx.save(WALKED["a loop that data end"], "loop.onnx")
    to = compiled("loop", "Ascend910B3", "--precision", "fp32", command=("tune",))
    (gear,) = said_by(to)["gears"]
    is_the_artifact(gear, load("out.aoec"))
    assert {x["passes"] for o in gear["operators"] for x in o["launches"]} > {1.0}


def test_gears_each_have_their_shares(place: Path) -> None:
    text = TINY.replace("float[4,8] x", "float[N,8] x").replace("float[4,8] y", "float[N,8] y")
    onnx.save(onnx.parser.parse_model(text), "gears.onnx")
    to = compiled("gears", "Ascend910B3", "--dynamic-batch", "2,300")
    said, artifacts = said_by(to), load_gears("out.aoec")
    assert [g["gear"] for g in said["gears"]] == [a.gear for a in artifacts] and len(artifacts) == 2
    for gear, artifact in zip(said["gears"], artifacts):
        is_the_artifact(gear, artifact)
    assert [g["shares"] for g in block(to, "opat")["gears"]] == [g["shares"] for g in said["gears"]]


def test_an_interrupted_run_that_goes_on_says_the_same(place: Path) -> None:
    """Killed after each of some answers, by signal 9, in a process of its own."""
    first = said_by(compiled("images", "small.toml"))
    model = Path("out.aoec").read_bytes()
    for path in Path().glob("b.db*"):
        path.unlink()
    for left in (1, 3):  # of three groups whole, and three of slices
        child = os.fork()
        if not child:
            _die_after(left)
            compiled("images", "small.toml", "--resume")
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    to = compiled("images", "small.toml", "--resume")
    assert said_by(to) == first and Path("out.aoec").read_bytes() == model


def _die_after(tasks: int) -> None:
    """Lets this process be killed once so many tasks are done."""
    from aoec.jobs.tune.resume import Unfinished
    keep, done = Unfinished.keep, []

    def last(self: Unfinished, *what: Any) -> None:
        keep(self, *what)
        done.append(what)
        if len(done) == tasks:
            os.kill(os.getpid(), signal.SIGKILL)

    Unfinished.keep = last  # type: ignore[method-assign, assignment]


def test_shares_of_nothing_are_none() -> None:
    assert as_dict(Shares(3000, 2000, 1500))["opat_share"] == pytest.approx(2 / 3) and words(Shares(7, 7, 7)) == ""
    assert as_dict(Shares(7, 7, 7))["sgat_share"] is None
