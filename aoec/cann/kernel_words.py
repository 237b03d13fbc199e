"""A kernel's tiles in the words of those who write kernels by hand: TCubeTiling of Ascend C, CATLASS, Triton.

The input is the vendor's fields of a matrix product's tiling by their own names (MatMulV3), with the swizzle of CATLASS where a
schedule has it. The fields of convolutions are Conv2DV2's. The output is a value for each word, or the reason why there is none.
TCubeTiling is the structure of that name in the Ascend C API (atlasascendc_api_07_0673). The words of CATLASS are GemmShape of L1 and L0
tiles, and GemmIdentityBlockSwizzle<offset, direction>. That swizzle numbers blocks in groups of `offset` rows (direction 0) or columns
(direction 1), and deals them to the cores in turn. The words of Triton are block sizes as its tutorials name them.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

ROWS_LIMIT = 3  # CATLASS' own choice of an offset, where a schedule has no groups of rows
SPLIT_CHIPS = "is written for chips whose cubes and vector cores are apart (Atlas A2, A3, 950)"
# TCubeTiling: field -> what it is; extents in elements, depths and steps in base blocks
TCUBE = {
    "usedCoreNum": "cores that work",
    "M": "rows of A and C", "N": "columns of B and C", "Ka": "columns of A", "Kb": "rows of B",
    "singleCoreM": "rows of a core's block", "singleCoreN": "columns of a core's block", "singleCoreK": "depth of a core's block",
    "baseM": "rows of an L0 block", "baseN": "columns of an L0 block", "baseK": "depth of an L0 block",
    "depthA1": "base blocks of A in L1, all slots together", "depthB1": "base blocks of B in L1, all slots together",
    "stepM": "base blocks of m in one L1 tile of A", "stepN": "base blocks of n in one L1 tile of B",
    "stepKa": "base blocks of k in one L1 tile of A", "stepKb": "base blocks of k in one L1 tile of B",
    "isBias": "1: a bias is added", "iterateOrder": "which result blocks follow each other: 0 along m first, 1 along n first",
    "dbL0A": "slots of L0A", "dbL0B": "slots of L0B", "dbL0C": "slots of L0C",
}
TCUBE_UNSAID = ("transLength, share*, batch*, singleBatch*, *LayoutInfo*, BatchNum, depth*CacheUB, mxTypePara: set by the library's "
                "GetTiling, not by a schedule")
CATLASS = {
    "L1TileShape.M": "rows of a block in L1, the unit that is dealt to a core", "L1TileShape.N": "columns of a block in L1",
    "L1TileShape.K": "depth of what is loaded into L1 at once", "L0TileShape.M": "rows of an L0 tile",
    "L0TileShape.N": "columns of an L0 tile", "L0TileShape.K": "depth of an L0 tile",
    "SwizzleOffset": "rows (or columns) of blocks that are walked together", "SwizzleDirection": "0: groups of rows; 1: groups of columns",
    "ENABLE_UNIT_FLAG": "L0C is drained in granules", "ENABLE_SHUFFLE_K": "cores start along k at different chunks",
}
TRITON = {
    "BLOCK_M": "rows of a program's tile", "BLOCK_N": "columns of a program's tile", "BLOCK_K": "depth of one step of its loop over k",
    "GROUP_M": "rows of tiles that are walked together", "num_programs": "programs, one for each core: each walks its tiles in a loop",
    "multibuffer": "the compiler's option: loads run ahead of their use",
}


@dataclass(frozen=True)
class Value:
    """A word of a kernel: `words` it belongs to, its value, what it means; `why` it has no value, or in what it is not the schedule's."""

    words: str
    field: str
    value: int | str | None
    meaning: str
    why: str = ""


@dataclass(frozen=True)
class Sizes:
    """Those of a matrix product; `bias`: one is added."""

    batch: int
    m: int
    n: int
    k: int
    bias: bool


def product_words(t: Mapping[str, int], p: Sizes, apart: bool) -> list[Value]:
    """Return all words of a matrix product's tiling; `apart`: the chip has cubes and vector cores apart."""
    return [*tcube(t, p), *catlass(t, p, apart), *triton(t, p, apart)]


