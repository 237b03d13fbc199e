"""A tuning job that is broken off goes on to what an undisturbed one ends with: same records, same outcomes, same counts."""
from __future__ import annotations

import os
import signal
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cache, lru_cache
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aoec.bank.bank import Bank
from aoec.bank.journal import Batch, Journal
from aoec.bank.record import Key, parse_record
from aoec.base.errors import BankError
from aoec.ir.graph.graph import Group
from aoec.ir.text.keys import key
from aoec.jobs.choose.model_tasks import Task
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.answers import Answers, pack, unpack
from aoec.jobs.tune.order import Order, Solved, keys
from aoec.jobs.tune.resume import Unfinished, search_name
from aoec.jobs.tune.solve import solve
from aoec.target.machine import load

pytestmark = pytest.mark.usefixtures("few")

MACHINE = load()
ORDER = Order(True, budget=("trials", 30), seed=1, jobs=1)


def task(name: str, text: str) -> Task:
    func = lower_operator(text)
    return Task(Group(name, "cube", (name,)), func, key(func), (), (), text)


TASKS = [task("g1", "matmul(m=80, k=96, n=48, fp16)"), task("g2", "matmul(m=48, k=32, n=80, fp16)")]


@cache
def task_keys() -> list[Key]:
    return [keys(t, MACHINE)[1] for t in TASKS]


class Killed(BaseException):
    """What no code expects, as a kill."""


def run(path: Path, order: Order = ORDER, ended: Callable[[], None] = lambda: None) -> tuple[str, list[Any], list[str]]:
    """(what is said of an earlier run, what became of each task, the bank's records without times)"""
    bank, became = Bank.open(path), []
    job = Unfinished(bank, order)
    said = job.begin(task_keys())

    def done(t: Task, s: Solved) -> None:
        became.append((t.group.name, s.outcome, s.trials, s.trust, s.candidates))
        ended()

    solve(TASKS, MACHINE, MACHINE.name, bank, order, done, job)
    job.end()
    return said, became, list(bank.lines(times=False))


def again(**words: Any) -> Order:
    return Order(**{**vars(ORDER), "resume": True, **words})


@lru_cache(maxsize=1)
def undisturbed(folder: Path) -> tuple[list[Any], list[str]]:
    return run(folder / "whole.db")[1:]


@contextmanager
def broken(at: int, act: Callable[[], None]) -> Iterator[None]:
    """`act` is called when the model machine is asked for the n-th time."""
    ask, asked = Answers.ask, count(1)

    def counted(self: Answers, *words: Any) -> np.ndarray:
        if next(asked) == at:
            act()
        return ask(self, *words)

    with mock.patch.object(Answers, "ask", counted):
        yield


def asks(order: Order = ORDER, *before: Order) -> list[int]:
    """How often the model machine has been asked when each task of a job ends, where jobs `before` have filled its bank."""
    ask, ends, asked = Answers.ask, list[int](), count(1)
    last = 0

    def counted(self: Answers, *words: Any) -> np.ndarray:
        nonlocal last
        last = next(asked)
        return ask(self, *words)

    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "b.db"
        for earlier in before:
            run(path, earlier)
        with mock.patch.object(Answers, "ask", counted):
            run(path, order, lambda: ends.append(last))
    return ends


@lru_cache(maxsize=1)
def in_two() -> list[int]:
    """The same of an undisturbed job."""
    return asks()


def kill() -> None:
    raise Killed


def note(journal: Journal, search: str, batches: dict[int, Batch]) -> None:
    """Nothing; batches of a search are noted by their numbers."""
    with closing(journal.notes(search)) as notes:
        for number, batch in batches.items():
            notes.note(number, batch)


