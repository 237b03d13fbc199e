"""A group that has no program as a whole has one in parts, and nothing of it goes to the host; an operator without one does, and it is
said."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import aoec
from aoec import backend, cli
from aoec.base.errors import CheckError, UnsupportedError
from aoec.frontend.translate.onnx import load
from aoec.ir.func.tir import Func
from aoec.ir.graph.graph import Graph, Group
from aoec.ir.program import Program
from aoec.ir.text.show import show
from aoec.jobs import known
from aoec.jobs.choose import model_tasks
from aoec.jobs.choose.refusal import RAISE
from aoec.jobs.compile import compile as compile_job
from aoec.jobs.compile import untuned
from aoec.jobs.tune import solve
from aoec.jobs.tune.tuning import Problem
from aoec.jobs.verify import legal
from aoec.lowering.arrange.fuse import fuse, halve_groups
from aoec.lowering.lower.lower import Indexed
from aoec.target.legality.check import check
from aoec.target.machine import Machine
from aoec.target.machine import load as load_machine
from tests.frontend.models import model, node, normal, run

# weighed sums over the middle axis, as of chosen experts: a group whose weights, spread over rows in two loops, cannot be emitted
NET = model([node("Mul", "x w", "y"), node("ReduceSum", "y axis", "z", keepdims=0)], {"x": (6, 2, 64), "w": (6, 2, 1)}, ["z"],
            {"axis": np.array([1])})
FEEDS = {"x": normal(6, 2, 64), "w": normal(6, 2, 1)}


def test_weighed_sums_over_a_middle_axis(tmp_path: Path) -> None:
    wanted = run(NET, FEEDS)[0]
    for tune in (False, True):
        session = aoec.compile(NET, tmp_path / "net.aoec", bank=tmp_path / "bank.db", tune=tune, budget=3, no_host=True)
        assert session.on_host == ()
        assert np.abs(session.run(None, FEEDS)[0] - wanted).max() < 3e-3 * np.abs(wanted).max()
    prepared = backend.prepare(NET)
    assert not prepared.on_host
    np.testing.assert_allclose(prepared.run(FEEDS)[0], wanted, rtol=1e-5, atol=1e-5)


def test_operators_that_can_be_lowered_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lower = Indexed.lower

    def single(self: Indexed, group: Group) -> Func:
        if len(group.nodes) > 1:
            raise UnsupportedError("not together")
        return lower(self, group)

    monkeypatch.setattr(Indexed, "lower", single)
    net = model([node("Relu", "x", "r"), node("Exp", "r", "y")], {"x": (4, 8)}, ["y"])
    session = aoec.compile(net, tmp_path / "net.aoec", bank=tmp_path / "bank.db", no_host=True)
    assert session.on_host == () and len(session.report["groups"]) == 2


def chain(length: int) -> onnx.ModelProto:
    """A chain of elementwise operators of which each reads an input of its own."""
    words = ("Add", "Mul", "Sub", "Max")
    nodes = [node(words[i % 4], f"{f't{i - 1}' if i else 'a'} x{i}", f"t{i}") for i in range(length)]
    return model(nodes, {name: (9, 70) for name in ("a", *(f"x{i}" for i in range(length)))}, [f"t{length - 1}"])


def test_a_group_reads_no_more_tensors_than_there_are_flags(tmp_path: Path) -> None:
    """Nine inputs were a group without a schedule, and eight launches of an operator each."""
    net, machine = chain(8), load_machine()
    graph, _ = fuse(*load(net)[:2], machine)
    assert [len(g.nodes) for g in graph.groups] == [machine.flag_ids - 1, 8 - (machine.flag_ids - 1)]
    feeds = {name: normal(9, 70, seed=at) for at, name in enumerate(i.name for i in net.graph.input)}
    session = aoec.compile(net, tmp_path / "net.aoec", bank=tmp_path / "bank.db", no_host=True)
    wanted = run(net, feeds)[0]
    assert np.abs(session.run(None, feeds)[0] - wanted).max() < 3e-3 * np.abs(wanted).max()


def test_halves_of_a_group() -> None:
    graph, _ = fuse(*load(chain(5))[:2], load_machine())
    (whole,) = graph.groups
    parts = halve_groups(graph, {"g0"})
    assert [g.nodes for g in parts.groups] == [whole.nodes[:3], whole.nodes[3:]] and halve_groups(graph, ()) == graph
    while (again := halve_groups(parts, {g.name for g in parts.groups})) != parts:
        parts = again
    assert [g.nodes for g in parts.groups] == [(n,) for n in whole.nodes]


@pytest.mark.parametrize("at", ["lowering", "scheduling"])
def test_a_fault_in_one_group_ends_no_compile(at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                              capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever a group, or an operator alone, comes upon: the rest of the model is none the worse, and what happens is said. Tests want
    to see such a fault: where $AOEC_RAISE_FAULTS is set it ends the job."""
    lower, start = Indexed.lower, solve.start

    def lowered(self: Indexed, group: Group) -> Func:
        words = [self.nodes[n][1].op for n in group.nodes]
        if len(words) > 2 or "exp" in words:
            raise KeyError("a table")
        return lower(self, group)

    def started(p: Problem) -> object:
        if "exp" in str(p.func.body) and len(p.func.locals) > 1 or "abs" in str(p.func.body):
            raise KeyError("a table")
        return start(p)

    if at == "lowering":
        monkeypatch.setattr(Indexed, "lower", lowered)
    else:
        monkeypatch.setattr(solve, "start", started)
    nodes = [node("Relu", "x", "r"), node("Exp", "r", "e"), node("Add", "e x", "s"), node("Abs", "s", "y")]
    onnx.save(model(nodes, {"x": (4, 8)}, ["y"]), tmp_path / "net.onnx")
    args = ["compile", str(tmp_path / "net.onnx"), "--bank", str(tmp_path / "bank.db"), "-o", str(tmp_path / "net.aoec"), "--verify"]
    assert cli.main(args) == 70 and "internal fault: KeyError: 'a table'" in capsys.readouterr().err
    monkeypatch.delenv(RAISE)
    assert cli.main(args) == 0
    said = capsys.readouterr().err
    assert "g0 is done in parts, of which each is a launch: a fault of aoec itself, KeyError: 'a table'; please report it" in said
    assert "runs on the host: a fault of aoec itself, KeyError" in said
    session = aoec.Session(tmp_path / "net.aoec")
    assert session.on_host == (("exp",) if at == "lowering" else ("abs",))
    x = normal(4, 8)
    np.testing.assert_allclose(session.run(None, {"x": x})[0], np.abs(np.exp(np.maximum(x, 0)) + x), rtol=3e-3)
    assert cli.main([*args, "--no-host", "--repeat"]) == 2
    assert f"1 node would run on the host, which --no-host forbids: {'exp' if at == 'lowering' else 'abs'}" in capsys.readouterr().err


