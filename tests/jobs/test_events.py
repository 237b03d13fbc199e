"""Events say what a job does, in lines that the schema allows; from them: what is known is not searched, and little effort is little."""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest

from aoec import cli
from aoec.bank.record import Key
from aoec.jobs.choose.model_tasks import Task
from aoec.jobs.compile.course import Course
from aoec.jobs.compile.steps.check_values import Checks
from aoec.jobs.events import Events
from aoec.jobs.tune.order import Order, SoFar
from tests.jobs.small import layers
from tests.oracle.schemas import faults

pytestmark = pytest.mark.usefixtures("few")


class Job:
    """Tuning of models in a folder, with one bank."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, model: onnx.ModelProto, *words: str) -> tuple[int, list[dict[str, Any]]]:
        """(exit code, events), each of which is as the schema says."""
        onnx.save(model, self.folder / "net.onnx")
        places = {"--bank": "bank.db", "--results": "out", "-o": "net.aoec", "--events": "events.jsonl"}
        plain = ["--jobs", "1", "--base", "none", "--no-verify", "--only", "*"]  # of all, as it is: no layouts
        given = [w for option, name in places.items() for w in (option, str(self.folder / name))]
        code = cli.main(["tune", str(self.folder / "net.onnx"), *plain, *given, *words])
        return code, read((self.folder / "events.jsonl").read_text())


def read(text: str) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]
    assert [fault for e in events for fault in faults("event", e)] == []
    assert [e["seconds"] for e in events] == sorted(e["seconds"] for e in events)
    return events


def kinds(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [e for e in events if e["event"] == kind]


def test_a_job_from_begin_to_end_and_again_and_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = Job(tmp_path)
    code, events = job.run(layers(32, 48, 64), "--budget", "20")
    assert code == 0 and events[0]["event"] == "job_started" and events[0]["budget"] == {"trials": 20} and events[0]["tasks"] == 3
    finished = kinds(events, "task_finished")
    assert [e["done"] for e in finished] == [1, 2, 3] and 0 <= finished[-1]["left_seconds"] < 2  # checks follow
    assert [e["task"] for e in kinds(events, "task_started")] == [e["task"] for e in finished]
    assert {e["task"] for e in kinds(events, "task_progress")} <= {e["task"] for e in finished}
    assert events[-1]["outcome"] == "done" and events[-1]["output"].endswith("net.aoec")
    parts = events[-1]["seconds_by_part"]
    assert {"start", "reading", "grouping", "searching", "layouts", "slices", "writing", "table"} <= parts.keys()
    assert parts["searching"] >= max(e["seconds"] for e in finished) - events[0]["seconds"] - 0.002
    tuned = sum(e["tuned_us"] for e in finished)

    code, events = job.run(layers(32, 48, 64), "--budget", "20")  # again: no search
    assert code == 0 and not kinds(events, "task_started") and [e["found_in_bank"] for e in kinds(events, "task_finished")] == [True] * 3
    assert sum(e["tuned_us"] for e in kinds(events, "task_finished")) == tuned and not any(e.get("trials") for e in events)

    code, events = job.run(layers(32, 48, 80), "--budget", "20")  # one layer and what reads it changed: the other is not searched
    assert [e["what"].split()[0] for e in kinds(events, "task_started")] == ["matmul", "softmax"]
    assert [e["found_in_bank"] for e in kinds(events, "task_finished")] == [True, False, False]

    assert job.run(layers(32, 48, 96), "--frozen")[0] == 2
    assert read((tmp_path / "events.jsonl").read_text())[-1]["outcome"] == "failed"

    capsys.readouterr()
    onnx.save(layers(32, 48, 64), tmp_path / "net.onnx")
    words = ["tune", str(tmp_path / "net.onnx"), "--budget", "20", "--bank", str(tmp_path / "bank.db"), "--results", str(tmp_path / "out"),
             "-o", str(tmp_path / "net.aoec"), "--base", "none", "--no-verify"]
    assert cli.main([*words, "--events", "-"]) == 0  # without --only layouts are tuned too: more tasks of one job
    said = capsys.readouterr()
    assert len(kinds(read(said.out), "job_started")) == 1 and "interrupted" not in said.err  # and nothing else is printed
    assert cli.main([*words, "--events", "-", "--json"]) == 2 and "--json and --events -" in capsys.readouterr().err


def test_a_search_ends_where_it_is_good_enough(tmp_path: Path) -> None:
    """And is not made again for as much."""
    job, net = Job(tmp_path), layers(64, 96)
    code, events = job.run(net, "--effort", "none")
    assert code == 0 and events[0]["tune"] is False and not any(e["trials"] for e in kinds(events, "task_finished"))
    code, events = job.run(net, "--until", "gain=0,gap=3", "--budget", "5000")
    first = kinds(events, "task_finished")[0]
    assert code == 0 and first["trials"] < 5000 and not first["proof"]
    assert not kinds(job.run(net, "--until", "gain=0", "--budget", "5000")[1], "task_started")
    assert kinds(job.run(net, "--until", "gain=99", "--budget", "30")[1], "task_started") or first["trials"] >= 30


@pytest.mark.parametrize(("until", "ticks", "good"), [
    ("gain=10", 90, True), ("gain=10", 91, False), ("gap=20", 60, True), ("gap=20", 61, False),
    ("gain=50,gap=20", 60, True), ("", 50, False)])
def test_good_enough(until: str, ticks: int, good: bool) -> None:
    from aoec.options.readers import until as parsed
    assert Order(True, until=tuple(parsed(until).items()) if until else ()).is_reached(ticks, 100, 50) == good


@pytest.mark.parametrize("words", ["--until gain", "--until gain=ten", "--until speed=3", "--effort some", "--budget 5 --effort quick"])
def test_words_that_ask_for_nothing(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["tune", "net.onnx", *words.split()]) == 2
    assert capsys.readouterr().err.startswith("aoec: error: argument --")


def test_what_is_left_follows_from_what_is_done() -> None:
    """Two searches of 100 trials: after 10 s one of them is at half its budget."""
    now, said = [0.0], list[float | None]()
    tasks = {Key(n, "t", "m", "v", "s"): Task(None, None, n, (), (), n) for n in "ab"}  # type: ignore[arg-type]
    course = Course(tasks, Order(True, budget=("trials", 100)), 1.0, lambda words, done, left_s: said.append(left_s), Events(None),
                    lambda: now[0])
    first, second = tasks
    course.searching(tasks)
    assert course.left_s is None
    now[0] = 10.0
    course._parts[first] = 0.5
    assert course.left_s == 30.0
    course._end(first)
    now[0] = 20.0
    assert course.left_s == 20.0
    course._end(second)
    assert course.left_s == 0.0


def test_what_is_left_counts_the_checks_that_follow() -> None:
    """A check takes two seconds for each microsecond; of two tasks one is known to take 10, and the other is taken to be like it."""
    tasks = {Key(n, "t", "m", "v", "s"): Task(None, None, n, (), (), n) for n in "ab"}  # type: ignore[arg-type]
    course = Course(tasks, Order(True, budget=("trials", 100)), 1.0, lambda words, done, left_s: None, Events(None), lambda: 0.0, 2.0)
    first, second = tasks
    course.searching(tasks)
    course._end(first)
    course._checked[first] = 10.0
    assert course.left_s == 40.0
    course._checked[second] = 0.0  # it was checked before
    assert course.left_s == 20.0


def test_checks_say_how_many_are_done_and_what_is_left() -> None:
    now, said = [0.0], list[tuple[str, int, float | None]]()
    checks = Checks({("a", 0): 3.0, ("b", 0): 1.0}, 1, lambda *told: said.append(told), lambda: now[0])
    checks.begin("g0")
    now[0] = 6.0
    checks.end(("a", 0))
    checks.begin("g1")
    now[0] = 8.0
    checks.end(("b", 0))
    checks.begin("the whole model")
    checks.end_whole()
    assert said == [("g0", 0, None), ("g1", 1, 6.0), ("the whole model", 2, 4.0)]


def test_a_search_says_how_far_it_is() -> None:
    class Group:
        name = "g"
    key, said = Key("a", "t", "m", "v", "s"), list[str]()
    task = Task(Group(), None, "a", (), (), "a")  # type: ignore[arg-type]
    course = Course({key: task}, Order(True, seconds=10.0), 0.5, lambda words, done, left_s: said.append(words), Events(None))
    course.searching([key])
    course.heard(key, SoFar(1200, 5.0, 20, 30, 10, part=0.5))
    assert said == ["g 1,200 trials, 10.00 us modelled"] and course._parts[key] == pytest.approx(0.45)
