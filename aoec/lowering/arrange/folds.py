"""Folds: moves beside other work that this does itself, by the places where it reads its operands and writes its result.

Exporters write the heads of attention as slices, reshapes and transposes. Each transpose is a launch, and writes what the next launch
reads. A product that reads and writes where the elements lie needs none of them. Such moves are nodes of the product's group.
Vector work reads slices where they lie, as long as what MTE2 brings is whole blocks.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode, Tensor
from aoec.ir.index import DTYPES, Expr, Int, Var, affine, normalise, variables
from aoec.lowering.arrange.layout import family
from aoec.lowering.arrange.views import is_aligned
from aoec.lowering.lower.access import Access, is_walkable, last_dimension, read_before, written_behind
from aoec.ops.slices import taken_box
from aoec.ops.words.layout import BLOCK_BYTES
from aoec.ops.words.movement import MOVES

# operator -> names of the operands that it can read through moves, as exceptions name them
OPERANDS = {"matmul": ("a", "b"), "attention": ("q", "k", "v")}
RESULT = "result"
VECTOR = ("elementwise", "softmax", "row_norm", "reduce")  # families that read slices where they lie
LEAST_RUN = 64  # bytes of an operand that follow each other: shorter runs take as long as bursts of them
MOST_MOVES = 8  # beside one operand


@dataclass(frozen=True)
class Fold:
    """Nodes that are one group: moves in front of a product or of vector work, itself, and moves behind it."""

    before: tuple[str, ...]
    main: str
    after: tuple[str, ...]

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return all of them."""
        return (*self.before, self.main, *self.after)


def exception(node: OpNode, operand: str) -> str:
    """Return the name under which the moves of an operand, or of the result, stay nodes of their own."""
    return f"{node.name}.{operand}"


def operand_name(node: OpNode, at: int) -> str:
    """Return the name of the operand that a node reads at a place among its inputs, as exceptions have it; "" where it reads none moved."""
    if node.op in OPERANDS:
        return OPERANDS[node.op][at] if at < len(OPERANDS[node.op]) else ""
    return f"x{at}" if family(node) in VECTOR and not node.definition else ""


def fold_moves(draft: Draft, kept: Collection[str] = ()) -> dict[str, Fold]:
    """Return node -> its fold. Moves that others read too are repeated for it. `kept`: exceptions."""
    users, makers = draft.users(), draft.producers()
    out: dict[str, Fold] = {}
    nodes, draft.nodes = draft.nodes, []
    for node in nodes:
        before: list[OpNode] = []
        for at in range(len(node.inputs)):
            if moves := _moves_of_operand(draft, node, at, makers, kept):
                own = _repeat(draft, moves, node, users)
                draft.nodes += [n for n in own if n not in moves]
                node = replace(node, inputs=(*node.inputs[:at], own[-1].outputs[0], *node.inputs[at + 1:]))
                before += own
        after = _moves_after(draft, node, users) if node.op in OPERANDS and exception(node, RESULT) not in kept else []
        draft.nodes.append(node)
        if before or after:
            out[node.name] = Fold(tuple(n.name for n in before), node.name, tuple(n.name for n in after))
    _drop_unread(draft)
    return out


def _moves_of_operand(draft: Draft, node: OpNode, at: int, makers: Mapping[str, OpNode], kept: Collection[str]) -> list[OpNode]:
    """Return the moves, in order, through which a node reads an operand: none where it has to stay as it is."""
    name = operand_name(node, at)
    if not name or exception(node, name) in kept:
        return []
    return _moves_before(draft, node, at, makers) if node.op in OPERANDS else _moves_before_vector(draft, node, at, makers)


def _moves_before(draft: Draft, node: OpNode, at: int, makers: Mapping[str, OpNode]) -> list[OpNode]:
    """Return the moves, in order, through which a product can read an operand: as many as are walkable, and none without a launch.

    A matrix may lie in columns where MTE1 turns it: an operand of a matmul, in elements of 16 bits."""
    operand = draft.tensors[node.inputs[at]]
    lead = [f"b{d}" for d in range(len(operand.shape) - 2)]
    if len(operand.shape) < 2 or 0 in operand.shape:
        return []
    axes = [*lead, "r", "c"]
    turns = node.op == "matmul" and DTYPES[operand.dtype] == 2
    moves = _longest_chain(draft, operand, axes, makers,
                           lambda _, found: is_walkable(found, "r", "c") if turns else _is_in_rows(found))
    return moves if any(n.op != "reshape" for n in moves) else []


def _moves_before_vector(draft: Draft, node: OpNode, at: int, makers: Mapping[str, OpNode]) -> list[OpNode]:
    """Return the moves, in order, through which vector work can read an operand: as many as leave rows of whole blocks."""
    operand = draft.tensors[node.inputs[at]]
    if not _is_plain(draft, node) or not operand.shape:
        return []
    axes = [f"a{d}" for d in range(len(operand.shape))]
    extents = dict(zip(axes, operand.shape))
    return _longest_chain(draft, operand, axes, makers,
                          lambda move, found: _moves_elements(draft, move) and reads_whole_blocks(found, extents))


