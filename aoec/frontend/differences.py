"""List where ONNX's text, its reference and onnxruntime disagree, or where ONNX says nothing: what each gives, and what we give.

We take what PyTorch and onnxruntime compute: a model was trained with the one and tried with the other. Where these two differ, we take the
one that the table names. docs/operators.md shows the table (`python bench/nodes.py --write`). The check of a compiled model reads it
(jobs/compile/verified.py) and never refuses a model for what another implementation does otherwise. bench/operators.py reads it, too.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx

from aoec.frontend.read.versions import domain, opset

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
    """Return True where input and result have one shape, or it is not known."""
    a, b = (at.shapes.get(name) for name in (at.node.input[0], at.node.output[0]))
    return a is None or b is None or tuple(a) == tuple(b)


def _rule(*names: str) -> Callable[[At], bool]:
    return lambda at: at.text("coordinate_transformation_mode", "half_pixel") in names


def _as_onnxruntime(operators: str, when: str, says: str, gives: str, torch: bool = False,
                    applies: Callable[[At], bool] = _always) -> Difference:
    """Return one where we give what onnxruntime does, and PyTorch too where it is said."""
    ours = "as PyTorch and onnxruntime" if torch else "as onnxruntime"
    return Difference(tuple(operators.split()), when, says, gives, ours, False, False, applies)


def _otherwise(operators: str, when: str, says: str, gives: str, ours: str, values: bool = True,
               applies: Callable[[At], bool] = _always) -> Difference:
    """Return one where we give something else than onnxruntime."""
    return Difference(tuple(operators.split()), when, says, gives, ours, True, values, applies)


DIFFERENCES: tuple[Difference, ...] = (
    _as_onnxruntime("Resize", "align_corners or tf_crop_and_resize, where scale times size is no whole number",
                    "text: length_resized, the result's size; reference: scale times size", "the result's size", True,
                    _rule("align_corners", "tf_crop_and_resize")),
    _as_onnxruntime("Resize", "pytorch_half_pixel to size 1", "text: 0; reference: -0.5", "0", True, _rule("pytorch_half_pixel")),
    _as_onnxruntime("Resize Upsample", "coordinates that rounding decides", "text: real numbers; reference: doubles", "fp32", True),
    _as_onnxruntime("Resize Upsample", "nearest before operator set 11", "text: nothing; reference: floor",
                    "the next element where there are fewer, else the last"),
    _as_onnxruntime("LSTM", "clip", "text: arguments of all activations; reference: none", "those of gates, not of the cell"),
    _as_onnxruntime("AveragePool LpPool MaxPool", "ceil_mode before operator set 22, a last window that begins behind the tensor",
                    "text: it counts, from 22 on it does not", "it does not", True),
    _as_onnxruntime("ConvTranspose", "auto_pad SAME_* and output_padding", "text: stride times the image; inference: output_padding more",
                    "stride times the image"),
    _as_onnxruntime("GridSample", "cubic, beyond the image", "text: nothing; reference: the point is clipped or thrown back",
                    "each pixel is", True),
    _as_onnxruntime("GroupNormalization", "operator sets 18 to 20", "text: taken back; checker: refused", "scale and bias of groups"),
    _otherwise("Resize", "scales that leave the shape as it is, such as 1.1 of 6 elements", "text: sampled at the scale", "a copy",
               "sampled, as PyTorch", False, _same_shape),
    _otherwise("Resize", "tf_crop_and_resize, an axis of scale 1", "text: the region counts", "the region is passed over",
               "the region counts", False, _rule("tf_crop_and_resize")),
    _otherwise("Resize", "half_pixel_symmetric, nearest elements of coordinates half way between two", "text: by nearest_mode",
               "by nearest_mode or the other", "by nearest_mode", False, _rule("half_pixel_symmetric")),
    _otherwise("ArgMax ArgMin Hardmax", "NaN in a row", "text: nothing; reference: the first NaN",
               "a NaN at the beginning stays, others are passed over",
               "the first NaN, with select_last_index the last, as NumPy and PyTorch"),
    _otherwise("ReduceMax ReduceMin ReduceLogSumExp", "NaN among the elements", "text: nothing; reference: NaN",
               "NaN, or NaN is passed over", "NaN, as NumPy and PyTorch"),
    _otherwise("TopK", "NaN in a row", "nothing", "any order",
               "NaN above all numbers, as NumPy and PyTorch; equal to infinity among the smallest and among more than 32"),
    _otherwise("MaxPool GlobalMaxPool", "NaN in a window", "text: nothing; reference: NaN, or passed over",
               "a NaN at the beginning stays, others are passed over", "NaN, at the place of the last one, as PyTorch"),
    _otherwise("Clip", "infinities without a bound", "text: the largest finite numbers are the bounds", "the largest finite numbers",
               "infinities stay, as in NumPy and PyTorch"),
    _otherwise("Pow", "a constant exponent of 0.5 or -0.5, of -inf and -0", "C's pow: inf or 0 of -inf, +inf of -0", "C's pow",
               "a root: NaN of -inf, -inf of -0"),
    _otherwise("Mod", "fmod of reals whose quotient is 2^48 or more", "exact", "exact", "NaN; below it is exact"),
    _otherwise("Mod", "fmod of int64 beyond 2^53", "exact", "by doubles, rounded", "exact"),
    _otherwise("Sin Cos Tan", "angles beyond 1e5, of Tan beyond 1e4", "exact", "exact",
               "multiples of pi are taken off in fp32: the error grows with them"),
    _otherwise("Gelu", "-inf", "text: -inf times 0, which is NaN", "NaN", "0 of results in 16 bits, else NaN"),
    _otherwise("Softplus", "above 11 in fp16", "exact", "inf", "the argument"),
    _otherwise("Sign", "NaN in fp16", "text: nothing", "0; in fp32 NaN", "NaN, as NumPy"),
    _otherwise("Mean", "a sum beyond the range", "text: nothing", "infinite", "the mean, which is within it"),
    _otherwise("ReduceProd", "some factors alone are beyond the range", "text: nothing", "in order: infinite, 0 or a number",
               "in another order: another of these"),
    _otherwise("Sum Mean", "three or more of 16 bits", "text: nothing", "rounded after each addition", "rounded once"),
    _otherwise("GroupNormalization", "operator sets from 21 on, channels far from 0", "text: E(x^2) - E(x)^2",
               "as the text, with few digits left", "the mean of squared differences"),
    _otherwise("QuantizeLinear", "NaN", "nothing", "an end of the range", "0 in whole numbers"),
)


def of_node(node: onnx.NodeProto, version: int, shapes: Shapes) -> list[Difference]:
    """Return the differences that a node of ONNX's own domain may meet."""
    at = At(node, version, shapes)
    return [d for d in DIFFERENCES if node.op_type in d.operators and not domain(node) and d.applies(at)]


def of_model(model: onnx.ModelProto, shapes: Shapes) -> Iterator[tuple[str, Difference]]:
    """Yield (operator, difference) of every node of a model, in subgraphs too, where onnxruntime gives something else than we do on
    ordinary values."""
    for node in _nodes(model.graph):
        yield from ((node.op_type, d) for d in of_node(node, opset(model), shapes) if d.onnxruntime_differs and not d.values)


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for n in graph.node:
        yield n
        for a in n.attribute:
            for inner in (*([a.g] if a.HasField("g") else []), *a.graphs):
                yield from _nodes(inner)


def rows() -> Iterator[str]:
    """Yield the table, as lines of Markdown."""
    yield "| operator | where | ONNX | onnxruntime | aoec |"
    yield "|---|---|---|---|---|"
    for d in DIFFERENCES:
        yield f"| {', '.join(d.operators)} | {d.when} | {d.says} | {d.onnxruntime} | {d.ours} |"
