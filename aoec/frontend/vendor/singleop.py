"""Reads single operators as ATC and AOE take them (`--singleop`): a JSON list of Ascend-IR operators with shapes, turned into ONNX models
of one operator each. `ascend_ir.py` says what each operator means in ONNX.

The form is that of "single-operator description file" in CANN's ATC guide. An operator has op, name, input_desc and output_desc (format,
shape, type), and attr (name, type, value). `origin_format` and `origin_shape` say what is meant, where they are given. Shapes are fixed, as
operator tuning requires.
"""
from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from aoec.base.errors import CheckError, UnsupportedError
from aoec.base.files.files import read_json
from aoec.frontend.read.inference import InferenceError, infer_shapes
from aoec.frontend.vendor.ascend_ir import IMAGES, RULES, Growing

TYPES = {"float16": "FLOAT16", "float": "FLOAT", "float32": "FLOAT", "double": "DOUBLE", "bfloat16": "BFLOAT16", "bf16": "BFLOAT16",
         "bool": "BOOL", **{f"{u}int{n}": f"{u}int{n}".upper() for u in ("", "u") for n in (8, 16, 32, 64)}}
FORMATS = ("ND", "NCHW", "NHWC", "HWCN", "NCDHW", "NDHWC")
TURNED = {"NHWC": (0, 3, 1, 2), "HWCN": (3, 2, 0, 1)}  # images and filters as ONNX has them
MOST_OPERATORS, MOST_DIMENSIONS, MOST_ELEMENTS = 1000, 8, 1 << 31
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,60}")  # of a type of operators
OPSET, IR_VERSION = 20, 9


@dataclass(frozen=True)
class Described:
    """A tensor of a description; `value`: of a constant."""

    shape: tuple[int, ...]
    dtype: int
    format: str
    value: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Operator:
    """An operator of a description; an input may be absent. `label`: a name for files, unique in its description."""

    op: str
    label: str
    inputs: tuple[Described | None, ...]
    outputs: tuple[Described, ...]
    attributes: Mapping[str, Any]


def read(path: str) -> list[Operator]:
    """Return the operators of a description file. Raise CheckError where it is none."""
    said = read_json(path)
    if not isinstance(said, list) or not 0 < len(said) <= MOST_OPERATORS:
        raise CheckError(f"{path} is no description of single operators, which is a list of 1 to {MOST_OPERATORS} objects with op, "
                         "input_desc and output_desc")
    return [_operator(item, i, len(said) > 1, f"{path}: operator {i}") for i, item in enumerate(said)]


def _operator(item: Any, number: int, several: bool, where: str) -> Operator:
    fields = _fields(item, where, {"op": str, "output_desc": list}, {"name": str, "input_desc": list, "attr": list})
    if not NAME.fullmatch(fields["op"]):
        raise CheckError(f"{where}: op cannot be {fields['op'][:40]!r}")
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", fields.get("name") or fields["op"].lower())[:60].lstrip(".")
    attributes = [_fields(a, f"{where}: attribute {i}", {"name": str, "value": object}, {}) for i, a in enumerate(fields.get("attr", []))]
    inputs = tuple(_tensor(t, f"{where}: input {i}") for i, t in enumerate(fields.get("input_desc", [])))
    outputs = [_tensor(t, f"{where}: output {i}") for i, t in enumerate(fields["output_desc"])]
    return Operator(fields["op"], f"{number}_{name}" if several or not name else name, inputs, tuple(t for t in outputs if t),
                    {a["name"]: a["value"] for a in attributes})


