"""`aoec bank import-cann`: import run-time banks of CANN as schedules to begin searches with. They are the user's own banks and those of an
installed CANN.

Each record that the schedule language can express is laid on the func of its operator, emitted and timed once on the model. It is kept in
the bank in a place of its own (IMPORTED), beside the results of searches. So no compile takes it as an answer: a compile takes only
schedules that a search of aoec has found. Everything else in the files is counted by the reason for which it was left out.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from aoec.bank.bank import Bank, statuses
from aoec.bank.record import IMPORTED, Key, Record
from aoec.base.errors import AoecError, ScheduleError, UnsupportedError
from aoec.base.text import plural
from aoec.cann.runtime_bank import File, Line, files_in, firsts, read_file
from aoec.cann.runtime_bank_keys import Problem, Product, Window, problem_of
from aoec.cann.runtime_bank_tilings import tiling_of
from aoec.ir.func.tir import Func
from aoec.ir.index import Expr, Read, rebuild
from aoec.ir.rewrite import map_exprs
from aoec.ir.schedule import Trace
from aoec.ir.text.keys import key
from aoec.ir.text.show import show
from aoec.jobs import interrupt
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.made import emit_trace, measure_trace
from aoec.jobs.tune.solve import total_ticks
from aoec.jobs.tune.tuning import bound_in
from aoec.jobs.version import model_version
from aoec.search.sketches.plan import factors
from aoec.search.sketches.sketches_matmul import is_transposed
from aoec.search.vendor.vendor import MatmulTiling, product
from aoec.search.vendor.vendor_back import trace_of
from aoec.search.vendor.vendor_conv import ConvTiling
from aoec.search.vendor.vendor_conv_back import conv_trace_of
from aoec.simulate.timing.state import COLD
from aoec.target.machine import Machine, load, targets

TOGETHER = 64  # records that are put into the bank in one transaction


@dataclass(frozen=True, slots=True)
class Seed:
    """A record as schedules: of its operator's func, and of that with packed weights where the key does not tell them apart. `ticks`:
    modelled, launch included, from cold inputs."""

    problem: Problem
    soc: str
    machine: Machine
    schedules: tuple[tuple[Func, Trace, int], ...]


@dataclass
class Taken:
    """What became of all lines: files, records that were read, seeds, and how many others for which reason."""

    files: int = 0
    lines: int = 0
    seeds: list[Seed] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)
    kept: list[str] = field(default_factory=list)  # what the bank said of each: added, updated, kept
    stopped: bool = False


# ---------------------------------------------------------------- reading

def read(paths: Iterable[str], named: Machine | None) -> tuple[list[tuple[Line, str, Machine]], Taken]:
    """Return (the first line of each key and machine with its SoC, what is known so far). `named`: the machine that all are taken for; else
    each file's name says it."""
    taken, by = Taken(), dict[str, list[tuple[Line, str, Machine]]]()
    for path in dict.fromkeys(p.resolve() for given in paths for p in files_in(given)):
        found = read_file(path)
        taken.files += 1
        taken.lines += len(found.lines)
        taken.others.update(f"{u.op or 'no operator'}: {u.why}" for u in found.unread)
        machine = named or machine_of(found)
        if machine is None:
            taken.others.update({unknown(found): len(found.lines)} if found.lines else {})
        else:
            by.setdefault(machine.name, []).extend((line, found.soc, machine) for line in found.lines)
    return [one for lines in by.values() for one in unlike(lines, taken)], taken


def unlike(lines: Sequence[tuple[Line, str, Machine]], taken: Taken) -> list[tuple[Line, str, Machine]]:
    """Return the first of each key, as the loader keeps it; the others are counted."""
    first, others = firsts(line for line, _, _ in lines)
    taken.others.update({"a key that was there already: the first stays, as CANN has it": len(others)} if others else {})
    kept = set(map(id, first))
    return [one for one in lines if id(one[0]) in kept]


def machine_of(found: File) -> Machine | None:
    """Return the machine that a file's name says, by itself or by its series (Ascend950PR_957x). Return None where there is no such
    model."""
    return next((load(name) for name in (found.soc, f"{found.soc[:-1]}x") if name in targets()), None)


