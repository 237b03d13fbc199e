"""Fusion: layouts, packed weights and groups, by stated rules.

One table says which operators may follow in a group. The 910B has no path from L0C to UB. There, a group of a cube operator can only add
the bias and apply relu, which FIXPIPE does on the way out. Residual additions, clip and sigmoid are vector groups of their own. Their
operands have gone through GM (or stayed in L2), and the machine model charges for that. Where a core holds cube and vector units both,
results can go through UB. The activation after a convolution or a product, and the addition of a residual, are then done there.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType

import numpy as np

from aoec.base.errors import UnsupportedError
from aoec.ir.graph import bodies
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Body, Graph, Group, OpNode
from aoec.ir.text.parse import parse_meaning
from aoec.lowering.arrange.folds import Fold, fold_moves
from aoec.lowering.arrange.images.pixels import multiply_pixels
from aoec.lowering.arrange.images.planes import multiply_planes
from aoec.lowering.arrange.images.siblings import join_convolutions
from aoec.lowering.arrange.joined.results import join_results
from aoec.lowering.arrange.layout import assign, family, scaled_sums
from aoec.lowering.arrange.pack import pack, round_on_the_way
from aoec.lowering.arrange.parts import FLAG_IDS, flags_of, join_in_parts
from aoec.lowering.arrange.pieces import find_pieces
from aoec.lowering.arrange.take_apart import take_apart
from aoec.lowering.arrange.views import find_views
from aoec.lowering.arrange.whole_bias import add_whole_biases
from aoec.lowering.arrange.whole_rows import pad_rows
from aoec.lowering.lower.access import main_node
from aoec.lowering.lower.movement.turn_moves import turn_moves
from aoec.lowering.lower.movement.turn_reads import turn_reads
from aoec.ops.words.layout import FEW, FRACTAL_ROWS, PIXEL, c0_of
from aoec.ops.words.movement import MOVES
from aoec.target.machine import Machine

# family of a group's first node -> the operators or families that may join its end
FOLLOWERS: dict[str, tuple[str, ...]] = {
    "cube": ("relu",),                  # FIXPIPE casts and applies relu
    "interpolate": ("relu",),           # of which no column is a channel
    # chains, residual add + relu; what feeds one operator of rows, such as scores scaled and masked before their softmax
    "elementwise": ("elementwise", "softmax", "row_norm", "reduce"),
    "ranged": ("elementwise", "softmax", "row_norm", "reduce"),  # what a quantised product's sums stand for, and what is done to that
    "softmax": ("elementwise",),        # a reduction and what scales its result
    "row_norm": ("elementwise",),
}
ROWS = ("softmax", "row_norm", "reduce")  # families of which a group holds one: UB has room for the rows of one
BESIDE_OTHERS = ("row_norm",)  # families that join elementwise work whose result others read too: the group has two results
# where the cube's results go through UB: there they may meet others of the same shape
IN_UB = {**FOLLOWERS, "conv2d": ("elementwise", "requantise"), "matmul": ("elementwise",)}
MOST_NODES = 64  # of a group: what a program takes to make grows with their square (1,000 additions: 90 s), and of so many none gains
SCALED = ("relu", "requantise")  # what may follow a cube operator where FIXPIPE scales sums to int8
MOST_BESIDE = 16  # nodes beside a chain, in one group with it
KINDS = {"cube": "cube", "attention": "cube", "host": "host"}  # family -> kind of group; all others are vector groups, or views


def fuse(graph: Graph, weights: Mapping[str, np.ndarray], machine: Machine | None = None,
         apart: Collection[str] = ()) -> tuple[Graph, dict[str, np.ndarray]]:
    """Return the graph with layouts, conversions, packed weights and groups, and its constants as stored; a body is fused as a graph is.
    Groups are those of `machine`: without one, of a machine whose FIXPIPE stores results. `apart`: attention nodes that are done in single
    operators."""
    if machine is not None:
        check_dtypes(graph, machine)
    return fuse_bodies(graph, weights, lambda draft: _fuse_flat(draft, machine, apart))


def fuse_bodies(graph: Graph, weights: Mapping[str, np.ndarray],
                fuse_flat: Callable[[Draft], tuple[Graph, dict[str, np.ndarray]]]) -> tuple[Graph, dict[str, np.ndarray]]:
    """Return the graph whose parts, which have no bodies, `fuse_flat` fuses, and its constants as stored."""
    names, nodes = {t.name for t in graph.tensors}, {n.name for n in graph.nodes}
    parts: list[tuple[Body | None, Graph]] = []
    stored: dict[str, np.ndarray] = {}
    for body, part in bodies.split_bodies(graph):
        draft = Draft.of(part, {t.name: weights[t.name] for t in part.tensors if t.data and t.name in weights})
        draft.reserve(names)
        draft.reserve(nodes, "node")
        fused, own = fuse_flat(draft)
        names.update(t.name for t in fused.tensors)
        nodes.update(n.name for n in fused.nodes)
        parts.append((body, fused))
        stored |= own
    return bodies.together(parts), stored


def _fuse_flat(draft: Draft, machine: Machine | None, apart: Collection[str]) -> tuple[Graph, dict[str, np.ndarray]]:
    """Fuse a graph without bodies."""
    take_apart(draft, machine, apart)
    pad_rows(draft, apart)
    join_convolutions(draft, apart)
    scales = machine is None or machine.has("fixpipe_nz_scale") or machine.has("copy_l0c_ub")
    if machine is not None and not machine.has("mmad_bias"):
        add_whole_biases(draft, scaled_sums(draft).values())
    assign(draft, scales, machine is None or machine.has("load3d", channels=PIXEL[FEW]))
    multiply_planes(draft, apart)
    multiply_pixels(draft)
    turn_reads(draft, machine)
    pack(draft)
    if machine is not None and machine.has("fixpipe_nz_scale"):
        round_on_the_way(draft)
    return _group_flat(draft, machine, apart)


def regroup(graph: Graph, machine: Machine | None, kept: Collection[str] = ()) -> Graph:
    """Return a graph, whose layouts are as they should be and which has no bodies, in groups. `kept`: moves that stay nodes (folds.py)."""
    return _group_flat(Draft.of(graph, {}), machine, kept)[0]


def _group_flat(draft: Draft, machine: Machine | None, kept: Collection[str]) -> tuple[Graph, dict[str, np.ndarray]]:
    """Group a draft without bodies, in layouts and with packed weights."""
    folds = fold_moves(draft, kept)
    inside = {name for fold in folds.values() for name in fold.nodes}
    turn_moves(draft, machine, inside)
    most = machine.flag_ids if machine is not None else FLAG_IDS
    together = {**find_pieces(draft, most, inside), **pairs_of_extremes(draft)}
    views = find_views(draft, {*inside, *(name for names in together.values() for name in names)})
    join_in_parts(draft, views, most)
    fused, stored = draft.finish()
    found = groups(draft, followers_of(machine), views, most, together, folds)
    return replace(fused, groups=join_results(draft, found, most, kept)), stored


def followers_of(machine: Machine | None) -> Mapping[str, tuple[str, ...]]:
    """Return what may follow in a group on a machine, by the family or operator that it begins with."""
    followers = IN_UB if machine is not None and machine.has("copy_l0c_ub") else FOLLOWERS
    scales = machine is None or machine.has("fixpipe_nz_scale")
    return {**followers, "cube": SCALED} if scales else followers


def pairs_of_extremes(draft: Draft) -> dict[str, tuple[str, ...]]:
    """Return nodes that find the greatest and the least elements of one tensor's rows, which read it once: the last of them -> both."""
    found: dict[str, list[str]] = {}
    for n in draft.nodes:
        if family(n) == "extreme":
            found.setdefault(n.inputs[0], []).append(n.name)
    return {names[-1]: tuple(names) for names in found.values() if len(names) > 1}


