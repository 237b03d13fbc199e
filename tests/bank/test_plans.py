"""Plans of slices in a bank: kept once, the faster of one key, merged in any order, and no line of a stranger's is believed to be one."""
from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.bank.bank import Bank
from aoec.bank.plans import SLICE_PLANS, SlicePlan
from aoec.base.errors import BankError
from aoec.base.regions import regions
from aoec.base.regions import show as show_regions
from aoec.cli import main

check_fields, parse, show = SLICE_PLANS.check_fields, SLICE_PLANS.parse, SLICE_PLANS.show
ONE = SlicePlan("a" * 64, "toy", "h", "v", "0" * 16, "latency", "net", "g0..g2/3,g5/2", 900, 800)
parts = st.lists(st.tuples(st.sampled_from(["g0", "g1"]), st.sampled_from(["g1", "g7"]), st.integers(2, 12)), max_size=3)
plans = st.builds(lambda r, a, b, **more: replace(ONE, regions=show_regions(r), before_ns=a + b * bool(r), after_ns=a, **more),
                  parts, st.integers(1, 4), st.integers(1, 3), graph_key=st.sampled_from(["a" * 64, "b" * 64]),
                  schedules=st.sampled_from(["0" * 16, "1" * 16]), label=st.sampled_from(["net", "other"]))


@given(plans)
def test_a_line_is_read_as_it_was_written(p: SlicePlan) -> None:
    assert parse(show(p)) == p and parse('{"a": 1}') is None and parse("no JSON") is None
    assert show_regions(regions(p.regions) if p.regions else ()) == p.regions


@settings(max_examples=8)
@given(st.lists(plans, max_size=5), st.lists(plans, max_size=5))
def test_banks_are_merged_in_any_order(first: list[SlicePlan], second: list[SlicePlan]) -> None:
    with TemporaryDirectory() as folder:
        def bank(name: str, *given: list[SlicePlan]) -> Bank:
            made = Bank.open(Path(folder) / name)
            for some in given:
                made.plans.put_all(some)
            return made

        a, b = bank("a", first), bank("b", second)
        both, other = bank("both", first, second), bank("other", second, first)
        a.merge(b)
        b.import_(_exported(bank("c", first), Path(folder) / "c.jsonl"))
        assert a.plans.list() == b.plans.list() == both.plans.list() == other.plans.list()
        assert set(a.merge(b)) <= {"kept"}  # and twice is once
        for p in a.plans.list():
            of = [q for q in (*first, *second) if (q.graph_key, q.schedules) == (p.graph_key, p.schedules)]
            assert p.after_ns == min(q.after_ns for q in of)


def _exported(bank: Bank, path: Path) -> str:
    bank.export(path)
    return str(path)


@pytest.mark.parametrize("wrong", [
    {"after_ns": 900}, {"after_ns": 0}, {"before_ns": True}, {"regions": "g0..g2"}, {"regions": "conv/2"}, {"metric": "joy"},
    {"graph_key": "A" * 64}, {"label": "x\n"}, {"more": 1}, {"created": "today"}, {"schedules": "0"}])
def test_what_is_no_plan_is_refused(wrong: dict[str, object], tmp_path: Path) -> None:
    line = json.dumps(asdict(ONE) | {"plan": 1} | wrong)
    with pytest.raises(BankError):
        check_fields(asdict(ONE) | wrong)
    (tmp_path / "x.jsonl").write_text(f"{show(replace(ONE, label='good'))}\n{line}\n")
    bank = Bank.open(tmp_path / "b.db")
    with pytest.raises(BankError, match=r"x.jsonl:2: .*; nothing was imported"):
        bank.import_(tmp_path / "x.jsonl")
    assert not bank.plans.list()


def test_a_plan_of_a_later_form_is_refused_by_its_version() -> None:
    with pytest.raises(BankError, match="version 2 is beyond this aoec"):
        parse(json.dumps(asdict(ONE) | {"plan": 2}))


def test_a_plan_is_listed_shown_and_pruned_like_a_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bank = Bank.open(tmp_path / "b.db")
    one = replace(ONE, target="Ascend310P3")
    bank.plans.put_all([one, replace(one, graph_key="b" * 64, regions="", after_ns=900)])

    def said(*words: str) -> str:
        assert main(["bank", *words, "--bank", str(bank.path)]) == 0
        return capsys.readouterr().out

    assert "plans of slices" in said("list") and "g0..g2/3,g5/2" in said("list") and "nothing is faster in slices" in said("list")
    assert said("best", "aaa") == "g0..g2/3,g5/2\n" and json.loads(said("best", "aaa", "--json"))["after_ns"] == 800
    assert "before ns      900" in said("show", "aaa") and json.loads(said("show", "b", "--json"))[0]["regions"] == ""
    assert [p["graph_key"][0] for p in json.loads(said("list", "--json"))] == ["a", "b"] and "2 plans of slices" in said("stats")
    assert main(["bank", "best", "", "--bank", str(bank.path)]) == 2 and "is empty" in capsys.readouterr().err
    assert "2 records would go" in said("prune") and len(bank.plans.list()) == 2
    assert "2 records removed" in said("prune", "--yes") and not bank.plans.list()
