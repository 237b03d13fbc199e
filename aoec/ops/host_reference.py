"""Operators of ONNX whose reference in the onnx package falls short of ONNX's text, by that text.

- Loop: an absent condition is true (the reference runs no iteration), and what the iterations give is stacked along a new axis (the
  reference joins it along the first).
- Scan: along any axis and in either direction (the reference refuses all but the first axis, forward).
- CastLike: takes all attributes of its newest version (the reference of an older one refuses them).
- Optional: a value in an optional is the value (the reference wraps it into a list, which its other operators do not expect).
- Scatter: is ScatterElements (the reference has it by its later name alone).
- MaxPool: indices count through the whole tensor, N and C too (those of the reference start anew in every channel).
"""
from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from onnx.helper import np_dtype_to_tensor_dtype
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_cast import cast_to
from onnx.reference.ops.op_loop import Loop as ReferenceLoop
from onnx.reference.ops.op_max_pool import MaxPool as ReferenceMaxPool
from onnx.reference.ops.op_scatter_elements import ScatterElements as ReferenceScatter

from aoec.ops.control import Values, looped, rounds, scanned

NO_ROWS = np.empty((0,), np.float32)  # the reference knows no shapes

class Loop(ReferenceLoop):
    """Loop-carried values, then scan outputs."""

    op_domain = ""
    body: Any  # these are set from the node's attributes
    _run_body: Any

    def _run(self, M: Any, cond: Any, *carried: Any, context: Any = None, body: Any = None, attributes: Any = None,
             bindings: Any = None) -> tuple[Any, ...]:
        def one(values: Values) -> Values:
            inputs = dict(zip(self.body.input_names, values))
            return list(self._run_body({**(context or {}), **inputs}, attributes=attributes, bindings=bindings))

        return tuple(looped(M, cond, list(carried), one, [NO_ROWS] * self.K))


class Scan(OpRun):
    """Final states, then scan outputs. Version 8 knows no axes, has a batch axis before all, and may be given lengths of sequences."""

    op_domain = ""
    body: Any
    _run_body: Any
    num_scan_inputs: int
    scan_input_axes: Any
    scan_input_directions: Any
    scan_output_axes: Any
    scan_output_directions: Any

    def need_context(self) -> bool:
        return True

    def _run(self, *args: Any, context: Any = None, attributes: Any = None, bindings: Any = None, **_: Any) -> tuple[Any, ...]:
        def body(values: Values) -> Values:
            inputs = dict(zip(self.body.input_names, values))
            return list(self._run_body({**(context or {}), **inputs}, attributes=attributes, bindings=bindings))

        if self.run_params["opsets"].get("", 9) < 9:
            return self._batched(body, *args)
        cut = len(args) - self.num_scan_inputs
        return tuple(scanned(list(args[:cut]), list(args[cut:]), body, [NO_ROWS] * (len(self.body.output_names) - cut),
                             lambda name: getattr(self, name)))

    def _batched(self, body: Callable[[Values], Values], lengths: Any, *args: Any) -> tuple[Any, ...]:
        """Version 8: each member of the batch alone; behind the end of a shorter sequence its scan outputs are zero."""
        cut = len(args) - self.num_scan_inputs
        batch, steps = args[cut].shape[:2]
        ends = np.full(batch, steps) if lengths is None else lengths
        directions = getattr(self, "directions", None)
        members = [rounds([s[b] for s in args[:cut]], [x[b][:ends[b]] for x in args[cut:]], body, directions,
                          len(self.body.output_names) - cut) for b in range(batch)]
        states = [np.stack(of) for of in zip(*(m[0] for m in members))]
        rows = [[np.concatenate([np.stack(out), np.zeros((steps - len(out), *np.shape(out[0])), np.asarray(out[0]).dtype)]) for out in m[1]]
                for m in members]
        return tuple([*states, *(np.stack(of) for of in zip(*rows))])


class MaxPool(ReferenceMaxPool):
    """The maxima, and where they lie."""

    op_domain = ""

    def _run(self, x: np.ndarray, **given: Any) -> tuple[Any, ...]:  # type: ignore[override]
        y = super()._run(x, **given)[0]
        return (y,) if len(self.onnx_node.output) < 2 else (y, _places(x, y, **given))


def _places(x: np.ndarray, y: np.ndarray, kernel_shape: Any, auto_pad: Any = None, dilations: Any = None, pads: Any = None,
            storage_order: Any = None, strides: Any = None, **_: Any) -> np.ndarray:
    """The index in x of each maximum, the first of equal ones; planes are counted by columns for storage order 1."""
    size, rank = x.shape[2:], len(kernel_shape)
    strides, dilations = ([1] * rank if given is None else list(given) for given in (strides, dilations))
    begins = _begins(size, y.shape[2:], kernel_shape, strides, dilations, auto_pad, pads)
    numbers = np.arange(x.size).reshape(x.shape)
    if storage_order:
        numbers = numbers.reshape(*x.shape[:2], *size[::-1]).transpose(0, 1, *range(rank + 1, 1, -1))
    best, out = np.full(y.shape, -np.inf), np.zeros(y.shape, np.int64)
    for offset in product(*map(range, kernel_shape)):
        at = [np.arange(n) * s - b + k * d for n, s, b, k, d in zip(y.shape[2:], strides, begins, offset, dilations)]
        inside = np.ones((), bool)
        for i, n in zip(at, size):
            inside = inside[..., None] & ((i >= 0) & (i < n))
        place = np.ix_(range(x.shape[0]), range(x.shape[1]), *[i.clip(0, n - 1) for i, n in zip(at, size)])
        found = np.where(inside, x[place].astype(np.float64), -np.inf)
        out, best = np.where(found > best, numbers[place], out), np.maximum(found, best)
    return out


def _begins(size: Any, out: Any, kernel: Any, strides: Any, dilations: Any, auto_pad: Any, pads: Any) -> list[int]:
    """The padding before each spatial axis."""
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        total = [max(0, (o - 1) * s + (k - 1) * d + 1 - n) for n, o, k, s, d in zip(size, out, kernel, strides, dilations)]
        return [t // 2 if auto_pad == "SAME_UPPER" else t - t // 2 for t in total]
    return list(pads[:len(kernel)]) if pads is not None and auto_pad in (None, "", "NOTSET") else [0] * len(kernel)


class CastLike(OpRun):
    """Cast to the element type of the second argument."""

    op_domain = ""

    def _run(self, x: np.ndarray, y: np.ndarray, saturate: Any = 1, round_mode: Any = "up") -> tuple[Any, ...]:
        return (cast_to(x, np_dtype_to_tensor_dtype(y.dtype), bool(saturate), round_mode or "up"),)


class Optional(OpRun):
    """An optional value is the value itself, or None, as OptionalGetElement and OptionalHasElement take it."""

    op_domain = ""

    def _run(self, x: Any = None, type: Any = None) -> tuple[Any, ...]:
        return (x,)


class Scatter(ReferenceScatter):
    """Scatter was renamed."""

    op_domain = ""


OPERATORS = (CastLike, Loop, MaxPool, Optional, Scan, Scatter)
