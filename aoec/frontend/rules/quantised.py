"""Translates quantised operators: products of eight-bit whole numbers, which the cube sums in int32, and conversions from and to reals.

The cube multiplies int8. So 128 is subtracted from uint8 first, and from its zero point, too. Zero points are exact: (A - a)(B - b) is A B
- a (1 B) - (A 1) b + a b (1 1). Here 1 is a matrix (or an image) of ones, and every product is one of the cube. Terms that are constant are
computed at import, and terms that are zero are left out.

A product is written in reals between conversions where its scales and weights are constants and its weights have no zero point. Exporters
write such products in that form, and passes/find_quantised.py finds them there.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from aoec.base.errors import CheckError
from aoec.frontend.rules.casts import as_real, decode
from aoec.frontend.rules.convolution import fit_load3d, fits
from aoec.frontend.rules.rule import Rule
from aoec.frontend.rules.window import convolve, crop, window
from aoec.frontend.translate.node import Node
from aoec.ops import typed

BYTES = {"int8": (-128, 127), "uint8": (0, 255)}  # dtype -> least and greatest number
WHOLE = {**BYTES, "int16": (-1 << 15, (1 << 15) - 1), "uint16": (0, (1 << 16) - 1), "int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1),
         "uint2": (0, 3)}  # what reals are quantised to
MIDDLE = 128  # what uint8 has more than int8
FEWEST, MOST_PARTS, LITTLE = 32, 1024, 65536  # parts of which cores find the range; elements of which one core does
ROWS, COLUMNS = (-1, 1), (1, -1)  # a number for each row of a matrix, for each column

Product = Callable[[str, str], str]  # two int8 tensors -> their product in int32


def _as_int8(n: Node, x: str) -> str:
    """Return a tensor of eight bits as int8, 128 less where it is unsigned: by way of fp16, which has all these numbers."""
    if n.draft.tensors[x].dtype == "int8":
        return x
    if (made := _before_unsigned(n, x)):
        return made
    half = n.step("adds", [n.step("cast", [x], dtype="fp16")], {"scalar": -float(MIDDLE)})
    return n.step("cast", [half], dtype="int8")


def _before_unsigned(n: Node, x: str) -> str:
    """Return the tensor of int8 that one of uint8 was made of, perhaps in another shape. Return "" where it was not."""
    found = next((made for made in reversed(n.draft.nodes) if x in made.outputs), None)
    if found is not None and found.op == "reshape":
        inner = _before_unsigned(n, found.inputs[0])
        return inner and _as_shape(n, inner, n.made_shape(x))
    return found.inputs[0] if found is not None and found.op == "unsigned" else ""


def _zero_point(n: Node, at: int, of: int) -> str:
    """Return the zero point in argument `at` of argument `of` after `_as_int8`, in int32. Return "" where it is 0."""
    middle = MIDDLE if n.dtype_of(of) == "uint8" else 0
    if not n.has(at):
        return n.constant("zero_point", np.array([-middle]), "int32") if middle else ""
    if n.is_constant(at):
        value = n.draft.weights[n.input(at)].astype(np.int32) - middle
        return n.constant("zero_point", value, "int32") if value.any() else ""
    if middle and (made := _before_unsigned(n, n.input(at))):
        return n.step("cast", [made], dtype="int32")
    wide = n.step("cast", [n.input(at)], dtype="int32")
    return n.step("sub", [wide, n.constant("middle", np.array(middle), "int32")]) if middle else wide


def _beside(n: Node, x: str, shape: tuple[int, ...]) -> str:
    """Return a zero point or scale in a shape with one open extent (-1), or as one number where it is one; of more dimensions as it is."""
    if not x or len(n.made_shape(x)) > 1:
        return x
    size = prod(n.made_shape(x))
    return n.step("reshape", [x], {"shape": tuple(size if extent < 0 else extent for extent in shape)})


def _subtract_zeros(n: Node, pair: Sequence[str], zeros: Sequence[str], ones: Sequence[str], product: Product) -> str:
    """Return the product of a pair less their zero points, in int32. `ones`: ones of the same shapes."""
    (a, b), (zero_a, zero_b) = pair, zeros
    y = product(a, b)
    if zero_a:
        seen = product(ones[0], b)
        if zero_b:
            seen = n.step("sub", [seen, n.step("mul", [product(*ones), zero_b])])
        y = n.step("sub", [y, n.step("mul", [seen, zero_a])])
    return n.step("sub", [y, n.step("mul", [product(a, ones[1]), zero_b])]) if zero_b else y


# ---------------------------------------------------------------- matrices

def _matmul(n: Node, at: tuple[int, int], zero: tuple[int, int]) -> str:
    """Return the product of two matrix arguments less their zero points, in int32. Return "" where they are none of eight bits."""
    a_shape, b_shape = (n.shape_of(i) for i in at)
    if not all(n.dtype_of(i) in BYTES for i in at) or min(len(a_shape), len(b_shape)) < 2 or 0 in (*a_shape, *b_shape):
        return ""
    a, b = (_as_int8(n, n.input(i)) for i in at)
    zeros = [_beside(n, _zero_point(n, z, i), shape) for z, i, shape in zip(zero, at, (ROWS, COLUMNS))]
    k = a_shape[-1]
    ones = n.constant("ones_a", np.ones((1, k)), "int8"), n.constant("ones_b", np.ones((k, 1)), "int8")
    return _subtract_zeros(n, (a, b), zeros, ones, lambda x, y: n.step("matmul", [x, y], dtype="int32"))


def _matmul_integer(n: Node) -> bool:
    y = _matmul(n, (0, 1), (2, 3))
    return bool(y) and n.emit("reshape", [y], {"shape": n.shape()})


def _qlinear_matmul(n: Node) -> bool:
    if len(n.shape_of(0)) > 1 and len(n.shape_of(3)) == 2 and 0 not in n.shape() and _is_scaled(n):
        return _quantise_result(n, n.step("matmul", [_input_reals(n, 0), _input_reals(n, 3, COLUMNS)]))
    y = _matmul(n, (0, 3), (2, 5))
    if not y:
        return False
    return _requantise(n, y, [_beside(n, n.input(at), shape) for at, shape in ((1, ROWS), (4, COLUMNS))])


# ---------------------------------------------------------------- windows

def _conv(n: Node, at: tuple[int, int], zero: tuple[int, int]) -> str:
    """Return the convolution of two arguments less their zero points, in int32. Return "" where they are none of eight bits or no window
    fits. What is beyond an image counts as its zero point: of it, and of the ones, there are zeros."""
    w = window(n, n.shape_of(at[1])[2:])
    if w is None or not all(n.dtype_of(i) in BYTES for i in at):
        return ""
    x, kernel = (_as_int8(n, n.input(i)) for i in at)
    zeros = [_beside(n, _zero_point(n, z, i), _channels(w.rank)) for z, i in zip(zero, at)]
    ones_x, ones_w = (n.constant(f"ones_{i}", np.ones(shape), "int8")
                      for i, shape in ((0, (1, *n.made_shape(x)[1:])), (1, n.made_shape(kernel))))
    found = [fit_load3d(n, image, taps, own) for (image, own), taps in ((crop(n, x, w), kernel), (crop(n, ones_x, w), ones_w))]
    if None in found:
        return ""
    (image, kernel, own), (ones_x, ones_w, _) = filter(None, found)
    return _subtract_zeros(n, (image, kernel), zeros, (ones_x, ones_w), lambda a, b: convolve(n, [a, b], own, n.integer("group", 1)))


def _channels(rank: int) -> tuple[int, ...]:
    """Return the shape of a number for each channel of an image."""
    return (1, -1, *(1,) * rank)


def _conv_integer(n: Node) -> bool:
    y = _conv(n, (0, 1), (2, 3))
    return bool(y) and n.emit("reshape", [y], {"shape": n.shape()})


def _qlinear_conv(n: Node) -> bool:
    w = window(n, n.shape_of(3)[2:])
    if w is not None and w.rank == 2 and fits(w) and _is_scaled(n) and all(0 <= p < s for p, s in zip((*w.before, *w.after), w.span * 2)):
        x, kernel = _input_reals(n, 0), _input_reals(n, 3, (-1, 1, 1, 1))
        bias = [_real_bias(n)] if n.has(8) else []
        return _quantise_result(n, n.step("conv2d", [x, kernel, *bias], {**w.attributes(), "group": n.integer("group", 1)}))
    y = _conv(n, (0, 3), (2, 5))
    if not y:
        return False
    channels = _channels(len(n.made_shape(y)) - 2)
    y = n.step("add", [y, _beside(n, n.input(8), channels)]) if n.has(8) else y
    return _requantise(n, y, [_beside(n, n.input(at), channels) for at in (1, 4)])


# ---------------------------------------------------------------- what is scaled by constants, in the words that a pass finds again

def _is_scaled(n: Node) -> bool:
    """Return True for arguments in which a pass finds a product of int8: all but the data are constants, one scale for data and result
    each, and a weight without a zero point."""
    if n.dtype_of(0) not in BYTES or n.dtype_of(3) not in BYTES or not all(n.is_constant(at) for at in (*range(1, 8), *[8] * n.has(8))):
        return False
    held = [n.draft.weights[n.input(at)] for at in range(1, 8)]
    weight, scales = held[2].astype(np.int16), [held[at] for at in (0, 3, 5)]
    fits = len(weight) * weight[0].size > 0 and all((s > 0).all() for s in scales)
    middle = MIDDLE if n.dtype_of(3) == "uint8" else 0
    return fits and all(held[at].size == 1 for at in (0, 1, 5, 6)) and bool((held[4].astype(np.int16) == middle).all())


def _input_reals(n: Node, at: int, along: tuple[int, ...] = ()) -> str:
    """Return an argument in reals, by the scale and the zero point behind it. Where these are several they go along the -1 of `along`."""
    def beside(x: str) -> str:
        size = prod(n.made_shape(x))
        return _as_shape(n, x, (1,) * len(n.shape_of(at)) if size == 1 else tuple(size if e < 0 else e for e in along))
    return n.step("dequantise", [n.input(at), beside(n.input(at + 1)), beside(n.input(at + 2))], dtype="fp32")


def _real_bias(n: Node) -> str:
    """Return the bias of a convolution, which counts in steps of the image's scale times the weight's."""
    scale = (n.draft.weights[n.input(1)].reshape(-1) * n.draft.weights[n.input(4)].reshape(-1)).astype(np.float32)
    each = n.constant("bias_scale", np.broadcast_to(scale, n.shape_of(8)))
    return n.step("dequantise", [n.input(8), each, n.constant("bias_zero", np.zeros(n.shape_of(8)), "int32")], dtype="fp32")


def _quantise_result(n: Node, sums: str) -> bool:
    """Emit the node's result from the product, by its scale and zero point. Return True."""
    (lo, hi), one = BYTES[n.dtype()], (1,) * len(n.made_shape(sums))
    given = [sums, *[_as_shape(n, n.input(at), one) for at in (6, 7)]]
    return n.emit("reshape", [n.step("quantise", given, {"lo": float(lo), "hi": float(hi)}, dtype=n.dtype())], {"shape": n.shape()})


