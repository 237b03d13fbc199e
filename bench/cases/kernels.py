"""Vendor kernels that no word of the dictionary says alone: by a definition in index notation, as a user's own operator, or as the product
that they are."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from math import isqrt, prod

from aoec.base.errors import UnsupportedError
from aoec.ir.graph.graph import Graph
from aoec.ops.own import read_definitions
from aoec.target.machine import Machine
from bench.cases.case import Case
from bench.cases.draft import Net

REALS = ("fp16", "bf16", "fp32")
Kernel = Callable[[Case, "Machine | None"], Graph]

TEXT = """
dynamic_quant(X[i, j]) -> Y[i, j] {
  M[i] max= abs(X[i, j])
  Y[i, j] = int8(round(X[i, j] * (127.0 / M[i])))
}
layernorm_grad(D[i, j], X[i, j], V[i], M[i], G[j]; share) -> Y[i, j] {
  R[i] = rsqrt(V[i] + 0.00001)
  N[i, j] = (X[i, j] - M[i]) * R[i]
  W[i, j] = D[i, j] * G[j]
  A[i] += W[i, j]
  B[i] += W[i, j] * N[i, j]
  Y[i, j] = (W[i, j] - A[i] * share - N[i, j] * (B[i] * share)) * R[i]
}
bn_relu(X[n, c, p, l], S[c, l], B[c, l]) -> Y[n, c, p, l] {
  Y[n, c, p, l] = max(X[n, c, p, l] * S[c, l] + B[c, l], 0.0)
}
gelu_grad(D[i, j], X[i, j]) -> Y[i, j] {
  T[i, j] = tanh((X[i, j] + X[i, j] * X[i, j] * X[i, j] * 0.044715) * 0.7978845608)
  Y[i, j] = D[i, j] * ((T[i, j] + 1.0) * 0.5 + X[i, j] * (1.0 - T[i, j] * T[i, j]) * (X[i, j] * X[i, j] * 0.134145 + 1.0) * 0.3989422804)
}
relu_grad(D[i, j], Y[i, j]) -> X[i, j] {
  X[i, j] = select(Y[i, j] > 0.0, D[i, j], 0.0)
}
sigmoid_grad(Y[i, j], D[i, j]) -> X[i, j] {
  X[i, j] = D[i, j] * (Y[i, j] - Y[i, j] * Y[i, j])
}
tanh_grad(Y[i, j], D[i, j]) -> X[i, j] {
  X[i, j] = D[i, j] * (1.0 - Y[i, j] * Y[i, j])
}
softmax_grad(Y[i, j], D[i, j]) -> X[i, j] {
  S[i] += Y[i, j] * D[i, j]
  X[i, j] = (D[i, j] - S[i]) * Y[i, j]
}
"""
# what a kernel writes besides and its definition leaves out
REMARKS = {"dynamic_quant": "without the scale of each row, 4 bytes of it",
           "bn_relu": "without mean and variance, a number for each channel",
           "layernorm_grad": "without what the gradient of the scale is summed from"}


@lru_cache(maxsize=1)
def definitions() -> Mapping[str, str]:
    """Return kernel -> its definition."""
    return read_definitions(TEXT, "bench/cases/kernels.py")


def rows(case: Case, at: int = 0) -> tuple[int, int]:
    """Return (rows, columns) of an operand, out of fractals [.., n1, m1, 16, 16] where the row says NZ."""
    shape = case.shape.inputs[at]
    if case.layout.startswith("nz") and len(shape) >= 4 and shape[-2:] == (16, 16):
        return prod(shape[:-4]) * shape[-3] * 16, shape[-4] * 16
    return prod(shape[:-1]), shape[-1]


def reals(case: Case) -> Net:
    """Return a net in the case's dtype. Raise UnsupportedError where that is none of reals."""
    if case.dtypes[0] not in REALS or not case.shape.inputs:
        raise UnsupportedError(f"aoec has no {case.operator} of {case.dtypes[0]} and shape {case.shape.text!r}")
    return Net(case.operator, case.dtypes[0])


