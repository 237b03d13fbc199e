"""Gears: the shapes that one model is compiled for, from a list of batches or of the values of its free dimensions, as ATC takes them."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx

from aoec.base.errors import CheckError
from aoec.frontend.read.read import FREE, NO_RANK, free_axes, graph_inputs, suggest_shape
from aoec.ir.graph.graph import FEWEST_GEARS, MOST_GEARS

SHOWN = 8  # inputs in a sentence
Shape = tuple[int, ...]  # FREE where the model, or a dimension of the same name, says how much


@dataclass(frozen=True)
class Asked:
    """What a user asks for: batches, or a value for each dimension that --input-shape leaves free, in its order; neither is no gears."""

    batches: tuple[int, ...] = ()
    dims: tuple[tuple[int, ...], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.batches or self.dims)


@dataclass(frozen=True)
class Gear:
    """One of them: its values, and the shapes that these give to inputs."""

    values: tuple[int, ...]
    shapes: tuple[tuple[str, Shape], ...]

    @property
    def name(self) -> str:
        """Return its values as they were asked for: "8", or "8,448,448"."""
        return ",".join(map(str, self.values))


def gears(graph: onnx.GraphProto, shapes: Mapping[str, Shape], asked: Asked) -> list[Gear]:
    """Return the gears of a model in the order asked for. CheckError: too few or too many, one twice, values without a dimension of their
    own."""
    option = "--dynamic-batch" if asked.batches else "--dynamic-dims"
    if asked.batches and asked.dims:
        raise CheckError("--dynamic-batch and --dynamic-dims exclude each other; --dynamic-dims can say what both do")
    values = asked.dims or [(b,) for b in asked.batches]
    _check_values(option, values)
    if asked.batches:
        return [Gear(v, _fill_batch(graph, shapes, v[0])) for v in values]
    return [Gear(v, _fill_dimensions(shapes, v)) for v in values]


def dimension_names(graph: onnx.GraphProto) -> dict[str, tuple[str, ...]]:
    """Return input or output -> the names that the model has for its dimensions, "" where none."""
    return {i.name: tuple(d.dim_param for d in i.type.tensor_type.shape.dim) for i in (*graph_inputs(graph), *graph.output)}


def _check_values(option: str, values: Sequence[tuple[int, ...]]) -> None:
    if not FEWEST_GEARS <= len(values) <= MOST_GEARS:
        hint = "; a single shape is what --input-shape is for" if len(values) < FEWEST_GEARS else ""
        raise CheckError(f"{option} gives {len(values)} gear{'s' * (len(values) != 1)}, and {FEWEST_GEARS} to {MOST_GEARS} are taken{hint}")
    for v in values:
        if values.count(v) > 1:
            raise CheckError(f"{option} gives the gear {','.join(map(str, v))} twice")
        if any(n < 1 for n in v):
            raise CheckError(f"{option}: the gear {','.join(map(str, v))} has a value below 1")


def _fill_batch(graph: onnx.GraphProto, shapes: Mapping[str, Shape], batch: int) -> tuple[tuple[str, Shape], ...]:
    """Return the shapes of all inputs, with this batch where the first dimension is free."""
    out = dict(shapes)
    for name, shape in shapes.items():
        if FREE in shape[1:]:
            raise CheckError(f"--input-shape {name}:{_dims(shape)}: --dynamic-batch is about first dimensions alone; for others there is "
                             "--dynamic-dims")
    varied = []
    open_ones = [i for i in graph_inputs(graph) if i.name not in shapes and any(axis != 0 for axis in free_axes(i))]
    if open_ones and shapes.keys() <= {i.name for i in graph_inputs(graph)}:
        example = " ".join(f"--input-shape {i.name}:{FREE if first else ''}{suggest_shape(i)[first:]}"
                           for i in open_ones for first in [any(axis in (0, NO_RANK) for axis in free_axes(i))])
        raise CheckError(f"--dynamic-batch: input dimensions are not bound ({_inputs(graph)}); give those behind the first, for example: "
                         f"{example}")
    for i in graph_inputs(graph):
        stated = (FREE,) * len(i.type.tensor_type.shape.dim)
        shape = shapes.get(i.name, stated if 0 in free_axes(i) else ())
        if shape[:1] == (FREE,):
            varied.append(i.name)
            out[i.name] = (batch, *shape[1:])
    if not varied:
        raise CheckError(f"--dynamic-batch: the first dimension of no input is free ({_inputs(graph)})")
    return tuple(out.items())


def _fill_dimensions(shapes: Mapping[str, Shape], values: Sequence[int]) -> tuple[tuple[str, Shape], ...]:
    """Fill the free dimensions of the shapes, in order."""
    places = sum(s.count(FREE) for s in shapes.values())
    if places != len(values):
        given = " ".join(f"--input-shape {name}:{_dims(s)}" for name, s in shapes.items()) or "--input-shape, which is not given"
        raise CheckError(f"--dynamic-dims: the gear {_dims(values)} has {len(values)} value{'s' * (len(values) != 1)}, and {places} "
                         f"dimension{'s are' if places != 1 else ' is'} -1 in {given}")
    left = iter(values)
    return tuple((name, tuple(next(left) if n == FREE else n for n in s)) for name, s in shapes.items())


def _inputs(graph: onnx.GraphProto) -> str:
    listed = graph_inputs(graph)
    said = [f"{i.name} states no shape" if free_axes(i) == [NO_RANK] else
            f"{i.name} is [{', '.join(d.dim_param or str(d.dim_value) for d in i.type.tensor_type.shape.dim)}]" for i in listed[:SHOWN]]
    return "; ".join(said) + (" ..." if len(listed) > SHOWN else "")


def _dims(shape: Sequence[int]) -> str:
    return ",".join(map(str, shape))
