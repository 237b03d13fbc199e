"""Searches begin with what a bank knows of stale records and near shapes, timed; a job's own results are no part of it."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from aoec.bank.bank import Bank
from aoec.bank.near import family
from aoec.bank.record import Record
from aoec.ir.graph.graph import Group
from aoec.ir.text.keys import key
from aoec.ir.text.parse import parse_func
from aoec.ir.text.show import show
from aoec.jobs.choose.model_tasks import Task
from aoec.jobs.tune.order import Order
from aoec.jobs.tune.solve import attempt
from aoec.jobs.tune.starts import candidates, starts
from aoec.jobs.tune.tuning import problem
from aoec.target.machine import load
from tests.search.test_placed import MATMUL

MACHINE = load()
QUICK = Order(True, budget=("trials", 16))


def task(m: int) -> Task:
    """A matrix product of so many rows as a task."""
    func = parse_func(MATMUL.format(m=m))
    return Task(Group("g0", "cube", ("n0",)), func, key(func), (), (), f"matmul {m}")


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    return Bank.open(tmp_path / "bank.db")


@pytest.fixture(scope="module")
def best() -> Record:
    """What a short search finds for 512 rows."""
    found = attempt(task(512), MACHINE, replace(QUICK, budget=("trials", 64)))
    assert not isinstance(found, str) and found.best.is_faster
    return found.best


def stale(record: Record) -> Record:
    return replace(record, key=replace(record.key, model_version="old"))


def test_an_empty_bank_knows_nothing(bank: Bank) -> None:
    assert starts([task(512)], MACHINE, bank, QUICK) == ({}, "")


def test_stale_schedules_and_near_shapes_are_known_and_said(bank: Bank, best: Record) -> None:
    bank.put(stale(best))
    found, said = starts([task(512), task(384)], MACHINE, bank, QUICK)
    assert found == {best.key.func_key: (best.trace,)} and "for 1 group with stale schedules, of another machine file" in said
    found, said = starts([task(384)], MACHINE, bank, QUICK)
    assert found == {task(384).func_key: (best.trace,)} and "for 1 group with schedules of near shapes" in said
    assert family(best.func) == family(show(replace(task(384).func, name="f")))


def test_what_a_job_keeps_itself_is_no_start_of_it(bank: Bank, best: Record) -> None:
    """So a job that is broken off and goes on finds the same starts, whatever it had kept."""
    bank.put(best)
    assert starts([task(512), task(384)], MACHINE, bank, replace(QUICK, repeat=True))[0] == {}
    assert task(384).func_key in starts([task(384)], MACHINE, bank, QUICK)[0]


def test_who_has_an_answer_needs_no_start(bank: Bank, best: Record) -> None:
    bank.put_all([stale(best), replace(best, searched=16)])
    assert starts([task(512)], MACHINE, bank, QUICK)[0] == {}
    assert starts([task(512)], MACHINE, bank, replace(QUICK, budget=("trials", 17)))[0] == {best.key.func_key: (best.trace,)}


@pytest.mark.parametrize("change", [
    lambda r: replace(r, key=replace(r.key, target="Ascend310P3")), lambda r: replace(r, ticks=r.default_ticks),
    lambda r: replace(r, key=replace(r.key, kind="measured"))])
def test_what_says_nothing_of_this_chip_or_of_a_gain_is_none(change: Callable[[Record], Record], bank: Bank, best: Record) -> None:
    bank.put(change(stale(best)))
    assert starts([task(512)], MACHINE, bank, QUICK)[0] == {}


def test_a_search_begins_with_them_and_believes_none(best: Record) -> None:
    """With one trial a search is as good as its start; a claim of a time that is none changes nothing; neither does nonsense."""
    one = replace(QUICK, budget=("trials", 1))
    known = replace(one, starts={best.key.func_key: ("no schedule", "sched {\n}", best.trace)})
    without, with_ = (attempt(task(512), MACHINE, order) for order in (one, known))
    assert not isinstance(without, str) and not isinstance(with_, str)
    assert with_.best.ticks <= best.ticks and with_.best.ticks <= without.best.ticks and with_.default == replace(
        without.default, created=with_.default.created)
    again = attempt(task(512), MACHINE, known)
    assert not isinstance(again, str) and replace(again.best, created="") == replace(with_.best, created="")
    p = problem(task(512).func, MACHINE)
    assert len(candidates(p, [best.trace, best.trace, "nonsense"])) == 1
