"""Running a graph on the references: the oracle that programs and artifacts are held to.

A node's inputs are taken in fp32, its reference computes in fp32, and the result is rounded once to the dtype of its
tensor; so sums accumulate in fp32, as they do on the NPU. Constants of a fractal layout are given as stored (packed).
"""
from __future__ import annotations

from collections.abc import Mapping

import ml_dtypes
import numpy as np

from aoec.base.errors import CheckError
from aoec.ir.graph import Graph, OpNode, Tensor
from aoec.ops import host
from aoec.ops.layout import to_logical
from aoec.ops.registry import get

NUMPY = {"fp32": np.float32, "fp16": np.float16, "bf16": ml_dtypes.bfloat16, "int8": np.int8, "uint8": np.uint8, "int32": np.int32,
         "int64": np.int64, "bool": np.bool_}  # dtype name -> the NumPy type that holds it
REALS = ("fp32", "fp16", "bf16")


def evaluate(graph: Graph, feeds: Mapping[str, np.ndarray], weights: Mapping[str, np.ndarray],
             every: bool = False) -> dict[str, np.ndarray]:
    """Output name -> logical array in the dtype of its tensor (with `every`, of all tensors). Feeds are cast to the inputs' dtypes."""
    tensors = {t.name: t for t in graph.tensors}
    values = {name: _feed(feeds, tensors[name]) for name in graph.inputs}
    values.update({t.name: to_logical(weights[t.name], t) for t in graph.tensors if t.data})
    for node in graph.nodes:
        for name, result in zip(node.outputs, run_node(node, [values[i] if i else None for i in node.inputs])):
            values[name] = _store(result, tensors[name], node)
    return values if every else {name: values[name] for name in graph.outputs}


def run_node(node: OpNode, inputs: list[np.ndarray | None]) -> list[np.ndarray]:
    """The node's results before they are rounded to their tensors' dtypes."""
    wide = [x.astype(np.float32) if x is not None and x.dtype in (np.float16, ml_dtypes.bfloat16) else x for x in inputs]
    if node.op.startswith(host.PREFIX):
        return host.run(node, wide)
    while wide and wide[-1] is None:
        wide.pop()
    with np.errstate(all="ignore"):
        return [get(node.op).reference(*wide, **dict(node.attributes))]


def _feed(feeds: Mapping[str, np.ndarray], tensor: Tensor) -> np.ndarray:
    if tensor.name not in feeds:
        raise CheckError(f"input {tensor.name} of shape {list(tensor.shape)} is not given; given: {', '.join(feeds) or 'nothing'}")
    array = np.asarray(feeds[tensor.name])
    if array.shape != tensor.shape:
        raise CheckError(f"input {tensor.name} has shape {list(tensor.shape)}, and an array of shape {list(array.shape)} is given")
    with np.errstate(over="ignore"):
        return array.astype(NUMPY[tensor.dtype])


def _store(result: np.ndarray, tensor: Tensor, node: OpNode) -> np.ndarray:
    if result.shape != tensor.shape:
        raise CheckError(f"node {node.name} ({node.op}) gives shape {list(result.shape)} and tensor {tensor.name} has {list(tensor.shape)}")
    with np.errstate(over="ignore", invalid="ignore"):
        return result.astype(NUMPY[tensor.dtype])
