"""What MTE2 and MTE3 of one core lose to each other, where they share a bus."""
from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from aoec.ir.program import Program
from aoec.simulate.timing.reuse import Access, Flow, Rows
from aoec.target.machine import Machine


def bus_stretch(program: Program, machine: Machine, flows: Sequence[Flow], shares: Mapping[Access, Rows]) -> list[Rows]:
    """Return a factor (1 or more) on the cycles of each stream's transfers, for rows of hole values.

    A stream reads for r cycles and writes for w, each at its pipe's own rate, and moves b bytes. The two ways overlap and take max(r, w),
    unless the bus is slower: b / bus_bytes_per_cycle. So a copy at 58.6 bytes a cycle falls to 48 each way, and an addition of two tensors
    keeps its rate. This is as measured (vTriton mte_gm_to_ub on a 910B3: 48.4 in and 67.5 out, 96 together at most).
    """
    return [_stretch(machine, machine.core(stream.core).bus_bytes_per_cycle, [f for f in flows if f.access.stream == i], shares)
            for i, stream in enumerate(program.streams)]


def _stretch(machine: Machine, bus: float | None, flows: Sequence[Flow], shares: Mapping[Access, Rows]) -> Rows:
    if bus is None:
        return 1.0
    moved: Rows = 0.0
    cycles: list[Rows] = [0.0, 0.0]
    for f in flows:
        moved = moved + f.total
        cycles[f.access.writes] = cycles[f.access.writes] + f.total * _cycles_per_byte(machine, f.access.writes, shares[f.access])
    longer = np.maximum(*cycles)
    return np.maximum(1.0, np.where(longer > 0, moved / bus / np.where(longer > 0, longer, 1.0), 1.0))


def _cycles_per_byte(machine: Machine, writes: bool, hbm_share: Rows) -> Rows:
    """Return the cycles per byte of the path between GM and UB in that direction; 0 where there is no such path."""
    ends = ("UB", "GM") if writes else ("GM", "UB")
    path = next((p for p in machine.paths.values() if (p.source, p.target) == ends), None)
    return hbm_share / path.bytes_per_cycle + (1.0 - hbm_share) / path.l2_bytes_per_cycle if path else 0.0
