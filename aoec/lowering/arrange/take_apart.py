"""Attention that is not done in one pass: products, softmax and what is done to the scores, as operators of their own."""
from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode
from aoec.ops.narrowed import DECLARED
from aoec.target.machine import Machine


def take_apart(draft: Draft, machine: Machine | None, named: Collection[str]) -> None:
    """Split attention nodes into single operators: those that are named, and those that the machine cannot do in one pass."""
    nodes, draft.nodes = draft.nodes, []
    for node in nodes:
        if node.op == "attention" and (not in_one_pass(draft, node, machine) or node.name in named):
            draft.nodes += _single(draft, node)
        else:
            draft.nodes.append(node)


def in_one_pass(draft: Draft, node: OpNode, machine: Machine | None) -> bool:
    """Return whether an attention node has a lowering of its own.

    Where a core holds cube and vector both, values must be of 16 bits, and keys and rows multiples of 16, as L0C is read a fractal at a
    time there and MTE2 moves blocks. Where the cores are apart, fp32 is possible too, if the cube takes it. Without a machine, values
    must be of 16 bits."""
    q, _, v = (draft.tensors[i] for i in node.inputs[:3])
    short = v.dtype in ("fp16", "bf16")
    if machine is None:
        return short
    if "core" in machine.cores:
        return short and machine.has("copy_ub_l1") and not any(n % 16 for n in (q.shape[-1], *v.shape[-2:]))
    whole = q.dtype == v.dtype == "fp32" and "fp32" in machine.tables.get("kf", {})
    return (short or whole) and machine.has("fixpipe_nd") and {"aic", "aiv"} <= set(machine.cores)


def _single(draft: Draft, node: OpNode) -> list[OpNode]:
    """Return product, scale, sum, softmax and product: as few of them as the node has."""
    q, k, v, *bias = node.inputs
    result, given = draft.tensors[node.outputs[0]], dict(node.attributes)
    shape = (*draft.tensors[q].shape[:-1], draft.tensors[k].shape[-2])
    out: list[OpNode] = []

    def step(op: str, inputs: list[str], label: str, dtype: str = result.dtype, **attributes: int | float) -> str:
        name = draft.tensor(f"{result.name}_{label}", dtype, shape)
        out.append(draft.node(op, inputs, name, attributes, f"{node.name}_{label}"))
        return name
    scores = step("matmul", [q, k], "scores", trans_b=1)
    if given["scale"] != 1.0:
        scores = step("muls", [scores], "scaled", scalar=given["scale"])  # type: ignore[arg-type]
    for b in bias:
        scores = step("add", [scores, b], "biased")
    shares = step("softmax", [scores], "shares", axis=len(shape) - 1)
    if draft.tensors[v].dtype != result.dtype:  # a product's factors are of one dtype
        shares = step("cast", [shares], "rounded", draft.tensors[v].dtype)
        draft.tensors[shares] = replace(draft.tensors[shares], declared=DECLARED[draft.tensors[v].dtype])
    return [*out, draft.node("matmul", [shares, v], result.name, {}, node.name)]
