"""Bodies of control flow whose course data decide are parts of the graph, translated as models are; walked, they give what onnxruntime
gives."""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from aoec import ops
from aoec.base.errors import CheckError
from aoec.frontend.translate import control
from aoec.frontend.translate.onnx import load
from aoec.ir.graph.bodies import MAIN, MOST_DEEP, nodes_by_place
from aoec.ir.text.parse import parse_graph
from aoec.ir.text.show import show
from aoec.jobs.compile.untuned import compile_untuned
from aoec.jobs.run.execute import Runner
from aoec.target import machine

from .models import graph_of, model, node, normal, run

BOOL, INT64 = TensorProto.BOOL, TensorProto.INT64
COUNTED = {"i": INT64, "go": BOOL, "on": BOOL, "k": INT64, "m": INT64, "j": INT64, "inner": BOOL, "again": BOOL}
NUMBERS = {"yes": np.array(True), "two": np.array(2), "many": np.array(9), "w": normal(3, 3), "limit": np.float32(40).reshape(()),
           "zero": np.float32(0).reshape(()), "s": normal(3)}
BIG = [node("ReduceSum", "t", "sum", keepdims=0), node("Less", "sum limit", "on")]
TO_A_LIMIT = graph_of([node("Abs", "x", "p"), node("Add", "s p", "t"), *BIG, node("MatMul", "t w", "row")],
                      {"i": (), "go": (), "s": (2, 3)}, ["on", "t", "row"], COUNTED)
INNER = graph_of([node("Add", "u p", "v"), node("Less", "i j", "again")], {"j": (), "inner": (), "u": (2, 3)}, ["again", "v"], COUNTED)
NESTED = graph_of([node("Abs", "x", "p"), node("Loop", "two go s", "t", body=INNER), *BIG], {"i": (), "go": (), "s": (2, 3)}, ["on", "t"],
                  COUNTED)
SCAN = graph_of([node("MatMul", "r w", "q"), node("Add", "s q", "t"), node("Tanh", "t", "z")], {"s": (3,), "r": (3,)}, ["t", "z"])
POSITIVE = [node("ReduceSum", "x", "sum", keepdims=0), node("Greater", "sum zero", "c")]
THEN, ELSE = (graph_of([node(op, "x w", result)], {}, [result]) for op, result in (("MatMul", "p"), ("Add", "q")))
AS_IT_IS = graph_of([node("Identity", "x", "r")], {}, ["r"])
ROWS = graph_of([node("Add", "s x", "t"), node("Identity", "go", "on"), node("Neg", "t", "row")], {"i": (), "go": (), "s": (2, 3)},
                ["on", "t", "row"], COUNTED)


def positive(x: np.ndarray) -> np.ndarray:
    return np.abs(x) + np.float32(0.1)


WALKED = {
    "a loop that data end": model([node("Loop", "- yes x", "y rows", body=TO_A_LIMIT), node("Relu", "y", "z")], {"x": (2, 3)},
                                  ["z", "rows"], NUMBERS),
    "a count that data say": model([node("ReduceSum", "x", "sum", keepdims=0), node("Cast", "sum", "n", to=INT64),
                                    node("Loop", "n - x", "y rows", body=ROWS)], {"x": (2, 3)}, ["y", "rows"], NUMBERS),
    "a loop in a loop": model([node("Loop", "- yes x", "y", body=NESTED)], {"x": (2, 3)}, ["y"], NUMBERS),
    "a branch": model([*POSITIVE, node("If", "c", "y", then_branch=THEN, else_branch=ELSE), node("Relu", "y", "z")], {"x": (3, 3)}, ["z"],
                      NUMBERS),
    "a branch without work": model([*POSITIVE, node("If", "c", "y", then_branch=THEN, else_branch=AS_IT_IS)], {"x": (3, 3)}, ["y"],
                                   NUMBERS),
    "a loop of too many rounds": model([node("Loop", "many - x", "y rows", body=ROWS), node("ReduceSum", "rows", "z", keepdims=0)],
                                       {"x": (2, 3)}, ["y", "z"], NUMBERS),
    "a long scan": model([node("Scan", "s x", "y z", body=SCAN, num_scan_inputs=1, scan_input_axes=[1], scan_input_directions=[1],
                               scan_output_axes=[1], scan_output_directions=[1])], {"x": (3, 7)}, ["y", "z"], NUMBERS),
}


