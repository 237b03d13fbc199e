"""`aoec bank`: what goes in comes out, merging tells what it did, a refusal leaves nothing behind."""
from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from aoec import cli
from aoec.bank.bank import Bank
from aoec.bank.measurements import Measured
from aoec.bank.plans import SlicePlan
from aoec.bank.record import DEFAULT, Key, Record, flat, show_record
from aoec.target.machine import load
from tests.bank.first_schema import bank_of_the_first_schema

KEY = Key("ab" * 32, "toy", "cd" * 32, "1", "cold")
TRACE = "sched {\n  split(loop=m, factor=16, outer=mt, inner=mi)\n}"
FIRST = Record(KEY, "matmul 64x64x64 fp16", TRACE, 4096, 2048, 1024, trials=7, searched=7)
SECOND = replace(FIRST, key=replace(KEY, func_key="ef" * 32, target="Ascend910B3"), label="softmax 8x8")
PLAN = SlicePlan("cd" * 32, "toy", "1" * 16, "2" * 16, "3" * 16, "latency", "net", "g0..g2/4", 9000, 7000)


@pytest.fixture
def bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUNE_BANK_PATH", str(tmp_path / "bank.db"))
    Bank.open(tmp_path / "bank.db").put_all([FIRST, SECOND])
    return tmp_path / "bank.db"


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.main(["bank", *words]) == 0
    return capsys.readouterr().out


def test_a_list_tells_times_in_us_and_cycles_where_no_clock_is_known(bank: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Bank.open(bank).put(replace(FIRST, key=replace(KEY, target="mine", func_key="12" * 32)))
    lines = said(capsys, "list").splitlines()
    assert lines[0].endswith("(us, by kind)") and "4 cyc" in lines[1] and lines[-1].startswith("cyc: cycles") and "(mine)" in lines[-1]
    machine = load("Ascend910B3")
    other = next(line for line in lines if "Ascend910B3" in line).split()
    assert other[1:4] == [f"{n / machine.clock_mhz:.2f}" for n in (4, 2, 1)]


@pytest.mark.usefixtures("bank")
def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, "list").splitlines()
    assert len(lines) == 3 and "matmul 64x64x64 fp16 (modelled)" in lines[1]
    assert lines[1].split()[:6] == ["ab" * 8, "4.00", "2.00", "1.00", "100.0%", "7"]  # us of a clock of 1 MHz
    assert len(said(capsys, "list", "--target", "toy").splitlines()) == 2
    assert [r["label"] for r in json.loads(said(capsys, "list", "--json"))] == [FIRST.label, SECOND.label]


@pytest.mark.usefixtures("bank")
def test_best_gives_the_schedule(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "best", "abab") == FIRST.trace + "\n"
    assert json.loads(said(capsys, "best", "efef", "--json"))["label"] == "softmax 8x8"
    assert cli.main(["bank", "best", "00"]) == 2
    assert "no record whose key begins with 00" in capsys.readouterr().err


def test_the_searched_schedule_comes_before_the_default(bank: Path, capsys: pytest.CaptureFixture[str]) -> None:
    default = replace(FIRST, key=replace(KEY, state=KEY.state + DEFAULT), trace=TRACE.replace("16", "32"), ticks=4096, trials=0)
    Bank.open(bank).put(default)
    assert said(capsys, "best", "abab", "--target", "toy") == FIRST.trace + "\n"
    assert len(said(capsys, "list").splitlines()) == 3


def test_best_names_what_it_cannot_choose_from(bank: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Bank.open(bank).put(replace(SECOND, key=replace(SECOND.key, func_key=KEY.func_key)))
    assert cli.main(["bank", "best", "abab"]) == 2
    assert "2 records" in capsys.readouterr().err
    assert said(capsys, "best", "abab", "--target", "toy") == FIRST.trace + "\n"


@pytest.mark.usefixtures("bank")
def test_export_import_merge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "export", "all.jsonl")
    assert said(capsys, "export") == (tmp_path / "all.jsonl").read_text()
    assert "2 added" in said(capsys, "import", "all.jsonl", "--bank", "copy.db")
    assert "2 kept" in said(capsys, "merge", "copy.db")
    assert said(capsys, "export", "--bank", "copy.db") == said(capsys, "export")


