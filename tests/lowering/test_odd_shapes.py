"""Operators at sizes that no network of the zoo has: each group's default schedule exists, is legal and gives its operators' values."""
from __future__ import annotations

from math import prod

import numpy as np
import onnx
import onnx.printer
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from onnx import TensorProto

from aoec.frontend.translate.onnx import load as load_model
from aoec.jobs.choose.attention import fuse_exceptions
from aoec.jobs.choose.model_tasks import place_groups, tasks
from aoec.jobs.choose.wide_sums import wide
from aoec.jobs.tune.tuning import problem, start
from aoec.jobs.verify.verify import verify_group
from aoec.lowering.arrange.fuse import fuse
from aoec.target.legality.check import check
from aoec.target.machine import load
from tests.frontend.models import model as of_nodes
from tests.frontend.models import node
from tests.frontend.written import written
from tests.laws.turns import in_turn
from tests.lowering.chains import chain

# inputs, result, nodes; where each failed before, in fp16 or as said
MODELS = {
    "instance_norm": ("float[1,3,160,260] x, float[3] w, float[3] b", "float[1,3,160,260] y",  # long rows, a shift for each
                      "y = InstanceNormalization(x, w, b)", ("Ascend910B3", "Ascend310P3")),
    "instance_norm_bf16": ("float[1,2,112,300] x, float[2] g, float[2] b", "float[1,2,112,300] y",  # whose shift is cast
                           "y = InstanceNormalization(x, g, b)", ("Ascend910B3",)),
    "one_for_all_bf16": ("float[20,300] x, float[1] z", "float[20,300] y", "s = Softmax(x) t = Mul(s, z) y = Add(t, z)", ("Ascend910B3",)),
    # rows farther apart than a field of the copy can say, which go one by one
    "long_rows": ("float[20,66000] x, float[66000,20] w", "float[20,20] y", "y = MatMul(x, w)", ("Ascend910B3", "Ascend310P3")),
    "long_rows_right": ("float[20,40] x, float[40,66000] w", "float[20,66000] y", "y = MatMul(x, w)", ("Ascend910B3", "Ascend310P3")),
    "long_columns": ("float[20,40] x, float[66000,40] w", "float[20,66000] y",  # as of the words of a language model
                     "t = Transpose(w) y = MatMul(x, t)", ("Ascend910B3", "Ascend310P3")),
    "many_words": ("float[4,40] x", "float[4,66000] y", "s = Constant<value_ints=[40,66000]>() c = ConstantOfShape(s) y = MatMul(x, c)",
                   ("Ascend910B3", "Ascend310P3")),
    "long_pictures": ("float[1,3,2,66000] x, float[4,3,1,3] k", "float[1,4,2,65998] y", "y = Conv(x, k)", ("Ascend910B3", "Ascend310P3")),
    "wide_plane": ("float[1,17,256,260] x, float[16,17,1,1] k", "float[1,16,256,260] y", "y = Conv(x, k)",  # 66,560 pixels, joined
                   ("Ascend910B3", "Ascend310P3")),
    "resized": ("float[1,20,33,21] x, float[20,20,1,1] w", "float[1,20,65,43] y",  # rows that are no whole fractals, in NC1HWC0
                "t = Conv(x, w) c = Constant<value_ints=[1,20,65,43]>() "
                "y = Resize<mode=\"linear\", coordinate_transformation_mode=\"align_corners\">(t, , , c)",
                ("Ascend910B3", "Ascend310P3", "Ascend310B1", "Ascend910A", "Ascend310", "Ascend950PR_958x")),
    "between_blocks": ("float[1,40,3,5] x, float[40,40,1,1] h", "float[1,16,3,5] y",  # channels of two blocks, of neither all
                       "t = Conv(x, h) a = Constant<value_ints=[1]>() s = Constant<value_ints=[8]>() e = Constant<value_ints=[24]>() "
                       "y = Slice(t, s, e, a)", ("Ascend910B3",)),
    "line_of_few": ("float[2,1,1000] x, float[16,1,7] k", "float[2,16,1000] y", "y = Conv<pads=[3,3]>(x, k)",  # four channels a pixel
                    ("Ascend910B3", "Ascend310P3", "Ascend310B1", "Ascend910A")),
    "row_of_few": ("float[2,3,3,64] x, float[7,3,3,3] k", "float[2,7,1,64] y", "y = Conv<pads=[0,1,0,1]>(x, k)", ("Ascend910B3",)),
    "pools_of_one": ("float[2,20,1,1] x", "float[2,20,1,1] y",  # images of one pixel, of which nothing is reduced
                     "a = GlobalAveragePool(x) b = Exp(a) c = GlobalMaxPool(b) d = ReduceMean<axes=[2,3]>(c) y = Abs(d)",
                     ("Ascend910B3", "Ascend310P3")),
    "norm_of_one": ("float[50,12,1] x, float[1] g, float[1] b", "float[50,12,1] y", "y = LayerNormalization(x, g, b)", ("Ascend310B1",)),
    "instance_of_one": ("float[2,3,1,1] x, float[3] w, float[3] b", "float[2,3,1,1] y", "y = InstanceNormalization(x, w, b)",
                        ("Ascend910B3",)),
    "softmax_of_planes": ("float[7,32,256] x", "float[7,32,256] y", "y = Softmax<axis=1>(x)", ("Ascend310P3",)),  # rows 512 blocks apart
    "softmax_of_long": ("float[2,257,165] x", "float[2,257,165] y", "y = Softmax<axis=1>(x)", ("Ascend910A",)),
    "softmax_of_pairs": ("float[2,2,70001] x", "float[2,2,70001] y", "y = Softmax<axis=1>(x)", ("Ascend910B3",)),
    "softmax_of_many": ("float[2,1100,270] x", "float[2,1100,270] y", "y = Softmax<axis=1>(x)", ("Ascend910B3",)),
    "softmax_of_wide": ("float[2,800,1200] x", "float[2,800,1200] y", "y = Softmax<axis=1>(x)", ("Ascend310P3",)),
    "mean_of_planes": ("float[2,3,50000] x", "float[2,1,50000] y", "y = ReduceMean<axes=[1]>(x)", ("Ascend310B1",)),
    "apart": ("float[4,96,143] x", "float[143,96,4] y", "y = Transpose<perm=[2,1,0]>(x)", ("Ascend310B1",)),  # narrow rows apart in GM
    "pairs_apart": ("float[1,12,200,4,3] x", "float[3,200,4,12,1] y", "y = Transpose<perm=[4,2,3,1,0]>(x)", ("Ascend310P3",)),
    "turned_softmax": ("float[1500,12] x", "float[1500,12] y", "y = Softmax<axis=0>(x)", ("Ascend910B3",)),  # narrow rows, and packed
    "few_at_last": ("float[12384] x, int64[1] s, int64[1] w, int64[1] a, int64[1] n", "float[1548] y",  # twelve rows alone on a core
                    "y = Slice(x, s, w, a, n)", ("Ascend310P3",)),
    "column": ("float[1,21,1] x, float[90,1,56] z", "float[90,21,56] y", "y = Mul(x, z)", ("Ascend310B1",)),  # a row for 21, read with more
    "greatest": ("float[40,1500] x", "int64[40] y", "y = ArgMax<axis=1, keepdims=0>(x)", ("Ascend910B3", "Ascend310P3", "Ascend910A")),
    "least_of_bytes": ("int8[9,6] x", "int64[9,1] y", "y = ArgMin<axis=1>(x)", ("Ascend910B3", "Ascend310P3")),  # one place a row
    "sum_of_one": ("float[1,1] x, float[1,1] z", "float[1,1] y", "t = Mul(x, z) a = Constant<value_ints=[0,1]>() y = ReduceSum(t, a)",
                   ("Ascend910B3",)),
    "sum_apart": ("float[2,1,40] x", "float[1,1,1] y", "a = Constant<value_ints=[0,2]>() y = ReduceSum(x, a)", ("Ascend310P3",)),
    "greatest_of_planes": ("float[2,21,300] x", "int64[2,1,300] y", "y = ArgMax<axis=1>(x)", ("Ascend910B3", "Ascend310B1"))}
