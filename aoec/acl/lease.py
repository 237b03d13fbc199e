"""Leases of devices: one process at a time has a device, by an exclusive lock of a file that the operating system frees with the process.

The file's content (process, host, start) is for people. What a dead process has left of it holds no lock, and is taken over.
"""
from __future__ import annotations

import contextlib
import json
import os
import socket
import time
import weakref
from pathlib import Path

from aoec.base.errors import BackendError
from aoec.base.files.files import reason
from aoec.base.files.memo import cache_folder
from aoec.base.npu_errors import DeviceBusy, NoDevice

VARIABLE = "AOEC_LEASE_DIR"  # a folder for all users of a computer; without it this user's processes alone see each other
VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"
CONTENT_BYTES = 4096


def physical(number: int, environ: dict[str, str] | None = None) -> int:
    """Return the device of the computer that a number means: CANN's variable may show some of them alone. NoDevice where it shows none
    such."""
    given = (os.environ if environ is None else environ).get(VISIBLE, "").strip()
    if number < 0:
        raise NoDevice(f"device {number}: numbers begin at 0")
    if not given:
        return number
    parts = [p.strip() for p in given.split(",")]
    if not all(p.isdigit() for p in parts) or number >= len(parts):
        raise NoDevice(f"{VISIBLE} is {given}, which shows no device {number}", device=number)
    return int(parts[number])


_taken: weakref.WeakSet[Lease] = weakref.WeakSet()


def _forget() -> None:
    """Close the leases of the parent in a process that was forked off: they are not its own, and would outlive the parent."""
    for lease in list(_taken):
        os.close(lease.handle)
        lease.handle = -1
        _taken.discard(lease)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


class Lease:
    """The lock of a device that this process has taken."""

    def __init__(self, device: int, folder: Path | None = None) -> None:
        """Take the lease. Raise DeviceBusy, with the name of the process that has it."""
        place = folder or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else cache_folder() / "leases")
        self.path = place / f"npu-{device}.lock"
        try:
            import fcntl  # here: not on every system
        except ImportError:
            raise BackendError("devices are leased by locks of files, which this system has not; CANN runs on Linux") from None
        try:
            place.mkdir(parents=True, exist_ok=True)
            self.handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        except OSError as e:
            raise BackendError(f"cannot open {self.path}, which is the lease of device {device}: {reason(e)}; name another folder in "
                               f"{VARIABLE}") from None
        try:
            fcntl.flock(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = self.holder()
            os.close(self.handle)
            raise DeviceBusy(f"device {device} is taken{holder}; its lease is {self.path}", device=device) from None
        facts = {"pid": os.getpid(), "host": socket.gethostname(), "start": time.strftime("%Y-%m-%d %H:%M:%S")}
        with contextlib.suppress(OSError):  # the lock counts, not the text
            os.ftruncate(self.handle, 0)
            os.pwrite(self.handle, json.dumps(facts).encode() + b"\n", 0)
        _taken.add(self)

    def holder(self) -> str:
        """Return who has the lease, as words; empty where the file does not say it."""
        try:
            facts = json.loads(os.pread(self.handle, CONTENT_BYTES, 0))
            return f" by process {int(facts['pid'])} of {facts['host']} since {facts['start']}"
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return ""

    def release(self) -> None:
        """Free the device."""
        if self.handle >= 0:
            with contextlib.suppress(OSError):
                os.ftruncate(self.handle, 0)
            os.close(self.handle)
            self.handle = -1
            _taken.discard(self)
