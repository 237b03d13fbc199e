"""The process that drives one device: it answers its parent until that is gone. `python -m aoec.acl.worker READ WRITE LIFE MEMORY`.

It is a new process, never a fork, so that its parent never holds the library. It ends itself when its parent ends in any way. To notice
that, a thread waits on a pipe that only the parent has open. That works even while a call of the library does not return.
"""
from __future__ import annotations

import mmap
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from aoec.acl.board import Board
from aoec.acl.channel import SHARED_BYTES, Channel, ChannelClosed
from aoec.base.npu_errors import AclMisuse, LaunchError, NpuError

ENDS = "close"
LOOK_SECONDS = 1.0


def handlers(board: Board) -> dict[str, Callable[..., Any]]:
    """Return what a frame can ask of an open board, by its word."""
    return {"allocate": board.allocate, "free": board.free, "write": board.write, "read": board.read, "fill": board.fill,
            "load": board.load, "unload": board.unload, "run": board.run, "time": board.time, "memory": board.memory,
            "facts": board.facts, "abort": board.abort, ENDS: board.close}


def serve(channel: Channel, shared: Any) -> None:
    """Answer frames until one says that it is the last."""
    board: Board | None = None
    while True:
        head = channel.receive()
        word, given = head.get("do"), head.get("with", {})
        try:
            if word == "open":
                board = Board(**given, shared=shared)
                answer: Any = board.facts()
            elif board is None:
                raise AclMisuse(f"{word} before open")
            elif word not in (known := handlers(board)):
                raise AclMisuse(f"a worker does not know {word}")
            else:
                answer = known[word](**given)
        except NpuError as e:
            channel.send({"error": describe(e)})
            continue
        except (TypeError, ValueError, ArithmeticError, LookupError, OSError, MemoryError) as e:
            channel.send({"error": describe(LaunchError(f"{word}: {type(e).__name__}: {e}"))})
            continue
        channel.send({"answer": answer})
        if word == ENDS:
            return


def describe(e: NpuError) -> dict[str, Any]:
    """Return an error as JSON."""
    return {"class": type(e).__name__, "message": str(e), "function": e.function, "code": e.code, "vendor": e.vendor, "launch": e.launch}


def main(words: Sequence[str]) -> int:
    """Serve until the parent is done or gone."""
    reader, writer, life, memory = map(int, words)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    threading.Thread(target=watch, args=(life, os.getppid()), name="parent", daemon=True).start()
    try:
        serve(Channel(reader, writer), mmap.mmap(memory, SHARED_BYTES))
    except ChannelClosed:
        return 1
    return 0


def watch(life: int, parent: int) -> None:
    """End this process when the parent has: without clean-up, since a call of the library may never return. Where a child of the parent
    has the pipe too, the number of the parent tells."""
    while os.getppid() == parent and not select.select([life], [], [], LOOK_SECONDS)[0]:
        pass
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # what the library would do at exit can wait for a device that does not answer
