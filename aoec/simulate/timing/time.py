"""Program -> cycles on the model machine, for one set of hole values or a whole matrix of them; and a model's timeline.

Times are *modelled*. The rules are in kernels/timeline.py, the costs in the machine file.
"""
from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import pairwise
from threading import local
from typing import Any

import numpy as np

from aoec.base.errors import CheckError
from aoec.base.process.processors import threads as at_once
from aoec.base.process.stop import OPTION, ask_again, catch_interrupts, wait_for_all
from aoec.ir.program import Program
from aoec.kernels import timeline as kernel
from aoec.simulate.encode.encode import Encoded, encode
from aoec.simulate.encode.filling import Batch, Filler, Worker, filler_of, grid_cores
from aoec.simulate.encode.sizes import VARIES, Array
from aoec.simulate.encode.tables import DEPTH_RANGE, TICKS, Filled, Tabulator, first_false
from aoec.simulate.reasons.detail import Walked, begun_anew, core_counts, fresh_state, walk
from aoec.simulate.reasons.reasons import Reasons, reasons
from aoec.simulate.reasons.verdict import Verdict, verdict
from aoec.simulate.timing.state import COLD, State, after, footprint_bytes
from aoec.simulate.timing.totals import CLOSED, Opened
from aoec.simulate.values.arena import of_this_thread
from aoec.target.isa.instructions import added_to
from aoec.target.machine import Machine

BATCH_BYTES = 8e6  # of the value tables of one batch; temporaries take about twice that again
FIRST_BATCH = 256
OF_FIRST = (kernel.ALONE, kernel.WORK, kernel.ENDS)  # that ask only for what the first core of each stream does
ABANDONED = kernel.ABANDONED  # the status of a row that was not timed to its end
ERRORS = {
    kernel.SET_ON_SET: "a flag is set while it is still set; wait for it before setting it again",
    kernel.WAIT_WITHOUT_SET: "a flag is waited for and no earlier set stands in the stream",
    kernel.LEFT_SET: "a flag is left set at the end; drain it with a wait",
    kernel.DEADLOCK: "the streams wait for each other for ever, or for more cross flags than a counter holds",
    kernel.FLAG_RANGE: "a flag id is below zero or beyond the machine's ids",
    kernel.UNPAIRED: "the core counts of streams that meet are no multiples of each other",
    kernel.CORE_RANGE: "a grid axis has no cores or too many",
    VARIES: "a size varies with a loop in other than its first and last iteration",
    DEPTH_RANGE: "a counter's depth is below one",
    ABANDONED: "it takes longer than the best that is known",
    kernel.TOO_LONG: f"it takes longer than is counted, or more steps than may be walked; {OPTION} N allows more of these",
}


@dataclass(frozen=True)
class Times:
    """Per row: ticks of the walk and of the launch (1/1024 cycle), and a status.

    Status 0: timed; n > 0: constraint n - 1 is false; below zero: a key of ERRORS. Ticks are 0 where the status is not, and
    all of a row is 0 where a constraint is false.
    """

    ticks: Array
    launch_ticks: Array
    status: Array
    cores: Array  # [row, stream]

    @property
    def total_ticks(self) -> Array:
        """Return the ticks of launch and walk, which a search minimises."""
        return self.ticks + self.launch_ticks

    def reason(self, row: int, program: Program) -> str:
        """Return why a row was not timed, in a sentence; empty where it was."""
        return why_not(int(self.status[row]), program)


@dataclass(frozen=True)
class Measure:
    """The modelled time of a filled program from a stated memory state.

    `cycles` is from the first instruction to the end of the last core. `time_us` includes the launch, and the zeros of outputs that are
    added to. `busy_cycles` is by pipe, of the core that ends last (of each stream: `stream.pipe` where there are several). `bytes_by_path`
    counts what crosses GM, over all cores. `bound_by` is the busiest pipe, or launch. `reasons` and `verdict` say where the time went.
    """

    cycles: float
    ticks: int
    time_us: float
    launch_us: float
    cores: int
    busy_cycles: dict[str, float]
    bound_by: str
    bytes_by_path: dict[str, float]
    hbm_bytes: float
    l2_bytes: float
    streams: int = 1
    reasons: Reasons | None = None
    verdict: Verdict | None = None

    @property
    def run_us(self) -> float:
        """Return microseconds without the launch: the zeros of what is added to, and the run."""
        return self.time_us - self.launch_us


