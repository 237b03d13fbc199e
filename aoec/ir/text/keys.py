"""Keys: a noun's identity is the hash of its canonical text, with the names that are its own renumbered in order of mention.

Two layers of equal shape so have equal keys. Reasons of constraints are prose and do not count; names that mean
something outside (operators, primitives, instructions, dtypes, scopes, layouts, pipes, machines, holes) do.
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import singledispatch

from aoec.base.errors import CheckError
from aoec.base.keys import digest
from aoec.ir.func.tir import Block, Constraint, Func, Loop, Node, walk
from aoec.ir.graph.graph import Body, Graph, Group, OpNode
from aoec.ir.graph.graph import Tensor as GraphTensor
from aoec.ir.index import Binary, Call, Cast, Expr, Read, Var
from aoec.ir.plan import Plan, PlanGroup
from aoec.ir.program import Advance, CrossSet, CrossWait, For, Instr, Item, Program, Ref, SetFlag, Space, Stream, WaitFlag
from aoec.ir.program import Tensor as ProgramTensor
from aoec.ir.schedule import Step, Trace, Value
from aoec.ir.text.show import show

Names = Mapping[str, str]


def key(x: object) -> str:
    """Return the sha256, in hex, of the noun's canonical text after `canonical`; equal for nouns that differ in their own names only."""
    try:
        return digest(f"{type(x).__name__} {show(canonical(x))}")
    except RecursionError:
        raise CheckError(f"a {type(x).__name__.lower()} is nested too deeply to have a key; build it flatter") from None


@singledispatch
def canonical(x: object) -> object:
    """Return the noun with the names that are its own renumbered; an expression stays as it is."""
    if isinstance(x, Expr):
        return x
    raise TypeError(f"no key: {type(x).__name__}")


def _number(names: Iterable[str], letter: str) -> dict[str, str]:
    """Return each name -> letter and number, in order of mention."""
    out: dict[str, str] = {}
    for name in names:
        out.setdefault(name, f"{letter}{len(out)}")
    return out


def rename(e: Expr, variables: Names, buffers: Names) -> Expr:
    """Return `e` with variables and buffers of reads renamed; nothing is folded."""
    if isinstance(e, Var): return Var(variables.get(e.name, e.name))
    if isinstance(e, Binary): return Binary(e.op, rename(e.left, variables, buffers), rename(e.right, variables, buffers))
    if isinstance(e, Call): return Call(e.fn, tuple([rename(a, variables, buffers) for a in e.args]))
    if isinstance(e, Read): return Read(buffers.get(e.buffer, e.buffer), tuple([rename(i, variables, buffers) for i in e.indices]))
    if isinstance(e, Cast): return Cast(e.dtype, rename(e.value, variables, buffers))
    return e


# ---------------------------------------------------------------- func

@canonical.register
def _(f: Func) -> Func:
    buffers = _number([b.name for b in f.buffers], "b")
    loops = _number([n.var for n, _ in walk(f.body) if isinstance(n, Loop)], "l")
    blocks = _number([n.name for n, _ in walk(f.body) if isinstance(n, Block)], "s")
    inputs, outputs, local = (tuple([replace(b, name=buffers[b.name]) for b in bs])
                              for bs in (f.inputs, f.outputs, f.locals))
    constraints = tuple([Constraint(c.condition, "") for c in f.constraints])
    return Func("f", inputs, outputs, local, _nodes(f.body, loops, buffers, blocks), constraints)


def _nodes(body: tuple[Node, ...], loops: Names, buffers: Names, blocks: Names) -> tuple[Node, ...]:
    out: list[Node] = []
    for n in body:
        if isinstance(n, Loop):
            out.append(Loop(loops[n.var], rename(n.extent, loops, buffers), _nodes(n.body, loops, buffers, blocks), n.kind))
            continue
        target, value, init = (e if e is None else rename(e, loops, buffers) for e in (n.target, n.value, n.init))
        assert isinstance(target, Read) and value is not None
        out.append(Block(blocks[n.name], target, n.op, value, init, n.instr))
    return tuple(out)


# ---------------------------------------------------------------- graph

@canonical.register
def _(g: Graph) -> Graph:
    tensors = _number([*g.inputs, *(t.name for t in g.tensors)], "t") | {"": ""}
    nodes = _number([n.name for n in g.nodes], "n")

    def rename_all(names: Iterable[str]) -> tuple[str, ...]:
        return tuple([tensors[name] for name in names])
    declared = tuple([GraphTensor(tensors[t.name], t.dtype, t.shape, t.layout, t.data, t.declared) for t in g.tensors])
    return Graph(
        "g", rename_all(g.inputs), rename_all(g.outputs), declared,
        tuple([OpNode(nodes[n.name], n.op, rename_all(n.inputs), rename_all(n.outputs), n.attributes) for n in g.nodes]),
        tuple([Group(f"g{i}", p.kind, tuple([nodes[name] for name in p.nodes])) for i, p in enumerate(g.groups)]),
        tuple([Body(nodes[b.node], b.kind, rename_all(b.inputs), rename_all(b.outputs), tuple([nodes[name] for name in b.nodes]))
               for b in g.bodies]))


