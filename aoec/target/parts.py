"""What a machine is made of: numbers with their sources, kinds of cores, scopes, paths, timings; and the hash of a machine's content."""
from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from aoec.ir.index import Expr, Int, Var, walk

QUEUE_DEPTH, MAX_QUEUE_DEPTH = 32, 1024  # instructions; asc-devkit hardware-constraint page for MTE1 and M of 2201, elsewhere as there


@dataclass(frozen=True)
class Form:
    """An instruction of certain dtypes (of its operands in order; none: of any) with certain numbers."""

    op: str
    dtypes: tuple[str, ...]
    numbers: tuple[tuple[str, int], ...]

    def fits(self, op: str, dtypes: Sequence[str], numbers: Mapping[str, int]) -> bool:
        """Return whether an instruction is of this form."""
        return (op == self.op and (not self.dtypes or tuple(dtypes[:len(self.dtypes)]) == self.dtypes)
                and all(numbers.get(name) == value for name, value in self.numbers))

    def __str__(self) -> str:
        return " ".join((self.op, *self.dtypes, *[f"{name}={value}" for name, value in self.numbers]))


@dataclass(frozen=True, slots=True)
class Number:
    """A number of a machine file, with where it comes from; `unit` as the file says it, or as the key does."""

    value: int | float
    source: str
    confidence: str
    file: str = ""  # the machine or family file that says it
    unit: str = ""
    whole: bool = False  # a count or size of the machine's structure


@dataclass(frozen=True, slots=True)
class CoreKind:
    """Cores of one kind. `heads`: (pipe, cycles, cycles for each core of the launch) before anything happens on that pipe;
    `bus_bytes_per_cycle`: what MTE2 and MTE3 of a core move together, where they share a bus."""

    name: str
    count: int
    pipes: tuple[str, ...]
    queue_depth: int = QUEUE_DEPTH
    bus_bytes_per_cycle: float | None = None
    heads: tuple[tuple[str, float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Scope:
    name: str
    cores: tuple[str, ...]  # the core kinds of which each core has one
    size_bytes: int
    align_bytes: int


@dataclass(frozen=True, slots=True)
class Path:
    """A way for data. `l2_bytes_per_cycle` is the rate of what hits L2, where that differs."""

    name: str
    source: str
    target: str
    pipe: str
    bytes_per_cycle: float
    l2_bytes_per_cycle: float
    latency_cycles: float


@dataclass(frozen=True, slots=True)
class Timing:
    """Cycles of an instruction: its pipe is taken for `busy`; its effect can be signalled `latency` later.

    `granule`: with unit = 1, from its start until the first granule of L0C can be handed over. `memory`: how much longer a transfer
    holds the chip's memory than its own bytes do (a factor), where it asks for more than it takes.
    """

    busy: Expr
    latency: Expr
    granule: Expr = Int(0)
    memory: Expr = Int(1)


def spelt_out(formula: Expr, terms: Mapping[str, Expr], known: dict[str, int]) -> int:
    """Return the size of a formula with its terms in place, without making it; `known`: sizes of terms. RecursionError for terms that go
    round."""
    size = 0
    for e in walk(formula):
        if isinstance(e, Var) and e.name in terms:
            if e.name not in known:
                known[e.name] = spelt_out(terms[e.name], terms, known)
            size += known[e.name]
        else:
            size += 1
    return size


def unit_of(place: str) -> str:
    """Return the unit that the name of a number says; "" where it says none."""
    if place.startswith("tables.kf."):
        return "products/cycle"
    if place.startswith("tables."):
        return "cycles"
    units = {"_bytes_per_s": "B/s", "bytes_per_cycle": "B/cycle", "_bytes": "B", "_cycles": "cycles", "_us": "us", "_mhz": "MHz",
             ".count": "cores", "ids": "ids", "cross_count": "signals", "queue_depth": "instructions", "_turnaround": "x"}
    return next((unit for end, unit in units.items() if place.endswith(end)), "")


def content_hash(raw: Mapping[str, Any]) -> str:
    """Return the sha256, in hex, of a machine file's content without its sources: a better citation does not make another machine."""
    return sha256(json.dumps(_content(raw), sort_keys=True).encode()).hexdigest()


def _content(x: Any) -> Any:
    if isinstance(x, dict):
        return {k: _content(v) for k, v in x.items() if k not in ("source", "confidence", "unit", "units")}
    return x