@pytest.mark.parametrize("before", ["nothing", "a bank", "an interrupted run"])
def test_an_illegal_program_ends_no_compile(before: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                            capsys: pytest.CaptureFixture[str]) -> None:
    """It is a fault of aoec itself in one group, whoever says that its schedule is the best: a search, a bank, or what a run left that was
    broken off. The fused group goes apart, the operator alone to the host, and the rest of the model is none the worse."""
    def checked(program: Program, machine: Machine) -> None:
        if "vexp" in show(program):
            raise CheckError("it waits for a flag that nobody sets")
        check(program, machine)

    known.memo.cache_clear()
    monkeypatch.setenv("AOEC_CACHE_DIR", str(tmp_path / "cache"))
    nodes = [node("Relu", "x", "r"), node("Exp", "r", "e"), node("Add", "e x", "s"), node("Abs", "s", "y")]
    onnx.save(model(nodes, {"x": (4, 8)}, ["y"]), tmp_path / "net.onnx")
    args = ["compile", str(tmp_path / "net.onnx"), "--bank", str(tmp_path / "bank.db"), "-o", str(tmp_path / "net.aoec"),
            *(["--tune", "--budget", "2", "--jobs", "1", "--resume"] if before == "an interrupted run" else [])]
    if before == "an interrupted run":
        with monkeypatch.context() as m, pytest.raises(GeneratorExit):
            m.setattr(compile_job, "assemble", broken_off)
            cli.main(args)
    elif before == "a bank":
        assert cli.main(args) == 0
    monkeypatch.setattr(legal, "check", checked)
    known.memo.cache_clear()
    monkeypatch.setenv("AOEC_CACHE_DIR", str(tmp_path / "another"))  # which programs are legal is remembered
    capsys.readouterr()
    assert cli.main(args) == 70 and "internal fault: IllegalProgram: its program is not legal: it waits" in capsys.readouterr().err
    monkeypatch.delenv(RAISE)
    assert cli.main(args) == 0
    said = capsys.readouterr().err
    why = "a fault of aoec itself, IllegalProgram: its program is not legal: it waits for a flag that nobody sets; please report it"
    assert f"g0 is done in parts, of which each is a launch: {why}" in said and f"runs on the host: {why}" in said
    session = aoec.Session(tmp_path / "net.aoec")
    assert session.on_host == ("exp",)
    x = normal(4, 8)
    np.testing.assert_allclose(session.run(None, {"x": x})[0], np.abs(np.exp(np.maximum(x, 0)) + x), rtol=3e-3)
    known.memo.cache_clear()


def broken_off(*words: object) -> object:
    raise GeneratorExit


def test_what_is_no_matter_of_a_group_is_no_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Indexed, group: Group) -> Func:
        raise MemoryError

    graph: Graph = fuse(*load(NET)[:2], load_machine())[0]
    monkeypatch.setattr(Indexed, "lower", full)
    with pytest.raises(MemoryError):
        model_tasks.place_groups(graph)
    with pytest.raises(MemoryError):
        untuned.programs(graph, load_machine())
