"""Gathers of many single elements read rows, between two transposes; the nearest pixels of an image are so found in few launches."""
from __future__ import annotations

import numpy as np
import pytest

from aoec.frontend.translate.onnx import load as load_model
from aoec.jobs.choose.model_tasks import place_groups, tasks
from aoec.jobs.tune.tuning import problem, start
from aoec.jobs.verify.verify import verify_group
from aoec.lowering.arrange.fuse import fuse
from aoec.ops.run import evaluate
from aoec.target.legality.check import check
from aoec.target.machine import load
from tests.frontend.models import model, node, normal, run

FAMILIES = ("Ascend910B3", "Ascend310P3", "Ascend310B1", "Ascend910A", "Ascend310", "Ascend950PR_958x")
# shape, axis, places, whether they are turned: elements of rows alone, of which there are many beside those of the whole tensor
GATHERS = [((4, 32, 9, 35), 3, (62,), True), ((40, 300, 1), 1, (3, 70), True), ((7, 129, 65), 2, (), False), ((64, 300), 1, (100,), True),
           ((4, 1000), 1, (500,), False), ((4, 32, 35, 9), 2, (62,), False), ((9000,), 0, (5000,), False), ((70, 60000), 1, (60,), False)]


def gathered(shape: tuple[int, ...], axis: int, places: tuple[int, ...], machine: str, precision: str = "fp16") -> tuple:
    """(fused graph, constants, the values that it should give) of a gather by constant places of either sign."""
    at = np.random.default_rng(1).integers(-shape[axis], shape[axis], places)
    proto = model([node("Abs", "x", "a"), node("Gather", "a i", "y", axis=axis)], {"x": shape}, ["y"], {"i": at})
    plain, weights, _ = load_model(proto, {}, precision)
    return *fuse(plain, weights, load(machine)), run(proto, {"x": normal(*shape)})[0]


@pytest.mark.parametrize("shape, axis, places, turned", GATHERS)
def test_many_single_elements_are_rows_of_what_is_turned(shape: tuple, axis: int, places: tuple, turned: bool) -> None:
    """Where the vector unit does not gather."""
    graph, weights, wanted = gathered(shape, axis, places, "Ascend910A")
    one = "gather" if places else "slice"
    assert [n.op for n in graph.nodes if n.op not in ("abs", "reshape")] == (["transpose", "gather", "transpose"] if turned else [one])
    got = evaluate(graph, {"x": normal(*shape)}, weights)["y"]
    np.testing.assert_array_equal(got, wanted.astype(np.float16))


@pytest.mark.parametrize("target", FAMILIES)
@pytest.mark.parametrize("precision", ["fp16", "fp32"])
def test_their_programs_are_right(target: str, precision: str) -> None:
    machine = load(target)
    for shape, axis, places in ((4, 32, 9, 35), 3, (62,)), ((40, 300, 1), 1, (3, 35)):
        graph, weights, _ = gathered(shape, axis, places, target, precision)
        for task in tasks(graph, machine):
            p = problem(task.func, machine, task.state)
            program = p.program(start(p).best)
            check(program, machine)
            assert verify_group(graph, task.group, program, task.bindings, weights) == []


@pytest.mark.parametrize("target, most_us", [("Ascend910B3", 16), ("Ascend310P3", 38)])
def test_the_nearest_pixels_of_an_image(target: str, most_us: float) -> None:
    """13 x 13 pixels to 25 x 25, as a pyramid of features has them, were 37 launches: 124 us on 910B3 and 222 on 310P3 (modelled). Rows are
    a gather of whole rows, and columns one of elements in UB."""
    proto = model([node("Resize", "x - - s", "y", mode="nearest")], {"x": (1, 256, 13, 13)}, ["y"], {"s": np.array([1, 256, 25, 25])})
    graph, weights, _ = load_model(proto, {}, "fp16")
    x = normal(1, 256, 13, 13)
    np.testing.assert_array_equal(evaluate(graph, {"x": x}, weights)["y"], run(proto, {"x": x})[0].astype(np.float16))
    machine = load(target)
    found = place_groups(fuse(graph, weights, machine)[0])
    problems = [problem(t.func, machine, t.state) for t in tasks(found.graph, machine, funcs=found.funcs)]
    assert not found.reasons and len(problems) == 2
    assert sum(start(p).ticks for p in problems) * machine.us_per_tick < most_us
