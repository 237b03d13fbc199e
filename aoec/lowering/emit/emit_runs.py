"""Vector instructions and the loops around them: runs of repeats, loops in loops, items under a condition."""
from __future__ import annotations

from aoec.base.errors import UnsupportedError
from aoec.ir.index import Expr, Float, Int, Var, ceildiv, minimum, normalise, select
from aoec.ir.program import For, Instr, Item, Ref
from aoec.lowering.emit.tile import Emitter, TileOp, dtype_size, instr
from aoec.target.isa.instructions import REPEAT_BYTES
from aoec.target.isa.words import VectorOp, vector_op

BLOCKS = 8
MOST_LANES = 128  # a mask has 128 bits
MAX_REPEAT = 255
MAX_STRIDE = 255


def single_op(e: Expr, cast: bool) -> VectorOp:
    """Return the instruction that computes `e`. Raise UnsupportedError where there is none."""
    found = vector_op(e, cast)
    if found is None:
        raise UnsupportedError("not a single vector operation")
    return found


def words(em: Emitter, op: TileOp, cast: bool) -> list[VectorOp]:
    """Return the instructions of a block of one operation, in order: one, or two where the machine lacks that one."""
    work = single_op(op.block.value, cast)
    if work.name == "vaddrelu" and not em.machine.has(work.name):
        return [VectorOp("vadd", work.sources), VectorOp("vrelu", (op.block.target,))]
    return [work]


def lanes_of(size: int) -> int:
    """Return the elements of `size` bytes that a repeat takes: 256 bytes of them, and never more than 128."""
    return min(REPEAT_BYTES // size, MOST_LANES)


def run(em: Emitter, op: VectorOp, dst: tuple[str, Expr], srcs: list[tuple[str, Expr]], elements: Expr,
        broadcast: frozenset[str] = frozenset()) -> Item:
    """Return an operation on `elements` contiguous elements at the given offsets, with at most 255 repeats an instruction.

    `broadcast` names sources that are a single block, which is read again for every block.
    """
    wide = max(dtype_size(em.buffers[n]) for n, _ in [dst, *srcs])
    lanes = lanes_of(wide)
    v = em.fresh("rep")
    step = MAX_REPEAT * lanes
    total = ceildiv(elements, lanes)
    repeat = minimum(MAX_REPEAT, total - Var(v) * MAX_REPEAT)
    tail = minimum(lanes, elements - (Var(v) * MAX_REPEAT + repeat - 1) * lanes)
    fields: dict[str, Expr | Ref] = {}
    strides: dict[str, int] = {}
    names = operand_names(len(srcs))
    for name, (buffer, offset) in zip(names, [dst, *srcs]):
        fixed = buffer in broadcast and name != "dst"
        fields[name] = em.ref(buffer, offset if fixed else offset + Var(v) * step)
        strides[f"{name}_blk"] = 0 if fixed else 1
        strides[f"{name}_rep"] = 0 if fixed else lanes * dtype_size(em.buffers[buffer]) // 32
    return For(v, normalise(ceildiv(total, MAX_REPEAT)), (make(op, fields, tail, repeat, strides),))


def operand_names(sources: int) -> list[str]:
    return ["dst"] + (["src"] if sources == 1 else [f"src{i}" for i in range(sources)])


def make(op: VectorOp, operands: dict[str, Expr | Ref], lanes: Expr, repeat: Expr, strides: dict[str, Expr] | dict[str, int]) -> Instr:
    """Return the instruction with its fields in dictionary order: operands, scalar, lanes, repeat, block then repeat strides, mode."""
    scalar = {"scalar": Float(op.scalar)} if op.scalar is not None else {}
    ordered = {k: strides[k] for kind in ("blk", "rep") for k in strides if k.endswith(kind)}
    mode = {"mode": op.mode} if op.mode is not None else {}
    return instr(op.name, **operands, **scalar, lanes=lanes, repeat=repeat, **ordered, **mode)


def nest(loops: list[tuple[str, Expr]], inner: list[Item]) -> list[Item]:
    """Return `inner` within loops, outermost first."""
    for var, extent in reversed(loops):
        inner = [For(var, normalise(extent), tuple(inner))]
    return inner


def when(em: Emitter, condition: Expr, items: list[Item]) -> list[Item]:
    """Return the items in a loop of one iteration where the condition holds and of none where it does not. Where the condition is known,
    return the items without a loop, or nothing."""
    trips = normalise(select(condition, 1, 0))
    if isinstance(trips, Int):
        return items if trips == Int(1) else []
    return [For(em.fresh("when"), trips, tuple(items))]


def either_of(em: Emitter, condition: Expr, items: list[Item], others: list[Item]) -> list[Item]:
    """Return the items where the condition holds, and else the others."""
    return [*when(em, condition, items), *when(em, normalise(select(condition, 0, 1)), others)]


def one_of(em: Emitter, condition: Expr, items: list[Item], others: list[Item]) -> list[Item]:
    """Return what `either_of` returns, but with each branch in a loop of its own, whatever is known of the condition. It is for a
    condition that only holes decide: the program is then the same whether the holes are filled before it is emitted or after."""
    trips = [normalise(select(condition, *n)) for n in ((1, 0), (0, 1))]
    return [For(em.fresh("when"), n, tuple(own)) for n, own in zip(trips, (items, others))]


def product_sum(strides: dict[str, Expr], names: list[str]) -> Expr:
    out: Expr = Int(0)
    for v in names:
        out = out + Var(v) * strides[v]
    return out
