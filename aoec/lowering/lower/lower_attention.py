"""Funcs of attention: a product, the softmax of its rows, and a product of the shares; leading dimensions are one axis.

The func makes three passes over the keys, as the operator says it; the primitive `online` makes one of them.
"""
from __future__ import annotations

from collections.abc import Sequence
from math import prod

from aoec.base.errors import UnsupportedError
from aoec.ir.func.tir import Block, Buffer, Func, Node
from aoec.ir.graph.graph import OpNode, Tensor
from aoec.ir.index import Cast, Expr, Int, Read, Var, call, normalise, substitute, variables
from aoec.lowering.lower.access import NO_MOVES, Moves
from aoec.lowering.lower.physical import buffer_of, nest

LEAD, ROW, KEY, DEEP, COLUMN = (Var(v) for v in "bmnde")  # axes: leading dimensions, queries, keys, along the products, of a result
SCORES, ROWS, RESULT = (LEAD, ROW, KEY), (LEAD, ROW, Int(0)), (LEAD, ROW, COLUMN)


def lower_attention(name: str, node: OpNode, tensors: dict[str, Tensor], moves: Moves = NO_MOVES) -> Func:
    """Y[b, m, e] = sum over n of share[b, m, n] * V[b, n, e], or V[b, e, n]; scores and sums in fp32, shares in the dtype of V. Operands
    are read where they lie before the `moves` in front, and the result is written where it lies behind those that follow."""
    ts, out, turned = [tensors[i] for i in node.inputs if i], tensors[node.outputs[0]], bool(node.attribute("trans_v", 0))
    if ts[2].dtype not in ("fp16", "bf16") and not turned:
        raise UnsupportedError(f"group {name}: MTE1 turns elements of 16 bits only, and what is shared out has {ts[2].dtype}")
    lead, (m, d), (n, e) = ts[0].shape[:-2], ts[0].shape[-2:], ts[2].shape[:-3:-1] if turned else ts[2].shape[-2:]
    if any(t.shape[-1] != n for t in ts[3:]):
        raise UnsupportedError(f"group {name}: what is added to the scores has one number for all keys")
    sizes = {"b": prod(lead), "m": m, "n": n, "d": d, "e": e}
    made = _Nests(sizes)

    def operand(t: Tensor, x: str, matrix: tuple[Expr, Expr]) -> tuple[Buffer, Read]:
        if not moves.is_moved(t.name):
            return buffer_of(t, x, (prod(lead), *t.shape[-2:])), Read(x, (LEAD, *matrix))
        return moves.read(t, x, (*_parts_of_lead(lead), *matrix), sizes, matrix)
    matrices = (ROW, DEEP), (KEY, DEEP), (COLUMN, KEY) if turned else (KEY, COLUMN)
    operands = [operand(t, x, matrix) for t, x, matrix in zip(ts, "QKV", matrices)]
    q_read, k_read, v_read = (read for _, read in operands)
    made.add("C", SCORES, "+=", q_read * k_read)
    scores = Read(_scores(made, float(node.attribute("scale", 1.0)), lead, ts[3:]), SCORES)  # type: ignore[arg-type]
    made.add("M", ROWS, "max=", scores)
    made.add("D", SCORES, "=", scores - Read("M", ROWS))
    made.add("E", SCORES, "=", call("exp", Read("D", SCORES)))
    made.add("L", ROWS, "+=", Read("E", SCORES))
    shares = Read("E", SCORES)
    if ts[2].dtype != "fp32":
        made.add("P", SCORES, "=", Cast(ts[2].dtype, shares), ts[2].dtype)
        shares = Read("P", SCORES)
    made.add("O", RESULT, "+=", shares * v_read)
    made.add("R", RESULT, "=", Read("O", RESULT) / Read("L", ROWS))
    Y, place = buffer_of(out, "Y", (prod(lead), m, e)), Read("Y", RESULT)
    if moves.after:
        Y, place = moves.write(out, "Y", (*_parts_of_lead(lead), ROW, COLUMN), sizes, (ROW, COLUMN))
    made.add("Y", RESULT, "=", Cast(out.dtype, Read("R", RESULT)), place=place.indices)
    ins = [b for b, _ in operands] + [buffer_of(t, "B") for t in ts[3:]]
    own = tuple(b for b in made.locals if b.name != "Y")
    return Func(name, tuple(ins), (Y,), own, tuple(made.body))


