"""Groups that are alike are lowered once, to what each is lowered to alone."""
from __future__ import annotations

import numpy as np
import pytest

from aoec.frontend.translate.onnx import load
from aoec.frontend.zoo import tiny_resnet
from aoec.ir.graph.graph import Graph, Group, OpNode, Tensor
from aoec.jobs.choose.model_tasks import content, lower_groups
from aoec.lowering.arrange.fuse import fuse
from aoec.lowering.lower.lower import Indexed
from aoec.target.machine import load as load_machine


def chain() -> Graph:
    """Products that differ in one thing each: the right operand is a constant or not, a side is turned, a result is needed twice."""
    matrix = ("fp16", (32, 32))
    tensors = [Tensor(n, *matrix) for n in ("x", "y", "a", "b", "c", "d", "e", "f", "g")] + [Tensor("w", *matrix, data="0" * 64)]
    nodes = [OpNode("one", "matmul", ("x", "y"), ("a",)), OpNode("two", "matmul", ("a", "w"), ("b",)),
             OpNode("three", "matmul", ("b", "x"), ("c",)), OpNode("turned", "matmul", ("c", "y"), ("d",), (("transpose_b", True),)),
             OpNode("same", "matmul", ("d", "d"), ("e",)), OpNode("relu", "relu", ("e",), ("f",)), OpNode("again", "relu", ("f",), ("g",))]
    return Graph("chain", ("x", "y"), ("f", "g"), tuple(tensors), tuple(nodes))


def needed() -> Graph:
    """Two groups of the same nodes; of the second what its first node makes is needed too."""
    tensors = tuple(Tensor(n, "fp16", (4, 64)) for n in ("x", "p", "q", "r", "s"))
    nodes = tuple(OpNode(f"{op}_{made}", op, (of,), (made,)) for op, of, made in (
        ("exp", "x", "p"), ("relu", "p", "q"), ("exp", "x", "r"), ("relu", "r", "s")))
    groups = tuple(Group(f"g{at}", "vector", tuple(n.name for n in nodes[2 * at:2 * at + 2])) for at in (0, 1))
    return Graph("needed", ("x",), ("q", "s", "r"), tensors, nodes, groups)


def fused(name: str) -> Graph:
    if name == "chain":
        return fuse(chain(), {"w": np.zeros((32, 32), np.float16)}, load_machine("Ascend910B3"))[0]
    graph, weights = load(tiny_resnet(1, 0), precision="fp16")[:2]
    return fuse(graph, weights, load_machine(name))[0]


@pytest.mark.parametrize("name", ("chain", "Ascend910B3", "Ascend310P3"))
def test_alike_groups_have_one_func_but_for_its_name(name: str) -> None:
    graph = fused(name)
    indexed, (funcs, reasons) = Indexed(graph), lower_groups(graph)
    own = {g.name: indexed.lower(g) for g in graph.groups if g.kind in ("cube", "vector")}
    assert own == funcs and own and not reasons


def test_what_differs_in_one_thing_is_not_alike() -> None:
    graph = fused("chain")
    indexed = Indexed(graph)
    of = {g.nodes[0]: content(indexed, g) for g in graph.groups if g.kind == "cube"}
    assert of["one"] == of["three"] and len({of["one"], of["two"], of["turned"], of["same"]}) == 4


def test_a_group_whose_parts_others_need_is_another() -> None:
    funcs, reasons = lower_groups(needed())
    assert not reasons and [len(f.outputs) for f in funcs.values()] == [1, 2]
