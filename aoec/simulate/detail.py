"""A filled program walked once with probes: where the time of every pipe went, and every instruction of chosen cores."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aoec.kernels import timeline as kernel
from aoec.simulate.encode import Encoded
from aoec.simulate.state import State
from aoec.simulate.tables import Array, Filled, Tabulator


@dataclass
class Walked:
    """One walk of a filled program; where `status` is not 0 (as in time.Times) it has no times.

    `told`: see kernel.Told, in ticks; `moved` bytes [site, (hbm, l2)] over all cores; `cores` by stream.
    """

    encoded: Encoded
    filled: Filled
    status: int
    ticks: int
    cores: Array
    told: kernel.Told
    state: kernel.State
    probed: kernel.Tables
    members: int

    @property
    def moved(self) -> Array:
        """Bytes [site, (hbm, l2)] over all cores."""
        out = np.zeros((len(self.encoded.sites), 2))
        for entry, site in enumerate(self.filled.site_of if self.encoded.sites else ()):
            out[site] += self.filled.moved[0, entry] * self.told.uses[entry]
        return out

    def log(self, stream: int, core: int, limit: int) -> tuple[Array, int]:
        """The first `limit` events of a core (kernel.EVENT_COLUMNS, then registers) and how many it has; cores as in the program."""
        count = self._log(stream, core, 0)
        self._log(stream, core, min(count, limit))
        return self.state.log, count

    def _log(self, stream: int, core: int, rows: int) -> int:
        """How many events a core has; the first of them are in the log."""
        streams, members, sizes, watched = self.group(stream, core)
        self.state = self.state._replace(log=np.zeros((rows, self.state.log.shape[1]), np.int64))
        all_of_it = self.probed._replace(used=np.full_like(self.probed.used, kernel.NEVER))  # skips no iteration
        count = int(kernel.log_core(all_of_it, self.state, 0, streams, members, len(members), sizes, watched))
        assert count >= 0, "a program that was walked can be walked again"
        return count

    def group(self, stream: int, core: int) -> tuple[Array, Array, Array, int]:
        """(streams and cores of those that a core meets, how many of each stream, the core's place among them)."""
        if not self.encoded.joined:
            return np.array([stream]), np.array([core]), np.ones(len(self.cores), np.int64), 0
        sizes = self.cores // self.cores.min()
        number = core // sizes[stream]
        streams = np.repeat(np.arange(len(sizes)), sizes)
        cores = np.concatenate([number * n + np.arange(n) for n in sizes])
        return streams, cores, sizes, int(np.flatnonzero((streams == stream) & (cores == core))[0])


def walk(encoded: Encoded, state: State) -> Walked:
    """The walk of a filled program whose constraints hold."""
    filled = Tabulator(encoded, {}, 1, state, True).fill()
    cores = core_counts(encoded, filled.tables)
    count, entries, places = members(encoded, cores), filled.tables.cost.shape[1], len(encoded.code)
    code, starts = encoded.probed()
    probed = filled.tables._replace(code=code, starts=starts)
    s, told = fresh_state(encoded, filled.tables, count, places), kernel.make_told(cores.shape[1], places, entries)
    ticks = np.zeros(1, np.int64)
    zeros = np.zeros(cores.shape[1], np.int64)
    kernel.time_rows(filled.tables, probed, s, 0, 1, zeros, zeros.copy(), True, ticks, filled.status, told)
    return Walked(encoded, filled, int(filled.status[0]), int(ticks[0]), cores[0], told, s, probed, count)


def fresh_state(encoded: Encoded, t: kernel.Tables, members: int, places: int = 0) -> kernel.State:
    """Arrays for one thread that walks the tables; with probes where `places` is the length of the code."""
    return kernel.make_state(
        members, encoded.bits, encoded.registers, max(1, len(encoded.loops)), len(t.cursor_base), t.cost.shape[1], len(encoded.starts),
        int(t.queue.max()), encoded.machine.cross_ids if encoded.joined else 1, encoded.machine.cross_count, places)


def core_counts(encoded: Encoded, t: kernel.Tables) -> Array:
    """Cores [row, stream]."""
    return np.stack([np.prod(t.extent[:, t.axis_start[s]:t.axis_start[s + 1]], axis=1) for s in range(len(encoded.starts))], axis=1)


def members(encoded: Encoded, cores: Array) -> int:
    """The most cores that meet in any row whose core counts are in range."""
    if not encoded.joined:
        return 1
    legal = cores[((cores >= 1) & (cores <= kernel.MAX_CORES)).all(axis=1)]
    return int((legal.sum(axis=1) // legal.min(axis=1)).max()) if len(legal) else 1
