"""Gradients of elementwise operators, from their declared expressions: one elementwise node for each argument that is wanted.

The slopes of `ops.gradient` give how much the result grows with the argument. Where that times the result's gradient is a word of the
dictionary, it is that word. Else it is an operator with a definition of its own, which fuses like any other elementwise one.
"""
from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from aoec.frontend.training.gradients.gradient_site import Site
from aoec.ir.func.meaning import Argument, Dim, Meaning, Statement
from aoec.ir.graph.graph import OpNode
from aoec.ir.index import Binary, Call, Expr, Float, Int, Read, Var, call, children, reads, rebuild, select, substitute
from aoec.ir.text.parse import parse_meaning
from aoec.ir.text.show import show
from aoec.ops.declare import LETTERS, broadcast, numbers
from aoec.ops.gradient import slopes
from aoec.ops.own import shape_of
from aoec.ops.registry import OPS

PLACE = (Var("i"),)
GIVEN, RESULT = Read("dY", PLACE), Read("Y", PLACE)
ONE, NONE = Float(1.0), Float(0.0)
# known by its result, which reads less and is 0 at the kink, as PyTorch has it
BY_RESULT = {"relu": select(Binary(">", RESULT, NONE), GIVEN, NONE)}
POWERS = {-1.0: lambda a: call("reciprocal", a), 0.0: lambda a: ONE, 0.5: lambda a: call("sqrt", a), 1.0: lambda a: a, 2.0: lambda a: a * a,
          3.0: lambda a: a * a * a}


def is_elementwise(node: OpNode) -> bool:
    """Return whether a node is of an operator with an expression for its elements."""
    return node.op in OPS and OPS[node.op].elements is not None


def elementwise(s: Site, at: int) -> str:
    """Return the gradient of an argument, in the shape of the result. Return "" where it is zero almost everywhere."""
    constants = {LETTERS[k]: Float(float(s.n.draft.weights[x].reshape(())[()])) for k, x in enumerate(s.node.inputs)
                 if s.n.draft.is_constant(x) and s.n.draft.weights[x].size == 1}
    e = _with_constants(_grown(s.node.op, s.node.attributes, at), constants)
    if isinstance(e, (Int, Float)):
        return "" if not e.value else _fail(e)
    if e == GIVEN:
        return s.dy
    return _by_word(s, e) or _by_definition(s, e)


def _fail(e: Expr) -> str:
    raise AssertionError(f"a gradient is linear in that of the result, not {show(e)}")


@lru_cache(maxsize=1024)
def _grown(op: str, attributes: tuple[tuple[str, object], ...], at: int) -> Expr:
    """Return what an argument's gradient grows by: an expression of the arguments A, B, ..., the result Y and its gradient dY."""
    if op in BY_RESULT:
        return BY_RESULT[op]
    elements = OPS[op].elements
    assert elements is not None
    expression = elements.expression_of(dict(attributes))  # type: ignore[arg-type]
    letters = [letter for letter in LETTERS if f"${letter}" in expression]
    for letter in letters:
        expression = expression.replace(f"${letter}", f"{letter}[i]")
    args = ", ".join(f"{letter}[i]" for letter in letters)
    params = numbers(dict(attributes))  # type: ignore[arg-type]
    stated = f"; {', '.join(elements.params)}" if elements.params else ""
    m = parse_meaning(f"{op}({args}{stated}) -> Y[i] {{ Y[i] = {expression} }}", op)
    value = substitute(m.statements[0].value, {p: Float(float(params[p])) for p in elements.params})
    total: Expr = NONE
    for read, by in slopes(value, GIVEN, op, RESULT):
        if read.buffer == LETTERS[at]:
            total = Binary("+", total, by)
    return tidy(total)


def _with_constants(e: Expr, constants: Mapping[str, Float]) -> Expr:
    """Return the expression with single numbers in place of the arguments that they are."""
    def of(part: Expr) -> Expr:
        return constants.get(part.buffer, part) if isinstance(part, Read) else rebuild(part, of)
    return tidy(of(e))


# ---------------------------------------------------------------- as words

def _by_word(s: Site, e: Expr) -> str:
    """Return the tensor of an expression that a word of the dictionary is. Return "" for others."""
    parts = children(e)
    if isinstance(e, Binary) and e.op in "*/" and all(isinstance(p, Read) for p in parts):
        return s.step({"*": "mul", "/": "div"}[e.op], [_tensor(s, p) for p in parts])
    if isinstance(e, Binary) and e.op == "*" and isinstance(e.left, Read) and isinstance(e.right, Float):
        return s.step("muls", [_tensor(s, e.left)], scalar=e.right.value)
    return ""


def _tensor(s: Site, r: Expr) -> str:
    assert isinstance(r, Read)
    return {"dY": s.dy, "Y": s.y}.get(r.buffer) or s.x(LETTERS.index(r.buffer))


