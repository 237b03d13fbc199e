"""Program -> timeline of chosen cores, and its exports: a Chrome trace (Perfetto) and a picture."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from aoec.base.errors import CheckError
from aoec.base.files.files import write_text
from aoec.base.ticks import TICKS_PER_CYCLE as TICKS
from aoec.ir.index import evaluate
from aoec.ir.program import PIPES, Instr, Program, Ref
from aoec.ir.text.show import show
from aoec.ir.text.simplify import simplify
from aoec.jobs.states import measured_facts
from aoec.report.pictures.timeline import LANES, Arrow, Core, Slice, Timeline, Window, windows
from aoec.target.isa.instructions import INSTRUCTIONS

if TYPE_CHECKING:
    from aoec.simulate.reasons.events import Events
    from aoec.simulate.timing.state import State
    from aoec.target.machine import Machine

KEPT = 1_000_000  # events of a core
PIXELS = 1400  # of a strip


@dataclass(frozen=True)
class View:
    """What is shown: `cores` such as "aic.3" or "3" (none: the last of each stream), cycles; `events` of a core in a trace.
    `state`: what is in L2 at the start."""

    cores: Sequence[str] = ()
    start: float | None = None
    stop: float | None = None
    events: int = 100_000
    state: State = ()

    def window(self, end: float, kept: float) -> tuple[float, float] | None:
        """Return the cycles asked for. Raise CheckError where nothing of a timeline up to `end`, of which there is all up to `kept`, lies
        there."""
        if self.start is None and self.stop is None:
            return None
        start, stop = self.start or 0.0, end if self.stop is None else self.stop
        if start >= stop:
            why = f"starts at or after the end, cycle {end:,.0f}" if self.stop is None else f"does not lie before --to {stop:,.0f}"
            raise CheckError(f"--from {start:,.0f} {why}")
        if start >= kept:
            raise CheckError(f"nothing is left from cycle {start:,.0f}: the first {KEPT:,} events end at {kept:,.0f}")
        return start, stop


@dataclass(frozen=True)
class Observed:
    """A program with the events of the cores that are shown."""

    program: Program
    machine: Machine
    view: View
    told: Sequence[Events]
    facts: dict[str, Any]

    def ends(self, told: Events) -> float:
        """Return when a core ends, in cycles."""
        last = told.walked.told.ends[told.stream]
        return float(last[0]) / TICKS if last[1] == told.core else told.end_cycles

    def window(self) -> tuple[float, float] | None:
        """Return the cycles asked for, of any core."""
        return self.view.window(max(self.ends(t) for t in self.told), max(t.end_cycles for t in self.told))

    def picture(self) -> Timeline:
        """Return what a picture shows: windows, and a strip of all."""
        wanted = self.window()
        return self._timeline(lambda told, drawn: drawn.core(windows(self.ends(told), drawn.count(), wanted), None))

    def strips(self, pixels: int) -> Timeline:
        """Return all of each core, coarsely, and nothing else."""
        return self._timeline(lambda told, drawn: drawn.as_strip(pixels))

    def trace(self) -> Timeline:
        """Return what a trace holds: the first events of all, or of the window."""
        start, stop = self.window() or (0.0, float("inf"))
        return self._timeline(lambda told, drawn: drawn.core((Window(start, stop, ""),), self.view.events))

    def _timeline(self, draw: Callable[[Events, _Drawn], Core]) -> Timeline:
        cores = tuple(draw(t, _Drawn(t, self.machine, self.ends(t))) for t in self.told)
        return Timeline(self.program.name, self.machine.name, self.machine.clock_mhz, cores, self.facts)


def observe(program: Program, machine: Machine, view: View = View()) -> Observed:
    """Return the events of a filled program in the view's memory state."""
    from aoec.simulate.reasons.events import events
    from aoec.simulate.timing.time import measure
    program = simplify(program)  # the same times, and texts that read well
    told = events(program, machine, view.state, cores=[choose_core(program, c) for c in view.cores] or None, limit=KEPT)
    return Observed(program, machine, view, told, measured_facts(measure(program, machine, view.state), view.state))


def export(program: Program, machine: Machine, view: View, trace: str | None, svg: str | None) -> None:
    """Write the Chrome trace and the picture to the files named."""
    seen = observe(program, machine, view)
    seen.window()  # refused before anything is written
    if trace:
        from aoec.report.pictures import chrome
        write_text(trace, chrome.trace(seen.trace()))
    if svg:
        from aoec.report.pictures.svg import picture
        write_text(svg, picture(seen.picture()))


