"""An ONNX node while it is translated: its attributes, arguments and shapes, and how nodes of the draft are added for it."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from math import isnan, prod

import numpy as np
import onnx

from aoec import ops
from aoec.base.errors import CheckError, UnsupportedError
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Attribute, Tensor
from aoec.ops.run import NUMPY

NONE: Mapping[str, Attribute] = {}


def title_of(proto: onnx.NodeProto) -> str:
    """Return how a sentence calls a node: by its name and operator, or by its operator and first result."""
    return f"{proto.name} ({proto.op_type})" if proto.name else f"{proto.op_type} -> {', '.join(proto.output[:1])}"


@dataclass(frozen=True)
class Node:
    """`proto` in `draft`; the shapes of its results are those that ONNX inferred."""

    proto: onnx.NodeProto
    draft: Draft
    opset: int
    shapes: Mapping[str, tuple[int, ...]]
    dtypes: Mapping[str, str]  # of its results
    wanted: AbstractSet[str]  # tensors that a node reads or that are results of the graph
    few: Mapping[str, str] = field(default_factory=dict)  # arguments and results of few bits -> the element type, one of `typed.STORED`

    # ------------------------------------------------------------ attributes

    def _attribute(self, name: str) -> object:
        return next((onnx.helper.get_attribute_value(a) for a in self.proto.attribute if a.name == name), None)

    def integer(self, name: str, default: int) -> int:
        value = self._attribute(name)
        return default if value is None else int(value)  # type: ignore[call-overload, no-any-return]

    def number(self, name: str, default: float) -> float:
        value = self._attribute(name)
        number = float(default if value is None else value)  # type: ignore[arg-type]
        if isnan(number):
            raise UnsupportedError(f"node {self.title()}: {name} is nan, and a number is wanted there")
        return number

    def text(self, name: str, default: str) -> str:
        value = self._attribute(name)
        return value.decode(errors="replace") if isinstance(value, bytes) else default

    def integers(self, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
        value = self._attribute(name)
        return tuple(default) if value is None else tuple(int(v) for v in value)  # type: ignore[attr-defined]

    def texts(self, name: str, default: tuple[str, ...]) -> tuple[str, ...]:
        value = self._attribute(name)
        return tuple(default) if value is None else tuple(v.decode(errors="replace") for v in value)  # type: ignore[attr-defined]

    def numbers(self, name: str, default: tuple[float, ...]) -> tuple[float, ...]:
        value = self._attribute(name)
        return tuple(default) if value is None else tuple(float(v) for v in value)  # type: ignore[attr-defined]

    # ------------------------------------------------------------ arguments

    def has(self, at: int) -> bool:
        return at < len(self.proto.input) and bool(self.proto.input[at])

    def input(self, at: int) -> str:
        return self.proto.input[at]

    def inputs(self) -> list[str]:
        return [i for i in self.proto.input if i]

    def is_constant(self, at: int) -> bool:
        return self.has(at) and self.draft.is_constant(self.proto.input[at])

    def shape_of(self, at: int) -> tuple[int, ...]:
        return self.draft.tensors[self.proto.input[at]].shape

    def made_shape(self, tensor: str) -> tuple[int, ...]:
        """Return the shape of a tensor of the draft, such as a step made."""
        return self.draft.tensors[tensor].shape

    def made_dtype(self, tensor: str) -> str:
        """Return the dtype of a tensor of the draft, such as a step made."""
        return self.draft.tensors[tensor].dtype

    def dtype_of(self, at: int) -> str:
        return self.draft.tensors[self.proto.input[at]].dtype

    def dtype(self) -> str:
        """Return the dtype of the (first) result, reals as fp32."""
        return self.dtypes[self.proto.output[0]]

    def element_of(self, at: int) -> str:
        """Return the element type of an argument of few bits, else ""."""
        return self.few.get(self.proto.input[at], "")

    def element(self) -> str:
        """Return the element type of the (first) result where it has few bits, else ""."""
        return self.few.get(self.proto.output[0], "")

    def results(self) -> int:
        """Return how many results the node has."""
        return len(self.proto.output)

    def has_result(self, at: int) -> bool:
        """Return True where a result has a name (which does not say that it is read)."""
        return at < len(self.proto.output) and bool(self.proto.output[at])

    def shape(self, at: int = 0) -> tuple[int, ...]:
        """Return the shape of a result, the first where none is named."""
        name = self.proto.output[at]
        if name not in self.shapes:
            raise self.unknown_shape(name)
        return self.shapes[name]

    def unknown_shape(self, name: str) -> UnsupportedError:
        return UnsupportedError(f"node {self.title()}: the shape of its result {name} depends on data, and must be known at import")

    def scalar(self, at: int, default: float | None) -> float | None:
        """Return the number that an argument holds: `default` where it is absent, None where it is no single constant."""
        if not self.has(at):
            return default
        value = self.draft.weights.get(self.proto.input[at])
        return float(value.reshape(())) if value is not None and value.size == 1 else None

    def constant_integers(self, at: int) -> tuple[int, ...]:
        """Return the whole numbers of a constant argument; none where it is absent or no constant."""
        value = self.draft.weights.get(self.proto.input[at]) if self.has(at) else None
        return () if value is None else tuple(int(v) for v in value.ravel())

    def has_second_result(self) -> bool:
        """Return True where a result beside the first is read by somebody (a mask, indices, running statistics)."""
        return any(o in self.wanted for o in self.proto.output[1:])

    def title(self) -> str:
        return title_of(self.proto)

    # ------------------------------------------------------------ results

    def constant(self, label: str, array: np.ndarray, dtype: str = "fp32") -> str:
        return self.draft.constant(f"{self.proto.output[0]}_{label}", array.astype(NUMPY[dtype]), dtype)

    def emit_constant(self, array: np.ndarray, at: int = 0) -> bool:
        """Make result `at` a constant. Return True."""
        name = self.proto.output[at]
        dtype = self.dtypes[name]
        self.draft.put(Tensor(name, dtype, array.shape))
        self.draft.weights[name] = np.asarray(array.astype(NUMPY[dtype]), order="C")
        return True

    def zeros(self, label: str, shape: Sequence[int], dtype: str = "fp32") -> str:
        return self.constant(label, np.zeros(shape), dtype)

    def piece(self, x: str, axis: int, start: int, size: int) -> str:
        """Return `size` elements of a tensor along an axis, from `start` on. Return the tensor itself where these are all elements."""
        shape = self.made_shape(x)
        starts = tuple(start if at == axis else 0 for at in range(len(shape)))
        sizes = (*shape[:axis], size, *shape[axis + 1:])
        return x if sizes == shape else self.step("slice", [x], {"starts": starts, "sizes": sizes, "steps": (1,) * len(shape)})

    def pad(self, x: str, axis: int, before: int, after: int) -> str:
        """Pad a tensor with so many zeros at each end of an axis; the tensor itself where there are none."""
        if before == after == 0:
            return x
        ends = {name: tuple(count if at == axis else 0 for at in range(len(self.made_shape(x))))
                for name, count in (("before", before), ("after", after))}
        return self.step("pad", [x], {**ends, "value": 0.0})

    def step(self, op: str, inputs: Sequence[str], attributes: Mapping[str, Attribute] = NONE, dtype: str = "") -> str:
        """Return the tensor that a new node makes on the way to the result, of the first argument's dtype where none is stated."""
        shape = self._shape(op, inputs, attributes)
        out = self.draft.tensor(f"{self.proto.output[0]}_{op}", dtype or self.draft.tensors[inputs[0]].dtype, shape)
        self.draft.nodes.append(self.draft.node(op, inputs, out, attributes, f"{self.proto.name}_{op}" if self.proto.name else ""))
        return out

    def wide(self, name: str) -> str:
        """Return the tensor, which stays in fp32 whatever the precision of others is."""
        self.draft.wide.add(name)
        return name

    def tensor_of(self, name: str, dtype: str, shape: Sequence[int]) -> Tensor:
        """Return a tensor of the draft under a name of the model. Raise UnsupportedError where it has another shape than ONNX infers."""
        if self.shapes.get(name, shape) != shape:
            raise UnsupportedError(f"node {self.title()}: ONNX infers the shape {list(self.shapes[name])}, and {name} is {list(shape)}")
        return Tensor(name, dtype, tuple(shape))

    def _shape(self, op: str, inputs: Sequence[str], attributes: Mapping[str, Attribute]) -> tuple[int, ...]:
        """Return what an operator makes of tensors of the draft. Raise CheckError for a view of another number of elements."""
        shape = ops.shape(op, [self.draft.tensors[i].shape for i in inputs], attributes)
        if op == "reshape" and prod(shape) != prod(self.made_shape(inputs[0])):
            raise CheckError(f"{prod(self.made_shape(inputs[0])):,} elements do not make the shape {list(shape)}")
        return shape

    def emit(self, op: str, inputs: Sequence[str], attributes: Mapping[str, Attribute] = NONE, at: int = 0) -> bool:
        """Add the node that makes result `at`, and return True. Raise UnsupportedError where its shape is not the one that ONNX infers."""
        shape, result = self._shape(op, inputs, attributes), self.proto.output[at]
        if self.shapes.get(result, shape) != shape:
            raise UnsupportedError(f"node {self.title()}: ONNX infers the shape {list(self.shape(at))}, and {op} gives {list(shape)}")
        self.draft.put(Tensor(result, self.dtypes[result], shape))
        self.draft.nodes.append(self.draft.node(op, inputs, result, attributes, self.proto.name))
        return True
