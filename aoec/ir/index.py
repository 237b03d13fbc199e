"""Index notation: the integer and element expressions that func, trace, program and machine formulas share.

Nodes are frozen and hashable. Python operators on them build nodes. They fold only what cannot depend on the value of a hole
(constants, x + 0, x * 1). The one full simplification is `normalise`, which is meant to run after `fill`. Code that builds IR must not
branch on the value of an expression (docs/design.md, 5).

Integer semantics: `//` and `%` are floor division and its remainder, and `ceildiv(a, b)` is `-(-a // b)`. Truth values are the integers
0 and 1. Element expressions add reads of tensors, casts and real functions.
"""
from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, fields
from functools import lru_cache, reduce
from math import gcd
from typing import Any, Union

import numpy as np

from aoec.base.errors import CheckError

# binary operators by precedence, weakest first; all associate to the left
PRECEDENCE = {"or": 1, "and": 2, "==": 3, "!=": 3, "<": 3, "<=": 3, ">": 3, ">=": 3, "+": 4, "-": 4, "*": 5, "/": 5, "//": 5, "%": 5}
# named functions: name -> number of arguments (None: two or more)
FUNCTIONS: dict[str, int | None] = {
    "min": None, "max": None, "ceildiv": 2, "select": 3, "not": 1, "abs": 1, "exp": 1, "log": 1, "sqrt": 1, "rsqrt": 1, "tanh": 1,
    "erf": 1, "sigmoid": 1, "reciprocal": 1, "floor": 1, "ceil": 1, "round": 1, "trunc": 1, "pow": 2, "sin": 1, "cos": 1, "tan": 1,
    "asin": 1, "acos": 1, "atan": 1, "sinh": 1, "cosh": 1, "asinh": 1, "acosh": 1, "atanh": 1, "sign": 1, "fmod": 2,
    # of whole numbers: a quotient cut off toward zero, bits, and shifts (to the right the sign goes on, where there is one)
    "idiv": 2, "bitand": 2, "bitor": 2, "bitxor": 2, "bitnot": 1, "shl": 2, "shr": 2,
}
DTYPES = {"fp32": 4, "fp16": 2, "bf16": 2, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8,
          "bool": 1}  # size in bytes


class Expr:
    """An expression; `+ - * // %` build nodes, comparison has named functions (`eq`, `le`, ...) because == is identity."""

    __slots__ = ()

    def __add__(self, other: ExprLike) -> Expr: return binary("+", self, other)
    def __radd__(self, other: ExprLike) -> Expr: return binary("+", other, self)
    def __sub__(self, other: ExprLike) -> Expr: return binary("-", self, other)
    def __rsub__(self, other: ExprLike) -> Expr: return binary("-", other, self)
    def __mul__(self, other: ExprLike) -> Expr: return binary("*", self, other)
    def __rmul__(self, other: ExprLike) -> Expr: return binary("*", other, self)
    def __floordiv__(self, other: ExprLike) -> Expr: return binary("//", self, other)
    def __rfloordiv__(self, other: ExprLike) -> Expr: return binary("//", other, self)
    def __mod__(self, other: ExprLike) -> Expr: return binary("%", self, other)
    def __truediv__(self, other: ExprLike) -> Expr: return binary("/", self, other)


ExprLike = Union[Expr, int, float]


