"""Networks for images, convolutions with their normalisation folded in: YOLOv5s, U-Net, MobileNetV2, ShuffleNet-V2; and ResNet-50."""
from __future__ import annotations

import numpy as np
import onnx

from aoec.frontend import zoo
from bench.networks.levelled import levelled
from bench.networks.net import Net, Network

ANCHORS = (((10, 13), (16, 30), (33, 23)), ((30, 61), (62, 45), (59, 119)), ((116, 90), (156, 198), (373, 326)))  # pixels, by stride


def yolov5s(batch: int = 1, seed: int = 0, size: int = 640) -> Network:
    """Build YOLOv5s 6.0 (Ultralytics): boxes, objectness and 80 classes of three scales, [batch, 25200, 85] at 640 pixels."""
    n = Net(seed)
    x = n.conv(n.image("images", batch, 3, size, size), 32, 6, 2, "silu", pad=2)
    x = c3(n, n.conv(x, 64, 3, 2, "silu"), 64, 1)
    fine = c3(n, n.conv(x, 128, 3, 2, "silu"), 128, 2)
    middle = c3(n, n.conv(fine, 256, 3, 2, "silu"), 256, 3)
    x = pooled_pyramid(n, c3(n, n.conv(middle, 512, 3, 2, "silu"), 512, 1), 512)
    deep = n.conv(x, 256, 1, 1, "silu")
    x = c3(n, n.joined(doubled(n, deep), middle), 256, 1, shortcut=False)
    shallow = n.conv(x, 128, 1, 1, "silu")
    found = [c3(n, n.joined(doubled(n, shallow), fine), 128, 1, shortcut=False)]
    found.append(c3(n, n.joined(n.conv(found[0], 128, 3, 2, "silu"), shallow), 256, 1, shortcut=False))
    found.append(c3(n, n.joined(n.conv(found[1], 256, 3, 2, "silu"), deep), 512, 1, shortcut=False))
    boxes = [detected(n, f, batch, size // stride, stride, anchors) for f, stride, anchors in zip(found, (8, 16, 32), ANCHORS)]
    count = sum(3 * (size // stride) ** 2 for stride in (8, 16, 32))
    return levelled(n.network("yolov5s", {"output": (n.node("Concat", *boxes, axis=1), (batch, count, 85))}))


def c3(n: Net, x: str, filters: int, count: int, shortcut: bool = True) -> str:
    """Return a stage: half the channels through bottlenecks, half past them."""
    a = n.conv(x, filters // 2, 1, 1, "silu")
    for _ in range(count):
        y = n.conv(n.conv(a, filters // 2, 1, 1, "silu"), filters // 2, 3, 1, "silu", scale=0.5 if shortcut else 1.0)
        a = n.added(a, y) if shortcut else y
        n.gain[a] = 2.81
    return n.conv(n.joined(a, n.conv(x, filters // 2, 1, 1, "silu")), filters, 1, 1, "silu")


def pooled_pyramid(n: Net, x: str, filters: int) -> str:
    """Return the greatest of 5, 9 and 13 pixels around, beside each other (SPPF)."""
    parts = [n.conv(x, filters // 2, 1, 1, "silu")]
    for _ in range(3):
        parts.append(n.kept("MaxPool", parts[-1], kernel_shape=[5, 5], strides=[1, 1], pads=[2, 2, 2, 2]))
    return n.conv(n.joined(*parts), filters, 1, 1, "silu")


def doubled(n: Net, x: str) -> str:
    """Return every pixel twice down and across, as exporters write it."""
    scales = n.constant([1, 1, 2, 2])
    return n.kept("Resize", x, "", scales, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")


def detected(n: Net, x: str, batch: int, side: int, stride: int, anchors: tuple[tuple[int, int], ...]) -> str:
    """Return boxes in pixels and scores in 0 .. 1 of one scale: [batch, 3 * side^2, 85]."""
    y = n.shaped(n.conv(x, 255, 1, 1, ""), batch, 3, 85, side, side)
    y = n.node("Sigmoid", n.node("Transpose", y, perm=[0, 1, 3, 4, 2]))
    at, size, score = n.parts("Split", 3, y, n.constant([2, 2, 81], np.int64), axis=4)
    across, down = np.meshgrid(np.arange(side), np.arange(side))
    grid = n.constant(np.stack([across, down], axis=-1)[None, None] - 0.5)
    at = n.node("Mul", n.node("Add", n.node("Mul", at, n.constant(2.0)), grid), n.constant(float(stride)))
    size = n.node("Pow", n.node("Mul", size, n.constant(2.0)), n.constant(2.0))
    size = n.node("Mul", size, n.constant(np.array(anchors)[None, :, None, None]))
    return n.shaped(n.node("Concat", at, size, score, axis=4), batch, 3 * side * side, 85)


def unet(batch: int = 1, seed: int = 0, size: int = 256, width: int = 64) -> Network:
    """Build U-Net (Ronneberger et al., 2015) with padded convolutions: 31 M parameters, two classes a pixel."""
    n = Net(seed)
    x, passed = n.image("image", batch, 3, size, size), []
    for level in range(4):
        x = n.conv(n.conv(x, width << level, 3), width << level, 3)
        passed.append(x)
        x = n.kept("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = n.conv(n.conv(x, width << 4, 3), width << 4, 3)
    for level in reversed(range(4)):
        x = n.joined(grown(n, x, width << level), passed[level])
        x = n.conv(n.conv(x, width << level, 3), width << level, 3)
    return n.network("unet", {"mask": (n.conv(x, 2, 1, act=""), (batch, 2, size, size))})


def grown(n: Net, x: str, filters: int) -> str:
    """Return an image of twice the size, by a transposed convolution."""
    given = n.channels[x]
    w = n.normal(given, filters, 2, 2, deviation=np.sqrt(n.gain.get(x, 1.0) / given))
    y = n.node("ConvTranspose", x, w, n.normal(filters, deviation=0.1), kernel_shape=[2, 2], strides=[2, 2])
    n.channels[y] = filters
    return y


def mobilenet_v2(batch: int = 1, seed: int = 0, size: int = 224) -> Network:
    """Build MobileNetV2 (Sandler et al., 2018): blocks of (expansion, filters, count, stride), 1000 classes."""
    n = Net(seed)
    x = n.conv(n.image("image", batch, 3, size, size), 32, 3, 2, "relu6")
    for expansion, filters, count, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                                              (6, 320, 1, 1)):
        for at in range(count):
            wide, by = expansion * n.channels[x], stride if at == 0 else 1
            y = n.conv(x, wide, 1, 1, "relu6") if expansion > 1 else x
            again = by == 1 and n.channels[x] == filters
            y = n.conv(n.conv(y, wide, 3, by, "relu6", group=wide), filters, 1, 1, "", scale=0.5 if again else 1.0)
            x = n.added(x, y) if again else y
    x = n.node("Flatten", n.node("GlobalAveragePool", n.conv(x, 1280, 1, 1, "relu6")), axis=1)
    logits = n.node("Gemm", x, n.normal(1000, 1280, deviation=0.1), n.normal(1000, deviation=0.1), transB=1)
    return n.network("mobilenet-v2", {"logits": (logits, (batch, 1000))})


def shufflenet(batch: int = 1, seed: int = 0, size: int = 224) -> Network:
    """Build ShuffleNet-V2 x1.0 (Ma et al., 2018): half the channels of a block pass it by, and both halves are shuffled; 1000 classes."""
    n = Net(seed)
    x = n.kept("MaxPool", n.conv(n.image("image", batch, 3, size, size), 24, 3, 2), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    side = size // 4
    for filters, count in ((116, 4), (232, 8), (464, 4)):
        side //= 2
        half = filters // 2
        for at in range(count):
            if at:
                passed, y = n.parts("Split", 2, x, n.constant([half, half], np.int64), axis=1)
                n.channels[passed] = n.channels[y] = half
            else:
                passed, y = n.conv(n.conv(x, n.channels[x], 3, 2, "", group=n.channels[x]), half, 1), x
            y = n.conv(n.conv(y, half, 1), half, 3, 1 if at else 2, "", group=half)
            x = shuffled(n, n.joined(passed, n.conv(y, half, 1)), (batch, filters, side))
    x = n.node("ReduceMean", n.conv(x, 1024, 1), axes=[2, 3], keepdims=0)
    logits = n.node("Gemm", x, n.normal(1000, 1024, deviation=0.1), n.normal(1000, deviation=0.1), transB=1)
    return levelled(n.network("shufflenet", {"logits": (logits, (batch, 1000))}))


def shuffled(n: Net, x: str, shape: tuple[int, int, int]) -> str:
    """Shuffle images of `shape` (batch, channels, side): take one channel from each half in turn."""
    batch, filters, side = shape
    y = n.node("Transpose", n.shaped(x, batch, 2, filters // 2, side, side), perm=[0, 2, 1, 3, 4])
    y = n.shaped(y, batch, filters, side, side)
    n.channels[y] = filters
    return y


def resnet50(batch: int = 1, seed: int = 0) -> Network:
    """Build ResNet-50 as the demo has it."""
    return of(zoo.resnet50(batch, seed), seed)


def of(model: onnx.ModelProto, seed: int) -> Network:
    """Return a model of images with one of noise."""
    (data,) = model.graph.input
    shape = [d.dim_value for d in data.type.tensor_type.shape.dim]
    return Network(model, {data.name: np.random.default_rng(seed).standard_normal(shape, np.float32)})
