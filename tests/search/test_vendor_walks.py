"""The vendor's orders of blocks: a walk is what the kernel's own loops do, means the operator, and goes from line to trace to line."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from math import lcm

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec import primitives
from aoec.cann.runtime_bank import line, parse_line
from aoec.cann.runtime_bank_keys import Product, key_of
from aoec.cann.runtime_bank_tilings import knowledge_of
from aoec.cann.runtime_bank_tilings import tiling_of as fields_of
from aoec.ir.index import DTYPES, Var, evaluate
from aoec.ir.rewrite import normalise
from aoec.jobs.stages.stages import lower_operator
from aoec.lowering.emit.emit import emit
from aoec.primitives.swizzle import BlockWalk
from aoec.search.vendor.vendor import ORDER_M, WALKS, MatmulTiling, legal_matmul, matmul_choice, matmul_trace, product
from aoec.search.vendor.vendor_back import Delivery, extents, tiling_of, trace_of
from aoec.simulate.timing.time import measure
from aoec.target.legality.check import check
from tests.lowering.groups import cases, machine_named
from tests.oracle.slow_timeline import simulate
from tests.search.test_vendor_back import matmul

MACHINE = machine_named("Ascend910B3")
Block = tuple[int, int]


# ---------------------------------------------------------------- the kernel's own loops, as its public source has them

def tiles(height: int, width: int, rows: int, columns: int) -> Iterator[tuple[int, int, int, int]]:
    """(first row, first column, rows, columns) of each L2 tile, in the order in which they are walked."""
    for number, m in enumerate(range(0, height, rows)):
        row = [(m, n, min(rows, height - m), min(columns, width - n)) for n in range(0, width, columns)]
        yield from reversed(row) if number % 2 else row


def kernel_blocks(height: int, width: int, rows: int, columns: int, cores: int, order: str) -> list[list[Block]]:
    """The blocks of each core, as MatMulV3's kernel counts them: cores that have one more follow those that had one in the tile before."""
    out: list[list[Block]] = [[] for _ in range(cores)]
    start = 0
    for m, n, h, w in tiles(height, width, rows, columns):
        longer = h * w % cores or cores
        rounds = [-(-h * w // cores) - ((c - start) % cores >= longer) for c in range(cores)]
        for c in range(cores):
            begin = sum(rounds[:c])
            for r in range(rounds[c]):
                b = (c - start) % cores + r * cores
                at = {"diagonal": (b % h, (b + b // lcm(h, w)) % w), "rows": divmod(begin + r, w),
                      "columns": divmod(begin + r, h)[::-1]}[order]
                out[c].append((m + at[0], n + at[1]))
        start = (start + longer) % cores
    return out


SIDE = st.integers(1, 14)


@settings(max_examples=150)
@given(SIDE, SIDE, SIDE, SIDE, st.integers(1, 24), st.sampled_from(WALKS))
def test_a_walk_is_what_the_kernel_does(height: int, width: int, rows: int, columns: int, cores: int, order: str) -> None:
    rows, columns, cores = min(rows, height), min(columns, width), min(cores, height * width)
    m, n = BlockWalk(height, width, rows, columns, cores).place(order, Var("t"))
    got: list[list[Block]] = [[] for _ in range(cores)]
    for t in range(height * width):
        got[t % cores].append((int(evaluate(m, {"t": t})), int(evaluate(n, {"t": t}))))
    assert got == kernel_blocks(height, width, rows, columns, cores, order)
    assert sorted(b for blocks in got for b in blocks) == [(m, n) for m in range(height) for n in range(width)]


# ---------------------------------------------------------------- line -> trace -> line

@st.composite
def tilings(draw: st.DrawFn) -> tuple[Product, MatmulTiling]:
    """A product and a tiling of it with any order and cut, in blocks of one L0 tile or several."""
    size = st.integers(1, 90).map(lambda n: 16 * n)
    p = Product(draw(size), 16 * draw(st.integers(1, 40)), draw(size), trans_a=draw(st.booleans()), trans_b=draw(st.booleans()))
    tile = {x: 16 * draw(st.integers(1, 8)) for x in "mn"}
    block = {x: tile[x] * draw(st.sampled_from((1, 1, 2, 3))) for x in "mn"}
    depth, ka, kb = draw(st.sampled_from((1, 2))), draw(st.sampled_from((1, 2, 4))), draw(st.sampled_from((1, 2, 4)))
    cut = [draw(st.integers(1, 5)) for _ in range(2)]
    return p, MatmulTiling(
        usedCoreNum=draw(st.integers(1, 20)), singleCoreM=block["m"], singleCoreN=block["n"], singleCoreK=p.k, baseM=tile["m"],
        baseN=tile["n"], baseK=draw(st.sampled_from((16, 32, 64))), depthA1=depth * ka, depthB1=depth * kb, stepKa=ka, stepKb=kb,
        iterateOrder=draw(st.sampled_from((0, 1))), dbL0C=draw(st.sampled_from((1, 2))), l2MTileCnt=cut[0], l2NTileCnt=cut[1],
        l2MTileBlock=draw(st.integers(0, 6)), l2NTileBlock=draw(st.integers(0, 6)), l2IterateOrder=draw(st.integers(0, 2)))


def as_line(p: Product, t: MatmulTiling) -> str:
    op, key = key_of(p)
    return line(op, key, knowledge_of(p, asdict(t)))


def read_line(p: Product, text: str) -> MatmulTiling:
    return MatmulTiling(**fields_of(p, parse_line(text).knowledge, True))


L2 = ("l2MTileCnt", "l2NTileCnt", "l2MTileBlock", "l2NTileBlock", "l2IterateOrder", "usedCoreNum", "singleCoreM", "singleCoreN")


@settings(max_examples=60, deadline=None)
@given(tilings())
def test_a_line_goes_round(drawn: tuple[Product, MatmulTiling]) -> None:
    """Line, trace, line: of a line as the shape takes it all fields stay, the order and both cuts among them."""
    p, said = drawn
    func = matmul(p)
    found = tiling_of(func, trace_of(func, MACHINE, read_line(p, as_line(p, said))), MACHINE)
    assert isinstance(found, Delivery) and isinstance(found.tiling, MatmulTiling) and found.differs == ()
    text = as_line(p, found.tiling)
    blocks = [-(-n // single) for n, single in ((p.m, said.singleCoreM), (p.n, said.singleCoreN))]
    assert found.tiling.l2IterateOrder == said.l2IterateOrder or min(blocks) == 1  # of one row every order is the plain one
    again = tiling_of(func, trace_of(func, MACHINE, read_line(p, text)), MACHINE)
    assert isinstance(again, Delivery) and isinstance(again.tiling, MatmulTiling) and as_line(p, again.tiling) == text
    legal = legal_matmul(read_line(p, as_line(p, said)), extents(product(func)), DTYPES["fp16"], MACHINE)
    if legal.l2MTileBlock:
        assert all(getattr(found.tiling, n) == getattr(legal, n) for n in L2)


@pytest.mark.parametrize("order", range(3))
def test_a_line_of_the_stock_blocks_stays_field_by_field(order: int) -> None:
    """8192 x 8192 in blocks of 128 x 256, cut along both axes as the vendor's own tiling of that size is."""
    p = Product(8192, 8192, 8192, trans_b=True)
    t = MatmulTiling(20, 128, 256, 8192, 128, 256, 64, 16, 8, 1, 1, ORDER_M, 8, 4, 2, 2, 1, 8, 2, 8, 16, order)
    func = matmul(p)
    found = tiling_of(func, trace_of(func, MACHINE, read_line(p, as_line(p, t))), MACHINE)
    assert isinstance(found, Delivery) and isinstance(found.tiling, MatmulTiling)
    assert as_line(p, found.tiling) == as_line(p, t)


@pytest.mark.parametrize("cuts, blocks, sides", [
    ((1, 1), (1, 1), (10, 6)), ((2, 3), (0, 4), (5, 2)), ((3, 2), (4, 3), (4, 3)), ((3, 2), (9, 3), (4, 3))])
def test_a_tile_that_does_not_hold_the_blocks_is_an_even_cut(cuts: Block, blocks: Block, sides: Block) -> None:
    """The kernel's last tile takes what is left, and of no stated side it makes an even cut."""
    p = Product(1280, 64, 1536)
    t = MatmulTiling(20, 128, 256, 64, 128, 256, 64, 2, 2, l2MTileCnt=cuts[0], l2NTileCnt=cuts[1], l2MTileBlock=blocks[0],
                     l2NTileBlock=blocks[1], l2IterateOrder=1)
    _, values = matmul_choice(matmul(p), MACHINE, read_line(p, as_line(p, t)))
    assert (values["bm"], values["bn"]) == sides


# ---------------------------------------------------------------- what a walk does

@pytest.mark.parametrize("order", range(3))
@pytest.mark.parametrize("model, cuts", [("matmul_even", (1, 1)), ("matmul_even", (2, 2)), ("matmul_nd", (1, 1)), ("matmul_nd", (2, 3)),
                                         ("matmul_turned", (3, 2))])
def test_a_walk_means_the_operator(model: str, cuts: Block, order: int) -> None:
    """Blocks with tails too. A short one is timed as a whole one: it takes about as long."""
    case = cases(model)[-1]
    t = MatmulTiling(usedCoreNum=5, singleCoreM=16, singleCoreN=16, baseM=16, baseN=16, baseK=16, l2MTileCnt=cuts[0], l2NTileCnt=cuts[1],
                     l2MTileBlock=1, l2NTileBlock=1, l2IterateOrder=order)
    form, _ = matmul_choice(case.func, MACHINE, t)
    program = normalise(emit(primitives.apply(case.func, trace_of(case.func, MACHINE, replace(t, unitFlag=1))), MACHINE))
    assert program.constraints == ()
    check(program, MACHINE)
    assert case.agrees(case.run(program))
    took, alone = measure(program, MACHINE).ticks, simulate(program, MACHINE).ticks
    sizes = extents(product(case.func))
    if all(sizes[x] % 16 == 0 for x in "mn"):
        assert took == alone
    assert took >= 0.9 * alone and (form.walk == WALKS[order] or form.spread == "single")


@pytest.mark.parametrize("order", range(len(WALKS)))
@pytest.mark.parametrize("cuts", [(1, 1), (2, 3)])
def test_a_walk_whose_operands_fit_l2_reads_them_once(order: int, cuts: tuple[int, int]) -> None:
    """2048 x 12288 x 6144, whose operands are 176 MB and its result 50: what a tile of it touches fits L2, in whatever order it is dealt.

    Diagonals were charged 3.2 GB while addresses that normal form takes apart were counted as pairs of their parts."""
    func = lower_operator("matmul(m=2048, k=6144, n=12288)")
    sides = [-(-blocks // cut) for blocks, cut in zip((16, 48), cuts)]
    tiling = MatmulTiling(baseM=128, baseN=256, baseK=64, singleCoreM=128, singleCoreN=256, stepKa=4, stepKb=4, depthA1=8, depthB1=8,
                          l2MTileCnt=cuts[0], l2NTileCnt=cuts[1], l2MTileBlock=sides[0], l2NTileBlock=sides[1], l2IterateOrder=order)
    program = normalise(emit(primitives.apply(func, matmul_trace(func, MACHINE, tiling)), MACHINE))
    assert measure(program, MACHINE).hbm_bytes < 1.05 * 2 * (2048 * 6144 + 6144 * 12288 + 2048 * 12288)
