"""What share of each GM transfer reaches HBM and what hits L2, from the program's own loops, for all rows at once.

Within one iteration of a loop around it, a transfer site touches the bytes of one transfer times a number of addresses. This is the number
of different addresses that its offset takes over the loops inside and over the grid. Cores that share an address read it at one time, which
costs HBM once. The loops of the site are walked from the innermost out. At each loop, HBM sends what is new. It also sends again what the
loop comes back to, as far as that has been evicted since. Between two uses of a byte lies all that the tensors of the program touch within
one iteration of that loop, over all cores. The byte stays while this is within usable L2, and is gone at the size of L2. Between the two
its share is linear (`Machine.l2_keeps`).
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import prod
from typing import Any

import numpy as np

from aoec.ir.index import Binary, Expr, Int, Var, affine, evaluate, hole_names, normalise, substitute, variables
from aoec.ir.program import Program, Tensor
from aoec.simulate.timing.state import CLEARED, PREVIOUS_LAUNCH, State, footprint_bytes, resident_bytes
from aoec.target.machine import Machine

Rows = Any  # a number, or a column of them


@dataclass(frozen=True)
class Access:
    """A GM operand in its loops. `loops` are the loops around it, outermost first. `meets` says how many of them lie around a wait for
    another stream. `scattered` says that indices decide where it lies. Each index is taken to name a place of its own."""

    stream: int
    tensor: str
    writes: bool
    offset: Expr
    grid: tuple[str, ...]
    loops: tuple[str, ...]
    meets: int = 0
    scattered: bool = False


@dataclass(frozen=True)
class Flow:
    """What an access moves: the bytes of its largest transfer, and of all its transfers on all cores."""

    access: Access
    largest: Rows
    total: Rows


@dataclass(frozen=True)
class Traffic:
    """HBM share of each access, how much longer (HBM, L2) take because cores crowd at few addresses, and how reads and writes stretch each
    other. `waits_for` gives the cores whose share of the memory each transfer waits for, even after they have ended."""

    shares: dict[Access, Rows]
    crowding: dict[Access, tuple[Rows, Rows]]
    waits_for: dict[Access, Rows]
    both_ways: Rows


def traffic(program: Program, machine: Machine, state: State, flows: Sequence[Flow], trips: Sequence[Mapping[str, Rows]],
            holes: Mapping[str, Rows]) -> Traffic:
    """Return the traffic of a program whose loops and grid axes have `trips` (by stream), for rows of hole values."""
    reuse = Reuse(program, machine, state, flows, trips, holes)
    shares = {f.access: reuse.share(f) for f in flows}
    crowding = {f.access: reuse.crowding(f.access) for f in flows}
    waits_for = {f.access: reuse.waits_for(f.access) for f in flows}
    return Traffic(shares, crowding, waits_for, both_ways(flows, shares, crowding, machine))


def least_traffic(program: Program, machine: Machine, state: State, flows: Sequence[Flow], trips: Sequence[Mapping[str, Rows]],
                  holes: Mapping[str, Rows], opened: Collection[str], settled: frozenset[Access]) -> Traffic:
    """Return a lower bound of the traffic of all rows with the same tiles that cut them finer, by other values of the holes `opened`. HBM
    sends what a launch touches once, and all else hits L2. Cores crowd as little as they can, or, where all bytes are `settled`, as they
    do."""
    reuse = Kept(program, machine, state, flows, trips, holes)
    crowding = {f.access: reuse.least_crowding(f.access, opened, settled) for f in flows}
    waits_for = {f.access: 0.0 if hangs_on(f.access, opened) else reuse.waits_for(f.access) for f in flows}
    return Traffic({f.access: reuse.share(f) for f in flows}, crowding, waits_for, 1.0)


def both_ways(flows: Sequence[Flow], shares: Mapping[Access, Rows], crowding: Mapping[Access, tuple[Rows, Rows]], machine: Machine) -> Rows:
    """Return how much longer a transfer holds the chip's memory because reads and writes share HBM: h / max(r, w), 1 at least.

    r and w are the times of all reads and of all writes of the program at the chip's full rates. h is the time of what both of them move
    through HBM, with the loss where it changes between them (`hbm_turnaround`). All of it is lost where as much is written as read, and
    nothing where all goes one way. Loads and stores run on different pipes, each at the rate that its core is given. Where they overlap and
    h is longer than either, HBM would have to move more than it can. What hits L2 leaves it time. Add of 8192^2 fp16 moves 268 MB in and
    134 MB out in 264 us (asc-devkit Add sample): its loads take half as long again as they would alone.
    """
    times: list[Rows] = [0.0, 0.0]
    held: list[Rows] = [0.0, 0.0]
    for f in flows:
        hbm, l2 = f.total * shares[f.access] / machine.hbm_bytes_per_cycle, f.total * (1.0 - shares[f.access]) / machine.l2_bytes_per_cycle
        longer = crowding[f.access]
        times[f.access.writes] = times[f.access.writes] + hbm * longer[0] + l2 * longer[1]
        held[f.access.writes] = held[f.access.writes] + hbm
    turning = 2.0 * (0.0 if machine.hbm_turnaround is None else machine.hbm_turnaround) * np.minimum(*held)
    return np.maximum((sum(held) + turning) / np.maximum(np.maximum(*times), 1e-9), 1.0)


class Reuse:
    """Footprints and windows of a program, each computed once for all rows."""

    def __init__(self, program: Program, machine: Machine, state: State, flows: Sequence[Flow], trips: Sequence[Mapping[str, Rows]],
                 holes: Mapping[str, Rows]) -> None:
        self.machine, self.state, self.flows, self.trips, self.holes = machine, state, flows, trips, holes
        self.tensors: dict[str, Tensor] = {t.name: t for t in program.tensors}
        self.sizes = {t.name: footprint_bytes(t, holes) * 1.0 for t in program.tensors}
        self.windows: dict[tuple[int, tuple[str, ...]], Rows] = {}
        self.counted: dict[tuple[Access, frozenset[str]], Rows] = {}

    @cached_property
    def all_footprints(self) -> dict[Access, list[Rows]]:
        """Return the footprints of all accesses."""
        return {f.access: self.footprints(f) for f in self.flows}

    def footprints(self, f: Flow) -> list[Rows]:
        """Return bytes touched over all cores within one iteration of the first i loops, for i = 0 (the launch) .. all (one transfer)."""
        a, inside = f.access, set(f.access.grid)
        f = replace(f, largest=np.where(f.total > 0, f.largest, 0))  # a loop around it may have no iterations
        out = [np.minimum(f.largest * self.addresses(a, inside), self.sizes[a.tensor])]
        moving = set(a.loops) if a.scattered else variables(a.offset)
        for loop in reversed(a.loops):
            inside.add(loop)
            out.append(np.minimum(f.largest * self.addresses(a, inside), self.sizes[a.tensor]) if loop in moving else out[-1])
        return out[::-1]

    def addresses(self, a: Access, inside: Collection[str]) -> Rows:
        """Return how many different values the offset takes while the variables inside run, at most."""
        key = a, frozenset(inside)
        if key not in self.counted:
            self.counted[key] = self.count(a, key[1])
        return self.counted[key]

    def count(self, a: Access, inside: frozenset[str]) -> Rows:
        """Return what `addresses` returns, computed anew."""
        if a.scattered:
            return product([self.trips[a.stream][v] for v in a.grid + a.loops if v in inside])
        count: Rows = 1.0
        for names, atoms in parts(a.offset, a.grid + a.loops):
            trips = {v: self.trips[a.stream][v] for v in names if v in inside}
            if trips:
                plain = frozenset().union(*[x.names for x in atoms if not x.op])  # each in any step of its own
                steps = product([trips[v] for v in trips if v in plain])
                steps = steps * product([self.values(x, trips) for x in atoms if x.op])
                count = count * np.minimum(product(list(trips.values())), steps)
        return count

    def values(self, atom: Atom, trips: Mapping[str, Rows]) -> Rows:
        """Return how many different values a quotient or remainder takes, at most, where it starts aligned and runs both ways from
        there."""
        steps = {v: c for v, c in atom.steps if v in trips}
        if not steps:
            return 1.0
        unit: Rows = np.int64(0)
        up: Rows = 0.0
        down: Rows = 0.0
        for v, coefficient in steps.items():
            c = evaluate(coefficient, self.holes)
            unit = np.gcd(unit, np.where(trips[v] > 1, abs(c), 0))
            up, down = up + np.maximum(c, 0) * (trips[v] - 1), down + np.maximum(-c, 0) * (trips[v] - 1)
        size = evaluate(atom.size, self.holes)
        if atom.op == "//":
            return up // size + (down + size - 1) // size + 1
        per = evaluate(atom.per, self.holes)
        return np.minimum((up + down) // np.maximum(unit, per) + 1, size // np.maximum(np.gcd(unit, size), per))

    def window(self, stream: int, loops: tuple[str, ...]) -> Rows:
        """Return the bytes that all tensors touch in L2 within one iteration of the innermost of `loops` of a stream. Without loops, return
        the bytes of the launch.

        Other streams run beside it. They take their part of the launch.
        """
        key = (stream, loops) if loops else (0, ())
        if key not in self.windows:
            by_tensor: dict[str, Rows] = {}
            for region, size in self.regions(stream, loops).items():
                by_tensor[region.tensor] = by_tensor.get(region.tensor, 0.0) + size
            self.windows[key] = sum((np.minimum(size, self.sizes[name]) for name, size in by_tensor.items()), np.float64(0))
        return self.windows[key]

    def regions(self, stream: int, loops: tuple[str, ...]) -> dict[Access, Rows]:
        """Return what a window touches, those accesses taken as one that touch the same bytes in it."""
        found: dict[Access, Rows] = {}
        for f in self.flows:
            if not self.tensors[f.access.tensor].uncached:
                same = ((b, same_region(b, f.access)) for b in found)
                first = next((b for b, common in same if common is not None and common >= len(loops)), f.access)
                found[first] = np.maximum(found.get(first, 0.0), self.part(f, stream, loops))
        return found

    def part(self, f: Flow, stream: int, loops: tuple[str, ...]) -> Rows:
        """Return bytes of one access within one iteration of the innermost of `loops` of a stream."""
        a = f.access
        if not loops or a.stream == stream:
            return self.all_footprints[a][len(loops)] if a.loops[:len(loops)] == loops else 0.0
        return np.minimum(self.all_footprints[a][0], f.total / np.maximum(product([self.trips[stream][v] for v in loops]), 1))

    def stays(self, stream: int, loops: tuple[str, ...]) -> Rows:
        return self.machine.l2_keeps(self.window(stream, loops))

    def share(self, f: Flow) -> Rows:
        """Return the share of an access's bytes that crosses HBM."""
        a, within = f.access, self.all_footprints[f.access]
        if self.tensors[a.tensor].uncached:
            return f.total * 0.0 + 1.0
        bytes_hbm, most = within[-1], within[-1] * 0 + f.largest * product([self.trips[a.stream][v] for v in a.grid + a.loops])
        for i in reversed(range(len(a.loops))):
            inner, outer = np.maximum(within[i + 1], 1.0), np.maximum(within[i], 1.0)
            comes_back = np.maximum(self.trips[a.stream][a.loops[i]] * inner / outer - 1.0, 0.0)
            bytes_hbm = bytes_hbm * (outer / inner) * (1.0 + comes_back * (1.0 - self.stays(a.stream, a.loops[:i + 1])))
        # first or last iterations may move less than the others: their part of the whole, but what is touched at all comes once
        first = np.minimum(within[0], f.total)
        bytes_hbm = np.clip(bytes_hbm * f.total / np.maximum(most, 1.0), first, f.total)
        bytes_hbm = self.after_siblings(a) * (bytes_hbm - first * self.l2_share(a))
        return np.clip(bytes_hbm / np.maximum(f.total, 1.0), 0.0, 1.0)

    def l2_share(self, a: Access) -> Rows:
        """Return the share of its first touch that an access finds in L2, or leaves there. What it leaves is written again by the next
        launch, or, where L2 was cleared, reaches HBM when the launch is over. A result that the state names is in L2 in part, and as many
        bytes pass meanwhile."""
        if a.writes:
            left = self.machine.l2_ends_with(self.window(a.stream, ())) if self.state == CLEARED else self.stays(a.stream, ())
            beside = resident_bytes(self.state, a.tensor)
            return np.minimum(left, self.machine.l2_keeps(beside)[()]) if beside else left
        if self.tensors[a.tensor].role == "input":
            if self.state == PREVIOUS_LAUNCH:
                return self.left_by_itself(a)
            return np.minimum(resident_bytes(self.state, a.tensor) / np.maximum(self.sizes[a.tensor], 1.0), 1.0)
        makers = [b for b in self.all_footprints if b.writes and b.tensor == a.tensor]
        if not makers:
            return 0.0
        ahead = max(a.meets if b.stream != a.stream else common_loops(a, b) for b in makers)
        return self.stays(a.stream, a.loops[:ahead])  # written an iteration of the loop ago in which the two meet

    def left_by_itself(self, a: Access) -> Rows:
        """Return the share of its first touch that an access finds in L2 after the same program: what has not been evicted since its last
        use.

        The whole launch lies between the two uses. But what every iteration of the outer loops touches whole was touched by the last
        iteration, and is touched by the first.
        """
        within, left, whole = self.all_footprints[a], self.stays(a.stream, ()), np.bool_(True)
        for i in range(1, len(a.loops) + 1):
            whole = whole & (within[i] >= within[0])
            left = np.where(whole, np.maximum(left, self.stays(a.stream, a.loops[:i])), left)
        return left

    def after_siblings(self, a: Access) -> Rows:
        """Return what is left of an access's HBM bytes where an earlier access has just touched the same bytes in the loops around both."""
        left: Rows = 1.0
        for b in self.all_footprints:
            if b == a:
                break
            common = None if a.writes and not b.writes else same_region(b, a)
            if common is not None:
                covered = np.minimum(self.all_footprints[b][common] / np.maximum(self.all_footprints[a][common], 1.0), 1.0)
                left = np.minimum(left, 1.0 - covered * self.stays(a.stream, a.loops[:common]))
        return left

    def crowding(self, a: Access) -> tuple[Rows, Rows]:
        """Return how much longer reads take of (HBM, L2) because cores read the same addresses at once, or because few streams leave parts
        idle.

        All cores that read one address are served by one part of the memory, at `same_address_bytes_per_cycle`. A memory of rate R has S =
        R / that parts. Streams of m different addresses fall on the parts at random, and keep S * (1 - (1 - 1/S)^m) of them at work. m
        counts what the reads of a loop nest have in flight. Each read counts as many addresses as it has, and no more than the cores that
        are at it, by its part of the bytes.

        One address for all is the published sample. A product on 4 x 6 cores reads 4 rows of A and 6 columns of B, 10 streams. It gets 3.8
        TB/s of L2 on 910B1, where asc-devkit 8192^3 and pto-isa 6144^3 get 3.75. On 4 x 5 cores it gets 3.5, where the Ascend C guide tells
        3.4. 24 cores that share nothing get 4.97, where the DataCopy sample tells 4.95. All cores may read one row of A and a column of B
        each. Then one part serves more than its share of the bytes, and holds those who read there that much longer.
        """
        rate = self.machine.same_address_bytes_per_cycle
        if rate is None or a.writes:
            return 1.0, 1.0
        beside = self.beside(a)
        cores = product([self.trips[a.stream][v] for v in a.grid])
        every = np.maximum(sum((f.total for f in beside), np.float64(0)), 1.0)
        streams = sum((np.minimum(self.addresses(f.access, set(a.grid)), cores * f.total / every) for f in beside), np.float64(0))
        streams = np.clip(streams, 1.0, cores)
        own = sum((f.total for f in beside if f.access == a), np.float64(0)) / every / np.clip(self.addresses(a, set(a.grid)), 1.0, cores)
        hbm, l2 = (np.maximum(1.0 / working(streams, whole / rate), own * whole / rate) for whole in (
            self.machine.hbm_bytes_per_cycle, self.machine.l2_bytes_per_cycle))
        return hbm, l2

    def beside(self, a: Access) -> list[Flow]:
        """Return the reads of the loop nest that an access stands in."""
        return [f for f in self.flows if not f.access.writes and (f.access.stream, f.access.loops[:1]) == (a.stream, a.loops[:1])]

    def least_crowding(self, a: Access, opened: Collection[str], settled: frozenset[Access]) -> tuple[Rows, Rows]:
        """Return the least by which reads take longer of (HBM, L2), however the open holes share out what is not settled. Streams are
        counted as addresses."""
        if a.writes or (rate := self.machine.same_address_bytes_per_cycle) is None:
            return 1.0, 1.0
        cores = product([self.trips[a.stream][v] for v in a.grid])
        if settled.issuperset(beside := [f.access for f in self.beside(a)]):
            return self.crowding(a)
        known = not any(hangs_on(b, opened) for b in beside)
        streams = np.clip(sum((self.addresses(b, set(a.grid)) for b in beside), np.float64(0)), 1.0, cores) if known else cores
        hbm, l2 = (1.0 / working(streams, whole / rate) for whole in (self.machine.hbm_bytes_per_cycle, self.machine.l2_bytes_per_cycle))
        return hbm, l2

    def waits_for(self, a: Access) -> Rows:
        """Return the cores whose shares of the memory a transfer waits for, even after they have ended: all cores where cores share
        addresses, else none.

        Reads of shared addresses are held up by the parts of the memory where those addresses lie. A core that has ended frees the parts
        that it read. These are no use to cores that read other addresses. (asc-devkit 8192^3 on 4 x 6 cores, of which four end after a
        third of the time: MTE2 stays as slow as it was; pto-isa's products, whose cores end together, show the same rate.)
        """
        if self.machine.same_address_bytes_per_cycle is None or a.writes:
            return 0.0
        cores = product([self.trips[a.stream][v] for v in a.grid])
        return np.where(self.addresses(a, set(a.grid)) < cores, cores, 0.0)


