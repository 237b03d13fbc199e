"""Random operators that move elements: slices, pads, gathers, scatters, resizes, and what finds or suppresses boxes."""

from __future__ import annotations

import numpy as np

from single.case import FLOATS, Case, Maker
from single.elementwise import Family

DTYPES = (*FLOATS, np.int8, np.uint8, np.int32, np.int64)


def transpose(m: Maker) -> Case:
    dtype, shape = m.one(DTYPES), m.shape(0, 5, 5)
    perm = [int(p) for p in m.random.permutation(len(shape))]
    return m.case("Transpose", [m.any(shape, dtype)], [dtype], 13, perm=perm if m.yes(0.8) and perm else None)


def reshape(m: Maker) -> Case:
    dtype, shape = m.one(DTYPES), m.shape(1)
    to = [int(n) for n in m.random.permutation([*shape, 1])]
    if m.yes():
        to[m.number(0, len(to) - 1)] = -1
    return m.case("Reshape", [m.any(shape, dtype), np.array(to, np.int64)], [dtype], 14, fixed=(1,))


def slices(m: Maker) -> Case:
    dtype, shape = m.one(DTYPES), m.shape(1)
    axes = [int(a) for a in m.random.permutation(len(shape))[: m.number(1, len(shape))]]
    starts, ends = ([m.number(-2 * shape[a], 2 * shape[a]) for a in axes] for _ in range(2))
    steps = [m.one((1, 1, 2, -1, -2, 3)) for _ in axes]
    starts, ends = zip(
        *(
            ((0, shape[a]) if s > 0 else (shape[a], -shape[a] - 1)) if not len(range(*slice(b, e, s).indices(shape[a]))) else (b, e)
            for a, b, e, s in zip(axes, starts, ends, steps)
        )
    )
    if m.yes(0.2):
        ends = tuple(np.iinfo(np.int64).max if s > 0 else np.iinfo(np.int64).min for s in steps)
        starts = tuple(0 if s > 0 else -1 for s in steps)
    given = [np.array(v, np.int64) for v in (starts, ends, axes, steps)]
    return m.case("Slice", [m.any(shape, dtype), *given], [dtype], 13, fixed=(1, 2, 3, 4))


def pad(m: Maker) -> Case:
    dtype, shape = m.one((*FLOATS, np.int8, np.int32, np.int64)), m.shape(1)
    mode = m.one(("constant", "reflect", "edge", "wrap"))
    most = [3 if mode in ("constant", "edge") else n - 1 if mode == "reflect" else n for n in shape]
    pads = np.array([m.number(0, min(3, most[a])) for a in (*range(len(shape)), *range(len(shape)))], np.int64)
    if mode == "constant" and m.yes(0.2):
        pads[0] = -min(1, shape[0] - 1)
    value = np.array(m.number(-3, 3), dtype) if mode == "constant" and m.yes() else None
    return m.case("Pad", [m.any(shape, dtype), pads, value], [dtype], 19, fixed=(1, 2), mode=mode)


def concat(m: Maker) -> Case:
    dtype, shape = m.one(DTYPES), m.shape(1)
    axis = m.axis(len(shape))
    parts = [tuple(m.number(1, 5) if a == axis % len(shape) else n for a, n in enumerate(shape)) for _ in range(m.number(1, 3))]
    return m.case("Concat", [m.any(s, dtype) for s in parts], [dtype], 13, axis=axis)


def split(m: Maker) -> Case:
    dtype, shape = m.one(DTYPES), m.shape(1)
    axis, count = m.axis(len(shape)), m.number(1, 3)
    sizes = [m.number(1, 4) for _ in range(count)]
    shape = tuple(sum(sizes) if a == axis % len(shape) else n for a, n in enumerate(shape))
    return m.case("Split", [m.any(shape, dtype), np.array(sizes, np.int64)], [dtype] * count, 13, fixed=(1,), axis=axis)


def gather(m: Maker) -> Case:
    dtype, shape = m.one(DTYPES), m.shape(1)
    op, axis, kind = m.one(("Gather", "GatherElements")), m.axis(len(shape)), m.one((np.int32, np.int64))
    n = shape[axis]
    own = (
        m.shape(0, 2)
        if op == "Gather"
        else tuple(m.number(1, 6) if a == axis % len(shape) else m.number(1, s) for a, s in enumerate(shape))
    )
    return m.case(op, [m.any(shape, dtype), m.whole(own, kind, -n, n - 1)], [dtype], 13, fixed=m.one(((), (1,))), axis=axis)


def gather_nd(m: Maker) -> Case:
    dtype, shape = m.one(DTYPES), m.shape(1)
    batch = m.number(0, 1) if len(shape) > 1 else 0
    depth = m.number(1, len(shape) - batch)
    lead = (*shape[:batch], *m.shape(0, 2, 4))
    at = np.stack([m.whole(lead, np.int64, -n, n - 1) for n in shape[batch : batch + depth]], axis=-1)
    return m.case("GatherND", [m.any(shape, dtype), at], [dtype], 13, batch_dims=batch)


