"""Rows of a few elements that lie one behind the other, of which columns are made, or that are made of columns."""
from __future__ import annotations

from collections.abc import Mapping

from aoec.ir.func.tir import Block
from aoec.ir.index import Expr, Int, Read, Var, affine

MOST = 16  # elements from one row to the next: longer ones are blocks of their own
GROUP = 256  # rows whose columns two turns of sixteen by sixteen make
BLOCK_BYTES = 32
LEAST_ROWS = 64  # for fewer, turns that are mostly empty cost as much as bursts of a row each


def takes_every_nth(block: Block) -> bool:
    """Return True where a block takes every n-th element of a run, for a small n."""
    value, lane = block.value, block.target.indices[-1] if block.target.indices else None
    if block.op != "=" or not isinstance(value, Read) or not isinstance(lane, Var) or not value.indices:
        return False
    parts = affine(value.indices[-1], frozenset((lane.name,)))
    step = parts[0].get(lane.name) if parts else None
    return isinstance(step, Int) and 1 < step.value <= MOST


def run_of(block: Block, extents: Mapping[str, int], size: int) -> str:
    """Return the buffer of many narrow rows of a block that swaps rows and columns, or "" where there is none. An element has `size`
    bytes. Where the block takes columns of such rows, the buffer is the one that it reads. Where it makes such rows from columns, the
    buffer is the one that it writes. Rows of whole blocks of 32 bytes do not count."""
    value, target = block.value, block.target
    if block.op != "=" or not isinstance(value, Read) or min(len(value.indices), len(target.indices)) < 2:
        return ""
    for rows, columns in ((value, target), (target, value)):
        far, near = rows.indices[-2:]
        if not (isinstance(far, Var) and isinstance(near, Var)) or far != columns.indices[-1]:
            continue
        across = extents.get(near.name, MOST)
        if across < MOST and across * size % 32 and extents.get(far.name, 0) >= LEAST_ROWS:
            return rows.buffer
    return ""


def copied_whole(block: Block, run: str, extents: Mapping[str, int], shape: tuple[Expr, ...], size: int) -> bool:
    """Return True for a copy between `run` and a tensor of a shape in which its rows, too, lie one behind the other: all of them, or whole
    blocks of elements of `size` bytes."""
    value, target = block.value, block.target
    if not isinstance(value, Read):
        return False
    own, there = (value.indices, target.indices) if value.buffer == run else (target.indices, value.indices)
    near = own[-1]
    if own[-1:] != there[-1:] or not isinstance(near, Var) or shape[-1:] != (Int(width := extents.get(near.name, 0)),):
        return False
    far = there[-2]
    if own[-2] == far:
        return True
    if not isinstance(far, Var):
        return False
    count, parts = extents.get(far.name, 0), affine(own[-2], frozenset((far.name,)))
    behind = parts is not None and parts[0].get(far.name) == Int(1)
    return behind and count * width * size % BLOCK_BYTES == 0 and shape[-2] == Int(count)
