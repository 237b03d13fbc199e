"""Every instruction, set and wait of chosen cores of a filled program, in program order, with what held each of them up."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from aoec.base.errors import CheckError
from aoec.ir.index import evaluate
from aoec.ir.program import PIPES, CrossSet, CrossWait, Instr, Item, Program, SetFlag, WaitFlag
from aoec.kernels import timeline as kernel
from aoec.simulate.encode.sizes import Array
from aoec.simulate.encode.tables import TICKS
from aoec.simulate.reasons.detail import Walked
from aoec.simulate.timing.state import COLD, State
from aoec.simulate.timing.time import checked_walk
from aoec.target.machine import Machine

LIMIT = 200_000  # events of a core
KINDS = ("run", "set", "wait", "cross_set", "cross_wait")
_TIMES = ("was", "issue", "start", "end", "done")
_FIELDS = ("place", "which", *_TIMES)


@dataclass(frozen=True)
class Event:
    """One operation; times in cycles.

    `was`: its pipe has no earlier work from here on; `issue`: the scalar unit hands it over; `start`: an instruction starts, a wait
    begins to hold up its pipe; `end`: the pipe is free again, or the flag is set; `done`: the result is there. `own_cycles` of the
    time from start to end is the instruction's own, the rest is due to the chip's memory being shared, or, with unit, to the other side's
    granules. `held_by`: "issue" (the
    scalar unit came late), "pipe" (the pipe's earlier work), "flag" or "" (nothing). `loops`: iteration numbers around it.
    """

    kind: str
    pipe: str
    item: Item
    loops: tuple[tuple[str, int], ...]
    was: float
    issue: float
    start: float
    end: float
    done: float
    own_cycles: float = 0.0
    held_by: str = ""
    flag: int = -1
    hbm_bytes: float = 0.0
    l2_bytes: float = 0.0


@dataclass(frozen=True)
class Events:
    """The events of one core of a stream: `log` [event, column] (kernel.probe), of `total` in all (only the first are kept)."""

    walked: Walked
    stream: int
    core: int
    log: Array
    total: int

    @property
    def program(self) -> Program:
        return self.walked.encoded.program

    @property
    def name(self) -> str:
        """Return a name from stream and core, such as cube.3."""
        return f"{self.program.streams[self.stream].name}.{self.core}"

    @property
    def end_cycles(self) -> float:
        """Return when the last event kept is done."""
        return float(self.log[:, 4:7].max()) / TICKS if len(self.log) else 0.0

    @property
    def note(self) -> str:
        """Return a note that not all events are kept; empty where they are."""
        return "" if self.total == len(self.log) else f"the first {len(self.log):,} of {self.total:,} events of core {self.name}"

    def column(self, name: str) -> Array:
        """Return a column of the log: place, which, or a time in ticks."""
        values: Array = self.log[:, _FIELDS.index(name)]
        return values

    @cached_property
    def kinds(self) -> Array:
        """Return the index into KINDS of each event."""
        codes = {kernel.INSTR: 0, kernel.SET: 1, kernel.WAIT: 2, kernel.CROSS_SET: 3, kernel.CROSS_WAIT: 4,
                 kernel.EARLY_SET: 1, kernel.EARLY_WAIT: 2}
        table = np.array([codes.get(int(op), -1) for op in self.walked.encoded.code[:, 0]])
        return np.asarray(table[self.column("place")])

    @cached_property
    def pipes(self) -> Array:
        """Return the index into PIPES of each event: what it runs on, the setting pipe of a set, the waiting pipe of a wait."""
        code = self.walked.encoded.code
        table = np.where(code[:, 0] == kernel.INSTR, code[:, 2], code[:, 3])
        return np.asarray(table[self.column("place")])

    @cached_property
    def own_ticks(self) -> Array:
        """Return the ticks that each instruction takes where nothing is shared; 0 for flags."""
        cost = self.walked.filled.tables.cost[kernel.OWN::kernel.COST]
        run = self.kinds == 0
        own = cost[np.where(run, self.column("which"), 0)]
        return np.asarray(np.where(run, np.minimum(own, self.column("end") - self.column("start")), 0))

    def moved_bytes(self, index: int) -> tuple[float, float]:
        """Return bytes from or to (HBM, L2) of an event."""
        if self.kinds[index]:
            return 0.0, 0.0
        hbm, l2 = self.walked.filled.moved[self.log[index, 1]]
        return float(hbm), float(l2)

    def setters(self) -> Array:
        """Return, for each wait for a flag of this core, the index of the event that set the flag; -1 for everything else."""
        out, held = np.full(len(self.log), -1), dict[int, int]()
        flags = self.walked.encoded.code[self.column("place"), 2] + self.column("which")
        for i in np.flatnonzero((self.kinds == 1) | (self.kinds == 2)):
            if self.kinds[i] == 1:
                held[int(flags[i])] = int(i)
            else:
                out[i] = held.get(int(flags[i]), -1)
        return out

    def loops(self, index: int) -> tuple[tuple[str, int], ...]:
        """Return iteration numbers of the loops around an event, outermost first."""
        place = self.walked.encoded.places[self.log[index, 0]]
        registers = self.walked.encoded.register_of[place.stream]
        return tuple((v, int(self.log[index, kernel.EVENT_COLUMNS + registers[v]])) for v in place.outer)

    def variables(self, index: int) -> dict[str, int]:
        """Return values of grid axes, counters and loop variables at an event."""
        registers = self.walked.encoded.register_of[self.stream]
        return self.axes() | {v: int(self.log[index, kernel.EVENT_COLUMNS + r]) for v, r in registers.items()}

    def axes(self) -> dict[str, int]:
        """Return the core's place on the grid."""
        out, rest = {}, self.core
        for axis, extent in reversed(self.program.streams[self.stream].grid):
            n = int(evaluate(extent, {}))
            out[axis], rest = rest % n, rest // n
        return out

    def event(self, index: int) -> Event:
        """Return one event in words and cycles."""
        place, which, was, issue, start, end = (int(x) for x in self.log[index, :6])
        kind, item = KINDS[self.kinds[index]], self.walked.encoded.places[place].item
        assert isinstance(item, (Instr, SetFlag, WaitFlag, CrossSet, CrossWait))
        at = {name: int(t) / TICKS for name, t in zip(_TIMES, self.log[index, 2:kernel.EVENT_COLUMNS], strict=True)}
        hbm, l2 = self.moved_bytes(index)
        return Event(kind, PIPES[self.pipes[index]], item, self.loops(index), **at, own_cycles=self.own_ticks[index] / TICKS,
                     held_by=held_by(kind, was, issue, start, end), flag=-1 if kind == "run" else which, hbm_bytes=hbm, l2_bytes=l2)

    def __len__(self) -> int:
        return len(self.log)

    def __iter__(self) -> Iterator[Event]:
        return (self.event(i) for i in range(len(self.log)))


def held_by(kind: str, was: int, issue: int, start: int, end: int) -> str:
    """Return what an operation waited for longest, or last: see Event."""
    if kind in ("wait", "cross_wait"):
        return "flag" if end > start else ""
    return "issue" if start > was else "pipe" if was > issue else ""


def events(program: Program, machine: Machine, state: State = COLD, cores: Sequence[tuple[str, int]] | None = None,
           limit: int = LIMIT) -> list[Events]:
    """Return the events of each core asked for, as (stream, index); by default of the core of each stream that ends last.

    CheckError where the program cannot be timed, or has no such core.
    """
    walked = checked_walk(program, machine, state)
    return [_events(walked, stream, core, limit) for stream, core in _choose_cores(walked, cores)]


def _events(walked: Walked, stream: int, core: int, limit: int) -> Events:
    log, total = walked.log(stream, core, limit)
    return Events(walked, stream, core, log, total)


def _choose_cores(walked: Walked, cores: Sequence[tuple[str, int]] | None) -> list[tuple[int, int]]:
    """Return (stream, core) of each core asked for."""
    names = [s.name for s in walked.encoded.program.streams]
    if cores is None:
        return [(s, int(walked.told.ends[s, 1])) for s in range(len(names))]
    for name, core in cores:
        if name not in names:
            raise CheckError(f"program {walked.encoded.program.name} has no stream {name}; it has {', '.join(names)}")
        if not 0 <= core < walked.cores[names.index(name)]:
            raise CheckError(f"stream {name} has no core {core}; it has {int(walked.cores[names.index(name)])}, counted from 0")
    return [(names.index(name), core) for name, core in cores]
