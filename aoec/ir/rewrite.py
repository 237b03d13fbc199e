"""Funcs, traces and programs with their expressions rewritten: fill holes, bring to normal form, list holes.

Expressions are met in the order in which they are shown, so that "where it is first named" means what a reader sees.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import singledispatch, wraps
from typing import Any, ParamSpec, TypeVar

from aoec.base.errors import CheckError
from aoec.ir.func.tir import Block, Buffer, Constraint, Func, Loop, Node
from aoec.ir.index import Binary, Call, Cast, Expr, Hole, Int, Read, named_holes, substitute, variables
from aoec.ir.index import fill as fill_expr
from aoec.ir.index import normalise as normalise_expr
from aoec.ir.program import Advance, CrossSet, CrossWait, For, Instr, Item, Program, Ref, SetFlag, Space, Stream, Tensor, WaitFlag
from aoec.ir.schedule import Step, Trace

Noun = TypeVar("Noun", Func, Trace, Program)
Change = Callable[[Expr], Expr]
Params = ParamSpec("Params")
R = TypeVar("R")


def _catch_deep(f: Callable[Params, R]) -> Callable[Params, R]:
    """Return `f`, with a CheckError for a noun nested too deeply for Python's stack."""
    @wraps(f)
    def catch_deep(*args: Params.args, **kwargs: Params.kwargs) -> R:
        try:
            return f(*args, **kwargs)
        except RecursionError:
            raise CheckError(f"{f.__name__}: nested too deeply; build it flatter") from None
    return catch_deep


@_catch_deep
def map_exprs(noun: Noun, f: Change) -> Noun:
    """Return the noun with `f` applied to each whole expression (a block's target included: `f` of a Read at the left must be a Read)."""
    return _map(noun, f)  # type: ignore[return-value]


def holes(noun: Noun) -> dict[str, tuple[int, ...]]:
    """Return hole name -> choices, in the order first named; CheckError where a hole's choices are stated twice and differ."""
    found: dict[str, tuple[int, ...]] = {}

    def look(e: Expr) -> Expr:
        for n in named_holes(e):
            _state(found, n)
        return e
    map_exprs(noun, look)
    return found


def _state(found: dict[str, tuple[int, ...]], h: Hole) -> None:
    stated = found.setdefault(h.name, h.choices)
    if h.choices and stated and h.choices != stated:
        raise CheckError(f"hole ?{h.name} has choices {list(stated)} and {list(h.choices)}; state them once")
    found[h.name] = stated or h.choices


def fill(noun: Noun, values: Mapping[str, int]) -> Noun:
    """Return the noun with holes replaced by integers; holes that are not named stay, with their choices where each is now first named."""
    left = {name: choices for name, choices in holes(noun).items() if name not in values}
    bare = map_exprs(noun, bare_holes)  # so that folding sees equal holes as equal
    return _restate(map_exprs(bare, lambda e: fill_expr(e, values)), left)


def normalise(noun: Noun) -> Noun:
    """Return the canonical form: each expression in normal form, choices where a hole is first named, no constraint that always holds,
    no counter of depth 1 (its slot is always 0)."""
    normal = _drop_true(map_exprs(noun, normalise_expr))
    if isinstance(normal, Program):
        streams = tuple(drop_counters(s, [n for n, depth in s.counters if depth == Int(1)]) for s in normal.streams)
        normal = Program(normal.name, normal.target, normal.tensors, normal.spaces, streams, normal.constraints)
    return _restate(normal, holes(noun))


def drop_counters(stream: Stream, names: Collection[str]) -> Stream:
    """Return the stream without counters that always stand at 0, in normal form where they were named."""
    if not names:
        return stream
    zero: dict[str, Expr] = {n: Int(0) for n in names}

    def at_zero(e: Expr) -> Expr:
        return normalise_expr(substitute(e, zero)) if variables(e) & zero.keys() else e

    def keep_items(body: tuple[Item, ...]) -> tuple[Item, ...]:
        return tuple(For(i.var, i.trips, keep_items(i.body)) if isinstance(i, For) else i for i in body
                     if not (isinstance(i, Advance) and i.counter in zero))

    counters = tuple(c for c in stream.counters if c[0] not in zero)
    return Stream(stream.name, stream.core, stream.grid, counters, map_items(keep_items(stream.body), at_zero))


def _drop_true(noun: Noun) -> Noun:
    if isinstance(noun, Trace):
        return noun
    kept = tuple(c for c in noun.constraints if not (isinstance(c.condition, Int) and c.condition.value))
    if isinstance(noun, Func):
        return Func(noun.name, noun.inputs, noun.outputs, noun.locals, noun.body, kept)
    return Program(noun.name, noun.target, noun.tensors, noun.spaces, noun.streams, kept)


