"""MatMulV3's L2 tiles: the search of R7.5, and 310P's rule R7.8."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from aoec.search.stock.sizes import Chip, Product, parts
from aoec.search.vendor.vendor import MatmulTiling


def with_l2_tiles(t: MatmulTiling, p: Product, chip: Chip) -> tuple[MatmulTiling, bool]:
    """Return (the tiling with its L2 tiles, whether the search of them failed)."""
    rows, columns = parts(p.m, t.singleCoreM), parts(p.n, t.singleCoreN)
    if chip.is_coupled:
        return cut_tiles(t, rows, columns, min(chip.cores // 2, rows), min(2, columns)), False
    if p.bytes <= chip.l2_limit:
        return cut_tiles(t, rows, columns, rows, columns), False
    found = min(fitting(t, p, chip, rows, columns), default=None)
    if found is not None:
        return cut_tiles(t, rows, columns, found[1], found[2]), False
    wide = columns > 4  # else n has not enough blocks for the long side
    sides = (4, chip.cores // 4) if wide else (chip.cores // 4, 4)
    return cut_tiles(t, rows, columns, min(sides[0], rows), min(sides[1], columns)), True


def cut_tiles(t: MatmulTiling, rows: int, columns: int, m: int, n: int) -> MatmulTiling:
    """Return the tiling with L2 tiles of m x n of its blocks."""
    return replace(t, l2MTileBlock=m, l2NTileBlock=n, l2MTileCnt=parts(rows, m), l2NTileCnt=parts(columns, n))


def fitting(t: MatmulTiling, p: Product, chip: Chip, rows: int, columns: int) -> Iterator[tuple[int, int, int]]:
    """Yield (sharing, m, n) of each L2 tile whose operands and result stay below the limit, and whose last one has enough blocks a side.

    The public description leaves open how sharing is counted. Here it is how many cores ask for one block of a side, in a whole tile and
    in the last one. The least side of an inner dimension is a quarter of the cores.
    """
    least = chip.cores // (5 if chip.cores == 20 else 6)
    least_m, least_n = chip.cores // 4 if p.trans_a else least, least if p.trans_b else chip.cores // 4
    for m in range(least_m, rows + 1):
        last_m = last(rows, m)
        if last_m < least_m:
            continue
        for n in range(least_n, columns + 1):
            last_n = last(columns, n)
            tile = replace(p, m=min(p.m, m * t.singleCoreM), n=min(p.n, n * t.singleCoreN))
            if last_n >= least_n and tile.bytes < chip.l2_limit:
                yield sum(parts(chip.cores, x) for x in (m, last_m, n, last_n)), m, n


def last(count: int, each: int) -> int:
    """Return blocks in the last tile of an axis."""
    return count % each or each
