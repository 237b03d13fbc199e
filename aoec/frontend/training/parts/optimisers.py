"""Adds the optimiser of a training graph: how each parameter follows from its gradient, as elementwise nodes.

States are inputs of the graph, and their next values are results, as the next values of parameters are. Numbers that change from step to
step are inputs of one element. Each parameter is updated by a launch of its own. Frameworks give parameters as separate buffers, and
joining small ones would take a launch for each, too.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aoec.frontend.training.parts.added import Added
from aoec.ir.graph.draft import Draft

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # PyTorch's torch.optim.Adam
RATE = "learning_rate"
MOMENTUM, MEAN, SQUARE = STATES = ("_momentum", "_exp_avg", "_exp_avg_sq")  # behind the name of a parameter: its states


@dataclass(frozen=True)
class Rule:
    """What an optimiser does by numbers that do not change. `unscale`: what gradients are multiplied by first."""

    momentum: float
    weight_decay: float
    unscale: float


Updates = list[tuple[str, str]]  # (input of the graph, the tensor of its next value)


def _fall(add: Added, rule: Rule, parameter: str, gradient: str) -> str:
    """Return the gradient as the optimiser takes it: as large as the loss is, with the share of weight decay."""
    g = add.step("muls", [gradient], scalar=rule.unscale) if rule.unscale != 1 else gradient
    return add.step("axpy", [g, parameter], alpha=rule.weight_decay) if rule.weight_decay else g


def _sgd(draft: Draft, gradients: Mapping[str, str], rule: Rule) -> Updates:
    """Add a step of SGD, as torch.optim.SGD without dampening: `v' = momentum * v + g; w' = w - rate * v'`."""
    rate = Added(draft, RATE).add_input(RATE, "fp32", (1,))
    out: Updates = []
    for w, gradient in gradients.items():
        add = Added(draft, f"{w}_update")
        v = _fall(add, rule, w, gradient)
        if rule.momentum:
            state = add.add_input(f"{w}{MOMENTUM}", "fp32", add.shape(w))
            v = add.step("axpy", [v, state], alpha=rule.momentum)
            out.append((state, v))
        out.append((w, add.step("sub", [w, add.step("mul", [v, rate])])))
    return out


def _adam(draft: Draft, gradients: Mapping[str, str], rule: Rule) -> Updates:
    """Add a step of Adam, as torch.optim.Adam does it.

    `m' = b1 m + (1 - b1) g; v' = b2 v + (1 - b2) g²; w' = w - rate / (1 - b1^t) * m' / (sqrt(v' / (1 - b2^t)) + epsilon)`.
    The powers of b1 and b2 are states, which hold b1^(t - 1) and b2^(t - 1) before step t.
    """
    add = Added(draft, "adam")
    rate, first, second = (add.add_input(name, "fp32", (1,)) for name in (RATE, "beta1_power", "beta2_power"))
    powers = [add.step("muls", [p], scalar=b) for p, b in ((first, BETA1), (second, BETA2))]
    left = [add.step("adds", [add.step("muls", [p], scalar=-1.0)], scalar=1.0) for p in powers]
    pace, over_root = add.step("div", [rate, left[0]]), add.step("rsqrt", [left[1]])
    out: Updates = [*zip((first, second), powers)]
    for w, gradient in gradients.items():
        add = Added(draft, f"{w}_update")
        g = _fall(add, rule, w, gradient)
        m, v = (add.add_input(f"{w}{state}", "fp32", add.shape(w)) for state in (MEAN, SQUARE))
        m_next = add.step("axpy", [add.step("muls", [g], scalar=1 - BETA1), m], alpha=BETA1)
        v_next = add.step("axpy", [add.step("muls", [add.step("mul", [g, g])], scalar=1 - BETA2), v], alpha=BETA2)
        root = add.step("adds", [add.step("mul", [add.step("sqrt", [v_next]), over_root])], scalar=EPSILON)
        out += [(m, m_next), (v, v_next), (w, add.step("sub", [w, add.step("mul", [add.step("div", [m_next, root]), pace])]))]
    return out


def _nothing(draft: Draft, gradients: Mapping[str, str], rule: Rule) -> Updates:
    return []


MAKERS: dict[str, Callable[[Draft, Mapping[str, str], Rule], Updates]] = {"sgd": _sgd, "adam": _adam, "none": _nothing}


def add_optimiser(draft: Draft, name: str, gradients: Mapping[str, str], rule: Rule) -> Updates:
    """Return (input of the graph, the tensor of its next value) of parameters and states, after the nodes that make them were added.

    `gradients`: parameter -> its gradient as it is sent. All is calculated in fp32."""
    before = {*draft.tensors}
    updates = MAKERS[name](draft, gradients, rule)
    draft.wide |= {t for t in draft.tensors if t not in before and draft.tensors[t].dtype == "fp32"}
    return updates


def sample_states(shapes: Mapping[str, Sequence[int]]) -> dict[str, np.ndarray]:
    """Return values for a check, for those of an optimiser's inputs that are among inputs of these shapes. They are those of a step in the
    middle of training. In Adam's first step the squares are 0, and the sign of a gradient that is 0 except for rounding would decide."""
    numbers = {RATE: 1e-2, "beta1_power": BETA1 ** 10, "beta2_power": BETA2 ** 10}
    states = {MOMENTUM: 0.0, MEAN: 0.0, SQUARE: 1e-2}
    found = {name: next((s for s in STATES if name.endswith(s) and name.removesuffix(s) in shapes), "") for name in shapes}
    return {name: np.full(tuple(shape), numbers[name] if name in numbers else states[found[name]], np.float32)
            for name, shape in shapes.items() if name in numbers or found[name]}
