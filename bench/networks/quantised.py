"""Networks in int8 as onnxruntime's own quantisation leaves them: between QuantizeLinear and DequantizeLinear (ResNet-50, ShuffleNet-V2),
and with products of tensors that are quantised by the range they have (BERT-base)."""
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx

from aoec.frontend import zoo
from bench.networks.net import Network
from bench.networks.text import bert_base
from bench.networks.vision import of, shufflenet


def resnet50_int8(batch: int = 1, seed: int = 0) -> Network:
    """Build ResNet-50 in int8."""
    return of(int8(zoo.resnet50(batch, seed), seed), seed)


def shufflenet_int8(batch: int = 1, seed: int = 0) -> Network:
    """Build ShuffleNet-V2 in int8."""
    return of(int8(shufflenet(batch, seed).model, seed), seed)


def bert_base_int8(batch: int = 1, seed: int = 0, words: int = 128, layers: int = 12, width: int = 768) -> Network:
    """Build BERT-base in int8, its scales found while it runs."""
    network = bert_base(batch, seed, words, layers, width)
    return Network(in_dynamic_int8(network.model), network.feeds)


def in_dynamic_int8(network: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model with int8 weights by channel, whose products read uint8 of the range that each tensor has."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with TemporaryDirectory() as folder:
        real, whole = Path(folder) / "real.onnx", Path(folder) / "int8.onnx"
        onnx.save(network, real)
        quantize_dynamic(real, whole, weight_type=QuantType.QInt8, per_channel=True)
        return onnx.load(whole)


def int8(network: onnx.ModelProto, seed: int) -> onnx.ModelProto:
    """Return a model of images with uint8 images, int8 weights by channel, ranges calibrated on four images of noise."""
    import onnxruntime
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    (data,) = network.graph.input
    shape = [d.dim_value for d in data.type.tensor_type.shape.dim]

    class Noise(CalibrationDataReader):  # type: ignore[misc]
        """A few images of noise."""

        def __init__(self) -> None:
            random = np.random.default_rng([seed, 2])
            images = [random.standard_normal(shape, np.float32) for _ in range(4)]
            self.left: Iterator[dict[str, np.ndarray]] = iter([{data.name: image} for image in images])

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self.left, None)

    with TemporaryDirectory() as folder:
        real, whole = Path(folder) / "real.onnx", Path(folder) / "int8.onnx"
        options = onnxruntime.SessionOptions()  # which here folds each BatchNormalization into its convolution, and does no more
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(real)
        onnxruntime.InferenceSession(network.SerializeToString(), options, providers=["CPUExecutionProvider"])
        quantize_static(real, whole, Noise(), quant_format=QuantFormat.QDQ, per_channel=True, activation_type=QuantType.QUInt8,
                        weight_type=QuantType.QInt8)
        return onnx.load(whole)
