"""The instruction set: one definition per ISA instruction of the AI Core (docs/languages.md, program).

A definition states the pipe, the operands with their scopes, the number fields with their limits, and the bytes that cross GM. Limits
are those of the vendor's public Ascend C reference for A2/A3 (DataCopy, LoadData, Mmad, Fixpipe, vector calls). For copies between L0C,
UB and L1 they are those for 310P (DataCopy, in matrix mode from L0C). A block is 32 bytes, a fractal 512 bytes. The cost of an
instruction is data of the machine. Its meaning is in `meaning.py`. A machine has the instructions that its pipes and scopes allow,
without those that its file says it `lacks`.
"""
from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from aoec.base.errors import CheckError
from aoec.ir.index import DTYPES, Expr, Int, Var, ceildiv
from aoec.ir.program import OPTIONAL, For, Instr, Item, Program, Ref

BLOCK_BYTES = 32
FRACTAL_BYTES = 512
REPEAT_BYTES = 256  # what one vector repeat covers
MOST_REACH = 65536  # bytes of UB in which all that one gather takes lies


@dataclass(frozen=True, slots=True)
class Operand:
    name: str
    scopes: tuple[str, ...]
    writes: bool = False


@dataclass(frozen=True, slots=True)
class Number:
    """An integer field; `low` and `high` are inclusive. `real` fields hold a real constant instead."""

    name: str
    low: int = 0
    high: int = 65535
    real: bool = False


@dataclass(frozen=True, slots=True)
class Instruction:
    """`gm_bytes`: bytes between GM and the core, over the fields and `size` (bytes of the GM operand's dtype); 0 if none."""

    name: str
    pipe: str
    operands: tuple[Operand, ...]
    numbers: tuple[Number, ...]
    gm_bytes: Expr = Int(0)

    def fields(self) -> tuple[str, ...]:
        """Return field names in the order they are shown."""
        return tuple(o.name for o in self.operands) + tuple(n.name for n in self.numbers)

    def takes(self, given: tuple[str, ...]) -> bool:
        """Return whether these are its fields, in order; optional ones may be left out."""
        return given == tuple(f for f in self.fields() if f in given or f not in OPTIONAL)

    def runs_on(self, pipes: Collection[str], scopes: Collection[str]) -> bool:
        """Return True for a core that has the pipe and, of every operand, a scope."""
        return self.pipe in pipes and all("GM" in o.scopes or not set(o.scopes).isdisjoint(scopes) for o in self.operands)


def _out(*scopes: str) -> Operand: return Operand("dst", scopes, writes=True)
def _in(name: str, *scopes: str) -> Operand: return Operand(name, scopes)


_REPEAT = Number("repeat", 0, 255)
_LANES = Number("lanes", 1, 128)  # elements of the last repeat that take part; earlier ones are whole


def _strides(*names: str) -> tuple[Number, ...]:
    """Return block stride (between the eight blocks of a repeat) and repeat stride (between repeats), both in blocks."""
    return tuple(Number(f"{n}_blk", 0, 255) for n in names) + tuple(Number(f"{n}_rep", 0, 255) for n in names)


def _several(name: str, count: int, before: tuple[Number, ...] = (), after: tuple[Number, ...] = ()) -> Instruction:
    """Return a word of so many sources, src0 on."""
    sources = [f"src{i}" for i in range(count)]
    return Instruction(name, "V", (_out("UB"), *[_in(s, "UB") for s in sources]),
                       before + (_LANES, _REPEAT) + _strides("dst", *sources) + after)


def _unary(name: str, before: tuple[Number, ...] = (), after: tuple[Number, ...] = ()) -> Instruction:
    return Instruction(name, "V", (_out("UB"), _in("src", "UB")), before + (_LANES, _REPEAT) + _strides("dst", "src") + after)


def _reduce(name: str) -> Instruction:
    """Return one result per repeat, at dst + i * dst_rep elements."""
    return Instruction(name, "V", (_out("UB"), _in("src", "UB")),
                       (_LANES, _REPEAT, Number("dst_rep", 0, 65535), Number("src_blk", 0, 255), Number("src_rep", 0, 255)))


