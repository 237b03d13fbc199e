"""Program -> timeline of chosen cores, and its exports: a Chrome trace (Perfetto) and a picture."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from aoec.base.errors import CheckError
from aoec.base.files import write_text
from aoec.ir.index import evaluate
from aoec.ir.program import PIPES, Instr, Program, Ref
from aoec.ir.show import show
from aoec.report.timeline import LANES, Arrow, Core, Slice, Timeline
from aoec.target.instructions import INSTRUCTIONS

if TYPE_CHECKING:
    from aoec.simulate.events import Events
    from aoec.target.machine import Machine

TICKS = 1024


@dataclass(frozen=True)
class View:
    """What of a timeline is shown: `cores` such as "aic.3" or "3" (none: the last of each stream), cycles, events of a core at most."""

    cores: Sequence[str] = ()
    start: float | None = None
    stop: float | None = None
    events: int = 100_000

    def window(self, timeline: Timeline) -> tuple[float, float] | None:
        """The cycles asked for, where they are; CheckError where nothing of the timeline lies there."""
        if self.start is None and self.stop is None:
            return None
        end = max(c.end for c in timeline.cores)
        start, stop = self.start or 0.0, end if self.stop is None else self.stop
        kept = max((s[-1].end for c in timeline.cores for s in c.lanes.values() if s), default=0.0)
        if start >= stop:
            raise CheckError(f"cycles {start:,.0f} to {stop:,.0f} are none; the program ends at {end:,.0f}")
        if start >= kept:
            more = "; --events N keeps more" if kept < end else ""
            raise CheckError(f"nothing is left from cycle {start:,.0f}: the events kept end at {kept:,.0f}{more}")
        return start, stop


def export(program: Program, machine: Machine, view: View, trace: str | None, svg: str | None) -> None:
    """Nothing; the Chrome trace and the picture go to the files named."""
    shown = timeline(program, machine, view)
    window = view.window(shown)
    if trace:
        from aoec.report import chrome
        write_text(trace, chrome.trace(shown, window))
    if svg:
        from aoec.report.svg import picture
        write_text(svg, picture(shown, window))


def timeline(program: Program, machine: Machine, view: View = View()) -> Timeline:
    """The timeline of a filled program from cold caches."""
    from aoec.simulate.events import events
    from aoec.simulate.time import measure
    told = events(program, machine, cores=[chosen(program, c) for c in view.cores] or None, limit=view.events)
    facts = {"kind": "modelled", **asdict(measure(program, machine))}
    return Timeline(program.name, machine.name, machine.clock_mhz, tuple(_Drawn(e, machine).core() for e in told), facts)


def chosen(program: Program, text: str) -> tuple[str, int]:
    """(stream, index) of a core as text: STREAM.INDEX, or INDEX alone where there is one stream."""
    stream, _, index = text.rpartition(".")
    if not index.isdecimal() or len(index) > 6:
        raise CheckError(f"core {text!r} is not of the form {program.streams[0].name}.0, a stream and an index")
    if not stream and len(program.streams) > 1:
        raise CheckError(f"core {index} of which stream? {' or '.join(f'{s.name}.{index}' for s in program.streams)}")
    return stream or program.streams[0].name, int(index)


def process_name(machine: Machine, core: str, index: int) -> str:
    """The name that `msprof op simulator` gives a core of a kind: core0.cubecore0, core0.veccore1; core0 where both are one."""
    if core == "aiv" and "aic" in machine.cores:
        ratio = max(1, machine.cores["aiv"].count // machine.cores["aic"].count)
        return f"core{index // ratio}.veccore{index % ratio}"
    return f"core{index}.cubecore0" if core == "aic" else f"core{index}"


class _Drawn:
    """The slices of one core's events; words that repeat are made once."""

    def __init__(self, told: Events, machine: Machine) -> None:
        from aoec.simulate.guards import guards
        self.told, self.machine, self.stream = told, machine, told.program.streams[told.stream]
        self.guards = guards(told.program, self.stream)
        self.known: dict[tuple[int, int], tuple[str, dict[str, Any]]] = {}
        self.texts: dict[int, str] = {}
        self.lanes: dict[str, list[Slice]] = {LANES[p]: [] for p in machine.cores[self.stream.core].pipes}
        self.arrows: list[Arrow] = []
        self.sets: list[tuple[float, str]] = []

    def core(self) -> Core:
        """All of it."""
        setters = self.told.setters()
        for i in range(len(self.told)):
            kind = self.told.kinds[i]
            if kind == 0:
                self.run(i)
            elif kind in (2, 4):
                self.wait(i, int(setters[i]))
            elif kind in (1, 3):
                self.sets.append((self.cycles(i, 5), self.flag(i)))
        if len(self.told):
            self.scalar()
        walked = self.told.walked
        end = walked.told.ends[self.told.stream]
        return Core(self.told.name, process_name(self.machine, self.stream.core, self.told.core),
                    float(end[0]) / TICKS if end[1] == self.told.core else self.told.end_cycles,
                    {n: tuple(s) for n, s in self.lanes.items()}, tuple(self.arrows), tuple(self.sets), self.told.note)

    def cycles(self, i: int, column: int) -> float:
        return float(self.told.log[i, column]) / TICKS

    def lane(self, i: int) -> str:
        return LANES[PIPES[self.told.pipes[i]]]

    def run(self, i: int) -> None:
        """An instruction."""
        place, which = int(self.told.log[i, 0]), int(self.told.log[i, 1])
        if (place, which) not in self.known:
            self.known[place, which] = self.words(i)
        label, fields = self.known[place, which]
        item = self.told.walked.encoded.places[place].item
        assert isinstance(item, Instr)
        hbm, l2 = self.told.moved(i)
        facts: dict[str, Any] = {"loops": dict(self.told.loops(i)), **fields}
        if hbm or l2:
            facts |= {"hbm_bytes": hbm, "l2_bytes": l2}
        start, end, done = (self.cycles(i, c) for c in (4, 5, 6))
        self.lanes[self.lane(i)].append(
            Slice(start, end, done, "run", item.op, label, self.text(place), float(self.told.own_ticks[i]) / TICKS, facts))

    def words(self, i: int) -> tuple[str, dict[str, Any]]:
        """(label, sizes) of an instruction."""
        place = int(self.told.log[i, 0])
        item = self.told.walked.encoded.places[place].item
        assert isinstance(item, Instr)
        values, word = self.told.variables(i), INSTRUCTIONS[item.op]
        site = self.told.walked.encoded.sites[self.told.walked.encoded.code[place, 1]]
        fields = {name: int(evaluate(e, values)) for name, e in site.fields}
        spaces = {s.name for s in self.told.program.spaces}
        refs = [r.buffer for r in (item[o.name] for o in word.operands) if isinstance(r, Ref)]
        if word.pipe == "M":
            return "x".join(str(fields.get(n, "?")) for n in "mnk"), fields
        return next((b for b in refs if b in spaces), refs[0]) if word.pipe != "V" else item.op, fields

    def text(self, place: int) -> str:
        """The operation as the program writes it."""
        if place not in self.texts:
            item = self.told.walked.encoded.places[place].item
            assert item is not None
            self.texts[place] = show(item)
        return self.texts[place]

    def flag(self, i: int) -> str:
        """Such as "MTE1>MTE2 1": pipes and id of a flag, or the other stream and id."""
        item, which = self.told.event(i).item, int(self.told.log[i, 1])
        source = getattr(item, "source", getattr(item, "pipe", ""))
        target = getattr(item, "target", getattr(item, "to", getattr(item, "pipe", "")))
        return f"{source}>{target} {which}"

    def wait(self, i: int, setter: int) -> None:
        """A wait that holds its pipe up, and an arrow from where the flag is set."""
        if self.told.log[i, 5] <= self.told.log[i, 4]:
            return
        item, start, end, lane = self.told.event(i).item, self.cycles(i, 4), self.cycles(i, 5), self.lane(i)
        guard = self.guards.get((item.source, item.target, item.id)) if hasattr(item, "target") else None  # type: ignore[union-attr]
        what = {"data": f"data in {' '.join(guard.buffers)}", "slot": f"a free slot of {' '.join(guard.buffers)}"} if guard else {}
        label = what.get(guard.why if guard else "", "another stream" if guard is None else "a flag")
        self.lanes[lane].append(Slice(start, end, end, "wait", "wait_flag", f"wait for {label}", self.text(int(self.told.log[i, 0])),
                                      facts={"flag": self.flag(i), "for": label, "loops": dict(self.told.loops(i))}))
        if setter >= 0:
            self.arrows.append(Arrow(self.lane(setter), self.cycles(setter, 5), lane, end, self.flag(i)))

    def scalar(self) -> None:
        """The scalar unit: issues that follow each other are one slice; gaps between them that no wait fills are stalls."""
        cost, issue = self.told.walked.filled.tables.costs[0], self.told.column("issue")
        starts, lane = issue - cost, self.lanes["SCALAR"]
        first = np.flatnonzero(np.concatenate([[True], starts[1:] > issue[:-1]]))[:len(issue)]
        last = np.concatenate([first[1:], [len(issue)]])
        waits = {w.start: w.end for w in lane}
        free = 0.0
        for a, b in zip(first, last, strict=True):
            start, end = float(starts[a]) / TICKS, float(issue[b - 1]) / TICKS
            free = waits.get(free, free)
            if start > free:
                lane.append(Slice(free, start, start, "stall", "stall", "stall", "a queue is full, or a loop turns"))
            lane.append(Slice(start, end, end, "issue", "issue", "issue", f"{b - a} operations"))
            free = end
        lane.sort(key=lambda s: s.start)
