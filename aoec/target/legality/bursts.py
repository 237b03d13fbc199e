"""Bursts into GM that are not whole blocks, on products whose copies move whole blocks only (2002, 1001).

A burst of a block or more is moved as whole blocks, of which the last ends with the burst. Shorter bursts that follow each other are
joined into one. A burst that is still shorter than a block is written together with the bytes beside it. The block that ends with the
burst, or the one that begins with it, is read, changed and written back. That is correct where no other core writes those bytes. This
module checks that by going through all writes of the cores of a launch.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from aoec.base.errors import CheckError
from aoec.ir.index import DTYPES, Expr, Int, evaluate, variables
from aoec.ir.program import For, Instr, Item, Program, Ref, Stream
from aoec.target.isa.instructions import BLOCK_BYTES
from aoec.target.legality.trace import line

MOST_COLUMNS = 1 << 22  # executions of an instruction that are gone through
MOST_ELEMENTS = 1 << 27  # of what they write
class TooManyError(ValueError):
    """More bursts than are gone through: nothing is known of them."""


SIDES = ("left", "right")  # what is written back with a short burst: the block that ends with it, or that begins with it


@dataclass(frozen=True)
class Site:
    """An instruction with the loops around it."""

    item: Instr
    loops: tuple[For, ...]


def sites(items: Sequence[Item], loops: tuple[For, ...] = ()) -> Iterator[Site]:
    """Yield the copies into GM of a body."""
    for item in items:
        if isinstance(item, For):
            yield from sites(item.body, (*loops, item))
        elif isinstance(item, Instr) and item.op == "copy_ub_gm":
            yield Site(item, loops)


def columns(stream: Stream, site: Site, wanted: frozenset[str]) -> dict[str, np.ndarray] | None:
    """Return the values of the wanted variables, and of those that their loops depend on, at every execution of an instruction. The
    core's number is given as `core`; it counts only cores that differ in these variables. Return None where there are too many
    executions."""
    loops = list[For]()
    for loop in reversed(site.loops):
        if loop.var in wanted or (variables(loop.trips) and wanted):
            loops.insert(0, loop)
            wanted = wanted | variables(loop.trips)
    axes = [(name, int(evaluate(extent, {}))) for name, extent in stream.grid if name in wanted]
    grids = np.indices([n for _, n in axes]) if axes else np.zeros((0, 1), np.int64)
    env: dict[str, np.ndarray] = {name: g.ravel().astype(np.int64) for (name, _), g in zip(axes, grids)}
    core = np.zeros(1, np.int64)
    for name, extent in axes:
        core = core * extent + env[name]
    env["core"] = core
    for loop in loops:
        trips = np.maximum(np.broadcast_to(np.asarray(evaluate(loop.trips, env), np.int64), env["core"].shape), 0)
        if trips.sum() > MOST_COLUMNS:
            return None
        rows = np.repeat(np.arange(len(trips)), trips)
        env = {k: v[rows] for k, v in env.items()}
        env[loop.var] = np.arange(len(rows)) - np.repeat(np.cumsum(trips) - trips, trips)
    return env


def _values(item: Instr, names: Sequence[str], env: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Return the values of number fields, or of the offset of `dst`, in columns."""
    found = [item[n] for n in names]
    given = [v.offset if isinstance(v, Ref) else v for v in found]
    return [np.broadcast_to(np.asarray(evaluate(e, env), np.int64), env["core"].shape) for e in given]


def _names_of(item: Instr, names: Sequence[str]) -> frozenset[str]:
    found = [item[n] for n in names]
    given: list[Expr] = [v.offset if isinstance(v, Ref) else v for v in found]
    return frozenset().union(*[variables(e) for e in given])