CONSTANT = {"s": 0, "w": 12384, "a": 0, "n": 8}


def known(name: str, shape: list[int]) -> np.ndarray | None:
    """What is constant: where a slice begins and ends, and of a norm the scale and shift."""
    if name == "k":
        return np.ones(shape, np.float32)
    if shape == [3]:
        return np.array([0.5, 2.0, -1.5], np.float32)
    return np.full(shape, CONSTANT[name]) if name in CONSTANT and shape == [1] else None


# `make test` asks each model of one of its machines, in turn; make test-all asks all
@pytest.mark.parametrize("name, target", [p for at, (name, given) in enumerate(MODELS.items()) for p in in_turn([name], given[-1], at)])
def test_odd_shapes_have_schedules_that_are_right(name: str, target: str) -> None:
    inputs, result, nodes, _ = MODELS[name]
    machine = load(target)
    model = written(f'<ir_version: 8, opset_import: ["": 17]>\n{name} ({inputs}) => ({result}) {{ {nodes} }}', known)
    graph, weights = fuse(*load_model(model, {}, "bf16" if name.endswith("bf16") else "fp16")[:2], machine)
    assert {g.kind for g in graph.groups} <= {"view", "vector", "movement", "cube"}
    for task in tasks(graph, machine):
        p = problem(task.func, machine, task.state)
        program = p.program(start(p).best)
        check(program, machine)
        group = next(g for g in graph.groups if g.name == task.group.name)
        assert verify_group(graph, group, program, task.bindings, weights) == []


