"""`aoec tune --job gdat`: of a trace and of a model, alone and with other jobs, what it prints and writes, and after a kill."""
from __future__ import annotations

import ast
import json
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import onnx
import pytest

from aoec import cli
from aoec.collectives.system import load, names
from aoec.ir.training import Gradient, StepTrace
from aoec.jobs.gdat import gradient_outputs, plan_step
from aoec.jobs.gdat.found import trace_key
from aoec.jobs.gdat.trace_files import read_trace
from aoec.jobs.gdat.trace_json import show_own
from aoec.search.buckets import Limits, baselines, plan
from tests.oracle.schemas import faults

pytestmark = pytest.mark.usefixtures("few")
GOLDEN = Path(__file__).parent / "gdat_printed.txt"
FILES = {"gradient_trace.json": "gradient_trace", "Ascend910B3_gradient_fusion.json": "gradient_fusion"}
NET = '<ir_version: 8, opset_import: ["" : 17]> net (float[8, 40] x) => (float[8, 16] y) { y = MatMul(x, w) }'


def step(count: int = 40) -> StepTrace:
    """A step whose gradients grow towards its end, as those of a convolutional network shrink: 0.1 to 4 MB."""
    gradients = tuple(Gradient(f"layer{n}", 100_000 + 100_000 * n, 250.0 * (n + 1), 100.0 * (count - 1 - n)) for n in range(count))
    return StepTrace(gradients, 100.0 * count, 250.0 * count, 300.0, "measured")


@pytest.fixture()
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a trace and a model, to work in."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bank").mkdir()
    monkeypatch.setenv("TUNE_BANK_PATH", str(tmp_path / "bank"))
    monkeypatch.setenv("TE_PARALLEL_COMPILER", "1")
    for name in ("AOE_MODE", "ASCEND_WORK_PATH"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "trace.json").write_text(show_own(step()))
    model = onnx.parser.parse_model(NET)
    model.graph.initializer.append(onnx.numpy_helper.from_array(
        np.random.default_rng(0).standard_normal((40, 16)).astype(np.float32) / 8, "w"))
    onnx.save(model, tmp_path / "net.onnx")
    return tmp_path


def result(folder: Path) -> dict[str, Any]:
    """What the result file in a folder says, which is of its schema."""
    path, = folder.glob("aoe_result_gdat_*_pid*.json")
    said = json.loads(path.read_text())
    assert faults("gdat", said) == []
    return dict(said[1]["GDAT"])


def files(folder: Path) -> dict[str, str]:
    """The files of the plan; those with a schema are of it."""
    found = {p.name: p.read_text() for p in folder.glob("tuning_results_*/gradients/*")}
    for name, schema in FILES.items():
        assert faults(schema, json.loads(found[name])) == []
    return found


TRACE = ["tune", "--job", "gdat", "--trace", "trace.json", "--system", "10gbe-16"]


def test_a_trace_is_planned_without_a_model(place: Path, capsys: pytest.CaptureFixture[str], pytestconfig: pytest.Config) -> None:
    """What is printed is the golden text; numbers are those of the search itself."""
    assert cli.main([*TRACE, "--results", "r"]) == 0
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 140
    text = re.sub(r"(tuning_results_|aoe_result_gdat_)\d+_pid\d+", r"\1TIME_pidID", said)
    if pytestconfig.getoption("--bless"):
        GOLDEN.write_text(text, "utf-8")
    assert text == GOLDEN.read_text("utf-8")
    found, ours = result(place / "r"), plan(step(), load("10gbe-16"), Limits())
    assert found["plan"]["ends"] == list(ours.plan.ends) and found["proof"]["is_optimal"]
    assert found["model_result_performance(ms)"] == round(ours.timeline.step_us / 1e3, 6)
    theirs = baselines(step(), load("10gbe-16"))
    assert {n: p["step_us"] for n, p in found["other_plans"].items()} == {n: round(p.timeline.step_us, 6) for n, p in theirs.items()}
    assert min(p["step_us"] for p in found["other_plans"].values()) >= found["plan"]["step_us"]
    assert read_trace(str(place / next(f for f in found["files"] if f.endswith("trace.json")))).trace == step()


