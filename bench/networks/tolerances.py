"""How far a network's results may lie from onnxruntime's, relative to their largest number, each with its reason."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tolerance:
    """The most that a result may differ, relative to its largest number, and why."""

    relative: float
    reason: str


EXACT = Tolerance(1e-3, "sums of fp32 in another order")
STEP = 1  # of a tensor of eight bits: a sum half way between two numbers may fall to either side


def tolerance(precision: str, rounding: float) -> Tolerance:
    """Return the tolerance of a network's results in a precision. `rounding`: what it costs in 16 bits to round its tensors to them and to
    calculate in fp32 (networks/rounded.py); the vector unit rounds within an operator too, so twice as much is right, and no more."""
    return EXACT if precision == "fp32" else Tolerance(2 * rounding, "twice what 16 bits cost where nothing but storing rounds to them")
