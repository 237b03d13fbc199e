"""Program text of vector and copy kernels as published samples write them: loads, work and stores of tiles, with slots and flags."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aoec.ir.index import DTYPES
from aoec.target.isa.instructions import REPEAT_BYTES

MOST_REPEATS = 255


@dataclass(frozen=True)
class Stage:
    """One tile's work: lines of loads (MTE2), of vector work (V) and of stores (MTE3); any may be empty."""

    loads: Sequence[str] = ()
    work: Sequence[str] = ()
    stores: Sequence[str] = ()


def vector(op: str, dst: str, sources: Sequence[str], elements: int, dtype: str, scalar: float | None = None, at: int = 0) -> list[str]:
    """Return instructions of an elementwise operation on contiguous elements, 255 repeats at most in one."""
    lanes = REPEAT_BYTES // DTYPES[dtype]
    whole, rest = divmod(elements, lanes)
    counts = [MOST_REPEATS] * (whole // MOST_REPEATS) + ([whole % MOST_REPEATS] if whole % MOST_REPEATS else [])
    names = ["src"] if len(sources) == 1 else [f"src{i}" for i in range(len(sources))]
    out, done = [], 0
    for repeat, last in [*[(c, lanes) for c in counts], *([(1, rest)] if rest else [])]:
        operands = ", ".join(f"{n}={s}[{at + done}]" for n, s in zip(names, sources))
        value = f" scalar={scalar}," if scalar is not None else ""
        blocks = ", ".join(f"{n}_blk=1" for n in ("dst", *names)) + ", " + ", ".join(f"{n}_rep=8" for n in ("dst", *names))
        out.append(f"{op}(dst={dst}[{at + done}], {operands},{value} lanes={last}, repeat={repeat}, {blocks})")
        done += repeat * lanes
    return out


def reduce_rows(op: str, dst: str, src: str, elements: int, dtype: str) -> list[str]:
    """Write whole-reduce instructions: one result for each repeat, until one is left."""
    lanes = REPEAT_BYTES // DTYPES[dtype]
    out = []
    while elements > 1:
        repeats = -(-elements // lanes)
        for first in range(0, repeats, MOST_REPEATS):
            count = min(MOST_REPEATS, repeats - first)
            out.append(f"{op}(dst={dst}[{first}], src={src}[{first * lanes}], lanes={min(lanes, elements)}, repeat={count}, dst_rep=1, "
                       "src_blk=1, src_rep=8)")
        elements, src = repeats, dst
    return out


def pipeline(stage: Stage, loops: Sequence[tuple[str, str]], buffers: int, indent: int = 2) -> list[str]:
    """Return the lines of one stage in serial loops (variable, trips), buffers handed on by flags; ends drained."""
    return [*primed(stage, buffers, indent), *looped(stage, loops, indent), *drained(stage, buffers, indent)]


def _handed(stage: Stage) -> list[tuple[str, str]]:
    """Return who gives a slot back to whom."""
    if stage.work:
        return ([("V", "MTE2")] if stage.loads else []) + ([("MTE3", "V")] if stage.stores else [])
    return [("MTE3", "MTE2")] if stage.loads and stage.stores else []


def primed(stage: Stage, buffers: int, indent: int) -> list[str]:
    """Return the lines that give all slots out before a loop."""
    free = _handed(stage)
    lines = [f"for d in {buffers} {{", *[f"  set({a}, {b}, d)" for a, b in free], "}"] if free else []
    return ["  " * indent + x for x in lines]


def drained(stage: Stage, buffers: int, indent: int) -> list[str]:
    """Return the lines that take all slots back after a loop."""
    free = _handed(stage)
    lines = [f"for e in {buffers} {{", *[f"  wait({a}, {b}, e)" for a, b in free], "}"] if free else []
    return ["  " * indent + x for x in lines]


def looped(stage: Stage, loops: Sequence[tuple[str, str]], indent: int) -> list[str]:
    """Return the lines of the stage in its loops."""
    lines = ["  " * i + f"for {var} in {trips} {{" for i, (var, trips) in enumerate(loops)]
    lines += ["  " * len(loops) + x for x in _inner(stage)]
    lines += ["  " * i + "}" for i in reversed(range(len(loops)))]
    return ["  " * indent + x for x in lines]


def _inner(stage: Stage) -> list[str]:
    """Return one iteration: loads, work and stores with the flags between them."""
    loaded, stored = bool(stage.loads), bool(stage.stores)
    if not stage.work:
        if not stage.stores:
            return list(stage.loads)
        between = ["set(MTE2, MTE3, a)", "wait(MTE2, MTE3, a)"]
        return ["wait(MTE3, MTE2, a)", *stage.loads, *between, *stage.stores, "set(MTE3, MTE2, a)", "advance(a)"]
    before = ["wait(V, MTE2, a)", *stage.loads, "set(MTE2, V, a)", "wait(MTE2, V, a)"] if loaded else []
    work = [*(["wait(MTE3, V, a)"] if stored else []), *stage.work, *(["set(V, MTE2, a)"] if loaded else [])]
    after = ["set(V, MTE3, a)", "wait(V, MTE3, a)", *stage.stores, "set(MTE3, V, a)"] if stored else []
    return [*before, *work, *after, "advance(a)"]


def program(name: str, target: str, tensors: Sequence[str], spaces: Sequence[str], core: str, cores: int, body: Sequence[str],
            buffers: int = 1) -> str:
    """Return a program of one stream over `cores` cores, whose index is `core`."""
    return "\n".join((f"program {name} for {target} {{", *[f"  {t}" for t in tensors], *[f"  {s}" for s in spaces],
                      f"  stream s {core} grid [core in {cores}] counters [a depth {buffers}] {{", *body, "  }", "}", ""))


def load_ub(dst: str, src: str, rows: int, row_bytes: int | str, gap_bytes: int) -> str:
    """Return one copy of `rows` bursts from GM to UB."""
    return f"copy_gm_ub(dst={dst}, src={src}, bursts={rows}, length={row_bytes}, src_gap={gap_bytes}, dst_gap=0)"


def store_ub(dst: str, src: str, rows: int, row_bytes: int, gap_bytes: int = 0, src_gap: int = 0) -> str:
    """Return one copy of `rows` bursts from UB to GM; `src_gap` in blocks."""
    return f"copy_ub_gm(dst={dst}, src={src}, bursts={rows}, length={row_bytes}, src_gap={src_gap}, dst_gap={gap_bytes})"
