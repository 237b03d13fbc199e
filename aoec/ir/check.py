"""Structural checks of the nouns: names, ranks, known words.

What a dictionary must say (operators, primitives, instructions) is checked beside the dictionary.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import singledispatch
from typing import Any

from aoec.base.errors import CheckError
from aoec.ir.check_plan import check_plan
from aoec.ir.func.meaning import Meaning, Statement
from aoec.ir.func.tir import ASSIGN, LAYOUTS, LOOP_KINDS, SCOPES, Block, Buffer, Constraint, Func, Loop, Node
from aoec.ir.graph.check_graph import check_graph
from aoec.ir.graph.check_rule import check_rule
from aoec.ir.graph.graph import Graph
from aoec.ir.graph.rule import Rule
from aoec.ir.index import DTYPES, FUNCTIONS, Binary, Call, Cast, Expr, Float, Hole, Int, Read, Var, children
from aoec.ir.plan import Plan
from aoec.ir.program import CORE_KINDS, PIPES, Advance, CrossSet, CrossWait, For, Instr, Item, Program, Ref, SetFlag, Stream, WaitFlag
from aoec.ir.schedule import Trace
from aoec.ir.text.places import Places

ROLES = ("input", "output", "temp")
MAX_DEPTH = 100  # levels of an expression, and of loops: Python's own recursion holds that many in every rewriter

Ranks = dict[str, int]  # tensor or buffer -> number of indices


def check(noun: object, places: Places | None = None) -> None:
    """Raise CheckError unless a meaning, graph, plan, func, trace or program is well formed. The error states the place if there is a
    text."""
    try:
        _check(noun, places or Places())
    except RecursionError:
        raise CheckError(f"a {type(noun).__name__.lower()} is nested too deeply; {MAX_DEPTH} levels are the limit") from None


@singledispatch
def _check(noun: object, at: Places) -> None:
    raise TypeError(f"nothing to check: {type(noun).__name__}")


_check.register(Graph)(check_graph)
_check.register(Rule)(check_rule)
_check.register(Plan)(check_plan)


# ---------------------------------------------------------------- expressions

class Scope:
    """What an expression may name where it stands, for one sentence of refusal."""

    def __init__(self, at: Places, where: str, node: object) -> None:
        self.at, self.where, self.node = at, where, node

    def _error(self, message: str, name: str = "") -> CheckError:
        return self.at.error(f"{self.where}: {message}", self.node, name)

    def check(self, e: Expr, names: Iterable[str] = (), ranks: Ranks | None = None, guards: bool = False) -> None:
        """Raise unless the variables and reads of `e` are known. Every variable must be in `names`. Every read must be of a tensor in
        `ranks`, with its rank. With `ranks` None, only integers are allowed."""
        stack = [(e, 1)]
        while stack:
            n, depth = stack.pop()
            if depth > MAX_DEPTH:
                raise self._error(f"an expression has more than {MAX_DEPTH} levels; split it over several statements")
            self._leaf(n, names, ranks, guards)
            stack += [(c, depth + 1) for c in children(n)]

    def _leaf(self, n: Expr, names: Iterable[str], ranks: Ranks | None, guards: bool) -> None:
        if isinstance(n, Var):
            self.at.refuse(n.name not in names, lambda: f"{self.where}: {n.name} is not defined here{_defined_words(names)}", self.node,
                           n.name)
        elif isinstance(n, Read):
            self._read(n, ranks)
        elif isinstance(n, Call):
            self._call(n, guards)
        elif isinstance(n, Cast):
            self.at.check_known(n.dtype, DTYPES, "dtype", self.where, self.node)
        elif isinstance(n, Int) and not -2**63 <= n.value < 2**63:
            raise self._error(f"{n.value} does not fit 64 bits")

    def _read(self, n: Read, ranks: Ranks | None) -> None:
        if ranks is None:
            raise self._error(f"{n.buffer}[...] reads a tensor where an integer expression is asked for", n.buffer)
        self.at.check_known(n.buffer, ranks, "buffer", self.where, self.node)
        if len(n.indices) != ranks[n.buffer]:
            raise self._error(f"{n.buffer} has {ranks[n.buffer]} dimensions and is given {len(n.indices)} indices", n.buffer)
        if any(map(_is_real, n.indices)):
            raise self._error(f"an index of {n.buffer} is a real; indices are whole numbers", n.buffer)

    def _call(self, n: Call, guards: bool) -> None:
        if n.fn == "guard":
            if not guards or not isinstance(n.args[0], Read) or not isinstance(n.args[1], (Int, Float)):
                raise self._error("`else` after a read belongs to meanings of operators only; use select on the bounds", "else")
            return
        self.at.check_known(n.fn, FUNCTIONS, "function", self.where, self.node)
        count = FUNCTIONS[n.fn]
        if len(n.args) != count if count else len(n.args) < 2:
            raise self._error(f"{n.fn} takes {count or 'two or more'} arguments and is given {len(n.args)}", n.fn)


def _is_real(e: Expr) -> bool:
    """Return whether an index is a real by its form: a real number, or arithmetic with one."""
    return isinstance(e, Float) or isinstance(e, Binary) and (_is_real(e.left) or _is_real(e.right))


def _defined_words(names: Iterable[str]) -> str:
    known = sorted(names)
    return f"; defined are {', '.join(known)}" if known else "; only holes and numbers may stand here"


def _integers(scope: Scope, items: Iterable[Expr], names: Iterable[str] = ()) -> None:
    for e in items:
        scope.check(e, names)


def _choices(items: Iterable[tuple[Expr, object]], at: Places, where: str) -> None:
    """Refuses a hole whose choices are stated twice and differ."""
    stated: dict[str, tuple[int, ...]] = {}
    for top, node in items:
        stack = [top]
        while stack:
            e = stack.pop()
            stack += children(e)
            if isinstance(e, Hole) and e.choices and stated.setdefault(e.name, e.choices) != e.choices:
                both = f"{list(stated[e.name])} and {list(e.choices)}"
                raise at.error(f"{where}: hole ?{e.name} has choices {both}; state them once", node, e.name)


def _constraints(items: Iterable[Constraint], at: Places, where: str) -> None:
    for c in items:
        Scope(at, where, c).check(c.condition)


# ---------------------------------------------------------------- meaning

@_check.register
def _(m: Meaning, at: Places) -> None:
    where = f"meaning of {m.name}"
    arguments = m.inputs + m.outputs
    at.unique([(a.name, a) for a in arguments], "tensor", where)
    at.unique([(p, m) for p in m.params] + [(d.name, d) for d in m.loops], "parameter", where)
    for a in arguments:
        at.unique([(d.name, a) for d in a.dims], "dimension", f"{where}: {a.name}")
    names = {d.name for a in arguments for d in a.dims} | {d.name for d in m.loops} | set(m.params)
    for d in [d for a in arguments for d in a.dims] + list(m.loops):
        if d.extent is not None:
            Scope(at, where, d).check(d.extent, names)
    _bound(m, at, where)
    ranks: Ranks = {a.name: len(a.dims) for a in m.inputs}
    for s in m.statements:
        _meaning_statement(m, s, names, ranks, at, where)


def _bound(m: Meaning, at: Places, where: str) -> None:
    """Raise CheckError unless every output dimension has an extent. It can be its own, or that of a dimension of an input or of another
    output."""
    bound = {d.name for a in m.inputs for d in a.dims} | {d.name for d in m.loops}
    bound |= {d.name for a in m.outputs for d in a.dims if d.extent is not None}
    for a in m.outputs:
        for d in a.dims:
            at.refuse(d.name not in bound, lambda d=d, a=a: f"{where}: dimension {d.name} of {a.name} has no extent; "  # type: ignore[misc]
                      f"write {d.name}: extent, or name a dimension of an input", d, d.name)


def _meaning_statement(m: Meaning, s: Statement, names: set[str], ranks: Ranks, at: Places, where: str) -> None:
    at.check_known(s.op, ASSIGN, "assignment", where, s)
    scope, name, rank = Scope(at, where, s), s.target.buffer, len(s.target.indices)
    at.refuse(name in [a.name for a in m.inputs], lambda: f"{where}: {name} is an input and cannot be written", s, name)
    outputs: Ranks = {a.name: len(a.dims) for a in m.outputs}
    expected = outputs.get(name, ranks.get(name, rank))
    at.refuse(rank != expected, lambda: f"{where}: {name} has {expected} dimensions and is given {rank} indices", s, name)
    scope.check(s.value, names, ranks, guards=True)
    if s.init is not None:
        scope.check(s.init, names, ranks, guards=True)
    ranks[name] = rank
    for i in s.target.indices:
        scope.check(i, names)


# ---------------------------------------------------------------- func

@_check.register
def _(f: Func, at: Places) -> None:
    where = f"func {f.name}"
    buffers = at.unique([(b.name, b) for b in f.buffers], "buffer", where)
    for b in f.buffers:
        _buffer(b, at, f"{where}: buffer {b.name}")
    for b in f.inputs + f.outputs:
        at.refuse(b.scope != "GM", lambda b=b: f"{where}: {b.name} is an argument and lies in GM, not {b.scope}", b, b.scope)  # type: ignore[misc]
    _constraints(f.constraints, at, where)
    ranks = {b.name: len(b.shape) for b in f.buffers}
    body = _FuncBody(at, where, ranks, {b.name for b in f.inputs}, set(buffers))
    body.nodes(f.body, ())
    if not body.blocks:
        raise at.error(f"{where} has no block, so that nothing is computed", f)
    _choices(_func_exprs(f), at, where)


def _buffer(b: Buffer, at: Places, where: str) -> None:
    at.check_known(b.dtype, DTYPES, "dtype", where, b)
    at.check_known(b.scope, SCOPES, "scope", where, b)
    at.check_known(b.layout, LAYOUTS, "layout", where, b)
    _integers(Scope(at, where, b), (*b.shape, b.depth, b.align, b.skew, b.unit, *([] if b.ahead is None else [b.ahead])))


class _FuncBody:
    """One walk over a func's loops and blocks."""

    def __init__(self, at: Places, where: str, ranks: Ranks, inputs: set[str], buffers: set[str]) -> None:
        self.at, self.where, self.ranks, self.inputs, self.buffers = at, where, ranks, inputs, buffers
        self.loops: set[str] = set()
        self.blocks: set[str] = set()

    def nodes(self, body: tuple[Node, ...], above: tuple[str, ...]) -> None:
        if len(above) > MAX_DEPTH:
            raise self.at.error(f"{self.where}: loops nest more than {MAX_DEPTH} deep", body[0] if body else None)
        for n in body:
            if isinstance(n, Block):
                self.block(n, above)
            else:
                self.loop(n, above)
                self.nodes(n.body, (*above, n.var))

    def loop(self, n: Loop, above: tuple[str, ...]) -> None:
        where = f"{self.where}: loop {n.var}"
        if n.var in self.loops:
            raise self.at.error(f"{where} is declared twice; loop names are unique in a func", n, n.var)
        if n.var in self.buffers:
            raise self.at.error(f"{where} has the name of a buffer; rename one of them", n, n.var)
        if n.var in self.blocks:
            raise self.at.error(f"{where} has the name of a block; rename one of them", n, n.var)
        self.loops.add(n.var)
        self.at.check_known(n.kind, LOOP_KINDS, "kind of loop", where, n)
        Scope(self.at, where, n).check(n.extent, above)

    def block(self, n: Block, above: tuple[str, ...]) -> None:
        where = f"{self.where}: block {n.name}"
        if n.name in self.blocks:
            raise self.at.error(f"{where} is declared twice; block names are unique in a func", n, n.name)
        if n.name in self.loops:
            raise self.at.error(f"{where} has the name of a loop; rename one of them", n, n.name)
        self.blocks.add(n.name)
        self.at.check_known(n.op, ASSIGN, "assignment", where, n)
        if n.target.buffer in self.inputs:
            raise self.at.error(f"{where}: {n.target.buffer} is an input and cannot be written", n, n.target.buffer)
        scope = Scope(self.at, where, n)
        for e in (n.target, n.value) + ((n.init,) if n.init is not None else ()):
            scope.check(e, above, self.ranks)


