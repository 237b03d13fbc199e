"""Plan of a sweep: a func whose sizes change, schedules whose holes change, machines. Its rows are counted before anything is timed."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod
from pathlib import Path

from aoec import primitives
from aoec.base.errors import CheckError, ScheduleError
from aoec.base.files.files import read_text
from aoec.base.ranges import Axis
from aoec.base.text import plural
from aoec.ir.func.resize import loops_of, resize, tied_loops
from aoec.ir.func.tir import Func, blocks
from aoec.ir.index import Int
from aoec.ir.rewrite import holes as holes_of
from aoec.ir.schedule import Trace
from aoec.ir.text.parse import parse_trace
from aoec.jobs.stages.nouns import need
from aoec.jobs.stages.operators import parse_call, sizes_of, with_sizes
from aoec.jobs.stages.places import step_places, with_place
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.verify.within import read_func
from aoec.ops.own import NO_DEFINITIONS, Definitions
from aoec.primitives.primitive import from_step
from aoec.report.sweep import COLUMNS
from aoec.search.space.grid import Grid
from aoec.target.machine import DEFAULT, Machine, load

MOST_ROWS = 1_000_000
SLAB = 1024  # rows laid out at a time
SEARCHED = ("default", "tuned")  # schedules that are named and not read
Sizes = Mapping[str, int]
Choices = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Subject:
    """What is scheduled: an operator by name and sizes (`operator`), one of the user's `own` perhaps, or a func that was read."""

    source: str
    operator: str = ""
    read: Func | None = None
    own: Definitions = field(default_factory=lambda: NO_DEFINITIONS, compare=False)

    @cached_property
    def sizes(self) -> tuple[str, ...]:
        """Return what of its shape can be swept: an operator's sizes, the loops of a func that is not scheduled."""
        if self.read is None:
            return sizes_of(self.operator, self.own)
        return () if self.has_instructions else tuple(v for v, loop in loops_of(self.read).items() if isinstance(loop.extent, Int))

    @cached_property
    def holes(self) -> dict[str, tuple[int, ...]]:
        """Return holes in a func's own text, such as in a shape."""
        return {} if self.read is None else holes_of(self.read)

    @property
    def has_instructions(self) -> bool:
        """Return whether the func has instructions already."""
        return self.read is not None and any(b.instr for b, _ in blocks(self.read.body))

    def check(self, shapes: Sequence[Axis]) -> None:
        """Raise an AoecError where no row of such axes could have a func: a size is missing, beyond its limits, or ambiguous."""
        if self.read is None:
            for pick in (min, max):
                parse_call(self.call({a.name: pick(a.values or ()) for a in shapes}), self.own)
            return
        for i, a in enumerate(shapes):
            resize(self.read, a.name, min(a.values or ()))
            if same := [b.name for b in shapes[:i] if b.name in tied_loops(self.read, a.name)]:
                raise CheckError(f"loops {same[0]} and {a.name} of {self.source} walk the same dimensions: sweep one of them")

    def call(self, sizes: Sizes) -> str:
        """Return the operator with these sizes."""
        return with_sizes(self.operator, sizes, own=self.own)

    def func(self, sizes: Sizes) -> Func:
        """Return the func at these sizes. Raise AoecError where it has none."""
        if self.read is None:
            return lower_operator(self.call(sizes), self.own)
        func = self.read
        for loop, extent in sizes.items():
            func = resize(func, loop, extent)
        return func


@dataclass(frozen=True)
class Contender:
    """A schedule: `trace` as read; None where it is found (default, tuned) or where the func is scheduled as it is read ("").

    `grid`: its holes that are swept, those of the func among them, with their values; `open`: the others.
    """

    name: str
    trace: Trace | None
    choices: Choices
    grid: Grid
    open: tuple[str, ...]

    @property
    def is_searched(self) -> bool:
        """Return whether a search has a say in each of its rows."""
        return bool(self.open) or self.name in SEARCHED and self.trace is None

    def settings(self) -> Iterator[dict[str, int]]:
        """Yield what of each row is swept: its holes, as ?name."""
        for start in range(0, self.grid.size, SLAB):
            columns = {f"?{name}": column.tolist() for name, column in self.grid.rows(start, start + SLAB).items()}
            yield from (dict(zip(columns, values)) for values in zip(*columns.values())) if columns else iter([{}])


