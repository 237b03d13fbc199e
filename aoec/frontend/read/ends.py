"""Ends a model at outputs of its nodes that a user names: ATC's `--out_nodes`, `node:0;node:1;other:0`."""
from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

import onnx

from aoec.base.errors import CheckError
from aoec.frontend.read.inference import infer_shapes

End = tuple[str, int]  # a node, and which of its outputs


def parse_ends(text: str) -> list[End]:
    """Return what `--out_nodes` says. Raise CheckError where that is not of its form."""
    out = []
    for part in text.split(";"):
        name, colon, number = part.rpartition(":")
        if not (colon and name and number.isdecimal() and len(number) < 5):
            raise CheckError(f"--out_nodes={text[:80]}: {part[:40]!r} is not of the form NODE:0; several stand between semicolons")
        out.append((name, int(number)))
    return out


def ending_at(model: onnx.ModelProto, ends: Sequence[End]) -> onnx.ModelProto:
    """Return the model with these outputs in this order in place of its own, and only the nodes and inputs that lead to them; constants as
    they lie. Raise CheckError where a node is not there, has no such output, or gives what has no type."""
    tensors = list(dict.fromkeys(_tensor(model.graph, *end) for end in ends))
    cut = onnx.ModelProto()
    cut.CopyFrom(model)
    graph, needed = cut.graph, set(tensors)
    kept = [n for n in reversed(model.graph.node) if _leads(n, needed)]
    for field, left in ((graph.node, reversed(kept)), (graph.input, [i for i in model.graph.input if i.name in needed]),
                        (graph.initializer, [i for i in model.graph.initializer if i.name in needed]),
                        (graph.output, [_declare_output(model, t) for t in tensors])):
        del field[:]
        field.extend(left)
    return cut


def _tensor(graph: onnx.GraphProto, name: str, number: int) -> str:
    node = next((n for n in graph.node if n.name == name), None)
    if node is None:
        near = difflib.get_close_matches(name, [n.name for n in graph.node if n.name], 1)
        raise CheckError(f"--out_nodes: the model has no node {name[:80]}" + (f"; did you mean {near[0]}?" if near else ""))
    if number >= len(node.output) or not node.output[number]:
        raise CheckError(f"--out_nodes: node {name} has no output {number}; it has {len(node.output)}")
    return str(node.output[number])


def _leads(node: onnx.NodeProto, needed: set[str]) -> bool:
    """Return whether a node makes something that is needed; what it reads is needed then too."""
    if needed.isdisjoint(node.output):
        return False
    needed.update(_read(node))
    return True


def _read(node: onnx.NodeProto) -> Iterator[str]:
    """Yield all names that a node reads, or that its bodies do."""
    yield from node.input
    for a in node.attribute:
        for body in (a.g, *a.graphs):
            yield from (o.name for o in body.output)
            for n in body.node:
                yield from _read(n)


def _declare_output(model: onnx.ModelProto, tensor: str) -> onnx.ValueInfoProto:
    """Declare a tensor with its type, as a model's output."""
    graph = model.graph
    stated = [v for v in (*graph.output, *graph.value_info) if v.name == tensor and v.type.WhichOneof("value")]
    for v in stated or infer_shapes(model).graph.value_info:
        if v.name == tensor:
            return v
    raise CheckError(f"--out_nodes: the type of {tensor} cannot be told; cut the model with onnx.utils.extract_model")
