"""MatMulV3's base block: rules R1 to R3 of docs/stock.md. The block is (rows, columns, bytes of k); the rules are in our own words.

A block of 128 x 256 (310P: 256 x 256) stands at first. Transposed operands turn it, and a shape with fewer blocks than cores, or with a
side below 256, has it shrunk.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aoec.search.stock.sizes import Chip, Product, align, is_aligned, parts

K_BYTES = 128
PLAIN = {"910B": ((128, 256, 128), (128, 128, 256), (64, 512, 64)),
         "310P": ((16, 16, 2048), (32, 32, 1024), (64, 64, 512), (128, 128, 256), (256, 256, 128))}
TURNED = {"910B": ((64, 64, 512), (128, 128, 256), (128, 256, 128)), "310P": PLAIN["310P"]}
WIDE = 256  # columns, and bytes of an aligned burst
FULL = 32768  # elements of L0C's base block in fp32: 128 KB


@dataclass(frozen=True, slots=True)
class Block:
    """Rows, columns and extent of k of a base block, in elements."""

    m: int
    n: int
    k: int

    @property
    def area(self) -> int:
        return self.m * self.n


def block_of(p: Product, chip: Chip) -> Block:
    """Return the base block of a product."""
    first = turn(p, chip)
    if not is_small(p, chip):
        return first
    return cap(small(p, chip, first), p, chip)


def turn(p: Product, chip: Chip) -> Block:
    """Return the block of R1 and R2: the plain one, or on 910B the one that transposed operands ask for."""
    k = K_BYTES // p.size_bytes
    plain, tall = Block(chip.rows, WIDE, k), Block(WIDE, 128, k)
    if chip.is_coupled or not (p.trans_a or p.trans_b):
        return plain
    if p.trans_a and p.trans_b:
        return tall
    if p.b_nz:
        return plain
    big_m, big_n = (x >= chip.cores // 2 * WIDE for x in (p.m, p.n))
    if big_m and big_n:
        return tall if sides_brought(p, tall) < sides_brought(p, plain) else plain
    if big_m or big_n:
        return tall if big_m else plain
    return tall if p.m > p.n else plain


def sides_brought(p: Product, b: Block) -> int:
    """Return rows and columns that blocks bring, all together, each as long as k."""
    return parts(p.m, b.m) * p.n + parts(p.n, b.n) * p.m


def is_small(p: Product, chip: Chip) -> bool:
    """Return whether a shape has fewer blocks than there are cores, or a side below 256."""
    return parts(p.m, chip.rows) * parts(p.n, WIDE) < chip.cores or p.m < WIDE or p.n < WIDE


def small(p: Product, chip: Chip, first: Block) -> Block:
    """Return the block of R3 a to c, of a small shape, by what is transposed."""
    whole_a, whole_b = is_aligned(p.inner_a), is_aligned(p.inner_b)
    if p.trans_a and p.trans_b:
        return with_both_turned(p, chip, first, whole_a, whole_b)
    if p.trans_a:
        return with_left_turned(p, chip, first, whole_a, whole_b)
    if p.trans_b:
        if not (whole_a and whole_b):  # both have k inside
            return balance(p, chip)
        return cheapest([share_evenly(p, chip, c) for c in candidates(p, TURNED[chip.product])], p, chip)
    if not (whole_a or whole_b):
        return balance(p, chip)
    if not whole_a:
        return Block(filling_rows(p, chip, WIDE, chip.rows), WIDE, K_BYTES // p.size_bytes)
    found = candidates(p, PLAIN[chip.product])
    best = cheapest([Block(filling_rows(p, chip, c.n, c.m), c.n, c.k) for c in found], p, chip)
    if whole_b:
        return best
    caps = next(c for c in found if (c.n, c.k) == (best.n, best.k))
    return share_evenly(p, chip, Block(caps.m, caps.n, K_BYTES // p.size_bytes))


def candidates(p: Product, table: Sequence[tuple[int, int, int]]) -> list[Block]:
    """Return the blocks of a table, whose third number is bytes of k."""
    return [Block(m, n, k // p.size_bytes) for m, n, k in table]


def filling_rows(p: Product, chip: Chip, columns: int, most: int) -> int:
    """Return rows of a block of so many columns with which m comes to as many blocks as cores are left for."""
    return min(align(max(1, p.m // max(1, chip.cores // parts(p.n, columns)))), most)


def filling_columns(p: Product, chip: Chip, rows: int, most: int) -> int:
    """Return columns of a block of so many rows with which n comes to as many blocks as cores are left for."""
    return min(align(max(1, p.n // max(1, chip.cores // parts(p.m, rows)))), most)


def cheapest(blocks: Sequence[Block], p: Product, chip: Chip) -> Block:
    """Return the first block with the least sides times waves."""
    return min(blocks, key=lambda b: (b.m + b.n) * parts(parts(p.m, b.m) * parts(p.n, b.n), chip.cores))


def share_evenly(p: Product, chip: Chip, most: Block) -> Block:
    """Return the block of R3 d. The side with more blocks is cut into as many parts as cores are left for."""
    rows, columns = parts(p.m, most.m), parts(p.n, most.n)
    m, n = most.m, most.n
    if rows >= columns:
        m = min(align(parts(p.m, max(1, chip.cores // columns))), most.m)
    else:
        n = min(align(parts(p.n, max(1, chip.cores // rows))), most.n)
    return Block(min(m, align(p.m)), min(n, align(p.n)), most.k)


def with_left_turned(p: Product, chip: Chip, first: Block, whole_a: bool, whole_b: bool) -> Block:
    """Return the block of R3 b: only A is transposed."""
    if not (whole_a or whole_b):
        return balance(p, chip)
    if not whole_a:
        return Block(filling_rows(p, chip, first.n, chip.rows), first.n, first.k)
    return first if whole_b else Block(first.m, filling_columns(p, chip, first.m, WIDE), first.k)


def with_both_turned(p: Product, chip: Chip, first: Block, whole_a: bool, whole_b: bool) -> Block:
    """Return the block of R3 c: both are transposed, so that m and k are inside."""
    if not whole_a:
        return balance(p, chip) if whole_b else share_evenly(p, chip, first)
    return Block(first.m, filling_columns(p, chip, first.m, WIDE), first.k)


def balance(p: Product, chip: Chip) -> Block:
    """Return the block of R3 e. It balances rows and columns where bursts are ragged. Where none fits, it is the plain one of R1."""
    half = chip.l0 // 2 // p.size_bytes
    if p.m >= chip.rows:
        m = chip.rows  # the vendor's vector of 121926 x 64 x 64 has it, though R2 would turn the block
        n = min(WIDE, align(parts(p.n, max(1, chip.cores // parts(p.m, chip.rows)))))
        k = min(half // WIDE, half // n)
    else:
        m = align(p.m)
        n = min(max(align(p.n // chip.cores), 128 if p.m >= 64 else 1024), WIDE if p.bias else chip.l0c // (4 * m))
        n = WIDE if fullness(p, chip, m, WIDE) > fullness(p, chip, m, n) else n
        k = min(half // m, half // n)
    k = k // 16 * 16
    return Block(m, n, k) if k and n % 16 == 0 else Block(chip.rows, WIDE, K_BYTES // p.size_bytes)


def fullness(p: Product, chip: Chip, m: int, n: int) -> float:
    """Return the share of the cores that work, over all waves."""
    blocks = parts(p.m, m) * parts(p.n, n)
    return blocks / (parts(blocks, chip.cores) * chip.cores)


def cap(b: Block, p: Product, chip: Chip) -> Block:
    """Return the block as R3 f caps it: no more than L0C takes, by the first cap that fits; on 310P no more than the shape has."""
    if chip.is_coupled:
        n = min(b.n, align(p.n))
        return Block(min(b.m, align(p.m)), n if p.b_nz else min(n, WIDE), min(b.k, align(p.k)))
    m, n = b.m, min(b.n, WIDE) if p.bias else b.n  # R9
    if 128 < p.m < WIDE and n > 128:
        n = 128
    elif 128 < p.n < WIDE and m > 128:
        m = 128
    elif m * n > FULL:
        m, n = (128 if 128 < x < WIDE else x for x in (m, n))
    return Block(FULL // n if m * n > FULL else m, n, b.k)
