"""One random operator as a model with its feeds, and the values that are drawn for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOATS = (np.float32, np.float16)
WHOLE = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)
Random = np.random.Generator
Array = np.ndarray


@dataclass(frozen=True)
class Case:
    """`model` has one node; `feeds` are its inputs by name. `sums`: results are sums, whose errors are relative to the largest result.
    `special`: the feeds hold NaN, infinities and ends of ranges."""

    op: str
    model: onnx.ModelProto
    feeds: Mapping[str, Array]
    sums: bool = False
    special: bool = False

    @property
    def said(self) -> str:
        """Return the node, its opset and its inputs in one line."""
        (node,) = self.model.graph.node
        given = ", ".join(f"{a.name}={helper.get_attribute_value(a)}" for a in node.attribute)
        inputs = " ".join(f"{x.dtype}{list(x.shape)}" for x in self.feeds.values())
        fixed = " ".join(
            f"{numpy_helper.to_array(w).dtype}{list(w.dims)}={numpy_helper.to_array(w).ravel()[:8].tolist()}"
            for w in self.model.graph.initializer
        )
        return f"{self.op}-{self.model.opset_import[0].version}({given}) of {inputs}" + (f" and {fixed}" if fixed else "")


@dataclass
class Maker:
    """Draws one case; the families' functions take it."""

    random: Random
    special: bool = field(init=False)

    def __post_init__(self) -> None:
        self.special = bool(self.random.integers(0, 2))

    # ------------------------------------------------------------ draws

    def one(self, choices: Sequence[Any]) -> Any:
        return choices[int(self.random.integers(0, len(choices)))]

    def number(self, low: int, high: int) -> int:
        """Return a whole number from low to high, both included."""
        return int(self.random.integers(low, high + 1))

    def yes(self, share: float = 0.5) -> bool:
        return bool(self.random.random() < share)

    def real(self, low: float, high: float) -> float:
        """Return a real that fp32 holds."""
        return float(np.float32(self.random.uniform(low, high)))

    def shape(self, low: int = 0, high: int = 4, most: int = 9) -> tuple[int, ...]:
        """Return a shape of `low` to `high` dimensions; one in eight dimensions is longer, one in sixteen is 1."""
        return tuple(
            1 if (at := self.number(0, 15)) == 0 else self.number(1, 70) if at < 3 else self.number(1, most)
            for _ in range(self.number(low, high))
        )[:high]

    def broadcast(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return a shape that spreads over the given one."""
        kept = shape[self.number(0, len(shape)) :] if self.yes(0.3) else shape
        return tuple(1 if self.yes(0.2) else n for n in kept)

    def axis(self, rank: int) -> int:
        """Return an axis, counted from either end."""
        return self.number(-rank, rank - 1)

    # ------------------------------------------------------------ values

    def reals(self, shape: Sequence[int], dtype: Any = np.float32, spread: float = 2.0) -> Array:
        """Return normal values. With `special` a third of them are special ones."""
        x = (self.random.standard_normal(tuple(shape)) * spread).astype(dtype)
        if not self.special:
            return x
        with np.errstate(over="ignore"):
            places = self.random.random(x.shape) < 1 / 3
            return np.where(places, self.random.choice(specials(dtype), x.shape), x).astype(dtype)

    def whole(self, shape: Sequence[int], dtype: Any, low: int | None = None, high: int | None = None) -> Array:
        """Return small whole numbers, from low to high where these are given; with `special` a third are ends of the range."""
        limits = np.iinfo(dtype)
        least = max(limits.min, -9) if low is None else low
        x = self.random.integers(least, 9 if high is None else high, tuple(shape), dtype, endpoint=True)
        if not self.special or low is not None or high is not None:
            return x
        ends = np.array([limits.min, limits.min + 1, 0, 1, limits.max - 1, limits.max], dtype)
        return np.where(self.random.random(x.shape) < 1 / 3, self.random.choice(ends, x.shape), x)

    def any(self, shape: Sequence[int], dtype: Any) -> Array:
        """Return values of any dtype."""
        kind = np.dtype(dtype).kind
        return (
            self.random.integers(0, 2, tuple(shape)).astype(bool)
            if kind == "b"
            else self.reals(shape, dtype)
            if kind == "f"
            else self.whole(shape, dtype)
        )

    # ------------------------------------------------------------ the model

    def case(
        self,
        op: str,
        inputs: Sequence[Array | None],
        results: Sequence[Any],
        opset: int,
        fixed: Sequence[int] = (),
        sums: bool = False,
        **attributes: Any,
    ) -> Case:
        """Return a case of an operator on arrays, of which those in `fixed` are constants of the model. `results`: the dtype of each."""
        names = [f"x{at}" if x is not None else "" for at, x in enumerate(inputs)]
        outputs = [f"y{at}" if dtype is not None else "" for at, dtype in enumerate(results)]
        node = helper.make_node(op, names, outputs, **{k: v for k, v in attributes.items() if v is not None})
        given = {n: np.asarray(x) for n, x in zip(names, inputs) if x is not None}
        constants = [names[at] for at in fixed if inputs[at] is not None]
        graph = helper.make_graph(
            [node],
            "one",
            [helper.make_tensor_value_info(n, element(x.dtype), x.shape) for n, x in given.items() if n not in constants],
            [helper.make_tensor_value_info(o, element(dtype), None) for o, dtype in zip(outputs, results) if o],
            [numpy_helper.from_array(given[n], n) for n in constants],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8 if opset < 21 else 10)
        return Case(op, model, {n: x for n, x in given.items() if n not in constants}, sums, self.special)


def element(dtype: Any) -> int:
    """Return ONNX's number of a NumPy dtype."""
    return TensorProto.BOOL if np.dtype(dtype) == np.bool_ else helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def specials(dtype: Any) -> Array:
    """Return zeros, ones, NaN, infinities, ends of the range, subnormals and large values of a dtype of reals, of either sign."""
    f = np.finfo(dtype)
    some = [
        0.0,
        0.5,
        1.0,
        2.0,
        np.inf,
        float(f.max),
        float(f.tiny),
        float(f.smallest_subnormal),
        float(f.tiny) / 4,
        10.0,
        100.0,
        1e4,
        1.5,
        2.5,
        *([1e8, 1e20, 88.0, 1e-20] if dtype == np.float32 else []),
    ]
    return np.array([*some, *(-v for v in some), np.nan], dtype)
