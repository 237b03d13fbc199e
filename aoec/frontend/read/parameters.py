"""Which inputs of a model say how to calculate and not on what: shapes, axes, places, counts, which branch is taken."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

import numpy as np
import onnx

from aoec.frontend.read.values import captured_names, shape_of, subgraphs

# operator -> the places of such arguments; shapes follow from them, or the order of elements: a model is compiled for their values
PLACES: dict[str, tuple[int, ...]] = {
    "AffineGrid": (1,), "CenterCropPad": (1,), "ConstantOfShape": (0,), "CumProd": (1,), "CumSum": (1,), "DFT": (1, 2), "Expand": (1,),
    "If": (0,), "Loop": (0, 1), "OneHot": (1,), "Pad": (1, 3), "Range": (0, 1, 2), "Reshape": (1,), "Resize": (1, 2, 3),
    "Slice": (1, 2, 3, 4), "Split": (1,), "Squeeze": (1,), "Tile": (1,), "TopK": (1,), "Trilu": (1,), "Unsqueeze": (1,), "Upsample": (1,),
    **{f"{kind}Window": (0,) for kind in ("Blackman", "Hamming", "Hann")},
    **{f"Reduce{kind}": (1,) for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")}}
OF_SHAPES = ("Shape", "Size")  # what they give follows from no value
FEW = 16  # elements: whole numbers of one dimension from which a shape can be worked out


def parameters(graph: onnx.GraphProto) -> list[str]:
    """Return the inputs, without a constant of their name, that some operator of ONNX's own domain reads at such a place, or, if they are
    single numbers or few whole ones, that what it reads there is worked out from."""
    constants = {i.name for i in graph.initializer}
    nodes = list(_every(graph))
    read = {n.input[at] for n in nodes for at in PLACES.get(n.op_type, ()) if at < len(n.input)}
    behind = _behind(nodes, read)
    return [i.name for i in graph.input if i.name not in constants and (i.name in read or i.name in behind and _is_count(i.type))]


def _every(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of ONNX's own domain, in subgraphs too."""
    for n in graph.node:
        if n.domain in ("", "ai.onnx"):
            yield n
        for sub in subgraphs(n):
            yield from _every(sub)


def _behind(nodes: list[onnx.NodeProto], names: set[str]) -> set[str]:
    """Return all that these values are worked out from."""
    makers = {o: n for n in nodes for o in n.output if o}
    found, rest = set(names), list(names)
    while rest:
        maker = makers.get(rest.pop())
        if maker is not None and maker.op_type not in OF_SHAPES:
            fresh = {i for i in (*maker.input, *captured_names(maker)) if i} - found
            found |= fresh
            rest += fresh
    return found


def _is_count(t: onnx.TypeProto) -> bool:
    """Return True for a single number, and for few whole numbers in one dimension."""
    shape, element = shape_of(t), t.tensor_type.elem_type
    if shape is None or element == onnx.TensorProto.STRING:
        return False
    whole = element in (onnx.TensorProto.INT32, onnx.TensorProto.INT64)
    return prod(shape) == 1 and len(shape) < 2 or whole and len(shape) == 1 and prod(shape) <= FEW


def with_values(model: onnx.ModelProto, values: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """Return the model with these of its inputs as constants; the model itself where there are none."""
    if not values:
        return model
    out = onnx.ModelProto()
    out.CopyFrom(model)
    kept = [i for i in out.graph.input if i.name not in values]
    del out.graph.input[:]
    out.graph.input.extend(kept)
    out.graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(x, order="C"), name) for name, x in values.items())
    return out
