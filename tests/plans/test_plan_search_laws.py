"""The search of a model's plan, held against all plans of small models, each put together, scheduled and timed as a model."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain as joined
from itertools import combinations

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aoec.base.errors import AoecError
from aoec.frontend.translate.onnx import load
from aoec.ir.graph.graph import Graph, Group
from aoec.ir.plan import Plan
from aoec.ir.text.places import Places
from aoec.jobs.choose.model_tasks import Task, place_groups, tasks
from aoec.jobs.plans.find_plan import FoundPlan, PlanFinder, PlannedGraph, name_groups
from aoec.jobs.plans.model_lattice import Grouped, Known, LatticeMaker
from aoec.jobs.plans.plan_prices import At, PlanPrices
from aoec.jobs.tune.made import measure_trace
from aoec.jobs.tune.order import Order, Solved
from aoec.jobs.tune.solve import attempt
from aoec.lowering.arrange.fuse import fuse
from aoec.lowering.arrange.planned import enter
from aoec.lowering.arrange.planned.launch import Launches
from aoec.simulate.timing.time import chain
from aoec.target.machine import load as load_machine
from tests.frontend.models import model, node
from tests.plans.test_regroup_laws import HEADS, MIXED

MOST_ROWS = 400  # of a lattice that is timed row by row
SHAPE = (48, 64)


@lru_cache(maxsize=4096)
def default_of(task: Task, target: str) -> Solved | str:
    """The default schedule of a task, or why there is none."""
    return attempt(task, load_machine(target), Order(tune=False))


def solve(target: str, asked: Sequence[Task]) -> Mapping[At, Solved | str]:
    return {(t.func_key, t.state_text): default_of(t, target) for t in asked}


class Model:
    """An imported model on a machine, and its plans."""

    def __init__(self, given: onnx.ModelProto, target: str) -> None:
        self.graph, self.weights, _ = load(given, {}, "fp16")
        self.target, self.machine = target, load_machine(target)

    def make(self, plan: Plan) -> PlannedGraph | None:
        """The graph of a plan without groups."""
        asked = frozenset[str]()

        def fuse_asked(graph: Graph, apart: frozenset[str]) -> enter.Fused:
            nonlocal asked
            made, weights, asked = self.fuse(graph, apart)
            return made, weights, asked | apart

        try:
            graph, _ = enter.apply_plan(self.graph, plan, Places(), self.machine, fuse_asked)
        except AoecError:
            return None
        placed = place_groups(graph)
        return None if placed.reasons else PlannedGraph(placed.graph, asked)

    def fuse(self, graph: Graph, apart: frozenset[str]) -> enter.Fused:
        """A graph in groups, its constants, and the exceptions that fusion asked for."""
        names = enter.Asked(apart)
        return *fuse(graph, self.weights, self.machine, names), frozenset(names.asked)

    def latency_us(self, graph: Graph) -> float:
        """What a graph in groups takes by default schedules, as a compile times it; inf where a group has none."""
        measures = []
        for task in tasks(graph, self.machine):
            solved = default_of(task, self.target)
            if isinstance(solved, str):
                return float("inf")
            measures.append(measure_trace(task.func, solved.best.trace, self.machine, task.state))
        return chain(measures, self.machine).latency_us

    def find(self, plan: Plan) -> FoundPlan:
        """What the search finds from a plan."""
        first = self.make(plan)
        assert first is not None
        prices = PlanPrices(self.machine, lambda asked: solve(self.target, asked))
        for task in tasks(first.graph, self.machine):
            prices.learn(task, default_of(task, self.target))
        return PlanFinder(self.graph, self.machine, prices, self.make, lambda: False, False).find(plan, first)

    def rows_us(self, now: PlannedGraph) -> list[float]:
        """What all rows of a graph's groups, their parts and neighbours take, each as a graph of its own."""
        whole = LatticeMaker(Grouped(now.graph, self.machine), Known()).finish()
        if whole.lattice.count_paths() > MOST_ROWS:
            return []
        return [self.latency_us(replace(now.graph, groups=name_groups([whole.groups[n] for n in row], now.graph.groups)))
                for row in whole.lattice.rows()]


OPS = ("Relu", "Sigmoid", "Exp", "Add", "Mul", "Softmax", "MatMul", "Twice")


