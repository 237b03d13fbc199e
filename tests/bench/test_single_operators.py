"""Random single operators, a few each time, against onnxruntime; and that what is wrong is seen to be."""
from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import operators
from single.case import Maker

pytestmark = pytest.mark.filterwarnings("ignore")
SEED = 7


def test_a_few_of_every_family() -> None:
    found = [operators.outcome(c) for c in operators.cases(len(operators.FAMILIES), SEED)]
    assert [operators.line(o) for o in found if o.status in ("wrong", "fault")] == []
    assert sum(o.status == "same" for o in found) > 0.8 * len(found)


def test_equal_numbers_draw_equal_cases() -> None:
    a, b = operators.draw(3, 40), operators.draw(3, 40)
    assert a.model == b.model and all(np.array_equal(x, b.feeds[n], equal_nan=x.dtype.kind == "f") for n, x in a.feeds.items())
    assert operators.draw(4, 40).model != a.model or operators.draw(4, 40).said != a.said


def test_what_is_wrong_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    maker = Maker(np.random.default_rng(1))
    maker.special = False
    case = maker.case("Neg", [np.ones((2, 3), np.float32)], [np.float32], 13)
    monkeypatch.setattr(operators, "run_aoec", lambda c: [-x for x in c.feeds.values()])
    assert operators.outcome(case).status == "same"
    monkeypatch.setattr(operators, "run_aoec", lambda c: [x for x in c.feeds.values()])
    o = operators.outcome(case)
    assert o.status == "wrong" and "6 of 6 elements differ: [0, 0] is np.float32(1.0), onnxruntime np.float32(-1.0) of 1.0" in o.why
    monkeypatch.setattr(operators, "run_aoec", lambda c: [x[:1] for x in c.feeds.values()])
    assert "float32[1, 3] in place of float32[2, 3]" in operators.outcome(case).why
    monkeypatch.setattr(operators, "run_aoec", lambda c: 1 / 0)
    assert operators.outcome(case).status == "fault"
    assert operators.outcome(replace(case, model=type(case.model)())).status == "skipped"
    assert operators.summary([o])[0] == "1 cases of 1 operators: 0 same, 0 known, 0 refused, 0 skipped, 1 wrong, 0 fault"


def test_the_table_explains_special_values_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    maker = Maker(np.random.default_rng(1))
    x = np.array([np.inf, 2, -np.inf], np.float32)
    case = maker.case("Clip", [x, np.array(0, np.float32)], [np.float32], 13, fixed=(1,))
    monkeypatch.setattr(operators, "run_aoec", lambda c: [np.array([np.inf, 2, 0], np.float32)])
    assert operators.outcome(case).status == "known"
    monkeypatch.setattr(operators, "run_aoec", lambda c: [np.array([np.inf, 3, 0], np.float32)])
    assert operators.outcome(case).status == "wrong"
