"""ONNX's backend interface: `aoec.backend.prepare(model).run(inputs)`, as onnx.backend.base has it.

A model is compiled in memory with default schedules and fp32 reals, on the machine that is the default of `aoec compile`; equal models and
inputs give equal results. What has no lowering runs on the host, and `Prepared.on_host` says what did.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep

from aoec.artifact.compiled import Artifact
from aoec.base.errors import CheckError
from aoec.frontend.onnx import load
from aoec.jobs.execute import run_model as run_artifact
from aoec.jobs.untuned import untuned
from aoec.target import machine

PRECISION = "fp32"


class Prepared(BackendRep):
    """A compiled model, ready to run."""

    def __init__(self, artifact: Artifact, reasons: Mapping[str, str]) -> None:
        self.artifact, self.reasons = artifact, reasons

    @property
    def on_host(self) -> tuple[str, ...]:
        """The operators of the nodes that run on the host, in order, one for each node."""
        host = {name for g in self.artifact.graph.groups if g.kind == "host" for name in g.nodes}
        return tuple(n.op for n in self.artifact.graph.nodes if n.name in host)

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs, in the model's order, of inputs by name, in order, or of the only one; CheckError where they do not fit."""
        feeds = by_name([p.name for p in self.artifact.inputs], inputs)
        outputs = run_artifact(self.artifact, feeds)
        return tuple(outputs[p.name] for p in self.artifact.outputs)


def by_name(names: Sequence[str], inputs: Any) -> dict[str, Any]:
    """Input name -> value, of values by name, in order, or of the only one."""
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
        """The model, compiled; an AoecError says what is wrong with it or not supported. `target`: a machine by name or file."""
        graph, weights, _ = load(model, precision=PRECISION)
        return Prepared(*untuned(graph, weights, PRECISION, machine.load(kwargs.get("target", machine.DEFAULT))))

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """The outputs of a model."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU",
                 outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None = None, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs of one node of the default operator set, of the newest version or `opset_version`."""
        names = [i for i in node.input if i]
        feeds = by_name(names, inputs)
        typed = [onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(np.asarray(x).dtype), np.asarray(x).shape)
                 for n, x in feeds.items()]
        outputs = [onnx.helper.make_value_info(o, onnx.TypeProto()) for o in node.output if o]
        version = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        graph = onnx.helper.make_graph([node], "node", typed, outputs)
        return cls.run_model(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(node.domain, version)]), feeds, device,
                             **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """True for "CPU", which is where the modelled machine runs."""
        return device.split(":")[0] == "CPU"


prepare, run_model, run_node, supports_device = (AscendBackend.prepare, AscendBackend.run_model, AscendBackend.run_node,
                                                 AscendBackend.supports_device)