def time_rows(encoded: Encoded, rows: Mapping[str, Array], state: State = COLD, limit: int | Array = kernel.NEVER) -> Times:
    """Return times of a program for every row of hole values: `rows` maps each hole to an int64 column (no holes: one row).

    Rows are independent: their order, number and neighbours change nothing. Rows whose total is `limit` ticks or more (one for all, or one
    each) may be ABANDONED.
    """
    columns, count = columns_of(encoded, rows)
    status = first_false(encoded, columns, count)
    legal = np.flatnonzero(status == 0)  # no tables are made for the others
    found = found_rows(encoded, {n: v[legal] for n, v in columns.items()}, np.broadcast_to(limit, count)[legal], kernel.TIMES, state)
    return join_times([found], legal, status)


def columns_of(encoded: Encoded, rows: Mapping[str, Array]) -> tuple[dict[str, Array], int]:
    """Return (int64 columns by hole, rows)"""
    columns = {name: np.atleast_1d(np.asarray(v, np.int64)) for name, v in rows.items()}
    _check_given(encoded, columns)
    counts = {len(v) for v in columns.values()} or {1}
    if len(counts) > 1:
        raise CheckError(f"columns of hole values have different lengths: {sorted(counts)}")
    return columns, counts.pop()


def found_rows(encoded: Encoded, rows: dict[str, Array], limits: Array, what: int, state: State, lenient: bool = False,
               opened: Opened = CLOSED, shape: tuple[int, ...] = ()) -> Times:
    """Return what the kernel finds of rows. Each row has a limit of its own, which includes the launch. `what` is kernel.TIMES or a number
    like it. `shape` is the shape of the ticks of a row. A plan fills the tables where the program has one. Without a plan, and for rows in
    which a size varies as the plan cannot say, tables are made by NumPy."""
    if not len(limits):
        return _none(encoded, shape)
    filler = filler_of(encoded, state, lenient, opened, len(limits), what in OF_FIRST)
    if filler is None:
        return _slowly(encoded, rows, limits, what, state, lenient, opened, shape)
    times = _time_by_plan(encoded, filler, rows, limits, what, shape)
    left = np.flatnonzero(times.status == VARIES)
    if len(left):
        again = _slowly(encoded, {n: v[left] for n, v in rows.items()}, limits[left], what, state, lenient, opened, shape)
        for column in fields(Times):
            getattr(times, column.name)[left] = getattr(again, column.name)
    return times


def _slowly(encoded: Encoded, rows: dict[str, Array], limits: Array, what: int, state: State, lenient: bool, opened: Opened,
            shape: tuple[int, ...]) -> Times:
    """Return what a kernel finds of rows whose tables NumPy makes, in parts whose tables take about BATCH_BYTES."""
    parts: list[Times] = []
    start, size = 0, FIRST_BATCH
    while start < len(limits):
        stop = min(start + size, len(limits))
        part = {n: v[start:stop] for n, v in rows.items()}
        filled = Tabulator(encoded, part, stop - start, state, lenient=lenient, opened=opened).fill()
        found, row_bytes = _batch(encoded, part, filled, what, limits[start:stop], shape)
        parts.append(found)
        start, size = stop, max(1, int(BATCH_BYTES / max(row_bytes, 1)))
    return join_times(parts, np.arange(len(limits)), np.zeros(len(limits), np.int32))


