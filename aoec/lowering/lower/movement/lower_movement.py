"""Funcs of operators that only move elements: concat, upsample, and what is one copy (lower_copy.py)."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import gcd, isqrt, prod
from types import MappingProxyType

from aoec.ir.func.tir import Block, Func, Loop, Node
from aoec.ir.graph.graph import Attribute, OpNode, Tensor
from aoec.ir.index import DTYPES, Expr, Int, Read, Var, reads, substitute, variables
from aoec.lowering.lower.movement.lower_columns import join_narrow, joins_narrow, move_pairs, pairs_of
from aoec.lowering.lower.movement.lower_copy import TURNED_BYTES, lower_copy
from aoec.lowering.lower.movement.lower_interleaved import lower_interleaved
from aoec.lowering.lower.movement.turn_moves import as_ints, join_axes
from aoec.lowering.lower.physical import buffer_of, extents, nest, split_channel, stored_move
from aoec.ops.meanings import meaning
from aoec.ops.words.layout import BLOCK_BYTES, stored_shape

Access = tuple[tuple[Expr, ...], dict[str, int]]  # indices, extents of their axes
Move = tuple[int, Access, Access]  # number of the input, what is read, what is written
MOST_BYTES, TILE_BYTES, BURST_BYTES = 49152, 8192, 512  # moved in one iteration: at most, and wanted at least; a burst's
COLUMN_BYTES = 4 * BLOCK_BYTES  # of a row that is moved in parts, at least
ENOUGH_PARTS = 64  # for any machine's cores


def lower_movement(name: str, nodes: list[OpNode], tensors: dict[str, Tensor]) -> Func:
    """Return a copy an input, or a place that an input is written to, in loops over the axes that all of them walk alike (so that cores
    share each input)."""
    (node,) = nodes
    ins = [tensors[i] for i in node.inputs]
    out, inner = tensors[node.outputs[0]], 2
    given = dict(node.attributes)
    if node.op in ("slice", "pad") and (stored := stored_move(node, ins[0])) is not None:
        *ins, out = (replace(t, shape=stored_shape(t), layout="ND") for t in (*ins, out))
        given = stored
    if out.layout == "NC1HWC0" and (node.op == "depth_to_space" or node.op == "upsample" and DTYPES[out.dtype] in TURNED_BYTES):
        return lower_interleaved(name, node, ins[0], out)
    said = meaning(node.op, [t.shape for t in ins], given)
    if all(t.layout == "ND" for t in (*ins, out)):
        if node.op == "upsample":  # rows of single pixels: each is read again and again
            ins, out = [_split_pixels(ins[0], (1, 1))], _split_pixels(out, node.attribute("scale"))
            said = meaning("expand", [ins[0].shape], {"shape": out.shape})
        if len(said.statements) == 1:
            joined = join_axes(ins[0].shape, as_ints(node.attribute("perm"))) if node.op == "transpose" else None
            if joined and (pairs := pairs_of(ins[0], *joined)) is not None:
                return move_pairs(name, ins[0], out, pairs)
            return lower_copy(name, ins[0], out, said)
        if isinstance(axis := node.attribute("axis"), int) and node.op == "concat" and joins_narrow(ins, out, axis):
            own = list(dict.fromkeys(node.inputs))
            return join_narrow(name, [tensors[i] for i in own], [own.index(i) for i in node.inputs], out, axis)
        if (axis := node.attribute("axis")) is not None and _is_thin(ins, axis):  # type: ignore[arg-type]
            ins, out, inner = [_as_runs(t, axis) for t in ins], _as_runs(out, axis), 1  # type: ignore[arg-type]
            said = meaning("concat", [t.shape for t in ins], {"axis": 1})
    ranges = extents(said)
    names = list(dict.fromkeys(node.inputs))  # a tensor may be joined to itself, and is one buffer
    order, ins = [names.index(i) for i in node.inputs], [ins[node.inputs.index(i)] for i in names]
    moves = []
    for s in said.statements:
        (read,) = reads(s.value)
        at = order[[a.name for a in said.inputs].index(read.buffer)]
        moves.append((at, _physical_access(read, ins[at], ranges), _physical_access(s.target, out, ranges)))
    moves, shapes = _merge_axes(*_without_ones(moves, [stored_shape(t) for t in (*ins, out)]))
    return lower_moves(name, ins, out, moves, shapes, inner)


def lower_moves(name: str, ins: Sequence[Tensor], out: Tensor, moves: list[Move], shapes: Sequence[tuple[int, ...]], inner: int,
                apart: Mapping[str, int] = MappingProxyType({})) -> Func:
    """Lower some copies to one func. Its outer loops walk what all copies walk alike but the `inner` last axes, and what is `apart`.
    Its tensors have `shapes`, the result's the last."""
    shared = dict(_shared_axes(moves, inner)) | dict(apart)
    moves, cut = _split_common_axis(moves, shared, DTYPES[out.dtype])
    shared |= cut
    body = []
    for i, (at, (source, sizes), (target, _)) in enumerate(moves):
        own: dict[str, Expr] = {v: Var(v if v in shared else f"c{i}_{v}") for v in sizes}
        to, get = (tuple(substitute(x, own) for x in side) for side in (target, source))
        block = Block(f"c{i}", Read("Y", to), "=", Read(f"X{at}", get))
        body.append(nest([(own[v].name, e) for v, e in sizes.items() if v not in shared], block))  # type: ignore[attr-defined]
    whole: tuple[Node, ...] = tuple(body)
    for v in reversed(shared):
        whole = (Loop(v, Int(shared[v]), whole),)
    return Func(name, tuple(buffer_of(t, f"X{i}", shapes[i]) for i, t in enumerate(ins)), (buffer_of(out, "Y", shapes[-1]),), (), whole)


