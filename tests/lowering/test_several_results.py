"""Vector groups with several results: programs of definitions and models against NumPy, and which groups become one."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from aoec.base.errors import CheckError, ScheduleError
from aoec.base.ticks import TICKS_PER_CYCLE
from aoec.frontend.translate.onnx import load as read
from aoec.ir.func.evaluate import evaluate_func
from aoec.ir.func.tir import Func, blocks
from aoec.ir.graph.graph import Graph
from aoec.ir.schedule import Trace
from aoec.ir.text.parse import parse_func, parse_trace
from aoec.ir.text.show import show
from aoec.jobs.choose.model_tasks import Task, place_groups, tasks
from aoec.jobs.choose.moves import JOINED, kept_results
from aoec.jobs.stages.stages import lower_call
from aoec.jobs.tune.made import realise
from aoec.jobs.tune.order import Order
from aoec.jobs.tune.solve import attempt
from aoec.jobs.tune.tuning import bound_in
from aoec.lowering.arrange.fuse import fuse, regroup
from aoec.lowering.arrange.joined.results import exception
from aoec.lowering.emit.emit import emit
from aoec.ops.own import read_definitions, read_files
from aoec.ops.run import evaluate
from aoec.primitives import apply
from aoec.search.sketches.nests import step
from aoec.simulate.values.values import execute
from aoec.target.machine import load
from tests.frontend.models import model, node, normal
from tests.laws.turns import examples

OPS = str(Path(__file__).parent / "several.op")
MACHINES = "Ascend910B3", "Ascend310P3"
Array = np.ndarray


def norm(x: Array, eps: float = 1e-5) -> tuple[Array, Array, Array]:
    mean = x.mean(1, keepdims=True)
    root = 1 / np.sqrt(x.var(1, keepdims=True) + eps)
    return (x - mean) * root, mean[:, 0], root[:, 0]


def add_norm(x: Array, r: Array, g: Array) -> list[Array]:
    h = x + r
    return [h / np.sqrt((h ** 2).mean(1, keepdims=True) + 1e-5) * g, h]


def norm_with_statistics(x: Array, g: Array) -> list[Array]:
    y, mean, root = norm(x)
    return [y * g, mean, root]


def shares(x: Array) -> list[Array]:
    e = np.exp(x - x.max(1, keepdims=True))
    return [e / e.sum(1, keepdims=True), x.max(1), e.sum(1)]


# operator -> its arguments beside [m, n], whether it has the parameters of a norm, the same in NumPy
CASES: dict[str, tuple[str, bool, Callable[..., list[Array]]]] = {
    "add_norm": ("XRg", True, add_norm), "norm_with_statistics": ("Xg", True, norm_with_statistics), "shares": ("X", False, shares),
    "ends": ("X", False, lambda x: [x.max(1), x.min(1)]), "waves": ("X", False, lambda x: [np.sin(x), np.cos(x)]),
    "cut_off": ("X", False, lambda x: [np.maximum(x, 0), x > 0]),
    "greatest": ("X", False, lambda x: [x.max(1), x.argmax(1)]),
    "turn": ("XXXX", False, lambda a, b, c, d: [a * c - b * d, b * c + a * d]),
}


def model_of(op: str, shapes: Sequence[tuple[int, ...]], results: int, attributes: Mapping[str, float]) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, s) for i, s in enumerate(shapes)]
    outputs = [helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, None) for i in range(results)]
    made = helper.make_node(op, [i.name for i in inputs], [o.name for o in outputs], op, domain="my.own", **attributes)  # type: ignore[arg-type]
    versions = [helper.make_opsetid("", 18), helper.make_opsetid("my.own", 1)]
    return helper.make_model(helper.make_graph([made], "net", inputs, outputs), opset_imports=versions)


def shapes_of(op: str, rows: int, width: int) -> list[tuple[int, ...]]:
    return [(width,) if name == "g" else (rows, width) for name in CASES[op][0]]


@cache
def own(op: str, rows: int, width: int, precision: str) -> tuple[Graph, dict[str, Array]]:
    _, has_norm, oracle = CASES[op]
    shapes = shapes_of(op, rows, width)
    results = len(oracle(*[np.ones(s) for s in shapes]))
    given_attributes = {"eps": 1e-5, "width": float(width)} if has_norm else {}
    graph, weights, _ = read(model_of(op, shapes, results, given_attributes), {}, precision, read_files([OPS]))
    return graph, weights


def only_task(graph: Graph, target: str) -> Task:
    """The one launch of a fused graph."""
    placed = place_groups(graph)
    assert not placed.reasons and not placed.apart
    (task,) = tasks(placed.graph, load(target), funcs=placed.funcs)
    return task


def run_default(task: Task, target: str, values: Mapping[str, Array]) -> dict[str, Array]:
    """What the default program of a launch makes of tensors of its graph, by tensor; no schedule is faster than its bound."""
    machine = load(target)
    solved = attempt(task, machine, Order(tune=False))
    assert not isinstance(solved, str), solved
    measure = realise(task.func, solved.default.trace, machine, task.state).measure
    took = measure.ticks + measure.launch_us * machine.clock_mhz * TICKS_PER_CYCLE
    assert bound_in(task.func, machine, task.state).ticks <= took
    given_names, made_names = ({b.name for b in buffers} for buffers in (task.func.inputs, task.func.outputs))
    program = emit(apply(task.func, parse_trace(solved.default.trace)), machine)
    made = execute(program, {n: values[t] for n, t in task.bindings if n in given_names})
    return {t: made[n] for n, t in task.bindings if n in made_names}


SIZES = [(64, 128, "fp16", "Ascend910B3"), (37, 100, "fp16", "Ascend310P3"), (33, 48, "fp32", "Ascend910B3"),
         (33, 48, "fp16", "Ascend950PR_957x")]


# `make test` asks each definition at two of the sizes, in turn; make test-all asks all
@pytest.mark.parametrize("op, rows, width, precision, target", [pytest.param(op, *s, marks=[pytest.mark.slow] * ((at + number) % 2))
                                                                for at, op in enumerate(CASES) for number, s in enumerate(SIZES)])
def test_a_definition_with_several_results_is_one_launch(op: str, rows: int, width: int, precision: str, target: str) -> None:
    graph, weights = own(op, rows, width, precision)
    fused, stored = fuse(graph, weights, load(target))
    task = only_task(fused, target)
    assert parse_func(show(task.func)) == task.func and len(task.func.outputs) == len(graph.outputs)
    kind = np.float32 if precision == "fp32" else np.float16
    data = {name: np.random.default_rng(i).normal(0, 1, s).astype(kind) for i, (name, s) in enumerate(
        zip(graph.inputs, shapes_of(op, rows, width)))}
    made = run_default(task, target, stored | data)
    wanted = CASES[op][2](*[data[name].astype(np.float64) for name in graph.inputs])
    near = 2e-5 if precision == "fp32" else 4e-3
    for name, exact in zip(graph.outputs, wanted, strict=True):
        np.testing.assert_allclose(made[name].astype(np.float64).reshape(exact.shape), exact, rtol=near, atol=near)


@pytest.mark.parametrize("op, sums", [("add_norm", 1), ("norm_with_statistics", 2), ("shares", 2)])
def test_what_results_share_is_calculated_once(op: str, sums: int) -> None:
    task = only_task(fuse(*own(op, 64, 128, "fp16"), load("Ascend910B3"))[0], "Ascend910B3")
    found = [b for b, _ in blocks(task.func.body)]
    assert sum(b.op != "=" for b in found) == sums
    assert len({(b.op, show(b.value).partition("[")[0], b.target.buffer) for b in found}) == len(found)


ROWS = {"sum": "S{i}[m] += X[m, n]", "squares": "S{i}[m] += X[m, n] * X[m, n]", "greatest": "S{i}[m] max= X[m, n]",
        "magnitude": "S{i}[m] += abs(X[m, n])"}
EACH = {"twice": "{y}[m, n] = X[m, n] * 2.0", "off": "{y}[m, n] = X[m, n] - S{i}[m]", "share": "{y}[m, n] = X[m, n] * S{i}[m]",
        "other": "{y}[m, n] = X[m, n] * Z[m, n]", "root": "{y}[m, n] = sqrt(abs(X[m, n]))"}


@settings(max_examples=examples(10))
@given(st.data())
def test_programs_of_any_results_of_rows_give_their_definition(data: st.DataObject) -> None:
    """Two to four results, of the shape of the input or of its rows, some of which share sums."""
    count = data.draw(st.integers(2, 4))
    body, outputs, needs = [], [], set[str]()
    for i in range(count):
        row = data.draw(st.sampled_from([None, *ROWS]), label="row")
        each = data.draw(st.sampled_from([*EACH] if row else ["twice", "other", "root"]), label="each")
        as_row = bool(row) and data.draw(st.booleans(), label="a result of rows")
        if row:
            body.append(ROWS[row].replace("{i}", str(i)))
        if as_row:
            outputs.append(f"S{i}[m]")
        else:
            outputs.append(f"Y{i}[m, n]")
            body.append(EACH[each].replace("{i}", str(i)).replace("{y}", f"Y{i}"))
            needs |= {"Z"} if each == "other" else set()
    assert len(outputs) == count
    inputs = ["X[m, n]", *(f"{name}[m, n]" for name in sorted(needs))]
    text = f"own({', '.join(inputs)}) -> {', '.join(outputs)} {{\n  " + "\n  ".join(body) + "\n}\n"
    rows, width = data.draw(st.integers(2, 40), label="rows"), data.draw(st.integers(2, 70), label="width")
    target = data.draw(st.sampled_from(MACHINES), label="target")
    graph, weights, _ = read(model_of("own", [(rows, width)] * len(inputs), count, {}), {}, "fp32", read_definitions(text))
    fused, stored = fuse(graph, weights, load(target))
    random = np.random.default_rng(rows)
    feeds = {name: random.normal(0, 1, (rows, width)).astype(np.float32) for name in graph.inputs}
    values = evaluate(fused, feeds, stored, every=True)
    placed = place_groups(fused)
    assert not placed.reasons and not placed.apart
    for task in tasks(placed.graph, load(target), funcs=placed.funcs):
        for name, made in run_default(task, target, values).items():
            np.testing.assert_allclose(made.reshape(values[name].shape), values[name], rtol=2e-5, atol=2e-4)


# ---------------------------------------------------------------- models

def launches(nodes: list[onnx.NodeProto], inputs: Mapping[str, tuple[int, ...]], outputs: Sequence[str], target: str,
             constants: Mapping[str, Array] | None = None) -> tuple[Graph, list[list[str]]]:
    graph, weights, _ = read(model(nodes, dict(inputs), list(outputs), dict(constants or {})), {}, "fp16")
    fused, _ = fuse(graph, weights, load(target))
    ops = {n.name: n.op for n in fused.nodes}
    return fused, [[ops[name] for name in g.nodes] for g in fused.groups if g.kind != "view"]


@pytest.mark.parametrize("target", MACHINES)
def test_statistics_are_results_beside_a_norm(target: str) -> None:
    nodes = [node("LayerNormalization", "x g b", "y mean root", axis=-1)]
    fused, found = launches(nodes, {"x": (48, 96)}, ["y", "mean", "root"], target, {"g": normal(96), "b": normal(96, seed=1)})
    assert found == [["reduce_mean", "inverse_deviation", "layer_norm"]]
    x = normal(48, 96, seed=2).astype(np.float16)
    task = only_task(fused, target)
    made = run_default(task, target, {"x": x, "g": normal(96).astype(np.float16), "b": normal(96, seed=1).astype(np.float16)})
    y, mean, root = norm(x.astype(np.float64))
    wanted = {"y": y * normal(96) + normal(96, seed=1), "mean": mean, "root": root}
    for name, exact in wanted.items():
        np.testing.assert_allclose(made[name].astype(np.float64).reshape(exact.shape), exact, rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize("nodes, outputs, wanted", [
    ([node("Sin", "x", "y"), node("Cos", "x", "z")], "yz", [["sin", "cos"]]),
    ([node("Softmax", "x", "y", axis=-1), node("LogSoftmax", "x", "z", axis=-1)], "yz", [["softmax", "log_softmax"]]),
    ([node("Sin", "x", "y"), node("Cos", "r", "z")], "yz", [["sin"], ["cos"]]),  # nothing is read by both
    ([node("Sin", "x", "y"), node("Cos", "x", "z"), node("Transpose", "y", "t", perm=[1, 0])], "tz", [["sin", "cos"], ["transpose"]]),
    ([node("Relu", "x", "a"), node("Transpose", "a", "t", perm=[1, 0]), node("Transpose", "t", "b", perm=[1, 0]),
      node("MatMul", "t w", "c"), node("Add", "c x", "y")], "ya", None),
])
def test_what_reads_the_same_is_one_launch(nodes: list[onnx.NodeProto], outputs: str, wanted: list[list[str]] | None) -> None:
    fused, found = launches(nodes, {"x": (64, 64), "r": (64, 64)}, list(outputs), "Ascend910B3", {"w": normal(64, 64)})
    assert wanted is None or found == wanted
    makers = {o: g.name for g in fused.groups for n in fused.nodes if n.name in g.nodes for o in n.outputs}
    places = {g.name: at for at, g in enumerate(fused.groups)}
    for g in fused.groups:  # in an order in which they can run
        needed = {i for n in fused.nodes if n.name in g.nodes for i in n.inputs if i} - {o for o, at in makers.items() if at == g.name}
        assert all(places[makers[i]] < places[g.name] for i in needed if i in makers)


def test_groups_between_which_others_run_stay_apart() -> None:
    """The product reads what the first makes, and the last reads the product."""
    nodes = [node("Sin", "x", "a"), node("MatMul", "a w", "m"), node("Add", "m x", "y"), node("Mul", "x x", "z")]
    _, found = launches(nodes, {"x": (64, 64)}, ["y", "a", "z"], "Ascend910B3", {"w": normal(64, 64)})
    assert found == [["sin"], ["matmul"], ["add", "mul"]]


def test_results_stay_apart_where_that_is_asked_for() -> None:
    fused, _ = fuse(*own("waves", 64, 128, "fp16"), load("Ascend910B3"))
    machine = load("Ascend910B3")
    assert len(fused.groups) == 1 and kept_results(fused, machine) == []
    apart = regroup(fused, machine, [exception(n.name) for n in fused.nodes])
    assert len(apart.groups) == 2


def test_results_that_are_faster_apart_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from aoec.jobs.choose import moves
    monkeypatch.setattr(moves, "recall_times", lambda at, make: [3.0, 2.0])
    fused, _ = fuse(*own("waves", 64, 128, "fp16"), load("Ascend910B3"))
    (kept,) = kept_results(fused, load("Ascend910B3"))
    (said,) = moves.sentences([kept])
    assert kept.what == JOINED and said.endswith("results beside it kept, 2.0 us against 3.0 us in one launch, modelled")


def test_few_rows_whose_sums_cores_share_stay_apart() -> None:
    nodes = [node("ReduceSum", "x axes", "s", keepdims=1), node("Sub", "x s", "y")]
    for rows, wanted in ((4, 2), (256, 1)):
        _, found = launches(nodes, {"x": (rows, 512)}, ["s", "y"], "Ascend910B3", {"axes": np.array([-1])})
        assert len([g for g in found if "sub" in g or "reduce_sum" in g]) == wanted, rows


# ---------------------------------------------------------------- notation

def test_parts_of_a_product_are_its_parts() -> None:
    graph, weights, _ = read(model_of("halves", [(48, 96), (96, 64)], 2, {}), {}, "fp16", read_files([OPS]))
    x, w = normal(48, 96), normal(96, 64, seed=1)
    made = evaluate(graph, {"x0": x, "x1": w}, weights)
    for name, exact in (("y0", (x @ w)[:, :32]), ("y1", (x @ w)[:, 32:])):
        np.testing.assert_allclose(made[name].astype(np.float32), exact, rtol=1e-2, atol=1e-2)
    assert [n.op for n in graph.nodes if n.op != "matmul"] == ["slice", "slice"]


def test_a_filter_of_each_channel_is_one_func() -> None:
    """The filter is a constant, as models have it: its packing is no launch."""
    func = lower_call("each_channel(b=1, c=64, h=28, w=28, p=3, q=3, fp16)", [OPS])
    assert [b.name for b in func.inputs] == ["X", "W"] and func.inputs[1].layout == "ZN"
    assert any(b.name == "im2col" for b, _ in blocks(func.body))


@pytest.mark.parametrize("target, wanted", [("Ascend310P3", 1), ("Ascend910B3", 2)])
def test_an_activation_of_ones_own_follows_a_product(target: str, wanted: int) -> None:
    """Where the product's results pass through UB."""
    graph, weights, _ = read(model_of("gated", [(64, 96), (96, 64)], 1, {}), {}, "fp16", read_files([OPS]))
    fused, stored = fuse(graph, weights, load(target))
    placed = place_groups(fused)
    found = tasks(placed.graph, load(target), funcs=placed.funcs)
    assert len(found) == wanted and not placed.reasons and not placed.apart
    feeds = {"x0": normal(64, 96), "x1": normal(96, 64, seed=1)}
    if wanted == 1:
        made = run_default(found[0], target, {n: x.astype(np.float16) for n, x in evaluate(fused, feeds, stored, every=True).items()})
        c = feeds["x0"].astype(np.float16).astype(np.float64) @ feeds["x1"].astype(np.float16).astype(np.float64)
        np.testing.assert_allclose(made["y0"].astype(np.float64), c / (1 + np.exp(-c)), rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize("call, why", [
    ("halves(m=48, k=96, n=64, fp16)", "a product leaves the cores as one result"),
    ("windows(m=32, n=64, fp16)", "windows.Y reads more than the rows of its own place"),
    ("columns(m=32, n=64, k=16, fp16)", "they have no tensor in common that is as large as their work"),
    ("norm_with_statistics(m=64, n=8192, eps=1e-5, width=8192, fp16)", "rows of 8192 elements do not stay in UB for a second result"),
])
def test_why_results_are_apart_is_said(call: str, why: str) -> None:
    with pytest.raises(CheckError, match=f"groups, since {why}.*; give --group, one of "):
        lower_call(call, [OPS])


# ---------------------------------------------------------------- compute_at

PARTS = """func f(X: fp32[8, 8]) -> (Z: fp32[8], Y: fp32[8, 8]) {
  local T: fp32[8, 1]
  for t in 8 {
    for u in 8 {
      total: T[t, 0] += X[t, u]
    }
  }
  for a in 8 {
    row: Z[a] = T[a, 0]
  }
  for i in 8 {
    for j in 8 {
      out: Y[i, j] = X[i, j] - T[i, 0]
    }
  }
}"""


def moved(func: Func, loop: str, over: str) -> Func:
    return apply(func, Trace((step("split", loop=loop, factor=4, outer="o", inner="r"), step("compute_at", block="row", loop=over))))


def test_a_result_of_rows_is_written_beside_the_rows_of_another() -> None:
    func = parse_func(PARTS)
    done = moved(func, "i", "o")
    x = np.random.default_rng(0).normal(0, 1, (8, 8)).astype(np.float32)
    for name, value in evaluate_func(func, {"X": x}).items():
        np.testing.assert_array_equal(evaluate_func(done, {"X": x})[name], value)
    assert next(above[0].var for b, above in blocks(done.body) if b.name == "row") == "o"


def test_a_result_of_rows_is_not_written_for_each_part_of_them() -> None:
    """Tiles of columns would write the rows again and again."""
    func = parse_func(PARTS.replace("fp32[8, 8]) -> (Z: fp32[8], Y: fp32[8, 8])", "fp32[8, 16]) -> (Z: fp32[8], Y: fp32[8, 16])")
                      .replace("for u in 8", "for u in 16").replace("for j in 8", "for j in 16"))
    split = apply(func, Trace((step("split", loop="j", factor=4, outer="o", inner="r"), step("reorder", loops=("o", "i", "r")))))
    with pytest.raises(ScheduleError, match="neither around every reader"):
        apply(split, Trace((step("compute_at", block="row", loop="o"),)))
