"""Runs, by ONNX's text, the operators whose reference in the onnx package differs from that text.

- Loop: an absent condition is true (the reference runs no iteration). The results of the iterations are stacked along a new axis (the
  reference joins them along the first).
- Scan: along any axis and in either direction (the reference refuses all but the first axis, forward).
- CastLike: takes all attributes of its newest version (the reference of an older one refuses them).
- Optional: a value in an optional is the value (the reference wraps it into a list, which its other operators do not expect).
- Scatter: is ScatterElements (the reference has it by its later name alone).
- Cast: to 4 and 2 bits rounds to the nearest, of ties the even one, and keeps the low bits (the reference cuts off).
- Softmax, LogSoftmax, Hardmax: before version 13 over all axes from theirs on (the reference takes that one alone).
- BatchNormalization: before version 14 trains where it has results beside the first (the reference always does).
- LpNormalization: sums magnitudes (the reference sums what may be negative).
- GatherElements: indices may have fewer rows than the tensor (the reference refuses these).
- GridSample: takes the names of modes of version 16, too (the reference refuses them).
- OneHot: a depth may be a vector of one number (the reference refuses it).
- DequantizeLinear: exists before version 19, too (the reference refuses it).
- NonMaxSuppression: every argument behind the scores may be absent (the reference requires the thresholds). Where no box may be taken, the
  result has the shape [0, 3] (the reference gives no columns).
- Unique: without sorting, elements come in the order in which they are first seen. This holds along any axis, whatever outputs are asked
  for (the reference takes them along the first axis, and sorts them where nothing else is asked for).
- Recurrent layers, pools and windows of channels, Resize: host_recurrent.py, host_windows.py and host_resize.py.

Nodes run here if they work on doubles or on other types that only the host holds. Nodes of constants alone run here at import.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx.helper import np_dtype_to_tensor_dtype, tensor_dtype_to_np_dtype
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_cast import cast_to
from onnx.reference.ops.op_dequantize_linear import DequantizeLinear_25 as ReferenceDequantize
from onnx.reference.ops.op_grid_sample import GridSample as ReferenceGridSample
from onnx.reference.ops.op_loop import Loop as ReferenceLoop
from onnx.reference.ops.op_non_max_suppression import NonMaxSuppression as ReferenceSuppression
from onnx.reference.ops.op_one_hot import OneHot as ReferenceOneHot
from onnx.reference.ops.op_scatter_elements import ScatterElements as ReferenceScatter

from aoec.ops.host import host_recurrent, host_resize, host_windows
from aoec.ops.host.control import Values, rounds, run_loop, run_scan

NO_ROWS = np.empty((0,), np.float32)  # the reference knows no shapes
FEW_BITS = ("int2", "int4", "uint2", "uint4")


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

        return tuple(run_loop(M, cond, list(carried), one, [NO_ROWS] * self.K))


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
            return self._run_each(body, *args)
        cut = len(args) - self.num_scan_inputs
        return tuple(run_scan(list(args[:cut]), list(args[cut:]), body, [NO_ROWS] * (len(self.body.output_names) - cut),
                             lambda name: getattr(self, name)))

    def _run_each(self, body: Callable[[Values], Values], lengths: Any, *args: Any) -> tuple[Any, ...]:
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


class CastLike(OpRun):
    """Cast to the element type of the second argument."""

    op_domain = ""

    def _run(self, x: np.ndarray, y: np.ndarray, saturate: Any = 1, round_mode: Any = "up") -> tuple[Any, ...]:
        return (cast(x, np_dtype_to_tensor_dtype(y.dtype), saturate, round_mode),)


class Cast(OpRun):
    """Cast to an element type."""

    op_domain = ""

    def _run(self, x: np.ndarray, to: Any = None, saturate: Any = 1, round_mode: Any = "up") -> tuple[Any, ...]:
        return (cast(x, to, saturate, round_mode),)


def cast(x: np.ndarray, to: Any, saturate: Any, round_mode: Any) -> np.ndarray:
    """Return the elements in another type. A real in 4 or 2 bits becomes the nearest whole number, ties to even, in its low bits."""
    if x.dtype.kind in "fV" and np.dtype(tensor_dtype_to_np_dtype(to)).name in FEW_BITS and x.dtype.name not in FEW_BITS:
        x = np.rint(x.astype(np.float64)).astype(np.int64)
    return np.asarray(cast_to(x, to, bool(saturate), round_mode or "up"))


class Optional(OpRun):
    """An optional value is the value itself, or None, as OptionalGetElement and OptionalHasElement take it."""

    op_domain = ""

    def _run(self, x: Any = None, type: Any = None) -> tuple[Any, ...]:
        return (x,)


class Scatter(ReferenceScatter):
    """Scatter was renamed."""

    op_domain = ""


def _flat(run: OpRun, x: np.ndarray, axis: int | None) -> tuple[np.ndarray, int]:
    """Return (the tensor as one of rows that are looked at whole, their axis): from version 13 on itself and the stated axis."""
    if run.run_params["opsets"].get("", 13) >= 13:
        return x, -1 if axis is None else axis
    first = 1 if axis is None else axis + x.ndim if axis < 0 else axis
    return x.reshape(int(np.prod(x.shape[:first])), -1) if x.size else x.reshape(0, 1), 1


def _own_attribute(run: OpRun, name: str) -> Any:
    """Return an attribute of the node itself, None where its version's default stands: defaults of the newest version are given
    otherwise."""
    return next((getattr(run, name) for a in run.onnx_node.attribute if a.name == name), None)


class Softmax(OpRun):
    """Shares of a sum of exponentials."""

    op_domain = ""

    def _run(self, x: np.ndarray, axis: Any = None) -> tuple[Any, ...]:
        rows, at = _flat(self, x, _own_attribute(self, "axis"))
        e = np.exp(rows - rows.max(axis=at, keepdims=True)) if x.size else rows
        return ((e / e.sum(axis=at, keepdims=True)).reshape(x.shape).astype(x.dtype),)


class LogSoftmax(OpRun):
    """Their logarithms."""

    op_domain = ""

    def _run(self, x: np.ndarray, axis: Any = None) -> tuple[Any, ...]:
        rows, at = _flat(self, x, _own_attribute(self, "axis"))
        less = rows - rows.max(axis=at, keepdims=True) if x.size else rows
        return ((less - np.log(np.exp(less).sum(axis=at, keepdims=True))).reshape(x.shape).astype(x.dtype),)


class Hardmax(OpRun):
    """1 at the first of the greatest, 0 elsewhere."""

    op_domain = ""

    def _run(self, x: np.ndarray, axis: Any = None) -> tuple[Any, ...]:
        rows, at = _flat(self, x, _own_attribute(self, "axis"))
        y = np.zeros_like(rows)
        if x.size:
            np.put_along_axis(y, np.expand_dims(rows.argmax(axis=at), at), 1, axis=at)
        return (y.reshape(x.shape),)


class BatchNormalization(OpRun):
    """By given mean and variance; in training by the batch's own, and then the running ones too."""

    op_domain = ""

    def _run(self, x: np.ndarray, scale: np.ndarray, bias: np.ndarray, mean: np.ndarray, variance: np.ndarray, epsilon: Any = None,
             momentum: Any = None, training_mode: Any = None, **older: Any) -> tuple[Any, ...]:
        epsilon, part = (1e-5 if epsilon is None else epsilon), (0.9 if momentum is None else momentum)
        results, version = len(self.onnx_node.output), self.run_params["opsets"].get("", 15)
        if not (training_mode if version >= 14 else results > 1):
            return (self._normalise(x, scale, bias, mean, variance, epsilon),)
        axes = (0, *range(2, x.ndim))
        own, spread = x.mean(axis=axes), x.var(axis=axes)
        running = [(old * part + new * (1 - part)).astype(old.dtype) for old, new in ((mean, own), (variance, spread))]
        y = self._normalise(x, scale, bias, own, spread, epsilon)
        return tuple([y, *running, own.astype(x.dtype), spread.astype(x.dtype)][:results])

    def _normalise(self, x: np.ndarray, *given: Any) -> np.ndarray:
        *of_channels, epsilon = given
        scale, bias, mean, variance = (v.reshape(-1, *[1] * (x.ndim - 2)) for v in of_channels)
        return np.asarray((scale * (x - mean) / np.sqrt(variance + epsilon) + bias).astype(x.dtype))


