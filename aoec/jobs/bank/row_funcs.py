"""Funcs of the operators in a profile's rows. A func comes from the banks' records where one matches the row, else it is made from the
operator's type and shapes.

A row has no attributes, so some are assumed. A softmax or a norm works along the last axis. A window has the least stride and padding that
give its sizes. Matrices that could be read either way are not transposed. A row from which no func can be made is refused by its name.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isqrt, prod

from aoec.bank.record import DEFAULT, IMPORTED, Record
from aoec.base.errors import UnsupportedError
from aoec.cann.op_summary import Operand
from aoec.cann.op_summary_join import IMAGES, Timed, image, logical, product
from aoec.cann.op_types import plain
from aoec.ir.func.tir import Buffer, Func
from aoec.ir.graph.graph import Tensor
from aoec.ir.index import DTYPES, Int
from aoec.ir.text.parse import parse_func
from aoec.jobs.bank.bank_verify import func_of
from aoec.jobs.stages.stages import lower_operator
from aoec.ops.registry import OPS, Op
from aoec.ops.words.layout import BLOCK_BYTES, stored_shape
from aoec.target.machine import Machine

MADE = ("fp16", "fp32")  # dtypes of what is made of a row
FAMILIES = ("elementwise", "softmax", "row_norm")  # of operators on rows, of which a row of a profile says enough
LONGEST = 1 << 20  # sizes of a call are at most that
RELEASED = {"FastGelu": "gelu_tanh"}  # CANN's types of other releases -> ours


@dataclass(frozen=True)
class Known:
    """A record of a bank with what a profile would say of its func."""

    record: Record
    timed: Timed


def known_records(records: Iterable[Record], machine: Machine) -> list[Known]:
    """Return the records of a machine, fresh or stale, that have their func, with modelled times in µs. Default and imported records are
    left out."""
    return [Known(r, Timed(types_of(r.label), *ends(r.func), r.ticks * machine.us_per_tick, "modelled", (r.label,)))
            for r in records if r.func and r.key.target == machine.name and not r.key.state.endswith((DEFAULT, IMPORTED))]


def types_of(label: str) -> tuple[str, ...]:
    """Return the operators that a record's label begins with: of "conv2d 3x3+relu 1x64x8x8->1x64x8x8" conv2d and relu."""
    return tuple(part.split()[0] for part in label.rpartition(" ")[0].split("+") if part.split()) or (label,)


def ends(func: str) -> tuple[tuple[Operand, ...], tuple[Operand, ...]]:
    """Return what a profile would say of a func's inputs and outputs. Raise UnsupportedError for a func without fixed shapes."""
    parsed = parse_func(func)
    return tuple(map(operand, parsed.inputs)), tuple(map(operand, parsed.outputs))


def operand(b: Buffer) -> Operand:
    """Return a func's tensor as it lies; five dimensions, the last a block, are those of an image."""
    sizes = tuple(s.value for s in b.shape if isinstance(s, Int))
    if len(sizes) < len(b.shape):
        raise UnsupportedError(f"{b.name} has no fixed shape")
    if b.layout == "ND":
        return Operand(sizes, b.dtype, IMAGES[2] if len(sizes) == 5 and sizes[-1] * DTYPES[b.dtype] == BLOCK_BYTES else "ND")
    return Operand(stored_shape(Tensor(b.name, b.dtype, sizes, b.layout)), b.dtype, b.layout)


def func_for(timed: Timed, record: Record | None) -> Func:
    """Return the func of an operator: the record's, where there is one, else made. Raise UnsupportedError where neither can be."""
    return func_of(record.func, record.key.func_key) if record else lower_operator(call_of(timed))


def call_of(t: Timed) -> str:
    """Return the operator by name and sizes, as `aoec lower` takes it. Raise UnsupportedError where a row does not say enough."""
    words, first = [plain(w) for w in t.types], t.inputs[0] if t.inputs else None
    if first is None or not t.outputs or any(w != "relu" for w in words[1:]):
        raise UnsupportedError(f"{'+'.join(t.types)}: nothing here makes such an operator from a row; a bank with its schedule would")
    if first.dtype not in MADE:
        raise UnsupportedError(f"{t.types[0]} of {first.dtype or 'no data type'}: {' and '.join(MADE)} are made from rows")
    relu = ["relu"] * (len(words) > 1)
    if words[0] == "matmul":
        return call_text("matmul", *matmul(t), first.dtype, *relu)
    if words[0] == "conv2d":
        return call_text("conv2d", *conv(t), first.dtype, *relu)
    return call_text(*rows(t, words[0]), first.dtype, *relu)


def call_text(name: str, *words: str) -> str:
    return f"{name}({', '.join(words)})"


def sizes(**named: int) -> list[str]:
    return [f"{name}={size}" for name, size in named.items()]


