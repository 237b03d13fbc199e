"""Progress of work: a bar on a terminal, and lines where there is none, as in CI or under nohup."""
from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

from aoec.base.text import clip_name

Line = Callable[[str, int, float | None], None]  # what is worked on, parts that are done, seconds that are left
EVERY_S = 10.0  # between two lines at most, and
TENTH, SOONEST_S = 10, 2.0  # one for each tenth of the work, but no sooner after the last
LONGEST = 44  # characters of what is worked on, so that a bar with all that belongs to it fits 80 columns


def describe_left(seconds: float | None) -> str:
    """Return what is left, in words. Return "" where nobody can say."""
    if seconds is None:
        return ""
    return f"{seconds:.0f} s left" if seconds < 100 else f"{seconds / 60:.0f} min left"


def describe_elapsed(seconds: float) -> str:
    """Return seconds as minutes and seconds, with hours where there are some: "0:42"."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"


def unseen(words: str, done: int, left_s: float | None) -> None:
    """Do nothing: progress is not shown."""


@contextmanager
def show_progress(what: str, total: int) -> Iterator[Line]:
    """Yield a function to tell how far the work on `total` parts is. On a terminal it moves a bar, which is removed at the end, also after
    an error. Elsewhere it writes `Lines`."""
    if not sys.stderr.isatty():
        with Lines(what, total, sys.stderr).ticking() as lines:
            yield lines.tell
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=12), MofNCompleteColumn(), TimeElapsedColumn(),
               TextColumn("{task.fields[left]}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        line = bar.add_task(what, total=total, left="")
        def tell(words: str, done: int, left_s: float | None) -> None:
            bar.update(line, completed=done, description=clip_name(f"{what} {words}".strip(), LONGEST), left=describe_left(left_s))
        yield tell


class Lines:
    """Lines of how far work on `total` parts is: one every ten seconds, and one for each tenth of it.

    Where nothing is told for ten seconds the last words are said again, with the time that has gone by.
    """

    def __init__(self, what: str, total: int, file: IO[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._what, self._total, self._file, self._clock = what, total, file, clock
        self._began = self._said_at = clock()
        self._now: tuple[str, int, float | None] = ("", 0, None)
        self._tenths, self._lock = 0, threading.Lock()

    def tell(self, words: str, done: int, left_s: float | None) -> None:
        """Note how far the work is, and print it if it is time."""
        with self._lock:
            self._now = words, done, left_s
        self.look()

    def look(self) -> None:
        """Print how far the work is if it is time."""
        with self._lock:
            words, done, left_s = self._now
            since, tenths = self._clock() - self._said_at, TENTH * done // max(1, self._total)
            if since < EVERY_S and (tenths <= self._tenths or since < SOONEST_S):
                return
            self._tenths, self._said_at = tenths, self._clock()
            parts = [f"{self._what} {done:,}/{self._total:,}", words, describe_elapsed(self._said_at - self._began), describe_left(left_s)]
            print(", ".join(filter(None, parts)), file=self._file, flush=True)

    @contextmanager
    def ticking(self) -> Iterator[Lines]:
        """Yield these lines, while a thread calls `look` once a second."""
        ended = threading.Event()

        def tick() -> None:
            while not ended.wait(1.0):
                self.look()
        thread = threading.Thread(target=tick, name="progress", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            ended.set()
            thread.join()
