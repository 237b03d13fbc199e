"""Finds attention where an exporter wrote it as products and a softmax, and makes one node of it.

    scores = matmul(q, k')   [muls, on q, on k or on the scores]   [+ mask]   softmax over the last axis   y = matmul(shares, v)

k' is k with its last two axes transposed, by the product or by a transpose before it. A mask is any tensor that is added, with
broadcasting. Between the products, reshapes may separate the rows of heads that share keys, and join them again. Nodes that have other
readers stay.
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from aoec.frontend.passes.find import Finder
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode

UNSEEN = -1e30  # a score from here down has no share beside others, whatever they are


@dataclass(frozen=True)
class _Scores:
    """What is multiplied, k as it is held (keys, then what is summed over), by which factor, and what is added."""

    q: str
    k: str
    turned: bool  # k is held the other way round
    scale: float
    bias: str = ""


def find_attentions(draft: Draft) -> None:
    """Replace each attention that is spelt out in several nodes by one `attention` node."""
    find = Finder.of(draft)
    nodes: list[OpNode] = []
    for node in draft.nodes:
        found = _attention(find, node)
        if found is None:
            nodes.append(node)
            continue
        k = found.k
        if found.turned:
            t = draft.tensors[k]
            k = draft.tensor(f"{k}_keys", t.dtype, (*t.shape[:-2], t.shape[-1], t.shape[-2]))
            axes = tuple(range(len(t.shape)))
            nodes.append(draft.node("transpose", [found.k], k, {"perm": (*axes[:-2], axes[-1], axes[-2])}, f"{node.name}_keys"))
        inputs = [found.q, k, node.inputs[1], *([found.bias] if found.bias else [])]
        nodes.append(draft.node("attention", inputs, node.outputs[0], {"scale": found.scale}, node.name))
    draft.nodes = nodes


def _attention(find: Finder, node: OpNode) -> _Scores | None:
    """Return the scores of an attention that ends with this product of shares and values. Return None for any other node."""
    if node.op != "matmul" or len(node.inputs) != 2 or any(dict(node.attributes).get(f"trans_{x}") for x in "ab"):
        return None
    shares = _seen_apart(find, _sole_producer(find, node, 0))
    tensors = find.draft.tensors
    if shares is None or shares.op != "softmax":
        return None
    apart, shape = tensors[shares.outputs[0]].shape, tensors[node.inputs[0]].shape
    rows = dict(shares.attributes)["axis"] in (-1, len(apart) - 1) and apart[-1] == shape[-1]
    found = _scores(find, shares, shape) if rows else None
    if found is not None and found.bias and apart != shape:
        found = _together(find.draft, found, apart, shape)
    return found if found is not None and _fits(find.draft, found, node.inputs[1], shape) else None


def _seen_apart(find: Finder, node: OpNode | None) -> OpNode | None:
    """Return the node before a reshape, where there is one."""
    return _sole_producer(find, node, 0) if node is not None and node.op == "reshape" else node


def _together(draft: Draft, found: _Scores, apart: tuple[int, ...], shape: tuple[int, ...]) -> _Scores | None:
    """Return the scores with what is added to the rows of a head repeated for all heads that are rows of one product. Return None where it
    is not one constant for all heads, or a row of keys."""
    bias = draft.tensors[found.bias].shape
    rows = bias[-2] if len(bias) > 1 else 1
    if prod(bias[:-2]) != 1 or shape[-2] % apart[-2]:
        return None
    if rows == 1:
        return found
    if found.bias not in draft.weights:
        return None
    name = f"{found.bias}_rows"
    if name not in draft.weights:
        whole = np.tile(draft.weights[found.bias].reshape(bias[-2:]), (shape[-2] // rows, 1))
        draft.constant(name, whole, draft.tensors[found.bias].dtype)
    return replace(found, bias=name)


def _fits(draft: Draft, found: _Scores, values: str, shape: tuple[int, ...]) -> bool:
    """Return whether heads are alike in all tensors, and what is added is broadcast to the scores."""
    q, k, v = (draft.tensors[x] for x in (found.q, found.k, values))
    keys, deep = k.shape[:-3:-1] if found.turned else k.shape[-2:]
    alike = q.shape[:-2] == k.shape[:-2] == v.shape[:-2] == shape[:-2] and q.dtype == k.dtype == v.dtype == "fp32"
    bias = draft.tensors[found.bias].shape if found.bias else ()
    beside = zip(reversed(bias), reversed(shape))
    broadcast = bias[-1:] in ((), shape[-1:]) and len(bias) <= len(shape) and all(b in (1, s) for b, s in beside)
    return alike and broadcast and len(shape) > 2 and deep == q.shape[-1] and keys == v.shape[-2] == shape[-1] and prod(shape) > 0


def _scores(find: Finder, softmax: OpNode, shape: tuple[int, ...]) -> _Scores | None:
    """Return what a softmax takes, as a product of queries and keys of that shape, scaled, with something added at last."""
    node, bias = _sole_producer(find, softmax, 0), ""
    if node is not None and node.op == "where":
        under, bias = _scaled_product(find, _sole_producer(find, node, 1)), _mask_bias(find, node)
        if not bias:
            return None
    elif node is not None and node.op == "add":
        for at in (0, 1):
            under = _scaled_product(find, _sole_producer(find, node, at))
            if under is not None and find.draft.tensors[node.inputs[at]].shape == find.draft.tensors[node.outputs[0]].shape:
                bias = node.inputs[1 - at]
                break
        else:
            return None
    else:
        under = _scaled_product(find, node)
    if under is None or find.draft.tensors[under[0].outputs[0]].shape != shape:
        return None
    product, scale = under
    q, of_q = _strip_scale(find, product.inputs[0])
    k, of_k = _strip_scale(find, product.inputs[1])
    turned = not dict(product.attributes).get("trans_b")
    if turned and (held := _transpose_source(find, k)):
        k, more = _strip_scale(find, held)
        turned, of_k = False, of_k * more
    return _Scores(q, k, turned, scale * of_q * of_k, bias)


def _mask_bias(find: Finder, node: OpNode) -> str:
    """Return a constant whose addition does what the node does: -inf where a constant condition leaves no score. Return "" where the node
    is another choice, or leaves a row without scores, whose shares would be other ones."""
    condition, other = (find.draft.weights.get(node.inputs[at]) for at in (0, 2))
    if condition is None or other is None or other.size != 1 or other.reshape(()) > UNSEEN or not condition.any(axis=-1).all():
        return ""
    name = f"{node.inputs[0]}_bias"
    if name not in find.draft.weights:
        bias = np.where(condition, np.float32(0), np.float32(-np.inf))
        find.draft.constant(name, bias, "fp32")
    return name


def _sole_producer(find: Finder, user: OpNode, at: int) -> OpNode | None:
    """Return the node that makes an argument of another, where nothing else reads it."""
    name = user.inputs[at]
    return find.producers.get(name) if find.only_user(name) is user else None


def _scaled_product(find: Finder, node: OpNode | None) -> tuple[OpNode, float] | None:
    """Return (a plain product, the number by which it is multiplied before the node's result)."""
    scale = 1.0
    while node is not None and node.op == "muls":
        scale *= float(dict(node.attributes)["scalar"])  # type: ignore[arg-type]
        node = _sole_producer(find, node, 0)
    node = _seen_apart(find, node)
    plain = node is not None and node.op == "matmul" and len(node.inputs) == 2 and not dict(node.attributes).get("trans_a")
    return (node, scale) if plain and node is not None else None


def _strip_scale(find: Finder, name: str) -> tuple[str, float]:
    """Return (what is multiplied by a number to make a tensor, the number)."""
    scale = 1.0
    while (found := find.scalar(name, "muls")) is not None:
        name, scale = found[0], scale * found[1]
    return name, scale


def _transpose_source(find: Finder, name: str) -> str:
    """Return the tensor whose last two axes are swapped to make this one. Return "" where there is none."""
    node = find.producer(name, "transpose")
    rank = len(find.draft.tensors[name].shape)
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    return node.inputs[0] if node is not None and dict(node.attributes)["perm"] == swapped else ""
