"""`--report`: the folder that a tuning leaves, against what the same run prints; what a later run still knows of the search."""
from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from aoec import cli
from aoec.base.ticks import TICKS_PER_CYCLE
from aoec.frontend.zoo import mlp_softmax
from aoec.ir.func.tir import blocks
from aoec.ir.text.parse import parse_func
from aoec.jobs.compile.page import folder_of
from aoec.jobs.stages.roofline import operations, peak_of
from aoec.search.proof.bounds import points
from aoec.target.machine import load
from tests.oracle.schemas import faults

pytestmark = pytest.mark.usefixtures("few")


def tuned(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """What `aoec tune --json` prints of a small net."""
    onnx.save(mlp_softmax(), folder / "net.onnx")
    capsys.readouterr()
    places = {"--bank": "bank.db", "--results": "out", "-o": "net.aoec", "--report": "report"}
    code = cli.main(["tune", str(folder / "net.onnx"), "--budget", "20", "--jobs", "1", "--json", "--no-verify", *words,
                     *[word for option, name in places.items() for word in (option, str(folder / name))]])
    assert code == 0
    return json.loads(capsys.readouterr().out)


def test_a_report_says_what_the_run_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = tuned(tmp_path, capsys)
    said = json.loads((tmp_path / "report" / "report.json").read_text())
    assert faults("report", said) == []
    for key in ("model", "target", "latency", "isolated", "throughput_per_s", "trials", "held"):
        assert said[key] == printed[key], key
    rows = {g["name"]: g for g in said["groups"]}
    for group in printed["groups"]:
        assert {k: rows[group["name"]][k] for k in group} == group
    own = [g for g in said["groups"] if g["runs_on"] == "AI Core"]
    assert own and sum(g["share"] for g in said["groups"]) == pytest.approx(1)
    machine = load(said["target"])
    for g in own:
        check_detail(g, machine.l2_bytes_per_s / 1e6)
    page = (tmp_path / "report" / "index.html").read_text()
    linked = set(re.findall(r'href="(pictures/[^"]+)"', page))
    assert linked == {p for g in own for p in g["detail"]["pictures"].values()}
    assert all((tmp_path / "report" / path).read_text().startswith("<svg") for path in linked)

    again = tuned(tmp_path, capsys, "--frozen")  # all of it is in the bank, and how it was found is remembered
    assert again["found_in_bank"] == len(own)
    for g in json.loads((tmp_path / "report" / "report.json").read_text())["groups"]:
        if g["detail"]:
            assert {**rows[g["name"]]["detail"]["search"], "now": False, "candidates": {}} == g["detail"]["search"]


def check_detail(g: dict[str, Any], l2_bytes_per_us: float) -> None:
    """Nothing; what is said of a group agrees with itself, and with its row."""
    detail, search = g["detail"], g["detail"]["search"]
    for side in ("default", "tuned"):
        assert detail["measures"][side]["time_us"] == pytest.approx(g[f"{side}_us"], abs=2 / TICKS_PER_CYCLE)
    times = [i["us"] for i in search["improvements"]]
    assert search["now"] and times == sorted(times, reverse=True)
    assert (times[0], times[-1]) == (pytest.approx(g["default_us"]), pytest.approx(g["tuned_us"]))
    best = [b["us"] for b in search["best"]]
    assert best == sorted(best) and best[0] == pytest.approx(g["tuned_us"]) and len(best) <= 10
    if detail["roofline"]:
        roof = detail["roofline"]
        for p in roof["points"]:  # no point lies above its roofs
            assert roof["operations"] / p["us"] <= roof["peak_per_us"] and p["gm_bytes"] / p["us"] <= l2_bytes_per_us


def test_a_place_that_is_no_folder_is_refused_before_any_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    onnx.save(mlp_softmax(), tmp_path / "net.onnx")
    assert cli.main(["compile", str(tmp_path / "net.onnx"), "--report", str(tmp_path / "file"), "-o", str(tmp_path / "n.aoec")]) == 2
    assert "Traceback" not in capsys.readouterr().err and not (tmp_path / "n.aoec").exists()


def test_a_gear_s_folder_lies_in_the_report() -> None:
    assert [folder_of(n, gear) for n, gear in enumerate(("", "8,448,448", "x/../../.."))] == [".", "gear_8x448x448", "gear_2"]


@pytest.mark.parametrize("name, count", [("matmul", 2 * 64 * 48 * 32), ("softmax", None)])
def test_operations_are_those_of_the_meaning(name: str, count: int | None, capsys: pytest.CaptureFixture[str]) -> None:
    call = "matmul(m=64, k=48, n=32, fp16)" if name == "matmul" else "softmax(m=64, n=48, fp16)"
    assert cli.main(["lower", call]) == 0
    func = parse_func(capsys.readouterr().out)
    done = sum(points(above) * operations(b) for b, above in blocks(func.body))
    if count is None:  # a row's greatest, differences, exponentials, their sum, quotients: five for each element, or some less
        assert 4 * 64 * 48 <= done <= 6 * 64 * 48
    else:
        assert done == count
    machine = load("Ascend910B3")
    unit, peak = peak_of(func, machine)
    assert unit.startswith("cube" if name == "matmul" else "vector") and np.isfinite(peak)
    if name == "matmul":
        assert peak == machine.peak_ops_per_s("fp16") / 1e6  # type: ignore[operator]


def test_ranges_are_in_the_page_the_report_and_what_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = tuned(tmp_path, capsys, "--within")
    said = json.loads((tmp_path / "report" / "report.json").read_text())
    assert faults("report", said) == [] and said["within"] == printed["within"]
    assert set(said["within"]) == {"latency", "isolated"}
    for g in said["groups"]:
        if g["runs_on"] == "AI Core":
            assert g["within"]["low_us"] <= g["tuned_us"] <= g["within"]["high_us"] and g["within"]["machines"] >= 2
    for name, w in said["within"].items():
        assert w["low_us"] <= said[name]["tuned_us"] <= w["high_us"]
    assert "latency within" in (tmp_path / "report" / "index.html").read_text()
