"""Checks a quantised model tensor by tensor: ONNX's own operators compute each tensor from those before it, for comparison.

Whole results say little about such a model. A sum may lie half way between two numbers of eight bits. The last bit of fp32 then decides
to which of them it is rounded. Later layers pass that step on, and add steps of their own. After fifty layers, two right programs are
several steps apart. onnxruntime itself is, with and without its optimisations. So each tensor is compared with one made from its own
predecessors.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from bench.networks.reference import results


@dataclass(frozen=True)
class Steps:
    """Tensors of eight bits that were compared, their elements, how many of these differ, and by how many steps at most."""

    tensors: int
    elements: int
    different: int
    most: int

    def __str__(self) -> str:
        return (f"{self.different:,} of {self.elements:,} elements of {self.tensors} tensors of eight bits differ from what the tensors "
                f"before each give by ONNX's definition, by {self.size} at most")

    @property
    def size(self) -> str:
        return f"{self.most} step{'s' * (self.most != 1)}"


def quantised(model: onnx.ModelProto) -> list[str]:
    """Return the tensors of eight bits that the model makes, in its order."""
    return [n.output[0] for n in model.graph.node if n.op_type == "QuantizeLinear"]


def watched(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model, which gives these tensors too."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    known = {v.name: v for v in (*graph.value_info, *graph.output)}
    given = {o.name for o in model.graph.output}
    outputs = [*model.graph.output, *(known[name] for name in quantised(model) if name not in given)]
    made = helper.make_graph(model.graph.node, model.graph.name, model.graph.input, outputs, model.graph.initializer)
    return helper.make_model(made, opset_imports=model.opset_import, ir_version=model.ir_version)


def separated(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the watched model, in which each reader of a tensor of eight bits reads an input of the model by the name of `given`."""
    out = watched(model)
    own = set(quantised(model))
    read = {i for n in out.graph.node for i in n.input} & own
    for node in out.graph.node:
        node.input[:] = [given(i) if i in own else i for i in node.input]
    for value in out.graph.output:
        if value.name in read:
            out.graph.input.append(helper.make_tensor_value_info(given(value.name), value.type.tensor_type.elem_type, [
                d.dim_value for d in value.type.tensor_type.shape.dim]))
    return out


def given(name: str) -> str:
    """Return the name of the input that stands for a tensor."""
    return f"{name}_given"


def held(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray]) -> Steps:
    """Return how the tensors found lie to what ONNX's operators, one by one in fp32, make of those found before each."""
    cut, names = separated(model), quantised(model)
    inputs = {i.name for i in cut.graph.input}
    wanted = results(cut, {**feeds, **{given(n): found[n] for n in names if given(n) in inputs}}, names, optimised=False)
    off = [np.abs(found[name].astype(np.int32) - wanted[name].astype(np.int32)) for name in names]
    return Steps(len(names), sum(a.size for a in off), sum(int(np.count_nonzero(a)) for a in off), max(int(a.max(initial=0)) for a in off))
