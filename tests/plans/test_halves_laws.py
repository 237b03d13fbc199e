"""Groups of a fused graph in parts, by every way that a compile or a plan takes them apart: each part is refused with a sentence, or one
launch that is legal, whose values are the reference's, and whose program has no more of a tensor than is stored."""
from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from math import prod

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from aoec.base.errors import AoecError, CheckError, UnsupportedError
from aoec.frontend.translate.onnx import load
from aoec.ir.graph.graph import Graph, Group
from aoec.ir.index import DTYPES, evaluate
from aoec.ir.plan import Plan, PlanGroup
from aoec.ir.program import Program
from aoec.ir.text.places import Places
from aoec.jobs.choose.model_tasks import size_bytes, tasks
from aoec.jobs.compile.untuned import compile_untuned, first_schedule
from aoec.jobs.run.execute import run_model
from aoec.jobs.verify.verify import verify_group
from aoec.lowering.arrange.fuse import fuse, halve_groups, kind_of
from aoec.lowering.arrange.layout import family
from aoec.lowering.arrange.nz import in_nz, regions
from aoec.lowering.arrange.planned.enter import regroup_as
from aoec.lowering.arrange.slices import Region, slice_graph
from aoec.ops.run import evaluate as run_reference
from aoec.target.legality.check import check
from aoec.target.machine import Machine
from aoec.target.machine import load as load_machine
from tests.frontend.models import model, node, normal
from tests.frontend.test_quantised import conv, deep, gemm, join, narrow, residual
from tests.jobs.nets import net
from tests.lowering.chains import chain
from tests.lowering.test_slices import IMAGES, ROWS
from tests.lowering.test_slices import net as small_net
from tests.plans.test_regroup_laws import HEADS, MIXED

Fused = tuple[Graph, dict[str, np.ndarray]]
NETS: dict[str, onnx.ModelProto] = {
    "bytes": conv(), "bytes without relu": conv(relu=False), "bytes after bytes": deep(), "few bytes": narrow(20),
    "gemm of bytes": gemm("Gemm"),
    "sum of bytes": residual(), "bytes joined": join(), "mixed": MIXED, "heads": HEADS, "net": net()}
# matrices between products, in fractals: relu on the way out, and work between products
FRACTALS = model([node("MatMul", "x v", "t"), node("Relu", "t", "u"), node("MatMul", "u w", "s"), node("Sigmoid", "s", "g"),
                  node("Mul", "g s", "m"), node("Abs", "m", "a"), node("MatMul", "a z", "y")],
                 {"x": (32, 48)}, ["y"], {n: normal(48, 48, seed=i) for i, n in enumerate("vwz")})
QUICK = ("bytes", "bytes after bytes", "few bytes", "heads")
TARGETS = ("Ascend910B3", "Ascend310P3")


@lru_cache(maxsize=32)
def fused(name: str, target: str) -> Fused:
    """A net in groups, and its constants as stored."""
    graph, weights, _ = load(NETS[name] if name in NETS else FRACTALS if name == "nz" else chain(int(name)), {}, "fp16")
    return fuse(in_nz(graph, regions(graph)) if name == "nz" else graph, weights, load_machine(target))


def levels(graph: Graph) -> Iterator[Graph]:
    """The graph, with all its groups in halves, and these again, as long as there are halves."""
    while True:
        yield graph
        parts = halve_groups(graph, {g.name for g in graph.groups})
        if parts == graph:
            return
        graph = parts


def beyond(program: Program, bindings: tuple[tuple[str, str], ...], graph: Graph) -> list[str]:
    """The tensors of which a program declares more than is stored. Constants are padded when they are stored."""
    sizes = {t.name: prod(int(evaluate(d, {})) for d in t.shape) * DTYPES[t.dtype] for t in program.tensors}
    tensors = {t.name: t for t in graph.tensors}
    return [name for own, name in bindings if sizes[own] > size_bytes(tensors[name]) and not tensors[name].data]


def faults(graph: Graph, g: Group, machine: Machine, weights: dict[str, np.ndarray]) -> list[str] | None:
    """What is wrong with the first schedule of a group; None where the group is refused."""
    try:
        (task,) = tasks(replace(graph, groups=tuple(x if x is g else replace(x, kind="host") for x in graph.groups)), machine)
        _, program = first_schedule(task.func, machine)
    except AoecError as e:
        assert str(e)
        return None
    check(program, machine)
    return [*beyond(program, task.bindings, graph), *verify_group(graph, g, program, task.bindings, weights)]


