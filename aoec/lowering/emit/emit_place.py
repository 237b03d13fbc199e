"""Addresses of local buffers: which of them share one, where each stands, and the capacity that a scope must have."""
from __future__ import annotations

from aoec.ir.func.tir import Buffer, Constraint
from aoec.ir.index import Expr, Int, Read, both, call, ceildiv, eq, ge, le, normalise, round_up
from aoec.ir.program import Space
from aoec.lowering.emit.tile import BLOCK_BYTES, SLOT_BYTES, Emitter, Home, dtype_size, size_bytes
from aoec.target.machine import Machine


def place(em: Emitter, groups: list[list[str]], machine: Machine) -> tuple[tuple[Space, ...], list[Constraint]]:
    """Return addresses of local buffers, group after group in each scope, and the capacity each scope must have."""
    spaces: list[Space] = []
    limits: list[Constraint] = []
    for scope in dict.fromkeys(em.buffers[g[0]].scope for g in groups):
        address: Expr = Int(0)
        here = sorted([g for g in groups if em.buffers[g[0]].scope == scope], key=lambda g: scope == "UB" and small(em.buffers[g[0]]))
        for members in here:
            sizes = [normalise(size_bytes(em.buffers[n], em.behind.get(n, Int(0)))) for n in members]
            first = em.buffers[members[0]]
            start = align_up(address, first.align) + first.skew
            for n, s in zip(members, sizes):
                b = em.buffers[n]
                spaces.append(Space(n, b.dtype, scope, normalise(start), s, b.depth))
            address = start - first.skew + round_up(first.skew, SLOT_BYTES) + maximum_of(sizes) * first.depth
            limits += placeable(first)
        capacity = machine.scope(scope).size_bytes
        limits.append(Constraint(le(address, capacity), f"{scope} holds {capacity} bytes: {', '.join(g[0] for g in here)} need more; "
                                                        "use smaller tiles or fewer slots"))
    return tuple(spaces), limits


def small(b: Buffer) -> bool:
    """Return whether a buffer does not grow with the rows of a tile. It is placed behind all others, in a bank that seldom holds
    results."""
    return few(b) or len(b.shape) == 1


def few(b: Buffer) -> bool:
    """Return True for a buffer of one element a row, and of one instruction alone: it does not open a place that whole rows would share."""
    return b.shape[-1] == Int(1) or b.name.startswith("scratch_") and len(b.shape) == 1


def requested_place(b: Buffer) -> tuple[Expr, Expr]:
    """Return where the schedule wants a buffer. Only buffers of one place share an address."""
    return b.align, b.skew


def align_up(address: Expr, unit: Expr) -> Expr:
    """Return the next multiple of `unit` bytes from an address on."""
    return address if unit == Int(1) else ceildiv(address, unit) * unit


def placeable(b: Buffer) -> list[Constraint]:
    """Return the constraints on a buffer's stated place: it is whole blocks, and the slots keep it (their sizes are multiples of a
    period)."""
    if (b.align, b.skew) == (Int(1), Int(0)):
        return []
    blocks = both(eq(b.align % BLOCK_BYTES, 0), eq(b.skew % BLOCK_BYTES, 0))
    return [Constraint(both(blocks, both(ge(b.align, BLOCK_BYTES), ge(b.skew, 0))),
                       f"{b.name} must start on a block: align and skew are multiples of {BLOCK_BYTES} bytes")]


def maximum_of(sizes: list[Expr]) -> Expr:
    distinct = list(dict.fromkeys(sizes))
    return distinct[0] if len(distinct) == 1 else call("max", *distinct)


def share(em: Emitter, homes: dict[str, Home], order: dict[str, list[int]], flagged: list[str]) -> list[list[str]]:
    """Return groups of buffers that share an address. They are UB buffers of one slot that only one pipe touches, in one home. Their lives
    there do not overlap. Or they meet in one operation that may be done in place, and is then done so.

    Liveness decides, never size. Buffers are taken in the order in which their lives begin, so that as few places as possible serve all."""
    groups: list[list[str]] = []
    others = [b.name for b in em.scratch if b.name not in homes]
    for n in [*sorted(homes, key=lambda name: order.get(name, [0])[0]), *others]:
        lone = n in order and em.buffers[n].scope == "UB" and n not in flagged and em.buffers[n].depth == Int(1)
        fits = [g for g in groups if lone and g[0] in order and g[0] not in flagged and em.buffers[g[0]].scope == "UB"
                and homes[g[0]] == homes[n] and requested_place(em.buffers[g[0]]) == requested_place(em.buffers[n])
                and few(em.buffers[g[0]]) == few(em.buffers[n])
                and all(order[m][-1] < order[n][0] + ((n, m) in em.along) for m in g)]
        if fits:
            next((g for g in fits if (n, g[-1]) in em.along), fits[0]).append(n)
        else:
            groups.append([n])
    return groups


def in_place(em: Emitter, operands: list[Read]) -> None:
    """Note which buffers an operation reads element by element at the indices that it writes, so that one place may hold both."""
    target = operands[0]
    size, shape = dtype_size(em.buffers[target.buffer]), em.buffers[target.buffer].shape
    elsewhere = {r.buffer for r in operands[1:] if r.indices != target.indices}
    em.along.update((target.buffer, r.buffer) for r in operands[1:] if r.buffer not in elsewhere
                    and dtype_size(em.buffers[r.buffer]) == size and em.buffers[r.buffer].shape == shape)