def _tensor(item: Any, where: str) -> Described | None:
    """Return a tensor. Return None for one that is left out, whose type or format is UNDEFINED or RESERVED."""
    fields = _fields(item, where, {"type": str, "format": str},
                     {"shape": list, "origin_shape": list, "origin_format": str, "const_value": list})
    if {"UNDEFINED", "RESERVED"} & {fields["type"].upper(), fields["format"].upper()}:
        return None
    shape, layout = fields.get("origin_shape", fields.get("shape", [])), fields.get("origin_format", fields["format"]).upper()
    if fields["type"] not in TYPES or layout not in FORMATS:
        raise CheckError(f"{where}: type {fields['type'][:40]!r} and format {layout[:40]!r}; types are {', '.join(TYPES)}, formats "
                         f"{', '.join(FORMATS)} (origin_format and origin_shape say of others what is meant)")
    if len(shape) > MOST_DIMENSIONS or not all(type(n) is int and n > 0 for n in shape) or math.prod(shape) > MOST_ELEMENTS:
        raise CheckError(f"{where}: the shape is no list of at most {MOST_DIMENSIONS} sizes above 0 of at most {MOST_ELEMENTS:,} elements; "
                         "operators are tuned for fixed shapes")
    value = fields.get("const_value")
    if value is not None and (len(value) != math.prod(shape) or not all(type(v) in (int, float, bool) for v in value)):
        raise CheckError(f"{where}: const_value has not one number for each element of the shape")
    return Described(tuple(shape), getattr(TensorProto, TYPES[fields["type"]]), layout, None if value is None else tuple(value))


def _fields(item: Any, where: str, needed: Mapping[str, type], others: Mapping[str, type]) -> dict[str, Any]:
    """Return an object's fields, of which those named are of these types."""
    good = isinstance(item, dict) and needed.keys() <= item.keys() and all(
        isinstance(item[k], t) for k, t in {**needed, **others}.items() if k in item)
    if not good:
        raise CheckError(f"{where} is no object with {', '.join(needed)}, or one of its fields is of another type than ATC's guide says")
    return dict(item)


def model(operator: Operator) -> onnx.ModelProto:
    """Return the ONNX model of an operator. Raise UnsupportedError for one that has no meaning here. Raise CheckError where it cannot be as
    described."""
    if operator.op not in RULES:
        raise UnsupportedError(f"operator {operator.op} has no meaning here; those that can be described are "
                               f"{', '.join(sorted(RULES))}; give any other as a node of an ONNX model (--model)")
    images = operator.op in IMAGES
    inputs = [t and _as_onnx(t, images) for t in operator.inputs]
    outputs = [_as_onnx(t, images) for t in operator.outputs[:1]]
    if not outputs:
        raise CheckError(f"operator {operator.label} has no output")
    growing = Growing([t.shape if t else None for t in inputs], [t.format if t else "" for t in operator.inputs],
                      dict(operator.attributes), operator.label)
    try:
        made = RULES[operator.op](growing)
        growing.node("Cast", made, output="y", to=outputs[0].dtype)
        proto = _proto(operator.label, growing, inputs, outputs[0].dtype)
        found = proto.graph.output[0].type.tensor_type
    except (onnx.checker.ValidationError, InferenceError, ValueError, IndexError, TypeError, OverflowError) as e:
        why = (str(e).splitlines() or [type(e).__name__])[0][:200]
        raise CheckError(f"operator {operator.label} ({operator.op}) cannot be as it is described: {why}") from e
    shape = tuple(d.dim_value for d in found.shape.dim)
    if shape != outputs[0].shape:
        raise CheckError(f"operator {operator.label} ({operator.op}) gives {list(shape)}, its description says {list(outputs[0].shape)}")
    return proto


def _as_onnx(t: Described, images: bool) -> Described:
    """Return a tensor with its dimensions in ONNX's order, where the operator is one of images."""
    if not images or t.format not in TURNED or len(t.shape) != 4:
        return t
    order = TURNED[t.format]
    value = None if t.value is None else tuple(np.reshape(t.value, t.shape).transpose(order).ravel().tolist())
    return Described(tuple(t.shape[i] for i in order), t.dtype, "NCHW", value)


def _proto(name: str, growing: Growing, inputs: list[Described | None], dtype: int) -> onnx.ModelProto:
    """Return the model, its output's shape inferred."""
    fed = [(growing.inputs[i], t) for i, t in enumerate(inputs) if t is not None]
    values = [helper.make_tensor(n, t.dtype, t.shape, t.value) for n, t in fed if t.value is not None]
    ports = [helper.make_tensor_value_info(n, t.dtype, t.shape) for n, t in fed if t.value is None]
    out = helper.make_empty_tensor_value_info("y")
    out.type.tensor_type.elem_type = dtype
    graph = helper.make_graph(growing.nodes, name, ports, [out], [*values, *growing.constants])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    proto = infer_shapes(proto, check_type=True, strict_mode=True, data_prop=True)
    onnx.checker.check_model(proto)
    return proto
