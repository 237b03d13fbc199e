"""Products of images whose rows are pixels, as the gradient of a convolution's weight has them: of images in NC1HWC0 as they lie.

A convolution makes NC1HWC0, and a launch brings that to ND, as rows of channels or as planes. But an image in NC1HWC0 lies as a matrix in
NZ does, of a row for each pixel and a column for each channel. So the product takes it as that, turned where it was asked for planes.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode
from aoec.lowering.arrange.images.planes import CHANNELS_LAST, SHORT
from aoec.ops.words.layout import FIVE, FRACTAL_ROWS, c0_of

Makers = Mapping[str, OpNode]


@dataclass(frozen=True)
class Pixels:
    """An operand of a product that is an image in NC1HWC0: its pixels are rows, or columns where it is `turned`."""

    image: str
    turned: bool


def multiply_pixels(draft: Draft) -> None:
    """Make products take images in NC1HWC0 as matrices in NZ. Layouts are there already; what nobody reads any more is left out."""
    makers = draft.producers()
    nodes, draft.nodes = draft.nodes, []
    changed = False
    for node in nodes:
        found = [_pixels(draft, makers, i) for i in node.inputs] if node.op == "matmul" and len(node.inputs) == 2 else []
        if any(found):
            draft.nodes += _product(draft, node, found)
            changed = True
        else:
            draft.nodes.append(node)
    if changed:
        _drop_unread(draft)


def _pixels(draft: Draft, makers: Makers, name: str) -> Pixels | None:
    """Return the image that a matrix [n, pixels, c] or [n, c, pixels] is; None where it is none, or does not lie in whole fractals."""
    view = makers.get(name)
    move = makers.get(view.inputs[0]) if view is not None and view.op == "reshape" else None
    if move is None or len(draft.tensors[name].shape) != 3:
        return None
    rows = move.op == "transpose" and move.attribute("perm") == CHANNELS_LAST
    x = draft.tensors[move.inputs[0]]
    if not (rows or move.op == "from_nc1hwc0") or x.layout != FIVE or len(x.shape) != 4 or x.dtype not in SHORT:
        return None
    n, c, pixels = *x.shape[:2], prod(x.shape[2:])
    if pixels % FRACTAL_ROWS or c % c0_of(x.dtype) or 0 in x.shape:
        return None
    wanted = (n, pixels, c) if rows else (n, c, pixels)
    return Pixels(x.name, not rows) if draft.tensors[name].shape == wanted else None


def _product(draft: Draft, node: OpNode, found: list[Pixels | None]) -> list[OpNode]:
    """Return the product of the images as matrices, behind the views of them."""
    out, inputs, given = [], [], dict(node.attributes)
    for at, (name, pixels) in enumerate(zip(node.inputs, found)):
        t = draft.tensors[name]
        if pixels is None:
            apart = draft.tensor(f"{name}_apart", t.dtype, (*t.shape[:-2], 1, *t.shape[-2:]))
            out.append(draft.node("reshape", [name], apart, {"shape": draft.tensors[apart].shape}))
            inputs.append(apart)
            continue
        x, flag = draft.tensors[pixels.image], f"trans_{'ab'[at]}"
        n, c, count = *x.shape[:2], prod(x.shape[2:])
        line = draft.tensor(f"{x.name}_line", x.dtype, (n, c, 1, count), FIVE)
        rows = draft.tensor(f"{x.name}_rows", x.dtype, (n, 1, count, c), "NZ")
        out += [draft.node("reshape", [x.name], line, {"shape": (n, c, 1, count)}),
                draft.node("transpose", [line], rows, {"perm": CHANNELS_LAST})]
        inputs.append(rows)
        given[flag] = int(bool(given.get(flag, 0)) != pixels.turned)
    y = draft.tensors[node.outputs[0]]
    made = draft.tensor(f"{y.name}_apart", y.dtype, (*y.shape[:-2], 1, *y.shape[-2:]))
    given = {k: v for k, v in given.items() if v}
    return [*out, draft.node("matmul", inputs, made, given, node.name), draft.node("reshape", [made], y.name, {"shape": y.shape})]


def _drop_unread(draft: Draft) -> None:
    """Leave out the nodes whose results nobody reads any more."""
    wanted, kept = set(draft.outputs), []
    for node in reversed(draft.nodes):
        if wanted.intersection(node.outputs):
            wanted.update(node.inputs)
            kept.append(node)
    draft.nodes = kept[::-1]
