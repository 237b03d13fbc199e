"""Values of instructions: Numba bodies for every word of the instruction set, and the interpreter that runs a program.

One file on purpose: Numba's disk cache does not see a change in a function that another file defines. Memory is two byte
arrays, GM and the core's own scopes, each as a tuple of views (uint8, uint16, fp32, int32, int8, uint64); addresses are
bytes. fp16 and bf16 are uint16 with conversions of our own. Arithmetic on tiles is done in fp32 and rounded once per
instruction. What each body must compute is written plainly in `aoec/target/meaning.py`; a law holds the two equal.
"""
# ruff: noqa: SIM109, SIM110 (Numba makes loops of `in` and `all`)
from __future__ import annotations

import numpy as np
from numba import njit

OPS = (
    "copy_gm_l1", "copy_gm_l1_nd2nz", "load_l0a", "load_l0b", "load3d", "load_bt", "mmad", "mmad_bias", "fixpipe_nd", "fixpipe_nz",
    "copy_gm_ub", "copy_ub_gm", "copy_l0c_ub", "copy_ub_l1", "vadd", "vsub", "vmul", "vdiv", "vmax", "vmin", "vadds", "vmuls", "vmaxs",
    "vmins", "vexp", "vln", "vsqrt", "vrsqrt", "vrec", "vabs", "vrelu", "vcopy", "vconv", "vdup", "vcmax", "vcmin", "vcadd", "vbrcb",
    "vnchwconv", "vcmp", "vcmps", "vsel", "vsels", "vand", "vor", "vnot", "vshls", "vshrs", "vfloor", "vceil", "vrint", "vtrunc",
    "copy_gm_ub_at", "load_fb", "fixpipe_nd_scale", "fixpipe_nz_scale")
(COPY_GM_L1, ND2NZ, LOAD_L0A, LOAD_L0B, LOAD3D, LOAD_BT, MMAD, MMAD_BIAS, FIXPIPE_ND, FIXPIPE_NZ, COPY_GM_UB, COPY_UB_GM, COPY_L0C_UB,
 COPY_UB_L1, VADD, VSUB, VMUL, VDIV, VMAX, VMIN, VADDS, VMULS, VMAXS, VMINS, VEXP, VLN, VSQRT, VRSQRT, VREC, VABS, VRELU, VCOPY, VCONV,
 VDUP, VCMAX, VCMIN, VCADD, VBRCB, VNCHWCONV, VCMP, VCMPS, VSEL, VSELS, VAND, VOR, VNOT, VSHLS, VSHRS, VFLOOR, VCEIL, VRINT,
 VTRUNC, COPY_GM_UB_AT, LOAD_FB, FIXPIPE_ND_SCALE, FIXPIPE_NZ_SCALE) = range(len(OPS))
LT, GT, EQ, LE, GE, NE = range(6)  # modes of vcmp and vcmps

DTYPES = ("fp32", "fp16", "bf16", "int8", "uint8", "int32", "bool", "int16", "uint16", "uint32", "int64", "uint64")
FP32, FP16, BF16, INT8, UINT8, INT32, BOOL, INT16, UINT16, UINT32, INT64, UINT64 = range(len(DTYPES))
POISON = 0xFF  # a NaN in fp32, fp16 and bf16 alike: what nothing has written shows in the result
BLOCK = 32
STACK = 64  # values that an expression may keep at once

EXPR_OPS = (
    "const", "var", "+", "-", "*", "//", "%", "==", "!=", "<", "<=", ">", ">=", "and", "or", "min", "max", "ceildiv", "select", "not",
    "abs")
CODE_OPS = ("halt", "loop", "end", "instr", "cross_set", "cross_wait", "advance")
DONE, BLOCKED, STUCK = 0, 1, 2  # stuck: waits, and has done nothing since it was called
# what stopped a core: kinds of the error row (kind, site, operand or field, value, bound)
ERRORS = ("", "limit", "slot", "range", "align", "relation", "division", "flag", "deadlock")
E_LIMIT, E_SLOT, E_RANGE, E_ALIGN, E_RELATION, E_DIVISION, E_FLAG, E_DEADLOCK = range(1, len(ERRORS))

# functions that only others here call have no way in from Python: it would take longer to compile than many of them
_jit = njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
_from_python = njit(cache=True, nogil=True, error_model="numpy")
_inline = njit(cache=True, nogil=True, error_model="numpy", inline="always")  # compiled once, in the caller
_jit_fma = njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, no_cpython_wrapper=True, no_cfunc_wrapper=True)

_MAGIC_HALF = np.uint32(113 << 23)  # smallest fp32 whose fp16 is normal
_DENORMAL = np.uint32(126 << 23)  # adding 0.5 aligns a subnormal's bits to the end of the mantissa
_DENORMAL_FLOAT = np.float32(0.5)
_TWO_112 = np.float32(2.0 ** 112)


# ---------------------------------------------------------------- fp16 and bf16 as uint16

@_from_python
def half_to_float(h):
    """The fp32 value of fp16 bits."""
    low = np.uint32(h) & np.uint32(0x7FFF)
    sign = np.uint32((np.uint32(h) & np.uint32(0x8000)) << np.uint32(16))
    moved = np.uint32(low << np.uint32(13))
    scaled = np.float32(moved.view(np.float32) * _TWO_112).view(np.uint32)
    bits = np.uint32(moved | np.uint32(0x7F800000)) if low >= np.uint32(0x7C00) else scaled
    return np.uint32(bits | sign).view(np.float32)


@_from_python
def float_to_half(x):
    """fp16 bits of an fp32 value: nearest even, overflow to infinity, NaN to a quiet NaN."""
    bits = np.float32(x).view(np.uint32)
    sign = bits & np.uint32(0x80000000)
    size = np.uint32(bits ^ sign)
    subnormal = np.uint32(np.float32(size.view(np.float32) + _DENORMAL_FLOAT).view(np.uint32) - _DENORMAL)
    odd = (size >> np.uint32(13)) & np.uint32(1)
    normal = np.uint32(size + np.uint32(0xC8000FFF) + odd) >> np.uint32(13)
    out = subnormal if size < _MAGIC_HALF else normal
    if size >= np.uint32(143 << 23):  # 65536 and above
        out = np.uint32(0x7E00) if size > np.uint32(0x7F800000) else np.uint32(0x7C00)
    return np.uint16(out | (sign >> np.uint32(16)))


@_from_python
def bfloat_to_float(h):
    """The fp32 value of bf16 bits."""
    return np.uint32(np.uint32(h) << np.uint32(16)).view(np.float32)


@_from_python
def float_to_bfloat(x):
    """bf16 bits of an fp32 value: nearest even, overflow to infinity, NaN to a quiet NaN."""
    bits = np.float32(x).view(np.uint32)
    if (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000):
        return np.uint16((bits >> np.uint32(16)) | np.uint32(0x40))
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    return np.uint16(np.uint32(bits + np.uint32(0x7FFF) + odd) >> np.uint32(16))


@_jit
def size_of(dtype):
    """Bytes of an element."""
    if dtype == FP32 or dtype == INT32 or dtype == UINT32:
        return 4
    if dtype == INT64 or dtype == UINT64:
        return 8
    return 2 if dtype == FP16 or dtype == BF16 or dtype == INT16 or dtype == UINT16 else 1


@_jit
def whole(dtype):
    """Whether elements are whole numbers."""
    return dtype >= INT8