@pytest.fixture(autouse=True)
def few_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of these models is spelled out."""
    monkeypatch.setattr(control, "MOST_NODES", 12)


def shape_of(proto: onnx.ModelProto) -> list[int]:
    return [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", WALKED)
def test_walked_control_flow_is_onnxruntimes(name: str, sign: int) -> None:
    """By the references, and by the programs of a compiled model."""
    proto = WALKED[name]
    feeds = {"x": sign * positive(normal(*shape_of(proto)))}
    wanted = run(proto, feeds)
    graph, weights, _ = load(proto, precision="fp32")
    assert {n.op for n in nodes_by_place(graph)[MAIN] if n.op.startswith("host.")} <= {"host.If", "host.Loop", "host.Scan"}
    assert graph.bodies and not [n.op for b, own in nodes_by_place(graph).items() if b != MAIN for n in own if n.op.startswith("host.") and
                                 name != "a loop in a loop"]
    assert parse_graph(show(graph)) == graph
    by_reference = ops.evaluate(graph, feeds, weights)
    artifact, reasons = compile_untuned(graph, weights, "fp32", machine.load())
    assert not reasons
    by_programs = Runner(artifact).run(feeds)
    for output, expected in zip(graph.outputs, wanted, strict=True):
        for got in (by_reference[output], by_programs[output]):
            assert got.shape == expected.shape
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def test_what_is_carried_keeps_its_shape_behind_the_loop() -> None:
    """So that what follows is the AI Core's; of rows that no data end the number is known, too."""
    for name, last in (("a loop that data end", "relu"), ("a loop of too many rounds", "reduce_sum"), ("a branch", "relu")):
        graph, _, _ = load(WALKED[name], precision="fp32")
        assert last in [n.op for n in nodes_by_place(graph)[MAIN]]


GROWS = graph_of([node("Concat", "s x", "t", axis=0), *BIG], {"i": (), "go": (), "s": ("k", 3)}, ["on", "t"], COUNTED)


@pytest.mark.parametrize("proto, why", [
    (model([node("Abs", "x", "s0"), node("Loop", "- yes s0", "y", body=GROWS)], {"x": (2, 3)}, ["y"], NUMBERS), r"\[2, 3\] at first"),
    (model([node("Cast", "x", "d", to=TensorProto.DOUBLE), *POSITIVE, node("If", "c", "y", then_branch=graph_of(
        [node("Add", "d d", "p")], {}, ["p"], {"p": TensorProto.DOUBLE}), else_branch=graph_of([node("Neg", "d", "q")], {}, ["q"], {
            "q": TensorProto.DOUBLE}))], {"x": (3, 3)}, ["y"], NUMBERS, types={"y": TensorProto.DOUBLE}), "its body reads d"),
    (model([*POSITIVE, node("If", "c", "y", then_branch=graph_of([node("RandomNormalLike", "x", "r"), node("Add", "r x", "a"), node(
        "Sub", "a r", "p")], {}, ["p"]), else_branch=AS_IT_IS)], {"x": (3, 3)}, ["y"], NUMBERS), "random numbers"),
], ids=["what grows", "doubles", "random numbers"])
def test_other_bodies_stay_whole_and_say_why(proto: onnx.ModelProto, why: str) -> None:
    graph, weights, notices = load(proto, precision="fp32")
    assert not graph.bodies
    assert [n for n in notices if "runs on the host with all that is in it" in n and why.replace("\\", "") in n]
    feeds = {"x": positive(normal(*shape_of(proto)))}
    for output, expected in zip(graph.outputs, run(proto, feeds), strict=True):
        np.testing.assert_allclose(ops.evaluate(graph, feeds, weights)[output], expected, rtol=1e-5, atol=1e-5)


LONGER = graph_of([node("Concat", "s x", "t", axis=0), node("Identity", "go", "on"), node("Neg", "x", "row")],
                  {"i": (), "go": (), "s": ("k", 3)}, ["on", "t", "row"], COUNTED)


