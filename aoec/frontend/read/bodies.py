"""Operators that ONNX defines by simpler ones, replaced by these, wherever we have no better word for them."""
from __future__ import annotations

from collections.abc import Callable

import onnx
from onnx import FunctionProto, TypeProto, defs, helper, inliner

from aoec.frontend.own.own import infer_types, is_own
from aoec.frontend.read.versions import domain, opsets
from aoec.ops.own import Definitions

Infer = Callable[[onnx.ModelProto], onnx.ModelProto]
# operators with a body of others that stay whole: what a body makes of a seed, or of a sequence, is not what their own references make;
# a range of constants is a constant, its body a loop
WHOLE = frozenset(("Bernoulli", "Range", "SequenceMap"))
LOCAL = "aoec.bodies"  # the domain of bodies that stand in a model until they are inlined


def inline_bodies(proto: onnx.ModelProto, known: frozenset[str], definitions: Definitions, infer: Infer) -> onnx.ModelProto:
    """Replace operators that have a body by it, and those in it too, but for the `known` and the defined ones."""
    tried: set[tuple[str, str]] = set()
    while found := {op: s for op, s in _bodies(proto, known, definitions).items() if op not in tried}:
        for n in proto.graph.node:
            if (domain(n), n.op_type) in found:
                _state_defaults(n, found[domain(n), n.op_type])
        for body in sorted(found):
            proto = _one_inlined(_declare_constants(infer_types(proto, definitions, infer)), body, found[body])
        tried |= found.keys()
    return proto


def _bodies(proto: onnx.ModelProto, known: frozenset[str], definitions: Definitions) -> dict[tuple[str, str], defs.OpSchema]:
    """Return (domain, operator) -> schema, of those nodes whose operator has a body."""
    versions = opsets(proto)
    schemas = {(domain(n), n.op_type): defs.get_schema(n.op_type, versions[domain(n)], domain(n)) for n in proto.graph.node
               if n.op_type not in known | WHOLE and not is_own(n, definitions)}
    return {op: s for op, s in schemas.items() if s.has_function or s.has_context_dependent_function}  # type: ignore[attr-defined]


def _one_inlined(proto: onnx.ModelProto, body: tuple[str, str], schema: defs.OpSchema) -> onnx.ModelProto:
    """Return the model with one operator replaced. Of types that onnx's inliner does not know, or where it has no body, the operator
    stays."""
    try:
        return inliner.inline_selected_functions(proto, [body], inline_schema_functions=True)
    except RuntimeError:
        return _by_context(proto, body, schema) if schema.has_context_dependent_function else proto  # type: ignore[attr-defined]


def _by_context(proto: onnx.ModelProto, body: tuple[str, str], schema: defs.OpSchema) -> onnx.ModelProto:
    """Return the model with each node of an operator replaced by the body for its own arguments, of which some may be absent: the inliner
    asks for the type of each."""
    out = onnx.ModelProto()
    out.CopyFrom(proto)
    g = out.graph
    types = {i.name: i.type for i in (*g.value_info, *g.input)}
    for at, n in enumerate(n for n in g.node if (domain(n), n.op_type) == body):
        given = [types.get(i, TypeProto()).SerializeToString() for i in n.input]
        function = FunctionProto()
        function.ParseFromString(schema.get_context_dependent_function(n.SerializeToString(), given))  # type: ignore[attr-defined]
        if not function.node:
            return proto
        function.domain, function.name = LOCAL, f"{n.op_type}_{at}"
        n.domain, n.op_type = LOCAL, function.name
        out.functions.append(function)
    out.opset_import.append(helper.make_opsetid(LOCAL, 1))
    made = inliner.inline_local_functions(out)
    kept = [o for o in made.opset_import if o.domain != LOCAL]
    del made.opset_import[:]
    made.opset_import.extend(kept)
    return made


def _state_defaults(n: onnx.NodeProto, schema: defs.OpSchema) -> None:
    """State the attributes that the node leaves at their defaults. Inference in the body and the inliner look for them in the node
    alone."""
    stated = {a.name for a in n.attribute}
    n.attribute.extend(a.default_value for name, a in schema.attributes.items() if name not in stated and a.default_value.name)


def _declare_constants(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Declare the types of the model's constants where the inliner looks for them."""
    known = {v.name for v in proto.graph.value_info}
    proto.graph.value_info.extend(helper.make_tensor_value_info(w.name, w.data_type, w.dims) for w in proto.graph.initializer
                                  if w.name not in known)
    return proto
