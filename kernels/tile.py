"""Values of instructions: Numba bodies for every word of the instruction set, and the interpreter that runs a program.

One file on purpose: Numba's disk cache does not see a change in a function that another file defines. Memory is two byte
arrays, GM and the core's own scopes, each as a tuple of views (uint8, uint16, fp32, int32, int8, uint64); addresses are
bytes. fp16 and bf16 are uint16 with conversions of our own. Arithmetic on tiles is done in fp32 and rounded once per
instruction, in vectors where they are fp32. What each body must compute is written plainly in `aoec/target/isa/meaning.py`; a law holds the
two equal.
"""
# ruff: noqa: SIM109 (Numba makes loops of `in`)
from __future__ import annotations

from functools import partial

import numpy as np
from llvmlite import ir
from numba import config, njit, types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

from .linked import entry, inner

OPS = (
    "copy_gm_l1", "copy_gm_l1_nd2nz", "load_l0a", "load_l0b", "load3d", "load_bt", "mmad", "mmad_bias", "fixpipe_nd", "fixpipe_nz",
    "copy_gm_ub", "copy_ub_gm", "copy_l0c_ub", "copy_ub_l1", "vadd", "vsub", "vmul", "vdiv", "vmax", "vmin", "vadds", "vmuls", "vmaxs",
    "vmins", "vexp", "vln", "vsqrt", "vrsqrt", "vrec", "vabs", "vrelu", "vcopy", "vconv", "vdup", "vcmax", "vcmin", "vcadd", "vbrcb",
    "vnchwconv", "vcmp", "vcmps", "vsel", "vsels", "vand", "vor", "vnot", "vshls", "vshrs", "vfloor", "vceil", "vrint", "vtrunc",
    "copy_gm_ub_at", "load_fb", "fixpipe_nd_scale", "fixpipe_nz_scale", "vreducev2", "vaddrelu", "vaddreluconv", "vgather",
    "vcgmax", "vcgmin", "vcgadd")
(COPY_GM_L1, ND2NZ, LOAD_L0A, LOAD_L0B, LOAD3D, LOAD_BT, MMAD, MMAD_BIAS, FIXPIPE_ND, FIXPIPE_NZ, COPY_GM_UB, COPY_UB_GM, COPY_L0C_UB,
 COPY_UB_L1, VADD, VSUB, VMUL, VDIV, VMAX, VMIN, VADDS, VMULS, VMAXS, VMINS, VEXP, VLN, VSQRT, VRSQRT, VREC, VABS, VRELU, VCOPY, VCONV,
 VDUP, VCMAX, VCMIN, VCADD, VBRCB, VNCHWCONV, VCMP, VCMPS, VSEL, VSELS, VAND, VOR, VNOT, VSHLS, VSHRS, VFLOOR, VCEIL, VRINT,
 VTRUNC, COPY_GM_UB_AT, LOAD_FB, FIXPIPE_ND_SCALE, FIXPIPE_NZ_SCALE, VREDUCEV2, VADDRELU, VADDRELUCONV,
 VGATHER, VCGMAX, VCGMIN, VCGADD) = range(len(OPS))
LT, GT, EQ, LE, GE, NE = range(6)  # modes of vcmp and vcmps

DTYPES = ("fp32", "fp16", "bf16", "int8", "uint8", "int32", "bool", "int16", "uint16", "uint32", "int64", "uint64")
FP32, FP16, BF16, INT8, UINT8, INT32, BOOL, INT16, UINT16, UINT32, INT64, UINT64 = range(len(DTYPES))
POISON = 0xFF  # a NaN in fp32, fp16 and bf16 alike: what nothing has written shows in the result
BLOCK = 32
REPEAT = 64  # fp32 lanes of a repeat
STACK = 64  # values that an expression may keep at once

EXPR_OPS = (
    "const", "var", "+", "-", "*", "//", "%", "==", "!=", "<", "<=", ">", ">=", "and", "or", "min", "max", "ceildiv", "select", "not",
    "abs")
CODE_OPS = ("halt", "loop", "end", "instr", "cross_set", "cross_wait", "advance", "begin")
FIXED, VARIABLE, SUM, POSTFIX = range(4)  # how an expression is written: a number, a variable, a sum of multiples of them, all others
DONE, BLOCKED, STUCK = 0, 1, 2  # stuck: waits, and has done nothing since it was called
# what stopped a core: kinds of the error row (kind, site, operand or field, value, bound)
ERRORS = ("", "limit", "slot", "range", "align", "relation", "division", "flag", "deadlock", "overflow", "steps", "stopped")
(E_LIMIT, E_SLOT, E_RANGE, E_ALIGN, E_RELATION, E_DIVISION, E_FLAG, E_DEADLOCK, E_OVERFLOW, E_STEPS,
 E_STOPPED) = range(1, len(ERRORS))
LOWEST = -2**63
LOOK = 1024  # steps between two looks at what may end a run early

# Nothing here makes an array, so that none is counted: the counts of references to views, atomic ones, took two thirds of a run's time.
_from_python, _jit = partial(entry, error_model="numpy"), inner
_inline = njit(cache=True, nogil=True, error_model="numpy", _nrt=False, inline="always")  # compiled once, in the caller

_MAGIC_HALF = np.uint32(113 << 23)  # smallest fp32 whose fp16 is normal
_DENORMAL = np.uint32(126 << 23)  # adding 0.5 aligns a subnormal's bits to the end of the mantissa
_DENORMAL_FLOAT = np.float32(0.5)
_TWO_112 = np.float32(2.0 ** 112)


# ---------------------------------------------------------------- words of the processor

# Numba makes vectors of a loop only where it can prove that nothing aliases, and keeps no tile of results in registers. These few words
# say both outright, and LLVM makes of them what the processor has. Each is given as Python, which is what it means and what runs where
# Numba is off, and as LLVM code. Places count elements of their arrays, and nobody checks them.

_I32, _I64, _FLOAT = ir.IntType(32), ir.IntType(64), ir.FloatType()


class Lanes(types.Type):
    """The type of so many fp32 numbers as one value."""

    def __init__(self, count):
        self.count = count
        super().__init__(name=f"lanes{count}")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, ir.VectorType(_FLOAT, kind.count))


def _word(count, result, code):
    """Return a decorator: the function as it stands where Numba is off, else `code` (context, builder, types, values) for its `count`
    arguments, with a type `result` (argument types)."""
    def choose(python):
        if config.DISABLE_JIT:
            return python

        def define(kinds):
            def build(context, builder, signature, values):
                made = code(context, builder, signature.args, values)
                return context.get_dummy_value() if made is None else made
            numbers = [types.float32 if isinstance(k, types.Float) else types.intp for k in kinds]
            given = [k if isinstance(k, (types.Array, Lanes)) else number for k, number in zip(kinds, numbers)]
            return result(*kinds)(*given), build

        shapes = {0: lambda typing: define([]), 1: lambda typing, a: define([a]), 2: lambda typing, a, b: define([a, b]),
                  3: lambda typing, a, b, c: define([a, b, c]), 4: lambda typing, a, b, c, d: define([a, b, c, d]),
                  5: lambda typing, a, b, c, d, e: define([a, b, c, d, e])}
        return intrinsic(shapes[count])
    return choose


def _vector(count, element=_FLOAT):
    return ir.VectorType(element, count)


def _pointer(context, builder, kinds, values, i, lanes):
    """Return a pointer to `lanes` numbers at place values[i + 1] of the array values[i]."""
    base = context.make_array(kinds[i])(context, builder, value=values[i]).data
    return builder.bitcast(builder.gep(base, [values[i + 1]]), _vector(lanes).as_pointer())


def _call(builder, name, result, *values):
    """Return a call of LLVM's own function."""
    kind = ir.FunctionType(result, [v.type for v in values])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), values)


def _loader(count):
    return lambda context, builder, kinds, values: builder.load(_pointer(context, builder, kinds, values, 0, count), align=1)


def _store(context, builder, kinds, values):
    builder.store(values[2], _pointer(context, builder, kinds, values, 0, kinds[2].count), align=1)


def _first(builder, n):
    """Return a mask of the first n lanes of a repeat."""
    lanes = _vector(REPEAT, _I32)
    count = _shuffle(builder, builder.insert_element(ir.Constant(lanes, ir.Undefined), builder.trunc(n, _I32), _I32(0)), [0] * REPEAT)
    return builder.icmp_signed("<", ir.Constant(lanes, list(range(REPEAT))), count)


def _shuffle(builder, x, order, y=None):
    """Return lanes of x, or of x and y behind it, in an order."""
    return builder.shuffle_vector(x, ir.Constant(x.type, ir.Undefined) if y is None else y, ir.Constant(_vector(len(order), _I32), order))