def _in_order(body: tuple[Any, ...]) -> Iterable[Any]:
    """Yield every node or item of a body, in order; without recursion, since texts from outside nest as deep as they like."""
    stack = list(reversed(body))
    while stack:
        n = stack.pop()
        yield n
        if isinstance(n, (Loop, For)):
            stack += reversed(n.body)


def _func_exprs(f: Func) -> Iterable[tuple[Expr, object]]:
    for b in f.buffers:
        yield from ((e, b) for e in (*b.shape, b.depth, b.align, b.skew, b.unit, *([] if b.ahead is None else [b.ahead])))
    yield from ((c.condition, c) for c in f.constraints)
    for n in _in_order(f.body):
        if isinstance(n, Loop):
            yield n.extent, n
        else:
            yield from ((e, n) for e in (n.target, n.value, n.init) if e is not None)


# ---------------------------------------------------------------- trace

@_check.register
def _(t: Trace, at: Places) -> None:
    exprs = []
    for i, s in enumerate(t.steps):
        where = f"step {i + 1}, {s.primitive}"
        at.unique([(k, s) for k, _ in s.fields], "field", where)
        for _, v in s.fields:
            if isinstance(v, Expr):
                Scope(at, where, s).check(v)
                exprs.append((v, s))
    _choices(exprs, at, "trace")


