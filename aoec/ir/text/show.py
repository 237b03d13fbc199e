"""The canonical text of every noun: two spaces of indent, one statement a line, the fewest parentheses."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import singledispatch
from math import isnan

from aoec.base.errors import CheckError
from aoec.base.text import indent, quote, word
from aoec.ir.func.meaning import Argument, Dim, Meaning, Statement
from aoec.ir.func.tir import Block, Buffer, Constraint, Func, Loop, Node
from aoec.ir.graph.graph import Attribute, Graph, OpNode
from aoec.ir.graph.graph import Tensor as GraphTensor
from aoec.ir.graph.rule import Chain, Declaration, List, Name, Number, Perhaps, Rule, Spread, Term
from aoec.ir.index import PRECEDENCE, Binary, Call, Cast, Expr, Float, Hole, Int, Read, Var
from aoec.ir.plan import LISTS, Plan
from aoec.ir.program import Advance, CrossSet, CrossWait, For, Instr, Item, Program, Ref, SetFlag, Space, Stream, WaitFlag
from aoec.ir.program import Tensor as ProgramTensor
from aoec.ir.schedule import Step, Trace, Value

# words that mean something else where a name of that kind may stand
EXPR_TAKEN = frozenset({"inf"})
TARGET_TAKEN = frozenset({"inf", "or", "and", "else", "init", "in"})  # "in" would go on from a hole that ends the line before
BLOCK_TAKEN = frozenset({"for", "local", "require", "init", "as", "else", "in", "depth", "align", "skew", "unit", "ahead", "or", "and"})
NODE_TAKEN = frozenset({"input", "const", "tensor", "output", "operator", "group", "body", "as", "ND", "NZ", "ZZ", "ZN", "NN", "NC1HWC0",
                        "NC1HWC0_C04"})
LINE_TAKEN = frozenset({"rule", "alone", "if", "when", "keeps", "rounds", "const", "or", "and", "inf"})
INSTR_TAKEN = frozenset({"for", "set", "wait", "cross_set", "cross_wait", "advance"})


def show(x: object) -> str:
    """Return the canonical text of an expression, meaning, graph, plan, func, trace, program, or a part of one; no newline at the end."""
    try:
        return "\n".join(_lines(x))
    except RecursionError:
        raise CheckError(f"a {type(x).__name__.lower()} is nested too deeply to be written as text; build it flatter") from None


@singledispatch
def _lines(x: object) -> Iterable[str]:
    raise TypeError(f"no text form: {type(x).__name__}")


# ---------------------------------------------------------------- expressions

ATOM, NUMBER = 9, 8  # how tightly an atom holds together


@_lines.register
def _(e: Expr) -> Iterable[str]:
    return [expr(e)]


def expr(e: Expr) -> str:
    """Return the text of an expression."""
    return _EXPRS[type(e)](e)


def _exprs(items: Iterable[Expr]) -> str:
    return ", ".join([_EXPRS[type(e)](e) for e in items])


def _float(e: Float) -> str:
    if isnan(e.value):
        raise CheckError("nan has no text form; no expression of aoec may hold it")
    return repr(float(e.value))


def _hole(e: Hole) -> str:
    choices = f" in [{', '.join(map(str, e.choices))}]" if e.choices else ""
    return f"?{word(e.name)}{choices}"


def _binary(e: Binary) -> str:
    level = PRECEDENCE[e.op]
    left = _side(e.left, level + 1 if level == 3 else level)  # comparisons do not chain
    return f"{left} {e.op} {_side(e.right, level + 1)}"


def _side(e: Expr, level: int) -> str:
    text = _EXPRS[type(e)](e)
    return f"({text})" if isinstance(e, Binary) and PRECEDENCE[e.op] < level else text


def _call(e: Call) -> str:
    if e.fn == "guard":
        return f"{expr(e.args[0])} else {expr(e.args[1])}"
    return f"{e.fn}({_exprs(e.args)})"


_EXPRS: dict[type, Callable[..., str]] = {
    Int: lambda e: str(int(e.value)), Float: _float, Var: lambda e: word(e.name, EXPR_TAKEN), Hole: _hole, Binary: _binary, Call: _call,
    Read: lambda e: f"{word(e.buffer, EXPR_TAKEN)}[{_exprs(e.indices)}]", Cast: lambda e: f"{e.dtype}({expr(e.value)})",
}


def _block(head: str, body: Iterable[str]) -> list[str]:
    return [head + " {", *indent(body), "}"]


# ---------------------------------------------------------------- meaning

@_lines.register
def _(m: Meaning) -> Iterable[str]:
    extra = ", ".join([word(p) for p in m.params] + [_dim(d) for d in m.loops])
    inputs = ", ".join(map(_argument, m.inputs)) + (f"; {extra}" if extra else "")
    return _block(f"{word(m.name)}({inputs}) -> {', '.join(map(_argument, m.outputs))}", [_statement(s) for s in m.statements])


def _argument(a: Argument) -> str:
    return f"{word(a.name)}[{', '.join(map(_dim, a.dims))}]"


def _dim(d: Dim) -> str:
    return word(d.name) if d.extent is None else f"{word(d.name)}: {expr(d.extent)}"


@_lines.register
def _(s: Statement) -> Iterable[str]:
    return [_statement(s)]


def _statement(s: Statement) -> str:
    init = "" if s.init is None else f" init {expr(s.init)}"
    return f"{word(s.target.buffer, TARGET_TAKEN)}[{_exprs(s.target.indices)}] {s.op} {expr(s.value)}{init}"


# ---------------------------------------------------------------- graph

@_lines.register
def _(g: Graph) -> Iterable[str]:
    known = {t.name: t for t in g.tensors}
    body = _definitions(g)
    body += [_graph_tensor(known[name], "input") for name in g.inputs]
    inputs = set(g.inputs)
    body += [_graph_tensor(t, "const" if t.data else "tensor") for t in g.tensors if t.name not in inputs]
    body += [_graph_node(n) for n in g.nodes]
    body += [f"output {word(name)}" for name in g.outputs]
    body += [f"group {word(p.name)} {word(p.kind)} [{_names(p.nodes)}]" for p in g.groups]
    body += [f"body {word(b.node)} {word(b.kind)} ({_names(b.inputs)}) -> ({_names(b.outputs)}) [{_names(b.nodes)}]" for b in g.bodies]
    return _block(f"graph {word(g.name)}", body)


def _definitions(g: Graph) -> list[str]:
    """Return the user's own operators, each before all nodes; CheckError where two of one name differ, which no text can say."""
    own: dict[str, str] = {}
    for n in g.nodes:
        if n.definition and own.setdefault(n.op, n.definition) != n.definition:
            raise CheckError(f"graph {g.name} has two definitions of operator {n.op}")
    return [line for text in own.values() for line in f"operator {text}".splitlines()]


