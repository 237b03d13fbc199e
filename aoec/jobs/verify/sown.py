"""Data to verify a group on: small integers, or normal values with a few large ones and rows of special ones among them."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

import ml_dtypes
import numpy as np

from aoec.ir.graph.graph import Graph, OpNode, Tensor
from aoec.ir.index import DTYPES
from aoec.jobs.verify.halfway import QUANTISING
from aoec.ops import word
from aoec.ops.run import NUMPY, REALS
from aoec.ops.words.layout import PIXEL, to_logical, to_physical

Arrays = Mapping[str, np.ndarray]
Places = tuple[slice | np.ndarray, ...]

LARGE, LARGE_COUNT = 3e4, 4
MANY = 32  # rows among which special ones are sown; of fewer, there are data of their own
EQUAL = (1.5, 1.0, 1.25, 1.75, 1.125, 1.375, 1.625, 1.875)  # of these the first whose mean over a row is itself, by a reciprocal too
OVER_ROWS = ("softmax", "row_norm", "reduce")
ROWWISE = ("elementwise", "softmax", "row_norm", "reduce", "movement", "view")  # families in which a NaN stays in its row or is moved
# what is not to be trusted, or not defined, at the ends of the range: large angles, and remainders of quotients beyond 2^24
BOUNDED = ("sin", "cos", "tan", "mod", "fmod", "power")


def integers(inputs: list[Tensor], nodes: tuple[OpNode, ...], random: np.random.Generator) -> dict[str, np.ndarray]:
    """Return small integers for every input (logical arrays), in -1..1 for constants."""
    columns = bias_columns(nodes, {t.name: t for t in inputs})
    out = {}
    for t in inputs:
        limit = 1 if t.name in columns or t.layout == "ZN" else 2
        out[t.name] = random.integers(-limit, limit + 1, t.shape).astype(NUMPY[t.dtype])
    return out


def zeros(nodes: tuple[OpNode, ...], tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Places]]:
    """Yield (tensor, where the graph keeps zeros in it). A bias has zeros behind its channels. A packed weight has them behind the result's
    channels, and for channels that fill its image's blocks, where padding may hold something other than 0."""
    for name, channels in bias_columns(nodes, tensors).items():
        yield name, (slice(channels, None),)
    for n in nodes:
        if n.op == "conv2d_packed" and n.inputs[1] in tensors and len(tensors[n.inputs[1]].shape) == 2:
            yield n.inputs[1], _filling(n, tensors)
            if isinstance(count := n.attribute("channels"), int):
                behind = slice(count, None)
                yield n.inputs[1], (behind,) if n.attribute("trans_b") else (slice(None), behind)


def may_fill(t: Tensor) -> bool:
    """Return whether padding channels may hold anything: those of images of one byte."""
    return t.layout in PIXEL and DTYPES[t.dtype] == 1


def fill_padding(stored: np.ndarray, t: Tensor) -> np.ndarray:
    """Return a stored array, with ones in padding channels that may hold anything."""
    if not may_fill(t):
        return stored
    own = to_physical(np.ones(t.shape, stored.dtype), t)
    return np.where(own != 0, stored, np.ones_like(stored))


def read_axes(alone: Graph) -> dict[str, int]:
    """Return tensor that says where another is read -> the length of that one's axis."""
    shapes = {t.name: t.shape for t in alone.tensors}
    return {n.inputs[1]: shapes[n.inputs[0]][n.attribute("axis")] for n in alone.nodes  # type: ignore[index]
            if n.op in ("gather", "gather_elements")}


def _filling(node: OpNode, tensors: Mapping[str, Tensor]) -> Places:
    """Return where a packed weight of one block holds zeros for channels that its image has not."""
    kernel, c0 = node.attribute("kernel"), node.attribute("c0")
    assert isinstance(kernel, tuple) and isinstance(c0, int)
    turned = bool(node.attribute("trans_b", 0))
    k = np.arange(tensors[node.inputs[1]].shape[1 if turned else 0])
    absent = k // int(prod(kernel) * c0) * c0 + k % c0 >= tensors[node.inputs[0]].shape[1]
    return (slice(None), absent) if turned else (absent,)


def bias_columns(nodes: tuple[OpNode, ...], tensors: Mapping[str, Tensor]) -> dict[str, int]:
    """Return bias -> how many of its elements belong to an output channel. The elements stored behind them are padding."""
    out = {}
    for n in nodes:
        if n.op in ("conv2d_packed", "matmul") and len(n.inputs) > 2 and n.inputs[2] in tensors:
            shape, channels = tensors[n.inputs[1]].shape, n.attribute("channels")  # these where the weight has more
            own = shape[-1] * (shape[0] if n.op == "conv2d_packed" and len(shape) == 3 else 1)
            out[n.inputs[2]] = channels if isinstance(channels, int) else own
    return out


