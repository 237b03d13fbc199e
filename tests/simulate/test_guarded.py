"""No instruction touches a byte that is not its own: drawn ones run between pages that the process may not touch (guarded.py)."""
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from aoec.target.isa.instructions import INSTRUCTIONS

PARTS = 8  # of the words, for the long run
GUARDED = Path(__file__).parent / "guarded.py"


def fuzz(count: int, seed: int, words: list[str]) -> None:
    """Runs so many instructions of each word in a process of its own, which must end well; and of each word enough must have run."""
    made = subprocess.run([sys.executable, str(GUARDED), str(count), str(seed), *words], capture_output=True, text=True, timeout=3000)
    last = made.stdout.splitlines()[-1:]
    assert made.returncode == 0, f"ended with {made.returncode} after {last}: {made.stderr[-2000:]}"
    ran = {word: (int(good), int(all_)) for word, good, all_ in (line.split() for line in made.stdout.splitlines())}
    assert ran.keys() == set(words)
    assert all(all_ >= count and good > all_ // 10 for good, all_ in ran.values()), ran


def test_some_instructions_of_every_word_stay_within_their_slots():
    fuzz(120, 0, list(INSTRUCTIONS))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_many_instructions_of_every_word_stay_within_their_slots(part):
    fuzz(100_000, 1, list(INSTRUCTIONS)[part::PARTS])
