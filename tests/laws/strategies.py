"""Hypothesis strategies that build nodes: well-formed nouns of every language, and expressions that can be evaluated."""
from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from hypothesis import strategies as st

from aoec.ir.func.meaning import Argument, Dim, Meaning, Statement, guard_read
from aoec.ir.func.tir import ASSIGN, LAYOUTS, LOOP_KINDS, SCOPES, Block, Buffer, Constraint, Func, Loop
from aoec.ir.graph.check_graph import GRAPH_LAYOUTS
from aoec.ir.graph.graph import OPAQUE, Body, Graph, Group, OpNode
from aoec.ir.graph.graph import Tensor as GraphTensor
from aoec.ir.index import DTYPES, Binary, Call, Cast, Expr, Float, Hole, Int, Read, Var
from aoec.ir.plan import Plan, PlanGroup
from aoec.ir.program import CORE_KINDS, PIPES, Advance, CrossSet, CrossWait, For, Instr, Program, Ref, SetFlag, Space, Stream, WaitFlag
from aoec.ir.program import Tensor as ProgramTensor
from aoec.ir.schedule import Step, Trace

# names that a grammar could trip over: keywords, functions, dtypes, layouts, and names that only quotes can hold
ODD = ("for", "in", "init", "inf", "input", "output", "set", "wait", "depth", "NZ", "ND", "min", "max", "fp16", "and", "or", "not", "else",
       "as", "local", "takes", "us", "off", "nz", "require", "func", "group", "body", "const", "advance", "size", "at", "space",
       "stream", "input.1", "a b", 'q"\\', "é", "1x", "tensor", "#", "/l/Conv_0", "\n")
HOLES = {"tm": (16, 32, 64), "tn": (1, 2, 3), "d": (2, 4)}
REAL_FUNCTIONS = ("exp", "log", "sqrt", "rsqrt", "tanh", "erf", "sigmoid", "reciprocal", "floor", "ceil", "round")
dtypes = st.sampled_from(sorted(DTYPES))
plain = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,5}", fullmatch=True)
names = st.one_of(st.sampled_from(["a", "b", "c", "k1", "mt", "x_0", "Y"]), plain, st.sampled_from(ODD))


def distinct(least: int, most: int, taken: frozenset[str] = frozenset()) -> st.SearchStrategy[list[str]]:
    """Lists of different names, none of them in `taken`."""
    return st.lists(names.filter(lambda n: n not in taken), min_size=least, max_size=most, unique=True)


# ---------------------------------------------------------------- expressions

def ints() -> st.SearchStrategy[Expr]:
    return st.one_of(st.integers(-4, 70), st.sampled_from([0, 1, 16, 512, -2**63, 2**63 - 1])).map(Int)


def small_ints() -> st.SearchStrategy[Expr]:
    return st.integers(-4, 70).map(Int)


@lru_cache(maxsize=256)
def integer_exprs(variables: tuple[str, ...] = (), depth: int = 3, stated: bool = True) -> st.SearchStrategy[Expr]:
    """Integer expressions over the variables and holes, raw (unfolded), whose divisors are never zero for positive holes.

    `stated`: holes may state their choices (always the same ones).
    """
    leaves = [small_ints(), st.sampled_from(sorted(HOLES)).map(Hole)]
    if stated:
        leaves.append(st.sampled_from(sorted(HOLES)).map(lambda n: Hole(n, HOLES[n])))
    if variables:
        leaves += [st.sampled_from(variables).map(Var)] * 2
    if depth == 0:
        return st.one_of(leaves)
    e = integer_exprs(variables, depth - 1, stated)
    divisor = st.one_of(st.integers(1, 20).map(Int), st.sampled_from(sorted(HOLES)).map(Hole), e.map(lambda x: Call("max", (x, Int(1)))))
    return st.one_of(
        *leaves,
        st.builds(Binary, st.sampled_from(["+", "-", "*"]), e, e),
        st.builds(Binary, st.sampled_from(["//", "%"]), e, divisor),
        st.builds(Binary, st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "and", "or"]), e, e),
        st.builds(lambda a, b: Call("ceildiv", (a, b)), e, divisor),
        st.builds(lambda f, a: Call(f, tuple(a)), st.sampled_from(["min", "max"]), st.lists(e, min_size=2, max_size=3)),
        st.builds(lambda c, a, b: Call("select", (c, a, b)), e, e, e),
        st.builds(lambda f, a: Call(f, (a,)), st.sampled_from(["abs", "not"]), e))


