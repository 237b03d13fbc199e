"""The proof that flags order every pair of accesses that overlap, by vector clocks over the pipes of a group of cores.

A pipe runs in order. Between pipes only flags give an order. Each pipe counts its own events, and keeps a lower bound of the progress
of every other pipe. A set sends that knowledge, and a wait adds it to that of the waiting pipe. Take two accesses of different pipes to
overlapping bytes, one of them a write. The pipe of the later one in program order must know that the earlier one is done. A wait on S
holds back all that the scalar unit issues after it. Streams take turns where they wait for each other, as tokens allow. An access that
could run before one that is earlier in that order is unordered with it, and is found.
"""
from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from aoec.base.errors import CheckError
from aoec.ir.index import Expr, evaluate, variables
from aoec.ir.program import CrossSet, CrossWait, For, Instr, Item, Program, Ref, SetFlag, Stream, WaitFlag
from aoec.target.isa.instructions import INSTRUCTIONS
from aoec.target.legality.deal import dealt, longer
from aoec.target.legality.footprint import Box
from aoec.target.legality.trace import Access, Event, error_at, line, trace
from aoec.target.machine import Machine

Clock = list[int]


def check_order(program: Program, machine: Machine) -> None:
    """Raise CheckError unless every access of every class of cores is in bounds and ordered. The error names the missing flag.

    A class of cores is a combination of first, second and last index of the grid axes that sizes depend on. Where iterations are dealt
    out, the first index that has one iteration less counts as well. Cores of streams that synchronise are walked as groups: the first
    two groups and the last.
    """
    spaces = _shared_spaces(program)
    if any(isinstance(e, (CrossSet, CrossWait)) for s in program.streams for e in _items(s.body)):
        for group in _groups(program):
            _Group(program, machine, spaces).run([(s, i, trace(program, s, _axes(s, i))) for s, i in group])
        return
    for s in program.streams:
        last = {a: int(evaluate(e, {})) - 1 for a, e in s.grid}
        farthest = trace(program, s, last)  # of the addresses: bounds come first
        for axes in _classes(s):
            _Group(program, machine, spaces).run([(s, 0, farthest if axes == last else trace(program, s, axes))])


def _items(body: tuple[Item, ...]) -> Iterator[Item]:
    for item in body:
        yield item
        if isinstance(item, For):
            yield from _items(item.body)


def _shape(item: Item) -> list[Expr]:
    """Return what makes an item's work differ from core to core: everything but offsets, which only shift it."""
    if isinstance(item, Instr):
        return [v.slot if isinstance(v, Ref) else v for _, v in item.fields]
    if isinstance(item, For):
        return [item.trips]
    return [item.id] if isinstance(item, (SetFlag, WaitFlag, CrossSet, CrossWait)) else []


def _classes(stream: Stream) -> list[dict[str, int]]:
    """Return one index per axis for every class of cores."""
    used = frozenset().union(*[variables(e) for i in _items(stream.body) for e in _shape(i)])
    choices, uneven = [], dealt(stream)
    for axis, extent in stream.grid:
        n = int(evaluate(extent, {}))
        fewer = int(longer(uneven[axis], axis, extent, {})[0]) if axis in uneven else 0
        choices.append([(axis, i) for i in sorted({0, min(1, n - 1), min(fewer, n - 1), n - 1} if axis in used else {0})])
    return [dict(c) for c in product(*choices)]


def _axes(stream: Stream, core: int) -> dict[str, int]:
    """Return the axis indices of a core; the core index is row-major."""
    extents = [int(evaluate(e, {})) for _, e in stream.grid]
    return {a: int(i) for (a, _), i in zip(stream.grid, np.unravel_index(core, extents) if extents else ())}


