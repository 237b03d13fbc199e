"""Which vector instruction an expression of one operation is: what tensorize accepts and emission emits."""
from __future__ import annotations

from dataclasses import dataclass

from aoec.ir.index import Binary, Call, Cast, Expr, Float, Int, Read, is_zero, reads

UNARY = {"exp": "vexp", "log": "vln", "sqrt": "vsqrt", "rsqrt": "vrsqrt", "reciprocal": "vrec", "abs": "vabs", "floor": "vfloor",
         "ceil": "vceil", "round": "vrint", "trunc": "vtrunc", "bitnot": "vnot"}
BINARY = {"+": "vadd", "-": "vsub", "*": "vmul", "/": "vdiv", "max": "vmax", "min": "vmin",
          "idiv": "vdiv", "bitand": "vand", "bitor": "vor"}
SCALARS = {"+": "vadds", "*": "vmuls", "max": "vmaxs", "min": "vmins"}  # of a read and a number, in either order
SHIFTS = {"shl": "vshls", "shr": "vshrs"}  # of a read by a number
MODES = ("<", ">", "==", "<=", ">=", "!=")  # of vcmp and vcmps, by their number
TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}


@dataclass(frozen=True, slots=True)
class VectorOp:
    """One vector instruction in the making: its name, source reads, a scalar operand where it has one, and how it compares."""

    name: str
    sources: tuple[Read, ...]
    scalar: float | None = None
    mode: int | None = None


def vector_op(e: Expr, cast: bool) -> VectorOp | None:
    """Return the instruction that computes `e`, None where it is no single operation; `cast`: the target's dtype differs from the
    source's."""
    read = e.value if isinstance(e, Cast) else e
    if isinstance(read, Read):
        return VectorOp("vconv" if cast else "vcopy", (read,))
    if isinstance(e, (Float, Int)):
        return VectorOp("vdup", (), float(e.value))
    if isinstance(e, Call) and e.fn == "select":
        return _selection(*e.args)
    if (sources := cut_off_sum(e)) is not None:
        return None if cast else VectorOp("vaddrelu", sources)
    if isinstance(e, Call) and e.fn in UNARY and isinstance(e.args[0], Read):
        return VectorOp(UNARY[e.fn], (e.args[0],))
    if isinstance(e, Binary):
        return _pair(e.op, e.left, e.right)
    return _pair(e.fn, *e.args) if isinstance(e, Call) and len(e.args) == 2 else None


def cut_off_sum(e: Expr) -> tuple[Read, Read] | None:
    """Return the two reads of whose sum the expression is what lies above the real 0; None for any other."""
    if not (isinstance(e, Call) and e.fn == "max" and isinstance(e.args[0], Binary) and e.args[0].op == "+" and is_zero(e.args[1])):
        return None
    a, b = e.args[0].left, e.args[0].right
    return (a, b) if isinstance(a, Read) and isinstance(b, Read) else None


def is_selection(e: Expr) -> bool:
    """Return True for a choice by an element, not by where it lies, as the padding of a window is."""
    return isinstance(e, Call) and e.fn == "select" and bool(reads(e.args[0]))


def _selection(mask: Expr, yes: Expr, no: Expr) -> VectorOp | None:
    if not isinstance(mask, Read) or not isinstance(yes, Read):
        return None
    if isinstance(no, Read):
        return VectorOp("vsel", (mask, yes, no))
    return VectorOp("vsels", (mask, yes), float(no.value)) if isinstance(no, (Float, Int)) else None


def _pair(fn: str, a: Expr, b: Expr) -> VectorOp | None:
    """Return an operation on two reads, or on a read and a number."""
    if isinstance(a, Read) and isinstance(b, Read):
        if fn in MODES:
            return VectorOp("vcmp", (a, b), mode=MODES.index(fn))
        return VectorOp(BINARY[fn], (a, b)) if fn in BINARY else None
    if isinstance(b, Read) and (fn in SCALARS or fn in MODES):
        a, b, fn = b, a, TURNED.get(fn, fn)
    if not isinstance(a, Read) or not isinstance(b, (Float, Int)):
        return None
    if fn in MODES:
        return VectorOp("vcmps", (a,), float(b.value), MODES.index(fn))
    if fn == "max" and is_zero(b):  # of reals
        return VectorOp("vrelu", (a,))
    if fn == "-":
        return VectorOp("vadds", (a,), -float(b.value))
    return VectorOp((SCALARS | SHIFTS)[fn], (a,), float(b.value)) if fn in SCALARS | SHIFTS else None