def check_dtypes(graph: Graph, machine: Machine) -> None:
    """Raise UnsupportedError for a tensor of bf16 where the cube and the vector unit of a machine do not take it."""
    found = next((t.name for t in graph.tensors if t.dtype == "bf16"), "")
    if found and "bf16" not in machine.tables.get("kf", {}):
        raise UnsupportedError(f"tensor {found} is bf16, which {machine.name} does not calculate in; take --precision fp16, mixed or fp32")


def groups(draft: Draft, followers: Mapping[str, tuple[str, ...]], views: Collection[str], most: int = FLAG_IDS,
           together: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
           folds: Mapping[str, Fold] = MappingProxyType({})) -> tuple[Group, ...]:
    """Put every node into one group, g0, g1, ... in an order in which the groups can run. A group has one result.

    Nodes are taken in order, and each starts a group unless it joins an earlier one. To join, it must be the only reader of that group's
    last tensor, of a kind that the table allows, and of the same shape and layout. All its other operands must be there already. The group
    may read no more than `most` tensors, as each has a slot in UB, and so a flag from pipe to pipe. It may have no more than MOST_NODES
    nodes.

    `together`: the last node of a group that was found before (pieces.py) -> all of its nodes. `folds`: product -> the moves that it
    does itself.
    """
    return Grouping(draft, followers, views, most, together, folds).groups()