def _split_pixels(t: Tensor, scale: Attribute | None) -> Tensor:
    """Return an image with an axis of its own for the copies of each row, and for those of each pixel."""
    assert isinstance(scale, tuple)
    (n, c, h, w), (down, across) = t.shape, (int(s) for s in scale)
    return replace(t, shape=(n, c, h // down, down, w // across, across))


def _is_thin(ins: Sequence[Tensor], axis: int) -> bool:
    """Return True for a concat of which parts of columns are no bursts worth their issue: of short rows, or where no part of four whole
    blocks or more of each row fits an iteration."""
    size, rest = DTYPES[ins[0].dtype], prod(ins[0].shape[axis + 1:])
    most = MOST_BYTES // sum(t.shape[axis] for t in ins)
    wide = any(COLUMN_BYTES <= p * size <= most and p * size % BLOCK_BYTES == 0 for p in divisors(rest))
    return rest > 1 and (rest * size < BURST_BYTES or not wide)


def _as_runs(t: Tensor, axis: int) -> Tensor:
    """Return a tensor of two axes: what a concat along `axis` takes of it is a run."""
    return replace(t, shape=(prod(t.shape[:axis]), prod(t.shape[axis:])))


def _split_common_axis(moves: list[Move], shared: dict[str, int], size: int) -> tuple[list[Move], dict[str, int]]:
    """Split the last common axis of the moves in equal parts, and return the moves and the loop over the parts.
    Parts are small enough for slots in UB, and large enough that bursts are worth their issue. Moves without such an axis are unchanged."""
    inner = [[(v, n) for v, n in sizes.items() if v not in shared] for _, (_, sizes), _ in moves]
    common = [(v, n) for v, n in inner[0] if n > 1 and all((v, n) in own for own in inner)]
    common = [(v, n) for v, n in common if n * size != BLOCK_BYTES] or ([] if shared else common)  # blocks last
    if len(moves) < 2 or not common:
        runs = len(moves) > 1 and all(len(own) == 1 for own in inner)
        return _cut_runs(moves, [own[0] for own in inner], prod(shared.values()), size) if runs else (moves, {})
    v, whole = common[-1]
    rows = size * sum(prod(n for w, n in own if w != v) for own in inner)
    parts = [p for p in range(1, whole + 1) if whole % p == 0 and (p == 1 or p * rows <= MOST_BYTES)]
    parts = [p for p in parts if p * size % BLOCK_BYTES == 0] or parts  # stores that end within a block are slow
    part = next((p for p in parts if p * size >= BURST_BYTES and p * rows >= TILE_BYTES), parts[-1])
    moved: dict[str, Expr] = {v: Var(f"{v}_part") * part + Var(v)}

    def split_access(a: Access) -> Access:
        return tuple(substitute(i, moved) for i in a[0]), {f"{v}_part": whole // part} | a[1] | {v: part}
    return [(at, split_access(source), split_access(target)) for at, source, target in moves], {f"{v}_part": whole // part}


def _cut_runs(moves: list[Move], runs: list[tuple[str, int]], outer: int, size: int) -> tuple[list[Move], dict[str, int]]:
    """Return the moves of one run each (axis, length) in what they share, `outer` iterations, each in as many equal parts, and the loop
    over the parts: enough for all cores and for what UB holds, together worth their issue (a short run beside a long one may be cut to a
    block); one where the tensors' sizes have no divisor in common."""
    lengths = [n for _, n in runs]
    bursts = [p for p in divisors(gcd(*lengths)) if sum(lengths) // p * size >= TILE_BYTES] or [1]
    bursts = [p for p in bursts if all(n // p * size % BLOCK_BYTES == 0 for n in lengths)] or bursts
    enough = -(-ENOUGH_PARTS // outer)
    parts = next((p for p in bursts if p >= enough and sum(lengths) // p * size <= MOST_BYTES), bursts[-1])

    def split_access(a: Access, v: str, n: int) -> Access:
        moved: dict[str, Expr] = {v: Var("part") * (n // parts) + Var(v)}
        return tuple(substitute(i, moved) for i in a[0]), {w: e for w, e in a[1].items() if w != v} | {"part": parts, v: n // parts}
    return [(at, split_access(source, *run), split_access(target, *run)) for (at, source, target), run in zip(moves, runs)], {"part": parts}


def divisors(n: int) -> list[int]:
    """Return all divisors of a number, in order."""
    small = [d for d in range(1, isqrt(n) + 1) if n % d == 0]
    return sorted({*small, *[n // d for d in small]})


def _without_ones(moves: list[Move], shapes: list[tuple[int, ...]]) -> tuple[list[Move], list[tuple[int, ...]]]:
    """Return the moves and shapes without axes that have one element in all tensors, but for the last that is left."""
    rank = len(shapes[0])
    kept = [p for p in range(rank) if any(len(s) != rank or s[p] != 1 for s in shapes)] or [rank - 1]
    gone = set(range(rank)) - set(kept)

    def side(a: Access) -> Access:
        lost = {v for p in gone for v in variables(a[0][p])}
        return tuple(a[0][p] for p in kept), {v: n for v, n in a[1].items() if v not in lost}
    return ([(at, side(source), side(target)) for at, source, target in moves], [tuple(s[p] for p in kept) for s in shapes]) if gone else (
        moves, shapes)


def _merge_axes(moves: list[Move], shapes: list[tuple[int, ...]]) -> tuple[list[Move], list[tuple[int, ...]]]:
    """Merge neighbouring axes of a concat that all moves walk whole. Return the moves and the shapes of inputs and output."""
    pairs = range(len(shapes[0]) - 2, -1, -1) if len(moves) > 1 else ()
    p = next((p for p in pairs if all(_walks_whole(m, p) and _walks_whole(m, p + 1) for m in moves)), None)
    if p is None:
        return moves, shapes
    joined = [(at, _merge_access(source, p), _merge_access(target, p)) for at, source, target in moves]
    return _merge_axes(joined, [(*s[:p], s[p] * s[p + 1], *s[p + 2:]) for s in shapes])


def _walks_whole(m: Move, p: int) -> bool:
    """Return whether a move walks dimension p of both sides with one plain axis."""
    (source, _), (target, _) = m[1], m[2]
    return isinstance(source[p], Var) and source[p] == target[p]


def _merge_access(a: Access, p: int) -> Access:
    indices, sizes = a
    v, w = (i.name for i in indices[p:p + 2])  # type: ignore[attr-defined]
    return (*indices[:p + 1], *indices[p + 2:]), {x: n * sizes[w] if x == v else n for x, n in sizes.items() if x != w}


def _shared_axes(moves: list[Move], inner: int) -> dict[str, int]:
    """Return axes that every move walks over the same extent at the same place, but the `inner` last ones, which make the bursts."""
    if len(moves) < 2:
        return {}
    first = moves[0][1][1]
    alike = [v for v in first if all(m[1][1].get(v) == first[v] for m in moves)]
    return {v: first[v] for v in alike if v not in list(first)[-inner:]}


def _physical_access(r: Read, t: Tensor, ranges: dict[str, int]) -> Access:
    """Return (physical indices, extents of the axes). A channel axis of NC1HWC0 becomes two; offsets are in whole C1 planes."""
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
