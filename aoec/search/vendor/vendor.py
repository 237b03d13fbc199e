"""The vendor's own tilings as traces: matrix products.

The fields are those of a run-time knowledge bank of the vendor (MatMulV3) and of TCubeTiling, by their own names. What a tiling
leaves open is decided as the vendor's kernels do it; where our words differ, the docstrings say how.
"""
from __future__ import annotations

from dataclasses import dataclass, replace

from aoec.base.errors import UnsupportedError
from aoec.ir.func.tir import Func
from aoec.ir.index import DTYPES
from aoec.ir.rewrite import fill
from aoec.ir.schedule import Trace
from aoec.search.sketches.nests import Nest, find_product
from aoec.search.sketches.plan import factors
from aoec.search.sketches.sketches_matmul import Form, matmul_sketch
from aoec.target.machine import Machine

FLAGS = 5  # ids between MTE2 and MTE1 for slots of A and B together; one is left for a bias
ORDER_M, ORDER_N = 0, 1  # iterateOrder: which of m and n is walked first, that is, inside
WALKS = ("diagonal", "rows", "columns")  # l2IterateOrder: how cores take the blocks of an L2 tile


@dataclass(frozen=True, slots=True)
class MatmulTiling:
    """A tiling of C[m, n] += A[m, k] * B[k, n]; 0 leaves a field to the rule of `legal_matmul`.

    Elements: singleCoreM/N/K (a core's block), baseM/N/K (L0 block). Base blocks: stepM/N and stepKa/Kb (in one L1 tile of A or B),
    depthA1, depthB1 (in L1 altogether: steps times slots). Slots: dbL0A, dbL0B, dbL0C. l2MTileCnt, l2NTileCnt: L2 tiles along m and n;
    they are walked along n, every other row of tiles backwards. l2MTileBlock, l2NTileBlock: single-core blocks in an L2 tile.
    l2IterateOrder (WALKS): 0 deals the blocks of a tile to the cores in turn along its diagonals, and goes on with the next core in the
    next tile; 1 and 2 give each core a run of them, by rows or by columns. A tile block of 0 is no such walk: a block a core, on a grid,
    and all cores work on one L2 tile before they go on.
    Not in a bank record, but choices of the vendor's kernels: unitFlag (L0C is drained in granules), kRotate (cores start along k at
    different chunks), preload (chunks of k by which loads are ahead, where those of A and B are equal), swizzleOffset, swizzleDirection
    (of CATLASS: blocks are numbered in groups of so many rows (0) or columns (1), and dealt to the cores in turn). A singleCoreK below k
    is split-K: cores add their parts in GM, of a result in the dtype of sums.
    """

    usedCoreNum: int = 0
    singleCoreM: int = 0
    singleCoreN: int = 0
    singleCoreK: int = 0
    baseM: int = 128
    baseN: int = 256
    baseK: int = 64
    depthA1: int = 0
    depthB1: int = 0
    stepM: int = 1
    stepN: int = 1
    iterateOrder: int = ORDER_M
    stepKa: int = 1
    stepKb: int = 1
    dbL0A: int = 2
    dbL0B: int = 2
    dbL0C: int = 1
    l2MTileCnt: int = 1
    l2NTileCnt: int = 1
    l2MTileBlock: int = 0
    l2NTileBlock: int = 0
    l2IterateOrder: int = 0
    unitFlag: int = 0
    kRotate: int = 0
    preload: int = 0
    swizzleOffset: int = 0
    swizzleDirection: int = 0


def matmul_trace(func: Func, machine: Machine, tiling: MatmulTiling) -> Trace:
    """Return the trace of a tiling, legalised to the func; it has no holes. UnsupportedError where no form of ours says it."""
    form, values = matmul_choice(func, machine, tiling)
    return fill(matmul_sketch(func, product(func), machine, form), values)


def product(func: Func) -> Nest:
    """Return the product block of a matmul func."""
    mm = find_product(func)
    if mm is None or factors(mm)[0].buffer not in {b.name for b in func.inputs}:
        raise UnsupportedError(f"func {func.name} is no matrix product")
    return mm


def matmul_choice(func: Func, machine: Machine, tiling: MatmulTiling) -> tuple[Form, dict[str, int]]:
    """Return (form, values of its holes) of a tiling."""
    mm = product(func)
    sizes = {x: mm.extent(loop.var) for x, loop in zip("mnk", mm.loops[-3:])}
    t = legal_matmul(tiling, sizes, DTYPES[func.inputs[0].dtype], machine)
    form = form_of(t, sizes)
    values = {"uf": t.unitFlag, "sc": t.singleCoreK,
              "tm": t.baseM, "tn": t.baseN, "tk": t.baseK, "pm": t.stepM, "pn": t.stepN, "sm": t.singleCoreM, "sn": t.singleCoreN,
              "da": t.depthA1 // (t.stepM * t.stepKa), "db": t.depthB1 // (t.stepN * t.stepKb), "d0a": t.dbL0A, "d0b": t.dbL0B,
              "dc": t.dbL0C, "lm": t.l2MTileCnt, "ln": t.l2NTileCnt, "cores": t.usedCoreNum, "pl": t.preload, "sk": min(t.stepKa, t.stepKb),
              "rk": max(t.stepKa, t.stepKb) // min(t.stepKa, t.stepKb), "so": t.swizzleOffset,
              "bm": t.l2MTileBlock, "bn": t.l2NTileBlock}
    if form.resident != "none":
        values["sk"] = t.stepKb if form.resident == "left" else t.stepKa
    return form, values | {f"g{loop.var}": 1 for loop in mm.loops[:-3]}


