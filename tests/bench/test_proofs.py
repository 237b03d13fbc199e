"""bench/proofs.py counts what a proof decides."""
from __future__ import annotations

import json
import sys

import pytest

from aoec.jobs.stages.stages import lower_operator
from aoec.target.machine import load
from bench import beside, proofs


def test_a_small_space_is_decided_and_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["proofs.py", "add(m=64, n=1024, relu)", "softmax(m=64, n=256)", "--json"])
    assert proofs.main() == 0
    told = json.loads(capsys.readouterr().out)
    assert told["closed"] == told["groups"] == 2
    for row in told["rows"]:
        assert row["closed"] and 0 < row["floor_us"] == row["best_us"] <= row["default_us"]
        assert row["legal"] > 100 and row["decided_a_second"] > 0
    monkeypatch.setattr(sys, "argv", ["proofs.py", "conv2d(n=1, c=64, h=28, w=28, co=64, kh=3, kw=3, pad=1)", "--budget", "1"])
    assert proofs.main() == 0 and "0 of 1 spaces decided" in capsys.readouterr().out


def test_a_peer_is_asked_of_a_core_and_of_the_chip_around_it() -> None:
    machine = load("Ascend910B3")
    told = beside.question(machine, [(64, 32, 128)])
    assert beside.products(lower_operator("matmul(m=64, k=32, n=128, fp16)")) == [(1, 64, 32, 128)]
    core, chip = (beside.architecture(told, whole) for whole in (False, True))
    for text, levels in ((core, ["GM", "L1", "L0A", "L0B", "L0C"]), (chip, ["HBM", "L2", "L1", "L0A", "L0B", "L0C"])):
        assert [line.split()[1] for line in text.splitlines() if line.startswith("    name: ")] == [
            *levels[:-4], *["Chip"] * (text is chip), *levels[-4:], "Cube", "MAC"]
    assert f"fanout: {machine.cores['aic'].count}}}" in chip and str(8 * machine.l2_size_bytes) in chip
    assert f"throughput: {8 * machine.hbm_bytes_per_s}" in chip and f"throughput: {8 * machine.hbm_bytes_per_s}" not in core


def test_both_answers_of_a_peer_are_told_apart() -> None:
    row = {"space": 1000.0, "evaluated": 10.0, "cpu_s": 0.5}
    told = {"version": "1.0", "import_s": 1.25, "core": [row, row], "chip": [{**row, "cpu_s": 7.0}],
            "ours": {"groups": 2, "closed": 2, "legal": 5000, "search_s": 3.0}}
    one, two, ours = proofs.peer_text(told).splitlines()
    assert "one core" in one and "2,000 mappings" in one and "1.00 CPU s" in one
    assert "L2" in two and "1,000 mappings" in two and "7.00 CPU s" in two
    assert "5,000 legal" in ours and "3.00 CPU s" in ours


def test_a_peer_that_is_not_there_is_no_failure() -> None:
    assert beside.run(load("Ascend910B3"), [(16, 16, 16)]) is None
