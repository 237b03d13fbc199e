"""The static shares of L2 hits against a simulated cache, and by hand where the vendor published what happens."""
from __future__ import annotations

from dataclasses import replace

import pytest

from aoec.ir.parse import parse_program
from aoec.simulate.state import COLD
from aoec.simulate.time import checked_walk
from aoec.target.machine import load
from tests.oracle.lru_cache import hbm_bytes

TOY, B1 = load("toy"), load("Ascend910B1")
M, N, K = 96, 80, 256  # a tile row of A and B is one block of the simulated cache: 256 halves
LOAD = "copy_gm_l1_nd2nz(dst=X[0], src={}, rows={}, cols={}, src_stride={}, dst_rows=16)"
STORE = "fixpipe_nd(dst=Y[{}], src=C[0], m=16, n=16, src_rows=16, dst_stride={}, relu=0)"
A_TILE = LOAD.format("A[(mc*{m1} + {m})*4096 + kt*256]", 16, 256, 4096)
B_TILE = LOAD.format("B[(nc*{n1} + {n})*4096 + kt*256]", 16, 256, 4096)


def program(body, gm, gn, target="toy", more="", sizes=(96, 80)):
    return parse_program(f"""program p for {target} {{
  input A: fp16[{sizes[0]}, 4096]
  input B: fp16[{sizes[1]}, 4096]
  output Y: fp32[{sizes[0]}, {sizes[1]}]
  space X: fp16 in L1 at 0 size 8192
  space C: fp32 in L0C at 0 size 1024
  {more}
  stream cube aic grid [mc in {gm}, nc in {gn}] {{
    {body}
  }}
}}""")


def product(order, gm, gn, resident=False, blocks=1, k=16):
    """Y = A @ B with B [n, k]: tiles of 16 x 16 x 256, loops in the given order (mb: blocks of m, chosen so as to fit L2)."""
    m1, n1 = 96 // gm, 80 // gn
    trips = {"mb": blocks, "mt": m1 // 16 // blocks, "nt": n1 // 16, "kt": k}
    m, n = f"mb*{m1 // blocks} + mt*16" if "mb" in order else "mt*16", "nt*16"
    a, b = A_TILE.format(m1=m1, m=m), B_TILE.format(n1=n1, n=n)
    inner = f"for kt in {k} {{\n{b if resident else a + b}\n}}\n" + STORE.format(f"(mc*{m1} + {m})*80 + nc*{n1} + {n}", 80)
    if resident:
        inner = inner.replace("kt", "k2")
    for loop in reversed(order):
        inner = f"for {loop} in {trips[loop]} {{\n{inner}\n}}"
        if resident and loop == "nt":
            inner = f"for kt in {k} {{\n{a}\n}}\n{inner}"
    return program(inner, gm, gn)


def sized(p, size_bytes):
    """The toy with an L2 that holds just so much, as the simulated cache does."""
    return replace(load(p.target), l2_size_bytes=size_bytes, l2_usable_bytes=size_bytes)


def told(p, machine, state=COLD):
    """(HBM bytes, all bytes) by tensor, as the rule says."""
    walked = checked_walk(p, machine, state)
    hbm, every = {}, {}
    for site, (h, l2) in zip(walked.encoded.sites, walked.moved, strict=True):
        if site.access:
            hbm[site.access.tensor] = hbm.get(site.access.tensor, 0) + h
            every[site.access.tensor] = every.get(site.access.tensor, 0) + h + l2
    return hbm, every


PRODUCTS = [
    product(("mt", "nt"), 1, 1), product(("nt", "mt"), 1, 1), product(("mt", "nt"), 2, 1), product(("nt", "mt"), 1, 5),
    product(("mt", "nt"), 6, 1), product(("mt", "nt"), 1, 1, resident=True), product(("mb", "nt", "mt"), 1, 1, blocks=3),
    product(("mb", "nt", "mt"), 2, 1, blocks=3),
]


@pytest.mark.parametrize("size_kb", [24, 64, 160, 400, 700, 1000, 1600])
@pytest.mark.parametrize("number", range(len(PRODUCTS)))
def test_the_rule_is_close_to_a_cache_below_and_above_what_fits(number, size_kb):
    """A and B of 768 and 640 KB. Within a tenth of all bytes, but near the size at which a loop begins to fit: a cache of least
    recent use drops all of it there, or none, and the rule does so at a window that is a little larger or smaller."""
    p = PRODUCTS[number]
    near = [told(p, sized(p, int(size_kb * 1024 * x)))[0] for x in (0.85, 1.0, 1.2)]
    real, every = hbm_bytes(p, size_kb * 1024), told(p, TOY)[1]
    for tensor in "AB":
        least, most = min(n[tensor] for n in near), max(n[tensor] for n in near)
        assert least - 0.1 * every[tensor] <= real[tensor] <= most + 0.1 * every[tensor], (tensor, real, near)