def parts_are_right(graph: Graph, weights: dict[str, np.ndarray], machine: Machine) -> tuple[int, int]:
    """(parts of groups that run, parts that are refused); AssertionError at one that is wrong."""
    whole, seen, count = {g.nodes for g in graph.groups}, set[tuple[str, ...]](), [0, 0]
    for level in levels(graph):
        for g in level.groups:
            if g.kind in ("cube", "vector") and g.nodes not in seen | whole:
                seen.add(g.nodes)
                found = faults(level, g, machine, weights)
                assert not found, (g.nodes, found)
                count[found is None] += 1
    return count[0], count[1]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", [*QUICK, "nz", *(pytest.param(n, marks=pytest.mark.slow) for n in NETS if n not in QUICK)])
def test_halves_are_right_or_refused(name: str, target: str) -> None:
    graph, weights = fused(name, target)
    right, refused = parts_are_right(graph, weights, load_machine(target))
    assert right and (name == "nz") == any(t.layout == "NZ" for t in graph.tensors)
    assert (refused > 0) == ("bytes" in name and name not in ("gemm of bytes", "sum of bytes", "bytes joined"))


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_halves_of_random_chains_are_right_or_refused(target: str) -> None:
    machine = load_machine(target)

    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 10**6))
    def law(seed: int) -> None:
        try:
            graph, weights = fused(str(seed), target)
        except UnsupportedError:
            return
        parts_are_right(graph, weights, machine)

    law()


@pytest.mark.parametrize("text, count", [(IMAGES, 2), pytest.param(IMAGES, 4, marks=pytest.mark.slow),
                                         pytest.param(ROWS, 2, marks=pytest.mark.slow)])
def test_halves_of_slices_are_right_or_refused(text: str, count: int) -> None:
    graph, weights = small_net(text)
    last = [g for g in graph.groups if g.kind == "cube"][-1]
    cut = slice_graph(graph, [Region(graph.groups[0].name, last.name, count)])
    first = tuple(g if "_1of" in g.name else replace(g, kind="host") for g in cut.groups)
    assert parts_are_right(replace(cut, groups=first), weights, load_machine("Ascend310P3"))[0]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["bytes", "bytes after bytes", "few bytes"])
def test_a_plan_parts_a_group_rightly_or_is_refused(name: str, target: str) -> None:
    """In any two runs of its nodes, in single nodes, and in any choice of them."""
    graph, weights = fused(name, target)
    machine = load_machine(target)
    plan = Plan(graph.name, target, groups=tuple(PlanGroup(g.name, g.kind, g.nodes) for g in graph.groups))
    long, refused = [g for g in plan.groups if len(g.nodes) > 1], list[str]()

    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 10**6))
    @example(0)
    def law(seed: int) -> None:
        pick = random.Random(seed)
        g = pick.choice(long)
        color = {n: pick.randrange(2) for n in g.nodes} if seed else {n: int(n == g.nodes[-1]) for n in g.nodes}
        parts = [tuple(n for n in g.nodes if color[n] == at) for at in (0, 1)]
        made = [PlanGroup(f"{g.name}_{at}", kind(graph, p), p) for at, p in enumerate(parts) if p]
        groups = tuple(x for old in plan.groups for x in (made if old is g else [old]))
        try:
            entered = regroup_as(graph, replace(plan, groups=groups), Places(), machine)
        except CheckError as e:
            refused.append(str(e))
            return
        for x in entered.groups:
            if x.nodes in parts and x.kind in ("cube", "vector"):
                assert not faults(entered, x, machine, weights)

    law()
    assert any("blocks of 8 elements" in why and "cannot be one launch" in why for why in refused)


def kind(graph: Graph, nodes: tuple[str, ...]) -> str:
    own = [n for n in graph.nodes if n.name in nodes]
    return "view" if all(family(n) == "view" for n in own) else kind_of(own)


@pytest.mark.parametrize("target", [pytest.param("Ascend910B3", marks=pytest.mark.slow), "Ascend310P3"])
def test_a_model_of_bytes_in_halves_gives_the_same(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What of a group has no meaning apart runs on the host: where no group of more than one operator has a schedule, values are still
    right."""
    graph, weights, _ = load(deep(), {}, "fp32")
    schedule = first_schedule
    wide: list[str] = []

    def single(func, machine):  # type: ignore[no-untyped-def]
        if len({b.name for b in func.locals}) > 1 and "mm" in str(func.body) and any(b.name == "S" for b in func.inputs):
            wide.append(func.name)
            raise UnsupportedError("not together")
        return schedule(func, machine)

    monkeypatch.setattr("aoec.jobs.compile.untuned.first_schedule", single)
    artifact, reasons = compile_untuned(graph, weights, "fp32", load_machine(target))
    feeds = {"x": normal(1, 8, 9, 7)}
    got, wanted = run_model(artifact, feeds), run_reference(graph, feeds, weights)
    assert wide and any("blocks of 8 elements" in why for why in reasons.values()), reasons
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, atol=2.01 * 0.04)
