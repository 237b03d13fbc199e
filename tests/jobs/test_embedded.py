"""Schedules that a model's own file carries: used where they are what they say and were made for this machine, else said and left."""
from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest

from aoec import cli
from aoec.bank.claims import Claimed, kept_model_plans
from aoec.bank.record import Record
from aoec.frontend.read.metadata import value, write
from aoec.frontend.zoo import mlp_softmax
from aoec.ir.text.parse import place_plan
from aoec.jobs.bank.embedded import KEY, below
from aoec.jobs.bank.plan_claims import model_key
from aoec.jobs.choose.model_tasks import Task, tasks
from aoec.jobs.compile import compile as compiling
from aoec.jobs.compile.compiled_model import Made
from aoec.jobs.compile.models import fuse_model, import_model
from aoec.jobs.tune.order import keys
from aoec.target.machine import load
from tests.oracle.schemas import faults

pytestmark = pytest.mark.usefixtures("poor", "few")

Said = dict[str, Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds net.onnx, and tuned/net.onnx with its schedules, which are in no bank but one that is not used again."""
    path = tmp_path_factory.mktemp("embedded")
    (path / "tuned").mkdir()
    onnx.save(mlp_softmax(), path / "net.onnx")
    places = {"--bank": "first.db", "-o": "net.aoec", "--embed": "tuned/net.onnx", "--results": "out"}
    words = [word for option, name in places.items() for word in (option, str(path / name))]
    assert cli.main(["tune", str(path / "net.onnx"), "--budget", "16", "--jobs", "1", *words]) == 0
    return path


@pytest.fixture(scope="module")
def plan(folder: Path) -> list[Task]:
    machine = load("Ascend910B3")
    graph, weights, _, _ = import_model(str(folder / "net.onnx"), {}, "fp16")
    return tasks(fuse_model(graph, weights, machine)[0], machine)


def test_the_copy_is_the_model_with_its_schedules(folder: Path) -> None:
    copy, model = (onnx.load(folder / name / "net.onnx") for name in ("tuned", "."))
    said = json.loads(copy.metadata_props[0].value)
    assert faults("embedded", said) == [] and len(said["records"]) == 6
    del copy.metadata_props[:]
    assert copy == model


def test_they_are_hits_where_the_bank_has_none(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is searched, values are verified again, and what comes of it is what was made of the model itself."""
    out = tmp_path / "net.aoec"
    words = ["--budget", "16", "--jobs", "1", "--frozen", "--bank", tmp_path / "b.db", "--results", tmp_path, "-o", out]
    assert cli.main(["tune", str(folder / "tuned" / "net.onnx"), *map(str, words)]) == 0
    assert "the model's file has schedules for 3 of 3 different groups" in capsys.readouterr().err.splitlines()
    counted = json.loads(next(tmp_path.glob("aoe_result_opat_*.json")).read_text())[1]["OPAT"]["repo_summary"]
    assert counted["repo_reserved_num"] > 0 == counted["repo_add_num"] and out.read_bytes() == (folder / "net.aoec").read_bytes()


def test_tasks_know_of_them(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["tasks", str(folder / "tuned" / "net.onnx"), "--json", "--budget", "16", "--bank", str(tmp_path / "none.db")]) == 0
    assert {t["to_do_s"] for t in json.loads(capsys.readouterr().out)["tasks"]} == {0.0}


def test_the_plan_of_the_model_is_carried_and_timed_before_it_is_taken(
        folder: Path, plan: list[Task], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan of the rules is said to take half of its time: it is a claim that does not hold, and changes nothing."""
    def choose_half(made: Made, _: object) -> tuple[Made, tuple[str, ...]]:
        tuned = made.lines.tuned
        return replace(made, lines=replace(made.lines, tuned=replace(tuned, latency_us=tuned.latency_us / 2))), ()

    def compiled(model: Path, *words: str) -> bytes:
        out = tmp_path / "out.aoec"
        bank = str(tmp_path / f"{len(list(tmp_path.iterdir()))}.db")
        assert cli.main(["compile", str(model), "--bank", bank, "--base", "none", "--jobs", "1", "-o", str(out), *words]) == 0
        return out.read_bytes()

    ruled, copy = compiled(folder / "net.onnx"), tmp_path / "net.onnx"
    with monkeypatch.context() as m:
        m.setattr(compiling, "choose_plan", choose_half)
        compiled(folder / "net.onnx", "--embed", str(copy))
    assert f"and a plan of the model, in {copy}" in capsys.readouterr().err
    said = json.loads(value(str(copy), KEY))
    claim, = said["model_plans"]
    assert faults("embedded", said) == [] and claim["before_ns"] == pytest.approx(2 * claim["after_ns"], abs=1)
    assert len(place_plan(claim["plan"])[0].groups) == len(plan) and claim["searched"] == 0
    lines, machine = list[str](), load("Ascend910B3")
    shelf = below(str(copy), plan, machine, False, "none", lines.append)
    graph = import_model(str(folder / "net.onnx"), {}, "fp16")[0]
    kept, = kept_model_plans(shelf, machine.name, model_key(graph))
    assert {n: getattr(kept, n) for n in claim} == claim and kept.machine_hash == machine.hash
    assert lines == ["the model's file has schedules for 3 of 3 different groups, and a plan of the model"]
    assert compiled(copy) == ruled


def test_damaged_ones_change_nothing(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "net.onnx", str(folder / "net.onnx"), KEY, "no JSON \x1b[2J")
    made = []
    for model in (folder, tmp_path):
        out = tmp_path / f"{len(made)}.aoec"
        assert cli.main(["compile", str(model / "net.onnx"), "--bank", str(tmp_path / "b.db"), "-o", str(out)]) == 0
        said = capsys.readouterr().err
        assert ("the schedules in the model's file are not used: they are no JSON" in said.splitlines()) == (model is tmp_path)
        assert "\x1b" not in said
        made.append(out.read_bytes())
    assert made[0] == made[1]


def faster(said: Said) -> None:
    for r in said["records"]:
        r["ticks"] = max(1, r["ticks"] // 2)


def each(**fields: Any) -> Callable[[Said], None]:
    def change(said: Said) -> None:
        for r in said["records"]:
            r.update(fields)
    return change


def exchanged(said: Said) -> None:
    """The schedules of one state are said to be of the other."""
    for r in said["records"]:
        r["state"] = r["state"].removesuffix("; default") + "; default" * (not r["state"].endswith("; default"))
        r["ticks"] += r["state"].endswith("; default")
        r["default_ticks"] = 10**9


PLAN = {"graph_key": "0" * 64, "schedules": "0" * 16, "metric": "latency", "label": "x", "regions": "g0..g1/2",
        "before_ns": 9, "after_ns": 8}
WHOLE_PLAN = {"graph_key": "0" * 64, "metric": "latency", "label": "x", "plan": "plan x for y {\n}", "before_ns": 9, "after_ns": 8,
              "searched": 0}
HOLES = "sched {\n  split(loop=m, factor=?tm in [16, 32], outer=m_o, inner=m_i)\n}"
WHOLE = [  # of all of them, in one line
    (lambda said: said.update(target="Ascend310P3"), "of another machine (Ascend310P3)"),
    (lambda said: said.update(target="\x1b[2J" * 99), "of another machine"),
    (lambda said: said.update(machine_hash="0"), "of another machine file (0)"),
    (lambda said: said.update(model_version=[1]), "another model version"),
    (lambda said: said.update(language="x"), "schedule language (x)"),
    (lambda said: said.update(format=2), "another format (2)"),
    (lambda said: said.pop("language"), "do not say what they were made for"),
    (lambda said: said.update(records={}), "are no list"),
    (lambda said: said.update(records=[{}] * 20_001), "are no list of at most 20,000"),
    (lambda said: said.update(records=[[]]), "does not have the fields"),
    (lambda said: said["records"][0].pop("seed"), "does not have the fields"),
    (lambda said: said.update(plans=7), "plans of slices are no list of at most 1,000"),
    (lambda said: said.update(plans=[PLAN] * 1_001), "plans of slices are no list of at most 1,000"),
    (lambda said: said.update(plans=["g0..g1/2"]), "a plan of slices in it does not have the fields"),
    (lambda said: said.update(plans=[PLAN | {"target": "x"}]), "a plan of slices in it does not have the fields"),
    (lambda said: said.update(plans=[PLAN | {"regions": "\x1b[2J"}]), "field regions of a plan of slices cannot be"),
    (lambda said: said.update(plans=[PLAN | {"before_ns": 1}]), "a plan of slices is faster than none"),
    (lambda said: said.update(model_plans={}), "plans of the model are no list of at most 100"),
    (lambda said: said.update(model_plans=[WHOLE_PLAN] * 101), "plans of the model are no list of at most 100"),
    (lambda said: said.update(model_plans=[PLAN]), "a plan of a model in it does not have the fields"),
    (lambda said: said.update(model_plans=[WHOLE_PLAN | {"target": "x"}]), "a plan of a model in it does not have the fields"),
    (lambda said: said.update(model_plans=[WHOLE_PLAN | {"plan": "\x1b[2J"}]), "field plan of a plan of a model cannot be"),
    (lambda said: said.update(model_plans=[WHOLE_PLAN | {"plan": "x" * (1 + (1 << 20))}]), "field plan of a plan of a model cannot be"),
    (lambda said: said.update(model_plans=[WHOLE_PLAN | {"searched": -1}]), "field searched of a plan of a model cannot be"),
    (lambda said: said.update(model_plans=[WHOLE_PLAN | {"before_ns": 8}]), "a plan of a model is faster than that of the rules"),
    (each(extra=1), "does not have the fields"), (each(ticks=-1), "field ticks cannot be"), (each(ticks=1 << 80), "field ticks cannot be"),
    (each(trace=""), "field trace cannot be"), (each(trace="x" * (1 << 20)), "field trace cannot be"),
    (each(label=7), "field label cannot be"), (each(ticks=10**15), "must not fall in this order")]
NONE_HOLDS = [faster, exchanged, each(trace="sched {\n}"), each(trace="nonsense"), each(trace=HOLES)]


def of(change: Callable[[Said], Any], folder: Path, plan: list[Task]) -> tuple[list[Record], list[str]]:
    """What a changed entry gives, and what is said of it."""
    said = json.loads(value(str(folder / "tuned" / "net.onnx"), KEY))
    change(said)
    model, lines = onnx.ModelProto(), []
    model.metadata_props.add(key=KEY, value=json.dumps(said))
    shelf = below(model, plan, load("Ascend910B3"), False, "none", lines.append)
    return list(shelf.records.values()) if isinstance(shelf, Claimed) else [], lines


@pytest.mark.parametrize("change, why", WHOLE, ids=range(len(WHOLE)))
def test_what_was_made_for_something_else_is_left(change: Callable[[Said], Any], why: str, folder: Path, plan: list[Task]) -> None:
    found, (line,) = of(change, folder, plan)
    assert found == [] and why in line and len(line) < 300 and line.isprintable()


@pytest.mark.parametrize("change", NONE_HOLDS, ids=range(len(NONE_HOLDS)))
def test_what_does_not_take_the_time_that_it_says_is_left(change: Callable[[Said], Any], folder: Path, plan: list[Task]) -> None:
    found, (line,) = of(change, folder, plan)
    assert found == [] and line == \
        "the model's file has schedules for 0 of 3 different groups; those of 3 do not take the time that they say, and are not used"


def test_nothing_is_believed_that_is_not_tried(folder: Path, plan: list[Task]) -> None:
    """Whatever a file says: there is no proof, no verification, a bound of our own; a default is not slower than its schedule."""
    machine = load("Ascend910B3")
    found, _ = of(each(default_ticks=10**12), folder, plan)
    wanted = [k for t in plan for k in keys(t, machine)]
    held = Claimed(found, None, Path(KEY)).all_of(wanted)
    assert held.keys() == set(wanted) and all(not r.proof and not r.verified and 0 < r.bound_ticks <= r.ticks for r in held.values())
    assert all(held[best].default_ticks == held[default].ticks for default, best in (keys(t, machine) for t in plan))
    assert not of(each(func_key="0" * 64), folder, plan)[0]


def test_where_no_copy_can_be_is_said_before_the_work(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = mlp_softmax()
    onnx.save(model, tmp_path / "far.onnx", save_as_external_data=True, location="far.bin", size_threshold=64)
    (tmp_path / "other").mkdir()
    for words, why in ((["far.onnx", "--embed", "other/far.onnx"], "must be in the same directory"),
                       (["far.onnx", "--embed", "nowhere/far.onnx"], "there is no directory"),
                       (["other", "--embed", "x.onnx"], "is a dump")):
        places = [str(tmp_path / w) if "." in w or w == "other" else w for w in words]
        assert cli.main(["compile", *places, "-o", str(tmp_path / "far.aoec"), "--bank", str(tmp_path / "b.db")]) == 2
        assert why in capsys.readouterr().err and not (tmp_path / "far.aoec").exists()
