"""Builds models from nothing but a seed: a full-size ResNet-50 and small ones for tests.

Random networks without normalisation forget their input. These are built to behave as trained ones do. Every BatchNormalization gets the
mean and variance that its channels really have on noise, so that activations keep unit variance through the net. They are measured once,
while building, on few small images. The classifier is centred on the mean feature, so that different inputs get different classes. Measured
statistics are rounded to a grid of 2^-10, so that a seed gives the same file whatever the order of sums.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from aoec.ops.words.cube import convolve

OPSET = 17
EPSILON = 1e-5
NORMALISING, CENTRING = 2, 2  # images that give the statistics, and others that show where features then lie
SMOOTHNESS = 0.98  # share of a kernel's variance that its taps have in common
BRANCH_GAIN = 0.2  # standard deviation of what a residual branch adds


class _Net:
    """A model while it grows: ONNX nodes and constants, and the values that calibration images have at each tensor."""

    def __init__(self, seed: int, sample: np.ndarray) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.values = {"data": sample}

    def constant(self, name: str, array: np.ndarray) -> str:
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array, np.float32), name))
        return name

    def node(self, op: str, inputs: list[str], output: str, value: np.ndarray, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        self.values[output] = value
        return output

    def normal(self, *shape: int) -> np.ndarray:
        return self.random.standard_normal(shape, np.float32)

    def kernels(self, *shape: int) -> np.ndarray:
        """Return smooth kernels [co, c, k, k] of unit variance. Noise images differ, after averaging, only in what averaging preserves."""
        w = self.normal(*shape, shape[-1])
        if shape[-1] == 1:
            return w
        return np.float32(np.sqrt(1 - SMOOTHNESS)) * w + np.float32(np.sqrt(SMOOTHNESS)) * self.normal(*shape[:2], 1, 1)

    def conv_bn(self, x: str, name: str, channels: int, kernel: int, stride: int = 1, gain: float = 1.0, group: int = 1) -> str:
        """Conv without bias, and the BatchNormalization that belongs to it, of standard deviation `gain`."""
        fan_in = self.values[x].shape[1] // group * kernel * kernel
        w = self.kernels(channels, self.values[x].shape[1] // group, kernel) * np.float32(np.sqrt(2 / fan_in))
        pad = [kernel // 2] * 4
        y = convolve(self.values[x], w, stride=(stride, stride), pad=pad, group=group)
        attributes: dict[str, Any] = {"strides": [stride, stride], "pads": pad, "kernel_shape": [kernel, kernel], "group": group}
        self.node("Conv", [x, self.constant(f"{name}_weight", w)], f"{name}_conv", y, **attributes)
        return self.batch_norm(f"{name}_conv", name, gain)

    def batch_norm(self, x: str, name: str, gain: float) -> str:
        """Add a batch normalisation by the statistics of the calibration images. Scale and bias vary over the channels."""
        y = self.values.pop(x)
        seen = y[:NORMALISING]
        mean, variance = grid(seen.mean(axis=(0, 2, 3))), np.maximum(grid(seen.var(axis=(0, 2, 3))), 2.0**-10)
        scale = grid(gain * self.random.uniform(0.8, 1.2, len(mean)))
        bias = grid(0.2 * gain * self.random.standard_normal(len(mean)))
        factor = scale / np.sqrt(variance + EPSILON)
        value = y * factor[:, None, None].astype(np.float32) + (bias - mean * factor)[:, None, None].astype(np.float32)
        labelled = {"scale": scale, "bias": bias, "mean": mean, "variance": variance}
        parts = [self.constant(f"{name}_{label}", v) for label, v in labelled.items()]
        return self.node("BatchNormalization", [x, *parts], name, value, epsilon=EPSILON)

    def relu(self, x: str) -> str:
        return self.node("Relu", [x], f"{x}_relu", np.maximum(self.values[x], 0))

    def max_pool(self, x: str, name: str) -> str:
        """Add a max pool of 3 x 3 with stride 2, as after ResNet's first convolution."""
        v = np.pad(self.values[x], ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
        v = np.lib.stride_tricks.sliding_window_view(v, (3, 3), axis=(2, 3))[:, :, ::2, ::2].max(axis=(4, 5))
        return self.node("MaxPool", [x], name, v, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])

    def bottleneck(self, x: str, name: str, width: int, stride: int) -> str:
        """Add a bottleneck: 1x1, 3x3 (with the stride, as in version 1.5) and 1x1, added to the input or to its projection; then relu."""
        project = stride > 1 or self.values[x].shape[1] != 4 * width
        shortcut = self.conv_bn(x, f"{name}_shortcut", 4 * width, 1, stride) if project else x
        a = self.relu(self.conv_bn(x, f"{name}_a", width, 1))
        b = self.relu(self.conv_bn(a, f"{name}_b", width, 3, stride))
        c = self.conv_bn(b, f"{name}_c", 4 * width, 1, gain=BRANCH_GAIN)
        return self.relu(self.node("Add", [shortcut, c], f"{name}_sum", self.values[shortcut] + self.values[c]))

    def classifier(self, x: str, classes: int) -> str:
        """Mean over the image, then a linear layer centred on the mean feature, with logits of unit variance."""
        pooled = self.node("GlobalAveragePool", [x], "pool", self.values[x].mean(axis=(2, 3), keepdims=True))
        features = self.values[pooled].reshape(len(self.values[pooled]), -1)
        flat = self.node("Flatten", [pooled], "features", features, axis=1)
        each = self.values[x].reshape(*self.values[x].shape[:2], -1).transpose(0, 2, 1)  # image, pixel, channel
        varied = (each - each.mean(axis=0)).reshape(-1, features.shape[1])
        w = self.normal(classes, len(varied)) @ varied
        w = grid(w * (FEATURE_GAIN / np.sqrt(np.square(varied @ w.T).mean())), 2.0**-16)
        bias = grid(-w @ features[NORMALISING:].mean(axis=0))
        inputs = [flat, self.constant("fc_weight", w), self.constant("fc_bias", bias)]
        return self.node("Gemm", inputs, "logits", features @ w.T + bias, transB=1)

    def model(self, name: str, batch: int, output: str, shape: tuple[int, ...], out_shape: tuple[int, ...]) -> onnx.ModelProto:
        data = helper.make_tensor_value_info("data", TensorProto.FLOAT, [batch, *shape])
        result = helper.make_tensor_value_info(output, TensorProto.FLOAT, [batch, *out_shape])
        graph = helper.make_graph(self.nodes, name, [data], [result], self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8, producer_name="aoec")


