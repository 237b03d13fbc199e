"""How far a network's results may lie from onnxruntime's, relative to their largest number: by precision, each with its reason."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tolerance:
    """The most that a result may differ, relative to its largest number, and why."""

    relative: float
    reason: str


EXACT = Tolerance(1e-3, "sums of fp32 in another order")
HALF = Tolerance(1e-2, "tensors between layers are rounded to 11 bits (5e-4 each), and tens of layers pass it on")
STEPS = Tolerance(4e-2, "two steps of the result's scale, as far as onnxruntime is from itself without its optimisations: a sum that lies "
                  "half way between two numbers of eight bits may fall to either side, and random weights pass it on")
FROM_HALF = Tolerance(8e-2, "four steps of the result's scale: images are rounded to fp16 before they are quantised, some to another")
# network -> precision -> tolerance, where it is not EXACT or HALF
OWN: dict[str, dict[str, Tolerance]] = {"resnet50-int8": {"fp32": STEPS, "fp16": FROM_HALF}}


def tolerance(network: str, precision: str) -> Tolerance:
    """The tolerance of a network's results in a precision."""
    return OWN.get(network, {}).get(precision, EXACT if precision == "fp32" else HALF)
