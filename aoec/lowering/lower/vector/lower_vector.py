"""Funcs of vector groups: the statements of their operators on one set of axes, one vector operation a block.

The meanings of the operators are joined through the tensors between them. They are rewritten to the layout in GM, where an NC1HWC0
channel is two axes. Neighbouring axes that every access walks together are merged. Windows that leave their tensor are staged through a
padded local tensor. Expressions are split into single operations.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from aoec.base.errors import UnsupportedError
from aoec.ir.func.meaning import Statement
from aoec.ir.func.tir import Block, Buffer, Func
from aoec.ir.graph.graph import OpNode, Tensor
from aoec.ir.index import Binary, Expr, Int, Read, Var, call, normalise, reads, rebuild, rename_reads, substitute
from aoec.ir.text.parse import parse_meaning
from aoec.ir.text.show import show
from aoec.lowering.lower.access import Access, Indices, main_node, read_before
from aoec.lowering.lower.lower_axes import drop_ones, merge_axes, with_rows
from aoec.lowering.lower.movement.lower_convert import pixels_to_rows, rows_to_pixels
from aoec.lowering.lower.movement.lower_gather import lower_gather
from aoec.lowering.lower.movement.lower_movement import lower_movement
from aoec.lowering.lower.movement.lower_pieces import lower_pieces, lower_turned_pieces
from aoec.lowering.lower.physical import buffer_of, extents, nest, physical_indices
from aoec.lowering.lower.vector.lower_operations import recompute_feeders, row_results, single_operations, spread_rows, stage_windows
from aoec.lowering.lower.vector.lower_shared import share_operations
from aoec.lowering.lower.vector.lower_windows import windows_apart
from aoec.lowering.lower.work import SINGLE, Work, axes_of, variables_of
from aoec.ops.meanings import meaning
from aoec.ops.own import word
from aoec.ops.words.layout import stored_shape
from aoec.ops.words.movement import MOVES

NO_GATHER = "reads where data say, and no gather makes that; the index is one whole number at loops of its own, as in X[I[s], d], or at " \
            "the same loops, as in X[s, I[s, d]], the others are whole dimensions, and it has no `else`"
ALIKE = ("elementwise", "ranged", "softmax", "row_norm")  # families whose result has the shape and axes of what they work on


def lower_vector(name: str, nodes: list[OpNode], tensors: dict[str, Tensor], kept: tuple[str, ...]) -> Func:
    """Return the func of vector operators; `kept` names the tensors that leave the group, the largest last."""
    if not kept or not all(is_of_rows(tensors[t].shape, tensors[kept[-1]].shape) for t in kept):
        raise UnsupportedError(f"group {name}: the results of a vector group have one shape, or one element for each row of it")
    main = main_node(nodes)
    if main.op == "transpose" and tensors[nodes[0].inputs[0]].layout == "NC1HWC0":
        return pixels_to_rows(name, tensors[nodes[0].inputs[0]], tensors[nodes[0].outputs[0]])
    if main.op == "transpose" and tensors[nodes[0].outputs[0]].layout == "NC1HWC0":
        return rows_to_pixels(name, tensors[nodes[0].inputs[0]], tensors[nodes[0].outputs[0]])
    if len(nodes) > 1 and nodes[-1].op == "concat":
        return lower_pieces(name, nodes, tensors)
    if len(nodes) > 1 and main.op == "concat" and nodes[-1].op == "transpose":
        return lower_turned_pieces(name, nodes, tensors)
    if main.op in ("concat", "transpose", "slice", "expand", "pad", "upsample", "depth_to_space"):
        return lower_movement(name, nodes, tensors)
    if main.op in ("gather", "gather_elements"):
        return lower_gather(name, nodes[0], tensors)
    made = {o for n in nodes for o in n.outputs}
    inputs = list(dict.fromkeys(i for n in nodes for i in n.inputs if i and i not in made))
    try:
        return lower_statements(name, nodes, tensors, inputs, kept)
    except UnsupportedError as e:
        raise UnsupportedError(f"{written_as(nodes, e.at)}{e}") from e


def lower_statements(name: str, nodes: list[OpNode], tensors: dict[str, Tensor], inputs: list[str], kept: tuple[str, ...]) -> Func:
    """Return the func of operators that are statements on one set of axes."""
    made = {o for n in nodes for o in n.outputs}
    work = join(nodes, tensors)
    named = {t: stored_name(t) if is_read(work, t) else t for t in kept}  # what a result is called where it leaves
    *beside, last = named.values()
    work = store_beside(work, [t for t in kept if named[t] != t])
    short = [o for o in made if o != last and work.dtypes.get(o) == "bf16"]
    work.dtypes.update(dict.fromkeys(short, "fp32"))  # calculated in fp32, rounded on the way out
    work = merge_axes(drop_ones(with_rows(work)))
    work = stage_windows(work, inputs)
    single = single_operations(work, inputs, [*beside, last])
    if beside:
        single = share_operations(single, [*beside, last])
    spread = spread_rows(windows_apart(single, last), inputs)
    work = row_results(recompute_feeders(spread, beside), {*inputs, *beside, last})
    gm = {t: f"X{i}" for i, t in enumerate(inputs)} | {t: f"Y{i}" for i, t in enumerate(beside)} | {last: "Y"}
    if len(inputs) == 1:
        gm[inputs[0]] = "X"
    return build(name, work, tensors | {n: tensors[t] for t, n in named.items()}, inputs, [*beside, last], gm)


def is_of_rows(shape: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    """Return whether a result has a shape, or one element for each of its rows, whatever dimensions of one element end it."""
    def bare(shape: tuple[int, ...]) -> tuple[int, ...]:
        return bare(shape[:-1]) if shape[-1:] == (1,) else shape
    return bare(shape) in (bare(whole), bare(whole[:-1]))


def stored_name(tensor: str) -> str:
    """Return what a tensor is called where it leaves a group that works on with it."""
    return f"{tensor}.stored"


def store_beside(work: Work, names: Sequence[str]) -> Work:
    """Return the work where these tensors, which it makes and reads, are also stored: each as soon as it is made."""
    out: list[Statement] = []
    for s in work.statements:
        out.append(s)
        if s.target.buffer in names:
            made = Read(stored_name(s.target.buffer), s.target.indices)
            work.shapes[made.buffer], work.dtypes[made.buffer] = work.shapes[s.target.buffer], work.dtypes[s.target.buffer]
            out.append(Statement(made, "=", s.target, None))
    return Work(out, work.extents, work.shapes, work.dtypes, work.truths)


def is_read(work: Work, tensor: str) -> bool:
    """Return whether a statement of a work reads a tensor."""
    return any(r.buffer == tensor for s in work.statements for r in reads(s.value))


def written_as(nodes: list[OpNode], target: str) -> str:
    """Return how a sentence calls the statement of an operator of the user's own that makes a tensor: by operator and tensor as its
    definition does; "" of others."""
    for node in nodes:
        for made, name in ((f"{node.name}.", ""), (f"{node.outputs[0]}.", result_of(node))):
            if node.definition and f"{target}.".startswith(made):
                return f"{node.op.partition('.')[0]}: {name or target.removeprefix(made).partition('.')[0]}: "
    return ""


def result_of(node: OpNode) -> str:
    """Return what the definition of an operator of the user's own calls its result."""
    return parse_meaning(node.definition).outputs[0].name if node.definition else ""


