"""Measured times in a bank: kept once, merged in any order, beside modelled records and above them."""
from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.bank.bank import Bank
from aoec.bank.measurements import MEASURED, Measured
from aoec.bank.record import ROBUST, Key, Record
from aoec.base.errors import BankError
from aoec.cli import main

parse, show = MEASURED.parse, MEASURED.show
ONE = Measured("toy", "0" * 16, 2, "a" * 64, "", "add 8x8->8x8 fp16", "Add", "add_1", "after", 2000, 1900, 2100, 3, 8, "p.csv")
RECORD = Record(Key("a" * 64, "toy", "h", "v", "cold inputs"), "add", "sched {\n}", 900, 800, 700, func="func f")
words = st.text("ab\n", max_size=3)
times = st.builds(lambda a, b, c, **more: replace(ONE, least_ns=min(a, b, c), most_ns=max(a, b, c), time_ns=sorted((a, b, c))[1], **more),
                  *[st.integers(1, 9)] * 3, line=st.integers(2, 4), digest=st.sampled_from(["0" * 16, "f" * 16]), trace=words,
                  func_key=st.sampled_from(["", "a" * 64]), when=st.sampled_from(["", "before", "after"]))


@given(times)
def test_a_line_is_read_as_it_was_written(m: Measured) -> None:
    assert parse(show(m)) == m and parse('{"a": 1}') is None and parse("no JSON") is None


@settings(max_examples=8)
@given(st.lists(times, max_size=5), st.lists(times, max_size=5))
def test_banks_are_merged_in_any_order(first: list[Measured], second: list[Measured]) -> None:
    with TemporaryDirectory() as folder:
        def bank(name: str, *given: list[Measured]) -> Bank:
            made = Bank.open(Path(folder) / name)
            for some in given:
                made.measurements.put_all(some)
            return made

        one, two, both = bank("1", first), bank("2", second), bank("3", second, first, first)
        one.merge(two)
        two.merge(one)
        assert one.measurements.list() == two.measurements.list() == both.measurements.list()
        assert not set(both.measurements.put_all(first)) & {"added", "updated"}


def test_no_modelled_record_gives_way(tmp_path: Path) -> None:
    bank = Bank.open(tmp_path / "b.db")
    bank.put(RECORD)
    assert bank.measurements.put_all([ONE]) == ("added",) and bank.list() == (RECORD,)
    assert bank.measurements.put_all([replace(ONE, created="2026-01-01T00:00:00Z")]) == ("kept",)
    bank.export(tmp_path / "b.jsonl")
    other = Bank.open(tmp_path / "c.db")
    assert other.import_(tmp_path / "b.jsonl") == ("added", "added") and other.list() == bank.list()
    assert other.measurements.list("toy", "aa") == (ONE,) and other.measurements.list("toy", "b") == other.measurements.list("else") == ()


@pytest.mark.parametrize("wrong", [
    {"time_ns": 0}, {"time_ns": 2.5}, {"least_ns": 2001}, {"calls": 0}, {"cores": -1}, {"when": "later"}, {"digest": "x"}, {"work": "a\nb"},
    {"func_key": "12"}, {"op_name": "x" * 301}, {"more": 1}, {"measured": 2}, {"trace": "\x1b"}])
def test_what_cannot_be_is_refused_whole(wrong: dict[str, object], tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text(show(replace(ONE, line=9)) + "\n" + json.dumps(json.loads(show(ONE)) | wrong) + "\n")
    with pytest.raises(BankError, match=r":2: .*nothing was imported"):
        Bank.open(tmp_path / "b.db").import_(tmp_path / "b.jsonl")
    assert Bank.open(tmp_path / "b.db").measurements.list() == ()


def test_a_bank_of_before_has_none(tmp_path: Path) -> None:
    bank = Bank.open(tmp_path / "b.db")
    bank.put(RECORD)
    with bank._store.writing() as c:
        c.exec_driver_sql("DROP TABLE measured")
    assert Bank.open(tmp_path / "b.db", create=False, writable=False).measurements.list() == ()
    assert Bank.open(tmp_path / "b.db").measurements.put_all([ONE]) == ("added",)


def test_measured_ranks_above_modelled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bank = Bank.open(tmp_path / "b.db")
    held = replace(RECORD, key=replace(RECORD.key, state="cold inputs" + ROBUST), trace="sched {\n  bind(loop=m)\n}", ticks=850)
    bank.put_all([RECORD, held])

    def says(*words: str) -> str:
        assert main(["bank", *words, "--bank", str(tmp_path / "b.db")]) == 0
        return capsys.readouterr().out

    assert says("best", "aa").strip() == RECORD.trace
    bank.measurements.put_all([ONE, replace(ONE, line=3, trace=held.trace, time_ns=1950)])
    assert says("best", "aa").strip() == held.trace
    shown = says("show", "aa")
    assert "1.95 us after (3 calls, 1.90 to 2.10; Add, p.csv line 3): ranks above what is modelled" in shown
    assert shown.index("bind(loop=m)") < shown.index("the vendor's own schedule, which is not known") < shown.index("p.csv line 2")
    which = says("which", "aa")
    assert which.count("measured  ") == 3 and "p.csv line 3" in which and "cycles, modelled" in which
    told = [r for choice in json.loads(says("which", "aa", "--json")) for r in choice["records"]]
    assert {r["trace"]: len(r.get("measured", ())) for r in told} == {RECORD.trace: 0, held.trace: 1}
    bank.measurements.put_all([replace(ONE, line=4, trace=RECORD.trace, time_ns=1900)])
    assert says("best", "aa").strip() == RECORD.trace