def _time_by_plan(encoded: Encoded, filler: Filler, rows: dict[str, Array], limits: Array, what: int, shape: tuple[int, ...]) -> Times:
    """Time rows whose tables a plan fills, some hundred at once, on all processors."""
    count, threads = len(limits), os.cpu_count() or 1
    batch, cores = Batch(filler, encoded, rows, count, threads), grid_cores(encoded, rows, count)
    launch = launch_ticks(encoded, cores, rows)
    limits, ticks, status = _behind(limits, launch)[batch.order], np.zeros((count, *shape), np.int64), batch.statuses(DEPTH_RANGE)
    streams, mine = len(encoded.starts), local()

    def run(part: tuple[int, int]) -> bool:
        if not hasattr(mine, "worker"):
            mine.worker = Worker(filler, encoded, batch.most, cores, of_this_thread())
        own, t, uneven = batch.tables(mine.worker, *part)
        status[own][(status[own] == 0) & uneven] = VARIES
        zeros = np.zeros((2, streams), np.int64)
        kernel.find_rows(t, mine.worker.state, what, 0, len(t.work), zeros[0], zeros[1], pages(ticks[own]), status[own], limits[own])
        return begun_anew(status[own])

    _each(run, batch.parts, threads)
    return Times(batch.back(ticks), launch, batch.back(status), cores)


def pages(ticks: Array) -> Array:
    """Return what a kernel fills of each row as [row, i, pipe], or [row, 0, 0], in the same memory."""
    return ticks.reshape(len(ticks), -1, ticks.shape[-1] if ticks.ndim > 1 else 1)


def _check_given(encoded: Encoded, given: Collection[str]) -> None:
    """Raise CheckError where a hole has no value."""
    for name in encoded.holes:
        if name not in given:
            raise CheckError(f"program {encoded.program.name}: nothing gives a value to {name}; give one for every hole")


def _batch(encoded: Encoded, rows: Mapping[str, Array], filled: Filled, what: int, limits: Array,
           shape: tuple[int, ...]) -> tuple[Times, float]:
    """Return what a kernel finds of some rows, each with a limit of its own with launch, and the bytes that a row's tables take."""
    t, streams, count = filled.tables, len(encoded.program.streams), len(limits)
    cores = core_counts(encoded, t)
    status, ticks, launch = filled.status, np.zeros((count, *shape), np.int64), launch_ticks(encoded, cores, rows)
    limits = _behind(limits, launch)

    def run(first: int, last: int) -> bool:
        s = fresh_state(encoded, len(t.cursor_base), cores[first:last])
        kernel.find_rows(t, s, what, first, last, *np.zeros((2, streams), np.int64), pages(ticks), status, limits)
        return begun_anew(status[first:last])

    _share(run, count)
    return Times(ticks, launch, status, cores), _row_bytes(t)


def _row_bytes(t: kernel.Tables) -> float:
    """Return bytes that the tables of a row take."""
    return float(t.cost.nbytes + t.entry_of.nbytes + t.place.nbytes + t.merge.nbytes + t.trips.nbytes) / len(t.work)


def zeroing_us(program: Program, machine: Machine, rows: Mapping[str, Any]) -> Any:
    """Return the µs that go by before a program that adds to its outputs. A task of its own fills them with zeros. It takes their bytes at
    the chip's rate to HBM, and the gap of the queue between two tasks. It is 0 for a program that adds nothing."""
    names = added_to(program)  # once, not for each tensor: every batch of a search asks
    added = [t for t in program.tensors if t.name in names]
    size = sum((footprint_bytes(t, rows) for t in added), 0)
    return size / machine.hbm_bytes_per_cycle / machine.clock_mhz + machine.queue_gap_us if added else 0.0


def launch_ticks(encoded: Encoded, cores: Array, rows: Mapping[str, Array]) -> Array:
    """Return ticks before a row's first instruction: launch, and where it adds to its outputs their zeros."""
    launch_us = encoded.machine.launch_us(cores.sum(axis=1), len(encoded.program.streams))
    if encoded.adds:
        launch_us = launch_us + zeroing_us(encoded.program, encoded.machine, rows)
    ticks: Array = np.rint(launch_us * encoded.machine.clock_mhz * TICKS).astype(np.int64)
    return ticks


