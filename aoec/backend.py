"""ONNX's backend interface: `aoec.backend.prepare(model).run(inputs)`, as onnx.backend.base has it.

A model is compiled in memory with fp32 reals, for the machine that is the default of `aoec compile`, each group with a legal schedule that
nobody timed; equal models and inputs give equal results. What has no lowering runs on the host, and `Prepared.on_host` says what did.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import onnx
import onnx.shape_inference
from onnx.backend.base import Backend, BackendRep

from aoec.artifact.compiled import Artifact
from aoec.base.errors import CheckError
from aoec.frontend.read.parameters import parameters, with_values
from aoec.frontend.read.read import free_inputs, graph_inputs
from aoec.frontend.translate.onnx import load
from aoec.jobs.compile.untuned import compile_untuned
from aoec.jobs.run.execute import Runner
from aoec.target import machine

PRECISION = "fp32"


class Prepared(BackendRep):
    """A model ready to run, compiled for the shapes of its inputs and the values of those that shapes follow from: at once where the model
    fixes them all, else when inputs of new shapes or such values come."""

    def __init__(self, model: onnx.ModelProto, on: machine.Machine) -> None:
        self._model, self._machine = model, on
        self._inputs = graph_inputs(model.graph)
        self._parameters = parameters(model.graph)
        self._made: dict[tuple[tuple[object, ...], ...], Compiled] = {}
        self.compiled = None if self._parameters or free_inputs(model.graph) else self._compile({}, {})

    def _compile(self, shapes: dict[str, tuple[int, ...]], values: dict[str, np.ndarray]) -> Compiled:
        at = (*shapes.items(), *[(name, x.dtype.str, x.shape, x.tobytes()) for name, x in values.items()])
        if at not in self._made:
            graph, weights, _ = load(with_values(self._model, values), shapes, PRECISION)
            self._made[at] = Compiled(*compile_untuned(graph, weights, PRECISION, self._machine))
        return self._made[at]

    @property
    def on_host(self) -> tuple[str, ...]:
        """Return the operators of the nodes that run on the host, in order, one for each node; of the last run where shapes are free."""
        return self.compiled.on_host if self.compiled else ()

    @property
    def reasons(self) -> Mapping[str, str]:
        """Return why groups that could be the AI Core's run on the host, by group."""
        return self.compiled.reasons if self.compiled else {}

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return the outputs, in the model's order, of inputs by name, in order, or of the only one; CheckError where they do not fit."""
        feeds = by_name([i.name for i in self._inputs], inputs)
        values = {name: np.asarray(feeds.pop(name)) for name in self._parameters if name in feeds}
        free = [name for name in free_inputs(self._model.graph) if name in feeds]
        if free or self._parameters:
            self.compiled = self._compile({name: np.shape(feeds[name]) for name in free}, values)
        assert self.compiled is not None
        outputs = self.compiled.runner.run(feeds)
        return tuple(outputs[p.name] for p in self.compiled.artifact.outputs)


@dataclass(frozen=True)
class Compiled:
    """A compiled model, and why groups that could be the AI Core's run on the host."""

    artifact: Artifact
    reasons: Mapping[str, str]

    @cached_property
    def runner(self) -> Runner:
        """Return what runs it, again and again."""
        return Runner(self.artifact)

    @property
    def on_host(self) -> tuple[str, ...]:
        """Return the operators of the nodes that run on the host, in order."""
        return self.artifact.on_host


def by_name(names: Sequence[str], inputs: Any) -> dict[str, Any]:
    """Return input name -> value, of values by name, in order, or of the only one."""
    if isinstance(inputs, Mapping):
        return dict(inputs)
    listed = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    if len(listed) > len(names):
        raise CheckError(f"{len(listed)} inputs are given, and the model has {len(names)}: {', '.join(names) or 'none'}")
    return dict(zip(names, listed))


class AscendBackend(Backend):
    """The modelled AI Core and its host as a backend of ONNX."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> Prepared:
        """Return the model, compiled; an AoecError says what is wrong with it or not supported. `target`: a machine by name or file."""
        return Prepared(model, machine.load(kwargs.get("target", machine.DEFAULT)))

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """Return the outputs of a model."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU",
                 outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None = None, **kwargs: Any) -> tuple[Any, ...]:
        """Return the outputs of one node of the default operator set, of the newest version or `opset_version`."""
        names = [i for i in node.input if i]
        feeds = by_name(names, inputs)
        typed = [onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(np.asarray(x).dtype), np.asarray(x).shape)
                 for n, x in feeds.items()]
        version = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        schema = onnx.defs.get_schema(node.op_type, version, node.domain)
        found = onnx.shape_inference.infer_node_outputs(schema, node, {i.name: i.type for i in typed}, {n: onnx.numpy_helper.from_array(
            np.asarray(x), n) for n, x in feeds.items()})
        outputs = [onnx.helper.make_value_info(o, t) for o, t in found.items()]
        graph = onnx.helper.make_graph([node], "node", typed, outputs)
        return cls.run_model(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(node.domain, version)]), feeds, device,
                             **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return True for "CPU", which is where the modelled machine runs."""
        return device.split(":")[0] == "CPU"


prepare, run_model, run_node, supports_device = (AscendBackend.prepare, AscendBackend.run_model, AscendBackend.run_node,
                                                 AscendBackend.supports_device)
