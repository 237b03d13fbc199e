"""Funcs of operators that only move elements: concat and transpose."""
from __future__ import annotations

from aoec.ir.graph import OpNode, Tensor
from aoec.ir.index import Expr, Int, Read, Var, reads, substitute, variables
from aoec.ir.tir import Block, Func, Loop, Node
from aoec.lowering.physical import buffer_of, extents, nest, split_channel
from aoec.ops.layout import stored_shape
from aoec.ops.meanings import meaning

Access = tuple[tuple[Expr, ...], dict[str, int]]  # indices, extents of their axes


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
