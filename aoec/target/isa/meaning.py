"""What instructions mean, slowly and plainly: a line of NumPy each.

A meaning takes the fields and its operands as arrays of elements that begin where the operand begins; it changes `dst`.
The fast bodies in kernels/tile.py are held equal to these by a law.
"""
from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from aoec.target.isa.instructions import BLOCK_BYTES, FRACTAL_BYTES, REPEAT_BYTES, pixel_bytes
from aoec.target.isa.scales import split_words

NUMPY_DTYPES: dict[str, Any] = {
    "fp32": np.float32, "fp16": np.float16, "bf16": ml_dtypes.bfloat16, "int8": np.int8, "uint8": np.uint8, "int16": np.int16,
    "uint16": np.uint16, "int32": np.int32, "uint32": np.uint32, "int64": np.int64, "uint64": np.uint64, "bool": np.bool_}
POISON = 0xFF  # a NaN in fp32, fp16 and bf16: what on-chip memory holds before anything is written

Array = np.ndarray
F = Any  # the fields by name


def up(n: int, unit: int) -> int:
    """Return n rounded up to a multiple of unit."""
    return -(-n // unit) * unit


def c0(x: Array) -> int:
    """Return elements of x in a block."""
    return BLOCK_BYTES // x.itemsize


def cast(x: Array, dtype: np.dtype) -> Array:
    """Return x in another dtype. Reals as reals are rounded to nearest even, and overflow becomes infinity. Reals as whole numbers are
    rounded toward zero and saturated, and NaN becomes 0. Whole numbers as whole numbers keep the low bytes; only int32 in 16 bits gives
    the nearest value."""
    if x.dtype == np.int32 and dtype.kind in "iu" and dtype.itemsize == 2:
        return np.clip(x, np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype)
    if dtype.kind in "iu" and x.dtype.kind not in "iub":
        limits = np.iinfo(dtype)
        x = np.trunc(np.nan_to_num(x.astype(np.float64), nan=0, posinf=np.inf, neginf=-np.inf))
        return np.array([int(min(max(v, limits.min), limits.max)) for v in x.ravel()], dtype).reshape(x.shape)
    with np.errstate(over="ignore", invalid="ignore"):
        return x.astype(dtype)


def add(dst: Array, at: Array, value: Array) -> None:
    """Add value to dst[at], rounded once; int32 wraps."""
    if dst.dtype == np.int32:
        dst[at] += value
    else:
        dst[at] = cast(dst[at].astype(np.float32) + value.astype(np.float32), dst.dtype)


# ---------------------------------------------------------------- copies and loads

def _bursts(dst: Array, src: Array, bursts: int, length: int, dst_step: int, src_step: int) -> None:
    """Copy `bursts` runs of `length` bytes. Steps are in bytes, from start to start."""
    b, i = np.indices((bursts, length))
    dst.view(np.uint8)[b * dst_step + i] = src.view(np.uint8)[b * src_step + i]


def _fill_behind(dst: Array, bursts: int, length: int, step: int, pad: float | None) -> None:
    """Fill the rest of the last block of each burst with `pad`, or with the burst's first element where `pad` is None."""
    for b in range(bursts):
        start, end, whole = (b * step + n for n in (0, length, up(length, 32)))
        first = dst[start // dst.itemsize] if pad is None else cast(np.array(pad, np.float64), dst.dtype)
        dst[-(-end // dst.itemsize):whole // dst.itemsize] = first


def _copy_gm_l1(f: F, dst: Array, src: Array) -> None:
    _bursts(dst, src, f.bursts, f.length * 32, (f.length + f.dst_gap) * 32, (f.length + f.src_gap) * 32)


def _copy_gm_ub(f: F, dst: Array, src: Array) -> None:
    step = up(f.length, 32) + f.dst_gap * 32
    _bursts(dst, src, f.bursts, f.length, step, f.length + f.src_gap)
    _fill_behind(dst, f.bursts, f.length, step, None if isinstance(f.pad, int) else f.pad)


def _copy_gm_ub_at(f: F, dst: Array, src: Array, index: Array) -> None:
    at = int(index[0])
    at = min(max(at + f.extent if at < 0 else at, 0), f.extent - 1)
    dst.view(np.uint8)[:f.length] = src.view(np.uint8)[at * f.pitch:][:f.length]
    _fill_behind(dst, 1, f.length, 0, None)


def _copy_ub_gm(f: F, dst: Array, src: Array) -> None:
    if f.atomic:
        for b in range(f.bursts):
            at = b * (f.length + f.dst_gap) // dst.itemsize + np.arange(f.length // dst.itemsize)
            add(dst, at, src[b * (up(f.length, 32) + f.src_gap * 32) // dst.itemsize:][:len(at)])
        return
    _bursts(dst, src, f.bursts, f.length, f.length + f.dst_gap, up(f.length, 32) + f.src_gap * 32)


def _nd2nz(f: F, dst: Array, src: Array) -> None:
    r, c = np.indices((f.rows, up(f.cols, c0(dst))))
    inside = c < f.cols
    value = np.where(inside, src[np.where(inside, r * f.src_stride + c, 0)], 0)
    dst[(c // c0(dst) * f.dst_rows + r) * c0(dst) + c % c0(dst)] = value


def _load2d(f: F, dst: Array, src: Array) -> None:
    size = FRACTAL_BYTES // dst.itemsize
    i, row, col = np.indices((f.repeat, 16, c0(dst)))
    at = col * 16 + row if f.transpose else row * c0(dst) + col
    dst[i * (1 + f.dst_gap) * size + row * c0(dst) + col] = src[i * f.src_stride * size + at]


def _load3d(f: F, dst: Array, src: Array) -> None:
    c = c0(dst)
    columns = -(-f.k_size // c)
    wide = (f.w + f.pad_left + f.pad_right - f.dilation_w * (f.filter_w - 1) - 1) // f.stride_w + 1
    high = (f.h + f.pad_top + f.pad_bottom - f.dilation_h * (f.filter_h - 1) - 1) // f.stride_h + 1
    i, j, e = np.indices((f.m_size, columns, c))
    each, k, row = pixel_bytes(f.channels, dst.itemsize) // dst.itemsize, f.k_start + j * c + e, f.m_start + i
    tap, plane = k // each, k // each // (f.filter_w * f.filter_h)
    y = row // wide * f.stride_h + tap // f.filter_w % f.filter_h * f.dilation_h - f.pad_top
    x = row % wide * f.stride_w + tap % f.filter_w * f.dilation_w - f.pad_left
    there = (row // wide < high) & (plane * each < f.channels)
    inside = (y >= 0) & (y < f.h) & (x >= 0) & (x < f.w) & there
    at = ((plane * f.h + y) * f.w + x) * each + k % each
    dst[((i // 16 * columns + j) * 16 + i % 16) * c + e] = np.where(inside, src[np.where(inside, at, 0)], np.where(there, f.pad_value, 0))


def _load_bt(f: F, dst: Array, src: Array) -> None:
    _bursts(dst, src, 1, f.length * 32, 0, 0)


# ---------------------------------------------------------------- cube

def _mmad(f: F, dst: Array, a: Array, b: Array, bias: Array | None = None) -> None:
    if not (f.m and f.n and f.k):
        return
    wide = dst.dtype.type
    i, p = np.indices((f.m, f.k))
    left = a[((i // 16 * -(-f.k // c0(a)) + p // c0(a)) * 16 + i % 16) * c0(a) + p % c0(a)].astype(wide)
    p, j = np.indices((f.k, f.n))
    right = b[((p // c0(b) * -(-f.n // 16) + j // 16) * 16 + j % 16) * c0(b) + p % c0(b)].astype(wide)
    i, j = np.indices((f.m, f.n))
    at = (j // 16 * up(f.m, 16) + i) * 16 + j % 16
    start = dst[at] if not f.init else wide(0) if bias is None else bias[j]
    with np.errstate(over="ignore", invalid="ignore"):
        dst[at] = start + left @ right


def _fixpipe(f: F, dst: Array, src: Array, nz: bool) -> None:
    i, j = np.indices((f.m, f.n))
    value = src[(j // 16 * f.src_rows + i) * 16 + j % 16]
    value = np.maximum(value, 0) if f.relu else value
    at = j // c0(dst) * f.dst_stride + i * c0(dst) + j % c0(dst) if nz else i * f.dst_stride + j
    if not f.atomic:
        dst[at] = cast(value, dst.dtype)
        return
    for line in range(0, f.n, c0(dst)) if nz else range(f.m):  # one after the other, as rows or planes may overlap
        one = np.s_[:, line:line + c0(dst)] if nz else np.s_[line]
        with np.errstate(over="ignore", invalid="ignore"):
            add(dst, at[one], value[one])


def _fixpipe_scale(f: F, dst: Array, src: Array, scale: Array, *, nz: bool) -> None:
    i, j = np.indices((f.m, f.n))
    value = src[(j // 16 * f.src_rows + i) * 16 + j % 16]
    scales, zeros = split_words(scale[:f.n])
    value = np.rint((np.maximum(value, 0) if f.relu else value).astype(np.float32) * scales[j]) + zeros[j]
    at = j // c0(dst) * f.dst_stride + i * c0(dst) + j % c0(dst) if nz else i * f.dst_stride + j
    dst[at] = cast(value, dst.dtype)


def _copy_l0c_ub(f: F, dst: Array, src: Array) -> None:
    b, i = np.indices((f.bursts, f.length * 256))
    value = src[b * (f.length + f.src_gap) * 256 + i]
    dst[b * (f.length * 256 + f.dst_gap * c0(dst)) + i] = cast(np.maximum(value, 0) if f.relu else value, dst.dtype)


# ---------------------------------------------------------------- vector

def _lanes(f: F, r: int, x: Array, widest: int, blk: int, rep: int) -> Array:
    """Return element numbers in x of the lanes of repeat r."""
    e = np.arange(f.lanes if r == f.repeat - 1 else REPEAT_BYTES // widest)
    return (r * rep + e // c0(x) * blk) * c0(x) + e % c0(x)


def _wide(x: Array) -> Array:
    """Return elements as arithmetic sees them: whole numbers as they are, else fp32."""
    return x if x.dtype.kind in "iu" else x.astype(np.float32)


def _elementwise(op: Callable[..., Array]) -> Callable[..., None]:
    """Return the meaning of dst = op(src...) in fp32, rounded once, or in whole numbers, repeat after repeat."""
    def run(f: F, dst: Array, *src: Array) -> None:
        widest = max(x.itemsize for x in (dst, *src))
        names = ("src0", "src1") if len(src) == 2 else ("src",)
        for r in range(f.repeat):
            lanes = [_lanes(f, r, s, widest, getattr(f, f"{n}_blk"), getattr(f, f"{n}_rep")) for n, s in zip(names, src)]
            values = [_wide(s[at]) for s, at in zip(src, lanes)]
            if hasattr(f, "scalar"):
                values.append(_wide(cast(np.array(f.scalar, np.float64), (src or (dst,))[0].dtype)))
            with np.errstate(all="ignore"):
                dst[_lanes(f, r, dst, widest, f.dst_blk, f.dst_rep)] = cast(op(*values), dst.dtype)
    return run


def _double(op: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return `op`, computed in double and rounded to fp32."""
    return lambda x: op(x.astype(np.float64)).astype(np.float32)


def _divide(a: Array, b: Array) -> Array:
    """Return a / b. Whole numbers are rounded toward zero, and give 0 where b is 0."""
    if a.dtype.kind == "f":
        return a / b
    pairs = zip(a.tolist(), b.tolist())
    quotients = [0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) for x, y in pairs]
    return np.array([q & (1 << 8 * a.itemsize) - 1 for q in quotients], f"u{a.itemsize}").view(a.dtype)


_COMPARE = (np.less, np.greater, np.equal, np.less_equal, np.greater_equal, np.not_equal)  # by mode


def _vcmp(f: F, dst: Array, *src: Array) -> None:
    _elementwise(lambda a, b: _COMPARE[f.mode](a, b).astype(np.float32))(f, dst, *src)


def _vsel(f: F, dst: Array, mask: Array, *src: Array) -> None:
    widest = max(dst.itemsize, mask.itemsize)
    for r in range(f.repeat):
        at = [_lanes(f, r, x, widest, getattr(f, f"src{i}_blk"), getattr(f, f"src{i}_rep")) for i, x in enumerate((mask, *src))]
        no = src[1][at[2]] if len(src) > 1 else cast(np.array(f.scalar, np.float64), dst.dtype)
        dst[_lanes(f, r, dst, widest, f.dst_blk, f.dst_rep)] = np.where(mask[at[0]] != 0, src[0][at[1]], no)


def _vcopy(f: F, dst: Array, src: Array) -> None:
    for r in range(f.repeat):
        dst[_lanes(f, r, dst, dst.itemsize, f.dst_blk, f.dst_rep)] = src[_lanes(f, r, src, src.itemsize, f.src_blk, f.src_rep)]


def _reduction(op: Any) -> Callable[..., None]:
    """Return one result a repeat, in fp32 from the first lane to the last, rounded once."""
    def run(f: F, dst: Array, src: Array) -> None:
        for r in range(f.repeat):
            values = src[_lanes(f, r, src, src.itemsize, f.src_blk, f.src_rep)].astype(np.float32)
            with np.errstate(all="ignore"):
                dst[r * f.dst_rep] = cast(op.accumulate(values)[-1], dst.dtype)
    return run


def _block_reduction(op: Any) -> Callable[..., None]:
    """Return a result for each block of a repeat, in fp32 from its first lane to the last, rounded once."""
    def run(f: F, dst: Array, src: Array) -> None:
        for r in range(f.repeat):
            values = src[_lanes(f, r, src, src.itemsize, f.src_blk, f.src_rep)].astype(np.float32)
            for b in range(-(-len(values) // c0(src))):
                with np.errstate(all="ignore"):
                    dst[r * f.dst_rep * 8 + b] = cast(op.accumulate(values[b * c0(src):][:c0(src)])[-1], dst.dtype)
    return run


def _vbrcb(f: F, dst: Array, src: Array) -> None:
    for r in range(f.repeat):
        values = src[r * 8:r * 8 + 8].copy()
        for b in range(8):
            dst[(r * f.dst_rep + b * f.dst_blk) * c0(dst):][:c0(dst)] = values[b]


def _vnchwconv(f: F, dst: Array, src: Array) -> None:
    c = c0(dst)
    if dst.itemsize == 1:
        row, j = np.indices((16, 16))
        for r in range(f.repeat):
            values = src[(r * f.src_rep + row * f.src_stride) * c + f.src_high * 16 + j]
            dst[(r * f.dst_rep + row * f.dst_stride) * c + f.dst_high * 16 + j] = values.T
        return
    for r in range(f.repeat):
        row, j = np.indices((16, c))
        values = src[(r * f.src_rep + row * f.src_stride) * c + j]
        for to, i in np.ndindex(c, 16):  # row `to`, element i
            dst[(r * f.dst_rep + to * f.dst_stride + i // c * f.dst_half) * c + i % c] = values[i, to]


def _vreducev2(f: F, dst: Array, src: Array) -> None:
    for r in range(f.repeat):
        dst[r * f.lanes:][:f.lanes] = src[r * f.src_rep * c0(src):][:f.lanes]


def _vgather(f: F, dst: Array, src: Array, offset: Array) -> None:
    lanes = REPEAT_BYTES // dst.itemsize
    for r in range(f.repeat):
        e = np.arange(f.lanes if r == f.repeat - 1 else lanes)
        at = np.minimum(offset[r * lanes + e].view(np.uint32), max(f.reach - dst.itemsize, 0)) // dst.itemsize
        dst[r * f.dst_rep * c0(dst) + e] = src[at]


MEANINGS: dict[str, Callable[..., None]] = {
    "copy_gm_l1": _copy_gm_l1, "copy_gm_l1_nd2nz": _nd2nz, "load_l0a": _load2d, "load_l0b": _load2d, "load3d": _load3d, "load_bt": _load_bt,
    "load_fb": _load_bt,
    "mmad": _mmad, "mmad_bias": _mmad,
    "fixpipe_nd_scale": partial(_fixpipe_scale, nz=False), "fixpipe_nz_scale": partial(_fixpipe_scale, nz=True),
    "fixpipe_nd": lambda f, dst, src: _fixpipe(f, dst, src, False), "fixpipe_nz": lambda f, dst, src: _fixpipe(f, dst, src, True),
    "copy_gm_ub": _copy_gm_ub, "copy_gm_ub_at": _copy_gm_ub_at, "copy_ub_gm": _copy_ub_gm, "copy_l0c_ub": _copy_l0c_ub,
    "copy_ub_l1": _copy_gm_l1,
    "vadd": _elementwise(np.add), "vsub": _elementwise(np.subtract), "vmul": _elementwise(np.multiply), "vdiv": _elementwise(_divide),
    "vmax": _elementwise(np.maximum), "vmin": _elementwise(np.minimum), "vadds": _elementwise(np.add), "vmuls": _elementwise(np.multiply),
    "vmaxs": _elementwise(np.maximum), "vmins": _elementwise(np.minimum), "vexp": _elementwise(_double(np.exp)),
    "vln": _elementwise(_double(np.log)), "vsqrt": _elementwise(np.sqrt), "vrsqrt": _elementwise(lambda x: np.float32(1) / np.sqrt(x)),
    "vrec": _elementwise(lambda x: np.float32(1) / x), "vabs": _elementwise(np.abs),
    "vrelu": _elementwise(lambda x: np.maximum(x, np.float32(0))),
    **dict.fromkeys(("vaddrelu", "vaddreluconv"), _elementwise(lambda a, b: np.maximum(a + b, np.float32(0)))),
    "vcopy": _vcopy, "vconv": _elementwise(lambda x: x), "vdup": _elementwise(lambda x: x),
    "vcmax": _reduction(np.maximum), "vcmin": _reduction(np.minimum), "vcadd": _reduction(np.add),
    "vcgmax": _block_reduction(np.maximum), "vcgmin": _block_reduction(np.minimum), "vcgadd": _block_reduction(np.add),
    "vbrcb": _vbrcb, "vnchwconv": _vnchwconv,
    "vreducev2": _vreducev2, "vgather": _vgather,
    "vcmp": _vcmp, "vcmps": _vcmp, "vsel": _vsel, "vsels": _vsel, "vand": _elementwise(np.bitwise_and), "vor": _elementwise(np.bitwise_or),
    "vnot": _elementwise(np.invert), "vshls": _elementwise(np.left_shift), "vshrs": _elementwise(np.right_shift),
    "vfloor": _elementwise(np.floor), "vceil": _elementwise(np.ceil), "vrint": _elementwise(np.rint), "vtrunc": _elementwise(np.trunc),
}