def dynamic_quant(case: Case, machine: Machine | None) -> Graph:
    """Return rows of reals as int8, each scaled by the largest of it."""
    net, shape = reals(case), rows(case)
    net.machine = machine
    return net.graph(net.own("dynamic_quant", definitions()["dynamic_quant"], [net.input("x", shape)], shape, "int8"))


def layernorm_grad(case: Case, machine: Machine | None) -> Graph:
    """Return the gradient of a norm of rows by what it normed: from gradient, input, variance and mean of each row, scale of each
    column."""
    net, shape = reals(case), rows(case)
    net.machine = machine
    inputs = [net.input("d", shape), net.input("x", shape), *(net.input(n, shape[:1]) for n in "vm"), net.input("g", shape[1:])]
    return net.graph(net.own("layernorm_grad", definitions()["layernorm_grad"], inputs, shape, share=1.0 / shape[1]))


def bn_relu(case: Case, machine: Machine | None) -> Graph:
    """Return an image in blocks of channels, scaled and moved for each channel, and its positive part."""
    net, image = reals(case), case.shape.inputs[0]
    if len(image) != 5:
        raise UnsupportedError(f"{case.shape.text!r} is no image [n, c1, h, w, c0]")
    net.machine = machine
    n, c, h, w, lanes = image
    x, *more = net.input("x", (n, c, h * w, lanes)), net.input("s", (c, lanes)), net.input("b", (c, lanes))
    return net.graph(net.own("bn_relu", definitions()["bn_relu"], [x, *more], (n, c, h * w, lanes)))


def gelu_grad(n: Net, y: str, layout: str, dtype: str) -> str:
    """Return the gradient behind a gelu, from the one before it and what gelu was taken of: of its form with tanh, as the vendor's vector
    library has it. With h = 0.79788 (x + 0.044715 x^3): y ((1 + tanh h) / 2 + x (1 - tanh^2 h) h' / 2)."""
    def of(op: str, *inputs: str, **attributes: float) -> str:
        return n.node(op, inputs, dtype, layout, **attributes)
    x = n.input("x", n.shape(y), layout, dtype)
    square = of("mul", x, x)
    bent = of("tanh", of("muls", of("add", x, of("muls", of("mul", square, x), scalar=0.044715)), scalar=0.7978845608))
    slope = of("muls", of("adds", of("muls", square, scalar=0.134145), scalar=1.0), scalar=0.3989422804)
    falls = of("adds", of("muls", of("mul", bent, bent), scalar=-1.0), scalar=1.0)
    half = of("muls", of("adds", bent, scalar=1.0), scalar=0.5)
    return of("mul", y, of("add", half, of("mul", of("mul", x, falls), slope)))


def of_two(case: Case, machine: Machine | None) -> Graph:
    """Return a gradient by what it comes from and what was calculated, both of one shape."""
    net, shape = reals(case), rows(case)
    net.machine = machine
    inputs = [net.input(name, shape) for name in "ab"]
    return net.graph(net.own(case.operator, definitions()[case.operator], inputs, shape))


def filter_grad(case: Case, machine: Machine | None) -> Graph:
    """Return the gradient of 1 x 1 filters: a product over all pixels, both operands in fractals and the left one turned. Gradient, then
    image, in [n, c1, h, w, 16]; result [c1 x filter, k1, 16, 16]."""
    net, result = reals(case), case.shape.output
    shapes = case.shape.inputs[:2]
    if len(shapes) != 2 or any(len(s) != 5 for s in shapes) or len(result) != 4:
        raise UnsupportedError(f"{case.shape.text!r} gives no gradient and image [n, c1, h, w, c0] and no filter [c1, k1, 16, 16]")
    (n, k1, h, w, c0), (_, c1, *pixels, _) = shapes
    if result[0] != c1 or pixels != [h, w]:
        raise UnsupportedError("the gradient of filters beyond 1 x 1 is a product over the pixels under them (img2col of the right "
                               "operand), which no rule of ours lays out")
    a, b = net.input("a", (n * h * w, k1 * c0), "NZ"), net.input("b", (n * h * w, c1 * c0), "NZ")
    return net.one(net.node("matmul", [a, b], case.dtypes[1], "NZ", trans_a=1))


