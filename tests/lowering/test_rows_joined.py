"""Groups of an operator of rows and what leads to it: formed by fusion, scheduled by every sketch, equal in value to the references."""
from __future__ import annotations

import numpy as np
import pytest

from aoec.frontend.translate.onnx import load as load_model
from aoec.ir.graph.graph import Graph, OpNode, Tensor
from aoec.jobs.choose.model_tasks import tasks
from aoec.jobs.tune.tuning import problem, start
from aoec.jobs.verify.verify import verify_group
from aoec.lowering.arrange.fuse import fuse
from aoec.lowering.lower.lower import lower
from aoec.ops.run import evaluate
from aoec.simulate.timing.time import measure
from aoec.target.legality.check import check
from aoec.target.machine import load
from tests.frontend.models import model
from tests.frontend.models import node as onnx_node
from tests.lowering.groups import case, legal

MACHINE = load("Ascend910B3")
ROWS = (9, 40)


def node(op: str, inputs: str, output: str, **attributes: object) -> OpNode:
    return OpNode(output, op, tuple(inputs.split()), (output,), tuple(attributes.items()))  # type: ignore[arg-type]


# name -> nodes, shapes of what is read, shape of the result; tensors between have the shape of x
JOINED = {
    "add_rms_norm": ([node("add", "x z", "t"), node("rms_norm", "t g", "y", epsilon=1e-6)], {"x": ROWS, "z": ROWS, "g": (40,)}, ROWS),
    "add_layer_norm_gelu": ([node("add", "x z", "t"), node("layer_norm", "t g g", "u", epsilon=1e-5), node("gelu", "u", "y")],
                            {"x": (2, *ROWS), "z": (2, *ROWS), "g": (40,)}, (2, *ROWS)),
    "masked_softmax": ([node("muls", "x", "s", scalar=0.125), node("add", "s z", "t"), node("softmax", "t", "y", axis=3)],
                       {"x": (2, 3, *ROWS), "z": (2, 1, 1, 40)}, (2, 3, *ROWS)),
    "square_sum": ([node("mul", "x x", "t"), node("reduce_sum", "t", "y", axes=(1,))], {"x": ROWS}, (9, 1)),
    "swiglu": ([node("swiglu", "x", "y")], {"x": (7, 96)}, (7, 48)),
    "bias_gelu": ([node("add", "x g", "t"), node("gelu", "t", "y")], {"x": ROWS, "g": (40,)}, ROWS),
}


def graph_of(name: str, dtype: str) -> Graph:
    nodes, inputs, result = JOINED[name]
    made = {n.outputs[0]: result if n.outputs[0] == "y" else inputs["x"] for n in nodes}
    tensors = tuple(Tensor(n, dtype, s) for n, s in {**inputs, **made}.items())
    return Graph(name, tuple(inputs), ("y",), tensors, tuple(nodes))


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32"])
@pytest.mark.parametrize("name", JOINED)
def test_one_group_that_means_the_operators(name: str, dtype: str) -> None:
    graph, _ = fuse(graph_of(name, dtype), {})
    assert len(graph.groups) == 1
    random = np.random.default_rng(1)
    values = evaluate(graph, {i: random.standard_normal(JOINED[name][1][i]) for i in graph.inputs}, {}, every=True)
    found = case("softmax" if dtype != "bf16" else "any", graph, "g0", values)
    p = problem(found.func, MACHINE)
    assert p.refused == [] and near(found.evaluated(found.func), values["y"], dtype)
    for sketch in range(len(p.sketches)):
        assert all(near(found.run(p.program(c)), values["y"], dtype) for c in legal(p, sketch, 2))


def near(got: np.ndarray, wanted: np.ndarray, dtype: str) -> bool:
    """Within eight rounding steps of the dtype, the model's own order of sums and rounding of what lies between."""
    step = {"fp32": 2.0**-20, "fp16": 2.0**-11, "bf16": 2.0**-8}[dtype]
    return np.allclose(got.reshape(wanted.shape).astype(float), wanted.astype(float), rtol=8 * step, atol=8 * step)


def test_a_row_norm_that_ub_does_not_hold_is_read_once_for_each_pass() -> None:
    """The sum, the squares of differences, the result."""
    shape = (40, 50000)
    tensors = (Tensor("x", "fp32", shape), Tensor("y", "fp32", shape))
    graph, _ = fuse(Graph("g", ("x",), ("y",), tensors, (node("layer_norm", "x", "y", epsilon=1e-5),)), {})
    p = problem(lower(graph, "g0"), MACHINE)
    moved = measure(p.program(start(p).default), MACHINE, ()).bytes_by_path
    assert moved["GM->UB"] == 3 * 40 * 50000 * 4 and moved["UB->GM"] == 40 * 50000 * 4


