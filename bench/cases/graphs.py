"""A case's operator as a graph of aoec's own: what is lowered and scheduled for tile words, or tuned where the tile is not published."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from math import prod

from aoec.base.errors import UnsupportedError
from aoec.ir.graph.graph import Graph
from aoec.ops import OPS
from aoec.target.machine import Machine
from bench.cases.case import Case
from bench.cases.draft import Net
from bench.cases.kernels import KERNELS, gelu_grad
from bench.cases.moves import MOVES, moved
from bench.cases.operators import near

REALS = ("fp16", "bf16", "fp32")
CASTS = ("cast",)


Recipe = Callable[[Net, list[str]], str]

# operators of published tables -> what they are in ours
RECIPES: dict[str, Recipe] = {
    "neg": lambda n, x: n.node("muls", x, scalar=-1.0), "real_div": lambda n, x: n.node("div", x),
    "sum": lambda n, x: reduce(lambda a, b: n.node("add", [a, b]), x),
    "hardsigmoid": lambda n, x: n.node("hard_sigmoid", x, alpha=1 / 6, beta=0.5),
    "hardtanh": lambda n, x: n.node("clip", x, lo=-1.0, hi=1.0),
    "relu6": lambda n, x: n.node("clip", x, lo=0.0, hi=6.0), "leakyrelu": lambda n, x: n.node("leaky_relu", x, alpha=0.01),
    "softplus": lambda n, x: n.node("log", [n.node("adds", [n.node("exp", x)], scalar=1.0)]),
    "softsign": lambda n, x: n.node("div", [x[0], n.node("adds", [n.node("abs", x)], scalar=1.0)]),
    "silu": lambda n, x: n.node("silu", x), "swish": lambda n, x: n.node("silu", x),
    "square": lambda n, x: n.node("mul", [x[0], x[0]]), "add_broadcast": lambda n, x: n.node("add", x),
    "softmax": lambda n, x: n.node("softmax", x, axis=len(n.shape(x[0])) - 1),
    "log_softmax": lambda n, x: n.node("log_softmax", x, axis=len(n.shape(x[0])) - 1),
    "layernorm": lambda n, x: n.node("layer_norm", x, epsilon=1e-5), "rmsnorm": lambda n, x: n.node("rms_norm", scaled(n, x), epsilon=1e-6),
    "add_rmsnorm": lambda n, x: n.node("rms_norm", scaled(n, [n.node("add", [x[0], n.input("residual", n.shape(x[0]))])]), epsilon=1e-6),
    "square_sum": lambda n, x: n.node("reduce_sum", [n.node("mul", [x[0], x[0]])], axes=tuple(range(len(n.shape(x[0]))))),
    "gelu": lambda n, x: n.node("div", [x[0], n.node("adds", [n.node("exp", [_gelu_exponent(n, x)])], scalar=1.0)]),
    "selu": lambda n, x: n.node("muls", [n.node("add", [n.node("relu", x), _negative_part(n, x)])], scalar=1.0507),
}


WHOLE = ("int32", "int64")
COMPARED = ("less", "less_equal", "greater", "greater_equal", "equal")
PAIRED = ("add", "sub", "mul", "div", "real_div", "maximum", "minimum", *COMPARED)  # equal tensors where a row gives one
# operators whose other operand is one number -> ours with a scalar
SCALED = {"div": "muls", "real_div": "muls", "mul": "muls", "add": "adds", "sub": "adds"}


def scaled(n: Net, x: list[str]) -> list[str]:
    """Return the operands with a number for each column of the rows, where the table leaves it out."""
    return [*x, n.input("scale", n.shape(x[0])[-1:])] if len(x) == 1 else x


def _negative_part(n: Net, x: list[str]) -> str:
    """Add min(alpha * (exp(x) - 1), 0)."""
    grown = n.node("muls", [n.node("adds", [n.node("exp", x)], scalar=-1.0)], scalar=1.6733)
    return n.node("clip", [grown], lo=-10.0, hi=0.0)


def _gelu_exponent(n: Net, x: list[str]) -> str:
    """Add -1.5957691 * (x + 0.044715 * x^3): GELU by its tanh form, as the vendor's vector library computes it."""
    cube = n.node("mul", [n.node("mul", [x[0], x[0]]), x[0]])
    return n.node("muls", [n.node("add", [x[0], n.node("muls", [cube], scalar=0.044715)])], scalar=-1.5957691)