def _requantise(n: Node, sums: str, scales: Sequence[str]) -> bool:
    """Emit the node's result of eight bits: int32 sums times their scales over the result's. Return True."""
    scaled = n.step("mul", [n.step("cast", [sums], dtype="fp32"), n.step("div", [n.step("mul", scales), n.input(6)])])
    return n.emit("reshape", [_round_to(n, scaled, n.step("cast", [n.input(7)], dtype="fp32"), n.dtype())], {"shape": n.shape()})


def _round_to(n: Node, x: str, zero: str, dtype: str) -> str:
    """Round x, ties to even, add a zero point and limit it to a dtype, or an element type of few bits."""
    lo, hi = WHOLE[dtype]
    whole = n.step("round", [x])
    whole = n.step("add", [whole, zero]) if zero else whole
    return n.step("cast", [n.step("clip", [whole], {"lo": float(lo), "hi": float(hi)})], dtype=typed.STORED.get(dtype, dtype))


# ---------------------------------------------------------------- from and to reals

def _blocks(n: Node) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return (shape of the data, shape of scales and zero points) that are broadcast against each other: one for all, one for each place of
    an axis, or one for each block of some. Return None where these do not divide the axis."""
    shape, scale = n.shape_of(0), n.shape_of(1)
    if prod(scale) == 1:
        return shape, (1,) * len(shape)
    axis, block = n.integer("axis", 1) % len(shape), n.integer("block_size", 0)
    if not block:
        return shape, tuple(extent if at == axis else 1 for at, extent in enumerate(shape))
    if shape[axis] % block or len(scale) != len(shape):
        return None
    before, after = shape[:axis], shape[axis + 1:]
    return (*before, shape[axis] // block, block, *after), (*before, shape[axis] // block, 1, *after)


def _with_scale(n: Node, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> list[str]:
    """Return the data, scales and zero points of a conversion in shapes that are broadcast against each other."""
    dtype = n.dtype() if n.dtype() in BYTES else n.dtype_of(0)
    zero = n.input(2) if n.has(2) else n.constant("zero", np.zeros(n.shape_of(1)), dtype)
    return [_as_shape(n, x, shape) for x, shape in ((n.input(0), shapes[0]), (n.input(1), shapes[1]), (zero, shapes[1]))]


def _as_shape(n: Node, x: str, shape: tuple[int, ...]) -> str:
    """Return a tensor in another shape; a constant at once."""
    if n.made_shape(x) == shape:
        return x
    if prod(n.made_shape(x)) != prod(shape):
        raise CheckError(f"{prod(n.made_shape(x)):,} elements do not make the shape {list(shape)}")
    if n.draft.is_constant(x):
        return n.constant("shaped", n.draft.weights[x].reshape(shape), n.made_dtype(x))
    return n.step("reshape", [x], {"shape": shape})


def _dequantise(n: Node) -> bool:
    """Translate DequantizeLinear: (x - zero point) * scale."""
    shapes, element = _blocks(n), n.element_of(0)
    if shapes is None or n.dtype_of(0) not in (*WHOLE, "int32") or n.dtype() != "fp32" or 0 in n.shape():
        return False
    if n.dtype_of(0) in (*BYTES, "int32") and not element:
        return n.emit("reshape", [n.step("dequantise", _with_scale(n, shapes), dtype="fp32")], {"shape": n.shape()})
    x = as_real(n, decode(n, n.step("reshape", [n.input(0)], {"shape": shapes[0]}), element))
    if n.has(2) and element not in typed.CODED:  # of which zero points are zero
        x = n.step("sub", [x, n.step("cast", [n.step("reshape", [n.input(2)], {"shape": shapes[1]})], dtype="fp32")])
    y = n.step("mul", [x, n.step("reshape", [n.input(1)], {"shape": shapes[1]})])
    return n.emit("reshape", [y], {"shape": n.shape()})


def _quantise(n: Node) -> bool:
    """Translate QuantizeLinear: x / scale, rounded, plus the zero point, limited to the range of the result's elements."""
    shapes, element = _blocks(n), n.element()
    if shapes is None or n.dtype() not in WHOLE or n.dtype_of(0) != "fp32" or 0 in n.shape():
        return False
    if n.dtype() in BYTES and not element:
        lo, hi = BYTES[n.dtype()]
        whole = n.step("quantise", _with_scale(n, shapes), {"lo": float(lo), "hi": float(hi)}, dtype=n.dtype())
        return n.emit("reshape", [whole], {"shape": n.shape()})
    x = n.step("reshape", [n.input(0)], {"shape": shapes[0]})
    scaled = n.step("div", [x, n.step("reshape", [n.input(1)], {"shape": shapes[1]})])
    zero = as_real(n, decode(n, n.step("reshape", [n.input(2)], {"shape": shapes[1]}), element)) if n.has(2) else ""
    if element not in typed.CODED:
        return n.emit("reshape", [_round_to(n, scaled, zero, element or n.dtype())], {"shape": n.shape()})
    shifted = n.step("add", [scaled, zero]) if zero and element.startswith("float4") else scaled  # in eight bits zero points are zero
    code = n.step("encode", [shifted], {"of": element, "saturate": n.integer("saturate", 1)}, dtype="uint8")
    return n.emit("reshape", [code], {"shape": n.shape()})


