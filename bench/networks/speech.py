"""Recurrent networks: an acoustic model of two bidirectional LSTMs."""
from __future__ import annotations

import numpy as np

from bench.networks.net import Net, Network


def lstm(batch: int = 1, seed: int = 0, frames: int = 64, features: int = 80, hidden: int = 256, classes: int = 40) -> Network:
    """Logits of a sound's `classes` at each of `frames`, from two LSTMs (Hochreiter and Schmidhuber, 1997) that go both ways."""
    n = Net(seed)
    x, given = n.input("frames", n.random.standard_normal((frames, batch, features), np.float32)), features
    for _ in range(2):
        w = n.normal(2, 4 * hidden, given, deviation=given ** -0.5)
        r, b = n.normal(2, 4 * hidden, hidden, deviation=hidden ** -0.5), n.normal(2, 8 * hidden, deviation=0.1)
        y, _, _ = n.parts("LSTM", 3, x, w, r, b, hidden_size=hidden, direction="bidirectional")
        x = n.shaped(n.node("Transpose", y, perm=[0, 2, 1, 3]), frames, batch, 2 * hidden)
        given = 2 * hidden
    return n.network("lstm", {"logits": (n.dense(x, given, classes), (frames, batch, classes))})
