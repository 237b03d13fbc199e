"""Finds numbers that keep a divisor, or a logarithm's argument, away from 0 and that 16 bits do not hold. Says which nodes stay in fp32.

A guard is a number in a clip, a maximum, a minimum, a choice or a sum before a word that has a pole (`POLES`). The guard's number is
carried along all nodes that only move or scale it: once exactly, and once rounded after every node. The number has vanished in any of these
cases:
- The rounded one is at the pole.
- It is less than half, or more than twice, as far from the pole as the exact one.
- It is nearer to the pole than the smallest normal number.

Then all nodes from the guard to the pole stay in fp32. A quotient by such a number may be beyond 65504. What reads it stays in fp32, too,
up to the first node that does more than move or scale it.

A factor below the smallest normal number has few bits in fp16, or none. It stays in fp32 as well.
"""
from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from aoec.base.text import plural
from aoec.frontend.passes.find import Finder
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode
from aoec.ops.host.host import PREFIX
from aoec.ops.narrowed import NORMAL, holds, rounded_to
from aoec.ops.run import REALS, run_node

# word -> (which argument, where it has no finite value, or a quotient)
POLES = {"div": (1, (0.0,)), "reciprocal": (0, (0.0,)), "rsqrt": (0, (0.0,)), "log": (0, (0.0,)), "power": (0, (0.0,)),
         "atanh": (0, (-1.0, 1.0))}
QUOTIENTS = ("div", "reciprocal", "rsqrt", "power")  # give large numbers near their pole
MOVING = ("reshape", "transpose", "slice", "expand", "concat", "gather", "cast", "pad")
SCALING = ("muls", "adds", "abs", "sqrt", "relu", "clip")  # and products of a tensor with itself
APART = ("conv2d", "matmul", "interpolate", "attention")  # what is multiplied has 16 bits whatever it is made of
NEAR = 2.0**-6  # a sum guards against 0 where it is as near to that for a number that probabilities end at
ENDS = (0.0, -1.0, 1.0)
DEPTH = 12  # nodes from a guard to a pole


@dataclass
class Vanishing:
    """Nodes that stay in fp32 by name, and why: (guard, its number, the node whose pole it keeps away from, or "")."""

    nodes: set[str] = field(default_factory=set)
    reasons: list[tuple[str, float, str]] = field(default_factory=list)

    def notices(self, dtype: str) -> list[str]:
        """Return a sentence for the user, if there is anything to be said."""
        if not self.reasons:
            return []
        name, number, pole = self.reasons[0]
        before = f", before {pole}" if pole else ""
        return [f"{plural(len(self.nodes), 'node')} stay{'s' * (len(self.nodes) == 1)} in fp32, as {dtype} does not hold "
                f"{plural(len({n for n, _, _ in self.reasons}), 'number')} that matter there (first: {number:g} of {name}{before})"]


def vanishing(draft: Draft, dtype: str, wide: Container[str]) -> Vanishing:
    """Return the nodes that stay in fp32 where others get a dtype of 16 bits. `wide`: tensors that are fp32 for other reasons (wide.py)."""
    find, out = Finder.of(draft), Vanishing()

    def keep(nodes: Sequence[OpNode], number: float, pole: str = "") -> None:
        if any(o not in wide for n in nodes for o in n.outputs):
            out.nodes.update(n.name for n in nodes)
            out.reasons.append((nodes[0].name, number, pole))

    for node in draft.nodes:
        if not node.outputs or draft.tensors[node.outputs[0]].dtype not in REALS:
            continue
        if node.op == "muls" and not holds(number := _attribute(node, "scalar"), dtype):
            keep([node], number)
        for number, exact, rounded in _guarding(draft, node, dtype):
            between, poles = _lost(find, node, exact, rounded, dtype)
            if poles:
                keep([*between, *poles, *(r for p in poles if p.op in QUOTIENTS for r in _readers(find, p))], number, poles[0].name)
    return out


def _attribute(node: OpNode, name: str) -> float:
    return float(node.attribute(name, 0.0))  # type: ignore[arg-type]


