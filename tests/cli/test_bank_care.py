"""What `aoec bank` says of the worth of its records: which one is taken, whether they hold, which may go, how many there are."""
from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import onnx
import pytest

from aoec import cli
from aoec.artifact.artifact import load as load_artifact
from aoec.bank import builtin
from aoec.bank.bank import Bank
from aoec.bank.model_plans import ModelPlan
from aoec.bank.plans import SlicePlan
from aoec.bank.record import DEFAULT, Record
from aoec.frontend.zoo import mlp_softmax
from aoec.ir.text.parse import place_plan
from aoec.ir.text.show import show
from aoec.jobs.bank.bank import NO_PLAN
from aoec.jobs.version import model_version
from aoec.target.machine import load

pytestmark = pytest.mark.usefixtures("poor")

TARGET = "Ascend910B3"
PLAN = ModelPlan("ab" * 32, TARGET, "h", "old", "latency", "another net", f"plan net for {TARGET} {{\n  wide sum\n}}", 9_876_543, 8_765_432,
                 16)
Say = Callable[..., str]


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small model, tuned, and its bank."""
    folder = tmp_path_factory.mktemp("care")
    onnx.save(mlp_softmax(), folder / "net.onnx")
    words = ["--budget", "16", "--jobs", "1", "--bank", str(folder / "bank.db"), "-o", str(folder / "net.aoec")]
    assert cli.main(["compile", "--tune", str(folder / "net.onnx"), *words]) == 0
    return folder


@pytest.fixture
def bank(tuned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bank:
    """A copy of that bank, which the commands take."""
    monkeypatch.setenv("TUNE_BANK_PATH", str(tmp_path / "own.db"))
    own = Bank.open(tmp_path / "own.db")
    own.merge(Bank.open(tuned / "bank.db"))
    return own


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    def run(*words: str, code: int = 0) -> str:
        capsys.readouterr()
        assert cli.main(["bank", *words]) == code
        return capsys.readouterr().out

    return run


def gained(bank: Bank) -> Record:
    """A record of the bank that is faster than its default, and no proved best."""
    return next(r for r in bank.list() if r.bound_ticks < r.ticks < r.default_ticks)


def of(said: str, record: Record) -> list[dict[str, Any]]:
    """What is said of the records of one func and state, the one that is taken first."""
    return next(c["records"] for c in json.loads(said)
                if (c["records"][0]["func_key"], c["records"][0]["state"]) == (record.key.func_key, record.key.state))


def test_which_says_what_a_compile_takes_and_why(bank: Bank, tuned: Path, tmp_path: Path, say: Say) -> None:
    best = gained(bank)
    stale = replace(best, key=replace(best.key, model_version="old"), ticks=best.bound_ticks)
    measured = replace(best, key=replace(best.key, kind="measured"), ticks=best.bound_ticks)
    bank.put_all([stale, measured])
    lower = Bank.open(tmp_path / "base.db")
    lower.put(replace(best, ticks=best.ticks - 1))
    found = of(say("which", best.key.func_key, "--base", str(lower.path), "--json"), best)
    assert [f["wins"] for f in found] == [True, False, False, False] and (found[0]["in"], found[0]["ticks"]) == ("bank", best.ticks)
    why = {(f["in"], f["kind"], f["model_version"]): f["why"] for f in found}
    assert why.pop(("bank", "modelled", best.key.model_version)) == "fresh; the bank is asked first"
    assert why == {("bank", "modelled", "old"): "stale: of another model version; a start of the next search",
                   ("bank", "measured", best.key.model_version): "measured: times are modelled here, and the two kinds do not compare",
                   ("base", "modelled", best.key.model_version): "the bank's is asked first"}
    bank.drop([best])
    found = of(say("which", best.key.func_key, "--base", str(lower.path), "--json"), best)
    assert found[0]["wins"] and found[0]["in"] == "base" and "the bank has none" in found[0]["why"]
    assert say("which", best.key.func_key[:12]).count("not used") == 2
    assert say("which", "00ff", code=2) == ""


@pytest.mark.parametrize("name", ["net.onnx", "net.aoec"])
def test_which_of_a_model_is_what_its_compile_took(name: str, bank: Bank, tuned: Path, say: Say) -> None:
    bank.model_plans.put_all([PLAN])  # of another model
    kept, = [p for p in bank.model_plans.list() if p != PLAN]
    said = json.loads(say("which", str(tuned / name), "--json"))
    plans = [c for c in said if "plan" in c]
    assert [c["graph_key"] for c in plans] == [kept.graph_key] * name.endswith(".onnx")  # a compiled one does not say its graph
    said = [c for c in said if "plan" not in c]
    taken = {c["group"]: c["records"][0]["trace"] for c in said}
    made = {g.group: show(g.trace) for g in load_artifact(tuned / "net.aoec").groups if g.trace is not None}
    assert taken == made and all(c["records"][0]["wins"] for c in said)


def test_verify_times_each_record_again(bank: Bank, say: Say) -> None:
    first, best = say("verify"), gained(bank)
    assert first.endswith(f"{len(bank.list())} equal; cycles, modelled\n") and "plan of the" in first
    false = replace(best, ticks=best.bound_ticks)
    other = replace(best, key=replace(best.key, model_version="old"), ticks=best.ticks + 1)
    illegal = replace(best, key=replace(best.key, state="previous launch"), trace="sched {\n  bind(loop=nothing)\n}")
    alien = replace(best, key=replace(best.key, target="NoSuchChip"))
    bank.put_all([false, other, illegal, alien])
    states = {(r["target"], r["model_version"], r["state"]): r["result"]
              for r in json.loads(say("verify", "--json", code=1)) if r.get("func_key") == best.key.func_key}
    assert states[TARGET, best.key.model_version, best.key.state] == "differs" and states[TARGET, "old", best.key.state] == "stale"
    assert states[TARGET, best.key.model_version, "previous launch"] == "illegal"
    assert states["NoSuchChip", best.key.model_version, best.key.state] == "unknown"
    bank.drop([false, illegal])
    assert "1 stale, 1 unknown" in say("verify")


def test_a_func_that_is_not_the_keys_is_no_proof(bank: Bank, say: Say) -> None:
    best = gained(bank)
    bank.drop([best])
    bank.put(replace(best, func=best.func.replace("fp16", "fp32")))
    assert "its func is not the one of its key" in say("verify", code=1)


def test_prune_lists_first_and_removes_what_is_stale_when_it_is_told_to(bank: Bank, say: Say) -> None:
    fresh, best = bank.list(), gained(bank)
    old = replace(best, key=replace(best.key, model_version="old"), created="2020-01-01T00:00:00Z")
    new = replace(old, key=replace(old.key, machine_hash="ab" * 32), created="2999-01-01T00:00:00Z")
    alien = replace(old, key=replace(old.key, target="NoSuchChip"))
    bank.put_all([old, new, alien])
    assert "2 records would go; --yes removes them" in say("prune") and len(bank.list()) == len(fresh) + 3
    assert "1 record would go; --yes removes it\n" in say("prune", "--keep-days", "7")
    assert "1 record removed" in say("prune", "--keep-days", "7", "--yes") and old not in bank.list() and new in bank.list()
    found = json.loads(say("prune", "--yes", "--json"))
    assert [f["why"] for f in found] == ["stale: of another machine file"] and set(bank.list()) == {*fresh, alien}


def test_stats_counts(bank: Bank, say: Say) -> None:
    best = gained(bank)
    bank.put(replace(best, key=replace(best.key, model_version="old")))
    row, = json.loads(say("stats", "--json"))["targets"]
    found = bank.list()
    assert row["records"] == len(found) and row["stale"] == 1 and row["tuned"] == sum(r.is_faster for r in found)
    assert row["tuned"] + row["nothing_better"] == sum(not r.key.state.endswith(DEFAULT) for r in found)
    assert row["funcs"] == len({r.key.func_key for r in found}) and TARGET in say("stats")


def test_the_built_in_bank_is_listed_shown_and_verified(bank: Bank, tmp_path: Path, say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    made = builtin.BuiltIn(builtin.write(TARGET, bank.list(), tmp_path))
    monkeypatch.setattr("aoec.jobs.bank.bank.built_in", lambda: (made,))
    best, before = gained(bank), bank.list()
    bank.drop(bank.list())
    assert best.key.func_key[:16] in say("list", "--builtin") and say("best", best.key.func_key, "--builtin") == best.trace + "\n"
    assert best.func in say("show", best.key.func_key, "--builtin")
    assert say("verify", "--builtin") == f"{len(before)} equal; cycles, modelled\n"


@pytest.mark.parametrize("column, value", [("bound_ticks", "bound_ticks - 1"), ("ticks", "ticks - 1"), ("trials", "trials + 1"),
                                           ("proof", "'bound'"), ("verified", "1 - verified"), ("label", "'other'"), ("search", "'other'")])
def test_a_record_that_another_program_changed_is_noticed_and_not_taken(column: str, value: str, bank: Bank, tmp_path: Path, tuned: Path,
                                                                        say: Say) -> None:
    best, count = gained(bank), len(bank.list())
    with sqlite3.connect(bank.path) as c:
        key = (best.key.func_key, best.key.state)
        assert c.execute(f"UPDATE records SET {column} = {value} WHERE func_key = ? AND state = ?", key).rowcount == 1
    c.close()
    said = say("verify", code=1)
    assert "1 changed" in said and f"{count - 1} equal" in said and "another program has changed it" in said
    assert bank.best(best.key) is None and bank.all_of([best.key]) == {} and [r.key for r in bank.changed_records()] == [best.key]
    other = Bank.open(tmp_path / "other.db")
    other.merge(bank)
    assert len(other.list()) == count - 1 and not other.changed_records()
    assert "changed by another program" in say("prune") and "1 record removed" in say("prune", "--yes")
    assert "changed" not in say("verify") and len(bank.list()) == count - 1


def test_a_compile_says_which_records_it_does_not_take(bank: Bank, tuned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    used = {g.func_key for g in load_artifact(tuned / "net.aoec").groups}
    best = next(r for r in bank.list() if r.is_faster and r.key.func_key in used)
    bank.drop([best])
    bank.put(replace(best, trace="split(loop=nowhere, factor=2)"))  # no schedule of this func
    with sqlite3.connect(bank.path) as c:
        first = next(r for r in bank.list() if r.key.func_key in used - {best.key.func_key})
        c.execute("UPDATE records SET trials = trials + 1 WHERE func_key = ? AND state = ?", (first.key.func_key, first.key.state))
    c.close()
    capsys.readouterr()
    assert cli.main(["compile", str(tuned / "net.onnx"), "--jobs", "1", "-o", str(tmp_path / "net.aoec")]) == 0
    said = capsys.readouterr().err
    assert f"the record of {best.label} is not taken: its schedule cannot be used" in said
    assert "is not taken: another program has changed it since it was written" in said
    assert said.count("is not taken") == 2  # each is said once, however often it is asked for


def test_banks_of_an_older_aoec_without_checksums_are_taken_and_marked(bank: Bank, say: Say) -> None:
    before = bank.list()
    with sqlite3.connect(bank.path) as c:
        c.execute("ALTER TABLE records DROP COLUMN checksum")
    c.close()
    assert Bank.open(bank.path, writable=False).list() == before
    said = say("verify")
    assert f"{len(before)} records of an older aoec without a checksum" in said and f"{len(before)} equal" in said
    own = Bank.open(bank.path)
    assert own.count_unmarked() == len(before) and own.all_of([before[0].key])
    own.put(replace(before[0], searched=before[0].searched + 1))
    assert own.count_unmarked() == len(before) - 1
    with sqlite3.connect(bank.path) as c:  # as an older aoec writes: it names no such column
        columns = ", ".join(row[1] for row in c.execute("PRAGMA table_info(records)") if row[1] != "checksum")
        c.execute(f"INSERT OR REPLACE INTO records ({columns}) SELECT {columns} FROM records")
    c.close()
    assert own.count_unmarked() == len(before) and not own.changed_records()


# ---------------------------------------------------------------- plans of models

def test_a_plan_of_a_model_is_listed_shown_and_written_to_be_entered(bank: Bank, say: Say) -> None:
    fresh = bank.model_plans.list()[0]
    bank.model_plans.drop([fresh])
    none = replace(PLAN, graph_key="cd" * 32, plan="", after_ns=PLAN.before_ns, metric="throughput", label="a network with a long name")
    bank.model_plans.put_all([PLAN, none])
    *_, head, first, second = say("list").splitlines()
    assert head == "key                   rules       plan  by         plans of models (modelled us)"
    assert first == "abababababababab    9,876.5    8,765.4  latency    Ascend910B3, another net"
    assert second == "cdcdcdcdcdcdcdcd    9,876.5       none  throughput Ascend910B3, a network wit..." and len(second) <= 80
    assert say("best", "abab") == PLAN.plan + "\n" and place_plan(say("best", "abab"))[0].wide == ("sum",)
    assert say("best", "cdcd") == "no plan was found that is faster than that of the rules\n"
    shown = say("show", "abab")
    assert shown.startswith("plan of the model " + "ab" * 32 + "\n") and shown.endswith(f"\n{PLAN.plan}\n")
    assert "  before ns      9,876,543\n" in shown and "  searched       16\n" in shown and max(map(len, shown.splitlines())) <= 82
    assert json.loads(say("show", "abab", "--json")) == [asdict(PLAN)] and json.loads(say("best", "abab", "--json")) == asdict(PLAN)
    assert [p for p in json.loads(say("list", "--json")) if "plan" in p] == [asdict(PLAN), asdict(none)]
    assert ", 2 plans of models\n" in say("stats") and json.loads(say("stats", "--json"))["model_plans"] == 2


def test_which_plan_of_a_model_is_tried_and_why_not(bank: Bank, say: Say) -> None:
    machine = load(TARGET)
    fresh = replace(PLAN, machine_hash=machine.hash, model_version=model_version())
    none = replace(fresh, plan="", after_ns=PLAN.before_ns, metric="throughput")
    bank.model_plans.put_all([PLAN, fresh, none])
    said = {(p["model_version"], p["metric"]): (p["result"], p["why"]) for p in json.loads(say("which", "abab", "--json"))}
    assert said == {("old", "latency"): ("not used", "stale: of another machine file"),
                    (model_version(), "latency"): ("tried", "tried: a compile times the model with it, and takes it where that is faster"),
                    (model_version(), "throughput"): ("not used", f"{NO_PLAN} in 16 trials a group")}
    told = say("which", "abab").splitlines()
    assert max(map(len, told)) <= 80 and "abababababababab  tried    9,876.5 -> 8,765.4 us modelled  Ascend910B3, another" in told


def test_verify_reads_the_text_of_a_plan_and_prune_drops_a_stale_one(bank: Bank, say: Say) -> None:
    machine = load(TARGET)
    fresh = replace(PLAN, machine_hash=machine.hash, model_version=model_version())
    alien = replace(fresh, graph_key="cd" * 32, plan=PLAN.plan.replace(TARGET, "toy"))
    nonsense = replace(fresh, graph_key="ef" * 32, plan="nonsense")
    bank.model_plans.put_all([PLAN, fresh])
    kept = {(p["graph_key"][:2], p["model_version"]): p["result"] for p in json.loads(say("verify", "--json")) if "plan" in p}
    assert (kept["ab", "old"], kept["ab", model_version()]) == ("stale", "unknown")
    bank.model_plans.put_all([alien, nonsense])
    told = {p["graph_key"][:2]: p for p in json.loads(say("verify", "--json", code=1)) if p["result"] == "illegal"}
    assert told.keys() == {"cd", "ef"} and told["cd"]["why"] == "its text is of a plan for toy" and "nonsense" in told["ef"]["why"]
    assert "1 record would go" in say("prune") and "another net, plan of the model: stale: of another machine file" in say("prune")
    assert "1 record removed" in say("prune", "--yes") and PLAN not in bank.model_plans.list() and fresh in bank.model_plans.list()


def test_a_change_of_a_plan_of_a_model_is_said(bank: Bank, tmp_path: Path, say: Say) -> None:
    say("export", str(tmp_path / "before.jsonl"))
    bank.model_plans.put_all([PLAN])
    first, last = say("diff", str(tmp_path / "before.jsonl")).splitlines()
    assert first.split("  ")[-1] == "Ascend910B3, another net, plan of the model by latency" and first.startswith("+ abababababababab ")
    assert last == "1 added, 0 removed, 0 changed; cycles by kind; plans and what was measured: us"
    say("export", str(tmp_path / "middle.jsonl"))
    bank.model_plans.put_all([replace(PLAN, after_ns=1_000_000)])
    found, = json.loads(say("diff", str(tmp_path / "middle.jsonl"), "--json"))
    assert (found["change"], found["kind"], found["fields"]) == ("changed", "model plan", ["after_ns"])


def test_a_key_of_several_plans_is_not_guessed(bank: Bank, capsys: pytest.CaptureFixture[str]) -> None:
    bank.model_plans.put_all([PLAN])
    bank.plans.put_all([SlicePlan("ab" + "00" * 31, TARGET, "h", "v", "0" * 16, "latency", "net", "g0/2", 9, 8)])
    assert cli.main(["bank", "best", "ab"]) == 2
    assert "2 plans of slices and of models have a key that begins with ab; give more of it" in capsys.readouterr().err