class LpNormalization(OpRun):
    """Each element over the norm of its row; 0 where that is 0."""

    op_domain = ""

    def _run(self, x: np.ndarray, axis: Any = None, p: Any = None) -> tuple[Any, ...]:
        norm = np.linalg.norm(x, ord=2 if p is None else p, axis=-1 if axis is None else axis, keepdims=True)
        return (np.divide(x, norm, out=np.zeros_like(x), where=norm != 0),)


class GatherElements(OpRun):
    """An element for each index, whose place along other axes is its own."""

    op_domain = ""

    def _run(self, x: np.ndarray, indices: np.ndarray, axis: Any = None) -> tuple[Any, ...]:
        axis = (axis or 0) % x.ndim
        seen = x[tuple(slice(None) if at == axis else slice(n) for at, n in enumerate(indices.shape))]
        return (np.take_along_axis(seen, indices.astype(np.int64), axis) if indices.size else np.empty(indices.shape, x.dtype),)


class GridSample(ReferenceGridSample):
    """Version 16 names its modes after images."""

    op_domain = ""

    def _run(self, X: np.ndarray, grid: np.ndarray, mode: Any = None, padding_mode: Any = None, align_corners: Any = None,
             ) -> tuple[Any, ...]:
        plain = {"bilinear": "linear", "bicubic": "cubic", None: "linear"}
        return tuple(super()._run(X, grid, plain.get(mode, mode), padding_mode, align_corners))


