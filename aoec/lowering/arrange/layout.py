"""The layout of each tensor. Convolutions, pooling and the operators between them work in NC1HWC0, all others in ND. A convolution of few
channels reads its image in NC1HWC0_C04, where a pixel is four channels. That takes a quarter of the bytes and of the products.

Conversions become nodes; constants are converted at compile time. Inputs and results of the graph keep their layouts. They are ND,
unless the graph says NC1HWC0 (a convolution between others) or NZ. On chips that cannot convert ND to NZ on the way, products are
fastest in NZ. An elementwise operator stays in NC1HWC0 only where it keeps the zeros in the padding channels, or where there are none.
Padding channels of one byte may hold anything. Their readers multiply them by zero weights, move them, or leave them out.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode, Tensor
from aoec.ir.index import DTYPES
from aoec.lowering.arrange.pack_rows import merged_groups
from aoec.lowering.lower.physical import stored_move
from aoec.ops.host.host import PREFIX
from aoec.ops.own import word
from aoec.ops.run import REALS
from aoec.ops.words.layout import FEW, FIVE, PIXEL, c0_of, to_logical, to_physical
from aoec.ops.words.movement import spelt_out

MOST_READERS = 4  # of a tensor, that are looked at for what reads theirs
WIDEST_ROW = 1024  # pixels of a row of results that fill half of L0A (64 KB on all chips) with one column of fractals


def family(node: OpNode) -> str:
    """Return the family of a node's operator; host for nodes that run there."""
    return "host" if node.op.startswith(PREFIX) else word(node).family


def assign(draft: Draft, scales: bool = False, four: bool = True) -> None:
    """Rewrite the draft's nodes with layouts and conversions. `scales`: sums are scaled to int8 on their way out of L0C. `four`: images
    of few channels are read four channels to a pixel."""
    on_the_way = (set(scaled_sums(draft)) if scales else set()) | images_of_rows(draft)
    nodes, draft.nodes = draft.nodes, []
    pending: dict[str, str] = {}  # result of the graph -> the NC1HWC0 tensor that it is converted from at the end
    converted: dict[tuple[str, str], str] = {}
    for node in nodes:
        node = replace(node, inputs=tuple(pending.get(i, i) for i in node.inputs))
        layout = FIVE if node.name in on_the_way and (node.op == "transpose" or _any_five(draft, node)) else _layout(draft, node)
        taken = _operand_layout(draft, node, layout, four)
        plain = family(node) == "cube" or node.op == "requantise" and layout == FIVE  # weights, biases and scales are no images
        node = replace(node, inputs=tuple(_fetch(draft, node, i, "ND" if plain and at else taken, converted)
                                          for at, i in enumerate(node.inputs)))
        if layout == FIVE:
            node = replace(node, outputs=tuple(_five(draft, o, pending) for o in node.outputs))
        draft.nodes += _IN_ROWS[node.op](draft, node) if node.op in _IN_ROWS and layout == "ND" else [node]
    draft.nodes += [draft.node("from_nc1hwc0", [source], result) for result, source in pending.items()]


def scaled_sums(draft: Draft) -> dict[str, str]:
    """Return the nodes that make int8 of a convolution's sums, perhaps through relu, which nothing else reads, and the convolution of each.

    Channels are whole blocks, or the convolution is one product. Then its weight gets columns of zeros, and padding channels hold what
    a sum of 0 becomes."""
    users, producers = draft.users(), draft.producers()
    found: dict[str, str] = {}
    for node in draft.nodes:
        chain, source = [node], producers.get(node.inputs[0]) if node.op == "requantise" else None
        if source is not None and source.op == "relu":
            chain, source = [node, source], producers.get(source.inputs[0])
        if source is not None and source.op == "conv2d" and all(draft.only_user(n.inputs[0], users) is n for n in chain) and (
                _fills_channels(draft.tensors[node.outputs[0]]) or _is_one_product(draft, source)):
            found |= {n.name: source.name for n in chain}
    return found


