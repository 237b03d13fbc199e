"""What a person meets first: lines that come at once, quiet without a terminal, a bar with one, JSON alone on standard output."""
from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path

import onnx
import pytest

from aoec.frontend.zoo import mlp_softmax
from tests.frontend.written import written

HEAVY = ("numba", "scipy", "skopt", "sklearn", "sqlalchemy", "onnxruntime", "aoec.kernels")  # import in more than a tenth of a second


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    onnx.save(mlp_softmax(), tmp_path / "my model.onnx")
    return tmp_path


@pytest.fixture
def shares(folder: Path) -> Path:
    """In place of it one of three groups that are tuned in little time."""
    onnx.save(written("""<ir_version: 8, opset_import: ["": 17]>
        shares (float[4,40] data) => (float[4,40] probabilities) {
          a = Softmax<axis=1>(data) b = Softmax<axis=0>(a) probabilities = LogSoftmax<axis=1>(b) }""", lambda name, shape: None),
              folder / "my model.onnx")
    return folder


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "aoec", "compile", "my model.onnx", "--bank", "bank.db", *words]


def test_the_first_lines_come_within_two_seconds_and_before_anything_heavy(folder: Path) -> None:
    """The bound is 6 s here, for machines that are busy; what is imported until then is what keeps it at two."""
    code = ("import sys\nfrom aoec import cli\nfrom aoec.jobs.voice import Voice\n"
            "real = Voice.bank_at\n"
            "def stop(self, path):\n"
            "    real(self, path)\n"
            f"    sys.exit('heavy: ' + ' '.join(m for m in {HEAVY} if m in sys.modules))\n"
            "Voice.bank_at = stop\ncli.main(['compile', 'my model.onnx', '--bank', 'bank.db'])\n")
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=60)
    assert time.monotonic() - started < 6
    said = done.stderr.splitlines()
    assert said == [
        "reading my model.onnx", "target Ascend910B3 (default; --target, see aoec targets)",
        "4 nodes of 3 operators (matmul 2, relu 1, softmax 1); inputs data [4, 40]",
        "run as fp16 (--precision): 4 of 4 nodes have less precision than the model declares (matmul 2, relu 1, softmax 1); "
        "sums are kept in fp32", "bank bank.db (--bank or TUNE_BANK_PATH)", "heavy: "]


def test_json_is_alone_on_standard_output_and_nothing_moves_without_a_terminal(shares: Path) -> None:
    done = subprocess.run(command("--tune", "--budget", "8", "--json"), cwd=shares, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    facts = json.loads(done.stdout)
    assert facts["times"] == "modelled" and facts["output"] == "my model.aoec" and len(facts["groups"]) == 3
    once = [line for line in done.stderr.splitlines() if not re.match(r"(tuning|checking values|compiling kernels, once) \d+/\d+", line)]
    assert "\x1b" not in done.stdout + done.stderr and "\r" not in done.stderr and len(once) <= 8
    assert "CANN cannot load it" in done.stderr.splitlines()[-1]
    assert sorted(p.name for p in shares.iterdir() if not p.name.startswith("bank.db")) == ["my model.aoec", "my model.onnx"]


def test_the_closing_line_is_a_command_that_works(shares: Path) -> None:
    done = subprocess.run(command(), cwd=shares, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "our default schedules; modelled" in " ".join(done.stdout.split())
    run = re.search(r"\((aoec run .*?)\)", done.stderr)
    assert run
    again = subprocess.run(run[1].replace("aoec", f"{sys.executable} -m aoec", 1), shell=True, cwd=shares, capture_output=True, text=True,
                           timeout=120)
    assert again.returncode == 0 and "probabilities" in again.stdout, again.stderr


def test_a_terminal_is_left_as_it_was(shares: Path) -> None:
    """A bar while it works, the cursor shown again at the end, the table in the terminal's width."""
    reader, terminal = pty.openpty()
    p = subprocess.Popen(command("--tune", "--budget", "8", "--jobs", "1"), cwd=shares, stdout=terminal, stderr=terminal, stdin=terminal,
                         env={**os.environ, "TERM": "xterm", "COLUMNS": "110", "LINES": "40"})
    os.close(terminal)
    said = b""
    while True:
        try:
            part = os.read(reader, 65536)
        except OSError:  # Linux says so when the last writer is gone
            break
        if not part:
            break
        said += part
    assert p.wait(60) == 0
    os.close(reader)
    text = said.decode()
    assert "tuning" in text and "3/3" in text and text.count("\x1b[?25l") == text.count("\x1b[?25h") >= 1
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    table = plain[plain.index(" on Ascend910B3, fp16: ") - 20:].splitlines()[1:]
    assert max(map(len, table[:12])) <= 110 and "wrote my model.aoec" in plain.splitlines()[-1]


def test_only_with_a_name_that_nothing_has_is_an_error(shares: Path) -> None:
    done = subprocess.run(command("--tune", "--only", "log_sofmax"), cwd=shares, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and not (shares / "my model.aoec").exists()
    assert done.stderr.splitlines()[-1] == "aoec: error: --only log_sofmax names no group that could be tuned; did you mean log_softmax?"
