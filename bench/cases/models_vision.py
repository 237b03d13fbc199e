"""Networks that classify images, by their papers; batch normalisation stands folded into the convolution before it."""
from __future__ import annotations

from collections.abc import Callable, Sequence

from aoec.ir.graph.graph import Graph
from bench.cases.net import Model


def resnet(blocks: Sequence[int], deep: bool, group: int = 1, width: int = 64) -> Callable[[Model, str], Graph]:
    """Build ResNet (He et al., 2015, stride in the 3x3) and ResNeXt (Xie et al., 2016): bottlenecks where `deep`."""
    def build(n: Model, x: str) -> Graph:
        return n.classified(pyramid(n, x, blocks, deep, group, width)[-1])
    return build


def pyramid(n: Model, x: str, blocks: Sequence[int], deep: bool = True, group: int = 1, width: int = 64) -> list[str]:
    """Return what each stage of a ResNet gives."""
    x = n.pool(n.conv(x, 64, 7, 2), 3, 2, 1)
    made = []
    for stage, count in enumerate(blocks):
        for i in range(count):
            x = residual(n, x, 64 << stage, 2 if stage and not i else 1, deep, group, width << stage)
        made.append(x)
    return made


def residual(n: Model, x: str, planes: int, stride: int, deep: bool, group: int, width: int) -> str:
    """Return one block, added to its input or to a projection of it."""
    out = planes * 4 if deep else planes
    short = x if stride == 1 and n.shape(x)[1] == out else n.conv(x, out, 1, stride, act="")
    if deep:
        y = n.conv(n.conv(n.conv(x, width, 1), width, 3, stride, group), out, 1, act="")
    else:
        y = n.conv(n.conv(x, planes, 3, stride), planes, 3, act="")
    return n.node("relu", [n.node("add", [y, short])])


def vgg16(n: Model, x: str) -> Graph:
    """Build VGG-16 (Simonyan and Zisserman, 2014)."""
    for count, filters in ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)):
        for _ in range(count):
            x = n.conv(x, filters, 3)
        x = n.pool(x, 2, 2, 0)
    return n.graph(n.dense(n.dense(n.dense(n.rows(x), 4096, "relu"), 4096, "relu"), 1000))


def unet(n: Model, x: str) -> Graph:
    """Build U-Net (Ronneberger et al., 2015) with images padded, as github.com/milesial/Pytorch-UNet has it and the row's own export script
    asks for: transposed 2x2 convolutions of stride 2, one channel of results."""
    skips = []
    for filters in (64, 128, 256, 512, 1024):
        x = n.pool(x, 2, 2, 0) if skips else x
        x = n.conv(n.conv(x, filters, 3), filters, 3)
        skips.append(x)
    for skip in skips[-2::-1]:
        _, filters, *size = n.shape(skip)
        x = n.node("depth_to_space", [n.conv(x, 4 * filters, 1, act="")], scale=(2, 2))
        missing = [side - own for side, own in zip(size, n.shape(x)[2:])]
        if any(missing):
            before, after = ((0, 0, *(f(m) for m in missing)) for f in (lambda m: m // 2, lambda m: m - m // 2))
            x = n.node("pad", [x], before=before, after=after, value=0.0)
        x = n.conv(n.conv(n.node("concat", [skip, x], axis=1), filters, 3), filters, 3)
    return n.graph(n.conv(x, 1, 1, act=""))


def mobilenet_v1(n: Model, x: str) -> Graph:
    """Build MobileNet v1 (Howard et al., 2017)."""
    x = n.conv(x, 32, 3, 2, act="relu6")
    for filters, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)):
        x = n.conv(x, n.shape(x)[1], 3, stride, n.shape(x)[1], "relu6")
        x = n.conv(x, filters, 1, act="relu6")
    return n.classified(x)


def mobilenet_v2(n: Model, x: str) -> Graph:
    """Build MobileNet v2 (Sandler et al., 2018)."""
    x = n.conv(x, 32, 3, 2, act="relu6")
    stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for expand, filters, count, first in stages:
        for i in range(count):
            stride, given = first if not i else 1, n.shape(x)[1]
            y = n.conv(x, given * expand, 1, act="relu6") if expand > 1 else x
            y = n.conv(n.conv(y, given * expand, 3, stride, given * expand, "relu6"), filters, 1, act="")
            x = n.node("add", [x, y]) if stride == 1 and given == filters else y
    return n.classified(n.conv(x, 1280, 1, act="relu6"))


# 1x1; 1x1 and 3x3; 1x1 and 5x5 (3x3 in the widely used weights); after the pool
INCEPTIONS = ((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64), (192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64),
              (128, 128, 256, 24, 64, 64), (112, 144, 288, 32, 64, 64), (256, 160, 320, 32, 128, 128), (256, 160, 320, 32, 128, 128),
              (384, 192, 384, 48, 128, 128))


def googlenet(n: Model, x: str) -> Graph:
    """Build GoogLeNet (Szegedy et al., 2014) with batch normalisation in place of local response normalisation, as torchvision has it."""
    x = n.pool(n.conv(x, 64, 7, 2), 3, 2, 0, 1)
    x = n.pool(n.conv(n.conv(x, 64, 1), 192, 3), 3, 2, 0, 1)
    for i, (one, less3, three, less5, five, pooled) in enumerate(INCEPTIONS):
        if i in (2, 7):
            x = n.pool(x, 3 if i == 2 else 2, 2, 0, 1 if i == 2 else 0)
        parts = [n.conv(x, one, 1), n.conv(n.conv(x, less3, 1), three, 3), n.conv(n.conv(x, less5, 1), five, 3),
                 n.conv(n.pool(x, 3, 1, 1), pooled, 1)]
        x = n.node("concat", parts, axis=1)
    return n.classified(x)


def efficientnet_v2_s(n: Model, x: str) -> Graph:
    """Build EfficientNetV2-S (Tan and Le, 2021): blocks whose widening is fused with their 3x3, then depthwise with weighed channels."""
    x = n.conv(x, 24, 3, 2, act="silu")
    stages = ((True, 1, 24, 2, 1), (True, 4, 48, 4, 2), (True, 4, 64, 4, 2), (False, 4, 128, 6, 2),
              (False, 6, 160, 9, 1), (False, 6, 256, 15, 2))
    for fused, expand, filters, count, first in stages:
        for i in range(count):
            y = (fused_block if fused else gated_block)(n, x, expand, filters, 1 if i else first)
            x = n.node("add", [x, y]) if n.shape(x) == n.shape(y) else y
    return n.classified(n.conv(x, 1280, 1, act="silu"))


def fused_block(n: Model, x: str, expand: int, filters: int, stride: int) -> str:
    """Return a 3x3 that widens, and a 1x1 back; one 3x3 where nothing is widened."""
    if expand == 1:
        return n.conv(x, filters, 3, stride, act="silu")
    return n.conv(n.conv(x, n.shape(x)[1] * expand, 3, stride, act="silu"), filters, 1, act="")


def gated_block(n: Model, x: str, expand: int, filters: int, stride: int) -> str:
    """Add a 1x1 convolution, a depthwise 3x3, a weight for each channel computed from the means of all channels, and a 1x1."""
    given = n.shape(x)[1]
    y = n.conv(n.conv(x, given * expand, 1, act="silu"), given * expand, 3, stride, given * expand, "silu")
    weight = n.conv(n.node("global_avg_pool", [y]), given // 4, 1, act="silu")
    return n.conv(n.node("mul", [y, n.conv(weight, given * expand, 1, act="sigmoid")]), filters, 1, act="")
