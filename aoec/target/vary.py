"""Machines whose numbers are others within what their confidence means: how far a result holds that rests on the model."""
from __future__ import annotations

import random
from typing import Any

from aoec.target.inherit import is_number
from aoec.target.machine import Machine, with_numbers

# how far off a number may be, as a ratio either way; every ratio between is as likely on a logarithmic scale
SPREAD = {
    "official": 0.02,  # documents and boards differ by a percent or two, as 251.5 does from 256 bytes a cycle of L1 to L0A
    "measured": 0.05,  # two boards or tools differ so much: 1.456 to 1.552 TB/s of HBM
    "inferred": 0.15,  # arithmetic on what was measured for another purpose: 4.95 to 5.7 TB/s of L2
    "estimate": 0.40,  # a number of another generation, or an argument: contention of L1 between 1.0 and 1.34
}
# numbers of formulas that are structure: what a bus request or bank is, never how fast
FIXED = ("bus_bytes", "best_bytes", "gap_period", "gap_most", "ub_groups", "ub_period", "ub_bank", "unit_elements", "packed_row_bytes")


def vary_machine(machine: Machine, seed: int) -> Machine:
    """Return the machine with each number changed by a seeded ratio within its confidence. Counts, sizes and fractals stay as they are.
    A number's ratio depends only on seed and name, so a new number does not change the ratio of another."""
    return with_numbers(machine, _scale_numbers(machine.merged.raw, "", machine, seed))


def ratio(place: str, confidence: str, seed: int) -> float:
    """Return what a number is multiplied by."""
    most = 1 + SPREAD[confidence]
    return float(most ** random.Random(f"{seed} {place}").uniform(-1, 1))


def varies(place: str, machine: Machine) -> bool:
    """Return whether a number is no fact of the machine's structure. How much of L2 is usable is behaviour, though a whole number."""
    if place == "shared.l2_usable_bytes":
        return True
    named = place.rpartition(".")[2]
    return not (machine.sources[place].whole or place.startswith("tables.kf.") or named in FIXED or place.startswith("shared.memory"))


def _scale_numbers(raw: dict[str, Any], where: str, machine: Machine, seed: int) -> dict[str, Any]:
    out = {}
    for key, value in raw.items():
        place = f"{where}.{key}" if where else key
        if is_number(value) and place in machine.sources and varies(place, machine):
            out[key] = {**value, "value": _off(place, value, machine, seed)}
        else:
            out[key] = _scale_numbers(value, place, machine, seed) if isinstance(value, dict) and not is_number(value) else value
    return out


def _off(place: str, number: dict[str, Any], machine: Machine, seed: int) -> int | float:
    value = number["value"] * ratio(place, number["confidence"], seed)
    return min(round(value), machine.l2_size_bytes) if machine.sources[place].whole else value
