"""Networks for images with attention, as timm exports them: ViT-B/16 and MobileViT-S. One linear layer makes queries, keys and values."""
from __future__ import annotations

from math import sqrt

import numpy as np

from bench.networks.levelled import levelled
from bench.networks.net import Net, Network


def vit_b16(batch: int = 1, seed: int = 0, size: int = 224, layers: int = 12, width: int = 768) -> Network:
    """Build ViT-B/16 (Dosovitskiy et al., 2020): patches of 16 x 16 pixels and a class token, norms before each part, 1000 classes."""
    n = Net(seed)
    patches = (size // 16) ** 2
    x = n.conv(n.image("image", batch, 3, size, size), width, 16, 16, "", pad=0)
    x = n.node("Transpose", n.shaped(x, batch, width, patches), perm=[0, 2, 1])
    first = n.node("Expand", n.normal(1, 1, width), n.constant([batch, 1, width], np.int64))
    x = n.node("Add", n.node("Concat", first, x, axis=1), n.normal(1, patches + 1, width, deviation=0.5))
    for _ in range(layers):
        x = layer(n, x, (batch, patches + 1, width), 12, 4 * width, "gelu", 1e-6)
    first = n.node("Gather", n.normed(x, width, 1e-6), n.constant(0, np.int64), axis=1)
    logits = n.node("Gemm", first, n.normal(1000, width, deviation=width ** -0.5), n.normal(1000, deviation=0.1), transB=1)
    return n.network("vit-b16", {"logits": (logits, (batch, 1000))})


def layer(n: Net, x: str, shape: tuple[int, int, int], heads: int, inner: int, act: str, epsilon: float = 1e-5) -> str:
    """Return a layer of [batch, words, width]: attention and two linear layers, each behind a norm and beside a sum."""
    width = shape[2]
    x = n.node("Add", x, attention(n, n.normed(x, width, epsilon), shape, heads))
    y = n.active(n.dense(n.normed(x, width, epsilon), width, inner), act)
    return n.node("Add", x, n.dense(y, inner, width))


def attention(n: Net, x: str, shape: tuple[int, int, int], heads: int) -> str:
    """Add attention. Its queries, keys and values come from one product, are transposed together, and then split by Gather."""
    batch, words, width = shape
    size = width // heads
    parts = n.node("Transpose", n.shaped(n.dense(x, width, 3 * width), batch, words, 3, heads, size), perm=[2, 0, 3, 1, 4])
    q, k, v = (n.node("Gather", parts, n.constant(at, np.int64), axis=0) for at in range(3))
    scores = n.node("MatMul", n.node("Mul", q, n.constant(size ** -0.5)), n.node("Transpose", k, perm=[0, 1, 3, 2]))
    y = n.node("Transpose", n.node("MatMul", n.node("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
    return n.dense(n.shaped(y, *shape), width, width)


def mobilevit_s(batch: int = 1, seed: int = 0, size: int = 256) -> Network:
    """Build MobileViT-S (Mehta and Rastegari, 2021): stages of (filters, count, stride, width and layers of attention, or none), 1000
    classes."""
    n = Net(seed)
    x = n.conv(n.image("image", batch, 3, size, size), 16, 3, 2, "silu")
    side = size // 2
    for filters, count, stride, width, layers in ((32, 1, 1, 0, 0), (64, 3, 2, 0, 0), (96, 1, 2, 144, 2), (128, 1, 2, 192, 4),
                                                  (160, 1, 2, 240, 3)):
        for at in range(count):
            x = inverted(n, x, filters, stride if at == 0 else 1)
        side //= stride
        x = mobile_attention(n, x, (batch, filters, side), width, layers) if layers else x
    x = n.node("ReduceMean", n.conv(x, 640, 1, 1, "silu"), axes=[2, 3], keepdims=0)
    logits = n.node("Gemm", x, n.normal(1000, 640, deviation=640 ** -0.5), n.normal(1000, deviation=0.1), transB=1)
    return levelled(n.network("mobilevit-s", {"logits": (logits, (batch, 1000))}))


def inverted(n: Net, x: str, filters: int, stride: int) -> str:
    """Return a block of MobileNetV2 with SiLU: four times as many channels, a convolution of each alone, fewer channels again."""
    wide, again = 4 * n.channels[x], stride == 1 and n.channels[x] == filters
    y = n.conv(n.conv(x, wide, 1, 1, "silu"), wide, 3, stride, "silu", group=wide)
    y = n.conv(y, filters, 1, 1, "", scale=0.5 if again else 1.0)
    return n.added(x, y) if again else y


def mobile_attention(n: Net, x: str, shape: tuple[int, int, int], width: int, layers: int) -> str:
    """Return a MobileViT block on images of `shape` (batch, channels, side): attention of the pixels at one place of all 2 x 2 patches."""
    batch, filters, side = shape
    half = side // 2
    y = n.conv(x, filters, 3, 1, "silu")
    y = n.node("Conv", y, n.normal(width, filters, 1, 1, deviation=sqrt(n.gain[y] / filters)), kernel_shape=[1, 1])
    y = n.node("Transpose", n.shaped(y, batch * width * half, 2, half, 2), perm=[0, 2, 1, 3])
    y = n.node("Transpose", n.shaped(y, batch, width, half * half, 4), perm=[0, 3, 2, 1])
    y = n.shaped(y, 4 * batch, half * half, width)
    for _ in range(layers):
        y = layer(n, y, (4 * batch, half * half, width), 4, 2 * width, "silu")
    y = n.node("Transpose", n.shaped(n.normed(y, width), batch, 4, half * half, width), perm=[0, 3, 2, 1])
    y = n.node("Transpose", n.shaped(y, batch * width * half, half, 2, 2), perm=[0, 2, 1, 3])
    y = n.shaped(y, batch, width, side, side)
    n.channels[y] = width
    return n.conv(n.joined(x, n.conv(y, filters, 1, 1, "silu")), filters, 3, 1, "silu")
