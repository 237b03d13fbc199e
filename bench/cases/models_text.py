"""Transformers by their papers: BERT (Devlin et al., 2018), ViT (Dosovitskiy et al., 2020).

Attention is what a graph compiler sees by default: products, scale and mask, softmax. Looking up embeddings is left to the host: the
rows of the words come in, which is one read of a thousandth of what a layer reads.
"""
from __future__ import annotations

from collections.abc import Callable

from aoec.ir.graph.graph import Graph
from bench.cases.net import Model

WORDS_CHINESE = 21128


def bert(layers: int, width: int, words: int = 0) -> Callable[[Model, int, int], Graph]:
    """Build BERT at (batch, sequence) from looked up rows: answers in a text (two scores a token), or, with `words`, scores of masked
    words."""
    def build(n: Model, batch: int, seq: int) -> Graph:
        parts = [n.input("words", (batch * seq, width)), n.input("kinds", (batch * seq, width))]
        x = n.node("add", [n.node("add", parts), n.zeros("places", (batch * seq, width))])
        x = n.normed(x)
        mask = n.input("mask", (batch, 1, 1, seq))
        for _ in range(layers):
            x = n.normed(n.node("add", [x, n.attention(x, batch, width // 64, mask)]))
            x = n.normed(n.node("add", [x, n.dense(n.dense(x, 4 * width, "gelu"), width)]))
        if words:
            return n.graph(n.dense(n.normed(n.dense(x, width, "gelu")), words))
        return n.graph(n.dense(x, 2))
    return build


def vit(patch: int, layers: int = 12, width: int = 768) -> Callable[[Model, str], Graph]:
    """Build ViT: patches as one convolution, a class token, layers that normalise first, classes from the token."""
    def build(n: Model, x: str) -> Graph:
        batch, _, height, wide = n.shape(x)
        count = height // patch * (wide // patch)
        x = n.conv(x, width, patch, patch, act="", pad=0)
        x = n.turned(n.shaped(x, batch, width, count), 0, 2, 1)
        x = n.node("concat", [n.zeros("class", (batch, 1, width)), x], axis=1)
        x = n.shaped(n.node("add", [x, n.zeros("places", (1, count + 1, width))]), batch * (count + 1), width)
        for _ in range(layers):
            x = n.node("add", [x, n.attention(n.normed(x), batch, width // 64)])
            x = n.node("add", [x, n.dense(n.dense(n.normed(x), 4 * width, "gelu"), width)])
        token = n.node("slice", [n.shaped(x, batch, count + 1, width)], starts=(0, 0, 0), sizes=(batch, 1, width), steps=(1, 1, 1))
        return n.graph(n.dense(n.normed(n.rows(token)), 1000))
    return build
