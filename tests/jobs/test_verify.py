"""Verification accepts every program of the net, and notices what is changed in one."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from aoec import cli
from aoec.frontend.translate.onnx import load
from aoec.ir.graph.graph import Graph, OpNode, Tensor
from aoec.ir.index import Expr, Int
from aoec.ir.program import For, Instr, Item, Program, Ref
from aoec.jobs.choose.model_tasks import tasks
from aoec.jobs.run.execute import group_graph
from aoec.jobs.tune.tuning import problem, start
from aoec.jobs.verify.allowed import carried_rounding, tolerance
from aoec.jobs.verify.halfway import either_way
from aoec.jobs.verify.undefined import undefined_elements, within_casts
from aoec.jobs.verify.verify import _onnxruntime, agreement, compare, differences, kept_wide, nearer, verify_group
from aoec.lowering.arrange.fuse import fuse
from aoec.lowering.arrange.wide_sums import widen_sums
from aoec.lowering.lower.lower import operands
from aoec.ops.run import evaluate
from aoec.target.isa.instructions import added_to
from aoec.target.machine import load as load_machine
from tests.frontend.models import model, node
from tests.jobs.nets import compiled, fused

# to_nc1hwc0, conv2d 3x3, max_pool, conv2d 1x1, add, global_avg_pool, from_nc1hwc0, matmul, softmax
GROUPS = ("g0", "g1", "g2", "g3", "g4", "g5", "g6", "g8", "g9")


def tensor(name: str, *shape: int) -> object:
    """An input or output of a model."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def verify(name: str, change: Callable[[Program], Program] = lambda p: p, precision: str = "fp16", seed: int = 0) -> list[str]:
    artifact = compiled(precision, seed)
    c = next(c for c in artifact.groups if c.group == name)
    group = next(g for g in artifact.graph.groups if g.name == name)
    assert c.program is not None
    return verify_group(artifact.graph, group, change(c.program), c.bindings, artifact.weights, seed)


def rewrite(program: Program, f: Callable[[Instr], Instr | None]) -> Program:
    """The program with every instruction replaced, or dropped where `f` gives None."""
    def items(body: tuple[Item, ...]) -> tuple[Item, ...]:
        done = [replace(i, body=items(i.body)) if isinstance(i, For) else f(i) if isinstance(i, Instr) else i for i in body]
        return tuple(i for i in done if i is not None)
    return replace(program, streams=tuple(replace(s, body=items(s.body)) for s in program.streams))


def with_field(i: Instr, name: str, change: Callable[[Ref | Expr], Ref | Expr]) -> Instr:
    return Instr(i.op, tuple((k, change(v) if k == name else v) for k, v in i.fields))


@pytest.mark.parametrize("precision", ["fp16", "fp32"])
@pytest.mark.parametrize("name", GROUPS)
def test_programs_as_emitted_are_verified(name: str, precision: str) -> None:
    assert verify(name, precision=precision, seed=1) == []


