"""Random operators that find or sum along axes: reductions, norms, softmax, places, products, convolutions, pools, recurrent layers."""

from __future__ import annotations

import numpy as np

from single.case import FLOATS, Case, Maker
from single.elementwise import Family

REDUCE = (
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
)


def _some_axes(m: Maker, rank: int) -> list[int]:
    return [int(a) - (rank if m.yes(0.3) else 0) for a in sorted(m.random.permutation(rank)[: m.number(1, rank)])]


def reduction(m: Maker) -> Case:
    op, shape = m.one(REDUCE), m.shape(1)
    dtype = m.one((np.float32, np.float16, np.int32)) if op != "ReduceLogSum" and op != "ReduceLogSumExp" else np.float32
    if dtype == np.float16 and op not in ("ReduceMax", "ReduceMin", "ReduceSum", "ReduceMean"):
        dtype = np.float32
    if op in ("ReduceMax", "ReduceMin"):
        dtype = m.one((np.float32, np.float16, np.int8, np.uint8, np.int32, np.int64))
    elif np.dtype(dtype).kind == "i":
        m.special = False
        if op in ("ReduceMean", "ReduceL2"):
            dtype = np.float32
    x = m.any(shape, dtype) if op != "ReduceProd" or np.dtype(dtype).kind != "f" else m.any(shape[-2:], dtype)
    if op == "ReduceLogSum":
        x = np.abs(x)
    axes = None if m.yes(0.2) else np.array(_some_axes(m, x.ndim), np.int64)
    given = {"keepdims": m.number(0, 1), "noop_with_empty_axes": m.number(0, 1) if m.yes(0.2) else None}
    return m.case(op, [x, axes], [dtype], 18 if op != "ReduceMax" or dtype != np.bool_ else 20, fixed=(1,), sums=True, **given)


def softmax(m: Maker) -> Case:
    shape, opset = m.shape(1), m.one((11, 13))
    return m.case(m.one(("Softmax", "LogSoftmax", "Hardmax")), [m.reals(shape)], [np.float32], opset, axis=m.axis(len(shape)))


def place(m: Maker) -> Case:
    dtype, shape = m.one((*FLOATS, np.int8, np.uint8, np.int32)), m.shape(1)
    return m.case(
        m.one(("ArgMax", "ArgMin")),
        [m.any(shape, dtype)],
        [np.int64],
        13,
        axis=m.axis(len(shape)),
        keepdims=m.number(0, 1),
        select_last_index=m.number(0, 1),
    )


def top(m: Maker) -> Case:
    dtype, shape = m.one((np.float32, np.float32, np.int32, np.int64)), m.shape(1)
    axis = m.axis(len(shape))
    k = m.number(1, min(shape[axis], 40))
    x = m.any(shape, dtype)
    return m.case("TopK", [x, np.array([k], np.int64)], [dtype, np.int64], 11, fixed=(1,), axis=axis, largest=m.number(0, 1), sorted=1)


def cumulative(m: Maker) -> Case:
    dtype, shape = m.one((np.float32, np.int32, np.int64)), m.shape(1)
    if np.dtype(dtype).kind == "i":
        m.special = False
    return m.case(
        "CumSum",
        [m.any(shape, dtype), np.array(m.axis(len(shape)), np.int64)],
        [dtype],
        14,
        fixed=(1,),
        sums=True,
        exclusive=m.number(0, 1),
        reverse=m.number(0, 1),
    )


