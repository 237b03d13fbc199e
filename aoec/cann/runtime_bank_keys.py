"""Keys of run-time knowledge banks: made from an operator's sizes and types, and read back into them.

MatMulV3 rounds m and n up to 16, and k up to 16 (8 for fp32). Its key also says of each whether it was aligned before. bf16 has the key of
fp16. Batches, UB slots and reserved fields always have the same values. Conv2DV2 takes an image's and a filter's sizes as they are.
Sources: the functions of the vendor's operator library ops-nn (2026-08) that make these keys.
"""
from __future__ import annotations

from dataclasses import dataclass

from aoec.base.errors import BankError
from aoec.cann.runtime_bank import Fields, kind_of

# the vendor's numbers (ge::DataType, ge::Format) of what is said here; dtypes by our names
DTYPE = {"fp32": 0, "fp16": 1, "int8": 2, "int32": 3, "bf16": 27}
NCHW, NHWC, ND, NZ = 0, 1, 2, 29
DTYPE_OF, FORMAT_OF = {v: k for k, v in DTYPE.items()}, {NCHW: "NCHW", NHWC: "NHWC", ND: "ND", NZ: "FRACTAL_NZ"}
MATMUL, QUANTISED, CONV2D = "MatMulV3", "QuantBatchMatmulV3", "Conv2DV2"
GENERATION = {CONV2D: "Ascend950"}  # operators whose public banks are of one generation of chips alone



@dataclass(frozen=True, slots=True)
class Product:
    """A matrix product [m, k] x [k, n], as its key says it; either operand may be stored transposed, and in fractals (NZ).

    `rounded`: the axes that are smaller than said by less than a fractal, as a key that was read does not say by how much.
    """

    m: int
    k: int
    n: int
    dtype: str = "fp16"
    out: str = ""
    trans_a: bool = False
    trans_b: bool = False
    bias: bool = False
    nz_a: bool = False
    nz_b: bool = False
    rounded: str = ""

    @property
    def result(self) -> str:
        """Return the dtype of the result."""
        return self.out or self.dtype


@dataclass(frozen=True, slots=True)
class Window:
    """A convolution; pads: top, bottom, left, right."""

    n: int
    c: int
    h: int
    w: int
    co: int
    kh: int
    kw: int
    stride: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    bias: bool = False
    dtype: str = "fp16"
    out: str = ""

    @property
    def ho(self) -> int:
        """Return rows of results."""
        return (self.h + self.pads[0] + self.pads[1] - self.dilation[0] * (self.kh - 1) - 1) // self.stride[0] + 1

    @property
    def wo(self) -> int:
        """Return columns of results."""
        return (self.w + self.pads[2] + self.pads[3] - self.dilation[1] * (self.kw - 1) - 1) // self.stride[1] + 1

    @property
    def point(self) -> bool:
        """Return whether pixels are one axis: a filter of one pixel that leaves none out, or results in one row."""
        return self.ho == 1 or (self.kh, self.kw, *self.stride) == (1, 1, 1, 1) and not any(self.pads)


Problem = Product | Window


def key_of(problem: Problem) -> tuple[str, Fields]:
    """Return (operator, key). Raise BankError where the operator's key has no word for it."""
    return matmul_key(problem) if isinstance(problem, Product) else conv2d_key(problem)


def problem_of(op: str, key: Fields) -> Problem:
    """Return the problem that a key describes. Raise BankError with the reason where the key is of no known kind."""
    if op == CONV2D:
        return window_of(key)
    if op in (MATMUL, QUANTISED):
        return product_of(key) if op == MATMUL else quantised_of(key)
    kind_of(op)
    raise BankError(f"{op}: what its fields mean is not documented")


