"""Tilings of run-time knowledge banks, from and to the fields that `search.vendor` reads, with the other fields of a record.

In MatMulV3 the decimal digits of tilingEnable name the kernel's template. The ones say how k is split. The tens say which operand is
loaded whole. The thousands say how unaligned results are stored. The ten thousands say whether starts along k are staggered.
In Conv2DV2 pBufferFlag has a bit for each buffer that has two slots: L0A, L0B, L0C, and the L1 buffers of image and filter, lowest first.
With mMode 1, pixels are one axis. Source: the code of the vendor's operator library ops-nn (2026-08) that parses records.
"""
from __future__ import annotations

from collections.abc import Mapping

from aoec.base.errors import UnsupportedError
from aoec.cann.runtime_bank import Fields, kind_of
from aoec.cann.runtime_bank_keys import CONV2D, MATMUL, Problem, Product, Window

Tiling = dict[str, int]  # field of MatmulTiling or ConvTiling -> value

BASE, SPLIT_K, K_SHIFT = 0, 4, 10000  # templates: block after block, parts of k on several cores, staggered starts
OTHER = {2: "a core adds up parts of k in GM", 3: "vector cores add up parts of k in a fixed order", 5: "a core adds up parts of k in GM",
         6: "a core adds up parts of k in GM"}
SLOTS = ("pbAL0", "pbBL0", "pbCL0", "pbAL1", "pbBL1")  # bits of pBufferFlag, lowest first


def knowledge_of(problem: Problem, tiling: Mapping[str, int]) -> Fields:
    """Return the tiling of a record, of the fields of a MatmulTiling or ConvTiling."""
    if isinstance(problem, Product):
        return matmul_knowledge(problem, tiling)
    return conv2d_knowledge(problem, tiling)


def tiling_of(problem: Problem, knowledge: Fields, unit_flag: bool) -> Tiling:
    """Return the fields of a MatmulTiling or ConvTiling. Raise UnsupportedError where a record says what they have no word for.
    `unit_flag`: whether the chip's kernels drain L0C in granules."""
    if isinstance(problem, Window):
        own = conv2d_tiling(problem, knowledge)
    else:
        own = quantised_tiling(problem, knowledge) if problem.dtype == "int8" else matmul_tiling(problem, knowledge)
    return own | {"unitFlag": int(unit_flag)}


# ---------------------------------------------------------------- MatMulV3

def matmul_knowledge(p: Product, t: Mapping[str, int]) -> Fields:
    """Return the 23 fields of MatMulV3."""
    template = K_SHIFT if t["kRotate"] else SPLIT_K if t["singleCoreK"] < p.k else BASE
    return {n: template if n == "tilingEnable" else t[n] for n in kind_of(MATMUL).knowledge}