def reads(buffers: dict[str, int], variables: tuple[str, ...]) -> st.SearchStrategy[Read]:
    """Reads of the buffers (name -> rank) at integer expressions."""
    index = integer_exprs(variables, 1)
    return st.sampled_from(sorted(buffers)).flatmap(
        lambda b: st.lists(index, min_size=buffers[b], max_size=buffers[b]).map(lambda i: Read(b, tuple(i))))


def floats() -> st.SearchStrategy[Float]:
    return st.floats(allow_nan=False).map(Float)


def element_exprs(buffers: dict[str, int], variables: tuple[str, ...], depth: int = 2, guards: bool = False) -> st.SearchStrategy[Expr]:
    """Element expressions over reads of the buffers."""
    leaves: list[st.SearchStrategy[Expr]] = [floats(), integer_exprs(variables, 1)]
    if buffers:
        leaves += [reads(buffers, variables)] * 2
        if guards:
            leaves.append(st.builds(guard_read, reads(buffers, variables), st.one_of(floats(), ints())))  # type: ignore[arg-type]
    if depth == 0:
        return st.one_of(leaves)
    e = element_exprs(buffers, variables, depth - 1, guards)
    return st.one_of(
        *leaves,
        st.builds(Binary, st.sampled_from(["+", "-", "*", "/", "<"]), e, e),
        st.builds(lambda f, a: Call(f, (a,)), st.sampled_from(REAL_FUNCTIONS), e),
        st.builds(lambda f, a, b: Call(f, (a, b)), st.sampled_from(["min", "max", "pow"]), e, e),
        st.builds(Cast, dtypes, e))


def whole(variables: tuple[str, ...] = (), depth: int = 2) -> st.SearchStrategy[Expr]:
    return integer_exprs(variables, depth)


@st.composite
def constraints(draw: st.DrawFn) -> Constraint:
    return Constraint(draw(whole()), draw(st.text(max_size=8)))


# ---------------------------------------------------------------- meaning

@st.composite
def meanings(draw: st.DrawFn) -> Meaning:
    used = draw(distinct(6, 9))
    params, loops, dims = tuple(used[:1]), tuple(used[1:2]), used[2:]
    arguments = draw(distinct(2, 4))
    shapes = [draw(st.lists(st.sampled_from(dims), max_size=3, unique=True)) for _ in arguments]
    inputs = tuple(Argument(a, tuple(Dim(d) for d in s)) for a, s in zip(arguments[1:], shapes[1:]))
    bound = {d for s in shapes[1:] for d in s}
    extents = {d: None if d in bound and draw(st.booleans()) else draw(whole(params, 1)) for d in shapes[0]}
    outputs = (Argument(arguments[0], tuple(Dim(d, extents[d]) for d in shapes[0])),)
    scope = tuple(sorted(bound | set(shapes[0]) | set(params) | set(loops)))
    ranks = {a.name: len(a.dims) for a in inputs}
    local = draw(names.filter(lambda n: n not in arguments))
    statements = []
    for target in ([local, arguments[0]] if draw(st.booleans()) else [arguments[0]]):
        rank = len(shapes[0]) if target == arguments[0] else 1
        value = draw(element_exprs(ranks, scope, 1, guards=True))
        init = draw(st.none() | element_exprs(ranks, scope, 0))
        indices = tuple(draw(whole(scope, 1)) for _ in range(rank))
        statements.append(Statement(Read(target, indices), draw(st.sampled_from(ASSIGN)), value, init))
        ranks[target] = rank
    declared = tuple(Dim(v, draw(whole(params, 1))) for v in loops)
    return Meaning(draw(names), inputs, params, outputs, tuple(statements), declared)


# ---------------------------------------------------------------- func

@st.composite
def buffers(draw: st.DrawFn, name: str, gm: bool) -> Buffer:
    scope = "GM" if gm else draw(st.sampled_from(SCOPES))
    shape = tuple(draw(st.lists(whole((), 1), max_size=3)))
    return Buffer(name, draw(dtypes), shape, scope, draw(st.sampled_from(LAYOUTS)), draw(st.one_of(st.just(Int(1)), whole((), 1))),
                  draw(st.one_of(st.just(Int(1)), whole((), 1))), draw(st.one_of(st.just(Int(0)), whole((), 1))))


@st.composite
def funcs(draw: st.DrawFn) -> Func:
    used = draw(distinct(3, 5))
    declared = [draw(buffers(n, i < 2)) for i, n in enumerate(used)]
    loops = draw(distinct(0, 4, frozenset(used)))
    blocks = draw(distinct(1, 4, frozenset(loops)))
    ranks = {b.name: len(b.shape) for b in declared}
    body = draw(_bodies(loops, blocks, (), ranks, tuple(used[1:])))
    return Func(draw(names), (declared[0],), (declared[1],), tuple(declared[2:]), body, tuple(draw(st.lists(constraints(), max_size=2))))


