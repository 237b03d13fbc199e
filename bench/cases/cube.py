"""Tile words of a matrix product -> a trace: what each word says of tiles, loads, slots and cores, in our own terms."""
from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from aoec.ir.func.tir import Func
from aoec.ir.index import DTYPES, Int
from aoec.ir.program import Program
from aoec.ir.schedule import Step, Trace
from aoec.search.vendor.vendor import MatmulTiling, matmul_trace
from aoec.target.machine import Machine
from bench.cases.case import Case
from bench.cases.turns import left_first
from bench.cases.words import AUTO

STOCK = (128, 256, 64)  # the vendor's block where a row names none, in elements of two bytes


@dataclass(frozen=True)
class Tiling:
    """A vendor tiling in full: base block, base blocks along k in one load of A and of B, blocks in L1, cores along m and n."""

    base: tuple[int, int, int]
    step: tuple[int, int]
    depth: tuple[int, int]
    grid: tuple[int, int]
    l2: int
    unit_flag: bool
    split_k: int


def tiling(case: Case, machine: Machine) -> Tiling:
    """Return what the words say, with the vendor's defaults for what they do not: one block a load and no slots to spare for Norm, for MDL
    half of L1 for each operand in two slots (`halves`), as many blocks as L1 holds where one operand's depth is published as filling it
    (asc-devkit's 8192^3 sample: depthB1 = 8)."""
    size = DTYPES[case.dtypes[0]]
    s = case.shape.sizes
    base = base_block(case, machine, size)
    step = steps(case, machine, base, size)
    return Tiling(base, step, depths(case, machine, base, step, size), grid_of(case, machine, base, s["m"], s["n"]),
                  case.tile.one("l2", 1), "unitflag" in case.tile, case.tile.one("splitk", 1))