def unknown(found: File) -> str:
    """Return why a file's records are of no machine."""
    if not found.soc:
        return "in a file whose name says no SoC (<soc>_<cores>_AiCore_<op>_runtime_kb.json); --target names a machine"
    return f"no machine model of {found.soc}; --target takes its records for another machine"


# ---------------------------------------------------------------- one record

def seed_schedules(line: Line, soc: str, machine: Machine) -> Seed:
    """Return the schedules of a record. Raise AoecError with the reason where the schedule language cannot express it, or where it does not
    fit the machine."""
    problem = problem_of(line.op, line.key)
    tiling = tiling_of(problem, line.knowledge, machine.has("fixpipe_nd"))
    out = []
    for func in funcs(problem):
        trace = schedule_tiling(func, machine, problem, tiling)
        _, program = emit_trace(func, text := show(trace), machine)
        if program.constraints:
            raise ScheduleError(f"does not fit {machine.name}: {program.constraints[0].reason}")
        out.append((func, trace, total_ticks(measure_trace(func, text, machine, COLD), machine)))
    return Seed(problem, soc, machine, tuple(out))


def schedule_tiling(func: Func, machine: Machine, problem: Problem, tiling: dict[str, int]) -> Trace:
    """Return the schedule of a tiling's fields."""
    if isinstance(problem, Product):
        return trace_of(func, machine, MatmulTiling(**tiling))
    return conv_trace_of(func, machine, ConvTiling(**tiling))


def funcs(problem: Problem) -> list[Func]:
    """Return the funcs that a key may belong to: a product with its right operand in rows, and one with weights packed as a compile packs
    them."""
    if isinstance(problem, Window):
        return [lower_operator(conv_text(problem))]
    p = replace(problem, dtype="fp32", out="", trans_b=True) if problem.dtype == "int8" else problem
    rows = lower_operator(matmul_text(p))
    both = [*[rows] * (not p.nz_b), pack_right_operand(rows)]
    return [of_int8(f) for f in both] if problem.dtype == "int8" else both


def of_int8(func: Func) -> Func:
    """Return a product of fp32 as one of int8 with sums in int32. MTE1 does not transpose bytes, so the right operand is stored transposed
    where it is in rows."""
    inputs, outputs, sums = (tuple(replace(b, dtype=dtype) for b in buffers) for dtype, buffers in (
        ("int8", func.inputs), ("int32", func.outputs), ("int32", func.locals)))
    return replace(func, inputs=inputs, outputs=outputs, locals=sums)


def pack_right_operand(func: Func) -> Func:
    """Return the func of a product with its right operand as [k, n] in the fractals in which weights are packed."""
    b = factors(product(func))[1]
    turned_b = is_transposed(b, product(func).loops[-1].var)

    def transpose_reads(e: Expr) -> Expr:
        return Read(b.buffer, b.indices[::-1]) if e == b and turned_b else rebuild(e, transpose_reads)

    inputs = tuple(replace(x, layout="ZN", shape=x.shape[::-1] if turned_b else x.shape) if x.name == b.buffer else x for x in func.inputs)
    return map_exprs(replace(func, inputs=inputs), transpose_reads)  # type: ignore[return-value]


def matmul_text(p: Product) -> str:
    """Return a product as an operator of `aoec lower`, both operands in rows."""
    if p.result != p.dtype:
        raise UnsupportedError(f"MatMulV3: a product of {p.dtype} that gives {p.result}")
    flags = [n for n in ("trans_a", "trans_b", "bias") if getattr(p, n)]
    return f"matmul({', '.join([f'm={p.m}', f'k={p.k}', f'n={p.n}', p.dtype, *flags, 'nd'])})"


def conv_text(w: Window) -> str:
    """Return a convolution as an operator of `aoec lower`."""
    if w.groups > 1:
        raise UnsupportedError("Conv2DV2: a convolution in groups")
    if len({*w.pads}) > 1 or len({*w.stride}) > 1 or len({*w.dilation}) > 1:
        raise UnsupportedError("Conv2DV2: strides, pads or dilations that differ between axes")
    if w.dtype not in ("fp16", "fp32") or (w.out or w.dtype) != w.dtype:
        raise UnsupportedError(f"Conv2DV2: a convolution of {w.dtype} that gives {w.out or w.dtype}")
    sizes = {"n": w.n, "c": w.c, "h": w.h, "w": w.w, "co": w.co, "kh": w.kh, "kw": w.kw, "stride": w.stride[0], "pad": w.pads[0],
             "dilation": w.dilation[0]}
    return f"conv2d({', '.join([*(f'{n}={v}' for n, v in sizes.items()), w.dtype, *['bias'] * w.bias])})"


