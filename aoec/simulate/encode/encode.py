"""A program as flat arrays: code with loops kept, and the expressions whose values the walk needs, for all rows at once.

Durations and trip counts are tables by class (first, body, last) of the loops and grid axes that they depend on. So a size may differ
between the first, the last and all other iterations of a loop, and in no other way. A program whose structure shows another variation is
refused here. A variation that only values show is a row's error (tables.VARIES).
"""
from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from operator import or_
from typing import Any

import numpy as np

from aoec.base.errors import CheckError, UnsupportedError
from aoec.ir.index import DTYPES, Binary, Call, Expr, Int, affine, hole_names, minimum, rebuild, substitute, variables, walk
from aoec.ir.program import PIPES, Advance, CrossSet, CrossWait, For, Instr, Item, Program, Ref, SetFlag, Stream, WaitFlag
from aoec.kernels import timeline as kernel
from aoec.simulate.encode.formulas import Formulas
from aoec.simulate.timing.reuse import Access
from aoec.simulate.timing.steady import heard_registers, used_in_loops
from aoec.target.isa.instructions import INSTRUCTIONS, added_to
from aoec.target.legality.placement import placement
from aoec.target.machine import Machine
from aoec.target.parts import Timing

HANDED = ("M", "FIXP")  # pipes between which L0C may be handed over in granules
PIPE = {p: i for i, p in enumerate(PIPES)}
MAX_AXES = 30  # of a value table; NumPy allows 32 dimensions


@dataclass(frozen=True)
class Site:
    """Instructions of one stream with equal cost: formula, the fields that it reads, its plain numbers, what it touches in GM."""

    stream: int
    op: str
    pipe: int
    timing: Timing
    fields: tuple[tuple[str, Expr], ...]
    dtype: str  # of what it reads: numbers of the machine may go by it
    numbers: tuple[tuple[str, Any], ...]  # a number each, or a column of them (machines.py)
    gm_size: int  # bytes per element of the GM operand; 0 where there is none
    access: Access | None  # where in GM, and in which loops
    start: Expr  # of it in the first iterations, over grid axes: where each core begins
    path: str  # such as GM->L1; empty where nothing crosses GM

    def on(self, machine: Machine) -> Site:
        """Return the site with the numbers of another machine."""
        numbers = {name: machine.tables[name][self.dtype] if name in machine.tables else machine.constants.get(name, value)
                   for name, value in self.numbers}
        return replace(self, timing=machine.cost(self.op), numbers=tuple(numbers.items()))


@dataclass(frozen=True)
class Loop:
    stream: int
    var: str
    trips: Expr
    outer: tuple[str, ...]  # loops around it
    idle: bool  # no instruction stands in it: flags are set, or waited for, once for each slot


@dataclass(frozen=True)
class Place:
    """What of the program an operation of the code is: a loop for its start and its end, None where the stream stops."""

    stream: int
    item: Item | None
    outer: tuple[str, ...]  # loops around it


NOTHING = Formulas([])