def choose_core(program: Program, text: str) -> tuple[str, int]:
    """Return (stream, index) of a core as text: STREAM.INDEX, or INDEX alone where there is one stream."""
    stream, _, index = text.rpartition(".")
    if not index.isdecimal() or len(index) > 6:
        raise CheckError(f"core {text!r} is not of the form {program.streams[0].name}.0, a stream and an index")
    if not stream and len(program.streams) > 1:
        raise CheckError(f"core {index} of which stream? {' or '.join(f'{s.name}.{index}' for s in program.streams)}")
    return stream or program.streams[0].name, int(index)


def process_name(machine: Machine, core: str, index: int) -> str:
    """Return the name that `msprof op simulator` gives a core of a kind: core0.cubecore0, core0.veccore1; core0 where both are one."""
    if core == "aiv" and "aic" in machine.cores:
        ratio = max(1, machine.cores["aiv"].count // machine.cores["aic"].count)
        return f"core{index // ratio}.veccore{index % ratio}"
    return f"core{index}.cubecore0" if core == "aic" else f"core{index}"


class _Drawn:
    """The slices of one core's events; words that repeat are made once."""

    def __init__(self, told: Events, machine: Machine, end: float) -> None:
        from aoec.simulate.reasons.guards import guards
        self.told, self.machine, self.stream, self.end = told, machine, told.program.streams[told.stream], end
        self.guards = guards(told.program, self.stream)
        self.known: dict[tuple[int, int], tuple[str, dict[str, Any]]] = {}
        self.texts: dict[int, str] = {}
        self.lanes: dict[str, list[Slice]] = {LANES[p]: [] for p in machine.cores[self.stream.core].pipes}
        self.arrows: list[Arrow] = []
        self.sets: list[tuple[float, str]] = []

    def count(self) -> int:
        """Return instructions and waits that hold their pipe up."""
        return int(((self.told.kinds == 0) | self.waits()).sum())

    def waits(self) -> np.ndarray[Any, Any]:
        """Return whether each event is a wait that holds its pipe up."""
        return np.isin(self.told.kinds, (2, 4)) & (self.told.column("end") > self.told.column("start"))

    def core(self, shown: tuple[Window, ...], most: int | None) -> Core:
        """Return the core in some windows, the first `most` events of them; without a limit with a strip of all of it."""
        inside = self.inside(shown)
        setters = self.told.setters()
        for i in inside[:most]:
            kind = self.told.kinds[i]
            if kind == 0:
                self.run(i)
            elif kind in (2, 4):
                self.wait(i, int(setters[i]))
            else:
                self.sets.append((self.cycles(i, 5), self.flag(i)))
        stop = float("inf") if most is None or most >= len(inside) else self.cycles(inside[most], 3)
        self.lanes["SCALAR"] = sorted([*self.lanes["SCALAR"], *self.scalar(shown, stop)], key=lambda s: s.start)
        left_out = f"the first {most:,} of {len(inside):,} events of core {self.told.name}" if stop < float("inf") else self.told.note
        return Core(self.told.name, process_name(self.machine, self.stream.core, self.told.core), self.end,
                    {n: tuple(s) for n, s in self.lanes.items()}, tuple(self.arrows), tuple(self.sets), shown,
                    self.strip() if most is None else {}, left_out)

    def inside(self, shown: tuple[Window, ...]) -> list[int]:
        """Return indices of the instructions, holding waits and sets that touch a window."""
        start, done = self.told.column("start"), np.maximum(self.told.column("end"), self.told.column("done"))
        touched = np.zeros(len(start), bool)
        for w in shown:
            touched |= (done >= w.start * TICKS) & (start <= w.stop * TICKS)
        found: list[int] = np.flatnonzero(touched & (np.isin(self.told.kinds, (0, 1, 3)) | self.waits())).tolist()
        return found

    def as_strip(self, pixels: int) -> Core:
        """Return the core as a strip of so many pixels."""
        return Core(self.told.name, process_name(self.machine, self.stream.core, self.told.core), self.end, {}, (), (), (),
                    self.strip(pixels), self.told.note)

    def strip(self, pixels: int = PIXELS) -> dict[str, tuple[Slice, ...]]:
        """Return all of each lane: for each pixel what holds it longest, equal neighbours taken together."""
        edges = np.linspace(0.0, max(self.end, 1.0) * TICKS, pixels + 1)
        out = {}
        for p, pipe in enumerate(PIPES):
            if LANES[pipe] in self.lanes:
                here = (self.told.pipes == p) & ((self.told.kinds == 0) | self.waits())
                if pipe == "S" or here.any():
                    out[LANES[pipe]] = self.coarse(LANES[pipe], here, edges)
        return out

    def coarse(self, lane: str, here: np.ndarray[Any, Any], edges: np.ndarray[Any, Any]) -> tuple[Slice, ...]:
        """Return a lane by pixels: every kind of slice covers a share of each; the one that covers most stands for it."""
        samples = list(self.scalar((Window(0.0, float("inf"), ""),), float("inf"))) if lane == "SCALAR" else []
        groups: dict[tuple[str, str, str], tuple[list[float], list[float]]] = {}
        for s in samples:
            _into(groups, (s.kind, s.op, s.label), [s.start * TICKS], [s.end * TICKS])
        for place in np.unique(self.told.column("place")[here]).tolist():
            mine = np.flatnonzero(here & (self.told.column("place") == place))
            run = self.told.kinds[mine[0]] == 0
            key = ("run", self.item(int(mine[0])).op, self.words(int(mine[0]))[0]) if run else ("wait", "wait_flag", "wait")
            _into(groups, key, self.told.column("start")[mine].tolist(), self.told.column("end")[mine].tolist())
        return _pixels(groups, edges) if groups else ()

    def cycles(self, i: int, column: int) -> float:
        return float(self.told.log[i, column]) / TICKS

    def item(self, i: int) -> Any:
        """Return the operation of the program."""
        return self.told.walked.encoded.places[self.told.log[i, 0]].item

    def lane(self, i: int) -> str:
        return LANES[PIPES[self.told.pipes[i]]]

    def run(self, i: int) -> None:
        """Add an instruction."""
        place, which = int(self.told.log[i, 0]), int(self.told.log[i, 1])
        if (place, which) not in self.known:
            self.known[place, which] = self.words(i)
        label, fields = self.known[place, which]
        item = self.told.walked.encoded.places[place].item
        assert isinstance(item, Instr)
        hbm, l2 = self.told.moved_bytes(i)
        facts: dict[str, Any] = {"loops": dict(self.told.loops(i)), **fields}
        if hbm or l2:
            facts |= {"hbm_bytes": hbm, "l2_bytes": l2}
        start, end, done = (self.cycles(i, c) for c in (4, 5, 6))
        self.lanes[self.lane(i)].append(
            Slice(start, end, done, "run", item.op, label, self.text(place), float(self.told.own_ticks[i]) / TICKS, facts))

    def words(self, i: int) -> tuple[str, dict[str, Any]]:
        """Return (label, sizes) of an instruction."""
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
        """Return the operation as the program writes it."""
        if place not in self.texts:
            item = self.told.walked.encoded.places[place].item
            assert item is not None
            self.texts[place] = show(item)
        return self.texts[place]

    def flag(self, i: int) -> str:
        """Return the pipes and id of a flag, or the other stream and the id, such as "MTE1>MTE2 1"."""
        item, which = self.item(i), int(self.told.log[i, 1])
        source = getattr(item, "source", getattr(item, "pipe", ""))
        target = getattr(item, "target", getattr(item, "to", getattr(item, "pipe", "")))
        return f"{source}>{target} {which}"

    def wait(self, i: int, setter: int) -> None:
        """Add a wait that blocks its pipe, and an arrow from the instruction that sets the flag."""
        if self.told.log[i, 5] <= self.told.log[i, 4]:
            return
        item, start, end, lane = self.item(i), self.cycles(i, 4), self.cycles(i, 5), self.lane(i)
        guard = self.guards.get((item.source, item.target, item.id)) if hasattr(item, "target") else None
        what = {"data": f"data in {' '.join(guard.buffers)}", "slot": f"a free slot of {' '.join(guard.buffers)}"} if guard else {}
        label = what.get(guard.why if guard else "", "another stream" if guard is None else "a flag")
        self.lanes[lane].append(Slice(start, end, end, "wait", "wait_flag", f"wait for {label}", self.text(int(self.told.log[i, 0])),
                                      facts={"flag": self.flag(i), "for": label, "loops": dict(self.told.loops(i))}))
        if setter >= 0:
            self.arrows.append(Arrow(self.lane(setter), self.cycles(setter, 5), lane, end, self.flag(i)))

    def scalar(self, shown: tuple[Window, ...], stop: float) -> Iterator[Slice]:
        """Yield the scalar unit in some windows: issues that follow each other are one slice; gaps that no wait fills are stalls."""
        cost, issue = self.told.walked.filled.tables.costs[0], self.told.column("issue")
        starts = issue - cost
        first = np.flatnonzero(np.concatenate([[True], starts[1:] > issue[:-1]]))[:len(issue)]
        last = np.concatenate([first[1:], [len(issue)]])
        mine = (self.told.pipes == 0) & self.waits()
        waits = dict(zip(self.told.column("start")[mine].tolist(), self.told.column("end")[mine].tolist(), strict=True))
        free = 0
        for a, b in zip(first.tolist(), last.tolist(), strict=True):
            free, start, end = waits.get(free, free), int(starts[a]), int(issue[b - 1])
            if start > free and _touches(shown, free, start, stop):
                yield _plain("stall", free, start, "a queue is full, or a loop turns")
            if _touches(shown, start, end, stop):
                yield _plain("issue", start, end, f"{b - a:,} operations")
            free = end


def _touches(shown: tuple[Window, ...], start: float, end: float, stop: float) -> bool:
    """Return whether ticks lie in a window, and before cycle `stop`."""
    return start < stop * TICKS and any(end >= w.start * TICKS and start <= w.stop * TICKS for w in shown)


def _plain(kind: str, start: float, end: float, what: str) -> Slice:
    """Return a slice that is no instruction; times in ticks."""
    return Slice(start / TICKS, end / TICKS, end / TICKS, kind, kind, kind, what)


def _into(groups: dict[tuple[str, str, str], tuple[list[float], list[float]]], key: tuple[str, str, str], starts: list[float],
          ends: list[float]) -> None:
    """Add the spans to the group."""
    group = groups.setdefault(key, ([], []))
    group[0].extend(starts)
    group[1].extend(ends)


def _pixels(groups: dict[tuple[str, str, str], tuple[list[float], list[float]]], edges: np.ndarray[Any, Any]) -> tuple[Slice, ...]:
    """Return runs of equal pixels (between `edges`). A pixel shows work where there is some, else the rest, by the group that covers most.
    The share of the slice that is covered is its `own` time.

    Spans of a group do not overlap. Shares are given in tenths, and less than a twentieth counts as nothing.
    """
    keys, shares = list(groups), [_share(starts, ends, edges) for starts, ends in groups.values()]
    work = np.array([s if k[0] == "run" else 0 * s for k, s in zip(keys, shares, strict=True)])
    rest = np.array(shares) - work
    busy = work.sum(axis=0) >= 0.05
    most = np.where(busy, np.argmax(work, axis=0), np.argmax(rest, axis=0))
    tenths = np.ceil(10 * np.where(busy, work.sum(axis=0), rest.max(axis=0)) - 0.5).astype(int)
    cuts = np.flatnonzero((np.diff(most) != 0) | (np.diff(tenths) != 0)) + 1
    runs = pairwise([0, *cuts.tolist(), len(most)])
    return tuple(_coarse(edges[a], edges[b], keys[most[a]], int(tenths[a])) for a, b in runs if tenths[a] > 0)


def _share(starts: list[float], ends: list[float], edges: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the share of each pixel that spans cover."""
    a, b = np.sort(starts), np.sort(ends)
    covered = np.concatenate([[0.0], np.repeat(np.cumsum(b - a), 2)])[:-1]
    return np.asarray(np.diff(np.interp(edges, np.stack([a, b], 1).ravel(), covered)) / (edges[1] - edges[0]))


def _coarse(start: float, end: float, key: tuple[str, str, str], tenths: int) -> Slice:
    kind, op, label = key
    return Slice(start / TICKS, end / TICKS, end / TICKS, kind, op, label, f"{10 * min(tenths, 10)} % of it", (end - start) / TICKS,
                 {"share": min(tenths, 10) / 10})
