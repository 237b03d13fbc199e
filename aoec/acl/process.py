"""A worker process and its parent's end of the pipes: started anew, ended with its whole group, its last words kept.

`shared` is memory that both have: what is written to the device or read from it lies there.
"""
from __future__ import annotations

import contextlib
import mmap
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aoec
from aoec.acl.channel import SHARED_BYTES, Channel, make_shared

MODULE = "aoec.acl.worker"
OUTPUT_BYTES = 2000  # of the end of what a worker said
END_SECONDS = 5.0  # that a killed process may take, while its driver cleans up


class Worker:
    """A process that drives one device. Its standard streams are a file: the library and its driver write there what they like."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.output = tempfile.TemporaryFile()  # noqa: SIM115  closed with the worker
        reader, their_writer = os.pipe()
        their_reader, writer = os.pipe()
        their_life, self._life = os.pipe()
        shared = make_shared()
        self.shared = mmap.mmap(shared, SHARED_BYTES)
        theirs = (their_reader, their_writer, their_life, shared)
        root = str(Path(aoec.__file__).parents[1])
        path = os.pathsep.join([root, *filter(None, [environ.get("PYTHONPATH", "")])])
        try:
            self.process = subprocess.Popen([sys.executable, "-m", MODULE, *map(str, theirs)], pass_fds=theirs, stdin=subprocess.DEVNULL,
                                            stdout=self.output, stderr=self.output, start_new_session=True,
                                            env={**environ, "PYTHONPATH": path})
        finally:
            for handle in theirs:
                os.close(handle)
        self.channel = Channel(reader, writer)

    def ask(self, word: str, given: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Return the answer to a frame. ChannelLate, ChannelClosed."""
        self.channel.send({"do": word, "with": given}, seconds)
        return self.channel.receive(seconds)

    def end(self) -> bool:
        """Kill the process and those that it started. Return whether it is gone."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        gone = self._wait(END_SECONDS)
        self.channel.close()
        os.close(self._life)
        self.shared.close()
        self.output.close()
        return gone

    def how_it_ended(self) -> str:
        """Return how a worker ended by itself, and its last output."""
        if not self._wait(END_SECONDS):
            return "closed its pipe and runs on"
        code = self.process.returncode
        said = " ".join(self.last_words().split())
        return f"ended {f'by signal {-code}' if code < 0 else f'with code {code}'}{f': {said}' if said else ''}"

    def last_words(self) -> str:
        """Return the end of the process's output."""
        size = os.fstat(self.output.fileno()).st_size
        return os.pread(self.output.fileno(), OUTPUT_BYTES, max(0, size - OUTPUT_BYTES)).decode("utf-8", "replace")

    def _wait(self, seconds: float) -> bool:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        return self.process.returncode is not None
