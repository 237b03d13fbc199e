"""Kernels that are not compiled yet are compiled here in processes of their own, while a model is read and while schedules are searched.

Numba keeps what it compiled on disk, so that this happens once for an installation. A process that needs a kernel which is not there
compiles it itself: nothing here has to succeed.
"""
from __future__ import annotations

import atexit
import hashlib
import os
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from aoec.base.process.kernel_cache import kernel_sources
from aoec.jobs.doctor import cores, kernel_cache
from aoec.jobs.progress import Line, unseen
from aoec.options.compile import CompileOptions

# part (aoec/simulate/compile_kernels.py) -> kernels that it compiles: module and function. Parts that take longer come first
TIMES = {"walk": (("timeline", "walk"), ("columns", "fill")), "rows": (("timeline", "find_rows"),)}
VALUES = {"values": (("tile", "run_groups"),)}
KERNELS = {**TIMES, **VALUES}
NOTICE = "first use: compiling the kernels, once, for up to a minute"
POLL_S = 0.2
HEAD, INDEX = 64, 1 << 20  # bytes: of an index before which its version stands; of one that is read

_queue: list[str] = []
_running: dict[str, subprocess.Popen[bytes]] = {}


def values_needed(options: CompileOptions) -> bool:
    """Return whether a job checks values, and so needs the kernels that run programs. The user's option decides, else whether schedules are
    searched."""
    return options.tune if options.verify is None else options.verify


def missing(parts: Sequence[str]) -> list[str]:
    """Return those parts of the kernels that are not on disk for this source, this Python and this Numba."""
    folder = Path(kernel_cache()["cache"])
    return [p for p in parts if not all(is_compiled(folder, module, function) for module, function in KERNELS[p])]


def is_compiled(folder: Path, module: str, function: str) -> bool:
    """Return whether Numba has a kernel on disk. Its index is a pickle and is not read as one. Its bytes must have Numba's version near the
    beginning, and the hash of the source. Older Numbas have the time at which the source was changed instead of the hash."""
    source = kernel_sources() / f"{module}.py"
    pattern = f"{module}.{function}-*.py{sys.version_info.major}{sys.version_info.minor}*.nbi"
    try:
        stamps = hashlib.sha256(source.read_bytes()).digest(), b"G" + struct.pack(">d", source.stat().st_mtime)
        numba = version("numba").encode()
        for path in folder.rglob(pattern):
            with path.open("rb") as file:
                data = file.read(INDEX)
            if numba in data[:HEAD] and any(stamp in data for stamp in stamps):
                return True
    except (OSError, PackageNotFoundError):
        pass
    return False


def start(parts: Sequence[str]) -> str:
    """Begin to compile those parts that are not compiled. Return a line for people that says so, else "".

    Nothing is begun where the parts' folder cannot be written: no other process could read the result.
    """
    lacking = [p for p in missing(parts) if p not in _running and p not in _queue]
    if not lacking or os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        return ""
    if kernel_cache()["writable"]:
        _queue.extend(lacking)
        _advance()
    return NOTICE


def wait(parts: Sequence[str], tell: Line = unseen) -> None:
    """Wait until parts that were begun are compiled. `tell` is called with how many of them are."""
    asked = [p for p in parts if p in _running or p in _queue]
    _queue.sort(key=lambda p: p not in asked)
    while left := [p for p in asked if p in _running or p in _queue]:
        _advance()
        tell("", len(asked) - len(left), None)
        time.sleep(POLL_S)


def pending(parts: Sequence[str]) -> int:
    """Return how many of the parts are being compiled, or will be."""
    _advance()
    return sum(p in _running or p in _queue for p in parts)


def _advance() -> None:
    """Note which parts have ended, and begin as many parts as there are cores."""
    for part, process in list(_running.items()):
        if process.poll() is not None:
            del _running[part]
    while _queue and len(_running) < max(1, cores()):
        part = _queue.pop(0)
        command = [sys.executable, "-m", "aoec.simulate.compile_kernels", part]
        try:
            _running[part] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except OSError:
            _queue.clear()


@atexit.register
def _end() -> None:
    """End what is still being compiled."""
    _queue.clear()
    for process in _running.values():
        process.terminate()
