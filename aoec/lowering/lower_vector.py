"""Funcs of vector groups: the statements of their operators on one set of axes, one vector operation a block.

The operators' meanings are joined through the tensors between them, rewritten to what lies in GM (an NC1HWC0 channel is
two axes), neighbouring axes that every access walks together become one, windows that leave their tensor are staged through
a padded local tensor, and expressions are taken apart into single operations.
"""
from __future__ import annotations

from dataclasses import dataclass, field

from aoec.base.errors import UnsupportedError
from aoec.ir.graph import OpNode, Tensor
from aoec.ir.index import (
    Binary,
    Call,
    Cast,
    Expr,
    Float,
    Int,
    Read,
    Var,
    call,
    normalise,
    reads,
    rebuild,
    rename_reads,
    substitute,
    variables,
    walk,
)
from aoec.ir.meaning import Statement
from aoec.ir.tir import Block, Buffer, Func, Loop, Node
from aoec.lowering.physical import buffer_of, extents, guarded, interval, nest, physical_indices, split_channel
from aoec.ops.layout import stored_shape
from aoec.ops.meanings import meaning

ACCUMULATE = {"+=": "fp32"}  # sums of 16-bit values are kept in fp32


@dataclass
class Work:
    """Statements over named tensors, with the extent of each axis; tensors of the group by the name they have here."""

    statements: list[Statement] = field(default_factory=list)
    extents: dict[str, int] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    dtypes: dict[str, str] = field(default_factory=dict)


def lower_vector(name: str, nodes: list[OpNode], tensors: dict[str, Tensor], kept: tuple[str, ...]) -> Func:
    """The func of a chain of vector operators; `kept` names the tensors that leave the group."""
    if len(kept) != 1:
        raise UnsupportedError(f"group {name}: a vector group gives one tensor, not {len(kept)}")
    if nodes[0].op in ("concat", "transpose"):
        return lower_movement(name, nodes, tensors)
    made = {o for n in nodes for o in n.outputs}
    inputs = list(dict.fromkeys(i for n in nodes for i in n.inputs if i and i not in made))
    work = join(nodes, tensors)
    work = merge_axes(drop_ones(work))
    work = stage_windows(work, inputs)
    work = row_results(single_operations(work, inputs), {*inputs, kept[0]})
    gm = {t: f"X{i}" for i, t in enumerate(inputs)} | {kept[0]: "Y"}
    if len(inputs) == 1:
        gm[inputs[0]] = "X"
    return build(name, work, tensors, inputs, kept[0], gm)


# ---------------------------------------------------------------- joining

def join(nodes: list[OpNode], tensors: dict[str, Tensor]) -> Work:
    """All statements of the nodes, axes named alike through the tensors they share, accesses physical."""
    work = Work()
    axes: dict[str, tuple[Expr, ...]] = {}  # tensor -> the indices it was defined or first read with
    for at, node in enumerate(nodes):
        ins = [tensors[i] for i in node.inputs if i]
        said = meaning(node.op, [t.shape for t in ins], dict(node.attributes))
        names = dict(zip([a.name for a in said.inputs], [t.name for t in ins])) | dict(zip([a.name for a in said.outputs], node.outputs))
        ranges = extents(said)
        local = {s.target.buffer: f"{node.name}.{s.target.buffer}" for s in said.statements if s.target.buffer not in names}
        names |= local
        statements = [Statement(Read(names[s.target.buffer], s.target.indices), s.op, rename_reads(s.value, names), s.init)
                      for s in said.statements]
        renaming = unify(statements, axes, ranges, at)
        for s in statements:
            s = Statement(rename_axes(s.target, renaming), s.op, rename_axes(s.value, renaming), s.init)  # type: ignore[arg-type]
            for r in [s.target, *reads(s.value)]:
                axes.setdefault(r.buffer, r.indices)
            add(work, s, {str(renaming[v].name) if v in renaming else v: e for v, e in ranges.items()}, tensors)  # type: ignore[attr-defined]
    return work


