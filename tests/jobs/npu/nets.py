"""Small models for runs on a device: a CNN whose branches are joined without a copy, and a transformer block."""
from __future__ import annotations

import numpy as np
import onnx

from tests.frontend.models import model, node, normal


def cnn() -> onnx.ModelProto:
    """Convolutions with a residual, channels that are joined, pooling, a classifier."""
    constants = {"w": normal(32, 3, 3, 3, seed=1) / 5, "p": normal(32, 32, 3, 3, seed=2) / 17, "q": normal(32, 32, 1, 1, seed=3) / 6,
                 "v": normal(64, 64, 1, 1, seed=4) / 8, "m": normal(64, 10, seed=5) / 8, "b": normal(10, seed=6)}
    same = {"pads": [1, 1, 1, 1]}
    nodes = [node("Conv", "x w", "a", **same), node("Relu", "a", "c"), node("Conv", "c p", "d", **same), node("Add", "d c", "e"),
             node("Relu", "e", "f"), node("Conv", "f q", "g"), node("Concat", "f g", "h", axis=1), node("Conv", "h v", "i"),
             node("MaxPool", "i", "j", kernel_shape=[2, 2], strides=[2, 2]), node("GlobalAveragePool", "j", "k"),
             node("Flatten", "k", "l"), node("Gemm", "l m b", "y")]
    return model(nodes, {"x": [1, 3, 16, 16]}, ["y"], constants)


def block(tokens: int = 32, width: int = 64, heads: int = 2) -> onnx.ModelProto:
    """Attention and a feed-forward part, each with its residual and norm."""
    each = width // heads
    constants: dict[str, np.ndarray] = {name: normal(width, width, seed=i) / np.float32(np.sqrt(width)) for i, name in enumerate("qkvo")}
    constants |= {"up": normal(width, 4 * width, seed=7) / np.float32(np.sqrt(width)),
                  "down": normal(4 * width, width, seed=8) / np.float32(np.sqrt(4 * width)),
                  "g": np.ones(width, np.float32), "z": np.zeros(width, np.float32), "half": np.full((), each ** -0.5, np.float32),
                  "split": np.array([1, tokens, heads, each]), "join": np.array([1, tokens, width])}
    nodes = []
    for name, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes += [node("MatMul", f"x {name}", f"{name}1"), node("Reshape", f"{name}1 split", f"{name}2"),
                  node("Transpose", f"{name}2", f"{name}3", perm=perm)]
    nodes += [node("MatMul", "q3 k3", "s"), node("Mul", "s half", "t"), node("Softmax", "t", "a", axis=-1), node("MatMul", "a v3", "c"),
              node("Transpose", "c", "c1", perm=[0, 2, 1, 3]), node("Reshape", "c1 join", "c2"), node("MatMul", "c2 o", "d"),
              node("Add", "d x", "e"), node("LayerNormalization", "e g z", "n"), node("MatMul", "n up", "f"), node("Relu", "f", "h"),
              node("MatMul", "h down", "i"), node("Add", "i n", "j"), node("LayerNormalization", "j g z", "y")]
    return model(nodes, {"x": [1, tokens, width]}, ["y"], constants)
