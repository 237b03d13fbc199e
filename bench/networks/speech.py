"""Recurrent networks: an acoustic model of two bidirectional LSTMs, a text recogniser of images (CRNN), and two GRUs."""
from __future__ import annotations

import numpy as np

from bench.networks.levelled import levelled
from bench.networks.net import Net, Network


def lstm(batch: int = 1, seed: int = 0, frames: int = 64, features: int = 80, hidden: int = 256, classes: int = 40) -> Network:
    """Return logits of a sound's `classes` at each of `frames`, from two LSTMs (Hochreiter and Schmidhuber, 1997) that go both ways."""
    n = Net(seed)
    x, given = n.input("frames", n.random.standard_normal((frames, batch, features), np.float32)), features
    for _ in range(2):
        w = n.normal(2, 4 * hidden, given, deviation=given ** -0.5)
        r, b = n.normal(2, 4 * hidden, hidden, deviation=hidden ** -0.5), n.normal(2, 8 * hidden, deviation=0.1)
        y, _, _ = n.parts("LSTM", 3, x, w, r, b, hidden_size=hidden, direction="bidirectional")
        x = n.shaped(n.node("Transpose", y, perm=[0, 2, 1, 3]), frames, batch, 2 * hidden)
        given = 2 * hidden
    return n.network("lstm", {"logits": (n.dense(x, given, classes), (frames, batch, classes))})


def crnn(batch: int = 1, seed: int = 0, across: int = 100, hidden: int = 256, classes: int = 37) -> Network:
    """Build CRNN (Shi et al., 2015): logits of `classes` along a grey image of 32 rows; three LSTMs that go both ways, as PyTorch has
    them."""
    n = Net(seed)
    x = n.image("image", batch, 1, 32, across)
    for filters, count, pooled in ((64, 1, 2), (128, 1, 2), (256, 2, 1), (512, 2, 1)):
        for _ in range(count):
            x = n.conv(x, filters, 3)
        x = n.kept("MaxPool", x, kernel_shape=[2, 2], strides=[2, pooled], pads=[0, 2 - pooled] * 2)
    x = n.conv(x, 512, 2, pad=0)
    frames = across // 4 + 1
    x = n.node("Transpose", n.node("Squeeze", x, n.constant([2], np.int64)), perm=[2, 0, 1])
    given = 512
    start = [n.constant(np.zeros((2, batch, hidden))) for _ in range(2)]
    for _ in range(3):
        w = n.normal(2, 4 * hidden, given, deviation=given ** -0.5)
        r, b = n.normal(2, 4 * hidden, hidden, deviation=hidden ** -0.5), n.normal(2, 8 * hidden, deviation=0.1)
        y, _, _ = n.parts("LSTM", 3, x, w, r, b, "", *start, hidden_size=hidden, direction="bidirectional")
        x = n.node("Reshape", n.node("Transpose", y, perm=[0, 2, 1, 3]), n.constant([0, 0, -1], np.int64))
        given = 2 * hidden
    return levelled(n.network("crnn", {"logits": (n.dense(x, given, classes), (frames, batch, classes))}))


def gru(batch: int = 1, seed: int = 0, frames: int = 100, features: int = 80, hidden: int = 512) -> Network:
    """Return two GRUs (Cho et al., 2014) one behind the other, as PyTorch has them: the states of all steps, and the last ones."""
    n = Net(seed)
    x, given = n.input("frames", n.random.standard_normal((frames, batch, features), np.float32)), features
    last = []
    for _ in range(2):
        w = n.normal(1, 3 * hidden, given, deviation=given ** -0.5)
        r, b = n.normal(1, 3 * hidden, hidden, deviation=hidden ** -0.5), n.normal(1, 6 * hidden, deviation=0.1)
        y, state = n.parts("GRU", 2, x, w, r, b, "", n.constant(np.zeros((1, batch, hidden))), hidden_size=hidden, linear_before_reset=1)
        x, given = n.node("Squeeze", y, n.constant([1], np.int64)), hidden
        last.append(state)
    states = n.node("Concat", *last, axis=0)
    return n.network("gru", {"output": (x, (frames, batch, hidden)), "hidden": (states, (2, batch, hidden))})