@st.composite
def models(draw: st.DrawFn) -> onnx.ModelProto:
    """Models of a few operators on one shape, each on the result of one of the last two before it."""
    nodes, made = [], ["x"]
    for at, op in enumerate(draw(st.lists(st.sampled_from(OPS), min_size=2, max_size=5))):
        source, out = draw(st.sampled_from(made[-2:])), f"t{at}"
        if op == "Twice":
            nodes += [node("Transpose", source, f"{out}_t", perm=[1, 0]), node("Transpose", f"{out}_t", f"{out}_b", perm=[1, 0]),
                      node("Relu", f"{out}_b", out)]
        elif op in ("Add", "Mul"):
            nodes.append(node(op, f"{source} {draw(st.sampled_from(made[-2:]))}", out))
        elif op == "MatMul":
            nodes.append(node(op, f"{source} w", out))
        else:
            nodes.append(node(op, source, out, **({"axis": -1} if op == "Softmax" else {})))
        made.append(out)
    unread = [m for m in made[1:] if all(m not in n.input for n in nodes)]
    return model(nodes, {"x": SHAPE}, unread, {"w": np.ones((SHAPE[1], SHAPE[1]), np.float32)})


def check(given: onnx.ModelProto, target: str) -> FoundPlan | None:
    """What is found of a model, after it was held against all plans: the decided one is what a compile makes of it, and no row of its
    graph, nor of the graph of any of its exceptions taken together, is faster."""
    subject = Model(given, target)
    plan = Plan(subject.graph.name, target)
    first = subject.make(plan)
    if first is None:
        return None
    found = subject.find(plan)
    assert found.before_us == pytest.approx(subject.latency_us(first.graph), rel=1e-9)
    assert found.end_us == pytest.approx(subject.latency_us(found.graph), rel=1e-9)
    assert found.bound_us <= found.end_us <= found.before_us
    made = enter.apply_plan(subject.graph, found.plan, Places(), subject.machine, subject.fuse)[0]
    assert made.groups == found.graph.groups and subject.latency_us(made) == pytest.approx(found.end_us, rel=1e-9)
    now = subject.make(replace(found.plan, groups=()))
    assert now is not None
    rows = subject.rows_us(now)
    if rows and found.is_decided:
        assert found.end_us == pytest.approx(min(rows), rel=1e-9)
    return found


@pytest.mark.parametrize("target", ["Ascend910B3", pytest.param("Ascend310P3", marks=pytest.mark.slow)])
def test_no_plan_of_a_small_model_is_faster_than_the_one_that_is_found(target: str) -> None:
    seen: list[bool] = []

    @settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(models())
    def law(given_model: onnx.ModelProto) -> None:
        found = check(given_model, target)
        seen.append(found is not None and found.paths > 1)

    law()
    assert sum(seen) > 1  # there was something to decide


# in `make test` each model is asked on one of the machines, the larger one on the one that takes less
# whatever a default is, plans are compared by it: one that is found soon is enough
@pytest.mark.usefixtures("poor", "few")
@pytest.mark.parametrize("given_model, target", [
    pytest.param(HEADS, "Ascend310P3", id="heads-Ascend310P3"), pytest.param(MIXED, "Ascend910B3", id="mixed-Ascend910B3"),
    pytest.param(HEADS, "Ascend910B3", id="heads-Ascend910B3", marks=pytest.mark.slow),
    pytest.param(MIXED, "Ascend310P3", id="mixed-Ascend310P3", marks=pytest.mark.slow)])
def test_exceptions_of_fusion_are_decided_too(given_model: onnx.ModelProto, target: str) -> None:
    found = check(given_model, target)
    assert found is not None
    subject = Model(given_model, target)
    plan = Plan(subject.graph.name, target)
    first = subject.make(plan)
    assert first is not None
    changing = [n for n in sorted(first.asked) if (m := subject.make(replace(plan, apart=(n,)))) and m.graph != first.graph]
    every = joined.from_iterable(combinations(changing, k) for k in range(len(changing) + 1))
    least = min(min(subject.rows_us(made), default=float("inf")) for names in every
                if (made := subject.make(replace(plan, apart=names))) is not None)
    assert found.end_us == pytest.approx(least, rel=1e-9)


@pytest.mark.parametrize("reads", ["t0 t1", "t1 t0"])
def test_a_product_whose_result_is_read_twice_is_no_launch_with_its_readers(reads: str) -> None:
    nodes = [node("MatMul", "x w", "t0"), node("Relu", "t0", "t1"), node("Add", reads, "t2")]
    subject = Model(model(nodes, {"x": SHAPE}, ["t2"], {"w": np.ones((SHAPE[1], SHAPE[1]), np.float32)}), "Ascend310P3")
    made = subject.make(Plan(subject.graph.name, "Ascend310P3"))
    assert made is not None
    whole = Group("g", "cube", tuple(n.name for n in made.graph.nodes))
    assert "a product's result is read once" in Launches(made.graph, subject.machine).refusal(whole)
    check(model(nodes, {"x": SHAPE}, ["t2"], {"w": np.ones((SHAPE[1], SHAPE[1]), np.float32)}), "Ascend310P3")
