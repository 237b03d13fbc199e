"""Free text of a published variant -> tile words: one table of patterns, general enough for neighbours of the rows it was made on."""
from __future__ import annotations

import re

Words = dict[str, tuple[int, ...]]

# flags: pattern -> word
FLAGS = (
    (r"\bNorm\b", "norm"), (r"\bMDL\b", "mdl"), (r"IBShare", "ibshare"), (r"basic API", "basic"), (r"UnitFlag|unit flag", "unitflag"),
    (r"preload", "preload"), (r"constant tiling", "constant"), (r"runtime tiling", "runtime"), (r"MIX mode", "mix"),
    (r"stagger|K rotation|rotat", "stagger"), (r"read by all", "shared"), (r"ND2NZ", "nd2nz"), (r"L2[- ]bypass|bypass", "bypass"),
    (r"bank[- ](conflict|fix|stag)|\bbank fix", "banks"), (r"binary accumulate|\btree\b", "tree"), (r"WholeReduce", "whole"),
    (r"\btail\b", "tail"))
# numbers: pattern -> word; all groups are numbers
NUMBERS = (
    (r"base (\d+)x(\d+)x(\d+)", "base"), (r"\bL0 (\d+)x(\d+)x(\d+)", "base"), (r"\bL1 (\d+)x(\d+)x(\d+)", "l1"),
    (r"single (\d+)x(\d+)x(\d+)", "single"), (r"singleM=(\d+)|single M (\d+)", "single"), (r"(\d+)x(\d+) cores", "grid"),
    (r"cores (\d+)x(\d+)", "grid"), (r"\b(\d)x(\d), MDL", "grid"), (r"AIC:AIV[ =](\d):(\d)", "ratio"), (r"stepKa/b=(\d+)", "step"),
    (r"stepKa=(\d+)", "stepka"), (r"stepKb=(\d+)", "stepkb"), (r"stepK (\d+)", "step"), (r"depthA1=(\d+)", "deptha"),
    (r"depthB1=(\d+)", "depthb"), (r"\bdepth (\d+)", "depth"), (r"split-K over (\d+) cores", "splitk"),
    (r"split-?K[ =](\d+)\b", "splitk"), (r"swizzle ?=? ?<?(\d+)[,:x] ?([01])>?", "swizzle"),
    (r"\b(\d+) (?:logical )?cores?\b", "cores"), (r"\b(\d+) (?:AIC|AIV)\b", "cores"),
    (r"blockDim=(\d+)", "cores"), (r", (\d+) blocks$", "cores"),
    (r"tile (\d+)x(\d+)", "tile"), (r"tile (\d+) elems", "tile"), (r"tile M(\d+) / K\d+-\d+ / N(\d+)", "base"))


def words_of(op: str, shape: str, variant: str, notes: str, before: Words | None) -> Words:
    """Return the tile words of a row; `before`: those of the row that it may lean on."""
    triton = triton_words(variant) if "Triton" in variant else None
    if triton is not None:
        return triton
    leans = before is not None and re.search(r"API: \+|^\+|same tile|as above|^.{0,12}\+ ", variant)
    words: Words = dict(before or {}) if leans else {k: v for k, v in (before or {}).items() if k == "base"} if "API" in variant else {}
    words |= LADDER.get(_case_number(variant), {})
    text = f"{variant}; {shape if 'read' in shape else ''}"
    for pattern, word in NUMBERS:
        found = re.search(pattern, text)
        if found and (word not in words or before is None or word != "cores"):
            words[word] = tuple(int(g) for g in found.groups() if g is not None)
    for pattern, word in FLAGS:
        if re.search(pattern, text, re.I if word in ("stagger", "bypass") else 0):
            words[word] = ()
    return settled(op, words, text)


def settled(op: str, words: Words, text: str) -> Words:
    """Return what several words of the text say together."""
    if re.search(r"(?<!no )L2 (cache )?split", text):
        words["l2"] = (2,)
    if "L2-aware" in text:  # PyPTO's guide: each turn of 24 cores takes 6 x 4 blocks of 128 x 256, the square that shares most
        words["swizzle"] = (6, 0)
    if auto := re.search(r"base (\d+)x(\d+)xauto", text):
        words["base"] = (int(auto.group(1)), int(auto.group(2)), 0)
    if "constant" in words:
        words.pop("runtime", None)
    if re.search(r"ND2NZ done on AIV", text):
        words.pop("nd2nz", None)
        words["prepack"] = ()
    if "mdl" in words:
        words.pop("norm", None)
    if "double buffer" in text:
        words["buffers"] = (2,)
    if size := re.search(r"\b(\d+) KB(?= tile|,|;|\))", text):
        words.setdefault("tile", (int(size.group(1)) * 512,))  # halves
    if times := re.search(r"read (\d)x (whole|by (quarters|halves))", text):
        words["passes"] = (int(times.group(1)),)
        words["parts"] = ({"quarters": 4, "halves": 2}.get(times.group(3), 1),)
    if stride := re.search(r"UB C0 stride (\d+)", text):
        words["ubstride"] = (int(stride.group(1)),)
    if fixed := re.search(r"tile M(\d+) / K(\d+)-(\d+) / N(\d+)", text):
        m, k0, k1, n = (int(g) for g in fixed.groups())
        words |= {"base": (m, n, k0), "l1": (m, n, k1)}
    if re.search(r"same tile", text) and op == "matmul" and "template" in text:
        words.setdefault("mdl", ())
    return words


def _case_number(variant: str) -> int:
    """Return the step of the vendor's nine-step sample on a chip whose rows name no more than the case; -1 for others."""
    found = re.search(r"high-level Matmul API case (\d)$", variant)
    return int(found.group(1)) if found else -1


# the nine steps of the asc-devkit matmul sample (examples/01_simd_cpp_api, 05_best_practices), 950PR: base 256x256x64 on 32 cores
_TUNED: Words = {"base": (256, 256, 64), "grid": (4, 8), "cores": (32,)}
_FULL: Words = {**_TUNED, "mdl": (), "deptha": (8,), "depthb": (8,), "stepka": (4,), "stepkb": (4,)}
LADDER: dict[int, Words] = {
    0: {"base": (64, 64, 64), "cores": (1,), "norm": ()}, 1: {"base": (256, 256, 64), "cores": (1,), "norm": ()},
    2: {"base": (256, 256, 64), "grid": (2, 16), "norm": ()}, 3: {**_TUNED, "norm": ()},
    4: {**_TUNED, "mdl": (), "stepka": (2,), "deptha": (4,), "stepkb": (4,), "depthb": (8,)}, 5: _FULL,
    6: {**_FULL, "l2": (2,)}, 7: {**_FULL, "l2": (2,), "constant": ()}, 8: {**_FULL, "l2": (2,), "constant": (), "unitflag": ()}}


def triton_words(variant: str) -> Words:
    """Return block sizes and program counts of a Triton kernel: BM x BN blocks, or runs of BN alone, SUB parts of one, `grid` instances."""
    words: Words = {}
    rows, columns = re.search(r"\bBM(\d+)", variant), re.search(r"\bBN(\d+)", variant)
    flat, sub = re.search(r"\bB(\d+)", variant), re.search(r"SUB(?:_M )?(\d+)", variant)
    if rows and columns:
        words["tile"] = (int(rows.group(1)), int(columns.group(1)))
    elif run := columns or flat:
        words["tile"] = (int(run.group(1)),)
    if sub:
        words["sub"] = (int(sub.group(1)),)
    if many := re.search(r"grid (\d+)|(\d+) programs?", variant):
        words["programs"] = (int(many.group(1) or many.group(2)),)
    return words