@st.composite
def _bodies(draw: st.DrawFn, loops: list[str], blocks: list[str], above: tuple[str, ...], ranks: dict[str, int], written: tuple[str, ...]
            ) -> tuple[Loop | Block, ...]:
    """A body that uses up the loop and block names, in any nesting."""
    out: list[Loop | Block] = []
    while loops or blocks:
        if loops and (not blocks or draw(st.booleans())):
            var, cut, mark = loops[0], draw(st.integers(1, len(loops))), draw(st.integers(0, len(blocks)))
            inner = draw(_bodies(loops[1:cut], blocks[:mark], (*above, var), ranks, written))
            out.append(Loop(var, draw(whole(above, 1)), inner, draw(st.sampled_from(LOOP_KINDS))))
            loops, blocks = loops[cut:], blocks[mark:]
        else:
            out.append(draw(_blocks(blocks[0], above, ranks, written)))
            blocks = blocks[1:]
    return tuple(out)


@st.composite
def _blocks(draw: st.DrawFn, name: str, above: tuple[str, ...], ranks: dict[str, int], written: tuple[str, ...]) -> Block:
    target = draw(reads({n: ranks[n] for n in written}, above))
    init = draw(st.none() | element_exprs(ranks, above, 0))
    return Block(name, target, draw(st.sampled_from(ASSIGN)), draw(element_exprs(ranks, above, 1)), init, draw(st.none() | names))


# ---------------------------------------------------------------- trace

@st.composite
def traces(draw: st.DrawFn) -> Trace:
    value = st.one_of(whole(), names, st.lists(names, max_size=3).map(tuple), floats())
    steps = []
    for _ in range(draw(st.integers(0, 4))):
        fields = draw(distinct(0, 4))
        steps.append(Step(draw(names), tuple((f, draw(value)) for f in fields)))
    return Trace(tuple(steps))


# ---------------------------------------------------------------- graph

@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    used = draw(distinct(3, 8))
    count = draw(st.integers(1, 2))
    made = used[count + 1:]
    declared = [draw(_graph_tensors(n, i == count)) for i, n in enumerate(used)]
    nodes, ready = [], used[:count + 1]
    for name, output in zip(draw(distinct(len(made), len(made))), made):
        inputs = draw(st.lists(st.sampled_from([*ready, ""]), max_size=3))
        nodes.append(OpNode(name, draw(st.sampled_from(["relu", "conv2d", "host.NonZero"])), tuple(inputs), (output,), draw(_attributes())))
        ready = [*ready, output]
    outputs = tuple(draw(st.lists(st.sampled_from(ready), max_size=2)))
    graph = Graph(draw(names), tuple(used[:count]), outputs, tuple(declared), tuple(nodes), draw(_groups([n.name for n in nodes])))
    return draw(_with_body(graph, used[count])) if nodes and not graph.groups and draw(st.booleans()) else graph


@st.composite
def _with_body(draw: st.DrawFn, graph: Graph, constant: str) -> Graph:
    """The graph with a body of its first node, of a node that reads an input of the body and a constant of the graph."""
    tensors = [GraphTensor(f"{graph.nodes[0].name} body {at}", "fp16", (2,)) for at in range(2)]
    taken, made = (t.name for t in tensors)
    inside = OpNode(f"{graph.nodes[0].name} in it", "relu", (taken, constant), (made,))
    kind = draw(st.sampled_from(["body", "then_branch", "else_branch"]))
    body = Body(graph.nodes[0].name, kind, (taken,), (made, constant), (inside.name,))
    return replace(graph, tensors=(*graph.tensors, *tensors), nodes=(*graph.nodes, inside), bodies=(body,))


@st.composite
def _graph_tensors(draw: st.DrawFn, name: str, const: bool) -> GraphTensor:
    data = draw(st.text("0123456789abcdef", min_size=1, max_size=6)) if const else ""
    shape = tuple(draw(st.lists(st.integers(0, 300), max_size=4)))
    declared = draw(st.sampled_from(["", "", "tensor(float16)", "seq(tensor(string))"]))
    if not const and draw(st.integers(0, 4)) == 0:
        return GraphTensor(name, OPAQUE, (), declared=declared)
    return GraphTensor(name, draw(dtypes), shape, draw(st.sampled_from(GRAPH_LAYOUTS)), data, declared)


@st.composite
def _attributes(draw: st.DrawFn) -> tuple[tuple[str, object], ...]:
    real, integer = st.floats(allow_nan=False), st.integers(-2**63, 2**63 - 1)
    value = st.one_of(integer, real, st.text(max_size=5), st.lists(integer, max_size=3).map(tuple), st.lists(real, max_size=3).map(tuple))
    return tuple((k, draw(value)) for k in draw(distinct(0, 3)))