def base_block(case: Case, machine: Machine, size: int) -> tuple[int, int, int]:
    """Return the L0 block, at most the shape rounded up to fractals; an `auto` k fills half of L0A or L0B."""
    given = case.tile.numbers("base")
    m, n, *k = given if given else STOCK
    s = case.shape.sizes
    m, n = min(m, round_up(s["m"], 16)), min(n, round_up(s["n"], 16))
    half = machine.scope("L0A").size_bytes // 2
    depth = k[0] if k else AUTO
    if depth == AUTO:
        depth = 1 << (half // (max(m, n) * size)).bit_length() - 1
    elif not given:
        depth = depth * 2 // size
    return m, n, min(depth, round_up(s["k"], 32 // size))


def steps(case: Case, machine: Machine, base: tuple[int, int, int], size: int) -> tuple[int, int]:
    """Return the base blocks along k that one load of A and of B brings."""
    if outer := case.tile.numbers("l1"):
        return (max(1, outer[2] // base[2]),) * 2
    if "mdl" in case.tile and not any(w in case.tile for w in ("step", "stepka", "stepkb", "deptha")):
        return halves(case, machine, base, size)
    usual = max(1, 512 // (base[2] * size)) if "basic" in case.tile else 1
    both = case.tile.one("step", usual)
    a, b = case.tile.one("stepka", both), case.tile.one("stepkb", 0)
    if not b:
        b = max(1, full_depth(case, machine, base, size) // 2) if "deptha" in case.tile else both
    return (1, 1) if "norm" in case.tile else (a, b)


def halves(case: Case, machine: Machine, base: tuple[int, int, int], size: int) -> tuple[int, int]:
    """Return base blocks along k in a load of A and of B, as the tiling API chooses them where it splits the product: two slots in half of
    L1, rows of whole 512 or 256 bytes, the larger a multiple of the smaller (asc-devkit matmul_tiling_algorithm.cpp, CalcL1Tiling)."""
    m, n, k = base
    found = [max(1, machine.scope("L1").size_bytes // 4 // (x * k * size)) for x in (m, n)]
    for i, step in enumerate(found):
        unit = next((u for u in (512, 256) if step * k * size > u), 0)
        if step * k < case.shape.sizes["k"] and unit and unit % (k * size) == 0:
            found[i] = step - step % (unit // (k * size))
    a, b = found
    return (a // b * b, b) if a >= b else (a, b // a * a)


def full_depth(case: Case, machine: Machine, base: tuple[int, int, int], size: int) -> int:
    """Return blocks of B that fit L1 beside the stated blocks of A."""
    m, n, k = base
    left = machine.scope("L1").size_bytes - case.tile.one("deptha", 1) * m * k * size
    return max(1, left // (n * k * size))


def depths(case: Case, machine: Machine, base: tuple[int, int, int], step: tuple[int, int], size: int) -> tuple[int, int]:
    """Return blocks of A and of B in L1; twice what a load brings where nothing is said, once under Norm."""
    slots = 1 if "norm" in case.tile else 2
    both = case.tile.one("depth", 0)
    a = case.tile.one("deptha", both or slots * step[0])
    b = case.tile.one("depthb", full_depth(case, machine, base, size) if "deptha" in case.tile else both or slots * step[1])
    return (min(a, step[0]), min(b, step[1])) if "norm" in case.tile else (max(a, step[0]), max(b, step[1]))


def grid_of(case: Case, machine: Machine, base: tuple[int, int, int], m: int, n: int) -> tuple[int, int]:
    """Return cores along m and n: as stated, as the share of one core says, else the even split of blocks over the stated cores."""
    down, across = ceil(m / base[0]), ceil(n / base[1])
    if given := case.tile.numbers("grid"):
        return filled(down, given[0]), filled(across, given[1])
    limit = min(case.tile.one("cores", 1 << 30), machine.core("aic" if "aic" in machine.cores else "core").count)
    single = case.tile.numbers("single")
    if len(single) == 3:
        return filled(down, ceil(m / single[0])), filled(across, ceil(n / single[1]))
    return even_grid(down, across, limit)


def filled(blocks: int, parts: int) -> int:
    """Return the parts that get any of so many blocks: an even share of them each, the last what is left."""
    return ceil(blocks / ceil(blocks / parts))


def even_grid(down: int, across: int, cores: int) -> tuple[int, int]:
    """Return the grid whose busiest core has fewest blocks; of equals the one with most cores, then the squarest."""
    pairs = [(filled(down, a), filled(across, cores // a)) for a in range(1, min(down, cores) + 1)]
    return min(pairs, key=lambda g: (ceil(down / g[0]) * ceil(across / g[1]), -g[0] * g[1], abs(g[0] - g[1])))


def round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def vendor_tiling(case: Case, machine: Machine) -> MatmulTiling:
    """Return the row's tiling in the vendor's own fields.

    A share of one core is whole base blocks, in as many L2 blocks as are said; without a grid, a share or a core count, and
    with an L1 tile, base blocks are dealt out to the cores in turn.
    """
    t = tiling(case, machine)
    (m, n, k), s = t.base, case.shape.sizes
    own = case.tile.numbers("single")
    share = (ceil(ceil(s["m"] / m) / t.grid[0] / t.l2) * m, ceil(ceil(s["n"] / n) / t.grid[1]) * n)
    if len(own) == 3:
        share = ceil(own[0] / t.l2), own[1]
    cores = case.tile.one("cores", prod(case.tile.numbers("grid")) if "grid" in case.tile else 0)
    dealt = "l1" in case.tile and not own and "grid" not in case.tile
    if dealt:
        share = m, n
    return MatmulTiling(
        usedCoreNum=cores, singleCoreM=share[0],
        singleCoreN=share[1], baseM=m, baseN=n, baseK=k, depthA1=t.depth[0], depthB1=t.depth[1], stepKa=t.step[0], stepKb=t.step[1],
        l2MTileCnt=1 if dealt else t.l2, **(numbering(case, ceil(s["m"] / m)) if dealt else {}),
        iterateOrder=case.tile.one("order", 0), unitFlag=int(t.unit_flag), kRotate=int("stagger" in case.tile),
        preload=int("preload" in case.tile),
        singleCoreK=ceil(s["k"] / t.split_k) if t.split_k > 1 else 0)


def numbering(case: Case, blocks: int) -> dict[str, int]:
    """Return how dealt blocks are numbered: through groups of as many rows (direction 0) or columns (1) as the swizzle says, else through
    all rows of an L2 block, or one row after another; `blocks`: rows of blocks."""
    group, columns = case.tile.numbers("swizzle") or (ceil(blocks / case.tile.one("l2", blocks)), 0)
    return {"swizzleOffset": max(1, group), "swizzleDirection": int(columns)}


def ahead(trace: Trace) -> Trace:
    """Return the trace with what streams through L1 loaded a turn ahead where no form of ours says so: beside an operand that stays, the
    other."""
    if any(s.primitive == "preload" for s in trace.steps):
        return trace
    slots = {str(s["buffer"]): s["depth"] for s in trace.steps if s.primitive == "double_buffer"}
    more = [Step("preload", (("buffer", name), ("ahead", Int(1)))) for name in ("A_L1", "B_L1") if slots.get(name, Int(1)) != Int(1)]
    return Trace((*trace.steps, *more))


def cube_trace(case: Case, func: Func, machine: Machine) -> Trace:
    """Return the trace of a product with the row's tiling; where cores hold cube and vector both, with holes in how results leave."""
    t = vendor_tiling(case, machine)
    trace = matmul_trace(func, machine, t)
    return ahead(trace) if t.preload else trace


def in_order(case: Case, program: Program, machine: Machine) -> Program:
    """Return the program of a product with its loads in the order in which the vendor's template has them."""
    t = vendor_tiling(case, machine)
    return left_first(program) if "mdl" in case.tile and t.stepKb > t.stepKa else program
