"""What people hear of work that goes on: lines where there is no terminal, a bar that fits one, and notes that break between words."""
from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aoec.base.text import in_columns
from aoec.jobs.progress import EVERY_S, SOONEST_S, Lines, describe_elapsed, describe_left


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_line_every_ten_seconds_and_for_each_tenth() -> None:
    clock, out = Clock(), io.StringIO()
    lines = Lines("tuning", 40, out, clock)
    for clock.now, done in ((1.0, 3), (3.0, 4), (4.0, 8), (5.5, 8), (5.6, 9), (16.0, 9), (17.0, 10), (20.0, 12)):
        lines.tell(f"g{done}", done, 10.0 * (40 - done))
    assert out.getvalue().splitlines() == [
        "tuning 4/40, g4, 0:03, 6 min left", "tuning 8/40, g8, 0:05, 5 min left", "tuning 9/40, g9, 0:16, 5 min left",
        "tuning 12/40, g12, 0:20, 5 min left"]


def test_work_that_says_nothing_is_told_of_all_the_same() -> None:
    clock, out = Clock(), io.StringIO()
    lines = Lines("checking values", 2, out, clock)
    lines.tell("g0", 0, None)
    clock.now = 9.9
    lines.look()
    assert not out.getvalue()
    for clock.now in (10.0, 15.0, 20.0):
        lines.look()
    assert out.getvalue().splitlines() == ["checking values 0/2, g0, 0:10", "checking values 0/2, g0, 0:20"]


@given(st.lists(st.tuples(st.floats(0.01, 30), st.integers(0, 5)), max_size=60))
def test_lines_are_neither_too_many_nor_too_few(steps: list[tuple[float, int]]) -> None:
    """Between two lines lie two seconds at least, and where it is looked often enough no more than ten and a step."""
    clock, out, done, said = Clock(), io.StringIO(), 0, [0.0]
    lines = Lines("x", 100, out, clock)
    for by, more in steps:
        clock.now, done = clock.now + by, min(100, done + more)
        before = out.tell()
        lines.tell("", done, None)
        if out.tell() > before:
            assert clock.now - said[-1] >= SOONEST_S
            said.append(clock.now)
        assert clock.now - said[-1] < EVERY_S


def test_times_in_words() -> None:
    assert [describe_elapsed(s) for s in (0, 59.9, 61, 3600)] == ["0:00", "0:59", "1:01", "1:00:00"]
    assert [describe_left(s) for s in (None, 3.4, 600)] == ["", "3 s left", "10 min left"]


@given(st.text(st.sampled_from("ab -/\n"), max_size=200), st.integers(20, 90))
def test_lines_in_columns_break_between_words(text: str, width: int) -> None:
    made = in_columns(text, width)
    assert made.split() == text.split()  # no word is broken
    for line in made.splitlines():
        assert len(line) <= width or len(line.split()) == 1


SHOWN = """
import sys, time
from aoec.base.files.files import note
from aoec.jobs.progress import show_progress
note("target " + "word " * 40)
with show_progress("tuning", 8) as line:
    line("g31 conv2d_packed " + "12,345 trials, 12,345.67 us modelled", 3, 55.0)
    time.sleep(0.3)
"""


@pytest.mark.parametrize("columns", [80, 200])
def test_a_terminal_gets_lines_that_fit(columns: int) -> None:
    here, there = pty.openpty()
    child = subprocess.Popen([sys.executable, "-c", SHOWN], stdin=there, stdout=there, stderr=there, close_fds=True,
                             env={**os.environ, "COLUMNS": str(columns), "LINES": "40", "TERM": "xterm"})
    os.close(there)
    said = b""
    while True:
        try:
            part = os.read(here, 1 << 16)
        except OSError:  # the child is gone
            break
        if not part:
            break
        said += part
    assert child.wait() == 0
    lines = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line) for line in re.split(r"[\r\n]+", said.decode())]
    assert all(len(line) <= columns for line in lines)
    assert any("3/8" in line and "55 s left" in line and "trials" in line for line in lines)