def test_json_is_what_the_result_file_says(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*TRACE, "--results", "r", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == result(place / "r")


def test_two_runs_write_the_same_bytes(place: Path) -> None:
    for name in ("a", "b"):
        assert cli.main([*TRACE, "--results", name]) == 0
    assert files(place / "a") == files(place / "b")


@pytest.mark.parametrize("system", names())
def test_every_system_is_planned_for(system: str, place: Path) -> None:
    assert cli.main(["tune", "--job", "gdat", "--trace", "trace.json", "--system", system, "--results", "r"]) == 0
    assert result(place / "r")["system"]["ranks"] == load(system).ranks


def test_the_hook_is_there_where_gradients_have_names(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*TRACE, "--results", "r"]) == 0
    hook = files(place / "r")["gradient_buckets.py"]
    buckets = ast.literal_eval(hook[hook.index("BUCKETS = ") + 10:hook.index("\n]", hook.index("BUCKETS = ")) + 2])
    assert [name for bucket in buckets for name in bucket] == [g.name for g in step().gradients]
    assert [len(bucket) for bucket in buckets] == [len(r) for r in plan(step(), load("10gbe-16"), Limits()).plan.ranges()]
    (place / "trace.json").write_text("name,bytes,ready_us\na,4,1\na,4,2\n")
    assert cli.main([*TRACE, "--results", "s"]) == 0
    assert "gradient_buckets.py" not in files(place / "s")
    assert any("gradients share names" in n for n in result(place / "s")["notes"])


