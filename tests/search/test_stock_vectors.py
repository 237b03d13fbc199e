"""The rules of MatMulV3 against the vendor's public test vectors: numbers of its own unit tests (docs/stock.md)."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from aoec.search.stock.batch_rules import batch_tiling
from aoec.search.stock.matmul_rules import matmul_tiling
from aoec.search.stock.sizes import Chip, Product

KB, MB = 1 << 10, 1 << 20
CHIPS = {"910B": Chip("910B", 24, 512 * KB, 64 * KB, 128 * KB, 192 * KB, 192 * MB),
         "310P": Chip("310P", 8, 1024 * KB, 64 * KB, 256 * KB, 256 * KB, 16 * MB)}


@dataclass(frozen=True)
class Vector:
    """What a public test gives and expects; () where it says nothing. `tiles`: l2MTileCnt, l2NTileCnt; `blocks`: those in a tile."""

    chip: str
    product: Product
    used: int
    single: tuple[int, ...]
    base: tuple[int, int, int]
    depth: tuple[int, int]
    steps: tuple[int, int, int, int]
    db_l0c: int
    tiles: tuple[int, ...]
    blocks: tuple[int, ...]
    template: str = "base"


F32: dict[str, Any] = {"size_bytes": 4, "out_bytes": 4}
NZ: dict[str, Any] = {"a_nz": True, "b_nz": True}
# Of 8192 x 8192 x 8192 the L2 tiles are left out: 8 x 2 of 8 x 16 blocks. What the search counts as sharing is not public (R7.5).
VECTORS = (
    Vector("910B", Product(8192, 8192, 8192, trans_b=True), 24, (128, 256, 8192), (128, 256, 64), (16, 8), (1, 1, 8, 4), 1, (), ()),
    Vector("910B", Product(8192, 1536, 3072), 24, (128, 256, 3072), (128, 256, 64), (8, 8), (1, 1, 4, 4), 1, (1, 1), (64, 6)),
    Vector("910B", Product(1024, 768, 256, trans_a=True), 24, (256, 128, 256), (256, 128, 64), (8, 16), (1, 1, 4, 8), 1, (1, 1), (4, 6)),
    Vector("910B", Product(320, 311, 513), 24, (128, 48, 513), (128, 48, 64), (16, 32), (1, 1, 8, 16), 1, (1, 1), (3, 7)),
    Vector("910B", Product(150, 131328, 1024), 24, (128, 128, 1024), (128, 128, 64), (16, 16), (1, 1, 8, 8), 1, (1, 171), (2, 6)),
    Vector("910B", Product(1024, 1024, 30720), 24, (384, 1024, 384), (128, 128, 128), (9, 6), (3, 1, 3, 3), 2, (2, 1), (6, 4),
           "multi-core split-K"),
    Vector("910B", Product(12288, 6144, 26812, trans_a=True), 24, (1024, 3072, 384), (128, 128, 128), (9, 6), (3, 1, 3, 3), 2, (), (),
           "single-core split-K"),
    Vector("910B", Product(121926, 64, 64, trans_b=True), 24, (256, 64, 64), (128, 64, 64), (2, 1), (1, 1, 1, 1), 2, (1, 1), (477, 1),
           "B full load"),
    Vector("910B", Product(8, 256, 7168, trans_b=True, **F32), 24, (8, 16, 7168), (16, 16, 256), (28, 2), (1, 1, 28, 1), 2, (1, 1), (1, 16),
           "A full load"),
    Vector("910B", Product(1, 16, 7168, **F32), 11, (384, 16, 192), (128, 128, 64), (9, 6), (3, 1, 3, 3), 2, (), (), "multi-core split-K"),
    Vector("310P", Product(448, 256, 512, trans_b=True, **NZ), 8, (112, 128, 512), (112, 128, 128), (16, 16), (1, 1, 8, 8), 1,
           (1, 1), (4, 2)),
    Vector("310P", Product(64, 256, 512, trans_a=True, **NZ), 8, (16, 256, 512), (16, 256, 64), (16, 8), (1, 1, 8, 8), 1, (1, 1), (4, 1)),
)
# 32 x 11264 x 1408 with B transposed: R5, whose tiling comes from a closed engine. Its vector: 22 cores, base 32,128,128, depth 4/4
NOT_BUILT = Product(32, 11264, 1408, trans_b=True)


@pytest.mark.parametrize("v", VECTORS, ids=lambda v: f"{v.chip} {v.product.m}x{v.product.n}x{v.product.k}")
def test_a_public_vector(v: Vector) -> None:
    found = matmul_tiling(v.product, CHIPS[v.chip])
    t = found.tiling
    assert found.template == v.template
    assert (t.usedCoreNum, (t.singleCoreM, t.singleCoreN, t.singleCoreK)) == (v.used, v.single)
    assert (t.baseM, t.baseN, t.baseK) == v.base
    assert ((t.depthA1, t.depthB1), (t.stepM, t.stepN, t.stepKa, t.stepKb), t.dbL0C) == (v.depth, v.steps, v.db_l0c)
    if v.tiles:
        assert ((t.l2MTileCnt, t.l2NTileCnt), (t.l2MTileBlock, t.l2NTileBlock)) == (v.tiles, v.blocks)


def test_the_vector_of_a_closed_engine_is_not_reproduced() -> None:
    """Its 22 cores and 32 x 128 x 128 come from elsewhere. When this fails, the rule was built: move the vector to the others."""
    t = matmul_tiling(NOT_BUILT, CHIPS["910B"]).tiling
    assert (t.usedCoreNum, t.baseM, t.baseN, t.baseK) != (22, 32, 128, 128)


@pytest.mark.parametrize("p, base, at_once", [(Product(32, 32, 32, batch=100, b_batched=True), (32, 32, 32), 4),
                                              (Product(16, 4, 21, trans_a=True, batch=1500, b_batched=True), None, 62)])
def test_a_public_example_of_a_batch(p: Product, base: tuple[int, int, int] | None, at_once: int) -> None:
    found = batch_tiling(p, CHIPS["910B"])
    assert (found.at_once, found.cores) == (at_once, 24)
    assert base in (None, (found.tiling.baseM, found.tiling.baseN, found.tiling.baseK))
