"""Whole models of published throughput rows, as graphs of aoec's own: architectures by their papers, weights whose values do not matter.

Batch normalisation stands folded into the convolution before it, as an inference compiler leaves it.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

from aoec.base.errors import AoecError, UnsupportedError
from aoec.ir.graph import Graph
from aoec.simulate.time import Measure, chain
from bench.cases.case import Case
from bench.cases.chips import chip_of, machine_of
from bench.cases.graphs import Net
from bench.cases.library import tune
from bench.cases.score import Result, Score, by
from bench.cases.show import line, row


class Model(Net):
    """A network while it grows."""

    def conv(self, x: str, filters: int, kernel: int, stride: int = 1, group: int = 1, act: str = "relu", pad: int = -1) -> str:
        """Convolution with bias, and its activation."""
        before = kernel // 2 if pad < 0 else pad
        w = self.zeros("w", (filters, self.shape(x)[1] // group, kernel, kernel))
        b = self.zeros("b", (filters,), "fp32")
        y = self.node("conv2d", [x, w, b], stride=(stride, stride), pad=(before,) * 4, dilation=(1, 1), group=group)
        return y if not act else self.node("clip", [y], lo=0.0, hi=6.0) if act == "relu6" else self.node(act, [y])

    def pool(self, x: str, kernel: int, stride: int, pad: int, ceil: int = 0) -> str:
        """Maximum over windows; `ceil` more rows and columns of padding at the end."""
        pads = (pad, pad, pad + ceil, pad + ceil)
        return self.node("max_pool", [x], kernel=(kernel, kernel), stride=(stride, stride), pad=pads, dilation=(1, 1))

    def dense(self, x: str, features: int, act: str = "") -> str:
        """Linear layer on rows."""
        y = self.node("matmul", [x, self.zeros("w", (self.shape(x)[1], features)), self.zeros("b", (features,), "fp32")])
        return self.node(act, [y]) if act else y

    def rows(self, x: str) -> str:
        """The tensor as [batch, features]."""
        n, *rest = self.shape(x)
        count = 1
        for r in rest:
            count *= r
        return self.node("reshape", [x], shape=(n, count))

    def classified(self, x: str) -> Graph:
        """Mean over the image, linear layer, result."""
        return self.graph(self.dense(self.rows(self.node("global_avg_pool", [x])), 1000))


def resnet(blocks: Sequence[int], deep: bool, group: int = 1, width: int = 64) -> Callable[[Model, str], Graph]:
    """ResNet (He et al., 2015, stride in the 3x3) and ResNeXt (Xie et al., 2016): bottlenecks where `deep`."""
    def build(n: Model, x: str) -> Graph:
        x = n.pool(n.conv(x, 64, 7, 2), 3, 2, 1)
        for stage, count in enumerate(blocks):
            for i in range(count):
                x = residual(n, x, 64 << stage, 2 if stage and not i else 1, deep, group, width << stage)
        return n.classified(x)
    return build


def residual(n: Model, x: str, planes: int, stride: int, deep: bool, group: int, width: int) -> str:
    """One block, added to its input or to a projection of it."""
    out = planes * 4 if deep else planes
    short = x if stride == 1 and n.shape(x)[1] == out else n.conv(x, out, 1, stride, act="")
    if deep:
        y = n.conv(n.conv(n.conv(x, width, 1), width, 3, stride, group), out, 1, act="")
    else:
        y = n.conv(n.conv(x, planes, 3, stride), planes, 3, act="")
    return n.node("relu", [n.node("add", [y, short])])


def vgg16(n: Model, x: str) -> Graph:
    """VGG-16 (Simonyan and Zisserman, 2014)."""
    for count, filters in ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)):
        for _ in range(count):
            x = n.conv(x, filters, 3)
        x = n.pool(x, 2, 2, 0)
    return n.graph(n.dense(n.dense(n.dense(n.rows(x), 4096, "relu"), 4096, "relu"), 1000))


def mobilenet_v1(n: Model, x: str) -> Graph:
    """MobileNet v1 (Howard et al., 2017)."""
    x = n.conv(x, 32, 3, 2, act="relu6")
    for filters, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)):
        x = n.conv(x, n.shape(x)[1], 3, stride, n.shape(x)[1], "relu6")
        x = n.conv(x, filters, 1, act="relu6")
    return n.classified(x)


def mobilenet_v2(n: Model, x: str) -> Graph:
    """MobileNet v2 (Sandler et al., 2018)."""
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
    """GoogLeNet (Szegedy et al., 2014) with batch normalisation in place of local response normalisation, as torchvision has it."""
    x = n.pool(n.conv(x, 64, 7, 2), 3, 2, 0, 1)
    x = n.pool(n.conv(n.conv(x, 64, 1), 192, 3), 3, 2, 0, 1)
    for i, (one, less3, three, less5, five, pooled) in enumerate(INCEPTIONS):
        if i in (2, 7):
            x = n.pool(x, 3 if i == 2 else 2, 2, 0, 1 if i == 2 else 0)
        parts = [n.conv(x, one, 1), n.conv(n.conv(x, less3, 1), three, 3), n.conv(n.conv(x, less5, 1), five, 3),
                 n.conv(n.pool(x, 3, 1, 1), pooled, 1)]
        x = n.node("concat", parts, axis=1)
    return n.classified(x)


MODELS: dict[str, Callable[[Model, str], Graph]] = {
    "resnet18": resnet((2, 2, 2, 2), False), "resnet34": resnet((3, 4, 6, 3), False), "resnet50": resnet((3, 4, 6, 3), True),
    "resnet101": resnet((3, 4, 23, 3), True), "resnet152": resnet((3, 8, 36, 3), True), "resnext50": resnet((3, 4, 6, 3), True, 32, 128),
    "vgg16": vgg16, "mobilenet_v1": mobilenet_v1, "mobilenet_v2": mobilenet_v2, "googlenet": googlenet}


def model_graph(case: Case) -> Graph:
    """The graph of a model row at its batch, image and precision; UnsupportedError with what is missing."""
    name = case.operator.removeprefix("model_")
    if name not in MODELS:
        raise UnsupportedError(f"no {name} among the models that are built: {', '.join(MODELS)}")
    if case.dtypes[0] != "fp16":
        raise UnsupportedError(f"models are built in fp16; the row is {case.dtypes[0]}")
    s = case.shape.sizes
    net = Model(name, "fp16")
    image = tuple(s.get(f"image{i}", d) for i, d in enumerate((3, 224, 224)))
    return MODELS[name](net, net.input("data", (s.get("batch", 1), *image)))


def run(case: Case, trials: int, done: dict[tuple[str, str], tuple[Measure, float]]) -> Result:
    """Inferences a second, back to back on the row's devices, modelled; the bound is what no schedule of the groups can beat."""
    try:
        if case.metric != "throughput":
            raise UnsupportedError(f"{case.metric} of a whole model is not compared")
        machine, devices = machine_of(case.chip), chip_of(case.chip).devices
        best = tune(model_graph(case), machine, trials, done)
    except AoecError as e:
        return Result(case, reason=" ".join(str(e).split()), unit="throughput")
    period_us = chain(best.measures, machine).throughput_us
    each = case.shape.sizes.get("batch", 1) * devices * 1e6
    launches = sum(m.launch_us for m in best.measures)
    least_us = max(best.bound_us - launches, 1e-9) + machine.queue_gap_us * len(best.measures)
    value = each / period_us
    how = (f"{len(best.measures)} groups, {period_us:,.0f} us an inference on {devices} device{'s' * (devices > 1)}; "
           f"bound {each / least_us:,.0f} a second")
    return Result(case, value, best.bound_by.split(":")[0], how, chip_of(case.chip).remark, bound=each / least_us, unit="throughput")


def by_model(results: Sequence[Result]) -> dict[str, Score]:
    """Scores over the batch sizes of each model on each chip."""
    told = [r for r in results if r.modelled is not None]
    return by(told, lambda r: f"{r.case.operator} {r.case.chip} {r.case.shape.sizes.get('image1', '')}")


def text(results: Sequence[Result]) -> str:
    """The table of models, ranks over batch sizes, and what is beyond the bound."""
    beyond = [r.case.id for r in results if r.modelled is not None and r.bound is not None and r.modelled > r.bound]
    told = sum(r.modelled is not None for r in results)
    built = f"models: {told} of {len(results)} rows built; faster than the bound: {beyond or 'none'}"
    columns = f"{'model, chip, image':32} {'rows':>5} {'mean':>7} {'median':>7} {'Spearman':>9}"
    return "\n".join([*[line(r) for r in results], "", built, "", columns, *[row(n, s)[:64] for n, s in by_model(results).items()]]) + "\n"
