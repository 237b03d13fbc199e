"""A timeline as pictures take it: cores, each with lanes of slices, arrows between lanes, and a word on what was left out."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# the lanes of `msprof op simulator`, in its order, by our pipes
LANES = {"S": "SCALAR", "V": "VECTOR", "M": "CUBE", "MTE1": "MTE1", "MTE2": "MTE2", "MTE3": "MTE3", "FIXP": "FIXP"}
FLOW_LANE = "FLOWCTRL"
ORDER = (*LANES.values(), FLOW_LANE)
WHOLE = 400  # slices up to which one window shows all
SHOWN = 160  # slices in each window otherwise


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
class Window:
    """Cycles from `start` to `stop`, with a caption."""

    start: float
    stop: float
    caption: str


def windows(end: float, count: int, wanted: tuple[float, float] | None) -> tuple[Window, ...]:
    """Return the windows of a core's `count` slices that are shown. They are the wanted one, the whole core where that is short, or its
    beginning, middle and end."""
    if wanted:
        return (Window(wanted[0], wanted[1], f"cycles {wanted[0]:,.0f} to {wanted[1]:,.0f}"),)
    if count <= WHOLE:
        return (Window(0.0, max(end, 1.0), "all of it"),)
    width = end * SHOWN / count
    middle = (end - width) / 2
    return Window(0.0, width, "beginning"), Window(middle, middle + width, "middle"), Window(end - width, end, "end")


@dataclass(frozen=True, slots=True)
class Core:
    """`name` as in the program, such as aic.3; `process` as the vendor's simulator names it.

    `lanes`, `arrows` and `sets` hold what the windows show; `strip` all of it, coarsely.
    """

    name: str
    process: str
    end: float
    lanes: Mapping[str, tuple[Slice, ...]]
    arrows: tuple[Arrow, ...]
    sets: tuple[tuple[float, str], ...]  # (cycle, flag) of every set
    windows: tuple[Window, ...] = ()
    strip: Mapping[str, tuple[Slice, ...]] = field(default_factory=dict)
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
        """Return microseconds of cycles."""
        return cycles / self.clock_mhz
