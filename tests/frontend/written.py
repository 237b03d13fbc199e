"""ONNX models written as text, some of their inputs being constants."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper


def written(text: str, constant: Callable[[str, list[int]], np.ndarray | None]) -> onnx.ModelProto:
    """The model of a text, with a constant in place of each input for which `constant(name, shape)` gives one."""
    model = onnx.parser.parse_model(text)
    for i in list(model.graph.input):
        value = constant(i.name, [d.dim_value for d in i.type.tensor_type.shape.dim])
        if value is not None:
            model.graph.initializer.append(numpy_helper.from_array(value, i.name))
            model.graph.input.remove(i)
    return model


def seeded(text: str) -> onnx.ModelProto:
    """The model of a text, with small seeded weights in place of all inputs but x."""
    random = np.random.default_rng(1)
    return written(text, lambda name, shape: None if name == "x" else random.normal(0, 0.2, shape).astype(np.float32))
