"""The static shares of L2 hits against a simulated cache, and by hand where the vendor published what happens."""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.ir.index import evaluate
from aoec.ir.text.parse import parse_expr, parse_program
from aoec.simulate.encode.encode import encode
from aoec.simulate.encode.tables import Tabulator
from aoec.simulate.timing.reuse import Access, Flow, Reuse
from aoec.simulate.timing.state import COLD, PREVIOUS_LAUNCH
from aoec.simulate.timing.time import checked_walk, measure
from aoec.target.machine import Machine, load
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
    for site, (h, l2) in zip(walked.encoded.sites, walked.moved_bytes, strict=True):
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


@settings(max_examples=30, deadline=None)
@given(st.integers(0, len(PRODUCTS) - 1), st.integers(20, 1600), st.floats(1.0, 3.0), st.booleans())
def test_a_larger_cache_never_lets_more_through(number, size_kb, growth, warm):
    p = PRODUCTS[number]
    small, large = (sized(p, int(size_kb * 1024 * x)) for x in (1.0, growth))
    less, more = (told(p, m, PREVIOUS_LAUNCH if warm else COLD)[0] for m in (large, small))
    assert all(less[t] <= more[t] * (1 + 1e-9) for t in less)


@pytest.mark.parametrize("size_kb", [400, 1300, 1600])
def test_the_previous_launch_leaves_what_fits(size_kb):
    """A, B and Y of 1,438 KB: found again whole, or not at all, as in a cache of least recent use that comes round to them. B, which
    every row of tiles reads whole, is found by the next launch as soon as it is by the next row."""
    p = PRODUCTS[0]
    machine = sized(p, size_kb * 1024)
    rule, real = told(p, machine, PREVIOUS_LAUNCH)[0], hbm_bytes(p, size_kb * 1024, launches=3)
    for tensor in "ABY":
        assert rule[tensor] == pytest.approx(real[tensor], rel=0.1, abs=2048), tensor


def test_staggered_cores_touch_the_same_bytes_and_share_no_address():
    """Core c begins with chunk c of k: the same footprint and as many hits, but no two cores at one address."""
    same = A_TILE.format(m1=0, m="mt*16")
    turned = same.replace("kt*256", "((kt + mc) % 16)*256")
    plain, staggered = (program(f"for mt in 6 {{\nfor kt in 16 {{\n{x}\n}}\n}}", 6, 1) for x in (same, turned))
    machine = sized(plain, 200 * 1024)
    assert told(plain, machine)[0]["A"] == told(staggered, machine)[0]["A"] == hbm_bytes(staggered, 200 * 1024)["A"] == 96 * 8192
    machine = replace(machine, same_address_bytes_per_cycle=8.0, cores={"aic": replace(machine.cores["aic"], count=6)})
    slow, fast = (measure(p, machine).cycles for p in (plain, staggered))
    assert slow > 2 * fast


def test_one_row_of_a_for_all_cores_is_served_by_one_part() -> None:
    """Six cores read A's one row and a column of B each: of two streams with half of the bytes, one comes from one address."""
    loads = [LOAD.format(x, 16, 256, 4096) for x in ("A[{}kt*256]", "B[nc*65536 + kt*256]")]
    body = "for kt in 16 {\n" + "\n".join(loads) + "\n}"
    machine = replace(B1, same_address_bytes_per_cycle=10.0)
    (shared, other), (own, _) = (crowded(body.replace("A[{}", f"A[{x}"), machine) for x in ("", "nc*65536 + "))
    assert shared == pytest.approx(0.5 * machine.l2_bytes_per_cycle / 10) and own < other < 0.6 * shared


def crowded(body: str, machine: Machine) -> list[float]:
    """How much longer than at its own rate L2 takes for each read of a program on six cores."""
    p = program(body, 1, 6, machine.name)
    found = Tabulator(encode(p, machine), {}, 1, COLD, False).fill().traffic.crowding
    return [float(np.max(l2)) for _, l2 in found.values()]