# ---------------------------------------------------------------- joining

def join(nodes: list[OpNode], tensors: dict[str, Tensor]) -> Work:
    """Return all statements of the nodes, axes named alike through the tensors they share, accesses physical."""
    work = Work()
    axes: dict[str, tuple[Expr, ...]] = {}  # tensor -> the indices it was defined or first read with
    moves, brought = apart_moves(nodes, tensors)
    for s in brought:
        add(work, s, dict(zip((i.name for i in s.target.indices), tensors[s.target.buffer].shape)), tensors)  # type: ignore[attr-defined]
        axes[s.target.buffer] = s.target.indices
    whole: dict[tuple[int, ...], tuple[Expr, ...]] = {}  # shape -> the indices of results: what meets later is walked alike
    for at, node in enumerate(n for n in nodes if n.op not in MOVES):
        ins = [tensors[i] for i in node.inputs if i]
        said = meaning(word(node), [t.shape for t in ins], dict(node.attributes))
        names = dict(zip([a.name for a in said.inputs], [t.name for t in ins])) | dict(zip([a.name for a in said.outputs], node.outputs))
        ranges = extents(said)
        local = {s.target.buffer: f"{node.name}.{s.target.buffer}" for s in said.statements if s.target.buffer not in names}
        names |= local
        statements = [Statement(Read(names[s.target.buffer], s.target.indices), s.op, rename_reads(s.value, names), s.init and
                                rename_reads(s.init, names)) for s in said.statements]
        statements = [part for s in (versions(statements) if node.definition else statements) for part in started_after(s)]
        made = tensors[node.outputs[0]]
        alike = word(node).family in ALIKE
        if alike:
            axes = {made.name: whole[made.shape], **axes} if made.shape in whole else axes
        renaming = unify(statements, axes, ranges, at, {SINGLE, *work.extents})
        for s in statements:
            if where := next((r for r in reads(s.value) if any(reads(i) for i in r.indices)), None):
                raise UnsupportedError(f"{show(where)} {NO_GATHER}", at=s.target.buffer)
        for s in statements:
            s = Statement(rename_axes(s.target, renaming), s.op, rename_axes(s.value, renaming), s.init)  # type: ignore[arg-type]
            for r in [s.target, *reads(s.value)]:
                axes.setdefault(r.buffer, r.indices)
            if alike and s.target.buffer == made.name:
                whole.setdefault(made.shape, s.target.indices)
            own = {str(renaming[v].name) if v in renaming else v: e for v, e in ranges.items()}  # type: ignore[attr-defined]
            s = Statement(s.target, s.op, read_moved(s.value, moves, tensors, work.extents | own), s.init)
            add(work, s, own, tensors)
    return work


