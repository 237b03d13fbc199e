"""DeBERTa, whose attention adds products of words with places, as Hugging Face exports it."""
from __future__ import annotations

from math import sqrt

import numpy as np

from bench.networks.net import Net, Network

VOCABULARY = 50265
BUCKETS = 256  # of distances, each way


def deberta_base(batch: int = 1, seed: int = 0, words: int = 512, layers: int = 12, width: int = 768) -> Network:
    """Build DeBERTa-base (He et al., 2020) with the places of its second version: hidden states of texts of different lengths under a
    mask."""
    n = Net(seed)
    heads = width // 64
    ids = n.input("input_ids", n.random.integers(0, VOCABULARY, (batch, words)))
    lengths = n.random.integers(words // 2, words + 1, batch)
    seen = n.input("attention_mask", (np.arange(words) < lengths[:, None]).astype(np.int64))
    x = n.normed(n.node("Gather", n.normal(VOCABULARY, width), ids, axis=0), width, 1e-7)
    x = n.node("Mul", x, n.node("Cast", n.node("Unsqueeze", seen, n.constant([2], np.int64)), to=1))
    wide = n.node("Unsqueeze", seen, n.constant([1, 2], np.int64))
    pairs = n.node("Mul", wide, n.node("Unsqueeze", n.node("Squeeze", wide, n.constant([-2], np.int64)), n.constant([-1], np.int64)))
    hidden = n.node("Not", n.node("Cast", pairs, to=9))
    places = n.normed(n.normal(2 * BUCKETS, width), width, 1e-7)
    far = buckets(words)
    full = n.constant([batch * heads, words, words], np.int64)
    at = [n.node("Expand", n.constant(np.clip(way * far + BUCKETS, 0, 2 * BUCKETS - 1)[None], np.int64), full) for way in (1, -1)]
    for _ in range(layers):
        x = n.normed(n.node("Add", attention(n, x, (batch, words, width), places, at, hidden), x), width, 1e-7)
        x = n.normed(n.node("Add", n.dense(n.active(n.dense(x, width, 4 * width), "gelu"), 4 * width, width), x), width, 1e-7)
    return n.network("deberta-base", {"last_hidden_state": (x, (batch, words, width))})


def buckets(words: int) -> np.ndarray:
    """Return how far each word is from each other: near ones counted one by one, far ones by their logarithm."""
    apart = np.arange(words)[:, None] - np.arange(words)[None]
    middle = BUCKETS // 2
    size = np.maximum(np.abs(apart), middle - 1)
    logarithm = np.ceil(np.log(size / middle) / np.log((words - 1) / middle) * (middle - 1)) + middle
    return np.where(np.abs(apart) <= middle, apart, np.sign(apart) * logarithm).astype(np.int64)


def attention(n: Net, x: str, shape: tuple[int, int, int], places: str, at: list[str], hidden: str) -> str:
    """Add attention of words to words, of words to places and of places to words. Layers for the words' queries and keys serve places
    too."""
    batch, words, width = shape
    heads = width // 64
    layers = [(n.normal(width, width, deviation=width ** -0.5), n.normal(width, deviation=0.1)) for _ in range(3)]
    q, k, v = (merged(n, x, of, (batch, words, heads)) for of in layers)
    place_q, place_k = (merged(n, n.node("Unsqueeze", places, n.constant([0], np.int64)), of, (1, 2 * BUCKETS, heads)) for of in layers[:2])
    if batch > 1:
        place_q, place_k = (n.node("Tile", t, n.constant([batch, 1, 1], np.int64)) for t in (place_q, place_k))
    scale = n.constant(sqrt(3 * 64))
    scores = n.node("MatMul", q, n.node("Div", turned(n, k), scale))
    to_places = n.node("GatherElements", n.node("MatMul", q, turned(n, place_k)), at[0], axis=-1)
    from_places = turned(n, n.node("GatherElements", n.node("MatMul", k, turned(n, place_q)), at[1], axis=-1))
    scores = n.node("Add", scores, n.node("Add", n.node("Div", to_places, scale), n.node("Div", from_places, scale)))
    scores = n.node("Where", hidden, n.constant(np.finfo(np.float32).min), n.shaped(scores, batch, heads, words, words))
    shares = n.node("Where", hidden, n.constant(0.0), n.node("Softmax", scores, axis=-1))
    y = n.shaped(n.node("MatMul", n.shaped(shares, batch * heads, words, words), v), batch, heads, words, 64)
    return n.dense(n.shaped(n.node("Transpose", y, perm=[0, 2, 1, 3]), *shape), width, width)


def merged(n: Net, x: str, layer: tuple[str, str], shape: tuple[int, int, int]) -> str:
    """Return the linear layer's result as [batch * heads, words, size]."""
    batch, words, heads = shape
    y = n.node("Add", layer[1], n.node("MatMul", x, layer[0]))
    return n.shaped(n.heads(y, (batch, words, heads, 64)), batch * heads, words, 64)


def turned(n: Net, x: str) -> str:
    """Return the last two axes one for the other."""
    return n.node("Transpose", x, perm=[0, 2, 1])