@dataclass
class Encoded:
    """The flat program; `values` of the expressions are filled in per batch of rows (time.py)."""

    program: Program
    machine: Machine
    code: np.ndarray
    starts: np.ndarray
    sites: list[Site] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    forms: list[tuple[Expr, list[tuple[int, Expr]]]] = field(default_factory=list)  # constant, (register, coefficient)
    counters: list[tuple[int, Expr]] = field(default_factory=list)  # register, depth
    axes: list[tuple[int, str, Expr]] = field(default_factory=list)  # stream, variable, extent
    registers: int = 1
    pairs: int = 0  # of pipes that flags go between
    preset: int = 0  # pairs of pipes, as bits, between which flags are set before the loops
    granular: int = 0  # pairs of pipes, as bits, with flags by which L0C is handed over in granules
    joined: bool = False
    emitted: bool = False  # whether emission made it, so that flags go in turns whatever the trip counts (kernel: does_less)
    used: np.ndarray = field(default_factory=lambda: np.zeros((1, 5), np.int64))  # of loops, see kernel.Tables
    heard: np.ndarray = field(default_factory=lambda: np.zeros((1, 1), np.int8))  # of registers, see kernel.Tables
    holes: tuple[str, ...] = ()  # that the times depend on
    work_holes: frozenset[str] = frozenset()  # of them those that sizes, trip counts, grids or places in GM depend on: all but slots
    places: list[Place] = field(default_factory=list)  # of the code
    register_of: list[dict[str, int]] = field(default_factory=list)  # by stream: of counters and loop variables
    dependences: dict[Any, Any] = field(default_factory=dict)  # by stream, found when it is first timed (sizes.py, work.py)
    units: Mapping[str, int] = field(default_factory=dict)  # what a hole's choices are multiples of, where that is known
    totals: dict[Any, Any] = field(default_factory=dict)  # by open holes: the accesses whose bytes do not depend on them (totals.py)
    fillers: dict[Any, Any] = field(default_factory=dict)  # by memory state, made when rows are first timed (filling.py)
    legality: Formulas = NOTHING  # the conditions of the program's constraints
    grid: Formulas = NOTHING  # the extents of grid axes
    own: Formulas = NOTHING  # what each row has its own of, slots and all: see `parts_of_own`
    adds: bool = False  # whether a tensor is added to, which is filled with zeros before
    noted: dict[Any, Any] = field(default_factory=dict)  # by memory state: what these share (plan_sizes.py)

    def parts_of_own(self) -> dict[str, list[Expr]]:
        """Return the expressions of `own`, by the table that they fill."""
        return {"form_constant": [c for c, _ in self.forms], "form_coefficient": [c for _, terms in self.forms for _, c in terms],
                "depth": [d for _, d in self.counters], "idle": [loop.trips for loop in self.loops if loop.idle]}

    def on(self, machine: Machine) -> Encoded:
        """Return the program on a machine that has other numbers, and the same formulas, pipes and flags."""
        return replace(self, machine=machine, sites=[site.on(machine) for site in self.sites], fillers={}, noted={})

    def add_probes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (code, starts) with a probe after each instruction, flag operation and start of a loop."""
        silent = np.isin(self.code[:, 0], (kernel.END, kernel.ADVANCE, kernel.STOP))
        moved = np.arange(len(self.code)) + np.concatenate([[0], np.cumsum(~silent)[:-1]])
        code = np.zeros((len(self.code) + int((~silent).sum()), 4), np.int32)
        code[moved] = self.code
        jumps = np.isin(self.code[:, 0], (kernel.LOOP, kernel.END))
        code[moved[jumps], 2] = moved[self.code[jumps, 2]]
        code[moved[~silent] + 1, 0], code[moved[~silent] + 1, 1] = kernel.PROBE, np.flatnonzero(~silent)
        return code, moved[self.starts].astype(np.int32)


def encode(program: Program, machine: Machine) -> Encoded:
    """Return the flat form of a program, holes kept. Raise CheckError or TargetError where the timeline cannot time it."""
    if program.target != machine.name:
        raise CheckError(f"program {program.name} is for {program.target} and the machine is {machine.name}; emit it for that machine")
    return _Encoder(program, machine).encode()


class _Encoder:
    def __init__(self, program: Program, machine: Machine) -> None:
        self.program, self.machine = program, machine
        self.code: list[tuple[int, int, int, int]] = []
        self.out = Encoded(program, machine, np.zeros((0, 4), np.int32), np.zeros(0, np.int32))
        self.pairs: dict[tuple[str, str], int] = {}
        self.known: dict[Site, int] = {}
        self.form_index: dict[tuple[int, Expr], int] = {}
        self.tensors = {t.name: t for t in program.tensors}
        self.spaces = {s.name: s for s in program.spaces}
        self.dtypes = {t.name: t.dtype for t in program.tensors} | {s.name: s.dtype for s in program.spaces}
        self.streams = {s.name: i for i, s in enumerate(program.streams)}
        self.register: dict[str, int] = {}
        self.stream = 0
        self.around: tuple[str, ...] = ()  # the loops around what is encoded
        self.meets = 0  # how many of them lie around a wait for another stream
        self.granular = any(isinstance(i, Instr) and i["unit"] != Int(0) for s in program.streams for i in _items(s.body))
        self.walked = any(remainder_of(i.trips) for s in program.streams for i in _items(s.body) if isinstance(i, For))

    def encode(self) -> Encoded:
        starts = []
        for i, stream in enumerate(self.program.streams):
            starts.append(len(self.code))
            self.begin(i, stream)
            self.body(stream.body, ())
            self.put((kernel.STOP, 0, 0, 0), None, ())
        out = self.out
        out.code, out.starts = np.array(self.code, np.int32).reshape(-1, 4), np.array(starts, np.int32)
        out.pairs = len(self.pairs)
        out.holes = program_holes(self.program)
        out.work_holes = work_holes(out)
        registers = [[register for register, _ in terms] for _, terms in out.forms]
        out.used = used_in_loops(out.code, registers, len(out.loops), self.machine.flag_ids)
        out.heard = heard_registers(out.code, registers, [p.stream for p in out.places], out.registers)
        out.preset, out.granular = preset_pairs(out, self.machine.flag_ids), granular_pairs(out, self.machine.flag_ids)
        out.legality = Formulas([c.condition for c in self.program.constraints])
        out.grid = Formulas([e for _, _, e in out.axes])
        out.own = Formulas([e for part in out.parts_of_own().values() for e in part])
        out.adds = bool(added_to(self.program))
        out.joined = any(row[0] in (kernel.CROSS_SET, kernel.CROSS_WAIT) for row in self.code)
        return out

    def begin(self, index: int, stream: Stream) -> None:
        self.stream = index
        self.kind = self.machine.core(stream.core)
        self.counter = {name: len(self.out.counters) + i for i, (name, _) in enumerate(stream.counters)}
        names = [name for name, _ in stream.counters] + [f.var for f in _loops(stream.body)]
        self.register = {name: i + 1 for i, name in enumerate(names)}
        self.out.register_of.append(self.register)
        self.axes = tuple(axis for axis, _ in stream.grid)
        self.grid = frozenset(self.axes)
        self.out.registers = max(self.out.registers, len(names) + 1)
        self.out.counters += [(self.register[name], depth) for name, depth in stream.counters]
        self.out.axes += [(index, axis, extent) for axis, extent in stream.grid]

    def body(self, items: tuple[Item, ...], outer: tuple[str, ...]) -> None:
        for item in items:
            if isinstance(item, For):
                self.loop(item, outer)
            else:
                self.put(self.one(item), item, outer)

    def put(self, code: tuple[int, int, int, int], item: Item | None, outer: tuple[str, ...]) -> None:
        self.code.append(code)
        self.out.places.append(Place(self.stream, item, outer))

    def loop(self, item: For, outer: tuple[str, ...]) -> None:
        trips = self.size(item.trips)
        self.check_size(trips, f"the trip count of loop {item.var}")
        number = len(self.out.loops)
        idle = not variables(trips) and not any(isinstance(i, Instr) for i in _items(item.body))
        self.out.loops.append(Loop(self.stream, item.var, trips, outer, idle))
        start = len(self.code)
        self.put((kernel.LOOP, number, 0, self.register[item.var]), item, outer)
        before, self.around = self.meets, (*outer, item.var)
        self.meets = len(self.around) if any(isinstance(i, CrossWait) for i in item.body) else before
        self.body(item.body, self.around)
        self.around, self.meets = outer, before
        self.code[start] = (kernel.LOOP, number, len(self.code), self.register[item.var])
        self.put((kernel.END, number, start, self.register[item.var]), item, outer)

    def one(self, item: Item) -> tuple[int, int, int, int]:
        """Return the code of anything but a loop."""
        if isinstance(item, Instr):
            pipe = INSTRUCTIONS[item.op].pipe
            return (kernel.INSTR, self.site(item), self.pipe(pipe), int(self.early(pipe)))
        if isinstance(item, SetFlag):
            op = kernel.EARLY_SET if self.early(item.source, item.target) else kernel.SET
            return (op, self.form(item.id), self.pair(item), self.pipe(item.source))
        if isinstance(item, WaitFlag):
            op = kernel.EARLY_WAIT if self.early(item.target) else kernel.WAIT
            return (op, self.form(item.id), self.pair(item), self.pipe(item.target))
        if isinstance(item, CrossSet):
            return (kernel.CROSS_SET, self.form(item.id), self.other(item.to), self.pipe(item.pipe))
        if isinstance(item, CrossWait):
            return (kernel.CROSS_WAIT, self.form(item.id), self.other(item.source), self.pipe(item.pipe))
        assert isinstance(item, Advance)
        return (kernel.ADVANCE, self.counter[item.counter], 0, 0)

    def early(self, *pipes: str) -> bool:
        """Return whether pipes pass L0C on in granules, in this program."""
        return self.granular and all(p in HANDED for p in pipes)

    def pipe(self, name: str) -> int:
        if name not in self.kind.pipes:
            raise CheckError(f"stream {self.program.streams[self.stream].name}: pipe {name} is not on a core of kind {self.kind.name} "
                             f"of {self.machine.name}, which has {', '.join(self.kind.pipes)}")
        return PIPE[name]

    def other(self, name: str) -> int:
        if name not in self.streams or self.streams[name] == self.stream:
            raise CheckError(f"stream {self.program.streams[self.stream].name}: a cross flag names {name}, which is no other stream")
        return self.streams[name]

    def pair(self, item: SetFlag | WaitFlag) -> int:
        self.pipe(item.source), self.pipe(item.target)
        return self.pairs.setdefault((item.source, item.target), len(self.pairs)) * self.machine.flag_ids

    def form(self, e: Expr) -> int:
        """Return the index of a flag id as a linear form over counters and loop variables."""
        key = (self.stream, e)
        if key not in self.form_index:
            self.form_index[key] = len(self.out.forms)
            self.out.forms.append(self.linear(e))
        return self.form_index[key]

    def linear(self, e: Expr) -> tuple[Expr, list[tuple[int, Expr]]]:
        where = f"stream {self.program.streams[self.stream].name}: a flag id"
        if variables(e) & self.grid:
            raise CheckError(f"{where} depends on the grid axis {min(variables(e) & self.grid)}; "
                             "flags are each core's own, so leave it out")
        parts = affine(e, frozenset(self.register))
        if parts is None or variables(parts[1]) or any(variables(c) for c in parts[0].values()):
            raise UnsupportedError(f"{where} is not a sum of counters and loop variables; rotate it with a counter and advance")
        return parts[1], [(self.register[v], c) for v, c in sorted(parts[0].items())]

    def size(self, e: Expr) -> Expr:
        """Return a size as it is timed. Where blocks are walked so that a remainder says which core has the short ones, these count as
        whole."""
        return without_walks(e) if self.walked else e

    def check_size(self, e: Expr, what: str) -> None:
        """Refuse a size that a remainder of a loop variable makes irregular: classes could not tell its iterations apart."""
        if varying := remainder_of(e):
            raise UnsupportedError(f"stream {self.program.streams[self.stream].name}: {what} varies with {varying} by a "
                                   "remainder; sizes may differ only in the first and last iteration of a loop")

    def site(self, item: Instr) -> int:
        site = self.describe(item)
        if site not in self.known:
            for name, e in site.fields:
                self.check_size(e, f"{name} of {item.op}")
            self.known[site] = len(self.out.sites)
            self.out.sites.append(site)
        return self.known[site]

    def describe(self, item: Instr) -> Site:
        instruction, timing = INSTRUCTIONS[item.op], self.machine.cost(item.op)
        refs = [(o, item[o.name]) for o in instruction.operands]
        gm = [(ref, o.writes) for o, ref in refs if isinstance(ref, Ref) and "GM" in o.scopes and ref.buffer in self.tensors]
        wanted = variables(timing.busy) | variables(timing.latency) | variables(timing.granule) | variables(timing.memory)
        wanted |= variables(instruction.gm_bytes) if gm else frozenset()
        wanted |= {name for name, needed in (("unit", self.early(instruction.pipe)), ("atomic", bool(gm))) if needed}
        used = tuple((n.name, self.size(item[n.name])) for n in instruction.numbers if n.name in wanted)  # type: ignore[arg-type]
        used += tuple(placement(item, self.spaces, wanted).items())
        sizes = [DTYPES[self.dtypes[ref.buffer]] for _, ref in refs if isinstance(ref, Ref)]
        source = [ref.buffer for o, ref in refs if isinstance(ref, Ref) and not o.writes] or [refs[0][1].buffer]  # type: ignore[union-attr]
        dtype = self.dtypes[source[0]]
        past_l2 = int(bool(gm) and self.tensors[gm[0][0].buffer].uncached)
        numbers = {"size": DTYPES[dtype], "dst_size": sizes[0], "past_l2": past_l2} | self.tables(item.op, dtype, wanted)
        scopes = ["/".join(o.scopes) for o, _ in refs]
        access = self.access(gm[0][0], gm[0][1], isinstance(dict(item.fields).get("index"), Ref)) if gm else None
        return Site(self.stream, item.op, PIPE[instruction.pipe], timing, used, dtype, tuple(sorted(numbers.items())),  # type: ignore[arg-type]
                    DTYPES[self.dtypes[gm[0][0].buffer]] if gm else 0, access, beginning(access) if access else Int(0),
                    f"{scopes[1]}->{scopes[0]}" if gm else "")

    def access(self, ref: Ref, writes: bool, scattered: bool) -> Access:
        return Access(self.stream, ref.buffer, writes, ref.offset, self.axes, self.around, self.meets, scattered)

    def tables(self, op: str, dtype: str, wanted: frozenset[str]) -> dict[str, float]:
        """Return the named numbers of the machine that a formula reads, dtype tables looked up."""
        found = {n: self.machine.constants[n] for n in wanted if n in self.machine.constants}
        for n in wanted & self.machine.tables.keys():
            if dtype not in self.machine.tables[n]:
                raise UnsupportedError(f"{self.machine.name} has no timing of {op} for {dtype}: its table {n} holds "
                                       f"{', '.join(sorted(self.machine.tables[n]))}")
            found[n] = self.machine.tables[n][dtype]
        return found


def _loops(items: tuple[Item, ...]) -> Iterator[For]:
    for item in items:
        if isinstance(item, For):
            yield item
            yield from _loops(item.body)


def _items(items: tuple[Item, ...]) -> Iterator[Item]:
    for item in items:
        yield item
        if isinstance(item, For):
            yield from _items(item.body)


@lru_cache(maxsize=1 << 14)
def remainder_of(e: Expr) -> str:
    """Return a variable by whose remainder `e` varies; none where it does not."""
    return next((min(variables(n)) for n in walk(e) if isinstance(n, Binary) and n.op == "%" and variables(n)), "")


@lru_cache(maxsize=1 << 14)
def without_walks(e: Expr) -> Expr:
    """Return `e` without those arguments of a minimum in which a variable stands in a quotient or remainder, if there are others: a bound
    from above."""
    e = rebuild(e, without_walks)
    if not (isinstance(e, Call) and e.fn == "min"):
        return e
    kept = [a for a in e.args if not any(isinstance(n, Binary) and n.op in ("//", "%") and variables(n) for n in walk(a))]
    return minimum(*kept) if kept else e


def beginning(access: Access) -> Expr:
    """Return the offset of an access before any loop around it has gone on."""
    return substitute(access.offset, {v: Int(0) for v in access.loops})


def preset_pairs(encoded: Encoded, flag_ids: int) -> int:
    """Return the pairs of pipes, as bits, between which flags are set in loops without instructions: a slot's first use waits for none
    before."""
    found, idle = 0, [False]
    for op, a, b, _ in encoded.code.tolist():
        if op == kernel.LOOP:
            idle.append(encoded.loops[a].idle)
        elif op == kernel.END:
            idle.pop()
        elif idle[-1] and op in (kernel.SET, kernel.EARLY_SET):
            found |= 1 << b // flag_ids
    return found


def granular_pairs(encoded: Encoded, flag_ids: int) -> int:
    """Return the pairs of pipes, as bits, with flags by which L0C is handed over in granules."""
    return reduce(or_, (1 << b // flag_ids for op, _, b, _ in encoded.code.tolist() if op == kernel.EARLY_SET), 0)


def work_holes(encoded: Encoded) -> frozenset[str]:
    """Return the holes on which it depends what instructions cost and how often they run."""
    found = [e for site in encoded.sites for _, e in site.fields] + [site.access.offset for site in encoded.sites if site.access]
    found += [loop.trips for loop in encoded.loops if not loop.idle] + [extent for _, _, extent in encoded.axes]
    found += [e for t in encoded.program.tensors for e in t.shape]
    return frozenset().union(*map(hole_names, found))


def program_holes(program: Program) -> tuple[str, ...]:
    """Return the names of the holes that the timing of a program depends on or its constraints name, sorted."""
    tensors = {t.name for t in program.tensors}
    found = [e for t in program.tensors for e in t.shape] + [c.condition for c in program.constraints]
    for stream in program.streams:
        found += [e for _, e in (*stream.grid, *stream.counters)]
        found += _expressions(stream.body, tensors)
    return tuple(sorted(frozenset().union(*map(hole_names, found))))


def _expressions(items: tuple[Item, ...], tensors: Collection[str]) -> Iterator[Expr]:
    """Yield what times may depend on: trips, sizes, flag ids, and where in GM a transfer lies."""
    for item in items:
        if isinstance(item, For):
            yield item.trips
            yield from _expressions(item.body, tensors)
        elif isinstance(item, Instr):
            yield from [v.offset if isinstance(v, Ref) else v for _, v in item.fields if not isinstance(v, Ref) or v.buffer in tensors]
        elif isinstance(item, (SetFlag, WaitFlag, CrossSet, CrossWait)):
            yield item.id