def _load_some(context, builder, kinds, values):
    p = _pointer(context, builder, kinds, values, 0, REPEAT)
    return _call(builder, f"llvm.masked.load.v{REPEAT}f32.p0", _vector(REPEAT), p, _I32(1), _first(builder, values[2]),
                 ir.Constant(_vector(REPEAT), None))


def _store_some(context, builder, kinds, values):
    p = _pointer(context, builder, kinds, values, 0, REPEAT)
    _call(builder, f"llvm.masked.store.v{REPEAT}f32.p0", ir.VoidType(), values[3], p, _I32(1), _first(builder, values[2]))


def _splat(count):
    def code(context, builder, kinds, values):
        one = builder.insert_element(ir.Constant(_vector(count), ir.Undefined), values[0], _I32(0))
        return _shuffle(builder, one, [0] * count)
    return code


def _spread(context, builder, kinds, values):
    return _shuffle(builder, builder.load(_pointer(context, builder, kinds, values, 0, 8), align=1), list(range(8)) * (REPEAT // 8))


def _of_lanes(name):
    """Return the code of a function of lanes that LLVM itself has."""
    def code(context, builder, kinds, values):
        return _call(builder, f"llvm.{name}.v{kinds[0].count}f32", values[0].type, *values)
    return code


def _extreme(sign):
    """Return the code of `larger` or `smaller`, lane by lane."""
    def code(context, builder, kinds, values):
        a, b = values
        return builder.select(builder.or_(builder.fcmp_ordered(sign, a, b), builder.fcmp_unordered("uno", a, a)), a, b)
    return code


def _turn(context, builder, kinds, values):
    """Transpose in three rounds. They swap squares of 1, 2 and 4 across the diagonal of each half."""
    base, step = context.make_array(kinds[0])(context, builder, value=values[0]).data, values[2]

    def row(j):
        at = builder.gep(base, [builder.add(values[1], builder.mul(step, _I64(j)))])
        return builder.load(builder.bitcast(at, _vector(8).as_pointer()), align=1)
    rows = [_shuffle(builder, row(j), list(range(16)), row(j + 8)) for j in range(8)]
    for s in (1, 2, 4):
        low, high = ([x + 16 - s if x & s else x for x in range(16)], [x + 16 if x & s else x + s for x in range(16)])
        for i in (i for i in range(8) if not i & s):
            a, b = rows[i], rows[i | s]
            rows[i], rows[i | s] = _shuffle(builder, a, low, b), _shuffle(builder, a, high, b)
    to = _pointer(context, builder, kinds, values, 3, 16)
    for q in range(8):
        builder.store(rows[q], builder.gep(to, [_I64(q)]), align=1)


def _move(context, builder, kinds, values):
    to, at = (context.make_array(kinds[i])(context, builder, value=values[i]).data for i in (0, 2))
    size = context.get_abi_sizeof(context.get_data_type(kinds[0].dtype))
    cgutils.raw_memmove(builder, builder.gep(to, [values[1]]), builder.gep(at, [values[3]]), values[4], size, align=1)


def _move_block(context, builder, kinds, values):
    words = _vector(4, _I64).as_pointer()
    to, at = (builder.gep(context.make_array(kinds[i])(context, builder, value=values[i]).data, [values[i + 1]]) for i in (0, 2))
    builder.store(builder.load(builder.bitcast(at, words), align=1), builder.bitcast(to, words), align=1)


def _flood(context, builder, kinds, values):
    array = context.make_array(kinds[0])(context, builder, value=values[0])
    size = context.get_abi_sizeof(context.get_data_type(kinds[0].dtype))
    cgutils.memset(builder, array.data, builder.mul(array.nitems, _I64(size)), builder.trunc(values[1], ir.IntType(8)))


_nothing = lambda *kinds: types.none  # noqa: E731
_same = lambda *kinds: kinds[0]  # noqa: E731


@_word(0, lambda: types.int64, lambda context, builder, kinds, values: _call(builder, "llvm.readcyclecounter", _I64))
def clock():
    """Return the processor's time stamp, in ticks of its own; always 0 where Numba is off."""
    return 0


def _load_now(context, builder, kinds, values):
    base = context.make_array(kinds[0])(context, builder, value=values[0]).data
    return builder.load_atomic(builder.gep(base, [values[1]]), "monotonic", 8)


@_word(2, lambda *kinds: types.int64, _load_now)
def load_now(v, at):
    """Return v[at] of an int64 array that another thread may write. It is read anew at each call."""
    return int(v[at])


@_word(2, lambda *kinds: Lanes(16), _loader(16))
def load16(v, at):
    """Return 16 lanes from v[at:]."""
    return v[at:at + 16].copy()


@_word(2, lambda *kinds: Lanes(REPEAT), _loader(REPEAT))
def load64(v, at):
    """Return a repeat from v[at:]."""
    return v[at:at + REPEAT * 4 // v.itemsize].copy()


@_word(3, lambda *kinds: Lanes(REPEAT), _load_some)
def load_some(v, at, n):
    """Return a repeat with n lanes from v[at:], and zeros behind."""
    return np.concatenate((v[at:at + n], np.zeros(REPEAT - n, np.float32)))


@_word(2, lambda *kinds: Lanes(REPEAT), _spread)
def spread64(v, at):
    """Return a repeat of eight times the block at v[at:]."""
    return np.tile(v[at:at + 8], REPEAT // 8)


@_word(3, _nothing, _store)
def store(v, at, x):
    """Writes all lanes to v[at:]."""
    v[at:at + x.size] = x


@_word(4, _nothing, _store_some)
def store_some(v, at, n, x):
    """Writes the first n lanes of a repeat to v[at:]."""
    v[at:at + n] = x[:n]


@_word(1, lambda *kinds: Lanes(16), _splat(16))
def splat16(x):
    """Return 16 lanes of one number."""
    return np.full(16, x, np.float32)


@_word(1, lambda *kinds: Lanes(REPEAT), _splat(REPEAT))
def splat64(x):
    """Return a repeat of one number."""
    return np.full(REPEAT, x, np.float32)


@_word(3, _same, _of_lanes("fmuladd"))
def muladd(a, b, c):
    """Return a * b + c, rounded once or twice, depending on the processor."""
    return a * b + c


@_word(2, _same, lambda context, builder, kinds, values: builder.fadd(*values))
def add(a, b):
    """Return a + b."""
    return a + b


@_word(2, _same, lambda context, builder, kinds, values: builder.fsub(*values))
def subtract(a, b):
    """Return a - b."""
    return a - b


@_word(2, _same, lambda context, builder, kinds, values: builder.fmul(*values))
def multiply(a, b):
    """Return a * b."""
    return a * b


@_word(2, _same, lambda context, builder, kinds, values: builder.fdiv(*values))
def divide(a, b):
    """Return a / b."""
    return a / b


@_word(2, _same, _extreme(">"))
def larger_lanes(a, b):
    """Return the greater of two; NaN if either is."""
    return np.where((a > b) | (a != a), a, b)


@_word(2, _same, _extreme("<"))
def smaller_lanes(a, b):
    """Return the lesser of two; NaN if either is."""
    return np.where((a < b) | (a != a), a, b)


@_word(1, _same, _of_lanes("sqrt"))
def root(a):
    """Return the square root."""
    return np.sqrt(a)


@_word(1, _same, _of_lanes("fabs"))
def absolute(a):
    """Return the absolute value of a."""
    return np.abs(a)


@_word(5, _nothing, _turn)
def turn(v, at, step, out, to):
    """Transpose 16 rows of eight lanes, `step` apart from v[at:], into eight contiguous rows of 16 at out[to:]."""
    for j in range(16):
        out[to + j:to + 128:16] = v[at + j * step:at + j * step + 8]


@_word(5, _nothing, _move)
def move(dst, d, src, s, n):
    """Copy n elements from src[s:] to dst[d:], arrays of one dtype."""
    dst[d:d + n] = src[s:s + n]


@_word(2, _nothing, _flood)
def flood(v, byte):
    """Set every byte of a contiguous array to `byte`."""
    v.view(np.uint8)[:] = byte


@_word(4, _nothing, _move_block)
def move_block(dst, d, src, s):
    """Copy a block of 32 bytes from src[s:] to dst[d:], arrays of one dtype."""
    dst[d:d + BLOCK // dst.itemsize] = src[s:s + BLOCK // src.itemsize]


# ---------------------------------------------------------------- fp16 and bf16 as uint16

@_from_python
def half_to_float(h):
    """Return the fp32 value of fp16 bits."""
    low = np.uint32(h) & np.uint32(0x7FFF)
    sign = np.uint32((np.uint32(h) & np.uint32(0x8000)) << np.uint32(16))
    moved = np.uint32(low << np.uint32(13))
    scaled = np.float32(moved.view(np.float32) * _TWO_112).view(np.uint32)
    bits = np.uint32(moved | np.uint32(0x7F800000)) if low >= np.uint32(0x7C00) else scaled
    return np.uint32(bits | sign).view(np.float32)


@_from_python
def float_to_half(x):
    """Return the fp16 bits of an fp32 value. It is rounded to nearest even, overflow becomes infinity, and NaN a quiet NaN."""
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
    """Return the fp32 value of bf16 bits."""
    return np.uint32(np.uint32(h) << np.uint32(16)).view(np.float32)


@_from_python
def float_to_bfloat(x):
    """Return the bf16 bits of an fp32 value. It is rounded to nearest even, overflow becomes infinity, and NaN a quiet NaN."""
    bits = np.float32(x).view(np.uint32)
    if (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000):
        return np.uint16((bits >> np.uint32(16)) | np.uint32(0x40))
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    return np.uint16(np.uint32(bits + np.uint32(0x7FFF) + odd) >> np.uint32(16))


@_jit
def size_of(dtype):
    """Return bytes of an element."""
    if dtype == FP32 or dtype == INT32 or dtype == UINT32:
        return 4
    if dtype == INT64 or dtype == UINT64:
        return 8
    return 2 if dtype == FP16 or dtype == BF16 or dtype == INT16 or dtype == UINT16 else 1


@_jit
def is_whole(dtype):
    """Return whether elements are whole numbers."""
    return dtype >= INT8


@_jit
def load_whole(mem, dtype, at):
    """Return a whole number as int64; the bits of a uint64."""
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
    """Return `x` rounded toward zero and clamped to [low, high]. NaN gives 0, as in a cast on the vector unit."""
    if x != x:
        return 0
    return int(min(max(np.float64(x), np.float64(low)), np.float64(high)))


@_jit
def cut_off(dtype, x):
    """Return the bits, as int64, of a cast of a real to this dtype. The real is rounded toward zero and clamped; NaN gives 0."""
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
def to_fp32(dtype, v):
    """Return the fp32 nearest to a whole number that `load_whole` gave."""
    return np.float32(np.uint64(v)) if dtype == UINT64 else np.float32(v)


@_jit
def load_one(mem, dtype, at):
    """Return the fp32 value of one element of a rarer dtype."""
    if dtype == BF16: return bfloat_to_float(mem[1][at // 2])
    return to_fp32(dtype, load_whole(mem, dtype, at))


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
        move(out, o, mem[2], at // 4, n)
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
        move(mem[2], at // 4, src, 0, n)
    else:
        size = size_of(dtype)
        for i in range(n):
            store_one(mem, dtype, at + i * size, src[i])


@_jit
def add_one(to, t, mem, dtype, at):
    """Add the element at byte `at` of mem to the one at byte `t` of `to`. The sum is rounded once; int32 wraps."""
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
def move_bytes(dst, d, src, s, n):
    """Copy n bytes that do not overlap from src[s:] to dst[d:]. A library's copy of some kilobytes starts slowly, and long runs are
    rare."""
    i = 0
    while i + 256 <= n:
        store(dst, d + i, load64(src, s + i))
        i += 256
    if i < n:
        move(dst, d + i, src, s + i, n - i)


@_jit
def copy_bursts(dst, d, src, s, bursts, length, dst_step, src_step):
    """Copy `bursts` runs of `length` bytes. Steps are in bytes, from start to start."""
    if length == dst_step and length == src_step:
        move_bytes(dst, d, src, s, bursts * length)
    elif length == BLOCK:
        for b in range(bursts):
            move_block(dst, d + b * dst_step, src, s + b * src_step)
    else:
        for b in range(bursts):
            move_bytes(dst, d + b * dst_step, src, s + b * src_step, length)


@_jit
def place_of(mem, dtype, at, extent):
    """Return the index that lies at byte `at`, from 0 to extent - 1: a negative one counts from the end, one beyond is the nearest."""
    index = np.int64(mem[3][at // 4]) if dtype == INT32 else np.int64(mem[5][at // 8])
    return min(max(index + extent if index < 0 else index, 0), extent - 1)


@_jit
def add_bursts(to, d, mem, s, dtype, bursts, length, dst_step, src_step):
    """Add bursts to their target. Bursts and steps are those of `copy_bursts`."""
    for b in range(bursts):
        for i in range(0, length, size_of(dtype)):
            add_one(to, d + b * dst_step + i, mem, dtype, s + b * src_step + i)


@_jit
def copy_nd2nz(dst, d, src, s, rows, cols, row_step, dst_rows, size):
    """Copy rows x cols from rows of `row_step` bytes to [column block][dst_rows][32 bytes]. The last block is filled with zeros."""
    width = cols * size
    whole_blocks = width // BLOCK * BLOCK
    for r in range(rows):
        at, to = s + r * row_step, d + r * BLOCK
        for c in range(0, whole_blocks, BLOCK):
            move_block(dst, to + c * dst_rows, src, at + c)
        if whole_blocks < width:
            last = to + whole_blocks * dst_rows
            dst[last:last + BLOCK] = 0
            move(dst, last, src, at + whole_blocks, width - whole_blocks)


@_jit
def load_fractals(mem, d, s, repeat, src_stride, dst_gap, transpose):
    """Copy `repeat` fractals of 512 bytes. Where `transpose` is set, each is transposed as 16 x 16 elements of two bytes."""
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
    """Return bytes of a pixel as load3d reads an image: a block, or where it has just four channels of two bytes, these."""
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
    first_row, first_column = m_start // wide, m_start % wide
    for p in range(columns * each):
        tap = k_start * size // pixel + p
        kw, kh, plane = tap % filter_w, tap // filter_w % filter_h, tap // (filter_w * filter_h)
        to = (d + p // each * 16 * BLOCK) // 8 + p % each * words
        i, oh, ow = 0, first_row, first_column
        while i < m_size:
            y, x = oh * stride_h + kh * dilation_h - top, ow * stride_w + kw * dilation_w - left
            there = oh < high and plane < planes
            row = there and 0 <= y < h
            blank = padding if there else np.uint64(0)
            at = (s + (plane * h + y) * w * pixel) // 8
            stop = min(m_size, i + wide - ow)
            while i < stop:
                t = to + (i // 16 * columns * 16 + i % 16) * 4
                inside = row and 0 <= x < w
                if words == 4 and inside and stride_w == 1:  # pixels side by side, as far as the image and the fractal go
                    n = min(stop - i, 16 - i % 16, w - x)
                    move(v64, t, v64, at + x * 4, n * 4)
                    i, x = i + n, x + n
                    continue
                if words == 4 and inside:
                    move_block(v64, t, v64, at + x * 4)
                else:
                    for q in range(words):
                        v64[t + q] = v64[at + x * words + q] if inside else blank
                i, x = i + 1, x + stride_w
            oh, ow = oh + 1, 0


# ---------------------------------------------------------------- cube

@_inline
def tile_pair(a, at, c0, k, b, b0, b1, c, d0, d1):
    """Add eight rows of a times two panels of b to c, with sums in registers.

    a[at:] holds rows of fractals, c0 columns wide. b[b0:] and b[b1:] are panels [k, 16]. c[d0:] and c[d1:] are eight rows of 16 each.
    """
    c00, c10, c20, c30 = load16(c, d0), load16(c, d0 + 16), load16(c, d0 + 32), load16(c, d0 + 48)
    c40, c50, c60, c70 = load16(c, d0 + 64), load16(c, d0 + 80), load16(c, d0 + 96), load16(c, d0 + 112)
    c01, c11, c21, c31 = load16(c, d1), load16(c, d1 + 16), load16(c, d1 + 32), load16(c, d1 + 48)
    c41, c51, c61, c71 = load16(c, d1 + 64), load16(c, d1 + 80), load16(c, d1 + 96), load16(c, d1 + 112)
    p = 0
    while p < k:
        i, stop = at, min(k, p + c0)
        while p < stop:
            x, y = load16(b, b0 + p * 16), load16(b, b1 + p * 16)
            v, w = splat16(a[i]), splat16(a[i + c0])
            c00, c01, c10, c11 = muladd(v, x, c00), muladd(v, y, c01), muladd(w, x, c10), muladd(w, y, c11)
            v, w = splat16(a[i + 2 * c0]), splat16(a[i + 3 * c0])
            c20, c21, c30, c31 = muladd(v, x, c20), muladd(v, y, c21), muladd(w, x, c30), muladd(w, y, c31)
            v, w = splat16(a[i + 4 * c0]), splat16(a[i + 5 * c0])
            c40, c41, c50, c51 = muladd(v, x, c40), muladd(v, y, c41), muladd(w, x, c50), muladd(w, y, c51)
            v, w = splat16(a[i + 6 * c0]), splat16(a[i + 7 * c0])
            c60, c61, c70, c71 = muladd(v, x, c60), muladd(v, y, c61), muladd(w, x, c70), muladd(w, y, c71)
            i, p = i + 1, p + 1
        at += 16 * c0
    store(c, d0, c00), store(c, d0 + 16, c10), store(c, d0 + 32, c20), store(c, d0 + 48, c30)
    store(c, d0 + 64, c40), store(c, d0 + 80, c50), store(c, d0 + 96, c60), store(c, d0 + 112, c70)
    store(c, d1, c01), store(c, d1 + 16, c11), store(c, d1 + 32, c21), store(c, d1 + 48, c31)
    store(c, d1 + 64, c41), store(c, d1 + 80, c51), store(c, d1 + 96, c61), store(c, d1 + 112, c71)


@_inline
def tile_single(a, at, c0, k, b, b0, c, d):
    """Add eight rows of a times one panel of b to c, as `tile_pair` does for two panels."""
    c0x, c1x, c2x, c3x = load16(c, d), load16(c, d + 16), load16(c, d + 32), load16(c, d + 48)
    c4x, c5x, c6x, c7x = load16(c, d + 64), load16(c, d + 80), load16(c, d + 96), load16(c, d + 112)
    p = 0
    while p < k:
        i, stop = at, min(k, p + c0)
        while p < stop:
            x = load16(b, b0 + p * 16)
            c0x, c1x = muladd(splat16(a[i]), x, c0x), muladd(splat16(a[i + c0]), x, c1x)
            c2x, c3x = muladd(splat16(a[i + 2 * c0]), x, c2x), muladd(splat16(a[i + 3 * c0]), x, c3x)
            c4x, c5x = muladd(splat16(a[i + 4 * c0]), x, c4x), muladd(splat16(a[i + 5 * c0]), x, c5x)
            c6x, c7x = muladd(splat16(a[i + 6 * c0]), x, c6x), muladd(splat16(a[i + 7 * c0]), x, c7x)
            i, p = i + 1, p + 1
        at += 16 * c0
    store(c, d, c0x), store(c, d + 16, c1x), store(c, d + 32, c2x), store(c, d + 48, c3x)
    store(c, d + 64, c4x), store(c, d + 80, c5x), store(c, d + 96, c6x), store(c, d + 112, c7x)


@_jit
def panels(v, at, k, n, c0, out):
    """Copy ZN fractals at v[at:] to panels of 16 columns, [n / 16][k in whole fractals][16]."""
    columns, depth = (n + 15) // 16, (k + c0 - 1) // c0 * c0
    for j in range(columns):
        for p in range(0, depth, c0):
            for q in range(0, c0, 8):
                turn(v, at + (p // c0 * columns + j) * 16 * c0 + q, c0, out, (j * depth + p + q) * 16)


@_jit
def start(v, to, bias, m, n, rows):
    """Fills the m x n results at v[to:], in columns of fractals of so many rows, with zeros or a row of biases at v[bias:]."""
    for j in range(0, n, 16):
        wide = min(16, n - j)
        if wide == 16:
            x = load16(v, bias + j) if bias >= 0 else splat16(np.float32(0))
            for i in range(m):
                store(v, to + j * rows + i * 16, x)
            continue
        for i in range(m):
            for q in range(wide):
                v[to + j * rows + i * 16 + q] = v[bias + j + q] if bias >= 0 else np.float32(0)


@_jit
def patch(dst, d, dst_plane, src, s, src_plane, m, n):
    """Copies m x n results (at most 8 x 32) between columns of fractals whose starts lie `dst_plane` and `src_plane` apart."""
    for j in range(0, n, 16):
        for i in range(m):
            move(dst, d + j // 16 * dst_plane + i * 16, src, s + j // 16 * src_plane + i * 16, min(16, n - j))


@_jit
def product(a, at, b, c, to, m, n, k, c0, rows, part):
    """Add A @ B to c. a[at:] holds ZZ fractals of A, b panels of B, and c[to:] columns of fractals of so many rows. `part` is scratch.

    Tiles have eight rows and 32 columns. A tile that exceeds m or n is summed in `part`, so that nothing is written beyond m and n.
    """
    depth = (k + c0 - 1) // c0 * c0
    for j in range(0, n, 32):
        wide, b0, b1 = min(32, n - j), j * depth, (j + 16) * depth
        for i in range(0, m, 8):
            row, d = at + i // 16 * 16 * depth + i % 16 * c0, to + j * rows + i * 16
            v, d0, d1 = c, d, d + rows * 16
            over = m - i < 8 or wide % 16 != 0
            if over:
                v, d0, d1 = part, 0, 128
                patch(part, 0, 128, c, d, rows * 16, min(8, m - i), wide)
            if wide > 16:
                tile_pair(a, row, c0, k, b, b0, b1, v, d0, d1)
            else:
                tile_single(a, row, c0, k, b, b0, v, d0)
            if over:
                patch(c, d, rows * 16, part, 0, 128, min(8, m - i), wide)


@_jit
def mmad_float(mem, at, dtype, f, bias, sa, sb, sc, flat):
    """Set L0C to (init ? 0 or bias : L0C) + A @ B in fp32. `bias` is a byte address or -1."""
    m, n, k, init = f[0], f[1], f[2], f[3]
    if m * n * k == 0:
        return
    rows, c0 = (m + 15) // 16 * 16, BLOCK // size_of(dtype)
    depth = (k + c0 - 1) // c0 * c0
    v, to, a, at_a, b, at_b = mem[2], at[0] // 4, mem[2], at[1] // 4, mem[2], at[2] // 4
    if dtype != FP32:
        load_run(mem, dtype, at[1], rows * depth, sa, 0)
        load_run(mem, dtype, at[2], depth * ((n + 15) // 16 * 16), flat, 0)
        a, at_a, b, at_b = sa, 0, flat, 0
    if init:
        start(v, to, bias // 4 if bias >= 0 else -1, m, n, rows)
    panels(b, at_b, k, n, c0, sb)
    product(a, at_a, sb, v, to, m, n, k, c0, rows, sc)


@_jit
def mmad_int(mem, at, f, bias):
    """Set L0C to (init ? 0 or bias : L0C) + A @ B for int8 inputs and int32 sums."""
    m, n, k, init = f[0], f[1], f[2], f[3]
    if m * n * k == 0:
        return
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
    """Run `fixpipe` from int32 to int32, exactly."""
    src, dst = mem[3], gm[3]
    for j in range(f[1]):
        for i in range(f[0]):
            v = src[s // 4 + (j // 16 * f[2] + i) * 16 + j % 16]
            to = j // 8 * f[3] + i * 8 + j % 8 if nz else i * f[3] + j
            v = max(v, np.int32(0)) if f[4] else v
            dst[d // 4 + to] = np.int32(dst[d // 4 + to] + v) if f[6] else v


@_inline
def some_lanes(dst, d, src, s, n):
    """Copy n fp32 numbers, mostly 16 or 8, from src[s:] to dst[d:]."""
    if n == 16:
        store(dst, d, load16(src, s))
    elif n == 8:
        move_block(dst, d, src, s)
    else:
        move(dst, d, src, s, n)


@_jit
def fixpipe(gm, mem, d, s, dtype, f, nz, line):
    """Write fp32 from L0C to GM with a cast and relu. The output is rows that start dst_stride elements apart, or planes of C0 columns.
    `line` is scratch of L0C's size."""
    m, n, src_rows, dst_stride, relu = f[0], f[1], f[2], f[3], f[4]
    if m * n == 0:
        return
    size = size_of(dtype)
    width = BLOCK // size if nz else n
    rows = m if nz else 1  # what is contiguous in GM: a whole plane, or one row
    for j in range(0, n, width):
        for i in range(0, m, rows):
            for r in range(rows):
                at = s // 4 + (j // 16 * src_rows + i + r) * 16 + j % 16
                for q in range(0, width, 16):
                    some_lanes(line, r * width + q, mem[2], at + q * src_rows, min(16, width - q))
            if relu:
                for q in range(rows * width):
                    line[q] = larger(line[q], np.float32(0))
            to = d + (j // width * dst_stride if nz else i * dst_stride) * size
            if f[6]:
                add_run(gm, dtype, to, rows * width, line)
            else:
                store_run(gm, dtype, to, rows * width, line)


@_jit
def fill_behind(mem, d, dtype, bursts, length, step, pad):
    """Fill the rest of the last block of each burst with `pad`, or with the burst's first element where `pad` is NaN. Positions,
    lengths and steps are in bytes."""
    size, end = size_of(dtype), (length + BLOCK - 1) // BLOCK * BLOCK
    begin = (length + size - 1) // size * size  # whole elements alone: a part of one stays what it is
    for b in range(bursts):
        first = d + b * step
        if pad == pad and begin < end:
            if is_whole(dtype):
                store_whole(mem, dtype, first + begin, cut_off(dtype, pad))
            else:
                store_one(mem, dtype, first + begin, np.float32(pad))
        for i in range(begin + size if pad == pad else begin, end, size):
            for q in range(size):
                mem[0][first + i + q] = mem[0][first + (begin if pad == pad else 0) + q]


@_jit
def fixpipe_scale(gm, mem, d, s, scales, f, nz):
    """Write int32 from L0C to int8 in GM. A value gets relu, is multiplied by the scale of its column and rounded. Then the zero point
    is added, and the result is clamped. A column's word holds a scale in fp32, of whose fraction ten bits count, and in bits 37-45 the
    zero point."""
    src, dst = mem[3], gm[4]
    for j in range(f[1]):
        scale = np.uint32(mem[5][scales // 8 + j] & np.uint64(0xFFFFE000)).view(np.float32)
        low = np.int64(mem[5][scales // 8 + j] >> np.uint64(37)) & 511
        zero = np.float32(low - 512 if low > 255 else low)
        for i in range(f[0]):
            v = src[s // 4 + (j // 16 * f[2] + i) * 16 + j % 16]
            v = max(v, np.int32(0)) if f[4] else v
            whole = np.rint(np.float32(np.float32(v) * scale)) + zero
            to = j // 32 * f[3] + i * 32 + j % 32 if nz else i * f[3] + j
            dst[d + to] = np.int8(0) if whole != whole else np.int8(min(max(whole, np.float32(-128)), np.float32(127)))


@_jit
def drain(mem, d, s, dtype, f, line):
    """Run copy_l0c_ub: copy runs of fractals from L0C to UB with a cast and relu. int32 stays as it is. `line` is scratch of L0C's
    size."""
    step, size = f[1] * 256, size_of(dtype)
    for b in range(f[0]):
        at, to = s + b * (f[1] + f[2]) * 1024, d + b * (step * size + f[3] * BLOCK)
        if dtype == INT32:
            for i in range(step):
                v = mem[3][at // 4 + i]
                mem[3][to // 4 + i] = max(v, np.int32(0)) if f[4] else v
            continue
        move(line, 0, mem[2], at // 4, step)
        if f[4]:
            for i in range(step):
                line[i] = larger(line[i], np.float32(0))
        store_run(mem, dtype, to, step, line)


# ---------------------------------------------------------------- vector

@_jit
def larger(a, b):
    """Return the greater one; NaN if either is."""
    return a if a > b or a != a else b


@_jit
def smaller(a, b):
    """Return the lesser one; NaN if either is."""
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
def round_scalar(x, dtype):
    """Return the scalar operand as the instruction sees it: rounded to the dtype of the elements."""
    y = np.float32(x)
    if dtype == FP16:
        return half_to_float(float_to_half(y))
    return bfloat_to_float(float_to_bfloat(y)) if dtype == BF16 else y


@_jit
def combine(op, x, y, n):
    """Set x[i] to op(x[i], y[i]) in fp32. `op` is a binary word or one with a scalar."""
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
    elif op >= VADDRELU:
        for i in range(n):
            x[i] = larger(x[i] + y[i], np.float32(0))
    else:
        for i in range(n):
            x[i] = smaller(x[i], y[i])


@_jit
def transform(op, x, n):
    """Set x[i] to op(x[i]). exp and ln are computed in double, the rest in fp32. Casts and copies leave x as it is."""
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
    """Return the sum (from the first element to the last), greatest or least of x[:n] in fp32."""
    total = x[0]
    for i in range(1, n):
        if op == VCADD or op == VCGADD:
            total = np.float32(total + x[i])
        else:
            total = larger(total, x[i]) if op == VCMAX or op == VCGMAX else smaller(total, x[i])
    return total


@_jit
def gather(v, at, blk, n, out):
    """Copy n lanes to `out` from blocks that start `blk` blocks apart."""
    whole_blocks = n // 8 * 8
    for b in range(0, whole_blocks, 8):
        move_block(out, b, v, at + b * blk)
    if whole_blocks < n:
        move(out, whole_blocks, v, at + whole_blocks * blk, n - whole_blocks)


@_jit
def scatter(v, at, blk, n, src):
    """Copy n lanes of `src` to blocks that start `blk` blocks apart: the inverse of `gather`."""
    for b in range(0, n, 8):
        some_lanes(v, at + b * blk, src, b, min(8, n - b))


@_inline
def lanes_at(v, at, blk, n, out):
    """Return n lanes, in blocks that start `blk` blocks apart, as a repeat. `out` is scratch."""
    if blk == 1:
        return load64(v, at) if n == REPEAT else load_some(v, at, n)
    if blk == 0 and n >= 8:
        return spread64(v, at)
    gather(v, at, blk, n, out)
    return load64(out, 0)


@_jit
def vector_fp32(op, v, at, f, scalar, x, y):
    """Run those vector instructions of `vector` that use fp32 only and that the processor has, a repeat at a time."""
    two = has_pair(op)
    dst_step, src_step, y_step, y_blk = f[4] * 8, f[5] * 8, 0, 1
    if two:
        dst_step, src_step, y_step, y_blk = f[5] * 8, f[6] * 8, f[7] * 8, f[4]
    elif op == VDUP:
        dst_step, src_step = f[3] * 8, 0
    to, one, other = at[0] // 4, at[1] // 4, at[2] // 4
    b = splat64(np.float32(scalar))
    for r in range(f[1]):
        n = f[0] if r == f[1] - 1 else REPEAT
        a = b if op == VDUP else lanes_at(v, one + r * src_step, f[3], n, x)
        if two:
            b = lanes_at(v, other + r * y_step, y_blk, n, y)
        if op == VADD or op == VADDS:
            a = add(a, b)
        elif op == VSUB:
            a = subtract(a, b)
        elif op == VMUL or op == VMULS:
            a = multiply(a, b)
        elif op == VDIV:
            a = divide(a, b)
        elif op == VMAX or op == VMAXS:
            a = larger_lanes(a, b)
        elif op == VMIN or op == VMINS:
            a = smaller_lanes(a, b)
        elif op == VSQRT:
            a = root(a)
        elif op == VRSQRT:
            a = divide(splat64(np.float32(1)), root(a))
        elif op == VREC:
            a = divide(splat64(np.float32(1)), a)
        elif op == VABS:
            a = absolute(a)
        elif op == VRELU:
            a = larger_lanes(a, splat64(np.float32(0)))
        elif op == VADDRELU:
            a = larger_lanes(add(a, b), splat64(np.float32(0)))
        if f[2] != 1:
            store(x, 0, a)
            scatter(v, to + r * dst_step, f[2], n, x)
        elif n == REPEAT:
            store(v, to + r * dst_step, a)
        else:
            store_some(v, to + r * dst_step, n, a)


@_jit
def vector(op, mem, at, dt, f, scalar, x, y):
    """Run any arithmetic vector instruction, repeat after repeat. A repeat is read whole before it is written."""
    lanes, repeat, dst_size, src_size = f[0], f[1], size_of(dt[0]), size_of(dt[1])
    two, reduces = has_pair(op), VCMAX <= op <= VCADD
    if dt[0] == FP32 and dt[1] == FP32 and not reduces and op != VEXP and op != VLN:
        vector_fp32(op, mem[2], at, f, scalar, x, y)
        return
    dst_blk, src_blk, dst_step, src_step = f[2], f[3], f[4] * BLOCK, f[5] * BLOCK
    if two:
        dst_step, src_step = f[5] * BLOCK, f[6] * BLOCK
    elif op == VDUP:
        dst_step = f[3] * BLOCK
    elif reduces:
        dst_blk, dst_step, src_blk, src_step = 1, f[2] * dst_size, f[3], f[4] * BLOCK
    wide = 256 // max(dst_size, src_size)
    if VADDS <= op <= VMINS or op == VDUP:
        y[:wide] = round_scalar(scalar, dt[1])
    for r in range(repeat):
        n = lanes if r == repeat - 1 else wide
        if op == VDUP:
            x[:n] = np.float32(scalar)
        else:
            load_lanes(mem, dt[1], at[1] + r * src_step, src_blk, n, x, BLOCK // src_size)
        if two:
            load_lanes(mem, dt[2], at[2] + r * f[7] * BLOCK, f[4], n, y, BLOCK // src_size)
        if op <= VMINS or two:
            combine(op, x, y, n)
        elif reduces:
            x[0], n = fold(op, x, n), 1
        else:
            transform(op, x, n)
        store_lanes(mem, dt[0], at[0] + r * dst_step, dst_blk, n, x, BLOCK // dst_size)


# ---------------------------------------------------------------- vector: whole numbers, comparisons, roundings, selections

@_jit
def compare(mode, less, same):
    """Return 1 or 0: what a comparison of that mode makes of two values, where `less` and `same` say how they lie (neither: greater, or
    NaN)."""
    if mode == EQ: return same
    if mode == NE: return not same
    if mode == LT: return less
    return less or same  # LE


@_jit
def compare_reals(mode, x, y, n):
    """Set x[i] to 1 or 0, the result of comparing x[i] and y[i]. NaN is unequal to all."""
    for i in range(n):
        a, b = x[i], y[i]
        if mode == GT or mode == GE:
            a, b = b, a
        kind = LT if mode == GT else LE if mode == GE else mode
        x[i] = np.float32(1) if compare(kind, a < b, a == b) else np.float32(0)


@_jit
def compare_wholes(mode, xi, yi, flip, x, n):
    """Set x[i] to 1 or 0, the result of comparing xi[i] and yi[i]. `flip` is the sign bit where they are uint64."""
    for i in range(n):
        a, b = xi[i] ^ flip, yi[i] ^ flip
        if mode == GT or mode == GE:
            a, b = b, a
        kind = LT if mode == GT else LE if mode == GE else mode
        x[i] = np.float32(1) if compare(kind, a < b, a == b) else np.float32(0)


@_jit
def quotient(a, b, dtype):
    """Return a / b, rounded toward zero, or 0 where b is 0."""
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
    """Set xi[i] to op(xi[i], yi[i]) in whole numbers. The low bits are kept."""
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
    """Round x[i] down, up, to the nearest (ties to even) or toward zero."""
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
    """Return whether a word has two sources."""
    return op <= VMIN or op == VCMP or op == VAND or op == VOR or op >= VADDRELU


@_jit
def has_scalar(op):
    """Return whether a word has a source and a scalar, or a scalar alone."""
    return VADDS <= op <= VMINS or op == VDUP or op == VCMPS or op == VSHLS or op == VSHRS


@_jit
def vector_whole(op, mem, at, dt, f, scalar, x, y, xi, yi):
    """Run the vector instructions that `vector` does not: work on whole numbers, comparisons, roundings. A repeat is read whole before
    it is written."""
    lanes, repeat, dst_size, src_size = f[0], f[1], size_of(dt[0]), size_of(dt[1])
    two, ints = has_pair(op), is_whole(dt[1])
    compares = op == VCMP or op == VCMPS
    mode = f[8] if op == VCMP else f[6]
    dst_step, src_step = (f[5], f[6]) if two else (f[3], 0) if op == VDUP else (f[4], f[5])
    flip = np.int64(-9223372036854775807 - 1) if dt[1] == UINT64 else np.int64(0)
    wide = 256 // max(dst_size, src_size)
    if has_scalar(op):
        y[:wide] = round_scalar(scalar, dt[1])
        yi[:wide] = np.int64(scalar)
    for r in range(repeat):
        n = lanes if r == repeat - 1 else wide
        if op == VDUP:
            for i in range(n):
                xi[i] = yi[i]
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
        if ints and not compares and is_whole(dt[0]):
            if op == VCONV and dt[1] == INT32 and (dt[0] == INT16 or dt[0] == UINT16):
                low = np.int64(-32768) if dt[0] == INT16 else np.int64(0)
                for i in range(n):
                    xi[i] = min(max(xi[i], low), low + 65535)
            store_whole_lanes(mem, dt[0], to, f[2], n, xi)
            continue
        if ints and not compares:
            for i in range(n):
                x[i] = to_fp32(dt[1], xi[i])
        store_lanes(mem, dt[0], to, f[2], n, x, BLOCK // dst_size)


@_jit
def vector_select(op, mem, at, dt, f, scalar, x, bytes8):
    """Run vsel and vsels. Where src0 is not 0, dst gets the element of src1, else that of src2 or the scalar, bit for bit."""
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
                move(bytes8, i * size, mem[0], yes if x[i] != 0 else no, size)
            elif is_whole(dt[0]):
                for b in range(size):
                    bytes8[i * size + b] = np.uint8(np.int64(scalar) >> (8 * b))
            else:
                bits = np.uint32(np.float32(scalar).view(np.uint32)) if dt[0] == FP32 else np.uint32(float_to_half(np.float32(scalar)))
                for b in range(size):
                    bytes8[i * size + b] = np.uint8(bits >> np.uint32(8 * b))
        to = at[0] + r * (f[6] if three else f[5]) * BLOCK
        for b in range(0, n * size, BLOCK):
            move(mem[0], to + b // BLOCK * f[2] * BLOCK, bytes8, b, min(BLOCK, n * size - b))


@_jit
def vector_copy(mem, at, size, f, bytes8):
    """Copy src to dst, bit for bit, repeat after repeat."""
    for r in range(f[1]):
        n = f[0] * size if r == f[1] - 1 else 256
        for i in range(n):
            bytes8[i] = mem[0][at[1] + (r * f[5] + i // BLOCK * f[3]) * BLOCK + i % BLOCK]
        for i in range(n):
            mem[0][at[0] + (r * f[4] + i // BLOCK * f[2]) * BLOCK + i % BLOCK] = bytes8[i]


@_jit
def vector_broadcast(mem, at, size, f, bytes8):
    """Run vbrcb: each of 8 * repeat elements fills one block."""
    for r in range(f[0]):
        for i in range(8 * size):
            bytes8[i] = mem[0][at[1] + r * 8 * size + i]
        for b in range(8):
            for i in range(BLOCK):
                mem[0][at[0] + (r * f[2] + b * f[1]) * BLOCK + i] = bytes8[b * size + i % size]


@_jit
def vector_pack(mem, at, size, f):
    """Run vreducev2: copy f[0] elements of each of f[1] rows to contiguous places. It works in place too, since a row is read before
    its place is overwritten."""
    for r in range(f[1]):
        for i in range(f[0] * size):
            mem[0][at[0] + r * f[0] * size + i] = mem[0][at[1] + r * f[2] * BLOCK + i]


@_jit
def vector_gather(mem, at, size, f):
    """Run vgather: element e of dst is that of src at byte offset[e], or the last of f[3] bytes. Repeats of dst start f[2] blocks
    apart."""
    lanes, last = 256 // size, max(f[3] - size, 0)
    for r in range(f[1]):
        for e in range(f[0] if r == f[1] - 1 else lanes):
            offset = np.int64(np.uint32(mem[3][at[2] // 4 + r * lanes + e]))
            place = at[1] + min(offset, last) // size * size
            for i in range(size):
                mem[0][at[0] + r * f[2] * BLOCK + e * size + i] = mem[0][place + i]


@_jit
def vector_blocks(op, mem, at, dt, f, x, y):
    """Run vcgmax, vcgmin and vcgadd. Each block of a repeat gives one element. These are contiguous, and the next repeat starts eight
    times f[2] elements further."""
    size = size_of(dt[1])
    per = BLOCK // size
    for r in range(f[1]):
        n = f[0] if r == f[1] - 1 else 256 // size
        load_lanes(mem, dt[1], at[1] + r * f[4] * BLOCK, f[3], n, x, per)
        blocks = (n + per - 1) // per
        for b in range(blocks):
            y[b] = fold(op, x[b * per:], min(per, n - b * per))
        store_run(mem, dt[0], at[0] + r * f[2] * 8 * size, blocks, y)


@_jit
def vector_turn_fp32(v, at, f, x):
    """Run `vector_turn` for fp32: write eight rows of 16. The two blocks of a row start f[2] blocks apart."""
    for r in range(f[0]):
        turn(v, at[1] // 4 + r * f[5] * 8, f[3] * 8, x, 0)
        for j in range(8):
            to = at[0] // 4 + (r * f[4] + j * f[1]) * 8
            move_block(v, to, x, j * 16)
            move_block(v, to + f[2] * 8, x, j * 16 + 8)


@_jit
def vector_turn(mem, at, size, f, bytes8):
    """Run vnchwconv: transpose 16 rows of one block into 32 / size rows of 16 elements. For bytes, it transposes half a block into 16
    rows of half a block."""
    half, low, high = BLOCK // size, 0, 0
    if size == 1:
        half, low, high = 16, f[7] * 16, f[6] * 16
    for r in range(f[0]):
        for row in range(16):
            for i in range(low, low + half * size):
                bytes8[row * BLOCK + i] = mem[0][at[1] + (r * f[5] + row * f[3]) * BLOCK + i]
        for j in range(half):
            for row in range(16):
                to = at[0] + (r * f[4] + j * f[1] + (row * size // BLOCK) * f[2]) * BLOCK + row * size % BLOCK + high
                for i in range(size):
                    mem[0][to + i] = bytes8[row * BLOCK + low + j * size + i]


# ---------------------------------------------------------------- one instruction

@_inline
def step(op, f, scalar, at, dt, gm, mem, sa, sb, sc, flat, run, run2, bytes8, whole1, whole2):
    """Run one instruction with fields f, and with the byte addresses at and the dtypes dt of its operands. Bounds were checked before."""
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
        if padded > f[1]:
            fill_behind(mem, at[0], dt[0], f[0], f[1], padded + f[3] * BLOCK, scalar)
    elif op == COPY_GM_UB_AT:
        move(mem[0], at[0], gm[0], at[1] + place_of(mem, dt[2], at[2], f[2]) * f[1], f[0])
        fill_behind(mem, at[0], dt[0], 1, f[0], 0, np.nan)
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
    elif op <= VDUP and is_whole(dt[1]):
        vector_whole(op, mem, at, dt, f, scalar, run, run2, whole1, whole2)
    elif op == VGATHER:
        vector_gather(mem, at, size, f)
    elif op >= VCGMAX:
        vector_blocks(op, mem, at, dt, f, run, run2)
    elif op <= VCADD or op >= VADDRELU:
        vector(op, mem, at, dt, f, scalar, run, run2)
    elif op == VBRCB:
        vector_broadcast(mem, at, size, f, bytes8)
    elif op == VNCHWCONV:
        if size == 4:
            vector_turn_fp32(mem[2], at, f, run)
        else:
            vector_turn(mem, at, size, f, bytes8)
    elif op == VREDUCEV2:
        vector_pack(mem, at, size, f)
    elif op == VSEL or op == VSELS:
        vector_select(op, mem, at, dt, f, scalar, run, bytes8)
    else:
        vector_whole(op, mem, at, dt, f, scalar, run, run2, whole1, whole2)


@_jit
def lanes_end(lanes, repeat, blk, rep, size, wide):
    """Return bytes from an operand's start to the end of what a vector instruction touches; `wide` counts lanes of a whole repeat."""
    per = BLOCK // size
    last = (repeat - 1) * rep * BLOCK + ((lanes - 1) // per * blk) * BLOCK + ((lanes - 1) % per + 1) * size
    if (lanes - 1) // per > 0:  # with a stride of 0 or in the middle, the block before may end later
        last = max(last, (repeat - 1) * rep * BLOCK + ((lanes - 1) // per - 1) * blk * BLOCK + BLOCK)
    if repeat == 1:
        return last
    return max(last, (repeat - 2) * rep * BLOCK + ((wide - 1) // per) * blk * BLOCK + ((wide - 1) % per + 1) * size)


@_jit
def fills(bursts, length, step_bytes):
    """Return bytes from the first to the last of `bursts` runs; 0 where there is nothing."""
    return (bursts - 1) * step_bytes + length if bursts > 0 and length > 0 else 0


@_jit
def adds(dtype):
    """Return whether atomic writes take this dtype."""
    return dtype == FP32 or dtype == FP16 or dtype == BF16 or dtype == INT32


@_from_python
def reaches(op, f, dt, out):
    """Fill out[operand] with the bytes that it accesses from its start (0: none). Return 0, or the number of a broken relation in
    RELATIONS."""
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
    """Return what `reaches` returns, for instructions of the vector pipe."""
    d, s = size_of(dt[0]), size_of(dt[1])
    if op == VBRCB:
        if f[0]:
            out[0], out[1] = ((f[0] - 1) * f[2] + 7 * f[1] + 1) * BLOCK, f[0] * 8 * s
    elif op == VREDUCEV2:
        if s == 1 and f[0] % 2: return 11
        if f[1]:
            out[0], out[1] = f[0] * f[1] * d, fills(f[1], f[0] * s, f[2] * BLOCK)
    elif op == VGATHER:
        lanes = 256 // d
        if f[0] > lanes: return 6
        if f[1]:
            out[0], out[1] = lanes_end(f[0], f[1], 1, f[2], d, lanes), f[3]
            out[2] = ((f[1] - 1) * lanes + f[0]) * size_of(dt[2])
    elif op >= VCGMAX:
        if f[0] > 256 // s: return 6
        if f[1]:
            out[0] = ((f[1] - 1) * f[2] * 8 + (f[0] + BLOCK // s - 1) // (BLOCK // s)) * d
            if f[1] > 1: out[0] = max(out[0], ((f[1] - 2) * f[2] + 1) * 8 * d)
            out[1] = lanes_end(f[0], f[1], f[3], f[4], s, 256 // s)
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
def value(x, xcode, xspan, env, stack, error):
    """Return the value of expression x over `env`. A division by zero, or a value beyond 64 bits, sets error[0]. xspan holds the form
    of x and its range in xcode. Sums need no check: the ranges of their variables prove that they fit
    (aoec/simulate/encode/expressions.py)."""
    kind, start, stop = xspan[x, 0], xspan[x, 1], xspan[x, 2]
    if kind == FIXED:
        return xcode[start, 1]
    if kind == VARIABLE:
        return env[xcode[start, 1]]
    if kind == SUM:
        total = xcode[start, 1]
        for pc in range(start + 1, stop):
            total += xcode[pc, 0] * env[xcode[pc, 1]]
        return total
    return postfix(xcode, start, stop, env, stack, error)


@_jit
def postfix(xcode, start, stop, env, stack, error):
    """Return `value` of a postfix run."""
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
            if op == 20 and x == LOWEST:
                error[0] = E_OVERFLOW
            stack[top - 1] = (1 if x == 0 else 0) if op == 19 else abs(x)
        else:
            top -= 1
            stack[top - 1] = apply(op, stack[top - 1], stack[top], error)
    return stack[0]


@_jit
def apply(op, a, b, error):
    """Return the integer `a op b`, by number in EXPR_OPS; error[0] is set where there is none, or where it does not fit 64 bits."""
    if op == 2:
        made = np.int64(np.uint64(a) + np.uint64(b))  # of signed numbers the compiler believes that they do not wrap
        if (a ^ made) & (b ^ made) < 0:
            error[0] = E_OVERFLOW
        return made
    if op == 3:
        made = np.int64(np.uint64(a) - np.uint64(b))
        if (a ^ b) & (a ^ made) < 0:
            error[0] = E_OVERFLOW
        return made
    if op == 4:
        made = np.int64(np.uint64(a) * np.uint64(b))
        if (abs(a) | abs(b)) >> 31 != 0 and a != 0 and ((a == -1 and b == LOWEST) or made // a != b):
            error[0] = E_OVERFLOW
        return made
    if op == 5 or op == 6 or op == 17:
        if b == 0 or (b == -1 and a == LOWEST):
            error[0] = E_DIVISION if b == 0 else E_OVERFLOW
            return 0
        quotient = a // b
        rest = a - quotient * b
        return quotient if op == 5 else rest if op == 6 else quotient + (1 if rest != 0 else 0)
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
def fetch(site, program, env, now, error):
    """Evaluate fields and addresses of a site into its rows of `now`. Return False, with the error row filled, where a bound is broken.

    Only fields that vary are evaluated. Limits and reaches are checked again where a field has changed. The first element of an operand
    is compared with the last element from which the whole access is inside a slot. So no sum or product of large numbers decides.
    """
    xcode, xspan, ops, operands, fields, limits, opens, dtypes, _, _ = program
    f, last, at, known, stack = now
    changed = known[site] == 0
    error[1] = site
    for j in range(opens.shape[1]):
        i = opens[site, j]
        if i < 0:
            break
        v = value(fields[site, i], xcode, xspan, env, stack, error)
        changed = changed or v != f[site, i] or error[0] != 0
        f[site, i] = v
    if changed:
        known[site] = 1
        if not fits_limits(ops[site], site, f[site], dtypes[site], operands[site], last[site], limits, fields, error):
            return False
    for i in range(operands.shape[1]):
        if operands[site, i, 1] < 0:
            break
        slot = value(operands[site, i, 5], xcode, xspan, env, stack, error)
        element = value(operands[site, i, 6], xcode, xspan, env, stack, error)
        inside = not (error[0] or slot < 0 or slot >= operands[site, i, 3] or element < 0 or element > last[site, i])
        at[i] = operands[site, i, 1] + (slot * operands[site, i, 2] + element * operands[site, i, 7] if inside else 0)
        if not inside or at[i] & (operands[site, i, 4] - 1):
            if is_misplaced(ops[site], i, slot, element, f[site], dtypes[site], operands[site, i], stack[:4], error):
                return False
            at[i] = operands[site, i, 1]
    return True


@_jit
def fits_limits(op, site, f, dt, operands, last, limits, fields, error):
    """Return whether fields keep their limits and relations. If so, fill for each operand the last element of a slot from which the
    whole access is inside the slot (-1: none). Otherwise fill the error row."""
    for i in range(f.size):
        if fields[site, i] < 0:
            break
        if error[0] or f[i] < limits[op, i, 0] or f[i] > limits[op, i, 1]:
            error[0] = max(error[0], E_LIMIT)
            error[2], error[3], error[4] = i, f[i], limits[op, i, 1]
            return False
    relation = reaches(op, f, dt, last)
    if relation:
        error[0], error[2] = E_RELATION, relation
        return False
    for i in range(operands.shape[0]):
        room = operands[i, 2] - last[i]
        last[i] = room // operands[i, 7] if room >= 0 else -1
    return True


@_jit
def is_misplaced(op, i, slot, element, f, dt, operand, reach, error):
    """Return whether operand i breaks a bound, and fill the error row if so. An operand of which no byte is accessed may be anywhere.

    `operand` holds dtype, base, bytes of a slot, slots, alignment, expressions of slot and offset, and bytes of an element. `reach` is
    scratch.
    """
    error[2] = i
    if error[0]:
        return True
    reaches(op, f, dt, reach)
    if reach[i] == 0:
        return False
    if slot < 0 or slot >= operand[3]:
        error[0], error[3], error[4] = E_SLOT, slot, operand[3]
    elif element < 0 or operand[2] < reach[i] or element > (operand[2] - reach[i]) // operand[7]:
        error[0], error[3], error[4], error[8] = E_RANGE, element, operand[2], reach[i]
    else:
        error[0], error[3], error[4] = E_ALIGN, slot * operand[2] + element * operand[7], operand[4]
    return True


@_jit
def cross(code, pc, core, program, env, stack, tokens, first, count, streams, error):
    """Set or take tokens of a cross-core flag at pc. Return False where it has to wait. Tokens are tokens[setter, waiter, id]."""
    peer, mine = code[pc, 1], streams[core]
    flag = value(code[pc, 2], program[0], program[1], env, stack, error)
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


@_jit
def tick(ticks, op, part, begun):
    """Return the clock now; what went by since `begun` is added to a word's account: runs, clock of its fields and addresses, of its
    body."""
    end = clock()
    ticks[op, part] += end - begun
    ticks[op, 0] += 2 - part
    return end


@_inline
def keep(code, pc, program, env, stack, error):
    """Evaluates what depends on the variable that this row moves, and on those of rows around it, into its place in `env`."""
    for i in range(code[pc, 4], code[pc, 5]):
        env[program[9][i, 1]] = value(program[9][i, 0], program[0], program[1], env, stack, error)


@_jit
def ended_early(watch, steps, error):
    """Return whether a run must end. It must if Ctrl-C came, or if all threads together have done more steps than they may. `steps` are
    those of this thread.

    `watch` holds a flag that another thread sets, then (most steps, the steps of each thread so far), then the number of this thread.
    """
    stop, counts, mine = watch
    counts[1 + mine] = steps
    total = 0
    for i in range(1, counts.size):
        total += load_now(counts, i)
    if total > counts[0]:
        error[0], error[3] = E_STEPS, counts[0]
    if load_now(stop, 0) != 0:
        error[0] = E_STOPPED
    return error[0] != 0


@_inline
def run_core(core, code, program, scalars, state, env, trips, gm, mem, now, tiles, tokens, first, count, streams, watch, error):
    """Runs a core from state[core] until it halts (DONE), has to wait (BLOCKED, STUCK), breaks a rule or must end early (error[0] set)."""
    sa, sb, sc, flat, run, run2, bytes8, whole1, whole2, ticks = tiles
    ops, dtypes, f, at, stack = program[2], program[7], now[0], now[2], now[4]
    clocked, begun = ticks.shape[0] > 0, 0
    pc, steps, look, before = state[core], 0, LOOK, watch[1][1 + watch[2]]
    while True:
        op, a, b, c = code[pc, 0], code[pc, 1], code[pc, 2], code[pc, 3]
        error[5] = pc
        if op == 3:
            if clocked:
                begun = clock()
            if not fetch(a, program, env, now, error):
                return DONE
            if clocked:
                begun = tick(ticks, ops[a], 1, begun)
            step(ops[a], f[a], scalars[a], at, dtypes[a], gm, mem, sa, sb, sc, flat, run, run2, bytes8, whole1, whole2)
            if clocked:
                begun = tick(ticks, ops[a], 2, begun)
        elif op == 1:
            trips[pc] = value(b, program[0], program[1], env, stack, error)
            env[a] = 0
            if error[0]:
                return DONE
            if trips[pc] <= 0:
                pc = c
                continue
            keep(code, pc, program, env, stack, error)
            if error[0]:
                return DONE
        elif op == 2:
            env[b] += 1
            if env[b] < trips[a]:
                pc = a
                keep(code, pc, program, env, stack, error)
                if error[0] or steps >= look:
                    look = steps + LOOK
                    if error[0] or ended_early(watch, before + steps, error):
                        return DONE
        elif op == 6:
            env[a] = (env[a] + 1) % b
        elif op == 7:
            keep(code, pc, program, env, stack, error)
            if error[0]:
                return DONE
        elif op == 0:
            state[core] = pc
            ended_early(watch, before + steps, error)
            return DONE
        elif not cross(code, pc, core, program, env, stack, tokens, first, count, streams, error):
            state[core] = pc
            if error[0] == 0:
                ended_early(watch, before + steps, error)
            return BLOCKED if steps else STUCK
        pc += 1
        steps += 1


@_jit
def views(memory):
    """Return a byte array as every type that the bodies read and write."""
    return (memory, memory.view(np.uint16), memory.view(np.float32), memory.view(np.int32), memory.view(np.int8), memory.view(np.uint64))


@_from_python
def run_groups(low, high, code, program, scalars, starts, streams, first, count, envs, gm_bytes, mems, cores_own, now, tiles, watch, error):
    """Runs the core groups low..high-1, each core of a group with scopes of its own, taking turns where they wait for each other.

    program: expressions (code, spans), words of the sites, their operands, fields (expression, -1: none) and limits, the fields that vary,
    dtypes, the fields' values where they do not, and what `keep` evaluates. tiles: scratch, and last the accounts of `tick`, of no words
    where nobody asks. mems: the cores' own memory; cores_own: trips of their loops, where they stand, tokens between them,
    where in their memory a scope begins and ends. now: of each
    site fields and the last elements at which operands may begin, addresses, which sites are known, a stack. watch: see `ended_early`.
    error: kind, site, operand or field, value, bound, pc, group, core, bytes touched; kind 0 where all is well.
    """
    cores, gm = streams.size, views(gm_bytes)
    trips, state, tokens, spans = cores_own
    ticks = tiles[9]
    begun = clock() if ticks.shape[0] > 0 else 0
    for group in range(low, high):
        tokens[:] = 0
        for c in range(cores):
            state[c] = starts[streams[c]]
            for i in range(spans.shape[0]):
                flood(mems[c][spans[i, 0]:spans[i, 1]], POISON)
        left = cores
        while left:
            moved, left = False, 0
            for c in range(cores):
                error[6], error[7] = group, c
                mem = views(mems[c])
                status = run_core(c, code, program, scalars, state, envs[group, c], trips[c], gm, mem, now, tiles, tokens, first, count,
                                  streams, watch, error)
                if error[0]:
                    return
                moved = moved or status != STUCK
                left += 1 if status != DONE else 0
            if left and not moved:
                error[0] = E_DEADLOCK
                return
    if ticks.shape[0] > 0:
        tick(ticks, ticks.shape[0] - 1, 2, begun)