def apart_moves(nodes: Sequence[OpNode], tensors: Mapping[str, Tensor]) -> tuple[dict[str, OpNode], list[Statement]]:
    """Return two things: result -> node, of the moves that are only places where others read; and the statements that bring transposed
    tensors to UB. In UB a transposed tensor lies in the order in which its readers walk it. Equal ones are brought once: others are
    views of the first."""
    moves = {o: n for n in nodes if n.op in MOVES for o in n.outputs}
    known: dict[tuple[str, Indices, tuple[int, ...]], str] = {}
    out: list[Statement] = []
    for name, node in [(o, n) for o, n in moves.items() if n.op == "transpose"]:
        t = tensors[name]
        axes = {f"m{len(out)}_{d}": n for d, n in enumerate(t.shape)}
        found = read_before(Access(t, tuple(map(Var, axes))), moves, tensors, axes)
        plain: dict[str, Expr] = {v: Var(f"m{d}") for d, v in enumerate(axes)}
        key = found.tensor.name, tuple(substitute(i, plain) for i in found.indices), t.shape
        if key in known:
            moves[name] = OpNode(node.name, "reshape", (known[key],), node.outputs)
            continue
        known[key] = name
        out.append(Statement(Read(name, tuple(map(Var, axes))), "=", Read(found.tensor.name, found.indices)))
    for s in out:
        del moves[s.target.buffer]
    return moves, out


def read_moved(e: Expr, moves: Mapping[str, OpNode], tensors: Mapping[str, Tensor], extents: Mapping[str, int]) -> Expr:
    """Return an expression that reads tensors where they lie before moves. `moves`: result -> node. `extents`: of loops."""
    if not isinstance(e, Read):
        return rebuild(e, lambda c: read_moved(c, moves, tensors, extents))
    if e.buffer not in moves:
        return e
    found = read_before(Access(tensors[e.buffer], e.indices), moves, tensors, extents)
    return Read(found.tensor.name, found.indices)


def started_after(s: Statement) -> list[Statement]:
    """Return the statement; where it starts from a value of its own, the reduction alone and then what it starts from."""
    if s.init is None:
        return [s]
    alone = Read(f"{s.target.buffer}.reduced", s.target.indices)
    whole = alone + s.init if s.op == "+=" else call(s.op.removesuffix("="), alone, s.init)
    return [Statement(alone, s.op, s.value), Statement(s.target, "=", whole)]