def test_a_filter_that_is_an_input_keeps_the_zeros_behind_its_channels(tmp_path: Path) -> None:
    """ATC's own sample of a single operator, with a bias: three channels of results are stored in sixteen, of which nothing may be said
    to be wrong that the graph never has there."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> net (float16[1, 3, 16, 16] x, float16[3, 3, 3, 3] w, float16[3] b) '
        "=> (float16[1, 3, 16, 16] y) { y = Conv<pads = [1, 1, 1, 1]>(x, w, b) }")
    onnx.save(model, tmp_path / "net.onnx")
    places = {"-o": "net.aoec", "--bank": "bank.db"}
    words = [word for option, name in places.items() for word in (option, str(tmp_path / name))]
    assert cli.main(["compile", str(tmp_path / "net.onnx"), "--verify", "--precision", "keep", *words]) == 0


@pytest.mark.parametrize(("name", "op"), [
    ("g1", "mmad_bias"), ("g3", "mmad"), ("g1", "load3d"), ("g4", "vaddrelu"), ("g9", "vexp"),
    ("g0", "vnchwconv"), ("g5", "vmuls"), ("g8", "copy_gm_l1_nd2nz"), ("g8", "fixpipe_nd")])
def test_a_dropped_instruction_is_noticed(name: str, op: str) -> None:
    dropped = []

    def drop(i: Instr) -> Instr | None:
        dropped.extend([i] if i.op == op else [])
        return None if i.op == op else i

    assert verify(name, lambda p: rewrite(p, drop)) and dropped


@pytest.mark.parametrize(("name", "op", "field", "change"), [
    ("g1", "mmad_bias", "init", lambda v: Int(1)),
    ("g1", "fixpipe_nz", "relu", lambda v: Int(0)),
    ("g1", "load3d", "stride_w", lambda v: Int(1)),
    ("g3", "copy_gm_l1", "src", lambda r: replace(r, offset=r.offset + 16)),
    ("g8", "mmad_bias", "k", lambda v: v - 1),
    ("g2", "vmax", "src1", lambda r: replace(r, offset=r.offset + 16)),
    ("g4", "copy_ub_gm", "length", lambda v: v - 32),
    ("g6", "copy_ub_gm", "dst", lambda r: replace(r, offset=r.offset + 1)),
])
def test_a_changed_field_is_noticed(name: str, op: str, field: str, change: Callable[[Ref | Expr], Ref | Expr]) -> None:
    found = verify(name, lambda p: rewrite(p, lambda i: with_field(i, field, change) if i.op == op else i))
    assert found and name in found[0]


def test_differences_name_the_first_elements() -> None:
    t, want = Tensor("y", "fp16", (2, 3)), np.zeros((2, 3), np.float16)
    got = want.copy()
    got[1, 2] = 0.5
    (text,) = differences("g1", t, got, want, np.full((2, 3), 0.25), "normal data")
    assert "1 of 6 elements" in text and "y[1, 2] is 0.5 and should be 0 within 0.25" in text
    assert differences("g1", t, got, want, np.full((2, 3), 0.5), "normal data") == []


def test_infinities_count_as_one_rounding_away_and_nan_must_meet_nan() -> None:
    t = Tensor("y", "fp16", (3,))
    inf, top = np.float16(np.inf), np.float16(65504)
    near = differences("g", t, np.array([inf, top, 1], np.float16), np.array([top, inf, 1], np.float16), np.full(3, 64.0), "")
    assert near == []
    assert differences("g", t, np.array([inf, 1, np.nan], np.float16), np.array([-inf, 1, 1], np.float16), np.full(3, 64.0), "")
    assert differences("g", t, np.full(3, np.nan, np.float16), np.full(3, np.nan, np.float16), np.zeros(3), "") == []


def test_padding_must_be_zero() -> None:
    t = Tensor("y", "fp16", (1, 3, 1, 2), "NC1HWC0")
    stored = np.zeros((1, 1, 1, 2, 16), np.float16)
    want = np.zeros((1, 3, 1, 2), np.float16)
    assert differences("g", t, stored, want, np.zeros(want.shape), "") == []
    stored[0, 0, 0, 1, 5] = 1
    assert "padding" in differences("g", t, stored, want, np.zeros(want.shape), "")[0]


def test_tolerance_grows_with_what_is_summed() -> None:
    """A sum of 20 products of magnitude 1 that cancels may differ by the rounding of its terms, by less than 1 part in 10,000 of them."""
    graph, _ = fused("fp16")
    node = next(n for n in graph.nodes if n.op == "matmul")
    t = {t.name: t for t in graph.tensors}
    alone = replace(graph, nodes=(node,), inputs=node.inputs, outputs=node.outputs)
    data = {i: np.ones(t[i].shape, np.float32) for i in node.inputs}
    wanted = {t.name: np.zeros(t.shape, np.float16) for t in alone.tensors}
    allowed = tolerance(alone, data, wanted, t[node.outputs[0]])
    assert (allowed > 20 * 2.0**-24).all() and (allowed < 21 * 1e-4).all()
    total = t[node.outputs[0]]
    behind, y = replace(node, name="behind", op="add", inputs=(total.name, total.name), outputs=("y",)), replace(total, name="y")
    joined = replace(alone, nodes=(node, behind), tensors=(*alone.tensors, y), outputs=("y",))
    wanted |= {"y": wanted[total.name], total.name: np.full(total.shape, 4, np.float16)}  # a sum of which an addition leaves nothing
    assert (tolerance(joined, data, wanted, y) == allowed + 4 * 2.0**-10).all()


def test_roundings_between_nodes_are_carried() -> None:
    """What the reference rounds to bf16 on the way, as an addition leaves it; a product of it is off by as much more."""
    tensors = [Tensor(name, "bf16", (2,)) for name in ("a", "b", "product", "y", "z")]
    nodes = (OpNode("m", "mul", ("a", "b"), ("product",)), OpNode("s", "add", ("product", "a"), ("y",)),
             OpNode("n", "mul", ("y", "b"), ("z",)))
    graph = Graph("g", ("a", "b"), ("z",), tuple(tensors), nodes)
    values = {"a": np.array([-8.0, 1.0]), "b": np.array([2.0, 0.0]), "product": np.array([-16.0, 0.0]), "y": np.array([-24.0, 1.0])}
    step = 2.0**-7
    assert carried_rounding(graph, values, tensors[2]).tolist() == [0, 0]
    assert carried_rounding(graph, values, tensors[3]).tolist() == [16 * step, 0]
    assert carried_rounding(graph, values, tensors[4]).tolist() == [2 * (16 + 24) * step, 0]


def test_sums_of_reductions_may_cancel() -> None:
    """A mean of large numbers that cancel is off by roundings of these, not of what is left; a sum of squares by what each was rounded."""
    tensors = [Tensor("x", "fp32", (8,)), Tensor("mean", "fp32", (1,)), Tensor("twice", "fp32", (1,)), Tensor("squares", "bf16", (8,)),
               Tensor("sum", "fp32", (1,))]
    mean, twice = OpNode("m", "reduce_mean", ("x",), ("mean",), (("axes", (0,)),)), OpNode("t", "add", ("mean", "mean"), ("twice",))
    values = {"x": np.array([3e4, -3e4, 1, -1, 0, 0, 0, 0]), "mean": np.zeros(1), "twice": np.zeros(1)}
    graph = Graph("g", ("x",), ("mean",), tuple(tensors), (mean,))
    apart = 2 * 9 * 2.0**-24 * 60_002 / 8  # eight terms and one more rounding, of their magnitudes
    np.testing.assert_allclose(tolerance(graph, values, values, tensors[1]), apart, rtol=1e-6)
    np.testing.assert_allclose(carried_rounding(replace(graph, nodes=(mean, twice)), values, tensors[2]), 2 * apart, rtol=1e-6)
    squares, total = OpNode("q", "mul", ("x", "x"), ("squares",)), OpNode("s", "reduce_sum", ("squares",), ("sum",), (("axes", (0,)),))
    values |= {"squares": values["x"] ** 2, "sum": np.array([1.8e9])}
    allowed = carried_rounding(replace(graph, nodes=(squares, total)), values, tensors[4])
    np.testing.assert_allclose(allowed, (2.0**-7 + 2 * 9 * 2.0**-24) * (2 * 9e8 + 2), rtol=1e-6)


def test_what_is_rounded_on_the_way_is_so_in_its_own_dtype() -> None:
    """A sigmoid in fp16 whose result is fp32: what its instructions round is no better for the cast behind it."""
    tensors = [Tensor("x", "fp16", (2,)), Tensor("s", "fp16", (2,)), Tensor("y", "fp32", (2,))]
    nodes = (OpNode("n", "sigmoid", ("x",), ("s",)), OpNode("c", "cast", ("s",), ("y",)))
    values = {"x": np.zeros(2), "s": np.ones(2), "y": np.ones(2)}
    graph = Graph("g", ("x",), ("y",), tuple(tensors), nodes)
    assert (tolerance(graph, values, values, tensors[2]) > 16 * 2.0**-10).all()
    assert (tolerance(graph, values, values, replace(tensors[2], dtype="int32")) == 0).all()


def test_values_between_nodes_may_be_kept_wider() -> None:
    """A norm of two numbers that the reference rounds to one: what is made of them unrounded is right, and anything else is not."""
    proto = model([node("Div", "x z", "q"), node("LayerNormalization", "q g b", "y", axis=-1)], {"x": (8, 40, 2), "z": (8, 40, 2)}, ["y"],
                  {"g": np.ones(2, np.float32), "b": np.zeros(2, np.float32)})
    machine, (graph, weights, _) = load_machine(), load(proto, precision="bf16")
    graph, weights = fuse(graph, weights, machine)
    (task,) = tasks(graph, machine)
    p = problem(task.func, machine, task.state)
    program = p.program(start(p).best)
    alone = group_graph(graph, task.group, *operands(graph, task.group))
    random = np.random.default_rng(0)
    x, z = (1 + random.random((8, 40, 1)) * [1, 1.37] for _ in range(2))  # quotients that are nearly the same
    data = {name: v.astype(ml_dtypes.bfloat16) for name, v in zip(alone.inputs, (x, z, np.ones(2), np.zeros(2)))}
    assert compare(alone, program, task.bindings, data, False) == []
    wanted, wide = (evaluate(g, data, {}, every=True)["y"].astype(np.float32) for g in (alone, kept_wide(alone)))
    assert np.abs(wanted - wide).max() > 0.2  # the reference alone would have said that the program is wrong
    assert nearer(np.array([1.0, 2.0]), np.array([1.5, 2.5]), np.array([1.25, 4.0])).tolist() == [1.25, 2.5]


def test_agreement_counts_rows() -> None:
    a = agreement(np.array([[1.0, 2.0], [3.0, 1.0]]), np.array([[1.0, 2.5], [3.0, 5.0]]), "x")
    assert (a.relative_error, a.same_top1, a.rows) == (0.8, 1, 2)


@pytest.mark.parametrize("got, wanted, error", [
    ([np.inf, 1], [np.inf, 1], 0), ([65504, 1], [np.inf, 1], 0), ([-np.inf, 1], [np.inf, 1], 2), ([np.nan, 1], [np.nan, 1], 0),
    ([np.nan, 1], [2, 1], np.inf), ([1, 1], [np.nan, 1], np.inf), ([np.inf, 1], [32752, 1], 1)])
def test_agreement_of_what_overflows(got: list[float], wanted: list[float], error: float) -> None:
    """It is as far from the largest number as that is; what is no number is like nothing else."""
    a, b = (np.array(x, np.float16) for x in (got, wanted))
    assert agreement(a, b, "x").relative_error == pytest.approx(error)


def test_agreement_of_whole_numbers_counts_them() -> None:
    """The places of two elements that are nearly alike may be far apart; steps of eight bits stand for reals."""
    places, other = np.array([3, 900, 7, 7]), np.array([3, 2, 7, 7])
    a = agreement(places, other, "x")
    assert (a.relative_error, a.same_top1, a.rows, a.counted) == (0.25, 3, 4, True)
    assert agreement(places > 5, other > 5, "x").relative_error == 0.25 and agreement(places[:0], other[:0], "x").relative_error == 0
    steps = agreement(np.array([100, 99], np.uint8), np.array([100, 100], np.uint8), "x")
    assert (steps.relative_error, steps.counted) == (0.01, False)


def test_places_are_within_the_axis_that_is_read() -> None:
    """Two rows, as BERT's kinds of tokens are: numbers from -2 to 2 would lie beyond them."""
    net = helper.make_graph([helper.make_node("Gather", ["w", "i"], ["y"])], "two",
                            [helper.make_tensor_value_info("i", TensorProto.INT64, (512,))], [tensor("y", 512, 32)],
                            [numpy_helper.from_array(np.random.default_rng(0).normal(0, 1, (2, 32)).astype(np.float32), "w")])
    graph, weights, _ = load(helper.make_model(net, opset_imports=[helper.make_opsetid("", 17)]))
    machine = load_machine("Ascend910B3")
    graph, weights = fuse(graph, weights, machine)
    (task,) = tasks(graph, machine)
    p = problem(task.func, machine)
    assert verify_group(graph, task.group, p.program(p.some()[0]), task.bindings, weights) == []