def _parts_of_lead(lead: tuple[int, ...]) -> tuple[Expr, ...]:
    """Return the index of each leading dimension, of which the axis of all is made."""
    parts = (LEAD // prod(lead[at + 1:]) % size if at else LEAD // prod(lead[1:]) for at, size in enumerate(lead))
    plain = [at for at, size in enumerate(lead) if size > 1]
    if len(plain) <= 1:
        return tuple(LEAD if [at] == plain else Int(0) for at in range(len(lead)))
    return tuple(normalise(part) for part in parts)


def _scores(made: _Nests, scale: float, lead: tuple[int, ...], bias: Sequence[Tensor]) -> str:
    """Return the local with the scores, scaled and with what is added to them, which is cast to fp32 in a local of its own axes."""
    last = "C"
    if scale != 1.0:
        made.add("T", SCORES, "=", Read("C", SCORES) * scale)
        last = "T"
    for t in bias:
        read = Read("B", _broadcast(t.shape, lead, (made.sizes["m"], made.sizes["n"])))
        if t.dtype != "fp32":
            axes = tuple(v for v in SCORES if any(v.name in variables(i) for i in read.indices))
            made.add("W", axes, "=", Cast("fp32", read))
            read = Read("W", axes)
        made.add("U", SCORES, "=", Read(last, SCORES) + read)
        last = "U"
    return last


def _broadcast(shape: tuple[int, ...], lead: tuple[int, ...], matrix: tuple[int, int]) -> tuple[Expr, ...]:
    """Return where the bias is read: at 0 along an axis of 1 element; the axes before the matrix are parts of one."""
    out: list[Expr] = []
    for at, size in enumerate(lead):
        part = LEAD // prod(lead[at + 1:]) % size if at else LEAD // prod(lead[1:])
        out.append(normalise(part) if at or len(lead) > 1 else LEAD)
    whole = (*lead, *matrix)
    first = len(whole) - len(shape)
    return tuple(i if size == full else Int(0) for i, size, full in zip([*out, ROW, KEY][first:], shape, whole[first:]))


class _Nests:
    """Blocks, each in loops of its own over the axes that it uses, and the locals that they write."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self.sizes = sizes
        self.locals: list[Buffer] = []
        self.body: list[Node] = []

    def add(self, name: str, indices: Sequence[Expr], op: str, value: Expr, dtype: str = "fp32",
            place: Sequence[Expr] | None = None) -> None:
        """Add a block that writes the buffer `name`. Along an axis that is read at 0 the buffer has one element. `place`: the indices
        that the block writes, where they are not `indices`."""
        target = Read(name, tuple(indices))
        named = [i.name for i in indices if isinstance(i, Var)]
        used = [v for v in self.sizes if v in variables(value)]
        axes = [*named, *[v for v in used if v not in named]]
        own: dict[str, Expr] = {v: Var(f"{name.lower()}_{v}") for v in axes}
        written = Read(name, tuple(substitute(i, own) for i in place or indices))
        block = Block(f"{name.lower()}_block" if name != "Y" else "out", written, op, substitute(value, own))
        self.body.append(nest([(own[v].name, self.sizes[v]) for v in axes], block))  # type: ignore[attr-defined]
        self.locals.append(Buffer(name, dtype, tuple(Int(self.sizes[i.name]) if isinstance(i, Var) else Int(1) for i in target.indices)))
