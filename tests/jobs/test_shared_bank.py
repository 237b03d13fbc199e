"""One bank and several real processes: at once, one after the other, and killed."""
from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from aoec.bank.bank import Bank
from tests.jobs.small import layers
from tests.oracle.schemas import faults

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


def begun(folder: Path, name: str, bank: str, *words: str) -> subprocess.Popen[str]:
    """A process that tunes the model of a folder into a bank of it."""
    given = ["tune", "net.onnx", "--budget", "20", "--base", "none", "--bank", bank, "--results", name, "-o", f"{name}.aoec", *words]
    return subprocess.Popen([sys.executable, "-m", "aoec", *given], cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env={**os.environ, "AOEC_CACHE_DIR": str(folder / "cache")})


def records(folder: Path, bank: str) -> list[str]:
    return list(Bank.open(folder / bank, create=False).lines(times=False))


def test_two_jobs_at_once_and_two_processes_of_one(tmp_path: Path) -> None:
    """Both fill one bank with what one alone finds; so do the processes of a job, and what these say of their searches arrives."""
    onnx.save(layers(32, 48), tmp_path / "net.onnx")
    both = [begun(tmp_path, name, "shared.db", "--jobs", "1") for name in ("one", "two")]
    ended = [(p.communicate()[1], p.returncode) for p in both]
    assert [code for _, code in ended] == [0, 0], ended
    several = begun(tmp_path, "several", "several.db", "--jobs", "2", "--events", "events.jsonl")
    assert (several.communicate()[1], several.returncode)[1] == 0
    assert records(tmp_path, "shared.db") == records(tmp_path, "several.db") and len(records(tmp_path, "shared.db")) == 4
    assert (tmp_path / "one.aoec").read_bytes() == (tmp_path / "two.aoec").read_bytes() == (tmp_path / "several.aoec").read_bytes()
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [fault for e in events for fault in faults("event", e)] == []
    assert {"task_started", "task_progress", "task_finished"} <= {e["event"] for e in events}


def test_kills_lose_nothing(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(ROOT / "bench/kills.py"), "--kills", "6", "--budget", "20", "--json"], text=True,
                          capture_output=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["kills"] == 6