def test_a_lost_part_of_a_sum_over_cores_is_noticed() -> None:
    """Of a long sum that several cores make parts of, in fp32, and that is rounded to fp16 afterwards."""
    net = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "long", [tensor("x", 16, 2048)], [tensor("y", 16, 512)],
                            [numpy_helper.from_array(np.random.default_rng(0).normal(0, 0.02, (2048, 512)).astype(np.float32), "w")])
    graph, weights, _ = load(helper.make_model(net, opset_imports=[helper.make_opsetid("", 17)]))
    machine = load_machine("Ascend910B3")
    graph, weights = fuse(widen_sums(graph, [n.name for n in graph.nodes]), weights, machine)
    task, _ = tasks(graph, machine)
    p = problem(task.func, machine)
    program = next(made for made in map(p.program, p.some()[::5]) if added_to(made) and made.streams[0].grid[0] == ("k_c", Int(8)))
    assert verify_group(graph, task.group, program, task.bindings, weights) == []
    lost = rewrite(program, lambda i: with_field(i, "k", lambda k: k - 16) if i.op == "mmad" else i)
    assert verify_group(graph, task.group, lost, task.bindings, weights)


def test_what_lies_half_way_between_two_steps_may_fall_on_either_side_and_nothing_else() -> None:
    """The third number is as far from the middle as fp16 rounds, the others are not; a product behind the quantiser carries the step."""
    tensors = [Tensor("x", "fp16", (3,)), Tensor("s", "fp32", (1,)), Tensor("z", "int8", (1,)), Tensor("a", "fp16", (3,)),
               Tensor("q", "int8", (3,)), Tensor("y", "fp16", (3,)), Tensor("w", "fp16", (3,))]
    nodes = (OpNode("m", "mul", ("x", "x"), ("a",)), OpNode("n", "quantise", ("a", "s", "z"), ("q",), (("lo", -128.0), ("hi", 127.0))),
             OpNode("d", "dequantise", ("q", "s", "z"), ("y",)), OpNode("p", "mul", ("y", "y"), ("w",)))
    graph = Graph("g", ("x", "s", "z"), ("w",), tuple(tensors), nodes)
    data = {"x": np.array([1.0, 2.0, 1.5825], np.float16), "s": np.array([1.0], np.float32), "z": np.zeros(1, np.int8)}
    wanted = evaluate(graph, data, {}, every=True)
    assert wanted["q"].tolist() in ([1, 4, 3], [1, 4, 2])
    off = lambda part, made: np.full(3, 0.01)  # noqa: E731
    moved = either_way(graph, wanted, tensors[6], off)
    assert moved[:2].tolist() == [0, 0] and moved[2] in (5, 7)  # 2² and 3², or 3² and 4²
    assert either_way(graph, wanted, tensors[4], off).tolist() == [0, 0, 1]
    assert not either_way(graph, wanted, tensors[6], lambda part, made: np.zeros(3)).any()


