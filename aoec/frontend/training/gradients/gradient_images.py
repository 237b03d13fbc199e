"""Gradients of windows over images: convolution and pooling."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from itertools import product
from math import prod

import numpy as np

from aoec.base.errors import UnsupportedError
from aoec.frontend.rules.transposed import transpose_convolution
from aoec.frontend.rules.window import Window
from aoec.frontend.training.gradients.gradient_elements import add_definition
from aoec.frontend.training.gradients.gradient_site import Rule, Site
from aoec.ir.func.meaning import Argument, Dim, Meaning, Statement
from aoec.ir.index import Float, Read, Var, eq, select
from aoec.ops.words.layout import FRACTAL_ROWS

POINT = tuple(Var(f"i{axis}") for axis in range(4))
FEW_CHANNELS = 16  # fewer are less than a block
MOST_COLUMNS = 512  # taps and channels of which a product with ones and zeros makes the columns
MOST_TAPS = 9  # of a window of greatest elements that is walked tap by tap
PAIRS = 2  # of results and gradients that one operator reads: each is a tile in UB


def _conv2d(s: Site, at: int) -> str:
    if at == 2:
        return s.behind(s.reshape(s.sum(s.dy, (0, 2, 3)), s.out[1:2]), s.shape(2)[0])
    return _data(s) if at == 0 else _weight(s)


def _data(s: Site) -> str:
    """Return the gradient of the image: the transposed convolution of dY. Of single taps it is a convolution, with zeros between its
    pixels."""
    kernel, stride, pad = s.shape(1)[2:], s.list("stride", (1, 1)), s.list("pad", (0, 0, 0, 0))
    if kernel == (1, 1) != stride and not any(pad):
        plain = replace(s, node=replace(s.node, attributes=(("group", s.integer("group", 1)),)))
        dense = transpose_image(plain, s.x(1), kernel, s.integer("group", 1), s.out[2:])
        return _crop_image(s, _between_zeros(s, dense, stride), s.shape(0)[2:])
    if s.integer("group", 1) > 1 and prod(stride) > 1:  # whose phases would not lie side by side
        node = replace(s.node, attributes=tuple({**s.attributes, "stride": (1, 1)}.items()))
        s = replace(s, dy=_between_zeros(s, s.dy, stride), node=node)
    return transpose_image(s, s.x(1), kernel, s.integer("group", 1), s.shape(0)[2:])


def _between_zeros(s: Site, x: str, stride: Sequence[int]) -> str:
    """Return the image with zeros between its pixels and behind the last: its channels are the first phase of the result."""
    phases = s.n.pad(x, 1, 0, s.n.made_shape(x)[1] * (prod(stride) - 1))
    return s.step("depth_to_space", [phases], scale=tuple(stride))


def _crop_image(s: Site, x: str, size: Sequence[int]) -> str:
    """Return the first rows and columns of an image, or with zeros behind the last."""
    for at, extent in enumerate(size):
        x = s.n.piece(x, at + 2, 0, min(extent, s.n.made_shape(x)[at + 2]))
        x = s.n.pad(x, at + 2, 0, extent - s.n.made_shape(x)[at + 2])
    return x


def transpose_image(s: Site, w: str, kernel: tuple[int, ...], group: int, size: Sequence[int]) -> str:
    """Return the transposed convolution of dY by a weight, with the window of the forward node, of the channels of its image and a size."""
    window = Window(kernel, s.list("stride", (1, 1)), s.list("dilation", (1, 1)), s.list("pad", (0, 0, 0, 0))[:2], (0, 0))
    return transpose_convolution(s.n, s.dy, w, window, group, tuple(size))[0]


def _weight(s: Site) -> str:
    """Return the gradient of the weight: the product, over all places, of dY and of the pixels that the taps meet there (im2col). Rows are
    pixels in both operands. An image in blocks of channels is stored in the same way."""
    co, each, kh, kw = s.shape(1)
    group, batch, places = s.integer("group", 1), s.out[0], prod(s.out[2:])
    if group > 1:
        return _weight_alone(s) if each == 1 and co == group else _weight_of_groups(s)
    few = each < FEW_CHANNELS and 1 < kh * kw <= MOST_COLUMNS // each
    x, dy = _columns_by_product(s) if few else _columns(s), _pixel_rows(s, s.dy)
    if places % FRACTAL_ROWS:  # all images are one product, where an image alone is no whole fractals
        dy, x = (s.reshape(t, (batch * places, s.n.made_shape(t)[-1])) for t in (dy, x))
    made = s.step("matmul", [dy, x], trans_a=1)
    made = s.reshape(made if places % FRACTAL_ROWS else s.sum(made, (0,)), (co, s.n.made_shape(x)[-1]))
    if few:
        return s.reshape(s.n.piece(made, 1, 0, each * kh * kw), s.shape(1))
    return s.reshape(s.transpose(s.reshape(made, (co, kh * kw, each)), (0, 2, 1)), s.shape(1))


def _weight_of_groups(s: Site) -> str:
    """Return the weight's gradient of a convolution in groups, by one product for each group."""
    co, each, kh, kw = s.shape(1)
    group, batch, places = s.integer("group", 1), s.out[0], prod(s.out[2:])
    columns = [s.reshape(x, (batch, group, each, places)) for x in _taps(s)]
    x = s.step("concat", columns, axis=2) if len(columns) > 1 else columns[0]
    made = s.step("matmul", [s.reshape(s.dy, (batch, group, co // group, places)), x], trans_b=1)
    made = s.reshape(s.sum(made, (0,)), (co, kh * kw, each))
    return s.reshape(s.transpose(made, (0, 2, 1)), s.shape(1))


def _weight_alone(s: Site) -> str:
    """Return the weight's gradient where every channel is its own group, by elementwise work for each tap."""
    co = s.shape(1)[0]
    parts = [s.reshape(s.sum(s.step("mul", [x, s.dy]), (0, 2, 3)), (co, 1)) for x in _taps(s)]
    return s.reshape(s.step("concat", parts, axis=1) if len(parts) > 1 else parts[0], s.shape(1))


def _pixel_rows(s: Site, x: str) -> str:
    """Return an image as [n, h * w, c]."""
    n, c, h, w = s.n.made_shape(x)
    return s.reshape(s.transpose(x, (0, 2, 3, 1)), (n, h * w, c))


def _columns(s: Site) -> str:
    """Return [n, places, taps * c]: for each place, the pixels that its taps meet, side by side. The taps of a row come first, then the
    rows."""
    stride, dilation = s.list("stride", (1, 1)), s.list("dilation", (1, 1))
    x = _pad_image(s, s.transpose(s.x(0), (0, 2, 3, 1)), (1, 2))
    for axis in (2, 1):
        shape, many, step = s.n.made_shape(x), s.out[axis + 1], stride[axis - 1]
        at = [(0, 0, 0, 0)[:axis] + (tap * dilation[axis - 1],) + (0,) * (3 - axis) for tap in range(s.shape(1)[axis + 1])]
        if len(at) > 1 or many != shape[axis]:
            taps = [s.step("slice", [x], starts=start, sizes=(*shape[:axis], many, *shape[axis + 1:]),
                           steps=tuple(step if a == axis else 1 for a in range(4))) for start in at]
            x = s.step("concat", taps, axis=3) if len(taps) > 1 else taps[0]
    return s.reshape(x, (s.out[0], prod(s.out[2:]), s.n.made_shape(x)[3]))


def _columns_by_product(s: Site) -> str:
    """Return the columns for an image of few channels, whose pixels are short runs. They come from a convolution with one filter for each
    column, which is 1 where the column reads and 0 elsewhere. This changes no number. The columns are ordered channel by channel, as in a
    weight."""
    _, each, kh, kw = s.shape(1)
    many = each * kh * kw
    one = np.eye(-(-many // FRACTAL_ROWS) * FRACTAL_ROWS, many).reshape(-1, each, kh, kw)
    return _pixel_rows(s, s.step("conv2d", [s.x(0), s.constant("columns", one)], **s.attributes))


def _pad_image(s: Site, x: str, axes: Sequence[int]) -> str:
    """Return an image with the forward node's padding along its axes of rows and columns."""
    pad = s.list("pad", (0, 0, 0, 0))
    if not any(pad):
        return x
    before, after = (tuple(dict(zip(axes, own)).get(a, 0) for a in range(4)) for own in (pad[:2], pad[2:]))
    return s.step("pad", [x], before=before, after=after, value=0.0)


def _taps(s: Site) -> list[str]:
    """Return, for each tap of the kernel, the pixels that it meets. Each has the shape of the result except for the channels."""
    kh, kw = s.shape(1)[2:]
    stride, dilation = s.list("stride", (1, 1)), s.list("dilation", (1, 1))
    x = _pad_image(s, s.x(0), (2, 3))
    shape, out = s.n.made_shape(x), s.out[2:]
    if (kh, kw) == (1, 1) and shape[2:] == out:
        return [x]
    return [s.step("slice", [x], starts=(0, 0, p * dilation[0], q * dilation[1]), sizes=(*shape[:2], *out), steps=(1, 1, *stride))
            for p in range(kh) for q in range(kw)]


# ---------------------------------------------------------------- pooling

def _avg_pool(s: Site, at: int) -> str:
    """Return the gradient of an average pool's image. Each pixel of dY, divided by the count of its window, goes to all pixels of its
    window."""
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
        return s.step("upsample", [s.scale(given.dy, share)], scale=kernel)
    w = s.constant("window", np.full((channels, 1, *kernel), share))
    return transpose_image(given, w, kernel, channels, s.shape(0)[2:])


def _max_pool(s: Site, at: int) -> str:
    """Return the gradient of a max pool's image. Every greatest element of a window has its whole gradient. A window of rows and columns
    with many taps is taken apart into one of columns and one of rows."""
    kernel, size = s.list("kernel"), s.shape(0)[2:]
    stride, pad, dilation = s.list("stride", (1, 1)), s.list("pad", (0, 0, 0, 0)), s.list("dilation", (1, 1))
    if s.out[2:] == (1, 1) and kernel == size and not any(pad):
        return s.step("where", [s.step("equal", [s.x(0), s.y], "bool"), s.dy, s.zero()], "fp32")
    if stride == kernel and dilation == (1, 1) and not any(pad) and all(o * k == n for o, k, n in zip(s.out[2:], kernel, size)):
        return _greatest(s, s.x(0), [tuple(s.step("upsample", [t], scale=kernel) for t in (s.y, s.dy))])
    if prod(kernel) <= MOST_TAPS or 1 in kernel:
        return _phases(s, s.x(0), s.y, s.dy, Window(kernel, stride, dilation, pad[:2], pad[2:]))
    rows, columns = (Window(*(tuple(v if a == axis else plain for a, v in enumerate(values)) for values, plain in (
        (kernel, 1), (stride, 1), (dilation, 1), (pad[:2], 0), (pad[2:], 0)))) for axis in (0, 1))
    between = s.step("max_pool", [s.x(0)], **columns.attributes(), kernel=columns.kernel)
    return _phases(s, s.x(0), between, _phases(s, between, s.y, s.dy, rows), columns)


def _phases(s: Site, x: str, y: str, dy: str, w: Window) -> str:
    """Return the gradient of a window's greatest elements. Pixel i * stride + phase is in the windows i + e, one e for each tap that meets
    the phase. So each phase of X meets Y and dY, moved by e; phases are channels that are put between each other then."""
    shape, many = s.n.made_shape(x), tuple(-(-n // st) for n, st in zip(s.n.made_shape(x)[2:], w.stride))
    whole = _crop_image(s, x, [m * st for m, st in zip(many, w.stride)])
    moved: dict[tuple[int, ...], tuple[str, ...]] = {}
    parts = []
    for phase in np.ndindex(*w.stride):
        found = [[(p + b - t * d) // st for t in range(k) if (p + b - t * d) % st == 0]
                 for p, b, d, st, k in zip(phase, w.before, w.dilation, w.stride, w.kernel)]
        windows = [e for e in product(*found) if all(-m < at < n for at, m, n in zip(e, many, s.n.made_shape(y)[2:]))]
        for e in windows:
            if e not in moved:
                moved[e] = tuple(_move_image(s, t, e, many) for t in (y, dy))
        own = whole if prod(w.stride) == 1 else s.step("slice", [whole], starts=(0, 0, *phase), sizes=(*shape[:2], *many),
                                                       steps=(1, 1, *w.stride))
        parts.append(_greatest(s, own, [moved[e] for e in windows]) if windows else s.zeros(s.n.made_shape(own)))
    if len(parts) == 1:
        return _crop_image(s, parts[0], shape[2:])
    return _crop_image(s, s.step("depth_to_space", [s.step("concat", parts, axis=1)], scale=w.stride), shape[2:])


def _move_image(s: Site, x: str, by: Sequence[int], size: Sequence[int]) -> str:
    """Return the rows and columns of an image from some place on, zeros beside it."""
    for axis, (e, many) in enumerate(zip(by, size), 2):
        extent = s.n.made_shape(x)[axis]
        low, high = max(0, e), min(extent, e + many)
        x = s.n.pad(s.n.piece(x, axis, low, high - low), axis, low - e, e + many - high)
    return x


def _greatest(s: Site, x: str, pairs: Sequence[Sequence[str]]) -> str:
    """Return the sum of each dY where X is its Y, as elementwise operators."""
    total = ""
    for at in range(0, len(pairs), PAIRS):
        inputs = [x, *(t for pair in pairs[at:at + PAIRS] for t in pair), *([total] if total else [])]
        named = [Read(name, POINT) for name in ("X", *(f"{n}{k}" for k in range(len(pairs[at:at + PAIRS])) for n in ("Y", "dY")),
                                                *(["Z"] if total else []))]
        terms = [select(eq(named[0], named[k]), named[k + 1], Float(0.0)) for k in range(1, 2 * len(pairs[at:at + PAIRS]), 2)]
        value = reduce(lambda a, b: a + b, [*terms, *(named[-1:] if total else [])])
        args = tuple(Argument(r.buffer, tuple(Dim(i.name) for i in POINT)) for r in named)
        y = Read("dX", POINT)
        m = Meaning("max_pool_gradient", args, (), (Argument("dX", args[0].dims),), (Statement(y, "=", value),))
        total = add_definition(s, m, inputs)
    return total


def _global_avg_pool(s: Site, at: int) -> str:
    return s.expand(s.scale(s.dy, 1.0 / prod(s.shape(0)[2:])), s.shape(0))


RULES: dict[str, Rule] = {"conv2d": _conv2d, "max_pool": _max_pool, "avg_pool": _avg_pool, "global_avg_pool": _global_avg_pool}
