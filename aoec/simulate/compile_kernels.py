"""Compiles a part of the kernels and keeps it on disk: `python -m aoec.simulate.compile_kernels walk`.

Numba compiles one function at a time in a process, so that two processes do it in half the time. What is compiled here is what the first
program that is timed, or run for values, would have compiled. An idle program stands for it: all programs have arrays of the same types.
"""
from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from aoec.ir.program import Program, Stream
from aoec.kernels import columns
from aoec.kernels import timeline as kernel
from aoec.simulate.encode.encode import encode
from aoec.simulate.encode.filling import Batch, Filler, Worker, filler_of
from aoec.simulate.encode.sizes import Array
from aoec.simulate.encode.tables import Tabulator
from aoec.simulate.reasons.detail import core_counts, fresh_state
from aoec.simulate.timing.state import COLD
from aoec.simulate.timing.totals import CLOSED
from aoec.simulate.values.arena import of_this_thread
from aoec.simulate.values.values import execute
from aoec.target.machine import load


def compile_walk() -> None:
    """Compile what walks the pipes of a core, and the kernels that fill tables."""
    t, s, _ = idle()
    kernel.address_of_walk(t, s)
    compile_tables()


def compile_tables() -> None:
    """Compile the kernels that fill tables of rows, by filling some."""
    machine = load()
    encoded = encode(idle_program(), machine)
    filler = filler_of(encoded, COLD, False, CLOSED, 1 << 30)
    assert isinstance(filler, Filler), "an idle program has a plan"
    ones = np.ones((1, len(encoded.starts)), np.int64)
    batch = Batch(filler, encoded, {}, 1, 1)
    batch.tables(Worker(filler, encoded, 1, ones, of_this_thread()), 0, 1)
    places, numbers = np.zeros(0, np.int32), np.zeros((1, 1), np.int64)
    columns.fill_ints(np.zeros((0, 3), np.int32), np.zeros((0, 4), np.int32), places, np.zeros(0, np.int64), places, places,
                  numbers[:0], np.zeros((1, columns.LANES), np.int64), numbers[:, :0].copy())


def compile_rows() -> None:
    """Compile what finds the times of rows, but for the walk, which it calls by its address."""
    t, s, cores = idle()
    one = np.zeros(1, np.int64)
    kernel.find_rows.compile_rest(t, s, kernel.TIMES, 0, 1, cores, cores, one.reshape(1, 1, 1), one.astype(np.int32), one)


def compile_values() -> None:
    """Compile what runs programs for values."""
    execute(idle_program(), {})


def idle_program() -> Program:
    """Return a program that does nothing on cores of the default machine."""
    machine = load()
    return Program("idle", machine.name, (), (), (Stream("idle", next(iter(machine.cores)), (), (), ()),), ())


def idle() -> tuple[kernel.Tables, kernel.State, Array]:
    """Return (tables of a row of an idle program, a state to walk them in, zeros for its core counts)."""
    encoded = encode(idle_program(), load())
    t = Tabulator(encoded, {}, 1, COLD).fill().tables
    return t, fresh_state(encoded, len(t.cursor_base), core_counts(encoded, t)), np.zeros(len(encoded.starts), np.int64)


PARTS: dict[str, Callable[[], None]] = {"walk": compile_walk, "rows": compile_rows, "values": compile_values}

if __name__ == "__main__":
    for name in sys.argv[1:]:
        PARTS[name]()