def needed_side(program: Program, stream: Stream, item: Instr, cores: int) -> str:
    """Return how to write an instruction's bursts that are shorter than a block: one of SIDES, or "" where it has none. Raise
    ValueError, with the reason, where neither side is known to be correct."""
    names = ("bursts", "length", "dst_gap")
    mine = [s for s in sites(stream.body) if s.item is item or s.item == item]
    short = False
    for site in mine:
        env = columns(stream, site, _names_of(item, names))
        if env is None:
            raise TooManyError("its bursts are too many to be looked at")
        short = short or bool(_is_short(*_values(item, names, env)).any())
    if not short:
        return ""
    dst = item["dst"]
    assert isinstance(dst, Ref)
    tensor = next(t for t in program.tensors if t.name == dst.buffer)
    block, total = BLOCK_BYTES // DTYPES[tensor.dtype], prod(int(evaluate(d, {})) for d in tensor.shape)
    owner = _owners(stream, dst.buffer, total, DTYPES[tensor.dtype]) if cores > 1 else np.zeros(total, np.int32)
    good = dict.fromkeys(SIDES, True)
    for site in mine:
        env = columns(stream, site, _all_names_of(site, stream))
        if env is None:
            raise TooManyError("its bursts are too many to be looked at")
        bursts, length, gap, offset = _values(item, (*names, "dst"), env)
        at = _is_short(bursts, length, gap)
        for start, size, core in _pieces(bursts[at], length[at], gap[at], offset[at], env["core"][at], DTYPES[tensor.dtype]):
            beside = {"left": (start + size - block, start), "right": (start + size, np.minimum(start + block, total))}
            for side, (low, high) in beside.items():
                good[side] = good[side] and bool((low >= 0).all()) and all(
                    bool(((owner[np.minimum(low + i, total - 1)] == core) | (owner[np.minimum(low + i, total - 1)] < 0)
                          | (low + i >= high)).all()) for i in range(block))
    side = next((s for s in SIDES if good[s]), "")
    if not side:
        raise ValueError("another core writes into the block that a burst shorter than a block lies in")
    return side


def check_bursts(program: Program) -> None:
    """Raise CheckError where cores write parts of one block, as far as that is known. This is for a machine whose copies move whole
    blocks."""
    for stream in program.streams:
        cores = prod(int(evaluate(extent, {})) for _, extent in stream.grid)
        for item in dict.fromkeys(s.item for s in sites(stream.body)) if cores > 1 else ():
            length, gap = item["length"], item["dst_gap"]
            whole = all(isinstance(e, Int) and e.value % BLOCK_BYTES == 0 for e in (length, gap))
            if whole or item["atomic"] != Int(0):
                continue
            try:
                needed_side(program, stream, item, cores)
            except TooManyError:
                continue
            except ValueError as e:
                raise CheckError(f"{line(item)}: {program.target} writes whole blocks of {BLOCK_BYTES} bytes into GM, and {e}; give each "
                                 "core whole blocks") from None


def _all_names_of(site: Site, stream: Stream) -> frozenset[str]:
    """Return all grid axes, and the variables of what a copy writes."""
    return _names_of(site.item, ("bursts", "length", "dst_gap", "dst")) | {name for name, _ in stream.grid}


def _is_short(bursts: np.ndarray, length: np.ndarray, gap: np.ndarray) -> Any:
    """Return where a burst, or all bursts that follow each other, are shorter than a block."""
    joined = np.where(gap == 0, bursts * length, length)
    return (bursts > 0) & (length > 0) & (joined < BLOCK_BYTES)


def _pieces(bursts: np.ndarray, length: np.ndarray, gap: np.ndarray, offset: np.ndarray, core: np.ndarray,
            size: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield (first element, elements, core) of short pieces: of each burst, or of all that follow each other."""
    joined = gap == 0
    for b in range(int(np.where(joined, 1, bursts).max(initial=0))):
        there = np.where(joined, 1, bursts) > b
        start = offset + b * (length + gap) // size
        count = np.where(joined, bursts * length, length) // size
        yield start[there], count[there], core[there]


def _owners(stream: Stream, name: str, total: int, size: int) -> np.ndarray:
    """Return the core that writes each element of a tensor; -1 where none does, and another number where several do."""
    owner = np.full(total, -1, np.int32)
    written = 0
    for site in sites(stream.body):
        dst = site.item["dst"]
        if not isinstance(dst, Ref) or dst.buffer != name:
            continue
        env = columns(stream, site, _all_names_of(site, stream))
        if env is None:
            raise TooManyError("what the cores write is too much to be looked at")
        bursts, length, gap, offset = _values(site.item, ("bursts", "length", "dst_gap", "dst"), env)
        written += int((bursts * length).sum())
        if written > MOST_ELEMENTS:
            raise TooManyError("what the cores write is too much to be looked at")
        for b in range(int(bursts.max(initial=0))):
            there = (bursts > b) & (length > 0)
            count = length[there] // size
            rows = np.repeat(np.arange(len(count)), count)
            at = (offset[there] + b * (length[there] + gap[there]) // size)[rows] + np.arange(len(rows)) - np.repeat(
                np.cumsum(count) - count, count)
            core = env["core"][there][rows].astype(np.int32)
            owner[at] = np.where((owner[at] < 0) | (owner[at] == core), core, np.iinfo(np.int32).max)
    return owner