def _guarding(draft: Draft, node: OpNode, dtype: str) -> Iterator[tuple[float, float, float]]:
    """Yield (a number by which the node keeps its result away from a pole, how near its result comes to that, the same in the dtype)."""
    if node.op == "clip":
        for number in (_attribute(node, "lo"), _attribute(node, "hi")):
            if np.isfinite(number) and number:
                yield number, number, rounded_to(number, dtype)
    elif node.op == "adds" or node.op == "add" and (_number(draft, node.inputs) is not None):
        number = _attribute(node, "scalar") if node.op == "adds" else _number(draft, node.inputs) or 0.0
        for end in ENDS:
            if 0 < abs(end + number) < NEAR:
                yield number, end + number, rounded_to(end + rounded_to(number, dtype), dtype)
    elif node.op in ("maximum", "minimum", "where") and (number := _number(draft, node.inputs[node.op == "where":]) or 0.0):
        yield number, number, rounded_to(number, dtype)


def _number(draft: Draft, inputs: Sequence[str]) -> float | None:
    """Return the least number beside 0, by magnitude, of constants among arguments. Return None where there is none."""
    arrays = [draft.weights[i].reshape(-1) for i in inputs if i in draft.weights and draft.tensors[i].dtype in REALS]
    found = [float(x[np.abs(x).argmin()]) for w in arrays if (x := w[(w != 0) & np.isfinite(w)]).size]
    return min(found, key=abs, default=None)


def _lost(find: Finder, guard: OpNode, exact: float, rounded: float, dtype: str) -> tuple[list[OpNode], list[OpNode]]:
    """Return (the guard and all nodes between it and poles that the rounded number no longer keeps away from as the exact one does; what
    has these poles)."""
    leads: dict[str, bool] = {}
    between: list[OpNode] = []
    poles: dict[str, OpNode] = {}

    def visit(node: OpNode, exact: float, rounded: float, depth: int) -> bool:
        """Return whether a way from the node leads to such a pole."""
        if node.name in leads or depth > DEPTH:
            return leads.get(node.name, False)
        leads[node.name] = False
        for reader in [r for o in node.outputs for r in find.users.get(o, [])]:
            met = _meets(find.draft, reader, node.outputs[0], exact, rounded, dtype)
            poles.update({reader.name: reader} if met else {})
            then = _carry_value(reader, node.outputs[0], exact), rounded_to(_carry_value(reader, node.outputs[0], rounded), dtype)
            leads[node.name] |= met or not any(map(np.isnan, then)) and visit(reader, *then, depth + 1)
        between.extend([node] * leads[node.name])
        return leads[node.name]

    visit(guard, exact, rounded, 0)
    return between[::-1], [*poles.values()]


def _meets(draft: Draft, node: OpNode, name: str, exact: float, rounded: float, dtype: str) -> bool:
    """Return whether a node has a pole in the tensor, from which a number has another distance once it is rounded."""
    at, poles = POLES.get(node.op, (0, ()))
    if not poles or node.inputs[at] != name or node.op == "power" and (_number(draft, node.inputs[1:]) or 0.0) >= 0:
        return False
    pole = min(poles, key=lambda p: abs(exact - p))
    kept, left = abs(exact - pole), abs(rounded - pole)
    return kept > 0 and not (left >= NORMAL[dtype] and 0.5 <= left / kept <= 2)


def _carry_value(node: OpNode, name: str, value: float) -> float:
    """Return the result of a node that moves or scales, for one number of the tensor. A dividend is divided by 1. The result is NaN for any
    other node, and for a clip that cuts the number off, since such a clip is a guard itself."""
    if node.op in MOVING or node.op == "div" and node.inputs[0] == name != node.inputs[1]:
        return value
    square = node.op == "mul" and set(node.inputs) == {name}
    if not square and node.op not in SCALING:
        return np.nan
    made = float(run_node(node, [np.full((1,), value)] * len(node.inputs))[0][0])
    return np.nan if node.op == "clip" and made != value else made


def _readers(find: Finder, node: OpNode) -> list[OpNode]:
    """Return the nodes that read a large quotient, up to the first of each way that does more than move or scale it."""
    out: dict[str, OpNode] = {}
    waiting = [node]
    while waiting:
        for reader in [r for o in waiting.pop().outputs for r in find.users.get(o, [])]:
            if reader.name not in out and reader.op not in APART and not reader.op.startswith(PREFIX):
                out[reader.name] = reader
                waiting += [reader] if reader.op in (*MOVING, *SCALING) else []
    return [*out.values()]
