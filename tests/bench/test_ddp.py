"""bench/ddp.py: how it judges, what it leaves behind, and the check itself where torch is."""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from bench import ddp
from bench.ddp import OURS, Row, judge, measured_system, measured_trace, resnet50_gradients
from bench.ranks import network

TORCH = os.environ.get("AOEC_TORCH_PYTHON") or (sys.executable if find_spec("torch") else "")


def row(name: str, modelled: float, measured: float, agree: bool = True) -> Row:
    return Row(name, 1, modelled, [measured] * 3, agree)


def test_the_gradients_are_those_of_resnet50() -> None:
    layers = resnet50_gradients()
    assert len(layers) == 161 and sum(n for n, _ in layers) == 25_557_032 and [n for n, _ in layers[:2]] == [1000, 2048 * 1000]


@pytest.mark.parametrize(("rows", "wrong"), [
    ([row(OURS, 100, 103), row("a", 104, 101), row("b", 120, 130)], []),  # 4 % apart: not judged; 2 % from the fastest
    ([row(OURS, 100, 105), row("a", 104, 101)], ["the searched plan is 4.0% slower than a"]),
    ([row(OURS, 100, 100), row("a", 110, 130), row("b", 120, 125)], ["a is modelled 9% faster than b and measured 4.0% slower"]),
    ([row(OURS, 100, 100), row("a", 110, 111, False)], ["a: DDP's buckets are not those of the plan"]),
])
def test_what_is_judged(rows: list[Row], wrong: list[str]) -> None:
    assert judge(rows) == wrong


def test_measurements_are_those_of_the_slowest_rank() -> None:
    found = [{"costs_us": [[1, 5, 3], [10, 10, 10]], "compute": [{"forward_us": 2, "backward_us": 9, "ready_us": [4, 3]}]},
             {"costs_us": [[2, 4, 2], [9, 12, 9]], "compute": [{"forward_us": 4, "backward_us": 11, "ready_us": [6, 5]}]}]
    system = measured_system(found, [100, 200], "a wire")
    assert system.us("all_reduce", [100, 200]).tolist() == [3, 10] and system.ranks == 2
    trace = measured_trace(found, [100, 200])
    assert [g.ready_us for g in trace.gradients] == [5, 5] and (trace.forward_us, trace.backward_us) == (3, 10)  # times do not fall


def test_without_torch_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert ddp.main(["--torch", "/no/python"]) == 3
    assert "has no torch; --torch names" in capsys.readouterr().err


def namespaces() -> set[str]:
    done = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False)
    return {line.split()[0] for line in done.stdout.splitlines() if line.startswith(f"aoec{os.getpid()}")}


def test_a_network_is_removed_after_a_failure() -> None:
    with pytest.raises(RuntimeError, match="stop"), network.make_network(2, 100) as made:
        assert len(made.prefixes) == 2 and (made.interface == "lo" or len(namespaces()) == 3)
        raise RuntimeError("stop")
    if shutil.which("ip"):
        assert namespaces() == set()


def test_without_tools_it_is_the_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with network.make_network(3, 100) as made:
        assert made.prefixes == ((), (), ()) and made.host == "127.0.0.1" and "not limited (no ip and no tc here)" in made.how


@pytest.mark.slow
@pytest.mark.skipif(not TORCH, reason="torch is not here; AOEC_TORCH_PYTHON names a Python that has it")
def test_plans_are_measured_in_the_order_of_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    """Two processes. Other programs on this machine can disturb a run, so that one of two is enough."""
    codes = []
    while len(codes) < 2 and 0 not in codes:
        codes.append(ddp.main(["--torch", TORCH]))
    said = capsys.readouterr().out
    assert 0 in codes, said
    assert said.count("as planned") >= 6 and np.all([name in said for name in (OURS, "one bucket", "each alone", "ddp 1+25 MB")])


@pytest.mark.slow
@pytest.mark.skipif(not TORCH, reason="torch is not here; AOEC_TORCH_PYTHON names a Python that has it")
def test_the_hook_sends_the_buckets_of_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    code = ddp.main(["--torch", TORCH, "--hook", "--rounds", "3", "--repetitions", "3", "--scale", "64", "--backward-ms", "25"])
    assert code in (0, 1) and capsys.readouterr().out.count("as planned") == 6