def versions(statements: list[Statement]) -> list[Statement]:
    """Return the statements with each writing a tensor of its own: of one that is written again the earlier ones are numbered."""
    left = Counter(s.target.buffer for s in statements)
    now: dict[str, str] = {}
    out = []
    for s in statements:
        value, init = rename_reads(s.value, now), s.init and rename_reads(s.init, now)
        buffer = s.target.buffer
        left[buffer] -= 1
        now[buffer] = f"{buffer}.{left[buffer]}" if left[buffer] else buffer
        out.append(Statement(Read(now[buffer], s.target.indices), s.op, value, init))
    return out


def unify(statements: list[Statement], axes: dict[str, tuple[Expr, ...]], ranges: dict[str, int], at: int,
          taken: set[str]) -> dict[str, Expr]:
    """Return new names for a node's axes: those of tensors already known, else the node's own. None is `taken`, and none is a name that
    the two parts of another axis will have (`add`)."""
    out: dict[str, Expr] = {}
    for s in statements:
        for r in [s.target, *reads(s.value)]:
            for mine, theirs in zip(r.indices, axes.get(r.buffer, ())):
                if isinstance(mine, Var) and isinstance(theirs, Var):
                    out.setdefault(mine.name, theirs)
    for v in ranges:
        name = v if at == 0 else f"{v}_{at}"
        while name in taken or name[-1] in "01" and name[:-1] in ranges:
            name += "_"
        if v not in out:
            out[v] = Var(name)
            taken.add(name)
    return out


def rename_axes(e: Expr, names: dict[str, Expr]) -> Expr:
    return substitute(e, names)


def add(work: Work, s: Statement, ranges: dict[str, int], tensors: dict[str, Tensor]) -> None:
    """Add a statement with its accesses physical. Channel axes of NC1HWC0 tensors become two axes."""
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
    """Return `v` for `v % c` where the axis v never reaches c, and any other expression as it is."""
    whole = isinstance(e, Binary) and e.op == "%" and isinstance(e.left, Var) and isinstance(e.right, Int)
    return e.left if whole and extents.get(e.left.name, e.right.value + 1) <= e.right.value else e  # type: ignore[union-attr, attr-defined]


def _channel_axis(r: Read) -> str | None:
    return r.indices[1].name if len(r.indices) == 4 and isinstance(r.indices[1], Var) else None


# ---------------------------------------------------------------- the func

def build(name: str, work: Work, tensors: dict[str, Tensor], inputs: list[str], kept: list[str], gm: dict[str, str]) -> Func:
    """Return blocks for the statements, each in loops of its own. The block that writes the last output is called `out`."""
    names = dict(gm)
    for i, b in enumerate(n for n in work.shapes if n not in gm):
        names[b] = f"t{i}"
    body = []
    for s in work.statements:
        block = "out" if s.target.buffer == kept[-1] else names[s.target.buffer] + "_"
        axes = loop_order(s)
        own: dict[str, Expr] = {v: Var(f"{block.rstrip('_')}_{v}") for v in axes}
        target = Read(names[s.target.buffer], tuple(substitute(i, own) for i in s.target.indices))
        value = rename_reads(substitute(s.value, own), names)
        body.append(nest([(own[v].name, work.extents[v]) for v in axes],  # type: ignore[attr-defined]
                         Block(block, target, s.op, value)))
    ins = tuple(buffer_of(tensors[t], names[t], work.shapes.get(t)) for t in inputs)
    outs = tuple(buffer_of(tensors[t], names[t], work.shapes[t]) for t in kept)
    local = tuple(Buffer(names[b], work.dtypes[b], tuple(Int(d) for d in work.shapes[b])) for b in work.shapes if b not in gm)
    return Func(name, ins, outs, local, tuple(body))


def loop_order(s: Statement) -> list[str]:
    """Return the axes of a statement, outermost first. Kept axes are in the order of the target. Reduced axes are outside of these,
    unless the lanes themselves are reduced."""
    axes = axes_of(s)
    kept = [v for v in axes if v in variables_of(s.target)]
    named = [i.name for i in s.target.indices if isinstance(i, Var)]
    if sorted(named) == sorted(kept):
        kept, axes = named, [v if v not in kept else named[kept.index(v)] for v in axes]
    reduced = [v for v in axes if v not in kept]
    if reduced and axes[-1] in reduced:
        return kept + reduced
    return reduced + kept
