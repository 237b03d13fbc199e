"""Where ONNX's text, its reference and onnxruntime disagree, or ONNX says nothing: what each gives, and what we give.

We take what PyTorch and onnxruntime compute, which is what a model was trained with and what it was tried with; where these two differ, the
one that the table says. docs/operators.md shows the table (`python bench/nodes.py --write`); the check of a compiled model reads it, and
never refuses a model for what another does otherwise (jobs/verified.py); so does bench/operators.py.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx

from aoec.frontend.versions import domain, opset

Shapes = Mapping[str, Sequence[int] | None]  # of values whose shapes are known


@dataclass(frozen=True)
class At:
    """A node as the table looks at it."""

    node: onnx.NodeProto
    opset: int
    shapes: Shapes

    def text(self, name: str, default: str = "") -> str:
        return next((a.s.decode(errors="replace") for a in self.node.attribute if a.name == name), default)

    def integer(self, name: str, default: int = 0) -> int:
        return next((a.i for a in self.node.attribute if a.name == name), default)


def _always(at: At) -> bool:
    return True


@dataclass(frozen=True)
class Difference:
    """One place. `operators` of ONNX's own domain; `when` says of which attributes, arguments or values; `says`: what ONNX's text or its
    reference has; `onnxruntime` and `ours`: what these give. `onnxruntime_differs`: whether onnxruntime differs from us there, so that it
    cannot be held against us. `values`: of special values alone, such as NaN, which the data of our checks do not hold. `applies` is true
    of nodes that may meet it."""

    operators: tuple[str, ...]
    when: str
    says: str
    onnxruntime: str
    ours: str
    onnxruntime_differs: bool = True
    values: bool = True
    applies: Callable[[At], bool] = _always


def _same_shape(at: At) -> bool:
    """True where input and result have one shape, or it is not known."""
    a, b = (at.shapes.get(name) for name in (at.node.input[0], at.node.output[0]))
    return a is None or b is None or tuple(a) == tuple(b)


def _rule(*names: str) -> Callable[[At], bool]:
    return lambda at: at.text("coordinate_transformation_mode", "half_pixel") in names


RESIZE = ("Resize",)
DIFFERENCES: tuple[Difference, ...] = (
    Difference(RESIZE, "align_corners or tf_crop_and_resize, a scale times a size that is no whole number",
               "text: length_resized, the result's size; reference: scale times size", "the result's size", "the result's size, as PyTorch",
               onnxruntime_differs=False, values=False, applies=_rule("align_corners", "tf_crop_and_resize")),
    Difference(RESIZE, "pytorch_half_pixel to size 1", "text: 0; reference: -0.5", "0", "0, as PyTorch", onnxruntime_differs=False, values=False,
               applies=_rule("pytorch_half_pixel")),
    Difference(("Resize", "Upsample"), "coordinates that rounding decides", "text: real numbers; reference: doubles", "fp32", "fp32, as PyTorch",
               onnxruntime_differs=False, values=False),
    Difference(("Resize", "Upsample"), "nearest before operator set 11", "text: nothing; reference: floor",
               "the next element where there are fewer, else the last", "as onnxruntime", onnxruntime_differs=False, values=False),
    Difference(RESIZE, "scales that leave the shape as it is, such as 1.1 of 6 elements", "text: sampled at the scale",
               "copied", "sampled, as PyTorch", values=False, applies=_same_shape),
    Difference(RESIZE, "tf_crop_and_resize, an axis of scale 1", "text: the region counts", "the region is passed over", "the region counts",
               values=False, applies=_rule("tf_crop_and_resize")),
    Difference(("ArgMax", "ArgMin", "Hardmax"), "NaN in a row", "nothing; reference: the first NaN",
               "any place: a first NaN stays, others are passed over", "the first NaN, or the last one where select_last_index is set, as NumPy and PyTorch"),
    Difference(("TopK",), "NaN in a row", "nothing", "any order", "NaN is greater than all numbers, as NumPy and PyTorch sort it, and equal to "
               "infinity among the smallest and among more than 32"),
    Difference(("MaxPool", "GlobalMaxPool"), "NaN in a window", "nothing; reference: NaN, or passed over", "NaN first in a window, else passed over",
               "NaN, at the place of the last one, as PyTorch"),
    Difference(("Clip",), "infinities without a bound", "text: the largest finite numbers are the bounds", "the largest finite numbers",
               "infinities stay, as in NumPy and PyTorch"),
    Difference(("Pow",), "a constant exponent of 0.5 or -0.5, and -inf or -0", "C's pow: inf or 0 of -inf, +inf of -0",
               "C's pow", "a root: NaN of -inf, -inf of -0"),
    Difference(("Mod",), "fmod = 1, reals whose quotient is 2^48 or more", "exact", "exact", "NaN; below it is exact"),
    Difference(("Mod",), "fmod = 1, int64 beyond 2^53", "exact", "by doubles, rounded", "exact"),
    Difference(("QuantizeLinear",), "NaN", "nothing", "an end of the range", "the zero of whole numbers"),
)


def of_node(node: onnx.NodeProto, version: int, shapes: Shapes) -> list[Difference]:
    """The differences that a node of ONNX's own domain may meet."""
    at = At(node, version, shapes)
    return [d for d in DIFFERENCES if node.op_type in d.operators and not domain(node) and d.applies(at)]


def of_model(model: onnx.ModelProto, shapes: Shapes) -> Iterator[tuple[str, Difference]]:
    """(operator, difference) of every node of a model, in subgraphs too, where onnxruntime gives something else than we do on ordinary
    values."""
    for node in _nodes(model.graph):
        yield from ((node.op_type, d) for d in of_node(node, opset(model), shapes) if d.onnxruntime_differs and not d.values)


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for n in graph.node:
        yield n
        for a in n.attribute:
            for inner in (*([a.g] if a.HasField("g") else []), *a.graphs):
                yield from _nodes(inner)


def rows() -> Iterator[str]:
    """The table, as lines of Markdown."""
    yield "| operator | where | ONNX | onnxruntime | aoec |"
    yield "|---|---|---|---|---|"
    for d in DIFFERENCES:
        yield f"| {', '.join(d.operators)} | {d.when} | {d.says} | {d.onnxruntime} | {d.ours} |"
