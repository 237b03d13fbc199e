"""The compile job end to end: what the bank answers, what is repeated exactly, what stays behind when it is stopped."""
from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from aoec import cli
from aoec.artifact.artifact import made_for
from aoec.bank.bank import Bank
from aoec.base.errors import BankError, CheckError
from aoec.base.files.memo import Memo
from aoec.base.process.processors import THREADS, keep_to, share_of, threads
from aoec.frontend.zoo import mlp_softmax
from aoec.jobs import known
from aoec.jobs.compile import models
from aoec.jobs.compile.steps import assemble as job
from aoec.jobs.tune import made, solve
from aoec.jobs.tune.order import Order
from aoec.jobs.verify import legal, verify
from aoec.target.legality.check import check
from aoec.target.machine import load as load_target
from tests.jobs.nets import compiled

pytestmark = pytest.mark.usefixtures("few")

TUNE = ("--tune", "--budget", "16", "--jobs", "1", "--plans", "rules")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory with a small model in it."""
    monkeypatch.chdir(tmp_path)
    onnx.save(mlp_softmax(), "model.onnx")
    return tmp_path


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The groups that are searched or scheduled in this process, as they come."""
    done: list[str] = []
    real = solve.attempt

    def counted(task: solve.Task, *more: object) -> object:
        done.append(task.group.name)
        return real(task, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(solve, "attempt", counted)
    return done


class Compile:
    """Runs `aoec compile model.onnx` and keeps what it says."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *words: str, output: str = "model.aoec", bank: str = "bank.db", code: int = 0) -> dict[str, object]:
        self.capsys.readouterr()
        assert cli.main(["compile", "model.onnx", "--json", "--bank", bank, "-o", output, *words]) == code
        out, self.err = self.capsys.readouterr()
        return json.loads(out) if out else {}  # the whole of standard output is one document


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str]) -> Compile:
    return Compile(capsys)


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the model tuned and its bank, which tests copy."""
    path = tmp_path_factory.mktemp("tuned")
    onnx.save(mlp_softmax(), path / "model.onnx")
    assert cli.main(["compile", str(path / "model.onnx"), "--bank", str(path / "bank.db"), "-o", str(path / "model.aoec"), *TUNE]) == 0
    return path


@pytest.fixture
def tuned(run: Compile, once: Path) -> Compile:
    """What runs where `run(*TUNE)` has run before."""
    for name in ("model.aoec", "bank.db"):
        shutil.copy(once / name, name)
    return run


def rows(path: str) -> list[sqlite3.Row]:
    with sqlite3.connect(path) as c:
        c.row_factory = sqlite3.Row
        return c.execute("select * from records order by func_key, state").fetchall()


def change(path: str, words: str, *values: object) -> None:
    with sqlite3.connect(path) as c:
        assert c.execute(f"update records set {words}", values).rowcount > 0
    c.close()


# ---------------------------------------------------------------- the bank

def test_a_second_run_finds_everything_and_searches_nothing(run: Compile, searches: list[str]) -> None:
    first = run(*TUNE)
    assert len(searches) == 3 and first["trials"] > 0 and first["found_in_bank"] == 0  # type: ignore[operator]
    before = rows("bank.db")
    second = run(*TUNE, output="second.aoec")
    assert len(searches) == 3 and second["trials"] == 0 and second["found_in_bank"] == 3
    assert Path("second.aoec").read_bytes() == Path("model.aoec").read_bytes() and rows("bank.db") == before
    untuned = run(output="third.aoec")
    assert len(searches) == 3 and untuned["found_in_bank"] == 3
    assert Path("third.aoec").read_bytes() == Path("model.aoec").read_bytes()


def test_verified_schedules_are_not_verified_again(run: Compile, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    real = verify.verify_group
    monkeypatch.setattr(verify, "verify_group", lambda graph, group, *more: done.append(group.name) or real(graph, group, *more))
    run(*TUNE)
    run(*TUNE)
    run("--verify")
    assert done == ["g0", "g1", "g2"]


def test_a_larger_budget_searches_again_and_is_never_slower(tuned: Compile, searches: list[str]) -> None:
    run, first = tuned, tuned(*TUNE)
    known = {r["func_key"]: r["ticks"] for r in rows("bank.db")}
    open_groups = [g["name"] for g in first["groups"] if not g["proof"]]  # type: ignore[attr-defined]
    searches.clear()
    second = run("--tune", "--budget", "24", "--search", "random", "--seed", "7", "--jobs", "1", "--plans", "rules", output="second.aoec")
    assert searches == open_groups and open_groups
    assert all(b["tuned_us"] <= a["tuned_us"] for a, b in zip(first["groups"], second["groups"], strict=True))  # type: ignore[arg-type]
    assert all(r["ticks"] <= known[r["func_key"]] or "; default" in r["state"] for r in rows("bank.db"))
    searches.clear()
    run(*TUNE)
    assert not searches  # a smaller budget is answered by the larger one's search


def test_a_second_search_that_finds_less_takes_nothing_away(tuned: Compile, monkeypatch: pytest.MonkeyPatch) -> None:
    real, unlucky = solve.attempt, []

    def luckless(task: solve.Task, *more: object) -> solve.Solved:
        """What a search ends with that found nothing better than the default."""
        found = real(task, *more)  # type: ignore[arg-type]
        assert isinstance(found, solve.Solved)
        unlucky.append(found.best.ticks < found.default.ticks)
        return replace(found, best=replace(found.best, trace=found.default.trace, ticks=found.default.ticks, proof=""))

    monkeypatch.setattr(solve, "attempt", luckless)
    tuned("--tune", "--budget", "24", "--jobs", "1", output="second.aoec")
    assert any(unlucky) and Path("second.aoec").read_bytes() == Path("model.aoec").read_bytes()


@pytest.mark.parametrize("tamper", [
    ("ticks = bound_ticks where state not like '%default'",),  # too good to be true
    ("trace = replace(trace, 'loop=m, factor=16', 'loop=gone, factor=16')",),  # fits no func
    ("trace = 'no schedule at all'",),
    ("trace = replace(trace, 'depth=1', 'depth=100000')",),
])
def test_a_record_that_does_not_hold_is_replaced(tamper: tuple[str], tuned: Compile, searches: list[str]) -> None:
    run = tuned
    good, lines = Path("model.aoec").read_bytes(), list(Bank.open("bank.db").lines(times=False))
    change("bank.db", *tamper)
    assert list(Bank.open("bank.db").lines(times=False)) != lines
    searches.clear()
    run(*TUNE)
    assert searches and Path("model.aoec").read_bytes() == good
    assert list(Bank.open("bank.db").lines(times=False)) == lines
    searches.clear()
    run(*TUNE)
    assert not searches


def lasting(said: dict[str, object]) -> dict[str, object]:
    """What a run says but how it came to it: time, what was searched, and values, which are compared in the run that verifies."""
    groups = [{k: v for k, v in g.items() if k not in ("candidates", "spent")} for g in said["groups"]]  # type: ignore[attr-defined]
    work = ("seconds", "seconds_by_part", "trials", "found_in_bank", "notes", "searches", "beside", "bounded")
    stock = {k: v for k, v in said["stock"].items() if k != "seconds"}  # type: ignore[attr-defined]
    return {k: v for k, v in said.items() if k not in work} | {"groups": groups, "stock": stock}


def test_a_second_run_imports_nothing_writes_nothing_and_is_the_same(run: Compile, monkeypatch: pytest.MonkeyPatch) -> None:
    first, bytes_, file = run(*TUNE), Path("model.aoec").read_bytes(), Path("model.aoec").stat().st_mtime_ns

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("made again")

    made.emit_trace.cache_clear()
    made.measure_trace.cache_clear()
    with monkeypatch.context() as m:
        for module, name in ((models.frontend, "load"), (made, "emit"), (made, "measure"), (made, "of_programs"), (made, "parse_trace")):
            m.setattr(module, name, refused)
        again = run(*TUNE)
        assert Path("model.aoec").stat().st_mtime_ns == file
        run(*TUNE, output="other.aoec", code=70)  # what is not there yet is written, with constants that are made for it
        assert "made again" in run.err
    assert lasting(again) == lasting(first)
    assert first["searches"] and first["beside"] and not (again["searches"] or again["beside"] or again["trials"] or again["bounded"])
    run(*TUNE, output="other.aoec")
    assert Path("other.aoec").read_bytes() == bytes_


def test_what_is_legal_is_found_out_once_for_a_machine_and_what_is_not_every_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(known, "memo", lambda: Memo(tmp_path / "nothing", "yet"))
    machine, seen = load_target("Ascend910B3"), list[str]()
    good = next(g.program for g in compiled("fp16").groups if g.program)
    bad = replace(good, streams=tuple(replace(s, body=s.body[1:]) for s in good.streams))
    monkeypatch.setattr(legal, "check", lambda p, m: seen.append(m.name) or check(p, m))
    for target in (machine, machine, load_target("Ascend910B1")):
        legal.legal(good, target)
    assert seen == ["Ascend910B3", "Ascend910B1"]
    for _ in range(2):
        with pytest.raises(CheckError):
            legal.legal(bad, machine)
    assert len(seen) == 4


def test_a_changed_model_is_compiled_anew(run: Compile, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run()
    before = Path("model.aoec").read_bytes()
    proto = onnx.load("model.onnx")
    w = proto.graph.initializer[0]
    w.CopyFrom(numpy_helper.from_array(2 * numpy_helper.to_array(w), w.name))
    onnx.save(proto, "model.onnx")
    run()
    after = Path("model.aoec").read_bytes()
    monkeypatch.setattr(known, "memo", lambda: Memo(tmp_path / "nothing", "yet"))
    run(output="other.aoec", bank="other.db")
    assert before != after == Path("other.aoec").read_bytes()


def test_a_model_with_data_in_other_files_is_read_every_time(run: Compile) -> None:
    proto = onnx.load("model.onnx")
    onnx.save(proto, "model.onnx", save_as_external_data=True, location="data.bin", size_threshold=0)
    run()
    before = Path("model.aoec").read_bytes()
    data = np.fromfile("data.bin", np.float32)
    (2 * data).tofile("data.bin")
    run()
    assert Path("model.aoec").read_bytes() != before


def test_wrong_values_are_said_and_not_remembered_as_verified(run: Compile, monkeypatch: pytest.MonkeyPatch) -> None:
    real = job.realise

    def broken(func: object, trace: object, *more: object) -> made.Schedule:
        """The schedule without its activation, as an emitter's fault would leave it."""
        from aoec.ir.text.parse import parse_program
        from aoec.ir.text.show import show
        right = real(func, trace, *more)  # type: ignore[arg-type]
        return made.Schedule(right.trace, parse_program(show(right.program).replace("relu=1", "relu=0")), right.measure)

    monkeypatch.setattr(job, "realise", broken)
    run(*TUNE, code=1)
    assert "wrong values: g0: " in run.err and "differ from the reference" in run.err and not Path("model.aoec").exists()
    verified = {r["label"]: r["verified"] for r in rows("bank.db") if "; default" not in r["state"]}
    assert sorted(verified.values()) == [0, 1, 1]
    run(*TUNE, "--no-verify")
    run(*TUNE, code=1)


def test_throughput_is_tuned_in_the_state_that_an_inference_leaves(tuned: Compile) -> None:
    run, cold = tuned, tuned(*TUNE)
    warm = run(*TUNE, "--metric", "throughput", output="warm.aoec")
    assert warm["found_in_bank"] == 1 and warm["state"] != cold["state"]  # softmax finds what its predecessor leaves, either way
    states = {r["state"] for r in rows("bank.db") if "; default" not in r["state"]}
    assert any("B=" in s for s in states) and any("B=" not in s for s in states)  # weights in L2, and not
    first = next(g for g in warm["groups"] if g["name"] == "g0")  # type: ignore[attr-defined]
    assert first["tuned_us"] < next(g for g in cold["groups"] if g["name"] == "g0")["tuned_us"]  # type: ignore[attr-defined]
    again = run(*TUNE, "--metric", "throughput", output="again.aoec")
    assert again["found_in_bank"] == 3 and Path("again.aoec").read_bytes() == Path("warm.aoec").read_bytes()
    steady, before = warm["throughput_per_s"], cold["throughput_per_s"]
    assert steady["tuned"] >= 0.99 * before["tuned"]  # type: ignore[index]


@pytest.mark.parametrize("strategy", [*(pytest.param(s, marks=pytest.mark.slow) for s in ("random", "genetic")), "bayes"])
def test_every_strategy_repeats_itself(strategy: str, run: Compile) -> None:
    words = ("--tune", "--budget", "12", "--search", strategy, "--seed", "3", "--jobs", "1", "--no-verify")
    run(*words)
    run(*words, output="again.aoec", bank="again.db")
    assert Path("again.aoec").read_bytes() == Path("model.aoec").read_bytes()


def test_a_bank_that_cannot_be_written_is_read(tuned: Compile, monkeypatch: pytest.MonkeyPatch, searches: list[str]) -> None:
    run = tuned
    before = Path("bank.db").read_bytes()
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: not (mode & os.W_OK and str(path).endswith("bank.db")) and real(path, mode))
    searches.clear()
    facts = run(*TUNE, output="second.aoec")
    assert "is read only: nothing new is kept" in run.err and facts["found_in_bank"] == 3 and not searches
    run("--tune", "--budget", "24", "--jobs", "1", output="third.aoec", code=2)
    assert "bank.db is read-only here" in run.err and not searches and Path("bank.db").read_bytes() == before


# ---------------------------------------------------------------- refusals before any work

@pytest.mark.parametrize("words, said", [
    (["gone.onnx"], "gone.onnx"),
    (["model.onnx", "-o", "none/x.aoec"], "there is no directory none"),
    (["model.onnx", "-o", "folder"], "it is a directory"),
    (["model.onnx", "--dump", "model.onnx"], "model.onnx is no directory"),
    (["model.onnx", "--dump", "model.onnx/deeper"], "is no directory"),
    (["model.onnx", "--from", "lower"], "--from lower enters a folder that --dump wrote"),
    (["folder"], "manifest.json"),
    (["folder", "--from", "emit"], "manifest.json"),
    (["model.onnx", "--bank", "model.onnx"], "is not a bank"),
    (["model.onnx", "--bank", "model.onnx/b.db"], "b.db"),
    (["model.onnx", "--target", "none.toml"], "none.toml"),
])
def test_what_cannot_work_is_refused_before_work(words: list[str], said: str, run: Compile, searches: list[str]) -> None:
    Path("folder").mkdir()
    before = sorted(p for p in Path(".").rglob("*") if not p.name.startswith("bank.db"))
    assert cli.main(["compile", *(["--bank", "bank.db"] if "--bank" not in words else []), *words]) == 2
    out, err = run.capsys.readouterr()
    refusals = [line for line in err.splitlines() if line.startswith("aoec: ")]
    assert len(refusals) == 1 and refusals[0].startswith("aoec: error: ") and said in refusals[0] and not out
    assert not searches and sorted(p for p in Path(".").rglob("*") if not p.name.startswith("bank.db")) == before


def test_a_disk_that_is_full_leaves_no_half_of_a_model(run: Compile, monkeypatch: pytest.MonkeyPatch) -> None:
    run()
    before = Path("model.aoec").read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    run("--precision", "fp32", code=2)
    assert "cannot write model.aoec: no space left on device" in run.err
    assert Path("model.aoec").read_bytes() == before and not list(Path(".").glob(".*.part"))


# ---------------------------------------------------------------- interrupted

def processes(words: str) -> list[int]:
    """Ids of running processes with these words in their command line or environment."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and words.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return [p for p in found if p != os.getpid()]


def waited(condition: Callable[[], bool], seconds: float = 60) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.05)
    return False


def two_matmuls() -> onnx.ModelProto:
    """A group whose space is searched whole in a second, then one whose search goes on for hours."""
    r = np.random.default_rng(0)
    weights = [numpy_helper.from_array(r.standard_normal(s).astype(np.float32) / 16, n) for n, s in (("a", (16, 10)), ("b", (512, 2000)))]
    nodes = [helper.make_node("MatMul", ["x", "a"], ["p"]), helper.make_node("MatMul", ["y", "b"], ["q"])]
    shapes = {"x": (4, 16), "y": (256, 512), "p": (4, 10), "q": (256, 2000)}
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    graph = helper.make_graph(nodes, "two", ports[:2], ports[2:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def tuning(folder: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts `aoec compile --tune` on the two, in a process group of its own, with a mark in its environment."""
    onnx.save(two_matmuls(), "two.onnx")
    started: list[subprocess.Popen[str]] = []

    def start(*words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "aoec", "compile", "two.onnx", "--tune", "--budget", "100000000", "--bank", "two.db", *words]
        p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                             env={n: v for n, v in os.environ.items() if n not in THREADS} | {"AOEC_TEST_MARK": str(folder)})
        started.append(p)
        return p

    yield start
    for p in started:
        if p.poll() is None:
            p.kill()
        p.communicate()


def kept() -> int:
    """Records of searches in the bank of the tuning, which may not be there yet."""
    try:
        return sum("; default" not in r.key.state for r in Bank.open("two.db", create=False, writable=False).list())
    except BankError:
        return 0


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc to see processes")
@pytest.mark.parametrize("jobs, to_all", [("1", False), pytest.param("2", False, marks=pytest.mark.slow), ("2", True)])
def test_ctrl_c_keeps_what_was_found_and_ends_every_process(
        jobs: str, to_all: bool, tuning: Callable[..., subprocess.Popen[str]], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    p = tuning("--jobs", jobs)
    assert waited(lambda: kept() >= 1), "nothing was found in time"
    (os.killpg if to_all else os.kill)(p.pid, signal.SIGINT)  # a terminal sends it to the whole group
    stopped = time.monotonic()
    out, err = p.communicate(timeout=30)
    assert p.returncode == 130 and not out and time.monotonic() - stopped < 20
    said = err.splitlines()
    assert said[-1].startswith("aoec: interrupted; schedules found so far are kept in the bank") and "Traceback" not in err
    assert sum(line.startswith("aoec: ") for line in said) == 1 and len(said) <= 8, err
    assert waited(lambda: not processes(f"AOEC_TEST_MARK={folder}"), 10)
    assert kept() == 2 and not Path("two.aoec").exists()  # one was done, of the other the best so far
    assert cli.main(["compile", "two.onnx", "--bank", "two.db", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["found_in_bank"] == 2


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc to see processes")
def test_workers_end_with_a_job_that_is_killed(tuning: Callable[..., subprocess.Popen[str]], folder: Path) -> None:
    p = tuning("--jobs", "2")

    def workers() -> set[int]:
        return set(processes(f"OPENBLAS_NUM_THREADS={share_of(2)}")) & set(processes(f"AOEC_TEST_MARK={folder}")) - {p.pid}
    assert waited(lambda: len(workers()) == 2), "two workers, which share the processors"
    p.kill()
    p.wait()
    assert waited(lambda: not processes(f"AOEC_TEST_MARK={folder}"), 30)


def test_a_worker_keeps_to_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solve.interrupt, "note_in_worker", lambda: None)
    monkeypatch.setattr(solve.atexit, "register", lambda *_: None)
    monkeypatch.setattr(solve, "_words", None)
    try:
        solve.begin_worker(get_context("spawn").SimpleQueue())
        monkeypatch.setattr(solve.interrupt, "is_asked", lambda: True)
        assert solve.attempt_on(None, "toy", Order(False), 3) is None and threads() == 3  # type: ignore[arg-type]
    finally:
        keep_to(0)


def test_a_compile_for_another_chip_says_that_it_replaces_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                                    capsys: pytest.CaptureFixture[str]) -> None:
    """Before any work; nothing is said of another model for the same chip, nor of a file that is no compiled model."""
    monkeypatch.chdir(tmp_path)
    onnx.save(mlp_softmax(), "net.onnx")
    words = ["compile", "net.onnx", "--bank", "b.db"]
    said = []
    Path("net.aoec").write_bytes(b"PK, but no artifact")
    for target in ("Ascend910B3", "Ascend910B3", "Ascend310P3"):
        assert cli.main([*words, "--target", target]) == 0
        said.append("was compiled for Ascend910B3 and will be replaced; -o names another file" in capsys.readouterr().err)
    assert said == [False, False, True] and made_for("net.aoec")[0] == "Ascend310P3"
