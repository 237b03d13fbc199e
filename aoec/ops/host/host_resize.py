"""Resize and Upsample for the host, by the places and weights of ops/host/resizing.py: with the values of onnxruntime, as on the AI
Core."""
from __future__ import annotations

from typing import Any

import numpy as np
from onnx.numpy_helper import saturate_cast
from onnx.reference.op_run import OpRun

from aoec.ops.host import resizing
from aoec.ops.host.resizing import Axis, Rule


class Resize(OpRun):
    """An axis after the other."""

    op_domain = ""

    def _run(self, x: np.ndarray, roi: Any = None, scales: Any = None, sizes: Any = None, **given: Any) -> tuple[np.ndarray, ...]:
        if self.run_params["opsets"].get("", 13) < 11:  # which has scales in place of the region
            return (resize(x, Rule("asymmetric", _mode(given), resizing.SIMPLE), _scale_axes(x, roi)),)
        rule = Rule(given.get("coordinate_transformation_mode") or "half_pixel", _mode(given),
                    given.get("nearest_mode") or "round_prefer_floor",
                    -0.75 if given.get("cubic_coeff_a") is None else given["cubic_coeff_a"],
                    bool(given.get("exclude_outside")), bool(given.get("antialias")))
        axes = [a % x.ndim for a in given.get("axes") or range(x.ndim)]
        policy = given.get("keep_aspect_ratio_policy") or "stretch"
        scaled, sized = ([v.item() for v in np.ravel(s)] if s is not None else [] for s in (scales, sizes))
        if not scaled and policy != "stretch":
            ratios = [n / x.shape[a] for n, a in zip(sized, axes)]
            ratio = min(ratios) if policy == "not_larger" else max(ratios)
            sized = [int(np.floor(ratio * x.shape[a] + 0.5)) for a in axes]
        out = list(x.shape)
        for at, axis in enumerate(axes):
            out[axis] = sized[at] if not scaled else int(np.floor(np.float32(x.shape[axis]) * np.float32(scaled[at])))
        region = [float(v) for v in np.ravel(roi)] if roi is not None and rule.coordinates == "tf_crop_and_resize" else []
        found = resizing.axes(x.shape, out, axes, scaled, [int(v) for v in sized], policy, region)
        return (resize(x, rule, found, given.get("extrapolation_value") or 0.0),)


class Upsample(OpRun):
    """Before Resize; `scales` was an attribute once."""

    op_domain = ""

    def _run(self, x: np.ndarray, scales: Any = None, **given: Any) -> tuple[np.ndarray, ...]:
        return (resize(x, Rule("asymmetric", _mode(given), resizing.SIMPLE), _scale_axes(x, scales)),)


def _mode(given: dict[str, Any]) -> str:
    mode = given.get("mode") or "nearest"
    return "linear" if mode == "bilinear" else str(mode)


def _scale_axes(x: np.ndarray, scales: Any) -> list[Axis]:
    """Return all axes by their scales."""
    scaled = [float(s) for s in np.ravel(scales)]
    out = [int(np.floor(np.float32(n) * np.float32(s))) for n, s in zip(x.shape, scaled)]
    return resizing.axes(x.shape, out, range(x.ndim), scaled, [], "stretch", [])


def resize(x: np.ndarray, rule: Rule, axes: list[Axis], beyond: float = 0.0) -> np.ndarray:
    """Return the tensor with its axes resized; `beyond` is what lies outside where it is cropped."""
    y = x if rule.mode == "nearest" else x.astype(np.float64)
    for a in axes:
        if rule.mode == "nearest":
            y = np.take(y, resizing.places(rule, a), a.at)
        else:
            y = np.moveaxis(np.tensordot(resizing.weights(rule, a), y, (1, a.at)), 0, a.at)
    if rule.coordinates == "tf_crop_and_resize":
        for a in axes:
            outside = resizing.outside(rule, a).reshape([-1 if at == a.at else 1 for at in range(y.ndim)])
            y = np.where(outside, y.dtype.type(beyond), y)
    return np.asarray(saturate_cast(y, x.dtype)) if y.dtype != x.dtype else y


OPERATORS = (Resize, Upsample)
