"""Whole measures of a program with holes, row by row: what `time.measure` says of it filled, without filling it each time."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from aoec.base.process.processors import threads
from aoec.ir.index import evaluate
from aoec.ir.program import Program
from aoec.simulate.encode.encode import Encoded
from aoec.simulate.encode.sizes import Array
from aoec.simulate.encode.tables import first_false
from aoec.simulate.reasons.detail import walks
from aoec.simulate.reasons.reasons import reasons
from aoec.simulate.timing.state import COLD, State
from aoec.simulate.timing.time import Measure, measure_walk

SLAB = 128  # rows whose tables are made together, by one thread


def measure_rows(encoded: Encoded, rows: Mapping[str, Array], count: int, state: State = COLD) -> Iterator[Measure | int]:
    """Yield, for each of `count` rows of hole values, in order, its measure, or its status as in time.Times where it has none.

    The measures are modelled. They equal `measure` of the filled program, except that their reasons hold no single waits and instructions.
    """
    def some(start: int) -> list[Measure | int]:
        part = {name: values[start:start + SLAB] for name, values in rows.items()}
        return list(_slab(encoded, part, min(SLAB, count - start), state))

    starts = range(0, count, SLAB)
    with ThreadPoolExecutor(max(1, min(threads(), len(starts)))) as pool:  # the kernel holds no lock
        for found in pool.map(some, starts):
            yield from found


def _slab(encoded: Encoded, rows: Mapping[str, Array], count: int, state: State) -> Iterator[Measure | int]:
    status = first_false(encoded, rows, count)
    legal = np.flatnonzero(status == 0)
    walked = walks(encoded, {name: values[legal] for name, values in rows.items()}, len(legal), state) if len(legal) else iter(())
    for row in range(count):
        values = {name: int(column[row]) for name, column in rows.items()}
        done = None if status[row] else next(walked)
        wrong = int(status[row]) if done is None else done.status
        if done is None or wrong:
            yield wrong
        else:
            yield measure_walk(done, reasons(done, texts=False), values)


def used_bytes(program: Program, rows: Mapping[str, Array], count: int) -> dict[str, Array]:
    """Return int64[row] for each scope: where the last slot of its buffers ends, in bytes from its start."""
    out: dict[str, Array] = {}
    for s in program.spaces:
        end = np.broadcast_to(evaluate(s.address + s.size_bytes * s.depth, rows), (count,))
        out[s.scope] = np.maximum(out.get(s.scope, 0), end)
    return out

