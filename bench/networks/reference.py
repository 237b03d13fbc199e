"""onnxruntime on a model of the zoo: what results are held against."""
from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx


def results(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray], names: Sequence[str], optimised: bool = True) -> dict[str, np.ndarray]:
    """Return tensors of a model by name. `optimised`: as people run it; else each operator is calculated by itself, as the model has it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip(names, session.run(list(names), dict(feeds))))


def apart(found: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Return result -> its largest difference, relative to the largest number wanted."""
    return {n: float(np.abs(found[n].astype(np.float64) - w).max() / max(np.abs(w).max(), 1e-30)) for n, w in wanted.items()}