def unify(statements: list[Statement], axes: dict[str, tuple[Expr, ...]], ranges: dict[str, int], at: int) -> dict[str, Expr]:
    """New names for a node's axes: those of tensors already known, else its own made unique."""
    out: dict[str, Expr] = {}
    for s in statements:
        for r in [s.target, *reads(s.value)]:
            for mine, theirs in zip(r.indices, axes.get(r.buffer, ())):
                if isinstance(mine, Var) and isinstance(theirs, Var):
                    out.setdefault(mine.name, theirs)
    for v in ranges:
        out.setdefault(v, Var(v if at == 0 else f"{v}_{at}"))
    return out


def rename_axes(e: Expr, names: dict[str, Expr]) -> Expr:
    return substitute(e, names)


def add(work: Work, s: Statement, ranges: dict[str, int], tensors: dict[str, Tensor]) -> None:
    """Adds a statement with its accesses physical; channel axes of NC1HWC0 tensors become two."""
    channel = {v: c for r in [s.target, *reads(s.value)] if r.buffer in tensors and tensors[r.buffer].layout == "NC1HWC0"
               for c, v in [(stored_shape(tensors[r.buffer])[-1], _channel_axis(r))] if v}
    split: dict[str, Expr] = {v: Var(f"{v}1") * c + Var(f"{v}0") for v, c in channel.items()}

    lanes = {f"{v}0": c for v, c in channel.items()}

    def physical(e: Expr) -> Expr:
        if not isinstance(e, Read):
            return rebuild(e, physical)
        if e.buffer in tensors:
            t = tensors[e.buffer]
            indices = e.indices
            if t.layout == "NC1HWC0":
                v = _channel_axis(e)
                if v in channel:
                    n, _, h, w = indices
                    return Read(e.buffer, tuple(substitute(i, split) for i in (n,)) + (Var(f"{v}1"), h, w, Var(f"{v}0")))
                moved = tuple(normalise(substitute(i, split)) for i in indices)
                return Read(e.buffer, tuple(in_range(i, lanes) for i in physical_indices(t, moved)))
            return Read(e.buffer, tuple(normalise(substitute(i, split)) for i in indices))
        named = [i.name for i in e.indices if isinstance(i, Var) and i.name in channel]  # a local lies like the tensors: lanes last
        outer = [Var(f"{i.name}1") if isinstance(i, Var) and i.name in channel else i for i in e.indices]
        return Read(e.buffer, (*outer, *[Var(f"{v}0") for v in named]))

    done = Statement(physical(s.target), s.op, physical(s.value), s.init)  # type: ignore[arg-type]
    work.statements.append(done)
    for v, extent in ranges.items():
        if v in channel:
            work.extents[f"{v}1"], work.extents[f"{v}0"] = -(-extent // channel[v]), channel[v]
        else:
            work.extents[v] = extent
    for r in [done.target, *reads(done.value)]:
        if r.buffer in tensors:
            work.shapes[r.buffer], work.dtypes[r.buffer] = stored_shape(tensors[r.buffer]), tensors[r.buffer].dtype
        else:
            work.shapes[r.buffer] = tuple(work.extents[i.name] for i in r.indices if isinstance(i, Var))


def in_range(e: Expr, extents: dict[str, int]) -> Expr:
    """`v % c` of an axis that never reaches c is the axis."""
    whole = isinstance(e, Binary) and e.op == "%" and isinstance(e.left, Var) and isinstance(e.right, Int)
    return e.left if whole and extents.get(e.left.name, e.right.value + 1) <= e.right.value else e  # type: ignore[union-attr, attr-defined]


def _channel_axis(r: Read) -> str | None:
    return r.indices[1].name if len(r.indices) == 4 and isinstance(r.indices[1], Var) else None


# ---------------------------------------------------------------- axes

def accesses(work: Work) -> list[Read]:
    return [r for s in work.statements for r in [s.target, *reads(s.value)]]


def drop_ones(work: Work) -> Work:
    """The work without axes and dimensions of extent 1, but for one axis where all are, and one that a sum over all others keeps."""
    ones = [v for v, n in work.extents.items() if n == 1]
    rows = [s.target.indices[0] for s in work.statements if s.op != "=" and s.target.indices and variables_of(s.target) <= set(ones)]
    saved = {e.name for e in rows if isinstance(e, Var)} or ({ones[-1]} if len(ones) == len(work.extents) else set())
    zero: dict[str, Expr] = {v: Int(0) for v in ones if v not in saved}

    def kept(name: str) -> list[int]:
        held = {d for r in accesses(work) if r.buffer == name for d, e in enumerate(r.indices) if variables(e) & saved}
        return [d for d, n in enumerate(work.shapes[name]) if n > 1 or d in held] or [len(work.shapes[name]) - 1]

    def drop(e: Expr) -> Expr:
        if isinstance(e, Read):
            return Read(e.buffer, tuple(substitute(e.indices[d], zero) for d in kept(e.buffer)) if e.indices else ())
        return rebuild(e, drop)

    statements = [Statement(drop(s.target), s.op, drop(s.value), s.init) for s in work.statements]  # type: ignore[arg-type]
    shapes = {n: tuple(d[i] for i in kept(n)) if d else d for n, d in work.shapes.items()}
    return Work(statements, {v: n for v, n in work.extents.items() if v not in zero}, shapes, work.dtypes)


def merge_axes(work: Work) -> Work:
    """Neighbouring axes that every access walks together, made one, until none are left."""
    while True:
        pair = next((p for p in neighbours(work) if mergeable(work, *p)), None)
        if pair is None:
            return work
        work = merged(work, *pair)


def neighbours(work: Work) -> list[tuple[str, str]]:
    out = []
    for r in accesses(work):
        for a, b in zip(r.indices, r.indices[1:]):
            if isinstance(a, Var) and isinstance(b, Var):
                out.append((a.name, b.name))
    return list(dict.fromkeys(out))


def mergeable(work: Work, a: str, b: str) -> bool:
    """True where a and b always stand side by side, or are both read at 0 or left out, and nowhere else."""
    for r in accesses(work):
        used = [i for i, e in enumerate(r.indices) if variables(e) & {a, b}]
        if used and not (len(used) == 2 and r.indices[used[0]] == Var(a) and r.indices[used[1]] == Var(b) and used[1] == used[0] + 1
                         and work.shapes[r.buffer][used[1]] == work.extents[b] and work.shapes[r.buffer][used[0]] == work.extents[a]):
            return False
    return True


def merged(work: Work, a: str, b: str) -> Work:
    shapes = dict(work.shapes)

    def join_axes(e: Expr) -> Expr:
        if not isinstance(e, Read):
            return rebuild(e, join_axes)
        if Var(a) not in e.indices:
            return e
        at = e.indices.index(Var(a))
        old = work.shapes[e.buffer]
        shapes[e.buffer] = (*old[:at], old[at] * old[at + 1], *old[at + 2:])
        return Read(e.buffer, (*e.indices[:at], Var(a), *e.indices[at + 2:]))

    statements = [Statement(join_axes(s.target), s.op, join_axes(s.value), s.init) for s in work.statements]  # type: ignore[arg-type]
    extents = {v: e for v, e in work.extents.items() if v != b} | {a: work.extents[a] * work.extents[b]}
    return Work(statements, extents, shapes, work.dtypes)


# ---------------------------------------------------------------- windows and single operations

def stage_windows(work: Work, inputs: list[str]) -> Work:
    """Guarded window reads go through a local tensor that holds the padding too."""
    out = Work([], dict(work.extents), dict(work.shapes), dict(work.dtypes))
    for s in work.statements:
        guards = [e for e in walk(s.value) if isinstance(e, Call) and e.fn == "guard"]
        value = s.value
        for g in guards:
            read, otherwise = g.args
            assert isinstance(read, Read)
            value = _replace(value, g, _stage(out, read, otherwise))
        out.statements.append(Statement(s.target, s.op, value, s.init))
    return out


def _replace(e: Expr, old: Expr, new: Expr) -> Expr:
    return new if e == old else rebuild(e, lambda c: _replace(c, old, new))


def _stage(work: Work, read: Read, otherwise: Expr) -> Read:
    """The read from a padded copy of its tensor, whose axes start where the window does."""
    name = f"{read.buffer}.window"
    lows = [interval(i, work.extents) if not isinstance(i, Var) else (0, work.extents[i.name] - 1) for i in read.indices]
    shape = tuple(hi - lo + 1 for lo, hi in lows)
    axes = [f"pad{d}" for d in range(len(shape))]
    work.extents.update(zip(axes, shape))
    work.shapes[name], work.dtypes[name] = shape, work.dtypes[read.buffer]
    source = Read(read.buffer, tuple(normalise(Var(a) + lo) for a, (lo, _) in zip(axes, lows)))
    value = guarded(source, work.shapes[read.buffer], work.extents, otherwise)
    work.statements.append(Statement(Read(name, tuple(Var(a) for a in axes)), "=", value, None))
    return Read(name, tuple(normalise(i - lo) for i, (lo, _) in zip(read.indices, lows)))


def single_operations(work: Work, inputs: list[str]) -> Work:
    """Every statement one vector operation, with local tensors between."""
    out = Work([], work.extents, work.shapes, work.dtypes)
    for s in work.statements:
        if isinstance(s.value, Call) and s.value.fn == "select" and isinstance(s.value.args[1], Read):
            out.statements.append(s)  # a padded copy
            continue
        take_apart(out, s)
    return out


def take_apart(work: Work, s: Statement) -> None:
    """Adds a statement as single operations; sums of 16-bit values are cast first and kept in fp32."""
    source = next((work.dtypes[r.buffer] for r in reads(s.value) if r.buffer in work.dtypes), "fp16")
    wide = s.op in ACCUMULATE and source in ("fp16", "bf16")
    dtype = work.dtypes.setdefault(s.target.buffer, "fp32" if wide else source)
    if s.op == "=":
        value, mixed = rewrite(s.value), {work.dtypes[r.buffer] for r in reads(s.value) if r.buffer in work.dtypes} - {dtype}
        parts = narrowed(work, value, s.target, dtype) if "fp32" in mixed else operation(work, value, s.target, dtype)
        work.statements.append(Statement(s.target, "=", parts, None))
        return
    axes = axes_of(s)
    value = atom(work, rewrite(s.value), axes, source)
    if wide:
        value = cast_window(work, value) if isinstance(value, Read) else store(work, Cast("fp32", value), axes, "fp32")
    target = s.target
    if wide and dtype != "fp32":
        target = Read(f"{s.target.buffer}.sum", s.target.indices)
        work.shapes[target.buffer], work.dtypes[target.buffer] = work.shapes[s.target.buffer], "fp32"
    work.statements.append(Statement(target, s.op, value, s.init))
    if target is not s.target:
        work.statements.append(Statement(s.target, "=", Cast(dtype, target), None))


def cast_window(work: Work, read: Read) -> Read:
    """The read from an fp32 copy of its tensor: windows overlap, so the tensor is cast once, not every window."""
    axes = [f"cast{d}" for d in range(len(read.indices))]
    work.extents.update(zip(axes, work.shapes[read.buffer]))
    point: tuple[Expr, ...] = tuple(Var(a) for a in axes)
    copy = store(work, Cast("fp32", Read(read.buffer, point)), axes, "fp32")
    return Read(copy.buffer, read.indices)


def narrowed(work: Work, e: Expr, target: Read, dtype: str) -> Expr:
    """`e` computed in fp32, as a sum is kept, and cast once: a vector instruction takes operands of one type."""
    axes = [v for i in target.indices for v in sorted(variables(i))]
    value = e.value if isinstance(e, Cast) and e.dtype == dtype else e
    return Cast(dtype, atom(work, widened(work, value), axes, "fp32"))


def widened(work: Work, e: Expr) -> Expr:
    """`e` with what it reads of narrower types cast to fp32 first."""
    if not isinstance(e, Read):
        return rebuild(e, lambda c: widened(work, c))
    if work.dtypes.get(e.buffer) in (None, "fp32"):
        return e
    return store(work, Cast("fp32", e), [v for i in e.indices for v in sorted(variables(i))], "fp32")


def axes_of(s: Statement) -> list[str]:
    """Axes of a statement, in the order of its largest read (lanes innermost), then of its target."""
    found: list[str] = []
    for r in sorted([*reads(s.value), s.target], key=lambda r: -len(variables_of(r))):
        found += [v for i in r.indices for v in sorted(variables(i)) if v not in found]
    return found


def variables_of(r: Read) -> frozenset[str]:
    return frozenset().union(*[variables(i) for i in r.indices])


def rewrite(e: Expr) -> Expr:
    """The expression in operations that the vector unit has."""
    e = rebuild(e, rewrite) if not isinstance(e, Read) else e
    if isinstance(e, Call) and e.fn == "sigmoid":
        return call("reciprocal", call("exp", e.args[0] * Float(-1.0)) + Float(1.0))
    if isinstance(e, Call) and e.fn == "tanh":
        return call("reciprocal", call("exp", e.args[0] * Float(-2.0)) + Float(1.0)) * Float(2.0) + Float(-1.0)
    if isinstance(e, Binary) and e.op == "-" and isinstance(e.right, (Float, Int)):
        return e.left + Float(-float(e.right.value))
    if isinstance(e, Binary) and e.op == "-" and isinstance(e.left, (Float, Int)):
        return e.right * Float(-1.0) + e.left
    if isinstance(e, Binary) and e.op == "/" and isinstance(e.right, (Float, Int)):
        return e.left * Float(1.0 / float(e.right.value))
    if isinstance(e, Binary) and e.op == "/" and e.left in (Float(1.0), Int(1)):
        return call("reciprocal", e.right)
    return e


def operation(work: Work, e: Expr, target: Read, dtype: str) -> Expr:
    """`e` with every operand a read or number, after statements for what is nested."""
    if isinstance(e, (Read, Float, Int)):
        return e
    axes = [v for i in target.indices for v in sorted(variables(i))]
    supported = isinstance(e, Cast) or isinstance(e, Binary) and e.op in "+-*/" or isinstance(e, Call) and e.fn in (
        "max", "min", "exp", "log", "sqrt", "rsqrt", "reciprocal", "abs")
    if not supported:
        raise UnsupportedError(f"the vector unit has no operation for {type(e).__name__.lower()} {getattr(e, 'fn', getattr(e, 'op', ''))}")
    return rebuild(e, lambda c: atom(work, c, axes, dtype))


def atom(work: Work, e: Expr, axes: list[str], dtype: str) -> Expr:
    """A read or number equal to `e`."""
    if isinstance(e, (Read, Float, Int)):
        return e
    own = [v for v in axes if v in frozenset().union(*[variables_of(r) for r in reads(e)])]
    return store(work, e, own, dtype)


def store(work: Work, e: Expr, axes: list[str], dtype: str) -> Read:
    """A new local tensor that holds `e`."""
    target = Read(f"t{sum(1 for n in work.shapes if n.startswith('t.'))}", tuple(Var(v) for v in axes))
    target = Read("t." + target.buffer[1:], target.indices)
    work.shapes[target.buffer], work.dtypes[target.buffer] = tuple(work.extents[v] for v in axes), dtype
    work.statements.append(Statement(target, "=", operation(work, e, target, dtype), None))
    return target


def row_results(work: Work, gm: set[str]) -> Work:
    """Local tensors with one element a row get a last dimension of 1: each then lies in a block of its own in UB."""
    single: set[str] = set()
    for s in work.statements:
        axes = axes_of(s)
        across = s.op != "=" and bool(axes) and axes[-1] not in variables_of(s.target)
        derived = s.op == "=" and reads(s.value) and all(r.buffer in single for r in reads(s.value)) and \
            all(variables_of(r) == variables_of(s.target) for r in reads(s.value))
        if s.target.buffer not in gm and (across or derived):
            single.add(s.target.buffer)

    def widen(e: Expr) -> Expr:
        if isinstance(e, Read):
            return Read(e.buffer, (*e.indices, Int(0))) if e.buffer in single else e
        return rebuild(e, widen)

    statements = [Statement(widen(s.target), s.op, widen(s.value), s.init) for s in work.statements]  # type: ignore[arg-type]
    return Work(statements, work.extents, {n: (*d, 1) if n in single else d for n, d in work.shapes.items()}, work.dtypes)


# ---------------------------------------------------------------- the func

def build(name: str, work: Work, tensors: dict[str, Tensor], inputs: list[str], kept: str, gm: dict[str, str]) -> Func:
    """Blocks with loops of their own over the statements; the block that writes the output is called `out`."""
    names = dict(gm)
    for i, b in enumerate(n for n in work.shapes if n not in gm):
        names[b] = f"t{i}"
    body = []
    for s in work.statements:
        block = "out" if s.target.buffer == kept else names[s.target.buffer] + "_"
        axes = loop_order(s)
        own: dict[str, Expr] = {v: Var(f"{block.rstrip('_')}_{v}") for v in axes}
        target = Read(names[s.target.buffer], tuple(substitute(i, own) for i in s.target.indices))
        value = rename_reads(substitute(s.value, own), names)
        body.append(nest([(own[v].name, work.extents[v]) for v in axes],  # type: ignore[attr-defined]
                         Block(block, target, s.op, value)))
    ins = tuple(buffer_of(tensors[t], names[t], work.shapes[t]) for t in inputs)
    out = buffer_of(tensors[kept], "Y", work.shapes[kept])
    local = tuple(Buffer(names[b], work.dtypes[b], tuple(Int(d) for d in work.shapes[b])) for b in work.shapes if b not in gm)
    return Func(name, ins, (out,), local, tuple(body))


def loop_order(s: Statement) -> list[str]:
    """Axes of a statement, outermost first: reduced axes outside the kept ones unless the lanes themselves are reduced."""
    axes = axes_of(s)
    kept = [v for v in axes if v in variables_of(s.target)]
    reduced = [v for v in axes if v not in kept]
    if reduced and axes[-1] in reduced:
        return kept + reduced
    return reduced + kept


# ---------------------------------------------------------------- movement

def lower_movement(name: str, nodes: list[OpNode], tensors: dict[str, Tensor]) -> Func:
    """Concat and transpose: a copy an input, in loops over the axes that all of them walk alike (so that cores share each input)."""
    (node,) = nodes
    ins = [tensors[i] for i in node.inputs]
    out = tensors[node.outputs[0]]
    said = meaning(node.op, [t.shape for t in ins], dict(node.attributes))
    ranges = extents(said)
    moves = []
    for s in said.statements:
        (read,) = reads(s.value)
        at = [a.name for a in said.inputs].index(read.buffer)
        moves.append((at, _moved(read, ins[at], ranges), _moved(s.target, out, ranges)))
    shared = _shared_axes(moves)
    body = []
    for i, (at, (source, sizes), (target, _)) in enumerate(moves):
        own: dict[str, Expr] = {v: Var(v if v in shared else f"c{i}_{v}") for v in sizes}
        to, get = (tuple(substitute(x, own) for x in side) for side in (target, source))
        block = Block(f"c{i}", Read("Y", to), "=", Read(f"X{at}", get))
        body.append(nest([(own[v].name, e) for v, e in sizes.items() if v not in shared], block))  # type: ignore[attr-defined]
    whole: tuple[Node, ...] = tuple(body)
    for v in reversed(shared):
        whole = (Loop(v, Int(shared[v]), whole),)
    return Func(name, tuple(buffer_of(t, f"X{i}") for i, t in enumerate(ins)), (buffer_of(out, "Y"),), (), whole)


Access = tuple[tuple[Expr, ...], dict[str, int]]


def _shared_axes(moves: list[tuple[int, Access, Access]]) -> dict[str, int]:
    """Axes that every move walks over the same extent at the same place, but the last two (they make the bursts)."""
    if len(moves) < 2:
        return {}
    first = moves[0][1][1]
    alike = [v for v in first if all(m[1][1].get(v) == first[v] and Var(v) in m[2][0] for m in moves)]
    inner = list(first)[-2:]
    return {v: first[v] for v in alike if v not in inner}


def _moved(r: Read, t: Tensor, ranges: dict[str, int]) -> Access:
    """(physical indices, extents of the axes): a channel axis of NC1HWC0 becomes two, offsets in whole C1 planes."""
    sizes = {v: ranges[v] for i in r.indices for v in sorted(variables(i))}
    if t.layout != "NC1HWC0":
        return r.indices, sizes
    c0 = stored_shape(t)[-1]
    axis = sorted(variables(r.indices[1]))[0]
    split = substitute(r.indices[1], {axis: Var(f"{axis}1") * c0 + Var(f"{axis}0") % c0})
    c1, _ = split_channel(split, c0)
    indices = (r.indices[0], c1, *r.indices[2:], Var(f"{axis}0"))
    outer = {v: sizes[v] for v in sorted(variables(r.indices[0]))} | {f"{axis}1": -(-sizes[axis] // c0)}
    return indices, outer | {v: sizes[v] for i in r.indices[2:] for v in sorted(variables(i))} | {f"{axis}0": c0}
