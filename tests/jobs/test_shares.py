"""A job by time: every search has a share, none begins when the time is over, and what it counted makes the same result again."""
from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aoec import cli
from aoec.artifact.artifact import load as load_artifact
from aoec.bank.bank import Bank
from aoec.base.errors import CheckError
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune import counts
from aoec.jobs.tune.budget import Limits, Until, limits, parse_limits
from aoec.jobs.tune.order import Order, keys
from aoec.jobs.tune.resume import Unfinished
from aoec.jobs.tune.shares import READY_S, JobTime, Share, shares
from aoec.jobs.tune.solve import solve
from aoec.jobs.tune.tuning import problem, search, start
from aoec.search.space.trials import Phase
from tests.jobs.small import layers
from tests.jobs.test_resume import MACHINE, TASKS

pytestmark = pytest.mark.usefixtures("few")


@pytest.mark.parametrize("strategy", ["portfolio", "genetic", "proof"])
@pytest.mark.parametrize("text", ["matmul(m=80, k=96, n=48, fp16)", "softmax(m=48, n=256)"])
def test_a_search_by_time_is_repeated_by_what_it_counted(strategy: str, text: str) -> None:
    """The limits that it says lead another search of the same func, by no clock, to the same candidates and the same end."""
    func, found = lower_operator(text), []
    for again in (False, True):
        p = problem(func, MACHINE)
        first = start(p)
        budget = found[0].spent.limits if again else ("seconds", 0.25)
        assert budget is not None
        found.append(search(p, first, strategy, budget, 3))
    by_time, repeated = found
    assert by_time == repeated and by_time.spent.limits is not None
    assert parse_limits(json.loads(json.dumps(vars(by_time.spent.limits)))) == by_time.spent.limits


def test_a_job_by_time_is_repeated_by_its_counts(tmp_path: Path) -> None:
    """Equal records, whatever the time was enough for; a search for which none was left is none in the repetition either."""
    results, said = [], dict[str, Limits | None]()
    for name in ("by_time.db", "again.db"):
        bank, order = Bank.open(tmp_path / name), Order(True, seed=1, jobs=1, counts=said)
        job = Unfinished(bank, order if said else replace(order, seconds=1.5, deadline=time.monotonic() + 1.5))
        solved, _ = solve(TASKS, MACHINE, MACHINE.name, bank, job.order, lambda t, s: None, job)
        job.note(solved)
        said = dict(job.searched)
        results.append((said, {k: (s.best.trace, s.best.ticks, s.trials, s.candidates) for k, s in solved.items()}))
    assert results[0] == results[1] and len(results[0][0]) == len(TASKS)


def test_a_search_that_has_no_time_left_is_made_by_the_next_job(tmp_path: Path) -> None:
    """It has its default schedule, and the bank does not say that anything was searched."""
    bank, order = Bank.open(tmp_path / "b.db"), Order(True, seconds=1.0, jobs=1)
    solved, _ = solve(TASKS[:1], MACHINE, MACHINE.name, bank, order.by(time.monotonic()), lambda t, s: None)
    s, = solved.values()
    assert (s.trials, s.spent.limits, s.best.searched, s.best.search) == (0, None, 0, "default") and s.best.trace == s.default.trace
    assert s.spent.candidates[Phase.DEFAULT.value] > 0
    again, _ = solve(TASKS[:1], MACHINE, MACHINE.name, bank, order.by(time.monotonic() + 1), lambda t, s: None)
    assert not again[keys(TASKS[0], MACHINE)[1]].found


@given(st.lists(st.floats(0.1, 1000), min_size=1, max_size=40), st.integers(1, 8), st.floats(1, 3600))
def test_shares_end_with_the_job(weights: list[float], processes: int, seconds: float) -> None:
    """Searches that take their whole share, each begun when a process is free, end by the deadline, and leave none of the time unused."""
    found = shares(weights, processes, seconds)
    free = [0.0] * processes
    for share in (replace(s, ready_s=0.0) for s in found):
        now = min(free)
        free[free.index(now)] = now + share.seconds(lambda now=now: now)  # type: ignore[misc]
    assert max(free) <= seconds * (1 + 1e-9)
    if len(weights) >= processes:
        assert max(free) >= seconds * (1 - 1e-9)
    assert all(s.ready_s == READY_S * (len(weights) - at) / processes for at, s in enumerate(found))


