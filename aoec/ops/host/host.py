"""Nodes that run on the host: `host.<OpType>` is ONNX's operator of that name, run by `onnx.reference`.

The name of an operator of another domain than ONNX's own includes the domain: `host.ai.onnx.ml.LabelEncoder`. A node keeps ONNX's
attributes under their own names, and has `onnx_opset`, the version of its domain. Attributes that a graph's text has no form for (tensors,
subgraphs, lists of strings) are kept as `proto:` and the base64 of ONNX's own serialisation.

Control flow is one node with its bodies. What they read from around them are the node's last inputs, and `onnx_captured` gives their names
as a JSON list. `host.Constant` makes a constant that only the host holds. `onnx_reals` lists, for each input, the element type that the
model declares where a graph's dtype does not give it. In a graph, reals have one dtype and elements of few bits are bytes, but ONNX's
operators take only their own types. Where ONNX leaves the seed of random numbers open, the seed is the node's place in the model, so that
equal runs give equal results.
"""
from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from aoec.base.errors import UnsupportedError
from aoec.ir.graph.graph import Attribute, OpNode
from aoec.ops import typed

if TYPE_CHECKING:
    import onnx

PREFIX = "host."
OPSET, OPSETS, CAPTURED, REALS = "onnx_opset", "onnx_opsets", "onnx_captured", "onnx_reals"
HALVES = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
OWN_DOMAIN = ("", "ai.onnx")
SEEDED = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
_PROTO = "proto:"


def word(node: onnx.NodeProto) -> str:
    """Return the operator of the node in a graph."""
    return PREFIX + (node.op_type if node.domain in OWN_DOMAIN else f"{node.domain}.{node.op_type}")


def attributes(node: onnx.NodeProto, opsets: Mapping[str, int], captured: Sequence[str] = (), reals: Sequence[str] = (),
               seed: int = 0) -> dict[str, Attribute]:
    """Return the graph attributes of a node that is to run on the host. `captured`: names that its subgraphs read from around them;
    `reals`: for each input, those too, the element type where the graph's dtype does not say it, else ""."""
    kept: dict[str, Attribute] = {a.name: _to_text(a) for a in node.attribute}
    if node.op_type in SEEDED and node.domain in OWN_DOMAIN:
        kept.setdefault("seed", float(seed))
    kept[OPSET] = opsets.get("" if node.domain in OWN_DOMAIN else node.domain, 1)
    if any(a.HasField("g") or a.graphs for a in node.attribute):
        kept[OPSETS] = json.dumps(dict(sorted(opsets.items())))
    if captured:
        kept[CAPTURED] = json.dumps(list(captured))
    if any(reals):
        kept[REALS] = json.dumps(list(reals))
    return kept


def constant(array: np.ndarray) -> dict[str, Attribute]:
    """Return the attributes of a `host.Constant` that makes the array."""
    from onnx import defs, helper, numpy_helper

    node = helper.make_node("Constant", [], ["value"], value=numpy_helper.from_array(array))
    return attributes(node, {"": defs.onnx_opset_version()})


def _to_text(a: onnx.AttributeProto) -> Attribute:
    import onnx

    plain = (onnx.AttributeProto.INT, onnx.AttributeProto.FLOAT, onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS)
    value = onnx.helper.get_attribute_value(a) if a.type in plain else None
    if isinstance(value, (int, float)) and value == value:
        return value
    if value is not None and not isinstance(value, float) and len(value) and all(v == v for v in value):
        return tuple(value)
    if a.type == onnx.AttributeProto.STRING and a.s.isascii() and not a.s.startswith(_PROTO.encode()):
        return a.s.decode()
    return _PROTO + base64.b64encode(a.SerializeToString()).decode()


def _from_text(name: str, value: Attribute) -> onnx.AttributeProto:
    import onnx

    if isinstance(value, str) and value.startswith(_PROTO):
        out = onnx.AttributeProto()
        out.ParseFromString(base64.b64decode(value[len(_PROTO):], validate=True))
        return out
    return onnx.helper.make_attribute(name, list(value) if isinstance(value, tuple) else value)


def evaluator(proto: onnx.NodeProto, opsets: Mapping[str, int], captured: Sequence[str] = ()) -> Any:
    """Return ONNX's reference for one node, in a graph: for a bare node `onnx.reference` would take the newest version of its operator."""
    from onnx import TypeProto
    from onnx.helper import make_graph, make_value_info
    from onnx.reference import ReferenceEvaluator

    from aoec.ops.host.host_reference import OPERATORS

    inputs = [make_value_info(name, TypeProto()) for name in dict.fromkeys((*proto.input, *captured)) if name]
    outputs = [make_value_info(name, TypeProto()) for name in proto.output if name]
    return ReferenceEvaluator(make_graph([proto], "node", inputs, outputs), opsets=dict(opsets), new_ops=list(OPERATORS))


@lru_cache(maxsize=1024)
def _evaluator(op: str, given: tuple[tuple[str, Attribute], ...], present: tuple[bool, ...], results: int) -> tuple[Any, list[str]]:
    """Return (the evaluator of a node, the names of its inputs), those that the node has; its results are o0, o1, ..."""
    from onnx.helper import make_node

    kept = {n: value for n, value in given if n != REALS}
    domain, _, name = op[len(PREFIX):].rpartition(".")
    captured = json.loads(str(kept.pop(CAPTURED, "[]")))
    opsets = {**json.loads(str(kept.pop(OPSETS, "{}"))), domain: kept.pop(OPSET)}
    own = [f"#{i}" if there else "" for i, there in enumerate(present[:len(present) - len(captured)])]
    proto = make_node(name, own, [f"#o{i}" for i in range(results)], domain=domain)
    proto.attribute.extend(_from_text(n, value) for n, value in kept.items())
    return evaluator(proto, opsets, captured), [*own, *captured]  # type: ignore[arg-type]


def run(node: OpNode, inputs: Sequence[Any]) -> list[Any]:
    """Return the results of a host node. Raise UnsupportedError where ONNX's reference cannot run it. An absent input is None."""
    try:
        made, names = _evaluator(node.op, node.attributes, tuple(map(bool, node.inputs)), len(node.outputs))
        with np.errstate(all="ignore"):
            return [as_value(y) for y in made.run(None, {name: x for name, x in zip(names, as_declared(node, inputs)) if name})]
    except MemoryError:
        raise
    except Exception as e:  # onnx.reference raises whatever its Python bodies raise
        raise UnsupportedError(f"node {node.name}: ONNX's reference cannot run {node.op[len(PREFIX):]} ({first_line(e)})") from e


def as_declared(node: OpNode, inputs: Sequence[Any]) -> list[Any]:
    """Return the inputs in the element types that the model declares."""
    given = json.loads(str(node.attribute(REALS, "[]"))) or [""] * len(inputs)
    return [_as_declared(x, of) if isinstance(x, np.ndarray) else x for x, of in zip(inputs, given)]


def _as_declared(x: np.ndarray, of: str) -> np.ndarray:
    if of in typed.STORED:
        return typed.from_bytes(x, of)
    return x.astype(typed.NUMPY[of or "float"], copy=False) if x.dtype in (np.float32, *HALVES) else x


def as_value(y: Any) -> Any:
    """Return an array where the reference gives a bare number, text or array; a sequence is a list, an absent optional None."""
    if y is None or isinstance(y, np.ndarray):
        return y
    return [as_value(x) for x in y] if isinstance(y, (list, tuple)) else np.asarray(y)


def first_line(e: Exception) -> str:
    """Return the first line of an exception's text, shortened."""
    return (str(e).splitlines() or [type(e).__name__])[0][:200]
