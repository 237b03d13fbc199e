"""Frames between a worker and its parent: a small JSON object and raw bytes behind it, over two pipes, with a deadline each.

A frame is 4 bytes of mark, 4 of the JSON's length, 8 of the bytes' length, little endian, then both. Lengths are bounded before room is
made for them.
"""
from __future__ import annotations

import json
import os
import select
import struct
import time
from typing import Any

HEAD = struct.Struct("<4sIQ")
MARK = b"AoA1"
MOST_JSON = 16 << 20
MOST_BYTES = 64 << 20  # of one frame; longer arrays come in several
PIPE_BYTES = 1 << 20


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

    def send(self, head: dict[str, Any], body: bytes | bytearray | memoryview = b"", wait: float | None = None) -> None:
        """Sends a frame; ChannelLate where the other side does not take it in time."""
        text = json.dumps(head).encode()
        body = memoryview(body).cast("B")
        if len(text) > MOST_JSON or len(body) > MOST_BYTES:
            raise ValueError(f"a frame of {len(text)} and {len(body)} bytes is too long")
        until = _until(wait)
        for part in (HEAD.pack(MARK, len(text), len(body)) + text, body):
            left = memoryview(part)
            while left:
                self._wait(self.writer, select.POLLOUT, until)
                try:
                    left = left[os.write(self.writer, left[:PIPE_BYTES]):]
                except BlockingIOError:
                    continue
                except OSError as e:
                    raise ChannelClosed(str(e)) from None

    def receive(self, wait: float | None = None) -> tuple[dict[str, Any], bytearray]:
        """The next frame; ChannelLate where it does not come in time, ChannelClosed where none will."""
        until = _until(wait)
        mark, texts, bodies = HEAD.unpack(self._read(HEAD.size, until))
        if mark != MARK or texts > MOST_JSON or bodies > MOST_BYTES:
            raise ChannelClosed("what came is no frame")
        text, body = self._read(texts, until), self._read(bodies, until)
        try:
            head = json.loads(text)
        except (ValueError, RecursionError):
            head = None
        if not isinstance(head, dict):
            raise ChannelClosed("what came is no frame")
        return head, body

    def close(self) -> None:
        """Closes both pipes."""
        for handle in (self.reader, self.writer):
            os.close(handle)

    def _read(self, size: int, until: float | None) -> bytearray:
        data = bytearray(size)
        at, view = 0, memoryview(data)
        while at < size:
            self._wait(self.reader, select.POLLIN, until)
            try:
                got = os.readv(self.reader, [view[at:]])
            except BlockingIOError:
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


def _until(wait: float | None) -> float | None:
    return None if wait is None else time.monotonic() + wait
