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
STRAIGHT = 0.02  # of a logarithm: over no more a time hardly bends, and one side says it all
SET = ("clock_mhz",)  # is set, not found
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

    @cached_property
    def bounds(self) -> Array:
        """How far each x may be off either way, by the confidence of its number."""
        return np.array([log1p(SPREAD[self.machine.sources[p].confidence]) for p in self.places])

    def of(self, x: Array, which: Iterable[int] | None = None) -> Array:
        """µs [program, (run, launch)] of all programs, or of some."""
        machine = scaled(self.machine, dict(zip(self.places, x)))
        found = [time_rows(self.programs[i].on(machine), {}, self.state) for i in (range(len(self.programs)) if which is None else which)]
        return np.array([(t.ticks[0], t.launch_ticks[0]) for t in found]).reshape(-1, 2) * machine.us_per_tick

    def lines(self, x: Array, by: Array) -> tuple[Array, Array]:
        """(slopes, bends), each [program, (task, run), number], of logarithms of times, a task being launch and run: of the line through
        the times where a number is off by `by` either way, and how far that line passes from the time at x. Zeros where `by` is."""
        base = self.of(x)
        slopes, bends = (np.zeros((len(base), 2, len(x))) for _ in range(2))
        for j, readers in enumerate(self._readers):
            if readers and by[j]:
                step = np.zeros(len(x))
                step[j] = max(float(by[j]), STEP)
                here, more = logs(base[readers]), logs(self._where(j, x + step, base))
                less = logs(self._where(j, x - step, base)) if by[j] > STRAIGHT else 2 * here - more
                slopes[readers, :, j] = (more - less) / (2 * step[j])
                bends[readers, :, j] = (more + less) / 2 - here
        return slopes, bends

    def _where(self, j: int, x: Array, base: Array) -> Array:
        """The times of what reads number j where no other differs from where `base` was timed: launches alone, if it is one of theirs."""
        if not self.places[j].startswith("launch."):
            return self.of(x, self._readers[j])
        machine = scaled(self.machine, dict(zip(self.places, x)))
        return np.stack([base[:, 0], [launch_of(p, machine) for p in self.programs]], axis=1)[self._readers[j]]

    def _reading(self, place: str) -> list[int]:
        """The programs that a number may matter to: of those that formulas name, the ones with an instruction that does."""
        room, _, name = place.partition(".")
        if room in ("numbers", "paths"):
            path, _, what = name.partition(".")
            named = name if room == "numbers" else f"{path}_{AT.get(what, what)}"
            return self._those(lambda p: any(named in dict(s.numbers) for s in p.sites))
        if room == "tables":
            table, _, dtype = name.partition(".")
            return self._those(lambda p: any(s.dtype == dtype and table in dict(s.numbers) for s in p.sites))
        if room == "cores":
            return self._those(lambda p: name.partition(".")[0] in {s.core for s in p.program.streams})
        return self._those(lambda p: place not in NO_TIME and (place not in JOINED or p.joined))

    def _those(self, holds: Callable[[Encoded], bool]) -> list[int]:
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
