"""Convolutions of one image: joined and apart they give the same, in graphs and in one memory, and what is chosen is faster."""
from __future__ import annotations

from math import inf
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aoec
from aoec.artifact.artifact import load_gears
from aoec.frontend.translate.onnx import load
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Graph
from aoec.jobs.choose.alone import time_groups
from aoec.jobs.compile.images_by_time import JOINED, PLANES, Unchanged, keep_images, say_unchanged
from aoec.lowering.arrange.fuse import fuse
from aoec.lowering.arrange.images.siblings import find_siblings
from aoec.lowering.arrange.views import places
from aoec.ops.run import evaluate
from aoec.target.machine import load as load_machine
from tests.frontend.models import feeds_of, model, node, normal, run
from tests.laws.turns import in_turn
from tests.lowering.test_views import Memory

pytestmark = pytest.mark.usefixtures("few")  # what is compared hangs on no long search

MACHINES = "Ascend910B3", "Ascend310P3"
ACTIVATIONS = ((), ("Relu",), ("Sigmoid",), ("Relu", "Sigmoid"), ("HardSwish",))


def whole(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Whole numbers so small that sums of products of them are exact in halves."""
    return rng.integers(-1, 2, shape).astype(np.float32)


@st.composite
def nets(draw: st.DrawFn) -> onnx.ModelProto:
    """Two to four convolutions of one image, each with an activation, and a concat of some results with work on one of them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    side, batch = draw(st.sampled_from([4, 8, 8, 5])), draw(st.sampled_from([1] * 7 + [2]))
    constants: dict[str, np.ndarray] = {}
    nodes, results, counts = [], [], {}
    kernels = draw(st.sampled_from([(1,), (3,), (1, 3)]))
    act = draw(st.sampled_from(ACTIVATIONS))
    for i in range(draw(st.integers(2, 4))):
        count, kernel = draw(st.sampled_from([16, 32, 32, 48, 48, 24])), draw(st.sampled_from(kernels))
        constants[f"w{i}"] = whole(rng, count, 16, kernel, kernel)
        biased = draw(st.booleans())
        if biased:
            constants[f"b{i}"] = whole(rng, count)
        nodes.append(node("Conv", f"x w{i}" + f" b{i}" * biased, f"c{i}", pads=[kernel // 2] * 4))
        last = f"c{i}"
        for op in draw(st.sampled_from([act, act, act, *ACTIVATIONS])):
            nodes.append(node(op, last, f"{last}_{op}"))
            last = f"{last}_{op}"
        results.append(last)
        counts[last] = count
    outputs = []
    worked = draw(st.sampled_from(results))
    nodes.append(node("Abs", worked, "worked"))
    counts["worked"] = counts[worked]
    joined = draw(st.lists(st.sampled_from([*results, "worked"]), min_size=2, max_size=4, unique=draw(st.booleans())))
    if not draw(st.booleans()):
        joined = []
    if joined:
        nodes += [node("Concat", " ".join(joined), "j", axis=1), node("MaxPool", "j", "y", kernel_shape=[2, 2])]
        outputs.append("y")
    for name in dict.fromkeys([*results, "worked"]):
        if name not in joined or draw(st.booleans()):
            nodes.append(node("MaxPool", name, f"{name}_y", kernel_shape=[2, 2]))
            outputs.append(f"{name}_y")
    return model(nodes, {"x": [batch, 16, side, side]}, outputs, constants)


@settings(deadline=None)
@given(nets(), st.integers(0, 2**32))
def test_joined_and_apart_give_the_same(proto: onnx.ModelProto, seed: int) -> None:
    graph, weights, _ = load(proto, {}, "fp16")
    shape = next(t.shape for t in graph.tensors if t.name == graph.inputs[0])
    feeds = {graph.inputs[0]: np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float16)}
    wanted = evaluate(graph, feeds, weights)
    found = find_siblings(Draft.of(graph, weights))
    machine = load_machine(MACHINES[0])
    for exceptions in ([], [s.exception for s in found]):
        fused, stored = fuse(graph, weights, machine, exceptions)
        for name, value in evaluate(fused, feeds, stored).items():
            np.testing.assert_array_equal(value, wanted[name])
        places(fused)
    joint = [n for n in fuse(graph, weights, machine)[0].nodes if n.op in ("conv2d_packed", "matmul")]
    assert len(joint) == sum(n.op == "conv2d" for n in graph.nodes) - sum(len(s.branches) - 1 for s in found)


C3 = ([node("Conv", "x p", "a"), node("HardSwish", "a", "b"), node("Conv", "b k", "c", pads=[1, 1, 1, 1]), node("HardSwish", "c", "d"),
       node("Add", "d b", "e"), node("Conv", "x q", "f"), node("HardSwish", "f", "g"), node("Concat", "e g", "h", axis=1),
       node("Conv", "h v", "y")], "p q k v")
BRANCHES = ([node("Conv", "x p", "a"), node("Relu", "a", "b"), node("Conv", "x q", "c"), node("Relu", "c", "d"),
             node("Conv", "x r", "e"), node("Relu", "e", "f"), node("Conv", "d k", "g", pads=[1, 1, 1, 1]), node("Relu", "g", "h"),
             node("Conv", "f k", "i", pads=[1, 1, 1, 1]), node("Relu", "i", "j"), node("Concat", "b h j", "l", axis=1),
             node("Conv", "l u", "y")], "p q r k u")
EVERY = ([node("Conv", "x p", "a"), node("Conv", "x q", "b"), node("Concat", "a b", "c", axis=1), node("Conv", "c v", "y")], "p q v")
W = {"p": normal(32, 32, 1, 1, seed=1), "q": normal(32, 32, 1, 1, seed=2), "r": normal(32, 32, 1, 1, seed=3),
     "k": normal(32, 32, 3, 3, seed=4) / 4, "v": normal(32, 64, 1, 1, seed=5), "u": normal(32, 96, 1, 1, seed=6)}


def of(nodes: list[onnx.NodeProto], constants: str, batch: int = 1, side: int = 16) -> onnx.ModelProto:
    return model(nodes, {"x": [batch, 32, side, side]}, ["y"], {name: W[name] for name in constants.split()})


NETS = {"c3": C3, "branches": BRANCHES, "every": EVERY}


# `make test` asks each net of one machine, and of the other whether what is chosen is slower; make test-all asks all
@pytest.mark.parametrize("net, target", in_turn(NETS, MACHINES))
def test_joint_results_lie_in_one_memory(net: str, target: str, tmp_path: Path) -> None:
    """Programs of all groups give onnxruntime's values, and no launch moves channels."""
    proto = of(*NETS[net])
    aoec.compile(proto, tmp_path / "x.aoec", target=target, precision="fp16")
    (made,) = load_gears(tmp_path / "x.aoec")
    nodes = {n.name: n for n in made.graph.nodes}
    assert sum(n.op == "conv2d_packed" for n in made.graph.nodes) < sum(n.op_type == "Conv" for n in proto.graph.node)
    assert all(g.kind == "view" for g in made.graph.groups if {nodes[n].op for n in g.nodes} & {"slice", "concat"})
    feeds = feeds_of(proto)
    for got, wanted in zip(Memory(made).run(feeds), run(proto, feeds)):
        np.testing.assert_allclose(got.astype(np.float32), wanted, rtol=2e-2, atol=2e-2 * float(np.abs(wanted).max()))


@pytest.mark.parametrize("net, target", in_turn(NETS, MACHINES, 1))
def test_what_is_chosen_is_not_slower(net: str, target: str) -> None:
    machine = load_machine(target)
    graph, weights, _ = load(of(*NETS[net]), {}, "fp16")
    apart = [a.exception for a in keep_images(graph, machine)]
    every = [s.exception for s in find_siblings(Draft.of(graph, weights))]
    assert every
    assert time_us(graph, weights, machine, apart) <= time_us(graph, weights, machine, every)


def time_us(graph: Graph, weights: dict[str, np.ndarray], machine: object, exceptions: list[str]) -> float:
    return time_groups(fuse(graph, weights, machine, exceptions)[0], machine)  # type: ignore[arg-type]


@pytest.mark.parametrize("batch, side", [(2, 16), (1, 5)])
def test_parts_that_are_no_runs_stay_apart(batch: int, side: int) -> None:
    """Of two images, and of 5 x 5 pixels, where the second part would begin at 1,600 bytes."""
    graph, weights, _ = load(of(*C3, batch, side), {}, "fp16")
    assert not find_siblings(Draft.of(graph, weights))


def test_alike_sets_are_said_once() -> None:
    found = [Unchanged(("a", "b"), "a.siblings", JOINED, 2.06, 3.4), Unchanged(("c",), "c.planes", PLANES, 1.5, inf),
             Unchanged(("e", "f"), "e.siblings", JOINED, 2.06, 3.4)]
    assert say_unchanged(found) == [
        "a and b and 1 other like this: convolutions of one image kept apart, 2.1 us against 3.4 us joined, with what makes the image, "
        "modelled",
        "c: convolution with its conversion kept, 1.5 us against no schedule as a product, with what makes the image, modelled"]