def _graph_tensor(t: GraphTensor, role: str) -> str:
    layout = "" if t.layout == "ND" else f" {t.layout}"
    data = f" sha256:{t.data}" if t.data else ""
    declared = f" as {quote(t.declared)}" if t.declared else ""
    return f"{role} {word(t.name)}: {word(t.dtype)}[{', '.join(map(str, t.shape))}]{layout}{data}{declared}"


def _graph_node(n: OpNode) -> str:
    attributes = "; " + ", ".join(f"{word(k)}={_attribute(v)}" for k, v in n.attributes) if n.attributes else ""
    return f"{word(n.name, NODE_TAKEN)}: {n.op}({_names(n.inputs)}{attributes}) -> {_names(n.outputs)}"


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(word, names))


def _attribute(v: Attribute) -> str:
    if isinstance(v, tuple):
        return f"[{', '.join(map(_attribute, v))}]"
    if isinstance(v, str):
        return quote(v)
    return _float(Float(v)) if isinstance(v, float) else str(int(v))


# ---------------------------------------------------------------- plan

@_lines.register
def _(p: Plan) -> Iterable[str]:
    rewrites = [(site, "") for site in p.rewrites] + [(site, " off") for site in p.declined]
    body = [f"rewrite {_site(rule)} at {_site(tensor)}{end}" for (rule, tensor), end in rewrites]
    body += [f"{said} {_site(name)}" for said, field in LISTS.items() for name in getattr(p, field)]
    body += [f"group {word(g.name)} {word(g.kind)} [{_names(g.nodes)}]{_takes(g.takes_ns)}" for g in p.groups]
    body += [f"slices {word(first)}{f'..{word(last)}' * (last != first)}/{count}" for first, last, count in p.slices]
    return _block(f"plan {word(p.name)} for {word(p.target)}", body)


def _site(name: str) -> str:
    """Return a place in a model: words with points between them as they are, anything else in quotes."""
    return name if all(word(part) == part for part in name.split(".")) else quote(name)


