"""Runs a graph on the references. Programs and artifacts are checked against the result.

A node's inputs are taken in fp32, and its reference computes in fp32. The result is rounded once to the dtype of its tensor. So sums
accumulate in fp32, as they do on the NPU. Constants of a fractal layout are given as stored (packed).
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from aoec.base.errors import CheckError
from aoec.ir.graph.bodies import MAIN, Place, nodes_by_place, place
from aoec.ir.graph.graph import OPAQUE, Body, Graph, OpNode, Tensor
from aoec.ops import typed
from aoec.ops.host import host
from aoec.ops.host.control import walk
from aoec.ops.own import word
from aoec.ops.words.layout import to_logical

NUMPY = {"fp32": np.float32, "fp16": np.float16, "bf16": ml_dtypes.bfloat16, "int8": np.int8, "uint8": np.uint8, "int16": np.int16,
         "uint16": np.uint16, "int32": np.int32, "uint32": np.uint32, "int64": np.int64, "uint64": np.uint64,
         "bool": np.bool_}  # dtype name -> the NumPy type that holds it
REALS = ("fp32", "fp16", "bf16")


def evaluate(graph: Graph, feeds: Mapping[str, np.ndarray], weights: Mapping[str, np.ndarray],
             every: bool = False) -> dict[str, np.ndarray]:
    """Return output name -> logical array in the dtype of its tensor (with `every`, of all tensors). Feeds are cast to the inputs'
    dtypes."""
    made = _Evaluation(graph, weights)
    values = made.run(MAIN, {name: _feed(feeds, made.tensors[name]) for name in graph.inputs})
    return values if every else {name: values[name] for name in graph.outputs}


class _Evaluation:
    """A graph with its bodies on its constants."""

    def __init__(self, graph: Graph, weights: Mapping[str, np.ndarray]) -> None:
        self.tensors, self.nodes = {t.name: t for t in graph.tensors}, nodes_by_place(graph)
        self.bodies = Bodies(graph, self.run)
        self.constants = {t.name: to_logical(weights[t.name], t) for t in graph.tensors if t.data}

    def run(self, place: Place, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return all values of a body, or of what lies in none, and the constants."""
        values = {**self.constants, **given}
        for node in self.nodes[place]:
            values.update(step(node, self.tensors, values, self.bodies))
        return values


class Bodies:
    """The bodies of a graph for the host that walks its control flow; `run` takes a body's place and the values of its inputs by name, as
    their tensors say, and gives those of its outputs, if not more."""

    def __init__(self, graph: Graph, run: Callable[[Place, Mapping[str, Any]], Mapping[str, Any]]) -> None:
        self.tensors, self.bodies = {t.name: t for t in graph.tensors}, {place(b): b for b in graph.bodies}
        self.nodes = {b.node for b in graph.bodies}
        self.run = run

    def walk(self, node: OpNode, given: Sequence[Any]) -> list[Any]:
        """Return the results of a node with bodies."""
        return walk(node, given, partial(self._run, node), partial(self._nothing, node))

    def _body(self, node: OpNode, kind: str) -> Body:
        if (node.name, kind) not in self.bodies:
            raise CheckError(f"node {node.name} ({node.op}) has no {kind}")
        return self.bodies[node.name, kind]

    def _run(self, node: OpNode, kind: str, values: Sequence[Any]) -> list[Any]:
        body = self._body(node, kind)
        if len(values) != len(body.inputs):
            raise CheckError(f"node {node.name}: its {kind} takes {len(body.inputs)} values, and {len(values)} are given")
        made = self.run((node.name, kind), {name: _as(value, self.tensors[name]) for name, value in zip(body.inputs, values)})
        return [made[name] for name in body.outputs]

    def _nothing(self, node: OpNode, kind: str) -> list[Any]:
        tensors = [self.tensors[name] for name in self._body(node, kind).outputs]
        return [np.empty((0, *t.shape), NUMPY.get(t.dtype, np.float32)) for t in tensors]


def step(node: OpNode, tensors: Mapping[str, Tensor], values: Mapping[str, Any], bodies: Bodies | None = None) -> dict[str, Any]:
    """Return output name -> what the node makes of logical values, rounded to the dtypes of its tensors; `bodies`: those of the node's
    graph."""
    given = [values[i] if i else None for i in node.inputs]
    if bodies is not None and node.name in bodies.nodes:
        results = bodies.walk(node, given)
    else:
        results = host.run(node, given) if node.op.startswith(host.PREFIX) else run_node(node, given)
    return {name: _store(result, tensors[name], node) for name, result in zip(node.outputs, results)}


def run_node(node: OpNode, inputs: list[np.ndarray | None]) -> list[np.ndarray]:
    """Return the results of a node of the dictionary, before they are rounded to their tensors' dtypes."""
    wide = [x.astype(np.float32) if x is not None and x.dtype in (np.float16, ml_dtypes.bfloat16) else x for x in inputs]
    while wide and wide[-1] is None:
        wide.pop()
    with np.errstate(all="ignore"):
        return [np.asarray(word(node).reference(*wide, **dict(node.attributes)))]  # of a single number NumPy makes no array


def _feed(feeds: Mapping[str, Any], tensor: Tensor) -> Any:
    if tensor.name not in feeds:
        raise CheckError(f"input {tensor.name} of shape {list(tensor.shape)} is not given; given: {', '.join(feeds) or 'nothing'}")
    return _as(feeds[tensor.name], tensor)


def _as(value: Any, tensor: Tensor) -> Any:
    """Return a value as its tensor has it. Raise CheckError for another shape."""
    if tensor.dtype == OPAQUE:
        return value
    array = np.asarray(value)
    if (element := typed.small(tensor.declared)) and array.dtype == typed.NUMPY[element]:
        array = typed.as_bytes(array, element)
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
        return typed.as_bytes(result, element)
    with np.errstate(over="ignore", invalid="ignore"):
        return result.astype(NUMPY[tensor.dtype])
