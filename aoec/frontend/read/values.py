"""What is known of the values of an ONNX graph: their types, the shapes that are fixed, and the constants that only the host can hold."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

import numpy as np
import onnx
from onnx import TensorProto, helper

from aoec.base.errors import UnsupportedError
from aoec.ir.graph.graph import OPAQUE, Tensor
from aoec.ops import typed

# element types of ONNX in our words; reals are fp32 until the precision is chosen
DTYPES: dict[int, str] = {
    TensorProto.FLOAT: "fp32", TensorProto.FLOAT16: "fp32", TensorProto.BFLOAT16: "fp32",
    TensorProto.INT8: "int8", TensorProto.UINT8: "uint8", TensorProto.INT16: "int16", TensorProto.UINT16: "uint16",
    TensorProto.INT32: "int32", TensorProto.UINT32: "uint32", TensorProto.INT64: "int64", TensorProto.UINT64: "uint64",
    TensorProto.BOOL: "bool"}
REALS = {TensorProto.FLOAT: "fp32", TensorProto.FLOAT16: "fp16", TensorProto.BFLOAT16: "bf16"}  # the dtype that a model means
SMALL = {getattr(TensorProto, element.upper()): dtype for element, dtype in typed.STORED.items()}  # elements that are bytes of a graph
MOST_ELEMENTS = 1 << 40  # far beyond any memory
STATED = (TensorProto.FLOAT16, TensorProto.BFLOAT16, *SMALL)  # elements whose ONNX type our dtype does not say


def shape_of(t: onnx.TypeProto) -> tuple[int, ...] | None:
    """Return the shape of a type, where it is a tensor with every dimension known."""
    if not t.HasField("tensor_type") or not t.tensor_type.HasField("shape"):
        return None
    dims = t.tensor_type.shape.dim
    return tuple(d.dim_value for d in dims) if all(d.HasField("dim_value") for d in dims) else None


def tensor(name: str, t: onnx.TypeProto | None) -> Tensor:
    """Return the graph tensor for a value: one of our dtypes where its type is a tensor of them and of a fixed shape, else opaque."""
    elem, shape = (t.tensor_type.elem_type, shape_of(t)) if t is not None else (TensorProto.UNDEFINED, None)
    if shape is not None and prod(shape) > MOST_ELEMENTS:
        raise UnsupportedError(f"tensor {name} of shape {list(shape)} has more elements than the {MOST_ELEMENTS:,} that are taken")
    if shape is not None and (dtype := dtype_of(elem)):
        return Tensor(name, dtype, shape, declared=f"tensor({element(elem)})" if elem in STATED else "")
    return Tensor(name, OPAQUE, (), declared=spell_type(t) if t is not None else "")


def dtype_of(elem: int) -> str:
    """Return the dtype that holds an element type in a graph. Return "" where none does."""
    return DTYPES.get(elem) or SMALL.get(elem, "")


def stated_element(t: onnx.TypeProto | None) -> str:
    """Return the element type where our dtype does not say it: of reals other than float, and of few bits; else ""."""
    return element(t.tensor_type.elem_type) if t is not None and t.tensor_type.elem_type in STATED else ""


def spell_type(t: onnx.TypeProto) -> str:
    """Write a type as onnxruntime does, with the dimensions behind a tensor that states them: "seq(tensor(int64)[2,?])"."""
    kind = t.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        of = getattr(t, kind)
        dims = ",".join(str(d.dim_value) if d.HasField("dim_value") else _dimension_name(d.dim_param) for d in of.shape.dim)
        return f"{kind.removesuffix('_type')}({element(of.elem_type)})" + (f"[{dims}]" if of.HasField("shape") else "")
    if kind == "map_type":
        return f"map({element(t.map_type.key_type)},{spell_type(t.map_type.value_type)})"
    return {"sequence_type": "seq", "optional_type": "optional"}[kind] + f"({spell_type(getattr(t, kind).elem_type)})" if kind else ""


def _dimension_name(dim: str) -> str:
    """Return a dimension's name, "?" where it has none but what inference calls it."""
    return "?" if not dim or dim.startswith("unk__") else dim


def element(elem: int) -> str:
    """Return an element type as ONNX's type strings name it."""
    return "undefined" if elem == TensorProto.UNDEFINED else TensorProto.DataType.Name(elem).lower()


def type_of(array: np.ndarray) -> onnx.TypeProto:
    """Return the type of a constant."""
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def as_declared(array: np.ndarray, t: onnx.TypeProto | None) -> np.ndarray:
    """Return the array in the element type that a type states, as it is where it states none."""
    if t is None or not t.tensor_type.elem_type or t.tensor_type.elem_type == TensorProto.STRING:
        return array
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(helper.tensor_dtype_to_np_dtype(t.tensor_type.elem_type), copy=False)


# ---------------------------------------------------------------- nodes with subgraphs

def subgraphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """Return the graphs among a node's attributes."""
    return [g for a in node.attribute for g in (*([a.g] if a.HasField("g") else []), *a.graphs)]


def captured_names(node: onnx.NodeProto) -> list[str]:
    """Return the names that a node's subgraphs read from around them, in order."""
    return list(dict.fromkeys(name for g in subgraphs(node) for name in _free(g)))


def _free(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield the names that a graph reads and nothing in it makes before."""
    made = {i.name for i in (*graph.input, *graph.initializer)} | {i.values.name for i in graph.sparse_initializer} | {""}
    for n in graph.node:
        yield from (i for i in (*n.input, *captured_names(n)) if i not in made)
        made.update(n.output)
    yield from (o.name for o in graph.output if o.name not in made)


class Fixed(Mapping[str, tuple[int, ...]]):
    """The shapes of those values that have a fixed one, as far as their types are known at the time of asking."""

    def __init__(self, types: Mapping[str, onnx.TypeProto]) -> None:
        self._types = types

    def __getitem__(self, name: str) -> tuple[int, ...]:
        shape = shape_of(self._types[name])
        if shape is None:
            raise KeyError(name)
        return shape

    def __iter__(self) -> Iterator[str]:
        return (name for name, t in self._types.items() if shape_of(t) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)
