"""Runs a program that is not ours: without a shell, in a process group of its own, with a time limit, its output bounded."""
from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from aoec.base.errors import BackendError

LOG_BYTES = 1 << 16  # of the beginning of the output, which are kept: a stack of a fault follows what was said before it
FOLDER_BYTES = 64 << 20  # that a program may write, log and all
LOOK_SECONDS = 0.01


@dataclass(frozen=True)
class Ran:
    """What became of a program: its exit code (negative: the signal that ended it), the beginning of its output, whether it was ended
    because it took too long or wrote too much."""

    code: int
    output: str
    is_late: bool
    seconds: float


def run_tool(argv: Sequence[str], folder: Path, seconds: float, environ: Mapping[str, str] | None = None) -> Ran:
    """Runs a program in a folder, and waits at most so many seconds; then, as on Ctrl-C, it and all that it started are killed.
    BackendError where it cannot be started."""
    start, log = time.monotonic(), folder / "output.txt"
    env = {**(os.environ if environ is None else environ), "TMPDIR": str(folder)}
    with open(log, "w+b") as out:
        try:
            process = subprocess.Popen(argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=env,
                                       start_new_session=True)
        except OSError as e:
            raise BackendError(f"{argv[0]} cannot be started: {e.strerror or e}") from None
        is_late = False
        try:
            while not is_late and os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
                time.sleep(LOOK_SECONDS)
                is_late = time.monotonic() - start > seconds or _bytes_in(folder) > FOLDER_BYTES
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)  # the group has the number of a process that is not reaped yet
            process.wait()
        out.seek(0)
        return Ran(process.returncode, out.read(LOG_BYTES).decode("utf-8", "replace"), is_late, time.monotonic() - start)


def _bytes_in(folder: Path) -> int:
    """Bytes of the files of a folder."""
    return sum(f.stat().st_size for f in folder.iterdir() if f.is_file())
