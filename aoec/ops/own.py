"""Operators of the user's own: meanings in index notation, read from a text, which are used beside the dictionary for one graph.

A node carries its operator's definition as text, so that a graph is complete wherever it is used. Such an operator's only reference is its
interpreted meaning: a file of definitions holds no code.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from types import MappingProxyType

import numpy as np

from aoec.base.errors import CheckError
from aoec.base.files.files import read_text
from aoec.ir.func.meaning import Argument, Meaning, Statement
from aoec.ir.graph.graph import Attribute, OpNode
from aoec.ir.index import Binary, Call, Expr, Int, Read, Var, as_expr, children, reads, variables, walk
from aoec.ir.text.parse import parse_definitions, parse_meaning
from aoec.ir.text.show import show
from aoec.ops.declare import Op, Shape, numbers
from aoec.ops.host.host import PREFIX
from aoec.ops.interpret import interpret
from aoec.ops.meanings import bind, meaning, shape
from aoec.ops.registry import OPS, get

LIMIT_CHARACTERS, LIMIT_OPERATORS = 1 << 20, 1000  # of a text of definitions
DIVISIONS = ("/", "//", "%")
Definitions = Mapping[str, str]  # operator -> its meaning, as canonical text
NO_DEFINITIONS: Definitions = MappingProxyType({})


def read_definitions(text: str, source: str = "") -> dict[str, str]:
    """Return operator -> canonical text of its meaning; ParseError or CheckError, with the place where there is one."""
    if len(text) > LIMIT_CHARACTERS:
        raise CheckError(f"{len(text):,} characters of definitions are too many; the limit is {LIMIT_CHARACTERS:,}", source=source)
    found = parse_definitions(text, source)
    if not 0 < len(found) <= LIMIT_OPERATORS:
        raise CheckError(f"it defines {len(found):,} operators; give 1 to {LIMIT_OPERATORS:,}", source=source)
    for m in found:
        if fault := fault_of(m):
            raise CheckError(fault, text, *_place(text, m.name), source)
    return {m.name: show(m) for m in found}


def read_files(paths: Sequence[str]) -> dict[str, str]:
    """Return operator -> meaning, of all that the files define. Raise an AoecError where one is no such file, or two define the same
    operator."""
    out: dict[str, str] = {}
    for path in paths:
        found = read_definitions(read_text(path), path)
        if twice := sorted(out.keys() & found.keys()):
            raise CheckError(f"operator {twice[0]} is defined in another file of --ops too; give it one definition", source=path)
        out |= found
    return out


def _place(text: str, name: str) -> tuple[int, int]:
    """Return line and column, from 1, of the first line that begins with the name; 0, 0 where none does."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith(name):
            return number, len(line) - len(line.lstrip()) + 1
    return 0, 0


def fault_of(m: Meaning) -> str:
    """Return why a well-formed meaning cannot be an operator of the user's own, as a sentence. Return "" where it can."""
    if m.name in OPS or m.name.startswith(PREFIX):
        return f"operator {m.name} has the name of a word of aoec's own; give it another, such as my_{m.name}"
    written = {s.target.buffer for s in m.statements}
    missing = [o.name for o in m.outputs if o.name not in written]
    if missing or not m.outputs or not m.inputs:
        return f"operator {m.name} writes no {missing[0]}" if missing else f"operator {m.name} needs an argument and a result"
    read = {r.buffer for s in m.statements for e in (s.value, s.init) if e is not None for r in reads(e)}
    if unread := [a.name for a in m.inputs if a.name not in read]:
        return f"operator {m.name} does not read its argument {unread[0]}"
    return next((f"operator {m.name}: {fault}" for s in m.statements if (fault := _statement_fault(m, s))), "")


