"""The built-in bank: what is written is read, equal records make equal bytes, and the files that come with aoec are whole."""
from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from aoec.bank import builtin
from aoec.bank.bank import Bank
from aoec.bank.builtin import BuiltIn, write
from aoec.bank.claims import Claimed, kept_model_plans, kept_plans
from aoec.bank.model_plans import ModelPlan
from aoec.bank.near import family
from aoec.bank.record import DEFAULT, Key, Record
from aoec.base.errors import BankError
from aoec.jobs.bank.bank_verify import retime
from aoec.jobs.bank.shelf import base, stale
from aoec.target.machine import load

KEY = Key("ab" * 32, "toy", "cd" * 32, "m1", "cold inputs")
BEST = Record(KEY, "matmul", "sched {\n}", 900, 500, 400, trials=7, searched=7, search="portfolio", func="func f() -> () {\n}")
NEGATIVE = replace(BEST, key=replace(KEY, func_key="ee" * 32), ticks=900, trace="sched a {\n}", func="func f(A: fp16[8]) -> () {\n}")
DEFAULTS = tuple(replace(r, key=replace(r.key, state=r.key.state + DEFAULT), ticks=900, func="", trials=0) for r in (BEST, NEGATIVE))
ALL = tuple(sorted((BEST, NEGATIVE, *DEFAULTS), key=lambda r: r.key))
SHIPPED = sorted(Path(builtin.__file__).parent.glob("*.jsonl"))


@pytest.fixture
def shelf(tmp_path: Path) -> BuiltIn:
    return BuiltIn(write("toy", reversed(ALL), tmp_path))


def test_what_is_written_is_read(shelf: BuiltIn) -> None:
    assert shelf.list() == ALL and shelf.made_for == ("cd" * 32, "m1")
    assert shelf.list(func_key="ee") == ALL[2:] and shelf.list(target="other") == () and shelf.list(kind="measured") == ()
    assert shelf.all_of([KEY, replace(KEY, model_version="m2"), replace(KEY, func_key="00" * 32)]) == {KEY: BEST}
    assert shelf.of_families([family(NEGATIVE.func)]) == (NEGATIVE,) and shelf.of_families([""]) == ()


def test_equal_records_make_equal_bytes_and_a_new_version_a_line(shelf: BuiltIn, tmp_path: Path) -> None:
    before = shelf.path.read_text().splitlines()
    later = [replace(r, created="2026-01-01T00:00:00Z", tool="aoec 9") for r in ALL]
    assert write("toy", later, tmp_path).read_text().splitlines() == before
    write("toy", [replace(r, key=replace(r.key, model_version="m2")) for r in ALL], tmp_path)
    after = shelf.path.read_text().splitlines()
    assert after[0] != before[0] and after[1:] == before[1:]


@pytest.mark.parametrize("text, words", [("", "damaged"), ("[]\n", "damaged"), ('{"schema":1,"common":{}}\n', "has schema 1")])
def test_a_damaged_file_is_one_sentence(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "toy.jsonl").write_text(text)
    with pytest.raises(BankError, match=words) as e:
        BuiltIn(tmp_path / "toy.jsonl")
    assert "\n" not in str(e.value)


def test_a_damaged_line_is_one_sentence(shelf: BuiltIn) -> None:
    shelf.path.write_text(shelf.path.read_text().replace('"ticks":500', '"ticks":"fast"'))
    with pytest.raises(BankError, match="field ticks"):
        BuiltIn(shelf.path).list()


