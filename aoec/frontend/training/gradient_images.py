"""Gradients of windows over images: convolution and pooling."""
from __future__ import annotations

from math import prod

import numpy as np

from aoec.base.errors import UnsupportedError
from aoec.frontend.rules.transposed import RULES as TRANSPOSED
from aoec.frontend.training.gradient_site import Rule, Site


def _conv2d(s: Site, at: int) -> str:
    if at == 2:
        return s.behind(s.reshape(s.sum(s.dy, (0, 2, 3)), s.out[1:2]), s.shape(2)[0])
    return _data(s) if at == 0 else _weight(s)


def _data(s: Site) -> str:
    """The gradient of the image: the transposed convolution of dY."""
    kernel = s.shape(1)[2:]
    return transposed(s, s.x(1), kernel, s.whole("group", 1))


def transposed(s: Site, w: str, kernel: tuple[int, ...], group: int) -> str:
    """The transposed convolution of dY by a weight, with the window of the forward node, of the shape of its image."""
    stride, pad, dilation = s.list("stride", (1, 1)), s.list("pad", (0, 0, 0, 0)), s.list("dilation", (1, 1))
    size, out = s.shape(0)[2:], s.out[2:]
    more = [size[d] + pad[d] + pad[d + 2] - (stride[d] * (out[d] - 1) + dilation[d] * (kernel[d] - 1) + 1) for d in range(2)]
    n, made = s.as_onnx("ConvTranspose", [s.dy, w], s.shape(0), strides=list(stride), pads=list(pad), dilations=list(dilation), group=group,
                        output_padding=more)
    if not TRANSPOSED["ConvTranspose"](n):
        raise UnsupportedError("its gradient is no transposed convolution that the cube takes")
    return made


def _weight(s: Site) -> str:
    """The gradient of the weight: for each tap a product of dY and the pixels that the tap meets, over all images and places, side by side
    as one product. Of channels that stand alone it is elementwise work."""
    co, each, kh, kw = s.shape(1)
    group, batch, places = s.whole("group", 1), s.out[0], prod(s.out[2:])
    taps = _taps(s)
    if each == 1 and co == group:
        parts = [s.reshape(s.sum(s.step("mul", [x, s.dy]), (0, 2, 3)), (co, 1)) for x in taps]
        return s.reshape(s.step("concat", parts, axis=1) if len(parts) > 1 else parts[0], s.shape(1))
    columns = [s.reshape(x, (batch, group, each, places)) for x in taps]
    x = s.step("concat", columns, axis=2) if len(columns) > 1 else columns[0]
    dy = s.reshape(s.dy, (batch, group, co // group, places))
    if group == 1:
        x, dy = (s.reshape(t, (batch, s.n.made_shape(t)[2], places)) for t in (x, dy))
    made = s.step("matmul", [dy, x], trans_b=1)
    made = s.reshape(s.sum(made, (0,)), (co, kh * kw, each))
    return s.reshape(s.transpose(made, (0, 2, 1)), s.shape(1))


def _taps(s: Site) -> list[str]:
    """For each tap of the kernel the pixels that it meets, of the shape of the result but for the channels."""
    kh, kw = s.shape(1)[2:]
    stride, pad, dilation = s.list("stride", (1, 1)), s.list("pad", (0, 0, 0, 0)), s.list("dilation", (1, 1))
    x = s.x(0)
    for axis in range(2):
        x = s.n.pad(x, axis + 2, pad[axis], pad[axis + 2])
    shape, out = s.n.made_shape(x), s.out[2:]
    if (kh, kw) == (1, 1) and shape[2:] == out:
        return [x]
    return [s.step("slice", [x], starts=(0, 0, p * dilation[0], q * dilation[1]), sizes=(*shape[:2], *out), steps=(1, 1, *stride))
            for p in range(kh) for q in range(kw)]


# ---------------------------------------------------------------- pooling

def _avg_pool(s: Site, at: int) -> str:
    """Each pixel of dY goes, divided by what its window counts, to all pixels of its window."""
    if at == 1:
        raise UnsupportedError("its counts are no parameters")
    kernel, channels = s.list("kernel"), s.shape(0)[1]
    given = s
    share = 1.0 / prod(kernel)
    if s.has(1):
        given, share = s.with_dy(s.step("mul", [s.dy, s.x(1)])), 1.0
    stride, pad = s.list("stride", (1, 1)), s.list("pad", (0, 0, 0, 0))
    whole = all(o * k == size for o, k, size in zip(s.out[2:], kernel, s.shape(0)[2:]))
    if stride == kernel and whole and not any(pad) and set(s.list("dilation", (1, 1))) == {1}:
        return s.step("upsample", [s.scaled(given.dy, share)], scale=kernel)
    w = s.constant("window", np.full((channels, 1, *kernel), share))
    return transposed(given, w, kernel, channels)


def _global_avg_pool(s: Site, at: int) -> str:
    return s.expand(s.scaled(s.dy, 1.0 / prod(s.shape(0)[2:])), s.shape(0))


RULES: dict[str, Rule] = {"conv2d": _conv2d, "avg_pool": _avg_pool, "global_avg_pool": _global_avg_pool}
