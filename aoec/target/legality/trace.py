"""The events of a core, as a list with all numbers in them. The order of accesses is proved on this list.

Loops are not run to the end. Of a loop of n trips the iterations 0 .. h-1 and n-1 are walked. Here h is the least number, at least 2
and the period D, with n - 1 - h a multiple of D. D is the least common multiple of two kinds of numbers. The first are the depths of
the counters that the loop advances. The second are the constants by which slots and flag ids take its variable modulo. A loop over flag
ids is run to its end. This is enough for three reasons:

- The walk leaves out a multiple of D iterations, so every counter has its real value in the last iteration.
- Sizes and trip counts differ only in the first and last iteration of a loop (emission makes no others). So the iterations left out do
  what iteration h-1 does, shifted. Flags set and taken in them repeat those of the D iterations before.
- Two accesses to one slot are D iterations apart or fewer, or have such a pair between them on the same pipes. Iterations 0 .. D, and
  h-1 to n-1, show each pair of that distance, with the tails of inner loops in them.

One thing is not proved: that accesses to GM at distances over D iterations on different pipes do not overlap.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf, lcm, prod
from types import MappingProxyType
from typing import Any

import numpy as np

from aoec.base.errors import CheckError
from aoec.base.text import quote_line
from aoec.ir.index import DTYPES, INT_CALLS, INT_OPS, Binary, Call, Expr, Float, Int, Var, children, evaluate, variables
from aoec.ir.index import walk as parts
from aoec.ir.program import Advance, For, Instr, Item, Program, Ref, SetFlag, Stream, WaitFlag
from aoec.ir.text.show import show
from aoec.target.isa.instructions import INSTRUCTIONS, RELATIONS, operand_align
from aoec.target.legality.footprint import Box, footprints, relation

MAX_EVENTS = 200_000
MAX_ITERATIONS = 500_000  # of all loops
EXACT = 1 << 62  # what NumPy's numbers of 64 bits hold for certain
MOST_IDS = 64  # flags of a pipe pair; a loop whose variable is the id of a flag is walked to its end


@dataclass(slots=True)
class Access:
    """Bytes of one operand of one event: `area` is a scope or a tensor, boxes start at 0 of it."""

    area: str
    buffer: str
    writes: bool
    boxes: tuple[Box, ...]
    low: int
    high: int
    atomic: bool = False  # adds, in any order


@dataclass(slots=True)
class Event:
    """One instruction or flag, run once. `weight`: how many iterations it stands for. `flag`: id of a flag, -1 otherwise."""

    item: Item
    env: tuple[int, ...]
    names: tuple[str, ...]
    weight: int
    flag: int = -1
    accesses: tuple[Access, ...] = ()

    def place(self) -> str:
        """Return the values of loops, axes and counters, as text."""
        return ", ".join(f"{n}={v}" for n, v in zip(self.names, self.env) if v is not None)


@dataclass(slots=True)
class _Site:
    """An item with the events that it ran in."""

    item: Item
    events: list[Event] = field(default_factory=list)
    known: dict[str, np.ndarray] = field(default_factory=dict)

    def column(self, e: Expr) -> np.ndarray:
        """Return the values of an expression for all events, in one go. CheckError where it divides by zero, or a part of it leaves 64
        bits."""
        if isinstance(e, Float):
            return np.full(len(self.events), e.value)
        env = {name: self.values(name) for name in variables(e)}
        if largest(e, {name: int(np.abs(v).max(initial=0)) for name, v in env.items()}) < EXACT:
            return np.broadcast_to(np.asarray(evaluate(e, env)), (len(self.events),))
        return np.array([value_at(event, e) for event in self.events], np.int64)

    def values(self, name: str) -> np.ndarray:
        """Return int64[event]: the values of a loop, axis or counter."""
        if name not in self.known:
            i = self.events[0].names.index(name)
            self.known[name] = np.array([event.env[i] for event in self.events], np.int64)
        return self.known[name]


def largest(e: Expr, most: Mapping[str, int]) -> float:
    """Return a number that no part of an expression exceeds in size, its variables being `most` in size; infinite where a divisor may be
    zero."""
    if isinstance(e, Int):
        return abs(e.value)
    if isinstance(e, Var):
        return most[e.name]
    parts = [largest(c, most) for c in children(e)]
    op = e.op if isinstance(e, Binary) else e.fn if isinstance(e, Call) else ""
    if op in ("//", "%", "ceildiv"):
        divisor = children(e)[1]
        return max(parts) if isinstance(divisor, Int) and divisor.value != 0 else inf
    return max(*parts, parts[0] * parts[1]) if op == "*" else sum(parts)


def value_of(e: Expr, env: Mapping[str, Any]) -> Any:
    """Return the value of an expression, as `evaluate` gives it; CheckError where a part of it does not fit 64 bits, as in kernels."""
    values = [value_of(c, env) for c in children(e)]
    found = INT_OPS[e.op](*values) if isinstance(e, Binary) else INT_CALLS[e.fn](*values) if isinstance(e, Call) else evaluate(e, env)
    if isinstance(found, int) and not -2**63 <= found < 2**63:
        raise CheckError(f"{quote_line(show(e))} does not fit 64 bits")
    return found


def value_at(event: Event, e: Expr) -> Any:
    """Return the value of an expression in an event; CheckError with its place where there is none."""
    try:
        return value_of(e, dict(zip(event.names, event.env)))
    except CheckError as error:
        raise error_at(event, error.message) from None


def visits(trips: int, period: int) -> list[tuple[int, int]]:
    """Return (iteration, number of iterations that it represents) for the iterations of a loop that are walked."""
    head = max(2, period)
    if trips <= head + 1:
        return [(i, 1) for i in range(trips)]
    head += (trips - 1 - head) % period
    return [(i, 1) for i in range(head - 1)] + [(head - 1, trips - head), (trips - 1, 1)]


def period(loop: For, depths: Mapping[str, int]) -> int:
    """Return the number of iterations of a loop after which slots and flag ids repeat. `depths` are those of the stream's counters. A
    flag whose id is the loop's variable has another id in each iteration. Its period is MOST_IDS, since there are no more ids."""
    out = [depths[item.counter] for item in _items(loop.body) if isinstance(item, Advance)]
    for item in _items(loop.body):
        exprs = [v.slot for _, v in item.fields if isinstance(v, Ref)] if isinstance(item, Instr) else []
        exprs += [] if isinstance(item, (Instr, For, Advance)) else [item.id]
        out += [MOST_IDS] if isinstance(item, (SetFlag, WaitFlag)) and Var(loop.var) in _bare(item.id) else []
        out += [modulus for e in exprs for names, modulus in _remainders(e) if loop.var in names]
    return lcm(1, *out)


