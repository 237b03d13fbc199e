"""BatchMatMulV3 without tuning: what becomes of MatMulV3's tiling where there are several products (section 1 of docs/stock.md)."""
from __future__ import annotations

from dataclasses import dataclass, replace

from aoec.search.stock.base_block import FULL
from aoec.search.stock.matmul_rules import matmul_tiling
from aoec.search.stock.sizes import Chip, Product, align, parts
from aoec.search.vendor.vendor import MatmulTiling

LOADED = 32768  # bytes of an operand's base block: half of L0A or L0B
LITTLE_USE = 0.6  # of the cores


@dataclass(frozen=True, slots=True)
class Batched:
    """A tiling of each product, how many of them a core brings to L1 at once, and cores in use; `rule` in words."""

    tiling: MatmulTiling
    at_once: int = 1
    cores: int = 0
    rule: str = "BatchMatMulV3"


def batch_tiling(p: Product, chip: Chip) -> Batched:
    """Return the tiling of a batch of products; of one where B is shared and A plain, with the batch folded into m (910B)."""
    if p.batch == 1 or not (p.b_batched or p.trans_a or chip.is_coupled):
        found = matmul_tiling(replace(p, m=p.m * p.batch, batch=1), chip)
        return Batched(found.tiling, 1, found.tiling.usedCoreNum, f"MatMulV3 {found.rule} ({found.template})")
    plain = matmul_tiling(p, chip).tiling
    t = replace(plain, singleCoreK=p.k, stepM=1, stepN=1, usedCoreNum=chip.cores)
    if not is_kept(plain, p):
        t = retune(t, p, chip)
    if p.b_batched and (count := matrices_at_once(p, chip)) > 1:
        return Batched(t, count, min(parts(p.batch, count), chip.cores), "BatchMatMulV3, several matrices at once")
    return Batched(t, 1, chip.cores, "BatchMatMulV3")


def is_kept(t: MatmulTiling, p: Product) -> bool:
    """Return whether MatMulV3's tiling stands: a whole base block of a large product, or one with L2 tiles."""
    large = t.baseM in (128, 256) and t.baseN in (128, 256) and p.m >= 256 and p.n > 256
    return large or t.l2MTileCnt * t.l2NTileCnt > 1


def matrices_at_once(p: Product, chip: Chip) -> int:
    """Return how many A and B one core brings to L1 together: an even number, or one."""
    size = (align(p.m) + align(p.n)) * align(p.k) * p.size_bytes
    return max(1, min(chip.l1 // size, p.batch // chip.cores) // 2 * 2)


def retune(t: MatmulTiling, p: Product, chip: Chip) -> MatmulTiling:
    """Return the tiling with a base block for small products, and half of L1 for each operand in steps of whole fours."""
    m, n = base_of(p, 1)
    if p.size_bytes == 2:
        other = base_of(p, 2)
        used, others = (min(1.0, p.batch * parts(p.m, a) * parts(p.n, b) / chip.cores) for a, b in ((m, n), other))
        if used < LITTLE_USE and others > used or 1 / other[0] + 1 / other[1] < 1 / m + 1 / n:
            m, n = other
    k = min(max(16, LOADED // p.size_bytes // max(m, n) // 16 * 16), align(p.k))
    depth_a, depth_b = (max(2, chip.l1 // 2 // (x * k * p.size_bytes) // 4 * 4) for x in (m, n))
    return replace(t, baseM=m, baseN=n, baseK=k, singleCoreM=m, singleCoreN=n, depthA1=depth_a, depthB1=depth_b, stepKa=depth_a // 2,
                   stepKb=depth_b // 2, dbL0C=1)


def base_of(p: Product, half: int) -> tuple[int, int]:
    """Return rows and columns of a base block, from limits that are parted by `half`. Where both are too many for L0C, columns are halved:
    the public description gives the limit and no order."""
    most_m = (2048 if p.k < 32 else 1024) // p.size_bytes // half
    most_n = (1024 if p.trans_b and p.k >= 32 else 2048) // p.size_bytes // half
    m = min(power(p.m), most_m) if p.trans_a else align(parts(p.m, parts(p.m, most_m)))
    n = min(power(p.n), most_n)
    while m * n > FULL and n > 16:
        n //= 2
    return m, n


def power(extent: int) -> int:
    """Return the smallest power of two from 16 that has room for an extent."""
    return max(16, 1 << (extent - 1).bit_length())
