"""Results of numbers half way between two steps of a quantiser. A rounding before the quantiser decides on which side such a number
falls."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from aoec.ir.graph.graph import Graph, OpNode, Tensor
from aoec.ops.run import evaluate
from aoec.ops.words.ranged import scale_and_zero

Arrays = Mapping[str, np.ndarray]
QUANTISING = ("quantise", "requantise", "quantise_range")  # operators that round to steps


def either_way(alone: Graph, values: Arrays, t: Tensor, off: Callable[[Graph, Tensor], np.ndarray]) -> np.ndarray:
    """Return by how much an element of a group's result differs where such numbers fall on the other side (float64; 0 elsewhere).

    `values`: those of all tensors of the group in the reference. `off` returns how much a tensor that a part of the group makes may differ
    from these. A number counts where that much reaches the middle between two steps.
    """
    tensors, out = {x.name: x for x in alone.tensors}, np.zeros(t.shape)
    for at, n in enumerate(alone.nodes):
        if n.op not in QUANTISING or n.inputs[0] in alone.inputs:  # what is given is the same on both sides
            continue
        given = off(replace(alone, nodes=alone.nodes[:at]), tensors[n.inputs[0]])
        steps, reach = in_steps(n, values[n.inputs[0]].astype(np.float64), values), in_steps(n, given, values)
        beside = (reach > 0) & (np.abs(steps - np.floor(steps) - 0.5) <= reach)
        made = n.outputs[0]
        info = np.iinfo(values[made].dtype)
        for side in (-1, 1):
            moved = np.clip(values[made].astype(np.int64) + side * beside, info.min, info.max).astype(values[made].dtype)
            out = np.maximum(out, np.abs(after(alone, at, {**values, made: moved}, t) - values[t.name].astype(np.float64)))
    return out


def in_steps(n: OpNode, x: np.ndarray, values: Arrays) -> np.ndarray:
    """Return numbers in steps of the quantiser."""
    if n.op == "quantise_range":
        return x / np.float64(scale_and_zero(*(values[i] for i in n.inputs[1:]))[0])
    scale = values[n.inputs[1]].astype(np.float64)
    return x / scale if n.op == "quantise" else x * scale


def after(alone: Graph, at: int, values: Arrays, t: Tensor) -> np.ndarray:
    """Return a result as the nodes behind one make it of given values."""
    rest = alone.nodes[at + 1:]
    made = {o for n in rest for o in n.outputs}
    if t.name not in made:
        return values[t.name].astype(np.float64)
    read = tuple(dict.fromkeys(i for n in rest for i in n.inputs if i and i not in made))
    part = replace(alone, inputs=read, outputs=(t.name,), nodes=rest)
    return evaluate(part, values, {})[t.name].astype(np.float64)
