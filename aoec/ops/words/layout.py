"""How tensors are stored in GM, how weights are packed, and the operators that convert.

With C0 = 32 bytes of the dtype (16 elements of fp16, 8 of fp32), the stored array of a tensor is

- ND: the logical shape;
- NC1HWC0 of [n, c, h, w]: [n, ceil(c / C0), h, w, C0], with zeros in the channels beyond c.
  Of a matrix [m, n], whose rows are pixels and whose columns are channels, it is [ceil(n / C0), m, C0];
- NC1HWC0_C04: the same with four channels for each pixel in place of C0. It serves a network's image of few channels (at most 4, of 16
  bits);
- NZ of [..., m, n]: [..., ceil(n / C0), ceil(m / 16), 16, C0].
  The padding of a result has no defined content, and no product uses it;
- ZN of [..., k, n]: [..., ceil(k / C0), ceil(n / 16), 16, C0], zero padded.
  Element (k, n) is at [k // C0, n // 16, n % 16, k % C0]. The cube unit loads it as its right operand without reordering.

A packed convolution weight is the matrix W[k, co], stored ZN, with `k = ((c // P * KH + kh) * KW + kw) * P + c % P`. P is the number of
channels for each pixel of the image. The leading dimension counts blocks of groups, each with its own k and co. Padding channels of every
image are zero, and fusion keeps them so. Those of one byte may hold anything.
"""
from __future__ import annotations

from dataclasses import replace

import numpy as np

from aoec.base.errors import UnsupportedError
from aoec.ir.graph.graph import OPAQUE, Tensor
from aoec.ir.index import DTYPES
from aoec.ops.declare import Op, elementwise

FRACTAL_ROWS = 16
BLOCK_BYTES = 32
FIVE = "NC1HWC0"
FEW = "NC1HWC0_C04"
PIXEL = {FIVE: 0, FEW: 4}  # layouts of images -> channels to a pixel; 0: C0 of the dtype


def c0_of(dtype: str) -> int:
    """Return elements of `dtype` in a block of 32 bytes: the inner extent of its fractals."""
    return BLOCK_BYTES // DTYPES[dtype]


def pixel_channels(tensor: Tensor) -> int:
    """Return channels that lie side by side at a pixel of an image."""
    return PIXEL[tensor.layout] or c0_of(tensor.dtype)