def form_of(t: MatmulTiling, sizes: dict[str, int]) -> Form:
    """Return the structure that a legalised tiling asks for."""
    whole_a, whole_b = (t.baseK * step >= t.singleCoreK for step in (t.stepKa, t.stepKb))
    resident = "both" if whole_a and whole_b else "left" if whole_a else "right" if whole_b else "none"
    inside = "m" if t.iterateOrder == ORDER_M else "n"
    if whole_a and t.baseM * t.stepM >= t.singleCoreM:
        inside = "n"  # all of a core's A is in L1: it is brought there once
    elif whole_b and t.baseN * t.stepN >= t.singleCoreN:
        inside = "m"
    cut = [x for x, count in (("m", t.l2MTileCnt), ("n", t.l2NTileCnt)) if count > 1]
    spread = "deal " + "mn"[t.swizzleDirection] if t.swizzleOffset else f"walk {WALKS[t.l2IterateOrder]}" if t.l2MTileBlock else "single"
    l2 = "".join(cut) if spread == "single" else ""
    steps = ("m" if t.stepM > 1 else "") + ("n" if t.stepN > 1 else "")
    larger = "" if t.stepKa == t.stepKb else "left" if t.stepKa > t.stepKb else "right"
    return Form(resident, inside, larger, steps, l2, spread, bool(t.kRotate) and resident == "none", t.singleCoreK < sizes["k"])


# ---------------------------------------------------------------- legalising

