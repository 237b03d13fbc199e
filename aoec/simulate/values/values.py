"""Values of a program: runs every core of a filled program on data, in one compiled interpreter (kernels/tile.py).

The program is encoded once into flat arrays, expressions as postfix code, so that no Python runs per instruction. On-chip
memory starts as NaN, and every access is checked before it happens against the slot or tensor it names.
"""
from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import Any, NoReturn

import numpy as np

from aoec.base.errors import CheckError
from aoec.base.process.processors import threads as at_once
from aoec.base.process.stop import ask_again, catch_interrupts, most_steps, too_long, wait_for_all
from aoec.ir.index import DTYPES, Expr, Float, Int
from aoec.ir.program import OPTIONAL, Advance, CrossSet, CrossWait, For, Instr, Item, Program, Ref, Stream
from aoec.kernels import tile
from aoec.simulate.encode.expressions import Expressions
from aoec.simulate.values.account import Account
from aoec.simulate.values.memory import Memory, number
from aoec.target.isa.instructions import INSTRUCTIONS, RELATIONS, check_dtypes, operand_align

MAX_FIELDS, CROSS_IDS = 20, 16
MAX_CORES = 4096
MOST_MEMORY_BYTES = 1 << 31  # of all cores that meet, for each thread
STOPPED = tile.ERRORS.index("stopped")


