"""Weights as the cube unit loads them: matrices in ZN fractals, made at compile time (the format: aoec/ops/words/layout.py).

Grouped convolutions are merged to blocks, of as few groups as possible. The input channels of a block are whole units of C0, and its
output channels a multiple of 16. Where no number of groups gives that, a block has all groups. Within a block the weight is
block-diagonal.
"""
from __future__ import annotations

from dataclasses import replace

import numpy as np

from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Attribute, OpNode
from aoec.ir.index import DTYPES
from aoec.lowering.arrange.pack_rows import bias_in_fractals, merged_groups, weight_in_rows
from aoec.ops.run import NUMPY
from aoec.ops.words.layout import FIVE, FRACTAL_ROWS, c0_of, pack_conv, pack_zn, pixel_channels
from aoec.target.isa.scales import round_scales


def pack(draft: Draft) -> None:
    """Turn convolutions into `conv2d_packed` and right operands of `matmul` into ZN. Pad biases to whole fractals. Transpose the values
    of `attention` that MTE1 cannot transpose."""
    wide = _leave_in_wide_blocks(draft)
    nodes, draft.nodes = draft.nodes, []
    packed: dict[str, str] = {}
    for node in nodes:
        if node.op == "conv2d":
            node = _conv(draft, node, packed, node.name in wide)
        elif node.op == "matmul":
            node = _matmul(draft, node, packed)
        elif node.op == "attention" and not _turns(draft, node.inputs[2]) and not node.attribute("trans_v", 0):
            q, k, v, *bias = node.inputs
            node = replace(node, inputs=(q, k, _transpose_operand(draft, v, packed), *bias), attributes=(*node.attributes, ("trans_v", 1)))
        draft.nodes.append(node)


def round_on_the_way(draft: Draft) -> None:
    """Round constant scales of results that may leave a product as int8. FIXPIPE takes ten bits of fraction and no more."""
    makers, rounded = draft.producers(), dict[str, str]()
    for at, node in enumerate(draft.nodes):
        if node.op != "requantise" or not draft.is_constant(scale := node.inputs[1]):
            continue
        source = makers.get(node.inputs[0])
        source = makers.get(source.inputs[0]) if source is not None and source.op == "relu" else source
        if source is not None and source.op in ("conv2d_packed", "matmul"):
            t = draft.tensors[scale]
            if scale not in rounded:
                rounded[scale] = draft.constant(f"{scale}_rounded", round_scales(draft.weights[scale]), t.dtype, t.shape, t.layout)
            draft.nodes[at] = replace(node, inputs=(node.inputs[0], rounded[scale]))


def _leave_in_wide_blocks(draft: Draft) -> set[str]:
    """Return names of the convolutions that FIXPIPE stores as int8 in more columns than whole fractals of their weights have."""
    makers, found = draft.producers(), set[str]()
    for node in draft.nodes:
        out = draft.tensors[node.outputs[0]]
        if node.op == "requantise" and out.layout == FIVE and 0 < out.shape[1] % c0_of(out.dtype) <= FRACTAL_ROWS:
            source = makers[node.inputs[0]]
            source = makers[source.inputs[0]] if source.op == "relu" else source
            found.update([source.name] if draft.is_constant(source.inputs[1]) else [])
    return found


