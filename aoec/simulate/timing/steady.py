"""What of a program's code the walk may skip where a loop goes round, and what it compares to know: rule 9 of kernels/timeline.py."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aoec.kernels import timeline as kernel

WORTH = 256  # operations that are walked in the time that it takes to find out that a loop is steady, about
SHORTEST = 2  # iterations that are walked anyway
FLAGS = (kernel.SET, kernel.WAIT, kernel.EARLY_SET, kernel.EARLY_WAIT)
CROSS = (kernel.CROSS_SET, kernel.CROSS_WAIT)


def used_in_loops(code: np.ndarray, forms: Sequence[Sequence[int]], loops: int, flag_ids: int) -> np.ndarray:
    """Return int64[loop, 5] for the bodies of loops. The numbers are the pipes that they use and the pairs of pipes, as bits; how many
    iterations are walked anyway; whether there are loops in the body; and how many are walked anyway by all cores that meet in it. `forms`
    gives the registers that flag ids read.

    All iterations are walked where one may do other things than the one before it, because a flag id depends on the loop's variable. A core
    that is walked alone walks all iterations also where other cores affect it through a cross flag.
    """
    used = np.zeros((max(1, loops), 5), np.int64)
    around: list[tuple[int, int]] = []  # loop, register
    uneven: set[int] = set()
    meeting: set[int] = set()
    for op, a, b, c in code.tolist():
        if op == kernel.LOOP:
            around.append((a, c))
        elif op == kernel.END:
            around.pop()
        elif op in (kernel.INSTR, *FLAGS, *CROSS):
            uneven |= {loop for loop, register in around if op != kernel.INSTR and register in forms[a]}
            meeting |= {loop for loop, _ in around if op in CROSS}
            for loop, _ in around:
                used[loop, :2] |= (1 << (b if op == kernel.INSTR else c), 1 << b // flag_ids if op in FLAGS else 0)
                used[loop, 2] += 1 if loop == around[-1][0] else WORTH  # an inner loop may be long
    used[:, 3] = used[:, 2] >= WORTH
    used[:, 2] = np.maximum(SHORTEST, WORTH // np.maximum(used[:, 2], 1))
    used[:, 4] = np.where(np.isin(np.arange(len(used)), list(meeting - uneven)), used[:, 2], kernel.NEVER)
    used[list(uneven | meeting), 2] = kernel.NEVER
    return used


def heard_registers(code: np.ndarray, forms: Sequence[Sequence[int]], streams: Sequence[int], registers: int) -> np.ndarray:
    """Return int8[stream, register]: 1 for registers of loops, and of counters that flag ids read. No time depends on other counters, which
    name slots.

    `streams` gives the stream of each operation of the code.
    """
    heard = np.zeros((max(streams) + 1, registers), np.int8)
    for (op, a, _, c), stream in zip(code.tolist(), streams):
        if op == kernel.LOOP:
            heard[stream, c] = 1
        elif op in (*FLAGS, *CROSS):
            heard[stream, forms[a]] = 1
    return heard
