"""The tiling that MatMulV3 takes without tuning: R1 to R10 of docs/stock.md, in order."""
from __future__ import annotations

from dataclasses import dataclass, replace

from aoec.search.stock.base_block import FULL, K_BYTES, block_of
from aoec.search.stock.depths import trim_steps, with_depths
from aoec.search.stock.l2_tiles import with_l2_tiles
from aoec.search.stock.sizes import WAVES_OF, Chip, Product, align, parts
from aoec.search.stock.templates import TEMPLATES
from aoec.search.vendor.vendor import MatmulTiling

FEW_BLOCKS, FEW_ROWS = 96, (128, 672)  # R6: blocks up to which waves are balanced; rows between which fewer of them are tried


@dataclass(frozen=True, slots=True)
class Stated:
    """A tiling and the template that it is of."""

    tiling: MatmulTiling
    template: str = "base"
    rule: str = "R1-R6, R8"


def matmul_tiling(p: Product, chip: Chip) -> Stated:
    """Return the tiling of one product without a batch."""
    block = block_of(p, chip)
    t = MatmulTiling(usedCoreNum=chip.cores, singleCoreM=block.m, singleCoreN=block.n, singleCoreK=p.k, baseM=block.m, baseN=block.n,
                     baseK=block.k)
    t = with_depths(t, p, chip)
    t, failed = with_l2_tiles(t, p, chip)
    if not (chip.is_coupled or p.a_nz and p.b_nz):
        for template in TEMPLATES:
            if template.fits(p, chip, t, failed):
                made = template.tiling(p, chip, t)
                return Stated(recount(made, t, p), template.name, template.rule)
    return Stated(trim_steps(balance_waves(t, p, chip), p, chip))


def recount(t: MatmulTiling, plain: MatmulTiling, p: Product) -> MatmulTiling:
    """Return a template's tiling with all blocks in one L2 tile where the plain one has one; else with the plain one's tiles."""
    if (plain.l2MTileCnt, plain.l2NTileCnt) != (1, 1):
        return t
    return replace(t, l2MTileBlock=parts(p.m, t.singleCoreM), l2NTileBlock=parts(p.n, t.singleCoreN))


def balance_waves(t: MatmulTiling, p: Product, chip: Chip) -> MatmulTiling:
    """Apply R6: choose rows of a block such that the last wave is full. The rule asks for 24 cores."""
    if chip.is_coupled or chip.cores != WAVES_OF or t.baseM * t.baseN != FULL or t.baseK * p.size_bytes != K_BYTES or p.trans_a:
        return t
    rows, columns = parts(p.m, t.baseM), parts(p.n, t.baseN)
    m = t.baseM
    if rows * columns < FEW_BLOCKS:
        count = align(rows * columns, chip.cores) // columns
        m = align(parts(p.m, count))
    elif FEW_ROWS[0] < p.m <= FEW_ROWS[1]:
        while m > 16 and parts(p.m, m - 16) == rows:
            m -= 16
    if m == t.baseM:
        return t
    blocks, t = parts(p.m, m), replace(t, baseM=m, singleCoreM=m)
    return replace(t, l2MTileBlock=blocks) if t.l2MTileCnt == 1 else replace(t, l2MTileCnt=parts(blocks, t.l2MTileBlock))