def _by_definition(s: Site, e: Expr) -> str:
    """Return the tensor of an operator with a definition of its own. Arguments that are broadcast lose their axes of extent 1, so that all
    are read at loops of the result alone."""
    held = {name: _tensor(s, Read(name, PLACE)) for name in dict.fromkeys(r.buffer for r in reads(e))}
    out = broadcast([s.n.made_shape(x) for x in held.values()])
    point = {name: _own_loops(s.n.made_shape(x), out) for name, x in held.items()}
    inputs = [s.reshape(x, [out[axis] for axis in point[name]]) for name, x in held.items()]

    def of(part: Expr) -> Expr:
        return Read(part.buffer, _at(point[part.buffer])) if isinstance(part, Read) else rebuild(part, of)
    args = tuple(Argument(name, tuple(Dim(f"i{axis}") for axis in point[name])) for name in held)
    every = range(len(out))
    m = Meaning(f"{s.node.op}_gradient", args, (), (Argument("dX", tuple(Dim(f"i{axis}") for axis in every)),),
                (Statement(Read("dX", _at(every)), "=", of(e)),))
    return add_definition(s, m, inputs)


def _own_loops(shape: tuple[int, ...], out: tuple[int, ...]) -> list[int]:
    """Return the axes of the result that a tensor walks."""
    lead = len(out) - len(shape)
    return [lead + axis for axis, extent in enumerate(shape) if extent == out[lead + axis]]


def _at(axes: object) -> tuple[Expr, ...]:
    return tuple(Var(f"i{axis}") for axis in axes)  # type: ignore[attr-defined]


def add_definition(s: Site, m: Meaning, inputs: list[str]) -> str:
    """Return the tensor of a node of an operator with this meaning."""
    name, definition = s.known.name_meaning(m)
    draft = s.n.draft
    node = draft.node(name, inputs, "", {}, f"{s.n.proto.name}_{name}" if s.n.proto.name else "")
    node = OpNode(node.name, name, node.inputs, (), (), definition)
    shape = shape_of(node, [s.n.made_shape(x) for x in inputs])
    out = draft.tensor(f"{s.n.proto.output[0]}_{name}", "fp32", shape)
    draft.nodes.append(OpNode(node.name, name, node.inputs, (out,), (), definition))
    return out


# ---------------------------------------------------------------- shorter

def tidy(e: Expr) -> Expr:
    """Return the expression with what numbers decide done: neutral elements and zeros, numbers last and as one factor, small powers."""
    if isinstance(e, Int):
        return Float(float(e.value))
    if isinstance(e, (Float, Var, Read)):
        return e
    e = rebuild(e, tidy)
    if isinstance(e, Binary):
        return _tidy_binary(e)
    if isinstance(e, Call) and e.fn == "pow" and isinstance(e.args[1], Float) and e.args[1].value in POWERS:
        return tidy(POWERS[e.args[1].value](e.args[0]))
    if isinstance(e, Call) and e.fn == "select" and e.args[1] == e.args[2]:
        return e.args[1]
    if isinstance(e, Call) and e.fn == "reciprocal" and isinstance(e.args[0], Float) and e.args[0].value:
        return Float(1.0 / e.args[0].value)
    return e


def _tidy_binary(e: Binary) -> Expr:
    a, b = e.left, e.right
    if isinstance(a, Float) and isinstance(b, Float) and e.op in ("+", "-", "*"):
        return Float({"+": a.value + b.value, "-": a.value - b.value, "*": a.value * b.value}[e.op])
    if e.op == "*":
        return _tidy_product(a, b)
    if e.op in ("+", "-") and b == NONE or e.op == "/" and b == ONE:
        return a
    if e.op == "+" and a == NONE:
        return b
    if e.op == "/" and a == NONE:
        return NONE
    return e


def _tidy_product(a: Expr, b: Expr) -> Expr:
    if NONE in (a, b):
        return NONE
    if isinstance(a, Float):
        a, b = b, a
    if b == ONE:
        return a
    if isinstance(b, Float):
        if isinstance(a, Binary) and a.op == "*" and isinstance(a.right, Float):
            return _tidy_product(a.left, Float(a.right.value * b.value))
        return Binary("*", a, b)
    if isinstance(b, Binary) and b.op == "*" and isinstance(b.right, Float):  # numbers last
        return _tidy_product(_tidy_product(a, b.left), b.right)
    if isinstance(a, Binary) and a.op == "*" and isinstance(a.right, Float):
        return _tidy_product(_tidy_product(a.left, b), a.right)
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Call) and one.fn == "select" and NONE in one.args[1:]:
            c, yes, no = one.args
            return select(c, _tidy_product(other, yes), _tidy_product(other, no))
    if isinstance(b, Call) and b.fn == "reciprocal":
        return Binary("/", a, b.args[0])
    return Binary("*", a, b)