class Grouping:
    """A draft whose nodes are put into groups."""

    def __init__(self, draft: Draft, followers: Mapping[str, tuple[str, ...]], views: Collection[str], most: int,
                 together: Mapping[str, tuple[str, ...]], folds: Mapping[str, Fold]) -> None:
        self.draft, self.followers, self.views, self.most, self.together = draft, followers, views, most, together
        self.folds = folds
        self.users, self.makers = draft.users(), draft.producers()
        self.order = {n.name: at for at, n in enumerate(draft.nodes)}
        self.made = {*draft.inputs, *draft.weights}
        self.taken = {name for names in together.values() for name in names[:-1]}
        self.taken.update(name for fold in folds.values() for name in (*fold.before, *fold.after))
        before = {name for fold in folds.values() for name in fold.before}
        self.moved = {n.outputs[0]: n.inputs[0] for n in draft.nodes if n.name in before}
        self.waiting: dict[str, list[list[OpNode]]] = {}  # node -> elementwise chains whose results it alone reads, and something not made
        self.out: list[Group] = []

    def groups(self) -> tuple[Group, ...]:
        for node in self.draft.nodes:
            if node.name in self.taken:
                continue
            if own := self.together.get(node.name):
                self.put([self.draft.nodes[self.order[name]] for name in own])
                continue
            waited = self.waiting.pop(node.name, [])
            before = [n for chain in waited for n in chain]
            if before and not self.fits([*before, node]):
                for chain in waited:
                    self.put(chain)
                before = []
            chain, later = self.chain(before, node)
            if later is None:
                self.put(chain)
            else:
                self.waiting.setdefault(later.name, []).append(chain)
                self.taken.update(n.name for n in chain)
        return tuple(self.out)

    def fits(self, nodes: Sequence[OpNode]) -> bool:
        """Return whether so many nodes may be one group, and it reads no more tensors than there are flags."""
        return len(nodes) <= MOST_NODES and flags_of(self.draft, nodes) <= self.most

    def put(self, nodes: Sequence[OpNode]) -> None:
        """Make nodes a group, in their order in the graph, with the moves that they do themselves."""
        beside = [name for n in nodes if (fold := self.folds.get(n.name)) for name in (*fold.before, *fold.after)]
        nodes = sorted([*nodes, *(self.draft.nodes[self.order[name]] for name in beside)], key=lambda n: self.order[n.name])
        self.taken.update(n.name for n in nodes)
        self.made.update(o for n in nodes for o in n.outputs)
        main = main_node(nodes)
        kind = "view" if main.name in self.views else _kind(main)
        self.out.append(Group(f"g{len(self.out)}", kind, tuple(n.name for n in nodes)))

    def chain(self, before: list[OpNode], first: OpNode) -> tuple[list[OpNode], OpNode | None]:
        """Return (the nodes of the group that starts with `first`, and with the nodes in `before`, which waited for it; the node for
        which they should wait, or None). They wait for a node that reads another tensor that is not made yet."""
        draft, cube = self.draft, family(first) == "cube"
        allowed = self.followers.get(first.op.removesuffix("_packed"), self.followers.get(family(first), ()))
        chain = [*before, first]
        if (fold := self.folds.get(first.name)) and fold.after:
            return chain, None
        while follower := self.follower(chain):
            if not can_follow(draft, chain[-1], follower, allowed) or cube and (
                    not is_alike(draft, first, follower) or follower.name in self.folds):
                break
            if cube and follower.op == "requantise" and follower.op not in allowed:
                break
            missing = [i for i in dict.fromkeys(follower.inputs) if i and not self.is_made(i) and i != chain[-1].outputs[0]]
            beside = self.beside(chain, follower, missing) if missing else []
            if beside is None:
                waits = all(family(n) == family(follower) == "elementwise" for n in chain) and self.makes(missing, follower)
                return chain, follower if waits else None
            if not cube and not self.fits([*chain, *beside, follower]):
                break
            self.waiting.pop(follower.name, None)
            chain += [*beside, follower]
            if family(follower) in ROWS:
                allowed = FOLLOWERS.get(family(follower), ())
            elif follower.op == "requantise" and cube:
                break
        return chain, None

    def is_made(self, name: str) -> bool:
        """Return whether a tensor is there when the next group runs, perhaps as part of another."""
        while name in self.moved:
            name = self.moved[name]
        return name in self.made

    def follower(self, chain: Sequence[OpNode]) -> OpNode | None:
        """Return the only reader of the last result of a chain; of elementwise work that others read too, the norm of its rows."""
        made = chain[-1].outputs[0]
        found = _only_reader(self.draft, made, self.users)
        if found is not None or any(family(n) != "elementwise" for n in chain):
            return found
        readers = {n.name: n for n in self.users.get(made, []) if family(n) in BESIDE_OTHERS and n.name not in self.taken}
        return next(iter(readers.values()), None)

    def beside(self, chain: Sequence[OpNode], follower: OpNode, missing: Sequence[str]) -> list[OpNode] | None:
        """Return the elementwise nodes that make the other operands of a follower of the chain, directly or through each other. Each has
        one reader. Nodes that already wait for the follower are among them. Return None where another node has to make some of the
        operands."""
        if family(follower) != "elementwise" or family(chain[0]) != "elementwise":
            return None
        waiting = [n for chain in self.waiting.get(follower.name, []) for n in chain]
        found, wanted = {n.name: n for n in waiting}, [i for i in missing if all(i not in n.outputs for n in waiting)]
        while wanted:
            name = wanted.pop()
            node = self.makers.get(name)
            if node is None or node.name in self.taken or len(found) >= MOST_BESIDE or not self.joins_beside(node, follower):
                return None
            found[node.name] = node
            wanted += [i for i in dict.fromkeys(node.inputs) if i and not self.is_made(i)]
        return list(found.values())

    def joins_beside(self, node: OpNode, follower: OpNode) -> bool:
        """Return whether a node may be worked in a group beside the chain that ends with a follower: elementwise, of its shape, for one
        reader."""
        a, b = (self.draft.tensors[n.outputs[0]] for n in (node, follower))
        one = _only_reader(self.draft, a.name, self.users) is not None
        return one and family(node) == "elementwise" and node.name not in self.views and (a.shape, a.layout) == (b.shape, b.layout)

    def makes(self, missing: Sequence[str], follower: OpNode) -> bool:
        """Return whether a group that waits for what is missing can have the follower: no product works it on its own results."""
        wanted, seen = list(missing), set[str]()
        while wanted:
            node = self.makers.get(wanted.pop())
            if node is None or family(node) == "host" or len(seen) > MOST_BESIDE:
                return False
            allowed = self.followers.get(node.op.removesuffix("_packed"), self.followers.get(family(node), ()))
            if family(node) != "elementwise" and family(follower) in allowed:
                return False
            if family(node) == "elementwise" and node.name not in self.taken and node.name not in seen:
                wanted += [i for i in dict.fromkeys(node.inputs) if i and not self.is_made(i)]
            seen.add(node.name)
        return True