def _restate(noun: Noun, choices: Mapping[str, tuple[int, ...]]) -> Noun:
    """Return the noun with the choices of each hole where it is first named, and nowhere else."""
    if not choices:
        return noun
    left = dict(choices)
    return map_exprs(noun, lambda e: replace_holes(e, lambda h: Hole(h.name, left.pop(h.name, ()))))


@_catch_deep
def replace_holes(e: Expr, f: Callable[[Hole], Expr]) -> Expr:
    """Return `e` with `f` of each hole in its place, left to right; nothing is folded."""
    if isinstance(e, Hole): return f(e)
    if isinstance(e, Binary): return Binary(e.op, replace_holes(e.left, f), replace_holes(e.right, f))
    if isinstance(e, Call): return Call(e.fn, tuple([replace_holes(a, f) for a in e.args]))
    if isinstance(e, Read): return Read(e.buffer, tuple([replace_holes(i, f) for i in e.indices]))
    if isinstance(e, Cast): return Cast(e.dtype, replace_holes(e.value, f))
    return e


def bare_holes(e: Expr) -> Expr:
    """Return `e` with its holes by their names alone."""
    return replace_holes(e, lambda h: Hole(h.name)) if any(h.choices for h in named_holes(e)) else e


# ---------------------------------------------------------------- every expression, in the order shown

@singledispatch
def _map(x: object, f: Change) -> Any:
    raise TypeError(f"no expressions to map: {type(x).__name__}")


@_map.register
def _(x: Func, f: Change) -> Func:
    inputs, outputs, local = (tuple([_buffer(b, f) for b in bs]) for bs in (x.inputs, x.outputs, x.locals))
    constraints = _constraints(x.constraints, f)
    return Func(x.name, inputs, outputs, local, _nodes(x.body, f), constraints)


def _buffer(b: Buffer, f: Change) -> Buffer:
    return Buffer(b.name, b.dtype, tuple([f(e) for e in b.shape]), b.scope, b.layout, f(b.depth), f(b.align), f(b.skew),
                  f(b.unit), None if b.ahead is None else f(b.ahead))


def _constraints(items: tuple[Constraint, ...], f: Change) -> tuple[Constraint, ...]:
    return tuple([Constraint(f(c.condition), c.reason) for c in items])


def _nodes(body: tuple[Node, ...], f: Change) -> tuple[Node, ...]:
    return tuple([Loop(n.var, f(n.extent), _nodes(n.body, f), n.kind) if isinstance(n, Loop) else _block(n, f) for n in body])


def _block(b: Block, f: Change) -> Block:
    target = f(b.target)
    assert isinstance(target, Read)
    return Block(b.name, target, b.op, f(b.value), None if b.init is None else f(b.init), b.instr)


@_map.register
def _(x: Trace, f: Change) -> Trace:
    return Trace(tuple([Step(s.primitive, tuple([(k, f(v) if isinstance(v, Expr) else v) for k, v in s.fields])) for s in x.steps]))


@_map.register
def _(x: Program, f: Change) -> Program:
    tensors = tuple([Tensor(t.name, t.dtype, tuple([f(e) for e in t.shape]), t.role, t.uncached) for t in x.tensors])
    spaces = tuple([Space(s.name, s.dtype, s.scope, f(s.address), f(s.size_bytes), f(s.depth)) for s in x.spaces])
    constraints = _constraints(x.constraints, f)
    return Program(x.name, x.target, tensors, spaces, tuple([_stream(s, f) for s in x.streams]), constraints)


def _stream(s: Stream, f: Change) -> Stream:
    grid, counters = (tuple([(name, f(e)) for name, e in pairs]) for pairs in (s.grid, s.counters))
    return Stream(s.name, s.core, grid, counters, map_items(s.body, f))


def map_items(body: tuple[Item, ...], f: Change) -> tuple[Item, ...]:
    """Return the items with `f` of every expression in them."""
    return tuple([For(i.var, f(i.trips), map_items(i.body, f)) if isinstance(i, For) else _item(i, f) for i in body])


def _item(i: Item, f: Change) -> Item:
    if isinstance(i, Instr):
        return Instr(i.op, tuple([(k, _operand(v, f)) for k, v in i.fields]))
    if isinstance(i, (SetFlag, WaitFlag)):
        return type(i)(i.source, i.target, f(i.id))
    if isinstance(i, CrossSet):
        return CrossSet(i.pipe, i.to, f(i.id))
    return CrossWait(i.pipe, i.source, f(i.id)) if isinstance(i, CrossWait) else i


def _operand(v: Ref | Expr, f: Change) -> Ref | Expr:
    if isinstance(v, Expr):
        return f(v)
    slot = f(v.slot)
    return Ref(v.buffer, f(v.offset), slot)
