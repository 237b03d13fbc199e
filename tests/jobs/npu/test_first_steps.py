"""`aoec doctor --npu`: every step is tried as far as it can be, each failure names itself and what to do, and the report names nobody."""
from __future__ import annotations

import getpass
import json
import os
import re
import socket
from pathlib import Path
from typing import Any

import pytest

from aoec.ascendc.kernel import Kernel, write_kernel
from aoec.base.errors import UnsupportedError
from aoec.cli import main
from aoec.ir.program import Program
from aoec.jobs.npu import first_steps
from aoec.jobs.npu.first_steps import STEPS, Step, show_step, without_places
from aoec.standin.toolkit import make_toolkit
from tests.acl.kits import kit
from tests.jobs.npu.kit import use_kit, without_cann
from tests.standin.need import needs_compiler

pytestmark = needs_compiler
NAMES = [name for name, _, _ in STEPS]


def visit(folder: Path, capsys: pytest.CaptureFixture[str], code: int) -> dict[str, Any]:
    """The report by name of step, after its lines were seen to say the same."""
    assert main(["doctor", "--npu", "--report", str(folder / "report.json")]) == code
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    out, err = capsys.readouterr()
    assert "Traceback" not in err and [s["name"] for s in report["steps"]] == NAMES and report["well"] == (code == 0)
    for s in report["steps"]:
        assert f"{s['status']:9} {s['name']:20} " in out
    return {s["name"]: s for s in report["steps"]}


@pytest.mark.parametrize("release", [85, *[pytest.param(r, marks=pytest.mark.slow) for r in (81, 91)]])
def test_all_steps_on_the_stand_in(release: int, tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                   monkeypatch: pytest.MonkeyPatch) -> None:
    use_kit(monkeypatch, tmp_path, release)
    steps = visit(tmp_path, capsys, 0)
    assert {s["status"] for s in steps.values()} == {"ok"}
    assert steps["empty kernel"]["facts"]["hot_us"] and "MIX" in steps["both kinds of core"]["facts"]["core_type"]
    text = (tmp_path / "report.json").read_text()
    for private in (str(kit(release).root), str(Path.home()), os.environ["AOEC_CACHE_DIR"], socket.gethostname(), getpass.getuser()):
        assert not re.search(rf"(?<!\w){re.escape(private)}(?!\w)", text), private
    assert set(json.loads(text)["environment"]) == {n for n in os.environ if n.startswith("ASCEND")}


@pytest.mark.slow
@pytest.mark.parametrize("soc", ["Ascend310P3", "Ascend910A"])
def test_products_with_one_kind_of_core(soc: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                        monkeypatch: pytest.MonkeyPatch) -> None:
    """All steps are ok; what a kernel would need that the product lacks is no failure."""
    use_kit(monkeypatch, tmp_path, 91, AOEC_STANDIN_SOC=soc)
    steps = visit(tmp_path, capsys, 0)
    assert {s["status"] for s in steps.values()} == {"ok"}
    assert "no cores of two kinds" in steps["both kinds of core"]["help"]

    def refuse(program: Program, *given: Any) -> Kernel:
        if len(program.tensors) == 3:
            raise UnsupportedError("mmad has no call on this product")
        return write_kernel(program, *given)
    monkeypatch.setattr(first_steps, "write_kernel", refuse)
    steps = visit(tmp_path, capsys, 0)
    absent = {name: s["said"] for name, s in steps.items() if s["status"] == "not here"}
    assert "16x16x16 product" in absent and set(absent.values()) == {"mmad has no call on this product"}


# environment, the step that fails, what is said, what to do, the first step that is not tried
STATES = {
    "no compiler": ({"ASCEND_HOME_PATH": "bare", "PATH": "/nowhere"}, "compiler", "has no bisheng", "set_env.sh", None),
    "no device": ({"AOEC_STANDIN_DEVICES": "0"}, "device", "no device", "npu-smi info", "symbols"),
    "other product": ({"AOEC_STANDIN_SOC": "Ascend950PR"}, "device", "Ascend950PR, product 3510", "2201", "symbols"),
    "no memory": ({"AOEC_STANDIN_FAULT": "aclrtMalloc=207001"}, "memory copy", "207001", "send the report back", "event pair"),
    "hang": ({"AOEC_STANDIN_FAULT": "launch=hang@1"}, "empty kernel", "507014", "send the report back", "vector add")}


@pytest.mark.parametrize("name", ["no device", "other product", *[pytest.param(n, marks=pytest.mark.slow) for n in (
    "no compiler", "no memory", "hang")]])
def test_a_step_that_fails_says_what_to_do(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                           monkeypatch: pytest.MonkeyPatch) -> None:
    environ, failed, said, to_do, untried = STATES[name]
    use_kit(monkeypatch, tmp_path, 91, **environ)
    if name == "no compiler":
        monkeypatch.setenv("ASCEND_HOME_PATH", str(make_toolkit(tmp_path / "bare", 91, compiler=False)))
    steps = visit(tmp_path, capsys, 2)
    step = steps[failed]
    assert step["status"] == "failed" and said in step["said"] and to_do in step["help"], step
    if untried:
        assert {steps[n]["status"] for n in NAMES[NAMES.index(untried):]} == {"not tried"}
        assert steps[untried]["said"] == f"needs {failed}"
        assert {steps[n]["status"] for n in NAMES[:NAMES.index(failed)]} == {"ok"}
    else:
        assert steps["library"]["status"] == steps["device"]["status"] == steps["memory copy"]["status"] == "ok"


def test_without_cann_one_step_fails_and_no_other_is_tried(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    without_cann(monkeypatch, tmp_path)
    steps = visit(tmp_path, capsys, 2)
    toolkit = steps["toolkit"]
    assert toolkit["status"] == "failed" and "set_env.sh" in toolkit["help"]
    assert "/usr/local/Ascend/latest (no folder)" in toolkit["looked"] and all(place in toolkit["said"] for place in toolkit["looked"])
    assert {steps[n]["status"] for n in NAMES[1:]} == {"not tried"}


def test_places_that_were_looked_at_are_a_line_each() -> None:
    step = Step("toolkit", "failed", "CANN was not found: no variable is set; tried /a/cann, /b/cann; install it", "install CANN",
                "CANN was not found: no variable is set", ("/a/cann (no folder)", "/b/cann (no folder)"))
    lines = show_step(step, 79).splitlines()
    assert lines[0] == f"{'failed':9} {'toolkit':20} CANN was not found: no variable is set"
    assert [line.strip() for line in lines[1:]] == ["/a/cann (no folder)", "/b/cann (no folder)", "install CANN"]
    long = Step("device", "ok", "it is there and well " * 20)
    assert max(map(len, show_step(long, 79).splitlines())) <= 79 and len(show_step(long, 79).splitlines()) > 5


def test_words_stand_for_places() -> None:
    places = [("/home/alice/cann", "<toolkit>"), ("/home/alice", "~"), ("alice", "<user>")]
    assert without_places({"a": ["/home/alice/cann/x", 3], "b": "alice's malice in /home/alice"}, places) == {
        "a": ["<toolkit>/x", 3], "b": "<user>'s malice in ~"}


def test_options_of_the_report_need_the_device(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["doctor", "--report", str(tmp_path / "r.json")]) == 2
    assert "--report and --device are of --npu" in capsys.readouterr().err