@pytest.mark.parametrize("body", [ROWS, LONGER], ids=["compiled", "whole"])
def test_no_rounds_give_no_rows_of_their_shape(body: onnx.GraphProto) -> None:
    nodes = [node("ReduceSum", "x", "sum", keepdims=0), node("Cast", "sum", "n", to=INT64), node("Abs", "x", "s0"),
             node("Loop", "n - s0", "y rows", body=body)]
    proto = model(nodes, {"x": (2, 3)}, ["y", "rows"], NUMBERS)
    graph, weights, _ = load(proto, precision="fp32")
    feeds = {"x": -positive(normal(2, 3))}
    assert ops.evaluate(graph, feeds, weights)["rows"].shape == run(proto, feeds)[1].shape == (0, 2, 3)


def test_bodies_are_compiled_down_to_a_depth() -> None:
    """Deeper ones run whole, and the values are the same."""
    def either(result: str, then: onnx.GraphProto) -> onnx.NodeProto:
        return node("If", "c", result, then_branch=then, else_branch=graph_of([node("Neg", "x", f"n_{result}")], {}, [f"n_{result}"]))

    body = graph_of([node("Add", "x x", "y0")], {}, ["y0"])
    for at in range(1, MOST_DEEP + 4):
        body = graph_of([either(f"y{at}", body), node("Add", f"y{at} x", f"z{at}")], {}, [f"z{at}"])
    proto = model([*POSITIVE, either("y", body)], {"x": (2,)}, ["y"], NUMBERS)
    graph, weights, notices = load(proto, precision="fp32")
    assert len(graph.bodies) == 2 * (MOST_DEEP - 1) and "at most 16 are compiled" in "".join(notices)
    x = np.float32([1, 2])
    np.testing.assert_allclose(ops.evaluate(graph, {"x": x}, weights)["y"], run(proto, {"x": x})[0])


def test_bodies_in_rounds_that_are_spelled_out_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each round would have bodies of its own; where that is too much, the loop is walked, and its body has them once."""
    inner = graph_of([*POSITIVE, node("If", "c", "t", then_branch=THEN, else_branch=ELSE), node("Identity", "go", "on")],
                     {"i": (), "go": (), "x": (3, 3)}, ["on", "t"], COUNTED)
    proto = model([node("Loop", "two - x0", "y", body=inner)], {"x0": (3, 3)}, ["y"], NUMBERS)
    size = 4 + 1 + 1
    for most, bodies in ((2 * size, 4), (2 * size - 1, 3)):
        monkeypatch.setattr(control, "MOST_NODES", most)
        graph, weights, _ = load(proto, precision="fp32")
        assert len(graph.bodies) == bodies
        np.testing.assert_allclose(ops.evaluate(graph, {"x0": normal(3, 3)}, weights)["y"], run(proto, {"x0": normal(3, 3)})[0], rtol=1e-4)


def nested(deep: int) -> str:
    """The text of a graph with so many bodies, each in the one before."""
    each = range(deep + 1)
    lines = ["input x0: fp16[1]", *(f"tensor x{i}: fp16[1]" for i in each[1:]), *(f"tensor y{i}: fp16[1]" for i in each),
             *(f"n{i}: host.If(x{i}) -> y{i}" for i in each), "output y0",
             *(f"body n{i} then_branch (x{i + 1}) -> (y{i + 1}) [n{i + 1}]" for i in range(deep))]
    return "graph g {\n" + "\n".join(lines) + "\n}"


def test_a_text_of_bodies_in_bodies_is_refused_beyond_a_depth() -> None:
    assert len(parse_graph(nested(MOST_DEEP)).bodies) == MOST_DEEP
    with pytest.raises(CheckError, match=f"lies in more than {MOST_DEEP - 1} others"):
        parse_graph(nested(MOST_DEEP + 1))


def test_a_body_that_is_not_there_is_one_sentence() -> None:
    graph, weights, _ = load(WALKED["a branch"], precision="fp32")
    broken = replace(graph, bodies=tuple(b for b in graph.bodies if b.kind == "then_branch"))
    with pytest.raises(CheckError, match="has no else_branch"):
        ops.evaluate(broken, {"x": -positive(normal(3, 3))}, weights)
