"""Subgraph tuning as a job: a plan that is kept, timed again and taken, result files, and what forbids it."""
from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aoec import cli
from aoec.artifact.artifact import load as load_artifact
from aoec.bank.bank import Bank
from aoec.bank.plans import SlicePlan
from aoec.base.regions import show as show_regions
from aoec.frontend.read.metadata import value
from aoec.frontend.read.metadata import write as write_entry
from aoec.ir.graph.graph import Graph, Group
from aoec.ir.text.show import show
from aoec.jobs.bank.embedded import KEY
from aoec.jobs.choose import model_tasks as planning
from aoec.jobs.choose.subgraphs import Subgraph, place_regions, plan_regions, runs, subgraphs
from aoec.jobs.compile.compiled_model import Lines
from aoec.jobs.compile.steps import assemble as compiling
from aoec.jobs.compile.steps import choose_slices
from aoec.jobs.version import model_version
from aoec.lowering.arrange.slices import in_slices
from aoec.target.machine import load
from tests.jobs.test_slices import SMALL, chain, folder
from tests.oracle.schemas import faults

__all__ = ["folder"]  # a fixture
pytestmark = pytest.mark.usefixtures("few")

COMMON = ["--target", "small.toml", "--bank", "b.db", "--base", "none", "--jobs", "1"]
QUICK = [*COMMON, "--no-verify"]


def ran(*words: str, code: int = 0) -> None:
    assert cli.main(list(words)) == code


def results() -> list[dict[str, object]]:
    """What the newest result file says of subgraphs."""
    return json.loads(max(Path().glob("aoe_result_sgat_*.json")).read_text())


def longer_in_slices(model: compiling.Model, *more: object, real: Callable[..., Lines] = compiling.model_lines) -> Lines:
    """The figures of a model in which, in slices, a millisecond more goes by beside its subgraphs: L2 then holds other things."""
    lines = real(model, *more)
    return replace(lines, tuned=replace(lines.tuned, latency_us=lines.tuned.latency_us + 1000.0 * in_slices(model.graph)))


def test_a_plan_is_found_kept_and_taken_without_a_search(folder: Path, capsys: pytest.CaptureFixture[str],
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "small.toml").write_text(SMALL)
    ran("tune", "--job", "sgat", "images.onnx", *COMMON)
    said = capsys.readouterr()
    assert "as found" in said.err and "within" in said.out  # values are verified
    of = results()[1]["SGAT"]
    assert of["repo_summary"]["repo_add_num"] == of["repo_summary"]["total_num"] == 1
    plan, = Bank.open("b.db").plans.list()
    added, = of["repo_modified_subgraphs"]["add_repo_subgraphs"]
    assert (added["graph_key"], added["slices"]) == (plan.graph_key, plan.regions) and plan.after_ns < plan.before_ns
    assert added["performance_after_tune(ms)"] == of["model_result_performance(ms)"] == plan.after_ns / 1e6

    def never(*_: object) -> None:
        raise AssertionError("this is known")

    monkeypatch.setattr("aoec.jobs.choose.slices.find_regions", never)
    ran("tune", "--job", "sgat", "images.onnx", *QUICK, "-o", "again.aoec")
    assert results()[1]["SGAT"]["repo_summary"]["repo_reserved_num"] == 1 and "by the bank's plan" in capsys.readouterr().err
    ran("compile", "images.onnx", *QUICK, "--frozen", "-o", "c.aoec")
    assert "by the bank's plan" in capsys.readouterr().err
    assert Path("c.aoec").read_bytes() == Path("again.aoec").read_bytes() == Path("images.aoec").read_bytes()
    ran("compile", "images.onnx", *QUICK, "--slices", "none", "-o", "whole.aoec")
    assert not any("_1of" in g.name for g in load_artifact("whole.aoec").graph.groups)
    lowerings, lower = [], planning.place_groups
    monkeypatch.setattr("aoec.jobs.stages.tasks.place_groups", lambda graph: lowerings.append(graph) or lower(graph))
    ran("bank", "which", "images.onnx", *COMMON[:6])
    assert len(lowerings) == 1  # for its records and its plans
    assert f"plan of slices {plan.regions} by latency of g0..g" in (told := capsys.readouterr().out) and "(tried: a compile times" in told
    ran("bank", "which", "whole.aoec", *COMMON[:6], "--json")
    assert [x["regions"] for x in json.loads(capsys.readouterr().out) if "regions" in x] == [plan.regions]
    ran("bank", "which", "images.aoec", *COMMON[:6], code=2)
    assert "ask of its ONNX model" in capsys.readouterr().err
    ran("bank", "verify", "--bank", "b.db", "--target", "small.toml")
    assert "unknown" in (told := capsys.readouterr().out) and "only a compile of its model" in told and "differs" not in told
    ran("deliver", "images.aoec", "--to", "out", "--soc", "Ascend310P3")
    assert "no public file tells CANN of that" in capsys.readouterr().out
    with monkeypatch.context() as m:
        m.setattr(compiling, "model_lines", longer_in_slices)
        ran("compile", "images.onnx", *QUICK, "-o", "l.aoec")
    assert "a plan that is no faster" in capsys.readouterr().err and Path("l.aoec").read_bytes() == Path("whole.aoec").read_bytes()
    instead(plan, schedules="0" * 16)
    ran("bank", "which", plan.graph_key[:9], "--bank", "b.db", "--target", "small.toml")
    assert "tried" in capsys.readouterr().out
    ran("bank", "which", "images.onnx", *COMMON[:6])
    assert "it was found for other schedules of the same groups" in capsys.readouterr().out
    instead(plan, model_version="another")
    ran("bank", "which", plan.graph_key[:9], "--bank", "b.db", "--target", "small.toml")
    assert "not used" in (told := capsys.readouterr().out) and "stale" in told
    ran("compile", "images.onnx", *QUICK, "-o", "w.aoec")
    assert "slices" not in capsys.readouterr().err and Path("w.aoec").read_bytes() == Path("whole.aoec").read_bytes()


