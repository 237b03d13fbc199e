"""Law: a program run by the compiled interpreter gives what the meanings of its instructions give, one after the other.

Programs of a few instructions with random fields: an image is copied on chip, the word under test works on it, and all of
the memory that it may have written is copied out. Memory that nothing wrote is NaN on both sides and is compared too.
"""
from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from aoec.kernels import tile
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.base.errors import CheckError
from aoec.ir.index import DTYPES, Expr, Float, Int, as_expr
from aoec.ir.program import Instr, Program, Ref, Space, Stream, Tensor
from aoec.simulate.values.values import execute
from aoec.target.isa.evaluate import evaluate_program
from aoec.target.isa.instructions import CASTS as CAST_PAIRS
from aoec.target.isa.instructions import INSTRUCTIONS, WHOLE
from aoec.target.isa.meaning import NUMPY_DTYPES
from aoec.target.isa.scales import LOST_BITS, scale_words
from aoec.target.legality.footprint import footprints, relation

QUICK = settings(max_examples=40, deadline=None)
ARITHMETIC = ("vadd", "vsub", "vmul", "vdiv", "vmax", "vmin")
SUMS = ("vaddrelu", "vaddreluconv")
BINARY = (*ARITHMETIC, *SUMS, "vand", "vor", "vcmp")
SCALED = ("vadds", "vmuls", "vmaxs", "vmins")
SCALAR = (*SCALED, "vshls", "vshrs", "vcmps")
UNARY = ("vexp", "vln", "vsqrt", "vrsqrt", "vrec", "vabs", "vrelu")
ROUNDING = ("vfloor", "vceil", "vrint", "vtrunc")
BITS = ("vand", "vor", "vnot", "vshls", "vshrs")
COMPARISONS = ("vcmp", "vcmps")
CASTS = [c for pair in sorted(map(sorted, CAST_PAIRS)) for c in (tuple(pair), tuple(pair[::-1])) if c[0] != "bool"]
UB_BYTES = 16384


def instr(op: str, **fields: Ref | Expr | int) -> Instr:
    return Instr(op, tuple((k, v if isinstance(v, (Ref, Expr)) else as_expr(v)) for k, v in fields.items()))


def ref(buffer: str, offset: int = 0) -> Ref:
    return Ref(buffer, Int(offset))


def tensor(name: str, dtype: str, elements: int, role: str) -> Tensor:
    return Tensor(name, dtype, (Int(elements),), role)


def space(name: str, dtype: str, scope: str, size_bytes: int, address: int = 0) -> Space:
    return Space(name, dtype, scope, Int(address), Int(size_bytes))


def program(kind: str, tensors: list[Tensor], spaces: list[Space], body: list[Instr]) -> Program:
    return Program("p", "toy", tuple(tensors), tuple(spaces), (Stream("s", kind, (), (), tuple(body)),))


