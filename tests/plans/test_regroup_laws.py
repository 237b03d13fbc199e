"""Groups of a fused graph, split and joined at random: each is refused with a sentence, or one launch whose values are the reference's."""
from __future__ import annotations

import random
from dataclasses import replace
from functools import lru_cache

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from aoec.base.errors import AoecError, CheckError
from aoec.frontend.translate.onnx import load
from aoec.frontend.zoo import mlp_softmax, tiny_resnet
from aoec.ir.graph.graph import Graph
from aoec.ir.plan import Plan, PlanGroup
from aoec.ir.text.places import Places
from aoec.jobs.choose.model_tasks import lower_groups, tasks
from aoec.jobs.compile.untuned import first_schedule
from aoec.jobs.verify.verify import verify_group
from aoec.lowering.arrange.fuse import fuse, kind_of
from aoec.lowering.arrange.layout import family
from aoec.lowering.arrange.planned.enter import regroup_as
from aoec.target.machine import load as load_machine
from tests.frontend.models import model, node
from tests.jobs.nets import net

MIXED = model([node("Relu", "x", "a"), node("Mul", "a w", "b"), node("Softmax", "b", "c", axis=-1), node("Add", "c x", "d"),
               node("ReduceSum", "d axis", "e", keepdims=1), node("Sub", "d e", "f"), node("Transpose", "f", "g", perm=[0, 2, 1]),
               node("Sigmoid", "g", "h"), node("Concat", "h h", "k", axis=0), node("Slice", "k s t", "y")],
              {"x": (4, 16, 32), "w": (4, 16, 1)}, ["y", "e"], {"axis": np.array([2]), "s": np.array([1]), "t": np.array([3])})
# a product that reads and writes through moves, beside work on its result
HEADS = model([node("Reshape", "x s", "q"), node("Transpose", "q", "t", perm=[1, 0, 2]), node("MatMul", "t k", "m"),
               node("Transpose", "m", "u", perm=[1, 0, 2]), node("Reshape", "u w", "v"), node("Add", "v z", "p"), node("Relu", "p", "y")],
              {"x": (32, 128), "k": (2, 64, 48), "z": (32, 96)}, ["y"], {"s": np.array([32, 2, 64]), "w": np.array([32, 96])})
NETS = {"mixed": MIXED, "heads": HEADS, "net": net(), "mlp": mlp_softmax(), "resnet": tiny_resnet()}


@lru_cache(maxsize=8)
def fused(name: str, target: str) -> tuple[Graph, dict[str, np.ndarray], Plan]:
    """A net in groups, its constants, and the plan of these groups."""
    given: onnx.ModelProto = NETS[name]
    graph, weights, _ = load(given, {}, "fp16")
    graph, weights = fuse(graph, weights, load_machine(target))
    return graph, weights, Plan(graph.name, target, groups=tuple(PlanGroup(g.name, g.kind, g.nodes) for g in graph.groups))


def kind(graph: Graph, nodes: tuple[str, ...]) -> str:
    own = [n for n in graph.nodes if n.name in nodes]
    return "view" if all(family(n) == "view" for n in own) else kind_of(own)


def edit(pick: random.Random, graph: Graph, groups: tuple[PlanGroup, ...]) -> tuple[PlanGroup, ...]:
    """The groups with one of them in two, or two of them as one."""
    at = pick.randrange(len(groups))
    g = groups[at]
    order = [n.name for n in graph.nodes]
    if len(g.nodes) > 1 and pick.random() < 0.6:
        cut = pick.randrange(1, len(g.nodes))
        parts = tuple(PlanGroup(f"{g.name}_{i}", kind(graph, p), p) for i, p in enumerate((g.nodes[:cut], g.nodes[cut:])))
        return groups[:at] + parts + groups[at + 1:]
    other = min(len(groups) - 1, at + pick.choice((1, 1, 2, 3)))
    if other == at or "host" in (g.kind, groups[other].kind):
        return groups
    nodes = tuple(sorted((*g.nodes, *groups[other].nodes), key=order.index))
    place = pick.choice((at, other))
    joined = PlanGroup(f"{g.name}_{groups[other].name}", kind(graph, nodes), nodes)
    return tuple(joined if i == place else x for i, x in enumerate(groups) if i == place or i not in (at, other))


@pytest.mark.parametrize("target", ["Ascend910B3", "Ascend310P3"])
@pytest.mark.parametrize("name", ["mixed", "net", "heads", *(pytest.param(n, marks=pytest.mark.slow) for n in ("mlp", "resnet"))])
def test_groups_split_and_joined_are_right_or_refused(name: str, target: str) -> None:
    graph, weights, plan = fused(name, target)
    machine = load_machine(target)
    right: list[str] = []

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(st.integers(0, 10**6))
    @example(2)
    @example(4)
    @example(9)
    def law(seed: int) -> None:
        groups, pick = plan.groups, random.Random(seed)
        for _ in range(pick.choice((1, 2))):
            groups = edit(pick, graph, groups)
        try:
            made = regroup_as(graph, replace(plan, groups=groups), Places(), machine)
        except CheckError as e:
            assert any(words in str(e) for words in ("cannot be one launch: ", "put the line of", "need each other", "write "))
            return
        changed = [g for g in made.groups if g not in graph.groups and g.kind in ("cube", "vector")]
        _, reasons = lower_groups(replace(made, groups=tuple(changed)))
        if reasons:
            return
        tasked = {t.group.name: t for t in tasks(made, machine)}
        for g in changed:
            try:
                _, program = first_schedule(tasked[g.name].func, machine)
            except AoecError:
                continue
            assert verify_group(made, g, program, tasked[g.name].bindings, weights) == []
            right.append(g.name)

    law()
    assert right