def matmul(t: Timed) -> list[str]:
    """Return sizes and flags of a product. A right operand in ZN, and a constant in NZ, is a packed weight."""
    p = product(t.inputs[0], t.inputs[1], t.outputs[0]) if len(t.inputs) > 1 else None
    if p is None or p.batch > 1:
        raise UnsupportedError(f"{t.types[0]}: only single products are made from rows, with shapes that meet")
    right = ["trans_b"] if p.turned[1] else ["nd"] if t.inputs[1].layout == "ND" else []
    nz = ["nz"] * (t.inputs[0].layout == "NZ")
    bias = ["bias"] * (len(t.inputs) > 2 and prod(t.inputs[2].shape) == p.n)
    return [*sizes(m=p.m, k=p.k, n=p.n), *(["trans_a"] if p.turned[0] else []), *right, *nz, *bias]


def conv(t: Timed) -> list[str]:
    """Return sizes of a convolution with equal strides and padding on all sides."""
    if len(t.inputs) < 2 or any(len(o.shape) not in (4, 5) for o in (t.inputs[0], t.outputs[0])):
        raise UnsupportedError(f"{t.types[0]}: an image of four dimensions, or of five in blocks, is needed")
    (n, c, h, w), (_, co, ho, wo) = exact(t.inputs[0]), exact(t.outputs[0])
    kh, kw = window(t.inputs[1], c)
    stride = max(1, round(h / ho))
    pad = max(0, -(-((ho - 1) * stride + kh - h) // 2))
    if any((size + 2 * pad - k) // stride + 1 != out for size, k, out in ((h, kh, ho), (w, kw, wo))):
        raise UnsupportedError(f"{t.types[0]}: no equal stride and padding make {ho}x{wo} of {h}x{w} with a window of {kh}x{kw}")
    return [*sizes(n=n, c=c, h=h, w=w, co=co, kh=kh, kw=kw, stride=stride, pad=pad), *["bias"] * (len(t.inputs) > 2)]


def exact(o: Operand) -> tuple[int, ...]:
    """Return (n, c, h, w), channels as the row says them."""
    n, c, h, w = image(o)
    return n, o.shape[3] if o.layout == "NHWC" else o.shape[1] if len(o.shape) == 4 else c, h, w


def window(w: Operand, channels: int) -> tuple[int, int]:
    """Return (kh, kw) of a filter; of a packed one that of a square."""
    if w.layout == "ZN" and len(w.shape) == 4:
        blocks = w.shape[0] // -(-channels // w.shape[-1])
        if isqrt(blocks) ** 2 != blocks or not blocks:
            raise UnsupportedError("a packed filter whose window is no square does not say it")
        return isqrt(blocks), isqrt(blocks)
    if len(w.shape) != 4:
        raise UnsupportedError(f"a filter of {len(w.shape)} dimensions does not say its window")
    planes: Sequence[int] = {"HWCN": w.shape[:2], "NHWC": w.shape[1:3]}.get(w.layout, w.shape[2:])
    return planes[0], planes[1]


def rows(t: Timed, word: str) -> list[str]:
    """Return name and sizes of an operator on rows."""
    op, shape = find_row_operator(t.types[0], word), logical(t.outputs[0])
    if op is None or not shape or t.outputs[0].layout in IMAGES[2:]:
        raise UnsupportedError(f"{t.types[0]}: nothing here makes such an operator from a row; a bank with its schedule would")
    count = op.elements.count({}) if op.elements else 0
    if count > 1 and [prod(o.shape) for o in t.inputs] != [prod(shape)] * count:
        raise UnsupportedError(f"{t.types[0]}: {count} tensors of one shape are made from rows")
    bias = ["bias"] * (op.sizes is not None and "bias" in op.sizes.flags and len(t.inputs) > 2)
    m, n = plane(prod(shape)) if op.elements else (max(prod(shape[:-1]), 1), shape[-1])
    return [op.name, *sizes(m=m, n=n), *bias]


def find_row_operator(type_: str, word: str) -> Op | None:
    """Return the operator of a row's type that is called by rows and columns alone. An operator with that type as its own name or first
    type is preferred to one with that word."""
    known = [op for op in OPS.values() if op.family in FAMILIES and op.sizes and op.sizes.required == ("m", "n") and not op.sizes.numbers]
    exact = [op for op in known if RELEASED.get(type_, type_) in (op.name, *op.cann[:1])]
    return next(iter(exact or [op for op in known if plain(op.name) == word]), None)


def plane(elements: int) -> tuple[int, int]:
    """Return rows and columns of so many elements, for elementwise work. The columns are all elements where these are few, else the
    greatest power of 2 that divides their number, LONGEST at most."""
    n = elements if elements < LONGEST else min(elements & -elements, LONGEST)
    return elements // n, n
