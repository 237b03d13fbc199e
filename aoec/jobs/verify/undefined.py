"""Casts of reals to whole numbers without a defined result: ONNX leaves it open, the machine saturates, NumPy wraps."""
from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from aoec.ir.graph.graph import Graph, OpNode
from aoec.ops import word
from aoec.ops.run import NUMPY, REALS

Arrays = Mapping[str, np.ndarray]


def within_casts(alone: Graph, data: Arrays, constants: Arrays) -> dict[str, np.ndarray]:
    """Return the data of a group. Data that a cast reads directly are clipped to the range of the cast's result; constants stay."""
    out, dtypes = dict(data), {t.name: t.dtype for t in alone.tensors}
    for n in alone.nodes:
        name = n.inputs[0] if n.inputs else ""
        if name in out and name not in constants and (limits := _limits(n, dtypes)) is not None:
            out[name] = np.clip(out[name].astype(np.float64), *limits).astype(out[name].dtype)
    return out


def undefined_elements(alone: Graph, values: Arrays, name: str) -> np.ndarray:
    """Return for each element of a group's tensor whether it depends on a cast of a number that its result dtype cannot hold."""
    dtypes = {t.name: t.dtype for t in alone.tensors}
    found: dict[str, np.ndarray] = {}
    for n in alone.nodes:
        before = [found[i] for i in n.inputs if i in found]
        if (limits := _limits(n, dtypes)) is not None:
            given = np.trunc(values[n.inputs[0]].astype(np.float64))
            before.append(~((given >= limits[0]) & (given <= limits[1])))
        for o in n.outputs if any(b.any() for b in before) else ():
            found[o] = _spread(n, before, values[o].shape)
    return found.get(name, np.zeros(values[name].shape, bool))


def _limits(n: OpNode, dtypes: Mapping[str, str]) -> tuple[int, int] | None:
    """Return the least and the greatest number of a cast from reals to whole numbers. Return None for other nodes."""
    if n.op != "cast" or dtypes[n.inputs[0]] not in REALS or np.dtype(NUMPY[dtypes[n.outputs[0]]]).kind not in "iu":
        return None
    limits = np.iinfo(NUMPY[dtypes[n.outputs[0]]])
    return int(limits.min), int(limits.max)


def _spread(n: OpNode, before: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """Return what is undefined of a result, from what is of the arguments: element by element, or all of it."""
    if word(n).family == "elementwise":
        return np.logical_or.reduce([np.broadcast_to(b, shape) for b in before])
    return np.ones(shape, bool)