FEATURE_GAIN = 6.0  # a mean over some 49 correlated pixels varies by about a sixth of one pixel


def grid(x: np.ndarray, step: float = 2.0**-10) -> np.ndarray:
    """Return `x` rounded to whole multiples of `step`, in fp32."""
    return (np.rint(np.asarray(x, np.float64) / step) * step).astype(np.float32)


def resnet50(batch: int = 1, seed: int = 0, blocks: tuple[int, ...] = (3, 4, 6, 3), width: int = 64, size: int = 224, classes: int = 1000,
             name: str = "resnet50") -> onnx.ModelProto:
    """Build ResNet-50 v1.5 from a seed: [batch, 3, 224, 224] to logits [batch, 1000]. Fewer `blocks` and a smaller `width` give small
    variants."""
    sample = np.random.default_rng([seed, 1]).standard_normal((NORMALISING + CENTRING, 3, size, size), np.float32)
    net = _Net(seed, sample)
    x = net.max_pool(net.relu(net.conv_bn("data", "stem", width, 7, 2)), "stem_pool")
    for stage, count in enumerate(blocks):
        for at in range(count):
            x = net.bottleneck(x, f"stage{stage + 1}_{at}", width << stage, 2 if stage and not at else 1)
            net.values = {x: net.values[x]}
    return net.model(name, batch, net.classifier(x, classes), (3, size, size), (classes,))


def tiny_resnet(batch: int = 1, seed: int = 0) -> onnx.ModelProto:
    """Return two stages of bottlenecks on images of 32 x 32, ten classes."""
    return resnet50(batch, seed, blocks=(1, 2), width=16, size=32, classes=10, name="tiny_resnet")


def mlp_softmax(batch: int = 4, seed: int = 0) -> onnx.ModelProto:
    """Return two linear layers and a softmax: the smallest model with matrices, relu and a reduction."""
    net = _Net(seed, np.zeros((batch, 40), np.float32))
    w1, w2 = net.normal(40, 72) * np.float32(0.2), net.normal(72, 10) * np.float32(0.2)
    net.node("Gemm", ["data", net.constant("w1", w1), net.constant("b1", net.normal(72))], "hidden", np.zeros(0))
    net.node("Relu", ["hidden"], "hidden_relu", np.zeros(0))
    net.node("MatMul", ["hidden_relu", net.constant("w2", w2)], "scores", np.zeros(0))
    net.node("Softmax", ["scores"], "probabilities", np.zeros(0), axis=-1)
    return net.model("mlp_softmax", batch, "probabilities", (40,), (10,))


MODELS: dict[str, Callable[[int, int], onnx.ModelProto]] = {"resnet50": resnet50, "tiny_resnet": tiny_resnet, "mlp_softmax": mlp_softmax}
