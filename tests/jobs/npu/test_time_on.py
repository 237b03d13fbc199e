"""`aoec simulate --on npu`: values between guards first, then hot and cold times beside the modelled ones."""
from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from aoec.acl.times import Timing
from aoec.cli import main
from aoec.ir.text.show import show
from aoec.ir.text.simplify import simplify
from aoec.jobs.npu import time_on
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.tuning import problem, start
from aoec.target.machine import load
from tests.jobs.npu.kit import LIMIT, use_kit
from tests.standin.need import needs_compiler

pytestmark = needs_compiler


@cache
def program_of(call: str, target: str = "Ascend910B3") -> str:
    """The text of an operator's default program."""
    p = problem(lower_operator(call), load(target))
    return show(simplify(p.program(start(p).best)))


def time_there(folder: Path, call: str, *words: str) -> int:
    (folder / "g.prog").write_text(program_of(call))
    return main(["simulate", str(folder / "g.prog"), "--on", "npu", *LIMIT, *words])


@pytest.mark.parametrize("call, release", [("relu(m=4, n=1040, fp16)", 91), *[pytest.param(*x, marks=pytest.mark.slow) for x in (
    ("matmul(m=32, k=64, n=48, fp16)", 81), ("softmax(m=32, n=200, fp16)", 85))]])
def test_times_beside_the_model(call: str, release: int, tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                monkeypatch: pytest.MonkeyPatch) -> None:
    use_kit(monkeypatch, tmp_path, release)
    assert time_there(tmp_path, call, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    m = said["measured"]
    assert m["kind"] == "measured" and m["source"] == "event" and m["spans"] == 7 and m["cold_passes"] == 20 and m["empty_us"] > 0
    assert 0 < m["hot_us"]["least"] <= m["hot_us"]["median"] and m["cold_us"]["median"] > 0
    assert m["emptied_by"] == ("aclrtDeviceL2CacheFlush" if release == 91 else "memset")
    assert all(v["guards"] and not v["wrong"] for v in said["values"]) and said["modelled"]["cold"]["time_us"] > 0
    assert m["launch_bound"] == (m["hot_us"]["median"] < 3 * m["empty_us"])


def test_wrong_values_are_not_timed(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    use_kit(monkeypatch, tmp_path, 91, AOEC_STANDIN_FAULT="launch=wrong@2")
    assert time_there(tmp_path, "relu(m=4, n=1040, fp16)") == 1
    out = capsys.readouterr().out
    assert "wrong values: " in out and out.endswith("no time was measured, for values are wrong\n") and " µs measured" not in out


def test_lines_flag_what_is_bound_by_its_launch() -> None:
    """And say where a time is from."""
    facts = {"program": "g", "device": "npu:0", "soc": "Ascend910B3", "product": "2201", "cann": "8.5.0", "stand_in": False, "blocks": 1,
             "core_type": "", "target": "Ascend910B3", "modelled": {s: {"time_us": 5.0, "launch_us": 1.0} for s in ("hot", "cold")},
             "values": [{"tensor": "y", "role": "output", "guards": True, "wrong": False, "relative": 0.0, "allowed": 0.1},
                        {"tensor": "x", "role": "input", "guards": False, "wrong": True, "relative": 0.0, "allowed": 0.0}]}
    for empty, bound in ((3.0, True), (1.0, False)):
        facts["measured"] = time_on.timing_facts(Timing((6.0, 6.2), (9.0,), (empty,), 10, 1, "memset"))
        text = time_on.lines(facts)
        assert ("this kernel is launch bound" in text) == bound and "measured on the device (Ascend910B3), by events" in text
        assert "hot    6.10 µs measured (least 6.00, spread 3%, 2 spans of 10 passes), 5.00 µs modelled" in text
        assert "wrong: bytes beside x were written" in text


def test_options_that_are_of_the_model_or_of_a_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
            (["--limit", "3"], "--limit is of a run on a device"), (["--on", "gpu"], "'gpu' is not model, npu or npu:N"),
            (["--on", "npu", "--svg", str(tmp_path / "a.svg")], "--trace, --svg and --within are of the model machine"),
            (["--on", "npu:x"], "not model, npu or npu:N"), (["--limit", "0", "--on", "npu"], "not a number of seconds above 0")):
        (tmp_path / "g.prog").write_text(program_of("relu(m=4, n=1040, fp16)"))
        assert main(["simulate", str(tmp_path / "g.prog"), *words]) == 2
        assert said in capsys.readouterr().err
    for words, said in ((["--check", "groups"], "--check, --limit and --runs are of a run on a device"), (["--runs", "2"], "--runs"),
                        (["--check", "all", "--on", "npu"], "all")):
        assert main(["run", "m.aoec", "--random", *words]) == 2
        assert said in capsys.readouterr().err
    assert main(["run", "g.tir", "--random", "--on", "npu"]) == 2
    assert "aoec simulate G.prog --on npu" in capsys.readouterr().err