@_jit
def load_whole(mem, dtype, at):
    """A whole number as int64; the bits of a uint64."""
    if dtype == INT64 or dtype == UINT64: return np.int64(mem[5][at // 8])
    if dtype == INT32: return np.int64(mem[3][at // 4])
    if dtype == UINT32: return np.int64(np.uint32(mem[3][at // 4]))
    if dtype == INT16: return np.int64(np.int16(mem[1][at // 2]))
    if dtype == UINT16: return np.int64(mem[1][at // 2])
    return np.int64(mem[4][at]) if dtype == INT8 else np.int64(mem[0][at])


@_jit
def store_whole(mem, dtype, at, v):
    """Writes the low bytes of an int64."""
    if dtype == INT64 or dtype == UINT64:
        mem[5][at // 8] = np.uint64(v)
    elif dtype == INT32 or dtype == UINT32:
        mem[3][at // 4] = np.int32(v)
    elif dtype == INT16 or dtype == UINT16:
        mem[1][at // 2] = np.uint16(v)
    else:
        mem[0][at] = np.uint8(v)

@_jit
def saturate(x, low, high):
    """`x` cut off toward zero and clamped; NaN gives 0, as a cast on the vector unit does."""
    if x != x:
        return 0
    return int(min(max(np.float64(x), np.float64(low)), np.float64(high)))


@_jit
def cut_off(dtype, x):
    """The bits of what a cast of a real to this dtype gives, as int64: cut off toward zero and clamped; NaN gives 0."""
    if dtype == INT32: return np.int64(saturate(x, -2147483648, 2147483647))
    if dtype == UINT32: return np.int64(saturate(x, 0, 4294967295))
    if dtype == INT16: return np.int64(saturate(x, -32768, 32767))
    if dtype == UINT16: return np.int64(saturate(x, 0, 65535))
    if dtype == INT8: return np.int64(saturate(x, -128, 127))
    if dtype == UINT8 or dtype == BOOL: return np.int64(saturate(x, 0, 255))
    v = np.float64(x)
    if v != v: return np.int64(0)
    if dtype == UINT64:
        return np.int64(np.uint64(v)) if 0 <= v < 18446744073709551616.0 else np.int64(0 if v < 0 else -1)
    if v >= 9223372036854775808.0: return np.int64(9223372036854775807)
    return np.int64(v) if v >= -9223372036854775808.0 else np.int64(-9223372036854775807 - 1)


@_jit
def real(dtype, v):
    """The fp32 nearest to a whole number that `load_whole` gave."""
    return np.float32(np.uint64(v)) if dtype == UINT64 else np.float32(v)


@_jit
def load_one(mem, dtype, at):
    """The fp32 value of one element of a rarer dtype."""
    if dtype == BF16: return bfloat_to_float(mem[1][at // 2])
    return real(dtype, load_whole(mem, dtype, at))


@_jit
def store_one(mem, dtype, at, x):
    """Writes one element of a rarer dtype, rounded or saturated."""
    if dtype == BF16:
        mem[1][at // 2] = float_to_bfloat(x)
    else:
        store_whole(mem, dtype, at, cut_off(dtype, x))


@_jit
def load_run(mem, dtype, at, n, out, o):
    """Reads n contiguous elements at byte `at` into out[o:] as fp32."""
    to = out[o:o + n]
    if dtype == FP16:
        v16 = mem[1][at // 2:at // 2 + n]
        for i in range(n):
            to[i] = half_to_float(v16[i])
    elif dtype == FP32:
        v32 = mem[2][at // 4:at // 4 + n]
        for i in range(n):
            to[i] = v32[i]
    else:
        size = size_of(dtype)
        for i in range(n):
            to[i] = load_one(mem, dtype, at + i * size)


@_jit
def store_run(mem, dtype, at, n, src):
    """Writes n fp32 values of src as contiguous elements at byte `at`, rounded once."""
    if dtype == FP16:
        v16 = mem[1][at // 2:at // 2 + n]
        for i in range(n):
            v16[i] = float_to_half(src[i])
    elif dtype == FP32:
        v32 = mem[2][at // 4:at // 4 + n]
        for i in range(n):
            v32[i] = src[i]
    else:
        size = size_of(dtype)
        for i in range(n):
            store_one(mem, dtype, at + i * size, src[i])


@_jit
def add_one(to, t, mem, dtype, at):
    """The element at byte `t` of `to` plus the one at byte `at` of mem, rounded once; int32 wraps."""
    if dtype == INT32:
        to[3][t // 4] += mem[3][at // 4]
    elif dtype == FP32:
        to[2][t // 4] += mem[2][at // 4]
    elif dtype == FP16:
        to[1][t // 2] = float_to_half(half_to_float(to[1][t // 2]) + half_to_float(mem[1][at // 2]))
    else:
        store_one(to, dtype, t, load_one(to, dtype, t) + load_one(mem, dtype, at))


@_jit
def add_run(mem, dtype, at, n, src):
    """Adds n fp32 values of src to contiguous elements at byte `at`, rounded once."""
    size = size_of(dtype)
    for i in range(n):
        t = at + i * size
        if dtype == FP32:
            mem[2][t // 4] += src[i]
        elif dtype == FP16:
            mem[1][t // 2] = float_to_half(half_to_float(mem[1][t // 2]) + src[i])
        else:
            store_one(mem, dtype, t, load_one(mem, dtype, t) + src[i])


# ---------------------------------------------------------------- copies

@_jit
def copy(dst, d, src, s, n):
    """dst[d:] = src[s:] for n elements."""
    to, at = dst[d:d + n], src[s:s + n]
    for i in range(n):
        to[i] = at[i]


@_jit
def copy_bursts(dst, d, src, s, bursts, length, dst_step, src_step):
    """`bursts` runs of `length` bytes, steps in bytes from start to start."""
    for b in range(bursts):
        copy(dst, d + b * dst_step, src, s + b * src_step, length)


@_jit
def place_of(mem, dtype, at, extent):
    """The index that lies at byte `at`, from 0 to extent - 1: a negative one counts from the end, one beyond is the nearest."""
    index = np.int64(mem[3][at // 4]) if dtype == INT32 else np.int64(mem[5][at // 8])
    return min(max(index + extent if index < 0 else index, 0), extent - 1)


@_jit
def add_bursts(to, d, mem, s, dtype, bursts, length, dst_step, src_step):
    """`copy_bursts` that adds."""
    for b in range(bursts):
        for i in range(0, length, size_of(dtype)):
            add_one(to, d + b * dst_step + i, mem, dtype, s + b * src_step + i)


@_jit
def copy_nd2nz(dst, d, src, s, rows, cols, row_step, dst_rows, size):
    """rows x cols in rows of `row_step` bytes to [column block][dst_rows][32 bytes], the last block filled with zeros."""
    width = cols * size
    for r in range(rows):
        for c in range(0, width, BLOCK):
            to = d + (c * dst_rows) + r * BLOCK
            n = min(BLOCK, width - c)
            if n < BLOCK:
                dst[to:to + BLOCK] = 0
            copy(dst, to, src, s + r * row_step + c, n)


@_jit
def load_fractals(mem, d, s, repeat, src_stride, dst_gap, transpose):
    """`repeat` fractals of 512 bytes, each turned as 16 x 16 elements of two bytes where `transpose` is set."""
    if not transpose:
        copy_bursts(mem[0], d, mem[0], s, repeat, 512, (1 + dst_gap) * 512, src_stride * 512)
        return
    v16 = mem[1]
    for f in range(repeat):
        to, at = (d + f * (1 + dst_gap) * 512) // 2, (s + f * src_stride * 512) // 2
        for i in range(16):
            for j in range(16):
                v16[to + i * 16 + j] = v16[at + j * 16 + i]


@_jit
def pixel_of(channels, size):
    """Bytes of a pixel as load3d reads an image: a block, or where it has just four channels of two bytes, these."""
    return 8 if channels == 4 and size == 2 else BLOCK


@_jit
def load_image(mem, d, s, f, size):
    """img2col (load3d): rows of output positions, columns of (channel block, filter row, filter column) in 32-byte blocks of one or
    more of them."""
    h, w, k_start, k_size, m_start, m_size = f[0], f[1], f[3], f[4], f[5], f[6]
    stride_h, stride_w, filter_h, filter_w, dilation_h, dilation_w = f[7], f[8], f[9], f[10], f[11], f[12]
    top, left = f[13], f[15]
    wide = (w + left + f[16] - dilation_w * (filter_w - 1) - 1) // stride_w + 1
    high = (h + top + f[14] - dilation_h * (filter_h - 1) - 1) // stride_h + 1
    columns, pixel = (k_size * size + BLOCK - 1) // BLOCK, pixel_of(f[2], size)
    each, words = BLOCK // pixel, pixel // 8  # taps in a block, and words of eight bytes in a tap
    planes = (f[2] * size + pixel - 1) // pixel
    padding = np.uint64(f[17] & 255) * np.uint64(0x0101010101010101)  # just bytes are padded with more than 0
    v64 = mem[5]
    for p in range(columns * each):
        tap = k_start * size // pixel + p
        kw, kh, plane = tap % filter_w, tap // filter_w % filter_h, tap // (filter_w * filter_h)
        column, first = p // each, p % each * words
        for i in range(m_size):
            oh, ow = (m_start + i) // wide, (m_start + i) % wide
            y, x = oh * stride_h + kh * dilation_h - top, ow * stride_w + kw * dilation_w - left
            to = (d + ((i // 16 * columns + column) * 16 + i % 16) * BLOCK) // 8 + first
            there = oh < high and plane < planes
            inside = 0 <= y < h and 0 <= x < w and there
            at = (s + ((plane * h + y) * w + x) * pixel) // 8
            for q in range(words):
                v64[to + q] = v64[at + q] if inside else padding if there else np.uint64(0)


# ---------------------------------------------------------------- cube

@_jit_fma
def gemm(a, b, c, m, n, k):
    """c[m, n] += a[m, k] @ b[k, n], row-major and flat; m and k are multiples of 4.

    Four rows by four k a step: sixteen multiply-adds for four vectors of c, contiguous in j. Counted with `while` from 0, so
    that LLVM sees that no index is negative (which would wrap) and vectorises: 69 GFLOP/s on a core where `range` gives 10.
    """
    i = 0
    while i + 4 <= m:
        p = 0
        while p + 4 <= k:
            r0, r1, r2, r3 = i * k + p, (i + 1) * k + p, (i + 2) * k + p, (i + 3) * k + p
            a00, a01, a02, a03 = a[r0], a[r0 + 1], a[r0 + 2], a[r0 + 3]
            a10, a11, a12, a13 = a[r1], a[r1 + 1], a[r1 + 2], a[r1 + 3]
            a20, a21, a22, a23 = a[r2], a[r2 + 1], a[r2 + 2], a[r2 + 3]
            a30, a31, a32, a33 = a[r3], a[r3 + 1], a[r3 + 2], a[r3 + 3]
            for j in range(n):
                b0, b1, b2, b3 = b[p * n + j], b[(p + 1) * n + j], b[(p + 2) * n + j], b[(p + 3) * n + j]
                c[i * n + j] += a00 * b0 + a01 * b1 + a02 * b2 + a03 * b3
                c[(i + 1) * n + j] += a10 * b0 + a11 * b1 + a12 * b2 + a13 * b3
                c[(i + 2) * n + j] += a20 * b0 + a21 * b1 + a22 * b2 + a23 * b3
                c[(i + 3) * n + j] += a30 * b0 + a31 * b1 + a32 * b2 + a33 * b3
            p += 4
        i += 4


@_jit
def unpack_a(flat, m, k, k4, c0, out):
    """ZZ fractals (fp32 in `flat`) to row-major [m, k4], zero from column k on."""
    columns = (k + c0 - 1) // c0
    for i in range(m):
        for j in range(columns):
            at = ((i // 16 * columns + j) * 16 + i % 16) * c0
            n = min(c0, k4 - j * c0)
            for q in range(n):
                out[i * k4 + j * c0 + q] = flat[at + q] if j * c0 + q < k else 0


@_jit
def unpack_b(flat, k, n, c0, out):
    """ZN fractals (fp32 in `flat`) to row-major [k, n]."""
    columns = (n + 15) // 16
    for p in range(0, k, c0):
        deep = min(c0, k - p)
        for j0 in range(0, n, 16):
            at = (p // c0 * columns + j0 // 16) * 16 * c0
            for q in range(deep):
                for j in range(min(16, n - j0)):
                    out[(p + q) * n + j0 + j] = flat[at + j * c0 + q]


@_jit
def mmad_float(mem, at, dtype, f, bias, sa, sb, sc, flat):
    """L0C = (init ? 0 or bias : L0C) + A @ B in fp32; bias is a byte address or -1."""
    m, n, k, init = f[0], f[1], f[2], f[3]
    rows, m4, k4, c0 = (m + 15) // 16 * 16, (m + 3) // 4 * 4, (k + 3) // 4 * 4, BLOCK // size_of(dtype)
    to = at[0] // 4
    sc[:m4 * n] = 0
    for i in range(m):
        if not init:
            for j in range(0, n, 16):
                copy(sc, i * n + j, mem[2], to + (j * rows + i * 16), min(16, n - j))
        elif bias >= 0:
            copy(sc, i * n, mem[2], bias // 4, n)
    depth = (k + c0 - 1) // c0 * c0
    load_run(mem, dtype, at[1], rows * depth, flat, 0)
    unpack_a(flat, m, k, k4, c0, sa)
    sa[m * k4:m4 * k4] = 0
    load_run(mem, dtype, at[2], depth * ((n + 15) // 16 * 16), flat, 0)
    unpack_b(flat, k, n, c0, sb)
    sb[k * n:k4 * n] = 0
    gemm(sa, sb, sc, m4, n, k4)
    for j in range(0, n, 16):
        for i in range(m):
            copy(mem[2], to + j * rows + i * 16, sc, i * n + j, min(16, n - j))


@_jit
def mmad_int(mem, at, f, bias):
    """L0C = (init ? 0 or bias : L0C) + A @ B for int8 inputs and int32 sums."""
    m, n, k, init = f[0], f[1], f[2], f[3]
    rows, ka, nb = (m + 15) // 16 * 16, (k + 31) // 32, (n + 15) // 16
    out, v8 = mem[3], mem[4]
    for i in range(m):
        for j in range(n):
            to = at[0] // 4 + (j // 16 * rows + i) * 16 + j % 16
            total = np.int64(0 if init else out[to])
            if init and bias >= 0:
                total = np.int64(out[bias // 4 + j])
            for p in range(k):
                x = v8[at[1] + ((i // 16 * ka + p // 32) * 16 + i % 16) * 32 + p % 32]
                y = v8[at[2] + ((p // 32 * nb + j // 16) * 16 + j % 16) * 32 + p % 32]
                total += np.int64(x) * np.int64(y)
            out[to] = np.int32(total)


@_jit
def fixpipe_int(gm, mem, d, s, f, nz):
    """`fixpipe` from int32 to int32, exact."""
    src, dst = mem[3], gm[3]
    for j in range(f[1]):
        for i in range(f[0]):
            v = src[s // 4 + (j // 16 * f[2] + i) * 16 + j % 16]
            to = j // 8 * f[3] + i * 8 + j % 8 if nz else i * f[3] + j
            v = max(v, np.int32(0)) if f[4] else v
            dst[d // 4 + to] = np.int32(dst[d // 4 + to] + v) if f[6] else v


@_jit
def fixpipe(gm, mem, d, s, dtype, f, nz, line):
    """fp32 from L0C to GM: cast and relu; rows dst_stride elements apart, or planes of C0 columns. `line`: scratch of L0C's size."""
    m, n, src_rows, dst_stride, relu = f[0], f[1], f[2], f[3], f[4]
    size = size_of(dtype)
    width = BLOCK // size if nz else n
    rows = m if nz else 1  # what is contiguous in GM: a whole plane, or one row
    for j in range(0, n, width):
        for i in range(0, m, rows):
            for r in range(rows):
                for q in range(0, width, 16):
                    c = j + q
                    copy(line, r * width + q, mem[2], s // 4 + (c // 16 * src_rows + i + r) * 16 + c % 16, min(16, width - q))
            if relu:
                for q in range(rows * width):
                    line[q] = larger(line[q], np.float32(0))
            to = d + (j // width * dst_stride if nz else i * dst_stride) * size
            if f[6]:
                add_run(gm, dtype, to, rows * width, line)
            else:
                store_run(gm, dtype, to, rows * width, line)


@_jit
def fixpipe_scale(gm, mem, d, s, scales, f, nz):
    """int32 from L0C to int8 in GM: relu, times the scale of the column, rounded, plus the zero point f[7], limited."""
    src, dst = mem[3], gm[4]
    for j in range(f[1]):
        scale = mem[2][scales // 4 + j]
        for i in range(f[0]):
            v = src[s // 4 + (j // 16 * f[2] + i) * 16 + j % 16]
            v = max(v, np.int32(0)) if f[4] else v
            whole = np.rint(np.float32(np.float32(v) * scale)) + np.float32(f[7])
            to = j // 32 * f[3] + i * 32 + j % 32 if nz else i * f[3] + j
            dst[d + to] = np.int8(0) if whole != whole else np.int8(min(max(whole, np.float32(-128)), np.float32(127)))


@_jit
def drain(mem, d, s, dtype, f, line):
    """copy_l0c_ub: runs of fractals of L0C to UB with cast and relu; `line`: scratch of L0C's size. int32 stays as it is."""
    step, size = f[1] * 256, size_of(dtype)
    for b in range(f[0]):
        at, to = s + b * (f[1] + f[2]) * 1024, d + b * (step * size + f[3] * BLOCK)
        if dtype == INT32:
            for i in range(step):
                v = mem[3][at // 4 + i]
                mem[3][to // 4 + i] = max(v, np.int32(0)) if f[4] else v
            continue
        copy(line, 0, mem[2], at // 4, step)
        if f[4]:
            for i in range(step):
                line[i] = larger(line[i], np.float32(0))
        store_run(mem, dtype, to, step, line)


# ---------------------------------------------------------------- vector

@_jit
def larger(a, b):
    """The greater one; NaN if either is."""
    return a if a > b or a != a else b


@_jit
def smaller(a, b):
    """The lesser one; NaN if either is."""
    return a if a < b or a != a else b


@_jit
def load_lanes(mem, dtype, at, blk, n, out, per):
    """Reads n elements, `per` to a block, blocks `blk` blocks apart."""
    if blk == 1:
        load_run(mem, dtype, at, n, out, 0)
        return
    for b in range(0, n, per):
        load_run(mem, dtype, at + b // per * blk * BLOCK, min(per, n - b), out, b)


@_jit
def store_lanes(mem, dtype, at, blk, n, src, per):
    """Writes n elements, `per` to a block, blocks `blk` blocks apart."""
    if blk == 1:
        store_run(mem, dtype, at, n, src)
        return
    for b in range(0, n, per):
        store_run(mem, dtype, at + b // per * blk * BLOCK, min(per, n - b), src[b:])


@_jit
def rounded(x, dtype):
    """The scalar operand as the instruction sees it: rounded to the dtype of the elements."""
    y = np.float32(x)
    if dtype == FP16:
        return half_to_float(float_to_half(y))
    return bfloat_to_float(float_to_bfloat(y)) if dtype == BF16 else y


@_jit
def combine(op, x, y, n):
    """x[i] = op(x[i], y[i]) in fp32; op is a binary word or one with a scalar."""
    if op == VADD or op == VADDS:
        for i in range(n):
            x[i] = x[i] + y[i]
    elif op == VSUB:
        for i in range(n):
            x[i] = x[i] - y[i]
    elif op == VMUL or op == VMULS:
        for i in range(n):
            x[i] = x[i] * y[i]
    elif op == VDIV:
        for i in range(n):
            x[i] = x[i] / y[i]
    elif op == VMAX or op == VMAXS:
        for i in range(n):
            x[i] = larger(x[i], y[i])
    else:
        for i in range(n):
            x[i] = smaller(x[i], y[i])


@_jit
def transform(op, x, n):
    """x[i] = op(x[i]): exp and ln through double, the rest in fp32; casts and copies leave x as it is."""
    for i in range(n):
        v = x[i]
        if op == VEXP:
            x[i] = np.float32(np.exp(np.float64(v)))
        elif op == VLN:
            x[i] = np.float32(np.log(np.float64(v)))
        elif op == VSQRT:
            x[i] = np.sqrt(v)
        elif op == VRSQRT:
            x[i] = np.float32(1) / np.sqrt(v)
        elif op == VREC:
            x[i] = np.float32(1) / v
        elif op == VABS:
            x[i] = abs(v)
        elif op == VRELU:
            x[i] = larger(v, np.float32(0))


@_jit
def fold(op, x, n):
    """The sum (from the first element to the last), greatest or least of x[:n] in fp32."""
    total = x[0]
    for i in range(1, n):
        if op == VCADD:
            total = np.float32(total + x[i])
        else:
            total = larger(total, x[i]) if op == VCMAX else smaller(total, x[i])
    return total


@_jit
def vector(op, mem, at, dt, f, scalar, x, y):
    """Every arithmetic vector instruction, repeat after repeat; a repeat is read whole before it is written."""
    lanes, repeat, dst_size, src_size = f[0], f[1], size_of(dt[0]), size_of(dt[1])
    two, reduces = op <= VMIN, VCMAX <= op <= VCADD
    dst_blk, src_blk, dst_step, src_step = f[2], f[3], f[4] * BLOCK, f[5] * BLOCK
    if two:
        dst_step, src_step = f[5] * BLOCK, f[6] * BLOCK
    elif op == VDUP:
        dst_step = f[3] * BLOCK
    elif reduces:
        dst_blk, dst_step, src_blk, src_step = 1, f[2] * dst_size, f[3], f[4] * BLOCK
    wide = 256 // max(dst_size, src_size)
    if VADDS <= op <= VMINS or op == VDUP:
        y[:wide] = rounded(scalar, dt[1])
    for r in range(repeat):
        n = lanes if r == repeat - 1 else wide
        if op == VDUP:
            x[:n] = np.float32(scalar)
        else:
            load_lanes(mem, dt[1], at[1] + r * src_step, src_blk, n, x, BLOCK // src_size)
        if two:
            load_lanes(mem, dt[2], at[2] + r * f[7] * BLOCK, f[4], n, y, BLOCK // src_size)
        if op <= VMINS:
            combine(op, x, y, n)
        elif reduces:
            x[0], n = fold(op, x, n), 1
        else:
            transform(op, x, n)
        store_lanes(mem, dt[0], at[0] + r * dst_step, dst_blk, n, x, BLOCK // dst_size)


# ---------------------------------------------------------------- vector: whole numbers, comparisons, roundings, selections

@_jit
def compare(mode, less, same):
    """1 or 0: what a comparison of that mode makes of two values, where `less` and `same` say how they lie (neither: greater, or NaN)."""
    if mode == EQ: return same
    if mode == NE: return not same
    if mode == LT: return less
    return less or same  # LE


@_jit
def compare_reals(mode, x, y, n):
    """x[i] = 1 or 0 as x[i] and y[i] compare; NaN is unequal to all."""
    for i in range(n):
        a, b = x[i], y[i]
        if mode == GT or mode == GE:
            a, b = b, a
        kind = LT if mode == GT else LE if mode == GE else mode
        x[i] = np.float32(1) if compare(kind, a < b, a == b) else np.float32(0)


@_jit
def compare_wholes(mode, xi, yi, flip, x, n):
    """x[i] = 1 or 0 as xi[i] and yi[i] compare; `flip` is the sign bit where they are uint64."""
    for i in range(n):
        a, b = xi[i] ^ flip, yi[i] ^ flip
        if mode == GT or mode == GE:
            a, b = b, a
        kind = LT if mode == GT else LE if mode == GE else mode
        x[i] = np.float32(1) if compare(kind, a < b, a == b) else np.float32(0)


@_jit
def quotient(a, b, dtype):
    """a / b cut off toward zero; 0 where b is."""
    if b == 0:
        return np.int64(0)
    if dtype == UINT64:
        return np.int64(np.uint64(a) // np.uint64(b))
    if b == -1:
        return -a
    q = a // b
    return q + 1 if q < 0 and q * b != a else q


@_jit
def combine_wholes(op, dtype, xi, yi, flip, n):
    """xi[i] = op(xi[i], yi[i]) in whole numbers, low bits kept."""
    for i in range(n):
        a, b = xi[i], yi[i]
        if op == VADD or op == VADDS:
            xi[i] = a + b
        elif op == VSUB:
            xi[i] = a - b
        elif op == VMUL or op == VMULS:
            xi[i] = a * b
        elif op == VDIV:
            xi[i] = quotient(a, b, dtype)
        elif op == VMAX or op == VMAXS:
            xi[i] = a if (a ^ flip) > (b ^ flip) else b
        elif op == VMIN or op == VMINS:
            xi[i] = a if (a ^ flip) < (b ^ flip) else b
        elif op == VAND:
            xi[i] = a & b
        elif op == VOR:
            xi[i] = a | b
        elif op == VNOT:
            xi[i] = ~a
        elif op == VSHLS:
            xi[i] = a << b
        elif op == VSHRS:
            xi[i] = np.int64(np.uint64(a) >> np.uint64(b)) if dtype == UINT64 else a >> b


@_jit
def round_reals(op, x, n):
    """x[i] rounded down, up, to the nearest (ties to even) or toward zero."""
    for i in range(n):
        v = x[i]
        x[i] = np.floor(v) if op == VFLOOR else np.ceil(v) if op == VCEIL else np.rint(v) if op == VRINT else np.trunc(v)


@_jit
def load_whole_lanes(mem, dtype, at, blk, n, out):
    """Reads n whole numbers in blocks `blk` blocks apart."""
    size = size_of(dtype)
    per = BLOCK // size
    for i in range(n):
        out[i] = load_whole(mem, dtype, at + i // per * blk * BLOCK + i % per * size)


@_jit
def store_whole_lanes(mem, dtype, at, blk, n, xi):
    """Writes the low bytes of n whole numbers in blocks `blk` blocks apart."""
    size = size_of(dtype)
    per = BLOCK // size
    for i in range(n):
        store_whole(mem, dtype, at + i // per * blk * BLOCK + i % per * size, xi[i])


@_jit
def has_pair(op):
    """Whether a word has two sources."""
    return op <= VMIN or op == VCMP or op == VAND or op == VOR


@_jit
def has_scalar(op):
    """Whether a word has a source and a scalar, or a scalar alone."""
    return VADDS <= op <= VMINS or op == VDUP or op == VCMPS or op == VSHLS or op == VSHRS


@_jit
def vector_whole(op, mem, at, dt, f, scalar, x, y, xi, yi):
    """What `vector` does not: work on whole numbers, comparisons, roundings; a repeat is read whole before it is written."""
    lanes, repeat, dst_size, src_size = f[0], f[1], size_of(dt[0]), size_of(dt[1])
    two, ints = has_pair(op), whole(dt[1])
    compares = op == VCMP or op == VCMPS
    mode = f[8] if op == VCMP else f[6]
    dst_step, src_step = (f[5], f[6]) if two else (f[3], 0) if op == VDUP else (f[4], f[5])
    flip = np.int64(-9223372036854775807 - 1) if dt[1] == UINT64 else np.int64(0)
    wide = 256 // max(dst_size, src_size)
    if has_scalar(op):
        y[:wide] = rounded(scalar, dt[1])
        yi[:wide] = np.int64(scalar)
    for r in range(repeat):
        n = lanes if r == repeat - 1 else wide
        if op == VDUP:
            xi[:n] = yi[:n]
        elif ints:
            load_whole_lanes(mem, dt[1], at[1] + r * src_step * BLOCK, f[3], n, xi)
            if two:
                load_whole_lanes(mem, dt[2], at[2] + r * f[7] * BLOCK, f[4], n, yi)
        else:
            load_lanes(mem, dt[1], at[1] + r * src_step * BLOCK, f[3], n, x, BLOCK // src_size)
            if two:
                load_lanes(mem, dt[2], at[2] + r * f[7] * BLOCK, f[4], n, y, BLOCK // src_size)
        to = at[0] + r * dst_step * BLOCK
        if compares and ints:
            compare_wholes(mode, xi, yi, flip, x, n)
        elif compares:
            compare_reals(mode, x, y, n)
        elif ints:
            combine_wholes(op, dt[1], xi, yi, flip, n)
        else:
            round_reals(op, x, n)
        if ints and not compares and whole(dt[0]):
            store_whole_lanes(mem, dt[0], to, f[2], n, xi)
            continue
        if ints and not compares:
            for i in range(n):
                x[i] = real(dt[1], xi[i])
        store_lanes(mem, dt[0], to, f[2], n, x, BLOCK // dst_size)


@_jit
def vector_select(op, mem, at, dt, f, scalar, x, bytes8):
    """vsel and vsels: where src0 is not 0 the element of src1, else that of src2 or the scalar, bit for bit."""
    size, mask_size = size_of(dt[0]), size_of(dt[1])
    wide, per = 256 // max(size, mask_size), BLOCK // size
    three = op == VSEL
    one_rep, two_rep = (f[8], f[9]) if three else (f[7], 0)
    for r in range(f[1]):
        n = f[0] if r == f[1] - 1 else wide
        load_lanes(mem, dt[1], at[1] + r * (f[7] if three else f[6]) * BLOCK, f[3], n, x, BLOCK // mask_size)
        for i in range(n):
            yes = at[2] + (r * one_rep + i // per * f[4]) * BLOCK + i % per * size
            no = at[3] + (r * two_rep + i // per * f[5]) * BLOCK + i % per * size
            if three or x[i] != 0:
                copy(bytes8, i * size, mem[0], yes if x[i] != 0 else no, size)
            elif whole(dt[0]):
                for b in range(size):
                    bytes8[i * size + b] = np.uint8(np.int64(scalar) >> (8 * b))
            else:
                bits = np.uint32(np.float32(scalar).view(np.uint32)) if dt[0] == FP32 else np.uint32(float_to_half(np.float32(scalar)))
                for b in range(size):
                    bytes8[i * size + b] = np.uint8(bits >> np.uint32(8 * b))
        to = at[0] + r * (f[6] if three else f[5]) * BLOCK
        for b in range(0, n * size, BLOCK):
            copy(mem[0], to + b // BLOCK * f[2] * BLOCK, bytes8, b, min(BLOCK, n * size - b))


@_jit
def vector_copy(mem, at, size, f, bytes8):
    """dst = src, bit for bit, repeat after repeat."""
    for r in range(f[1]):
        n = f[0] * size if r == f[1] - 1 else 256
        for i in range(n):
            bytes8[i] = mem[0][at[1] + (r * f[5] + i // BLOCK * f[3]) * BLOCK + i % BLOCK]
        for i in range(n):
            mem[0][at[0] + (r * f[4] + i // BLOCK * f[2]) * BLOCK + i % BLOCK] = bytes8[i]


@_jit
def vector_broadcast(mem, at, size, f, bytes8):
    """vbrcb: each of 8 * repeat elements fills one block."""
    for r in range(f[0]):
        for i in range(8 * size):
            bytes8[i] = mem[0][at[1] + r * 8 * size + i]
        for b in range(8):
            for i in range(BLOCK):
                mem[0][at[0] + (r * f[2] + b * f[1]) * BLOCK + i] = bytes8[b * size + i % size]


@_jit
def vector_turn(mem, at, size, f, bytes8):
    """vnchwconv: 16 rows of one block become 32 / size rows of 16 elements, of bytes half a block 16 rows of half a block."""
    half, low, high = BLOCK // size, 0, 0
    if size == 1:
        half, low, high = 16, f[7] * 16, f[6] * 16
    for r in range(f[0]):
        for row in range(16):
            for i in range(BLOCK):
                bytes8[row * BLOCK + i] = mem[0][at[1] + (r * f[5] + row * f[3]) * BLOCK + i]
        for j in range(half):
            for row in range(16):
                to = at[0] + (r * f[4] + j * f[1] + (row * size // BLOCK) * f[2]) * BLOCK + row * size % BLOCK + high
                for i in range(size):
                    mem[0][to + i] = bytes8[row * BLOCK + low + j * size + i]


# ---------------------------------------------------------------- one instruction

@_inline
def step(op, f, scalar, at, dt, gm, mem, sa, sb, sc, flat, run, run2, bytes8, whole1, whole2):
    """Runs one instruction: fields f, byte addresses at and dtypes dt of its operands. Bounds were checked before."""
    size = size_of(dt[1])
    if op == COPY_GM_L1:
        copy_bursts(mem[0], at[0], gm[0], at[1], f[0], f[1] * BLOCK, (f[1] + f[3]) * BLOCK, (f[1] + f[2]) * BLOCK)
    elif op == ND2NZ:
        copy_nd2nz(mem[0], at[0], gm[0], at[1], f[0], f[1], f[2] * size, f[3], size)
    elif op == LOAD_L0A or op == LOAD_L0B:
        load_fractals(mem, at[0], at[1], f[0], f[1], f[2], f[3])
    elif op == LOAD3D:
        load_image(mem, at[0], at[1], f, size)
    elif op == LOAD_BT or op == LOAD_FB:
        copy_bursts(mem[0], at[0], mem[0], at[1], 1, f[0] * BLOCK, 0, 0)
    elif op == MMAD or op == MMAD_BIAS:
        bias = at[3] if op == MMAD_BIAS else -1
        if dt[1] == INT8:
            mmad_int(mem, at, f, bias)
        else:
            mmad_float(mem, at, dt[1], f, bias, sa, sb, sc, flat)
    elif op == FIXPIPE_ND or op == FIXPIPE_NZ:
        if dt[0] == INT32:
            fixpipe_int(gm, mem, at[0], at[1], f, op == FIXPIPE_NZ)
        else:
            fixpipe(gm, mem, at[0], at[1], dt[0], f, op == FIXPIPE_NZ, sc)
    elif op == FIXPIPE_ND_SCALE or op == FIXPIPE_NZ_SCALE:
        fixpipe_scale(gm, mem, at[0], at[1], at[2], f, op == FIXPIPE_NZ_SCALE)
    elif op == COPY_GM_UB:
        padded = (f[1] + BLOCK - 1) // BLOCK * BLOCK
        copy_bursts(mem[0], at[0], gm[0], at[1], f[0], f[1], padded + f[3] * BLOCK, f[1] + f[2])
    elif op == COPY_GM_UB_AT:
        copy(mem[0], at[0], gm[0], at[1] + place_of(mem, dt[2], at[2], f[2]) * f[1], f[0])
    elif op == COPY_UB_GM:
        padded = (f[1] + BLOCK - 1) // BLOCK * BLOCK
        if f[4]:
            add_bursts(gm, at[0], mem, at[1], dt[0], f[0], f[1], f[1] + f[3], padded + f[2] * BLOCK)
        else:
            copy_bursts(gm[0], at[0], mem[0], at[1], f[0], f[1], f[1] + f[3], padded + f[2] * BLOCK)
    elif op == COPY_L0C_UB:
        drain(mem, at[0], at[1], dt[0], f, sc)
    elif op == COPY_UB_L1:
        copy_bursts(mem[0], at[0], mem[0], at[1], f[0], f[1] * BLOCK, (f[1] + f[3]) * BLOCK, (f[1] + f[2]) * BLOCK)
    elif op == VCOPY:
        vector_copy(mem, at, size, f, bytes8)
    elif op <= VDUP and whole(dt[1]):
        vector_whole(op, mem, at, dt, f, scalar, run, run2, whole1, whole2)
    elif op <= VCADD:
        vector(op, mem, at, dt, f, scalar, run, run2)
    elif op == VBRCB:
        vector_broadcast(mem, at, size, f, bytes8)
    elif op == VNCHWCONV:
        vector_turn(mem, at, size, f, bytes8)
    elif op == VSEL or op == VSELS:
        vector_select(op, mem, at, dt, f, scalar, run, bytes8)
    else:
        vector_whole(op, mem, at, dt, f, scalar, run, run2, whole1, whole2)


@_jit
def lanes_end(lanes, repeat, blk, rep, size, wide):
    """Bytes from an operand's start to the end of what a vector instruction touches; `wide` counts lanes of a whole repeat."""
    per = BLOCK // size
    last = (repeat - 1) * rep * BLOCK + ((lanes - 1) // per * blk) * BLOCK + ((lanes - 1) % per + 1) * size
    if (lanes - 1) // per > 0:  # with a stride of 0 or in the middle, the block before may end later
        last = max(last, (repeat - 1) * rep * BLOCK + ((lanes - 1) // per - 1) * blk * BLOCK + BLOCK)
    if repeat == 1:
        return last
    return max(last, (repeat - 2) * rep * BLOCK + ((wide - 1) // per) * blk * BLOCK + ((wide - 1) % per + 1) * size)


@_jit
def fills(bursts, length, step_bytes):
    """Bytes from the first to the last of `bursts` runs; 0 where there is nothing."""
    return (bursts - 1) * step_bytes + length if bursts > 0 and length > 0 else 0


@_jit
def adds(dtype):
    """Whether atomic writes take this dtype."""
    return dtype == FP32 or dtype == FP16 or dtype == BF16 or dtype == INT32


@_from_python
def reaches(op, f, dt, out):
    """Fills out[operand] with the bytes it touches from its start (0: none). Returns 0, or a number of RELATIONS that is broken."""
    out[:] = 0
    d, s = size_of(dt[0]), size_of(dt[1])
    if op == COPY_GM_L1 or op == COPY_UB_L1:
        out[0] = fills(f[0], f[1] * BLOCK, (f[1] + f[3]) * BLOCK)
        out[1] = fills(f[0], f[1] * BLOCK, (f[1] + f[2]) * BLOCK)
    elif op == ND2NZ:
        if f[0] > f[3]: return 1
        blocks = (f[1] * s + BLOCK - 1) // BLOCK
        out[0] = fills(blocks, f[0] * BLOCK, f[3] * BLOCK)
        out[1] = fills(f[0], f[1] * s, f[2] * s)
    elif op == LOAD_L0A or op == LOAD_L0B:
        out[0], out[1] = fills(f[0], 512, (1 + f[2]) * 512), fills(f[0], 512, f[1] * 512)
        if f[3] and s != 2: return 2
    elif op == LOAD3D:
        columns, pixel = (f[4] * s + BLOCK - 1) // BLOCK, pixel_of(f[2], s)
        planes, taps = (f[2] * s + pixel - 1) // pixel, f[9] * f[10]
        stop = f[3] * s + columns * BLOCK
        if f[3] * s % BLOCK or stop > (planes * taps * pixel + BLOCK - 1) // BLOCK * BLOCK: return 3
        if f[17] and s != 1: return 10
        if f[1] + f[15] + f[16] < f[12] * (f[10] - 1) + 1 or f[0] + f[13] + f[14] < f[11] * (f[9] - 1) + 1: return 4
        out[0] = ((f[6] + 15) // 16 * columns) * 512
        out[1] = min(planes, (stop + taps * pixel - 1) // (taps * pixel)) * f[0] * f[1] * pixel
    elif op == LOAD_BT or op == LOAD_FB:
        out[0] = out[1] = f[0] * BLOCK
    elif op == MMAD or op == MMAD_BIAS:
        if f[0] == 0 or f[1] == 0 or f[2] == 0: return 0
        rows, cols, deep = (f[0] + 15) // 16, (f[1] + 15) // 16, (f[2] * s + BLOCK - 1) // BLOCK
        out[0], out[1], out[2], out[3] = rows * cols * 1024, rows * deep * 512, deep * cols * 512, f[1] * 4 if f[3] else 0
    elif op == FIXPIPE_ND or op == FIXPIPE_NZ or op == FIXPIPE_ND_SCALE or op == FIXPIPE_NZ_SCALE:
        if f[6] and not adds(dt[0]): return 8
        if f[0] == 0 or f[1] == 0: return 0
        if f[2] < f[0]: return 5
        width = BLOCK // d
        out[1] = ((f[1] - 1) // 16 * f[2] + f[0]) * 64
        if op == FIXPIPE_ND_SCALE or op == FIXPIPE_NZ_SCALE:
            out[2] = f[1] * size_of(dt[2])
        if op == FIXPIPE_ND or op == FIXPIPE_ND_SCALE:
            out[0] = fills(f[0], f[1] * d, f[3] * d)
        else:
            if f[1] % width: return 7
            out[0] = fills(f[1] // width, f[0] * BLOCK, f[3] * d)
    elif op == COPY_L0C_UB:
        out[0] = fills(f[0], f[1] * 256 * d, f[1] * 256 * d + f[3] * BLOCK)
        out[1] = fills(f[0], f[1] * 256 * s, (f[1] + f[2]) * 256 * s)
    elif op == COPY_GM_UB or op == COPY_UB_GM:
        if op == COPY_UB_GM and f[4]:
            if not adds(dt[0]): return 8
            if f[1] % d or f[3] % d: return 9
        padded = (f[1] + BLOCK - 1) // BLOCK * BLOCK
        ub, gm = (0, 1) if op == COPY_GM_UB else (1, 0)
        out[ub] = fills(f[0], padded, padded + f[2 + (1 - ub)] * BLOCK)
        out[gm] = fills(f[0], f[1], f[1] + f[2 + (1 - gm)])
    elif op == COPY_GM_UB_AT:
        out[0], out[1], out[2] = (f[0] + BLOCK - 1) // BLOCK * BLOCK, fills(f[2], f[0], f[1]), size_of(dt[2])
    else:
        return vector_reaches(op, f, dt, out)
    return 0


@_jit
def vector_reaches(op, f, dt, out):
    """`reaches` for the vector pipe."""
    d, s = size_of(dt[0]), size_of(dt[1])
    if op == VBRCB:
        if f[0]:
            out[0], out[1] = ((f[0] - 1) * f[2] + 7 * f[1] + 1) * BLOCK, f[0] * 8 * s
    elif op == VNCHWCONV:
        if f[0]:
            half = f[2] if s == 4 else 0
            if s == 1:  # half a block a row
                out[0] = ((f[0] - 1) * f[4] + 15 * f[1]) * BLOCK + f[6] * 16 + 16
                out[1] = ((f[0] - 1) * f[5] + 15 * f[3]) * BLOCK + f[7] * 16 + 16
                return 0
            out[0] = ((f[0] - 1) * f[4] + (BLOCK // s - 1) * f[1] + half + 1) * BLOCK
            out[1] = ((f[0] - 1) * f[5] + 15 * f[3] + 1) * BLOCK
    else:
        wide = 256 // (d if op == VDUP or op <= VMIN else max(d, s))
        if f[0] > wide: return 6
        if f[1] == 0: return 0
        if has_pair(op) or op == VSEL or op == VSELS:
            count = 4 if op == VSEL else 3
            for i in range(count):
                out[i] = lanes_end(f[0], f[1], f[2 + i], f[2 + count + i], size_of(dt[i]), wide)
        elif op <= VCONV or op > VNCHWCONV:
            out[0] = lanes_end(f[0], f[1], f[2], f[4], d, wide)
            out[1] = lanes_end(f[0], f[1], f[3], f[5], s, wide)
        elif op == VDUP:
            out[0] = lanes_end(f[0], f[1], f[2], f[3], d, wide)
        else:
            out[0], out[1] = ((f[1] - 1) * f[2] + 1) * d, lanes_end(f[0], f[1], f[3], f[4], s, wide)
    return 0


# ---------------------------------------------------------------- the interpreter

@_jit
def value(xcode, start, stop, env, stack, error):
    """The value of a postfix expression over `env`; a division by zero sets error[0]."""
    top = 0
    for pc in range(start, stop):
        op, arg = xcode[pc, 0], xcode[pc, 1]
        if op == 0:
            stack[top] = arg
            top += 1
        elif op == 1:
            stack[top] = env[arg]
            top += 1
        elif op == 18:
            top -= 2
            stack[top - 1] = stack[top] if stack[top - 1] != 0 else stack[top + 1]
        elif op >= 19:
            x = stack[top - 1]
            stack[top - 1] = (1 if x == 0 else 0) if op == 19 else abs(x)
        else:
            top -= 1
            stack[top - 1] = apply(op, stack[top - 1], stack[top], error)
    return stack[0]


@_jit
def apply(op, a, b, error):
    """The integer `a op b`, by number in EXPR_OPS."""
    if op == 2: return a + b
    if op == 3: return a - b
    if op == 4: return a * b
    if op == 5 or op == 6 or op == 17:
        if b == 0:
            error[0] = E_DIVISION
            return 0
        return a // b if op == 5 else a % b if op == 6 else -((-a) // b)
    if op == 15: return min(a, b)
    if op == 16: return max(a, b)
    if op == 7: return 1 if a == b else 0
    if op == 8: return 1 if a != b else 0
    if op == 9: return 1 if a < b else 0
    if op == 10: return 1 if a <= b else 0
    if op == 11: return 1 if a > b else 0
    if op == 12: return 1 if a >= b else 0
    if op == 13: return 1 if a != 0 and b != 0 else 0
    return 1 if a != 0 or b != 0 else 0


@_inline
def fetch(site, program, env, scratch, error):
    """Evaluates fields and addresses of a site into scratch; False, with the error row filled, where a bound is broken."""
    xcode, xspan, ops, operands, fields, limits = program
    f, _, dt, reach, stack = scratch
    op = ops[site]
    error[1] = site
    for i in range(f.size):
        x = fields[site, i]
        if x < 0:
            break
        f[i] = value(xcode, xspan[x, 0], xspan[x, 1], env, stack, error)
        if error[0] or f[i] < limits[op, i, 0] or f[i] > limits[op, i, 1]:
            error[0] = max(error[0], E_LIMIT)
            error[2], error[3], error[4] = i, f[i], limits[op, i, 1]
            return False
    for i in range(4):
        dt[i] = operands[site, i, 0]
    relation = reaches(op, f, dt, reach)
    if relation:
        error[0], error[2] = E_RELATION, relation
        return False
    for i in range(4):
        if operands[site, i, 1] >= 0 and not place(i, operands[site, i], program, env, scratch, error):
            return False
    return True


@_jit
def place(i, operand, program, env, scratch, error):
    """Sets at[i]; False where slot, range or alignment is broken. operand: dtype, base, slot bytes, depth, align, slot and offset expr."""
    xcode, xspan, _, _, _, _ = program
    _, at, dt, reach, stack = scratch
    x = operand[5]
    slot = value(xcode, xspan[x, 0], xspan[x, 1], env, stack, error)
    x = operand[6]
    offset = value(xcode, xspan[x, 0], xspan[x, 1], env, stack, error) * size_of(dt[i])
    at[i] = operand[1] + slot * operand[2] + offset
    error[2] = i
    if error[0]:
        return False
    if slot < 0 or slot >= operand[3]:
        error[0], error[3], error[4] = E_SLOT, slot, operand[3]
    elif offset < 0 or (reach[i] > 0 and offset + reach[i] > operand[2]):
        error[0], error[3], error[4] = E_RANGE, offset if offset < 0 else offset + reach[i], operand[2]
    elif at[i] % operand[4]:
        error[0], error[3], error[4] = E_ALIGN, at[i] - operand[1], operand[4]
    return error[0] == 0


@_jit
def cross(code, pc, core, program, env, scratch, tokens, first, count, streams, error):
    """Sets or takes tokens of a cross-core flag at pc; False where it has to wait. tokens[setter, waiter, id]."""
    xcode, xspan, _, _, _, _ = program
    peer, x, mine = code[pc, 1], code[pc, 2], streams[core]
    flag = value(xcode, xspan[x, 0], xspan[x, 1], env, scratch[4], error)
    if error[0] or flag < 0 or flag >= tokens.shape[2]:
        error[0] = max(error[0], E_FLAG)
        error[3], error[4] = flag, tokens.shape[2]
        return False
    # core i of n here meets the cores of the peer that the same share of the group covers
    i, n, m = core - first[mine], count[mine], count[peer]
    low = first[peer] + i * m // n
    high = max(low + 1, first[peer] + (i + 1) * m // n)
    if code[pc, 0] == 4:
        for c in range(low, high):
            tokens[core, c, flag] += 1
        return True
    for c in range(low, high):
        if tokens[c, core, flag] == 0:
            return False
    for c in range(low, high):
        tokens[c, core, flag] -= 1
    return True


@_inline
def run_core(core, code, program, scalars, state, env, trips, gm, mem, scratch, tiles, tokens, first, count, streams, error):
    """Runs a core from state[core] until it halts (DONE), has to wait (BLOCKED, STUCK) or breaks a rule (error[0] set)."""
    sa, sb, sc, flat, run, run2, bytes8, whole1, whole2 = tiles
    xcode, xspan, ops, _, _, _ = program
    f, at, dt, _, stack = scratch
    pc, steps = state[core], 0
    while True:
        op, a, b, c = code[pc, 0], code[pc, 1], code[pc, 2], code[pc, 3]
        error[5] = pc
        if op == 3:
            if not fetch(a, program, env, scratch, error):
                return DONE
            step(ops[a], f, scalars[a], at, dt, gm, mem, sa, sb, sc, flat, run, run2, bytes8, whole1, whole2)
        elif op == 1:
            trips[pc] = value(xcode, xspan[b, 0], xspan[b, 1], env, stack, error)
            env[a] = 0
            if error[0]:
                return DONE
            if trips[pc] <= 0:
                pc = c
                continue
        elif op == 2:
            env[b] += 1
            if env[b] < trips[a]:
                pc = a
        elif op == 6:
            env[a] = (env[a] + 1) % b
        elif op == 0:
            state[core] = pc
            return DONE
        elif not cross(code, pc, core, program, env, scratch, tokens, first, count, streams, error):
            state[core] = pc
            return BLOCKED if steps else STUCK
        pc += 1
        steps += 1


@_jit
def views(memory):
    """A byte array as every type that the bodies read and write."""
    return (memory, memory.view(np.uint16), memory.view(np.float32), memory.view(np.int32), memory.view(np.int8), memory.view(np.uint64))


@_from_python
def run_groups(low, high, code, program, scalars, starts, streams, first, count, envs, gm_bytes, mem_bytes, tiles, error):
    """Runs the core groups low..high-1, each core of a group with scopes of its own, taking turns where they wait for each other.

    error: kind, site, operand or field, value, bound, pc, group, core; kind 0 where all is well.
    """
    cores = streams.size
    mems, gm = np.empty((cores, mem_bytes), np.uint8), views(gm_bytes)
    trips = np.zeros((cores, code.shape[0]), np.int64)
    state = np.zeros(cores, np.int64)
    tokens = np.zeros((cores, cores, 16), np.int64)
    i64 = np.int64
    scratch = (np.zeros(20, i64), np.zeros(4, i64), np.zeros(4, i64), np.zeros(4, i64), np.zeros(STACK, i64))
    for group in range(low, high):
        mems[:] = POISON
        tokens[:] = 0
        for c in range(cores):
            state[c] = starts[streams[c]]
        left = cores
        while left:
            moved, left = False, 0
            for c in range(cores):
                error[6], error[7] = group, c
                mem = views(mems[c])
                status = run_core(c, code, program, scalars, state, envs[group, c], trips[c], gm, mem, scratch, tiles, tokens, first, count,
                                  streams, error)
                if error[0]:
                    return
                moved = moved or status != STUCK
                left += 1 if status != DONE else 0
            if left and not moved:
                error[0] = E_DEADLOCK
                return