_LOAD2D = (Number("repeat", 0, 255), Number("src_stride"), Number("dst_gap"), Number("transpose", 0, 1))
_SCALAR = (Number("scalar", real=True),)
_MODE = (Number("mode", 0, 5),)  # of a comparison: LT, GT, EQ, LE, GE, NE, in the order of Ascend C's CMPMODE
_LOAD3D = (
    Number("h", 1, 32767), Number("w", 1, 32767), Number("channels", 1, 65535), Number("k_start"), Number("k_size", 1), Number("m_start"),
    Number("m_size", 1), Number("stride_h", 1, 63), Number("stride_w", 1, 63), Number("filter_h", 1, 511), Number("filter_w", 1, 511),
    Number("dilation_h", 1, 255), Number("dilation_w", 1, 255), Number("pad_top", 0, 255), Number("pad_bottom", 0, 255),
    Number("pad_left", 0, 255), Number("pad_right", 0, 255), Number("pad_value", -128, 127))
_UNIT = Number("unit", 0, 1)  # L0C is handed over between M and FIXP in granules of 512 bytes, not in whole tiles (UnitFlag)
_ATOMIC = Number("atomic", 0, 1)  # added to what GM holds
_FIXPIPE = (Number("m", 0, 8192), Number("n", 0, 4095), Number("src_rows"), Number("dst_stride", 0, 2**31 - 1), Number("relu", 0, 1),
            _UNIT, _ATOMIC)
_PAD = Number("pad", real=True)
_ZERO = Number("zero", -256, 255)  # the zero point in the words of the scales
_MMAD = (Number("m", 0, 4095), Number("n", 0, 4095), Number("k", 0, 4095), Number("init", 0, 1), _UNIT)

