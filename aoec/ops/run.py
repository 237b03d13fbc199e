"""Running a graph on the references: the oracle that programs and artifacts are held to.

A node's inputs are taken in fp32, its reference computes in fp32, and the result is rounded once to the dtype of its
tensor; so sums accumulate in fp32, as they do on the NPU. Constants of a fractal layout are given as stored (packed).
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from aoec.base.errors import CheckError
from aoec.ir.graph import OPAQUE, Graph, OpNode, Tensor
from aoec.ops import host, typed
from aoec.ops.layout import to_logical
from aoec.ops.own import word

NUMPY = {"fp32": np.float32, "fp16": np.float16, "bf16": ml_dtypes.bfloat16, "int8": np.int8, "uint8": np.uint8, "int16": np.int16,
         "uint16": np.uint16, "int32": np.int32, "uint32": np.uint32, "int64": np.int64, "uint64": np.uint64,
         "bool": np.bool_}  # dtype name -> the NumPy type that holds it
REALS = ("fp32", "fp16", "bf16")


def evaluate(graph: Graph, feeds: Mapping[str, np.ndarray], weights: Mapping[str, np.ndarray],
             every: bool = False) -> dict[str, np.ndarray]:
    """Output name -> logical array in the dtype of its tensor (with `every`, of all tensors). Feeds are cast to the inputs' dtypes."""
    tensors = {t.name: t for t in graph.tensors}
    values = {name: _feed(feeds, tensors[name]) for name in graph.inputs}
    values.update({t.name: to_logical(weights[t.name], t) for t in graph.tensors if t.data})
    for node in graph.nodes:
        values.update(step(node, tensors, values))
    return values if every else {name: values[name] for name in graph.outputs}


def step(node: OpNode, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> dict[str, Any]:
    """Output name -> what the node makes of logical values, rounded to the dtypes of its tensors."""
    given = [values[i] if i else None for i in node.inputs]
    results = host.run(node, given) if node.op.startswith(host.PREFIX) else run_node(node, given)
    return {name: _store(result, tensors[name], node) for name, result in zip(node.outputs, results)}


def run_node(node: OpNode, inputs: list[np.ndarray | None]) -> list[np.ndarray]:
    """The results of a node of the dictionary, before they are rounded to their tensors' dtypes."""
    wide = [x.astype(np.float32) if x is not None and x.dtype in (np.float16, ml_dtypes.bfloat16) else x for x in inputs]
    while wide and wide[-1] is None:
        wide.pop()
    with np.errstate(all="ignore"):
        return [np.asarray(word(node).reference(*wide, **dict(node.attributes)))]  # of a single number NumPy makes no array


def _feed(feeds: Mapping[str, Any], tensor: Tensor) -> Any:
    if tensor.name not in feeds:
        raise CheckError(f"input {tensor.name} of shape {list(tensor.shape)} is not given; given: {', '.join(feeds) or 'nothing'}")
    if tensor.dtype == OPAQUE:
        return feeds[tensor.name]
    array = np.asarray(feeds[tensor.name])
    if (element := typed.small(tensor.declared)) and array.dtype == typed.NUMPY[element]:
        array = typed.stored(array, element)
    if array.shape != tensor.shape:
        raise CheckError(f"input {tensor.name} has shape {list(tensor.shape)}, and an array of shape {list(array.shape)} is given")
    with np.errstate(over="ignore"):
        return array.astype(NUMPY[tensor.dtype])


def _store(result: Any, tensor: Tensor, node: OpNode) -> Any:
    if tensor.dtype == OPAQUE:
        return typed.result(result, tensor.declared)
    if not isinstance(result, np.ndarray):
        raise CheckError(f"node {node.name} ({node.op}) gives no tensor for {tensor.name}")
    if result.shape != tensor.shape:
        raise CheckError(f"node {node.name} ({node.op}) gives shape {list(result.shape)} and tensor {tensor.name} has {list(tensor.shape)}")
    if (element := typed.small(tensor.declared)) and result.dtype == typed.NUMPY[element]:
        return typed.stored(result, element)
    with np.errstate(over="ignore", invalid="ignore"):
        return result.astype(NUMPY[tensor.dtype])