@lru_cache(maxsize=1 << 12)
def _remainders(e: Expr) -> tuple[tuple[frozenset[str], int], ...]:
    """Return (the variables of x, n) of every part x % n of an expression whose n is a number."""
    taken = [p for p in parts(e) if isinstance(p, Binary) and p.op == "%"]
    return tuple((variables(p.left), p.right.value) for p in taken if isinstance(p.right, Int) and p.right.value > 0)


def _bare(e: Expr) -> list[Expr]:
    """Return the parts of an expression that are under no remainder."""
    return [] if isinstance(e, Binary) and e.op == "%" else [e, *[p for c in children(e) for p in _bare(c)]]


def _items(body: tuple[Item, ...]) -> Iterator[Item]:
    for item in body:
        yield item
        if isinstance(item, For):
            yield from _items(item.body)


def trace(program: Program, stream: Stream, axes: Mapping[str, int]) -> list[Event]:
    """Return the events of the core at `axes`, in program order, with every access inside its slot or tensor. Raise CheckError for a
    field outside its limits, an access outside its slot, or one that is not aligned."""
    walker = _Walker(stream, axes)
    walker.run(stream.body, 1)
    places = _places(program)
    for site in walker.sites.values():
        if isinstance(site.item, Instr):
            _fill_instruction(site, site.item, places)
        else:
            for event, flag in zip(site.events, site.column(site.item.id).tolist()):  # type: ignore[union-attr]
                event.flag = flag
    return walker.events


class _Walker:
    """Runs through a stream's loops and writes down where it came by."""

    def __init__(self, stream: Stream, axes: Mapping[str, int]) -> None:
        self.stream, self.iterations = stream, 0
        self.depths = {c: int(evaluate(d, {})) for c, d in stream.counters}
        self.periods = {i.var: period(i, self.depths) for i in _items(stream.body) if isinstance(i, For)}
        self.env: dict[str, Any] = {**axes, **dict.fromkeys(self.depths, 0), **dict.fromkeys(self.periods)}
        self.names = tuple(self.env)
        self.events: list[Event] = []
        self.sites: dict[int, _Site] = {}

    def run(self, body: tuple[Item, ...], weight: int) -> None:
        for item in body:
            if isinstance(item, For):
                trips, again = self.trips(item), self.periods[item.var]
                self.iterations += min(trips, 2 * again + 2)
                if self.iterations > MAX_ITERATIONS:
                    raise self.too_large()
                for i, times in visits(trips, again):
                    self.env[item.var] = i
                    self.run(item.body, weight * times)
                self.env[item.var] = None
            elif isinstance(item, Advance):
                self.env[item.counter] = (self.env[item.counter] + 1) % self.depths[item.counter]
            else:
                self.note(item, weight)

    def note(self, item: Item, weight: int) -> None:
        event = Event(item, tuple(self.env.values()), self.names, weight)
        self.sites.setdefault(id(item), _Site(item)).events.append(event)
        self.events.append(event)
        if len(self.events) > MAX_EVENTS:
            raise self.too_large()

    def trips(self, loop: For) -> int:
        """Return how often a loop runs here."""
        try:
            return int(value_of(loop.trips, self.env))
        except CheckError as error:
            raise CheckError(f"{line(loop)} in stream {self.stream.name}: {error.message}") from None

    def too_large(self) -> CheckError:
        return CheckError(f"stream {self.stream.name} is too large to be proved: more than {MAX_EVENTS:,} instructions and flags, or "
                          f"{MAX_ITERATIONS:,} iterations, with its loops cut to what repeats; use counters of smaller or of equal depths")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a buffer lies in its area."""

    dtype: str
    scope: str
    area: str
    address: int
    slot_bytes: int
    depth: int


def _places(program: Program) -> Mapping[str, _Place]:
    out = {}
    for t in program.tensors:
        out[t.name] = _Place(t.dtype, "GM", t.name, 0, prod(int(evaluate(d, {})) for d in t.shape) * DTYPES[t.dtype], 1)
    for s in program.spaces:
        out[s.name] = _Place(s.dtype, s.scope, s.scope, *(int(evaluate(e, {})) for e in (s.address, s.size_bytes, s.depth)))
    return MappingProxyType(out)


def line(item: Item) -> str:
    """Return the first line of an item's text, as a sentence quotes it."""
    return quote_line(show(item).split("\n", 1)[0])