def left(path: Path) -> list[int]:
    """Rows of the journal, table by table."""
    with sqlite3.connect(path) as c:
        assert c.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return [c.execute(f"SELECT count(*) FROM journal_{name}").fetchone()[0] for name in ("batches", "stops", "outcomes")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("resume")


# `make test` asks of three moments, `make test-all` of four others
@settings(max_examples=4 if settings.get_current_profile_name() == "random" else 3, suppress_health_check=[HealthCheck.too_slow])
@given(st.floats(0, 1))
def test_a_killed_job_goes_on_to_the_same_end(folder: Path, part: float) -> None:
    at = 2 + int(part * (in_two()[-1] - 2))
    path = folder / f"{at}.db"
    path.unlink(missing_ok=True)
    with pytest.raises(Killed), broken(at, kill):
        run(path)
    said, *rest = run(path, again())
    assert tuple(rest) == undisturbed(folder) and left(path) == [0, 0, 0]
    assert said.startswith("going on from an interrupted run: 1 ")


@pytest.mark.parametrize(("group", "signals"), [(0, 1), (1, 1), (0, 2)])
def test_a_job_that_a_user_ends_goes_on(folder: Path, tmp_path: Path, group: int, signals: int) -> None:
    """Once: the best so far is in the bank, and gives way at the end; twice: at once, and nothing of the search is."""
    path, default = tmp_path / "b.db", [0, *asks(Order(False, seed=1, jobs=1))]
    at = [0, *in_two()][group] + default[group + 1] - default[group] + 2  # its search is under way: behind the default, holes unsettled
    with pytest.raises(KeyboardInterrupt), broken(at, lambda: [os.kill(os.getpid(), signal.SIGINT) for _ in range(signals)]):
        run(path)
    kept = [r for r in Bank.open(path).list() if r.searched]
    assert len(kept) == (signals == 1) + group and left(path)[1] == (signals == 1)
    assert [r.trials for r in kept] != [r.trials for r in map(parse_record, undisturbed(folder)[1]) if r.searched]
    said, *rest = run(path, again())
    assert "under way" in said and tuple(rest) == undisturbed(folder) and left(path) == [0, 0, 0]


def test_what_a_user_ended_is_not_resumed_unasked(folder: Path, tmp_path: Path) -> None:
    """A search from its start says what there is to go on from, and leaves it where it is until it ends."""
    path = tmp_path / "b.db"
    with pytest.raises(Killed), broken(40, kill):
        run(path)
    noted = left(path)
    with pytest.raises(Killed), broken(10, kill):
        run(path)
    assert left(path) == noted
    said, outcomes, lines = run(path)
    assert "an interrupted run had 1 under way (after " in said and "--resume would go on from there" in said
    assert (outcomes, lines) == undisturbed(folder) and left(path) == [0, 0, 0]


def test_a_full_disk_ends_the_job_and_not_the_bank(folder: Path, tmp_path: Path) -> None:
    """SQLite's own failure, at a limit of pages."""
    path, connect = tmp_path / "b.db", sqlite3.connect
    bank = Bank.open(path)
    bank.put(parse_record(undisturbed(folder)[1][0]))
    before = list(bank.lines())
    with connect(path) as c:
        (pages,), = c.execute("PRAGMA page_count")

    def small(*words: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*words, **options)
        connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        return connection

    with pytest.raises(BankError, match=r"cannot grow .*free some space"), broken(0, kill), mock.patch("sqlite3.connect", small):
        run(path)
    assert list(Bank.open(path).lines()) == before and left(path)[0] > 5
    assert run(path, again())[2] == undisturbed(folder)[1]


def test_a_search_again_is_not_made_twice(tmp_path: Path) -> None:
    """--repeat: what a broken run searched again already is not searched a third time, and counts as it did."""
    path, whole = tmp_path / "b.db", tmp_path / "whole.db"
    more = {"repeat": True, "budget": ("trials", 40)}
    for p in (path, whole):
        run(p)
    expected = run(whole, Order(**{**vars(ORDER), **more}))[1:]
    first, both = asks(Order(**{**vars(ORDER), **more}), ORDER)
    with pytest.raises(Killed), broken((first + both) // 2, kill):
        run(path, Order(**{**vars(ORDER), **more}))
    said, *rest = run(path, again(**more))
    assert "1 group done and 1 under way" in said and tuple(rest) == expected


def test_a_journal_that_lies_is_found_out(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "b.db"
    with pytest.raises(Killed), broken(50, kill):
        run(path)
    journal, name = Bank.open(path).journal, search_name(task_keys()[0], ORDER)
    told = list(journal.batches(name))
    first = next(i for i, b in enumerate(told) if b.timed)
    lies = unpack(told[first].answer, (2, told[first].timed))
    assert lies is not None
    lies[:] = [[1], [0]]
    note(journal, name, {first: replace(told[first], answer=pack(lies))})
    assert run(path, again())[1:] == undisturbed(folder)


def test_a_task_without_a_schedule_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "b.db"
    note(Bank.open(path).journal, search_name(task_keys()[0], ORDER), {0: Batch("asked", 1, 0.5, b"")})
    with mock.patch("aoec.jobs.tune.solve.attempt", lambda *words: "it has none"):
        said, outcomes, lines = run(path, again())
    assert "1 under way" in said and not outcomes and not lines and left(path) == [0, 0, 0]


@given(st.binary(max_size=40), st.integers(0, 9))
def test_bytes_that_were_never_packed_are_refused(data: bytes, n: int) -> None:
    found = unpack(data, (n,))
    assert found is None or found.shape == (n,) and np.array_equal(unpack(pack(found), (n,)), found)
    assert unpack(pack(np.zeros(1 << 12, np.int64)), (n,)) is None


def test_seconds_of_earlier_runs_count() -> None:
    """The clock of a search stands still while it is told what it knew, at what it was then, and goes on from there."""
    now = [100.0]
    notes = mock.Mock()
    first = Answers((), notes, lambda: now[0])
    for question in (b"a", b"b"):
        now[0] += 3.0
        assert first.ask([question], 1, (1,), lambda: np.array([7])).tolist() == [7]
    (at, noted), (then, more) = (call.args for call in notes.note.call_args_list)
    assert (at, then) == (0, 1)
    now[0] = 900.0
    second = Answers([noted, more], None, lambda: now[0])
    now[0] += 50.0
    assert second.ask([b"a"], 1, (1,), lambda: pytest.fail("it is known")).tolist() == [7] and second.seconds == 3.0
    assert second.ask([b"other"], 1, (1,), lambda: np.array([8])).tolist() == [8]  # and what was noted behind is of no use
    now[0] += 2.0
    assert second.seconds == 5.0 and second.timed_before == 1


def test_a_gap_ends_what_is_told(tmp_path: Path) -> None:
    journal = Bank.open(tmp_path / "b.db").journal
    batches = [Batch(str(i), i, i / 2, bytes([i])) for i in range(4)]
    note(journal, "s", {i: batches[i] for i in (0, 1, 3)})
    note(journal, "other", {1: batches[1]})
    assert journal.batches("s") == tuple(batches[:2]) and journal.batches("other") == () and journal.timed_counts(["s", "no"]) == {"s": 4}
    journal.forget("s")
    assert journal.batches("s") == () and left(tmp_path / "b.db") == [1, 0, 0]
