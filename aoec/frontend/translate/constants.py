"""The constants of an ONNX model while it is translated, and nodes that are computed at once: of constants, or about shapes."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np
import onnx

from aoec.base.errors import UnsupportedError
from aoec.frontend.read.values import DTYPES, as_declared, dtype_of, shape_of, stated_element, subgraphs, tensor, type_of
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode, Tensor
from aoec.ops import typed
from aoec.ops.host import host

FOLD_LIMIT_BYTES = 2 << 30  # a constant that a model computes may not be larger
HELD_LIMIT_BYTES = 16 << 20  # one that only the host can hold stands in the graph's text, which is bounded itself
# operators whose result can be far larger than their inputs -> its number of elements, for when its shape was not inferred
GROWING: dict[str, Callable[..., int]] = {
    "ConstantOfShape": lambda shape: prod(map(int, shape)), "Expand": lambda x, shape: x.size * prod(map(int, shape)),
    "Tile": lambda x, times: x.size * prod(map(int, times)), "Range": lambda *given: _steps(*(x.reshape(-1)[0] for x in given)),
    "OneHot": lambda at, depth, values: at.size * abs(int(depth.reshape(()))),
    "Pad": lambda x, pads, *more: x.size + (1 + int(abs(pads).sum())) ** x.ndim,
    "Resize": lambda x, *more: 1 << 62}


def _steps(start: Any, end: Any, step: Any) -> int:
    """Return how many numbers a range has, or one less."""
    return int(abs((end - start) / (step or 1)))


KEPT = {"DequantizeLinear": ("int8", "uint8", "int32")}  # a pass asks for the whole numbers that they are made of, and folds the rest
NOT_CONSTANT = ("Random", "Bernoulli", "Multinomial")  # no inputs, or equal ones, and yet other results each time


class Constants:
    """Constants of our dtypes are the draft's; those of others are `held` here, and become nodes of the host where one is read."""

    def __init__(self, title: str, draft: Draft, types: dict[str, onnx.TypeProto], opsets: Mapping[str, int]) -> None:
        self.title, self.draft, self.types, self.opsets = title, draft, types, opsets
        self.held: dict[str, np.ndarray] = {}

    def __contains__(self, name: str) -> bool:
        return name in self.draft.weights or name in self.held

    def array(self, name: str) -> np.ndarray:
        """Return a constant in the element type that the model declares."""
        if name in self.held:
            return self.held[name]
        weights, small = self.draft.weights[name], stated_element(self.types.get(name))
        return typed.from_bytes(weights, small) if small in typed.STORED else as_declared(weights, self.types.get(name))

    def size(self, name: str) -> int:
        """Return the number of a constant's elements."""
        return int((self.held[name] if name in self.held else self.draft.weights[name]).size)

    def put(self, name: str, array: np.ndarray) -> None:
        """Enter the constant, in the element type that the model states for it."""
        array = as_declared(np.asarray(array), self.types.get(name))
        self.types[name] = type_of(array)
        dtype, small = dtype_of(self.types[name].tensor_type.elem_type), stated_element(self.types[name])
        if not dtype:
            self.held[name] = array
            return
        array = typed.as_bytes(array, small) if small in typed.STORED else array
        self.draft.put(Tensor(name, dtype, array.shape))
        self.draft.weights[name] = np.asarray(array, np.float32 if dtype == "fp32" else array.dtype, order="C")

    def make(self, name: str) -> None:
        """Add a node of the host that makes a held constant. Raise UnsupportedError where it has more than `HELD_LIMIT_BYTES`."""
        array = self.held.pop(name)
        if array.nbytes > HELD_LIMIT_BYTES:
            raise UnsupportedError(f"{self.title}: constant {name} is of type {array.dtype}, which only the host holds, and has "
                                   f"{array.nbytes:,} bytes; at most {HELD_LIMIT_BYTES:,} of such a constant are kept")
        self.draft.put(tensor(name, self.types[name]))
        label = self.draft.fresh(f"constant_{name}", "node")
        self.draft.nodes.append(OpNode(label, host.PREFIX + "Constant", (), (name,), tuple(host.constant(array).items())))

    # ------------------------------------------------------------ computed at once

    def fold(self, proto: onnx.NodeProto) -> bool:
        """Return True where the node's results are known now: its inputs are constants, or it asks for a shape."""
        if proto.op_type == "Shape" and proto.input[0] not in self:
            return self._fold_shape(proto)
        if self.fold_empty(proto):
            return True
        known = all(i in self for i in proto.input if i)
        if known and proto.op_type in KEPT and proto.input[0] in self.draft.weights and \
                self.draft.tensors[proto.input[0]].dtype in KEPT[proto.op_type]:
            return False
        if not known or proto.op_type.startswith(NOT_CONSTANT) or subgraphs(proto):
            return False
        self._bound(proto)
        try:
            results = host.evaluator(proto, self.opsets).run(None, {i: self.array(i) for i in proto.input if i})
        except MemoryError:
            raise
        except Exception:  # onnx.reference raises whatever its Python bodies raise; our own words may know the operator
            return False
        if any(isinstance(r, (list, tuple)) or r is None for r in results):
            return False
        for name, value in zip([o for o in proto.output if o], results):
            self.put(name, np.asarray(value))
        return True

    def _fold_shape(self, proto: onnx.NodeProto) -> bool:
        shape = shape_of(self.types[proto.input[0]]) if proto.input[0] in self.types else None
        if shape is None:
            return False
        bounds = {a.name: a.i for a in proto.attribute}
        self.put(proto.output[0], np.array(shape[slice(bounds.get("start", 0), bounds.get("end"))], np.int64))
        return True

    def fold_empty(self, proto: onnx.NodeProto) -> bool:
        """Make results without any element constants, and return True where all results are."""
        types = {o: self.types[o] for o in proto.output if o in self.types}
        shapes = {o: s for o, t in types.items() if (s := shape_of(t)) is not None and 0 in s and t.tensor_type.elem_type in DTYPES}
        if not shapes or len(shapes) < len([o for o in proto.output if o]):
            return False
        for name, shape in shapes.items():
            self.put(name, np.zeros(shape, onnx.helper.tensor_dtype_to_np_dtype(types[name].tensor_type.elem_type)))
        return True

    def _bound(self, proto: onnx.NodeProto) -> None:
        """Raise UnsupportedError where a computed constant would be larger than the limit."""
        shapes = [shape_of(self.types[o]) for o in proto.output if o in self.types]
        known = [prod(s) for s in shapes if s is not None]
        if not known and proto.op_type in GROWING:
            known = [GROWING[proto.op_type](*(self.array(i) for i in proto.input if i))]
        size_bytes = 8 * sum(known)
        if size_bytes > FOLD_LIMIT_BYTES:
            raise UnsupportedError(f"{self.title}: the constant {proto.output[0]} ({proto.op_type}) would take up to {size_bytes:,} bytes; "
                                   f"at most {FOLD_LIMIT_BYTES:,} are computed at import")