def _longest_chain(draft: Draft, operand: Tensor, axes: Sequence[str], makers: Mapping[str, OpNode],
                   can_begin: Callable[[OpNode, Access], bool]) -> list[OpNode]:
    """Return the most moves in front of an operand, in order, of which the first can begin the chain: it reads no constant, and
    `can_begin` holds for it and for the access before it. `axes`: names of the operand's."""
    extents, chain = dict(zip(axes, operand.shape)), list[OpNode]()
    best, name = 0, operand.name
    while (maker := makers.get(name)) is not None and maker.op in MOVES and len(chain) < MOST_MOVES and _is_plain(draft, maker):
        chain.insert(0, maker)
        name = maker.inputs[0]
        found = read_before(Access(operand, tuple(map(Var, axes))), {n.outputs[0]: n for n in chain}, draft.tensors, extents)
        if not draft.is_constant(name) and can_begin(maker, found):
            best = len(chain)
    return chain[len(chain) - best:]


def reads_whole_blocks(access: Access, extents: Mapping[str, int]) -> bool:
    """Return whether vector work that walks axes of these extents, the last the fastest, reads runs of whole blocks, each from a block."""
    flat: Expr = Int(0)
    for i, n in zip(access.indices, access.tensor.shape):
        flat = flat * n + i
    found = affine(normalise(flat), variables(flat))
    if found is None or not all(isinstance(f, Int) for f in (*found[0].values(), found[1])):
        return False
    start, *steps = (f.value for f in (found[1], *found[0].values()) if isinstance(f, Int))
    left, run, size = {v: n for v, n in zip(found[0], steps) if extents[v] > 1}, 1, DTYPES[access.tensor.dtype]
    for v in reversed([v for v in extents if extents[v] > 1]):  # what follows in memory as it follows in the loops
        if left.get(v) != run:
            break
        run *= extents[v]
        del left[v]
    return run * size >= LEAST_RUN and not any(n * size % BLOCK_BYTES for n in (run, start, *left.values()))


def _moves_elements(draft: Draft, node: OpNode) -> bool:
    """Return whether a node is a launch of its own: a view of a tensor is none."""
    if node.op == "slice":
        return not is_aligned(draft.tensors[node.inputs[0]], taken_box(node))
    return node.op == "transpose"


def _is_plain(draft: Draft, node: OpNode) -> bool:
    tensors = [draft.tensors[name] for name in (*node.inputs, *node.outputs)]
    return all(t.layout == "ND" and len(t.shape) > 0 and 0 not in t.shape for t in tensors)


def _repeat(draft: Draft, moves: list[OpNode], reader: OpNode, users: Mapping[str, list[OpNode]]) -> list[OpNode]:
    """Return moves whose results nobody else reads: the same where that is so, else copies of all of them."""
    alone = all(n.outputs[0] not in draft.outputs and all(u.name == own.name for u in users.get(n.outputs[0], []))
                for n, own in zip(moves, [*moves[1:], reader]))
    if alone and reader.inputs.count(moves[-1].outputs[0]) == 1:
        return moves
    out: list[OpNode] = []
    read = moves[0].inputs[0]
    for n in moves:
        t = draft.tensors[n.outputs[0]]
        made = draft.tensor(f"{t.name}_read", t.dtype, t.shape)
        out.append(replace(n, name=draft.fresh(f"{n.name}_read", "node"), inputs=(read,), outputs=(made,)))
        read = made
    return out


def _moves_after(draft: Draft, node: OpNode, users: Mapping[str, list[OpNode]]) -> list[OpNode]:
    """Return the moves behind a product, in order, with which it can write its result where they leave it."""
    result = draft.tensors[node.outputs[0]]
    axes = [*[f"b{d}" for d in range(len(result.shape) - 2)], "r", "c"]
    if len(result.shape) < 2 or 0 in result.shape or result.layout != "ND":
        return []
    extents, start = dict(zip(axes, result.shape)), Access(result, tuple(map(Var, axes)))
    chain: list[OpNode] = []
    best, name = 0, result.name
    while (user := draft.only_user(name, users)) is not None and user.op in ("transpose", "reshape") and _is_plain(draft, user) \
            and len(chain) < MOST_MOVES:
        chain.append(user)
        name = user.outputs[0]
        if user.op == "transpose" or best:
            found = written_behind(start, chain, draft.tensors, extents)
            best = len(chain) if _is_in_rows(found) else best
    return chain[:best]


def _is_in_rows(access: Access) -> bool:
    """Return whether a result is written in rows: its columns are the last axis."""
    return is_walkable(access, "r", "c") and "c" in variables(access.indices[last_dimension(access)])


def _drop_unread(draft: Draft) -> None:
    """Drop moves that nobody reads any more."""
    count = len(draft.nodes) + 1
    while len(draft.nodes) < count:
        count = len(draft.nodes)
        read = {i for n in draft.nodes for i in n.inputs}.union(draft.outputs)
        draft.nodes = [n for n in draft.nodes if n.op not in MOVES or not read.isdisjoint(n.outputs)]
