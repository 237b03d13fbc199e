"""Concats that a transpose turns in the same launch: onnxruntime's values in graphs, funcs and programs, in less time than two launches."""
from __future__ import annotations

from math import prod

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from aoec.frontend.translate.onnx import load
from aoec.ir.graph.graph import Graph
from aoec.jobs.choose.alone import time_groups
from aoec.jobs.tune.tuning import problem, start
from aoec.lowering.arrange.fuse import fuse, halve_groups
from aoec.ops.run import evaluate
from aoec.target.machine import load as load_machine
from tests.frontend.models import model, node, run
from tests.laws.turns import examples, in_turn
from tests.lowering.groups import case

pytestmark = pytest.mark.usefixtures("small")  # values and times hang on no long search

MACHINES = "Ascend910B3", "Ascend310P3", "Ascend910A"


def parts(lead: tuple[int, ...], counts: list[int], image: tuple[int, ...], sliced: list[bool], perm: tuple[int, ...]) -> onnx.ModelProto:
    """Planes side by side, some of them a slice of more planes, and the transpose of them."""
    axis, nodes, inputs, constants, names = len(lead), [], {}, {"axis": np.array([len(lead)])}, []
    for i, (count, is_sliced) in enumerate(zip(counts, sliced)):
        inputs[f"x{i}"] = [*lead, count + 3 * is_sliced, *image]
        nodes.append(node("Relu", f"x{i}", f"r{i}"))
        names.append(f"r{i}")
        if is_sliced:
            constants |= {f"s{i}": np.array([2]), f"e{i}": np.array([2 + count])}
            nodes.append(node("Slice", f"r{i} s{i} e{i} axis", f"c{i}"))
            names[-1] = f"c{i}"
    nodes += [node("Concat", " ".join(names), "j", axis=axis), node("Transpose", "j", "y", perm=perm)]
    return model(nodes, inputs, ["y"], constants)


@st.composite
def written(draw: st.DrawFn) -> onnx.ModelProto:
    lead = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=2)))
    image = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=2)))
    counts = draw(st.lists(st.integers(1, 20), min_size=2, max_size=4))
    axes = list(range(len(lead) + 1 + len(image)))
    last = [*axes[:len(lead)], *axes[len(lead) + 1:], len(lead)]
    perm = tuple(draw(st.one_of(st.just(last), st.just(last), st.permutations(axes))))
    return parts(lead, counts, image, draw(st.lists(st.booleans(), min_size=len(counts), max_size=len(counts))), perm)


def values_of(proto: onnx.ModelProto, target: str) -> tuple[Graph, dict[str, np.ndarray]]:
    """(fused graph, values of all its tensors), which are onnxruntime's."""
    graph, weights, _ = load(proto, {}, "fp16")
    rng = np.random.default_rng(0)
    shapes = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in proto.graph.input}
    feeds = {name: rng.integers(0, 2000, shape).astype(np.float32) for name, shape in shapes.items()}
    fused, packed = fuse(graph, weights, load_machine(target))
    values = evaluate(fused, feeds, packed, every=True)
    (wanted,) = run(proto, feeds)
    np.testing.assert_array_equal(np.asarray(values[fused.outputs[0]], np.float32).reshape(wanted.shape), wanted)
    return fused, values


def turning(graph: Graph) -> list[str]:
    """Groups that are a concat and the transpose of it."""
    nodes = {n.name: n.op for n in graph.nodes}
    return [g.name for g in graph.groups if [nodes[n] for n in g.nodes][-2:] == ["concat", "transpose"]]


@pytest.mark.parametrize("target", MACHINES[:2])
@settings(deadline=None, max_examples=examples(25))
@given(written())
def test_what_is_turned_in_pieces_has_the_values(target: str, proto: onnx.ModelProto) -> None:
    fused, values = values_of(proto, target)
    found = turning(fused)
    assume(found)
    made = case("pieces", fused, found[0], values)
    p = problem(made.func, load_machine(target))
    assert np.array_equal(made.evaluated(made.func).reshape(-1), made.wanted.reshape(-1))
    assert made.agrees(made.run(p.program(start(p).best)))


def detection(side: int, anchors: int = 3) -> onnx.ModelProto:
    """The head of a detector: two places, two sizes, and a slice of scores."""
    return parts((1, anchors), [2, 2, 81], (side, side), [False, False, True], (0, 1, 3, 4, 2))


# `make test` asks each size of one machine, in turn; make test-all asks all machines
@pytest.mark.parametrize("side, target", in_turn([8, 20, 80], MACHINES))
def test_one_launch_takes_less_than_two(side: int, target: str) -> None:
    fused, values = values_of(detection(side), target)
    (name,) = turning(fused)
    made = case("head", fused, name, values)
    p = problem(made.func, load_machine(target))
    assert made.agrees(made.run(p.program(start(p).best)))
    apart, _ = values_of(detection(side), target)
    several = halve_groups(apart, {name})
    assert time_groups(fused, load_machine(target)) < time_groups(several, load_machine(target))


def test_parts_that_lie_in_one_run_are_made_there() -> None:
    """The first axis is cut: whoever makes a part writes it where it belongs."""
    proto = parts((1,), [16, 16], (16, 16), [False, False], (0, 2, 3, 1))
    fused, _ = values_of(proto, "Ascend910B3")
    assert not turning(fused) and prod(len(g.nodes) for g in fused.groups if g.kind == "view") == 1