def _takes(ns: int | None) -> str:
    """Return what a group takes, in µs of as many digits as it has."""
    return "" if ns is None else " takes " + f"{ns // 1000}.{ns % 1000:03}".rstrip("0").rstrip(".") + " us"


# ---------------------------------------------------------------- func

@_lines.register
def _(f: Func) -> Iterable[str]:
    body = [f"local {_buffer(b)}" for b in f.locals] + list(map(_constraint, f.constraints)) + list(_nodes(f.body))
    inputs, outputs = (", ".join(map(_buffer, bs)) for bs in (f.inputs, f.outputs))
    return _block(f"func {word(f.name)}({inputs}) -> ({outputs})", body)


@_lines.register
def _(b: Buffer) -> Iterable[str]:
    return [_buffer(b)]


def _buffer(b: Buffer) -> str:
    scope = "" if b.scope == "GM" else f" in {word(b.scope)}"
    layout = "" if b.layout == "ND" else f" {b.layout}"
    align = "" if b.align == Int(1) else f" align {expr(b.align)}"
    skew = "" if b.skew == Int(0) else f" skew {expr(b.skew)}"
    unit = "" if b.unit == Int(0) else f" unit {expr(b.unit)}"
    ahead = "" if b.ahead is None else f" ahead {expr(b.ahead)}"
    return f"{word(b.name)}: {word(b.dtype)}[{_exprs(b.shape)}]{scope}{layout}{_depth(b.depth)}{align}{skew}{unit}{ahead}"


def _depth(e: Expr) -> str:
    return "" if e == Int(1) else f" depth {expr(e)}"


@_lines.register
def _(c: Constraint) -> Iterable[str]:
    return [_constraint(c)]


def _constraint(c: Constraint) -> str:
    return f"require {expr(c.condition)} {quote(c.reason)}"


@_lines.register(Loop)
@_lines.register(Block)
def _(n: Node) -> Iterable[str]:
    return _nodes((n,))


def _nodes(body: tuple[Node, ...], pad: str = "") -> Iterator[str]:
    for n in body:
        if isinstance(n, Block):
            yield pad + _tir_block(n)
        else:
            kind = "" if n.kind == "serial" else f" {word(n.kind)}"
            yield f"{pad}for {word(n.var)} in {expr(n.extent)}{kind} {{"
            yield from _nodes(n.body, pad + "  ")
            yield pad + "}"


def _tir_block(b: Block) -> str:
    init = "" if b.init is None else f" init {expr(b.init)}"
    instr = "" if b.instr is None else f" as {word(b.instr)}"
    return f"{word(b.name, BLOCK_TAKEN)}: {expr(b.target)} {b.op} {expr(b.value)}{init}{instr}"


# ---------------------------------------------------------------- trace

@_lines.register
def _(t: Trace) -> Iterable[str]:
    return _block("sched", map(_step, t.steps))


@_lines.register
def _(s: Step) -> Iterable[str]:
    return [_step(s)]


def _step(s: Step) -> str:
    return f"{word(s.primitive)}({', '.join(f'{word(k)}={_value(v)}' for k, v in s.fields)})"


def _value(v: Value) -> str:
    if isinstance(v, str):
        return word(v, EXPR_TAKEN)
    return f"[{_names(v)}]" if isinstance(v, tuple) else expr(v)


# ---------------------------------------------------------------- rules

@_lines.register
def _(r: Rule) -> Iterable[str]:
    body = [f"{word(e.name, LINE_TAKEN)} = {' or '.join(map(_term, e.forms))}" for e in r.equations]
    body += map(_declaration, r.declarations)
    body += [f"alone {_names(r.sole)}"] if r.sole else []
    body += [f"if {expr(c)}" for c in r.conditions] + [f"when {word(t.name)}({_names(t.names)})" for t in r.tests]
    body += [f"keeps {word(r.keeps)}"] if r.keeps else []
    body += ["rounds"] if r.rounds else []
    made = [f"{word(name, LINE_TAKEN)} = {_term(term)}" for name, term in r.made]
    return [f"rule {word(r.name)} {quote(r.about)} {{", *indent(body), f"  => {made[0]}", *indent(made[1:], 2), "}"]


def _declaration(d: Declaration) -> str:
    names = ", ".join(word(n, LINE_TAKEN) for n in d.names)
    return f"{names}: {'const ' if d.constant else ''}{word(d.kind)}{'' if d.shape is None else _list(d.shape)}"


