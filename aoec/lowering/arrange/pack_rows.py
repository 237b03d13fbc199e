"""Weights and biases of convolutions that are no constants, brought into the order in which the cube reads them by nodes of the graph."""
from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Attribute
from aoec.ops.meanings import shape
from aoec.ops.run import NUMPY
from aoec.ops.words.layout import FRACTAL_ROWS, c0_of


def merged_groups(each_out: int, each_in: int, group: int, c0: int) -> int:
    """Return how many groups of a convolution make a block of the packed weight."""
    fits = [m for m in range(1, group + 1) if group % m == 0 and m * each_in % c0 == 0 and m * each_out % FRACTAL_ROWS == 0]
    return 1 if group == 1 else min(fits, default=group)


def weight_in_rows(draft: Draft, name: str, group: int, c0: int) -> str:
    """Return the weight [co, c, kh, kw] as rows [co, k], k running over (c / c0, kh, kw, c0); rows and channels padded with zeros, and
    groups that share a block with zeros between them (by a product with 0, so that an infinite weight gives NaN in all of its block)."""
    t = draft.tensors[name]
    co, c, kh, kw = t.shape
    merged = merged_groups(co // group, c, group, c0)
    w = name
    if merged > 1:
        own = np.arange(co)[:, None] // (co // group) % merged == np.arange(merged)
        w = _step(draft, "reshape", [w], {"shape": (co, 1, c * kh * kw)})
        own_only = draft.constant(f"{name}_own", own[:, :, None].astype(NUMPY[t.dtype]), t.dtype)
        w = _step(draft, "mul", [w, own_only])
        w = _step(draft, "reshape", [w], {"shape": (co, merged * c, kh, kw)})
    w = pad_axis(draft, w, 1, c0)
    planes = draft.tensors[w].shape[1] // c0
    if kh * kw > 1:
        w = _step(draft, "reshape", [w], {"shape": (co, planes, c0, kh * kw)})
        w = _step(draft, "transpose", [w], {"perm": (0, 1, 3, 2)})
    w = _step(draft, "reshape", [w], {"shape": (co, planes * kh * kw * c0)})
    return pad_axis(draft, w, 0, c0_of(t.dtype)) if merged == group else w


def bias_in_fractals(draft: Draft, name: str) -> str:
    """Return the bias in the dtype of sums, padded with zeros to whole fractals."""
    b = name
    if draft.tensors[name].dtype not in ("fp32", "int32"):
        b = _step(draft, "cast", [b], dtype="fp32")
    return pad_axis(draft, b, 0, FRACTAL_ROWS)


def pad_axis(draft: Draft, name: str, axis: int, unit: int) -> str:
    """Pad the tensor with zeros at the end of an axis, up to a multiple of `unit`."""
    t = draft.tensors[name]
    missing = -t.shape[axis] % unit
    if not missing:
        return name
    after = tuple(missing if at == axis else 0 for at in range(len(t.shape)))
    return _step(draft, "pad", [name], {"before": (0,) * len(after), "after": after, "value": 0.0})


def _step(draft: Draft, op: str, inputs: Sequence[str], attributes: Mapping[str, Attribute] | None = None, dtype: str = "") -> str:
    """Return the tensor that a new node makes, of its first argument's dtype unless stated."""
    found = shape(op, [draft.tensors[i].shape for i in inputs], attributes or {})
    out = draft.tensor(f"{inputs[0]}_{op}", dtype or draft.tensors[inputs[0]].dtype, found)
    draft.nodes.append(draft.node(op, inputs, out, attributes))
    return out