def image_grad(case: Case, machine: Machine | None) -> Graph:
    """Return the gradient of a convolution of stride 1 by its image: a convolution of the gradient with the filters turned about. Gradient
    [n, k1, h, w, 16], filters [c1 x filter, k1, 16, 16], result [n, c1, h, w, 16]."""
    net, result = reals(case), case.shape.output
    if len(case.shape.inputs) != 2 or [len(s) for s in (*case.shape.inputs, result)] != [5, 4, 5]:
        raise UnsupportedError(f"{case.shape.text!r} gives no gradient [n, k1, h, w, c0], filters and image")
    (n, k1, h, w, c0), (taps, *_) = case.shape.inputs
    side = isqrt(taps // result[1])
    if result[2:4] != (h, w) or side * side * result[1] != taps or side % 2 == 0:
        raise UnsupportedError("the gradient of a convolution of a stride beyond 1 is one convolution for each phase of it, several "
                               "programs of ours")
    x, filters = net.input("x", (n, k1 * c0, h, w), "NC1HWC0"), net.zeros("w", (result[1] * c0, k1 * c0, side, side))
    return net.graph(net.node("conv2d", [x, filters], layout="NC1HWC0", stride=(1, 1), pad=(side // 2,) * 4, dilation=(1, 1), group=1))


def masked_image_grad(case: Case, machine: Machine | None) -> Graph:
    """Raise UnsupportedError with the reason."""
    raise UnsupportedError("the mask of the ReLU before it lies in packed bits, which no instruction of ours reads")


def attention(case: Case, machine: Machine | None) -> Graph:
    """Build attention without a mask: b (or batch) sequences, hq (or heads) heads, of which hkv have keys of their own, s (or sq and skv)
    rows of d. Heads that share keys are rows of one product."""
    s = case.shape.sizes
    queries, keys, d = s.get("sq", s.get("s", 0)), s.get("skv", s.get("s", 0)), s.get("d", 0)
    if not (queries and keys and d):
        raise UnsupportedError(f"shape {case.shape.text!r} gives no s (or sq and skv) and d: how long the sequences are is not stated")
    heads = s.get("hq", s.get("heads", 1))
    shared = s.get("hkv", heads)
    if heads % shared or case.dtypes[0] not in REALS:
        raise UnsupportedError(f"aoec has no attention of {case.dtypes[0]} with {heads} heads on {shared} of keys")
    net = Net("attention", case.dtypes[0])
    net.machine = machine
    b = s.get("b", s.get("batch", 1)) * shared
    operands = [net.input("q", (b, queries * heads // shared, d)), net.input("k", (b, keys, d)), net.input("v", (b, keys, d))]
    return net.graph(net.node("attention", operands, scale=d ** -0.5))


def grouped_matmul(case: Case, machine: Machine | None) -> Graph:
    """Return a product for each of `groups`, of m rows each."""
    s = case.shape.sizes
    if not {"groups", "m", "n", "k"} <= set(s):
        raise UnsupportedError(f"shape {case.shape.text!r} gives no groups, m (rows of each), n and k")
    if case.dtypes[0] not in REALS:
        raise UnsupportedError("products of int8 and their scales are two programs of ours, and one kernel of cube and vector cores here")
    net = Net("grouped_matmul", case.dtypes[0])
    a, b = net.input("a", (s["groups"], s["m"], s["k"])), net.input("b", (s["groups"], s["k"], s["n"]))
    return net.one(net.node("matmul", [a, b], case.dtypes[1]))


KERNELS: Mapping[str, Kernel] = {
    "dynamic_quant": dynamic_quant, "layernorm_grad": layernorm_grad, "bn_relu": bn_relu,
    **dict.fromkeys(("gelu_grad", "relu_grad", "sigmoid_grad", "tanh_grad", "softmax_grad"), of_two),
    "conv2d_dw": filter_grad, "conv2d_dx": image_grad, "conv2d_dx_relugrad": masked_image_grad, "flash_attention": attention,
    "grouped_matmul": grouped_matmul}