def _dynamic_quantise(n: Node) -> bool:
    """Return the range of x with 0 in it in 255 steps: (x in uint8, the step, the zero point)."""
    shape = n.shape_of(0)
    if 0 in shape or not shape:
        return False
    parts = n.step("reshape", [n.input(0)], {"shape": _parts(shape)})
    ends = [n.step(f"range_{end}", [parts], dtype="fp32") for end in ("high", "low")]
    whole = n.step("quantise_range", [n.input(0), *ends], dtype="int8")
    results = (n.step("unsigned", [whole], dtype="uint8"), n.step("range_step", ends),
               n.step("unsigned", [n.step("range_zero", ends, dtype="int8")], dtype="uint8"))
    return all(n.emit("reshape", [made], {"shape": n.shape(at)}, at=at) for at, made in enumerate(results))


def _parts(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape in which cores share the search for a range: rows of the tensor, or as many others where these are few or many."""
    size = prod(shape)
    if FEWEST <= size // shape[-1] <= MOST_PARTS or size <= FEWEST * shape[-1] <= LITTLE:
        return shape
    parts = next((p for p in range(MOST_PARTS // 4, FEWEST - 1, -1) if size % p == 0), 0)
    return (parts, size // parts) if parts else shape


RULES: dict[str, Rule] = {
    "ConvInteger": _conv_integer, "DequantizeLinear": _dequantise, "DynamicQuantizeLinear": _dynamic_quantise,
    "MatMulInteger": _matmul_integer, "QLinearConv": _qlinear_conv, "QLinearMatMul": _qlinear_matmul, "QuantizeLinear": _quantise,
}
ANY_DTYPE = set(RULES)
