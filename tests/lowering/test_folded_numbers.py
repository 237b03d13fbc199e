"""What attributes alone make is a number before anything is lowered: it needs no instruction, and so has a schedule."""
from __future__ import annotations

import numpy as np
import pytest

from aoec import ops
from aoec.ir.text.parse import parse_meaning
from aoec.ir.text.show import show
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.tuning import problem, start
from aoec.ops.declare import Attributes, elementwise
from aoec.ops.meanings import bind
from aoec.target.machine import load


def leaning(attributes: Attributes) -> str:
    """An expression that hangs on an attribute."""
    return "$A * (1.0 - eps) + $B * eps" if attributes["eps"] else "$A"


@pytest.mark.parametrize("expression, eps, number", [
    ("$A * (1.0 - eps)", 0.25, "0.75"), ("$A + exp(eps) * 2", 0.0, "2.0"), ("select(eps > 1.0, $A, $A * 3.0)", 0.5, "3.0"),
    ("max($A, fp16(eps) / 3.0)", 1.5, "0.5"), ("$A * max(eps, 2.5)", 2.5, "2.5"), (leaning, 0.25, "0.75")])
def test_numbers_are_folded_and_have_a_schedule(expression: object, eps: float, number: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An expression that attributes choose is called by sizes too, with as many arguments as it has then."""
    monkeypatch.setitem(ops.OPS, "lean", elementwise("lean", expression, np.add, "eps"))  # type: ignore[arg-type]
    func = lower_operator(f"lean(m=64, n=96, eps={eps})")
    assert number in show(func) and len(func.inputs) == 1 + (expression is leaning)
    assert start(problem(func, load("Ascend910B3"))).best


@pytest.mark.parametrize("said, wanted", [
    ("X[i] + 1.0 / 0.0", "X[i] + inf"), ("X[i] * (0.0 / 0.0)", "X[i] * (0.0 / 0.0)"), ("X[i] + 3 / 2", "X[i] + 1.5"),
    ("X[i] + 2.0 % 0.0", "X[i] + 2.0 % 0.0"), ("X[i] + bitand(6, 3)", "X[i] + bitand(6, 3)"), ("X[i] + int32(2.7)", "X[i] + 2"),
    ("select(not(1.0 > 2.0), X[i], 7.0)", "X[i]")])
def test_what_is_no_number_stays(said: str, wanted: str) -> None:
    (statement,) = bind(parse_meaning(f"f(X[i]) -> Y[i] {{ Y[i] = {said} }}"), [(3,)]).statements
    assert show(statement.value) == wanted
