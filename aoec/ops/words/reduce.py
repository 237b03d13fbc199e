"""Reductions over stated axes, which stay as extents of 1: sum, mean, greatest and least element."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from aoec.ops.declare import Attributes, Onnx, Op, Shape, Template, names, tensor
from aoec.ops.sizes import rows


def _text(name: str, op: str, mean: bool = False) -> Template:
    def text(shapes: Sequence[Shape], attributes: Attributes) -> str:
        rank = len(shapes[0])
        axes = {int(a) % rank for a in attributes["axes"]}  # type: ignore[union-attr, arg-type]
        loops = names("i", rank)
        kept = tensor("S", [loops[a] for a in range(rank) if a not in axes] or ["o0"])  # of all elements: a row of one
        dims = [f"o{a}: 1" if a in axes else loops[a] for a in range(rank)]
        y = tensor("Y", [f"o{a}" if a in axes else loops[a] for a in range(rank)])
        factor = f" * {1.0 / prod(shapes[0][a] for a in axes)!r}" if mean else ""
        return f"{name}({tensor('X', loops)}) -> {tensor('Y', dims)} {{\n  {kept} {op} {tensor('X', loops)}\n  {y} = {kept}{factor}\n}}"
    return text


def _reference(f: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda x, *, axes: f(x, axis=tuple(axes), keepdims=True)


def _reduction(name: str, op: str, reference: Callable[..., np.ndarray], cann: str, onnx: Onnx | None, sensitive: str = "") -> Op:
    return Op(name, _text(name, op, mean=name == "reduce_mean"), _reference(reference), "reduce", rows(attributes={"axes": (1,)}), (cann,),
              onnx, sensitive)


MANY = "a sum of many can leave the range of fp16"
OPS = (
    _reduction("reduce_sum", "+=", np.sum, "ReduceSumD", None, MANY),  # ONNX's has its axes as an argument
    _reduction("reduce_mean", "+=", np.mean, "ReduceMeanD", Onnx("ReduceMean", {"axes": ()}), MANY),
    _reduction("reduce_max", "max=", np.max, "ReduceMaxD", Onnx("ReduceMax", {"axes": ()})),
    _reduction("reduce_min", "min=", np.min, "ReduceMinD", Onnx("ReduceMin", {"axes": ()})),
)
