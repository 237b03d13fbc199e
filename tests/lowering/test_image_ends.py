"""Images that are padded with what they have themselves stay in NC1HWC0 between convolutions: their ends are slices beside the whole."""
from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest

from aoec.frontend.translate.onnx import load as load_model
from aoec.jobs.choose.model_tasks import tasks
from aoec.jobs.tune.tuning import problem, start
from aoec.jobs.verify.verify import verify_group
from aoec.lowering.arrange.fuse import fuse
from aoec.ops.run import evaluate
from aoec.target.legality.check import check
from aoec.target.machine import load
from tests.frontend.models import feeds_of, model, node, normal, run
from tests.laws.turns import in_turn

FAMILIES = ("Ascend910B3", "Ascend310P3", "Ascend310B1", "Ascend910A", "Ascend310", "Ascend950PR_958x")
MODES = {"reflect": ([2, 1, 1, 3], 4), "edge": ([2, 1, 1, 3], 4), "wrap": ([2, 1, 1, 3], 4), "reflect ": ([0, 2, 0, 0], 1)}


def between(mode: str, channels: int, size: int = 9) -> onnx.ModelProto:
    """Two convolutions with padding between them."""
    ends = MODES[mode][0]
    pads = np.array([0, 0, *ends[:2], 0, 0, *ends[2:]])
    nodes = [node("Conv", "x w", "a", pads=[1, 1, 1, 1]), node("Pad", "a pads", "b", mode=mode.strip()), node("Conv", "b v", "y")]
    return model(nodes, {"x": (2, 8, size, size + 1)}, ["y"], {
        "w": normal(channels, 8, 3, 3) / 8, "v": normal(5, channels, 3, 3) / 8, "pads": pads}, opset=19)


@pytest.mark.parametrize("channels", [16, 20])
@pytest.mark.parametrize("mode", MODES)
def test_they_are_not_converted(mode: str, channels: int) -> None:
    proto = between(mode, channels)
    graph, weights, _ = load_model(proto, {}, "fp32")
    graph, weights = fuse(graph, weights, load("Ascend310P3"))
    found = Counter(n.op for n in graph.nodes)
    assert found["from_nc1hwc0"] == 1 and found["slice"] == MODES[mode][1] and found["concat"] == 2 - (mode == "reflect ")
    feeds = feeds_of(proto)
    np.testing.assert_allclose(evaluate(graph, feeds, weights)["y"], run(proto, feeds)[0], rtol=1e-4, atol=1e-4)


# `make test` asks each family one precision, in turn; make test-all asks both
@pytest.mark.parametrize("target, precision", in_turn(FAMILIES, ["fp16", "fp32"]))
def test_their_programs_are_right(target: str, precision: str) -> None:
    machine = load(target)
    for mode in ("reflect", "edge"):
        graph, weights, _ = load_model(between(mode, 20), {}, precision)
        graph, weights = fuse(graph, weights, machine)
        for task in tasks(graph, machine):
            if "conv2d" not in task.label:
                p = problem(task.func, machine, task.state)
                program = p.program(start(p).best)
                check(program, machine)
                assert verify_group(graph, task.group, program, task.bindings, weights) == [], (mode, task.label)


@pytest.mark.parametrize("target, most_us", [("Ascend310P3", 52), ("Ascend910B3", 32)])  # 104 and 56 before
def test_they_are_faster(target: str, most_us: float) -> None:
    machine = load(target)
    nodes = [node("Conv", "x w", "a", pads=[1, 1, 1, 1]), node("Pad", "a pads", "b", mode="reflect"), node("Conv", "b w", "y")]
    proto = model(nodes, {"x": (1, 64, 56, 56)}, ["y"], {"w": normal(64, 64, 3, 3), "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1])})
    graph, weights, _ = load_model(proto)
    problems = [problem(t.func, machine, t.state) for t in tasks(fuse(graph, weights, machine)[0], machine)]
    assert sum(start(p).ticks for p in problems) * machine.us_per_tick < most_us
