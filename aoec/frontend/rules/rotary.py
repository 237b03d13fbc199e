"""Translates rotary embedding: x * cos + turned(x) * sin, where turned(x) is a head times a matrix of 1, -1 and 0.

The cube computes it exactly, for pairs of halves and pairs of neighbours. An element that is NaN makes its whole head NaN.
"""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aoec.frontend.rules.rule import Rule
from aoec.frontend.translate.node import Node


def _rotary(n: Node) -> bool:
    shape = n.shape_of(0)
    if 0 in shape or not all(n.dtype_of(at) == "fp32" for at in range(3)):
        return False
    packed = len(shape) == 3
    heads = n.integer("num_heads", 1) if packed else shape[1]
    rows, size = shape[1] if packed else shape[2], shape[-1] // heads if packed else shape[-1]
    turned = n.integer("rotary_embedding_dim", 0) or size
    x = n.step("reshape", [n.input(0)], {"shape": (shape[0], rows, heads, size)}) if packed else n.input(0)
    pairs = _pairs(turned, bool(n.integer("interleaved", 0)))
    angles = (shape[0], rows, 1, size) if packed else (shape[0], 1, rows, size)
    caches = [_angles(n, at, pairs, size, angles) for at in (1, 2)]
    other = np.zeros((size, size))
    other[pairs[:, 1], pairs[:, 0]], other[pairs[:, 0], pairs[:, 1]] = -1, 1
    partner = n.step("matmul", [x, n.constant("partner", other)])
    y = n.step("add", [n.step("mul", [x, caches[0]]), n.step("mul", [partner, caches[1]])])
    return n.emit("reshape", [y], {"shape": shape})


def _pairs(turned: int, interleaved: bool) -> np.ndarray:
    """Return [turned / 2, 2]: the pairs of a head's elements that turn together."""
    half = turned // 2
    return np.arange(turned).reshape(half, 2) if interleaved else np.arange(turned).reshape(2, half).T


def _angles(n: Node, at: int, pairs: np.ndarray, size: int, shape: Sequence[int]) -> str:
    """Return cosines or sines for every element of a head, by a product that gives both of a pair theirs; 1 and 0 for what does not
    turn."""
    cache, half = n.input(at), len(pairs)
    if n.has(3):
        cache = n.step("gather", [cache, n.input(3)], {"axis": 0})
    spread = np.zeros((half, size))
    spread[np.arange(half)[:, None], pairs] = 1
    each = n.step("reshape", [n.step("matmul", [cache, n.constant("spread", spread)])], {"shape": tuple(shape)})
    if at == 1 and 2 * half < size:
        each = n.step("add", [each, n.constant("still", (np.arange(size) >= 2 * half).astype(np.float32))])
    return each


RULES: dict[str, Rule] = {"RotaryEmbedding": _rotary}
ANY_DTYPE = set(RULES)
