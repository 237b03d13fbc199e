"""The table of structures: which groups calculate nothing, what a row says, and a row that takes the place of its own."""
from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench import structures
from bench.networks.net import Net, Network
from bench.structures import HEAD, Row, measure, put

ROW = Row("net-int8", "Ascend310P3", 20.0, 15.0, 12.5, 9, 2, 3.25, 1, 60, "ab" * 8, 30.0)


def moving(batch: int, seed: int) -> Network:
    """An input transposed, and the same through a function."""
    n = Net(seed)
    x = n.input("x", n.random.standard_normal((batch, 40, 48), np.float32))
    turned, y = n.node("Transpose", x, perm=[2, 1, 0]), n.node("Exp", x)
    return n.network("moving", {"turned": (turned, (48, 40, batch)), "y": (y, (batch, 40, 48))})


def test_groups_that_calculate_nothing_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(structures.NETWORKS, "moving", moving)
    row = measure("moving", "Ascend310P3", 0)
    assert row.on_host == 0 and row.real_us == 0
    assert (row.launches, row.moves) == (2, 1)
    assert 0 < row.moves_us < row.default_us == row.tuned_us and 0 < row.bound_us < row.default_us


def test_a_row_says_what_was_found_and_takes_the_place_of_its_own(tmp_path: Path) -> None:
    table = tmp_path / "structures.md"
    table.write_text("\n".join(["# Structures", "", *HEAD, "", "Words behind it."]) + "\n")
    for row in (ROW, replace(ROW, target="Ascend910B3", trials=0, real_us=0.0), replace(ROW, tuned_us=16.5)):
        put(row, table)
    *before, first, second, blank, behind = table.read_text().splitlines()
    assert before == ["# Structures", "", *HEAD] and (blank, behind) == ("", "Words behind it.")
    assert first == f"| net-int8 | Ascend310P3 | 20.0 | 16.5 | 60 | 12.5 | 9 | 2 | 3.2 | 1 | 0.55 | {ROW.version} |"
    assert second == f"| net-int8 | Ascend910B3 | 20.0 | – | – | 12.5 | 9 | 2 | 3.2 | 1 | – | {ROW.version} |"
