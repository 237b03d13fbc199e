"""MatMulV3's templates: rule R7, the first whose condition holds, else the plain one.

Three rules are not built. R7.3 (single-core split-K with all of A in L1) has a search that is not described. The second is the 2x4 variant
of R7.6. R5 (decode shapes) takes its tiling from a closed engine. Shapes of these rules take the next template that fits.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from aoec.search.stock.depths import needs_fractals
from aoec.search.stock.sizes import Chip, Product, align, is_aligned, parts
from aoec.search.vendor.vendor import ORDER_N, MatmulTiling

BLOCK, LONG = 128, 3  # of the 3x3 tile: a side of its base block, and base blocks in L1 along m, and along k
SPLIT_K_BYTES, SPLIT_DEPTH = 256, (9, 6)
WIDEST_SPLIT = 3072  # columns of a core in single-core split-K
SHORT_N = (32, 64, 96, 128, 160, 192, 224, 256, 384)
LONG_K = 27392
BY_ROWS = 1  # l2IterateOrder of full-load templates: column first


@dataclass(frozen=True, slots=True)
class Template:
    """A template of R7: its name, the rule, when it is taken (by product, chip, plain tiling, whether the L2 search failed), its tiling."""

    name: str
    rule: str
    fits: Callable[[Product, Chip, MatmulTiling, bool], bool]
    tiling: Callable[[Product, Chip, MatmulTiling], MatmulTiling]


# ---------------------------------------------------------------- B, or A, whole in L1

def aligned_output(p: Product, chip: Chip, t: MatmulTiling, failed: bool) -> bool:
    """Return whether R7.1 holds: there are few columns, and their number is neither a multiple nor a divisor of a burst of the result."""
    burst = 256 // p.out_bytes
    odd = p.n < 256 and p.k <= 256 and p.n % burst > 0 and burst % p.n > 0
    rows = p.m >= 512 * chip.cores and not (p.n * p.size_bytes < 32 and p.k * p.size_bytes < 32)
    short = p.out_bytes != 2 or not p.trans_a and (is_aligned(p.k * p.size_bytes) or p.k * p.size_bytes < 256)
    return odd and rows and short


def tile_aligned_output(p: Product, chip: Chip, t: MatmulTiling) -> MatmulTiling:
    """Return all of B in L1, blocks of rows as high as L0C and UB allow."""
    n = align(p.n)
    m = max(128, min(chip.l0c // (4 * n), chip.ub // 256 // p.out_bytes) // 16 * 16)
    half = chip.l0 // 2 // p.size_bytes  # the description has no base k: what fits beside such a block in L0
    k = max(16, min(t.baseK, align(p.k), half // max(m, n) // 16 * 16))
    steps = parts(p.k, k)
    left = chip.l1 - n * align(p.k) * p.size_bytes
    depth, step = (8, 4) if 8 * m * k * p.size_bytes <= left and steps >= 4 else (min(4, steps), min(4, steps))
    return replace(t, baseM=m, baseN=n, baseK=k, singleCoreM=m, singleCoreN=p.n, stepKa=step, depthA1=depth, stepKb=steps, depthB1=steps,
                   dbL0C=1)


def whole_left(p: Product, chip: Chip, t: MatmulTiling, failed: bool) -> bool:
    """Return whether R7.2 holds: a row or few of fp32 against a long transposed B."""
    shape = p.m <= 16 < p.n <= 16 * chip.cores and p.k >= 4096 and p.k % 128 == 0
    return p.size_bytes == 4 and not p.trans_a and p.trans_b and shape and 16 * p.k * p.size_bytes < chip.l1


def tile_whole_left(p: Product, chip: Chip, t: MatmulTiling) -> MatmulTiling:
    """Return all of A in L1."""
    steps = parts(p.k, 256)
    return replace(t, baseM=16, baseN=16, baseK=256, singleCoreM=min(p.m, 16), singleCoreN=16, stepKa=steps, depthA1=steps, stepKb=1,
                   depthB1=2, dbL0C=2)


def whole_right(p: Product, chip: Chip, t: MatmulTiling, failed: bool) -> bool:
    """Return whether R7.4 holds: many rows, few columns and a short k. Its second case (n = k = 512) is not built."""
    rows = not p.trans_b or p.k * p.size_bytes in SHORT_N
    return p.m > 16 * max(p.k, p.n) and p.k <= 256 and p.n in SHORT_N and not needs_fractals(p, "b") and rows


def tile_whole_right(p: Product, chip: Chip, t: MatmulTiling) -> MatmulTiling:
    """Return all of B in L1, two blocks of rows a core, A in two slots of all k."""
    steps = parts(p.k, t.baseK)
    two = 2 * t.baseM * t.baseN * 4 <= chip.l0c
    return replace(t, singleCoreM=2 * t.baseM, singleCoreN=p.n, stepKa=steps, depthA1=2 * steps, stepKb=steps, depthB1=steps,
                   dbL0C=2 if two else 1, l2IterateOrder=BY_ROWS)


# ---------------------------------------------------------------- split-K

def three_by_three(p: Product, t: MatmulTiling) -> MatmulTiling:
    """Return the 3x3 tile."""
    k = SPLIT_K_BYTES // p.size_bytes
    return replace(t, baseM=BLOCK, baseN=BLOCK, baseK=k, stepM=LONG, stepN=1, stepKa=LONG, stepKb=LONG, depthA1=SPLIT_DEPTH[0],
                   depthB1=SPLIT_DEPTH[1], iterateOrder=ORDER_N, singleCoreK=LONG * k, dbL0C=2)


def one_core_split(p: Product, chip: Chip, t: MatmulTiling, failed: bool) -> bool:
    """Return whether R7.6 holds: k is so long, or the product so large, that a core goes through k in pieces and keeps its sums in GM."""
    large = failed and p.m * p.k >= 737280 and p.m >= 384 <= p.k and p.n >= 1024 and p.m * p.n >= 393216 * chip.cores
    wide = p.trans_a and not p.trans_b and is_aligned(p.n * p.size_bytes) and p.k >= 11000 and any(
        a % 8192 == 0 and b >= 6144 for a, b in ((p.m, p.n), (p.n, p.m)))
    square = not p.trans_a and p.trans_b and p.size_bytes == 2 and not (p.a_nz or p.b_nz) and p.k % 16384 == 0 and chip.cores == 24 \
        and all(1280 <= x <= 8192 for x in (p.m, p.n)) and not needs_fractals(p, "b")
    short = is_narrow_split(p, chip)
    if not (p.k >= LONG_K or large or wide or square or short):
        return False
    return short or p.size_bytes == 4 and p.n <= 64 or not is_vetoed(p, chip, t)


def is_narrow_split(p: Product, chip: Chip) -> bool:
    """Return the case of k = 1536 in R7.6."""
    sides = any(a == 384 and b >= 49152 for a, b in ((p.m, p.n), (p.n, p.m)))
    return not p.a_nz and p.k == 1536 and sides and not (p.m % 128 or p.n % 128) and 4 * p.m * p.n * 100 <= 65 * chip.l2


def is_vetoed(p: Product, chip: Chip, t: MatmulTiling) -> bool:
    """Return whether cores would have too little to do."""
    tiling = tile_one_core_split(p, chip, t)
    share = p.m * p.n / (tiling.singleCoreM * tiling.singleCoreN * chip.cores)
    middle = is_aligned(p.n * p.size_bytes) and 896 <= p.n <= 2048 and (tiling.singleCoreN <= 640 or share < 0.85)
    return tiling.singleCoreN < 512 or share < 0.7 or middle


def tile_one_core_split(p: Product, chip: Chip, t: MatmulTiling) -> MatmulTiling:
    """Return the 3x3 tile on a grid: n in parts of at most 3072, as many as divide the cores, and m in the rest."""
    least = parts(p.n, WIDEST_SPLIT)
    columns = next((d for d in range(least, chip.cores + 1) if chip.cores % d == 0), chip.cores)
    rows = chip.cores // columns
    return replace(three_by_three(p, t), singleCoreM=align(parts(p.m, rows), LONG * BLOCK if p.m < LONG * BLOCK * rows else BLOCK),
                   singleCoreN=align(parts(p.n, columns), BLOCK))


def cores_split(p: Product, chip: Chip, t: MatmulTiling, failed: bool) -> bool:
    """Return whether R7.7 holds: there are few blocks, so cores share k."""
    blocks = parts(p.m, BLOCK) * parts(p.n, BLOCK)
    few = p.k >= 384 * chip.cores and blocks < chip.cores / 2 and (p.trans_a or not p.trans_b)
    tiny = p.size_bytes == 4 and p.m <= 64 >= p.n and p.k >= 6144
    turned = 1000 <= p.k <= 4608 and p.m <= 256 >= p.n and p.trans_a and not p.trans_b
    full = blocks / (parts(blocks, chip.cores) * chip.cores) > 0.8
    enough = parts(p.m, BLOCK) >= 4 <= parts(p.n, BLOCK) and not is_aligned(p.n * p.size_bytes) and full
    return few or tiny or turned or p.k >= LONG_K and not enough


def tile_cores_split(p: Product, chip: Chip, t: MatmulTiling) -> MatmulTiling:
    """Return the 3x3 tile, n whole and m in steps of three blocks; where m is the longer side and its bursts are whole, the other way
    round."""
    tiling = three_by_three(p, t)
    used = min(parts(p.k, tiling.singleCoreK), chip.cores)
    if p.size_bytes == 4 and p.m <= 64 >= p.n:
        used = min(chip.cores, 8 + (p.k - 6144) // 1024 + parts(p.m, 16) + parts(p.n, 16))
    long = LONG * BLOCK
    swap = p.m > p.n and is_aligned(p.inner_a) and is_aligned(p.inner_b)
    m, n = (p.m, long) if swap else (long, p.n)
    return replace(tiling, usedCoreNum=used, singleCoreM=align(m), singleCoreN=align(n))


TEMPLATES = (
    Template("B full load, aligned output", "R7.1", aligned_output, tile_aligned_output),
    Template("A full load", "R7.2", whole_left, tile_whole_left),
    Template("B full load", "R7.4", whole_right, tile_whole_right),
    Template("single-core split-K", "R7.6", one_core_split, tile_one_core_split),
    Template("multi-core split-K", "R7.7", cores_split, tile_cores_split),
)
