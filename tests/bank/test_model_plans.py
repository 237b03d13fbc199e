"""Plans of models in a bank: kept once, the faster of one key, merged in any order; no line of a stranger's is believed to be one."""
from __future__ import annotations

import json
from dataclasses import asdict, replace
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.bank.bank import LINE_LIMIT_BYTES, Bank
from aoec.bank.model_plans import MODEL_PLANS, PLAN_LIMIT, ModelPlan, faster_model
from aoec.bank.plans import SLICE_PLANS, SlicePlan
from aoec.base.errors import BankError

TEXT = "plan net for toy {\n  wide sum_1\n  group g0 vector [sum_1] takes 1.5 us\n}"
ONE = ModelPlan("a" * 64, "toy", "h", "v", "latency", "net", TEXT, 900, 800, 16)
SLICES = SlicePlan("a" * 64, "toy", "h", "v", "0" * 16, "latency", "net", "g0..g2/3", 900, 800)
texts = st.sampled_from(["", TEXT, TEXT.replace("sum_1", "sum_2"), TEXT.replace("sum_1", '"a \\"quoted\\" name"')])
plans = st.builds(lambda text, a, b, **more: replace(ONE, plan=text, before_ns=a + b * bool(text), after_ns=a, **more),
                  texts, st.integers(1, 3), st.integers(1, 3), graph_key=st.sampled_from(["a" * 64, "b" * 64]),
                  metric=st.sampled_from(["latency", "throughput"]), searched=st.integers(0, 3), label=st.sampled_from(["net", "other"]),
                  created=st.sampled_from(["", "2026-01-01T00:00:00Z"]))


@given(plans)
def test_a_line_is_read_as_it_was_written(p: ModelPlan) -> None:
    """And as no plan of slices, though it has a field of that word."""
    line = MODEL_PLANS.show(p)
    assert MODEL_PLANS.parse(line) == p and SLICE_PLANS.parse(line) is None and MODEL_PLANS.parse(SLICE_PLANS.show(SLICES)) is None


@given(st.lists(plans, min_size=3, max_size=3))
def test_a_join_is_the_same_in_any_order(three: list[ModelPlan]) -> None:
    three = [replace(p, graph_key="a" * 64, metric="latency") for p in three]
    found = {faster_model(faster_model(a, b), c) for a, b, c in permutations(three)}
    found |= {faster_model(a, faster_model(b, c)) for a, b, c in permutations(three)}
    assert len(found) == 1 and {faster_model(p, q) for p in found for q in (p, *three)} == found
    best, = found
    assert best.after_ns == min(p.after_ns for p in three) and best.searched == max(p.searched for p in three)
    assert replace(best, searched=0) in [replace(p, searched=0) for p in three]


@settings(max_examples=8)
@given(st.lists(plans, max_size=5), st.lists(plans, max_size=5))
def test_banks_are_merged_in_any_order(first: list[ModelPlan], second: list[ModelPlan]) -> None:
    with TemporaryDirectory() as folder:
        def bank(name: str, *given: list[ModelPlan]) -> Bank:
            made = Bank.open(Path(folder) / name)
            for some in given:
                made.model_plans.put_all(some)
            return made

        a, b = bank("a", first), bank("b", second)
        both, other = bank("both", first, second), bank("other", second, first)
        a.merge(b)
        bank("c", first).export(Path(folder) / "c.jsonl")
        b.import_(Path(folder) / "c.jsonl")
        assert a.model_plans.list() == b.model_plans.list() == both.model_plans.list() == other.model_plans.list()
        assert set(a.merge(b)) <= {"kept"}  # and twice is once


def test_what_was_searched_in_vain_is_news_and_when_is_none(tmp_path: Path) -> None:
    bank = Bank.open(tmp_path / "b.db").model_plans
    assert bank.put_all([ONE, replace(ONE, after_ns=850, searched=99)]) == ("added", "updated")
    assert bank.list() == (replace(ONE, searched=99),)
    assert bank.put_all([replace(ONE, created="2026-01-01T00:00:00Z")]) == ("kept",)
    assert bank.list("toy", "aa") == bank.list() and bank.list("toy", "b") == bank.list("else") == bank.list(graph_key="ab") == ()
    assert bank.drop([ONE]) == 0 and bank.drop(bank.list()) == 1 and bank.list() == ()


def test_the_longest_plan_is_exported_and_imported(tmp_path: Path) -> None:
    """Each of its characters is two in a line."""
    longest = replace(ONE, plan="\n" * PLAN_LIMIT)
    bank = Bank.open(tmp_path / "b.db")
    bank.model_plans.put_all([longest])
    bank.export(tmp_path / "b.jsonl")
    assert 2 * PLAN_LIMIT < (tmp_path / "b.jsonl").stat().st_size < LINE_LIMIT_BYTES
    other = Bank.open(tmp_path / "c.db")
    assert other.import_(tmp_path / "b.jsonl") == ("added",) and other.model_plans.list() == (longest,)


@pytest.mark.parametrize("wrong", [
    {"after_ns": 900}, {"after_ns": 0}, {"before_ns": True}, {"before_ns": 1 << 62}, {"plan": ""}, {"plan": "\x1b[2J"}, {"plan": "a\tb"},
    {"plan": "\u00e4"}, {"plan": "x" * (PLAN_LIMIT + 1)}, {"plan": None}, {"plan": [TEXT]}, {"metric": "joy"},
    {"graph_key": "A" * 64}, {"graph_key": "a" * 63}, {"label": "x\n"}, {"label": "x" * 301}, {"searched": -1},
    {"searched": 1.0}, {"more": 1}, {"created": "today"}])
def test_what_is_no_plan_is_refused(wrong: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(BankError):
        MODEL_PLANS.check_fields(asdict(ONE) | wrong)
    good = MODEL_PLANS.show(replace(ONE, label="good"))
    (tmp_path / "x.jsonl").write_text(f"{good}\n{json.dumps(json.loads(good) | wrong)}\n")
    bank = Bank.open(tmp_path / "b.db")
    with pytest.raises(BankError, match=r"x.jsonl:2: .*; nothing was imported") as e:
        bank.import_(tmp_path / "x.jsonl")
    assert str(e.value).isprintable() and len(str(e.value)) < 500 and not bank.model_plans.list()


@pytest.mark.parametrize("line, why", [
    (json.dumps(asdict(ONE) | {"model plan": 2}), "of version 2 is beyond this aoec"),
    (json.dumps(asdict(ONE) | {"model plan": "1"}), "a record has the fields"), (json.dumps(asdict(ONE)), "a record has the fields"),
    (json.dumps(asdict(ONE) | {"model plan": 1, "plan": 1}), "a plan of slices has the fields"),
    ('{"model plan":1,' + "[" * 9000, "this is not JSON"), ('["model plan"]', "a record is a JSON object")])
def test_a_line_of_something_else_is_refused_as_what_it_is(line: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(line + "\n")
    with pytest.raises(BankError, match=f"x.jsonl:1: .*{why}"):
        Bank.open(tmp_path / "b.db").import_(tmp_path / "x.jsonl")


def test_a_bank_of_before_has_none(tmp_path: Path) -> None:
    bank = Bank.open(tmp_path / "b.db")
    bank.plans.put_all([SLICES])
    with bank._store.writing() as c:
        c.exec_driver_sql("DROP TABLE model_plans")
    older = Bank.open(tmp_path / "b.db", create=False, writable=False)
    assert older.model_plans.list() == () and older.all() == (SLICES,)
    assert Bank.open(tmp_path / "b.db").model_plans.put_all([ONE]) == ("added",)
