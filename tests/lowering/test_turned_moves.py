"""Transposes that keep short rows, pads along rows and repeated pixels in ND are done by transposes that turn, where that is faster."""
from __future__ import annotations

from itertools import pairwise
from math import prod

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.frontend.translate.onnx import load as load_model
from aoec.ir.graph.graph import Graph
from aoec.jobs.choose.model_tasks import place_groups, tasks
from aoec.jobs.tune.tuning import problem, start
from aoec.jobs.verify.verify import verify_group
from aoec.lowering.arrange.fuse import fuse
from aoec.lowering.lower.movement.turn_moves import join_axes
from aoec.ops.run import evaluate
from aoec.target.legality.check import check
from aoec.target.machine import load
from tests.frontend.models import feeds_of, model, node, run
from tests.laws.turns import examples, in_turn

FAMILIES = ("Ascend910B3", "Ascend310P3", "Ascend310B1", "Ascend910A", "Ascend310", "Ascend950PR_958x")


def transpose(shape: tuple[int, ...], perm: tuple[int, ...]) -> onnx.ModelProto:
    return model([node("Transpose", "x", "y", perm=perm)], {"x": shape}, ["y"])


def pad(shape: tuple[int, ...], ends: list[int], value: float = 0.5) -> onnx.ModelProto:
    return model([node("Pad", "x ends value", "y")], {"x": shape}, ["y"], {"ends": np.array(ends), "value": np.float32(value)})


def repeat(shape: tuple[int, ...], scale: list[int]) -> onnx.ModelProto:
    return model([node("Resize", "x - s", "y", mode="nearest")], {"x": shape}, ["y"], {"s": np.array(scale, np.float32)})


T, P, E = "transpose", "pad", "expand"
# a model, and what it becomes on 310P3
MOVES: dict[str, tuple[onnx.ModelProto, list[str]]] = {
    "short rows, the one before them": (transpose((128, 70, 3), (1, 0, 2)), [T, T]),
    "the one that was": (transpose((7, 2, 512, 4), (0, 2, 1, 3)), [T, T]),
    "neither beside what is turned": (transpose((64, 32, 16, 4), (2, 1, 0, 3)), [T]),
    "rows of a block": (transpose((128, 64, 16), (1, 0, 2)), [T]),
    "few": (transpose((64, 9, 3), (1, 0, 2)), [T]),
    "lanes that are no blocks": (transpose((101, 99, 3), (1, 0, 2)), [T]),
    "padding around images": (pad((1, 64, 14, 15), [0, 0, 1, 1, 0, 0, 2, 3]), [P, P]),
    "of few channels": (pad((1, 3, 90, 130), [0, 0, 3, 3, 0, 0, 3, 3]), [P, P]),
    "in front of rows": (pad((80, 300), [0, 1, 0, 0]), [P]),
    "in front of long rows": (pad((80, 1100), [0, 1, 0, 0]), [T, P, T]),
    "around long rows of few channels": (pad((1, 3, 30, 1100), [0, 0, 3, 3, 0, 0, 3, 3]), [P, T, P, T]),
    "a block in front": (pad((70, 300), [0, 16, 0, 0]), [P]),
    "behind rows": (pad((70, 300), [0, 0, 0, 1]), [P]),
    "pixels of channels": (repeat((1, 64, 11, 13), [1, 1, 2, 3]), [T, E, T]),
    "of rows": (repeat((1, 2, 64, 65), [1, 1, 2, 3]), [T, E, T, E]),
    "along rows": (repeat((1, 2, 96, 100), [1, 1, 1, 2]), [T, E, T]),
    "few pixels": (repeat((1, 3, 8, 8), [1, 1, 2, 2]), ["upsample"]),
}


def fused(proto: onnx.ModelProto, target: str, precision: str = "fp16") -> tuple[Graph, dict[str, np.ndarray]]:
    graph, weights, _ = load_model(proto, {}, precision)
    return fuse(graph, weights, load(target))


@pytest.mark.parametrize("name", MOVES)
def test_what_moves_become(name: str) -> None:
    proto, ops = MOVES[name]
    graph, weights = fused(proto, "Ascend310P3")
    assert [n.op for n in graph.nodes if n.op != "reshape"] == ops
    feeds = feeds_of(proto)
    np.testing.assert_array_equal(evaluate(graph, feeds, weights)["y"], run(proto, feeds)[0].astype(np.float16))


# `make test` asks each family one precision, in turn; make test-all asks both
@pytest.mark.parametrize("target, precision", in_turn(FAMILIES, ["fp16", "fp32"]))
def test_their_programs_are_right(target: str, precision: str) -> None:
    machine = load(target)
    for name in ("short rows, the one before them", "the one that was", "padding around images", "of few channels", "of rows",
                 "in front of long rows"):
        graph, weights = fused(MOVES[name][0], "Ascend310P3", precision)
        for task in tasks(graph, machine):
            p = problem(task.func, machine, task.state)
            program = p.program(start(p).best)
            check(program, machine)
            assert verify_group(graph, task.group, program, task.bindings, weights) == [], (name, task.label)


@pytest.mark.parametrize("proto, target, most_us", [  # before: 330, 2,266; 128, 18.5; 145, 25.5
    (transpose((1024, 512, 2), (1, 0, 2)), "Ascend310P3", 25), (transpose((1024, 512, 2), (1, 0, 2)), "Ascend310B1", 170),
    (pad((1, 64, 56, 56), [0, 0, 1, 1, 0, 0, 1, 1]), "Ascend310P3", 17), (pad((1, 64, 56, 56), [0, 0, 1, 1, 0, 0, 1, 1]), "Ascend910B3", 9),
    (repeat((1, 128, 40, 40), [1, 1, 2, 2]), "Ascend310P3", 19), (repeat((1, 128, 40, 40), [1, 1, 2, 2]), "Ascend910B3", 11)])
def test_they_are_faster(proto: onnx.ModelProto, target: str, most_us: float) -> None:
    machine = load(target)
    found = place_groups(fused(proto, target)[0])
    problems = [problem(t.func, machine, t.state) for t in tasks(found.graph, machine, funcs=found.funcs)]
    assert not found.reasons and sum(start(p).ticks for p in problems) * machine.us_per_tick < most_us


@given(st.lists(st.integers(1, 3), min_size=1, max_size=6), st.data())
@settings(max_examples=examples(200))
def test_axes_are_joined_that_stay_neighbours(shape: list[int], draw: st.DataObject) -> None:
    perm = draw.draw(st.permutations(range(len(shape))))
    fewer, order = join_axes(tuple(shape), tuple(perm))
    x = np.arange(prod(shape)).reshape(shape)
    np.testing.assert_array_equal(x.transpose(perm).ravel(), x.reshape(fewer).transpose(order).ravel())
    assert 1 not in fewer and all(b != a + 1 for a, b in pairwise(order))
