"""Training steps compiled: values of every launch, phases, memory, traces, and where activations are when the backward pass reads them."""
from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from aoec import cli
from aoec.artifact.artifact import load_gears
from aoec.base.errors import CheckError
from aoec.frontend.training.phases import phases
from aoec.frontend.training.training import TrainingGraph, load_training
from aoec.ir.graph.graph import Graph
from aoec.jobs.choose.model_tasks import size_bytes, tasks
from aoec.jobs.compile.step_memory import step_memory
from aoec.jobs.compile.training_step import launches_of
from aoec.jobs.compile.untuned import compile_untuned
from aoec.jobs.gdat.model_trace import trace_of
from aoec.jobs.run.execute import run_model
from aoec.jobs.verify.verify import verify_group
from aoec.lowering.arrange.fuse import fuse
from aoec.lowering.arrange.views import places
from aoec.ops.run import evaluate
from aoec.options.training import Training
from aoec.target.machine import load
from tests.frontend.training.test_training import feeds_of
from tests.frontend.training.trained_models import classifier

MACHINE = load("Ascend910B3")


def step(optimiser: str = "sgd", precision: str = "fp16", **size: int) -> TrainingGraph:
    return load_training(classifier(**size), Training("cross_entropy", optimiser), precision=precision)  # type: ignore[arg-type]


def fused(made: TrainingGraph) -> Graph:
    return fuse(made.graph, made.weights, MACHINE)[0]


@pytest.mark.parametrize(("optimiser", "precision"), [("sgd", "fp16"), ("adam", "bf16")])
def test_every_launch_gives_the_values_of_its_operators(optimiser: str, precision: str) -> None:
    made = step(optimiser, precision, channels=16)
    artifact, reasons = compile_untuned(made.graph, made.weights, precision, MACHINE)
    assert not reasons and all(g.kind != "host" for g in artifact.graph.groups)
    groups = {g.name: g for g in artifact.graph.groups}
    for c in artifact.groups:
        if c.program is not None:
            assert verify_group(artifact.graph, groups[c.group], c.program, c.bindings, artifact.weights) == []
    feeds = feeds_of(made)
    got, wanted = run_model(artifact, feeds), evaluate(made.graph, feeds, made.weights)
    assert got["loss"] == pytest.approx(wanted["loss"], rel=1e-2)
    most = max(float(np.abs(wanted[g]).max()) for _, g in made.gradients)
    for _, g in made.gradients:
        np.testing.assert_allclose(got[g], wanted[g], atol=most * (0.02 if precision == "fp16" else 0.1))


def test_a_gradient_is_sent_before_the_optimiser_reads_it() -> None:
    """No launch makes a gradient and what is made of it."""
    made = step(precision="fp32")
    graph, sent = fused(made), {g for _, g in made.gradients}
    of = phases(graph, made.loss, sent)
    nodes = {n.name: n for n in graph.nodes}
    for g in graph.groups:
        made_here = {o for name in g.nodes for o in nodes[name].outputs}
        assert not made_here & sent or all(of[o] != "optimiser" for o in made_here)


def test_phases_are_those_of_the_graph_before_fusion() -> None:
    made = step()
    sent = [g for _, g in made.gradients]
    before, after = (phases(g, made.loss, sent) for g in (made.graph, fused(made)))
    assert {name: after[name] for name in before if name in after} == {name: p for name, p in before.items() if name in after}


def test_a_trace_has_every_gradient_in_the_order_of_launches() -> None:
    made = step()
    graph = fused(made)
    times = {g.name: 2.0 for g in graph.groups}
    trace = trace_of(graph, times, made.loss, made.gradients)
    count = sum(g.kind != "view" for g in graph.groups)
    assert trace.compute_us == pytest.approx(2.0 * count)
    assert {g.name for g in trace.gradients} == {name for name, _ in made.gradients}
    tensors = {t.name: t for t in graph.tensors}
    assert trace.size == sum(size_bytes(tensors[g]) for _, g in made.gradients)
    launches = launches_of(graph, times, made.loss, made.gradients)
    nodes = {n.name: n for n in graph.nodes}
    makers = {o: g.name for g in graph.groups for name in g.nodes for o in nodes[name].outputs}
    behind = [launch.group for launch in launches if launch.phase == "backward"]
    for g in trace.gradients:
        if makers[f"{g.name}_grad"] in behind:
            assert g.ready_us == 2.0 * (behind.index(makers[f"{g.name}_grad"]) + 1)
    assert 0 < trace.gradients[0].ready_us < trace.gradients[-1].ready_us <= trace.backward_us
    read = {g.name: g.read_us for g in trace.gradients}
    assert read["weight"] < read["scale"] < read["last_bias"] < trace.forward_us
    with pytest.raises(CheckError, match="no gradients"):
        trace_of(graph, times, made.loss, [])