def test_an_export_is_merged_like_its_bank_and_says_no_news(bank: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An export does not say when its records were made; that is none, and takes nothing from who knows."""
    made = [replace(r, created="2026-01-01T00:00:00Z") for r in (FIRST, SECOND)]
    Bank.open(bank).drop([FIRST, SECOND])
    Bank.open(bank).put_all(made)
    Bank.open(bank).plans.put_all([dated := replace(PLAN, created="2026-01-01T00:00:00Z")])
    said(capsys, "export", "all.jsonl")
    for word in ("merge", "import"):
        assert said(capsys, word, "all.jsonl") == f"3 kept ({bank})\n"
    assert Bank.open(bank).list() == tuple(made) and Bank.open(bank).plans.list() == (dated,)
    earlier = bank.parent / "earlier.db"
    Bank.open(earlier).put_all([replace(made[0], created="2025-01-01T00:00:00Z"), replace(made[1], ticks=1500)])
    assert said(capsys, "merge", "earlier.db") == f"1 updated, 1 kept ({bank})\n"
    assert [r.created[:4] for r in Bank.open(bank).list()] == ["2025", "2026"]
    assert "3 added" in said(capsys, "merge", "all.jsonl", "--bank", "new/new.db")
    assert "3 added" in said(capsys, "import", str(bank), "--bank", "new/other.db")


MISSING = ["list", "list --json", "best abab", "show abab", "which abab", "stats", "verify", "prune", "export", "diff all.jsonl"]


@pytest.mark.parametrize("words", MISSING)
@pytest.mark.parametrize("path, what", [("none.db", "none.db"), ("no/such/none.db", "no/such")])
def test_what_only_reads_a_bank_makes_none(words: str, path: str, what: str, bank: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "export", "all.jsonl")
    there = sorted(bank.parent.iterdir())
    assert cli.main(["bank", *words.split(), "--bank", path]) == 2
    out, err = capsys.readouterr()
    assert not out and len(err.splitlines()) == 1 and what in err and sorted(bank.parent.iterdir()) == there


@pytest.mark.parametrize("words", ["doctor", *(f"bank {words}" for words in MISSING)])
def test_what_only_reads_a_bank_leaves_it_as_it_is(words: str, bank: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also one of an older schema: the aoec that wrote it may not read a later one. (Funcs are not kept there, so none can be shown.)"""
    said(capsys, "export", "all.jsonl")
    old = bank_of_the_first_schema(bank.parent / "old.db", FIRST)
    there = {p: p.read_bytes() for p in bank.parent.iterdir()}
    for path in (bank, old):
        assert cli.main([*words.split(), "--bank", str(path)]) == 0 or words == "bank show abab"
        assert {p: p.read_bytes() for p in bank.parent.iterdir()} == there


@pytest.mark.parametrize("words", [("import", "bad.jsonl"), ("merge", "bad.jsonl"), ("import", "none.jsonl"), ("merge", "."),
                                   ("import-cann", ".")])
def test_what_is_refused_makes_no_folder(words: tuple[str, ...], bank: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.jsonl").write_text("{}\n")
    assert cli.main(["bank", *words, "--bank", "no/such/x.db"]) == 2
    assert capsys.readouterr().err.startswith("aoec: error: ") and not Path("no").exists()


@pytest.mark.usefixtures("bank")
def test_a_bank_below_a_file_is_refused_before_any_work(capsys: pytest.CaptureFixture[str]) -> None:
    Path("all.jsonl").write_text("")
    assert cli.main(["bank", "import", "all.jsonl", "--bank", "all.jsonl/x.db"]) == 2
    assert "cannot be made: " in (err := capsys.readouterr().err) and "all.jsonl is no folder" in err


@pytest.mark.usefixtures("bank")
def test_refused_import_leaves_no_bank(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.jsonl").write_text("{}\n")
    assert cli.main(["bank", "import", "bad.jsonl", "--bank", "new.db"]) == 2
    assert "bad.jsonl:1: " in capsys.readouterr().err and not list(tmp_path.glob("new.db*"))


def test_empty_bank(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Bank.open(tmp_path / "empty.db").put_all([])
    assert cli.main(["bank", "list", "--bank", str(tmp_path / "empty.db")]) == 0
    assert capsys.readouterr() == ("", f"the bank {tmp_path}/empty.db is empty\n")


def test_a_bank_of_default_schedules_is_not_called_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bank = str(tmp_path / "b.db")
    Bank.open(bank).put_all([replace(FIRST, key=replace(KEY, state=KEY.state + DEFAULT))])
    assert said(capsys, "list", "--bank", bank) == ""
    cli.main(["bank", "list", "--bank", bank])
    assert "default schedules that a compile took: 1 (--json" in capsys.readouterr().err
    cli.main(["bank", "list", "--bank", bank, "--target", "Ascend910B3"])
    assert capsys.readouterr().err == f"the bank {bank} has nothing for Ascend910B3\n"


@pytest.mark.usefixtures("bank")
def test_show_says_all_of_a_func(capsys: pytest.CaptureFixture[str]) -> None:
    said_ = said(capsys, "show", "abab")
    assert "record " + "ab" * 32 in said_ and TRACE in said_ and "  seed           0\n" in said_ and "model version  1" in said_
    assert json.loads(said(capsys, "show", "abab", "--json")) == [flat(FIRST)]


def test_diff_says_what_was_added_removed_and_changed(bank: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "export", "before.jsonl")
    third = replace(SECOND, key=replace(SECOND.key, func_key="01" * 32))
    own = Bank.open(bank)
    own.put_all([replace(FIRST, ticks=1024, created="2026-01-01T00:00:00Z"), third])
    own.drop([SECOND])
    rows = said(capsys, "diff", "before.jsonl").splitlines()
    assert [r[:6] for r in rows[:-1]] == ["+ 0101", "~ abab", "- efef"] and rows[-1] == "1 added, 1 removed, 1 changed; cycles by kind"
    assert "2 -> 1  toy, matmul" in rows[1] and rows[1].endswith("(ticks)")
    found = json.loads(said(capsys, "diff", "before.jsonl", str(bank), "--json"))
    assert [(f["change"], f["fields"]) for f in found] == [("added", []), ("changed", ["ticks"]), ("removed", [])]
    assert said(capsys, "diff", str(bank), str(bank)).startswith("0 added, 0 removed, 0 changed")
    said(capsys, "export", "after.jsonl")
    old, new = ((tmp_path / f"{n}.jsonl").read_text().splitlines() for n in ("before", "after"))
    assert len(set(old) - set(new)) == 2 == len(set(new) - set(old))  # as git says it: a line for each that changed, and no other
    assert cli.main(["bank", "diff", "none.jsonl"]) == 2 and "none.jsonl" in capsys.readouterr().err


def test_diff_knows_plans_and_measured_times(bank: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "export", "before.jsonl")
    own = Bank.open(bank)
    time = Measured("toy", "e" * 16, 3, "", "", "matmul 8x8x8", "MatMul", "m", "", 5000, 4000, 6000, 2, 1, "op.csv")
    own.plans.put_all([PLAN])
    own.measurements.put_all([time])
    rows = said(capsys, "diff", "before.jsonl").splitlines()
    assert "5.00  toy, matmul 8x8x8, measured, op.csv:3" in rows[0] and "7.00  toy, net, plan of slices: g0..g2/4" in rows[1]
    assert rows[2] == "2 added, 0 removed, 0 changed; cycles by kind; plans and what was measured: us"
    said(capsys, "export", "middle.jsonl")
    own.plans.put_all([replace(PLAN, after_ns=6000)])
    assert "7.00 -> 6.00" in said(capsys, "diff", "middle.jsonl")
    found = json.loads(said(capsys, "diff", "middle.jsonl", str(bank), "--json"))
    assert [(f["change"], f["kind"], f["fields"]) for f in found] == [("changed", "plan", ["after_ns"])]
    assert said(capsys, "diff", "middle.jsonl", "--target", "other").startswith("0 added, 0 removed, 0 changed")


def test_exports_say_nothing_of_when_unless_they_are_asked(bank: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Bank.open(bank).put(replace(FIRST, ticks=1024, created="2026-01-01T00:00:00Z"))
    assert "2026" not in said(capsys, "export") and "2026" in said(capsys, "export", "--times")


LIMITED = """
import resource, sys
from aoec import cli
resource.setrlimit(resource.RLIMIT_FSIZE, (120_000, 120_000))  # what a full disk does, without one: a write beyond it fails
sys.exit(cli.main(sys.argv[1:]))
"""


def test_a_disk_without_room_ends_in_a_sentence_and_leaves_the_bank_as_it_was(bank: Path, tmp_path: Path) -> None:
    many = [replace(FIRST, key=replace(KEY, state=str(i)), trace=TRACE + "\n" * 5000) for i in range(200)]
    (tmp_path / "many.jsonl").write_text("".join(show_record(r) + "\n" for r in many))
    done = subprocess.run([sys.executable, "-c", LIMITED, "bank", "import", "many.jsonl"], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.startswith(f"aoec: error: bank {bank} cannot ") and done.stderr.count("\n") == 1
    assert Bank.open(bank).list() == (FIRST, SECOND)
