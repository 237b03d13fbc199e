"""Differentiates one node: by a rule where the derived gradient would be slow or where several words give it, else by the derived
gradient."""
from __future__ import annotations

from aoec.base.errors import UnsupportedError
from aoec.frontend.training.gradients.gradient_derived import derive_argument
from aoec.frontend.training.gradients.gradient_elements import elementwise, is_elementwise
from aoec.frontend.training.gradients.gradient_images import RULES as IMAGES
from aoec.frontend.training.gradients.gradient_matrices import RULES as MATRICES
from aoec.frontend.training.gradients.gradient_moves import RULES as MOVES
from aoec.frontend.training.gradients.gradient_rows import RULES as ROWS
from aoec.frontend.training.gradients.gradient_site import Rule, Site

RULES: dict[str, Rule] = {**IMAGES, **MATRICES, **MOVES, **ROWS}
LATER = "the graph is differentiated before it is made"
# operators of reals that have no gradient, and why
WITHOUT = {"conv2d_packed": LATER, **dict.fromkeys(("range_high", "range_low", "range_step", "range_zero", "dequantise_range"), LATER)}


def gradient_of(s: Site, at: int) -> str:
    """Return the gradient of an argument, of its shape. Return "" where it is zero almost everywhere. Raise UnsupportedError where there is
    none."""
    if s.node.op in WITHOUT:
        raise UnsupportedError(f"it has no gradient: {WITHOUT[s.node.op]}")
    if s.node.op in RULES:
        made = RULES[s.node.op](s, at)
    elif is_elementwise(s.node):
        made = elementwise(s, at)
    else:
        made = derive_argument(s, at)
    return s.reduce_to(made, s.shape(at)) if made else ""
