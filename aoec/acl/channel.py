"""Frames between a worker and its parent: JSON objects over two pipes, with a deadline each, and memory of both for arrays.

A frame is 4 bytes of mark, 4 of the JSON's length, little endian, then the JSON. The length is bounded before room is made for it.
"""
from __future__ import annotations

import json
import os
import select
import struct
import tempfile
import time
from typing import Any

HEAD = struct.Struct("<4sI")
MARK = b"AoA1"
MOST_JSON = 16 << 20
SHARED_BYTES = 16 << 20  # of memory that both have; longer arrays go through it in parts


class ChannelClosed(Exception):
    """The other side has gone, or what it says is no frame."""


class ChannelLate(Exception):
    """The other side did not answer in time."""


class Channel:
    """One side. `wait` of its methods is seconds, or None for ever."""

    def __init__(self, reader: int, writer: int) -> None:
        self.reader, self.writer = reader, writer
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)

    def send(self, frame: dict[str, Any], wait: float | None = None) -> None:
        """Send a frame. Raise ChannelLate where the other side does not take it in time."""
        text = json.dumps(frame).encode()
        if len(text) > MOST_JSON:
            raise ValueError(f"a frame of {len(text)} bytes is too long")
        until, left = _until(wait), memoryview(HEAD.pack(MARK, len(text)) + text)
        while left:
            try:
                left = left[os.write(self.writer, left):]
            except BlockingIOError:
                self._wait(self.writer, select.POLLOUT, until)
            except OSError as e:
                raise ChannelClosed(str(e)) from None

    def receive(self, wait: float | None = None) -> dict[str, Any]:
        """Return the next frame; ChannelLate where it does not come in time, ChannelClosed where none will."""
        until = _until(wait)
        mark, size = HEAD.unpack(self._read(HEAD.size, until))
        if mark != MARK or size > MOST_JSON:
            raise ChannelClosed("what came is no frame")
        try:
            frame = json.loads(self._read(size, until))
        except (ValueError, RecursionError):
            frame = None
        if not isinstance(frame, dict):
            raise ChannelClosed("what came is no frame")
        return frame

    def close(self) -> None:
        """Close both pipes."""
        for handle in (self.reader, self.writer):
            os.close(handle)

    def _read(self, size: int, until: float | None) -> bytearray:
        data = bytearray(size)
        at, view = 0, memoryview(data)
        while at < size:
            try:
                got = os.readv(self.reader, [view[at:]])
            except BlockingIOError:
                self._wait(self.reader, select.POLLIN, until)
                continue
            except OSError as e:
                raise ChannelClosed(str(e)) from None
            if not got:
                raise ChannelClosed("the pipe is closed")
            at += got
        return data

    def _wait(self, handle: int, event: int, until: float | None) -> None:
        poll = select.poll()
        poll.register(handle, event)
        while True:
            left = None if until is None else until - time.monotonic()
            if left is not None and left < 0:
                raise ChannelLate
            if poll.poll(None if left is None else left * 1000 + 1):
                return


def make_shared() -> int:
    """Return a handle of memory of SHARED_BYTES, for two processes; mmap it."""
    handle = os.memfd_create("aoec") if hasattr(os, "memfd_create") else _unnamed_file()
    os.ftruncate(handle, SHARED_BYTES)
    return handle


def _unnamed_file() -> int:
    with tempfile.TemporaryFile() as f:
        return os.dup(f.fileno())


def _until(wait: float | None) -> float | None:
    return None if wait is None else time.monotonic() + wait