class OneHot(ReferenceOneHot):
    """The depth may be a vector of one number."""

    op_domain = ""

    def _run(self, indices: np.ndarray, depth: Any, values: np.ndarray, axis: Any = None) -> tuple[Any, ...]:
        return tuple(super()._run(indices, np.asarray(depth).reshape(()), values, axis=-1 if axis is None else axis))


class NonMaxSuppression(ReferenceSuppression):
    """Boxes by batch and class, the best first, without those that overlap a better one."""

    op_domain = ""

    def _run(self, boxes: np.ndarray, scores: np.ndarray, most: Any = None, overlap: Any = None, least: Any = None,
             center_point_box: Any = None) -> tuple[Any, ...]:
        count = 0 if most is None else int(np.ravel(most)[0])
        if count <= 0:
            return (np.empty((0, 3), np.int64),)
        overlap = np.zeros(1, np.float32) if overlap is None else np.ravel(overlap)
        least = None if least is None else np.ravel(least)
        return tuple(super()._run(boxes, scores, np.array([count], np.int64), overlap, least, center_point_box or 0))


class Unique(OpRun):
    """What there is once, where it is first, which of it each element is, and how often it is there."""

    op_domain = ""

    def _run(self, x: np.ndarray, axis: Any = None, sorted: Any = None) -> tuple[Any, ...]:
        found, *more = np.unique(x, True, True, True, axis=axis)
        first, inverse, counts = (n.reshape(-1).astype(np.int64) for n in more)
        if not (1 if sorted is None else sorted):
            order = np.argsort(first)
            found, first, inverse, counts = np.take(found, order, axis or 0), first[order], np.argsort(order)[inverse], counts[order]
        return (found, first, inverse, counts)[:len(self.onnx_node.output)]


class DequantizeLinear(ReferenceDequantize):
    """Every version is the newest one with fewer attributes."""

    op_domain = ""


OPERATORS = (BatchNormalization, Cast, CastLike, DequantizeLinear, GatherElements, GridSample, Hardmax, LogSoftmax, Loop, LpNormalization,
             NonMaxSuppression, OneHot, Optional, Scan, Scatter, Softmax, Unique, *host_recurrent.OPERATORS, *host_resize.OPERATORS,
             *host_windows.OPERATORS)