_ALL = (
    # GM -> L1. Lengths and gaps in blocks, gaps from the end of a burst to the start of the next
    Instruction("copy_gm_l1", "MTE2", (_out("L1"), _in("src", "GM")),
                (Number("bursts", 0, 4095), Number("length"), Number("src_gap"), Number("dst_gap")), Var("bursts") * Var("length") * 32),
    # a rows x cols matrix with row stride src_stride (elements) becomes NZ with dst_rows rows; columns are zero-filled to C0,
    # rows from `rows` to dst_rows keep what they held
    Instruction("copy_gm_l1_nd2nz", "MTE2", (_out("L1"), _in("src", "GM")),
                (Number("rows", 0, 16384), Number("cols"), Number("src_stride", 1), Number("dst_rows", 1, 16384)),
                Var("rows") * Var("cols") * Var("size")),
    # L1 -> L0: `repeat` fractals; src_stride start to start, dst_gap end to start, both in fractals; transpose turns each 16x16
    Instruction("load_l0a", "MTE1", (_out("L0A"), _in("src", "L1")), _LOAD2D),
    Instruction("load_l0b", "MTE1", (_out("L0B"), _in("src", "L1")), _LOAD2D),
    # img2col: rows m_start.. of the output positions of an h x w image [channels/C0][h][w][C0] in L1, columns k_start.. of
    # (channel/C0, filter_h, filter_w, C0), into ZZ with ceil(k_size/C0) column fractals, whole ones; positions in the padding and
    # rows past the last output position read 0; h and w are of the image in L1, which pads as if it were all. Four channels of two
    # bytes lie [h][w][4], columns are of (filter_h, filter_w, 4), and 0 behind the last (LoadData3DParamsV2: channelSize of 4); of
    # int8 positions in the padding read `pad_value` (padValue)
    Instruction("load3d", "MTE1", (_out("L0A"), _in("src", "L1")), _LOAD3D),
    Instruction("load_bt", "MTE1", (_out("BT"), _in("src", "L1")), (Number("length", 0, 65535),)),  # blocks
    Instruction("load_fb", "FIXP", (_out("FB"), _in("src", "L1")), (Number("length", 0, 65535),)),  # blocks
    # L0C (NZ, m rounded up to 16 rows) = (init ? 0 or bias : L0C) + A (ZZ, ceil(k/C0) column fractals) x B (ZN, ceil(n/16));
    # just m x n x k elements take part, the rest of the fractals is neither used nor changed; with init = 0 the bias is not read
    Instruction("mmad", "M", (_out("L0C"), _in("a", "L0A"), _in("b", "L0B")), _MMAD),
    Instruction("mmad_bias", "M", (_out("L0C"), _in("a", "L0A"), _in("b", "L0B"), _in("bias", "BT")), _MMAD),
    # L0C (NZ with src_rows rows) -> GM with cast and relu. nd: dst_stride elements between rows.
    # nz: [n/C0][row][C0], dst_stride elements between planes, C0 of the dtype in GM and n a multiple of it. unit: with all mmads
    # of its tile. atomic (copy_ub_gm too): sums are rounded once, to the dtype in GM; a tensor that any atomic write adds to
    # holds zeros when the program starts
    Instruction("fixpipe_nd", "FIXP", (_out("GM"), _in("src", "L0C")), _FIXPIPE, Var("m") * Var("n") * Var("size")),
    Instruction("fixpipe_nz", "FIXP", (_out("GM"), _in("src", "L0C")), _FIXPIPE, Var("m") * Var("n") * Var("size")),
    # the same of int32 into int8 (quantPre VREQ8), after relu: times the scale of its column (ties to even), plus the zero point, limited
    # to int8. A column's scale is a word of 64 bits with its zero point (scales.py); of its fraction ten bits count (Ascend C, Fixpipe:
    # constraints). `zero` says which zero point words are made with, by whoever brings scales in fp32
    *[Instruction(f"fixpipe_{n}_scale", "FIXP", (_out("GM"), _in("src", "L0C"), _in("scale", "FB")), (*_FIXPIPE, _ZERO),
                  Var("m") * Var("n") * Var("size")) for n in ("nd", "nz")],
    # GM <-> UB: length and GM gap in bytes, UB gap in blocks; a burst starts on a block in UB, and what is left of its last one becomes
    # `pad`, or where there is none its first element (DataCopyPad: paddingValue)
    Instruction("copy_gm_ub", "MTE2", (_out("UB"), _in("src", "GM")),
                (Number("bursts", 0, 4095), Number("length", 0, 2097151), Number("src_gap", 0, 2**31 - 1), Number("dst_gap"), _PAD),
                Var("bursts") * Var("length")),
    # a burst from where an index says, which the scalar unit reads from UB and counts from the end where it is negative: `pitch` bytes from
    # what one index names to what the next does, `extent` of them in all; an index beyond is taken as the last, or first
    Instruction("copy_gm_ub_at", "MTE2", (_out("UB"), _in("src", "GM"), _in("index", "UB")),
                (Number("length", 0, 2097151), Number("pitch", 0, 2**31 - 1), Number("extent", 1, 2**31 - 1)), Var("length")),
    Instruction("copy_ub_gm", "MTE3", (_out("GM"), _in("src", "UB")),
                (Number("bursts", 0, 4095), Number("length", 0, 2097151), Number("src_gap"), Number("dst_gap", 0, 2**31 - 1), _ATOMIC),
                Var("bursts") * Var("length")),
    # coupled cores: L0C (fractals of 16 x 16) -> UB with cast and relu, `bursts` runs of `length` fractals; src_gap in fractals, dst_gap
    # in blocks. UB -> L1: lengths and gaps in blocks
    Instruction("copy_l0c_ub", "V", (_out("UB"), _in("src", "L0C")),
                (Number("bursts", 0, 4095), Number("length"), Number("src_gap"), Number("dst_gap"), Number("relu", 0, 1))),
    Instruction("copy_ub_l1", "MTE3", (_out("L1"), _in("src", "UB")),
                (Number("bursts", 0, 4095), Number("length"), Number("src_gap"), Number("dst_gap"))),
    *[_several(n, 2) for n in ("vadd", "vsub", "vmul", "vdiv", "vmax", "vmin")],
    # a sum, and 0 where it is below (AddRelu); of fp32 also into fp16, rounded once (AddReluCast), strides and lanes as of vconv
    _several("vaddrelu", 2), _several("vaddreluconv", 2),
    *[_unary(n, _SCALAR) for n in ("vadds", "vmuls", "vmaxs", "vmins")],
    *[_unary(n) for n in ("vexp", "vln", "vsqrt", "vrsqrt", "vrec", "vabs", "vrelu", "vcopy")],
    # cast by the dtypes of the operands; lanes and repeats count the wider one's elements, strides are each side's own. Whole numbers that
    # become narrower keep their low bytes, but int32 in 16 bits becomes the nearest that there is (Cast saturates)
    _unary("vconv"),
    Instruction("vdup", "V", (_out("UB"),), (*_SCALAR, _LANES, _REPEAT) + _strides("dst")),
    *[_reduce(n) for n in ("vcmax", "vcmin", "vcadd")],
    # an element for each block of a repeat (ReduceDataBlock, before 9.1 BlockReduce), one behind the other; dst_rep counts eight elements
    *[_reduce(n) for n in ("vcgmax", "vcgmin", "vcgadd")],
    # each of 8 * repeat elements of src fills one block
    Instruction("vbrcb", "V", (_out("UB"), _in("src", "UB")), (_REPEAT, Number("dst_blk", 0, 255), Number("dst_rep", 0, 65535))),
    # 16 rows of one block, src_stride blocks apart -> E = 32 / size rows of 16 elements: element (j, r) goes to row j (dst_stride
    # blocks apart), and for 4-byte types r >= 8 to a second block dst_half blocks on; repeats step by dst_rep and src_rep blocks. Of
    # bytes half a block is read and half of one written, of 16 rows: the upper ones with src_high and dst_high (TransDataTo5HD:
    # srcHighHalf, dstHighHalf)
    Instruction("vnchwconv", "V", (_out("UB"), _in("src", "UB")),
                (_REPEAT, Number("dst_stride"), Number("dst_half"), Number("src_stride"), Number("dst_rep"), Number("src_rep"),
                 Number("dst_high", 0, 1), Number("src_high", 0, 1))),
    # the first `lanes` elements of each of `repeat` rows, src_rep blocks apart, one behind the other (GatherMask, pattern 7; on 310P with
    # masks, and as many repeats a row as its bytes need, src0RepeatStride being a whole share of src_rep); bytes two by two, as 16 bits
    Instruction("vreducev2", "V", (_out("UB"), _in("src", "UB")), (Number("lanes", 1), Number("repeat"), Number("src_rep"))),
    # element e of dst is that of src at byte offset[e] from its start; all of them lie below `reach` bytes, as the program sees to: what
    # runs programs for values takes one beyond as the last (Gather: offsets one behind the other, lanes and repeats as of dst; offsets of
    # 16 bits are enough for 310P, of which no page that was read says more)
    Instruction("vgather", "V", (_out("UB"), _in("src", "UB"), _in("offset", "UB")),
                (_LANES, _REPEAT, Number("dst_rep", 0, 255), Number("reach", 1, MOST_REACH))),
    # a comparison, and the selection of 1 or 0 by the mask that it leaves, a repeat at a time: dst is fp16 or fp32
    _several("vcmp", 2, after=_MODE), _unary("vcmps", _SCALAR, _MODE),
    # the mask of what is not 0 in src0, and the selection of src1, elsewhere src2 or the scalar, by it
    _several("vsel", 3), _several("vsels", 2, _SCALAR),
    # bits of whole numbers; the scalar is how far they are shifted
    _several("vand", 2), _several("vor", 2), _unary("vnot"), _unary("vshls", _SCALAR), _unary("vshrs", _SCALAR),
    # casts of fp32 to fp32: down, up, to the nearest (ties to even), toward zero
    *[_unary(n) for n in ("vfloor", "vceil", "vrint", "vtrunc")],
)

