"""Index expressions as C++: whole numbers of 64 bits, with the fewest parentheses; and real constants as their dtype rounds them."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite

import numpy as np

from aoec.base.errors import CheckError
from aoec.ir.index import PRECEDENCE, Binary, Call, Expr, Float, Int, Var
from aoec.target.isa.meaning import NUMPY_DTYPES, cast

CPP_TYPES = {"fp32": "float", "fp16": "half", "bf16": "bfloat16_t", "int8": "int8_t", "uint8": "uint8_t", "int16": "int16_t",
             "uint16": "uint16_t", "int32": "int32_t", "uint32": "uint32_t", "int64": "int64_t", "uint64": "uint64_t", "bool": "uint8_t"}
ATOM, CHOICE = 9, 0  # how tightly an expression holds together: all of it, or a choice
# in C++ == binds less than <, and both are told from each other by parentheses here
OPERATORS = {"or": "||", "and": "&&"}
FUNCTIONS = {"ceildiv": "ceil_div", "min": "least", "max": "most", "abs": "magnitude"}
HELPERS = {
    "ceil_div": "__aicore__ inline int64_t ceil_div(int64_t a, int64_t b) { return -floor_div(-a, b); }",
    "floor_div": "__aicore__ inline int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }",
    "floor_mod": "__aicore__ inline int64_t floor_mod(int64_t a, int64_t b) { return a - floor_div(a, b) * b; }",
    "least": "__aicore__ inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }",
    "most": "__aicore__ inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }",
    "magnitude": "__aicore__ inline int64_t magnitude(int64_t a) { return a < 0 ? -a : a; }",
    "of_bits": "template <typename T, typename B> __aicore__ inline T of_bits(B bits)\n{\n    union { B bits; T value; } x{bits};\n"
               "    return x.value;\n}",
}
Need = Callable[[str], None]


@dataclass(frozen=True)
class _Place:
    """Where an expression is written: the C++ names of variables, who is told of helpers, and what stands before their names."""

    names: Callable[[str], str]
    need: Need
    inside: str

    def helper(self, name: str, *args: str) -> str:
        """Return a call of a helper; what it calls itself is needed too."""
        if name in ("ceil_div", "floor_mod"):
            self.need("floor_div")
        self.need(name)
        return f"{self.inside}{name}({', '.join(args)})"


def expr(e: Expr, names: Callable[[str], str], need: Need, inside: str = "", alone: bool = True) -> str:
    """Return an index expression; `names` gives the C++ name of a variable, `need` is told the helpers that it calls, `inside` is their
    namespace. Not `alone`: it is the right side of a comparison or of %."""
    text, level = _text(e, _Place(names, need, inside))
    return text if alone or level == ATOM else f"({text})"


def _text(e: Expr, at: _Place) -> tuple[str, int]:
    if isinstance(e, Int):
        return (str(e.value), ATOM) if e.value >= 0 else (f"({e.value})", ATOM)
    if isinstance(e, Var):
        return at.names(e.name), ATOM
    if isinstance(e, Binary) and e.op in PRECEDENCE and e.op != "/":
        return _binary(e, at)
    if isinstance(e, Call):
        return _call(e, at)
    raise CheckError(f"no index expression of a kernel: {e!r}")


def _binary(e: Binary, at: _Place) -> tuple[str, int]:
    (left, before), (right, behind) = _text(e.left, at), _text(e.right, at)
    if e.op in ("//", "%"):
        return at.helper("floor_div" if e.op == "//" else "floor_mod", left, right), ATOM
    level = PRECEDENCE[e.op]
    if before < level + (level <= 3):
        left = f"({left})"
    if behind <= level:
        right = f"({right})"
    return f"{left} {OPERATORS.get(e.op, e.op)} {right}", level


def _call(e: Call, at: _Place) -> tuple[str, int]:
    args = [_text(a, at) for a in e.args]
    if e.fn == "select":
        yes, no = (f"({t})" if level == CHOICE else t for t, level in args[1:])
        condition = f"({args[0][0]})" if args[0][1] < 3 else args[0][0]
        return f"{condition} ? {yes} : {no}", CHOICE
    if e.fn == "not":
        return f"{args[0][0] if args[0][1] == ATOM else f'({args[0][0]})'} == 0", PRECEDENCE["=="]
    if e.fn not in FUNCTIONS:
        raise CheckError(f"{e.fn} is no function of an index expression of a kernel")
    if e.fn not in ("min", "max"):
        return at.helper(FUNCTIONS[e.fn], *[t for t, _ in args]), ATOM
    out = args[0][0]
    for text, _ in args[1:]:
        out = at.helper(FUNCTIONS[e.fn], out, text)
    return out, ATOM


def _literal(value: int) -> str:
    """Return a whole number of 64 bits in C++. The least one has no literal, and those above the most have no plain one."""
    return "1ULL << 63" if value == -(1 << 63) else f"{value}{'ULL' if value >= 1 << 63 else 'LL' if abs(value) >= 1 << 31 else ''}"


def number(e: Expr, dtype: str, need: Need) -> str:
    """Return a constant operand in C++, rounded to its dtype as the instruction does."""
    if not isinstance(e, (Float, Int)):
        raise CheckError("a scalar operand of a kernel is a constant")
    x, kind = cast(np.array(float(e.value), np.float64), np.dtype(NUMPY_DTYPES[dtype])), CPP_TYPES[dtype]
    if dtype not in ("fp32", "fp16", "bf16"):
        return f"static_cast<{kind}>({_literal(int(x))})"
    value = float(x)
    if not isfinite(value):
        need("of_bits")
        size = x.itemsize
        return f"aoec::of_bits<{kind}>(static_cast<uint{8 * size}_t>(0x{int(x.view(f'u{size}')):0{2 * size}x}))"
    text = repr(np.float32(value).item()) if dtype != "fp32" else str(np.float32(value))
    return f"static_cast<{kind}>({text}f)"