def _statement_fault(m: Meaning, s: Statement) -> str:
    """Return what is wrong with a statement that the grammar allows."""
    loops = {d.name for a in (*m.inputs, *m.outputs) for d in a.dims} | {d.name for d in m.loops}
    kept = frozenset().union(*[variables(i) for i in s.target.indices])
    extra = sorted((_names(s.value) & loops) - kept)
    if s.op == "=" and extra:
        return f"{s.target.buffer} is given a value for each {extra[0]}, which is none of its indices; sum it with +=, or take max= or min="
    if s.init is not None and (_names(s.init) & loops) - kept:
        return f"what {s.target.buffer} starts from may depend on its own indices only"
    if not all(isinstance(i, Var) for i in s.target.indices) or len(kept) < len(s.target.indices) or not kept <= loops:
        return f"{s.target.buffer} is written at loops alone, each once, so that no element is left out; let reads have other indices"
    return ""


def _names(e: Expr) -> frozenset[str]:
    """Return the names of all variables of an expression, in indices too."""
    return frozenset((e.name,)) if isinstance(e, Var) else frozenset().union(*[_names(c) for c in children(e)])


def bound(m: Meaning, shapes: Sequence[Shape], attributes: Mapping[str, int | float]) -> Meaning:
    """Return the meaning for arguments of these shapes. Raise CheckError where they do not fit, or a read can leave its tensor and does not
    say what it gives there."""
    out = bind(m, shapes, {name: as_expr(attributes[name]) for name in m.params})
    dims = [*out.loops, *(d for a in (*out.outputs, *out.inputs) for d in a.dims)]
    ranges = {d.name: d.extent.value for d in dims if isinstance(d.extent, Int)}
    sizes = {a.name: extents(a) for a in (*out.inputs, *out.outputs)}
    for s in out.statements:
        own, name = tuple(ranges[i.name] for i in s.target.indices if isinstance(i, Var)), s.target.buffer
        if sizes.setdefault(name, own) != own:
            raise CheckError(f"{m.name}: {show(s.target)} writes {list(own)} elements of {name}, which has {list(sizes[name])}")
        for e in (s.value, *([] if s.init is None else [s.init])):
            _check_reads(m.name, e, sizes, ranges)
            if any(isinstance(n, Binary) and n.op in DIVISIONS and getattr(n.right, "value", 1) == 0 for n in walk(e)):
                raise CheckError(f"{m.name}: {show(e)} divides by zero")
    return out


def extents(a: Argument) -> Shape:
    """Return the shape of an argument of a bound meaning."""
    return tuple(d.extent.value for d in a.dims if isinstance(d.extent, Int))


def _check_reads(name: str, e: Expr, sizes: Mapping[str, Shape], ranges: Mapping[str, int]) -> None:
    """Raise CheckError where a read without `else` may lie outside its tensor. What data say is taken to be inside."""
    if isinstance(e, Read):
        for i, size in zip(e.indices, sizes[e.buffer]):
            if reads(i):
                continue
            low, high = _interval(i, ranges)
            if low < 0 or high >= size:
                raise CheckError(f"{name}: {show(e)} reads from {low} to {high} of {size}; say what lies outside, as in {show(e)} else 0.0")
    for c in e.args[0].indices if isinstance(e, Call) and e.fn == "guard" and isinstance(e.args[0], Read) else children(e):
        _check_reads(name, c, sizes, ranges)


