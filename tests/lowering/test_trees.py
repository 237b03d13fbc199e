"""Elementwise work that meets is one group, whichever side is made first; a group waits for a product that it reads beside."""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest

from aoec.frontend.translate.onnx import load
from aoec.ir.graph.graph import Graph
from aoec.jobs.tune.tuning import problem, start
from aoec.lowering.arrange.fuse import fuse
from aoec.ops.run import evaluate
from aoec.target.machine import load as load_machine
from tests.frontend.models import model, node, normal, run
from tests.lowering.groups import case

TURNED = [node("Mul", "x c", "a"), node("Mul", "z s", "b"), node("Add", "a b", "y")]
GATED = [node("MatMul", "x w", "g"), node("Sigmoid", "g", "e"), node("MatMul", "x v", "u"), node("Mul", "e u", "y")]
CELL = [node("Sigmoid", "f", "a"), node("Mul", "a c", "b"), node("Sigmoid", "i", "d"), node("Tanh", "g", "e"), node("Mul", "d e", "h"),
        node("Add", "b h", "y")]
NORMED = [node("Mul", "x c", "a"), node("Mul", "z s", "b"), node("Add", "a b", "d"), node("LayerNormalization", "d k", "y")]
# nodes, inputs, constants, operators of the AI Core groups, launches when a group was a chain
NETS = {
    "turned": (TURNED, {"x": (2, 4, 24, 32), "z": (2, 4, 24, 32), "c": (1, 1, 24, 32), "s": (1, 1, 24, 32)}, {},
               [["mul", "mul", "add"]], 2),
    "gated": (GATED, {"x": (40, 48)}, {"w": normal(48, 64), "v": normal(48, 64, seed=1)}, [["matmul"], ["matmul"], ["sigmoid", "mul"]], 4),
    "cell": (CELL, {n: (3, 70) for n in "fcig"}, {}, [["sigmoid", "mul", "sigmoid", "tanh", "mul", "add"]], 3),
    "normed": (NORMED, {"x": (6, 50, 48), "z": (6, 50, 48), "c": (1, 50, 48), "s": (48,)}, {"k": normal(48)},
               [["mul", "mul", "add", "layer_norm"]], 2)}


def fused_of(name: str, target: str) -> tuple[Graph, dict[str, np.ndarray], onnx.ModelProto, dict[str, np.ndarray]]:
    nodes, inputs, constants, *_ = NETS[name]
    proto = model(nodes, inputs, ["y"], constants)
    graph, weights, _ = load(proto, {}, "fp16")
    feeds = {n: normal(*s, seed=5) for n, s in inputs.items()}
    fused, packed = fuse(graph, weights, load_machine(target))
    return fused, evaluate(fused, feeds, packed, every=True), proto, feeds


def operators(g: Graph) -> list[list[str]]:
    nodes = {n.name: n.op for n in g.nodes}
    return [[nodes[n] for n in group.nodes] for group in g.groups if group.kind != "view"]


@pytest.mark.parametrize("target", ["Ascend910B3", "Ascend310P3"])
@pytest.mark.parametrize("name", NETS)
def test_a_tree_of_elementwise_work_is_one_launch_and_does_what_it_says(name: str, target: str) -> None:
    fused, values, proto, feeds = fused_of(name, target)
    (wanted,) = run(proto, feeds)
    close(values["y"], wanted)
    trees = [g for g in fused.groups if len(g.nodes) > 1 and g.kind == "vector"]
    for group in trees:
        made = case(name, fused, group.name, values)
        p = problem(made.func, load_machine(target))
        close(made.run(p.program(start(p).best)).reshape(-1)[:made.wanted.size], made.wanted.reshape(-1))
    if target == "Ascend910B3":
        assert operators(fused) == NETS[name][3] and len(operators(fused)) < NETS[name][4]