def normal(inputs: list[Tensor], weights: Arrays, random: np.random.Generator, large: bool = True) -> dict[str, np.ndarray]:
    """Return normal values for inputs, with a few `large` ones. Constants have their real values."""
    out = {}
    for t in inputs:
        if t.name in weights:
            out[t.name] = to_logical(weights[t.name], t)
            continue
        if t.dtype == "int8":  # quantised: all of its numbers
            out[t.name] = random.integers(-128, 128, t.shape, np.int8)
            continue
        array = random.standard_normal(t.shape).astype(np.float32)
        if large and t.dtype in REALS and array.size:
            places = random.integers(0, array.size, LARGE_COUNT)
            array.reshape(-1)[places] = random.choice([-LARGE, LARGE], LARGE_COUNT)
        out[t.name] = array.astype(NUMPY[t.dtype])
    return out


# ---------------------------------------------------------------- special rows

def few_rows(inputs: list[Tensor], weights: Arrays) -> bool:
    """Return whether special rows would be most of a group's data."""
    counts = [prod(t.shape[:-1]) for t in _real_inputs(inputs, weights)]
    return bool(counts) and max(counts) < MANY


def _real_inputs(inputs: list[Tensor], weights: Arrays) -> list[Tensor]:
    """Return the reals that a group computes with, which are no constants and no single numbers."""
    return [t for t in inputs if t.name not in weights and t.dtype in REALS and prod(t.shape) > 1]


def sow(alone: Graph, inputs: list[Tensor], weights: Arrays, data: dict[str, np.ndarray], random: np.random.Generator) -> None:
    """Make some rows of a group's inputs special: the same rows in all inputs that have most rows. One row is of zeros. One is of equal
    numbers, unless a reduction over rows reads another operator's result. One has a NaN, where a NaN stays in its row. One holds the ends
    of the range, where numbers stay in their places. No row is special where the group has a quantiser: its result for a quotient by 0 is
    not defined."""
    given = [] if any(n.op in QUANTISING for n in alone.nodes) else _real_inputs(inputs, weights)
    counts = {t.name: prod(t.shape) // _length(alone, t) for t in given}
    most = max(counts.values(), default=0)
    families = {word(n).family for n in alone.nodes}
    dtypes = {t.dtype for t in alone.tensors}
    contained = families <= {*ROWWISE} and dtypes <= {*REALS} and not any(n.definition for n in alone.nodes)
    ends = contained and families <= {"elementwise", "view"} and not any(n.op in BOUNDED for n in alone.nodes)
    over_rows = [at for at, n in enumerate(alone.nodes) if word(n).family in OVER_ROWS]
    equal = all(set(alone.nodes[at].inputs[:1]) <= {*alone.inputs} for at in over_rows)  # else what a norm divides by is a rounding error
    kinds = ["zero", *["equal"] * equal, *["nan"] * contained, *["ends"] * ends]
    rows = random.permutation(most)[:len(kinds)]
    for t in given:
        if counts[t.name] == most:
            for kind, row in zip(kinds, rows):
                _set_row(data[t.name], _axes(alone, t), int(row), _special(kind, data[t.name].dtype, _length(alone, t), random))


def _axes(alone: Graph, t: Tensor) -> tuple[int, ...]:
    """Return the axes of a tensor's rows: those that the group's first reduction of it goes over, else the last."""
    for n in alone.nodes:
        if t.name in n.inputs[:1] and word(n).family in OVER_ROWS:
            found = n.attribute("axes", n.attribute("axis", -1))
            return tuple(int(a) % len(t.shape) for a in (found if isinstance(found, tuple) else (found,)))  # type: ignore[arg-type]
    return (len(t.shape) - 1,) if t.shape else ()


def _length(alone: Graph, t: Tensor) -> int:
    return prod(t.shape[a] for a in _axes(alone, t))


def _set_row(array: np.ndarray, axes: tuple[int, ...], row: int, values: np.ndarray) -> None:
    """Set one row of an array to the values. Rows are counted over all axes but `axes`."""
    rest = [a for a in range(array.ndim) if a not in axes]
    moved = array.transpose(*rest, *axes)
    at = np.unravel_index(row, [array.shape[a] for a in rest])
    moved[at] = values.reshape([array.shape[a] for a in axes]) if axes else values[0]


def _special(kind: str, dtype: np.dtype, length: int, random: np.random.Generator) -> np.ndarray:
    """Return a row of a kind, in a dtype of reals."""
    info = ml_dtypes.finfo(dtype)
    if kind == "ends":
        ends = np.array([info.max, info.min, info.smallest_normal, -info.smallest_normal, info.smallest_subnormal, -0.0]).astype(dtype)
        return np.resize(ends[random.permutation(len(ends))], length)
    if kind == "nan":
        out = random.standard_normal(length).astype(dtype)
        out[random.integers(length)] = np.nan
        return out
    share, exact = np.float32(1) / np.float32(length), np.array(EQUAL, np.float32)
    number = [*exact[exact * np.float32(length) * share == exact], EQUAL[0]][0]
    return np.full(length, 0.0 if kind == "zero" else number).astype(dtype)