def _behind(limits: Array, launch: Array) -> Array:
    """Return limits of what comes behind the launch; no limit stays none."""
    return np.where(limits == kernel.NEVER, limits, limits - launch)


def _share(run: Callable[[int, int], bool], count: int) -> None:
    """Call run(first, last) over all rows, on as many threads as there are processors (the kernel holds no lock)."""
    threads = min(os.cpu_count() or 1, max(1, count // 16))
    cuts = [count * i // (threads * 4) for i in range(threads * 4 + 1)] if threads > 1 else [0, count]
    _each(lambda part: run(*part), list(pairwise(cuts)), threads)


def _each(run: Callable[[tuple[int, int]], bool], parts: Sequence[tuple[int, int]], threads: int) -> None:
    """Call run(part) for each part, on so many threads at most. This thread is one of them, and they take no more than a worker's share of
    the processors. Parts that run says were stopped are run once more, unless Ctrl-C ends all."""
    with catch_interrupts():
        while parts:
            parts = _run_parts(run, parts, threads)
            if parts:
                ask_again()


def _run_parts(run: Callable[[tuple[int, int]], bool], parts: Sequence[tuple[int, int]], threads: int) -> list[tuple[int, int]]:
    """Call run(part) for each part, on several threads. Return the parts that it says were stopped."""
    todo: Iterator[tuple[int, int]] = iter(parts)
    left: list[tuple[int, int]] = []

    def work() -> None:
        for part in todo:
            if run(part):
                left.append(part)

    others = [_pool().submit(work) for _ in range(min(threads, at_once(), len(parts)) - 1)]
    try:
        work()
    finally:
        wait_for_all(others)
    for other in others:
        other.result()
    return left


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    """Return the threads for all batches of this process. Starting them took as long as a small batch."""
    return ThreadPoolExecutor(os.cpu_count() or 1, "times")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a child has none of its parent's threads


def _none(encoded: Encoded, shape: tuple[int, ...]) -> Times:
    """Return the times of no rows."""
    none = np.zeros(0, np.int64)
    return Times(np.zeros((0, *shape), np.int64), none, none, np.zeros((0, len(encoded.program.streams)), np.int64))


def join_times(parts: list[Times], legal: Array, status: Array) -> Times:
    """Return the parts, which hold the legal rows in order, among all rows; what is not legal took no time."""
    joined: dict[str, Any] = {}
    for name in (f.name for f in fields(Times)):
        values = [getattr(p, name) for p in parts]
        some = np.concatenate(values)
        joined[name] = status.copy() if name == "status" else np.zeros((len(status), *some.shape[1:]), some.dtype)
        joined[name][legal] = some
    return Times(**joined)


def measure(program: Program, machine: Machine, state: State = COLD) -> Measure:
    """Return the modelled time of a filled program. CheckError where it cannot be timed, with the reason."""
    walked = checked_walk(program, machine, state)
    return measure_walk(walked, reasons(walked), {})


def measure_walk(walked: Walked, why: Reasons, values: Mapping[str, int]) -> Measure:
    """Return the measure of a walk whose holes, if any, have these values."""
    program, machine = walked.encoded.program, walked.encoded.machine
    cores = int(walked.cores.sum())
    cycles, launch_us = walked.ticks / TICKS, machine.launch_us(cores, len(program.streams))
    run_us, zeros_us = cycles / machine.clock_mhz, zeroing_us(program, machine, values)
    busy = {p: a.busy + a.memory for p, a in why.accounts.items() if p.rpartition(".")[2] != "S" and a.busy + a.memory}
    paths = why.bytes_by_path
    return Measure(
        cycles, walked.ticks, run_us + launch_us + zeros_us, launch_us, cores, busy, _bound_by(busy, launch_us * machine.clock_mhz),
        {p: b["hbm"] + b["l2"] for p, b in paths.items()}, sum(b["hbm"] for b in paths.values()), sum(b["l2"] for b in paths.values()),
        len(program.streams), why, verdict(why, launch_us, run_us, machine))


def checked_walk(program: Program, machine: Machine, state: State) -> Walked:
    """Return the walk of a filled program, for where its time went. CheckError where it cannot be timed, with the reason."""
    encoded = encode(program, machine)
    _check_given(encoded, ())
    status = int(first_false(encoded, {}, 1)[0])
    if not status:
        walked = walk(encoded, state)
        if not walked.status:
            return walked
        status = walked.status
    raise CheckError(f"program {program.name}: {why_not(status, program)}")


def why_not(status: int, program: Program) -> str:
    """Return why a row was not timed, in a sentence; empty where it was."""
    if status > 0:
        return f"not legal: {program.constraints[status - 1].reason}"
    return ERRORS[status] if status < 0 else ""


def _bound_by(busy: Mapping[str, float], launch_cycles: float) -> str:
    pipe = max(busy, key=lambda p: busy[p], default="launch")
    return pipe if busy.get(pipe, 0.0) >= launch_cycles else "launch"


@dataclass(frozen=True)
class Chain:
    """A model as one timeline. `latency_us` is the time of one inference, `throughput_us` the time between inferences back to back, and
    `sum_us` the sum of the isolated times. The chain also says when each program starts and ends in the first inference. `steady_us` says
    the same of a later inference, from the end of the one before."""

    latency_us: float
    throughput_us: float
    sum_us: float
    spans_us: tuple[tuple[float, float], ...]
    steady_us: tuple[tuple[float, float], ...]


def chain(measures: Sequence[Measure], machine: Machine, steady: Sequence[Measure] | None = None) -> Chain:
    """Return the timeline of programs in order, launched from a task queue.

    The host enqueues task i at i * enqueue_us, ahead of the device. A task that finds the device free pays its whole launch; one
    that waits behind another has had it prepared meanwhile and pays the gap of the queue, no more than its launch:
    start = max(enqueued + launch, end of the one before + min(gap, launch)). `steady` are the measures of a later inference,
    in the states that the earlier one leaves (default: the same); throughput is the time between two ends of it.
    """
    spans = _spans(measures, machine, 0, 0.0)
    again = list(steady if steady is not None else measures)
    sum_us = sum(m.time_us for m in measures)
    if not spans:
        return Chain(0.0, 0.0, 0.0, (), ())
    second = _spans(again, machine, len(measures), spans[-1][1])
    end = second[-1][1]
    third = tuple((start - end, stop - end) for start, stop in _spans(again, machine, len(measures) + len(again), end))
    return Chain(spans[-1][1], third[-1][1], sum_us, tuple(spans), third)


def _spans(measures: Sequence[Measure], machine: Machine, enqueued: int, end: float) -> list[tuple[float, float]]:
    """Return (start, end) of tasks after `enqueued` others of which the last ended at `end`."""
    spans = []
    for i, m in enumerate(measures, enqueued):
        ready = i * machine.enqueue_us + m.launch_us
        start = max(ready, end + min(machine.queue_gap_us, m.launch_us)) if i else ready
        end = start + m.run_us
        spans.append((start, end))
    return spans


def measure_chain(programs: Sequence[Program], machine: Machine, state: State = COLD,
                  names: Sequence[Mapping[str, str]] | None = None) -> tuple[list[Measure], State]:
    """Return the measures of filled programs in order, each in the state that those before leave, and the state after the last.

    `names[i]` renames the tensors of program i to those of the model, by which the state knows them.
    """
    measures, table = [], names or [{}] * len(programs)
    for program, rename in zip(programs, table, strict=True):
        back = {new: old for old, new in rename.items()}
        measures.append(measure(program, machine, tuple((back.get(n, n), size) for n, size in state)))
        state = after(program, state, machine, rename)
    return measures, state
