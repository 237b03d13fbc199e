"""The meaning of an operator for given shapes and attributes, and what follows from it: shapes, loops, operation counts."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod
from types import MappingProxyType

from aoec.base.errors import CheckError
from aoec.ir.func.meaning import Argument, Dim, Meaning, Statement
from aoec.ir.graph.graph import Attribute
from aoec.ir.index import Binary, Expr, Int, Read, Var, as_expr, children, normalise, reads, substitute
from aoec.ir.text.parse import parse_meaning
from aoec.ops.declare import Attributes, Op, Shape, numbers
from aoec.ops.expressions import fold
from aoec.ops.registry import get


def meaning(op: str | Op, input_shapes: Sequence[Shape], attributes: Attributes | Sequence[tuple[str, Attribute]] = ()) -> Meaning:
    """Return the meaning with parameters substituted and every extent an Int; CheckError where shapes or attributes do not fit.

    Extents come from `input_shapes`, in the order of the operator's arguments (absent optional ones left out).
    """
    return _meaning(get(op) if isinstance(op, str) else op, tuple(map(tuple, input_shapes)), tuple(dict(attributes).items()))


@lru_cache(maxsize=4096)
def _meaning(word: Op, shapes: tuple[Shape, ...], attributes: tuple[tuple[str, Attribute], ...]) -> Meaning:
    op, given = word.name, dict(attributes)
    try:
        text = word.meaning_text(shapes, given)
    except (KeyError, IndexError, ValueError, TypeError, ZeroDivisionError) as e:
        raise CheckError(f"{op}: arguments of shapes {_shapes(shapes)} with attributes {given} do not fit ({e})") from e
    m = parse_meaning(text, f"{op} of {_shapes(shapes)}")
    values = numbers(given)
    missing = [p for p in m.params if p not in values]
    if missing:
        raise CheckError(f"{op}: attribute for {', '.join(missing)} is missing")
    return bind(m, shapes, {name: as_expr(values[name]) for name in m.params})


def bind(m: Meaning, shapes: Sequence[Shape], params: Mapping[str, Expr] = MappingProxyType({})) -> Meaning:
    """Return a meaning with its extents, from arguments of these shapes, and parameters put in. Raise CheckError where they do not fit."""
    if len(m.inputs) != len(shapes) or any(len(a.dims) != len(s) for a, s in zip(m.inputs, shapes)):
        raise CheckError(f"{m.name}: arguments of shapes {_shapes(shapes)} do not fit {', '.join(map(_signature, m.inputs))}")
    extents = _extents(m, shapes)
    known = {**params, **{name: Int(extent) for name, extent in extents.items()}}
    inputs = tuple(Argument(a.name, tuple(Dim(d.name, Int(n)) for d, n in zip(a.dims, s))) for a, s in zip(m.inputs, shapes))
    return Meaning(m.name, inputs, (), tuple(Argument(o.name, _dims(m.name, o.dims, known)) for o in m.outputs),
                   tuple(_statement(s, params) for s in m.statements), _dims(m.name, m.loops, known))


def _extents(m: Meaning, shapes: Sequence[Shape]) -> dict[str, int]:
    """Return dimension name -> extent. Raise CheckError where two arguments disagree."""
    out: dict[str, int] = {}
    for a, shape in zip(m.inputs, shapes):
        for d, n in zip(a.dims, shape):
            if out.setdefault(d.name, n) != n:
                raise CheckError(f"{m.name}: dimension {d.name} is {out[d.name]} and, in {a.name}, {n}: shapes {_shapes(shapes)}")
    return out


def _dims(op: str, dims: Sequence[Dim], known: Mapping[str, Expr]) -> tuple[Dim, ...]:
    return tuple(Dim(d.name, _extent(op, d, known)) for d in dims)


def _extent(op: str, d: Dim, known: Mapping[str, Expr]) -> Expr:
    extent = normalise(substitute(Var(d.name) if d.extent is None else d.extent, known))
    if not isinstance(extent, Int) or extent.value < 0:
        raise CheckError(f"{op}: the extent of {d.name} is not a whole number of elements; kernel, pad or stride do not fit the shape")
    return extent


def _statement(s: Statement, params: Mapping[str, Expr]) -> Statement:
    target = substitute(s.target, params)
    assert isinstance(target, Read)
    value, init = fold(substitute(s.value, params)), None if s.init is None else fold(substitute(s.init, params))
    return Statement(target, s.op, value, init)


def _signature(a: Argument) -> str:
    return f"{a.name}[{', '.join(d.name for d in a.dims)}]"


def _shapes(shapes: Sequence[Shape]) -> str:
    return " ".join(str(list(s)) for s in shapes)


def shape(op: str, input_shapes: Sequence[Shape], attributes: Attributes | Sequence[tuple[str, Attribute]] = ()) -> Shape:
    """Return the shape of the (first) result."""
    return _values(meaning(op, input_shapes, attributes).outputs[0].dims)


def _values(dims: Sequence[Dim]) -> Shape:
    return tuple(d.extent.value for d in dims if isinstance(d.extent, Int))


def loops(m: Meaning, s: Statement) -> dict[str, int]:
    """Return loop name -> extent of a statement: the target's in order, then those that the value adds (reduced where op is a reducer)."""
    every = [*m.loops, *(d for a in (*m.outputs, *m.inputs) for d in a.dims)]
    extents = {d.name: n for d, n in zip(every, _values(every))}
    written = [*s.target.indices, s.value, *([] if s.init is None else [s.init])]
    order = [v for e in written for v in _variables_in_order(e)]
    return {v: extents[v] for v in dict.fromkeys(order)}


def _variables_in_order(e: Expr) -> list[str]:
    """Return the variables of an expression in order of first mention."""
    if isinstance(e, Var):
        return [e.name]
    return list(dict.fromkeys(v for part in children(e) for v in _variables_in_order(part)))


def macs(op: str, input_shapes: Sequence[Shape], attributes: Attributes | Sequence[tuple[str, Attribute]] = ()) -> int:
    """Return the number of multiply-accumulates: the points of every statement that sums products of two tensors' elements."""
    m = meaning(op, input_shapes, attributes)
    return sum(prod(loops(m, s).values()) for s in m.statements if _is_sum_of_products(s))


def _is_sum_of_products(s: Statement) -> bool:
    e = s.value
    return s.op == "+=" and isinstance(e, Binary) and e.op == "*" and bool(reads(e.left)) and bool(reads(e.right))
