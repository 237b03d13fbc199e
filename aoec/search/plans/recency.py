"""What L2 holds between launches, as far as it matters to later ones.

L2 keeps what was touched last. A part of memory lies as deep as the bytes that were touched since. It is there as far as it lies within the
usable size. What no later step touches is left out, and what surely stays until it is touched for the last time has no depth. So rows of
launches that lead to equal contents have equal ones here.
"""
from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from aoec.search.plans.lattice import Edge, Lattice, Launch

STAYS = -1  # a depth that is never too deep
Held = tuple[tuple[str, int, int], ...]  # (part of memory, its bytes, its depth in bytes), the most recent first
State = tuple[tuple[str, int], ...]  # (operand of a func, bytes of it in L2), the oldest first


def state_of(held: Held, launch: Launch, usable: int) -> State:
    """Return what L2 holds of the operands of a launch, of `usable` bytes."""
    out: dict[str, int] = {}
    for piece, size, depth in reversed(held):
        there = size if depth == STAYS else min(size, usable - depth)
        for name in launch.readers.get(piece, ()) if there > 0 else ():
            out[name] = there + out.pop(name, 0)  # it is as young as its youngest part
    return tuple(out.items())


def touch(held: Held, edge: Edge, lattice: Lattice, usable: int) -> Held:
    """Return what L2 holds after a step."""
    sizes = edge.touches
    later, before, last = lattice.touched_later[edge.end], lattice.touched_before[edge.end], lattice.last_touch
    out: list[tuple[str, int, int]] = []
    depth = 0
    for piece, size in reversed(sizes.items()):
        if piece in later:
            out.append(_piece_at(piece, size, depth, before, last, usable))
        depth += size
    above = 0  # bytes of touched pieces that were more recent than the one at hand already
    for piece, size, was in held:
        if piece in sizes:
            above += sizes[piece]
        elif piece in later:
            now = STAYS if was == STAYS else was + depth - above
            if now < usable:
                out.append((piece, size, STAYS) if now == STAYS else _piece_at(piece, size, now, before, last, usable))
    return tuple(out)


def _piece_at(piece: str, size: int, depth: int, before: int, last: Mapping[str, int], usable: int) -> tuple[str, int, int]:
    """Return a part of memory with its depth, or without one where no path pushes it out before it is touched for the last time."""
    return piece, size, STAYS if depth + size + last[piece] - before <= usable else depth


def held_after(lattice: Lattice, row: Sequence[int], usable: int, wanted: Collection[str]) -> Held:
    """Return what a row of edges leaves in L2 of the `wanted` parts of memory."""
    recent: dict[str, int] = {}
    for n in row:
        for piece, size in lattice.edges[n].touches.items():
            recent.pop(piece, None)
            recent[piece] = size
    out, depth = [], 0
    for piece, size in reversed(recent.items()):
        if piece in wanted and depth < usable:
            out.append((piece, size, depth))
        depth += size
    return tuple(out)