def test_casts_beyond_what_their_result_holds_are_not_held_against_a_program() -> None:
    """ONNX leaves them open; what is within is compared, of a number that is read as it is and of one that is worked out before."""
    tensors = [Tensor("x", "fp16", (4,)), Tensor("a", "fp16", (4,)), Tensor("b", "uint8", (4,)), Tensor("c", "int32", (4,)),
               Tensor("t", "int32", (1,))]
    nodes = (OpNode("m", "muls", ("x",), ("a",), (("scalar", 2.0),)), OpNode("n", "cast", ("a",), ("b",)),
             OpNode("o", "cast", ("b",), ("c",)), OpNode("p", "reduce_sum", ("c",), ("t",), (("axes", (0,)),)))
    graph = Graph("g", ("x",), ("c",), tuple(tensors), nodes)
    values = evaluate(graph, {"x": np.array([100.0, 128.0, -1.0, np.inf], np.float16)}, {}, every=True)
    assert undefined_elements(graph, values, "c").tolist() == undefined_elements(graph, values, "b").tolist() == [False, True, True, True]
    assert undefined_elements(graph, values, "t").all() and not undefined_elements(graph, values, "a").any()
    direct = Graph("g", ("x",), ("b",), (Tensor("x", "fp16", (4,)), Tensor("b", "uint8", (4,))), (OpNode("n", "cast", ("x",), ("b",)),))
    data = {"x": np.array([-48.0, 7.0, 3e4, 255.0], np.float16)}
    assert within_casts(direct, data, {})["x"].tolist() == [0, 7, 255, 255] and within_casts(direct, data, data)["x"].tolist()[0] == -48


