"""Folds chains of x * a + b, with numbers a and b for each channel, into the convolution or matrix before them.

Batch normalisation at inference is such a step: a = scale / sqrt(variance + epsilon), b = bias - mean * a. A chain that nothing
before it can take becomes one `mul` and one `add`. Channels are axis 1. Factors are computed in fp64.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from aoec.frontend.rewrites.conditions import loses
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode
from aoec.ops.run import REALS


@dataclass(frozen=True)
class _Affine:
    """x * scale + shift; vectors over the channels, or of one element."""

    scale: np.ndarray
    shift: np.ndarray

    def then(self, other: _Affine) -> _Affine:
        return _Affine(self.scale * other.scale, self.shift * other.scale + other.shift)


_ONE, _ZERO = np.ones(1), np.zeros(1)


def fold_affine(draft: Draft) -> None:
    """Fold every chain of affine steps into the node before it, or shorten it."""
    users, producers = draft.users(), draft.producers()
    done: set[str] = set()
    replaced: dict[str, list[OpNode]] = {}  # name of a node -> the nodes in its place
    for node in draft.nodes:
        if node.name in done or _affine(draft, node) is None:
            continue
        chain = _chain(draft, node, users)
        done.update(n.name for n in chain)
        _fold(draft, chain, producers.get(_data(draft, node)), users, replaced)
    draft.nodes = [new for n in draft.nodes for new in replaced.get(n.name, [n])]


def _chain(draft: Draft, first: OpNode, users: Mapping[str, list[OpNode]]) -> list[OpNode]:
    """Return the affine steps from `first` on, each the only reader of the one before; up to a number whose sum with those before loses
    one."""
    chain, total = [first], _affine(draft, first)
    while (n := draft.only_user(chain[-1].outputs[0], users)) and (own := _affine(draft, n)) and _data(draft, n) == chain[-1].outputs[0]:
        assert total is not None
        if n.op == "adds" and total.shift.size == 1 and loses(float(total.shift[0]), float(own.shift[0])):
            break
        chain, total = [*chain, n], total.then(own)
    return chain


def _fold(draft: Draft, chain: list[OpNode], before: OpNode | None, users: Mapping[str, list[OpNode]],
          replaced: dict[str, list[OpNode]]) -> None:
    """Enter in `replaced` which nodes take the place of the chain, and of the node before it where that takes up the factors."""
    total = _Affine(_ONE, _ZERO)
    for step in chain:
        own = _affine(draft, step)
        assert own is not None
        total = total.then(own)
    result = chain[-1].outputs[0]
    if before and before.name not in replaced and draft.only_user(before.outputs[0], users) and _takes(draft, before):
        replaced.update({n.name: [] for n in chain})
        replaced[before.name] = [_fold_factors(draft, before, total, result)]
    elif len(chain) > 1 or chain[0].op == "batch_norm":
        replaced.update({n.name: [] for n in chain})
        replaced[chain[0].name] = _mul_add(draft, chain[0], total, result)


def _data(draft: Draft, node: OpNode) -> str:
    """Return the argument that is no constant."""
    return next((i for i in node.inputs if not draft.is_constant(i)), "")


def _affine(draft: Draft, node: OpNode) -> _Affine | None:
    """Return what the node does to each channel. Return None where it is no affine step."""
    given = dict(node.attributes)
    if draft.tensors[node.outputs[0]].dtype not in REALS:  # factors are computed in reals
        return None
    if node.op in ("muls", "adds"):
        c = np.array([float(given["scalar"])])  # type: ignore[arg-type]
        return _Affine(c, _ZERO) if node.op == "muls" else _Affine(_ONE, c)
    if node.op == "batch_norm":
        if not all(draft.is_constant(i) for i in node.inputs[1:]):
            return None
        scale, bias, mean, variance = (draft.weights[i].astype(np.float64) for i in node.inputs[1:])
        a = scale / np.sqrt(variance + float(given["epsilon"]))  # type: ignore[arg-type]
        return _Affine(a, bias - mean * a)
    data = _data(draft, node)
    if node.op not in ("add", "mul", "sub") or not data or (node.op == "sub" and data != node.inputs[0]):
        return None
    vector = _channels(draft, node, data)
    if vector is None:
        return None
    return _Affine(vector, _ZERO) if node.op == "mul" else _Affine(_ONE, -vector if node.op == "sub" else vector)


def _channels(draft: Draft, node: OpNode, data: str) -> np.ndarray | None:
    """Return the constant argument as a vector over the channels of the other one. Return None where it is none."""
    constants = [i for i in node.inputs if draft.is_constant(i)]
    shape = draft.tensors[data].shape
    if len(constants) != 1 or shape != draft.tensors[node.outputs[0]].shape or len(shape) < 2:
        return None
    c = draft.weights[constants[0]].astype(np.float64)
    wide = (1,) * (len(shape) - c.ndim) + c.shape
    alone = all(n == 1 for axis, n in enumerate(wide) if axis != 1)
    return c.reshape(-1) if alone and wide[1] in (1, shape[1]) else None


def _takes(draft: Draft, node: OpNode) -> bool:
    """Return True for a convolution or matrix multiplication whose weight and bias are constants."""
    matrix = node.op == "matmul" and len(draft.tensors[node.inputs[1]].shape) == 2 and len(draft.tensors[node.inputs[0]].shape) == 2
    return (node.op == "conv2d" or matrix) and all(draft.is_constant(i) for i in node.inputs[1:])


def _fold_factors(draft: Draft, node: OpNode, f: _Affine, result: str) -> OpNode:
    """Fold the factors into weight and bias of the convolution or matrix multiplication, which gives `result`."""
    w = draft.weights[node.inputs[1]]
    axis = 0 if node.op == "conv2d" else 1
    bias = draft.weights[node.inputs[2]].astype(np.float64) if len(node.inputs) > 2 else np.zeros(w.shape[axis])
    shifted = bias * f.scale + f.shift
    inputs = list(node.inputs[:2])
    if (f.scale != 1).any():
        factor = f.scale.reshape([-1 if at == axis else 1 for at in range(w.ndim)]).astype(np.float32)
        inputs[1] = draft.constant(f"{node.inputs[1]}_folded", w * factor, "fp32")
    if shifted.any() or len(node.inputs) > 2:
        inputs.append(draft.constant(f"{node.inputs[1]}_bias", shifted.astype(np.float32), "fp32"))
    return replace(node, inputs=tuple(inputs), outputs=(result,))


def _mul_add(draft: Draft, first: OpNode, f: _Affine, result: str) -> list[OpNode]:
    """Return `mul` and `add` by the factors (or the forms that take a scalar) in place of a chain. Return a view where both are neutral."""
    source = _data(draft, first)
    steps = [(op, c) for op, c, neutral in (("mul", f.scale, 1), ("add", f.shift, 0)) if (c != neutral).any()]
    if not steps:
        return [draft.node("reshape", [source], result, {"shape": draft.tensors[result].shape}, first.name)]
    out = []
    for at, (op, c) in enumerate(steps):
        t = draft.tensors[result]
        target = result if at == len(steps) - 1 else draft.tensor(f"{result}_{op}", t.dtype, t.shape)
        out.append(_step(draft, op, c, source, target, first.name))
        source = target
    return out


def _step(draft: Draft, op: str, c: np.ndarray, source: str, target: str, name: str) -> OpNode:
    if c.size == 1:
        return draft.node(f"{op}s", [source], target, {"scalar": float(c[0])}, name)
    shape = (1, -1) + (1,) * (len(draft.tensors[source].shape) - 2)
    factor = draft.constant(f"{target}_{op}_factor", c.reshape(shape).astype(np.float32), "fp32")
    return draft.node(op, [source, factor], target, None, name)
