"""What programs take on machines whose numbers are others: the model that `aoec calibrate` fits, and its slopes."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from math import exp, log1p, prod
from typing import Any

import numpy as np

from aoec.ir.index import evaluate
from aoec.simulate.encode import Encoded
from aoec.simulate.state import State
from aoec.simulate.time import time_rows, zeroing_us
from aoec.target.machine import Machine, with_numbers
from aoec.target.vary import SPREAD, varies

Array = np.ndarray
STEP = 0.01  # of a logarithm, for slopes: far above the rounding of ticks
SET = ("clock_mhz",)  # is set, not found
HARDLY = 1e-3  # of a time, moved by all that a number's confidence allows
# what no time of a lone program has in it: figures of the chip, what stands between tasks, other kernels' heads
NO_TIME = ("shared.hbm_nominal_bytes_per_s", "launch.enqueue_us", "launch.tiling_runtime_us", "launch.tiling_constant_us")
JOINED = ("flags.cross_cycles", "launch.stream_us")  # of programs of several streams
AT = {"bytes_per_cycle": "rate", "l2_bytes_per_cycle": "l2_rate", "latency_cycles": "latency"}  # how a formula calls a path's numbers


class Times:
    """Programs, and the numbers of a machine that they may be timed with: logarithms of ratios `x`, in the order of `places`."""

    def __init__(self, machine: Machine, programs: Sequence[Encoded], state: State, places: Sequence[str] | None = None) -> None:
        self.machine, self.programs, self.state = machine, programs, state
        self.places = tuple(p for p in machine.sources if varies(p, machine) and p not in SET) if places is None else tuple(places)
        self._readers = [self._reading(place) for place in self.places]
        self.read = [bool(readers) for readers in self._readers]
        self._first: Array | None = None  # slopes at the first x

    @cached_property
    def bounds(self) -> Array:
        """How far each x may be off either way, by the confidence of its number."""
        return np.array([log1p(SPREAD[self.machine.sources[p].confidence]) for p in self.places])

    def of(self, x: Array, which: Iterable[int] | None = None) -> Array:
        """µs [program, (run, launch)] of all programs, or of some."""
        machine = scaled(self.machine, dict(zip(self.places, x)))
        found = [time_rows(self.programs[i].on(machine), {}, self.state) for i in (range(len(self.programs)) if which is None else which)]
        return np.array([(t.ticks[0], t.launch_ticks[0]) for t in found]).reshape(-1, 2) * machine.us_per_tick

    def slopes(self, x: Array) -> Array:
        """Slopes [program, (task, run), number] of logarithms of times, a task being launch and run. Of numbers that hardly move any time
        those of the first call are given again."""
        base = self.of(x)
        out = np.zeros((len(base), 2, len(x))) if self._first is None else self._first.copy()
        felt = np.abs(out).max(axis=(0, 1), initial=0.0) * self.bounds
        for j, readers in enumerate(self._readers):
            if readers and (self._first is None or felt[j] > HARDLY):
                there = x.copy()
                there[j] += STEP
                moved = self._launched(there, base) if self.places[j].startswith("launch.") else self.of(there, readers)
                out[readers, :, j] = (logs(moved) - logs(base[readers])) / STEP
        self._first = out if self._first is None else self._first
        return out

    def _launched(self, x: Array, base: Array) -> Array:
        """The times where nothing but launches is another."""
        machine = scaled(self.machine, dict(zip(self.places, x)))
        launches = [launch_of(p, machine) for p in self.programs]
        return np.stack([base[:, 0], launches], axis=1)

    def _reading(self, place: str) -> list[int]:
        """The programs that a number may matter to: of those that formulas name, the ones with an instruction that does."""
        room, _, name = place.partition(".")
        if room in ("numbers", "paths"):
            path, _, what = name.partition(".")
            named = name if room == "numbers" else f"{path}_{AT.get(what, what)}"
            return self._where(lambda p: any(named in dict(s.numbers) for s in p.sites))
        if room == "tables":
            table, _, dtype = name.partition(".")
            return self._where(lambda p: any(s.dtype == dtype and table in dict(s.numbers) for s in p.sites))
        if room == "cores":
            return self._where(lambda p: name.partition(".")[0] in {s.core for s in p.program.streams})
        return self._where(lambda p: place not in NO_TIME and (place not in JOINED or p.joined))

    def _where(self, holds: Callable[[Encoded], bool]) -> list[int]:
        return [i for i, p in enumerate(self.programs) if holds(p)]


def launch_of(p: Encoded, machine: Machine) -> float:
    """µs before the first instruction of a program without holes."""
    cores = [prod(evaluate(extent, {}) for _, extent in s.grid) for s in p.program.streams]
    return float(machine.launch_us(sum(cores), len(cores)) + zeroing_us(p.program, machine, {}))


def logs(times: Array) -> Array:
    """Logarithms [program, (task, run)] of µs [program, (run, launch)]."""
    return np.log(np.stack([times.sum(axis=1), times[:, 0]], axis=1))


def scaled(machine: Machine, ratios: Mapping[str, float]) -> Machine:
    """The machine with some numbers times e^x."""
    return with_numbers(machine, with_values(machine.merged.raw, {p: value(machine, p, x) for p, x in ratios.items() if x}))


def value(machine: Machine, place: str, x: float) -> int | float:
    """A number times e^x; how much of L2 is usable, which alone is whole, is never more than there is."""
    number = machine.sources[place]
    return min(round(number.value * exp(x)), machine.l2_size_bytes) if number.whole else number.value * exp(x)


def with_values(raw: Mapping[str, Any], values: Mapping[str, int | float]) -> dict[str, Any]:
    """The content of a machine file with other values at some places; what is not on the way to one is shared."""
    out, inner = dict(raw), dict[str, dict[str, int | float]]()
    for place, v in values.items():
        table, _, rest = place.partition(".")
        if rest:
            inner.setdefault(table, {})[rest] = v
        else:
            out[table] = {**out[table], "value": v}
    return out | {table: with_values(out[table], below) for table, below in inner.items()}