class Kept(Reuse):
    """Reuse in an L2 that loses nothing. Of each access only its first touches cross HBM, less what lay in L2 before or is left there."""

    def stays(self, stream: int, loops: tuple[str, ...]) -> Rows:
        return 1.0

    def l2_share(self, a: Access) -> Rows:
        return 1.0 if a.writes else super().l2_share(a)


def hangs_on(a: Access, opened: Collection[str]) -> bool:
    """Return whether the number of addresses at which cores meet depends on some of the holes. It does where a quotient or remainder joins
    a core to loops."""
    if a.scattered:
        return False
    atoms = [x for names, atoms in parts(a.offset, a.grid + a.loops) if not set(names).isdisjoint(a.grid) for x in atoms if x.op]
    return any(not hole_names(e).isdisjoint(opened) for x in atoms for e in (x.size, x.per, *[c for _, c in x.steps]))


def working(streams: Rows, parts: Rows) -> Rows:
    """Return the share of a memory's parts that so many streams of addresses keep at work, each of which may fall on any part."""
    return 1.0 - (1.0 - 1.0 / np.maximum(parts, 1.0)) ** streams


def product(factors: Sequence[Rows]) -> Rows:
    out: Rows = np.float64(1)
    for x in factors:
        out = out * x
    return out


# ---------------------------------------------------------------- offsets