@dataclass(frozen=True)
class Plan:
    """Every combination: sizes x schedules x machines x holes. `x`: the variable that a picture is drawn along, "" where none varies."""

    subject: Subject
    shapes: tuple[Axis, ...]
    contenders: tuple[Contender, ...]
    machines: tuple[Machine, ...]
    holes: tuple[str, ...]
    x: str

    @property
    def title(self) -> str:
        """Return what is swept, in words."""
        if self.subject.read is None:
            return with_sizes(self.subject.operator, {a.name: a.values[0] for a in self.shapes if a.values and len(a.values) == 1},
                              [a.name for a in self.shapes], self.subject.own)
        return f"func {self.subject.read.name} of {'standard input' if self.subject.source == '-' else self.subject.source}"

    @property
    def rows(self) -> int:
        """Return how many combinations there are."""
        return prod(len(a.values or ()) for a in self.shapes) * sum(c.grid.size for c in self.contenders) * len(self.machines)

    def sizes(self) -> Iterator[dict[str, int]]:
        """Yield the sizes, the last axis varying fastest."""
        for values in product(*[a.values or () for a in self.shapes]):
            yield dict(zip([a.name for a in self.shapes], values))


def plan(source: str, traces: Sequence[str], axes: Sequence[Axis], targets: Sequence[str], tune: bool,
         own: Definitions = NO_DEFINITIONS) -> Plan:
    """Return the plan of a sweep; an AoecError in a sentence where something is unknown, open or too much."""
    if source == "-" and "-" in traces:
        raise CheckError("the func and a schedule cannot both come from standard input")
    subject = read_subject(source, own)
    named = read_schedules(subject, traces, tune)
    known = {name for _, trace in named if trace for name in holes_of(trace)} | subject.holes.keys()
    check_axes(subject, axes, known)
    shapes = [a for a in axes if not a.hole and a.name in subject.sizes]
    holes = [a for a in axes if a not in shapes]
    contenders = tuple(contender(subject, name, trace, holes, tune) for name, trace in named)
    machines = tuple(load(t) for t in dict.fromkeys(targets or (DEFAULT,)))
    varied = [("?" if a in holes else "") + a.name for a in axes if a.values is None or len(a.values) > 1]
    subject.check(shapes)
    made = Plan(subject, tuple(shapes), contenders, machines, tuple(a.name for a in holes), varied[0] if varied else "")
    if made.rows > MOST_ROWS:
        raise CheckError(f"these are {made.rows:,} combinations, and at most {MOST_ROWS:,} are timed: {describe_count(made)}; "
                         f"sweep fewer values")
    return made


def read_subject(source: str, own: Definitions) -> Subject:
    """Return the operator that a text calls, or the func in a file (or, for -, on standard input)."""
    if "(" in source and not Path(source).exists():
        sizes_of(source, own)
        return Subject(source, source, own=own)
    return Subject(source, read=read_func(read_text(source), source))


def read_schedules(subject: Subject, paths: Sequence[str], tune: bool) -> list[tuple[str, Trace | None]]:
    """Return (name, trace) of each: a file's name without folder and suffix, where that tells them apart."""
    if not paths and subject.has_instructions:
        return [("as written", None)]
    if "tuned" in paths and not tune:
        raise CheckError("--with tuned is the best that a search finds; give --tune N, the trials of each search")
    paths = list(dict.fromkeys(paths or (SEARCHED if tune else SEARCHED[:1])))
    stems = [Path(p).stem for p in paths]
    apart = len(set(stems)) == len(stems) and not {s for s, p in zip(stems, paths) if s != p} & set(SEARCHED)
    return [(stem if apart else path, None if path in SEARCHED else read_trace(path)) for stem, path in zip(stems, paths)]


