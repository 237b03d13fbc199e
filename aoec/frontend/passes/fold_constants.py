"""Computes nodes of constants now (a transposed weight of Gemm, for one)."""
from __future__ import annotations

import numpy as np

from aoec.ir.graph.draft import Draft
from aoec.ops.host.host import PREFIX
from aoec.ops.run import NUMPY, run_node


def fold_constants(draft: Draft) -> None:
    """Compute the nodes whose inputs are all constants, and make their results constants. Skip host nodes: they were folded at import or
    never are."""
    kept = []
    for node in draft.nodes:
        if node.op.startswith(PREFIX) or not all(draft.is_constant(i) for i in node.inputs):
            kept.append(node)
            continue
        dtype = draft.tensors[node.outputs[0]].dtype
        draft.weights[node.outputs[0]] = np.asarray(run_node(node, [draft.weights[i] for i in node.inputs])[0], NUMPY[dtype], order="C")
    draft.nodes = kept
