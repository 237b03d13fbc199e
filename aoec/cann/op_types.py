"""Types of operators: CANN's words for ours, and ours for CANN's.

CANN's are those of its operator lists and profiles (aoepar_16_072; `OP Type` of msprof's op_summary). Each operator's declaration names its
own (`Op.cann`); what stands here is what no declaration can say. What CANN has no operator for keeps our word.
"""
from __future__ import annotations

import re
from collections import Counter

from aoec.ops.registry import OPS

CANN = {op.name: op.cann for op in OPS.values() if op.cann}


def small(name: str) -> str:
    """Return a type of operators in small letters without _, versions, and the D of attributes."""
    bare = name if name.islower() else re.sub(r"(?<![\dN])D$", "", re.sub(r"V\d+$", "", name))
    return bare.replace("_", "").lower()


def _words_by_small_name() -> dict[str, str]:
    """Return small name of an operator, and of each of its types -> the word for it: that of the type where several operators have it
    first, else the operator's own."""
    out: dict[str, str] = {}
    shared = Counter(small(types[0]) for types in CANN.values())
    for name, types in CANN.items():
        word = small(types[0]) if shared[small(types[0])] > 1 else small(name)
        out |= {small(name): word, **{small(t): word for t in types}}
    return out


# small names that are one operator -> the word for it: what CANN, ONNX, older files and profiles say beside the declared types
ALIASES = _words_by_small_name() | {
    "averagepool": "avgpool", "batchnormalization": "batchnorm", "conv": "conv2d", "conv2dcompress": "conv2d", "fastgelu": "gelu",
    "flashattentionscore": "attention", "fullyconnection": "matmul", "fusedinferattentionscore": "attention", "gemm": "matmul",
    "globalaveragepool": "reducemean", "layernormalization": "layernorm", "matmulcommon": "matmul", "matmulpacked": "matmul",
    "pooling": "maxpool", "rmsnormalization": "rmsnorm",
    "depthwiseconv2d": "depthwiseconv2d",  # apart from others in a profile, where its filter has another shape
    "power": "pow", "pow": "pow"}


def types_of(ours: str) -> tuple[str, ...]:
    """Return CANN's types of one of our operators, by release; none where it has none."""
    return CANN.get(ours, ())


def type_of(ours: str) -> str:
    """Return CANN's type of one of our operators, or its own name where CANN has none."""
    return next(iter(types_of(ours)), ours)


def plain(name: str) -> str:
    """Return the word that all sides have for a type of operators: MatMulV3, BatchMatMulV2 and matmul are matmul."""
    return ALIASES.get(small(name), small(name))