def tcube(t: Mapping[str, int], p: Sizes) -> list[Value]:
    """Return the values of TCubeTiling. Its library splits a product over cores as a grid of blocks, never along k. Notes say where."""
    given = {**t, "M": p.m, "N": p.n, "Ka": p.k, "Kb": p.k, "isBias": int(p.bias)}
    notes = {}
    if t["singleCoreK"] < p.k:
        notes["singleCoreK"] = "the library takes all of k on one core: add the parts of the cores in GM yourself (SetAtomicAdd)"
    if blocks(t, p) > t["usedCoreNum"]:
        notes["usedCoreNum"] = "cores take several blocks each: call the library for each block of a core, in your own loop"
    if p.batch > 1:
        notes["M"] = f"of each of {p.batch} products, which cores share"
    out = [Value("TCubeTiling", name, given[name], meaning, notes.get(name, "")) for name, meaning in TCUBE.items()]
    return [*out, Value("TCubeTiling", "others", None, "the other fields", TCUBE_UNSAID)]


def catlass(t: Mapping[str, int], p: Sizes, apart: bool) -> list[Value]:
    """Return tile shapes and swizzle of CATLASS, which deals single L1 blocks to cores in turn, in two slots each."""
    if not apart:
        return [Value("CATLASS", "", None, "all", f"CATLASS {SPLIT_CHIPS}")]
    offset, direction, swizzle = dealt(t, p)
    chunk = min(t["stepKa"], t["stepKb"]) * t["baseK"]
    values = {"L1TileShape.M": t["baseM"], "L1TileShape.N": t["baseN"], "L1TileShape.K": chunk, "L0TileShape.M": t["baseM"],
              "L0TileShape.N": t["baseN"], "L0TileShape.K": t["baseK"], "SwizzleOffset": offset, "SwizzleDirection": direction,
              "ENABLE_UNIT_FLAG": t["unitFlag"], "ENABLE_SHUFFLE_K": t["kRotate"]}
    notes = dict(catlass_notes(t, p)) | {name: swizzle for name in ("SwizzleOffset", "SwizzleDirection") if swizzle}
    return [Value("CATLASS", name, values[name], meaning, notes.get(name, "")) for name, meaning in CATLASS.items()]


def catlass_notes(t: Mapping[str, int], p: Sizes) -> Iterator[tuple[str, str]]:
    """Yield (word, in what it is not the schedule's)."""
    if t["stepM"] > 1:
        yield "L1TileShape.M", f"the schedule has {t['stepM']} L0 tiles in an L1 tile; CATLASS' blocks have one"
    if t["stepN"] > 1:
        yield "L1TileShape.N", f"the schedule has {t['stepN']} L0 tiles in an L1 tile; CATLASS' blocks have one"
    if t["stepKa"] != t["stepKb"]:
        loads = f"{t['stepKa'] * t['baseK']} of A and {t['stepKb'] * t['baseK']} of B"
        yield "L1TileShape.K", f"the schedule loads {loads} at once; CATLASS has one depth"
    if t["singleCoreK"] < p.k:
        yield "L0TileShape.K", f"cores share k, {t['singleCoreK']} each: take a split-K kernel (SplitkGemmIdentityBlockSwizzle)"


