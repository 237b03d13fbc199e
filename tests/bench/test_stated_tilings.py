"""What the bench takes of the vendor's kernels from their sources: stated tilings, the tiling API's own, the order of loads of MDL."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from aoec.ir.program import For, Instr, Item, Program
from aoec.simulate.timing.state import COLD
from aoec.simulate.timing.time import measure
from aoec.simulate.values.values import execute
from aoec.target.legality.check import check
from aoec.target.machine import load
from bench.cases.build import only_func, tiled_product
from bench.cases.case import Case, parse_cases
from bench.cases.convert import convert
from bench.cases.cube import halves
from bench.cases.turns import left_first
from bench.cases.words import parse_tile
from tests.bench.test_fidelity import case, row

B1 = load("Ascend910B1")


def product(**cells: str) -> Case:
    return parse_cases(case(**cells))[0]


def test_rows_take_over_what_their_source_states() -> None:
    guide, sample = "Ascend C best-practice guide (x@1)", "x@1:a/matmul_high_performance/README.md"
    rows = [row(source=guide, shape="M=128 N=24576 K=512", variant="MDL, single 128x512x512"),
            row(id="m2", source=guide, shape="M=128 N=30720 K=1024", variant="Norm template"),
            row(id="m3", source=sample, variant="base 128x256x64, 4x6 cores, MDL"),
            row(id="m4", source=guide, shape="M=1 N=2 K=3", variant="MDL")]
    words = {c["id"]: parse_tile(c["tile"]) for c in convert(rows)}
    assert words["m1"].numbers("single") == (128, 512, 512) and words["m1"].one("depthb", 0) == 16  # its own words stand
    assert "norm" in words["m2"] and words["m2"].numbers("single") == (128, 1280, 1024) and "mdl" not in words["m2"]
    assert (words["m3"].one("stepka", 0), words["m3"].one("depthb", 0)) == (2, 8) and "depthb" not in words["m4"]


def test_what_the_tiling_api_chooses_fills_l1() -> None:
    """asc-devkit's sample fills the 512 KB of L1 with 16 blocks of A and 8 of B of 128 x 256 x 64, in two slots."""
    wide = product(shape="m=n=k=8192")
    assert halves(wide, B1, (128, 256, 64), 2) == (8, 4) and halves(product(), B1, (128, 256, 64), 2) == (8, 4)
    for base in ((128, 128, 64), (96, 256, 64), (256, 80, 96), (16, 512, 48)):
        a, b = halves(wide, B1, base, 2)
        assert max(a, b) % min(a, b) == 0 and 2 * base[2] * 2 * (a * base[0] + b * base[1]) <= 512 << 10
        assert all(base[2] != 64 or step < 4 or step % 4 == 0 for step in (a, b))  # whole rows of 512 bytes


@pytest.mark.parametrize("tile", ["stepka=2 deptha=4 stepkb=4 depthb=8", "stepka=1 deptha=2 stepkb=3 depthb=6"])
def test_the_left_operand_comes_first(tile: str) -> None:
    """As MDL loads: A, then B, then A again. The same products of the same bytes, later, for B waits behind A for a slot of A."""
    made, plain = (product(shape="m=256 n=1024 k=1536", layout="nd:nk", tile=f"base=128x256x64 cores=2 {word} {tile}")
                   for word in ("mdl", "runtime"))
    first, ours = tiled_product(made, only_func(made), B1), tiled_product(plain, only_func(plain), B1)
    assert first != ours and left_first(first) == first
    check(first, B1)
    rng = np.random.default_rng(3)
    arrays = {name: rng.uniform(-1, 1, (rows, 1536)).astype(np.float16) for name, rows in (("A", 256), ("B", 1024))}
    one, other = (execute(p, arrays) for p in (first, ours))
    assert np.array_equal(one["Y"], other["Y"])
    told, less = (measure(p, B1, COLD) for p in (first, ours))
    assert told.time_us > less.time_us and (told.hbm_bytes, told.l2_bytes) == (less.hbm_bytes, less.l2_bytes)
    assert [str(i["dst"].buffer) for i in inside(first.streams[0].body) if i.op == "copy_gm_l1_nd2nz"] == [  # type: ignore[union-attr]
        "A_L1", "B_L1", "A_L1"]


def inside(items: Sequence[Item]) -> list[Instr]:
    """The instructions among statements in order of text."""
    return [x for i in items for x in (inside(i.body) if isinstance(i, For) else [i] if isinstance(i, Instr) else [])]


def test_an_operand_beside_one_that_stays_is_loaded_ahead() -> None:
    """The guide's MTE2 preload: A whole in L1, B in two slots, the next B before the current one's work."""
    words = "base=128x128x64 single=128x512x512 stepka=8 stepkb=8 deptha=8 depthb=16 mdl"
    programs: list[Program] = [tiled_product(c, only_func(c), B1) for c in (
        product(shape="m=128 n=2048 k=512", tile=f"{words}{more}") for more in ("", " preload"))]
    late, early = (measure(p, B1, COLD).time_us for p in programs)
    assert early < late and len(inside(programs[1].streams[0].body)) > len(inside(programs[0].streams[0].body))
