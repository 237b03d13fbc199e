"""Scales of FIXPIPE as the chip reads them: a word of 64 bits for each column, and how reals become such words.

A word has three parts (Ascend C, Fixpipe: quantPre VREQ8). Bits 0-31 hold a scale in fp32, of whose fraction the upper ten bits count.
Bits 37-45 hold a zero point of nine bits in two's complement. Bit 46 says whether results are int8. A graph has scales as fp32, and a
program reads them as a tensor of such words. The caller that passes scales to a program makes the words, with the zero point that the
program's instructions state.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from aoec.ir.index import Int
from aoec.ir.program import For, Instr, Item, Program, Ref

DTYPE = "uint64"  # of a word
LOST_BITS = 13  # of a scale's fraction of 23 bits
ZERO_AT, ZERO_BITS, SIGN_AT = 37, 9, 46


def round_scales(scales: np.ndarray) -> np.ndarray:
    """Return the scales, in fp32, to the nearest whose fraction has ten bits, ties to even; the shape stays."""
    bits = np.ascontiguousarray(scales, np.float32).view(np.uint32)
    half = np.uint32((1 << LOST_BITS - 1) - 1) + (bits >> np.uint32(LOST_BITS) & np.uint32(1))
    return (bits + half & np.uint32(0xFFFFFFFF << LOST_BITS & 0xFFFFFFFF)).view(np.float32)


def scale_words(scales: np.ndarray, zero: int = 0) -> np.ndarray:
    """Return a word for each scale, rounded to ten bits, of results in int8 with that zero point (-256..255)."""
    bits = round_scales(scales).view(np.uint32).astype(np.uint64)
    return bits | np.uint64((zero & (1 << ZERO_BITS) - 1) << ZERO_AT | 1 << SIGN_AT)


def bring_words(given: np.ndarray, name: str, tensors: Mapping[str, int]) -> np.ndarray:
    """Return what a tensor of a program holds: words where it has some (`tensors`: `word_tensors`) and scales in fp32 are given, else what
    is."""
    return scale_words(given, tensors[name]) if name in tensors and given.dtype == np.float32 else given


def split_words(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (the scales of words in fp32, with ten bits of fraction; their zero points in fp32)."""
    bits = (words & np.uint64(0xFFFFFFFF << LOST_BITS & 0xFFFFFFFF)).astype(np.uint32)
    zeros = (words >> np.uint64(ZERO_AT)).astype(np.int64) & (1 << ZERO_BITS) - 1
    return bits.view(np.float32), (zeros - (zeros >> ZERO_BITS - 1 << ZERO_BITS)).astype(np.float32)


def word_tensors(program: Program) -> dict[str, int]:
    """Return the tensors of a program that hold words, and the zero point of each: what goes through L1 to where FIXPIPE takes scales
    from."""
    found: dict[str, int] = {}
    instructions = [i for s in program.streams for i in _instructions(s.body)]
    for i in instructions:
        if i.op.endswith("_scale") and isinstance(scale := i["scale"], Ref):
            zero = i["zero"]
            found[scale.buffer] = zero.value if isinstance(zero, Int) else 0
    for word in ("load_fb", "copy_gm_l1"):
        found |= {i["src"].buffer: found[i["dst"].buffer] for i in instructions if i.op == word
                  and isinstance(i["src"], Ref) and isinstance(i["dst"], Ref) and i["dst"].buffer in found}
    return {t.name: found[t.name] for t in program.tensors if t.name in found}


def _instructions(items: Iterable[Item]) -> Iterator[Instr]:
    for item in items:
        if isinstance(item, For):
            yield from _instructions(item.body)
        elif isinstance(item, Instr):
            yield item
