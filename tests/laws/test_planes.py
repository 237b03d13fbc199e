"""Convolutions whose planes a product makes: the same values in graphs and programs, and a choice that is not slower."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aoec
from aoec.artifact.artifact import load_gears
from aoec.frontend.translate.onnx import load
from aoec.jobs.choose.alone import time_groups
from aoec.jobs.compile.images_by_time import keep_images, say_unchanged
from aoec.lowering.arrange.fuse import fuse
from aoec.ops.run import evaluate
from aoec.target.machine import load as load_machine
from tests.frontend.models import feeds_of, model, node, normal, run
from tests.laws.turns import in_turn
from tests.lowering.test_views import Memory

pytestmark = pytest.mark.usefixtures("few")  # what is compared hangs on no long search

MACHINES = "Ascend910B3", "Ascend310P3"


def head(batch: int, channels: int, count: int, sides: tuple[int, int], biased: bool, reshaped: str, seed: int = 0) -> onnx.ModelProto:
    """A convolution, one of single pixels behind it, and what is done to its planes."""
    rng = np.random.default_rng(seed)
    constants = {"w": rng.integers(-1, 2, (channels, 16, 1, 1)).astype(np.float32), "p": normal(count, channels, 1, 1, seed=seed)}
    constants |= {"b": normal(count, seed=seed + 1)} if biased else {}
    h, w = sides
    shapes = {"anchors": [batch, 3, count // 3, h, w], "planes": [batch, count, h * w], "mixed": [batch, count * h, w], "rows": [batch, -1]}
    nodes = [node("Conv", "x w", "a"), node("Relu", "a", "c"), node("Conv", "c p b" if biased else "c p", "d")]
    if reshaped:
        constants["s"] = np.array(shapes[reshaped])
        nodes += [node("Reshape", "d s", "e"), node("Sigmoid", "e", "y")]
    else:
        nodes[-1].output[0] = "y"
    return model(nodes, {"x": [batch, 16, h, w]}, ["y"], constants)


@st.composite
def heads(draw: st.DrawFn) -> onnx.ModelProto:
    """Heads of 1 to 3 images, some of which cannot be products."""
    sides = draw(st.sampled_from([(4, 4), (8, 4), (2, 8), (5, 5), (3, 16)]))
    return head(draw(st.integers(1, 3)), draw(st.sampled_from([16, 32, 24])), 3 * draw(st.integers(1, 9)), sides, draw(st.booleans()),
                draw(st.sampled_from(["", "anchors", "planes", "mixed", "rows"])), draw(st.integers(0, 99)))


@settings(deadline=None)
@given(heads(), st.integers(0, 2**32))
def test_products_give_what_convolutions_do(proto: onnx.ModelProto, seed: int) -> None:
    """To one rounding of the sum before the bias is added."""
    graph, weights, _ = load(proto, {}, "fp16")
    shape = next(t.shape for t in graph.tensors if t.name == graph.inputs[0])
    feeds = {graph.inputs[0]: np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float16)}
    ((name, wanted),) = evaluate(graph, feeds, weights).items()
    last = next(n for n in reversed(graph.nodes) if n.op == "conv2d")
    images = [t for t in graph.tensors if t.name in (last.inputs[0], last.outputs[0])]
    fits = images[0].shape[1] % 16 == 0 == np.prod(images[0].shape[2:]) % 16
    for exceptions in ((), (f"{last.name}.planes",)):
        fused, stored = fuse(graph, weights, load_machine(MACHINES[0]), exceptions)
        made = evaluate(fused, feeds, stored)[name]
        np.testing.assert_allclose(made.astype(np.float32), wanted.astype(np.float32), rtol=4e-3, atol=4e-2)
        assert any(n.op == "matmul" for n in fused.nodes) == (bool(fits) and not exceptions)


# `make test` asks each case of one machine, in turn; make test-all asks both machines
@pytest.mark.parametrize("batch, reshaped, biased, target", in_turn([(1, "anchors", True), (1, "", False), (2, "planes", True)], MACHINES))
def test_programs_give_the_values(batch: int, reshaped: str, biased: bool, target: str, tmp_path: Path) -> None:
    proto = head(batch, 32, 21, (8, 16), biased, reshaped)
    aoec.compile(proto, tmp_path / "x.aoec", target=target, precision="fp16")
    (made,) = load_gears(tmp_path / "x.aoec")
    assert any(n.op == "matmul" for n in made.graph.nodes) and not any(n.op == "from_nc1hwc0" for n in made.graph.nodes)
    feeds = feeds_of(proto)
    for got, wanted in zip(Memory(made).run(feeds), run(proto, feeds)):
        np.testing.assert_allclose(got.astype(np.float32), wanted, rtol=2e-2, atol=2e-2 * float(np.abs(wanted).max()))


@pytest.mark.parametrize("side, target", in_turn([4, 16, 80], MACHINES))
def test_what_is_chosen_is_not_slower(side: int, target: str) -> None:
    machine = load_machine(target)
    graph, weights, _ = load(head(1, 32, 255, (side, side), True, "anchors"), {}, "fp16")
    last = next(n for n in reversed(graph.nodes) if n.op == "conv2d")
    chosen, kept = (time_groups(fuse(graph, weights, machine, way)[0], machine)
                    for way in ([u.exception for u in keep_images(graph, machine)], [f"{last.name}.planes"]))
    assert chosen <= kept


@pytest.mark.parametrize("target", MACHINES)
def test_a_bias_that_would_be_a_launch_stays_in_the_convolution(target: str) -> None:
    graph, _, _ = load(head(1, 32, 21, (8, 16), True, ""), {}, "fp16")
    (found,) = keep_images(graph, load_machine(target))
    assert found.kept_us <= found.other_us and "convolution with its conversion kept" in say_unchanged([found])[0]