def test_a_cast_alone_of_what_may_be_negative_is_verified() -> None:
    """As DynamicQuantizeLinear has one: its zero point has two readers, so that its cast is a group of its own."""
    net = helper.make_graph([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.UINT8)], "one", [tensor("x", 64)],
                            [helper.make_tensor_value_info("y", TensorProto.UINT8, (64,))])
    graph, weights, _ = load(helper.make_model(net, opset_imports=[helper.make_opsetid("", 17)]))
    machine = load_machine("Ascend910B3")
    graph, weights = fuse(graph, weights, machine)
    (task,) = tasks(graph, machine)
    p = problem(task.func, machine)
    program = p.program(start(p).default)
    assert verify_group(graph, task.group, program, task.bindings, weights) == []
    lost = rewrite(program, lambda i: None if i.op == "copy_ub_gm" else i)
    assert verify_group(graph, task.group, lost, task.bindings, weights)


def test_onnxruntime_tells_nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its builds for some systems send events unless they are asked not to."""
    runtime = pytest.importorskip("onnxruntime")
    asked: list[str] = []
    monkeypatch.setattr(runtime, "disable_telemetry_events", lambda: asked.append("off"))
    onnx.save(model([node("Relu", "x", "y")], {"x": (2,)}, ["y"]), tmp_path / "m.onnx")
    found, why = _onnxruntime(str(tmp_path / "m.onnx"), {"x": np.ones(2, np.float32)})
    assert found is not None and found["y"].tolist() == [1, 1] and not why and asked == ["off"]
