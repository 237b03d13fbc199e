"""Robustness of a choice: schedules timed again on seeded machines, whose numbers vary within their confidence (target/vary.py).

A gain that rests on one number is worth what that number is. The machines are the same for everything that is compared, so ticks
of one machine compare, and sums over groups do.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from aoec.ir.program import Program
from aoec.report.spread import Within, range_about
from aoec.search.space.grid import NEVER
from aoec.simulate.encode.encode import Encoded, encode
from aoec.simulate.timing.machines import times_on
from aoec.simulate.timing.state import State
from aoec.target.machine import Machine
from aoec.target.vary import vary_machine

MACHINES = 32
CONFIRMS = 0.9  # the share of machines that makes a gain one


@dataclass(frozen=True)
class Trust:
    """Ticks of the default and of the chosen schedule on each seeded machine, in the order of seeds."""

    default: tuple[int, ...]
    best: tuple[int, ...]

    @property
    def faster(self) -> int:
        """Return the machines on which the chosen schedule beats the default."""
        return sum(b < d for d, b in zip(self.default, self.best))

    @property
    def worst(self) -> float:
        """Return the largest share of the default's time that the chosen schedule takes on any machine: 1.02 is 2 % slower."""
        return max(b / d for d, b in zip(self.default, self.best))

    @property
    def is_confirmed(self) -> bool:
        return self.faster >= CONFIRMS * len(self.default)


def together(trusts: Sequence[Trust]) -> Trust:
    """Return groups one after the other: sums, machine by machine."""
    return Trust(tuple(map(sum, zip(*(t.default for t in trusts)))), tuple(map(sum, zip(*(t.best for t in trusts)))))


@lru_cache(maxsize=8)
def seeded_machines(machine: Machine) -> tuple[Machine, ...]:
    """Return the machines that a result is held against: seeds 0, 1, 2 ..."""
    return tuple(vary_machine(machine, seed) for seed in range(MACHINES))


def of_programs(default: Program, best: Program, machine: Machine, state: State) -> Trust:
    """Return two programs without holes against each other."""
    return Trust(program_ticks(default, machine, state), program_ticks(best, machine, state))


def program_ticks(program: Program, machine: Machine, state: State) -> tuple[int, ...]:
    """Return ticks of a program without holes on each seeded machine."""
    return tuple(ticks_on(encode(program, machine), machine, {}, state)[:, 0].tolist())


def range_of(us: float, ticks: Sequence[int], machine: Machine) -> Within:
    """Return how far a modelled time may be off that takes so many ticks on the seeded machines."""
    return range_about(us, [t * machine.us_per_tick for t in ticks])


def ticks_on(encoded: Encoded, machine: Machine, rows: Mapping[str, np.ndarray], state: State) -> np.ndarray:
    """Return ticks [seeded machine, row], NEVER where a row cannot run."""
    found = times_on(encoded, seeded_machines(machine), rows, state)
    return np.array([np.where(times.status == 0, times.total_ticks, NEVER) for times in found])