class Leaf(Expr):
    """An expression of which there is one object for each value: so comparing and hashing it are those of objects."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple([getattr(self, f.name) for f in fields(self)])  # type: ignore[arg-type]


class Compound(Expr):
    """An expression of others, whose hash is found when it is made: that of a tree would else walk all of it at every look-up."""

    __slots__ = ("_hash",)
    _hash: int

    def _key(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._key()  # and the hash is found anew: that of a text is another in another process

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return type(other) is type(self) and self._hash == other._hash and self._key() == other._key()  # type: ignore[attr-defined]


_set = object.__setattr__
_ints: dict[int, Int] = {}
_vars: dict[str, Var] = {}
_holes: dict[tuple[str, tuple[int, ...]], Hole] = {}


def _leaf(known: dict[Any, Any], key: Any, cls: type, **values: Any) -> Any:
    """Return the one leaf of a key, made now; of two threads that make it at once both get the first."""
    e: Any = object.__new__(cls)
    for name, value in values.items():
        _set(e, name, value)
    return known.setdefault(key, e)


@dataclass(frozen=True, slots=True, init=False, eq=False)
class Int(Leaf):
    value: int

    def __new__(cls, value: int) -> Int:
        return _ints.get(value) or _leaf(_ints, int(value), Int, value=int(value))


@dataclass(frozen=True, slots=True, eq=False)
class Float(Expr):
    """A real constant: element values and machine formulas only, never an extent or an offset. Equal are those of the same bits: 0.0 is
    not -0.0."""

    value: float

    def __hash__(self) -> int:
        return hash(self.value.hex())

    def __eq__(self, other: object) -> bool:
        return type(other) is Float and self.value.hex() == other.value.hex()


@dataclass(frozen=True, slots=True, init=False, eq=False)
class Var(Leaf):
    """A loop, grid axis, counter, tensor dimension or formula field, by name."""

    name: str

    def __new__(cls, name: str) -> Var:
        return _vars.get(name) or _leaf(_vars, name, Var, name=name)


@dataclass(frozen=True, slots=True, init=False, eq=False)
class Hole(Leaf):
    """A number still open, `?tm in [16, 32]`; `choices` is empty where the same hole is named again (`?tm`)."""

    name: str
    choices: tuple[int, ...] = ()

    def __new__(cls, name: str, choices: tuple[int, ...] = ()) -> Hole:
        return _holes.get((name, choices)) or _leaf(_holes, (name, choices), Hole, name=name, choices=choices)


@dataclass(frozen=True, slots=True, eq=False, init=False)
class Binary(Compound):
    op: str  # a key of PRECEDENCE
    left: Expr
    right: Expr

    def __init__(self, op: str, left: Expr, right: Expr) -> None:
        _set(self, "op", op)
        _set(self, "left", left)
        _set(self, "right", right)
        _set(self, "_hash", hash((op, left, right)))

    def _key(self) -> tuple[Any, ...]:
        return self.op, self.left, self.right


@dataclass(frozen=True, slots=True, eq=False, init=False)
class Call(Compound):
    fn: str  # a key of FUNCTIONS
    args: tuple[Expr, ...]

    def __init__(self, fn: str, args: tuple[Expr, ...]) -> None:
        _set(self, "fn", fn)
        _set(self, "args", args)
        _set(self, "_hash", hash((fn, args)))

    def _key(self) -> tuple[Any, ...]:
        return self.fn, self.args


@dataclass(frozen=True, slots=True, eq=False, init=False)
class Read(Compound):
    """An element of a tensor or buffer, `A[m, k]`; also the left side of a statement."""

    buffer: str
    indices: tuple[Expr, ...]

    def __init__(self, buffer: str, indices: tuple[Expr, ...]) -> None:
        _set(self, "buffer", buffer)
        _set(self, "indices", indices)
        _set(self, "_hash", hash((buffer, indices)))

    def _key(self) -> tuple[Any, ...]:
        return self.buffer, self.indices


@dataclass(frozen=True, slots=True, eq=False, init=False)
class Cast(Compound):
    """`fp16(x)`: rounds to nearest even; float to integer truncates."""

    dtype: str
    value: Expr

    def __init__(self, dtype: str, value: Expr) -> None:
        _set(self, "dtype", dtype)
        _set(self, "value", value)
        _set(self, "_hash", hash((dtype, value)))

    def _key(self) -> tuple[Any, ...]:
        return self.dtype, self.value


# nodes as the functions below make them: those that were made not long ago are the same objects again
_binary_node = lru_cache(maxsize=1 << 16)(Binary)
_call_node = lru_cache(maxsize=1 << 14)(Call)


def is_zero(e: Expr) -> bool:
    """Return whether `e` is the real constant 0, of either sign."""
    return isinstance(e, Float) and e.value == 0


def as_expr(x: ExprLike) -> Expr:
    if isinstance(x, Expr):
        return x
    if isinstance(x, (bool, int, np.integer)):
        return Int(int(x))
    return Float(float(x))


def binary(op: str, left: ExprLike, right: ExprLike) -> Expr:
    """Return the node of `left op right`, with constants and neutral elements folded."""
    a, b = as_expr(left), as_expr(right)
    x, y = a.value if type(a) is Int else None, b.value if type(b) is Int else None
    if x is not None and y is not None and op != "/" and not (op in ("//", "%") and y == 0):
        return Int(int(INT_OPS[op](x, y)))
    if op == "+":
        if x == 0: return b
        if y == 0: return a
    elif op == "-" and y == 0:
        return a
    elif op == "*":
        if x == 1: return b
        if y == 1: return a
        if x == 0 or y == 0: return Int(0)
    elif op == "//" and y == 1:
        return a
    elif op == "%" and y == 1:
        return Int(0)
    return _binary_node(op, a, b)


def call(fn: str, *args: ExprLike) -> Expr:
    """Return the node of `fn(args...)`, with constant integer arguments folded."""
    items = tuple(as_expr(a) for a in args)
    if fn in INT_CALLS and all(isinstance(a, Int) for a in items) and not (fn == "ceildiv" and items[1] == Int(0)):
        return Int(int(INT_CALLS[fn](*[a.value for a in items])))  # type: ignore[attr-defined]
    if fn == "ceildiv" and items[1] == Int(1):
        return items[0]
    if fn in ("min", "max") and len(items) == 2 and items[0] == items[1]:
        return items[0]
    return _call_node(fn, items)


def minimum(*args: ExprLike) -> Expr: return call("min", *args)
def maximum(*args: ExprLike) -> Expr: return call("max", *args)
def ceildiv(a: ExprLike, b: ExprLike) -> Expr: return call("ceildiv", a, b)
def select(cond: ExprLike, yes: ExprLike, no: ExprLike) -> Expr: return call("select", cond, yes, no)
def eq(a: ExprLike, b: ExprLike) -> Expr: return binary("==", a, b)
def le(a: ExprLike, b: ExprLike) -> Expr: return binary("<=", a, b)
def lt(a: ExprLike, b: ExprLike) -> Expr: return binary("<", a, b)
def ge(a: ExprLike, b: ExprLike) -> Expr: return binary(">=", a, b)
def either(a: ExprLike, b: ExprLike) -> Expr: return binary("or", a, b)
def both(a: ExprLike, b: ExprLike) -> Expr: return binary("and", a, b)


def round_up(a: ExprLike, unit: int) -> Expr:
    """Return `a` rounded up to a multiple of `unit`."""
    return ceildiv(a, unit) * unit


def divisor(b: Any) -> Any:
    """Return `b`. Raise CheckError where it is the number 0. (An array may hold zeros, since not every element need be used, and NumPy
    raises nothing for it.)"""
    if type(b) is int and b == 0:
        raise CheckError("an expression divides by zero; check the numbers behind //, % and in ceildiv")
    return b


# truth values are the integers 0 and 1: arrays of bool would add and subtract as truth values do
INT_OPS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": lambda a, b: a // divisor(b),
    "%": lambda a, b: a % divisor(b),
    "==": lambda a, b: (a == b) * 1, "!=": lambda a, b: (a != b) * 1, "<": lambda a, b: (a < b) * 1,
    "<=": lambda a, b: (a <= b) * 1, ">": lambda a, b: (a > b) * 1, ">=": lambda a, b: (a >= b) * 1,
    "and": lambda a, b: ((a != 0) & (b != 0)) * 1, "or": lambda a, b: ((a != 0) | (b != 0)) * 1,
}


def _fold(scalar: Callable[..., Any], array: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def fold_args(*args: Any) -> Any:
        return reduce(array, args) if any(hasattr(a, "__array_ufunc__") for a in args) else scalar(args)
    return fold_args


def _select(c: Any, yes: Any, no: Any) -> Any:
    if any(hasattr(a, "__array_ufunc__") for a in (c, yes, no)):
        return np.where(c != 0, yes, no)
    return yes if c else no


INT_CALLS: dict[str, Callable[..., Any]] = {
    "min": _fold(min, np.minimum), "max": _fold(max, np.maximum), "ceildiv": lambda a, b: -(-a // divisor(b)), "select": _select,
    "not": lambda a: (a == 0) * 1, "abs": abs,
}


def children(e: Expr) -> tuple[Expr, ...]:
    """Return the direct sub-expressions of `e`."""
    if isinstance(e, Binary): return (e.left, e.right)
    if isinstance(e, Call): return e.args
    if isinstance(e, Read): return e.indices
    if isinstance(e, Cast): return (e.value,)
    return ()


def rebuild(e: Expr, f: Callable[[Expr], Expr]) -> Expr:
    """Return `e` with `f` applied to each direct sub-expression."""
    if isinstance(e, Binary): return binary(e.op, f(e.left), f(e.right))
    if isinstance(e, Call): return call(e.fn, *[f(a) for a in e.args])
    if isinstance(e, Read): return Read(e.buffer, tuple(f(i) for i in e.indices))
    if isinstance(e, Cast): return Cast(e.dtype, f(e.value))
    return e


def walk(e: Expr) -> Iterator[Expr]:
    """Yield `e` and every expression under it, parents first."""
    rest = [e]
    while rest:
        n = rest.pop()
        yield n
        rest += reversed(children(n))


@lru_cache(maxsize=1 << 16)
def variables(e: Expr) -> frozenset[str]:
    """Return the names of the variables in `e`."""
    if isinstance(e, Var):
        return frozenset((e.name,))
    return frozenset().union(*[variables(c) for c in children(e)])


def holes(e: Expr) -> dict[str, tuple[int, ...]]:
    """Return hole name -> choices, for the holes in `e` (choices from wherever they are stated)."""
    out: dict[str, tuple[int, ...]] = {}
    for n in named_holes(e):
        out[n.name] = n.choices or out.get(n.name, ())
    return out


@lru_cache(maxsize=1 << 16)
def named_holes(e: Expr) -> tuple[Hole, ...]:
    """Return the holes in `e`, in order, each as often as it is named."""
    return tuple([n for n in walk(e) if isinstance(n, Hole)])


@lru_cache(maxsize=1 << 16)
def hole_names(e: Expr) -> frozenset[str]:
    """Return the names of the holes in `e`."""
    if isinstance(e, Hole):
        return frozenset((e.name,))
    return frozenset().union(*[hole_names(c) for c in children(e)])


@lru_cache(maxsize=1 << 14)
def reads(e: Expr) -> tuple[Read, ...]:
    """Return the reads in `e`, in order, nested ones included."""
    return tuple([n for n in walk(e) if isinstance(n, Read)])


def substitute(e: Expr, values: Mapping[str, Expr]) -> Expr:
    """Return `e` with variables replaced by name."""
    if isinstance(e, Var):
        return values.get(e.name, e)
    if not (variables(e) & values.keys()):
        return e
    return rebuild(e, lambda c: substitute(c, values))


def fill(e: Expr, values: Mapping[str, int]) -> Expr:
    """Return `e` with holes replaced by integers; holes that are not named stay."""
    if isinstance(e, Hole):
        return Int(int(values[e.name])) if e.name in values else e
    return rebuild(e, lambda c: fill(c, values))


def rename_reads(e: Expr, names: Mapping[str, str]) -> Expr:
    """Return `e` with the buffers of its reads renamed."""
    if isinstance(e, Read):
        return Read(names.get(e.buffer, e.buffer), tuple(rename_reads(i, names) for i in e.indices))
    return rebuild(e, lambda c: rename_reads(c, names))


def evaluate(e: Expr, env: Mapping[str, Any]) -> Any:
    """Return the value of an integer (or machine-formula) expression. `env` maps variable and hole names to ints or arrays. Arrays
    broadcast, so one call evaluates a whole column of candidates. Raise KeyError for an unbound name."""
    kind = type(e)
    if kind is Binary: return INT_OPS[e.op](evaluate(e.left, env), evaluate(e.right, env))  # type: ignore[attr-defined]
    if kind is Int or kind is Float: return e.value  # type: ignore[attr-defined]
    if kind is Var or kind is Hole: return env[e.name]  # type: ignore[attr-defined]
    if isinstance(e, Call):
        args = [evaluate(a, env) for a in e.args]
        if e.fn == "ceil": return np.ceil(args[0])
        if e.fn == "floor": return np.floor(args[0])
        return INT_CALLS[e.fn](*args)
    raise TypeError(f"not an integer expression: {e!r}")


class Known(dict[Expr, Any]):
    """The values of expressions in an environment, as `evaluate` gives them: found when they are asked for, what several hold once."""

    def __init__(self, env: Mapping[str, Any]) -> None:
        self.env = env

    def __missing__(self, e: Expr) -> Any:
        kind = type(e)
        if kind is Binary:
            found = INT_OPS[e.op](self[e.left], self[e.right])  # type: ignore[attr-defined]
        elif kind is Call:
            args = [self[a] for a in e.args]  # type: ignore[attr-defined]
            found = np.ceil(args[0]) if e.fn == "ceil" else np.floor(args[0]) if e.fn == "floor" else INT_CALLS[e.fn](*args)  # type: ignore[attr-defined]
        else:
            return evaluate(e, self.env)
        self[e] = found
        return found


def multiple(e: Expr) -> int:
    """Return a number that an expression is a multiple of, whatever its variables are; 0 of 0."""
    if isinstance(e, Int):
        return abs(e.value)
    if isinstance(e, Binary) and e.op in "+-":
        return gcd(multiple(e.left), multiple(e.right))
    if isinstance(e, Binary) and e.op == "*":
        return multiple(e.left) * multiple(e.right)
    if isinstance(e, Call) and e.fn in ("min", "max", "select"):
        return gcd(*[multiple(a) for a in (e.args[1:] if e.fn == "select" else e.args)])
    return 1


# ---------------------------------------------------------------- normal form

def normalise(e: Expr) -> Expr:
    """Return the canonical form of `e`: integer parts as a sum of products, terms and factors in a fixed order, without choices of holes.

    Meaning is kept for integers; `normalise` is idempotent. Every rule is compatible with filling holes: it either looks at
    the polynomial as a whole (so that a filled one meets the rule anew) or at equality and constants, which filling keeps.
    Hence normalise(fill(normalise(x))) == normalise(fill(x)) (products beyond MAX_SIZE excepted).
    """
    try:
        return _normalise(e)
    except RecursionError:
        raise CheckError("an expression is too large for its normal form; split it over several") from None


Poly = dict[tuple[Expr, ...], int]  # product of atoms (sorted) -> coefficient
MAX_SIZE = 256  # a product of sums that would repeat more leaves than this stays a product: texts come from outside


@lru_cache(maxsize=1 << 16)
def _normalise(e: Expr) -> Expr:
    if isinstance(e, (Int, Float, Var)): return e
    if isinstance(e, Hole): return Hole(e.name)
    if isinstance(e, Read): return Read(e.buffer, tuple(_normalise(i) for i in e.indices))
    if isinstance(e, Cast): return Cast(e.dtype, _normalise(e.value))
    if not is_element(e): return _from_poly(_poly(e))
    out = rebuild(e, _normalise)
    return out if is_element(out) else _normalise(out)  # 0 * A[i] is an integer


@lru_cache(maxsize=1 << 16)
def is_element(e: Expr) -> bool:
    """Return True where `e` holds a real constant, read, cast or real function: kept in the written order."""
    if isinstance(e, (Float, Read, Cast)): return True
    if isinstance(e, Binary) and e.op == "/": return True
    if isinstance(e, Call) and e.fn not in INT_CALLS: return True
    return any(is_element(c) for c in children(e))


@lru_cache(maxsize=1 << 16)
def _order(e: Expr) -> tuple[int, str]:
    text = repr(e)
    return (len(text), text)


def _poly(e: Expr) -> Poly:
    if isinstance(e, Int): return {(): e.value} if e.value else {}
    if isinstance(e, Hole): return {(Hole(e.name),): 1}
    return _compound_poly(e) if isinstance(e, (Binary, Call)) else {(e,): 1}


@lru_cache(maxsize=1 << 16)
def _compound_poly(e: Binary | Call) -> Poly:
    """Return the polynomial of a compound expression. It is computed once for equal expressions, of which scheduling makes many. The
    caller must not change it."""
    if isinstance(e, Call):
        return _rule_call(e.fn, [_normalise(a) for a in e.args])
    if e.op in "+-":
        return _add(_poly(e.left), _poly(e.right), 1 if e.op == "+" else -1)
    if e.op == "*":
        return _mul(_poly(e.left), _poly(e.right))
    return _rule_binary(e.op, _normalise(e.left), _normalise(e.right))


def _atom(e: Expr) -> Poly:
    """Return the polynomial of what a rule left: opaque, unless it is a number or arithmetic."""
    if isinstance(e, Int) or (isinstance(e, Binary) and e.op in "+-*"):
        return _poly(e)
    return {(e,): 1}


def _add(a: Poly, b: Poly, sign: int = 1) -> Poly:
    out = dict(a)
    for term, c in b.items():
        out[term] = out.get(term, 0) + sign * c
    return {t: c for t, c in out.items() if c}


def _mul(a: Poly, b: Poly) -> Poly:
    if (len(b) - 1) * _leaves(a) + (len(a) - 1) * _leaves(b) > MAX_SIZE:
        return {(Binary("*", _from_poly(a), _from_poly(b)),): 1}
    out: Poly = {}
    for s, c in a.items():
        for t, d in b.items():
            term = tuple(sorted(s + t, key=_order))
            out[term] = out.get(term, 0) + c * d
    return {t: c for t, c in out.items() if c}


def _leaves(p: Poly) -> int:
    return sum(1 if isinstance(a, (Var, Hole)) else _size(a) for t in p for a in t)


@lru_cache(maxsize=1 << 16)
def _size(e: Expr) -> int:
    """Return the number of leaves of `e`."""
    return sum(map(_size, children(e))) or 1


def _from_poly(p: Poly) -> Expr:
    # what is added comes first, so that `256 - i*16` stays readable
    terms = sorted(p.items(), key=lambda tc: (tc[1] < 0, -len(tc[0]), [_order(a) for a in tc[0]]))
    out: Expr | None = None
    for atoms, c in terms:
        if out is None:
            out = _term(atoms, c)
        else:
            out = _binary_node("+" if c > 0 else "-", out, _term(atoms, abs(c)))
    return Int(0) if out is None else out


def _term(atoms: tuple[Expr, ...], c: int) -> Expr:
    """Return the product of atoms and a coefficient, which comes last."""
    factors = atoms if atoms and c == 1 else (*atoms, Int(c))
    return reduce(lambda a, b: _binary_node("*", a, b), factors)


def _modulo(p: Poly, n: int) -> tuple[Poly, Poly]:
    """Return (q, r) with p = q * n + r and every coefficient of r in [0, n): the one such pair, whatever order the parts came in."""
    whole, rest = ({t: f(c, n) for t, c in p.items() if f(c, n)} for f in (INT_OPS["//"], INT_OPS["%"]))
    return whole, rest


def _rule_binary(op: str, a: Expr, b: Expr) -> Poly:
    if op in ("//", "%") and isinstance(b, Int) and b.value > 0:
        whole, rest = _modulo(_poly(a), b.value)
        left = _atom(binary(op, _from_poly(rest), b))
        return left if op == "%" else _add(whole, left)
    if a == b and op in ("==", "<=", ">="): return {(): 1}
    if a == b and op in ("!=", "<", ">"): return {}
    return _atom(binary(op, a, b))


def _rule_call(fn: str, args: list[Expr]) -> Poly:
    if fn == "ceildiv" and isinstance(args[1], Int) and args[1].value > 0:
        whole, rest = _modulo(_poly(args[0]), args[1].value)
        return _add(whole, _atom(call(fn, _from_poly(rest), args[1])))
    if fn in ("min", "max"):
        return _atom(_extremum(fn, args))
    if fn == "select" and isinstance(args[0], Int):
        return _atom(args[1] if args[0].value else args[2])
    return _atom(call(fn, *args))


def _extremum(fn: str, args: list[Expr]) -> Expr:
    """Return min or max in canonical form. Nested ones of the same kind are flattened, constants folded, duplicates dropped, and the
    rest put in order."""
    flat: list[Expr] = []
    for a in args:
        flat += a.args if isinstance(a, Call) and a.fn == fn else (a,)
    pick = min if fn == "min" else max
    consts = [a.value for a in flat if isinstance(a, Int)]
    rest = sorted(set(a for a in flat if not isinstance(a, Int)), key=_order)
    items = rest + ([Int(pick(consts))] if consts else [])
    return items[0] if len(items) == 1 else _call_node(fn, tuple(items))


def affine(e: Expr, names: Set[str]) -> tuple[dict[str, Expr], Expr] | None:
    """Return (coefficient by variable, constant) where `e` is affine in `names`; None where it is not.

    Coefficients and constant may hold other variables and holes, never one of `names`.
    """
    found = _affine(e, frozenset(names))
    return found and (dict(found[0]), found[1])


@lru_cache(maxsize=1 << 16)
def _affine(e: Expr, names: frozenset[str]) -> tuple[tuple[tuple[str, Expr], ...], Expr] | None:
    coefficients: dict[str, Poly] = {}
    constant: Poly = {}
    for term, c in _poly(normalise(e)).items():
        inside = [a for a in term if variables(a) & names]
        if not inside:
            constant = _add(constant, {term: c})
            continue
        if len(inside) > 1 or not isinstance(inside[0], Var):
            return None
        rest = tuple(a for a in term if a is not inside[0])
        v = inside[0].name
        coefficients[v] = _add(coefficients.get(v, {}), {rest: c})
    return tuple([(v, _from_poly(p)) for v, p in coefficients.items()]), _from_poly(constant)
