"""Control flow whose course is known is spelled out, and gives what onnxruntime gives; what is not known is left to the host, whole."""
from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from aoec import backend, ops
from aoec.base.errors import AoecError, UnsupportedError
from aoec.frontend.translate import control
from aoec.frontend.translate.onnx import load
from aoec.ir.graph.bodies import MAIN, nodes_by_place
from aoec.ir.graph.graph import Graph, OpNode
from aoec.ops.host import control as rounds

from .models import graph_of, model, node, normal, run

BOOL, INT64 = TensorProto.BOOL, TensorProto.INT64
COUNTED = {"i": INT64, "go": BOOL, "on": BOOL, "n": INT64, "m": INT64}
ROUND = graph_of([node("Add", "s x", "t"), node("Mul", "t b", "row"), node("Identity", "go", "on")], {"i": (), "go": (), "s": (2, 3)},
                 ["on", "t", "row"], COUNTED)
GROWS = graph_of([node("Concat", "s x", "t", axis=0), node("Add", "i two", "n"), node("Less", "n five", "on")],
                 {"i": (), "go": (), "s": ("k", 3)}, ["on", "t"], COUNTED)
# the inner loop reads what is around it, by names that are other ones in each round of the outer loop
INNER = graph_of([node("Add", "u t", "v"), node("Identity", "inner", "again")], {"j": (), "inner": (), "u": (2, 3)}, ["again", "v"],
                 {"j": INT64, "inner": BOOL, "again": BOOL})
OUTER = graph_of([node("Add", "s x", "t"), node("Loop", "two_i go t", "w", body=INNER), node("Identity", "go", "on")],
                 {"i": (), "go": (), "s": (2, 3)}, ["on", "w"], COUNTED)
SCAN = graph_of([node("Add", "s r", "t"), node("Mul", "t t", "u")], {"s": (2,), "r": (2,)}, ["t", "u"])
NUMBERS = {"two": np.array(2), "five": np.array(5), "yes": np.array(True), "two_i": np.array(2), "b": normal(2, 3)}


def main(graph: Graph) -> list[OpNode]:
    """The nodes outside of bodies."""
    return nodes_by_place(graph)[MAIN]


def inside(graph: Graph) -> set[str]:
    """The tensors that bodies' own nodes read or make."""
    nodes = [n for at, own in nodes_by_place(graph).items() if at != MAIN for n in own]
    return {name for n in nodes for name in (*n.inputs, *n.outputs)} | {name for b in graph.bodies for name in b.inputs}


def branch(op: str, result: str) -> onnx.GraphProto:
    return graph_of([node(op, "x b", result)], {}, [result])


KNOWN = {
    "a branch": model([node("If", "yes", "y", then_branch=branch("Mul", "p"), else_branch=branch("Sub", "q"))], {"x": (2, 3)}, ["y"],
                      NUMBERS),
    "a count": model([node("Loop", "five - x", "y rows", body=ROUND)], {"x": (2, 3)}, ["y", "rows"], NUMBERS),
    "a condition": model([node("Loop", "- yes x", "y", body=GROWS)], {"x": (2, 3)}, ["y"], NUMBERS),
    "a loop in a loop": model([node("Loop", "two yes x", "y", body=OUTER)], {"x": (2, 3)}, ["y"], NUMBERS),
    "a scan": model([node("Scan", "s x", "y z", body=SCAN, num_scan_inputs=1)], {"x": (4, 2)}, ["y", "z"], {"s": normal(2)}),
    "a scan backward": model([node("Scan", "s x", "y z", body=SCAN, num_scan_inputs=1, scan_input_axes=[-1], scan_input_directions=[1],
                                   scan_output_axes=[-1], scan_output_directions=[1])], {"x": (2, 5)}, ["y", "z"], {"s": normal(2)}),
    "a scan of a batch": model([node("Scan", "- s x", "y z", body=SCAN, num_scan_inputs=1)], {"x": (3, 4, 2)}, ["y", "z"],
                               {"s": normal(3, 2)}, opset=8),
}


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_known_is_spelled_out(name: str) -> None:
    proto = KNOWN[name]
    feeds = {"x": normal(*[d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim])}
    graph, weights, notices = load(proto, precision="fp32")
    assert notices == []
    got = ops.evaluate(graph, feeds, weights)
    for output, expected in zip(graph.outputs, run(proto, feeds)):
        assert got[output].shape == expected.shape
        np.testing.assert_allclose(got[output], expected, rtol=1e-5, atol=1e-6)