INSTRUCTIONS: dict[str, Instruction] = {i.name: i for i in _ALL}


def pixel_bytes(channels: int, size: int) -> int:
    """Return bytes of a pixel as load3d reads an image: a block, or where it has just four channels of two bytes, these."""
    return 8 if (channels, size) == (4, 2) else BLOCK_BYTES


def repeats(elements: Expr, size: int) -> Expr:
    """Return the number of vector repeats that cover `elements` contiguous elements of `size` bytes."""
    return ceildiv(elements * size, REPEAT_BYTES)


# what ties the fields of one instruction together, by the number that the kernels give it
RELATIONS = (
    "", "rows is greater than dst_rows, so the column blocks overlap", "transpose works on elements of two bytes only",
    "k_start must be a multiple of C0, and k_start + k_size may not pass the last block of what filter and channels make",
    "the filter is larger than the padded image", "src_rows is less than m",
    "lanes is more than a repeat of 256 bytes of the wider dtype holds",
    "n must be a multiple of C0 of the dtype in GM", "an atomic write adds fp32, fp16, bf16 or int32",
    "an atomic copy adds whole elements: length and dst_gap must be multiples of their bytes", "pad_value is for elements of one byte",
    "bytes are packed two by two: lanes must be even")
ADDED = ("fp32", "fp16", "bf16", "int32")  # dtypes of atomic writes
_ALIGN_BYTES = {"L1": 32, "UB": 32, "L0A": 512, "L0B": 512, "L0C": 64, "BT": 64, "FB": 128}
_MMAD_DTYPES = {"fp16": "fp32", "bf16": "fp32", "fp32": "fp32", "int8": "int32"}
_FIXPIPE_DTYPES = {"fp32": ("fp32", "fp16", "bf16"), "int32": ("int32",)}
_INDICES = ("int32", "int64")  # dtypes of what the scalar unit takes as an index
_OFFSETS = ("int32", "uint32")  # dtypes of what the vector unit takes as offsets
CASTS = {frozenset(p) for p in (
    ("fp32", "fp16"), ("fp32", "bf16"), ("fp32", "int32"), ("fp16", "int8"), ("fp16", "uint8"), ("fp16", "int32"), ("fp16", "bool"),
    ("fp32", "int16"), ("fp32", "uint16"), ("fp32", "int64"), ("fp32", "uint32"), ("fp32", "uint64"),
    ("int32", "int16"), ("int32", "uint16"), ("int32", "int64"), ("int32", "uint32"), ("int64", "uint32"), ("int64", "uint64"))}
