"""What was freed is given back to the system."""
from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

HELD = """
from pathlib import Path
from aoec.base.process.heap import give_back

def resident_mib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 >> 20

blocks = [bytearray(b"x" * 100_000) for _ in range(1000)]
del blocks[:-1]  # what is left lies behind all that is free
before = resident_mib()
give_back()
print(before - resident_mib())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux") or not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="another C library")
def test_what_lies_before_what_is_held_is_given_back():
    given = subprocess.run([sys.executable, "-c", HELD], capture_output=True, text=True, check=True)
    assert int(given.stdout) > 60
