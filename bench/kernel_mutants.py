"""Small faults in programs of kernels, and who notices each: the checker of programs, or the stand-in that runs their kernels.

A fault is one change of a program: a missing flag or copy, an address that is 32 bytes off, a tile that is too large, or two swapped flags.
The checker (target/legality) sees the program. The stand-in sees the kernel that is written from it, and runs it. It notices a fault where
it ends the launch with a sentence, or where the values differ.
"""
from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from aoec.ascendc.kernel import write_kernel
from aoec.base.errors import AoecError
from aoec.ir.index import DTYPES, Expr, Int, normalise
from aoec.ir.program import CrossSet, CrossWait, For, Instr, Item, Program, Ref, SetFlag, WaitFlag
from aoec.ir.text.show import show
from aoec.ir.text.simplify import simplify
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.tuning import problem, start
from aoec.simulate.values.values import execute
from aoec.standin.launch import Kernel
from aoec.standin.programs import draw, launch
from aoec.target.isa.instructions import added_to
from aoec.target.legality.check import check
from aoec.target.machine import load

# a kernel of the cube alone, of the vector unit alone, and of both, each with loops, slots and tails
KERNELS = {
    "cube": "matmul(m=150, k=1500, n=90, bias, relu, fp16)", "image": "conv2d(n=1, c=20, h=7, w=9, co=24, kh=3, kw=3, pad=1, bias, relu)",
    "vector": "softmax(m=210, n=90, fp16)", "mixed": "attention(b=2, m=33, n=40, d=32)"}
FLAG, ADDRESS, TILE, SWAP, COPY = "flag missing", "address 32 bytes off", "tile too large", "flags swapped", "copy missing"
KINDS = (FLAG, ADDRESS, TILE, SWAP, COPY)
OFF_BYTES = 32

GROWS = ("bursts", "length", "rows", "cols", "repeat", "m", "n", "k", "k_size", "m_size")  # fields that say how large a tile is
COPIES = ("copy_", "load", "fixpipe_")
DRAWS = 3  # of inputs, each in another order of the pipes
CHECKER, STANDIN, BOTH, NEITHER = "checker alone", "stand-in alone", "both", "neither"
FLAGS = (SetFlag, WaitFlag, CrossSet, CrossWait)
Path = tuple[int, ...]  # the stream, then the place in each body


@dataclass(frozen=True)
class Mutant:
    """A changed program. `what` says how, in one line."""

    kind: str
    what: str
    program: Program


@dataclass(frozen=True)
class Verdict:
    """What was said of a mutant; "" where nothing was. `same`: whether it has the original's values on the model machine too, where neither
    said anything."""

    mutant: Mutant
    checker: str
    standin: str
    same: bool = True

    @property
    def by(self) -> str:
        """Return who noticed it."""
        return BOTH if self.checker and self.standin else CHECKER if self.checker else STANDIN if self.standin else NEITHER


def original(name: str) -> Program:
    """Return the program of a kernel that is changed: of its default schedule, as it is shown."""
    p = problem(lower_operator(KERNELS[name]), load())
    return simplify(p.program(start(p).best))


# ---------------------------------------------------------------- changes

def mutants(program: Program) -> Iterator[Mutant]:
    """Yield every mutant of a program, in a fixed order."""
    places = [(path, item) for at, s in enumerate(program.streams) for path, item in _places(s.body, (at,))]
    yield from _without_flags(program, places)
    yield from _moved(program, places)
    for path, item in places:
        for field in GROWS:
            if isinstance(item, Instr) and isinstance(now := dict(item.fields).get(field), Expr):
                more = normalise(now + 1)
                yield Mutant(TILE, f"{field} = {show(more)} in {item.op}", _put(program, path, _with(item, field, more)))
        if isinstance(item, For) and item.trips != Int(0):
            yield Mutant(TILE, f"{item.var} runs once more", _put(program, path, replace(item, trips=normalise(item.trips + 1))))
    flags = [(path, item) for path, item in places if isinstance(item, FLAGS)]
    for (a, first), (b, second) in pairwise(flags):
        if a[:-1] == b[:-1] and first != second:
            yield Mutant(SWAP, f"{show_item(first)} and {show_item(second)}", _put(_put(program, a, second), b, first))
    for path, item in places:
        if isinstance(item, Instr) and item.op.startswith(COPIES):
            yield Mutant(COPY, show_item(item), _put(program, path))