def short_name(problem: Problem) -> str:
    """Return an operator with its sizes, short."""
    if isinstance(problem, Product):
        p = problem
        flags = "".join([" A^T" * p.trans_a, " B^T" * p.trans_b, " NZ" * p.nz_b, " bias" * p.bias])
        return f"{'QuantBatchMatmulV3' if p.dtype == 'int8' else 'MatMulV3'} {p.m}x{p.k}x{p.n} {p.dtype}{flags}"
    w = problem
    return f"Conv2DV2 {w.n}x{w.c}x{w.h}x{w.w} {w.co}x{w.kh}x{w.kw} {w.dtype}" + f" stride {w.stride[0]}" * (w.stride[0] > 1)


# ---------------------------------------------------------------- all of them

def take(paths: Sequence[str], bank: Callable[[], Bank], named: Machine | None, hear: Callable[[int, int], None]) -> Taken:
    """Return what became of the banks' lines. Seeds are put into the bank as they come. `hear` is called with (done, of how many).

    Ctrl-C ends the import with what there is. Records in the bank stay there. A second run does the rest after it has timed them again.
    """
    lines, taken = read(paths, named)
    put = list[Record]()
    for at, (line, soc, machine) in enumerate(lines):
        if interrupt.is_asked():
            taken.stopped = True
            break
        hear(at, len(lines))
        try:
            found = seed_schedules(line, soc, machine)
        except AoecError as e:
            taken.others[reason(line, e)] += 1
            continue
        taken.seeds.append(found)
        put += records(found)
        if len(put) >= TOGETHER:
            taken.kept += bank().put_all(put)
            put = []
    taken.kept += bank().put_all(put) if put else ()
    return taken


def reason(line: Line, error: AoecError) -> str:
    """Return why a record became no schedule, without what differs from record to record."""
    text = str(error).splitlines()[0]
    return text if text.startswith(line.op) else f"{line.op}: {text}"


def records(found: Seed) -> Iterator[Record]:
    """Yield the records of a seed. Nothing is known of the default, which would take a search of its own: it is said to be as slow."""
    for func, trace, ticks in found.schedules:
        at = Key(key(func), found.machine.name, found.machine.hash, model_version(), f"cold inputs{IMPORTED}")
        floor = min(bound_in(func, found.machine, COLD).ticks, ticks)
        made = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        yield Record(at, f"{short_name(found.problem)} of CANN", show(trace), ticks, ticks, floor, search="CANN",
                     tool="aoec " + version("aoec"),
                     created=made, func=show(replace(func, name="f")))


def describe_imports(taken: Taken, path: Path) -> str:
    """Return what became of them, in lines."""
    sayable, schedules = len(taken.seeds), sum(len(s.schedules) for s in taken.seeds)
    head = f"{taken.lines:,} records in {plural(taken.files, 'file')}: {sayable:,} became schedules " \
           f"({schedules:,} of funcs with weights in rows and packed)"
    bank = f"; {statuses(tuple(taken.kept))} ({path}), for searches to begin with" if taken.kept else ""
    rows = [f"{n:7,}  {why}" for why, n in taken.others.most_common()]
    return "\n".join([head + bank + "; stopped before the end" * taken.stopped, *rows]) + "\n"


def facts(taken: Taken) -> dict[str, object]:
    """Return the same as a program reads it."""
    us = [{"operator": short_name(s.problem), "soc": s.soc, "target": s.machine.name,
           "schedules": [{"func": key(func), "modelled_us": round(ticks * s.machine.us_per_tick, 3)} for func, _, ticks in s.schedules]}
          for s in taken.seeds]
    return {"kind": "modelled", "files": taken.files, "records": taken.lines, "schedules": us, "stopped": taken.stopped,
            "others": [{"why": why, "records": n} for why, n in taken.others.most_common()]}
