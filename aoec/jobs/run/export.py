"""`aoec export`: a compiled model, or a graph, as an ONNX model again, what runs in slices spelled out."""
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aoec.frontend.export.export import export
from aoec.frontend.export.steps import End

if TYPE_CHECKING:
    import onnx


def export_model(path: str, text: str, weights: str | Path) -> onnx.ModelProto:
    """Return the ONNX model of a compiled model, `path`.aoec, or of the `text` of a graph with its constants. Raise CheckError for a file
    with several gears, as each is a model of its own."""
    if path.endswith(".aoec"):
        return of_artifact(path)
    from aoec.jobs.compile.ports import ports
    from aoec.jobs.stages.stages import graph_of, load_weights
    graph = graph_of(text, path)
    inputs, outputs = ([End(p.name, p.tensor, p.dtype) for p in ports(graph, names, "")] for names in (graph.inputs, graph.outputs))
    return export(graph, load_weights(graph, weights), inputs, outputs)


def of_artifact(path: str) -> onnx.ModelProto:
    """Return the ONNX model of a compiled one."""
    from aoec.artifact.artifact import load
    a = load(path)
    inputs, outputs = ([End(p.name, p.tensor, p.dtype) for p in ports] for ports in (a.inputs, a.outputs))
    return export(a.graph, a.weights, inputs, outputs)
