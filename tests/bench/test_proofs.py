"""bench/proofs.py counts what a proof decides."""
from __future__ import annotations

import json
import sys

import pytest

from bench import proofs


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