def _interval(e: Expr, ranges: Mapping[str, int]) -> tuple[int, int]:
    """Return (least, largest) value that an index can take, or beyond. Raise CheckError where it is no sum, product or quotient of
    loops."""
    if isinstance(e, Int):
        return e.value, e.value
    if isinstance(e, Var) and e.name in ranges:
        return 0, max(0, ranges[e.name] - 1)
    if isinstance(e, Binary) and e.op in "+-*//%":
        (a, b), (c, d) = _interval(e.left, ranges), _interval(e.right, ranges)
        if e.op in ("//", "%") and c <= 0:
            raise CheckError(f"the index {show(e)} divides by what may not be above zero")
        if e.op == "%":
            return (a, b) if a >= 0 and b < c else (0, d - 1)
        ends = {"+": (a + c, b + d), "-": (a - d, b - c)}.get(e.op) or [x * y if e.op == "*" else x // y for x in (a, b) for y in (c, d)]
        return min(ends), max(ends)
    raise CheckError(f"the index {show(e)} is no sum, product, quotient or remainder of loops and whole numbers")


# ---------------------------------------------------------------- words

def word(node: OpNode) -> Op:
    """Return the operator of a node: its own definition's, or a word of the dictionary."""
    return own(node.op, node.definition) if node.definition else get(node.op)


@lru_cache(maxsize=4096)
def own(name: str, definition: str) -> Op:
    """Return the operator that a definition makes. Raise CheckError where it is none."""
    m = parse_meaning(definition, f"the definition of {name}")
    fault = f"operator {name} is defined as {m.name}" if m.name != name else fault_of(m)
    if fault or len(m.outputs) != 1:
        raise CheckError(fault or f"operator {name} has {len(m.outputs)} results; a node of a graph has one")
    return Op(name, definition, partial(_interpret, name, definition), family_of(m))


def _interpret(name: str, definition: str, *arrays: np.ndarray, **attributes: Attribute) -> np.ndarray:
    """Return what the definition gives of arrays, in fp64 or int64. Raise CheckError where it cannot be calculated."""
    try:
        return interpret(meaning(own(name, definition), [x.shape for x in arrays], attributes), arrays)[0]
    except (ArithmeticError, IndexError, TypeError, ValueError) as e:  # a definition may say what no array has
        raise CheckError(f"operator {name} cannot be calculated: {e}") from e


def shape_of(node: OpNode, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape of a node's result, of arguments of these shapes."""
    if node.definition:
        return extents(bound(parse_meaning(node.definition), shapes, numbers(dict(node.attributes))).outputs[0])
    return shape(node.op, shapes, node.attributes)


# ---------------------------------------------------------------- what fusion asks

def family_of(m: Meaning) -> str:
    """Return the family as which an operator may be in a group. It is elementwise where every result is made of elements at its own place.
    It is softmax or reduce where rows (the last dimension) are reduced, too. It is `own` for all others, each of which is a group of its
    own."""
    order = _common_order([r for s in m.statements for r in (s.target, *reads(s.value))])
    plain = all(s.init is None and not _depends_on_place(s.value, m.params) for s in m.statements)
    if not order or not plain or m.loops or any(d.extent is not None for o in m.outputs for d in o.dims):
        return "own"
    reduced = [_loops(s.value) - _loops(s.target) for s in m.statements]
    if not any(reduced):
        return "elementwise"
    if any(r - {order[-1]} for r in reduced):
        return "own"
    return "softmax" if order[-1] in _loops(m.statements[-1].target) else "reduce"


def _loops(e: Expr) -> frozenset[str]:
    """Return the loops of what an expression reads, and of the read itself."""
    return frozenset().union(*[variables(i) for r in reads(e) for i in r.indices])


def _depends_on_place(e: Expr, params: Sequence[str]) -> bool:
    """Return True where a value depends on loops themselves, or on what lies outside a tensor."""
    if isinstance(e, Read):
        return False
    loop = isinstance(e, Var) and e.name not in params
    return loop or isinstance(e, Call) and e.fn == "guard" or any(_depends_on_place(c, params) for c in children(e))


def _common_order(accesses: Sequence[Read]) -> tuple[str, ...]:
    """Return the loops of all accesses in the one order in which each has them; none where there is no such order."""
    longest = max(accesses, key=lambda r: len(r.indices), default=None)
    if longest is None or not all(isinstance(i, Var) for r in accesses for i in r.indices):
        return ()
    order = tuple(i.name for i in longest.indices if isinstance(i, Var))
    for r in accesses:
        at = [order.index(i.name) if i.name in order else -1 for i in r.indices if isinstance(i, Var)]
        if -1 in at or at != sorted(set(at)):
            return ()
    return order


def factors(s: Statement) -> tuple[Read, Read] | None:
    """Return the two reads of a sum of products. Return None for any other statement."""
    e = s.value
    if s.op != "+=" or not isinstance(e, Binary) or e.op != "*" or not isinstance(e.left, Read) or not isinstance(e.right, Read):
        return None
    return e.left, e.right