def blocks(t: Mapping[str, int], p: Sizes) -> int:
    """Return the single-core blocks of one product."""
    return -(-p.m // t["singleCoreM"]) * -(-p.n // t["singleCoreN"]) * -(-p.k // t["singleCoreK"])


def dealt(t: Mapping[str, int], p: Sizes) -> tuple[int, int, str]:
    """Return (swizzle offset, direction, "" or in what they are not the schedule's)."""
    single = (t["singleCoreM"], t["singleCoreN"]) == (t["baseM"], t["baseN"])
    if t["swizzleOffset"] and single:
        return t["swizzleOffset"], t["swizzleDirection"], ""
    if single and blocks(t, p) > t["usedCoreNum"]:
        tile = f"{t['l2MTileBlock']} x {t['l2NTileBlock']}"
        return t["l2MTileBlock"], 0, f"the schedule walks L2 tiles of {tile} blocks; these are the nearest groups of rows"
    grid = f"the schedule gives each core a block of {t['singleCoreM']} x {t['singleCoreN']}; these are CATLASS' own choice for the shape"
    return ROWS_LIMIT, 0 if p.m >= p.n else 1, grid


def triton(t: Mapping[str, int], p: Sizes, apart: bool) -> list[Value]:
    """Return block sizes of a Triton kernel that walks its tiles in a loop."""
    if not apart:
        return [Value("Triton", "", None, "all", f"Triton-Ascend {SPLIT_CHIPS}")]
    offset, direction, grid = dealt(t, p)
    rows, columns = t["baseM"] * t["stepM"], t["baseN"] * t["stepN"]
    chunk = min(t["stepKa"], t["stepKb"]) * t["baseK"]
    slots = min(t["depthA1"] // (t["stepM"] * t["stepKa"]), t["depthB1"] // (t["stepN"] * t["stepKb"]))
    values = {"BLOCK_M": rows, "BLOCK_N": columns, "BLOCK_K": chunk, "GROUP_M": 1 if grid or direction else offset,
              "num_programs": t["usedCoreNum"], "multibuffer": "True" if slots > 1 else "False"}
    notes = {}
    if t["stepKa"] != t["stepKb"]:
        notes["BLOCK_K"] = "the schedule's chunks of A and B differ; tl.dot takes one"
    if direction and not grid:
        notes["GROUP_M"] = f"the schedule walks groups of {offset} columns: number the programs so"
    if grid:
        notes["GROUP_M"] = f"the schedule gives each program a block of {t['singleCoreM']} x {t['singleCoreN']} to walk"
    l0 = f"L0 blocks of {t['baseM']} x {t['baseN']} x {t['baseK']} are the compiler's choice: no word says them"
    return [*[Value("Triton", name, values[name], meaning, notes.get(name, "")) for name, meaning in TRITON.items()],
            Value("Triton", "L0", None, "tiles of L0A, L0B and L0C", l0)]


def convolution_words(t: Mapping[str, int]) -> list[Value]:
    """Return the fields of a convolution's tiling (Conv2DV2), and that no template says them."""
    out = [Value("Conv2DV2", name, value, CONVOLUTION.get(name, "")) for name, value in t.items() if name in CONVOLUTION]
    return [*out, Value("CATLASS", "", None, "all", "no public kernel template of convolutions takes these tiles"),
            Value("Triton", "", None, "all", "Triton has no convolution: img2col and a product is another kernel")]


CONVOLUTION = {
    "hoL1": "output rows of an L1 tile (pixels, where the image is one row)", "woL1": "output columns of an L1 tile",
    "hoL0": "output rows of an L0 tile", "woL0": "output columns of an L0 tile", "kL0": "columns of img2col in an L0 tile",
    "nL0": "output channels of an L0 tile", "kAL1": "columns of img2col of the image in L1", "kBL1": "rows of the weights in L1",
    "nBL1": "output channels of the weights in L1", "batchDim": "parts of the batch over cores", "hoDim": "parts of rows over cores",
    "woDim": "parts of columns over cores", "nDim": "parts of output channels over cores", "groupDim": "parts of groups over cores",
    "pbAL1": "slots of the image in L1", "pbBL1": "slots of the weights in L1", "pbAL0": "slots of L0A", "pbBL0": "slots of L0B",
    "pbCL0": "slots of L0C", "iterateMNOrder": "what runs inside: 0 pixels, 1 channels",
    "al1FullLoad": "1: all of k of the image is in L1", "bl1FullLoad": "1: all of k of the weights is in L1",
}


def vector_words(tiles: Mapping[str, int], programs: int, slots: Mapping[str, int], apart: bool) -> list[Value]:
    """Return tiles of vector work: `tiles` of each axis that is cut, parts over cores, slots of each buffer in UB."""
    if not apart:
        return [Value("Triton", "", None, "all", f"Triton-Ascend {SPLIT_CHIPS}")]
    blocks = [Value("Triton", f"BLOCK_{axis}", size, f"elements of axis {axis} in UB at a time") for axis, size in tiles.items()]
    ahead = "True" if max(slots.values(), default=1) > 1 else "False"
    rest: dict[str, int | str] = {"num_programs": programs, "multibuffer": ahead}
    return [*blocks, *[Value("Triton", name, value, TRITON[name]) for name, value in rest.items()]]
