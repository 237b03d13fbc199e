"""What tests of the stand-in need."""
from __future__ import annotations

import shutil
import signal
import sys

import pytest

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None or sys.platform != "linux",
                                    reason="there is no g++ on Linux here, which the stand-in compiles kernels with")


def hear_interrupts() -> None:
    """Before a process of a test begins: Ctrl-C ends it, also where a shell started the tests in the background, which ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