def matmul_key(p: Product) -> tuple[str, Fields]:
    """Return MatMulV3 and its key."""
    for dtype in (p.dtype, p.result):
        if dtype not in ("fp16", "bf16", "fp32"):
            raise BankError(f"MatMulV3 has no key for {dtype}")
    number = DTYPE | {"bf16": DTYPE["fp16"]}
    sizes = {x: (getattr(p, x), unit(x, p.dtype)) for x in "mkn"}
    fields = {**{x: -(-size // by) * by for x, (size, by) in sizes.items()},
              **{f"{x}_align_flag": size % by == 0 and x not in p.rounded for x, (size, by) in sizes.items()},
              **dict.fromkeys([f"batch_{s}{i}" for s in "ab" for i in (1, 2, 3, 4)], 1),
              "a_dtype": number[p.dtype], "b_dtype": number[p.dtype], "out_dtype": number[p.result],
              "a_format": NZ if p.nz_a else ND, "b_format": NZ if p.nz_b else ND, "out_format": ND,
              "trans_a_flag": p.trans_a, "trans_b_flag": p.trans_b, "bias_flag": p.bias, **ALIKE}
    return MATMUL, {n: fields[n] for n in kind_of(MATMUL).key}


ALIKE: Fields = {"aub_double_num": 1.0, "bub_double_num": 1.0, "fused_double_operand_num": 0.0, "l1_fused_num": 0.0, "reserved_bool": False,
                 **{f"reserved_params{i}": 0 for i in range(1, 7)}}


def unit(axis: str, dtype: str) -> int:
    """Return the size to which an axis is rounded up."""
    return 8 if axis == "k" and dtype == "fp32" else 16


def quantised_of(key: Fields) -> Product:
    """Return the product of int8 of a QuantBatchMatmulV3 key; its scales and its bias, which FIXPIPE and L0C take care of, are left out.
    What its `reserved_bool` says is not documented, so that it is read and not written."""
    _check_constant_fields(QUANTISED, {n: v for n, v in key.items() if n != "reserved_bool"})
    one, other = (_dtype(QUANTISED, key, n) for n in ("a_dtype", "b_dtype"))
    if (one, other) != ("int8", "int8") or key["trans_a_flag"]:
        raise BankError(f"QuantBatchMatmulV3: a product of {one} and {other}" + ", the left transposed" * bool(key["trans_a_flag"]))
    formats = [key[f"{n}_format"] for n in ("a", "b", "out")]
    if formats not in ([ND, ND, ND], [ND, NZ, ND]):
        raise BankError(f"QuantBatchMatmulV3: formats {formats} (known: {ND}, of the right operand {NZ} too)")
    if min(key[x] for x in "mkn") < 1:
        raise BankError("QuantBatchMatmulV3: m, k and n begin at 1")
    return Product(int(key["m"]), int(key["k"]), int(key["n"]), "int8", "int32", False, bool(key["trans_b_flag"]),
                   nz_b=key["b_format"] == NZ)


def _check_constant_fields(op: str, key: Fields) -> None:
    """Raise BankError where a field that is always alike is not."""
    alike = {n: v for n, v in ALIKE.items() if n in key} | {n: 1 for n in key if n.startswith("batch_")}
    if odd := [n for n, v in alike.items() if key[n] != v]:
        raise BankError(f"{op}: {odd[0]} {key[odd[0]]}: what that says is not documented")


def product_of(key: Fields) -> Product:
    """Return the product of a MatMulV3 key."""
    _check_constant_fields(MATMUL, key)
    dtype, other, out = (_dtype(MATMUL, key, n) for n in ("a_dtype", "b_dtype", "out_dtype"))
    if dtype != other or dtype not in ("fp16", "fp32"):
        raise BankError(f"MatMulV3: a product of {dtype} and {other}")
    if (key["a_format"], key["out_format"]) != (ND, ND) or key["b_format"] not in (ND, NZ):
        raise BankError(f"MatMulV3: formats {key['a_format']}, {key['b_format']}, {key['out_format']} (known: {ND}, {NZ})")
    if min(key[x] for x in "mkn") < 1 or any(key[x] % unit(x, dtype) for x in "mkn"):
        raise BankError(f"MatMulV3: m {key['m']}, k {key['k']}, n {key['n']} are no sizes of its keys")
    return Product(int(key["m"]), int(key["k"]), int(key["n"]), dtype, out if out != dtype else "", bool(key["trans_a_flag"]),
                   bool(key["trans_b_flag"]), bool(key["bias_flag"]), nz_b=key["b_format"] == NZ,
                   rounded="".join(x for x in "mkn" if not key[f"{x}_align_flag"]))


def _dtype(op: str, key: Fields, field: str) -> str:
    number = int(key[field])
    if number not in DTYPE_OF:
        raise BankError(f"{op}: {field} {number} is no data type that is known here")
    return DTYPE_OF[number]


def conv2d_key(w: Window) -> tuple[str, Fields]:
    """Return Conv2DV2 and its key. Images are in NCHW, as ONNX has them."""
    for dtype in (w.dtype, w.out or w.dtype):
        if dtype not in DTYPE:
            raise BankError(f"Conv2DV2 has no key for {dtype}")
    number = DTYPE[w.dtype]
    fields = {"aDtype": number, "bDtype": number, "cDtype": DTYPE[w.out or w.dtype], "biasDtype": number if w.bias else DTYPE["fp16"],
              "aShapeN": w.n, "aShapeH": w.h, "aShapeW": w.w, "bShapeN": w.co, "bShapeC": w.c // w.groups, "bShapeH": w.kh, "bShapeW": w.kw,
              "cShapeH": w.ho, "cShapeW": w.wo, "aFormat": NCHW, "bFormat": NCHW, "cFormat": NCHW, "groups": w.groups,
              "strideH": w.stride[0], "strideW": w.stride[1], "dilationH": w.dilation[0], "dilationW": w.dilation[1],
              "padTop": w.pads[0], "padBottom": w.pads[1], "padLeft": w.pads[2], "padRight": w.pads[3],
              "biasFlag": w.bias, "hf32Flag": False,
              **{f"reserverdParam{i}": 0 if i < 4 else 0.0 for i in range(1, 7)}}
    return CONV2D, {n: fields[n] for n in kind_of(CONV2D).key}


def window_of(key: Fields) -> Window:
    """Return the convolution of a Conv2DV2 key."""
    if any(key[f"reserverdParam{i}"] for i in range(1, 7)):
        raise BankError("Conv2DV2: with what else FIXPIPE does (reserverdParam)")
    dtype, other, out = (_dtype(CONV2D, key, n) for n in ("aDtype", "bDtype", "cDtype"))
    if dtype != other:
        raise BankError(f"Conv2DV2: a convolution of {dtype} and {other}")
    pads = tuple(int(key[f"pad{n}"]) for n in ("Top", "Bottom", "Left", "Right"))
    groups = int(key["groups"])
    sizes = [int(key[n]) for n in ("aShapeN", "aShapeH", "aShapeW", "bShapeN", "bShapeH", "bShapeW", "strideH", "strideW",
                                   "dilationH", "dilationW")]
    if min(sizes) < 1 or key["bShapeC"] < 1 or groups < 1 or min(pads) < 0:
        raise BankError("Conv2DV2: sizes, strides, dilations and groups begin at 1, pads at 0")
    n, h, width, co, kh, kw, sh, sw, dh, dw = sizes
    w = Window(n, int(key["bShapeC"]) * groups, h, width, co, kh, kw, (sh, sw), pads, (dh, dw), groups,  # type: ignore[arg-type]
               bool(key["biasFlag"]), dtype, out if out != dtype else "")
    if (w.ho, w.wo) != (key["cShapeH"], key["cShapeW"]):
        said = f"{key['cShapeH']} x {key['cShapeW']}"
        raise BankError(f"Conv2DV2: {w.ho} x {w.wo} results follow from its sizes, cShapeH and cShapeW say {said}")
    return w


def doubt(op: str, soc: str) -> str:
    """Return why a key may not be hit on a chip whatever its fields, in words. Return "" where nothing is known against it."""
    of = GENERATION.get(op, "")
    known = not of or soc.startswith(of)
    return "" if known else f"public banks of {op} are of {of} alone; whether CANN asks for it on {soc} is not known"
