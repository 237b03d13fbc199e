"""Language models by their papers, as exporters write them: BERT-base, GPT-2, and a block as in today's open models."""
from __future__ import annotations

from math import sqrt

import numpy as np

from bench.networks.net import Net, Network

VOCABULARY = {"bert": 30522, "gpt2": 50257, "llm": 32000}


def bert_base(batch: int = 1, seed: int = 0, words: int = 128, layers: int = 12, width: int = 768) -> Network:
    """Build BERT-base (Devlin et al., 2018): hidden states and the pooled first word; texts of different lengths under a mask."""
    n = Net(seed)
    ids = n.input("input_ids", n.random.integers(0, VOCABULARY["bert"], (batch, words)))
    kinds = n.input("token_type_ids", np.zeros((batch, words), np.int64))
    lengths = n.random.integers(words // 2, words + 1, batch)
    seen = n.input("attention_mask", (np.arange(words) < lengths[:, None]).astype(np.int64))
    tables = [(VOCABULARY["bert"], ids), (2, kinds)]
    looked_up = [n.node("Gather", n.normal(rows, width, deviation=0.5), at, axis=0) for rows, at in tables]
    x = n.node("Add", n.node("Add", *looked_up), n.normal(1, words, width, deviation=0.5))
    x = n.normed(x, width, 1e-12)
    wide = n.node("Unsqueeze", n.node("Unsqueeze", seen, n.constant([1], np.int64)), n.constant([2], np.int64))
    mask = n.node("Mul", n.node("Sub", n.constant(1), n.node("Cast", wide, to=1)), n.constant(-10000))
    for _ in range(layers):
        x = n.normed(n.node("Add", attention(n, x, batch, words, width, mask), x), width, 1e-12)
        x = n.normed(n.node("Add", n.dense(n.active(n.dense(x, width, 4 * width), "gelu"), 4 * width, width), x), width, 1e-12)
    first = n.node("Gather", x, n.constant(0, np.int64), axis=1)
    pooled = n.node("Tanh", n.dense(first, width, width))
    return n.network("bert-base", {"last_hidden_state": (x, (batch, words, width)), "pooler_output": (pooled, (batch, width))})


def attention(n: Net, x: str, batch: int, words: int, width: int, mask: str) -> str:
    """Add attention of all words to each other."""
    shape = batch, words, width // 64, 64
    q, v = n.heads(n.dense(x, width, width), shape), n.heads(n.dense(x, width, width), shape)
    k = n.node("Transpose", n.shaped(n.dense(x, width, width), *shape), perm=[0, 2, 3, 1])
    scores = n.node("Add", n.node("Div", n.node("MatMul", q, k), n.constant(8.0)), mask)
    return n.dense(merged(n, n.node("MatMul", n.node("Softmax", scores, axis=-1), v), batch, words, width), width, width)


def merged(n: Net, x: str, batch: int, words: int, width: int) -> str:
    """Add nodes that turn [batch, heads, words, size] into [batch, words, width]."""
    return n.shaped(n.node("Transpose", x, perm=[0, 2, 1, 3]), batch, words, width)


def gpt2(batch: int = 1, seed: int = 0, words: int = 128, layers: int = 12, width: int = 768) -> Network:
    """Build GPT-2 (Radford et al., 2019), 124 M parameters: the next word's logits at every place; one table looks up and classifies."""
    n = Net(seed)
    ids = n.input("input_ids", n.random.integers(0, VOCABULARY["gpt2"], (batch, words)))
    table = n.normal(VOCABULARY["gpt2"], width, deviation=0.7)
    places = n.node("Gather", n.normal(1024, width, deviation=0.7), n.constant(np.arange(words)[None], np.int64), axis=0)
    x = n.node("Add", n.node("Gather", table, ids, axis=0), places)
    past = n.constant(np.tril(np.ones((1, 1, words, words), bool)), bool)
    for _ in range(layers):
        x = n.node("Add", causal(n, n.normed(x, width), batch, words, width, past), x)
        inner = gelu_tanh(n, n.dense(n.normed(x, width), width, 4 * width))
        x = n.node("Add", x, n.dense(inner, 4 * width, width))
    logits = n.node("MatMul", n.normed(x, width), n.node("Transpose", table, perm=[1, 0]))
    return n.network("gpt2", {"logits": (logits, (batch, words, VOCABULARY["gpt2"]))})


def causal(n: Net, x: str, batch: int, words: int, width: int, past: str) -> str:
    """Add attention of each word to those before it: one product for q, k and v, and a mask that is selected by."""
    q, k, v = n.parts("Split", 3, n.dense(x, width, 3 * width), n.constant([width] * 3, np.int64), axis=2)
    shape = batch, words, width // 64, 64
    scores = n.node("MatMul", n.heads(q, shape), n.node("Transpose", n.shaped(k, *shape), perm=[0, 2, 3, 1]))
    scores = n.node("Where", past, n.node("Div", scores, n.constant(8.0)), n.constant(np.finfo(np.float32).min))
    return n.dense(merged(n, n.node("MatMul", n.node("Softmax", scores, axis=-1), n.heads(v, shape)), batch, words, width), width, width)


def gelu_tanh(n: Net, x: str) -> str:
    """Return the form with tanh, spelt out: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
    cubed = n.node("Mul", n.node("Pow", x, n.constant(3.0)), n.constant(0.044715))
    tanh = n.node("Tanh", n.node("Mul", n.node("Add", x, cubed), n.constant(sqrt(2 / np.pi))))
    y = n.node("Mul", n.node("Mul", x, n.constant(0.5)), n.node("Add", tanh, n.constant(1.0)))
    n.gain[y] = 2.36
    return y


def llm_block(batch: int = 1, seed: int = 0, words: int = 128, layers: int = 2, width: int = 1024, heads: int = 16,
              shared: int = 4) -> Network:
    """Return layers as in Llama 3 (2024): RMSNorm, grouped queries (`shared` heads of k and v), rotary places, SwiGLU; the last one's
    logits."""
    n = Net(seed)
    ids = n.input("input_ids", n.random.integers(0, VOCABULARY["llm"], (batch, words)))
    x = n.node("Gather", n.normal(VOCABULARY["llm"], width), ids, axis=0)
    size = width // heads
    angles = np.outer(np.arange(words), 1e4 ** (-np.arange(0, size, 2) / size))
    turn = [n.constant(f(np.concatenate([angles, angles], axis=1))[None, None]) for f in (np.cos, np.sin)]
    future = n.constant(np.where(np.tril(np.ones((words, words), bool)), 0.0, -1e9)[None, None])
    for _ in range(layers):
        y = rms_norm(n, x, width)
        q = rotary(n, n.heads(n.dense(y, width, width, bias=False), (batch, words, heads, size)), turn, size)
        k = rotary(n, n.heads(n.dense(y, width, shared * size, bias=False), (batch, words, shared, size)), turn, size)
        v = n.heads(n.dense(y, width, shared * size, bias=False), (batch, words, shared, size))
        k, v = (repeated(n, t, batch, words, heads, shared, size) for t in (k, v))
        scores = n.node("MatMul", q, n.node("Transpose", k, perm=[0, 1, 3, 2]))
        scores = n.node("Add", n.node("Mul", scores, n.constant(size ** -0.5)), future)
        y = merged(n, n.node("MatMul", n.node("Softmax", scores, axis=-1), v), batch, words, width)
        x = n.node("Add", x, n.dense(y, width, width, bias=False))
        y = rms_norm(n, x, width)
        gate, up = n.active(n.dense(y, width, 4 * width, bias=False), "silu"), n.dense(y, width, 4 * width, bias=False)
        x = n.node("Add", x, n.dense(n.node("Mul", gate, up), 4 * width, width, bias=False))
    logits = n.dense(rms_norm(n, x, width), width, VOCABULARY["llm"], bias=False)
    return n.network("llm-block", {"logits": (logits, (batch, words, VOCABULARY["llm"]))})


def rms_norm(n: Net, x: str, width: int) -> str:
    """Add x / sqrt(mean(x^2) + epsilon) * scale, as single nodes."""
    mean = n.node("ReduceMean", n.node("Pow", x, n.constant(2.0)), axes=[-1], keepdims=1)
    turned = n.node("Div", n.constant(1.0), n.node("Sqrt", n.node("Add", mean, n.constant(1e-5))))
    return n.node("Mul", n.constant(n.random.uniform(0.8, 1.2, width)), n.node("Mul", x, turned))


def rotary(n: Net, x: str, turn: list[str], size: int) -> str:
    """Return each head turned by the angles of its place: x * cos + (-x2, x1) * sin."""
    halves = n.sliced(x, 3, size // 2, size), n.sliced(x, 3, 0, size // 2)
    other = n.node("Concat", n.node("Neg", halves[0]), halves[1], axis=3)
    return n.node("Add", n.node("Mul", x, turn[0]), n.node("Mul", other, turn[1]))


def repeated(n: Net, x: str, batch: int, words: int, heads: int, shared: int, size: int) -> str:
    """Return each shared head once for every query that asks it."""
    wide = n.node("Unsqueeze", x, n.constant([2], np.int64))
    wide = n.node("Expand", wide, n.constant([batch, shared, heads // shared, words, size], np.int64))
    return n.shaped(wide, batch, heads, words, size)