def graph_of(case: Case, flat: bool = False, machine: Machine | None = None) -> Graph:
    """Return the fused graph of a case's operator, as a compile for the machine would have it, if one is given; `flat`: elementwise tensors
    as one run. Raise UnsupportedError where aoec has no such operator."""
    sizes = case.shape.sizes
    if case.operator in KERNELS:
        return KERNELS[case.operator](case, machine)
    if case.family == "matmul":
        return matmul_graph(case, machine)
    if case.family == "conv":
        return conv_graph(case, sizes)
    if not case.shape.inputs:
        raise UnsupportedError(unknown(case))
    if case.operator in POOLS:
        return pool_graph(case)
    if case.operator in MOVES:
        return moves_graph(case, machine)
    if case.operator == "quantize_static":
        return quantised_graph(case, machine)
    return vector_graph(case, flat, machine)


def vector_graph(case: Case, flat: bool, machine: Machine | None) -> Graph:
    """Return an operator of one or two tensors by its recipe, or by the name that we share."""
    if case.operator in CASTS and set(case.dtypes) <= {*REALS, "int8", "uint8", "int32", "int64"}:
        return cast_graph(case)
    if case.operator not in {*OPS, *RECIPES, *REDUCERS, *SCALED}:
        raise UnsupportedError(unknown(case))
    if not held(case):
        raise UnsupportedError(f"aoec has no {case.operator} of {' to '.join(dict.fromkeys(case.dtypes))}")
    net = Net(case.operator, case.dtypes[0])
    net.machine = machine
    shapes = [rows_of(s, case.layout) for s in case.shape.inputs if prod(s) > 1] or [case.shape.inputs[0]]
    if flat and case.family == "elementwise" and {*shapes, case.shape.output or shapes[0]} == {shapes[0]}:
        shapes = [(prod(s),) for s in shapes]
    shapes *= 2 if case.operator in PAIRED and len(case.shape.inputs) == 1 else 1
    inputs = [net.input(f"x{i}", s) for i, s in enumerate(shapes)]
    if case.operator in REDUCERS:
        return net.graph(net.node(REDUCERS[case.operator], inputs, axes=reduced(shapes[0], case.shape.output)))
    name = SCALED.get(case.operator, "") if len(inputs) < len(case.shape.inputs) else ""
    recipe = (lambda n, x: n.node(name, x, scalar=0.5)) if name else RECIPES.get(case.operator) or (
        lambda n, x: n.node(case.operator, x, case.dtypes[1]))
    return net.graph(recipe(net, inputs))


def held(case: Case) -> bool:
    """Return whether the operator is one of the case's dtypes: of reals that stay so, of whole numbers, or a comparison that gives
    truths."""
    first, result = case.dtypes
    if case.operator in COMPARED:
        return first in (*REALS, *WHOLE) and result == "bool"
    return first == result and (first in REALS or first in WHOLE and case.operator in PAIRED)


def unknown(case: Case) -> str:
    """Return why a case's operator is none of aoec's, with the names that look like it."""
    known = {*OPS, *RECIPES, *REDUCERS, *MOVES, *POOLS, *JOINED, *KERNELS, *CASTS, "matmul", "batch_matmul", "conv2d", "quantize_static"}
    return UNSAID.get(case.operator) or f"aoec has no operator {case.operator}{near(case.operator, known - {case.operator})}"


# operators that no program of ours does as one kernel -> why
UNSAID = {
    "rope": "pairs of neighbours change places, which no vector instruction of ours does (a gather within UB)",
    "qkv_split_rmsnorm_rope": "as rope: neighbours change places within UB, between a split and a norm of each head",
    "sort": "rows are sorted by the sorting instructions (sort32, mrgsort), which are none of ours",
    "topk": "rows are sorted by the sorting instructions (sort32, mrgsort), which are none of ours",
    "topk_topp": "rows are sorted by the sorting instructions (sort32, mrgsort), which are none of ours",
    "dropout": "the mask lies in packed bits, which no instruction of ours reads",
    "reshape_and_cache": "rows are written where data say, which our programs do not",
    "segment_sum": "rows are added up where data say, which our programs do not",
    "bn_grad": "sums over pixels for each lane of blocks of channels, which no rule of ours tiles"}