@dataclass(frozen=True)
class Atom:
    """A quotient (`//`) or remainder (`%`) by `size` of a sum of steps, the remainder counted in units of `per`; or (op empty)
    something opaque in its variables."""

    op: str
    names: tuple[str, ...]
    steps: tuple[tuple[str, Expr], ...] = ()
    size: Expr = Int(1)
    per: Expr = Int(1)


Part = tuple[tuple[str, ...], "tuple[Atom, ...]"]


@lru_cache(maxsize=1 << 14)
def parts(offset: Expr, names: tuple[str, ...]) -> tuple[Part, ...]:
    """Return the independent parts of an offset: variables that occur together, with their quotients, remainders and plain steps."""
    groups: list[tuple[set[str], list[Atom]]] = []
    for term in dict.fromkeys(x for e in join_steps(terms(normalise(offset))) if (x := atom(e, frozenset(names))) is not None):
        joined = [g for g in groups if g[0] & set(term.names)]
        groups = [g for g in groups if g not in joined]
        groups.append((set(term.names).union(*[g[0] for g in joined]), [x for g in joined for x in g[1]] + [term]))
    return tuple((tuple(sorted(seen)), tuple(atoms)) for seen, atoms in groups)


def terms(e: Expr) -> list[Expr]:
    """Return the terms of a sum; those that are subtracted times -1."""
    if not (isinstance(e, Binary) and e.op in "+-"):
        return [e]
    return [*terms(e.left), *[x if e.op == "+" else Binary("*", x, Int(-1)) for x in terms(e.right)]]


