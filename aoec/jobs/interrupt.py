"""Ctrl-C while schedules are searched: noted, and acted on between two batches, so that what was found so far is kept."""
from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import active_children, parent_process

_noted = threading.Event()


def is_asked() -> bool:
    """Return whether the user has asked this process to stop."""
    return _noted.is_set()


@dataclass
class Noted:
    """What a noted Ctrl-C leaves, in words; "" where the command's options say it."""

    left_behind: str = ""


@contextmanager
def note_interrupts() -> Iterator[Noted]:
    """Note the first Ctrl-C inside the block, and raise it at the end of the block. A second Ctrl-C interrupts at once."""
    found = Noted()
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        yield found
        return
    _noted.clear()
    before = signal.signal(signal.SIGINT, _note_once)
    try:
        yield found
    finally:
        signal.signal(signal.SIGINT, before)
        was_asked = is_asked()
        _noted.clear()  # a job of another thread, or a later one, is not asked
    if was_asked:
        raise KeyboardInterrupt(*filter(None, [found.left_behind]))


@contextmanager
def defer_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C inside the block. It is for starting processes: they inherit this, and only later say how they take Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if threading.current_thread() is threading.main_thread() else None
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)


def note_in_worker() -> None:
    """Make this worker process note Ctrl-C and go on. It ends when its parent does, even where the parent was killed."""
    signal.signal(signal.SIGINT, lambda *_: _noted.set())
    threading.Thread(target=_follow_parent, daemon=True).start()


def _follow_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def pass_on() -> None:
    """Send the interrupt to the worker processes. A signal to this process alone does not reach them."""
    for child in active_children():
        if child.pid is not None:
            os.kill(child.pid, signal.SIGINT)


def end_workers() -> None:
    """End the worker processes at once, whatever they are doing."""
    for child in active_children():
        child.terminate()


def _note_once(*_: object) -> None:
    if is_asked():
        raise KeyboardInterrupt
    _noted.set()