SIZES = (1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 21, 31, 32, 33, 48, 56, 64, 77, 85, 100, 127, 128, 129, 143, 197, 224, 255, 256, 257, 300,
         384, 512, 640, 1000, 1024, 1500, 2048, 4096)
FAMILIES = ("Ascend910B3", "Ascend310P3", "Ascend310B1", "Ascend910A", "Ascend310", "Ascend950PR_958x")


@st.composite
def shapes(draw: st.DrawFn, least: int = 1, most: int = 5) -> tuple[int, ...]:
    """Shapes of two thousand to three million elements."""
    found = draw(st.lists(st.sampled_from(SIZES), min_size=least, max_size=most).filter(lambda s: 2000 < prod(s) < 3_000_000))
    return tuple(found)


@st.composite
def operators(draw: st.DrawFn) -> onnx.ModelProto:
    """An operator that moves, reduces, normalises or combines elements of any such shape, over any of its axes."""
    op = draw(st.sampled_from(("Transpose", "Softmax", "ReduceMean", "ReduceMax", "ArgMax", "Mul", "Concat", "Slice", "Pad", "Expand",
                               "LayerNormalization", "InstanceNormalization", "Gather")))
    shape = draw(shapes({"LayerNormalization": 2, "InstanceNormalization": 3}.get(op, 1), 5))
    rank, inputs = len(shape), {"x": shape}
    axis = draw(st.integers(0, rank - 1))
    constants: dict[str, np.ndarray] = {}
    extra: dict[str, object] = {}
    if op == "Transpose":
        extra["perm"] = draw(st.permutations(range(rank)))
    elif op in ("Softmax", "ArgMax", "Concat", "Gather"):
        extra["axis"] = axis
    elif op in ("ReduceMean", "ReduceMax"):
        extra |= {"axes": sorted(draw(st.sets(st.integers(0, rank - 1), min_size=1))), "keepdims": draw(st.integers(0, 1))}
    if op in ("Mul", "Concat"):
        inputs["z"] = (*shape[:axis], draw(st.sampled_from(SIZES)), *shape[axis + 1:]) if op == "Concat" else tuple(
            draw(st.sampled_from((d, 1))) for d in shape)
    elif op == "Slice":
        first = [draw(st.integers(0, d // 2)) for d in shape]
        constants = {"first": np.array(first), "end": np.array([draw(st.integers(at + 1, max(at + 1, d))) for at, d in zip(first, shape)]),
                     "axes": np.arange(rank), "steps": np.array([draw(st.sampled_from((1, 1, 2, 3))) for _ in shape])}
    elif op == "Pad":
        constants = {"pads": np.array([draw(st.integers(0, 3)) for _ in range(2 * rank)])}
    elif op == "Expand":
        constants, inputs = {"to": np.array(shape)}, {"x": tuple(draw(st.sampled_from((d, 1))) for d in shape)}
    elif op == "Gather":
        constants = {"at": np.random.default_rng(0).integers(0, shape[axis], draw(st.sampled_from((1, 5, 100))))}
    elif op == "LayerNormalization":
        constants = {name: np.ones(shape[-1], np.float32) for name in ("scale", "shift")}
    elif op == "InstanceNormalization":
        constants = {name: np.ones(shape[1], np.float32) for name in ("scale", "shift")}
    made = node(op, " ".join([*inputs, *constants]), "y", **extra)
    return of_nodes([made], inputs, ["y"], constants, types={"y": TensorProto.INT64} if op == "ArgMax" else {})


@pytest.mark.slow
@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(operators(), st.sampled_from(FAMILIES))
def test_operators_of_any_size_have_legal_schedules(model: onnx.ModelProto, target: str) -> None:
    note(onnx.printer.to_text(model))
    machine = load(target)
    graph, _ = fuse(*load_model(model, {}, "fp16")[:2], machine)
    for task in tasks(graph, machine):
        p = problem(task.func, machine, task.state)
        check(p.program(start(p).best), machine)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(120))
def test_chains_of_operators_have_schedules_that_are_right(seed: int) -> None:
    """None ends in an error, goes to the host, or gives other values than its operators; some in bf16 or fp32, where cores have it."""
    target = (*FAMILIES, "Ascend910_9362")[seed % 7]
    machine = load(target)
    precision = ("fp16", "fp16", "mixed", "fp32", "fp16", "bf16")[seed // 7 % 6] if machine.has("mmad_bias") else "fp16"
    model = chain(seed)
    graph, weights, _ = load_model(model, {}, precision)
    fused, stored = fuse(wide(graph, machine), weights, machine, fuse_exceptions(graph, machine))
    found = place_groups(fused)
    assert not found.reasons, onnx.printer.to_text(model)
    for task in tasks(found.graph, machine, funcs=found.funcs):
        p = problem(task.func, machine, task.state)
        program = p.program(start(p).best)
        check(program, machine)
        assert verify_group(found.graph, task.group, program, task.bindings, stored) == [], onnx.printer.to_text(model)