def _is_one_product(draft: Draft, node: OpNode) -> bool:
    """Return whether a convolution has a constant weight that is one matrix, with all its groups."""
    weight, group = draft.tensors[node.inputs[1]], node.attribute("group", 1)
    assert isinstance(group, int)
    return draft.is_constant(weight.name) and merged_groups(weight.shape[0] // group, weight.shape[1], group, c0_of(weight.dtype)) == group


def _five(draft: Draft, output: str, pending: dict[str, str]) -> str:
    """Return the tensor for a result in NC1HWC0: its own, or a new one where the graph's result must stay ND."""
    if output not in draft.outputs or draft.tensors[output].layout == FIVE:
        draft.tensors[output] = replace(draft.tensors[output], layout=FIVE)
        return output
    t = draft.tensors[output]
    pending[output] = draft.tensor(f"{output}_nc1hwc0", t.dtype, t.shape, FIVE)
    return pending[output]


def _layout(draft: Draft, node: OpNode) -> str:
    """Return the layout in which the node takes and gives its tensors."""
    five = _RULES.get(family(node), lambda d, n: False)(draft, node)
    return FIVE if five else "ND"


def _operand_layout(draft: Draft, node: OpNode, layout: str, four: bool) -> str:
    """Return the layout in which the node takes its tensors: that of its result, but for rows and for images of few channels."""
    if node.op == "conv2d" and four and _few(draft, node):
        return FEW
    if node.op == "transpose" and layout == FIVE:
        return "ND"
    return FIVE if _makes_rows(draft, node) else layout


def _few(draft: Draft, node: OpNode) -> bool:
    """Return whether a convolution reads an image in ND of at most four channels of 16 bits, in whole blocks for each row.

    Tiles of such an image are whole rows, as load3d cannot read rows with gaps, and one row of results must fit into L0A. Results of one
    row, as of a line, are tiled along it, and then no tile may begin in padding."""
    x, y, pad = draft.tensors[node.inputs[0]], draft.tensors[node.outputs[0]], node.attribute("pad")
    if y.shape[2] == 1 and isinstance(pad, tuple) and pad[1]:
        return False
    few = x.layout in ("ND", FEW) and x.shape[1] <= PIXEL[FEW] and DTYPES[x.dtype] == 2 and node.attribute("group", 1) == 1
    return few and x.shape[3] % PIXEL[FEW] == 0 == _read_columns(draft, node) % PIXEL[FEW] and y.shape[3] <= WIDEST_ROW


def _read_columns(draft: Draft, node: OpNode) -> int:
    """Return how many columns of its image, from the first on, a convolution reads: a stride may leave the last ones out."""
    x, w, y = (draft.tensors[name].shape[-1] for name in (*node.inputs[:2], *node.outputs))
    stride, pad, dilation = (node.attribute(name) for name in ("stride", "pad", "dilation"))
    assert isinstance(stride, tuple) and isinstance(pad, tuple) and isinstance(dilation, tuple)
    return min(x, int((y - 1) * stride[1] - pad[1] + (w - 1) * dilation[1]) + 1)


def _any_five(draft: Draft, node: OpNode) -> bool:
    return any(draft.tensors[i].layout == FIVE for i in node.inputs)


def _fills_channels(t: Tensor) -> bool:
    """Return whether the channels fill whole units of C0, so that there is no padding."""
    return t.shape[1] % c0_of(t.dtype) == 0


def _elementwise(draft: Draft, node: OpNode) -> bool:
    out = draft.tensors[node.outputs[0]]
    every = [draft.tensors[i] for i in (*node.inputs, *node.outputs)]
    if len(out.shape) != 4 or not _any_five(draft, node) or not all(_fits(draft, i, out) for i in node.inputs):
        return False
    if node.definition and any(t.shape != out.shape for t in every):  # it says itself which dimensions it reads, not by their place
        return False
    if len({c0_of(t.dtype) for t in every}) > 1:  # channels of different dtypes lie in blocks of different sizes
        return False
    bytes_alone = all(DTYPES[t.dtype] == 1 for t in every)  # whose padding channels nobody relies on
    return bytes_alone or _fills_channels(out) or all(t.dtype in REALS for t in every) and keeps_zero(node)


def _fits(draft: Draft, name: str, out: Tensor) -> bool:
    """Return True for a tensor of the result's shape, one pixel of its channels, of each image or of all, and a constant that has the
    result's channels."""
    t = draft.tensors[name]
    if not draft.is_constant(name):
        return t.shape == out.shape or t.shape in ((*out.shape[:2], 1, 1), (1, out.shape[1], 1, 1))
    shape = (1,) * (4 - len(t.shape)) + t.shape
    return len(shape) == 4 and shape[1] == out.shape[1]


def keeps_zero(node: OpNode) -> bool:
    """Return True where zeros in give zero out, as the reference itself says."""
    zeros = [np.zeros((1,) * 4 if node.definition else 1, np.float32) for _ in node.inputs]
    with np.errstate(all="ignore"):
        return bool(np.all(word(node).reference(*zeros, **dict(node.attributes)) == 0))


def _concat(draft: Draft, node: OpNode) -> bool:
    inputs = [draft.tensors[i] for i in node.inputs]
    if len(inputs[0].shape) != 4 or not _any_five(draft, node):
        return False
    if node.attribute("axis") == 1:
        return all(_fills_channels(t) for t in inputs)
    return node.attribute("axis") in (2, 3) and all(t.layout == FIVE for t in inputs)  # pixels move whatever their channels


def _planes(draft: Draft, node: OpNode) -> bool:
    """Return True for an image in NC1HWC0 of which the cube takes each plane of channels as a matrix, turned by MTE1: of 16 bits."""
    image = draft.tensors[node.inputs[0]]
    return image.layout == FIVE and DTYPES[image.dtype] == 2


def _product(draft: Draft, node: OpNode) -> list[OpNode]:
    """Return the interpolation of a tensor in ND as the matrix product that it is."""
    image, weights = node.inputs
    last = node.attribute("axis") == len(draft.tensors[image].shape) - 1
    given = ((image, weights), (("trans_b", 1),)) if last else ((weights, image), ())
    return [replace(node, op="matmul", inputs=given[0], attributes=given[1])]


def _transposition(draft: Draft, node: OpNode) -> list[OpNode]:
    """Return depth to space of an image in ND as views and the transpose between them."""
    (x,), (y,) = node.inputs, node.outputs
    t = draft.tensors[x]
    scale = node.attribute("scale")
    assert isinstance(scale, tuple)
    apart, perm, shape = spelt_out(t.shape, [int(s) for s in scale])
    phases = draft.tensor(f"{y}_phases", t.dtype, apart)
    turned = draft.tensor(f"{y}_turned", t.dtype, tuple(apart[axis] for axis in perm))
    return [draft.node("reshape", [x], phases, {"shape": apart}), draft.node("transpose", [phases], turned, {"perm": perm}),
            draft.node("reshape", [turned], y, {"shape": shape})]


_IN_ROWS = {"interpolate": _product, "depth_to_space": _transposition}  # words of images -> what they are in ND


def _makes_rows(draft: Draft, node: OpNode) -> bool:
    """Return whether this makes rows of the channels of an image in NC1HWC0. Its blocks of channels are moved whole."""
    return node.op == "transpose" and node.attribute("perm") == (0, 2, 3, 1) and _any_five(draft, node)


def images_of_rows(draft: Draft) -> set[str]:
    """Return the names of transposes from rows of channels, in whole blocks, to images that a convolution or a pool reads, perhaps after
    elementwise work. Blocks of channels are moved whole."""
    users, found = draft.users(), set[str]()
    for node in draft.nodes:
        if node.op == "transpose" and node.attribute("perm") == (0, 3, 1, 2):
            out = draft.tensors[node.outputs[0]]
            rows = draft.tensors[node.inputs[0]].layout == "ND" and not draft.is_constant(node.inputs[0])
            if rows and out.name not in draft.outputs and 0 not in out.shape and _fills_channels(out) and _leads_to_image(users, out.name):
                found.add(node.name)
    return found


def _leads_to_image(users: Mapping[str, Sequence[OpNode]], name: str, most: int = 8) -> bool:
    """Return whether a convolution or a pool reads an image, or what at most so much elementwise work one after the other makes of it."""
    readers = users.get(name, ())
    if any(n.op == "conv2d" and n.inputs[0] == name or family(n) == "pool" for n in readers):
        return True
    return most > 0 and any(family(n) == "elementwise" and _leads_to_image(users, n.outputs[0], most - 1) for n in readers[:MOST_READERS])


def _moves(draft: Draft, node: OpNode) -> bool:
    """Return True for what moves whole blocks of channels of an image in NC1HWC0."""
    if node.op in ("slice", "pad"):
        return stored_move(node, draft.tensors[node.inputs[0]]) is not None
    if node.op == "depth_to_space":
        return _any_five(draft, node) and _fills_channels(draft.tensors[node.outputs[0]])
    return node.op == "upsample" and _any_five(draft, node) or node.op == "concat" and _concat(draft, node)


_RULES = {
    "cube": lambda draft, node: node.op == "conv2d" or node.op == "interpolate" and _planes(draft, node),
    "pool": lambda draft, node: True,
    "elementwise": _elementwise,
    "movement": _moves,
}


def _fetch(draft: Draft, node: OpNode, name: str, layout: str, converted: dict[tuple[str, str], str]) -> str:
    """Return the tensor that the node reads in place of `name`: itself, or its conversion (made once)."""
    if not name or draft.tensors[name].layout == layout or _stays(draft, node, name):
        return name
    if (name, layout) not in converted:
        converted[name, layout] = _constant(draft, node, name, layout) if draft.is_constant(name) else _convert(draft, name, layout)
    return converted[name, layout]


def _stays(draft: Draft, node: OpNode, name: str) -> bool:
    """Return whether a tensor stays as it is. The step after this one packs weights, and matrices in NZ are there for their readers
    (nz.py)."""
    weights = family(node) == "cube" and name in node.inputs[1:]
    return draft.is_constant(name) and weights or draft.tensors[name].layout == "NZ"


def _convert(draft: Draft, name: str, layout: str) -> str:
    t = draft.tensors[name]
    out = draft.tensor(f"{name}_{layout.lower()}", t.dtype, t.shape, layout)
    draft.nodes.append(draft.node("to_nc1hwc0" if layout in PIXEL else "from_nc1hwc0", [name], out))
    return out


def _constant(draft: Draft, node: OpNode, name: str, layout: str) -> str:
    """Return a constant in a layout of images, of four dimensions; counts of a pooling window are repeated over one unit of C0 channels."""
    t = draft.tensors[name]
    array = to_logical(draft.weights[name], t)
    array = array.reshape((1,) * (4 - array.ndim) + array.shape)
    if node.op == "avg_pool" and array.shape[1] == 1:
        array = np.repeat(array, c0_of(t.dtype), axis=1)
    stored = Tensor(name, t.dtype, array.shape, layout)
    return draft.constant(f"{name}_{layout.lower()}", to_physical(array, stored), t.dtype, array.shape, layout)