def read_trace(path: str) -> Trace:
    """Return the schedule in a file; a step that is no primitive is shown there."""
    text = read_text(path)
    need("sched", text, path)
    trace = parse_trace(text, path)
    for step, place in zip(trace.steps, step_places(text)):
        try:
            from_step(step)
        except ScheduleError as e:
            raise with_place(e, text, path, place) from e
    primitives.check(trace)
    return trace


def check_axes(subject: Subject, axes: Sequence[Axis], holes: set[str]) -> None:
    """Raise CheckError where an axis is swept twice, or is neither a size nor a hole. A size must also have values, and no name that a
    column of the rows has."""
    seen: set[tuple[str, bool]] = set()
    for a in axes:
        known = [*(() if a.hole else subject.sizes), *sorted(holes)]
        if a.name not in known:
            plain = f"{subject.source} has no size {a.name}, and no schedule such a hole"
            what = f"no schedule and no shape has a hole ?{a.name}" if a.hole else plain
            listed = ", ".join([*subject.sizes, *(f"?{h}" for h in sorted(holes))])
            raise CheckError(f"{what}; what can be swept is {listed or 'nothing'}")
        size = not a.hole and a.name in subject.sizes
        if (a.name, size) in seen:
            raise CheckError(f"{a.name} is swept twice; give all of its values at once, as in --set {a.name}=64,128..512*2")
        if size and a.values is None:
            raise CheckError(f"size {a.name} has no choices of its own that `all` could mean; give its values, as in --set {a.name}=64,128")
        if size and a.name in COLUMNS:
            raise CheckError(f"a loop named {a.name} cannot be swept, since the rows have a column of that name; name the loop otherwise")
        seen.add((a.name, size))


def contender(subject: Subject, name: str, trace: Trace | None, holes: Sequence[Axis], tune: bool) -> Contender:
    """Return a schedule with the values of its holes. Raise CheckError where one is open and nothing fills it."""
    choices = {**subject.holes, **(holes_of(trace) if trace else {})}
    mine = [h for h in holes if h.name in choices]
    for hole in mine:
        if hole.values is None and not choices[hole.name]:
            raise CheckError(f"hole ?{hole.name} of {name} states no choices for `all`; {give(hole.name)}")
    grid = Grid(tuple(h.name for h in mine), tuple(choices[h.name] if h.values is None else h.values for h in mine))
    left = tuple(h for h in choices if h not in grid.names)
    shape = [h for h in left if h in subject.holes]
    if shape or left and not tune:
        fill = " ".join(f'--set "?{h}={"all" if choices[h] else "64,128"}"' for h in (shape or left))
        search = "" if shape else ", or let a search of N trials fill them for each row: --tune N"
        raise CheckError(f"{subject.source if shape else f'schedule {name}'} has open holes {', '.join(f'?{h}' for h in shape or left)}: "
                         f"sweep them with {fill}{search}")
    if bare := [h for h in left if not choices[h]]:
        raise CheckError(f"hole ?{bare[0]} of {name} states no choices that a search could try; {give(bare[0])}")
    return Contender(name, trace, choices, grid, left)


def give(hole: str) -> str:
    """Return how to give a hole its values, in words."""
    return f'give its values, as in --set "?{hole}=64,128"'


def describe_count(p: Plan) -> str:
    """Return the factors of the number of combinations, in words."""
    parts = [f"{len(a.values or ()):,} of {a.name}" for a in p.shapes]
    parts += [f"{plural(sum(c.grid.size for c in p.contenders), 'schedule')} with holes' values", plural(len(p.machines), 'machine')]
    return " x ".join(parts)
