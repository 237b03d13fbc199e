"""MatMulV3's L1 depths and steps: rules R4 and R8, and which operands a pre-pass lays out in fractals (R10)."""
from __future__ import annotations

from dataclasses import replace

from aoec.search.stock.base_block import FULL
from aoec.search.stock.sizes import KB, Chip, Product, is_aligned, parts
from aoec.search.vendor.vendor import MatmulTiling

BURST, SHORT_BURST = 512, 256  # bytes of k that a step is a multiple of; where all of it is no longer than a burst
FIXED = {True: 16, False: 6}  # depth on 310P: both operands in fractals, or not
SHORT_ROWS = (32, 64, 96, 128, 160, 192, 224, 256, 384)  # bytes of rows that are brought as they are
WIDEST = 65535


def with_depths(t: MatmulTiling, p: Product, chip: Chip) -> MatmulTiling:
    """Return the tiling of R4: as much of both operands in L1 as there is room for, in two slots."""
    return fixed_depths(t, p, chip) if chip.is_coupled else halves_of_l1(t, p, chip)


def halves_of_l1(t: MatmulTiling, p: Product, chip: Chip) -> MatmulTiling:
    """Return the tiling of 910B: half of L1 for each operand."""
    a, b = (t.baseM * t.baseK * p.size_bytes, t.baseN * t.baseK * p.size_bytes)
    depth_a, depth_b = ((chip.l1 + 256) // 2 // size for size in (a, b))
    if depth_a * a + depth_b * b > chip.l1 - KB * p.bias:
        depth_a, depth_b = (depth_a // 2, depth_b) if t.baseM <= t.baseN else (depth_a, depth_b // 2)
    step_a, step_b = (step(depth, t.baseK, p) for depth in (depth_a, depth_b))
    step_a, step_b = (step_a // step_b * step_b, step_b) if step_a >= step_b else (step_a, step_b // step_a * step_a)
    return replace(t, depthA1=2 * step_a, depthB1=2 * step_b, stepKa=step_a, stepKb=step_b)


def step(depth: int, base_k: int, p: Product) -> int:
    """Return the base blocks of k in a step: half of the depth, or fewer where they would not be whole bursts of a longer k."""
    steps, chunk = max(1, depth // 2), base_k * p.size_bytes
    unit = BURST if p.k * p.size_bytes > BURST else SHORT_BURST
    if steps * base_k < p.k and unit % chunk == 0:
        while steps > 1 and steps * chunk % unit:
            steps -= 1
    return steps


def fixed_depths(t: MatmulTiling, p: Product, chip: Chip) -> MatmulTiling:
    """Return the tiling of 310P: depths by layout; an operand of one block that takes less than half of L1 has all of its k there."""
    depth = FIXED[p.a_nz and p.b_nz]
    t = replace(t, depthA1=depth, depthB1=depth, stepKa=depth // 2, stepKb=depth // 2)
    if p.a_nz and p.b_nz:
        whole, half = parts(p.k, t.baseK), chip.l1 // 2
        if p.m <= t.baseM and t.baseM * p.k * p.size_bytes < half:
            t = replace(t, depthA1=whole, stepKa=whole)
        if p.n <= t.baseN and t.baseN * p.k * p.size_bytes < half:
            t = replace(t, depthB1=whole, stepKb=whole)
    return t


def trim_steps(t: MatmulTiling, p: Product, chip: Chip) -> MatmulTiling:
    """Apply R8: eight blocks of k a step become four for large even shapes on chips of 24 cores. Its three further windows are not
    built."""
    plain = chip.cores == 24 and p.size_bytes == 2 and t.baseM * t.baseN == FULL and t.baseK == 64
    even = not (p.m % 256 or p.n % 256 or p.k % 256) and p.m >= 768 <= p.n and p.k & (p.k - 1) > 0
    large = p.m * p.n > 786432 and p.m % 16384 > 0 and p.n % 16384 > 0
    if not (plain and even and large) or needs_fractals(p, "a") or needs_fractals(p, "b"):
        return t
    step_a, step_b = (4 if s == 8 else s for s in (t.stepKa, t.stepKb))
    return replace(t, stepKa=step_a, stepKb=step_b, depthA1=2 * step_a, depthB1=2 * step_b)


def needs_fractals(p: Product, side: str) -> bool:
    """Return whether vector cores lay an operand out in fractals before the product begins (R10, 910B)."""
    if p.a_nz if side == "a" else p.b_nz:
        return False
    inner = p.inner_a if side == "a" else p.inner_b
    turned = p.trans_a if side == "a" else p.trans_b
    across = p.m if side == "a" else p.n
    outer = p.k if (side == "a") == turned else across
    elements = inner // p.size_bytes
    if p.size_bytes == 4 and elements < WIDEST:
        return False
    ragged = not is_aligned(inner) or elements > WIDEST
    if ragged and inner not in SHORT_ROWS:
        return True
    short = inner <= 192 and elements % 2 or inner <= 384 and elements % 2 == 0 or inner <= 512 and elements % 4 == 0
    if outer > 8192 and not is_aligned(inner) and short and inner not in SHORT_ROWS:
        return True
    return side == "b" and p.size_bytes == 2 and (
        not p.trans_b and p.n % 16384 == 0 and p.k >= 6656 and p.m > 4096)
