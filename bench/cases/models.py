"""Whole models of published throughput rows, as graphs of aoec's own: architectures by their papers, weights whose values do not matter."""
from __future__ import annotations

from collections.abc import Callable, Mapping

from aoec.base.errors import AoecError, UnsupportedError
from aoec.ir.graph.graph import Graph
from aoec.simulate.timing.time import chain
from bench.cases.case import Case
from bench.cases.chips import chip_of, machine_of
from bench.cases.library import tune
from bench.cases.models_detect import retinanet, ssd300, ssd_resnet34, yolo_v3, yolo_v4, yolo_v7_w6, yolox
from bench.cases.models_text import WORDS_CHINESE, bert, vit
from bench.cases.models_vision import efficientnet_v2_s, googlenet, mobilenet_v1, mobilenet_v2, resnet, unet, vgg16
from bench.cases.near import Done
from bench.cases.net import Model
from bench.cases.score import Result
from bench.cases.slices import in_slices

# from images; the first size is the batch
IMAGES: Mapping[str, Callable[[Model, str], Graph]] = {
    "resnet18": resnet((2, 2, 2, 2), False), "resnet34": resnet((3, 4, 6, 3), False), "resnet50": resnet((3, 4, 6, 3), True),
    "resnet101": resnet((3, 4, 23, 3), True), "resnet152": resnet((3, 8, 36, 3), True), "resnext50": resnet((3, 4, 6, 3), True, 32, 128),
    "vgg16": vgg16, "mobilenet_v1": mobilenet_v1, "mobilenet_v2": mobilenet_v2, "googlenet": googlenet,
    "efficientnet_v2_s": efficientnet_v2_s, "yolov3": yolo_v3, "yolov4": yolo_v4, "yolox_tiny": yolox(0.375, 0.33), "yolov7_w6": yolo_v7_w6,
    "ssd300": ssd300, "ssd_resnet34": ssd_resnet34, "retinanet": retinanet, "unet": unet,
    "vit_b32": vit(32), "vit_b16": vit(16), "vit_b8": vit(8)}
# from a batch of texts of a length; what the rows' sources say that the models answer
TEXTS: Mapping[str, Callable[[Model, int, int], Graph]] = {
    "bert_base": bert(12, 768), "bert_base_chinese": bert(12, 768, WORDS_CHINESE), "bert_large_squad": bert(24, 1024)}
MISSING = dict.fromkeys(("int8", "mixed"), "what of it is quantised the source does not state")
UNBUILT = {"wav2vec2": "its architecture is not written here"}


def model_graph(case: Case) -> Graph:
    """Return the graph of a model row at its batch, image or length, and precision. Raise UnsupportedError with what is missing."""
    name = case.operator.removeprefix("model_")
    if case.dtypes[0] in MISSING:
        raise UnsupportedError(f"{case.operator} in {case.dtypes[0]}: {MISSING[case.dtypes[0]]}")
    s, net = case.shape.sizes, Model(name, case.dtypes[0])
    net.machine = machine_of(case.chip)
    if name in TEXTS:
        return TEXTS[name](net, s.get("batch", 1), s["seq"])
    if name in UNBUILT:
        raise UnsupportedError(f"{name} is not among the models that are built: {UNBUILT[name]}")
    if name not in IMAGES:
        raise UnsupportedError(f"no {name} among the models that are built: {', '.join((*IMAGES, *TEXTS))}")
    image = tuple(s.get(f"image{i}", d) for i, d in enumerate((3, 224, 224)))
    return IMAGES[name](net, net.input("data", (s.get("batch", 1), *image)))


def run(case: Case, trials: int, done: Done, slices: bool = False) -> Result:
    """Return inferences a second, back to back on the row's devices, modelled; the bound is what no schedule of the groups can beat.
    `slices`: regions of the model run in slices where that is faster."""
    try:
        if case.metric != "throughput":
            raise UnsupportedError(f"{case.metric} of a whole model is not compared")
        machine, devices = machine_of(case.chip), chip_of(case.chip).devices
        graph = model_graph(case)
        whole = best = tune(graph, machine, trials, done)
        if slices and (cut := in_slices(graph, machine, trials, done)):
            best = min(whole, tune(cut, machine, trials, done), key=lambda b: chain(b.measures, machine).throughput_us)
    except AoecError as e:
        return Result(case, reason=" ".join(str(e).split()), unit="throughput")
    period_us = chain(best.measures, machine).throughput_us
    each = case.shape.sizes.get("batch", 1) * devices * 1e6
    launches = sum(m.launch_us for m in best.measures)
    least_us = max(best.bound_us - launches, 1e-9) + machine.queue_gap_us * len(best.measures)
    value = each / period_us
    how = (f"{len(best.measures)} groups, {period_us:,.0f} us an inference on {devices} device{'s' * (devices > 1)}; "
           f"bound {each / least_us:,.0f} a second")
    if best is not whole:
        how += f"; in slices, {each / chain(whole.measures, machine).throughput_us:,.0f} a second whole"
    return Result(case, value, best.bound_by.split(":")[0], how, chip_of(case.chip).remark, bound=each / least_us, unit="throughput")