def norm(m: Maker) -> Case:
    m.special = False
    op = m.one(
        (
            "LayerNormalization",
            "InstanceNormalization",
            "BatchNormalization",
            "LpNormalization",
            "GroupNormalization",
            "LRN",
            "MeanVarianceNormalization",
            "RMSNormalization",
        )
    )
    shape = (m.number(1, 3), m.one((2, 4, 6)), *m.shape(1, 2))
    x, channels = m.reals(shape), shape[1]

    def of(n: int, positive: bool = False) -> np.ndarray:
        return np.abs(m.reals((n,))) + np.float32(0.5) if positive else m.reals((n,))

    if op in ("LayerNormalization", "RMSNormalization"):
        axis = m.number(1, len(shape) - 1)
        tail = shape[axis:]
        more = [m.reals(tail)] if op == "RMSNormalization" else [m.reals(tail), *([m.reals(tail)] if m.yes() else [])]
        return m.case(
            op,
            [x, *more],
            [np.float32],
            23 if op == "RMSNormalization" else 17,
            sums=True,
            axis=axis - (len(shape) if m.yes() else 0),
            epsilon=1e-3,
        )
    if op == "InstanceNormalization":
        return m.case(op, [x, of(channels), of(channels)], [np.float32], 6, sums=True, epsilon=1e-3)
    if op == "BatchNormalization":
        return m.case(op, [x, of(channels), of(channels), of(channels), of(channels, True)], [np.float32], 15, sums=True, epsilon=1e-3)
    if op == "LpNormalization":
        return m.case(op, [x], [np.float32], 1, sums=True, axis=m.axis(len(shape)), p=m.number(1, 2))
    if op == "LRN":
        return m.case(
            op,
            [m.reals((*shape[:2], 3, 4))],
            [np.float32],
            13,
            sums=True,
            size=m.one((1, 3, 5)),
            alpha=m.real(1e-4, 0.5),
            beta=m.real(0.5, 1),
            bias=1.0,
        )
    if op == "GroupNormalization":
        opset, groups = m.one((18, 21)), m.one((1, 2))
        n = groups if opset == 18 else channels
        return m.case(op, [x, of(n), of(n)], [np.float32], opset, sums=True, num_groups=groups, epsilon=1e-3)
    return m.case(op, [x if x.ndim == 4 else m.reals((*shape[:2], 3, 4))], [np.float32], 13, sums=True)


def product(m: Maker) -> Case:
    m.special = False
    a, b, c = (m.number(1, 40) for _ in range(3))
    if m.yes():
        dtype = m.one(FLOATS)
        lead = m.shape(0, 2, 3)
        left, right = m.reals((*lead, a, b), dtype, 1.0), m.reals((*m.broadcast(lead), b, c), dtype, 1.0)
        if m.yes(0.2):
            right = m.reals((b,), dtype, 1.0)
        return m.case("MatMul", [left, right], [dtype], 13, fixed=m.one(((), (1,))), sums=True)
    ta, tb = m.number(0, 1), m.number(0, 1)
    left, right = m.reals((b, a) if ta else (a, b)), m.reals((c, b) if tb else (b, c))
    bias = m.reals(m.one(((a, c), (1, c), (c,), (a, 1), ()))) if m.yes() else None
    return m.case(
        "Gemm",
        [left, right, bias],
        [np.float32],
        13,
        fixed=m.one(((), (1, 2))),
        sums=True,
        transA=ta,
        transB=tb,
        alpha=m.real(0.2, 2) if m.yes() else None,
        beta=m.real(0.2, 2) if m.yes() else None,
    )


def _window(m: Maker, rank: int) -> dict[str, object]:
    kernel = [m.number(1, 3) for _ in range(rank)]
    given: dict[str, object] = {"kernel_shape": kernel}
    if m.yes(0.7):
        given["strides"] = [m.number(1, 3) for _ in range(rank)]
    if m.yes(0.3):
        given["auto_pad"] = m.one(("SAME_UPPER", "SAME_LOWER", "VALID"))
    elif m.yes(0.6):
        given["pads"] = [m.number(0, k - 1) for k in (*kernel, *kernel)]
    return given


def convolution(m: Maker) -> Case:
    m.special = False
    rank, group = m.one((1, 2, 2, 2)), m.one((1, 1, 2, 3))
    given = _window(m, rank)
    if "auto_pad" not in given and m.yes(0.3):
        given["dilations"] = [m.number(1, 2) for _ in range(rank)]
    image, each_in, each_out = [m.number(6, 14) for _ in range(rank)], m.number(1, 5), m.number(1, 5)
    x = m.reals((m.number(1, 2), group * each_in, *image))
    kernel = given["kernel_shape"]
    op, more = "Conv", {}
    if m.yes(0.3):
        given.pop("auto_pad", None)
        op, w = "ConvTranspose", m.reals((group * each_in, each_out, *kernel))  # type: ignore[misc]
        if "strides" in given and m.yes():
            more = {"output_padding": [m.number(0, s - 1) for s in given["strides"]]}  # type: ignore[attr-defined]
    else:
        w = m.reals((group * each_out, each_in, *kernel))  # type: ignore[misc]
    return m.case(
        op,
        [x, w, m.reals((group * each_out,)) if m.yes() else None],
        [np.float32],
        11,
        fixed=m.one(((), (1, 2))),
        sums=True,
        group=group,
        **given,
        **more,
    )