def factors(e: Expr) -> list[Expr]:
    """Return the factors of a product."""
    return [*factors(e.left), *factors(e.right)] if isinstance(e, Binary) and e.op == "*" else [e]


def join_steps(found: Sequence[Expr]) -> list[Expr]:
    """Return the terms of a sum with whole steps brought back into a quotient: v*k*j + x//d*k is (x + v*j*d)//d*k. Normal form takes the
    steps out. Counted separately, steps and quotients would count as every pair of both."""
    out = list(found)
    for q in found:
        quotients = [f for f in factors(q) if isinstance(f, Binary) and f.op == "//" and not variables(f.right)]
        if len(quotients) != 1:
            continue
        (quotient,), inside = quotients, quotients[0].left
        unit = Counter(f for f in factors(q) if f is not quotient)
        for term in [t for t in out if t is not q]:
            steps = [f for f in factors(term) if isinstance(f, Var) and f.name in variables(quotient)]
            times = quotient_of(Counter(factors(term)) - Counter(steps), unit) if len(steps) == 1 else None
            if times is not None:
                out.remove(term)
                inside = inside + steps[0] * times * quotient.right
        if inside is not quotient.left:
            out[out.index(q)] = product_of([*unit.elements(), Binary("//", normalise(inside), quotient.right)])
    return out


