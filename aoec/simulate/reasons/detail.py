"""Programs walked once with probes, filled or row by row: where the time of every pipe went, and every instruction of chosen cores."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from aoec.base.errors import CheckError
from aoec.base.process.stop import ask_again, catch_interrupts, most_steps, stop_flag, too_long
from aoec.kernels import timeline as kernel
from aoec.simulate.encode.encode import Encoded
from aoec.simulate.encode.sizes import Array
from aoec.simulate.encode.tables import Filled, Tabulator, queues
from aoec.simulate.timing.state import State


@dataclass(frozen=True)
class Told:
    """Where the time of a walk went, in ticks.

    `spent` [stream, pipe, kind] (kernel.BUSY, ...) is of the core that ends last, `sum_spent` of all cores. `at` [stream, place, (ticks,
    times)] is how long and how often something was held or busy at a place of the code, on the core that ends last. `ends` [stream, 3] is
    the end of that core, its index, and the sum of the ends of all. `uses` [entry] is how often costs were charged, over all cores.
    `operations` counts those of one core of each class: in all, and those walked one by one (the others are in skipped iterations).
    """

    spent: Array
    sum_spent: Array
    at: Array
    ends: Array
    uses: Array
    operations: Array


@dataclass
class Walked:
    """One walk of a filled program, or of one row of hole values; where `status` is not 0 (as in time.Times) it has no times.

    `moved_bytes`: [site, (hbm, l2)] over all cores; `cores` by stream. `state` is that of the latest walk of several.
    """

    encoded: Encoded
    filled: Filled
    status: int
    ticks: int
    cores: Array
    told: Told
    state: kernel.State
    probed: kernel.Tables
    row: int = 0

    @property
    def moved_bytes(self) -> Array:
        """Return bytes [site, (hbm, l2)] over all cores."""
        out = np.zeros((len(self.encoded.sites), 2))
        if self.encoded.sites:
            used = np.flatnonzero(self.told.uses)
            np.add.at(out, self.filled.site_of[used], self.filled.moved[used] * self.told.uses[used, None])
        return out

    def log(self, stream: int, core: int, limit: int) -> tuple[Array, int]:
        """Return the first `limit` events of a core (kernel.EVENT_COLUMNS, then registers) and how many it has; cores as in the program."""
        count = self._log(stream, core, 0)
        self._log(stream, core, min(count, limit))
        return self.state.log, count

    def _log(self, stream: int, core: int, rows: int) -> int:
        """Return how many events a core has; the first of them are in the log."""
        streams, members, sizes, watched = self.group(stream, core)
        self.state = self.state._replace(log=np.zeros((rows, self.state.log.shape[1]), np.int64))
        whole = self.probed._replace(used=np.full_like(self.probed.used, kernel.NEVER))  # skips no iteration
        self.state.logged[:] = watched, 0
        status = walk_again(whole, self.state, self.row, streams, members, sizes)
        if status == kernel.TOO_LONG:
            raise CheckError(too_long(self.encoded.program.name, most_steps()))
        assert status == 0, "a program that was walked can be walked again"
        count, self.state.logged[0] = int(self.state.logged[1]), -1
        return count

    def group(self, stream: int, core: int) -> tuple[Array, Array, Array, int]:
        """Return (streams and cores of those that a core meets, how many of each stream, the core's place among them)."""
        if not self.encoded.joined:
            return np.array([stream]), np.array([core]), np.ones(len(self.cores), np.int64), 0
        sizes = self.cores // self.cores.min()
        number = core // sizes[stream]
        streams = np.repeat(np.arange(len(sizes)), sizes)
        cores = np.concatenate([number * n + np.arange(n) for n in sizes])
        return streams, cores, sizes, int(np.flatnonzero((streams == stream) & (cores == core))[0])


def walk(encoded: Encoded, state: State) -> Walked:
    """Return the walk of a filled program whose constraints hold."""
    return next(walks(encoded, {}, 1, state))


def walks(encoded: Encoded, rows: Mapping[str, Array], count: int, state: State) -> Iterator[Walked]:
    """Yield the walk of each of some rows of hole values for which all constraints hold: the tables of all are made once."""
    filled = Tabulator(encoded, rows, count, state, detail=True).fill()
    cores = core_counts(encoded, filled.tables)
    code, starts = encoded.add_probes()
    t = filled.tables
    probed = t._replace(code=code, flat=code.ravel(), starts=starts)
    s = fresh_state(encoded, len(t.cursor_base), cores, len(encoded.code), len(t.cost) // kernel.COST)
    for row in range(count):
        ticks, sizes = np.zeros((count, 1, 1), np.int64), np.zeros(cores.shape[1], np.int64)
        find_rows(t, s, kernel.TIMES, row, row + 1, sizes.copy(), sizes, ticks, filled.status, np.full(count, kernel.NEVER))
        status = int(filled.status[row])
        told = nothing_told(cores.shape[1], s) if status else tell(probed, s, sizes, row)
        yield Walked(encoded, filled, status, int(ticks[row, 0, 0]), cores[row], told, s, probed, row)


def nothing_told(streams: int, s: kernel.State) -> Told:
    """Return zeros."""
    spent = np.zeros((streams, *s.spent.shape[1:]), np.int64)
    return Told(spent, spent.copy(), np.zeros((streams, *s.at.shape[1:]), np.int64), np.zeros((streams, 3), np.int64),
                np.zeros(s.uses.shape[1], np.int64), np.zeros(2, np.int64))


def tell(probed: kernel.Tables, s: kernel.State, sizes: Array, row: int) -> Told:
    """Return where the time went: all classes walked once more, with probes, under the epochs that `s` keeps of the first walk."""
    told, g = nothing_told(len(sizes), s), s.groups
    for k in range(int(g.classes[0])):
        walk_again(probed, s, row, g.stream_of[k], g.core_of[k], sizes)
        for m in range(len(s.pc)):
            tell_core(told, s, m, int(g.stream_of[k, m]), int(g.core_of[k, m]), int(g.weight[k]))
    return told


def walk_again(t: kernel.Tables, s: kernel.State, row: int, streams: Array, cores: Array, sizes: Array) -> int:
    """Return 0, or an error of the kernel: cores that meet, which are of these streams and number `cores` in them, are walked once more
    under the epochs that `s` keeps; `sizes`: how many of each stream there are."""
    status, group, watched = np.zeros(row + 1, np.int32), np.stack([streams, cores])[None], int(s.logged[0])

    def afresh() -> None:
        for zero in (s.spent, s.at, s.uses, s.probed):
            zero[:] = 0
        s.logged[:] = watched, 0

    find_rows(t, s, kernel.AGAIN, row, row + 1, sizes, sizes, group, status, np.full(row + 1, kernel.NEVER), afresh)
    return int(status[row])


def find_rows(t: kernel.Tables, s: kernel.State, what: int, first: int, last: int, cores: Array, sizes: Array, out: Array, status: Array,
              limits: Array, afresh: Callable[[], None] = lambda: None) -> None:
    """Let the kernel find what is asked of rows first .. last - 1. Ctrl-C ends it. Where Python's handler of that raises nothing, the rows
    are begun anew, and `afresh` is called before."""
    with catch_interrupts():
        while True:
            afresh()
            kernel.find_rows(t, s, what, first, last, cores, sizes, out, status, limits)
            if not begun_anew(status[first:last]):
                return
            ask_again()


def begun_anew(status: Array) -> bool:
    """Return whether rows were stopped; they have the status 0 again then."""
    stopped = status == kernel.STOPPED
    status[stopped] = 0
    return bool(stopped.any())


def tell_core(told: Told, s: kernel.State, m: int, stream: int, core: int, weight: int) -> None:
    """Add what probes saw of core m of a group, which stands for `weight` equal cores."""
    end = max(int(s.free[m].max()), int(s.done[m].max()))
    told.ends[stream, 2] += end * weight
    if end > told.ends[stream, 0]:
        told.ends[stream, :2] = end, core
        told.at[stream], told.spent[stream] = s.at[m], s.spent[m]
    told.sum_spent[stream] += s.spent[m] * weight
    told.uses[:] += s.uses[m] * weight
    told.operations[:] += s.at[m, :, 1].sum(), s.probed[m]


def fresh_state(encoded: Encoded, cursors: int, cores: Array, places: int = 0, entries: int = 1, room: Any = np) -> kernel.State:
    """Return arrays for one thread that walks tables, for rows with such core counts; with probes where `places` is the length of the code.
    They are made by `room`, which has NumPy's `zeros` and `empty`."""
    legal = cores[((cores >= 1) & (cores <= kernel.MAX_CORES)).all(axis=1)]
    most = int(legal.sum(axis=1).max()) if len(legal) else 1
    together = int((legal.sum(axis=1) // legal.min(axis=1)).max()) if len(legal) and encoded.joined else 1
    return kernel.make_state(
        most, together, encoded.pairs, encoded.machine.flag_ids, encoded.registers, max(1, len(encoded.loops)), cursors,
        entries if places else 1, len(encoded.starts), int(queues(encoded).max()), encoded.machine.cross_ids if encoded.joined else 1,
        encoded.machine.cross_count, len(encoded.forms), places, room=room, stop=stop_flag, most_steps=most_steps())


def core_counts(encoded: Encoded, t: kernel.Tables) -> Array:
    """Return cores [row, stream]."""
    extent = t.extent[t.work]
    return np.stack([np.prod(extent[:, t.axis_start[s]:t.axis_start[s + 1]], axis=1) for s in range(len(encoded.starts))], axis=1)
