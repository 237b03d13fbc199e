"""Runs one command of the toolchain: in a process group and a folder of its own, with a time limit, its output bounded."""
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

LOG_BYTES = 1 << 16  # of the end of the output, which is kept
LOG_FILE_BYTES = 64 << 20  # of output, after which a command is ended
LOOK_SECONDS = 0.02
_running: set[int] = set()  # process groups
_guard = threading.Lock()


@dataclass(frozen=True)
class Ran:
    """What became of a command: its exit code (negative: the signal that ended it), the end of its output, whether it was ended by us."""

    code: int
    output: str
    late: bool = False
    seconds: float = 0.0

    @property
    def is_crash(self) -> bool:
        """Whether it did not end by itself: a signal, a shell's code for one, or a time limit."""
        return self.late or self.code < 0 or self.code > 128


def run_tool(argv: Sequence[str], folder: Path, seconds: float, environ: Mapping[str, str] | None = None) -> Ran:
    """Runs a command in a folder, and waits at most so many seconds; then, as on Ctrl-C, it and all that it started are killed."""
    start = time.monotonic()
    log = folder / "output.txt"
    env = {**(os.environ if environ is None else environ), "TMPDIR": str(folder)}
    with open(log, "w+b") as out:
        try:
            process = subprocess.Popen(argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=env,
                                       start_new_session=True)
        except OSError as e:
            return Ran(127, f"{argv[0]} cannot be started: {reason(e)}")
        with _guard:
            _running.add(process.pid)
        late = False
        try:
            while not late and not _ends(process.pid):
                time.sleep(LOOK_SECONDS if time.monotonic() - start < 1 else 5 * LOOK_SECONDS)
                late = time.monotonic() - start > seconds or os.fstat(out.fileno()).st_size > LOG_FILE_BYTES
        finally:
            _end(process)
        out.seek(max(0, os.fstat(out.fileno()).st_size - LOG_BYTES))
        text = out.read(LOG_BYTES).decode("utf-8", "replace")
    return Ran(process.returncode, text, late, time.monotonic() - start)


def _ends(number: int) -> bool:
    """Whether a process has ended. It is not reaped, so that its number, which is also its group's, stays its own."""
    return os.waitid(os.P_PID, number, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kills the whole group, so that nothing that the command started stays, and takes the exit code."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    with _guard:
        _running.discard(process.pid)


def end_all() -> None:
    """Kills every command that runs now, in whatever thread it was started."""
    with _guard:
        for group in _running:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
