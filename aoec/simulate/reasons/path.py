"""The critical path of a core: the chain of work, latencies, flags and issues that ends when the core does, without a gap.

It is walked backwards from the last thing done. An operation starts because its pipe's earlier work ended, because a flag came, or because
the scalar unit issued it. The walk goes on with that cause, at the same instant. So the parts add up to the time of the core, and what is
not on the path is hidden behind what is.
"""
from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from aoec.ir.program import PIPES, Instr, Ref
from aoec.simulate.encode.tables import TICKS
from aoec.simulate.reasons.events import Events
from aoec.target.isa.instructions import INSTRUCTIONS

RUN, SET, WAIT, CROSS_SET, CROSS_WAIT = range(5)  # as events.KINDS


@dataclass(frozen=True)
class Part:
    """Cycles of the path due to `what` of a pipe: "work", "memory" (work longer because memory is shared), "latency" (until a result
    is there), "flag" (its way from `pipe`), "issue" (by the scalar unit, with loops), "cross" (other cores), "start" (of the launch).

    `name`: instruction and buffer of work, memory and latency; `times`: how often it is on the path.
    """

    pipe: str
    what: str
    name: str
    cycles: float
    times: int


def critical_path(events: Events) -> tuple[Part, ...]:
    """Return the parts of the path to the last event kept, the largest first; together they take events.end_cycles."""
    parts = _Back(events).walk() if len(events) else {}
    found = [Part(PIPES[pipe], what, name, ticks / TICKS, times) for (pipe, what, name), (ticks, times) in parts.items()]
    return tuple(sorted(found, key=lambda p: -p.cycles))


class _Back:
    """The walk: at event `i` and instant `at`, all later than which is accounted for."""

    def __init__(self, events: Events) -> None:
        self.events = events
        columns = ("place", "was", "issue", "start", "end", "done")
        self.place, self.was, self.issue, self.start, self.end, self.done = (events.column(c).tolist() for c in columns)
        self.kind, self.pipe, self.own = events.kinds.tolist(), events.pipes.tolist(), events.own_ticks.tolist()
        self.setter = events.setters().tolist()
        self.cost = int(events.walked.filled.tables.costs[0])
        self.on = [np.flatnonzero((events.pipes == p) & np.isin(events.kinds, (RUN, WAIT, CROSS_WAIT))).tolist() for p in range(len(PIPES))]
        self.runs = [np.flatnonzero((events.pipes == p) & (events.kinds == RUN)).tolist() for p in range(len(PIPES))]
        self.queue = int(events.walked.filled.tables.queue[events.stream])
        self.names: dict[int, str] = {}
        self.parts: dict[tuple[int, str, str], list[int]] = {}
        self.at = 0

    def walk(self) -> dict[tuple[int, str, str], list[int]]:
        """Return (pipe, what, name) -> (ticks, times)."""
        latest = np.maximum(self.events.column("end"), self.events.column("done"))
        i: int | None = int(len(latest) - 1 - np.argmax(latest[::-1]))
        self.at = int(latest[i])
        while i is not None and self.at > 0:
            i = self.before(i)
        if self.at > 0:  # what nothing that was kept explains, such as the head of a pipe
            self.take(0, "start", "", 0)
        return self.parts

    def take(self, pipe: int, what: str, name: str, down_to: int) -> None:
        """Account for the time from `down_to` to where the walk is."""
        if down_to < self.at:
            part = self.parts.setdefault((pipe, what, name), [0, 0])
            part[0] += self.at - down_to
            part[1] += 1
            self.at = down_to

    def before(self, i: int) -> int | None:
        """Return the event that event i comes from, after what it takes itself; None at the beginning."""
        if self.kind[i] == RUN:
            return self.before_run(i)
        if self.kind[i] == WAIT and self.end[i] > self.start[i] and self.setter[i] >= 0:
            setter = self.setter[i]
            self.take(self.pipe[setter], "flag", "", self.end[setter])
            return self.source(setter)
        if self.kind[i] == CROSS_WAIT:
            self.take(self.pipe[i], "cross", "", self.start[i])
        elif self.kind[i] in (SET, CROSS_SET):
            return self.source(i)
        return self.cause(i)

    def before_run(self, i: int) -> int | None:
        """Return an instruction: its latency, the part due to others, its own work."""
        name = self.name(i)
        self.take(self.pipe[i], "latency", name, max(self.end[i], self.start[i]))
        self.take(self.pipe[i], "memory", name, self.start[i] + self.own[i])
        self.take(self.pipe[i], "work", name, self.start[i])
        return self.cause(i)

    def cause(self, i: int) -> int | None:
        """Return why an operation of a pipe starts when it does: its pipe's earlier work, or the scalar unit."""
        if self.pipe[i] == 0:
            return self.scalar(i)
        earlier = bisect_left(self.on[self.pipe[i]], i) - 1
        if self.was[i] < self.at <= self.issue[i]:
            return self.scalar(i)
        if earlier >= 0:
            return self.on[self.pipe[i]][earlier]
        if self.was[i] >= self.at > self.issue[i]:  # the head of the pipe
            return None
        return self.scalar(i)

    def source(self, i: int) -> int | None:
        """Return what a set waited for: the last work before it whose result was there just then, else the scalar unit."""
        if self.issue[i] >= self.at:
            return self.scalar(i)
        mine = self.on[self.pipe[i]]
        earlier = [mine[k] for k in range(bisect_left(mine, i) - 1, -1, -1)[:64]]
        exact = (j for j in earlier if max(self.end[j], self.done[j]) == self.at)
        return next(exact, next((j for j in earlier if self.start[j] < self.at), None))

    def scalar(self, i: int) -> int | None:
        """Return what the scalar unit waited for before it issued operation i, after all that it issued without a pause."""
        while True:
            free = self.free(i - 1)
            room = self.room(i)
            if room is not None and self.start[room] == self.issue[i] > free + self.cost:
                return self.cause(room)  # it starts, and leaves its place in the queue, at this very instant
            self.take(0, "issue", "", min(self.at, free))
            if i == 0:
                return None
            i -= 1
            if free > self.issue[i]:
                return i

    def free(self, i: int) -> int:
        """Return when the scalar unit is done with operation i; 0 where there is none."""
        if i < 0:
            return 0
        return self.end[i] if self.pipe[i] == 0 and self.kind[i] in (RUN, WAIT, CROSS_WAIT) else self.issue[i]

    def room(self, i: int) -> int | None:
        """Return the instruction whose start made room in its queue for operation i; None where that is no matter."""
        if self.kind[i] != RUN or self.pipe[i] == 0:
            return None
        mine = self.runs[self.pipe[i]]
        place = bisect_left(mine, i) - self.queue
        return mine[place] if place >= 0 else None

    def name(self, i: int) -> str:
        """Return instruction and the buffer that it is about."""
        if self.place[i] not in self.names:
            encoded = self.events.walked.encoded
            item, spaces = encoded.places[self.place[i]].item, {s.name for s in encoded.program.spaces}
            assert isinstance(item, Instr)
            refs = [r.buffer for r in (item[o.name] for o in INSTRUCTIONS[item.op].operands) if isinstance(r, Ref)]
            self.names[self.place[i]] = f"{item.op} {next((b for b in refs if b in spaces), refs[0])}"
        return self.names[self.place[i]]
