"""Which results of a graph are gradients, by their names: that is all that a graph says of being a step of training."""
from __future__ import annotations

from collections.abc import Iterable

LOSS, GRADIENT, NEXT = "loss", "_grad", "_next"  # a result; what stands behind the name of an input in that of a result
ACCUMULATED = (".accumulation.out", ".accumulation.buffer")  # behind that in the training artifacts of ONNX Runtime


def parameter_of(result: str, inputs: Iterable[str]) -> str:
    """Return the input (a set answers fast) of which a result of that name is the gradient; "" where it is none: `<input>_grad`, also as
    the training artifacts of ONNX Runtime call what they add up."""
    stem = result
    for ending in ACCUMULATED:
        stem = stem.removesuffix(ending)
    name = stem.removesuffix(GRADIENT)
    return name if name != stem and name in inputs else ""


def gradients_among(results: Iterable[str], inputs: Iterable[str]) -> dict[str, str]:
    """Return result -> the input of which it is the gradient, of those that are gradients."""
    known = frozenset(inputs)
    return {r: name for r in results if (name := parameter_of(r, known))}
