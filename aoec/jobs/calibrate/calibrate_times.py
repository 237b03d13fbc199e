"""Times of programs on machines with other numbers: the model that `aoec calibrate` fits, and its slopes."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import exp, log1p
from typing import Any

import numpy as np

from aoec.simulate.encode.encode import Encoded
from aoec.simulate.timing.machines import times_on
from aoec.simulate.timing.state import State
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
        self.read = [self._read(place) for place in self.places]

    @cached_property
    def bounds(self) -> Array:
        """Return how far each x may be off either way, by the confidence of its number."""
        return np.array([log1p(SPREAD[self.machine.sources[p].confidence]) for p in self.places])

    def of(self, x: Array) -> Array:
        """Return µs [program, (run, launch)]."""
        return self._on([self._machine(x)])[:, 0]

    def lines(self, x: Array, by: Array) -> tuple[Array, Array]:
        """Return (slopes, bends) of logarithms of times, each [program, (task, run), number]; a task is launch and run. A slope is that of
        the line through the times where a number is off by `by` either way. A bend is the distance of that line from the time at x. Both
        are zero where `by` is."""
        moved = [j for j in range(len(x)) if self.read[j] and by[j]]
        steps = np.zeros((len(moved), len(x)))
        for step, j in zip(steps, moved):
            step[j] = max(float(by[j]), STEP)
        curved = [k for k, j in enumerate(moved) if by[j] > STRAIGHT]
        machines = [self._machine(at) for at in (x, *(x + steps), *(x - steps[curved]))]
        times = np.moveaxis(logs(self._on(machines)), 1, 0)  # [machine, program, (task, run)]
        here, more = times[0], times[1:1 + len(moved)]
        less = 2 * here - more
        less[curved] = times[1 + len(moved):]
        slopes, bends = (np.zeros((*here.shape, len(x))) for _ in range(2))
        slopes[:, :, moved] = np.moveaxis((more - less) / (2 * steps[range(len(moved)), moved])[:, None, None], 0, 2)
        bends[:, :, moved] = np.moveaxis((more + less) / 2 - here, 0, 2)
        return slopes, bends

    def _machine(self, x: Array) -> Machine:
        """Return the machine whose numbers are off by x."""
        return scale_machine(self.machine, dict(zip(self.places, x)))

    def _on(self, machines: Sequence[Machine]) -> Array:
        """Return µs [program, machine, (run, launch)]."""
        found = [[(t.ticks[0], t.launch_ticks[0]) for t in times_on(program, machines, {}, self.state)] for program in self.programs]
        return np.array(found).reshape(-1, len(machines), 2) * np.array([m.us_per_tick for m in machines])[:, None]

    def _read(self, place: str) -> bool:
        """Return whether a number may matter to any of the programs: where formulas name it, to one with an instruction that does."""
        room, _, name = place.partition(".")
        if room in ("numbers", "paths"):
            path, _, what = name.partition(".")
            named = name if room == "numbers" else f"{path}_{AT.get(what, what)}"
            return any(named in dict(s.numbers) for p in self.programs for s in p.sites)
        if room == "tables":
            table, _, dtype = name.partition(".")
            return any(s.dtype == dtype and table in dict(s.numbers) for p in self.programs for s in p.sites)
        if room == "cores":
            return any(name.partition(".")[0] == s.core for p in self.programs for s in p.program.streams)
        return place not in NO_TIME and (place not in JOINED or any(p.joined for p in self.programs))


def logs(times: Array) -> Array:
    """Return logarithms [program..., (task, run)] of µs [program..., (run, launch)]."""
    return np.log(np.stack([times.sum(axis=-1), times[..., 0]], axis=-1))


def scale_machine(machine: Machine, ratios: Mapping[str, float]) -> Machine:
    """Return the machine with some numbers times e^x."""
    return with_numbers(machine, with_values(machine.merged.raw, {p: value(machine, p, x) for p, x in ratios.items() if x}))


def value(machine: Machine, place: str, x: float) -> int | float:
    """Return a number times e^x; how much of L2 is usable, which alone is whole, is never more than there is."""
    number = machine.sources[place]
    return min(round(number.value * exp(x)), machine.l2_size_bytes) if number.whole else number.value * exp(x)


def with_values(raw: Mapping[str, Any], values: Mapping[str, int | float]) -> dict[str, Any]:
    """Return the content of a machine file with other values at some places. Parts that do not contain such a place are shared."""
    out, inner = dict(raw), dict[str, dict[str, int | float]]()
    for place, v in values.items():
        table, _, rest = place.partition(".")
        if rest:
            inner.setdefault(table, {})[rest] = v
        else:
            out[table] = {**out[table], "value": v}
    return out | {table: with_values(out[table], below) for table, below in inner.items()}