def legal_matmul(t: MatmulTiling, sizes: dict[str, int], size_bytes: int, machine: Machine) -> MatmulTiling:
    """Return the tiling as this shape takes it: nothing beyond the shape, steps of k in whole ratios, slots that are there, blocks for
    cores."""
    unit = 32 // size_bytes
    base = {"m": up(min(t.baseM, sizes["m"]), 16), "n": up(min(t.baseN, sizes["n"]), 16), "k": up(min(t.baseK, sizes["k"]), unit)}
    single_k = up(min(t.singleCoreK or sizes["k"], sizes["k"]), max(unit, 16)) if t.singleCoreK else sizes["k"]
    chunks = -(-single_k // base["k"])
    step_a, step_b = max(1, min(t.stepKa, chunks)), max(1, min(t.stepKb, chunks))
    if max(step_a, step_b) < chunks:  # one that lies in L1 along all of k is no multiple of anything
        step_a, step_b = ratio(step_a, step_b)
    step_m = t.stepM if step_a >= chunks else 1  # several blocks of m in L1 stay there only with all of their k
    step_n = t.stepN if step_b >= chunks else 1
    slots_a, slots_b = slots(t.depthA1, t.stepM * t.stepKa), slots(t.depthB1, t.stepN * t.stepKb)
    if slots_a + slots_b > FLAGS:
        slots_a, slots_b = min(slots_a, 2), min(slots_b, 2)
    if sizes["k"] % single_k or single_k % (base["k"] * max(step_a, step_b)):
        t = replace(t, kRotate=0)  # chunks of k that are not alike cannot change places
    t = replace(t, singleCoreK=min(single_k, sizes["k"]),
                baseM=base["m"], baseN=base["n"], baseK=base["k"], stepKa=step_a, stepKb=step_b, stepM=step_m, stepN=step_n,
                depthA1=slots_a * step_m * step_a, depthB1=slots_b * step_n * step_b)
    return dealt_out(t, sizes, machine)


def up(value: int, unit: int) -> int:
    """Return `value` rounded up to a multiple of the unit."""
    return -(-value // unit) * unit


def ratio(a: int, b: int) -> tuple[int, int]:
    """Return the two with the larger one rounded down to a multiple of the smaller."""
    return (a // b * b, b) if a >= b else (a, b // a * a)


def slots(depth: int, blocks: int) -> int:
    """Return the whole slots of `blocks` base blocks each in a depth, 1 to 4. A depth of 0 is two slots."""
    return min(4, max(1, depth // blocks)) if depth else 2


def dealt_out(t: MatmulTiling, sizes: dict[str, int], machine: Machine) -> MatmulTiling:
    """Return the tiling with its blocks on cores: numbered in groups as CATLASS does, walked by L2 tiles, or on a grid. A walk along the
    diagonals of one tile that has at most a block for each core is a grid."""
    cores = machine.core("aic" if "aic" in machine.cores else "core").count
    used = min(t.usedCoreNum or cores, cores) // -(-sizes["k"] // t.singleCoreK)
    if used < 1:
        raise UnsupportedError(f"k = {sizes['k']} in parts of {t.singleCoreK} takes more than {cores} cores; use a larger singleCoreK")
    single = {"m": up(min(t.singleCoreM or sizes["m"], sizes["m"]), 16), "n": up(min(t.singleCoreN or sizes["n"], sizes["n"]), 16)}
    blocks = {x: -(-sizes[x] // single[x]) for x in "mn"}
    whole = {x: sizes[x] if blocks[x] == 1 else single[x] for x in "mn"}  # an axis of one block has no shorter last one
    t = replace(t, usedCoreNum=used)
    if t.swizzleOffset and all(sizes[x] % whole[x] == 0 for x in "mn"):
        return in_groups(t, whole, blocks)
    t = replace(t, singleCoreM=single["m"], singleCoreN=single["n"], swizzleOffset=0)
    if not t.l2MTileBlock or t.singleCoreK < sizes["k"]:
        return on_a_grid(t, sizes, blocks)
    walked = walked_out(t, blocks)
    if blocks["m"] * blocks["n"] > used:
        return walked
    if one_row(blocks) and any(sizes[x] % whole[x] for x in "mn"):  # each block on a core of its own, of which the last has less to do
        return on_a_grid(replace(walked, l2IterateOrder=0, l2MTileCnt=1, l2NTileCnt=1), sizes, blocks)
    return on_a_grid(walked, sizes, blocks) if (walked.l2IterateOrder, walked.l2MTileCnt, walked.l2NTileCnt) == (0, 1, 1) else walked


def one_row(blocks: dict[str, int]) -> bool:
    """Return whether blocks are one row or one column, of which every walk is the plain one."""
    return min(blocks.values()) == 1


def in_groups(t: MatmulTiling, block: dict[str, int], blocks: dict[str, int]) -> MatmulTiling:
    """Return the tiling with its equal blocks numbered in groups of whole rows or columns."""
    return replace(t, usedCoreNum=min(t.usedCoreNum, blocks["m"] * blocks["n"]), singleCoreM=block["m"], singleCoreN=block["n"],
                   swizzleOffset=divisor(blocks["mn"[t.swizzleDirection]], t.swizzleOffset), l2MTileBlock=0, l2NTileBlock=0)


def walked_out(t: MatmulTiling, blocks: dict[str, int]) -> MatmulTiling:
    """Return the tiling with its blocks walked by L2 tiles."""
    if t.l2IterateOrder >= len(WALKS):
        raise UnsupportedError(f"l2IterateOrder {t.l2IterateOrder}: the vendor's kernels have 0 to {len(WALKS) - 1}")
    side = {x: tile_side(blocks[x], cuts, block) for x, cuts, block in (
        ("m", t.l2MTileCnt, t.l2MTileBlock), ("n", t.l2NTileCnt, t.l2NTileBlock))}
    return replace(t, usedCoreNum=min(t.usedCoreNum, blocks["m"] * blocks["n"]), l2MTileBlock=side["m"], l2NTileBlock=side["n"],
                   l2MTileCnt=-(-blocks["m"] // side["m"]), l2NTileCnt=-(-blocks["n"] // side["n"]))


def tile_side(count: int, cuts: int, block: int) -> int:
    """Return blocks of an axis in an L2 tile: what is said where so many tiles of it hold all blocks and none is empty, else an even
    cut."""
    return min(block, count) if (cuts - 1) * block < count <= cuts * block else -(-count // cuts)


def on_a_grid(t: MatmulTiling, sizes: dict[str, int], blocks: dict[str, int]) -> MatmulTiling:
    """Return the tiling with one block of each L2 tile for a core. Where there are more, a core's share becomes a rectangle of them, as
    even as the core count allows."""
    cut = {"m": t.l2MTileCnt, "n": t.l2NTileCnt}
    single = {"m": t.singleCoreM, "n": t.singleCoreN}
    grid = {x: -(-blocks[x] // cut[x]) for x in "mn"}
    if grid["m"] * grid["n"] > t.usedCoreNum:
        share = rectangle(grid["m"], grid["n"], t.usedCoreNum)
        single = {x: up(min(single[x] * n, sizes[x]), 16) for x, n in zip("mn", share)}
    cut = {x: min(cut[x], -(-sizes[x] // single[x])) for x in "mn"}
    return replace(t, singleCoreM=single["m"], singleCoreN=single["n"], l2MTileCnt=cut["m"], l2NTileCnt=cut["n"],
                   l2MTileBlock=0, l2NTileBlock=0)


def divisor(count: int, most: int) -> int:
    """Return the largest divisor of `count` up to `most`."""
    return max(d for d in range(1, max(1, min(most, count)) + 1) if count % d == 0)


def rectangle(m: int, n: int, cores: int) -> tuple[int, int]:
    """Return (blocks of m, blocks of n) of a core's rectangle: the fewest blocks in the fullest, then the squarest."""
    grids = [(gm, cores // gm) for gm in range(1, cores + 1)]
    shares = [(-(-m // gm), -(-n // gn)) for gm, gn in grids]
    return min(shares, key=lambda s: (s[0] * s[1], s[0] + s[1]))
