"""Rows of a few elements that lie one behind the other: what takes every n-th element of a run, as a column of them is."""
from __future__ import annotations

from aoec.ir.index import Int, Read, Var, affine
from aoec.ir.tir import Block

MOST = 16  # elements of a row: longer ones are blocks of their own
GROUP = 256  # rows whose columns two turns of sixteen by sixteen make


def apart(block: Block) -> int:
    """How many elements of a run lie from one that a block takes to the next, where its lanes are a column of such rows; else 0."""
    value, lane = block.value, block.target.indices[-1] if block.target.indices else None
    if block.op != "=" or not isinstance(value, Read) or not isinstance(lane, Var) or not value.indices:
        return 0
    parts = affine(value.indices[-1], frozenset((lane.name,)))
    step = parts[0].get(lane.name) if parts else None
    return step.value if isinstance(step, Int) and 1 < step.value <= MOST else 0