def _term(t: Term) -> str:
    if isinstance(t, Name):
        return word(t.name, EXPR_TAKEN)
    if isinstance(t, Number):
        return f"{'~' if t.near else ''}{_float(Float(t.value))}"
    if isinstance(t, Perhaps):
        return f"?{word(t.name)}"
    if isinstance(t, Chain):
        apart = [isinstance(p, Chain) and (p.op == "+" or t.op == "*") for p in t.parts]
        return f" {t.op} ".join(f"({_term(p)})" if alone else _term(p) for p, alone in zip(t.parts, apart))
    attributes = "; " + ", ".join(f"{word(k)}={_rule_value(v)}" for k, v in t.attributes) if t.attributes else ""
    return f"{word(t.op)}({', '.join(map(_term, t.args))}{attributes})"


def _rule_value(v: Expr | List | str) -> str:
    return quote(v) if isinstance(v, str) else _list(v) if isinstance(v, tuple) else expr(v)


def _list(items: List) -> str:
    return f"[{', '.join(_spread(i) if isinstance(i, Spread) else expr(i) for i in items)}]"


def _spread(s: Spread) -> str:
    return f"*{s.fill}({word(s.name)})" if s.fill else f"*{word(s.name)}{'~' + word(s.wide) if s.wide else ''}"


# ---------------------------------------------------------------- program

@_lines.register
def _(p: Program) -> Iterable[str]:
    body = list(map(_program_tensor, p.tensors)) + list(map(_space, p.spaces)) + list(map(_constraint, p.constraints))
    for s in p.streams:
        body += _stream(s)
    return _block(f"program {word(p.name)} for {word(p.target)}", body)


@_lines.register
def _(s: Stream) -> Iterable[str]:
    return _stream(s)


def _program_tensor(t: ProgramTensor) -> str:
    uncached = " uncached" if t.uncached else ""
    return f"{t.role} {word(t.name)}: {word(t.dtype)}[{_exprs(t.shape)}]{uncached}"


def _space(s: Space) -> str:
    return f"space {word(s.name)}: {word(s.dtype)} in {word(s.scope)} at {expr(s.address)} size {expr(s.size_bytes)}{_depth(s.depth)}"


def _stream(s: Stream) -> list[str]:
    grid = f" grid [{', '.join(f'{word(v)} in {expr(e)}' for v, e in s.grid)}]" if s.grid else ""
    counters = f" counters [{', '.join(f'{word(c)} depth {expr(d)}' for c, d in s.counters)}]" if s.counters else ""
    return _block(f"stream {word(s.name)} {word(s.core)}{grid}{counters}", _items(s.body))


@_lines.register(Instr)
@_lines.register(SetFlag)
@_lines.register(WaitFlag)
@_lines.register(CrossSet)
@_lines.register(CrossWait)
@_lines.register(Advance)
@_lines.register(For)
def _(i: Item) -> Iterable[str]:
    return _items((i,))


def _items(body: tuple[Item, ...], pad: str = "") -> Iterator[str]:
    for i in body:
        if isinstance(i, For):
            yield f"{pad}for {word(i.var)} in {expr(i.trips)} {{"
            yield from _items(i.body, pad + "  ")
            yield pad + "}"
        else:
            yield pad + _ITEMS[type(i)](i)


def _operand(v: Ref | Expr) -> str:
    if isinstance(v, Expr):
        return expr(v)
    return f"{word(v.buffer, EXPR_TAKEN)}{'' if v.slot == Int(0) else '.' + _slot(v.slot)}[{expr(v.offset)}]"


def _slot(e: Expr) -> str:
    bare = isinstance(e, Var) or (isinstance(e, Int) and e.value >= 0)
    return expr(e) if bare else f"({expr(e)})"


_ITEMS: dict[type, Callable[..., str]] = {
    Instr: lambda i: f"{word(i.op, INSTR_TAKEN)}({', '.join([f'{word(k)}={_operand(v)}' for k, v in i.fields])})",
    SetFlag: lambda i: f"set({word(i.source)}, {word(i.target)}, {expr(i.id)})",
    WaitFlag: lambda i: f"wait({word(i.source)}, {word(i.target)}, {expr(i.id)})",
    CrossSet: lambda i: f"cross_set({word(i.pipe)}, {word(i.to)}, {expr(i.id)})",
    CrossWait: lambda i: f"cross_wait({word(i.pipe)}, {word(i.source)}, {expr(i.id)})",
    Advance: lambda i: f"advance({word(i.counter)})",
}