def test_time_that_is_over_is_none() -> None:
    assert Share(10.0, 1.0, 0.0).seconds(lambda: 11.0) == 0 == Share(10.0, 1.0, 5.0).seconds(lambda: 6.0)
    now = [100.0]
    clock = JobTime(20.0, lambda: now[0])
    assert (clock.deadline, clock.until(0.5), JobTime(None).until(0.5)) == (120.0, 110.0, None)
    now[0] = 130.0
    assert clock.until(0.5) == 130.0 and clock.seconds_left(clock.deadline) == 0.0 and clock.seconds_left(None) is None


def test_steps_end_where_time_ended_an_equal_work() -> None:
    left = iter([3.0, 2.0, 0.0])
    by_time = Until(lambda: next(left))
    assert [by_time.ends() for _ in range(3)] == [False, False, True] and by_time.limits.asked == 3
    again = Until(steps=by_time.limits.asked)
    assert [again.ends() for _ in range(3)] == [False, False, True] and again.limits == by_time.limits
    assert Until().ends() is False and Until().limits.asked == 0


def test_budgets_are_limits() -> None:
    """What a budget allowed before it was said in counts, it allows still: those of the default are 8,192 candidates at once and a proof
    in earnest of a quarter of its rows."""
    assert limits(("trials", 2000)) == Limits(2000, 8192, 500_000, 500_000, 2_000_000, True)
    assert limits(("trials", 10)) == Limits(10, 40, 20, 200, 10_000) and limits(("trials", 20_000)).whole == 8192
    assert limits(("seconds", 30.0)) == Limits(None, 8192, 1200, 12_000, 600_000)
    assert limits(("seconds", 0.01)).whole == 200


FIVE = limits(("trials", 5))
COUNTS = {"searches": {"search": "portfolio", "seed": 0, "robust": False, "limits": {"a cold": None, "b cold": vars(FIVE)}}}


@pytest.mark.parametrize(("change", "said"), [
    ([], "says no counts"), ({"searches": {}}, "says no counts"), ({"searches": {**COUNTS["searches"], "limits": {"a": {"trials": 1}}}},
     "no counts"),
    ({"searches": {**COUNTS["searches"], "limits": {"a": {**vars(FIVE), "whole": -1}}}}, "no counts"),
    ({"searches": {**COUNTS["searches"], "seed": 7}}, "seed 7 and here 0"), ({"searches": {**COUNTS["searches"], "robust": 1}}, "robust 1"),
    ({"gears": 3}, "says no counts"),
])
def test_a_file_of_counts_is_checked(change: object, said: str, tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(json.dumps(change))
    with pytest.raises(CheckError, match=said):
        counts.read(str(tmp_path / "c.json"), "portfolio", 0, False)


def test_counts_are_read_as_they_were_written(tmp_path: Path) -> None:
    known = {"a cold": None, "b cold": limits(("trials", 5))}
    (tmp_path / "c.json").write_text(json.dumps({"times": "modelled", "gears": [{"searches": counts.facts(known, "genetic", 2, True)}]}))
    assert counts.read(str(tmp_path / "c.json"), "genetic", 2, True) == known and counts.facts({}, "genetic", 2, True) == {}


@pytest.mark.slow
def test_the_commands_repeat_a_run_by_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """tune and search, from --time to --counts."""
    monkeypatch.chdir(tmp_path)
    onnx.save(layers(32, 48), "net.onnx")

    def ran(*words: str) -> None:
        assert cli.main(["tune", "net.onnx", "--base", "none", "--jobs", "1", "--no-verify", *words]) == 0

    ran("--time", "3s", "--bank", "a.db", "--report", "report", "-o", "a.aoec")
    summary, = tmp_path.glob("tuning_results_*/summary.json")
    said = json.loads(Path("report/report.json").read_text())
    assert json.loads(summary.read_text())["searches"] == said["searches"] and said["searches"]["limits"]
    for number, path in enumerate(("report/report.json", str(summary))):
        ran("--counts", path, "--bank", f"{number}.db", "-o", f"{number}.aoec")
        assert Path(f"{number}.aoec").read_bytes() == Path("a.aoec").read_bytes()
        assert list(Bank.open(f"{number}.db").lines(False)) == list(Bank.open("a.db").lines(False))
    assert load_artifact("a.aoec").groups
    assert cli.main(["lower", "matmul(m=80, k=96, n=48, fp16)", "-o", "g.tir"]) == 0
    for words in (["--time", "1s"], ["--counts", "0.json"]):
        assert cli.main(["search", "g.tir", *words, "--json", "-o", f"{int('--counts' in words)}.json"]) == 0
    one, other = (json.loads(Path(f"{n}.json").read_text()) for n in (0, 1))
    assert one == other and one["searches"]["limits"]
