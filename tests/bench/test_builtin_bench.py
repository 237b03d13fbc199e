"""bench/builtin.py: a run that is ended leaves what is finished, no file that is not whole, and goes on where it was."""
from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import aoec
from aoec.bank.bank import Bank
from aoec.bank.builtin import BuiltIn
from aoec.bank.record import DEFAULT, Key, Record
from bench import builtin

RECORD = Record(Key("ab" * 32, "Ascend310P3", "cd" * 32, "m1", "cold inputs"), "matmul", "sched {\n}", 900, 500, 400, trials=7, searched=7,
                search="portfolio", func="func f() -> () {\n}")
PLACES = {"resnet50": "ab" * 32, "lstm": "ee" * 32}


def test_ctrl_c_ends_the_whole_and_the_next_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                        capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[tuple[str, bool]] = []
    monkeypatch.setattr(builtin, "NETWORKS", {n: lambda batch, seed, n=n: type("Network", (), {"model": n}) for n in PLACES})

    def compile(model: str, output: Path, *, bank: Path, resume: bool, **options: Any) -> None:
        asked.append((model, resume))
        best = replace(RECORD, key=replace(RECORD.key, func_key=PLACES[model]))
        Bank.open(bank).put_all([best, replace(best, key=replace(best.key, state=best.key.state + DEFAULT), func="")])
        if asked == [("resnet50", True), ("lstm", True)]:
            raise KeyboardInterrupt

    monkeypatch.setattr(aoec, "compile", compile)
    words = ["--networks", "resnet50", "lstm", "--targets", "Ascend310P3", "-o", str(tmp_path), "--work", str(tmp_path / "work")]
    assert builtin.main(words) == 130 and not list(tmp_path.glob("*.jsonl"))
    assert "interrupted" in (said := capsys.readouterr().err) and said.count("\n") == 1
    assert builtin.main([*words, "--budget", "9"]) == 0 and len(asked) == 4, "of another budget nothing is gone on with"
    assert builtin.main(words) == 0 and asked[4:] == [("lstm", True)]
    assert "resnet50 on Ascend310P3: done before" in capsys.readouterr().out
    assert len(BuiltIn(tmp_path / "Ascend310P3.jsonl").list()) == 4 and not list((tmp_path / "work").iterdir())


def test_what_an_older_file_knows_better_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what it takes now, whatever it said; not of a default, nor what has no program any more."""
    now = {"better": 450, "worse": 700, "gone": "no such loop"}
    monkeypatch.setattr(builtin, "retime_record", lambda old, func, machine: now[old.trace])
    keys = [replace(RECORD.key, func_key=f"{i:064x}") for i in range(3)]
    own = [replace(RECORD, key=k) for k in keys] + [replace(RECORD, key=replace(keys[0], state=RECORD.key.state + DEFAULT))]
    older = [replace(r, trace=trace, ticks=460, trials=3) for r, trace in zip(own, (*now, "better"))]
    path = builtin.write("Ascend310P3", older, tmp_path)
    assert builtin.better(own, path) == [replace(own[0], trace="better", ticks=450, trials=3), *own[1:]]
    assert builtin.better(own, tmp_path / "none.jsonl") == own


@pytest.mark.parametrize("changed", [False, True])
def test_a_bank_whose_times_are_equal_is_written_for_the_present_sources(changed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                                         capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(builtin, "retime_record", lambda r, func, machine: r.ticks + changed if func else "a default without its func")
    monkeypatch.setattr(builtin, "model_version", lambda: "m2")
    default = replace(RECORD, key=replace(RECORD.key, state=RECORD.key.state + DEFAULT), func="")
    path = builtin.write("Ascend310P3", [RECORD, default], tmp_path)
    before = path.read_bytes()
    monkeypatch.setattr(BuiltIn, "of", lambda target: BuiltIn(path))
    assert builtin.main(["--retime", "--targets", "Ascend310P3", "-o", str(tmp_path)]) == changed
    said = capsys.readouterr().out
    if changed:
        assert path.read_bytes() == before and "2 times differ" in said and f"{RECORD.ticks} ticks, now {RECORD.ticks + 1}" in said
    else:
        now = BuiltIn(path).list()
        assert {r.key.model_version for r in now} == {"m2"} and [r.ticks for r in now] == [RECORD.ticks] * 2


def test_records_whose_times_are_equal_are_taken_over_and_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = {"same": RECORD.ticks, "other": RECORD.ticks + 1, "gone": "no such loop"}
    monkeypatch.setattr(builtin, "retime_record", lambda r, func, machine: now[r.trace] if func else "a default without its func")
    monkeypatch.setattr(builtin, "model_version", lambda: "m2")
    keys = [replace(RECORD.key, func_key=f"{i:064x}") for i in range(3)]
    older = [replace(RECORD, key=k, trace=trace) for k, trace in zip(keys, now)]
    older.append(replace(older[0], key=replace(keys[0], state=RECORD.key.state + DEFAULT), func=""))
    builtin.write("Ascend310P3", older, tmp_path)
    assert builtin.take_over("Ascend310P3", tmp_path, tmp_path / "bank.db") == 2
    taken = Bank.open(tmp_path / "bank.db").list("Ascend310P3")
    assert {(r.key.func_key, r.trace, r.key.model_version) for r in taken} == {(keys[0].func_key, "same", "m2")} and len(taken) == 2
