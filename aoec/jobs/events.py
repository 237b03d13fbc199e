"""Events: the progress of a job, for programs, as lines of JSON (docs/events.md; the schema is report/schemas/event.json).

Each line is written whole and at once. So a reader may follow the file while the job runs, and a killed job lacks only its last event.
Times of schedules are modelled, in microseconds; `seconds` are since the job began.
"""
from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any


class Events:
    """A stream of events to an open file, or to nobody."""

    def __init__(self, file: IO[str] | None) -> None:
        self._began, self._ended, self._file = time.monotonic(), False, file

    def say(self, event: str, **facts: Any) -> None:
        """Write one event."""
        if self._file is not None:
            line = {"event": event, "seconds": round(time.monotonic() - self._began, 3), **facts}
            self._file.write(json.dumps(line, separators=(",", ":")) + "\n")
            self._file.flush()

    def end(self, outcome: str, **facts: Any) -> None:
        """Write that the job has ended: "done", "wrong values", "interrupted" or "failed". Only the first call counts."""
        if not self._ended:
            self._ended = True
            self.say("job_finished", outcome=outcome, **facts)


@contextmanager
def stream(path: str | Path | None) -> Iterator[Events]:
    """Yield the events of a job, written to a file or to standard output (`-`). The last event says how the job ended, unless it was
    killed."""
    with nullcontext(sys.stdout if path else None) if path in ("-", None) else open(path, "w", encoding="utf-8") as file:
        events = Events(file)
        try:
            yield events
        except KeyboardInterrupt:
            events.end("interrupted")
            raise
        except Exception as e:
            events.end("failed", reason=(str(e).splitlines() or [type(e).__name__])[0])
            raise
