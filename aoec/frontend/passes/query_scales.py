"""Puts the scale of attention into the product that makes its queries, where that is exact.

A factor that is a power of two changes no digit of a weight. The scores then need no scaling between their product and the softmax.
"""
from __future__ import annotations

from dataclasses import replace
from math import frexp

import numpy as np

from aoec.frontend.passes.find import Finder
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode
from aoec.ops.words.movement import MOVES


def scale_queries(draft: Draft) -> None:
    """Multiply the matrix and bias of a product by the scale of the attention that alone reads it; the attention has scale 1."""
    find = Finder.of(draft)
    products: dict[str, tuple[OpNode, float]] = {}
    nodes = []
    for node in draft.nodes:
        scale = float(node.attribute("scale", 1.0)) if node.op == "attention" else 1.0  # type: ignore[arg-type]
        product = _product(find, node) if scale > 0 and scale != 1.0 and frexp(scale)[0] == 0.5 else None
        if product is not None:
            products[product.name] = product, scale
            node = replace(node, attributes=tuple((k, 1.0 if k == "scale" else v) for k, v in node.attributes))
        nodes.append(node)
    draft.nodes = [_scale_product(draft, *products[n.name]) if n.name in products else n for n in nodes]


def _product(find: Finder, attention: OpNode) -> OpNode | None:
    """Return the product with constants that makes queries for an attention alone, perhaps through moves."""
    name, reader = attention.inputs[0], attention
    if name in attention.inputs[1:]:
        return None
    while find.only_user(name) is reader and (maker := find.producers.get(name)) is not None:
        if maker.op == "matmul":
            return maker if all(find.draft.is_constant(i) for i in maker.inputs[1:]) else None
        if maker.op not in MOVES:
            return None
        name, reader = maker.inputs[0], maker
    return None


def _scale_product(draft: Draft, product: OpNode, scale: float) -> OpNode:
    """Return the product with its constants multiplied."""
    constants = [draft.constant(f"{i}_scaled", draft.weights[i] * np.float32(scale), draft.tensors[i].dtype) for i in product.inputs[1:]]
    return replace(product, inputs=(product.inputs[0], *constants))