def _conv(draft: Draft, node: OpNode, packed: dict[str, str], wide: bool) -> OpNode:
    """Return the convolution with its weight packed. `wide`: with columns of zeros as far as blocks of channels of the weight's dtype
    reach."""
    weight = node.inputs[1]
    each, given = pixel_channels(draft.tensors[node.inputs[0]]), dict(node.attributes)
    group = given.pop("group", 1)
    assert isinstance(group, int)
    shape = draft.tensors[weight].shape
    key = f"{weight} {each}{' wide' if wide else ''}"
    form: dict[str, Attribute] = {"channels": shape[0]} if wide else {}
    if draft.is_constant(weight):
        if key not in packed:
            matrix, dtype = blocks(draft.weights[weight], group, each), draft.tensors[weight].dtype
            matrix = np.pad(matrix, ((0, 0), (0, -shape[0] % c0_of(dtype)))) if wide else matrix
            packed[key] = draft.constant(f"{weight}_zn", pack_zn(matrix, c0_of(dtype)), dtype, matrix.shape, "ZN")
    else:
        if key not in packed:
            packed[key] = weight_in_rows(draft, weight, group, each)
        form = {"trans_b": 1, "blocks": group // merged_groups(shape[0] // group, shape[1], group, each), "channels": shape[0]}
    attributes = {"kernel": shape[2:], **given, "c0": each, **form}
    inputs = (node.inputs[0], packed[key], *_bias(draft, node, packed))
    return OpNode(node.name, "conv2d_packed", inputs, node.outputs, tuple(attributes.items()))


def blocks(w: np.ndarray, group: int, c0: int) -> np.ndarray:
    """Return the matrix [k, co] of a convolution weight [co, c / group, kh, kw], or [block, k, co / blocks] where blocks remain."""
    merged = merged_groups(w.shape[0] // group, w.shape[1], group, c0)
    matrices = [pack_conv(part, c0) for part in _diagonal(w, group, merged)]
    return matrices[0] if len(matrices) == 1 else np.stack(matrices)


def _diagonal(w: np.ndarray, group: int, merged: int) -> np.ndarray:
    """Return the weights of each block of `merged` groups as [block, co, c, kh, kw], zero between groups."""
    each_out, each_in = w.shape[0] // group, w.shape[1]
    out = np.zeros((group // merged, merged * each_out, merged * each_in, *w.shape[2:]), w.dtype)
    parts = w.reshape(group // merged, merged, each_out, *w.shape[1:])
    for g in range(merged):
        out[:, g * each_out:(g + 1) * each_out, g * each_in:(g + 1) * each_in] = parts[:, g]
    return out


def _matmul(draft: Draft, node: OpNode, packed: dict[str, str]) -> OpNode:
    """Return the product with a constant right operand packed now. Other right operands stay ND, and so do several matrices whose rows
    are no whole fractals. MTE2 and MTE1 reorder them on the way. But MTE1 transposes fractals of 16-bit elements only. Operands of other
    dtypes that it would have to transpose are transposed before."""
    given = dict(node.attributes)
    left, right = node.inputs[:2]
    turns = _turns(draft, right)
    if given.get("trans_a") and not turns:
        left, _ = _transpose_operand(draft, left, packed), given.pop("trans_a")
    *lead, k, n = draft.tensors[right].shape
    whole = not lead or (n if given.get("trans_b") else k) % c0_of(draft.tensors[right].dtype) == 0  # one matrix starts where another ends
    if draft.is_constant(right) and whole:
        right = _pack_operand(draft, right, bool(given.pop("trans_b", 0)), packed)
    elif not given.get("trans_b") and not turns:
        right, given["trans_b"] = _transpose_operand(draft, right, packed), 1
    return replace(node, inputs=(left, right, *_bias(draft, node, packed)), attributes=tuple(given.items()))


def _turns(draft: Draft, name: str) -> bool:
    """Return whether MTE1 turns a tensor's fractals on their way: those of 16-bit elements."""
    return DTYPES[draft.tensors[name].dtype] == 2


def _pack_operand(draft: Draft, name: str, turned: bool, packed: dict[str, str]) -> str:
    """Return the constant right operand in ZN, stored transposed if `turned`."""
    t, key = draft.tensors[name], f"{name} turned" if turned else name
    if key not in packed:
        data = draft.weights[name].swapaxes(-1, -2) if turned else draft.weights[name]
        packed[key] = draft.constant(f"{name}_zn", pack_zn(data, c0_of(t.dtype)), t.dtype, data.shape, "ZN")
    return packed[key]


def _transpose_operand(draft: Draft, name: str, packed: dict[str, str]) -> str:
    """Return the operand with its last two axes swapped: a constant at once, else by a node."""
    t, key = draft.tensors[name], f"transposed {name}"
    *lead, m, n = range(len(t.shape))
    if key not in packed and draft.is_constant(name):
        packed[key] = draft.constant(f"{name}_transposed", draft.weights[name].swapaxes(-1, -2), t.dtype)
    elif key not in packed:
        packed[key] = draft.tensor(f"{name}_transposed", t.dtype, [*t.shape[:-2], t.shape[-1], t.shape[-2]])
        draft.nodes.append(draft.node("transpose", [name], packed[key], {"perm": (*lead, n, m)}))
    return packed[key]


def _bias(draft: Draft, node: OpNode, packed: dict[str, str]) -> list[str]:
    """Return the bias in the dtype of sums, zero padded to a multiple of 16 elements; nothing where there is none."""
    out = []
    for name in node.inputs[2:]:
        if f"bias {name}" not in packed:
            packed[f"bias {name}"] = _constant_bias(draft, name) if draft.is_constant(name) else bias_in_fractals(draft, name)
        out.append(packed[f"bias {name}"])
    return out


def _constant_bias(draft: Draft, name: str) -> str:
    b, dtype = draft.weights[name], "int32" if draft.tensors[name].dtype == "int32" else "fp32"
    return draft.constant(f"{name}_padded", np.pad(b.astype(NUMPY[dtype]), (0, -len(b) % FRACTAL_ROWS)), dtype)