def matmul_tiling(p: Product, knowledge: Fields) -> Tiling:
    """Return the fields of a MatmulTiling. L2 tiles of no stated size are even cuts, as the kernels make them."""
    template = int(knowledge["tilingEnable"])
    if template not in (BASE, 1, SPLIT_K, K_SHIFT):  # 1 is taken as 0
        raise UnsupportedError(f"tilingEnable {template}: {OTHER.get(template, 'a template without a form of ours')}")
    fields = {n: int(v) for n, v in knowledge.items() if n != "tilingEnable"}
    if min(v for n, v in fields.items() if n.startswith(("single", "base", "step"))) < 1:
        raise UnsupportedError("a block or step of 0")
    fields |= {n: max(1, fields[n]) for n in ("l2MTileCnt", "l2NTileCnt")}
    if not (fields["l2MTileBlock"] and fields["l2NTileBlock"]):
        for x, extent in (("M", p.m), ("N", p.n)):
            fields[f"l2{x}TileBlock"] = -(-extent // (fields[f"singleCore{x}"] * fields[f"l2{x}TileCnt"]))
    return fields | {"kRotate": int(template == K_SHIFT)}


# ---------------------------------------------------------------- QuantBatchMatmulV3

def quantised_tiling(p: Product, knowledge: Fields) -> Tiling:
    """Return the fields of a MatmulTiling, as the operator itself makes them of its own: tiles are counted in fractals (16, of k 32), a
    core's block is an even share in fractals, or in tiles where an operand is read across its rows; L0A and L0B have two slots in any
    case."""
    k = {n: int(v) for n, v in knowledge.items()}
    if min(v for n, v in k.items() if n.endswith(("_dim", "_l0", "_al1", "_bl1")) or n == "db_l0c") < 1:
        raise UnsupportedError("a tile or part of 0")
    if k["batch_dim"] > 1 or k["k_dim"] > 1:
        raise UnsupportedError("parts of a batch, or of k, over cores")
    tile = {"m": k["m_l0"] * 16, "n": k["n_l0"] * 16}
    unit = {"m": 16, "n": 16 if p.trans_b or p.n < tile["n"] else tile["n"]}
    block = {x: up(-(-size // k[f"{x}_dim"]), unit[x]) for x, size in (("m", p.m), ("n", p.n))}
    step_a, step_b = -(-k["k_al1"] // k["k_l0"]), -(-k["k_bl1"] // k["k_l0"])
    whole_a, whole_b = (k[n] * 32 >= p.k for n in ("k_al1", "k_bl1"))
    return {"usedCoreNum": -(-p.m // block["m"]) * -(-p.n // block["n"]), "singleCoreM": block["m"], "singleCoreN": block["n"],
            "singleCoreK": p.k, "baseM": tile["m"], "baseN": tile["n"], "baseK": k["k_l0"] * 32, "stepM": k["m_al1"], "stepN": k["n_bl1"],
            "stepKa": step_a, "stepKb": step_b, "depthA1": step_a * k["m_al1"] * k["db_al1"], "depthB1": step_b * k["n_bl1"] * k["db_bl1"],
            "dbL0A": 2, "dbL0B": 2, "dbL0C": k["db_l0c"], "iterateOrder": int(whole_a and (not whole_b or inner_n(block, tile, k)))}


def inner_n(block: dict[str, int], tile: dict[str, int], k: dict[str, int]) -> bool:
    """Return whether n is walked first where both operands lie in L1 along all of k: what is read again is less."""
    again_a = block["m"] + block["n"] * -(-block["m"] // (k["m_al1"] * tile["m"]))
    again_b = block["n"] + block["m"] * -(-block["n"] // (k["n_bl1"] * tile["n"]))
    return again_a < again_b


# ---------------------------------------------------------------- Conv2DV2

def conv2d_knowledge(w: Window, t: Mapping[str, int]) -> Fields:
    """Return the fields of Conv2DV2 that records must have. A bias and scales lie in L1 whole, as in nearly all public records."""
    pixels = w.ho * w.wo if w.point else w.ho
    rows = share(pixels, t["hoL1"], t["hoDim"])
    channels = share(w.co // w.groups, t["nL0"], t["nDim"])
    small = t["kAL1"] % (w.kh * w.kw * 16) != 0  # four channels a pixel, and so less than a plane
    fields = {**{n: t[n] for n in ("hoL1", "hoL0", "nL0", "nBL1", "kL0", "iterateMNOrder", "batchDim", "groupDim")},
              "woL1": 0 if w.point else t["woL1"], "woL0": 0 if w.point else t["woL0"], "mMode": int(w.point),
              "kAL1": up(t["kAL1"], 16) if small else t["kAL1"], "kBL1": up(t["kBL1"], 16) if small else t["kBL1"],
              "groups": w.groups, "orgCi": w.c, "orgHi": w.h, "orgWi": w.w, "orgCo": w.co, "orgHo": w.ho, "orgWo": w.wo, "kernelH": w.kh,
              "kernelW": w.kw, "strideH": w.stride[0], "strideW": w.stride[1], "dilationH": w.dilation[0], "dilationW": w.dilation[1],
              "padTop": w.pads[0], "padBottom": w.pads[1], "padLeft": w.pads[2], "padRight": w.pads[3],
              "singleCoreCi": w.c // w.groups, "singleCoreCo": channels, "singleCoreHo": rows, "singleCoreWo": 0 if w.point else w.wo,
              "hoDim": -(-pixels // rows), "woDim": 1, "nDim": -(-(w.co // w.groups) // channels),
              "pBufferFlag": sum((t[n] == 2) << bit for bit, n in enumerate(SLOTS)), "biasFullLoadFlag": 1, "fixpParamsFullLoadFlag": 1,
              "offsetx": 0, "hf32Enable": 0, "hf32TransMode": 0, "isC04Flag": int(small), "roundMode": 0}
    return {n: fields[n] for n in kind_of(CONV2D).knowledge}


def share(extent: int, tile: int, parts: int) -> int:
    """Return the part of an axis that one core has, in whole tiles."""
    tiles = -(-extent // tile)
    return min(-(-tiles // parts) * tile, extent)


def up(extent: int, unit: int) -> int:
    """Return an extent rounded up."""
    return -(-extent // unit) * unit


def conv2d_tiling(w: Window, knowledge: Fields) -> Tiling:
    """Return the fields of a ConvTiling."""
    k = {n: int(v) for n, v in knowledge.items()}
    for name, why in (("isWeightUbTransFlag", "the filter goes through UB"), ("enlarge", "groups are worked on together")):
        if k.get(name):
            raise UnsupportedError(f"{name}: {why}")
    if k.get("innerBatch", 1) > 1:
        raise UnsupportedError("innerBatch: several images in L1 together")
    if min(k[n] for n in ("hoL1", "hoL0", "kL0", "nL0", "kAL1", "kBL1", "nBL1", "batchDim", "hoDim", "nDim", "groupDim")) < 1:
        raise UnsupportedError("a tile or part of 0")
    slots = {n: 1 + (k["pBufferFlag"] >> bit & 1) for bit, n in enumerate(SLOTS)}
    return {**{n: k[n] for n in ("kL0", "nL0", "kAL1", "kBL1", "nBL1", "batchDim", "nDim", "groupDim", "iterateMNOrder", "hoDim")},
            "woDim": 1, **slots, **tiles(w, k)}


def tiles(w: Window, k: dict[str, int]) -> Tiling:
    """Return hoL1, woL1, hoL0, woL0 of a ConvTiling. For a point convolution they are pixels, otherwise rows and columns."""
    flat, extents = k["mMode"] == 1, {n: k[n] for n in ("hoL1", "woL1", "hoL0", "woL0")}
    if flat == w.point:
        return extents | ({"woL1": 1, "woL0": 1} if flat else {})
    if not flat:
        if (k["woL1"], k["woL0"]) != (w.wo, w.wo):
            raise UnsupportedError("tiles of pixels that are no whole rows")
        return {"hoL1": k["hoL1"] * w.wo, "hoL0": k["hoL0"] * w.wo, "woL1": 1, "woL0": 1}
    if any(k[n] % w.wo and k[n] < w.ho * w.wo for n in ("hoL1", "hoL0")):
        raise UnsupportedError("tiles of pixels that are no whole rows")
    return {"hoL1": -(-k["hoL1"] // w.wo), "hoL0": -(-k["hoL0"] // w.wo), "woL1": 0, "woL0": 0}