def test_looking_ends_with_the_time_of_the_job(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What was not looked at is not said to gain nothing; the counts of a run by time repeat it; with time enough the plan is found."""
    (folder / "small.toml").write_text(SMALL)
    with monkeypatch.context() as m:
        m.setattr(choose_slices, "LOOKING", 0.0)
        m.setattr("aoec.jobs.choose.slices.recall", lambda at, make, *more: make())  # no earlier run has an answer
        ran("tune", "--job", "sgat", "images.onnx", *QUICK, "--time", "30s", "--report", "r")
    assert len(results()) == 2 and Bank.open("b.db").plans.list() == ()
    counts = json.loads(Path("r/report.json").read_text())["searches"]["limits"]
    assert counts["slices"]["asked"] == 1
    ran("tune", "--job", "sgat", "images.onnx", *QUICK, "--counts", "r/report.json")
    assert Bank.open("b.db").plans.list() == ()
    ran("tune", "--job", "sgat", "images.onnx", *QUICK, "--time", "5m")
    assert [p.is_faster for p in Bank.open("b.db").plans.list()] == [True] and "as found" in capsys.readouterr().err


def test_a_model_carries_its_plan(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """With its schedules whole and in slices: a compile of the copy without a bank searches nothing and makes the same bytes, and where the
    plan is a stranger's that gains nothing the model stays whole."""
    (folder / "small.toml").write_text(SMALL)
    ran("compile", "images.onnx", *QUICK, "--slices", "auto", "--tune", "--budget", "8", "--embed", "copy.onnx", "-o", "a.aoec")
    said = json.loads(value("copy.onnx", KEY))
    assert faults("embedded", said) == [] and len(said["plans"]) == 1 and "and a plan of slices, in copy.onnx" in capsys.readouterr().err
    elsewhere = [w.replace("b.db", "other.db") for w in QUICK]
    monkeypatch.setattr("aoec.jobs.choose.slices.find_regions", lambda *_: pytest.fail("this is known"))
    ran("compile", "copy.onnx", *elsewhere, "--tune", "--budget", "8", "--frozen", "-o", "b.aoec")
    told = capsys.readouterr().err
    assert "groups, and a plan of slices" in told and "by the bank's plan" in told
    one, other = load_artifact("a.aoec"), load_artifact("b.aoec")
    assert (one.graph, one.groups) == (replace(other.graph, name=one.graph.name), other.groups)
    said["plans"][0]["regions"] = "g0..g1/3"
    write_entry("copy.onnx", "copy.onnx", KEY, json.dumps(said))
    ran("compile", "copy.onnx", *elsewhere, "-o", "c.aoec")
    assert not any("_1of6" in g.name for g in load_artifact("c.aoec").graph.groups)


def test_a_plan_by_throughput_is_kept_by_the_time_between_two_inferences(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be slower in one inference, which the bank does not ask of it: both times of the plan are of what it was looked for."""
    (folder / "small.toml").write_text(SMALL)
    real = compiling.model_lines

    def slow_to_begin(model: compiling.Model, *more: object) -> Lines:
        """The figures of a model whose first inference waits a millisecond where it runs in slices."""
        lines = real(model, *more)  # type: ignore[arg-type]
        wait = 1000.0 * in_slices(model.graph)
        line = lines.tuned
        late = replace(line, latency_us=line.latency_us + wait, spans_us=tuple((a + wait, b + wait) for a, b in line.spans_us))
        return replace(lines, tuned=late)

    monkeypatch.setattr(compiling, "model_lines", slow_to_begin)
    monkeypatch.setattr("aoec.jobs.choose.slices.find_regions", lambda *_: [("g0", "g2", 6)])
    ran("tune", "--job", "sgat", "images.onnx", *QUICK, "--metric", "throughput")
    plan, = Bank.open("b.db").plans.list()
    assert plan.is_faster and plan.after_ns == pytest.approx(dict(load_artifact("images.aoec").figures)["throughput_period_ns"], abs=1)
    of = results()[1]["SGAT"]
    assert [1e6 * of[f"model_{name}_performance(ms)"] for name in ("baseline", "result")] == [plan.before_ns, plan.after_ns]


def instead(plan: SlicePlan, **wrong: object) -> None:
    """The bank then holds this plan, with other fields."""
    plans = Bank.open("b.db").plans
    plans.drop(plans.list())
    plans.put_all([replace(plan, **wrong)])  # type: ignore[arg-type]


def test_a_plan_that_is_slower_is_left(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A stranger's claims: of slices that gain nothing where L2 is large, of groups that are not there, of parts that there are none of."""
    machine = load("Ascend310P3")
    for metric, claims in (("latency", [("g0..g77/2", "no faster"), ("g0..g2/5000", "are not taken: slices: ")]),
                           ("throughput", [("g0..g2/6", "no faster")])):
        words = ["compile", "images.onnx", "--target", "Ascend310P3", "--bank", "b.db", "--base", "none", "--jobs", "1", "--metric", metric]
        ran(*words, "--slices", "none", "-o", "whole.aoec")
        made = load_artifact("whole.aoec")
        s, = subgraphs(made.graph, {g.group: show(g.trace) for g in made.groups if g.trace})
        for regions, said in claims:
            instead(SlicePlan(s.graph_key, machine.name, machine.hash, model_version(), s.schedules, metric, "x", regions, 900, 1))
            capsys.readouterr()
            ran(*words, "-o", "cut.aoec")
            assert said in capsys.readouterr().err and Path("cut.aoec").read_bytes() == Path("whole.aoec").read_bytes()


def test_what_forbids_a_plan_is_said(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "small.toml").write_text(SMALL)
    ran("compile", "images.onnx", *QUICK, "-o", "a.aoec")
    ran("compile", "images.onnx", *QUICK, "--slices", "auto", "--frozen", "-o", "a.aoec", code=2)
    assert "has no plan of slices of images, and --frozen forbids to look for one" in capsys.readouterr().err
    ran("tune", "images.onnx", "--job", "sgat", *QUICK, "--slices", "g0/2", code=2)
    assert "finds the groups that run in slices" in capsys.readouterr().err
    monkeypatch.setattr("aoec.jobs.choose.slices.find_regions", lambda *_: [])
    ran("tune", "images.onnx", "--job", "sgat", *QUICK)
    assert "no region of groups is faster" in capsys.readouterr().err
    assert results()[1]["SGAT"]["repo_summary"] | {"repo_unsatisfied_num": 1, "total_num": 1} == results()[1]["SGAT"]["repo_summary"]
    assert not Bank.open("b.db").plans.list()[0].is_faster


# ---------------------------------------------------------------- subgraphs

def test_a_subgraph_is_named_by_what_it_is_and_ends_at_the_host() -> None:
    graph = chain(4, 2)
    one, = subgraphs(graph, {"g0": "a", "g1": "b"})
    other = replace(graph, name="other", groups=(Group("x", "vector", ("relu",)), Group("y", "vector", ("abs",))))
    assert subgraphs(other, {"x": "a", "y": "b"}) == [replace(one, groups=("x", "y"))]
    assert subgraphs(graph, {"g0": "c", "g1": "b"})[0].schedules != one.schedules
    assert subgraphs(chain(8, 2), {})[0].graph_key != one.graph_key
    hosted = replace(graph, groups=(Group("g0", "vector", ("relu",)), Group("h", "host", ("abs",))))
    assert runs(hosted) == [("g0",)] and runs(Graph("none", (), (), (), ())) == []


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(2, 9)), max_size=3))
def test_regions_are_kept_by_place(found: list[tuple[int, int, int]]) -> None:
    s = Subgraph(("a", "b_joined", "c", "d", "e"), "0" * 64, "0" * 16)
    regions = [(s.groups[min(a, b)], s.groups[max(a, b)], n) for a, b, n in found]
    assert plan_regions(show_regions(place_regions(regions, s)), s) == regions and plan_regions("g0..g5/2", s) == ()