def test_no_target_is_a_path() -> None:
    assert BuiltIn.of("../bank/Ascend910B3") is None and BuiltIn.of("no such chip") is None


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.stem)
def test_what_comes_with_aoec_is_whole_and_true_or_said_to_be_stale(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files are made by bench/builtin.py and go stale with each change of what is emitted and how it is timed."""
    assert path.stat().st_size < 1 << 20
    monkeypatch.delenv("AOEC_BASE_BANK")
    machine, said = load(path.stem), list[str]()
    shelf, records = base(None, machine, said.append), BuiltIn(path).list()
    assert {r.key.target for r in records} == {path.stem}
    assert len({(r.key.machine_hash, r.key.model_version) for r in records}) == 1
    assert [r.key for r in records] == sorted(r.key for r in records)
    funcs = {r.key.func_key for r in records if r.func}
    plans = BuiltIn(path).model_plans
    assert funcs == {r.key.func_key for r in records} and len(path.read_text().splitlines()) == len(records) + len(plans) + 1
    if why := stale(records[0].key.machine_hash, records[0].key.model_version, machine):
        assert shelf is None and said == [f"the built-in bank of {path.stem} is of another {why} and is not used"]
    else:
        some = [r for r in records if r.is_faster][::40]
        assert shelf is not None and not said and all(retime(r, r.func, machine) == r.ticks for r in some)


def test_which_targets_have_one() -> None:
    """Each file is JSON lines of a shipped machine; at least one came with aoec."""
    assert SHIPPED and all(json.loads(line) for p in SHIPPED for line in p.read_text().splitlines())


# ---------------------------------------------------------------- plans of models

PLAN = ModelPlan("ef" * 32, "toy", "cd" * 32, "m1", "latency", "net", "plan net for toy {\n}", 900, 800, 16)


def test_plans_of_models_stand_behind_the_records(tmp_path: Path) -> None:
    vain = replace(PLAN, graph_key="00" * 32, plan="", after_ns=900)
    other = replace(PLAN, graph_key="11" * 32, model_version="m2")
    dated = replace(PLAN, tool="aoec 9", created="2026-01-01T00:00:00Z")
    shelf = BuiltIn(write("toy", ALL, tmp_path, [dated, vain, other]))
    assert shelf.model_plans == (vain, other, PLAN) and shelf.list() == ALL
    *_, last = shelf.path.read_text().splitlines()
    assert "m1" not in last and "toy\"" not in last  # the first line says the machine and the model version
    assert list(kept_model_plans(shelf, "toy")) == [vain, other, PLAN] and list(kept_model_plans(shelf, None, "ef")) == [PLAN]
    assert list(kept_model_plans(shelf, "else")) == []
    before = shelf.path.read_text().splitlines()
    later = write("toy", [replace(r, key=replace(r.key, model_version="m3")) for r in ALL], tmp_path, [replace(PLAN, model_version="m3")])
    assert set(later.read_text().splitlines()) - set(before) == {later.read_text().splitlines()[0]}


def test_the_plans_of_a_bank_come_before_those_beneath_it(tmp_path: Path) -> None:
    shelf = BuiltIn(write("toy", ALL, tmp_path, [PLAN]))
    faster, claim = replace(PLAN, after_ns=1), replace(PLAN, after_ns=2)
    bank = Bank.open(tmp_path / "b.db")
    bank.model_plans.put_all([faster])
    claimed = Claimed((), shelf, tmp_path, model_plans=(claim,))
    assert list(kept_model_plans(bank.over(claimed), "toy")) == [faster, claim, PLAN] and list(kept_plans(bank.over(claimed), None)) == []


@pytest.mark.parametrize("old, new, words", [('"after_ns":800', '"after_ns":0', "field after_ns of a plan of a model"),
                                             ('"model plan":1', '"model plan":2', "version 2 is beyond this aoec"),
                                             ('"after_ns":800,', '"after_ns":800,,', "damaged")])
def test_a_damaged_plan_is_one_sentence(old: str, new: str, words: str, tmp_path: Path) -> None:
    shelf = BuiltIn(write("toy", ALL, tmp_path, [PLAN]))
    text = shelf.path.read_text()
    assert old in text
    shelf.path.write_text(text.replace(old, new))
    with pytest.raises(BankError, match=words) as e:
        BuiltIn(shelf.path).model_plans  # noqa: B018
    assert "\n" not in str(e.value)