# ---------------------------------------------------------------- plan

@canonical.register
def _(p: Plan) -> Plan:
    """Return names of nodes mean something outside. What groups take and which rewrites were made are claims. The order of what is no group
    says nothing."""
    names = _number([g.name for g in p.groups], "g")
    slices = tuple(sorted((names.get(first, first), names.get(last, last), count) for first, last, count in p.slices))
    groups = tuple([PlanGroup(names[g.name], g.kind, g.nodes) for g in p.groups])
    declined, wide, tails, apart, nz = (tuple(sorted(x)) for x in (p.declined, p.wide, p.tails, p.apart, p.nz))
    return Plan("p", p.target, (), declined, wide, tails, apart, nz, groups, slices)  # type: ignore[arg-type]


# ---------------------------------------------------------------- trace

INTRODUCE = ("outer", "inner", "fused", "name")  # fields in which a step names what it makes
WORDS = ("scope", "layout", "instr", "axis", "kind")  # fields that hold words of a dictionary


@canonical.register
def _(t: Trace) -> Trace:
    own: dict[str, str] = {}
    return Trace(tuple([_step(s, own) for s in t.steps]))


def _step(s: Step, own: dict[str, str]) -> Step:
    """Return the step with names that earlier steps made renumbered; adds those that it makes itself."""
    before = dict(own)
    for field, v in s.fields:
        if field in INTRODUCE and isinstance(v, str):
            own[v] = f".{len(own)}"  # no plain word, so none that the func itself may hold
    return Step(s.primitive, tuple([(k, _value(k, v, own if k in INTRODUCE else before)) for k, v in s.fields]))


def _value(field: str, v: Value, own: Names) -> Value:
    if isinstance(v, Expr) or field in WORDS:
        return v
    return _derived_name(v, own) if isinstance(v, str) else tuple([_derived_name(name, own) for name in v])


def _derived_name(name: str, own: Names) -> str:
    """Return a name that a step made, or one derived from it: the loops of a copy named `a` are `a_0`, `a_1`."""
    if name in own:
        return own[name]
    stem, _, digits = name.rpartition("_")
    return f"{own[stem]}_{digits}" if stem in own and digits.isdigit() else name


# ---------------------------------------------------------------- program

@canonical.register
def _(p: Program) -> Program:
    buffers = _number([b.name for b in p.tensors + p.spaces], "b")
    streams = _number([s.name for s in p.streams], "s")
    return Program(
        "p", p.target, tuple([ProgramTensor(buffers[t.name], t.dtype, t.shape, t.role, t.uncached) for t in p.tensors]),
        tuple([Space(buffers[s.name], s.dtype, s.scope, s.address, s.size_bytes, s.depth) for s in p.spaces]),
        tuple([_stream(s, buffers, streams) for s in p.streams]), tuple([Constraint(c.condition, "") for c in p.constraints]))


def _stream(s: Stream, buffers: Names, streams: Names) -> Stream:
    own = _number([name for name, _ in s.grid + s.counters] + _loops(s.body), "v")
    grid, counters = (tuple([(own[name], e) for name, e in pairs]) for pairs in (s.grid, s.counters))
    return Stream(streams[s.name], s.core, grid, counters, _items(s.body, own, buffers, streams))


def _loops(body: tuple[Item, ...]) -> list[str]:
    return [name for i in body if isinstance(i, For) for name in (i.var, *_loops(i.body))]


def _items(body: tuple[Item, ...], own: Names, buffers: Names, streams: Names) -> tuple[Item, ...]:
    out: list[Item] = []
    for i in body:
        if isinstance(i, For):
            out.append(For(own[i.var], rename(i.trips, own, {}), _items(i.body, own, buffers, streams)))
        elif isinstance(i, Instr):
            out.append(Instr(i.op, tuple([(k, _operand(v, own, buffers)) for k, v in i.fields])))
        elif isinstance(i, Advance):
            out.append(Advance(own[i.counter]))
        elif isinstance(i, CrossSet):
            out.append(CrossSet(i.pipe, streams[i.to], rename(i.id, own, {})))
        elif isinstance(i, CrossWait):
            out.append(CrossWait(i.pipe, streams[i.source], rename(i.id, own, {})))
        else:
            flag = SetFlag if isinstance(i, SetFlag) else WaitFlag
            out.append(flag(i.source, i.target, rename(i.id, own, {})))
    return tuple(out)


def _operand(v: Ref | Expr, own: Names, buffers: Names) -> Ref | Expr:
    if isinstance(v, Expr):
        return rename(v, own, {})
    return Ref(buffers[v.buffer], rename(v.offset, own, {}), rename(v.slot, own, {}))