def test_the_table_of_a_system_of_ones_own(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    times = {size: 100 + size / 1e3 for size in (8192, 1 << 20, 1 << 26)}
    head = "mpirun -n 8 ./bin/all_reduce_test\ndata_size(Bytes): | aveg_time(us): | alg_bandwidth(GB/s): | check_result:\n"
    (place / "table.txt").write_text(head + "".join(f"{n} | {us:.2f} | {n / us / 1e3:.2f} | success\n" for n, us in times.items()))
    assert cli.main(["tune", "--job", "gdat", "--trace", "trace.json", "--hccl-test", "table.txt", "--results", "r"]) == 0
    system = result(place / "r")["system"]
    assert system["ranks"] == 8 and "measured: all_reduce" in system["fit"]


def test_limits_bind_and_lines_for_aoe_have_eight_segments_at_most(place: Path) -> None:
    (place / "trace.json").write_text(show_own(step(200)))
    words = ["tune", "--job", "gdat", "--trace", "trace.json", "--system", "ib56-16"]
    assert cli.main([*words, "--max-bucket-size", "40MB", "--results", "r"]) == 0
    found = result(place / "r")
    lines, buckets = found["lines"], found["plan"]
    assert max(buckets["bucket_bytes"]) <= 40_000_000 and found["limits"]["max_bucket_bytes"] == 40_000_000
    assert buckets["buckets"] > 8 and lines["MindSpore"].endswith(f"[{', '.join(map(str, buckets['ends']))}])")
    assert cli.main([*words, "--max-buckets", "3", "--results", "s"]) == 0
    few = result(place / "s")
    assert few["plan"]["buckets"] <= 3 and few["lines"]["AOE, by index"].count(",") == few["plan"]["buckets"] - 1
    assert cli.main([*words, "--results", "t"]) == 0
    free = result(place / "t")
    assert free["lines"]["AOE, by index"].count(",") < 8
    assert few["plan"]["step_us"] >= free["plan"]["step_us"]


def test_limits_that_no_line_of_aoe_can_keep_are_said(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """40 buckets of one gradient each: AOE's lines are of a plan with eight larger ones."""
    assert cli.main([*TRACE, "--max-bucket-size", "1MB", "--results", "r"]) == 0
    found = result(place / "r")
    assert found["plan"]["buckets"] > 8 >= found["lines"]["AOE, by index"].count(",") + 1
    assert any("AOE's strategies have at most 8 segments" in n for n in found["notes"])


def test_the_shortest_of_all_schemes(place: Path) -> None:
    steps = {}
    for scheme in ("all_reduce", "split", "sharded", "auto"):
        assert cli.main([*TRACE, "--scheme", scheme, "--results", scheme]) == 0
        found = result(place / scheme)
        steps[scheme] = found["plan"]["step_us"]
        assert found["limits"]["scheme"] == scheme and scheme in (found["plan"]["scheme"], "auto")
        said = any("lines to copy are of the best plan by all-reduce" in n for n in found["notes"])
        assert (found["plan"]["scheme"] == "all_reduce") != said
    assert steps["auto"] == min(steps.values())


@pytest.mark.parametrize("words, said", [
    (["--job", "gdat"], "--job gdat needs a system: --system 10gbe-8"),
    (["--job", "gdat", "--system", "910b-9"], "there is no system 910b-9"),
    (["--job", "gdat", "--system", "910b-8"], "needs a model with --loss (mse, cross_entropy or the name of an output), or --trace FILE"),
    (["net.onnx", "--job", "gdat", "--system", "910b-8"], "needs a model with --loss"),
    (["net.onnx", "--job", "opat,gdat", "--system", "910b-8", "--trace", "net.onnx"], "net.onnx: "),
    (["net.onnx", "--job", "opat,gdat", "--system", "910b-8", "--trace", "-"], "give a file"),
    (["net.onnx", "--job", "gdat", "--hccl-test", "trace.json", "--loss", "mse"], "trace.json: "),
    (["net.onnx", "--job", "gdat", "--system", "910b-8", "--loss", "mse", "--effort", "full"], "--job opat,gdat does"),
    (["net.onnx", "--job", "gdat", "--system", "910b-8", "--trace", "trace.json"], "leave net.onnx out, or tune it too"),
    (["net.onnx", "--job", "gdat", "--system", "910b-8", "--loss", "mse", "--dynamic-batch", "1,8"], "a training step has one shape"),
    ([*TRACE[1:], "-o", "x.aoec"], "-o names a compiled model, and a trace is compiled to none"),
    ([*TRACE[1:], "--hccl-test", "t"], "argument --hccl-test: not allowed with argument --system"),
    ([*TRACE[1:], "--max-buckets", "0"], "'0' is not a whole number above 0"), ([*TRACE[1:], "--channels", "17"], "17 channels are more"),
    ([*TRACE[1:], "--max-bucket-size", "lots"], "'lots' is no size such as 25000000, 25MB or 25MiB"),
    ([*TRACE[1:], "--scheme", "tree"], "'tree' is unknown"),
    ([*TRACE[1:], "--max-buckets", "2", "--max-bucket-size", "1MB"], "37 buckets of at most 1,000,000 bytes are needed, and the limit"),
    ([*TRACE[1:3], "--trace", "none.json", "--system", "910b-8"], "cannot read none.json: no such file"),
    ([*TRACE[1:3], "--trace", "net.onnx", "--system", "910b-8"], "net.onnx: "),
    (["--job", "gdat,gdat"], "is no list of jobs"), (["--job", "gdta"], "job 'gdta' is unknown; did you mean gdat"), ([], "give a model")])
def test_what_cannot_be_is_one_sentence_and_leaves_nothing(words: list[str], said: str, place: Path,
                                                            capsys: pytest.CaptureFixture[str]) -> None:
    before = {p.name for p in place.iterdir()}
    assert cli.main(["tune", *words]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("aoec: error: ") and said in last
    assert {p.name for p in place.iterdir()} == before


def test_a_trace_of_too_many_gradients_is_not_planned(place: Path, monkeypatch: pytest.MonkeyPatch,
                                                      capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(plan_step, "MOST_PLANNED", 39)
    assert cli.main(TRACE) == 2
    assert "the trace has 40 gradients, and at most 39 are planned" in capsys.readouterr().err


def test_the_key_is_of_all_that_a_plan_follows_from() -> None:
    """Names, sizes, times, system, ranks, batch and limits; the same on every computer."""
    base: dict[str, Any] = {"trace": step(3), "system": "ab", "ranks": 8, "batch": 32, "limits": {"channels": 1}}
    longer = StepTrace(step(3).gradients, 1.0, 750.0, 300.0, "measured")
    named = StepTrace((Gradient("other", 100_000, 250.0, 200.0), *step(3).gradients[1:]), 300.0, 750.0, 300.0, "measured")
    changes: list[dict[str, Any]] = [{"trace": longer}, {"trace": named}, {"system": "cd"}, {"ranks": 16}, {"batch": 64},
                                     {"limits": {"channels": 2}}]
    keys = [trace_key(**{**base, **change}) for change in ({}, *changes)]
    assert len(set(keys)) == len(keys)
    assert keys[0] == "47ae78381cfb6010d1f42fbdc7bea44bb377226cb844c6e89ab0bf7df0c46af9"


MODEL = ["tune", "net.onnx", "--job", "gdat", "--system", "ib56-16", "--loss", "mse", "--no-progress", "--jobs", "1"]


def test_a_model_is_trained_on_paper_and_planned(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*MODEL, "--results", "r", "-o", "net.aoec"]) == 0
    said = capsys.readouterr().out
    found = result(place / "r")
    assert re.search(r"^net batch 8 on Ascend910B3 x16 \(ib56-16\): step [0-9.]+ -> [0-9.]+ ms\s+\(no change\)", said, re.MULTILINE)
    assert found["times"] == "modelled" and found["batch"] == 8 and (place / "net.aoec").is_file()
    trace = json.loads(files(place / "r")["gradient_trace.json"])
    assert [(g["name"], g["bytes"]) for g in trace["gradients"]] == [("w", 4 * 40 * 16)] and trace["times"] == "modelled"


def test_aoe_plans_gradients_under_its_own_number(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["aoe", "--job_type=4", "--model=net.onnx", "--loss_name=mse", "--system=910b-8", "--output=out",
                     "--progress_bar=off"]) == 0
    said = capsys.readouterr()
    found = result(place)
    assert "aoe: job gdat, gradient tuning" in said.err
    closing, label, *_ = said.out.splitlines()[-3:]
    assert closing == f"net process finished. Performance improved by {found['model_performance_improvement']}"
    assert "over a training step with DDP's buckets: no device was used" in label and (place / "out.aoec").is_file()


@pytest.mark.slow
def test_three_jobs_are_one_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan is made with the times of the tuned model; each job has its file, and the facts of all are one JSON."""
    words = [*MODEL[:3], "sgat,opat,gdat", *MODEL[4:], "--budget", "8", "--no-stock", "--no-verify"]
    assert cli.main([*words, "--results", "r", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["gdat"] == result(place / "r") and said["shares"]["metric"] == "latency"
    for name in ("opat", "sgat"):
        path, = (place / "r").glob(f"aoe_result_{name}_*.json")
        assert faults({"opat": "result"}.get(name, name), json.loads(path.read_text())) == []
    trace = said["gdat"]["trace"]
    compute = trace["forward_us"] + trace["backward_us"] + trace["optimiser_us"]
    assert compute <= said["latency"]["tuned_us"] * 1.01  # launches that follow each other, from warm


def kill_when(ready: Path, run: Callable[[], object]) -> None:
    """Runs something in a process of its own, and kills it (-9) as soon as a file is there."""
    child = os.fork()
    if not child:
        try:
            run()
        finally:
            os._exit(3)
    until = time.monotonic() + 120
    while not ready.exists():
        assert time.monotonic() < until and os.waitpid(child, os.WNOHANG) == (0, 0)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the process is forked")
@pytest.mark.parametrize("written", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_a_killed_run_leaves_no_half_a_file_and_its_resumption_ends_the_same(written: int, place: Path) -> None:
    """Killed when so many files of the plan are written, and another is being written."""
    write = gradient_outputs.write_text

    def stop(path: Path, text: str) -> None:
        if len(list(Path("killed").glob("tuning_results_*/gradients/*"))) < written:
            write(path, text)
            return
        Path("ready").touch()
        time.sleep(60)

    def run() -> None:
        with mock.patch.object(gradient_outputs, "write_text", stop):
            cli.main([*MODEL, "--results", "killed", "-o", "killed.aoec"])

    kill_when(place / "ready", run)
    for path in place.joinpath("killed").rglob("*.json"):
        json.loads(path.read_text())
    unfinished, = (place / "killed").glob("aoe_result_gdat_*.json")
    assert faults("gdat", said := json.loads(unfinished.read_text())) == [] and len(said) == 1
    assert cli.main([*MODEL, "--resume", "--results", "resumed", "-o", "resumed.aoec"]) == 0
    assert cli.main([*MODEL, "--bank", "other.db", "--results", "whole", "-o", "whole.aoec"]) == 0
    assert files(place / "resumed") == files(place / "whole")
    assert (place / "resumed.aoec").read_bytes() == (place / "whole.aoec").read_bytes()
    assert {**result(place / "resumed"), "files": []} == {**result(place / "whole"), "files": []}


def test_a_trace_that_was_measured_once_is_found_in_the_bank(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the sizes of its gradients; of another chip, or of other sizes, there is none. Export and import carry it."""
    measured = StepTrace((Gradient("gradient 0 [40, 16]", 4 * 40 * 16, 70.0),), 50.0, 80.0, 7.0, "measured")
    (place / "trace.json").write_text(show_own(measured))
    assert cli.main([*TRACE, "--results", "r"]) == 0
    assert "the trace is kept in the bank for Ascend910B3" in capsys.readouterr().out.replace("\n  ", " ")
    assert cli.main(["bank", "export", "out.jsonl"]) == 0 and cli.main(["bank", "import", "out.jsonl", "--bank", "new.db"]) == 0
    assert cli.main([*MODEL, "--bank", "new.db", "--trace", "bank", "--results", "s"]) == 0
    found = result(place / "s")
    assert found["times"] == "compute measured, communication modelled" and found["trace"]["backward_us"] == 80.0
    assert any("are those that the bank has of trace.json" in n for n in found["notes"])
    capsys.readouterr()
    assert cli.main([*MODEL, "--bank", "empty.db", "--trace", "bank", "--results", "t"]) == 2
    assert "the bank has no trace of 1 gradients of these sizes for Ascend910B3: measure one" in capsys.readouterr().err
