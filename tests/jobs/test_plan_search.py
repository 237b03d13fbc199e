"""The search of a plan in a compile: what is said, what the bank keeps and how it is taken, resume after a kill, refusals of claims."""
from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unittest import mock

import onnx
import pytest

from aoec import cli
from aoec.artifact.artifact import load as load_artifact
from aoec.bank.bank import Bank
from aoec.ir.graph.graph import Graph
from aoec.ir.plan import Plan
from aoec.jobs.compile.steps.choose_plan import Planning, describe_proof
from aoec.jobs.plans.find_plan import FoundPlan
from tests.plans.test_regroup_laws import HEADS

TARGET = "Ascend910B3"


pytestmark = pytest.mark.usefixtures("few")


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory, few: None) -> Path:
    """A folder with the model by its plan (first.aoec), by rules (rules.aoec, dumped to d), and a bank for each; tests copy from it."""
    path = tmp_path_factory.mktemp("once")
    with pytest.MonkeyPatch.context() as m:
        m.chdir(path)
        onnx.save(HEADS, "heads.onnx")
        assert compiled("-o", "first.aoec") == compiled("--plans", "rules", "-o", "rules.aoec", "--dump", "d", bank="rules.db") == 0
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a product that reads through moves, and work on its result."""
    onnx.save(HEADS, tmp_path / "heads.onnx")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def compiled(*words: str, bank: str = "b.db", tune: bool = True, budget: Sequence[str] = ("--budget", "20")) -> int:
    how = ["--tune", *budget] if tune else []
    return cli.main(["compile", "heads.onnx", *how, "--target", TARGET, "--bank", bank, "--base", "none", "--jobs", "1", "--no-verify",
                     "--no-stock", "--slices", "none", *words])


def latency_us(path: str) -> float:
    return dict(load_artifact(path).figures)["latency_ns"] / 1000


def test_the_plan_is_kept_and_taken_without_a_search(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compiled("--plans", "rules", "-o", "rules.aoec") == 0
    assert "plan:" not in capsys.readouterr().err
    assert compiled("-o", "first.aoec") == 0
    said = capsys.readouterr().err
    (line,) = [x for x in said.splitlines() if x.startswith("plan:")]
    kept, = Bank.open(folder / "b.db").model_plans.list()
    assert latency_us("first.aoec") <= latency_us("rules.aoec")
    assert kept.is_faster == (latency_us("first.aoec") < latency_us("rules.aoec")) and kept.searched == 20
    if kept.is_faster:
        assert "modelled" in line and abs(kept.after_ns / 1000 - latency_us("first.aoec")) < 0.01
    with mock.patch.object(Planning, "find", side_effect=AssertionError("nothing is searched")):
        assert compiled("-o", "again.aoec") == 0
        assert compiled("-o", "untuned.aoec", tune=False) == 0
    assert Path("again.aoec").read_bytes() == Path("first.aoec").read_bytes() == Path("untuned.aoec").read_bytes()


def test_equal_searches_lead_to_equal_bytes(folder: Path, once: Path) -> None:
    assert compiled("-o", "b.aoec", bank="c.db") == 0
    assert (once / "first.aoec").read_bytes() == Path("b.aoec").read_bytes()
    a, b = (Bank.open(path).model_plans.list()[0] for path in (once / "b.db", folder / "c.db"))
    assert replace(a, created="") == replace(b, created="")


@pytest.mark.parametrize("at", [1, 2])
def test_a_search_that_is_killed_goes_on_to_the_same_plan(folder: Path, once: Path, at: int) -> None:
    class Killed(BaseException):
        """What no code expects, as a kill."""

    solve, calls = Planning.solve, iter(range(1, 100))

    def kill(self: Planning, asked: object) -> object:
        if next(calls) == at:
            solve(self, asked[:1])  # type: ignore[index]
            raise Killed
        return solve(self, asked)  # type: ignore[arg-type]

    with mock.patch.object(Planning, "solve", kill), pytest.raises(Killed):
        compiled("-o", "broken.aoec")
    assert not Path("broken.aoec").exists()
    assert compiled("-o", "resumed.aoec", "--resume") == 0
    assert Path("resumed.aoec").read_bytes() == (once / "first.aoec").read_bytes()
    lines = [list(Bank.open(path / "b.db").lines(times=False)) for path in (folder, once)]
    assert lines[0] == lines[1]


@pytest.mark.parametrize(("text", "why"), [
    ("plan heads for Ascend910B3 {\n  group g0 vector [nothing]\n}", "has no node nothing"),
    ("plan heads for Ascend310P3 {\n}", "Ascend310P3"),
    ("plan heads for Ascend910B3 {\n  wide nothing\n}", "is no sum that can be wide"),
    ("no plan at all", "cannot be used")])
def test_a_claim_that_is_no_plan_of_the_model_is_refused(folder: Path, once: Path, capsys: pytest.CaptureFixture[str], text: str,
                                                         why: str) -> None:
    shutil.copy(once / "b.db", "b.db")
    bank = Bank.open(folder / "b.db")
    kept, = bank.model_plans.list()
    bank.model_plans.drop([kept])
    bank.model_plans.put_all([replace(kept, plan=text, after_ns=1, before_ns=max(2, kept.before_ns))])
    capsys.readouterr()
    assert compiled("-o", "b.aoec", tune=False) == 0
    said = capsys.readouterr().err
    assert "the bank's plan of heads cannot be used" in said and why in said
    assert compiled("--plans", "rules", "-o", "rules.aoec", tune=False) == 0
    assert Path("b.aoec").read_bytes() == Path("rules.aoec").read_bytes()


def test_a_claim_that_is_slower_is_timed_and_not_taken(folder: Path, once: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(once / "b.db", "b.db")
    bank = Bank.open(folder / "b.db")
    kept, = bank.model_plans.list()
    plan = (once / "d/model.plan").read_text()
    split = next(x for x in plan.splitlines() if "group" in x and " vector [" in x and x.count(",") == 1)
    name, nodes = split.split()[1], split[split.index("[") + 1:split.index("]")].split(", ")
    plan = plan.replace(split, "\n".join(f"  group {name}_{i} vector [{n}]" for i, n in enumerate(nodes)))
    bank.model_plans.drop([kept])
    bank.model_plans.put_all([replace(kept, plan=plan, after_ns=1, before_ns=max(2, kept.before_ns))])
    capsys.readouterr()
    assert compiled("-o", "b.aoec", tune=False) == 0
    assert "cannot be used" not in capsys.readouterr().err
    assert Path("b.aoec").read_bytes() == (once / "rules.aoec").read_bytes()


def test_a_search_by_time_is_repeated_by_its_counts(folder: Path) -> None:
    assert compiled("-o", "a.aoec", "--time", "1s", "--report", "r", budget=()) == 0
    counts = json.loads((folder / "r/report.json").read_text())["searches"]["limits"]
    assert any(name.startswith("plan") for name in counts)
    assert compiled("-o", "b.aoec", "--counts", "r/report.json", bank="c.db", budget=()) == 0
    assert Path("b.aoec").read_bytes() == Path("a.aoec").read_bytes()


def test_more_plans_than_any_float_are_counted_in_words() -> None:
    """An unrolled GRU has lattices of so many."""
    plan = Plan("any", TARGET)
    found = FoundPlan(plan, Graph("any", (), (), (), ()), 1.0, 1.0, 1.0, True, 3 * 10**400, 5)
    assert describe_proof(found) == "and no other of 3.0e+400 plans is faster (proved)"
    assert describe_proof(replace(found, paths=999_999)) == "and no other of 999,999 plans is faster (proved)"
