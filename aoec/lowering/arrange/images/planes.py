"""Convolutions of single pixels whose result is wanted in planes: products of their weight with the image as a matrix, turned.

A convolution makes NC1HWC0, and a launch converts that to ND. But an image in NC1HWC0 lies as a matrix in NZ does, of a row for each pixel
and a column for each channel. The product of the weight with this matrix, turned, has a row for each channel and is stored in ND. So the
heads of detectors need no conversion. The bias is one for each row then, which vector work adds behind the product.
"""
from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from operator import mul

import numpy as np

from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode
from aoec.ops.run import NUMPY
from aoec.ops.words.layout import FIVE, FRACTAL_ROWS, c0_of

SHORT = ("fp16", "bf16")
CHANNELS_LAST = (0, 2, 3, 1)  # the permutation


@dataclass(frozen=True)
class Planes:
    """A convolution of single pixels, the conversion to ND behind it, and the reshape that alone reads this; None where there is none."""

    convolution: OpNode
    conversion: OpNode
    reshape: OpNode | None

    @property
    def exception(self) -> str:
        """Return the name under which it stays a convolution, as `fuse` takes it."""
        return f"{self.convolution.name}.planes"

    @property
    def result(self) -> str:
        """Return the tensor that the last of them makes."""
        return (self.reshape or self.conversion).outputs[0]


def multiply_planes(draft: Draft, kept: Collection[str] = ()) -> None:
    """Make products of convolutions whose result is wanted in planes. Layouts are there already. `kept`: exceptions, by name."""
    found = {p.convolution.name: p for p in find_planes(draft) if p.exception not in kept}
    gone = {n.name for p in found.values() for n in (p.conversion, p.reshape) if n is not None}
    nodes, draft.nodes = draft.nodes, []
    for node in nodes:
        if node.name not in gone:
            draft.nodes += _product(draft, found[node.name]) if node.name in found else [node]


def find_planes(draft: Draft) -> list[Planes]:
    """Return the convolutions that can be such products, in a draft with layouts."""
    users = draft.users()
    out = []
    for node in draft.nodes:
        reader = draft.only_user(node.outputs[0], users) if node.op == "conv2d" and _is_product(draft, node) else None
        if reader is not None and reader.op == "from_nc1hwc0":
            behind = draft.only_user(reader.outputs[0], users)
            n, count = draft.tensors[node.outputs[0]].shape[:2]
            planes = behind is not None and behind.op == "reshape" and _planes_end(draft.tensors[behind.outputs[0]].shape, n * count)
            out.append(Planes(node, reader, behind if planes else None))
    return out


def _is_product(draft: Draft, node: OpNode) -> bool:
    """Return whether a convolution is one of single pixels in 16 bits with constant weights, of whole blocks of channels and pixels."""
    x, w, y = (draft.tensors[name] for name in (*node.inputs[:2], *node.outputs))
    window = node.attribute("stride") == (1, 1) and not any(node.attribute("pad") or ()) and w.shape[2:] == (1, 1)  # type: ignore[arg-type]
    constant = all(draft.is_constant(i) for i in node.inputs[1:]) and not draft.is_constant(x.name)
    whole = x.layout == y.layout == FIVE and 0 not in x.shape and x.shape[1] % c0_of(x.dtype) == 0 == prod(x.shape[2:]) % FRACTAL_ROWS
    return window and constant and whole and node.attribute("group", 1) == 1 and x.dtype == w.dtype == y.dtype in SHORT


def _product(draft: Draft, found: Planes) -> list[OpNode]:
    """Return the product, behind the views of the image as a matrix, and the addition of the bias behind it."""
    node = found.convolution
    x, w = (draft.tensors[name] for name in node.inputs[:2])
    n, c, *image = x.shape
    pixels, count = prod(image), w.shape[0]
    line = draft.tensor(f"{x.name}_line", x.dtype, (n, c, 1, pixels), FIVE)
    rows = draft.tensor(f"{x.name}_rows", x.dtype, (n, 1, pixels, c), "NZ")
    matrix = draft.constant(f"{w.name}_matrix", draft.weights[w.name].reshape(count, c), w.dtype)
    planes = draft.tensor(f"{node.outputs[0]}_planes", x.dtype, (n, 1, count, pixels))
    out = [draft.node("reshape", [x.name], line, {"shape": (n, c, 1, pixels)}),
           draft.node("transpose", [line], rows, {"perm": CHANNELS_LAST}),
           draft.node("matmul", [matrix, rows], planes, {"trans_b": 1}, node.name)]
    shape = draft.tensors[found.result].shape
    if len(node.inputs) < 3:
        return [*out, draft.node("reshape", [planes], found.result, {"shape": shape})]
    sums = draft.tensor(f"{found.result}_sums", x.dtype, shape)
    bias = draft.weights[node.inputs[2]].astype(NUMPY[x.dtype])
    lead = shape[:_planes_end(shape, n * count)]
    each = np.broadcast_to(bias, (n, count)).reshape(*lead, *(1,) * (len(shape) - len(lead)))
    added = draft.constant(f"{node.inputs[2]}_planes", each, x.dtype)
    return [*out, draft.node("reshape", [planes], sums, {"shape": shape}), draft.node("add", [sums, added], found.result)]


def _planes_end(shape: Sequence[int], count: int) -> int:
    """Return how many of the first axes of a shape number so many planes; 0 where none do."""
    return next((at + 1 for at, reached in enumerate(accumulate(shape, mul)) if reached == count), 0)