def error_at(event: Event, message: str) -> CheckError:
    """Return the error of an instruction: a message, and where its loops and its core are then."""
    return CheckError(f"{line(event.item)}: {message}" + (f" (at {event.place()})" if event.place() else ""))


def _fill_instruction(site: _Site, item: Instr, places: Mapping[str, _Place]) -> None:
    """Fills the accesses of every event of one instruction."""
    word, events = INSTRUCTIONS[item.op], site.events
    columns = {}
    for n in word.numbers:
        if n.real:
            continue
        columns[n.name] = column = site.column(item[n.name])  # type: ignore[arg-type]
        for i in np.flatnonzero((column < n.low) | (column > n.high))[:1]:
            raise error_at(events[i], f"{n.name} is {column[i]:,}, outside {n.low:,}..{n.high:,}")
    refs = [r for r in (item[o.name] for o in word.operands) if isinstance(r, Ref)]
    at = [places[r.buffer] for r in refs]
    dtypes = tuple(p.dtype for p in at)
    aligns = [operand_align(word, o, p.scope, p.dtype) for o, p in zip(word.operands, at)]
    starts = [(site.column(r.slot).tolist(), [x * DTYPES[p.dtype] for x in site.column(r.offset).tolist()]) for r, p in zip(refs, at)]
    rows = np.stack([np.asarray(c, np.int64) for c in columns.values()], 1).tolist()
    known: dict[tuple[int, ...], list[list[Box]]] = {}
    made: dict[tuple[int, ...], Access] = {}  # most events are at places where others were: by operand, slot, offset and fields
    atomic = item["atomic"] != Int(0)
    for i, event in enumerate(events):
        row = tuple(rows[i])
        if row not in known:
            fields = dict(zip(columns, row))
            broken = relation(item.op, fields, dtypes)
            if broken:
                raise error_at(event, RELATIONS[broken])
            known[row] = footprints(item.op, fields, dtypes)
        accesses = []
        for operand, (boxes, (slot, offset)) in enumerate(zip(known[row], starts)):
            place = (operand, slot[i], offset[i], *row)
            if boxes and place not in made:
                ref, writes = refs[operand], word.operands[operand].writes
                made[place] = _access(event, ref, at[operand], writes, boxes, slot[i], offset[i], aligns[operand], atomic and writes)
            accesses += [made[place]] if boxes else []
        event.accesses = tuple(accesses)


def _access(event: Event, ref: Ref, p: _Place, writes: bool, boxes: list[Box], slot: int, offset: int, align: int,
            atomic: bool) -> Access:
    """Return the access of one operand, inside its slot."""
    stop = max(b.stop for b in boxes)
    if not 0 <= slot < p.depth:
        raise error_at(event, f"slot {slot} of {ref.buffer} is outside 0..{p.depth - 1}")
    if offset < 0 or offset + stop > p.slot_bytes:
        raise error_at(event, f"touches bytes {offset:,} to {offset + stop:,} of {ref.buffer}, which has {p.slot_bytes:,}")
    start = p.address + slot * p.slot_bytes + offset
    if start % align:
        raise error_at(event, f"{ref.buffer} is touched from byte {start:,} of {p.area}, which is no multiple of {align}")
    moved = tuple(Box(b.start + start, b.length, b.stride, b.runs) for b in boxes)
    return Access(p.area, ref.buffer, writes, moved, min(b.start for b in moved), start + stop, atomic)
