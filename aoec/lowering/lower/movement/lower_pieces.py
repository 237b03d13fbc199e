"""The func of a group of slices and concats: a copy for each piece of its result, in loops over the axes that all pieces walk alike.

Pieces may be cut along several axes, as in a roll of an image. Then an index along the outer axes is calculated where it is needed,
`X[(y + 3) % 56, ..]`, so that each row of the result is made by one core.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from aoec.base.errors import UnsupportedError
from aoec.ir.func.tir import Buffer, Func
from aoec.ir.graph.graph import OpNode, Tensor
from aoec.ir.index import DTYPES, Expr, Int, Read, Var, lt, normalise, select
from aoec.lowering.arrange.pieces import Laid, Piece, Walk, laid_out, turn_pieces
from aoec.lowering.lower.movement.lower_movement import BURST_BYTES, Move, lower_moves
from aoec.lowering.lower.physical import buffer_of, stage


def lower_pieces(name: str, nodes: Sequence[OpNode], tensors: Mapping[str, Tensor]) -> Func:
    """Return the func of a group that ends with a concat."""
    laid = laid_out(nodes, tensors)
    made = {n.outputs[0] for n in nodes}
    names = list(dict.fromkeys(i for n in nodes for i in n.inputs if i not in made))  # as operands() has them
    moves = [_move(p, names.index(p.source), laid, number) for number, p in enumerate(laid.pieces)]
    ins, out = [tensors[i] for i in names], tensors[nodes[-1].outputs[0]]
    shortest = min(p.walks[-1].count for p in laid.pieces) * DTYPES[out.dtype]
    inner = 1 if len(laid.result) == 2 and laid.walks_whole(0) and shortest >= BURST_BYTES else 2  # of runs cores share parts
    return lower_moves(name, ins, out, moves, [*(laid.shapes[i] for i in names), laid.result], inner,
                       {f"i{a}": laid.result[a] for a in laid.along})


def lower_turned_pieces(name: str, nodes: Sequence[OpNode], tensors: Mapping[str, Tensor]) -> Func:
    """Return the func of a group that ends with a transpose of a concat: pieces are brought among the rows that are turned, which are
    stored as rows of the result."""
    turned = turn_pieces(nodes, tensors)
    if turned is None:
        raise UnsupportedError(f"group {name}: what {nodes[-1].name} turns cannot be brought in pieces")
    made = {n.outputs[0] for n in nodes}
    names = list(dict.fromkeys(i for n in nodes for i in n.inputs if i not in made))
    whole, dtype = tensors[nodes[-1].inputs[0]].shape, tensors[nodes[-1].inputs[0]].dtype
    every = {f"i{at}": prod(whole[a] for a in axes) for at, axes in enumerate(turned.axes)}
    store, source = list(every), [f"i{at}" for at in turned.order]
    cut, across, columns = store[-1], source[-1], turned.axes[-1][0]
    held = [v for v in store if v != across] + [across]
    here, there = Read("turned", tuple(map(Var, store))), Read("rows", tuple(map(Var, held)))
    body = []
    for number, p in enumerate(turned.pieces):
        walk = p.walks[columns]
        to, start = (normalise(Var(cut) + at) for at in (walk.to, walk.start))
        own = [(v, walk.count if v == cut else every[v]) for v in held]
        body.append(stage(f"load{number}", own, Read("rows", tuple(to if v == cut else Var(v) for v in held)),
                          Read(f"X{names.index(p.source)}", tuple(start if v == cut else Var(v) for v in source))))
    loops = [(v, every[v]) for v in store]
    body += [stage("turn", loops, here, there), stage("store", loops, Read("Y", here.indices), here)]
    shapes = [tuple(tensors[t].shape[columns] if v == cut else every[v] for v in source) for t in names]
    local = [Buffer(b, dtype, tuple(Int(every[v]) for v in axes)) for b, axes in (("rows", held), ("turned", store))]
    return Func(name, tuple(buffer_of(tensors[t], f"X{at}", shape) for at, (t, shape) in enumerate(zip(names, shapes))),
                (buffer_of(tensors[nodes[-1].outputs[0]], "Y", tuple(every.values())),), tuple(local), tuple(body))


def _move(p: Piece, at: int, laid: Laid, number: int) -> Move:
    """Return a piece as a copy, read forwards: what is brought to UB is a box. Axes that pieces walk in different places have other
    names."""
    source, target, sizes = list[Expr](), list[Expr](), dict[str, int]()
    for axis, w in enumerate(p.walks):
        v = Var(f"i{axis}" if laid.walks_whole(axis) else f"i{axis}_{number}")
        back = w.step < 0
        read = Int(w.start + (w.count - 1) * w.step) + v * -w.step if back else Int(w.start) + v * w.step
        source.append(_place(laid.along[axis], v, laid.shapes[p.source][axis]) if axis in laid.along else normalise(read))
        target.append(normalise(Int(w.to + w.count - 1) - v if back else Int(w.to) + v))
        sizes[v.name] = w.count
    return at, (tuple(source), sizes), (tuple(target), dict(sizes))


def _place(walks: Sequence[Walk], v: Var, size: int) -> Expr:
    """Return where the index `v` of a result lies along an axis of that size of the tensor that it is made of."""
    first, *others = walks
    if len(others) == 1 and {w.step for w in walks} == {1} and others[0].start == 0 and first.start + first.count == size == sum(
            w.count for w in walks):
        return (v + first.start) % size
    last = walks[-1]
    out: Expr = (v - last.to) * last.step + last.start
    for w in reversed(walks[:-1]):
        out = select(lt(v, w.to + w.count), normalise((v - w.to) * w.step + w.start), out)
    return normalise(out)