def _without_flags(program: Program, places: Sequence[tuple[Path, Item]]) -> Iterator[Mutant]:
    """Yield mutants without one end of a flag, and without both ends: all that name one id between two pipes, or between cores."""
    for path, item in places:
        if isinstance(item, FLAGS):
            yield Mutant(FLAG, f"no {show_item(item)}", _put(program, path))
    found: dict[tuple[object, ...], list[Path]] = {}
    for path, item in places:
        if isinstance(item, (SetFlag, WaitFlag)):
            found.setdefault((path[0], item.source, item.target, item.id), []).append(path)
        elif isinstance(item, (CrossSet, CrossWait)):
            found.setdefault(("cores", item.id), []).append(path)
    for key, paths in found.items():
        changed = program
        for path in reversed(paths):
            changed = _put(changed, path)
        if len(paths) > 1:
            yield Mutant(FLAG, f"neither end of flag {' '.join(show(k) if isinstance(k, Expr) else str(k) for k in key[1:])}", changed)


def _moved(program: Program, places: Sequence[tuple[Path, Item]]) -> Iterator[Mutant]:
    """Yield mutants with a buffer 32 bytes on or back, and with an operand 32 bytes on."""
    for at, s in enumerate(program.spaces):
        for by in (OFF_BYTES, -OFF_BYTES):
            address = normalise(s.address + by)
            if isinstance(address, Int) and address.value >= 0:
                spaces = (*program.spaces[:at], replace(s, address=address), *program.spaces[at + 1:])
                yield Mutant(ADDRESS, f"{s.name} at {address.value}", replace(program, spaces=spaces))
    dtypes = {b.name: b.dtype for b in (*program.tensors, *program.spaces)}
    for path, item in places:
        if isinstance(item, Instr):
            for name, ref in item.fields:
                if isinstance(ref, Ref):
                    on = replace(ref, offset=normalise(ref.offset + OFF_BYTES // DTYPES[dtypes[ref.buffer]]))
                    said = f"{name} of {item.op} at {ref.buffer}[{show(on.offset)}]"
                    yield Mutant(ADDRESS, said, _put(program, path, _with(item, name, on)))


def _with(item: Instr, field: str, value: Ref | Expr) -> Instr:
    return Instr(item.op, tuple((k, value if k == field else v) for k, v in item.fields))


def _places(body: Iterable[Item], path: Path) -> Iterator[tuple[Path, Item]]:
    """Yield items of a body with their places. Leave out those of loops that never run."""
    for i, item in enumerate(body):
        yield (*path, i), item
        if isinstance(item, For) and item.trips != Int(0):
            yield from _places(item.body, (*path, i))


def _put(program: Program, path: Path, *items: Item) -> Program:
    """Return the program with these items in the place of one."""
    at, *rest = path
    stream = program.streams[at]
    return replace(program, streams=(*program.streams[:at], replace(stream, body=_put_in(stream.body, rest, items)),
                                     *program.streams[at + 1:]))


def _put_in(body: tuple[Item, ...], path: Sequence[int], items: tuple[Item, ...]) -> tuple[Item, ...]:
    at, *rest = path
    inner = body[at]
    if rest:
        assert isinstance(inner, For)
        items = (replace(inner, body=_put_in(inner.body, rest, items)),)
    return (*body[:at], *items, *body[at + 1:])


def show_item(item: Item) -> str:
    """Return an instruction or flag in short."""
    if isinstance(item, Instr):
        refs = [r.buffer for _, r in item.fields if isinstance(r, Ref)]
        return f"{item.op} of {', '.join(refs)}"
    if isinstance(item, (SetFlag, WaitFlag)):
        return f"{'set' if isinstance(item, SetFlag) else 'wait'} {item.source} to {item.target} {show(item.id)}"
    return f"{type(item).__name__} {show(item.id)}" if isinstance(item, (CrossSet, CrossWait)) else type(item).__name__


# ---------------------------------------------------------------- verdicts

class Judge:
    """Gives verdicts on mutants of one program, whose values are found once."""

    def __init__(self, program: Program) -> None:
        self.program, self.machine = program, load()
        self.given = [draw(program, seed, real=not added_to(program)) for seed in range(DRAWS)]
        self.wanted = self.values(program)

    def values(self, program: Program) -> list[bytes]:
        """Return results on the model machine, for each of the inputs."""
        names = [t.name for t in program.tensors if t.role == "output"]
        with np.errstate(all="ignore"):
            return [found[n].tobytes() for given in self.given for found in (execute(program, given),) for n in names]

    def __call__(self, mutant: Mutant) -> Verdict:
        checker = _said(lambda: check(mutant.program, self.machine))
        standin = _said(lambda: self.run(mutant.program))
        if checker or standin:
            return Verdict(mutant, checker, standin)
        return Verdict(mutant, "", "", not _said(lambda: self.execute(mutant.program)))

    def execute(self, program: Program) -> None:
        """Raise AoecError where the model machine does not run the program, or results are others."""
        if self.values(program) != self.wanted:
            raise AoecError("values differ on the model machine")

    def run(self, program: Program) -> None:
        """Raise AoecError where the kernel is not written, its launch ends, or results are others."""
        kernel = write_kernel(program, self.machine, "9.1")
        compiled = Kernel.compile(kernel.source, kernel.name, int(kernel.product), 91)
        runs = [launch(compiled, program, given, kernel.blocks, kernel.reads_on, seed) for seed, given in enumerate(self.given)]
        if [x.tobytes() for got in runs for x in got.values()] != self.wanted:
            raise AoecError("values differ")


def some(name: str, program: Program, most: int) -> list[Mutant]:
    """Return at most `most` mutants of each kind, the same ones every time. 0 means all."""
    found = [[m for m in mutants(program) if m.kind == kind] for kind in KINDS]
    return [m for kind, of in zip(KINDS, found) for m in (random.Random(kind + name).sample(of, most) if 0 < most < len(of) else of)]


def verdicts(name: str, most: int = 0, first: int = 0, step: int = 1) -> list[Verdict]:
    """Return verdicts on mutants of a kernel (`some`) from the first on, each so many further."""
    program = original(name)
    judge = Judge(program)
    return [judge(m) for m in some(name, program, most)[first::step]]


def _said(work: Callable[[], None]) -> str:
    try:
        work()
    except AoecError as e:
        return str(e)
    return ""


def table(judged: Mapping[str, Sequence[Verdict]]) -> Iterator[str]:
    """Yield lines of a table: a row for each kernel and kind of fault, with how many were noticed by whom."""
    yield "| kernel | fault | mutants | " + " | ".join((BOTH, CHECKER, STANDIN, NEITHER)) + " |"
    yield "|---|---|---:|---:|---:|---:|---:|"
    for kernel, found in judged.items():
        for kind in KINDS:
            by = Counter(v.by for v in found if v.mutant.kind == kind)
            yield f"| {kernel} | {kind} | {by.total()} | " + " | ".join(str(by[b]) for b in (BOTH, CHECKER, STANDIN, NEITHER)) + " |"
    left = [v for found in judged.values() for v in found if v.by == NEITHER]
    flags = sum(v.mutant.kind == FLAG for v in left)
    yield (f"{len(left)} are noticed by neither: the checker proves their order, and the stand-in has the same values for {DRAWS} inputs. "
           f"{flags} of them lack flags, which were redundant; {sum(not v.same for v in left)} have other values on the model machine.")
