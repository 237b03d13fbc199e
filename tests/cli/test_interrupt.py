"""Ctrl-C ends a search at once with what it has: the bank holds it, and nothing else was written."""
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import onnx
import pytest

from aoec.bank.bank import Bank
from aoec.frontend import zoo
from aoec.jobs import interrupt
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.tuning import problem, search, start
from aoec.target.machine import load


def test_a_watched_search_stops_with_what_it_has() -> None:
    p = problem(lower_operator("matmul(m=64, k=64, n=64, fp16)"), load())
    first = start(p)
    found = search(p, first, "random", ("trials", 100_000), 0, lambda result: result.trials >= 20)
    assert 20 <= found.trials < 5_000 and found.ticks <= first.ticks and not found.proof


def test_the_first_signal_is_noted_and_raised_at_the_end() -> None:
    reached = False
    with pytest.raises(KeyboardInterrupt), interrupt.note_interrupts():
        assert not interrupt.is_asked()
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupt.is_asked()
        reached = True
    assert reached
    with interrupt.note_interrupts():
        assert not interrupt.is_asked()


def test_the_second_signal_interrupts_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), interrupt.note_interrupts():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        pytest.fail("the second signal must not be passed over")


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_what_was_found_is_kept(jobs: str, tmp_path: Path) -> None:
    """The signal comes when an event tells of trials: however long that takes, and before the search has ended."""
    onnx.save(zoo.tiny_resnet(), tmp_path / "model.onnx")
    words = [sys.executable, "-m", "aoec", "compile", "--tune", "model.onnx", "--bank", "b.db", "--budget", "100000000",
             "--search", "random", "--jobs", jobs, "--events", "e.jsonl"]
    process = subprocess.Popen(words, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    wait_for_trials(process, tmp_path / "e.jsonl")
    os.killpg(process.pid, signal.SIGINT)
    asked = time.monotonic()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "kept in the bank b.db" in err and "Traceback" not in err and not out
    assert time.monotonic() - asked < 30 and not (tmp_path / "model.aoec").exists()
    assert any(r.searched for r in Bank.open(tmp_path / "b.db", create=False).list())


def wait_for_trials(process: subprocess.Popen[str], events: Path) -> None:
    """Nothing, as soon as the job has told of a search that is under way."""
    until = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < until:
        lines = events.read_text().splitlines() if events.exists() else []
        if any(e["event"] == "task_progress" and e["trials"] for e in map(json.loads, lines)):
            return
        time.sleep(0.2)
    process.kill()
    pytest.fail(f"no search was seen; exit code {process.returncode}: {process.communicate()[1]}")
