"""Layers of a language model of today, as Hugging Face exports them: a whole text at once, and one word behind a cache."""
from __future__ import annotations

import numpy as np

from bench.networks.net import Net, Network
from bench.networks.text import merged, repeated, rms_norm, rotary

WIDTH, HEADS, SHARED, INNER, BASE = 2048, 32, 8, 8192, 5e5  # of Llama 3.2 1B
SIZE = WIDTH // HEADS


def llama_block(batch: int = 1, seed: int = 0, words: int = 128, layers: int = 2) -> Network:
    """Return layers of Llama 3.2 1B on a text."""
    n = Net(seed)
    x = n.input("inputs_embeds", n.random.standard_normal((batch, words, WIDTH), np.float32))
    turn = turns(n, n.input("position_ids", np.tile(np.arange(words), (batch, 1))))
    future = n.constant(np.where(np.tril(np.ones((words, words), bool)), 0.0, np.finfo(np.float32).min)[None, None])
    for _ in range(layers):
        x, _, _ = layer(n, x, batch, words, turn, future)
    return n.network("llama-block", {"hidden_states": (rms_norm(n, x, WIDTH), (batch, words, WIDTH))})


def llama_decode(batch: int = 1, seed: int = 0, past: int = 1023) -> Network:
    """Return a layer of Llama 3.2 1B on one word, whose keys and values join those of the words before."""
    n = Net(seed)
    x = n.input("inputs_embeds", n.random.standard_normal((batch, 1, WIDTH), np.float32))
    turn = turns(n, n.input("position_ids", np.full((batch, 1), past)))
    shape = batch, SHARED, past, SIZE
    cached = tuple(n.input(name, n.random.standard_normal(shape, np.float32)) for name in ("past_key", "past_value"))
    x, key, value = layer(n, x, batch, 1, turn, "", cached)
    present = batch, SHARED, past + 1, SIZE
    return n.network("llama-decode", {"hidden_states": (rms_norm(n, x, WIDTH), (batch, 1, WIDTH)), "present_key": (key, present),
                                      "present_value": (value, present)})


def turns(n: Net, places: str) -> list[str]:
    """Return cosines and sines of each place's angles, [batch, 1, words, size]."""
    rates = n.constant((BASE ** (-np.arange(0, SIZE, 2) / SIZE))[None, :, None])
    angles = n.node("MatMul", rates, n.node("Cast", n.node("Unsqueeze", places, n.constant([1], np.int64)), to=1))
    half = n.node("Transpose", angles, perm=[0, 2, 1])
    both = n.node("Concat", half, half, axis=-1)
    return [n.node("Unsqueeze", n.node(op, both), n.constant([1], np.int64)) for op in ("Cos", "Sin")]


def layer(n: Net, x: str, batch: int, words: int, turn: list[str], future: str, cached: tuple[str, ...] = ()) -> tuple[str, str, str]:
    """Return (what the layer makes, its keys, its values): norms before each part, heads that share keys and values, gates with SiLU."""
    y = rms_norm(n, x, WIDTH)
    q, k, v = (n.heads(n.dense(y, WIDTH, h * SIZE, bias=False), (batch, words, h, SIZE)) for h in (HEADS, SHARED, SHARED))
    q, k = rotary(n, q, turn, SIZE), rotary(n, k, turn, SIZE)
    if cached:
        k, v = (n.node("Concat", *pair, axis=-2) for pair in zip(cached, (k, v)))
    known = int(n.inputs[cached[0]].shape[2]) + words if cached else words
    all_k, all_v = (repeated(n, t, batch, known, HEADS, SHARED, SIZE) for t in (k, v))
    scores = n.node("Mul", n.node("MatMul", q, n.node("Transpose", all_k, perm=[0, 1, 3, 2])), n.constant(SIZE ** -0.5))
    scores = n.node("Add", scores, future) if future else scores
    y = merged(n, n.node("MatMul", n.node("Softmax", scores, axis=-1), all_v), batch, words, WIDTH)
    x = n.node("Add", x, n.dense(y, WIDTH, WIDTH, bias=False))
    y = rms_norm(n, x, WIDTH)
    gate, up = n.active(n.dense(y, WIDTH, INNER, bias=False), "silu"), n.dense(y, WIDTH, INNER, bias=False)
    return n.node("Add", x, n.dense(n.node("Mul", gate, up), INNER, WIDTH, bias=False)), k, v