def test_cores_that_end_leave_nothing_to_those_that_share_addresses() -> None:
    """Three of four cores do a third of what the first does: its reads of what they share take as long as when all go on; reads of its own
    come sooner."""
    body = "for kt in {} {{{{\n" + LOAD.format("A[{{}}kt*256]", 16, 256, 4096) + "\n}}}}"
    few = replace(B1, same_address_bytes_per_cycle=10.0)
    times = {}
    for address in ("", "nc*65536 + "):
        ends = [measure(program(body.format(trips).format(address), 1, 4, few.name), few, PREVIOUS_LAUNCH).cycles
                for trips in ("max(96 - nc*96, 0) + 48", "144")]
        times[address] = ends[0] / ends[1]
    assert times[""] == pytest.approx(1.0, abs=0.02) and times["nc*65536 + "] < 0.9


OFFSETS = ["a*8 + b", "a//3*5 + a%3", "a//6*4096 + b*7", "(a + b)%5*64", "(2*a + b*4)%8 + c*100", "(a*16 + b*16)%64 + c", "a*b + c",
           "min(a, 2)*9 + b", "(a*4 + b)//4 + c*50", "7",
           "(3*a + b)//2*64 + c", "(a + b)//2*64 - a*64 + c*9", "(5*a + 2*b)//3*?k + (5*a + 2*b)%3*7",
           "c*12 - (a + b)//3*4 + a*8", "a - b//2"]


