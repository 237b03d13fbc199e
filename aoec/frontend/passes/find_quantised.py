"""Finds work on quantised tensors that exporters spell out in reals, between DequantizeLinear and QuantizeLinear, and does it on the whole
numbers. It covers products of int8 with sums in int32, which leave as int8 times a scale for each channel. It also covers additions and
operators that only move elements.

uint8 is treated as int8 throughout: 128 is subtracted from the values and from the zero point. A window's padding reads the image's zero
point, which is real 0. So the zero point subtracts the same amount from every sum, and its product with the channel's weights becomes part
of the bias. Products are found where scales and zero points are constants. A tensor has one of each. Weights may have one for each channel,
with zero points of 0.

Sums are exact in int32. The one rounding is ONNX's, in fp32 with ties to even. It rounds the sum times (scale of the image * scale of the
weight / scale of the result).
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from aoec.frontend.passes.find import Finder
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Attribute, OpNode
from aoec.ops.run import run_node
from aoec.ops.words.quantised import MIDDLE

MOVES = ("max_pool", "reshape", "transpose", "slice", "upsample", "expand", "concat")  # they give elements that they are given
LIMITS = {"lo": -128.0, "hi": 127.0}  # of int8
MOST_SUM = 2 ** 31 - 1
NONE: Mapping[str, Attribute] = {}


@dataclass(frozen=True)
class Scale:
    """What numbers of int8 stand for: (number - zero) * scale. `more`: what the model's own numbers have more, 128 where they are uint8."""

    scale: np.float32
    zero: int
    more: int


@dataclass(frozen=True)
class Whole:
    """A tensor of int8 and what it stands for."""

    name: str
    of: Scale


@dataclass(frozen=True)
class Weight:
    """A constant of int8 with the scale of each of its columns (of a convolution: of each channel of the result), or one for all."""

    numbers: np.ndarray
    scale: np.ndarray


def find_quantised(draft: Draft) -> None:
    """Replace work between conversions from and to eight bits by operators on the eight-bit numbers."""
    _Search(draft).run()


