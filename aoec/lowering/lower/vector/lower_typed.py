"""Elementwise work in which dtypes matter, in single operations of the vector unit: comparisons, selections, integers, casts.

In UB a boolean is 1 or 0 in fp16 or fp32, of the width of the operands that were compared; in GM it is a byte. Integers of eight and
sixteen bits are calculated in int32, uint32 in int64, and are cut to their low bytes before they are stored. Functions that the unit
lacks: lower_functions.
"""
from __future__ import annotations

from collections.abc import Callable

from aoec.base.errors import UnsupportedError
from aoec.ir.func.meaning import Statement
from aoec.ir.index import (
    Binary,
    Call,
    Cast,
    Expr,
    Float,
    Int,
    Read,
    Var,
    call,
    children,
    reads,
    rebuild,
    substitute,
    variables,
    walk,
)
from aoec.lowering.lower.vector.lower_functions import FUNCTIONS, WHOLE_FUNCTIONS, rewrite
from aoec.lowering.lower.vector.lower_smooth import in_fp32, smooth
from aoec.lowering.lower.work import Work, hold, variables_of
from aoec.target.isa.words import BINARY, MODES, UNARY

REALS = ("fp32", "fp16", "bf16")
# dtype in memory -> what lies between it and the dtype in which its elements are worked on, the last
WORKED = {"bf16": ("fp32",), "int8": ("fp16", "int32"), "uint8": ("fp16", "int32"), "int16": ("fp32", "int32"), "uint16": ("int32",),
          "uint32": ("int64",), "bool": ("fp16",)}
# (from, to) of dtypes that are worked in -> what lies between where the unit has no cast
BETWEEN = {("fp16", "int64"): ("fp32",), ("fp16", "uint64"): ("fp32",), ("int32", "uint64"): ("int64",), ("int64", "fp16"): ("fp32",),
           ("uint64", "fp16"): ("fp32",), ("uint64", "int32"): ("int64",)}
SHORT = {"int8": 8, "uint8": 8, "int16": 16, "uint16": 16}  # bits of the dtype
ROUNDINGS = ("floor", "ceil", "round", "trunc")
TRUTHS = ("and", "or", "not")
BITS = ("bitand", "bitor")


def is_typed(work: Work, s: Statement) -> bool:
    """Return whether an elementwise statement has operands or a result other than reals, or compares, selects, rounds or uses functions
    of lower_functions."""
    if s.op != "=" or isinstance(s.value, Call) and s.value.fn == "select" and not reads(s.value.args[0]):
        return False
    target, found = work.dtypes.get(s.target.buffer), {work.dtypes.get(r.buffer) for r in reads(s.value)}
    if isinstance(s.value, Read) and found == {target}:
        return False
    return not {target, *found} <= {*REALS, None} or any(map(_is_new, walk(s.value)))


def name_of(e: Expr) -> str:
    """Return the operator or function of an expression that has one."""
    return e.op if isinstance(e, Binary) else e.fn if isinstance(e, Call) else ""


def _is_new(e: Expr) -> bool:
    """Return True for an operation on elements, not on places alone, that reals alone did not need."""
    return name_of(e) in (*MODES, *TRUTHS, *ROUNDINGS, *FUNCTIONS, "select") and bool(_elements(e))


def _elements(e: Expr) -> tuple[Read, ...]:
    """Return the reads that an operation is about: of a selection those that it chooses by."""
    return reads(e.args[0]) if isinstance(e, Call) and e.fn == "select" else reads(e)


def take_apart_typed(work: Work, s: Statement) -> None:
    """Add such a statement as single operations."""
    _Statement(work, s).run()


