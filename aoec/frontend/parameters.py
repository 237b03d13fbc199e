"""Which inputs of a model say how to calculate and not on what: shapes, axes, places, counts."""
from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx

# operator -> the places of such arguments; shapes follow from them, or the order of elements: a model is compiled for their values
PLACES: dict[str, tuple[int, ...]] = {
    "AffineGrid": (1,), "CenterCropPad": (1,), "ConstantOfShape": (0,), "CumSum": (1,), "DFT": (1, 2), "Expand": (1,), "OneHot": (1,),
    "Pad": (1, 3), "Range": (0, 1, 2), "Reshape": (1,), "Resize": (1, 2, 3), "Slice": (1, 2, 3, 4), "Split": (1,), "Squeeze": (1,),
    "Tile": (1,), "TopK": (1,), "Trilu": (1,), "Unsqueeze": (1,), "Upsample": (1,),
    **{f"Reduce{kind}": (1,) for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")}}


def parameters(graph: onnx.GraphProto) -> list[str]:
    """The inputs, without a constant of their name, that some operator of ONNX's own domain reads at such a place."""
    constants = {i.name for i in graph.initializer}
    read = {n.input[at] for n in graph.node if n.domain in ("", "ai.onnx") for at in PLACES.get(n.op_type, ()) if at < len(n.input)}
    return [i.name for i in graph.input if i.name in read - constants]


def with_values(model: onnx.ModelProto, values: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """The model with these of its inputs as constants; the model itself where there are none."""
    if not values:
        return model
    out = onnx.ModelProto()
    out.CopyFrom(model)
    kept = [i for i in out.graph.input if i.name not in values]
    del out.graph.input[:]
    out.graph.input.extend(kept)
    out.graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(x, order="C"), name) for name, x in values.items())
    return out
