"""Tiles in the words of those who write kernels: each word from the vendor's own fields, and what none of them says."""
from __future__ import annotations

from aoec.cann.kernel_words import Sizes, Value, catlass, product_words, tcube, triton, vector_words

# a documented block of CATLASS' examples: L1 128 x 256 x 256, L0 128 x 256 x 64, swizzle <3, 0>
TILING = {"usedCoreNum": 20, "singleCoreM": 128, "singleCoreN": 256, "singleCoreK": 4096, "baseM": 128, "baseN": 256, "baseK": 64,
          "depthA1": 8, "depthB1": 8, "stepM": 1, "stepN": 1, "iterateOrder": 1, "stepKa": 4, "stepKb": 4, "dbL0A": 2, "dbL0B": 2,
          "dbL0C": 1, "l2MTileCnt": 6, "l2NTileCnt": 1, "l2MTileBlock": 3, "l2NTileBlock": 8, "l2IterateOrder": 0,
          "unitFlag": 1, "kRotate": 0, "swizzleOffset": 3, "swizzleDirection": 0}
SIZES = Sizes(1, 2048, 2048, 4096, False)


def said(values: list[Value]) -> dict[str, int | str | None]:
    return {v.field: v.value for v in values}


def notes(values: list[Value]) -> dict[str, str]:
    return {v.field: v.why for v in values if v.why}


def test_a_schedule_of_catlass_own_example_has_its_words() -> None:
    found = catlass(TILING, SIZES, True)
    assert said(found) == {"L1TileShape.M": 128, "L1TileShape.N": 256, "L1TileShape.K": 256, "L0TileShape.M": 128, "L0TileShape.N": 256,
                           "L0TileShape.K": 64, "SwizzleOffset": 3, "SwizzleDirection": 0, "ENABLE_UNIT_FLAG": 1, "ENABLE_SHUFFLE_K": 0}
    assert notes(found) == {}
    columns = catlass(TILING | {"swizzleOffset": 2, "swizzleDirection": 1}, SIZES, True)
    assert (said(columns)["SwizzleOffset"], said(columns)["SwizzleDirection"]) == (2, 1)


def test_what_catlass_cannot_say_is_said() -> None:
    walk = catlass(TILING | {"swizzleOffset": 0, "l2MTileBlock": 8}, SIZES, True)
    assert said(walk)["SwizzleOffset"] == 8 and "L2 tiles of 8 x 8 blocks" in notes(walk)["SwizzleOffset"]
    grid = catlass(TILING | {"swizzleOffset": 0, "singleCoreM": 512}, Sizes(1, 512, 2048, 4096, False), True)
    assert (said(grid)["SwizzleOffset"], said(grid)["SwizzleDirection"]) == (3, 1)  # its own rule: 0 if m >= n else 1
    assert "512 x 256" in notes(grid)["SwizzleOffset"]
    odd = catlass(TILING | {"stepKa": 8, "stepM": 2, "singleCoreK": 1024}, SIZES, True)
    assert {*notes(odd)} == {"L1TileShape.M", "L1TileShape.K", "L0TileShape.K"} and said(odd)["L1TileShape.K"] == 256
    assert [v.value for v in catlass(TILING, SIZES, False)] == [None]


def test_the_structure_of_ascend_c_has_the_documented_fields() -> None:
    """atlasascendc_api_07_0673; singleCoreK is K there, and the library parts m and n in a grid."""
    found = tcube(TILING, Sizes(1, 2048, 2048, 4096, True))
    assert said(found) | {"others": None} == said(found)
    assert {*said(found)} - {"others"} == {
        "usedCoreNum", "M", "N", "Ka", "Kb", "singleCoreM", "singleCoreN", "singleCoreK", "baseM", "baseN", "baseK", "depthA1", "depthB1",
        "stepM", "stepN", "stepKa", "stepKb", "isBias", "iterateOrder", "dbL0A", "dbL0B", "dbL0C"}
    assert (said(found)["Ka"], said(found)["isBias"], said(found)["baseN"]) == (4096, 1, 256)
    assert {*notes(found)} == {"usedCoreNum", "others"}  # several blocks a core
    assert "singleCoreK" in notes(tcube(TILING | {"singleCoreK": 512}, SIZES))


def test_blocks_of_triton() -> None:
    found = triton(TILING, SIZES, True)
    assert said(found) == {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 256, "GROUP_M": 3, "num_programs": 20, "multibuffer": "True",
                           "L0": None}
    single = triton(TILING | {"depthA1": 4, "depthB1": 4, "swizzleOffset": 0, "singleCoreM": 512}, SIZES, True)
    assert said(single)["multibuffer"] == "False" and said(single)["GROUP_M"] == 1
    assert said(vector_words({"i0": 7}, 19, {"X_UB": 2}, True)) == {"BLOCK_i0": 7, "num_programs": 19, "multibuffer": "True"}


def test_every_word_says_what_it_means_or_why_it_has_no_value() -> None:
    for apart in (True, False):
        for v in product_words(TILING, SIZES, apart):
            assert v.meaning and (v.value is not None or v.why), v