WHOLE = ("int32", "uint32", "int64", "uint64")  # whole numbers in which the unit computes, or that it takes apart into such
_ARITHMETIC = ("vadd", "vsub", "vmul", "vdiv", "vmax", "vmin", "vadds", "vmuls", "vmaxs", "vmins")
_BITS = ("vand", "vor", "vnot", "vshls", "vshrs")
_BURSTS = ("copy_gm_ub", "copy_ub_gm", "copy_gm_l1", "load_fb", "vcopy", "vdup")  # runs of bytes, whatever they mean
_SPELT = {4: "four", 8: "eight"}
_MOVES = ("copy_gm_l1", "copy_gm_l1_nd2nz", "load_l0a", "load_l0b", "load3d", "load_bt", "load_fb", "copy_gm_ub", "copy_ub_gm",
          "copy_ub_l1", "vcopy", "vdup")


def operand_align(word: Instruction, operand: Operand, scope: str, dtype: str) -> int:
    """Return bytes that the address of an operand must be a multiple of: by scope; an element in GM, for an index and for the results of a
    reduction."""
    if word.name in ("vcmax", "vcmin", "vcadd") and operand.writes or operand.name == "index":
        return DTYPES[dtype]
    return _ALIGN_BYTES.get(scope, BLOCK_BYTES if word.name.startswith("fixpipe_nz") else DTYPES[dtype])