def test_memory_is_that_of_what_is_alive() -> None:
    made = step("adam", channels=16)
    memory = step_memory(fused(made))
    assert memory is not None
    parameters = sum(x.nbytes for name, x in made.initial.items() if name not in ("mean", "variance"))
    assert memory.parameters == memory.gradients == parameters
    assert memory.states == 2 * parameters + 2 * 4 * 16 + 2 * 4  # of Adam, running statistics, powers
    conv = 2 * 4 * 16 * 36  # what the convolution makes, which the backward pass reads again
    assert conv <= memory.kept <= memory.most <= 40 * conv
    assert memory.peak == memory.parameters + memory.states + memory.gradients + memory.inputs + memory.most
    assert step_memory(fuse(*load_plain(), MACHINE)[0]) is None


def load_plain() -> tuple[Graph, dict[str, np.ndarray]]:
    from aoec.frontend.translate.onnx import load as load_model
    return load_model(classifier())[:2]


def test_an_activation_that_is_kept_is_not_in_l2_when_it_is_read_again() -> None:
    """It follows from recency: of a step that touches more than L2 holds in between, the backward pass finds none of it there."""
    made = step(batch=256, channels=64, size=56)
    graph = fused(made)
    sent = [g for _, g in made.gradients]
    of = phases(graph, made.loss, sent)
    tensors = {t.name: t for t in graph.tensors}
    (conv,) = (n.outputs[0] for n in graph.nodes if n.op == "conv2d_packed" and of[n.outputs[0]] == "forward")
    kept = {conv, *(n.outputs[0] for n in graph.nodes if n.op == "from_nc1hwc0" and n.inputs[0] == conv)}
    lies, nodes = places(graph), {n.name: n for n in graph.nodes}
    found: dict[tuple[str, str], list[float]] = {}
    for task in tasks(graph, MACHINE):
        held, read = dict(task.state), {b.name for b in task.func.inputs}
        phase = of[nodes[task.group.nodes[-1]].outputs[0]]
        for name, tensor in task.bindings:
            root = lies.get(tensor, (tensor, 0))[0]
            if name in read and root in kept:
                found.setdefault((phase, root), []).append(held.get(name, 0) / size_bytes(tensors[tensor]))
    ahead, behind = ([first for (p, _), (first, *_) in found.items() if p == phase] for phase in ("forward", "backward"))
    assert ahead and max(ahead) == 1.0  # what the convolution has just made
    assert behind and max(behind) == 0.0  # what the backward pass reads of it first


@pytest.mark.slow
def test_a_compile_verifies_a_training_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(classifier(channels=16), "net.onnx")
    assert cli.main(["compile", "net.onnx", "--loss", "cross_entropy", "--verify", "--no-host", "--json", "-o", "net.aoec"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert any("peak HBM of a step" in line for line in said["notes"])
    (artifact,) = load_gears("net.aoec")
    figures = dict(artifact.figures)
    assert figures["forward_ns"] + figures["backward_ns"] + figures["optimiser_ns"] == pytest.approx(figures["throughput_period_ns"], abs=5)
    assert figures["peak_hbm_bytes"] > 0
    assert cli.main(["compile", "net.onnx", "--loss", "mean"]) == 2
    assert "there is no loss and no output of that name" in capsys.readouterr().err
    assert cli.main(["import", "net.onnx", "--loss", "cross_entropy", "-o", "net.graph"]) == 0
    assert "weight_grad" in Path("net.graph").read_text("utf-8")