class _Search:
    """A walk over a draft's nodes; `signed`: the tensor of int8 for each of uint8 that has one."""

    def __init__(self, draft: Draft) -> None:
        self.draft, self.find = draft, Finder.of(draft)
        self.signed: dict[str, str] = {}

    def run(self) -> None:
        nodes, self.draft.nodes = self.draft.nodes, []
        for node in nodes:
            if node.op == "quantise" and (out := self.parameters(node)) is not None:
                self.rewrite_quantise(node, out)
            elif node.op == "dequantise" and node.inputs[0] in self.signed and (given := self.parameters(node)) is not None:
                self.draft.nodes.append(self.rewrite_dequantise(node, given))
            else:
                self.draft.nodes.append(node)

    # ------------------------------------------------------------ what is known of a tensor

    def parameters(self, node: OpNode) -> Scale | None:
        """Scale and zero point of a conversion, where they are constants, one for all."""
        scale, zero = (self.draft.weights.get(i) for i in node.inputs[1:])
        if scale is None or zero is None or scale.size != 1 or zero.size != 1 or not (scale > 0).all():
            return None
        more = int(MIDDLE) if zero.dtype == np.uint8 else 0
        return Scale(np.float32(scale.reshape(())), int(zero.reshape(())) - more, more)

    def as_int8(self, real: str) -> Whole | None:
        """Return a tensor of reals in int8, where it was made of eight bits."""
        node = self.find.producer(real, "dequantise")
        given = self.parameters(node) if node is not None else None
        if node is None or given is None or self.draft.is_constant(node.inputs[0]) or not self.bytes(node.inputs[0]):
            return None
        return Whole(self.as_signed(node.inputs[0]), given)

    def bytes(self, name: str) -> bool:
        return self.draft.tensors[name].dtype in ("int8", "uint8")

    def as_signed(self, name: str) -> str:
        """Return the tensor of int8 for one of eight bits."""
        if self.draft.tensors[name].dtype == "int8":
            return name
        if name not in self.signed:
            self.signed[name] = self.step("signed", [name], f"{name}_signed", "int8")
        return self.signed[name]

    def step(self, op: str, inputs: Sequence[str], label: str, dtype: str, shape: Sequence[int] = (),
             attributes: Mapping[str, Attribute] = NONE) -> str:
        """Return the tensor that a new node makes, of its first input's shape where none is given."""
        out = self.draft.tensor(label, dtype, shape or self.draft.tensors[inputs[0]].shape)
        self.draft.nodes.append(self.draft.node(op, inputs, out, attributes))
        return out

    def weight(self, real: str, axis: int) -> Weight | None:
        """Return a constant of eight bits without a zero point, scaled as a whole or along `axis` alone."""
        node = self.find.producers.get(real)
        if node is not None and node.op == "transpose" and (before := self.weight(node.inputs[0], -1)) is not None:
            turned = [run_node(node, [a])[0] for a in (before.numbers, before.scale)]
            return self.along(Weight(turned[0], turned[1]), axis)
        if node is None or node.op != "dequantise" or not all(map(self.draft.is_constant, node.inputs)) or not self.bytes(node.inputs[0]):
            return None
        numbers, scale, zero = (self.draft.weights[i] for i in node.inputs)
        middle = MIDDLE if numbers.dtype == np.uint8 else 0
        if (zero.astype(np.int32) != middle).any() or not (scale > 0).all():
            return None
        scale = scale.astype(np.float32).reshape((1,) * (numbers.ndim - scale.ndim) + scale.shape)
        return self.along(Weight((numbers.astype(np.int16) - int(middle)).astype(np.int8), scale), axis)

    def along(self, w: Weight, axis: int) -> Weight | None:
        """Return the weight with its scales as a vector along an axis (-1: as they are). Return None where they go along another."""
        if axis < 0:
            return w
        own = all(n == 1 for at, n in enumerate(w.scale.shape) if at != axis)
        return replace(w, scale=w.scale.reshape(-1)) if own else None

    def constant_reals(self, name: str) -> np.ndarray | None:
        """Return a constant's reals, given as such or as whole numbers with a scale."""
        node = self.find.producer(name, "dequantise")
        if node is not None and all(map(self.draft.is_constant, node.inputs)):
            numbers, scale, zero = (self.draft.weights[i].astype(np.float64) for i in node.inputs)
            return (numbers - zero) * scale
        return self.draft.weights.get(name)

    # ------------------------------------------------------------ what becomes of a quantised tensor

    def rewrite_quantise(self, node: OpNode, of: Scale) -> None:
        """Make the node's result in int8, and from that as the model has it."""
        source = self.find.producers.get(node.inputs[0])
        made = self.make_in_int8(source, node, of) if source is not None else ""
        name = made or self.quantise(node.inputs[0], node, of)
        out = self.draft.tensors[node.outputs[0]]
        if out.dtype == "uint8":
            self.signed[out.name] = name
            self.draft.nodes.append(self.draft.node("unsigned", [name], out.name))
        else:
            self.draft.nodes.append(self.draft.node("reshape", [name], out.name, {"shape": out.shape}))

    def make_in_int8(self, source: OpNode, node: OpNode, of: Scale) -> str:
        """Make the result of a conversion in int8 from the start, and return the tensor. Return "" where that is not possible."""
        alone = self.find.only_user(node.inputs[0]) is node
        if source.op in (*MOVES, "dequantise"):
            return self.move_in_int8(source, of) or (self.join_in_int8(source, node, of) if alone and source.op == "concat" else "")
        return self.compute_in_int8(source, of) if alone else ""

    def zero(self, node: OpNode, of: Scale) -> str:
        """Return the zero point of a conversion, of int8."""
        shape = self.draft.tensors[node.inputs[2]].shape
        return self.draft.constant(f"{node.outputs[0]}_zero", np.full(shape, of.zero, np.int8), "int8")

    def rewrite_dequantise(self, node: OpNode, of: Scale) -> OpNode:
        """Return the conversion to reals, of the tensor in int8."""
        return replace(node, inputs=(self.signed[node.inputs[0]], node.inputs[1], self.zero(node, of)))

    def move_in_int8(self, source: OpNode, of: Scale) -> str:
        """Move elements of the same scale in int8, and return the tensor. Return "" where the source is no such move."""
        reals = [source.outputs[0]] if source.op == "dequantise" else [*source.inputs]
        found = [self.as_int8(i) for i in reals]
        if not all(w is not None and w.of == of for w in found):
            return ""
        names = [w.name for w in found if w is not None]
        if source.op == "dequantise":
            return names[0]
        out = self.draft.tensors[source.outputs[0]]
        return self.step(source.op, names, f"{out.name}_signed", "int8", out.shape, dict(source.attributes))

    def join_in_int8(self, source: OpNode, node: OpNode, of: Scale) -> str:
        """Join parts in int8 that a concat reads in reals: those of other scales are converted one by one, as the whole would be."""
        found = [self.as_int8(i) for i in source.inputs]
        if not all(found):
            return ""
        names = [w.name if w.of == of else self.quantise(real, node, of) for w, real in zip(found, source.inputs) if w is not None]
        out = self.draft.tensors[source.outputs[0]]
        return self.step("concat", names, f"{out.name}_signed", "int8", out.shape, dict(source.attributes))

    def quantise(self, real: str, node: OpNode, of: Scale) -> str:
        """Return the tensor of int8 that a conversion makes of reals."""
        return self.step("quantise", [real, node.inputs[1], self.zero(node, of)], f"{node.outputs[0]}_signed", "int8", attributes=LIMITS)

    def compute_in_int8(self, source: OpNode, of: Scale) -> str:
        """Compute a product or a sum in int8, perhaps with relu, and return the tensor. Return "" where the source is neither."""
        relu = source.op == "relu"
        made = self.find.producers.get(source.inputs[0]) if relu else source
        if made is None or relu and self.find.only_user(source.inputs[0]) is not source:
            return ""
        limits = not relu or of.zero == LIMITS["lo"]  # what is below zero is below int8
        if made.op == "add" and limits and (parts := [self.as_int8(i) for i in made.inputs]) and all(parts):
            return self.add_in_int8(made, [p for p in parts if p is not None], of)
        sums = self.sums(made)
        if sums is None:
            return ""
        name, factor = sums
        if relu:
            name = self.step("relu", [name], f"{name}_relu", "int32")
        out = self.draft.tensors[name].shape
        shape = (1, out[1], 1, 1) if made.op == "conv2d" else out[-1:]
        each = np.broadcast_to((factor / of.scale).astype(np.float32), max(shape)).reshape(shape)
        factors = self.draft.constant(f"{name}_scale", each, "fp32")
        return self.step("requantise", [name, factors], f"{source.outputs[0]}_signed", "int8", attributes={"zero": float(of.zero)})

    def add_in_int8(self, node: OpNode, parts: Sequence[Whole], of: Scale) -> str:
        """Add two tensors. Zero points and 128s stand where onnxruntime's own addition of bytes has them."""
        scales = [p.of for p in parts]
        a, b = (p.scale / of.scale for p in scales)
        zeros = [np.float32(p.zero + p.more) for p in (*scales, of)]
        given = {"scale_a": float(a), "scale_b": float(b), "offset": float(zeros[2] - (a * zeros[0] + b * zeros[1]))}
        given |= {name: float(p.more) for name, p in zip(("more_a", "more_b", "more"), (*scales, of))}
        out = self.draft.tensors[node.outputs[0]]
        return self.step("add_quantised", [p.name for p in parts], f"{out.name}_signed", "int8", out.shape, given)

    def sums(self, node: OpNode) -> tuple[str, np.ndarray] | None:
        """Return (int32 sums of a product with its bias, the scale of each column or one for all). Return None where it is none of eight
        bits."""
        bias = node.inputs[2] if node.op in ("conv2d", "matmul") and len(node.inputs) > 2 else ""
        if node.op == "add":  # a matrix product and a vector
            product, bias = next(((p, b) for i, b in (node.inputs, node.inputs[::-1])
                                  if (p := self.find.producer(i, "matmul")) and self.find.only_user(i) is node and len(p.inputs) == 2),
                                 (None, ""))
            node = product or node
        if node.op not in ("conv2d", "matmul") or node.attribute("trans_a", 0):
            return None
        rows = node.op == "conv2d" or bool(node.attribute("trans_b", 0))  # of the weight, one for each column of the result
        x, w = self.as_int8(node.inputs[0]), self.weight(node.inputs[1], 0 if rows else 1)
        if x is None or w is None or len(w.numbers.shape) != (4 if node.op == "conv2d" else 2):
            return None
        factor = x.of.scale * w.scale
        start = self.start(bias, x.of.zero, w.numbers if rows else w.numbers.T, factor)
        return None if start is None else (self.product(node, x, w.numbers, start), factor)

    def start(self, bias: str, zero: int, rows: np.ndarray, factor: np.ndarray) -> np.ndarray | None:
        """Return the initial value of sums: the bias in steps of `factor`, less the zero point times each row's weights. Return None beyond
        int32."""
        given = self.constant_reals(bias) if bias else np.zeros(1)
        if given is None or given.size not in (1, len(rows)):
            return None
        taken = zero * rows.reshape(len(rows), -1).astype(np.int64).sum(axis=1)
        steps = np.rint(given.reshape(-1).astype(np.float64) / factor) - taken
        return steps.astype(np.int32) if np.abs(steps).max() <= MOST_SUM else None

    def product(self, node: OpNode, x: Whole, numbers: np.ndarray, start: np.ndarray) -> str:
        """Return the int32 tensor of a product's sums."""
        out, given = self.draft.tensors[node.outputs[0]], dict(node.attributes)
        if any(given.get("pad", ())):  # type: ignore[arg-type]
            given["pad_value"] = x.of.zero
        inputs = [x.name, self.draft.constant(f"{node.inputs[1]}_int8", numbers, "int8")]
        if start.any():
            inputs.append(self.draft.constant(f"{out.name}_start", start, "int32"))
        return self.step(node.op, inputs, f"{out.name}_sums", "int32", out.shape, given)