def check_dtypes(word: Instruction, dtypes: list[str]) -> None:
    """Raises CheckError where the instruction does not take operands of these dtypes (in the order of its operands)."""
    name, dst, rest = word.name, dtypes[0], dtypes[1:]
    same = all(d == dst for d in rest)
    if name in _MOVES:
        most = 8 if name in _BURSTS else 4
        good, need = same and dst in DTYPES and DTYPES[dst] <= most, f"operands of one dtype of at most {_SPELT[most]} bytes"
    elif name == "copy_gm_ub_at":
        good, need = rest[0] == dst and rest[1] in _INDICES, f"operands of one dtype, and an index of {' or '.join(_INDICES)}"
    elif name in ("mmad", "mmad_bias"):
        good = rest[0] == rest[1] and _MMAD_DTYPES.get(rest[0]) == dst and all(d == dst for d in rest[2:])
        need = "fp16, bf16 or fp32 into fp32, or int8 into int32, and a bias of the dtype of dst"
    elif name.endswith("_scale"):
        good, need = dtypes == ["int8", "int32", "uint64"], "int32 to int8, and scales as words in uint64"
    elif name.startswith("fixpipe") or name == "copy_l0c_ub":
        good, need = dst in _FIXPIPE_DTYPES.get(rest[0], ()), "fp32 to fp32, fp16 or bf16, or int32 to int32"
    elif name == "vconv":
        good, need = frozenset((dst, *rest)) in CASTS, "one of the casts " + ", ".join(sorted("-".join(sorted(c)) for c in CASTS))
    elif name == "vaddreluconv":
        good, need = dtypes == ["fp16", "fp32", "fp32"], "sources in fp32 and a result in fp16"
    elif name == "vbrcb":
        good, need = same and DTYPES[dst] in (2, 4, 8), "operands of one dtype of two or four bytes"
    elif name == "vreducev2":
        good, need = same and DTYPES[dst] in (1, 2, 4), "operands of one dtype of at most four bytes"
    elif name == "vgather":
        good = rest[0] == dst and DTYPES[dst] in (2, 4) and rest[1] in _OFFSETS
        need = f"operands of one dtype of two or four bytes, and offsets in {' or '.join(_OFFSETS)}"
    elif name == "vnchwconv":
        good, need = same and DTYPES[dst] <= 4, "operands of one dtype of at most four bytes"
    elif name in ("vcmp", "vcmps"):
        good = dst in ("fp16", "fp32") and all(d == rest[0] for d in rest) and rest[0] in ("fp16", "fp32", *WHOLE)
        need = f"sources that are all fp16, fp32, {', '.join(WHOLE)}, and a result in fp16 or fp32"
    elif name in ("vsel", "vsels"):
        good = rest[0] in ("fp16", "fp32") and all(d == dst for d in rest[1:]) and DTYPES[dst] > 1
        need = "a mask in fp16 or fp32, and all else alike"
    elif name in _BITS:
        good, need = same and dst in WHOLE, f"operands that are all {', '.join(WHOLE)}"
    elif name in _ARITHMETIC:
        good, need = same and dst in ("fp16", "fp32", *WHOLE), f"operands that are all fp16, fp32, {', '.join(WHOLE)}"
    elif name in ("vfloor", "vceil", "vrint", "vtrunc"):
        good, need = same and dst == "fp32", "operands in fp32"
    else:
        good, need = same and dst in ("fp16", "fp32"), "operands that are all fp16 or all fp32"
    if not good:
        raise CheckError(f"{name} needs {need}; it has {', '.join(dtypes)}")


def added_to(program: Program) -> frozenset[str]:
    """Return names of the tensors that atomic writes add to: zero when the program starts."""
    return frozenset(_atomic_targets(i for s in program.streams for i in s.body))


def _atomic_targets(items: Iterable[Item]) -> Iterator[str]:
    for item in items:
        if isinstance(item, For):
            yield from _atomic_targets(item.body)
        elif isinstance(item, Instr) and item["atomic"] != Int(0):
            dst = item["dst"]
            yield dst.buffer if isinstance(dst, Ref) else ""