def scatter(m: Maker) -> Case:
    dtype, shape = m.one((np.float32, np.int32, np.int64)), m.shape(1)
    axis = m.axis(len(shape))
    own = tuple(m.number(1, s) for s in shape)
    x = m.any(shape, dtype)
    if m.yes():
        at = np.argsort(m.random.random(shape), axis=axis)[tuple(slice(n) for n in own)].astype(np.int64)  # none twice
        return m.case("ScatterElements", [x, at, m.any(own, dtype)], [dtype], 16, axis=axis)
    depth = m.number(1, len(shape))
    places = m.random.permutation(int(np.prod(shape[:depth])))[: m.number(1, 6)]
    at = np.stack(np.unravel_index(places, shape[:depth]), axis=-1).astype(np.int64)
    return m.case("ScatterND", [x, at, m.any((len(places), *shape[depth:]), dtype)], [dtype], 16)


def one_hot(m: Maker) -> Case:
    shape, depth = m.shape(0, 3), m.number(1, 9)
    at = m.whole(shape, np.int64, -depth - 1, depth)
    return m.case(
        "OneHot", [at, np.array(depth, np.int64), m.reals((2,))], [np.float32], 11, fixed=(1,), axis=m.number(-len(shape) - 1, len(shape))
    )


def expand(m: Maker) -> Case:
    dtype, shape = m.one(DTYPES), m.shape()
    if m.yes():
        return m.case("Expand", [m.any(m.broadcast(shape), dtype), np.array(shape, np.int64)], [dtype], 13, fixed=(1,))
    return m.case("Tile", [m.any(shape, dtype), np.array([m.number(1, 3) for _ in shape], np.int64)], [dtype], 13, fixed=(1,))


def trilu(m: Maker) -> Case:
    dtype, shape = m.one((np.float32, np.int32, np.int64)), m.shape(2)
    return m.case("Trilu", [m.any(shape, dtype), np.array(m.number(-3, 3), np.int64)], [dtype], 14, fixed=(1,), upper=m.number(0, 1))


def depth_space(m: Maker) -> Case:
    b, c, h, w = m.number(1, 3), m.number(1, 4), m.number(1, 5), m.number(1, 5)
    if m.yes():
        x = m.reals((1, c * b * b, h, w))
        return m.case("DepthToSpace", [x], [np.float32], 13, blocksize=b, mode=m.one(("DCR", "CRD")))
    return m.case("SpaceToDepth", [m.reals((1, c, h * b, w * b))], [np.float32], 13, blocksize=b)


def reverse(m: Maker) -> Case:
    dtype, shape = m.one((np.float32, np.int32)), m.shape(2)
    time = m.number(0, 1)
    return m.case(
        "ReverseSequence",
        [m.any(shape, dtype), m.whole((shape[1 - time],), np.int64, 1, shape[time])],
        [dtype],
        10,
        time_axis=time,
        batch_axis=1 - time,
    )


def resize(m: Maker) -> Case:
    """Draw a resize, mostly of images, by fractional scales or sizes. Crops are not drawn here, because they are a family of their own."""
    m.special = False
    mode = m.one(("nearest", "linear", "cubic"))
    rank = 4 if mode == "cubic" or m.yes(0.8) else m.one((1, 2, 3))
    shape = (1, 2, *(m.number(1, 9) for _ in range(2))) if rank == 4 else tuple(m.number(2, 9) for _ in range(rank))
    own = range(2, 4) if rank == 4 else range(rank)
    rule = m.one(("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"))
    given: dict[str, object] = {"mode": mode, "coordinate_transformation_mode": rule}
    if mode == "nearest":
        given["nearest_mode"] = m.one(("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"))
    if mode == "cubic":
        given |= {"cubic_coeff_a": m.one((-0.75, -0.5)), "exclude_outside": m.number(0, 1)}
    scales = [1.0] * rank
    for a in own:
        scales[a] = m.one((0.5, 2.0, 0.6, 2.5, 1.5, 0.8, 3.0, 1.0, 1.0 / shape[a], m.real(0.4, 3)))
    to = [max(1, m.number(1, 14)) if a in own else n for a, n in enumerate(shape)]
    if m.yes():
        return m.case(
            "Resize",
            [m.reals(shape), None, None, np.array(to, np.int64)],
            [np.float32],
            19 if rule == "half_pixel_symmetric" else 13,
            fixed=(3,),
            sums=mode != "nearest",
            **given,
        )
    scales = [max(s, 1.001 / n) if a in own else s for a, (s, n) in enumerate(zip(scales, shape))]
    return m.case(
        "Resize",
        [m.reals(shape), None, np.array(scales, np.float32)],
        [np.float32],
        19 if rule == "half_pixel_symmetric" else 13,
        fixed=(2,),
        sums=mode != "nearest",
        **given,
    )


