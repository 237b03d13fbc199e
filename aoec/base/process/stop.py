"""What ends the work of kernels early: Ctrl-C, and a limit of steps.

A kernel runs no Python, so that Python's handler of Ctrl-C waits until it returns. But Python can write the signal's number to a file as
soon as it comes (signal.set_wakeup_fd). A thread reads that file and sets a flag, and kernels look at the flag. They then return, and the
handler runs.
"""
from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

import numpy as np

MOST_STEPS = 250_000_000  # of a program: instructions, flags and iterations of loops. No program of a model that we know comes near it
OPTION = "--most-steps"

stop_flag = np.zeros(1, np.int64)  # what all kernels look at
_steps = [MOST_STEPS]
_behind = [-1]  # where Python wrote signals before


def most_steps() -> int:
    """Return the most steps that a program may take when it is run, or walked for its time."""
    return _steps[0]


def allow(steps: int) -> None:
    """Set the most steps that a program of this process may take from now on."""
    _steps[0] = steps


def too_long(program: str, steps: int) -> str:
    """Return what is said of a program that takes more than so many steps."""
    return (f"program {program} takes more than {steps:,} steps (instructions, flags and iterations of loops) and may never end; "
            f"{OPTION} N allows more")


@contextmanager
def catch_interrupts() -> Iterator[np.ndarray[Any, Any]]:
    """Yield `stop_flag`. While the main thread is in this context, Ctrl-C sets the flag to 1."""
    if threading.current_thread() is not threading.main_thread():
        yield stop_flag
        return
    stop_flag[0] = 0
    before = signal.set_wakeup_fd(_file(), warn_on_full_buffer=False)
    if before == _file():  # one of these is within another
        yield stop_flag
        return
    _behind[0] = before
    try:
        yield stop_flag
    finally:
        signal.set_wakeup_fd(before)
        stop_flag[0] = 0


def ask_again() -> None:
    """Let Python's handler of Ctrl-C run, in the main thread, after kernels have ended early. The caller repeats the work in two cases:
    in other threads, and where the handler raises nothing (it may only note that the user asked)."""
    if threading.current_thread() is threading.main_thread():
        stop_flag[0] = 0
    else:
        time.sleep(0.01)


def wait_for_all(others: list[Future[Any]]) -> None:
    """Wait until all have ended. An interrupt meanwhile is raised only then, because they use the caller's memory."""
    try:
        wait(others)
    except BaseException:
        stop_flag[0] = 1
        while not all(o.done() for o in others):
            with suppress(KeyboardInterrupt):
                wait(others)
        raise


@lru_cache(maxsize=1)
def _file() -> int:
    """Return the file that signals are written to, with the thread that reads it."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    threading.Thread(target=_watch, args=(reader,), name="ctrl-c", daemon=True).start()
    return writer


def _watch(reader: int) -> None:
    """Sets the flag whenever Ctrl-C comes, and passes signals on to whoever waited for them before."""
    while came := os.read(reader, 64):
        if signal.SIGINT in came:
            stop_flag[0] = 1
        if _behind[0] >= 0:
            with suppress(OSError):
                os.write(_behind[0], came)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_file.cache_clear)  # a child has none of its parent's threads
