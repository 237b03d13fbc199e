"""Moves the signs of a concat's parts to the factor that the concat is multiplied with: (-a, b) * s becomes (a, b) * (-s, s), exactly.

Rotary embedding rotates the halves of each head, (-x2, x1) * sin. All heads (and layers) share the sines. If the sines take the signs, the
halves are only moved, which is one launch. No half is then written only to be negated.
"""
from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from aoec.frontend.passes.find import Finder
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode
from aoec.ops.run import REALS

MOST_BYTES = 16 << 20  # of a constant that gets signs


def move_signs(draft: Draft) -> None:
    """Let a concat read its parts without a sign, where it is multiplied with a smaller or constant tensor. That tensor takes the signs."""
    find = Finder.of(draft)
    signed: dict[tuple[str, bytes, int], str] = {}  # what is multiplied with, signs, their axis -> both
    nodes, draft.nodes = draft.nodes, []
    plain: dict[str, OpNode] = {}
    for node in nodes:
        for at in (0, 1) if node.op == "mul" and len(node.inputs) == 2 else ():
            joined = find.producer(node.inputs[at], "concat")
            if joined is None or find.only_user(joined.outputs[0]) is not node or node.inputs[0] == node.inputs[1]:
                continue
            found = _without_signs(find, joined, node.inputs[1 - at])
            if found is not None:
                parts, signs, axis = found
                factor = _apply_signs(draft, node, node.inputs[1 - at], signs, axis, signed)
                plain[joined.name] = replace(joined, inputs=parts)
                node = replace(node, inputs=(joined.outputs[0], factor))
                break
        draft.nodes.append(node)
    draft.nodes = [plain.get(n.name, n) for n in draft.nodes]


def _without_signs(find: Finder, joined: OpNode, factor: str) -> tuple[tuple[str, ...], np.ndarray, int] | None:
    """Return (a concat's parts without their signs, a sign for each place along its axis, which axis counted from the last, -1), where some
    part has one and the factor, with signs, is a constant or less than half as large as the concat."""
    draft, axis = find.draft, joined.attribute("axis")
    out, t = draft.tensors[joined.outputs[0]], draft.tensors[factor]
    assert isinstance(axis, int)
    negated = [_negation_source(find, name, joined) for name in joined.inputs]
    if not any(negated) or out.dtype not in REALS or t.dtype not in REALS:
        return None
    back = axis - len(out.shape)
    shape = list(np.broadcast_shapes(t.shape, (out.shape[axis], *[1] * (-back - 1))))
    small = prod(shape) * 4 <= MOST_BYTES if draft.is_constant(factor) else prod(shape) * 2 <= prod(out.shape)
    signs = np.concatenate([np.full(draft.tensors[name].shape[axis], -1.0 if minus else 1.0, np.float32)
                            for name, minus in zip(joined.inputs, negated)])
    return (tuple(minus or name for name, minus in zip(joined.inputs, negated)), signs, back) if small else None


def _negation_source(find: Finder, name: str, reader: OpNode) -> str:
    """Return what is negated to make a tensor that the reader alone reads. Return "" where nothing is."""
    found = find.scalar(name, "muls")
    return found[0] if found is not None and found[1] == -1 and find.only_user(name) is reader else ""


def _apply_signs(draft: Draft, node: OpNode, factor: str, signs: np.ndarray, back: int, known: dict[tuple[str, bytes, int], str]) -> str:
    """Return a factor times signs along an axis."""
    key = factor, signs.tobytes(), back
    if key not in known:
        t, along = draft.tensors[factor], signs.reshape(-1, *[1] * (-back - 1))
        if draft.is_constant(factor):
            known[key] = draft.constant(f"{factor}_signed", draft.weights[factor] * along, t.dtype)
        else:
            known[key] = draft.tensor(f"{factor}_signed", t.dtype, np.broadcast_shapes(t.shape, along.shape))
            held = draft.constant(f"{factor}_signs", along, "fp32")
            draft.nodes.append(draft.node("mul", [factor, held], known[key], None, node.name))
    return known[key]