def stored_shape(tensor: Tensor) -> tuple[int, ...]:
    """Return the shape of the stored array of a graph tensor."""
    if tensor.layout == "ND":
        return tensor.shape
    c0, shape = c0_of(tensor.dtype), tensor.shape
    if tensor.layout in PIXEL:
        each = pixel_channels(tensor)
        if len(shape) == 2:
            return (-(-shape[1] // each), shape[0], each)
        n, c, h, w = shape
        return (n, -(-c // each), h, w, each)
    rows, columns = shape[-2:] if tensor.layout == "ZN" else shape[:-3:-1]
    if tensor.layout in ("ZN", "NZ"):
        return (*shape[:-2], -(-rows // c0), -(-columns // FRACTAL_ROWS), FRACTAL_ROWS, c0)
    raise UnsupportedError(f"tensor {tensor.name}: layout {tensor.layout} is not one of ND, NC1HWC0, NC1HWC0_C04, NZ, ZN")


def to_physical(array: np.ndarray, tensor: Tensor) -> np.ndarray:
    """Return the stored array of a logical one, zero padded; what only the host holds is itself."""
    if tensor.dtype == OPAQUE:
        return array
    if tensor.layout == "ND":
        return np.ascontiguousarray(array)
    c0 = c0_of(tensor.dtype)
    if tensor.layout in PIXEL and array.ndim == 2:
        planes, rows, each = stored_shape(tensor)
        wide = np.pad(array, ((0, 0), (0, planes * each - array.shape[1])))
        return np.ascontiguousarray(wide.reshape(rows, planes, each).swapaxes(0, 1))
    if tensor.layout in PIXEL:
        n, c1, h, w, each = stored_shape(tensor)
        wide = np.pad(array, ((0, 0), (0, c1 * each - array.shape[1]), (0, 0), (0, 0)))
        return np.ascontiguousarray(wide.reshape(n, c1, each, h, w).transpose(0, 1, 3, 4, 2))
    stored_shape(tensor)  # refuses other layouts
    return pack_zn(array if tensor.layout == "ZN" else array.swapaxes(-1, -2), c0)


def to_logical(array: np.ndarray, tensor: Tensor) -> np.ndarray:
    """Return the logical array of a stored one, of any shape with as many elements; what only the host holds is itself."""
    if tensor.dtype == OPAQUE:
        return array
    stored = array.reshape(stored_shape(tensor))
    if tensor.layout == "ND":
        return stored
    if tensor.layout in PIXEL and len(tensor.shape) == 2:
        return np.ascontiguousarray(stored.swapaxes(0, 1).reshape(tensor.shape[0], -1)[:, :tensor.shape[1]])
    if tensor.layout in PIXEL:
        n, c, h, w = tensor.shape
        return np.ascontiguousarray(stored.transpose(0, 1, 4, 2, 3).reshape(n, -1, h, w)[:, :c])
    if tensor.layout == "ZN":
        return unpack_zn(stored, tensor.shape[-2], tensor.shape[-1])
    return np.ascontiguousarray(unpack_zn(stored, tensor.shape[-1], tensor.shape[-2]).swapaxes(-1, -2))


def pack_zn(matrix: np.ndarray, c0: int) -> np.ndarray:
    """Return [..., k, n] as [..., ceil(k / c0), ceil(n / 16), 16, c0], zero padded."""
    *lead, k, n = matrix.shape
    k1, n1 = -(-k // c0), -(-n // FRACTAL_ROWS)
    wide = np.pad(matrix, [(0, 0)] * len(lead) + [(0, k1 * c0 - k), (0, n1 * FRACTAL_ROWS - n)])
    return np.ascontiguousarray(wide.reshape(*lead, k1, c0, n1, FRACTAL_ROWS).swapaxes(-3, -2).swapaxes(-2, -1))


def unpack_zn(stored: np.ndarray, k: int, n: int) -> np.ndarray:
    """Return the matrix [..., k, n] that `pack_zn` made `stored` of."""
    *lead, k1, n1, rows, c0 = stored.shape
    wide = stored.swapaxes(-2, -1).swapaxes(-3, -2).reshape(*lead, k1 * c0, n1 * rows)
    return np.ascontiguousarray(wide[..., :k, :n])


def pack_conv(w: np.ndarray, c0: int) -> np.ndarray:
    """Return the matrix [k, co] of a weight [co, c, kh, kw], channels padded with zeros to a multiple of c0, the channels to a pixel."""
    co, c, kh, kw = w.shape
    c1 = -(-c // c0)
    wide = np.pad(w, ((0, 0), (0, c1 * c0 - c), (0, 0), (0, 0))).reshape(co, c1, c0, kh, kw)
    return np.ascontiguousarray(wide.transpose(1, 3, 4, 2, 0).reshape(c1 * kh * kw * c0, co))


def unpack_conv(matrix: np.ndarray, channels: int, kernel: tuple[int, int], c0: int) -> np.ndarray:
    """Return the weight [co, channels, kh, kw] of a packed matrix [k, co], or of blocks [g, k, o] with co = g * o."""
    blocks = matrix.reshape(-1, *matrix.shape[-2:])
    g, k, o = blocks.shape
    parts = blocks.reshape(g, k // (kernel[0] * kernel[1] * c0), *kernel, c0, o).transpose(0, 5, 1, 4, 2, 3)
    return np.ascontiguousarray(parts.reshape(g * o, -1, *kernel)[:, :channels])


def _same(a: np.ndarray) -> np.ndarray:
    return a


def _conversion(name: str) -> Op:
    """Return the operator that keeps every element and changes how the tensor lies (its result's layout says how)."""
    return replace(elementwise(name, "$A", _same, sized=False, cann=("TransData",)), family="layout")


OPS = tuple(map(_conversion, ("to_nc1hwc0", "from_nc1hwc0", "to_nz", "from_nz")))