# ---------------------------------------------------------------- program

@_check.register
def _(p: Program, at: Places) -> None:
    where = f"program {p.name}"
    buffers = at.unique([(b.name, b) for b in p.tensors + p.spaces], "buffer", where)
    for t in p.tensors:
        at.check_known(t.role, ROLES, "role", f"{where}: {t.name}", t)
        at.check_known(t.dtype, DTYPES, "dtype", f"{where}: {t.name}", t)
        _integers(Scope(at, f"{where}: {t.name}", t), t.shape)
    for s in p.spaces:
        at.check_known(s.dtype, DTYPES, "dtype", f"{where}: {s.name}", s)
        at.check_known(s.scope, SCOPES[1:], "scope", f"{where}: {s.name}", s)
        _integers(Scope(at, f"{where}: {s.name}", s), (s.address, s.size_bytes, s.depth))
    _constraints(p.constraints, at, where)
    streams = at.unique([(s.name, s) for s in p.streams], "stream", where)
    tensors = {t.name for t in p.tensors}
    for stream in p.streams:
        _StreamBody(at, f"{where}, stream {stream.name}", tensors, set(buffers), set(streams), stream).check()
    _choices(_program_exprs(p), at, where)


class _StreamBody:
    """One walk over a stream."""

    def __init__(self, at: Places, where: str, tensors: set[str], buffers: set[str], streams: set[str], stream: Stream) -> None:
        self.at, self.where, self.tensors, self.buffers, self.streams, self.stream = at, where, tensors, buffers, streams, stream
        self.counters = {c for c, _ in stream.counters}
        self.taken: set[str] = set()

    def check(self) -> None:
        s = self.stream
        self.at.check_known(s.core, CORE_KINDS, "kind of core", self.where, s)
        self.at.unique([(name, s) for name, _ in s.grid + s.counters], "name", self.where)
        _integers(Scope(self.at, self.where, s), [e for _, e in s.grid + s.counters])
        self.taken = {name for name, _ in s.grid + s.counters}
        self.items(s.body, tuple(self.taken), 0)

    def items(self, body: tuple[Item, ...], names: tuple[str, ...], depth: int) -> None:
        if depth > MAX_DEPTH:
            raise self.at.error(f"{self.where}: loops nest more than {MAX_DEPTH} deep", body[0] if body else None)
        for i in body:
            if isinstance(i, For):
                self.loop(i, names)
                self.items(i.body, (*names, i.var), depth + 1)
            else:
                _ITEM_CHECKS[type(i)](self, i, Scope(self.at, self.where, i), names)

    def loop(self, i: For, names: tuple[str, ...]) -> None:
        if i.var in self.taken:
            raise self.at.error(f"{self.where}: {i.var} is declared twice; each loop, axis and counter needs its own name", i, i.var)
        self.taken.add(i.var)
        Scope(self.at, self.where, i).check(i.trips, [n for n in names if n not in self.counters])

    def instr(self, i: Instr, scope: Scope, names: tuple[str, ...]) -> None:
        self.at.unique([(k, i) for k, _ in i.fields], "field", f"{self.where}: {i.op}")
        for _, v in i.fields:
            if not isinstance(v, Ref):
                scope.check(v, names)
                continue
            self.at.check_known(v.buffer, self.buffers, "buffer", f"{self.where}: {i.op}", i)
            if v.buffer in self.tensors and v.slot != Int(0):
                raise self.at.error(f"{self.where}: {v.buffer} is a GM tensor and has no slots", i, v.buffer)
            _integers(scope, (v.offset, v.slot), names)

    def flag(self, i: SetFlag | WaitFlag, scope: Scope, names: tuple[str, ...]) -> None:
        for pipe in (i.source, i.target):
            self.at.check_known(pipe, PIPES, "pipe", self.where, i)
        scope.check(i.id, names)

    def cross(self, i: CrossSet | CrossWait, scope: Scope, names: tuple[str, ...]) -> None:
        self.at.check_known(i.pipe, PIPES, "pipe", self.where, i)
        other = i.to if isinstance(i, CrossSet) else i.source
        self.at.check_known(other, self.streams, "stream", self.where, i)
        if other == self.stream.name:
            raise self.at.error(f"{self.where}: a cross-core flag goes to another stream, not to {other} itself", i, other)
        scope.check(i.id, names)

    def advance(self, i: Advance, scope: Scope, names: tuple[str, ...]) -> None:
        self.at.check_known(i.counter, self.counters, "counter", self.where, i)


_ITEM_CHECKS: dict[type, Callable[..., None]] = {
    Instr: _StreamBody.instr, SetFlag: _StreamBody.flag, WaitFlag: _StreamBody.flag, CrossSet: _StreamBody.cross,
    CrossWait: _StreamBody.cross, Advance: _StreamBody.advance,
}


def _program_exprs(p: Program) -> Iterable[tuple[Expr, object]]:
    for t in p.tensors:
        yield from ((e, t) for e in t.shape)
    for s in p.spaces:
        yield from ((e, s) for e in (s.address, s.size_bytes, s.depth))
    yield from ((c.condition, c) for c in p.constraints)
    for stream in p.streams:
        yield from ((e, stream) for _, e in stream.grid + stream.counters)
        for i in _in_order(stream.body):
            if isinstance(i, For):
                yield i.trips, i
            else:
                yield from ((e, i) for e in _item_exprs(i))


def _item_exprs(i: Item) -> Iterable[Expr]:
    if isinstance(i, Instr):
        for _, v in i.fields:
            yield from (v.offset, v.slot) if isinstance(v, Ref) else (v,)
    elif isinstance(i, (SetFlag, WaitFlag, CrossSet, CrossWait)):
        yield i.id

