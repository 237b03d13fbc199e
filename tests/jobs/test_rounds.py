"""Bodies of control flow in a compiled model: tuned and kept as other groups are, timed as often as they run, and the same bytes again."""
from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import aoec
from aoec.artifact.artifact import load, pack
from aoec.base.errors import AoecError
from aoec.cli import main
from aoec.frontend.translate import control
from aoec.frontend.translate.onnx import load as translated
from aoec.ir.graph.bodies import groups_by_place, place
from aoec.ir.graph.graph import OpNode
from aoec.jobs.choose.model_tasks import host_times
from aoec.jobs.choose.rounds import describe_rounds, passes, rounds
from aoec.lowering.arrange.fuse import fuse
from aoec.simulate.timing.host import ROUNDS_OF_A_LOOP, SHARE_OF_A_BRANCH, walk_us
from aoec.target import machine
from tests.frontend.models import normal, run
from tests.frontend.test_walked import WALKED, positive

X = positive(normal(2, 3))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, aoec.Session]:
    """A folder with a compiled loop that data end, its dump and bank; and the session."""
    folder = tmp_path_factory.mktemp("loop")
    return folder, aoec.compile(WALKED["a loop that data end"], folder / "net.aoec", precision="fp32", bank=folder / "bank.db", tune=True,
                                budget=20, dump=folder / "dump")


def test_a_loop_runs_by_its_programs(made: tuple[Path, aoec.Session]) -> None:
    folder, session = made
    assert session.on_host == ("host.Loop",)
    artifact = load(str(folder / "net.aoec"))
    (body,) = artifact.graph.bodies
    inside = {g.name for g in groups_by_place(artifact.graph)[place(body)] if g.kind in ("cube", "vector")}
    assert {"cube", "vector"} == {g.kind for g in artifact.graph.groups if g.name in inside}
    assert all(c.program is not None and c.trace is not None for c in artifact.groups if c.group in inside)
    for got, expected in zip(session.run(None, {"x": X}), run(WALKED["a loop that data end"], {"x": X}), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_it_is_tuned_once_and_gives_the_same_bytes_again(made: tuple[Path, aoec.Session]) -> None:
    """From the bank, and from the texts of its dump."""
    folder, session = made
    again = aoec.compile(WALKED["a loop that data end"], folder / "again.aoec", precision="fp32", bank=folder / "bank.db", tune=True,
                         budget=20)
    assert again.report["trials"] == 0
    entered = aoec.compile(folder / "dump", folder / "entered.aoec", bank=folder / "bank.db", start="schedule")
    assert entered.on_host == session.on_host
    assert len({(folder / f"{name}.aoec").read_bytes() for name in ("net", "again", "entered")}) == 1


def test_whole_times_count_the_rounds(made: tuple[Path, aoec.Session]) -> None:
    """All that the loop does is in the line of the whole model, as often as it is said to be done."""
    folder, session = made
    artifact = load(str(folder / "net.aoec"))
    by_place, ticks = groups_by_place(artifact.graph), {c.group: c.ticks for c in artifact.groups}
    us = machine.load().us_per_tick
    often = passes(artifact.graph)
    alone_us = sum(count * sum(ticks[g.name] * us for g in by_place[at]) for at, count in often.items())
    host_us = sum(host_times(artifact.graph).values())
    assert sorted(often.values()) == [1, ROUNDS_OF_A_LOOP] and host_us > walk_us(ROUNDS_OF_A_LOOP)
    assert dict(artifact.figures)["isolated_ns"] == pytest.approx(1000 * (alone_us + host_us), abs=1)
    assert any("10 rounds, assumed" in note for note in session.report["notes"])


def test_tasks_weigh_a_body_by_its_rounds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(WALKED["a loop that data end"], tmp_path / "net.onnx")
    assert main(["tasks", str(tmp_path / "net.onnx"), "--precision", "fp32", "--bank", str(tmp_path / "none.db"), "--json"]) == 0
    counts = {t["what"].split()[0]: t["count"] for t in json.loads(capsys.readouterr().out)["tasks"]}
    assert counts["matmul"] == ROUNDS_OF_A_LOOP and counts["relu"] == 1


def test_how_often_a_body_runs() -> None:
    def asked(op: str, *attributes: tuple[str, int]) -> float:
        return rounds(OpNode("n", f"host.{op}", (), (), attributes))[0]
    assert asked("Loop", ("rounds", 7)) == 7 and asked("Scan", ("rounds", 3)) == 3
    assert asked("Loop") == ROUNDS_OF_A_LOOP and asked("If") == SHARE_OF_A_BRANCH


def test_rounds_in_rounds_multiply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "MOST_NODES", 0)
    graph, _ = fuse(*translated(WALKED["a loop in a loop"], precision="fp32")[:2])
    assert sorted(passes(graph).values()) == [1, ROUNDS_OF_A_LOOP, 2 * ROUNDS_OF_A_LOOP]
    assert len(describe_rounds(graph)) == 2


def test_an_artifact_whose_body_is_cut_off_is_refused(made: tuple[Path, aoec.Session]) -> None:
    """A body that another node has, or that reads what is around it, does not get past the check of its text."""
    artifact = load(str(made[0] / "net.aoec"))
    (body,) = artifact.graph.bodies
    for faulty in (replace(body, node="relu_0"), replace(body, inputs=body.inputs[:-1]), replace(body, kind="then_branch")):
        path = made[0] / "faulty.aoec"
        try:
            path.write_bytes(pack(replace(artifact, graph=replace(artifact.graph, bodies=(faulty,)))))
            aoec.Session(path).run(None, {"x": X})
        except AoecError as e:
            assert len(str(e).splitlines()) <= 4
        else:
            raise AssertionError("a faulty body ran")
