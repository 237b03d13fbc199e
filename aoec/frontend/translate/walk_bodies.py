"""Compiles the bodies of control flow that the host walks: each body is a model of its own, and is translated as one.

A body takes its own inputs and, behind these, what it reads from around it. Constants from around it become its own. Tensors that enter or
leave a body have a fixed shape and types that the AI Core works on. What a loop carries keeps both. Any other node stays whole, and ONNX's
reference runs it.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from aoec.base.errors import AoecError, UnsupportedError
from aoec.frontend.read.inference import infer_shapes
from aoec.frontend.read.values import captured_names, shape_of, tensor
from aoec.frontend.translate.constants import Constants
from aoec.frontend.translate.node import title_of
from aoec.ir.graph.bodies import MOST_DEEP, rename_graph
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OPAQUE, Body, Graph
from aoec.ops import typed
from aoec.ops.host import host
from aoec.ops.host.control import AROUND, BODIES, ROUNDS

Weights = dict[str, np.ndarray]
Load = Callable[[onnx.ModelProto], tuple[Graph, Weights, list[str]]]  # the graph of a body, its constants, notices for the user
COUNT = helper.make_tensor_type_proto(TensorProto.INT64, [])
TRUTH = helper.make_tensor_type_proto(TensorProto.BOOL, [])
CORE = "its body holds nothing for the AI Core"


@dataclass(frozen=True)
class Walked:
    """A node whose bodies were translated: what it reads, its attributes, the shapes of its results as far as bodies tell them, the bodies
    with their graphs, by names that are new in the model, their constants, and notices for the user."""

    inputs: tuple[str, ...]
    attributes: dict[str, Any]
    shapes: dict[str, tuple[int, ...]]
    bodies: tuple[tuple[str, Graph], ...]  # kind of the body, its graph
    weights: Weights
    notices: tuple[str, ...]


class Walker:
    """Translates bodies for a model on its way; `deep`: the bodies that it lies in itself."""

    def __init__(self, load: Load, draft: Draft, constants: Constants, types: Mapping[str, onnx.TypeProto], opsets: Mapping[str, int],
                 deep: int) -> None:
        self.load, self.draft, self.constants, self.types, self.opsets, self.deep = load, draft, constants, types, opsets, deep

    def walk_bodies(self, proto: onnx.NodeProto) -> Walked | None:
        """Translate the node with its bodies. None of an operator that has none. UnsupportedError that says why they are not compiled."""
        if (kinds := BODIES.get(host.word(proto))) is None:
            return None
        if self.deep >= MOST_DEEP - 1:
            raise UnsupportedError(f"it lies in {self.deep} bodies, and at most {MOST_DEEP} are compiled within each other")
        around = captured_names(proto)
        read = [name for name in around if name not in self.constants]
        formals = self._formals(proto)
        given = {a.name: a.g for a in proto.attribute if a.type == onnx.AttributeProto.GRAPH}
        made: list[tuple[str, Graph, Weights]] = []
        notices: list[str] = []
        for kind in kinds:
            graph, weights, said = self.load(self._model(given[kind], formals, around, read))
            notices += said
            made.append((kind, *self._rename_body(f"{proto.name or proto.op_type.lower()}_{kind}", graph, weights)))
        graphs = [graph for _, graph, _ in made]
        self._check(proto, graphs)
        plain = onnx.NodeProto()
        plain.CopyFrom(proto)
        del plain.attribute[:]
        plain.attribute.extend(a for a in proto.attribute if a.name not in kinds)
        rounds = self._rounds(proto)
        attributes = {**host.attributes(plain, self.opsets), AROUND: len(read), **({} if rounds is None else {ROUNDS: rounds})}
        weights = {name: array for *_, own in made for name, array in own.items()}
        return Walked((*proto.input, *read), attributes, self._shapes(proto, graphs, weights, rounds),
                      tuple((kind, graph) for kind, graph, _ in made), weights, tuple(notices))

    # ------------------------------------------------------------ what a body takes

    def _formals(self, proto: onnx.NodeProto) -> list[onnx.TypeProto]:
        """Return the types of a body's own inputs."""
        if proto.op_type == "If":
            return []
        if proto.op_type == "Loop":
            return [COUNT, TRUTH, *(self._boundary_type(name) for name in proto.input[2:])]
        if self.opsets.get("", 0) < 9:
            raise UnsupportedError("a Scan of version 8 walks a batch")
        given = {a.name: helper.get_attribute_value(a) for a in proto.attribute}
        types, carried = [self._boundary_type(name) for name in proto.input], _count_carried(proto)
        states, xs = types[:carried], types[carried:]
        axes = list(given.get("scan_input_axes", ())) or [0] * len(xs)
        return [*states, *(_without(t, axis) for t, axis in zip(xs, axes, strict=True))]

    def _boundary_type(self, name: str) -> onnx.TypeProto:
        """Return the type of a value that crosses the bounds of a body. Raise UnsupportedError where it is not one of the AI Core's."""
        known = self.types.get(name)
        if not name or known is None or tensor(name, known).dtype == OPAQUE or typed.small(tensor(name, known).declared):
            raise UnsupportedError(f"its body reads {name or 'an absent input'}, whose type or shape is not one that the AI Core works on")
        out = onnx.TypeProto()
        out.CopyFrom(known)
        return out

    def _model(self, body: onnx.GraphProto, formals: Sequence[onnx.TypeProto], around: Sequence[str], read: Sequence[str]
               ) -> onnx.ModelProto:
        """Return a body as a model."""
        if len(body.input) != len(formals):
            raise UnsupportedError(f"its body takes {len(body.input)} inputs, and {len(formals)} are given")
        inputs = [*zip([i.name for i in body.input], formals), *((name, self._boundary_type(name)) for name in read)]
        arrays = [numpy_helper.from_array(self.constants.array(name), name) for name in around if name not in read]
        graph = helper.make_graph(body.node, body.name or "body", [helper.make_value_info(name, t) for name, t in inputs], [],
                                  [*body.initializer, *arrays])
        made = {o for n in body.node for o in n.output}
        for at, o in enumerate(body.output):
            name = o.name
            if name not in made or name in [x.name for x in graph.output]:  # passed through, or given twice
                name = f"{name}_result_{at}"
                graph.node.append(helper.make_node("Identity", [o.name], [name]))
            graph.output.append(helper.make_value_info(name, o.type))
        versions = [helper.make_opsetid(domain, version) for domain, version in self.opsets.items()]
        return _type_results(helper.make_model(graph, opset_imports=versions))

    # ------------------------------------------------------------ what it gives

    def _rename_body(self, label: str, graph: Graph, weights: Weights) -> tuple[Graph, Weights]:
        """Return a body's graph and constants by names that are new in the model."""
        tensors = {t.name: self.draft.fresh(f"{label}_{t.name}") for t in graph.tensors}
        nodes = {n.name: self.draft.fresh(f"{label}_{n.name}", "node") for n in graph.nodes}
        return rename_graph(graph, tensors, nodes), {tensors[name]: array for name, array in weights.items()}

    def _check(self, proto: onnx.NodeProto, graphs: Sequence[Graph]) -> None:
        """Raise UnsupportedError where the bodies do not give what the node takes of them, or have no work for the AI Core."""
        if all(n.op.startswith(host.PREFIX) for g in graphs for n in g.nodes):
            raise UnsupportedError(CORE)
        if any(n.op.removeprefix(host.PREFIX) in host.SEEDED for g in graphs for n in g.nodes):
            raise UnsupportedError("its body draws random numbers, other ones in every round")
        rest = 1 if proto.op_type == "Loop" else 0  # a body of a loop gives its condition first
        for g in graphs:
            if len(g.outputs) < rest + len(proto.output):
                raise UnsupportedError(f"its body gives {len(g.outputs)} values, and {rest + len(proto.output)} are taken")
        if proto.op_type != "If":
            self._check_carried(proto, graphs[0])

    def _check_carried(self, proto: onnx.NodeProto, graph: Graph) -> None:
        tensors = {t.name: t for t in graph.tensors}
        first, rest = (2, 1) if proto.op_type == "Loop" else (0, 0)
        carried = _count_carried(proto)
        if rest and tensors[graph.outputs[0]].dtype != "bool":
            raise UnsupportedError("its body gives no condition of a known type")
        for given, taken in zip(graph.outputs[rest:rest + carried], graph.inputs[first:first + carried], strict=True):
            a, b = tensors[given], tensors[taken]
            if a.dtype == OPAQUE or a.shape != b.shape:
                shape = "an unknown shape" if a.dtype == OPAQUE else f"the shape {list(a.shape)}"
                raise UnsupportedError(f"what it carries has the shape {list(b.shape)} at first and {shape} after a round")

    def _rounds(self, proto: onnx.NodeProto) -> int | None:
        """Return how many rounds there are at most, where that is known."""
        if proto.op_type == "Loop":
            known = proto.input[0] in self.constants and self.constants.size(proto.input[0]) == 1
            return max(0, int(self.constants.array(proto.input[0]).reshape(-1)[0])) if known else None
        if proto.op_type == "If":
            return None
        axes = next((a.ints for a in proto.attribute if a.name == "scan_input_axes"), [0])
        return (shape_of(self.types[proto.input[_count_carried(proto)]]) or (0,))[axes[0]]

    def _shapes(self, proto: onnx.NodeProto, graphs: Sequence[Graph], weights: Weights, rounds: int | None) -> dict[str, tuple[int, ...]]:
        """Return result -> its shape, where the bodies tell it: what is carried keeps its own, and so does what both branches give
        alike."""
        rest = 1 if proto.op_type == "Loop" else 0
        each = [[{t.name: t for t in g.tensors}[name] for name in g.outputs[rest:]] for g in graphs]
        if proto.op_type == "If":
            pairs = zip(proto.output, each[0], each[1])
            return {o: a.shape for o, a, b in pairs if o and (a.dtype, a.shape) == (b.dtype, b.shape) and a.dtype != OPAQUE}
        carried = _count_carried(proto)
        out = {o: t.shape for o, t in zip(proto.output[:carried], each[0]) if o}
        if proto.op_type == "Loop" and rounds is not None and self._to_the_end(proto, graphs[0], weights):
            rows = zip(proto.output[carried:], each[0][carried:])
            out |= {o: (rounds, *t.shape) for o, t in rows if o and t.dtype != OPAQUE}
        return out

    def _to_the_end(self, proto: onnx.NodeProto, graph: Graph, weights: Weights) -> bool:
        """Return True where nothing ends a Loop before its count does."""
        condition, go = proto.input[1] if len(proto.input) > 1 else "", graph.outputs[0]
        views = {n.outputs[0]: n.inputs[0] for n in graph.nodes if n.op == "reshape"}
        while go in views:
            go = views[go]
        begun = not condition or condition in self.constants and bool(self.constants.array(condition).all())
        return begun and (go == graph.inputs[1] or go in weights and bool(weights[go].all()))