def numbers(dtype: str, count: int, seed: int) -> np.ndarray:
    """Values of all sizes: tails, negatives, zeros, what overflows fp16, and a few NaN and infinities."""
    rng = np.random.default_rng(seed)
    if dtype.startswith(("int", "uint")):
        most = 2 ** (8 * DTYPES[dtype] - 1) - 1
        x = rng.integers(-100 if dtype[0] == "i" else 0, 100, count).astype(NUMPY_DTYPES[dtype])
        x[rng.integers(0, count, count // 8)] = rng.integers(most // 2, most, count // 8)
        x[rng.integers(0, count, 2)] = [most, np.iinfo(x.dtype).min]
        return x
    if dtype == "bool":
        return rng.integers(0, 2, count).astype(bool)
    x = (rng.standard_normal(count) * 10.0 ** rng.integers(-4, 5, count)).astype(np.float32)
    x[rng.integers(0, count, 4)] = [0.0, -0.0, np.inf, np.nan]
    with np.errstate(over="ignore"):
        return x.astype(NUMPY_DTYPES[dtype])


def same(p: Program, tensors: dict[str, np.ndarray]) -> None:
    """Compiled run and meanings agree bit for bit, NaN being equal to NaN."""
    fast, slow = execute(p, tensors), evaluate_program(p, tensors)
    assert fast.keys() == slow.keys()
    for name, x in fast.items():
        y = slow[name]
        if np.issubdtype(x.dtype, np.integer):
            assert np.array_equal(x, y), name
        else:
            assert np.array_equal(x.astype(np.float64), y.astype(np.float64), equal_nan=True), (name, np.flatnonzero(x != y)[:8])


# ---------------------------------------------------------------- vector

def vector_program(op: str, dtypes: tuple[str, ...], fields: dict[str, int | Expr], offsets: tuple[int, ...]) -> Program:
    """Copies two images in, runs `op` from one region to another (offsets in bytes) and copies all of UB out."""
    names = ("dst", *[f"src{i}" for i in range(len(dtypes) - 1)]) if len(dtypes) > 2 else ("dst", "src")[:len(dtypes)]
    tensors = [tensor(n, d, UB_BYTES // DTYPES[d], role) for n, d, role in (("X", dtypes[-1], "input"), ("Y", dtypes[0], "output"))]
    spaces = [space("src", dtypes[-1], "UB", UB_BYTES), space("dst", dtypes[0], "UB", UB_BYTES)]
    operands = {n: ref("dst" if n == "dst" else "src", o // DTYPES[d]) for n, o, d in zip(names, offsets, dtypes)}
    move = {"bursts": 1, "length": UB_BYTES, "src_gap": 0, "dst_gap": 0}
    body = [instr("copy_gm_ub", dst=ref("src"), src=ref("X"), **move), instr(op, **operands, **fields),
            instr("copy_ub_gm", dst=ref("Y"), src=ref("dst"), **move)]
    return program("aiv", tensors, spaces, body)


def strides(draw, names, small=True):
    blks = {f"{n}_blk": draw(st.integers(0, 3)) for n in names}
    return blks | {f"{n}_rep": draw(st.sampled_from((0, 1, 4, 8, 9, 13))) for n in names}


@st.composite
def vectors(draw):
    op = draw(st.sampled_from((*BINARY, *SCALAR, *UNARY, *ROUNDING, "vnot", "vcopy", "vconv", "vdup")))
    real, whole = ("fp16", "fp32"), (*ARITHMETIC, *SCALED, *COMPARISONS, "vdup", "vcopy")
    dtype = draw(st.sampled_from(WHOLE if op in BITS else ("fp32",) if op in ROUNDING else (*real, *WHOLE) if op in whole else real))
    dtypes = {**dict.fromkeys(BINARY, (dtype,) * 3), "vdup": (dtype,), "vconv": draw(st.sampled_from(CASTS))}.get(op, (dtype,) * 2)
    if op in COMPARISONS:
        dtypes = (draw(st.sampled_from(real)), *dtypes[1:])
    if op == "vaddreluconv":
        dtypes = ("fp16", "fp32", "fp32")
    names = ("dst", "src0", "src1") if op in BINARY else ("dst", "src")[:len(dtypes)]
    fields: dict[str, int | Expr] = {}
    if op in SCALAR or op == "vdup":
        low = 0 if op in BITS or dtype[0] == "u" else -100000
        most = 31 if op in BITS else 100000
        fields["scalar"] = Float(draw(st.floats(low, 1e5, width=32))) if dtype in real else Int(draw(st.integers(low, most)))
    wide = 256 // max(DTYPES[d] for d in dtypes)
    fields |= {"lanes": draw(st.integers(1, wide)), "repeat": draw(st.integers(0, 6))} | strides(draw, names)
    if op in COMPARISONS:
        fields["mode"] = draw(st.integers(0, 5))
    return vector_program(op, dtypes, fields, tuple(draw(st.integers(0, 3)) * 32 for _ in names)), dtypes[-1], draw(st.integers(0, 99))


@settings(QUICK, max_examples=150)
@given(vectors())
def test_elementwise(case):
    p, dtype, seed = case
    same(p, {"X": numbers(dtype, UB_BYTES // DTYPES[dtype], seed)})


@pytest.mark.parametrize("op, dtypes", [("vaddrelu", ("fp16",) * 3), ("vaddrelu", ("fp32",) * 3),
                                        ("vaddreluconv", ("fp16", "fp32", "fp32"))])
@settings(QUICK, max_examples=15)
@given(st.data())
def test_sums_cut_off(op, dtypes, data):
    names, draw = ("dst", "src0", "src1"), data.draw
    fields = {"lanes": draw(st.integers(1, 256 // DTYPES[dtypes[-1]])), "repeat": draw(st.integers(1, 6))} | strides(draw, names)
    p = vector_program(op, dtypes, fields, tuple(draw(st.integers(0, 3)) * 32 for _ in names))
    same(p, {"X": numbers(dtypes[-1], UB_BYTES // DTYPES[dtypes[-1]], draw(st.integers(0, 99)))})


@QUICK
@given(st.data())
def test_selections(data):
    """vsel and vsels of a mask and values in one image, which are of one size."""
    draw = data.draw
    op, mask, dtype = draw(st.sampled_from(("vsel", "vsels"))), *draw(st.sampled_from((("fp16", "fp16"), ("fp32", "fp32"))))
    names = ("dst", "src0", "src1", "src2")[:4 if op == "vsel" else 3]
    fields = {"scalar": Float(draw(st.floats(-1e4, 1e4, width=16)))} if op == "vsels" else {}
    fields |= {"lanes": draw(st.integers(1, 256 // DTYPES[dtype])), "repeat": draw(st.integers(0, 6))} | strides(draw, names)
    p = vector_program(op, (dtype, mask, dtype, dtype)[:len(names)], fields, tuple(draw(st.integers(0, 3)) * 32 for _ in names))
    x = numbers(dtype, UB_BYTES // DTYPES[dtype], draw(st.integers(0, 99)))
    x[::3] = 0
    same(p, {"X": x})


@QUICK
@given(st.data())
def test_reductions_broadcasts_and_turns(data):
    draw = data.draw
    op = draw(st.sampled_from(("vcmax", "vcmin", "vcadd", "vcgmax", "vcgmin", "vcgadd", "vbrcb", "vnchwconv", "vreducev2")))
    dtype = draw(st.sampled_from(("fp16", "fp32", *("int8", "uint8") * (op in ("vnchwconv", "vreducev2")))))
    size = DTYPES[dtype]
    if op == "vbrcb":
        fields = {"repeat": draw(st.integers(0, 4)), "dst_blk": draw(st.integers(0, 3)), "dst_rep": draw(st.integers(0, 20))}
    elif op == "vreducev2":
        fields = {"lanes": draw(st.integers(1, 150)) * 2 - (size > 1)}
        fields |= {"repeat": draw(st.integers(0, 6)), "src_rep": draw(st.integers(0, 12))}
    elif op == "vnchwconv":
        fields = {"repeat": draw(st.integers(0, 3))}
        fields |= {k: draw(st.integers(0, 12)) for k in ("dst_stride", "dst_half", "src_stride", "dst_rep", "src_rep")}
        fields |= {k: draw(st.integers(0, 1)) for k in ("dst_high", "src_high")}
    else:
        fields = {"lanes": draw(st.integers(1, 256 // size)), "repeat": draw(st.integers(0, 6)), "dst_rep": draw(st.integers(0, 9)),
                  "src_blk": draw(st.integers(0, 3)), "src_rep": draw(st.integers(0, 12))}
    p = vector_program(op, (dtype, dtype), fields, (8192, 0))
    same(p, {"X": numbers(dtype, UB_BYTES // size, draw(st.integers(0, 99)))})


@QUICK
@given(st.data())
def test_elements_are_gathered_by_offsets(data):
    draw = data.draw
    dtype = draw(st.sampled_from(("fp16", "fp32", "int32")))
    lanes, reach = 256 // DTYPES[dtype], draw(st.integers(1, 2000))
    tensors = [tensor("X", "int32", 2048, "input"), tensor("V", dtype, 2048, "input"), tensor("Y", dtype, 4096, "output")]
    spaces = [space("o", "int32", "UB", 8192), space("v", dtype, "UB", 8192, 8192), space("u", dtype, "UB", 16384, 16384)]
    fields = {"lanes": draw(st.integers(1, lanes)), "repeat": draw(st.integers(0, 6)), "dst_rep": draw(st.integers(0, 12)), "reach": reach}
    size = DTYPES[dtype]
    body = [instr("copy_gm_ub", dst=ref("o"), src=ref("X"), bursts=1, length=8192, src_gap=0, dst_gap=0),
            instr("copy_gm_ub", dst=ref("v"), src=ref("V"), bursts=1, length=2048 * size, src_gap=0, dst_gap=0),
            instr("vgather", dst=ref("u"), src=ref("v", 32), offset=ref("o", 8), **fields),
            instr("copy_ub_gm", dst=ref("Y"), src=ref("u"), bursts=1, length=4096 * size, src_gap=0, dst_gap=0)]
    seed = draw(st.integers(0, 99))
    places = np.random.default_rng(seed).integers(0, 1100, 2048).astype(np.int32) * 2
    same(program("aiv", tensors, spaces, body), {"X": places, "V": numbers(dtype, 2048, seed)})


@QUICK
@given(st.integers(0, 5), st.integers(0, 100), st.integers(0, 40), st.integers(0, 3), st.integers(0, 40), st.integers(0, 3))
def test_copies_between_gm_and_ub(bursts, length, gap_in, dst_gap, gap_out, src_gap):
    body = [instr("copy_gm_ub", dst=ref("u", 32), src=ref("X", 3), bursts=bursts, length=length, src_gap=gap_in, dst_gap=dst_gap),
            instr("copy_ub_gm", dst=ref("Y", 5), src=ref("u"), bursts=bursts, length=length, src_gap=src_gap, dst_gap=gap_out)]
    p = program("aiv", [tensor("X", "uint8", 1024, "input"), tensor("Y", "uint8", 1024, "output")], [space("u", "uint8", "UB", 2048)], body)
    same(p, {"X": np.arange(1024).astype(np.uint8)})


# ---------------------------------------------------------------- cube

def cube_program(loads: list[Instr], dtype: str, dims: tuple[int, int, int], image: int, out: Instr, out_dtype: str, bias: bool) -> Program:
    """Copies an image into L1 and the right side into L0B, runs `loads` into L0A, one mmad, and `out`."""
    m, n, k = dims
    c0, acc = 32 // DTYPES[dtype], "int32" if dtype == "int8" else "fp32"
    deep, cols = -(-k // c0), -(-n // 16)
    tensors = [tensor("X", dtype, image, "input"), tensor("W", dtype, deep * cols * 16 * c0, "input"), tensor("Z", acc, cols * 16, "input"),
               tensor("Y", out_dtype, 1 << 14, "output")]
    spaces = [space("x", dtype, "L1", image * DTYPES[dtype]), space("w", dtype, "L1", deep * cols * 512, 32768),
              space("z", acc, "L1", cols * 64, 131072), space("bt", acc, "BT", 1024), space("a", dtype, "L0A", 65536),
              space("b", dtype, "L0B", 65536), space("c", acc, "L0C", 65536)]
    body = [instr("copy_gm_l1", dst=ref("x"), src=ref("X"), bursts=1, length=image // c0, src_gap=0, dst_gap=0)] if loads else []
    body += [instr("copy_gm_l1", dst=ref("w"), src=ref("W"), bursts=1, length=deep * cols * 16, src_gap=0, dst_gap=0), *loads,
             instr("copy_gm_l1", dst=ref("z"), src=ref("Z"), bursts=1, length=cols * 2, src_gap=0, dst_gap=0),
             instr("load_bt", dst=ref("bt"), src=ref("z"), length=cols * 2),
             instr("load_l0b", dst=ref("b"), src=ref("w"), repeat=deep * cols, src_stride=1, dst_gap=0, transpose=0)]
    tile = {"m": m, "n": n, "k": k}
    body.append(instr("mmad", dst=ref("c"), a=ref("a"), b=ref("b"), **tile, init=1))
    if bias:
        body.append(instr("mmad_bias", dst=ref("c"), a=ref("a"), b=ref("b"), bias=ref("bt"), **tile, init=1))
    body += [instr("mmad", dst=ref("c"), a=ref("a"), b=ref("b"), **tile, init=0), out]
    return program("aic", tensors, spaces, body)


def whole_numbers(dtype: str, count: int, seed: int, high: int = 4) -> np.ndarray:
    """Small integers, so that sums are exact in any order."""
    return np.random.default_rng(seed).integers(-high, high + 1, count).astype(NUMPY_DTYPES[dtype])


@st.composite
def cubes(draw):
    dtype = draw(st.sampled_from(("fp16", "bf16", "fp32", "int8")))
    acc, c0 = "int32" if dtype == "int8" else "fp32", 32 // DTYPES[dtype]
    m, n, k = (draw(st.integers(1, 40)) for _ in range(3))
    fractals = -(-m // 16) * -(-k // c0)
    if dtype == "int8" and draw(st.booleans()):
        return scaled_cube(draw, (m, n, k)), draw(st.integers(0, 99))
    load = instr("load_l0a", dst=ref("a"), src=ref("x"), repeat=fractals, src_stride=draw(st.integers(0, 2)), dst_gap=0,
                 transpose=draw(st.integers(0, 1)) if DTYPES[dtype] == 2 else 0)
    nz = draw(st.booleans())
    out_dtype = draw(st.sampled_from(("fp32", "fp16", "bf16"))) if acc == "fp32" else acc
    width = 32 // DTYPES[out_dtype]
    fields = {"m": m, "n": (n // width * width) if nz else n, "src_rows": -(-m // 16) * 16, "relu": draw(st.integers(0, 1)),
              "dst_stride": draw(st.integers(-(-m // 1) * width, 900)) if nz else draw(st.integers(n, 100))}
    fields["atomic"] = draw(st.integers(0, 1))
    order = ("m", "n", "src_rows", "dst_stride", "relu", "atomic")
    out = instr("fixpipe_nz" if nz else "fixpipe_nd", dst=ref("Y"), src=ref("c"), **{k: fields[k] for k in order})
    p = cube_program([load], dtype, (m, n, k), fractals * 16 * c0 * 3, out, out_dtype, draw(st.booleans()))
    return p, draw(st.integers(0, 99))


def scaled_cube(draw, dims: tuple[int, int, int]) -> Program:
    """A product of int8 whose result leaves as int8, times a scale for each column."""
    m, n, k = dims
    nz, fractals = draw(st.booleans()), -(-m // 16) * -(-k // 32)
    n = max(n // 32 * 32, 32) if nz else n
    load = instr("load_l0a", dst=ref("a"), src=ref("x"), repeat=fractals, src_stride=1, dst_gap=0, transpose=0)
    out = instr("fixpipe_nz_scale" if nz else "fixpipe_nd_scale", dst=ref("Y"), src=ref("c"), scale=ref("fb"), m=m, n=n,
                src_rows=-(-m // 16) * 16, dst_stride=draw(st.integers(m * 32, 1400)) // 32 * 32 if nz else n, relu=draw(st.integers(0, 1)),
                zero=draw(st.integers(-128, 127)))
    p = cube_program([load], "int8", (m, n, k), fractals * 16 * 32, out, "int8", draw(st.booleans()))
    length = -(-n // 16) * 4
    body = [instr("copy_gm_l1", dst=ref("s"), src=ref("S"), bursts=1, length=length, src_gap=0, dst_gap=0),
            instr("load_fb", dst=ref("fb"), src=ref("s"), length=length)]
    spaces = (space("s", "uint64", "L1", 2048, 262144), space("fb", "uint64", "FB", 2048))
    stream = replace(p.streams[0], body=(*body, *p.streams[0].body))
    return replace(p, tensors=(*p.tensors, tensor("S", "uint64", length * 4, "input")), spaces=(*p.spaces, *spaces), streams=(stream,))


@settings(QUICK, max_examples=80)
@given(cubes())
def test_matrix_products_of_whole_numbers_are_equal(case):
    p, seed = case
    feeds = {t.name: whole_numbers(t.dtype, t.shape[0].value, seed) for t in p.tensors if t.role == "input"}
    if "S" in feeds:  # quarters meet ties, and large ones the limits; zero points and bits that do not count are of words, too
        random = np.random.default_rng(seed)
        feeds["S"] = scale_words(random.choice(np.float32([0.25, 0.5, 0.1, 7.0, 0.0]), len(feeds["S"])), int(random.integers(-256, 256)))
        feeds["S"] |= random.integers(0, 1 << LOST_BITS, len(feeds["S"])).astype(np.uint64)
    same(p, feeds)


@QUICK
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.integers(0, 99))
def test_matrix_products_of_reals_agree_to_the_rounding_of_a_sum(m, n, k, seed):
    fractals = -(-m // 16) * -(-k // 16)
    load = instr("load_l0a", dst=ref("a"), src=ref("x"), repeat=fractals, src_stride=1, dst_gap=0, transpose=0)
    out = instr("fixpipe_nd", dst=ref("Y"), src=ref("c"), m=m, n=n, src_rows=-(-m // 16) * 16, dst_stride=n, relu=0)
    p = cube_program([load], "fp16", (m, n, k), fractals * 256, out, "fp32", False)
    rng = np.random.default_rng(seed)
    feeds = {t.name: rng.standard_normal(t.shape[0].value).astype(NUMPY_DTYPES[t.dtype]) for t in p.tensors if t.role == "input"}
    fast, slow = execute(p, feeds)["Y"][:m * n], evaluate_program(p, feeds)["Y"][:m * n]
    assert np.isfinite(fast).all()
    assert np.abs(fast - slow).max() <= 1e-5 * max(1, k)


@settings(QUICK, max_examples=60)
@given(st.integers(2, 32), st.integers(2, 48), st.integers(1, 20), st.data())
def test_a_smaller_product_leaves_the_results_around_it(m, n, k, data):
    less = {"m": data.draw(st.integers((m - 1) // 16 * 16 + 1, m)), "n": data.draw(st.integers((n - 1) // 16 * 16 + 1, n))}
    fractals = -(-m // 16) * -(-k // 16)
    load = instr("load_l0a", dst=ref("a"), src=ref("x"), repeat=fractals, src_stride=1, dst_gap=0, transpose=0)
    out = instr("fixpipe_nd", dst=ref("Y"), src=ref("c"), m=m, n=n, src_rows=-(-m // 16) * 16, dst_stride=n, relu=0)
    p = cube_program([load], "fp16", (m, n, k), fractals * 256, out, "fp32", False)
    again = instr("mmad", dst=ref("c"), a=ref("a"), b=ref("b"), **less, k=k, init=data.draw(st.integers(0, 1)))
    body = p.streams[0].body
    p = program("aic", list(p.tensors), list(p.spaces), [*body[:-1], again, body[-1]])
    same(p, {t.name: whole_numbers(t.dtype, t.shape[0].value, data.draw(st.integers(0, 99))) for t in p.tensors if t.role == "input"})


@settings(QUICK, max_examples=80)
@given(st.data())
def test_img2col_of_every_window(data):
    draw = data.draw
    dtype = draw(st.sampled_from(("fp16", "fp32", "int8")))
    c0 = 32 // DTYPES[dtype]
    h, w, fh, fw = draw(st.integers(1, 9)), draw(st.integers(1, 9)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    dh, dw, planes = draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.integers(1, 2))
    pads = {k: draw(st.integers(0, 2)) for k in ("pad_top", "pad_bottom", "pad_left", "pad_right")}
    if h + pads["pad_top"] + pads["pad_bottom"] < dh * (fh - 1) + 1 or w + pads["pad_left"] + pads["pad_right"] < dw * (fw - 1) + 1:
        return
    channels = draw(st.sampled_from((4, planes * c0 - draw(st.integers(0, c0 - 1)))))
    planes, each = (1, 4) if (channels, dtype) == (4, "fp16") else (-(-channels // c0), c0)  # four channels of two bytes are a pixel
    columns = -(-planes * fh * fw * each // c0)
    start = draw(st.integers(0, columns - 1))
    k = draw(st.integers(1, columns - start)) * c0 - draw(st.integers(0, c0 - 1))
    m = draw(st.integers(1, 40))
    load = instr("load3d", dst=ref("a"), src=ref("x"), h=h, w=w, channels=channels, k_start=start * c0,
                 k_size=k, m_start=draw(st.integers(0, 20)), m_size=m, stride_h=draw(st.integers(1, 3)), stride_w=draw(st.integers(1, 3)),
                 filter_h=fh, filter_w=fw, dilation_h=dh, dilation_w=dw, **pads,
                 **{"pad_value": draw(st.integers(-128, 127))} if dtype == "int8" else {})
    out = instr("fixpipe_nd", dst=ref("Y"), src=ref("c"), m=m, n=16, src_rows=-(-m // 16) * 16, dst_stride=16, relu=0)
    p = cube_program([load], dtype, (m, 16, k), planes * h * w * each, out, "int32" if dtype == "int8" else "fp32", False)
    same(p, {t.name: whole_numbers(t.dtype, t.shape[0].value, draw(st.integers(0, 99))) for t in p.tensors if t.role == "input"})


@QUICK
@given(st.integers(0, 20), st.integers(1, 40), st.integers(0, 9), st.integers(0, 12), st.sampled_from(("fp16", "fp32")), st.integers(0, 99))
def test_nd2nz(rows, cols, more, spare, dtype, seed):
    c0 = 32 // DTYPES[dtype]
    dst_rows = rows + spare + 1
    fractals = -(-dst_rows * -(-cols // c0) // 16)
    loads = [instr("copy_gm_l1_nd2nz", dst=ref("x"), src=ref("X"), rows=rows, cols=cols, src_stride=cols + more, dst_rows=dst_rows),
             instr("load_l0a", dst=ref("a"), src=ref("x"), repeat=fractals, src_stride=1, dst_gap=0, transpose=0)]
    m = min(fractals, 4) * 16
    out = instr("fixpipe_nd", dst=ref("Y"), src=ref("c"), m=m, n=c0, src_rows=m, dst_stride=c0, relu=0)
    p = cube_program(loads, dtype, (m, c0, c0), 4096, out, "fp32", False)
    feeds = {t.name: whole_numbers(t.dtype, t.shape[0].value, seed) for t in p.tensors if t.role == "input"}
    feeds["W"] = np.eye(16, c0).astype(feeds["W"].dtype).reshape(-1)[:feeds["W"].size]
    same(p, feeds)


# ---------------------------------------------------------------- bounds

@settings(QUICK, max_examples=150)
@given(vectors())
def test_an_access_is_refused_exactly_where_its_footprint_leaves_its_slot(case):
    p, dtype, seed = case
    item = p.streams[0].body[1]
    word = INSTRUCTIONS[item.op]
    dtypes = tuple(next(s.dtype for s in p.spaces if s.name == item[o.name].buffer) for o in word.operands)
    fields = {n.name: item[n.name].value for n in word.numbers}
    feeds = {"X": numbers(dtype, UB_BYTES // DTYPES[dtype], seed)}
    for o, d, boxes in zip(word.operands, dtypes, footprints(item.op, fields, dtypes)):
        if not boxes:
            continue
        reach = max(b.stop for b in boxes)
        for size, legal in ((reach, True), (reach - 1, False)):
            small = Space("small", d, "UB", Int(0), Int(size))
            changed = Instr(item.op, tuple((k, Ref("small", Int(0)) if k == o.name else v) for k, v in item.fields))
            q = Program(p.name, p.target, p.tensors, (*p.spaces, small), (Stream("s", "aiv", (), (), (p.streams[0].body[0], changed)),))
            if legal:
                execute(q, feeds)
            else:
                with pytest.raises(CheckError, match=f"{o.name} reaches byte {reach} of small"):
                    execute(q, feeds)


def dtypes_of(draw, op: str) -> tuple[str, ...]:
    """Dtypes that the instruction takes."""
    count = len(INSTRUCTIONS[op].operands)
    if op.startswith("mmad"):
        return draw(st.sampled_from((("fp32", "fp16", "fp16", "fp32"), ("fp32",) * 4, ("int32", "int8", "int8", "int32"))))[:count]
    if op.endswith("_scale"):
        return "int8", "int32", "uint64"
    if op.startswith("fixpipe") or op == "copy_l0c_ub":
        return draw(st.sampled_from((("fp16", "fp32"), ("fp32", "fp32"), ("int32", "int32"))))
    if op == "copy_gm_ub_at":
        return draw(st.sampled_from((("fp16", "fp16", "int32"), ("int64", "int64", "int64"))))
    if op == "vgather":
        return draw(st.sampled_from((("fp16", "fp16", "int32"), ("fp32", "fp32", "uint32"))))
    narrow = ("int8",) * (op in ("vnchwconv", "vreducev2", "load3d"))
    return draw(st.sampled_from(CASTS)) if op == "vconv" else (draw(st.sampled_from(("fp16", "fp32", *narrow))),) * count


@settings(QUICK, max_examples=400)
@given(st.sampled_from(sorted(INSTRUCTIONS)), st.data())
def test_bounds_of_the_interpreter_are_the_ends_of_the_footprints(op, data):
    word, dtypes = INSTRUCTIONS[op], dtypes_of(data.draw, op)
    fields = {n.name: data.draw(st.integers(n.low, min(n.high, n.low + data.draw(st.sampled_from((1, 9, 130))))), n.name)
              for n in word.numbers if not n.real}
    values, padded = np.zeros(20, np.int64), dtypes + dtypes[:1] * (4 - len(dtypes))
    values[:len(fields)] = list(fields.values())
    reach = np.zeros(4, np.int64)
    broken = tile.reaches(tile.OPS.index(op), values, np.array([tile.DTYPES.index(d) for d in padded]), reach)
    assert broken == relation(op, fields, dtypes)
    if not broken:
        stops = [max((b.stop for b in boxes), default=0) for boxes in footprints(op, fields, dtypes)]
        assert reach[:len(word.operands)].tolist() == stops[:len(word.operands)]


def test_bf16_is_ml_dtypes_bfloat16():
    assert NUMPY_DTYPES["bf16"] is ml_dtypes.bfloat16