def close(got: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(got.astype(np.float32), wanted.astype(np.float32), rtol=2e-2, atol=1e-2 * float(np.abs(wanted).max()))


def test_a_product_that_takes_work_into_its_group_is_not_kept_from_it() -> None:
    """Where results go through UB the second product multiplies with the gate itself."""
    fused, *_ = fused_of("gated", "Ascend310P3")
    assert operators(fused) == [["matmul", "sigmoid"], ["matmul", "mul"]]


def test_no_more_tensors_are_read_than_there_are_flags() -> None:
    names = "abcdefgh"
    nodes = [node("Mul", f"{a} {b}", f"{a}{b}") for a, b in zip(names[::2], names[1::2])]
    nodes += [node("Add", "ab cd", "p"), node("Add", "ef gh", "q"), node("Sub", "p q", "y")]
    graph, weights, _ = load(model(nodes, {n: (4, 40) for n in names}, ["y"]), {}, "fp16")
    fused, _ = fuse(graph, weights, load_machine("Ascend910B3"))
    made = {n.name: n for n in fused.nodes}
    for g in fused.groups:
        own = [made[n] for n in g.nodes]
        assert len({i for n in own for i in n.inputs} - {o for n in own for o in n.outputs}) <= 6
    assert len(fused.groups) < 5  # chains were four, of two multiplications, and one


def test_what_waits_for_a_node_that_takes_too_much_is_a_group_before_it() -> None:
    """Six tensors are read by what waits, and one beside it."""
    names = "abcdef"
    nodes = [node("Add", "a b", "s0"), *[node("Add", f"s{i} {n}", f"s{i + 1}") for i, n in enumerate(names[2:])],
             node("MatMul", "x w", "m"), node("Mul", "s4 m", "y")]
    graph, weights, _ = load(model(nodes, {**{n: (40, 64) for n in names}, "x": (40, 48)}, ["y"], {"w": normal(48, 64)}), {}, "fp16")
    fused, _ = fuse(graph, weights, load_machine("Ascend910B3"))
    assert operators(fused) == [["add"] * 5, ["matmul"], ["mul"]] or operators(fused) == [["matmul"], ["add"] * 5, ["mul"]]


def test_chains_that_wait_for_one_node_and_do_not_fit_together_are_groups_of_their_own() -> None:
    """Two chains, of four tensors each, wait for a node that reads a product beside: together they would read nine, of six that may be."""
    a, b = "abcd", "efgh"
    nodes = [node("Add", "a b", "s0"), node("Add", "s0 c", "s1"), node("Add", "s1 d", "s2"),
             node("Mul", "e f", "p0"), node("Mul", "p0 g", "p1"), node("Mul", "p1 h", "p2"),
             node("MatMul", "x w", "m"), node("Greater", "m zero", "c0"), node("Where", "c0 s2 p2", "y")]
    inputs = {**{n: (40, 64) for n in a + b}, "x": (40, 48)}
    proto = model(nodes, inputs, ["y"], {"w": normal(48, 64), "zero": np.float32(0)})
    graph, weights, _ = load(proto, {}, "fp16")
    machine = replace(load_machine("Ascend910B3"), flag_ids=6)
    fused, packed = fuse(graph, weights, machine)
    found = operators(fused)
    assert found.count(["add"] * 3) == found.count(["mul"] * 3) == 1 and found[-1] == ["where"]
    of, made = {n.name: n for n in fused.nodes}, {*fused.inputs, *packed}
    for group in fused.groups:  # every node once, each group with one result, in an order in which they can run
        own = [of[name] for name in group.nodes]
        results = {o for n in own for o in n.outputs}
        needed = {i for n in own for i in n.inputs if i} - results
        assert needed <= made and len(needed) <= 6
        read = {i for n in fused.nodes if n not in own for i in n.inputs} | {*fused.outputs}
        assert len(results & read) == 1
        made |= results
    assert sorted(name for g in fused.groups for name in g.nodes) == sorted(of)
    feeds = {n: normal(*shape, seed=at) for at, (n, shape) in enumerate(inputs.items())}
    close(evaluate(fused, feeds, packed)["y"], evaluate(graph, feeds, weights)["y"])


def test_a_recurrent_step_is_a_product_and_one_launch() -> None:
    """Its cell and its output are two results of one launch."""
    w, r = normal(1, 128, 24), normal(1, 128, 32, seed=1)
    proto = model([node("LSTM", "x w r", "h", hidden_size=32)], {"x": (5, 1, 24)}, ["h"], {"w": w, "r": r})
    graph, weights, _ = load(proto, {}, "fp16")
    fused, _ = fuse(graph, weights, load_machine("Ascend910B3"))
    cells = [sorted(ops) for ops in operators(fused) if "tanh" in ops]
    assert cells.count(sorted(["sigmoid", "mul", "sigmoid", "tanh", "mul", "add", "sigmoid", "mul", "tanh"])) == 5
    assert len(operators(fused)) <= 4 * 4 + 3