def rows_of(shape: tuple[int, ...], layout: str) -> tuple[int, ...]:
    """Return the matrices [..., m, n] that an NZ tensor [..., n1, m1, 16, 16] holds; any other shape as it is.

    The operator then takes them as ND: as many bytes, rows that lie whole instead of in columns of fractals.
    """
    if not layout.startswith("nz") or len(shape) < 4 or shape[-2:] != (16, 16):
        return shape
    n1, m1 = shape[-4:-2]
    return (*shape[:-4], m1 * 16, n1 * 16)


def cast_graph(case: Case) -> Graph:
    """Return a conversion of dtypes, as one run."""
    net = Net("cast", case.dtypes[0])
    return net.graph(net.node("cast", [net.input("x", (prod(case.shape.inputs[0]),))], case.dtypes[1]))


# reductions of published tables -> ours
REDUCERS = {name: name for name in ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min")} | {"bias_grad": "reduce_sum"}


def reduced(shape: tuple[int, ...], result: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes that a reduction to `result` takes away: those that are not matched from the front; of no result, all."""
    axes, rest = [], list(result)
    for axis, size in enumerate(shape):
        if rest and rest[0] == size:
            rest.pop(0)
        else:
            axes.append(axis)
    return tuple(axes)


def quantised_graph(case: Case, machine: Machine | None) -> Graph:
    """Return rows of reals as int8, by a scale for each column."""
    if case.dtypes[0] not in REALS or case.dtypes[1] != "int8" or len(case.shape.inputs[0]) != 2:
        raise UnsupportedError(f"aoec has no {case.operator} of {' to '.join(case.dtypes)}")
    net = Net(case.operator, case.dtypes[0])
    net.machine = machine
    x, columns = net.input("x", case.shape.inputs[0]), case.shape.inputs[0][1:]
    scale, zero = net.input("scale", columns, dtype="fp32"), net.zeros("zero", columns, "int8")
    return net.graph(net.node("quantise", [x, scale, zero], "int8", lo=-128.0, hi=127.0))


def moves_graph(case: Case, machine: Machine | None) -> Graph:
    """Return an operator that moves elements."""
    move = moved(case)
    net = Net(case.operator, case.dtypes[0])
    net.machine = machine
    dtypes = move.dtypes or ("",) * len(move.inputs)
    inputs = [net.input(f"x{i}", s, move.layouts[0], d) for i, (s, d) in enumerate(zip(move.inputs, dtypes, strict=True))]
    return net.graph(net.node(move.op, inputs, layout=move.layouts[1], **move.attributes))


def matmul_graph(case: Case, machine: Machine | None = None) -> Graph:
    """Return a product, perhaps of a batch, and what its kernel joins to it; B as it lies in GM."""
    s = case.shape.sizes
    if not {"m", "n", "k"} <= set(s):
        raise UnsupportedError(f"shape {case.shape.text!r} gives no m, n and k")
    if case.operator not in ("matmul", "batch_matmul", *JOINED):
        raise UnsupportedError(unknown(case))
    whole = case.operator == "quant_matmul"
    if case.dtypes[0] not in (("int8",) if whole else REALS):
        raise UnsupportedError(f"aoec has no {case.operator} of {case.dtypes[0]}")
    net = Net("matmul", case.dtypes[0])
    lead = (s["b"],) if s.get("b", 1) > 1 else ()
    turned = case.layout.endswith(":nk")
    left, _, right = case.layout.partition(":")
    a = net.input("a", (*lead, s["m"], s["k"]), left.upper())
    rows = (s["n"], s["k"]) if turned else (s["k"], s["n"])
    b = net.zeros("b", (s["k"], s["n"])) if whole else net.input("b", (*lead, *rows), "NZ" if right == "nz" else "ND")
    y = net.node("matmul", [a, b], "int32" if whole else case.dtypes[1], left.upper(), **({"trans_b": 1} if turned else {}))
    if case.operator in JOINED:
        net.machine = machine
        return net.graph(JOINED[case.operator](net, y, left.upper(), case.dtypes[1]))
    return net.one(y)


def _dequantised(n: Net, y: str, layout: str, dtype: str) -> str:
    """Turn sums into reals, by a scale for each column. It is a program of its own, because our FIXPIPE scales to int8 alone."""
    columns = n.shape(y)[-1:]
    return n.node("dequantise", [y, n.input("scale", columns, dtype="fp32"), n.zeros("zero", columns, "int32")], dtype, layout)


# what a product's kernel does to its result besides
JOINED: Mapping[str, Callable[[Net, str, str, str], str]] = {
    "quant_matmul": _dequantised,
    "matmul_gelu": lambda n, y, layout, dtype: n.node("gelu_tanh", [y], dtype, layout),
    "matmul_add": lambda n, y, layout, dtype: n.node("add", [y, n.input("residual", n.shape(y), layout, dtype)], dtype, layout),
    "matmul_relu": lambda n, y, layout, dtype: n.node("relu", [y], dtype, layout), "matmul_gelugrad": gelu_grad,
    "matmul_mul": lambda n, y, layout, dtype: n.node("muls", [y], dtype, layout, scalar=0.5)}


def conv_graph(case: Case, s: Mapping[str, int]) -> Graph:
    """Return a convolution n c h w -> k filters; pads as the size of the result asks for."""
    if not {"n", "c", "h", "w", "k"} <= set(s) or case.operator not in ("conv2d", "conv2d_bnreduce"):
        raise UnsupportedError(unknown(case) if "n" in s else f"shape {case.shape.text!r} names no convolution")
    if case.dtypes[0] not in REALS:
        raise UnsupportedError(f"aoec has no convolution of {case.dtypes[0]}")
    kh, kw = filter_of(s)
    stride = s.get("stride", 1)
    net = Net("conv2d", case.dtypes[0])
    layout = "NC1HWC0" if case.layout == "nc1hwc0" else "ND"
    x, w = net.input("x", (s["n"], s["c"], s["h"], s["w"]), layout), net.zeros("w", (s["k"], s["c"], kh, kw))
    top, bottom = pads(s["h"], s.get("ho", -(-s["h"] // stride)), kh, stride)
    left, right = pads(s["w"], s.get("wo", -(-s["w"] // stride)), kw, stride)
    y = net.node("conv2d", [x, w], layout=layout, stride=(stride, stride), pad=(top, left, bottom, right), dilation=(1, 1), group=1)
    return net.graph(y)


# pooling rows -> ours; their windows are 3 x 3 in the networks that they stand in (ResNet-50, Inception v3)
POOLS = {"maxpool": "max_pool", "avgpool": "avg_pool"}


def pool_graph(case: Case) -> Graph:
    """Return a pooling of an image in NC1HWC0, [n, c1, h, w, 16]: strides and pads as the size of the result asks for."""
    (n, c1, h, w, c0), (*_, ho, wo, _) = case.shape.inputs[0], case.shape.output
    net = Net(case.operator, case.dtypes[0])
    x = net.input("x", (n, c1 * c0, h, w), "NC1HWC0")
    stride = (round(h / ho), round(w / wo))
    (top, bottom), (left, right) = (pads(size, out, 3, s) for size, out, s in ((h, ho, stride[0]), (w, wo, stride[1])))
    return net.graph(net.node(POOLS[case.operator], [x], layout="NC1HWC0", kernel=(3, 3), stride=stride, pad=(top, left, bottom, right),
                              dilation=(1, 1)))


def filter_of(s: Mapping[str, int]) -> tuple[int, int]:
    """Return rows and columns of a filter; `taps` names a filter of one row."""
    return (1, s["taps"]) if "taps" in s else (s.get("kh", 1), s.get("kw", 1))


def pads(size: int, out: int, kernel: int, stride: int) -> tuple[int, int]:
    """Return the padding before and after that gives a result of `out`."""
    total = max(0, (out - 1) * stride + kernel - size)
    return total // 2, total - total // 2
