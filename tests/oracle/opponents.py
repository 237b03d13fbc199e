"""What a default schedule must not lose to, and what a lower bound must not fall below: told apart from the code that makes them.

The stock block is the vendor's: 128 x 256 x 64 in L0, double buffered. Legalised to a shape it keeps every extent that the shape
allows; where capacity refuses it, k shrinks first, then n, then m. Its core grid, its place in L1 and its order of loops are the
best of the space, so that nothing but the block is held against it.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from math import prod
from random import Random

from aoec.ir.func.tir import Buffer, Func
from aoec.ir.index import DTYPES, Int
from aoec.jobs.tune.tuning import Problem
from aoec.search.sketches.nests import find_product
from aoec.search.space.grid import Candidate, Grid
from aoec.target.machine import Machine

BLOCKS = [(m, n, k) for m in (128, 64, 32, 16) for n in (256, 128, 64, 32, 16) for k in (64, 48, 32, 16, 8)]
CHUNKS = (64, 256, 1024)  # extents of k in L1
DRAWS = 1 << 18  # at most, in search of legal candidates
BATCH = 512


class NoStockBlock(Exception):
    """No stock block is legal for a shape."""


def stock(p: Problem, machine: Machine) -> int | None:
    """Ticks of the stock block legalised to the shape; None for vector work, which has no such block. NoStockBlock where none is legal."""
    mm = find_product(p.func)
    if mm is None:
        return None
    cores = machine.core("aic" if "aic" in machine.cores else "core").count
    width, k = mm.extent(mm.loops[-3].var) if len(mm.loops) > 3 else 1, mm.extent(mm.loops[-1].var)
    for block in BLOCKS:
        tried = [(g, v) for g, grid in enumerate(p.space.grids) for v in blocked(grid, block, width, k, cores)]
        legal = [t for t in p.cost(tried) if t is not None]
        if legal:
            return min(legal)
    raise NoStockBlock(f"no stock block from {BLOCKS[0]} to {BLOCKS[-1]} is legal")


def blocked(grid: Grid, block: tuple[int, int, int], width: int, k: int, cores: int) -> Iterator[tuple[int, ...]]:
    """Hole values of one sketch with this L0 block, all slots doubled, on every core grid."""
    choices = dict(zip(grid.names, grid.choices))
    m, n, kb = block
    limits = {"tm": m, "tn": n, "n1": n // 16, "tk": kb}
    fixed = {name: (largest(choices[name], limit),) for name, limit in limits.items() if name in choices}
    fixed |= {name: (2,) for name in ("da", "db", "d0a", "d0b", "dc") if name in choices}
    fixed |= {name: (1,) for name in ("rk", "pm", "pn", "uf") if name in choices}
    unit = fixed["tk"][0] if "tm" in choices else max(k // max(choices["sk"]), 1)
    fixed["sk"] = tuple(dict.fromkeys(largest(choices["sk"], chunk // unit) for chunk in CHUNKS))
    for tile in pixels(choices, m, width):
        options = [(tile[name],) if name in tile else fixed.get(name, choices[name]) for name in grid.names]
        for values in product(*options):
            if prod(v for name, v in zip(grid.names, values) if name.startswith("g")) <= cores:
                yield values


def pixels(choices: Mapping[str, tuple[int, ...]], m: int, width: int) -> list[dict[str, int]]:
    """The rectangles of a convolution with most pixels up to m, one L0 tile in each L1 tile; {} alone for a product of matrices."""
    if "th" not in choices:
        return [{}]
    rows, columns = choices.get("h0", choices["th"]), choices.get("w0", choices.get("tw", (width,)))
    areas = {(h, w): h * w for h in rows for w in columns if h * w <= m} or {(min(rows), min(columns)): 1}
    most = max(areas.values())
    out = []
    for (h, w), area in areas.items():
        if area == most:
            names = {"th": h, "h0": h, "tw": w, "w0": w}
            out.append({name: largest(choices[name], v) for name, v in names.items() if name in choices})
    return out


def largest(values: tuple[int, ...], limit: int) -> int:
    """The largest choice up to the limit, or the smallest of all."""
    return max((v for v in values if v <= limit), default=min(values))


def best_of_random(p: Problem, count: int = 50, seed: int = 0) -> tuple[int | None, int]:
    """(ticks of the best, how many) of the first `count` legal candidates that are drawn evenly from the whole space."""
    random, found, drawn = Random(seed), {}, 0
    goal = min(count, p.space.size)
    while len(found) < goal and drawn < DRAWS:
        batch: list[Candidate] = [p.space.at(random.randrange(p.space.size)) for _ in range(BATCH)]
        drawn += BATCH
        for c, ticks in zip(batch, p.cost(batch)):
            if ticks is not None and len(found) < goal:
                found[c] = ticks
    return min(found.values(), default=None), len(found)


def least_ticks(func: Func, machine: Machine, resident: Mapping[str, int]) -> int:
    """Launch of one core, and the longer of: all products at the peak of all cores, all bytes that are only in HBM at the chip's rate."""
    mm = find_product(func)
    cycles = 0.0
    if mm is not None:
        kind = machine.core("aic" if "aic" in machine.cores else "core")
        dtype = func.inputs[0].dtype
        cycles = prod(mm.extent(lp.var) for lp in mm.loops) / (16 * 16 * machine.tables["kf"][dtype] * kind.count)
    cold = sum(max(size_bytes(b) - resident.get(b.name, 0), 0) for b in func.inputs)
    launch = (machine.launch_fixed_us + machine.launch_per_core_us) * machine.clock_mhz
    return int((launch + max(cycles, cold / machine.hbm_bytes_per_cycle)) * 1024)


def size_bytes(b: Buffer) -> int:
    assert all(isinstance(e, Int) for e in b.shape)
    return DTYPES[b.dtype] * prod(e.value for e in b.shape if isinstance(e, Int))
