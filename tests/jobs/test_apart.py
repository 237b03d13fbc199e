"""A group that has no program as a whole has one operator by operator, and nothing of it goes to the host."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import aoec
from aoec import backend
from aoec.base.errors import UnsupportedError
from aoec.ir.graph import Group
from aoec.ir.tir import Func
from aoec.lowering.lower import Indexed
from tests.frontend.models import model, node, normal, run

# weighed sums over the middle axis, as of chosen experts: a group whose weights, spread over rows in two loops, cannot be emitted
NET = model([node("Mul", "x w", "y"), node("ReduceSum", "y axis", "z", keepdims=0)], {"x": (6, 2, 64), "w": (6, 2, 1)}, ["z"],
            {"axis": np.array([1])})
FEEDS = {"x": normal(6, 2, 64), "w": normal(6, 2, 1)}


def test_weighed_sums_over_a_middle_axis(tmp_path: Path) -> None:
    wanted = run(NET, FEEDS)[0]
    for tune in (False, True):
        session = aoec.compile(NET, tmp_path / "net.aoec", bank=tmp_path / "bank.db", tune=tune, budget=3, no_host=True)
        assert session.on_host == ()
        assert np.abs(session.run(None, FEEDS)[0] - wanted).max() < 3e-3 * np.abs(wanted).max()
    prepared = backend.prepare(NET)
    assert not prepared.on_host
    np.testing.assert_allclose(prepared.run(FEEDS)[0], wanted, rtol=1e-5, atol=1e-5)


def test_operators_that_can_be_lowered_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lower = Indexed.lower

    def single(self: Indexed, group: Group) -> Func:
        if len(group.nodes) > 1:
            raise UnsupportedError("not together")
        return lower(self, group)

    monkeypatch.setattr(Indexed, "lower", single)
    net = model([node("Relu", "x", "r"), node("Exp", "r", "y")], {"x": (4, 8)}, ["y"])
    session = aoec.compile(net, tmp_path / "net.aoec", bank=tmp_path / "bank.db", no_host=True)
    assert session.on_host == () and len(session.report["groups"]) == 2
