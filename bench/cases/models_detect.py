"""Networks that find objects, by their papers, up to what their last convolutions give: boxes are decoded and sorted out on the host."""
from __future__ import annotations

from collections.abc import Callable, Sequence

from aoec.ir.graph.graph import Graph
from bench.cases.models_vision import pyramid, residual
from bench.cases.net import Model

COCO = 80  # classes


def yolo_heads(n: Model, parts: Sequence[str]) -> Graph:
    """Return three boxes a place: four sides, a score, and one for each class."""
    return n.graph(*[n.conv(x, 3 * (COCO + 5), 1, act="") for x in parts])


# ---------------------------------------------------------------- YOLO v3, v4

def yolo_v3(n: Model, x: str) -> Graph:
    """Build YOLOv3 (Redmon and Farhadi, 2018): Darknet-53, three scales from coarse to fine."""
    x = n.conv(x, 32, 3, act="leaky")
    kept = []
    for filters, count in ((64, 1), (128, 2), (256, 8), (512, 8), (1024, 4)):
        x = n.conv(x, filters, 3, 2, act="leaky")
        for _ in range(count):
            x = n.node("add", [x, n.conv(n.conv(x, filters // 2, 1, act="leaky"), filters, 3, act="leaky")])
        kept.append(x)
    found = []
    for filters, beside in ((512, ""), (256, kept[3]), (128, kept[2])):
        if beside:
            x = n.node("concat", [n.up(n.conv(x, filters, 1, act="leaky")), beside], axis=1)
        x = five(n, x, filters)
        found.append(n.conv(x, 2 * filters, 3, act="leaky"))
    return yolo_heads(n, found)


def five(n: Model, x: str, filters: int) -> str:
    """Add five convolutions, 1x1 and 3x3 in turn. The 3x3 ones have twice the filters."""
    for i in range(5):
        x = n.conv(x, filters << i % 2, 1 + 2 * (i % 2), act="leaky")
    return x


def yolo_v4(n: Model, x: str) -> Graph:
    """Build YOLOv4 (Bochkovskiy et al., 2020): CSPDarknet-53 with mish, spatial pyramid pooling, paths up and down with leaky relu."""
    x = n.conv(x, 32, 3, act="mish")
    kept = []
    for filters, count in ((64, 1), (128, 2), (256, 8), (512, 8), (1024, 4)):
        x = csp_darknet(n, n.conv(x, filters, 3, 2, act="mish"), filters, count)
        kept.append(x)
    x = n.conv(n.conv(n.conv(x, 512, 1, act="leaky"), 1024, 3, act="leaky"), 512, 1, act="leaky")
    x = n.node("concat", [*[n.pool(x, size, 1, size // 2) for size in (13, 9, 5)], x], axis=1)
    x = coarse = n.conv(n.conv(n.conv(x, 512, 1, act="leaky"), 1024, 3, act="leaky"), 512, 1, act="leaky")
    ups = []
    for filters, beside in ((256, kept[3]), (128, kept[2])):
        other = n.conv(beside, filters, 1, act="leaky")
        x = five(n, n.node("concat", [other, n.up(n.conv(x, filters, 1, act="leaky"))], axis=1), filters)
        ups.append(x)
    found = [n.conv(x, 256, 3, act="leaky")]
    for filters, beside in ((256, ups[0]), (512, coarse)):
        x = five(n, n.node("concat", [n.conv(x, filters, 3, 2, act="leaky"), beside], axis=1), filters)
        found.append(n.conv(x, 2 * filters, 3, act="leaky"))
    return yolo_heads(n, found)


def csp_darknet(n: Model, x: str, filters: int, count: int) -> str:
    """Return a stage in two paths, one through residual blocks; the first stage keeps its width in both."""
    half = filters if count == 1 else filters // 2
    past, y = n.conv(x, half, 1, act="mish"), n.conv(x, half, 1, act="mish")
    for _ in range(count):
        y = n.node("add", [y, n.conv(n.conv(y, filters // 2, 1, act="mish"), half, 3, act="mish")])
    return n.conv(n.node("concat", [n.conv(y, half, 1, act="mish"), past], axis=1), filters, 1, act="mish")


# ---------------------------------------------------------------- YOLOX, YOLOv7

def yolox(width: float, depth: float) -> Callable[[Model, str], Graph]:
    """Build YOLOX (Ge et al., 2021) with SiLU. Its first step, every second pixel into channels and a 3x3, is one 6x6 convolution of stride
    2."""
    def build(n: Model, x: str) -> Graph:
        w, d = int(64 * width), max(round(3 * depth), 1)
        x = n.conv(x, w, 6, 2, act="silu", pad=2)
        kept = []
        for i, count in enumerate((d, 3 * d, 3 * d, d)):
            x = n.conv(x, w << i + 1, 3, 2, act="silu")
            if i == 3:
                x = n.conv(x, w << 3, 1, act="silu")
                x = n.conv(n.node("concat", [x, *[n.pool(x, size, 1, size // 2) for size in (5, 9, 13)]], axis=1), w << 4, 1, act="silu")
            x = csp(n, x, w << i + 1, count, i < 3)
            kept.append(x)
        less = n.conv(x, w << 3, 1, act="silu")
        middle = csp(n, n.node("concat", [n.up(less), kept[2]], axis=1), w << 3, d, False)
        small = n.conv(middle, w << 2, 1, act="silu")
        out = [csp(n, n.node("concat", [n.up(small), kept[1]], axis=1), w << 2, d, False)]
        for i, beside in ((3, small), (4, less)):
            down = n.conv(out[-1], n.shape(out[-1])[1], 3, 2, act="silu")
            out.append(csp(n, n.node("concat", [down, beside], axis=1), w << i, d, False))
        return n.graph(*[y for x in out for y in apart(n, x, w << 2)])
    return build


def csp(n: Model, x: str, filters: int, count: int, short: bool) -> str:
    """Return two paths of half the filters, one through `count` blocks, with a way around each where `short`."""
    y, past = (n.conv(x, filters // 2, 1, act="silu") for _ in range(2))
    for _ in range(count):
        z = n.conv(n.conv(y, filters // 2, 1, act="silu"), filters // 2, 3, act="silu")
        y = n.node("add", [y, z]) if short else z
    return n.conv(n.node("concat", [y, past], axis=1), filters, 1, act="silu")


def apart(n: Model, x: str, filters: int) -> list[str]:
    """Return the head that parts classes from boxes."""
    x = n.conv(x, filters, 1, act="silu")
    kinds, sides = (n.conv(n.conv(x, filters, 3, act="silu"), filters, 3, act="silu") for _ in range(2))
    return [n.conv(kinds, COCO, 1, act="sigmoid"), n.conv(sides, 4, 1, act=""), n.conv(sides, 1, 1, act="sigmoid")]


def yolo_v7_w6(n: Model, x: str) -> Graph:
    """Build YOLOv7-W6 (Wang et al., 2022): four scales with SiLU; its first step is one 6x6 convolution, as in `yolox`."""
    x = n.conv(x, 64, 6, 2, act="silu", pad=2)
    kept = []
    for filters in (128, 256, 512, 768, 1024):
        x = elan(n, n.conv(x, filters, 3, 2, act="silu"), filters // 2, filters // 2, filters, (5, 3, 1, 0))
        kept.append(x)
    ups = [spp_csp(n, x, 512)]
    for filters, beside in ((384, kept[3]), (256, kept[2]), (128, kept[1])):
        other = n.conv(beside, filters, 1, act="silu")
        x = n.node("concat", [other, n.up(n.conv(ups[-1], filters, 1, act="silu"))], axis=1)
        ups.append(elan(n, x, filters, filters // 2, filters, (5, 4, 3, 2, 1, 0)))
    out = [ups.pop()]
    for filters in (256, 384, 512):
        x = n.node("concat", [n.conv(out[-1], filters, 3, 2, act="silu"), ups.pop()], axis=1)
        out.append(elan(n, x, filters, filters // 2, filters, (5, 4, 3, 2, 1, 0)))
    return yolo_heads(n, [n.conv(y, filters, 3, act="silu") for y, filters in zip(out, (256, 512, 768, 1024))])


def elan(n: Model, x: str, first: int, each: int, filters: int, taken: Sequence[int]) -> str:
    """Return two 1x1 side by side, four 3x3 behind the second; those that are `taken` together, and a 1x1."""
    made = [n.conv(x, first, 1, act="silu") for _ in range(2)]
    for _ in range(4):
        made.append(n.conv(made[-1], each, 3, act="silu"))
    return n.conv(n.node("concat", [made[i] for i in taken], axis=1), filters, 1, act="silu")


def spp_csp(n: Model, x: str, filters: int) -> str:
    """Add spatial pyramid pooling in one of two paths."""
    past, y = (n.conv(x, filters, 1, act="silu") for _ in range(2))
    y = n.conv(n.conv(y, filters, 3, act="silu"), filters, 1, act="silu")
    y = n.node("concat", [y, *[n.pool(y, size, 1, size // 2) for size in (5, 9, 13)]], axis=1)
    y = n.conv(n.conv(y, filters, 1, act="silu"), filters, 3, act="silu")
    return n.conv(n.node("concat", [y, past], axis=1), filters, 1, act="silu")


# ---------------------------------------------------------------- SSD, RetinaNet

def ssd_heads(n: Model, parts: Sequence[str], boxes: Sequence[int]) -> Graph:
    """Return four sides and scores of classes and background for each box, in rows of a pixel."""
    return n.graph(*[n.turned(n.conv(x, count * each, 3, act=""), 0, 2, 3, 1) for x, count in zip(parts, boxes) for each in (4, COCO + 1)])


def ssd300(n: Model, x: str) -> Graph:
    """Build SSD300 (Liu et al., 2016) on VGG-16, whose fourth stage is normalised along its channels."""
    parts = []
    for i, (count, filters) in enumerate(((2, 64), (2, 128), (3, 256), (3, 512), (3, 512))):
        for _ in range(count):
            x = n.conv(x, filters, 3)
        if i == 3:
            parts.append(n.node("mul", [n.unit(x), n.zeros("scale", (1, filters, 1, 1))]))
        x = n.pool(x, 3, 1, 1) if i == 4 else n.pool(x, 2, 2, 0, n.shape(x)[2] % 2)
    x = n.conv(n.conv(x, 1024, 3, dilation=6), 1024, 1)
    parts.append(x)
    for less, more, stride, pad in ((256, 512, 2, 1), (128, 256, 2, 1), (128, 256, 1, 0), (128, 256, 1, 0)):
        x = n.conv(n.conv(x, less, 1), more, 3, stride, pad=pad)
        parts.append(x)
    return ssd_heads(n, parts, (4, 6, 6, 6, 4, 4))


def ssd_resnet34(n: Model, x: str) -> Graph:
    """Build SSD on ResNet-34 as MLPerf trains it: the backbone ends with its third stage, which keeps 38 x 38 places."""
    x = n.pool(n.conv(x, 64, 7, 2), 3, 2, 1)
    for planes, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 1)):
        for i in range(count):
            x = residual(n, x, planes, stride if not i else 1, False, 1, planes)
    parts = [x]
    for less, more, stride, pad in ((256, 512, 2, 1), (256, 512, 2, 1), (128, 256, 2, 1), (128, 256, 1, 0), (128, 256, 1, 0)):
        x = n.conv(n.conv(x, less, 1), more, 3, stride, pad=pad)
        parts.append(x)
    return ssd_heads(n, parts, (4, 6, 6, 6, 4, 4))


def retinanet(n: Model, x: str) -> Graph:
    """Build RetinaNet (Lin et al., 2017) on ResNet-50: five scales of 256 channels, two heads of four convolutions, shared by the
    scales."""
    _, c3, c4, c5 = pyramid(n, x, (3, 4, 6, 3))
    p5 = n.conv(c5, 256, 1, act="")
    p4 = n.node("add", [n.conv(c4, 256, 1, act=""), n.up(p5)])
    p3 = n.node("add", [n.conv(c3, 256, 1, act=""), n.up(p4)])
    parts = [n.conv(p, 256, 3, act="") for p in (p3, p4, p5)]
    parts.append(n.conv(c5, 256, 3, 2, act=""))
    parts.append(n.conv(n.node("relu", [parts[-1]]), 256, 3, 2, act=""))
    found = []
    for p in parts:
        for each in (4, COCO):
            y = p
            for _ in range(4):
                y = n.conv(y, 256, 3)
            found.append(n.turned(n.conv(y, 9 * each, 3, act=""), 0, 2, 3, 1))
    return n.graph(*found)
