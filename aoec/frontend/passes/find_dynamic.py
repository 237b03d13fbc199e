"""Finds products of tensors that are quantised by their own range, as onnxruntime's dynamic quantisation writes them.

Its products give sums in int32, less what the zero point makes of them. They are cast to reals and multiplied by the step times the
scales of the weight's columns. All of that is one operator behind the product here (`dequantise_range`); products of one tensor are one.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aoec.frontend.passes.find import Finder
from aoec.frontend.passes.siblings import WHOLE, reads_in_place
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Attribute, OpNode


@dataclass(frozen=True)
class _Product:
    """A product and what is made of it. `last`: the node that gives reals; `zeros`: what a zero point of 1 makes of each column."""

    node: OpNode
    last: OpNode
    ends: tuple[str, str]
    zeros: np.ndarray
    scale: np.ndarray


def find_dynamic(draft: Draft) -> None:
    """Make the reals that sums of int8 products stand for from these sums in one operator."""
    find = Finder.of(draft)
    found = [p for n in draft.nodes if n.op == "mul" and (p := _product(find, n)) is not None]
    last = {p.last.name: p for p in found}
    nodes, draft.nodes = draft.nodes, []
    for node in nodes:
        draft.nodes += _reals(draft, last[node.name]) if node.name in last else [node]


def _product(find: Finder, node: OpNode) -> _Product | None:
    """Return the product whose sums a multiplication makes reals of. Return None where it makes them of anything else."""
    for of, by in (node.inputs, node.inputs[::-1]):
        cast = find.producer(of, "cast")
        scale = _scale(find, by)
        sums = _sums(find, cast.inputs[0]) if cast is not None and scale is not None and find.only_user(of) is node else None
        if sums is None or scale is None or sums[1] != scale[0]:
            continue
        columns = find.draft.tensors[node.outputs[0]].shape[-1]
        if scale[1].size in (1, columns) and find.draft.tensors[sums[0].outputs[0]].shape == find.draft.tensors[node.outputs[0]].shape:
            return _Product(sums[0], node, scale[0], np.broadcast_to(sums[2].reshape(-1), columns),
                            np.broadcast_to(scale[1].reshape(-1), columns))
    return None


def _view_source(find: Finder, name: str) -> str:
    """Return the tensor that is viewed in another shape."""
    while (made := find.unary(name, "reshape")) is not None:
        name = made
    return name


def _ends(find: Finder, name: str, op: str) -> tuple[str, str] | None:
    """Return the extremes of which a step or a zero point was made."""
    node = find.producer(_view_source(find, name), op)
    return (node.inputs[0], node.inputs[1]) if node is not None else None


def _scale(find: Finder, name: str) -> tuple[tuple[str, str], np.ndarray] | None:
    """Return (the extremes of the step, the constant that it is multiplied by), of a scale of sums."""
    node = find.producer(_view_source(find, name), "mul")
    for step, constant in (node.inputs, node.inputs[::-1]) if node is not None else ():
        ends = _ends(find, step, "range_step")
        if ends is not None and find.draft.is_constant(constant):
            return ends, find.draft.weights[constant].astype(np.float32)
    return None


def _sums(find: Finder, name: str) -> tuple[OpNode, tuple[str, str], np.ndarray] | None:
    """Return (the product, the extremes of the tensor's range, what a zero point of 1 makes of each column), of sums less their zero
    point."""
    less = find.producer(_view_source(find, name), "sub")
    taken = find.producer(less.inputs[1], "mul") if less is not None else None
    node = find.producer(_view_source(find, less.inputs[0]), "matmul") if less is not None else None
    if node is None or taken is None or find.only_user(node.outputs[0]) is None:
        return None
    quantised = find.producer(_view_source(find, node.inputs[0]), "quantise_range")
    for zero, constant in (taken.inputs, taken.inputs[::-1]):
        cast = find.producer(_view_source(find, zero), "cast")
        ends = _ends(find, cast.inputs[0], "range_zero") if cast is not None else None
        weight = find.draft.weights.get(constant)
        if quantised is not None and ends == quantised.inputs[1:] and weight is not None and find.draft.is_constant(node.inputs[1]):
            return node, ends, weight.astype(np.int32)
    return None


def _reals(draft: Draft, p: _Product) -> Sequence[OpNode]:
    """Return the nodes that make reals of a product's sums."""
    zeros = draft.constant(f"{p.node.name}_zeros", np.ascontiguousarray(p.zeros), "int32")
    scale = draft.constant(f"{p.node.name}_scale", np.ascontiguousarray(p.scale), "fp32")
    return [draft.node("dequantise_range", [p.node.outputs[0], *p.ends, zeros, scale], p.last.outputs[0])]


# ---------------------------------------------------------------- products of one tensor

@dataclass(frozen=True)
class _Sibling:
    """A product, its reals, and the addition of a bias behind these, if there is one."""

    node: OpNode
    reals: OpNode
    biased: OpNode | None

    @property
    def result(self) -> str:
        return (self.biased or self.reals).outputs[0]


def join_dynamic(draft: Draft) -> None:
    """Join the products of one quantised tensor into one product, where later products can read their columns of its result in place."""
    find = Finder.of(draft)
    found: dict[tuple[str, ...], list[_Sibling]] = {}
    for node in draft.nodes:
        if node.op == "dequantise_range" and (s := _sibling(find, node)) is not None:
            turned = str(s.node.attribute("trans_b", 0))
            found.setdefault((s.node.inputs[0], *node.inputs[1:3], turned, str(s.biased is None)), []).append(s)
    joined = [group for group in found.values() if len(group) > 1]
    gone = {n.name for group in joined for s in group for n in (s.node, s.reals, s.biased) if n is not None}
    made = {group[0].node.name: _join_group(draft, group) for group in joined}
    draft.nodes = [m for n in draft.nodes for m in made.get(n.name, [] if n.name in gone else [n])]


def _sibling(find: Finder, reals: OpNode) -> _Sibling | None:
    """Return what may be joined with others. Return None where others than products read columns of the result, or these are no whole
    fractals."""
    draft, node = find.draft, find.producer(reals.inputs[0], "matmul")
    if node is None or not draft.is_constant(node.inputs[1]) or len(draft.tensors[node.inputs[1]].shape) != 2:
        return None
    user, biased = find.only_user(reals.outputs[0]), None
    columns = draft.tensors[reals.outputs[0]].shape[-1]
    if user is not None and user.op == "add":
        other = next((i for i in user.inputs if i != reals.outputs[0]), "")
        biased = user if draft.is_constant(other) and draft.weights[other].size == columns == draft.tensors[other].shape[-1] else None
    found = _Sibling(node, reals, biased)
    readers = find.users.get(found.result, [])
    alone = found.result not in draft.outputs and find.only_user(node.outputs[0]) is reals
    in_place = bool(readers) and all(reads_in_place(find, found.result, u) for u in readers)
    return found if alone and in_place and columns % WHOLE == 0 else None


def _join_group(draft: Draft, group: Sequence[_Sibling]) -> list[OpNode]:
    """Return the joined product, its reals, and the slices that give the results of the single ones."""
    first = group[0]
    columns = [draft.tensors[s.result].shape[-1] for s in group]
    rows = draft.tensors[first.result].shape[:-1]
    turned = bool(first.node.attribute("trans_b", 0))

    def together(label: str, arrays: Sequence[np.ndarray], dtype: str, axis: int = 0) -> str:
        return draft.constant(f"{first.node.name}_{label}", np.concatenate(arrays, axis), dtype)

    def step(op: str, inputs: Sequence[str], dtype: str) -> str:
        name = draft.tensor(f"{first.node.outputs[0]}_{op}", dtype, (*rows, sum(columns)))
        out.append(draft.node(op, inputs, name, dict(first.node.attributes) if op == "matmul" else {}))
        return name
    out: list[OpNode] = []
    weight = together("joined", [draft.weights[s.node.inputs[1]] for s in group], "int8", 0 if turned else 1)
    zeros, scales = (together(label, [draft.weights[s.reals.inputs[at]] for s in group], dtype)
                     for label, at, dtype in (("zeros", 3, "int32"), ("scales", 4, "fp32")))
    sums = step("matmul", [first.node.inputs[0], weight], "int32")
    made = step("dequantise_range", [sums, *first.reals.inputs[1:3], zeros, scales], "fp32")
    if first.biased is not None:
        biases = [draft.weights[i].reshape(-1) for s in group if s.biased for i in s.biased.inputs if i != s.reals.outputs[0]]
        made = step("add", [made, together("biases", biases, "fp32")], "fp32")
    start = 0
    for s, count in zip(group, columns):
        shape = (*rows, count)
        at: dict[str, Attribute] = {"starts": (*(0,) * len(rows), start), "sizes": shape, "steps": (1,) * len(shape)}
        out.append(draft.node("slice", [made], s.result, at))
        start += count
    return out