@pytest.mark.parametrize("offset", OFFSETS)
@settings(max_examples=20, deadline=None)
@given(trips=st.tuples(*[st.integers(1, 7)] * 3))
def test_addresses_are_counted_at_least_and_exactly_where_steps_do_not_meet(offset, trips):
    """Never fewer than an offset takes, which would lose bytes that must cross."""
    sizes = dict(zip("abc", trips, strict=True))
    grid = np.meshgrid(*[np.arange(n) for n in trips], indexing="ij")
    real = len(np.unique(evaluate(parse_expr(offset), {"k": 40, **dict(zip("abc", grid, strict=True))})))
    count = counted(parse_expr(offset), sizes)
    assert real <= count <= np.prod(trips)
    if offset in ("a*8 + b", "a//3*5 + a%3", "7"):
        assert count == real
    if offset == "(3*a + b)//2*64 + c":  # as many as a row of them is long, which normal form would hide
        assert count <= ((3 * (trips[0] - 1) + trips[1] - 1) // 2 + 1) * trips[2]


def counted(offset, sizes):
    flow = Flow(Access(0, "A", False, offset, (), tuple(sizes)), 1, 1)
    reuse = Reuse(program("", 1, 1), TOY, COLD, [flow], [sizes], {"k": 40})
    return float(reuse.addresses(flow.access, set(sizes)))


HAND_OVER = """program p for toy {{
  temp W: fp32[65536]
  output Y: fp32[65536]
  space C: fp32 in L0C at 0 size 4096
  space X: fp32 in UB at 0 size 4096
  stream cube aic grid [c in 1] {{
    for t in 64 {{
      fixpipe_nd(dst=W[t*1024], src=C[0], m=32, n=32, src_rows=32, dst_stride=32, relu=0)
      {inside}
    }}
    {behind}
  }}
  stream vec aiv grid [v in 1] {{
    {before}
    for i in 64 {{
      {wait}
      copy_gm_ub(dst=X[0], src=W[i*1024], bursts=1, length=4096, src_gap=0, dst_gap=0)
      set(MTE2, MTE3, 0)
      wait(MTE2, MTE3, 0)
      copy_ub_gm(dst=Y[i*1024], src=X[0], bursts=1, length=4096, src_gap=0, dst_gap=0)
      set(MTE3, MTE2, 0)
      wait(MTE3, MTE2, 0)
    }}
  }}
}}"""
SET, WAIT = "cross_set(FIXP, vec, 0)", "cross_wait(MTE2, cube, 0)"


def test_what_another_stream_has_just_written_is_found_and_what_it_wrote_long_ago_is_not():
    """W of four times L2, handed over tile by tile or all at the end (matmul with GELU: the vector cores' loads fall from 316 to 90 us)."""
    by_tile = told(parse_program(HAND_OVER.format(inside=SET, behind="", before="", wait=WAIT)), TOY)[0]
    at_end = told(parse_program(HAND_OVER.format(inside="", behind=SET, before=WAIT, wait="")), TOY)[0]
    size = 65536 * 4
    assert (by_tile["W"], at_end["W"]) == (size, 2 * size) and by_tile["Y"] == at_end["Y"] == size


def test_a_second_pass_over_a_row_finds_it_and_another_part_of_it_does_not():
    """As a softmax reads its row twice: the second loop comes to what the first has just read, in each iteration around both."""
    load = "copy_gm_ub(dst=X[0], src=A[r*16384 + {}], bursts=1, length=4096, src_gap=0, dst_gap=0)"
    text = """program p for toy {{
  input A: fp32[65536]
  space X: fp32 in UB at 0 size 4096
  stream v aiv grid [c in 1] {{
    for r in 4 {{
      for i in 4 {{
        {}
      }}
      for j in 4 {{
        {}
      }}
    }}
  }}
}}"""
    again, on = (parse_program(text.format(load.format("i*1024"), load.format(second))) for second in ("j*1024", "j*1024 + 4096"))
    assert told(again, sized(again, 32 * 1024))[0]["A"] == 4 * 4 * 4096  # rows of 16 KB stay
    assert told(again, sized(again, 8 * 1024))[0]["A"] == told(on, sized(on, 64 * 1024))[0]["A"] == 2 * 4 * 4 * 4096


# ---------------------------------------------------------------- published cases (asc-devkit samples), Ascend910B1

def copies(cores, loops, source, rows, cols, stride, more=""):
    kind, op = ("aiv", f"copy_gm_ub(dst=X[0], src={source}, bursts={rows}, length={cols * 2}, src_gap={(stride - cols) * 2}, dst_gap=0)")
    if cores == 24:
        kind, op = "aic", f"copy_gm_l1_nd2nz(dst=X[0], src={source}, rows={rows}, cols={cols}, src_stride={stride}, dst_rows={rows})"
    body = op
    for loop, trips in reversed(loops):
        body = f"for {loop} in {trips} {{\n{body}\n}}"
    return parse_program(f"""program copies for Ascend910B1 {{
  input A: fp16[150994944]{more}
  space X: fp16 in {"L1" if cores == 24 else "UB"} at 0 size {rows * cols * 2}
  stream s {kind} grid [c in {cores}] {{
    {body}
  }}
}}""")


def test_four_passes_over_what_does_not_fit_hit_nothing_and_over_quarters_three_of_four():
    """12288^2 halves, 64 x 1024 at a time on 48 cores: no hits whole, 75.00 % by quarters; 816 and 355 us."""
    rows = "(c*256 + i*64)*12288"
    whole = copies(48, [("p", 4), ("i", 4), ("j", 12)], f"A[{rows} + j*1024]", 64, 1024, 12288)
    parts_ = copies(48, [("q", 4), ("p", 4), ("i", 4), ("j", 3)], f"A[{rows} + q*3072 + j*1024]", 64, 1024, 12288)
    ways = [measure(p, B1, PREVIOUS_LAUNCH) for p in (whole, parts_)]
    assert [m.l2_bytes / (m.hbm_bytes + m.l2_bytes) for m in ways] == pytest.approx([0.0, 0.75], abs=1e-6)
    assert [m.run_us for m in ways] == pytest.approx([816, 355], rel=0.08)


@pytest.mark.parametrize("cores, tile, times", [(48, 128, (474.7, 307.4)), (24, 256, (240.2, 209.8))])
def test_all_cores_at_one_address_take_turns_and_staggered_ones_do_not(cores, tile, times):
    """6144 x 512 halves read whole by every core past L2, 64 columns at a time: as published in step and staggered, where rows shorter than
    a line are requests to HBM each."""
    blocks, down = cores, 6144 // cores // tile
    same = [("b", blocks), ("i", down), ("j", 8)]
    plain, turned = (copies(cores, same, f"A[({x}*{6144 // cores} + i*{tile})*512 + j*64]", tile, 64, 512, " uncached")
                     for x in ("b", f"((b + c) % {blocks})"))
    in_step, staggered = (measure(p, B1).run_us for p in (plain, turned))
    assert in_step == pytest.approx(times[0], rel=0.03) and staggered == pytest.approx(times[1], rel=0.06)


@pytest.mark.parametrize("cores", [24, 48])
def test_rows_shorter_than_a_line_are_dear_past_l2_alone(cores):
    """Rows of 128, 256 and 384 bytes past L2 take the longer the less of a line of 512 they are; whole lines, what lies in one run, and
    what goes through L2 take no longer."""
    def busy(cols, stride, more):
        program = copies(cores, [("i", 8)], f"A[(c*8 + i)*{64 * stride}]", 64, cols, stride, more)
        account = measure(program, B1).reasons.accounts["MTE2"]
        return account.busy + account.memory
    past = [busy(cols, 4096, " uncached") / busy(cols, 4096, "") for cols in (64, 128, 192, 256)]
    assert past == sorted(past, reverse=True) and past[-1] == pytest.approx(1.0, rel=1e-3) and 1.3 < past[0] < 1.6
    assert busy(64, 64, " uncached") == pytest.approx(busy(64, 64, ""), rel=1e-3)


def test_large_products_leave_each_core_its_published_part_of_l2():
    """8192^3 and 6144^3 on 4 x 6 cores, 128 x 256 tiles: 77 to 85 bytes a cycle on each core; 111 where cores share nothing."""
    body = """for mt in 16 {
      for nt in 5 {
        for kt in 16 {
          copy_gm_l1_nd2nz(dst=X[0], src=A[(mc*2048 + mt*128)*8192 + kt*512], rows=128, cols=512, src_stride=8192, dst_rows=128)
          copy_gm_l1_nd2nz(dst=X[0], src=B[(nc*1280 + nt*256)*8192 + kt*512], rows=256, cols=512, src_stride=8192, dst_rows=256)
        }
      }
    }"""
    p = parse_program(f"""program loads for Ascend910B1 {{
  input A: fp16[8192, 8192]
  input B: fp16[7680, 8192]
  space X: fp16 in L1 at 0 size 262144
  stream s aic grid [mc in 4, nc in 6] {{
    {body}
  }}
}}""")
    m = measure(p, B1, PREVIOUS_LAUNCH)
    rate = (m.hbm_bytes + m.l2_bytes) / m.cores / m.cycles
    assert 77 <= rate <= 88


@pytest.mark.parametrize("cores", [1, 8])
def test_rows_of_a_gather_are_places_of_their_own(cores: int) -> None:
    """Each index is taken to name another row: all bytes cross once, no cores meet at one address, and a small table is read from L2."""
    text = """program p for Ascend910B1 {{
  input X: fp16[{rows}, 1024]
  input I: int32[{cores}, 64]
  space x: fp16 in UB at 0 size 2048
  space i: int32 in UB at 2048 size 256
  stream v aiv grid [c in {cores}] {{
    copy_gm_ub(dst=i[0], src=I[c*64], bursts=1, length=256, src_gap=0, dst_gap=0)
    for t in 64 {{
      copy_gm_ub_at(dst=x[0], src=X[0], index=i[t], length=2048, pitch=2048, extent={rows})
    }}
  }}
}}"""
    for rows, wanted in ((1 << 16, 64 * cores * 2048), (16, 16 * 2048)):
        hbm, every = told(parse_program(text.format(rows=rows, cores=cores)), B1)
        assert (hbm["X"], every["X"]) == (pytest.approx(min(wanted, 64 * cores * 2048)), 64 * cores * 2048)
    site = Access(0, "X", False, parse_expr("0"), ("c",), ("t",), scattered=True)
    reuse = Reuse(parse_program(text.format(rows=1 << 16, cores=cores)), B1, COLD, [Flow(site, 2048, 64.0 * cores * 2048)],
                  [{"c": cores, "t": 64}], {})
    assert float(reuse.addresses(site, {"c"})) == cores and float(reuse.waits_for(site)) == 0.0