def pool(m: Maker) -> Case:
    op, rank = (
        m.one(("MaxPool", "MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")),
        m.one((1, 2, 2, 3)),
    )
    m.special = m.special and op in ("MaxPool", "GlobalMaxPool")
    x = m.reals((m.number(1, 2), m.number(1, 5), *(m.number(6, 10) for _ in range(rank))))
    if op.startswith("Global"):
        return m.case(
            op, [x], [np.float32], 2 if op == "GlobalLpPool" else 1, sums=True, p=m.number(1, 3) if op == "GlobalLpPool" else None
        )
    given = _window(m, rank)
    if op == "LpPool":
        return m.case(op, [x], [np.float32], 18, sums=True, p=m.number(1, 3), **given)
    if "auto_pad" not in given and m.yes(0.3):
        given["ceil_mode"] = 1
    if op == "AveragePool":
        return m.case(op, [x], [np.float32], 19, sums=True, count_include_pad=m.number(0, 1), **given)
    if "auto_pad" not in given and m.yes(0.3):
        given["dilations"] = [m.number(1, 2) for _ in range(rank)]
    both = m.yes(0.3) and not m.special
    return m.case(op, [x], [np.float32, np.int64] if both else [np.float32], 12, storage_order=m.number(0, 1) if both else None, **given)


ACTIVATIONS = (
    "Relu",
    "Tanh",
    "Sigmoid",
    "Softsign",
    "Softplus",
    "LeakyRelu",
    "Elu",
    "ThresholdedRelu",
    "HardSigmoid",
    "ScaledTanh",
    "Affine",
)


def recurrent(m: Maker) -> Case:
    m.special = False
    op, direction = m.one(("RNN", "GRU", "LSTM")), m.one(("forward", "reverse", "bidirectional"))
    gates, count = {"RNN": 1, "GRU": 3, "LSTM": 4}[op], {"RNN": 1, "GRU": 2, "LSTM": 3}[op]
    d, time, batch, size, hidden = (
        (2 if direction == "bidirectional" else 1),
        m.number(1, 4),
        m.number(1, 3),
        m.number(1, 6),
        m.number(1, 6),
    )
    x, w, r = (
        m.reals((time, batch, size), spread=1),
        m.reals((d, gates * hidden, size), spread=1),
        m.reals((d, gates * hidden, hidden), spread=1),
    )
    bias = m.reals((d, 2 * gates * hidden), spread=1) if m.yes() else None
    lengths = m.whole((batch,), np.int32, 1, time) if m.yes(0.4) else None
    states = [m.reals((d, batch, hidden), spread=1) if m.yes() else None for _ in range(2 if op == "LSTM" else 1)]
    peepholes = [m.reals((d, 3 * hidden), spread=1)] if op == "LSTM" and m.yes(0.3) else []
    given = {
        "activations": [m.one(ACTIVATIONS) for _ in range(count * d)] if m.yes(0.3) else None,
        "clip": m.real(0.1, 2) if m.yes(0.3) else None,
        "linear_before_reset": m.number(0, 1) if op == "GRU" else None,
        "input_forget": m.number(0, 1) if op == "LSTM" and m.yes(0.3) else None,
    }
    if given["activations"]:
        needs = sum(a in ("LeakyRelu", "Elu", "ThresholdedRelu", "HardSigmoid", "ScaledTanh", "Affine") for a in given["activations"])  # type: ignore[attr-defined]
        given["activation_alpha"] = [m.real(0.1, 1) for _ in range(needs)] or None
        given["activation_beta"] = [m.real(0.1, 1) for a in given["activations"] if a in ("HardSigmoid", "ScaledTanh", "Affine")] or None  # type: ignore[attr-defined]
    return m.case(
        op,
        [x, w, r, bias, lengths, *states, *peepholes],
        [np.float32] * (3 if op == "LSTM" else 2),
        14,
        fixed=m.one(((), (1, 2, 3))),
        sums=True,
        hidden_size=hidden,
        direction=direction,
        **given,
    )


def einsum(m: Maker) -> Case:
    m.special = False
    b, i, j, k = (m.number(1, 9) for _ in range(4))
    text, shapes = m.one(
        (
            ("bij,bjk->bik", ((b, i, j), (b, j, k))),
            ("ij,kj->ik", ((i, j), (k, j))),
            ("bij->bji", ((b, i, j),)),
            ("ij->i", ((i, j),)),
            ("i,j->ij", ((i,), (j,))),
            ("bhid,bhjd->bhij", ((b, 2, i, k), (b, 2, j, k))),
        )
    )
    return m.case("Einsum", [m.reals(s) for s in shapes], [np.float32], 12, sums=True, equation=text)


FAMILIES: tuple[Family, ...] = (reduction, reduction, softmax, place, top, cumulative, norm, product, convolution, pool, recurrent, einsum)
