"""Whatever fails on the way to a device ends a run with a sentence and exit code 2: no half-written file, and the lease is free again."""
from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from aoec.acl.lease import Lease
from aoec.base.npu_errors import DeviceBusy
from aoec.cli import main
from aoec.jobs.npu import open_board
from aoec.standin.toolkit import make_toolkit
from aoec.toolchain import probe
from aoec.toolchain.find import find_toolkit
from tests.jobs.npu.kit import LIMIT, use_kit, without_cann, write_untuned
from tests.jobs.npu.nets import cnn
from tests.standin.need import hear_interrupts, needs_compiler

pytestmark = needs_compiler
SHORT = ["--limit", "0.5"]
# what is injected (launch 1 is the known-good kernel's), options, what is said
FAULTS = {
    "a kernel hangs": ("launch=hang@4", SHORT, "launch 2: .*507014 .AI Core time-out.*--limit"),
    "a kernel faults": ("launch=fault@5", LIMIT, r"group g\d+ \(.*\): device 0: launch 3: .*507015"),
    "the worker dies": ("launch=crash@4", LIMIT, "the worker of device 0 .*signal 11"),
    "the device disappears": ("launch=lose@4", LIMIT, "507010 .*heartbeat"),
    "memory ends": ("aclrtMalloc=207001@4", LIMIT, "207001"),
    "a kernel does not load": ("aclrtBinaryGetFunction=507027", LIMIT, "cannot be loaded: route A by .*; route C by .*507027"),
    "no driver": ("aclrtSetDevice=507899", LIMIT, "507899"),
    "the known-good kernel is wrong": ("launch=wrong@1", LIMIT, "aoec_known_good, whose values are known, gave others")}


def run_cnn(folder: Path, *words: str) -> int:
    """The exit code of a run that would write out.npz."""
    return main(["run", write_untuned(cnn(), folder), "--random", "--on", "npu", "-o", str(folder / "out.npz"), *words])


def check_left(folder: Path) -> None:
    """Nothing half-written is left, and the device can be taken."""
    assert [p.name for p in folder.iterdir() if "out" in p.name] == []
    Lease(0, folder / "leases").release()


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_ends_the_run_with_a_sentence(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    fault, words, said = FAULTS[name]
    use_kit(monkeypatch, tmp_path, 91, AOEC_STANDIN_FAULT=fault)
    assert run_cnn(tmp_path, *words) == 2
    out, err = capsys.readouterr()
    last = err.strip().splitlines()[-1]
    assert out == "" and last.startswith("aoec: error: ") and "Traceback" not in err and re.search(said, last), err
    check_left(tmp_path)


def test_wrong_values_are_found_by_group(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Launch 1 is the known-good kernel's, and then a run: of the second run, with --check, the third is wrong."""
    use_kit(monkeypatch, tmp_path, 91)
    assert run_cnn(tmp_path, *LIMIT, "--json") == 0
    launches = json.loads(capsys.readouterr().out)["launches"]
    (tmp_path / "out.npz").unlink()
    monkeypatch.setenv("AOEC_STANDIN_FAULT", f"launch=wrong@{1 + launches + 3}")
    assert run_cnn(tmp_path, *LIMIT, "--check", "groups") == 1
    said = capsys.readouterr().out
    assert "wrong values: the first group that differs is g2 (" in said and "values: y differs from the model machine by 0.0e+00" in said


@pytest.mark.slow
def test_a_compiler_that_hangs_or_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """After the probes, so that it is kernels that it does not end with."""
    use_kit(monkeypatch, tmp_path, 91)
    toolkit = find_toolkit()
    for kind in ("KERNEL_TYPE_AIV_ONLY", "KERNEL_TYPE_AIC_ONLY"):
        probe.plan(toolkit, 2201, kind)
    monkeypatch.setattr(open_board, "build", partial(open_board.build, seconds=1.0))
    monkeypatch.setenv("AOEC_CACHE_DIR", str(tmp_path / "cache"))  # where no kernel is kept yet
    probe.ask_compiler(toolkit)
    probe.plan(toolkit, 2201, "KERNEL_TYPE_AIV_ONLY")
    monkeypatch.setenv("AOEC_STANDIN_BISHENG", "hang")
    assert run_cnn(tmp_path, *LIMIT) == 2
    assert "aoec_known_good does not compile: bisheng did not end in 1 s and was killed" in capsys.readouterr().err
    check_left(tmp_path)


def start_run(folder: Path, *words: str) -> subprocess.Popen[str]:
    """A run in a process of its own, whose third kernel never ends."""
    command = [sys.executable, "-m", "aoec", "run", write_untuned(cnn(), folder), "--random", "--on", "npu", "-o", str(folder / "out.npz"),
               *LIMIT, *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, "AOEC_STANDIN_FAULT": "launch=never@4"},
                            preexec_fn=hear_interrupts)


def wait_for_worker(folder: Path, seconds: float = 60) -> list[int]:
    """The worker that was started from a folder, once it has loaded the library."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = []
        for p in Path("/proc").glob("[0-9]*"):
            try:
                mine = str(folder) in (p / "environ").read_text(errors="replace")
                if mine and b"aoec.acl.worker" in (p / "cmdline").read_bytes() and "ascendcl" in (p / "maps").read_text():
                    found.append(int(p.name))
            except OSError:
                continue
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError("no worker started")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")
@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_run_that_is_ended_leaves_nothing(number: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_kit(monkeypatch, tmp_path, 91)
    run = start_run(tmp_path)
    workers = wait_for_worker(tmp_path)
    time.sleep(1.0)
    with pytest.raises(DeviceBusy, match=f"device 0 is taken by process {run.pid} "):
        Lease(0, tmp_path / "leases")
    run.send_signal(number)
    _, err = run.communicate(timeout=60)
    assert run.returncode == code and "Traceback" not in err and (code < 0 or "aoec: interrupted; nothing was written" in err), err
    until = time.monotonic() + 30
    while any(Path(f"/proc/{w}").exists() for w in workers) and time.monotonic() < until:
        time.sleep(0.1)
    assert not any(Path(f"/proc/{w}").exists() for w in workers)
    check_left(tmp_path)


def test_four_states_without_a_device(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a sentence of one line and exit code 2; what needs no device still works."""
    path = write_untuned(cnn(), tmp_path)
    use_kit(monkeypatch, tmp_path, 91)
    bare = make_toolkit(tmp_path / "bare", 91, compiler=False)
    states = [({"ASCEND_HOME_PATH": str(bare), "PATH": "/nowhere"}, "has no bisheng"), ({"AOEC_STANDIN_DEVICES": "0"}, "no device"),
              ({"AOEC_STANDIN_SOC": "Ascend310P3"},
               "this is for Ascend910B3, product 2201 .*device 0 is Ascend310P3, product 2002 .*: compile for that with --target Asc"),
              ({"AOEC_STANDIN_SOC": "Ascend950PR"}, "the device is Ascend950PR, product 3510"), ({}, "CANN was not found")]
    for environ, said in states:
        with monkeypatch.context() as m:
            for name, value in environ.items():
                m.setenv(name, value)
            if not environ:
                without_cann(m, tmp_path)
            assert main(["run", path, "--random", "--on", "npu"]) == 2
            out, err = capsys.readouterr()
            assert out == "" and len(err.splitlines()) == 1 and re.search(said, err), err
            assert main(["run", path, "--random", "--json"]) == 0
            assert json.loads(capsys.readouterr().out)["outputs"]["y"]["finite"]
