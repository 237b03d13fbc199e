"""A timeline as pictures take it: cores, each with lanes of slices, arrows between lanes, and a word on what was left out."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# the lanes of `msprof op simulator`, in its order, by our pipes
LANES = {"S": "SCALAR", "V": "VECTOR", "M": "CUBE", "MTE1": "MTE1", "MTE2": "MTE2", "MTE3": "MTE3", "FIXP": "FIXP"}
FLOW_LANE = "FLOWCTRL"
ORDER = (*LANES.values(), FLOW_LANE)


@dataclass(frozen=True, slots=True)
class Slice:
    """What holds a lane from `start` to `end` (cycles): `kind` run, wait, issue or stall; `done`: when its result is there.

    `label` is short, `what` one line; `own`: cycles that it would take alone; `facts`: whatever else is known.
    """

    start: float
    end: float
    done: float
    kind: str
    op: str
    label: str
    what: str
    own: float = 0.0
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Arrow:
    """A flag that was waited for: set on one lane, after which the other goes on."""

    source: str
    set_at: float
    target: str
    go_at: float
    flag: str


@dataclass(frozen=True, slots=True)
class Core:
    """`name` as in the program, such as aic.3; `process` as the vendor's simulator names it."""

    name: str
    process: str
    end: float
    lanes: Mapping[str, tuple[Slice, ...]]
    arrows: tuple[Arrow, ...]
    sets: tuple[tuple[float, str], ...]  # (cycle, flag) of every set
    note: str = ""


@dataclass(frozen=True, slots=True)
class Timeline:
    """`measure`: facts of the measure, as in JSON."""

    program: str
    target: str
    clock_mhz: float
    cores: tuple[Core, ...]
    measure: Mapping[str, Any]

    def us(self, cycles: float) -> float:
        """Microseconds of cycles."""
        return cycles / self.clock_mhz
