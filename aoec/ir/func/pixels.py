"""Images whose few channels move together: planes in, pixels of some channels side by side out, sixteen elements to a row."""
from __future__ import annotations

from dataclasses import dataclass

from aoec.ir.func.tir import Block
from aoec.ir.index import Binary, Call, Expr, Int, Read, Var, is_zero, normalise

LANES = 16  # elements of a row
GROUP_ROWS = 64  # rows of four pixels that transpositions of 16 x 16 make together


@dataclass(frozen=True, slots=True)
class Pixels:
    """`target[.., u, l] = source[.., l % each, u * n + l // each]`, zero from channel `channels` on: lane l of row u holds a channel of
    one of its n = 16 / each pixels."""

    target: Read
    source: Read
    each: int
    channels: int


def pixels_of(block: Block) -> Pixels | None:
    """Return how a block makes pixels out of planes; None where it does something else."""
    value, guard = _split_guard(block.value)
    lane = block.target.indices[-1] if block.target.indices else None
    if block.op != "=" or value is None or min(len(value.indices), len(block.target.indices)) < 2 or not isinstance(lane, Var):
        return None
    channel, pixel = (normalise(i) for i in value.indices[-2:])
    if not (isinstance(channel, Binary) and channel.op == "%" and channel.left == lane and isinstance(channel.right, Int)):
        return None
    each = channel.right.value
    channels = each if guard is None else _limit(guard, channel)
    if not channels or LANES % each or normalise(pixel - lane // each - block.target.indices[-2] * (LANES // each)) != Int(0):
        return None
    return Pixels(block.target, value, each, channels)


def _split_guard(e: Expr) -> tuple[Read | None, Expr | None]:
    """Return (what is read, the condition beyond which it is zero)."""
    if isinstance(e, Call) and e.fn == "select" and is_zero(e.args[2]):
        return (e.args[1] if isinstance(e.args[1], Read) else None), e.args[0]
    return (e if isinstance(e, Read) else None), None


def _limit(guard: Expr, channel: Expr) -> int:
    """Return the number that a guard asks `channel` to be below; 0 where it asks something else."""
    if not (isinstance(guard, Binary) and guard.op == "<" and normalise(guard.left) == channel and isinstance(guard.right, Int)):
        return 0
    return guard.right.value