@st.composite
def _groups(draw: st.DrawFn, nodes: list[str]) -> tuple[Group, ...]:
    """No groups, or ones that share out all nodes."""
    if draw(st.booleans()):
        return ()
    parts = []
    while nodes:
        cut = draw(st.integers(1, len(nodes)))
        parts.append(tuple(nodes[:cut]))
        nodes = nodes[cut:]
    kinds = st.sampled_from(["cube", "vector", "host", "view"])
    return tuple(Group(n, draw(kinds), p) for n, p in zip(draw(distinct(len(parts), len(parts))), parts))


# ---------------------------------------------------------------- plan

@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Plans with or without groups, whose slices do not meet."""
    sites = st.lists(st.one_of(names, st.builds("{}.{}".format, plain, plain)), max_size=3, unique=True).map(tuple)
    groups = draw(_groups(draw(distinct(0, 6))))
    times = st.one_of(st.none(), st.integers(0, 10**15 - 1))
    planned = tuple(PlanGroup(f"g{i}", g.kind, g.nodes, draw(times)) for i, g in enumerate(groups))
    ends = draw(st.lists(st.integers(0, max(0, len(groups) - 1)), max_size=4, unique=True).map(sorted)) if groups else []
    slices = tuple((f"g{a}", f"g{b}", draw(st.integers(2, 9999))) for a, b in zip(ends[::2], ends[1::2]))
    rewrites = draw(st.lists(st.tuples(names, names), max_size=4, unique=True).map(tuple))
    made, declined = rewrites[:2], rewrites[2:]
    return Plan(draw(names), draw(names), made, declined, draw(sites), draw(sites), draw(sites), draw(sites), planned, slices)


# ---------------------------------------------------------------- program

@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Well-formed, but arbitrary: flags need not match and instructions need not exist."""
    used = draw(distinct(3, 4))
    size, count, role = whole((), 1), st.one_of(st.just(Int(1)), whole((), 1)), st.sampled_from(["input", "output", "temp"])
    tensors = tuple(ProgramTensor(n, draw(dtypes), tuple(draw(st.lists(size, max_size=2))), draw(role), draw(st.booleans()))
                    for n in used[:2])
    spaces = tuple(Space(n, draw(dtypes), draw(st.sampled_from(SCOPES[1:])), draw(size), draw(size), draw(count)) for n in used[2:])
    streams = draw(distinct(1, 2))
    bodies = tuple(draw(_streams(s, streams, used[:2], used[2:])) for s in streams)
    return Program(draw(names), draw(names), tensors, spaces, bodies, tuple(draw(st.lists(constraints(), max_size=2))))


@st.composite
def _streams(draw: st.DrawFn, name: str, streams: list[str], tensors: list[str], spaces: list[str]) -> Stream:
    own = draw(distinct(4, 6))
    grid, counters = ((own[0], draw(whole((), 1))),), ((own[1], draw(whole((), 1))),)
    others = [s for s in streams if s != name]
    body = draw(_items(own[2:], (own[0], own[1]), own[1], others, tensors, spaces))
    return Stream(name, draw(st.sampled_from(CORE_KINDS)), grid, counters, body)


@st.composite
def _items(draw: st.DrawFn, loops: list[str], above: tuple[str, ...], counter: str, others: list[str], tensors: list[str],
           spaces: list[str]) -> tuple[object, ...]:
    pipe, id_ = st.sampled_from(PIPES), whole(above, 1)
    offset = whole(above, 2)
    ref = st.one_of(st.builds(Ref, st.sampled_from(tensors), offset), st.builds(Ref, st.sampled_from(spaces), offset, whole(above, 1)))
    values = st.tuples(ref, st.one_of(offset, floats()), ref)
    kinds = [st.builds(SetFlag, pipe, pipe, id_), st.builds(WaitFlag, pipe, pipe, id_), st.just(Advance(counter)),
             st.builds(lambda op, ks, vs: Instr(op, tuple(zip(ks, vs))), names, distinct(0, 3), values)]
    if others:
        kinds += [st.builds(k, pipe, st.sampled_from(others), id_) for k in (CrossSet, CrossWait)]
    out = draw(st.lists(st.one_of(kinds), max_size=3))
    if loops:
        inner = draw(_items(loops[1:], (*above, loops[0]), counter, others, tensors, spaces))
        known = tuple(n for n in above if n != counter)
        out.insert(draw(st.integers(0, len(out))), For(loops[0], draw(whole(known, 1)), inner))
    return tuple(out)


NOUNS = {"meaning": meanings(), "graph": graphs(), "plan": plans(), "func": funcs(), "trace": traces(), "program": programs()}
