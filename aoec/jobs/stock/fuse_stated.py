"""A graph in the groups of a table of fusions, and in no others. Its layouts are ours, and each other operator is a launch of its own."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Graph, OpNode
from aoec.jobs.stock.part_joined import part_joined
from aoec.lowering.arrange.fuse import Grouping, can_follow, check_dtypes, fuse_bodies, is_alike
from aoec.lowering.arrange.layout import assign, family, scaled_sums
from aoec.lowering.arrange.pack import pack
from aoec.lowering.arrange.parts import join_in_parts
from aoec.lowering.arrange.take_apart import take_apart
from aoec.lowering.arrange.views import find_views
from aoec.lowering.arrange.whole_bias import add_whole_biases
from aoec.lowering.lower.movement.turn_moves import turn_moves
from aoec.search.stock.fusions import Fusion
from aoec.target.machine import Machine


def fuse_stated(graph: Graph, weights: Mapping[str, np.ndarray], machine: Machine, table: Sequence[Fusion]) -> Graph:
    """Return the graph with layouts, packed weights and the groups of a table. Attention is done in single operators, and none of our own
    rearrangements is made: no convolutions side by side, no moves in products, no concats in slices."""
    check_dtypes(graph, machine)
    return fuse_bodies(graph, weights, lambda draft: _fuse_flat(draft, machine, table))[0]


def _fuse_flat(draft: Draft, machine: Machine, table: Sequence[Fusion]) -> tuple[Graph, dict[str, np.ndarray]]:
    """Fuse a graph without bodies."""
    part_joined(draft)
    take_apart(draft, machine, [n.name for n in draft.nodes if n.op == "attention"])
    scales = machine.has("fixpipe_nz_scale") or machine.has("copy_l0c_ub")
    if not machine.has("mmad_bias"):
        add_whole_biases(draft, scaled_sums(draft).values())
    assign(draft, scales)
    pack(draft)
    turn_moves(draft, machine, set())
    views = find_views(draft, set())
    join_in_parts(draft, views, machine.flag_ids)
    fused, stored = draft.finish()
    grouping = _Stated(draft, {}, views, machine.flag_ids, {}, {})
    grouping.table = table
    return replace(fused, groups=grouping.groups()), stored


class _Stated(Grouping):
    """A draft whose nodes are put into the groups of a table."""

    table: Sequence[Fusion] = ()

    def chain(self, before: list[OpNode], first: OpNode) -> tuple[list[OpNode], OpNode | None]:
        """Return (the nodes of the first fusion of the table that fits from `first` on, None). Return `first` alone where no fusion fits.
        The None says that there is no node to wait for."""
        found = (self.match(fusion, first) for fusion in self.table)
        return next((nodes for nodes in found if nodes), [first]), None

    def match(self, fusion: Fusion, first: OpNode) -> list[OpNode]:
        """Return the nodes of a fusion that begins with a node. Return [] where it does not fit."""
        if not _is(first, fusion.steps[0]) or fusion.after and not any(
                (maker := self.makers.get(i)) and _is(maker, fusion.after) for i in first.inputs):
            return []
        chain = [first]
        for word in fusion.steps[1:]:
            follower = self.joining(chain, word)
            if follower is None:
                return []
            chain.append(follower)
        while len(chain) < fusion.most and (follower := self.joining(chain, fusion.steps[-1])):
            chain.append(follower)
        return chain if len(chain) > 1 and self.suits(fusion, chain) else []

    def joining(self, chain: Sequence[OpNode], word: str) -> OpNode | None:
        """Return the node of this operator or family that may follow a chain, or None. It is the only reader of the chain's last result,
        and its other inputs exist by then. Where others read a sum too, it is the norm of the sum's rows."""
        follower = self.follower(chain)
        if follower is None or follower.name in self.taken or not _is(follower, word) or not can_follow(
                self.draft, chain[-1], follower, (follower.op,)):
            return None
        cube = family(chain[0]) == "cube"
        missing = [i for i in follower.inputs if i and i not in chain[-1].outputs and not self.is_made(i)]
        if missing or cube and not is_alike(self.draft, chain[0], follower) or not cube and not self.fits([*chain, follower]):
            return None
        return follower

    def suits(self, fusion: Fusion, chain: Sequence[OpNode]) -> bool:
        """Return whether a chain has the last axis and the dtype that a fusion is for."""
        out = self.draft.tensors[chain[-1].outputs[0]]
        operands = {self.draft.tensors[i].dtype for i in chain[0].inputs if i}
        return (not fusion.last or out.shape[-1] in fusion.last) and operands != {fusion.except_dtype}


def _is(node: OpNode, word: str) -> bool:
    """Return whether a node is of an operator or a family."""
    return word in (node.op.removesuffix("_packed"), family(node))