def execute(program: Program, tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return outputs (and temps) by name, after all cores of all streams have run.

    `tensors` gives inputs by name, with the dtype and number of elements that the program states. An array of another shape is taken as it
    lies in memory. An output given here is the memory's content before the run. Without it, the memory is NaN, or zeros where atomic writes
    add to it.

    Raise CheckError where an access leaves its slot or tensor, where a field leaves its limits, or where streams wait for each other. The
    error names the instruction and the place.
    """
    return Executable(program).run(tensors)


class Executable:
    """A filled program to be run again and again: its code, and GM with the inputs that never change (`constants`) in their places.

    It raises the errors of `execute`, each as soon as it can be known. Runs of one executable, and of those made `like` it, wait for each
    other.
    """

    def __init__(self, program: Program, constants: Mapping[str, np.ndarray] | None = None, like: Executable | None = None) -> None:
        """Load the constants, and encode the program. `like` is an executable of the same program with constants of its own: its code is
        used here too."""
        self.program, self.constants = program, frozenset(constants or ())
        self.memory = Memory(program)
        self.code: _Code = like.code if like else _encode(program, self.memory)
        self.lock: threading.Lock = like.lock if like else threading.Lock()
        self.memory.put(constants or {})

    def run(self, tensors: Mapping[str, np.ndarray], threads: int = 0, account: Account | None = None) -> dict[str, np.ndarray]:
        """Run as `execute` does, for the inputs that are no constants, with so many threads (0: as many as may work at once). Add to
        `account`."""
        with self.lock:
            return {name: x.copy() for name, x in self.run_in_place(tensors, threads, account).items()}

    def run_in_place(self, tensors: Mapping[str, np.ndarray], threads: int = 0, account: Account | None = None) -> dict[str, np.ndarray]:
        """Run as `run` does, for a caller that lets no two runs overlap. Return results as they lie in memory, where they stay until the
        next run."""
        memory = self.memory
        with catch_interrupts() as stop:
            while True:
                memory.put(tensors)
                memory.clear([t for t in self.program.tensors if t.name not in tensors and t.name not in self.constants])
                if self._run_all(stop, threads, account):
                    return {t.name: memory.view(t) for t in self.program.tensors if t.role != "input"}
                ask_again()

    def _run_all(self, stop: np.ndarray, threads: int, account: Account | None) -> bool:
        """Return whether all cores have run to their end; False where `stop` was set."""
        code, memory = self.code, self.memory
        # sums are added in one order: the same bytes every time
        parts = 1 if memory.added or account else max(1, min(code.groups, threads or at_once()))
        bounds, counts = list(pairwise(code.groups * t // parts for t in range(parts + 1))), np.zeros(1 + parts, np.int64)
        counts[0] = most_steps()
        others = [_pool().submit(_run, code, memory, *bound, (stop, counts, i)) for i, bound in enumerate(bounds[1:], 1)]
        try:
            ended = _run(code, memory, *bounds[0], (stop, counts, 0), account)
        finally:
            wait_for_all(others)
        return all([ended, *[job.result() for job in others]])


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    """Return the threads for all runs of this process."""
    return ThreadPoolExecutor(os.cpu_count() or 1, "values")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a child has none of its parent's threads


def _run(code: _Code, memory: Memory, low: int, high: int, watch: tuple[np.ndarray, np.ndarray, int],
         account: Account | None = None) -> bool:
    """Return whether the groups low .. high - 1 have run to their end; False where they were stopped. CheckError where a rule is broken."""
    started = time.thread_time()
    error = run_groups(code, memory, _SCRATCH.take, low, high, watch, account.ticks if account else NO_TICKS)
    if account:
        account.seconds += time.thread_time() - started
    if error[0] and error[0] != STOPPED:
        _fail(code, error)
    return not error[0]


def run_groups(code: _Code, memory: Memory, take: Callable[..., np.ndarray], low: int, high: int,
               watch: tuple[np.ndarray, np.ndarray, int], ticks: np.ndarray) -> np.ndarray:
    """Return the error row of the kernel, after it has run groups low .. high - 1; `take` makes arrays of what a thread works in."""
    error = np.zeros(9, np.int64)
    tables = (code.xcode, code.xspan, code.ops, code.operands, code.fields, LIMITS, code.opens, code.dtypes, code.now, code.kept)
    cores, sites, i64 = code.streams.size, code.ops.size, np.int64
    own = (np.zeros((cores, len(code.code)), i64), np.zeros(cores, i64), np.zeros((cores, cores, CROSS_IDS), i64), memory.spans)
    now = (code.now.copy(), np.zeros((sites, 4), i64), np.zeros(4, i64), np.zeros(sites, np.uint8), np.zeros(tile.STACK, i64))
    mems = take("cores", cores * memory.mem_bytes, np.uint8).reshape(cores, memory.mem_bytes)
    tile.run_groups(
        low, high, code.code, tables, code.scalars, code.starts, code.streams, code.first, code.count, code.envs, memory.gm, mems, own, now,
        (*_tiles(memory, take), ticks), watch, error)
    return error


class _Scratch(threading.local):
    """Arrays that a thread's runs use again and again, so that they are in its cache."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}

    def take(self, name: str, size: int, dtype: Any) -> np.ndarray:
        """Return an array of that size, with whatever it held."""
        if name not in self.arrays or self.arrays[name].size < size:
            self.arrays[name] = np.empty(size, dtype)
        return self.arrays[name][:size]


_SCRATCH = _Scratch()
NO_TICKS = np.zeros((0, 3), np.int64)


def _tiles(memory: Memory, take: Callable[..., np.ndarray]) -> tuple[np.ndarray, ...]:
    """Return the scratch of the kernels: A, B, C and a tile in fractals as fp32, two runs of lanes, one of bytes, two of whole numbers."""
    size = memory.scope_bytes
    a, b, c = (size.get(scope, 0) + 256 for scope in ("L0A", "L0B", "L0C"))
    return (take("a", a, np.float32), take("b", b, np.float32), take("c", c, np.float32), take("fractals", max(a, b), np.float32),
            take("lanes", 256, np.float32), take("more lanes", 256, np.float32), take("bytes", 512, np.uint8),
            take("numbers", 256, np.int64), take("more numbers", 256, np.int64))


def _limits() -> np.ndarray:
    out = np.zeros((len(tile.OPS), MAX_FIELDS, 2), np.int64)
    for i, name in enumerate(tile.OPS):
        for j, n in enumerate(n for n in INSTRUCTIONS[name].numbers if not n.real):
            out[i, j] = n.low, n.high
    return out


LIMITS = _limits()


# ---------------------------------------------------------------- code

class _Code:
    """A program as arrays: code rows (op, a, b, c), postfix expressions, a row per instruction site, the environment per core."""

    code: np.ndarray
    kept: np.ndarray  # expressions and their places in the environment
    xcode: np.ndarray
    xspan: np.ndarray
    ops: np.ndarray
    scalars: np.ndarray
    operands: np.ndarray
    fields: np.ndarray
    opens: np.ndarray  # of each site, the fields that vary; -1 behind them
    dtypes: np.ndarray
    now: np.ndarray  # the values of fields that do not vary
    starts: np.ndarray  # row where each stream starts
    groups: int  # groups of cores that meet
    count: np.ndarray  # cores of each stream in a group
    first: np.ndarray  # number of a stream's first core in a group
    streams: np.ndarray  # stream of each core in a group
    envs: np.ndarray  # [group, core, variable]

    def __init__(self, program: Program, memory: Memory) -> None:
        self.program, self.places = program, memory.places
        self.rows: list[list[int]] = []  # op, a, b, c, and from and to which of the kept expressions are evaluated when it steps on
        self.items: list[tuple[Stream, Item | None]] = []  # the item behind each row, for messages
        self.expressions = Expressions(program.name)
        self.sites: list[tuple[int, float, list[list[int]], list[int]]] = []
        self.names: dict[int, str] = {}  # variables of all streams by their place in the environment
        self.stream_index = {s.name: i for i, s in enumerate(program.streams)}

    def freeze(self) -> None:
        """Turn the lists into arrays."""
        i64 = np.int64
        self.code, self.kept = _with_kept(self.rows, self.expressions.kept)
        self.xcode, self.xspan = self.expressions.arrays()
        self.ops = np.array([s[0] for s in self.sites] or [0], i64)
        self.scalars = np.array([s[1] for s in self.sites] or [0.0])
        self.operands = np.array([s[2] for s in self.sites] or [[[0] * 8] * 4], i64)
        self.fields = np.array([s[3] for s in self.sites] or [[-1] * MAX_FIELDS], i64)
        self.dtypes = self.operands[:, :, 0].copy()
        known = [[0 if x < 0 else self.expressions.constant_value(x) for x in row] for row in self.fields.tolist()]
        self.now = np.array([[v or 0 for v in row] for row in known], i64)
        vary = [[i for i, v in enumerate(row) if v is None] for row in known]
        self.opens = np.array([[*row, *[-1] * (MAX_FIELDS - len(row))] for row in vary], i64)

    def expression(self, e: Expr, scope: Mapping[str, int]) -> int:
        """Return the number of an expression. `scope`: variable name -> place in the environment."""
        return self.expressions.add(e, scope)


def _with_kept(rows: list[list[int]], kept: Mapping[int, list[tuple[int, int]]]) -> tuple[np.ndarray, np.ndarray]:
    """Return code rows with what each evaluates when it steps on, and the list of that."""
    listed: list[tuple[int, int]] = []
    for row, pairs in kept.items():
        rows[row][4:] = len(listed), len(listed) + len(pairs)
        listed += pairs
    return np.array(rows, np.int64).reshape(-1, 6), np.array(listed or [(0, 0)], np.int64)


def _encode(program: Program, memory: Memory) -> _Code:
    """Return the program as flat arrays."""
    code = _Code(program, memory)
    starts = [_encode_stream(code, s) for s in program.streams]
    code.freeze()
    code.starts = np.array(starts, np.int64)
    _encode_cores(code, memory.mem_bytes)
    return code


def _encode_stream(code: _Code, stream: Stream) -> int:
    """Append the rows of a stream. Return where they start."""
    start = _row(code, stream, None, "begin")
    scope = {axis: _variable(code, stream, axis, number(e) - 1, start) for axis, e in stream.grid}
    scope |= {counter: _variable(code, stream, counter, number(e) - 1, None) for counter, e in stream.counters}
    _encode_body(code, stream, stream.body, scope)
    _row(code, stream, None, "halt")
    return start


def _variable(code: _Code, stream: Stream, name: str, most: int, row: int | None) -> int:
    """Return the place of a variable from 0 to `most` that a row of code moves, or an advance."""
    at = code.expressions.variable(0, most, row)
    code.names[at] = f"{stream.name}.{name}"
    return at


def _row(code: _Code, stream: Stream, item: Item | None, op: str, a: int = 0, b: int = 0, c: int = 0) -> int:
    code.rows.append([tile.CODE_OPS.index(op), a, b, c, 0, 0])
    code.items.append((stream, item))
    return len(code.rows) - 1


def _encode_body(code: _Code, stream: Stream, body: tuple[Item, ...], scope: dict[str, int]) -> None:
    for item in body:
        if isinstance(item, For):
            at = _row(code, stream, item, "loop", 0, code.expression(item.trips, scope))
            var = _variable(code, stream, item.var, code.expressions.term(item.trips, scope).high - 1, at)
            _encode_body(code, stream, item.body, {**scope, item.var: var})
            code.rows[at][1], code.rows[at][3] = var, _row(code, stream, item, "end", at, var) + 1
        elif isinstance(item, Instr):
            _row(code, stream, item, "instr", _site(code, item, scope))
        elif isinstance(item, Advance):
            depth = dict(stream.counters).get(item.counter)
            if depth is None or number(depth) < 1:
                raise CheckError(f"stream {stream.name} advances {item.counter}, which is no counter of it with a depth of at least 1")
            _row(code, stream, item, "advance", scope[item.counter], number(depth))
        elif isinstance(item, (CrossSet, CrossWait)):
            peer = item.to if isinstance(item, CrossSet) else item.source
            if peer not in code.stream_index:
                raise CheckError(f"stream {stream.name} meets stream {peer}, which program {code.program.name} does not have")
            op = "cross_set" if isinstance(item, CrossSet) else "cross_wait"
            _row(code, stream, item, op, code.stream_index[peer], code.expression(item.id, scope))
        # flags inside a core order pipes in time; program order already keeps them


def _site(code: _Code, item: Instr, scope: dict[str, int]) -> int:
    """Append an instruction's operands and fields. Return its site."""
    word = INSTRUCTIONS.get(item.op)
    if word is None or not word.takes(tuple(k for k, _ in item.fields)):
        raise CheckError(f"{item.op} is no instruction" if word is None else
                         f"{item.op} has fields ({', '.join(k for k, _ in item.fields)}) where it needs ({', '.join(word.fields())})")
    operands, dtypes = [], []
    for o in word.operands:
        ref = item[o.name]
        place = code.places.get(ref.buffer) if isinstance(ref, Ref) else None
        if place is None or not isinstance(ref, Ref) or place.scope not in o.scopes:
            raise CheckError(f"{item.op}: operand {o.name} must be a buffer in {' or '.join(o.scopes)}"
                             + (f", {ref.buffer} is in {place.scope}" if place and isinstance(ref, Ref) else ""))
        dtypes.append(place.dtype)
        align = operand_align(word, o, place.scope, place.dtype)
        dtype = tile.DTYPES.index(place.dtype) if place.dtype in tile.DTYPES else -1
        operands.append([dtype, place.base, place.slot_bytes, place.depth, align, code.expression(ref.slot, scope),
                         code.expression(ref.offset, scope), DTYPES.get(place.dtype, 1)])
    check_dtypes(word, dtypes)
    operands += [[operands[0][0], -1, 0, 0, 1, 0, 0, 1]] * (4 - len(operands))
    fields, scalar = [], 0.0
    for n in word.numbers:
        x = item[n.name]
        if n.real:
            if not isinstance(x, (Float, Int)):
                raise CheckError(f"{item.op}: {n.name} must be a real constant")
            scalar = float("nan") if n.name in OPTIONAL and isinstance(x, Int) else float(x.value)
        else:
            fields.append(code.expression(x, scope))  # type: ignore[arg-type]
    code.sites.append((tile.OPS.index(item.op), scalar, operands, fields + [-1] * (MAX_FIELDS - len(fields))))
    return len(code.sites) - 1


def _encode_cores(code: _Code, memory_bytes: int) -> None:
    """Fill the cores of each stream, in groups that meet by cross flags. A group has one core of the smallest stream."""
    streams = code.program.streams
    extents = [[number(e) for _, e in s.grid] for s in streams]
    cores = [prod(e) for e in extents]
    for stream, n in zip(streams, cores):
        if not 0 <= n <= MAX_CORES:
            raise CheckError(f"stream {stream.name} runs on {n:,} cores; at most {MAX_CORES:,} can be run")
    meets = any(r[0] in (4, 5) for r in code.rows)
    code.groups = min(cores, default=0)
    if len(streams) > 1 and not meets:
        code.groups = 1
    if code.groups and any(n % code.groups for n in cores):
        counts = ", ".join(f"{s.name} has {n}" for s, n in zip(streams, cores))
        raise CheckError(f"streams that meet need whole multiples of cores: {counts}")
    count = [n // max(code.groups, 1) for n in cores]
    if sum(count) * (memory_bytes + 8 * CROSS_IDS * sum(count)) > MOST_MEMORY_BYTES:
        raise CheckError(f"program {code.program.name} has {memory_bytes:,} bytes on chip for each of {sum(count):,} cores that are run "
                         f"together; at most {MOST_MEMORY_BYTES:,} in all can be run")
    code.count = np.array(count, np.int64)
    code.first = np.concatenate([np.zeros(1, np.int64), np.cumsum(code.count)[:-1]])
    code.streams = np.repeat(np.arange(len(streams)), code.count)
    code.envs = np.zeros((code.groups, len(code.streams), max(len(code.expressions.ranges), 1)), np.int64)
    for s, stream in enumerate(streams):
        places = {name: at for at, name in code.names.items()}
        axes = [places[f"{stream.name}.{a}"] for a, _ in stream.grid]
        for g in range(code.groups):
            for i in range(count[s]):
                index = np.unravel_index(g * count[s] + i, extents[s]) if axes else ()
                code.envs[g, code.first[s] + i, axes] = index


# ---------------------------------------------------------------- errors

def _fail(code: _Code, error: np.ndarray) -> NoReturn:
    """Raise what the interpreter found, with instruction, core and loop variables."""
    kind, _, part, value, bound, pc, group, core, touched = (int(x) for x in error)
    if tile.ERRORS[kind] == "steps":
        raise CheckError(too_long(code.program.name, value))
    stream, item = code.items[pc]
    index = group * int(code.count[code.streams[core]]) + core - int(code.first[code.streams[core]])
    env = code.envs[group, core]
    prefix = stream.name + "."
    at = ", ".join(f"{n.removeprefix(prefix)}={env[i]}" for i, n in code.names.items() if n.startswith(prefix))
    where = f"{stream.name} core {index}" + (f" at {at}" if at else "")
    raise CheckError(f"{_sentence(code.program, item, tile.ERRORS[kind], part, value, bound, touched)} ({where})")


def _sentence(program: Program, item: Item | None, kind: str, part: int, value: int, bound: int, touched: int) -> str:
    """Return what is wrong with an item. Where an operand leaves its buffer, `value` is the element at which it begins."""
    if kind == "deadlock":
        return "every core of the group waits for a cross flag that nothing sets: add the cross_set or drop the cross_wait"
    if kind == "division":
        return "an expression divides by zero"
    if kind == "overflow":
        return "an expression gives a number that does not fit 64 bits"
    if kind == "flag":
        return f"cross flag {value} is outside 0..{bound - 1}"
    if not isinstance(item, Instr):
        return f"{kind} of {value} is broken"
    word = INSTRUCTIONS[item.op]
    if kind == "relation":
        return f"{item.op}: {RELATIONS[part]}"
    if kind == "limit":
        n = [n for n in word.numbers if not n.real][part]
        return f"{item.op}: {n.name} is {value}, outside {n.low}..{n.high}"
    name = word.operands[part].name
    ref = item[name]
    buffer = ref.buffer if isinstance(ref, Ref) else name
    if kind == "slot":
        return f"{item.op}: {name} names slot {value} of {buffer}, which has {bound}"
    if kind == "align":
        return f"{item.op}: {name} starts at byte {value} of {buffer}, which is no multiple of {bound}"
    size = DTYPES[{t.name: t.dtype for t in program.tensors}.get(buffer) or {s.name: s.dtype for s in program.spaces}[buffer]]
    reached = value * size + touched if value >= 0 else value * size
    return f"{item.op}: {name} reaches byte {reached} of {buffer}, which has {bound} bytes"