def attempt(walker: Walker, proto: onnx.NodeProto, notices: list[str]) -> Walked | None:
    """Return the node with its bodies, or None; why a node with bodies stays whole is a notice then."""
    try:
        return walker.walk_bodies(proto)
    except (AoecError, LookupError, ValueError, TypeError, ArithmeticError) as e:  # of a body too that contradicts what is around it
        notices.append(f"{title_of(proto)} runs on the host with all that is in it: {host.first_line(e)}")
        return None


def with_bodies(graph: Graph, weights: Weights, walked: Mapping[str, Walked]) -> tuple[Graph, Weights]:
    """Return the graph with the bodies of those of its nodes that have some, by name, and all constants."""
    found = [(n.name, walked[n.name]) for n in graph.nodes if n.name in walked]
    for name, w in found:
        for kind, body in w.bodies:
            inside = {n for b in body.bodies for n in b.nodes}
            own = Body(name, kind, body.inputs, body.outputs, tuple(n.name for n in body.nodes if n.name not in inside))
            graph = Graph(graph.name, graph.inputs, graph.outputs, (*graph.tensors, *body.tensors), (*graph.nodes, *body.nodes), (),
                          (*graph.bodies, own, *body.bodies))
        weights = {**weights, **w.weights}
    return graph, weights


def _type_results(model: onnx.ModelProto) -> onnx.ModelProto:
    """Type the model's results, as far as ONNX tells. Their shapes are inferred anew when it is read."""
    found = {o.name: o.type for o in infer_shapes(model, data_prop=True).graph.output}
    for o in model.graph.output:
        o.type.CopyFrom(found[o.name])
    return model


def _count_carried(proto: onnx.NodeProto) -> int:
    """Return how many values a Loop or Scan takes from round to round."""
    return len(proto.input[2:]) if proto.op_type == "Loop" else len(proto.input) - _count_scanned(proto)


def _count_scanned(proto: onnx.NodeProto) -> int:
    return next((a.i for a in proto.attribute if a.name == "num_scan_inputs"), 0)


def _without(t: onnx.TypeProto, axis: int) -> onnx.TypeProto:
    """Return the type of what lies at one place of an axis of a tensor."""
    shape = list(shape_of(t) or ())
    del shape[axis]
    return helper.make_tensor_type_proto(t.tensor_type.elem_type, shape)