def test_a_scale_for_each_column_comes_once_to_a_core() -> None:
    shape = (4096, 256)
    tensors = (Tensor("x", "fp16", shape), Tensor("g", "fp16", (256,)), Tensor("y", "fp16", shape))
    graph, _ = fuse(Graph("g", ("x", "g"), ("y",), tensors, (node("rms_norm", "x g", "y", epsilon=1e-5),)), {})
    p = problem(lower(graph, "g0"), MACHINE)
    first = start(p).default
    moved = measure(p.program(first), MACHINE, ()).bytes_by_path
    assert moved["GM->UB"] == (4096 + p.values(first)["g0"]) * 256 * 2


@pytest.mark.parametrize("shape", [(61, 771), (2, 40000)])
def test_a_sum_of_everything_is_shared_over_cores(shape: tuple[int, int]) -> None:
    """Each core adds its part to the one element in GM: whole numbers, so that the order does not matter."""
    tensors = (Tensor("x", "fp32", shape), Tensor("t", "fp32", shape), Tensor("y", "fp32", (1, 1)))
    nodes = (node("mul", "x x", "t"), node("reduce_sum", "t", "y", axes=(0, 1)))
    graph, _ = fuse(Graph("square_sum", ("x",), ("y",), tensors, nodes), {})
    values = evaluate(graph, {"x": np.random.default_rng(0).integers(-3, 4, shape)}, {}, every=True)
    found = case("square_sum", graph, "g0", values)
    p = problem(found.func, MACHINE)
    (shared,) = [i for i, sketch in enumerate(p.sketches) if any(step.primitive == "add_parts" for step in sketch.trace.steps)]
    for c in legal(p, shared, 3):
        check(p.program(c), MACHINE)
        assert found.agrees(found.run(p.program(c))), p.values(c)
    least = min(t for t in p.cost(legal(p, shared, 20)) if t is not None)
    alone = [t for c, t in p.costs.items() if t is not None and c[0] != shared]
    assert start(p).default[0] == shared and all(least < t for t in alone)


def test_scale_and_mask_in_the_group_of_their_softmax_cost_less_than_apart() -> None:
    """Many rows go in one instruction beside a loop over the batch too: rows one by one took three times as long as the groups apart."""
    shape, mask = (4, 12, 384, 384), (4, 1, 1, 384)
    tensors = (Tensor("x", "fp16", shape), Tensor("z", "fp16", mask), *(Tensor(n, "fp16", shape) for n in "sty"))
    nodes = (node("muls", "x", "s", scalar=0.125), node("add", "s z", "t"), node("softmax", "t", "y", axis=3))

    def ticks(inputs: str, result: str, count: slice) -> int:
        graph, _ = fuse(Graph("g", tuple(inputs.split()), (result,), tensors, nodes[count]), {})
        (group,) = graph.groups
        return start(problem(lower(graph, group), MACHINE)).ticks
    assert ticks("x z", "y", slice(3)) < ticks("x z", "t", slice(2)) + ticks("t", "y", slice(2, 3))


def test_lanes_that_a_sum_leaves_alone_need_not_be_cut() -> None:
    """Sums over many rows of few lanes: on one core they are whole runs of UB; cut over cores each row was an instruction of its own (47
    and 261 us on 910B3, modelled). Values are those of NumPy, whatever the sketch."""
    for shape, most_us in (((3136, 16), 6.0), ((2048, 48), 8.0)):
        mean = model([onnx_node("ReduceMean", "x", "y", axes=[0])], {"x": shape}, ["y"], opset=13)
        graph, weights, _ = load_model(mean, precision="fp16")
        graph, weights = fuse(graph, weights, MACHINE)
        task, = tasks(graph, MACHINE)
        p = problem(task.func, MACHINE)
        first = start(p)
        assert first.default_ticks * MACHINE.us_per_tick < most_us
        one = min(range(len(p.sketches)), key=lambda i: "t0" in p.space.grids[i].names)  # which cuts no lanes
        for c in [first.default, next(c for c in p.some() if c[0] == one)]:
            assert verify_group(graph, task.group, p.program(c), task.bindings, weights) == []