class _Statement:
    """One statement on its way; what it needs beside itself is added to the work."""

    def __init__(self, work: Work, s: Statement) -> None:
        self.work, self.s = work, s
        self.axes = [v for i in s.target.indices for v in sorted(variables(i))]
        accurate = in_fp32(s.value) or any(name_of(e) in (*FUNCTIONS, *ROUNDINGS) for e in walk(s.value))
        self.least = "fp32" if accurate else "fp16"  # the narrowest reals that it is worked out in
        self.known: dict[Expr, tuple[Expr, str]] = {}

    def run(self) -> None:
        target, work = self.s.target, self.work
        if target.buffer not in work.dtypes:
            work.dtypes[target.buffer] = self.dtype_of(self.s.value)
        dtype = work.dtypes[target.buffer]
        if dtype == "bool":
            mask = self.truth(self.s.value)
            work.truths[target.buffer] = (target, mask)
            self.add(Cast("bool", self.cast(mask, "fp16")))
            return
        value, kind = self.value(self.s.value)
        if kind in (dtype, ""):
            self.add(_number(value, dtype))
            return
        at = self.atom(value, kind)
        if dtype in SHORT and (kind not in REALS or SHORT[dtype] == 16):  # casts to these limit what is larger
            at, kind = self.truncate(self.through(at, kind, "int32"), dtype), "int32"
        *between, last = self.down(kind, dtype)
        for step in between:
            at = self.cast(at, step)
        self.add(at if work.dtypes[at.buffer] == last else Cast(last, at))

    def add(self, e: Expr) -> None:
        self.work.statements.append(Statement(self.s.target, "=", e, None))

    def dtype_of(self, e: Expr) -> str:
        """Return the dtype of a local tensor that holds `e`, of which nothing else says one."""
        return self.value(e)[1] or "fp32"

    # ------------------------------------------------------------ values

    def value(self, e: Expr) -> tuple[Expr, str]:
        """Return (one operation or a read or a number that gives `e`, the dtype it is worked in; none of a number)."""
        if isinstance(e, (Int, Float)):
            return e, ""
        if e not in self.known:
            self.known[e] = self.type_expr(rewrite(smooth(self.keep, e, self.work.dtypes.get(self.s.target.buffer, "fp32"))))
        return self.known[e]

    def type_expr(self, e: Expr) -> tuple[Expr, str]:
        if isinstance(e, Read):
            return self.read(e)
        if isinstance(e, Cast):
            return self.recast(e)
        if _is_truth(e):
            mask = self.truth(e)
            return mask, self.work.dtypes[mask.buffer]
        if isinstance(e, Call) and e.fn == "select":
            return self.selection(*e.args)
        fn, (parts, kind) = name_of(e), self.alike(children(e))
        by_number = fn in ("shl", "shr") and isinstance(parts[1], Int)
        if kind not in REALS and fn in WHOLE_FUNCTIONS and not by_number:
            arguments = [a if isinstance(a, (Int, Float)) else self.atom(a, kind) for a in parts]
            return self.value(WHOLE_FUNCTIONS[fn](self.keep, kind, *arguments))
        if fn in FUNCTIONS:
            return self.value(FUNCTIONS[fn](self.keep, *[self.atom(a, kind) for a in parts]))
        if fn not in BINARY and fn not in UNARY and not by_number:
            raise UnsupportedError(f"the vector unit has no operation for {fn}")
        spread = fn in BITS  # of which the unit has none that takes a number
        every = iter([a if isinstance(a, (Int, Float)) and not spread else self.atom(a, kind) for a in parts])
        return rebuild(e, lambda _: next(every)), kind

    def keep(self, e: Expr) -> Expr:
        """Return a read of what `e` gives."""
        value, kind = self.value(e)
        return value if isinstance(value, (Int, Float)) else self.atom(value, kind)

    def atom(self, e: Expr, kind: str) -> Read:
        """Return a read of one operation's result, or of a number all over."""
        if isinstance(e, Read):
            return e
        used = frozenset().union(*[variables_of(r) for r in reads(e)])
        own = [v for v in self.axes if v in used] if reads(e) else self.axes
        return hold(self.work, e, own, kind)

    def cast(self, read: Read, dtype: str) -> Read:
        return read if self.work.dtypes[read.buffer] == dtype else self.atom(Cast(dtype, read), dtype)

    def read(self, r: Read) -> tuple[Expr, str]:
        dtype = self.work.dtypes[r.buffer]
        if dtype == "bool" and r.buffer in self.work.truths:
            written, mask = self.work.truths[r.buffer]
            found = substitute(mask, {i.name: at for i, at in zip(written.indices, r.indices) if isinstance(i, Var)})
            assert isinstance(found, Read)
            return found, self.work.dtypes[found.buffer]
        for step in WORKED.get(dtype, ()):
            r = self.cast(r, step)
        if self.work.dtypes[r.buffer] == "fp16" and dtype == "fp16":
            r = self.cast(r, self.least)
        return r, self.work.dtypes[r.buffer]

    def recast(self, e: Cast) -> tuple[Expr, str]:
        """Return a cast inside an expression: to the dtype in which such elements are worked on, cut to their bits."""
        if e.dtype == "bool":
            return self.value(Binary("!=", e.value, Int(0)))
        if isinstance(e.value, Read) and self.work.dtypes.get(e.value.buffer) in ("int8", "uint8") and e.dtype in REALS:
            return self.cast(self.cast(e.value, "fp16"), WORKED.get(e.dtype, (e.dtype,))[-1]), WORKED.get(e.dtype, (e.dtype,))[-1]
        value, kind = self.value(e.value)
        if not kind:
            return _number(value, e.dtype), ""
        at, to = self.atom(value, kind), WORKED.get(e.dtype, (e.dtype,))[-1]
        for step in (*BETWEEN.get((kind, to), ()), to):
            at = self.cast(at, step)
        return (self.truncate(at, e.dtype) if e.dtype in SHORT and kind not in REALS else at), to

    def truncate(self, at: Read, dtype: str) -> Read:
        """Return an int32 whose bits above those of a short dtype are right: all of its sign, or zeros. The sign's bit is counted twice
        too much, which takes no shift and no number that is more than an int32 holds."""
        bits = SHORT[dtype]
        low = self.atom(call("bitand", at, self.fill_number(2**bits - 1)), "int32")
        if dtype.startswith("u"):
            return low
        sign = self.atom(call("bitand", at, self.fill_number(2**(bits - 1))), "int32")
        return self.atom(self.atom(low - sign, "int32") - sign, "int32")

    def fill_number(self, number: int) -> Read:
        """Return a number all over, in int32."""
        return hold(self.work, Int(number), self.axes[-1:], "int32")

    def alike(self, parts: tuple[Expr, ...]) -> tuple[list[Expr], str]:
        """Return (operands, numbers among them, all of one dtype; that dtype)."""
        found = [self.value(p) for p in parts]
        kinds = {k for _, k in found if k}
        mixed = kinds & {*REALS} and kinds - {*REALS}
        kind = "fp32" if mixed or not kinds else max(kinds, key=_rank)
        out = [_number(v, kind) if not k else v if k == kind else self.through(v, k, kind) for v, k in found]
        return out, kind

    def through(self, e: Expr, kind: str, to: str) -> Read:
        at = self.atom(e, kind)
        for step in (*BETWEEN.get((kind, to), ()), to):
            at = self.cast(at, step)
        return at

    def down(self, kind: str, dtype: str) -> tuple[str, ...]:
        """Return the dtypes that a result goes through on its way to memory, that of the memory last."""
        if dtype in ("int8", "uint8"):
            return "int32", "fp16", dtype
        if dtype in ("int16", "uint16"):
            return (*BETWEEN.get((kind, "int32"), ()), "int32", dtype)
        if dtype == "bf16":
            return "fp32", dtype
        if dtype == "uint32":
            return (*BETWEEN.get((kind, "int64"), ()), "int64", dtype)
        return (*BETWEEN.get((kind, dtype), ()), dtype)

    # ------------------------------------------------------------ truths

    def truth(self, e: Expr) -> Read:
        """Return a read that is 1 where `e` holds, else 0."""
        if isinstance(e, Binary) and e.op in MODES and not _is_truth(e.left) and not self.is_bool(e.left):
            (a, b), kind = self.alike((e.left, e.right))
            b = b if isinstance(b, (Int, Float)) else self.atom(b, kind)
            a = a if isinstance(a, (Int, Float)) and isinstance(b, Read) else self.atom(a, kind)
            return self.atom(Binary(e.op, a, b), "fp16" if kind == "fp16" else "fp32")
        if isinstance(e, Binary) and (e.op in MODES or e.op in TRUTHS):
            return self.join_masks(e.op, self.truth(e.left), self.truth(e.right))
        if isinstance(e, Call) and e.fn == "not":
            return self.inverse(self.truth(e.args[0]))
        if isinstance(e, Call) and e.fn == "select" and self.is_bool(e.args[1]):
            c, yes, no = (self.truth(a) for a in e.args)
            (c, yes, no), kind = self.masks(c, yes, no)
            return self.atom(call("select", c, yes, no), kind)
        if isinstance(e, (Int, Float)):
            return self.atom(Float(float(e.value != 0)), "fp16")
        value, kind = self.value(e)
        if isinstance(value, Read) and self.is_bool(e):
            return value
        at = self.atom(value, kind)
        return self.atom(Binary("!=", at, _number(Int(0), kind)), "fp16" if kind == "fp16" else "fp32")

    def is_bool(self, e: Expr) -> bool:
        """Return True for what holds truths already: a tensor of them, or 1 and 0 that a comparison left."""
        if isinstance(e, Read):
            return self.work.dtypes[e.buffer] == "bool" or e in self.marks
        return _is_truth(e) or isinstance(e, Call) and e.fn == "select" and self.is_bool(e.args[1])

    @property
    def marks(self) -> set[Read]:
        """Return locals that hold 1 and 0."""
        return {s.target for s in self.work.statements if _is_mark(s.value)}

    def masks(self, *found: Read) -> tuple[tuple[Read, ...], str]:
        """Return the masks in one dtype, the widest."""
        kind = max((self.work.dtypes[m.buffer] for m in found), key=_rank)
        return tuple(self.cast(m, kind) for m in found), kind

    def join_masks(self, op: str, a: Read, b: Read) -> Read:
        (a, b), kind = self.masks(a, b)
        made: dict[str, Callable[[], Expr]] = {"and": lambda: a * b, "or": lambda: call("max", a, b)}
        return self.atom(made[op]() if op in made else Binary(op, a, b), kind)

    def selection(self, c: Expr, yes: Expr, no: Expr) -> tuple[Expr, str]:
        """Return a mask as wide as what it chooses from, where that is 16 or 32 bits."""
        (a, b), kind = self.alike((yes, no))
        width = "fp16" if kind == "fp16" else "fp32"
        nonzero = isinstance(c, Read) and self.work.dtypes[c.buffer] in ("fp16", "fp32")
        mask = self.cast(c if nonzero else self.truth(c), width)  # type: ignore[arg-type]
        if isinstance(a, (Int, Float)) and not isinstance(b, (Int, Float)):  # the number stands where the mask is 0
            mask, a, b = self.inverse(self.truth(mask) if nonzero else mask), b, a
        return call("select", mask, self.atom(a, kind), b if isinstance(b, (Int, Float)) else self.atom(b, kind)), kind

    def inverse(self, mask: Read) -> Read:
        kind = self.work.dtypes[mask.buffer]
        return self.atom(self.atom(mask * Float(-1.0), kind) + Float(1.0), kind)


def _is_truth(e: Expr) -> bool:
    return name_of(e) in (*MODES, *TRUTHS)


def _is_mark(e: Expr) -> bool:
    return isinstance(e, Binary) and e.op in MODES


def _rank(kind: str) -> int:
    return ("", "fp16", "int32", "int64", "uint64", "fp32").index(kind)


def _number(e: Expr, kind: str) -> Expr:
    """Return a number as elements of a dtype see it; anything else as it is."""
    if not isinstance(e, (Int, Float)):
        return e
    return Float(float(e.value)) if kind in REALS else Int(int(e.value))
