"""ONNX's types of values as texts, such as "tensor(double)[2,?]" or "seq(tensor(string))": what users give and get, and what only the
host holds. Dimensions stand behind a tensor where they are known, `?` or a name for one that is not."""
from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np

from aoec.base.errors import CheckError

NUMPY: dict[str, Any] = {
    "float": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "double": np.float64, "bool": np.bool_,
    "string": np.object_, "complex64": np.complex64, "complex128": np.complex128,
    **{name: np.dtype(name).type for bits in (8, 16, 32, 64) for name in (f"int{bits}", f"uint{bits}")},
    "int4": ml_dtypes.int4, "uint4": ml_dtypes.uint4, "int2": ml_dtypes.int2, "uint2": ml_dtypes.uint2,
    "float4e2m1": ml_dtypes.float4_e2m1fn, "float8e4m3fn": ml_dtypes.float8_e4m3fn, "float8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "float8e5m2": ml_dtypes.float8_e5m2, "float8e5m2fnuz": ml_dtypes.float8_e5m2fnuz, "float8e8m0": ml_dtypes.float8_e8m0fnu}
ELEMENTS = {"fp32": "float", "fp16": "float16", "bf16": "bfloat16"}  # dtypes of ours that ONNX names in another way
FLOATS = ("float", "float16", "bfloat16", "double")
# elements of fewer bits than ours, each in a byte of a graph: reals as their codes, whole numbers as themselves -> the dtype of that byte
STORED = {**dict.fromkeys(("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float8e8m0", "float4e2m1"), "uint8"),
          "int4": "int8", "uint4": "uint8", "int2": "int8", "uint2": "uint8"}
CODED = tuple(e for e in STORED if e.startswith("float"))
_TENSOR = re.compile(r"tensor\((\w+)\)(?:\[([^\]]*)\])?")


def tensor(text: str) -> tuple[str, tuple[Any, ...] | None] | None:
    """Return (element type, dimensions) of a tensor's type; a dimension is a number or a name, and they are None where not even the rank is
    known. Return None for other types."""
    found = _TENSOR.fullmatch(text)
    if not found:
        return None
    if found[2] is None:
        return found[1], None
    return found[1], tuple(int(d) if d.isdecimal() else d for d in found[2].split(",") if d)


def as_bytes(array: np.ndarray, element: str) -> np.ndarray:
    """Return an array of small elements as a graph holds it, of bytes."""
    return array.view(np.uint8) if element in CODED else array.astype(STORED[element])


def from_bytes(array: np.ndarray, element: str) -> np.ndarray:
    """Return what `stored` made bytes of."""
    return array.view(NUMPY[element]) if element in CODED else array.astype(NUMPY[element])


def in_bytes(array: np.ndarray) -> np.ndarray:
    """Return an array as files hold it: what NumPy's own formats do not know, elements of few bits, as `stored`."""
    element = next((e for e in STORED if array.dtype == NUMPY[e]), "")
    return as_bytes(array, element) if element else array


def small(text: str) -> str:
    """Return the element type of a tensor's type where it is one of `STORED`, else ""."""
    at = tensor(text)
    return at[0] if at is not None and at[0] in STORED else ""


def read_value(name: str, value: Any, text: str) -> Any:
    """Return a value that a user gives for an input of that type, an array in the type's elements. Raise CheckError where it does not fit.
    Elements of few bits may be given as bytes: codes, or the whole numbers themselves."""
    at = tensor(text)
    if at is None:
        if text.startswith("seq(") and not isinstance(value, (list, tuple)):
            raise CheckError(f"input {name} is {text}, and no list is given")
        return list(value) if isinstance(value, tuple) else value
    element, dims = at
    array = np.asarray(value)
    if dims is not None and (len(dims) != array.ndim or any(isinstance(d, int) and d != n for d, n in zip(dims, array.shape))):
        raise CheckError(f"input {name} has shape [{', '.join(map(str, dims))}], and an array of shape {list(array.shape)} is given")
    if element in STORED and array.dtype == STORED[element]:
        return _of_bytes(name, array, element)
    wanted = np.dtype(NUMPY.get(element, np.object_))
    if not fits(array.dtype, wanted):
        raise CheckError(f"input {name} is {element}, and an array of {array.dtype} is given; cast it first")
    return array if wanted == np.object_ else array.astype(wanted, copy=False)


def _of_bytes(name: str, array: np.ndarray, element: str) -> np.ndarray:
    """Return an array of small elements of the bytes that stand for them, which files hold. Raise CheckError where there are no such
    elements."""
    bits = int(element.removeprefix("float")[0]) if element in CODED else int(element[-1])
    low, high = (-1 << bits - 1, (1 << bits - 1) - 1) if element.startswith("int") else (0, (1 << bits) - 1)
    if array.size and not low <= array.min() <= array.max() <= high:
        raise CheckError(f"input {name} is {element}, {low} to {high} as bytes, and values from {array.min()} to {array.max()} are given")
    return from_bytes(array, element)


def fits(given: np.dtype, wanted: np.dtype) -> bool:
    """Return True for the dtype itself, texts of any width for texts, and floats of another width, which are rounded."""
    floats = {np.dtype(NUMPY[e]) for e in FLOATS}
    return given == wanted or given in floats and wanted in floats or wanted == np.object_ and given.kind in "OUST"


def result(value: Any, text: str) -> Any:
    """Return a value that the host made, a tensor in the elements that its type says; of no rows, which a Loop of no rounds gives, with the
    dimensions that it says."""
    at = tensor(text)
    if at is not None and at[1] and isinstance(value, np.ndarray) and value.shape == (0,):
        value = value.reshape(0, *(d if isinstance(d, int) else 0 for d in at[1][1:]))
    if at is None or not isinstance(value, np.ndarray) or at[0] not in NUMPY or value.dtype == NUMPY[at[0]] or at[0] == "string":
        return value
    with np.errstate(all="ignore"):
        return value.astype(NUMPY[at[0]])
