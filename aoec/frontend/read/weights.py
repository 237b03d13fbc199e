"""Keeps the data of a model's large real constants out of the message that onnx checks, converts and infers. onnx copies the message each
time, and no shape depends on these data.

Constants in files of their own are mapped, not read: the system can take back their memory. The model says where they are. This is accepted
only within the model's folder and within the file.
"""
from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, checker, helper, numpy_helper
from onnx.external_data_helper import uses_external_data

from aoec.base.errors import BackendError, ParseError
from aoec.base.files.files import reason

REALS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)
LARGE_BYTES = 4096  # far above the few reals that a shape can follow from, such as the scales of a Resize
MOST_SHOWN = 100  # characters of a name or a reason
Arrays = dict[str, np.ndarray]


def take(proto: onnx.ModelProto, source: Path | None = None) -> tuple[onnx.ModelProto, Arrays]:
    """Return (the model without the data of its large real initialisers, these data by name).

    The model that is given must not be used again; `source` is its file. All other data from files beside it are in the model afterwards. A
    constant whose data do not have the declared size is left unchanged, for the checker to refuse. Raise ParseError for data that are not
    where the model says, or that may not be read.
    """
    arrays: Arrays = {}
    files: dict[Path, np.ndarray] = {}
    for w, size_bytes in _large(proto.graph):
        if uses_external_data(w):
            if source is not None:
                arrays[w.name] = _as_array(_map_constant(w, size_bytes, source, files), w)
                w.data_location = TensorProto.DEFAULT
                del w.external_data[:]
                w.raw_data = b""
        elif len(w.raw_data) == size_bytes:
            arrays[w.name] = _as_array(np.frombuffer(w.raw_data, np.uint8), w)
            w.raw_data = b""
    if source is not None:
        onnx.load_external_data_for_model(proto, str(source.parent))
    return (_copy_message(proto) if arrays else proto), arrays


def array_of(w: TensorProto, name: str = "", source: str = "") -> np.ndarray:
    """Return the array of a constant. Raise ParseError where its data are not of the size, or not of the kind, that it declares."""
    try:
        return numpy_helper.to_array(w)
    except (ValueError, TypeError, KeyError) as e:
        raise ParseError(f"the ONNX graph is invalid: constant {(name or w.name)[:MOST_SHOWN]} is declared with the shape "
                         f"{list(w.dims)[:16]}, and its data are not of that size: {str(e)[:MOST_SHOWN]}", source=source) from e


def check(proto: onnx.ModelProto, arrays: Mapping[str, np.ndarray]) -> None:
    """Run onnx's checker on the model, and raise what it raises. Constants whose data were taken have no elements meanwhile, which the
    checker accepts."""
    taken = [(w, tuple(w.dims)) for w in proto.graph.initializer if w.name in arrays]
    for w, _ in taken:
        w.dims[:] = (0,)
    checker.check_model(proto)
    for w, dims in taken:
        w.dims[:] = dims


def _large(graph: onnx.GraphProto) -> Iterator[tuple[TensorProto, int]]:
    """Yield (initialiser, its size in bytes) of those to be taken."""
    named = Counter(w.name for w in graph.initializer)
    for w in graph.initializer:
        if w.data_type in REALS and named[w.name] == 1 and all(d >= 0 for d in w.dims):
            size_bytes = prod(w.dims) * helper.tensor_dtype_to_np_dtype(w.data_type).itemsize
            if size_bytes >= LARGE_BYTES:
                yield w, size_bytes


def _as_array(data: np.ndarray, w: TensorProto) -> np.ndarray:
    """Return bytes as the array that a constant declares."""
    array = data.view(helper.tensor_dtype_to_np_dtype(w.data_type)).reshape(tuple(w.dims))
    return array if array.flags.aligned else array.copy()


def _copy_message(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return an equal message, made anew. The old one does not give back the memory of what was taken out of it."""
    out = onnx.ModelProto()
    out.ParseFromString(proto.SerializeToString())
    return out


# ---------------------------------------------------------------- in other files

def _map_constant(w: TensorProto, size_bytes: int, source: Path, files: dict[Path, np.ndarray]) -> np.ndarray:
    """Map the bytes of a constant in another file. Raise ParseError where that is not in the model's folder or does not hold them."""
    said = {e.key: e.value for e in w.external_data}
    path = _inside(source, said.get("location", ""), w.name)
    offset = _number(said.get("offset", "0"), "offset", w.name, source)
    length = _number(said.get("length", str(size_bytes)), "length", w.name, source)
    if path not in files:
        files[path] = _map_file(path, w.name, source)
    have = files[path].size
    if length != size_bytes or offset + length > have:
        raise ParseError(f"the ONNX graph is invalid: constant {w.name} takes {size_bytes:,} bytes, and its data are said to be {length:,} "
                         f"bytes from {offset:,} on of {path.name}, which has {have:,}", source=str(source))
    return files[path][offset:offset + length]


def _inside(source: Path, location: str, name: str) -> Path:
    """Return the file that a location means, relative to the model's folder and in it."""
    folder = os.path.realpath(source.parent)
    path = os.path.realpath(os.path.join(folder, location)) if "\0" not in location else ""
    if not location or os.path.isabs(location) or ".." in Path(location).parts or not path.startswith(os.path.join(folder, "")):
        raise ParseError(f"the ONNX graph is invalid: the data of constant {name} are said to be in {location[:200]!r}, and only files in "
                         "the model's own folder are read", source=str(source))
    return Path(path)


def _map_file(path: Path, name: str, source: Path) -> np.ndarray:
    """Map a file's bytes."""
    if not path.is_file():
        raise ParseError(f"the data of constant {name} are in {path.name}, and there is no such file beside the model", source=str(source))
    try:
        return np.memmap(path, np.uint8, "r") if path.stat().st_size else np.zeros(0, np.uint8)
    except OSError as e:
        raise BackendError(f"cannot read {path}: {reason(e)}") from e


def _number(text: str, key: str, name: str, source: Path) -> int:
    """Return a place or size in a file."""
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise ParseError(f"the ONNX graph is invalid: {key} of the data of constant {name} cannot be {text[:40]!r}", source=str(source))
    return int(text)