def quotient_of(a: Counter[Expr], b: Counter[Expr]) -> Expr | None:
    """Return the product of the factors `a` by that of `b`; None where it is not known to be whole."""
    numbers = [prod(f.value for f in x.elements() if isinstance(f, Int)) for x in (a, b)]
    others = [Counter(f for f in x.elements() if not isinstance(f, Int)) for x in (a, b)]
    if others[1] - others[0] or not numbers[1] or numbers[0] % numbers[1]:
        return None
    return product_of([Int(numbers[0] // numbers[1]), *(others[0] - others[1]).elements()])


def product_of(found: Sequence[Expr]) -> Expr:
    """Return the product of some expressions."""
    out: Expr = Int(1)
    for e in found:
        out = out * e
    return out


def atom(term: Expr, names: frozenset[str]) -> Atom | None:
    """Return what varies in a term of an offset; None where nothing does."""
    varying = [f for f in factors(term) if variables(f) & names]
    if not varying:
        return None
    seen = tuple(sorted(variables(term) & names))
    e = varying[0]
    if len(varying) == 1 and isinstance(e, Binary) and e.op in ("//", "%") and not variables(e.right):
        inside, per = merge_quotients(e.left)
        linear = affine(inside, names)
        if linear is not None and not any(variables(c) for c in linear[0].values()):
            return Atom(e.op, seen, tuple(sorted(linear[0].items())), normalise(e.right * per), per if e.op == "%" else Int(1))
    return Atom("", seen)


def merge_quotients(e: Expr) -> tuple[Expr, Expr]:
    """Return (x, d) with e = x // d. No quotient is left in x where one is added to whole steps: a + b // d is (a*d + b) // d."""
    quotients = [x for x in terms(e) if isinstance(x, Binary) and x.op == "//" and not variables(x.right)]
    if len(quotients) != 1:
        return e, Int(1)
    (q,) = quotients
    assert isinstance(q, Binary)
    x, d = merge_quotients(normalise((e - q) * q.right + q.left))
    return x, normalise(q.right * d)


@lru_cache(maxsize=1 << 12)
def same_region(a: Access, b: Access) -> int | None:
    """Return how many loops lie around two accesses that touch the same bytes of a tensor within one iteration of these loops. Return None
    where they touch different bytes."""
    if (a.stream, a.tensor) != (b.stream, b.tensor) or a.scattered or b.scattered:
        return None
    common = common_loops(a, b)
    starts = [normalise(substitute(x.offset, {v: Int(0) for v in x.loops[common:]})) for x in (a, b)]
    return common if starts[0] == starts[1] else None


def common_loops(a: Access, b: Access) -> int:
    """Return how many loops of a stream lie around both accesses."""
    return next((i for i, (x, y) in enumerate(zip(a.loops, b.loops)) if x != y), min(len(a.loops), len(b.loops)))