def crop_and_resize(m: Maker) -> Case:
    m.special = False
    shape, mode = (1, 2, m.number(3, 9), m.number(3, 9)), m.one(("nearest", "linear"))
    roi = np.array([0, 0, m.real(-0.2, 0.5), m.real(-0.2, 0.5), 1, 1, m.real(0.6, 1.2), m.real(0.6, 1.2)], np.float32)
    given = {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": m.one((0.0, 10.0))}
    if m.yes():
        to = np.array([1, 2, m.number(1, 9), m.number(1, 9)], np.int64)
        return m.case("Resize", [m.reals(shape), roi, None, to], [np.float32], 13, fixed=(1, 3), **given)
    scales = np.array([1, 1, m.real(0.5, 2.5), m.real(0.5, 2.5)], np.float32)
    return m.case("Resize", [m.reals(shape), roi, scales], [np.float32], 13, fixed=(1, 2), **given)


def old_resize(m: Maker) -> Case:
    m.special = False
    shape, scales = (1, 2, m.number(2, 9), m.number(2, 9)), [1, 1, m.one((0.5, 0.7, 1.5, 2.0, 2.5)), m.one((0.5, 0.8, 1.5, 2.0, 3.0))]
    if m.yes():
        scales = [max(1.0, s) for s in scales]
        return m.case(
            "Upsample", [m.reals(shape), np.array(scales, np.float32)], [np.float32], 9, fixed=(1,), mode=m.one(("nearest", "linear"))
        )
    return m.case("Resize", [m.reals(shape), np.array(scales, np.float32)], [np.float32], 10, fixed=(1,), mode=m.one(("nearest", "linear")))


def grid_sample(m: Maker) -> Case:
    m.special = False
    x, grid = (
        m.reals((1, 2, m.number(2, 8), m.number(2, 8))),
        m.random.uniform(-1.3, 1.3, (1, m.number(1, 6), m.number(1, 6), 2)).astype(np.float32),
    )
    opset = m.one((16, 20))
    modes = ("bilinear", "nearest", "bicubic") if opset == 16 else ("linear", "nearest", "cubic")
    return m.case(
        "GridSample",
        [x, grid],
        [np.float32],
        opset,
        sums=True,
        mode=m.one(modes),
        padding_mode=m.one(("zeros", "border", "reflection")),
        align_corners=m.number(0, 1),
    )


def suppress(m: Maker) -> Case:
    m.special = False
    batch, boxes, classes = m.number(1, 2), m.number(1, 9), m.number(1, 3)
    corners = np.sort(m.random.random((batch, boxes, 2, 2)), axis=2).astype(np.float32)
    given = [
        np.array([m.number(0, 4)], np.int64) if m.yes(0.8) else None,
        np.array([m.real(0, 1)], np.float32) if m.yes(0.8) else None,
        np.array([m.real(0, 1)], np.float32) if m.yes(0.8) else None,
    ]
    return m.case(
        "NonMaxSuppression",
        [corners.reshape(batch, boxes, 4), m.random.random((batch, classes, boxes)).astype(np.float32), *given],
        [np.int64],
        11,
        fixed=m.one(((), (2, 3, 4))),
        center_point_box=m.number(0, 1),
    )


def shapes(m: Maker) -> Case:
    dtype, shape = m.one(DTYPES), m.shape(1)
    op = m.one(("Flatten", "Unsqueeze", "Squeeze", "Identity", "NonZero"))
    if op == "Flatten":
        return m.case(op, [m.any(shape, dtype)], [dtype], 13, axis=m.number(-len(shape), len(shape)))
    if op == "Unsqueeze":
        return m.case(op, [m.any(shape, dtype), np.array([m.number(-len(shape) - 1, len(shape))], np.int64)], [dtype], 13, fixed=(1,))
    if op == "Squeeze":
        return m.case(op, [m.any((1, *shape), dtype), np.array([0], np.int64)], [dtype], 13, fixed=(1,))
    if op == "NonZero":
        return m.case(op, [m.whole(shape, np.int32, 0, 1)], [np.int64], 13)
    return m.case(op, [m.any(shape, dtype)], [dtype], 13)


def quantise(m: Maker) -> Case:
    dtype, shape = m.one((np.int8, np.uint8)), m.shape(1)
    scale, zero = np.array(m.real(0.01, 0.5), np.float32), np.array(m.number(0, 9), dtype)
    if m.yes():
        return m.case("QuantizeLinear", [m.reals(shape), scale, zero], [dtype], 13, fixed=(1, 2))
    return m.case("DequantizeLinear", [m.whole(shape, dtype), scale, zero], [np.float32], 13, fixed=(1, 2))


FAMILIES: tuple[Family, ...] = (
    transpose,
    reshape,
    slices,
    pad,
    concat,
    split,
    gather,
    gather_nd,
    scatter,
    one_hot,
    expand,
    trilu,
    depth_space,
    reverse,
    resize,
    resize,
    crop_and_resize,
    old_resize,
    grid_sample,
    suppress,
    shapes,
    quantise,
)