def halve_groups(graph: Graph, names: Collection[str]) -> Graph:
    """Split each of the named groups in two, with half of its operators each. A group of one operator stays.
    A group whose operators do not read one the other is split into single operators, since half of it has several results."""
    draft = Draft.of(graph, {})
    draft.reserve((g.name for g in graph.groups), "group")
    nodes = {n.name: n for n in graph.nodes}

    def parts(g: Group) -> list[Group]:
        own = [nodes[name] for name in g.nodes]
        return [Group(draft.fresh(f"{g.name}_{i}", "group"), _part_kind(part), tuple(n.name for n in part))
                for i, part in enumerate(_halves(own))]
    return replace(graph, groups=tuple(part for g in graph.groups
                                       for part in (parts(g) if g.name in names and len(g.nodes) > 1 else [g])))


def _halves(nodes: Sequence[OpNode]) -> list[Sequence[OpNode]]:
    """Return the parts of a group: each move beside its work and the rest, or halves of a chain, or single operators."""
    rest = [n for n in nodes if n.op not in MOVES]
    if rest and len(rest) < len(nodes) and rest[-1].op != "concat":
        after = {o for n in rest for o in n.outputs}
        behind: list[OpNode] = []
        for n in nodes:
            if n.op in MOVES and not after.isdisjoint(n.inputs):
                after.update(n.outputs)
                behind.append(n)
        return [*[[n] for n in nodes if n.op in MOVES and n not in behind], rest, *[[n] for n in behind]]
    chain = all(a.outputs[0] in b.inputs for a, b in pairwise(nodes))
    half = -(-len(nodes) // 2) if chain else 1
    return [nodes[at:at + half] for at in range(0, len(nodes), half)]


def _part_kind(nodes: Sequence[OpNode]) -> str:
    """Return the kind of a group: of its product, where it has one, or of a view."""
    main = main_node(nodes)
    return "view" if family(main) == "view" else _kind(main)


def kind_of(nodes: Sequence[OpNode]) -> str:
    """Return the kind of a group of nodes, in order, that is no view."""
    return _kind(main_node(nodes))


def _only_reader(draft: Draft, name: str, users: Mapping[str, list[OpNode]]) -> OpNode | None:
    """Return the one node that reads a tensor, perhaps twice, as a square does. Return None where several do, or where the tensor is a
    result of the graph."""
    found = users.get(name, [])
    return found[0] if found and name not in draft.outputs and all(n is found[0] for n in found) else None


def can_follow(draft: Draft, last: OpNode, follower: OpNode, allowed: tuple[str, ...]) -> bool:
    """Return whether a node may be in the group that ends with the one before it, as to its kind and what it makes."""
    a, b = draft.tensors[last.outputs[0]], draft.tensors[follower.outputs[0]]
    alike = a.layout == b.layout and (a.shape == b.shape or family(follower) == "reduce" and b.layout == "ND")
    return alike and (follower.op in allowed or family(follower) in allowed)


def is_alike(draft: Draft, first: OpNode, follower: OpNode) -> bool:
    """Return whether all operands of a follower have the layout, shape and dtype of its result, and the cube reads none of them.

    Scales must be constants, one for each column, in whole blocks. Rows must be whole fractals wide, so that UB pads those of each dtype
    alike. A user's own operator must have one statement."""
    if follower.op == "requantise":
        scale = draft.tensors[follower.inputs[1]]
        image = first.op == "conv2d_packed"  # whose scales are padded to whole blocks of its channels
        columns = draft.tensors[follower.outputs[0]].shape[1 if image else -1]
        return draft.is_constant(scale.name) and max(scale.shape) == columns and (image or columns % c0_of(scale.dtype) == 0)
    out = draft.tensors[follower.outputs[0]]
    read = [draft.tensors[i] for i in follower.inputs if i]
    ragged = first.op == "matmul" and follower.op != "relu" and out.layout == "ND" and out.shape[-1] % FRACTAL_ROWS
    if ragged or follower.definition and len(parse_meaning(follower.definition).statements) > 1:
        return False
    return all((t.shape, t.layout, t.dtype) == (out.shape, out.layout, out.dtype) and t.name not in first.inputs for t in read)


def _kind(node: OpNode) -> str:
    return KINDS.get(family(node), "vector")
