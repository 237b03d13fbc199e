"""Lets products read a transposed right operand untransposed: the cube's own loads transpose it."""
from __future__ import annotations

from dataclasses import replace

from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode


def turn_in_products(draft: Draft) -> None:
    """Let a product read its right operand transposed, where a transpose before it breaks up rows. The last two axes then keep their order
    in memory. The rest of the transpose moves whole rows, or nothing at all."""
    producers = draft.producers()
    nodes, draft.nodes = draft.nodes, []
    for node in nodes:
        source = producers.get(node.inputs[1]) if node.op == "matmul" else None
        if source is not None and source.op == "transpose" and (perm := swap_last_two(source.attribute("perm"))):
            node = _skip_transpose(draft, node, source, perm)
        draft.nodes.append(node)


def swap_last_two(perm: object) -> tuple[int, ...]:
    """Return the permutation with its last two axes exchanged, where that leaves rows whole; else an empty one."""
    assert isinstance(perm, tuple)
    swapped = (*perm[:-2], perm[-1], perm[-2])
    return swapped if swapped[-1] == len(perm) - 1 else ()


def _skip_transpose(draft: Draft, node: OpNode, source: OpNode, perm: tuple[int, ...]) -> OpNode:
    """Return the product on what `source` read, with its leading axes moved where necessary."""
    read = draft.tensors[source.inputs[0]]
    operand = read.name
    if perm != tuple(range(len(perm))):
        operand = draft.tensor(f"{node.inputs[1]}_rows", read.dtype, [read.shape[axis] for axis in perm])
        draft.nodes.append(draft.node("transpose", [read.name], operand, {"perm": perm}))
    given = dict(node.attributes)
    given["trans_b"] = 1 - int(given.get("trans_b", 0))  # type: ignore[arg-type]
    return replace(node, inputs=(node.inputs[0], operand, *node.inputs[2:]), attributes=tuple((k, v) for k, v in given.items() if v))