def test_a_condition_that_hangs_on_data_leaves_one_node() -> None:
    """After a round that was tried, nothing of it is left."""
    body = graph_of([node("Add", "s x", "t"), node("ReduceSum", "t", "sum", keepdims=0), node("Less", "sum limit", "on")],
                    {"i": (), "go": (), "s": (2, 3)}, ["on", "t"], COUNTED)
    proto = model([node("Loop", "- yes x", "y", body=body)], {"x": (2, 3)}, ["y"], {**NUMBERS, "limit": np.float32(30).reshape(())})
    graph, _, _ = load(proto, precision="fp32")
    assert [n.op for n in main(graph)] == ["host.Loop"]
    assert len([t for t in graph.tensors if t.name not in inside(graph)]) <= 5


def test_a_loop_of_many_rounds_stays_one_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "MOST_NODES", 14)
    assert [n.op for n in main(load(KNOWN["a count"], precision="fp32")[0])] == ["host.Loop"]
    monkeypatch.setattr(control, "MOST_NODES", 15)
    assert "host.Loop" not in [n.op for n in load(KNOWN["a count"], precision="fp32")[0].nodes]


@pytest.mark.parametrize("nodes, constants", [
    ([node("If", "c", "y", then_branch=branch("Mul", "p"), else_branch=branch("Sub", "q"))], {"c": np.array([True, False])}),
    ([node("If", "c", "y z", then_branch=branch("Mul", "p"), else_branch=branch("Sub", "q"))], {"c": np.array(True)}),
    ([node("Loop", "five - x x", "y", body=ROUND)], {}),
    ([node("Scan", "x", "y", body=SCAN, num_scan_inputs=0)], {}),
    ([node("Scan", "s x", "y z", body=SCAN, num_scan_inputs=1, scan_input_axes=[7])], {"s": normal(2)}),
], ids=["two conditions", "a result too many", "a value too many", "nothing to scan", "no such axis"])
def test_control_flow_that_contradicts_itself_is_one_sentence_or_the_hosts(nodes: list[onnx.NodeProto],
                                                                          constants: dict[str, np.ndarray]) -> None:
    try:
        graph, _, _ = load(model(nodes, {"x": (2, 3)}, ["y"], NUMBERS | constants), precision="fp32")
    except AoecError as e:
        assert len(str(e).splitlines()) == 1
    else:
        assert [n.op for n in graph.nodes if n.op.startswith("host.")]


def test_a_loop_without_an_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    body = graph_of([node("Add", "s x", "t"), node("ReduceSum", "t", "sum", keepdims=0), node("Equal", "sum sum", "on")],
                    {"i": (), "go": (), "s": (2, 3)}, ["on", "t"], COUNTED)
    graph, weights, _ = load(model([node("Loop", "- yes x", "y", body=body)], {"x": (2, 3)}, ["y"], NUMBERS), precision="fp32")
    monkeypatch.setattr(rounds, "MOST_ROUNDS", 50)
    with pytest.raises(UnsupportedError, match="more than 50 rounds"):
        ops.evaluate(graph, {"x": normal(2, 3)}, weights)


def test_counts_and_conditions_that_are_inputs_are_compiled_for() -> None:
    """As are those that a count or a shape is worked out from."""
    nodes = [node("Add", "k two", "m"), node("Loop", "m - x", "y rows", body=ROUND)]
    proto = model(nodes, {"x": (2, 3), "k": (1,)}, ["y", "rows"], NUMBERS, types={"k": INT64})
    x = normal(2, 3)
    prepared = backend.prepare(proto)
    for k in (1, 0):
        feeds = {"x": x, "k": np.array([k])}
        got = prepared.run(feeds)
        assert not prepared.on_host
        for mine, wanted in zip(got, run(proto, feeds)):
            np.testing.assert_allclose(mine, wanted, rtol=1e-5)