def _groups(program: Program) -> list[list[tuple[Stream, int]]]:
    """Return (stream, core) of the groups of cores that meet by cross flags: the first two and the last."""
    counts = [prod(int(evaluate(e, {})) for _, e in s.grid) for s in program.streams]
    groups = min(counts)
    for s, n in zip(program.streams, counts):
        if n % groups:
            raise CheckError(f"streams that meet need whole multiples of cores; {s.name} has {n}, another {groups}")
    return [[(s, g * (n // groups) + i) for s, n in zip(program.streams, counts) for i in range(n // groups)]
            for g in sorted({0, min(1, groups - 1), groups - 1})]


def _shared_spaces(program: Program) -> dict[str, int]:
    """Return number by name of the spaces that share bytes with another space of their scope: what overlaps must not be alive at once."""
    ranges = []
    for s in program.spaces:
        address, size, depth = (int(evaluate(e, {})) for e in (s.address, s.size_bytes, s.depth))
        ranges.append((s.name, s.scope, address, address + size * depth))
    shared = {a[0] for a in ranges for b in ranges if a[0] != b[0] and a[1] == b[1] and a[2] < b[3] and b[2] < a[3]}
    return {r[0]: i + 2 for i, r in enumerate(ranges) if r[0] in shared}


class _Past(NamedTuple):
    """An access that was walked: its pipe's count then, and what it was."""

    time: int
    access: Access
    event: Event


@dataclass(slots=True)
class _Core:
    """A core while it is walked. `pipes`: number of each of its pipes in the group's clocks."""

    stream: Stream
    index: int
    events: list[Event]
    pipes: dict[str, int]
    at: int = 0
    flags: dict[tuple[str, str, int], tuple[Clock, Event]] = field(default_factory=dict)
    waited: dict[tuple[str, str, int], int] = field(default_factory=dict)  # the waiting pipe's count at the last wait


@dataclass(slots=True)
class _Tokens:
    """A cross flag between two cores: clocks of sets not yet taken, and counts of the waits."""

    sets: list[Clock] = field(default_factory=list)
    times: list[int] = field(default_factory=list)  # the waiting pipe's count at each wait: they rise
    total: int = 0  # sets so far
    weight: int = 0  # the same in the whole run, with the iterations that are not walked
    known: int = 0  # waits that the setter knew of at the last set
    last: Event | None = None
    waiter: int = -1
    setter: int = -1


class _Group:
    """Cores that are walked together."""

    def __init__(self, program: Program, machine: Machine, shared: dict[str, int]) -> None:
        self.program, self.machine, self.shared = program, machine, shared
        self.cores: list[_Core] = []
        self.clocks: list[Clock] = []
        self.names: list[str] = []
        self.past: dict[tuple[int, str], dict[int, list[_Past]]] = {}
        self.owner: dict[tuple[int, str], np.ndarray] = {}
        self.tokens: dict[tuple[int, int, int], _Tokens] = {}
        # (core, item, loop, values of all others) -> weight and bytes of its last write on chip where that loop stood for more iterations
        self.before: dict[tuple[int, int, int, tuple[int | None, ...]], tuple[int, Access]] = {}
        self.leapt: set[int] = set()  # cores with such writes
        self.loops = {i.var for s in program.streams for i in _items(s.body) if isinstance(i, For)}
        self.spaces = {s.name for s in program.spaces}
        self.written = {r.buffer for s in program.streams for i in _items(s.body) if isinstance(i, Instr)
                        for o in INSTRUCTIONS[i.op].operands if o.writes and isinstance(r := i[o.name], Ref)}

    def run(self, cores: list[tuple[Stream, int, list[Event]]]) -> None:
        """Walk the cores in turns and prove their accesses. Raise CheckError at the first one that cannot be proved."""
        for stream, index, events in cores:
            pipes = {p: len(self.names) + i for i, p in enumerate(self.machine.core(stream.core).pipes)}
            self.names += pipes
            self.cores.append(_Core(stream, index, events, pipes))
        self.clocks = [[0] * len(self.names) for _ in self.names]
        moved = True
        while moved:
            moved = any([self.advance(c) for c in range(len(self.cores))])
        for core in self.cores:
            if core.at < len(core.events):
                event = core.events[core.at]
                raise error_at(event, "waits for a cross flag that no other core sets; the streams wait for each other for ever")
            for _, event in core.flags.values():
                raise error_at(event, "this flag is left set at the end: add a wait for it, or drop the set")
        for tokens in self.tokens.values():
            if tokens.sets:
                raise CheckError(f"program {self.program.name} leaves {len(tokens.sets)} tokens in a cross flag: add a cross_wait for each")
            if tokens.last and not tokens.known:  # nothing holds the setter back: all its sets may come before the first wait
                self.counts(tokens, tokens.weight, tokens.last)

    def advance(self, c: int) -> bool:
        """Walk core c as far as it can go. Return True if it moved."""
        core, start = self.cores[c], self.cores[c].at
        while core.at < len(core.events):
            event = core.events[core.at]
            item = event.item
            if isinstance(item, Instr):
                self.instruction(c, event, item)
            elif isinstance(item, SetFlag):
                self.set(core, event, item)
            elif isinstance(item, WaitFlag):
                self.wait(core, event, item)
            elif isinstance(item, CrossSet):
                self.cross_set(c, event, item)
            elif isinstance(item, CrossWait) and not self.cross_wait(c, event, item):
                break
            core.at += 1
        return core.at > start

    def tick(self, pipe: int) -> int:
        """Counts one event on a pipe; returns the count."""
        self.clocks[pipe][pipe] += 1
        return self.clocks[pipe][pipe]

    def learn(self, core: _Core, pipe: str, clock: Clock) -> None:
        """Add the knowledge that a flag brings to a pipe. Add it to all pipes where the scalar unit waited, since it issues their
        instructions."""
        for p in core.pipes.values() if pipe == "S" else (core.pipes[pipe],):
            mine = self.clocks[p]
            self.clocks[p] = [a if a > b else b for a, b in zip(mine, clock)]

    # ---------------------------------------------------------------- flags

    def set(self, core: _Core, event: Event, item: SetFlag) -> None:
        key = (item.source, item.target, event.flag)
        if not 0 <= event.flag < self.machine.flag_ids:
            raise error_at(event, f"flag id {event.flag} is outside 0..{self.machine.flag_ids - 1} of {self.machine.name}")
        if key in core.flags:
            raise error_at(event, f"flag {event.flag} is set while it is still set: nothing on {item.target} has waited for it in between")
        source = core.pipes[item.source]
        self.tick(source)
        if core.waited.get(key, 0) > self.clocks[source][core.pipes[item.target]]:
            raise error_at(event, f"flag {event.flag} is set again while the wait for it may not have run: {item.source} must first learn "
                           f"from {item.target}, by a flag ({item.target}, {item.source}) set after that wait, or use another id")
        core.flags[key] = (list(self.clocks[source]), event)

    def wait(self, core: _Core, event: Event, item: WaitFlag) -> None:
        key = (item.source, item.target, event.flag)
        if key not in core.flags:
            raise error_at(event, f"waits for a flag that nothing has set: add set({item.source}, {item.target}, {event.flag}) before it")
        clock, _ = core.flags.pop(key)
        self.learn(core, item.target, clock)
        core.waited[key] = self.tick(core.pipes[item.target])

    def peers(self, c: int, name: str) -> list[int]:
        """Return numbers of the cores of stream `name` that core c meets."""
        mine = [i for i, k in enumerate(self.cores) if k.stream is self.cores[c].stream]
        theirs = [i for i, k in enumerate(self.cores) if k.stream.name == name]
        i, n, m = mine.index(c), len(mine), len(theirs)
        if n % m and m % n:
            raise CheckError(f"streams {self.cores[c].stream.name} and {name} meet with {n} and {m} cores: one must divide the other")
        return theirs[i * m // n:max(i * m // n + 1, (i + 1) * m // n)]

    def cross_id(self, event: Event) -> int:
        if not 0 <= event.flag < self.machine.cross_ids:
            raise error_at(event, f"cross flag {event.flag} is outside 0..{self.machine.cross_ids - 1} of {self.machine.name}")
        return event.flag

    def cross_set(self, c: int, event: Event, item: CrossSet) -> None:
        pipe, flag = self.cores[c].pipes[item.pipe], self.cross_id(event)
        self.tick(pipe)
        for peer in self.peers(c, item.to):
            t = self.tokens.setdefault((c, peer, flag), _Tokens())
            if t.setter not in (-1, pipe):
                raise error_at(event, f"cross flag {flag} is set by {self.names[t.setter]} as well: give each pipe a flag of its own")
            t.setter, t.total, t.weight = pipe, t.total + 1, t.weight + event.weight
            t.known = bisect_right(t.times, self.clocks[pipe][t.waiter])
            self.counts(t, t.total - t.known, event)
            t.sets.append(list(self.clocks[pipe]))

    def counts(self, t: _Tokens, high: int, event: Event) -> None:
        """Raises where a cross flag may count higher than the machine can: the setter runs ahead of waits it does not know of."""
        if high > self.machine.cross_count:
            raise error_at(event, f"cross flag {event.flag} may count to {high:,} of {self.machine.cross_count} on {self.machine.name}: "
                           "wait for the other stream in between")
        t.last = event

    def cross_wait(self, c: int, event: Event, item: CrossWait) -> bool:
        pipe, flag = self.cores[c].pipes[item.pipe], self.cross_id(event)
        found = [self.tokens.setdefault((peer, c, flag), _Tokens()) for peer in self.peers(c, item.source)]
        if not all(t.sets for t in found):
            return False
        for t in found:
            if t.waiter not in (-1, pipe):
                raise error_at(event, f"cross flag {flag} is waited for by {self.names[t.waiter]} as well: give each pipe a flag of "
                               "its own")
            t.waiter = pipe
            self.learn(self.cores[c], item.pipe, t.sets.pop(0))
        time = self.tick(pipe)
        for t in found:
            t.times.append(time)
        return True

    # ---------------------------------------------------------------- accesses

    def instruction(self, c: int, event: Event, item: Instr) -> None:
        """Prove that an instruction comes after all accesses that it overlaps, and record it."""
        name = INSTRUCTIONS[item.op].pipe
        pipe = self.cores[c].pipes[name]
        time = self.tick(pipe)
        for access in event.accesses:
            if access.buffer not in self.written:
                if access.buffer in self.spaces:
                    raise error_at(event, f"reads {access.buffer}, which nothing writes")
                continue
            area = (c if access.buffer in self.spaces else -1, access.area)
            if access.buffer in self.spaces and not access.writes:
                self.check_defined(area, event, access)
            self.meets(area, pipe, event, access)
        for access in event.accesses:
            if access.buffer in self.written:
                area = (c if access.buffer in self.spaces else -1, access.area)
                self.past.setdefault(area, {}).setdefault(pipe, []).append(_Past(time, access, event))
                if access.writes and access.buffer in self.spaces:
                    self.mark(area, access, self.find_skipped_write(c, event, access))

    def meets(self, area: tuple[int, str], pipe: int, event: Event, access: Access) -> None:
        """Raises where an access of another pipe overlaps this one and is not known to be done."""
        clock = self.clocks[pipe]
        for other, entries in self.past.get(area, {}).items():
            if other == pipe:
                continue
            for past in reversed(entries):
                if past.time <= clock[other]:
                    break
                ordered = (access.writes or past.access.writes) and not (access.atomic and past.access.atomic)  # sums commute
                if ordered and overlap(access, past.access):
                    raise self.unordered_error(other, pipe, past, event, access)

    def unordered_error(self, other: int, pipe: int, past: _Past, event: Event, access: Access) -> CheckError:
        """Return the error of two accesses that meet."""
        first, then = self.names[other], self.names[pipe]
        doing = "writes" if access.writes else "reads"
        done = "written" if past.access.writes else "read"
        bytes_ = f"{access.area} bytes {max(access.low, past.access.low):,} to {min(access.high, past.access.high):,}"
        what = access.buffer if access.buffer == past.access.buffer else f"{access.buffer}, which shares bytes with {past.access.buffer},"
        same_core = any({other, pipe} <= set(c.pipes.values()) for c in self.cores)
        flag = f"set({first}, {then}, id)" if same_core else "cross_set"
        wait = f"wait({first}, {then}, id)" if same_core else "cross_wait"
        earlier = line(past.event.item) + (f" (at {past.event.place()})" if past.event.place() else "")
        return error_at(event, f"{doing} {what} ({bytes_}) while {earlier} may not have {done} it on {first}: {then} needs {wait} before, "
                        f"and {flag} after that")

    def check_defined(self, area: tuple[int, str], event: Event, access: Access) -> None:
        """Raises where the first byte of a read was never written, or was last written as another buffer's."""
        owner = self.owner.get(area)
        who = 0 if owner is None or access.boxes[0].start >= owner.size else int(owner[access.boxes[0].start])
        if who == 0:
            raise error_at(event, f"reads {access.buffer} ({access.area} byte {access.boxes[0].start:,}), which nothing has written before")
        if who not in (1, self.shared.get(access.buffer, 1)):
            other = next(n for n, i in self.shared.items() if i == who)
            raise error_at(event, f"reads {access.buffer} where {other} was written over it: they share bytes of {access.area} and are "
                           "alive at once; give them addresses of their own")

    def find_skipped_write(self, c: int, event: Event, access: Access) -> Access | None:
        """Return the write of an earlier iteration of one loop that represents all iterations up to this one. All other loops are at
        the same iteration."""
        found = None
        loops = [v for n, v in zip(event.names, event.env) if n in self.loops] if event.weight > 1 or c in self.leapt else []
        for at in range(len(loops)):
            key = c, id(event.item), at, (*loops[:at], *loops[at + 1:])
            weight, write = self.before.get(key, (0, access))
            found = write if weight > event.weight else found
            if event.weight > 1:
                self.before[key] = event.weight, access
                self.leapt.add(c)
        return found

    def mark(self, area: tuple[int, str], access: Access, before: Access | None) -> None:
        """Writes down whose bytes these are, and those that iterations between `before` and the last walked one write."""
        owner = self.owner.get(area)
        if owner is None:
            self.owner[area] = owner = np.zeros(self.machine.scope(area[1]).size_bytes, np.uint16)
        who = self.shared.get(access.buffer, 1)
        if before:
            owner[min(before.low, access.low):max(before.high, access.high)] = who
        for b in access.boxes:
            for i in range(b.runs):
                owner[b.start + i * b.stride:b.start + i * b.stride + b.length] = who


# ---------------------------------------------------------------- overlap of boxes

def overlap(a: Access, b: Access) -> bool:
    """Return True where two accesses of one area share a byte."""
    if a.low >= b.high or b.low >= a.high:
        return False
    return any(boxes_meet(x, y) for x in a.boxes for y in b.boxes)


def boxes_meet(a: Box, b: Box) -> bool:
    """Return True where two boxes share a byte; exact."""
    if a.start >= b.stop or b.start >= a.stop:
        return False
    if a.runs == 1 and b.runs == 1:
        return True
    if a.runs > b.runs:  # the runs of one are looked at one by one: those of a read by an index may be 2^31
        a, b = b, a
    starts = a.start + a.stride * np.arange(a.runs)
    # the last run of b that starts before a run of a ends; it alone can reach that run's start, runs being disjoint or touching
    if b.stride == 0:
        return bool(((starts < b.start + b.length) & (starts + a.length > b.start)).any())
    last = np.minimum((starts + a.length - 1 - b.start) // b.stride, b.runs - 1)
    return bool(((last >= 0) & (b.start + last * b.stride + b.length > starts)).any())
