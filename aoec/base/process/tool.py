"""Runs a program that is not ours: without a shell, in a process group of its own, with a time limit, its output bounded."""
from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from aoec.base.files.files import reason

LOG_BYTES = 1 << 16  # of the output, which are kept
FOLDER_BYTES = 64 << 20  # that a program may write into its folder, log and all
LOOK_SECONDS = 0.01
CANNOT_START = 127  # the exit code, as a shell has it
_running: set[int] = set()  # process groups
_guard = threading.Lock()


@dataclass(frozen=True)
class Ran:
    """What became of a program: its exit code (negative: the signal that ended it), a part of its output, whether it was ended because it
    took too long or wrote too much, and seconds."""

    code: int
    output: str
    is_late: bool = False
    seconds: float = 0.0

    @property
    def is_crash(self) -> bool:
        """Return whether it did not end by itself: a signal, a shell's code for one, or a time limit."""
        return self.is_late or self.code < 0 or self.code > 128


def run_tool(argv: Sequence[str], folder: Path, seconds: float, environ: Mapping[str, str] | None = None, keep: str = "end") -> Ran:
    """Run a program in a folder, for at most so many seconds. After that, or on Ctrl-C, kill it and everything that it started. Its
    temporary files go into the folder too. `environ` holds its variables, by default those of this process. `keep` is the part of a
    long output to keep: its "begin" or its "end". A program that cannot be started ends with code CANNOT_START."""
    start, log = time.monotonic(), folder / "output.txt"
    env = {**(os.environ if environ is None else environ), "TMPDIR": str(folder)}
    with open(log, "w+b") as out:
        try:
            process = subprocess.Popen(argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=env,
                                       start_new_session=True)
        except OSError as e:
            return Ran(CANNOT_START, f"{argv[0]} cannot be started: {reason(e)}")
        with _guard:
            _running.add(process.pid)
        is_late = False
        try:
            while not is_late and not _is_over(process.pid):
                time.sleep(LOOK_SECONDS if time.monotonic() - start < 1 else 5 * LOOK_SECONDS)
                is_late = time.monotonic() - start > seconds or _bytes_in(folder) > FOLDER_BYTES
        finally:
            _end(process)
        out.seek(max(0, os.fstat(out.fileno()).st_size - LOG_BYTES) if keep == "end" else 0)
        text = out.read(LOG_BYTES).decode("utf-8", "replace")
    return Ran(process.returncode, text, is_late, time.monotonic() - start)


def end_all() -> None:
    """Kill every program that runs now, in whatever thread it was started."""
    with _guard:
        for group in _running:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)


def _is_over(number: int) -> bool:
    """Return whether a process has ended. It is not reaped, so that its number, which is also its group's, is not used again."""
    return os.waitid(os.P_PID, number, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the whole group, so that nothing that the program started stays, and take the exit code."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    with _guard:
        _running.discard(process.pid)


def _bytes_in(folder: Path) -> int:
    """Return bytes of the files of a folder."""
    found = 0
    for f in folder.iterdir():
        with contextlib.suppress(OSError):  # a program may take it away meanwhile
            found += f.stat().st_size if f.is_file() else 0
    return found
