"""Treats BatchNormalization and Dropout as they are while a model is trained.

A BatchNormalization takes mean and variance of the batch, as PyTorch's and ONNX's training modes do. Its gradient is the closed form of
Ioffe and Szegedy (2015): two sums over the batch, of dy and of dy times the normalised x, and one elementwise pass. The general rules would
take five sums. So the backward graph is made as if the statistics were constants, and `finish` adds their share to the gradient of x:

    dx = by * (dy - mean(dy) - unit * mean(dy * unit)),  unit = (x - mean) / deviation,  by = scale / deviation

It is computed as dy * by - x * back + rest, with two numbers for each channel, so that no normalised x is kept. Means of x, x², dy and dy *
x are taken in fp32, in one pass each way, and centred afterwards. CANN's BNTrainingReduce does the same (it gives the sum and the sum of
squares).

The running statistics are results of the step. The variance that they take is unbiased, as in PyTorch; ONNX takes the biased one. Dropout
is a product with an input, its mask, which holds 0 or 1 / (1 - ratio).
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import onnx
from onnx import TensorProto, helper

from aoec.base.text import plural
from aoec.frontend.training.parts.added import Added
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode

MOMENTUM = 0.9  # of a BatchNormalization that states none (ONNX)


@dataclass(frozen=True)
class BatchNorm:
    """A BatchNormalization in a draft: y = x * by + ..., where nothing else reads `x`. It has `mean` and one `over` the deviation of its
    batch, [1, c, 1, ...]. `statistics`: the nodes that make them, kept out of the draft until the backward graph is made."""

    label: str
    x: str
    y: str
    scale: str
    bias: str
    by: str
    mean: str
    over: str
    statistics: tuple[OpNode, ...]

    @property
    def ends(self) -> tuple[str, str]:
        """Return the tensors whose gradients `finish_batch_norms` asks for."""
        return self.x, self.y


def mask_dropouts(proto: onnx.ModelProto) -> list[str]:
    """Return notices, after each Dropout became a product with an input that is its mask."""
    g = proto.graph
    types = {i.name: i.type for i in (*g.value_info, *g.output)}
    read = {i for n in g.node for i in n.input} | {o.name for o in g.output}
    masks = []
    for n in g.node:
        if n.op_type == "Dropout" and n.output[0] in types and not read & set(n.output[1:]):
            mask = f"{n.output[0]}_mask"
            g.input.append(helper.make_tensor_value_info(mask, TensorProto.FLOAT, [
                d.dim_value for d in types[n.output[0]].tensor_type.shape.dim]))
            n.CopyFrom(helper.make_node("Mul", [n.input[0], mask], n.output[:1], n.name))
            masks.append(mask)
    return [f"{plural(len(masks), 'Dropout')} with a mask as an input, of 0 or 1 / (1 - ratio) (first: {masks[0]})"] if masks else []


def momenta(proto: onnx.ModelProto) -> dict[str, float]:
    """Return result of each BatchNormalization -> its momentum: the share of the running statistics that is kept."""
    return {n.output[0]: next((a.f for a in n.attribute if a.name == "momentum"), MOMENTUM)
            for n in proto.graph.node if n.op_type == "BatchNormalization"}


def train_batch_norms(draft: Draft, running: Sequence[str], kept: Mapping[str, float]) -> tuple[list[BatchNorm], list[tuple[str, str]]]:
    """Return (the normalisations that take the statistics of their batch now, (running statistic, its next value) of each).

    `running`: inputs of the draft that are running statistics; `kept`: `momenta`.
    """
    norms: list[BatchNorm] = []
    updated: dict[str, str] = {}
    nodes, draft.nodes = draft.nodes, []
    for n in nodes:
        if n.op == "batch_norm" and {*n.inputs[3:]} <= {*running}:
            norms.append(_train(draft, n, kept.get(n.outputs[0], MOMENTUM), updated))
        else:
            draft.nodes.append(n)
    return norms, list(updated.items())


def _train(draft: Draft, node: OpNode, kept: float, updated: dict[str, str]) -> BatchNorm:
    """Add the nodes that replace a BatchNormalization, except those of its statistics."""
    x, scale, bias, *before = node.inputs
    (y,) = node.outputs
    aside: list[OpNode] = []
    add, of = Added(draft, y), Added(draft, y, aside)
    shape = add.shape(x)
    channels, count = shape[1], prod(shape) // shape[1]
    one = (1, channels, *[1] * (len(shape) - 2))
    own = add.step("reshape", [x], shape=shape)  # a tensor that nothing else reads: its gradient is asked for
    rows = as_rows(of, own)
    mean, square = (mean_of(of, r, one) for r in (rows, of.step("mul", [rows, rows])))
    spread = of.wide(of.step("sub", [square, of.wide(of.step("mul", [mean, mean]))]))
    variance = of.wide(of.step("relu", [spread]))  # never below 0, whatever sums are rounded to
    over = of.wide(of.step("rsqrt", [of.wide(of.step("adds", [variance], scalar=float(dict(node.attributes)["epsilon"])))]))  # type: ignore[arg-type]
    for name, now, unbiased in zip(before, (mean, variance), (1.0, count / max(1, count - 1))):
        if name not in updated:
            flat = of.step("reshape", [now], shape=(channels,))
            parts = [of.step("muls", [name], scalar=kept), of.step("muls", [flat], scalar=(1.0 - kept) * unbiased)]
            updated[name] = of.wide(of.step("add", parts))
    factor, term = (add.step("reshape", [v], shape=one) for v in (scale, bias))
    by = add.wide(add.step("mul", [factor, over]))
    plus = add.wide(add.step("sub", [term, add.wide(add.step("mul", [mean, by]))]))
    made = add.step("add", [add.step("mul", [own, by]), plus])
    draft.nodes.append(draft.node("reshape", [made], y, {"shape": shape}, f"{y}_result"))
    return BatchNorm(y, own, made, scale, bias, by, mean, over, tuple(aside))


def finish_batch_norms(draft: Draft, norms: Sequence[BatchNorm], gradients: dict[str, str]) -> None:
    """Put the statistics into the draft, and add their share to the gradients. `gradients`: tensor -> its gradient as if the statistics
    were constants, of parameters and of what norms ask for. Those of scales and biases change."""
    begins = {n.x: n for n in norms}
    ends = {gradients[n.x]: n for n in norms if n.x in gradients}
    instead: dict[str, str] = {}
    nodes, draft.nodes = draft.nodes, []
    for node in nodes:
        draft.nodes.append(replace(node, inputs=tuple(instead.get(i, i) for i in node.inputs)))
        for made in node.outputs:
            if made in begins:
                draft.nodes += begins[made].statistics
            if made in ends:
                instead[made] = _whole_gradient(draft, ends[made], instead.get(gradients[ends[made].y], gradients[ends[made].y]), gradients)
    for name, made in gradients.items():
        gradients[name] = instead.get(made, made)


def _whole_gradient(draft: Draft, norm: BatchNorm, dy: str, gradients: dict[str, str]) -> str:
    """Return the gradient of what a norm reads, from that of what it makes."""
    add = Added(draft, f"{norm.label}_gradient")
    shape = add.shape(norm.x)
    count = prod(shape) // shape[1]
    rows, one = as_rows(add, dy), add.shape(norm.mean)
    level, product = (mean_of(add, r, one) for r in (rows, add.step("mul", [rows, as_rows(add, norm.x)])))
    far = add.wide(add.step("sub", [product, add.wide(add.step("mul", [level, norm.mean]))]))  # the mean of dy * (x - mean)
    slope = add.wide(add.step("mul", [far, norm.over]))
    for name, mean in ((norm.bias, level), (norm.scale, slope)):
        if name in gradients:
            gradients[name] = add.wide(add.step("muls", [add.step("reshape", [mean], shape=shape[1:2])], scalar=float(count)))
    back = add.wide(add.step("mul", [add.wide(add.step("mul", [slope, norm.over])), norm.by]))  # of x, what is taken from dx
    rest = add.wide(add.step("sub", [add.wide(add.step("mul", [norm.mean, back])), add.wide(add.step("mul", [level, norm.by]))]))
    return add.step("add", [add.step("sub", [add.step("mul", [dy, norm.by]), add.step("mul", [norm.x, back])]), rest])


def as_rows(add: Added, x: str) -> str:
    """Return a tensor with each plane as a row: [n, c, pixels]."""
    shape = add.shape(x)
    return add.step("reshape", [x], shape=(*shape[:2], prod(shape[2:])))


def mean_of(add: Added, rows: str, shape: Sequence[int]) -> str:
    """Return the mean of rows [n, c, pixels] over all but the channels, in fp32: of each row, then over the batch."""
    each = add.wide(add.step("reduce_mean", [rows], axes=(2,)))
    return add.step("reshape", [add.wide(add.step("reduce_mean", [each], axes=(0,)))], shape=tuple(shape))
