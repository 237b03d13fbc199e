"""Small models to train, and what they mean in NumPy, in double and apart from aoec's operators."""
from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

EPSILON, CLASSES = 1e-5, 5
Arrays = dict[str, np.ndarray]


def parameters(channels: int = 8, seed: int = 0) -> Arrays:
    """Of the model below, with its running statistics `mean` and `variance`."""
    r = np.random.default_rng(seed)
    made = {"weight": r.normal(0, 0.3, (channels, 3, 3, 3)), "bias": r.normal(0, 0.1, channels), "scale": r.uniform(0.5, 1.5, channels),
            "shift": r.normal(0, 0.1, channels), "mean": r.normal(0, 0.1, channels), "variance": r.uniform(0.5, 1.5, channels),
            "last": r.normal(0, 0.3, (CLASSES, channels)), "last_bias": r.normal(0, 0.1, CLASSES)}
    return {name: x.astype(np.float32) for name, x in made.items()}


def classifier(batch: int = 4, channels: int = 8, size: int = 6, normed: bool = True, dropout: bool = False) -> onnx.ModelProto:
    """Conv, BatchNormalization, Relu, mean over pixels, Gemm: `data` -> `logits`."""
    nodes = [helper.make_node("Conv", ["data", "weight", "bias"], ["conv"], kernel_shape=[3, 3], pads=[1] * 4)]
    if normed:
        nodes.append(helper.make_node("BatchNormalization", ["conv", "scale", "shift", "mean", "variance"], ["norm"], momentum=0.8))
    nodes += [helper.make_node("Relu", [nodes[-1].output[0]], ["relu"]), helper.make_node("GlobalAveragePool", ["relu"], ["pool"]),
              helper.make_node("Flatten", ["pool"], ["flat"])]
    if dropout:
        nodes.append(helper.make_node("Dropout", ["flat"], ["dropped"]))
    nodes.append(helper.make_node("Gemm", [nodes[-1].output[0], "last", "last_bias"], ["logits"], transB=1))
    read = {i for n in nodes for i in n.input}
    constants = [numpy_helper.from_array(x, name) for name, x in parameters(channels).items() if name in read]
    data, logits = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (
        ("data", [batch, 3, size, size]), ("logits", [batch, CLASSES])))
    return helper.make_model(helper.make_graph(nodes, "classifier", [data], [logits], constants),
                             opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def convolve(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """A convolution of 3x3 with a pixel of zeros around."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    h, wide = x.shape[2:]
    return sum(np.einsum("nchw,oc->nohw", padded[:, :, i:i + h, j:j + wide], w[:, :, i, j]) for i in range(3) for j in range(3))


def logits_of(p: Mapping[str, np.ndarray], data: np.ndarray, normed: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """(logits, what the convolution makes), with the statistics of the batch."""
    p = {name: x.astype(np.float64) for name, x in p.items()}
    conv = convolve(data.astype(np.float64), p["weight"]) + p["bias"][:, None, None]
    y = conv
    if normed:
        mean, variance = conv.mean(axis=(0, 2, 3), keepdims=True), conv.var(axis=(0, 2, 3), keepdims=True)
        y = (conv - mean) / np.sqrt(variance + EPSILON) * p["scale"][:, None, None] + p["shift"][:, None, None]
    return np.maximum(y, 0).mean(axis=(2, 3)) @ p["last"].T + p["last_bias"], conv


def cross_entropy(logits: np.ndarray, labels: np.ndarray) -> float:
    """The mean of -log softmax(logits)[label] over rows."""
    far = logits - logits.max(axis=1, keepdims=True)
    return float(np.mean(np.log(np.exp(far).sum(axis=1)) - far[np.arange(len(labels)), labels]))
