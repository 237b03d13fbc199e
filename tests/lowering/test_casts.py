"""Casts between every two dtypes that the vector unit converts, directly or by others: integers cut off, fp16 and bf16 rounded once."""
from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from aoec.ir.graph.graph import Graph, Group, OpNode, Tensor
from aoec.jobs.tune.tuning import problem
from aoec.ops.run import NUMPY, evaluate
from aoec.target.machine import load
from tests.lowering.groups import case, legal

MACHINE = load("Ascend910B3")
WHOLE = {"int32", "int8", "uint8"}
PAIRS = [p for p in permutations(("fp32", "fp16", "bf16", *sorted(WHOLE)), 2) if not set(p) <= WHOLE]
NUMBERS = (0.0, 1.9999, 3.99999, 100.4, 2.5, 126.9, 0.001)  # the second and third would be rounded up by fp16 before they are cut off


@pytest.mark.parametrize("source, result", PAIRS)
def test_a_cast_is_what_numpy_does(source: str, result: str) -> None:
    signed = "uint8" not in (source, result)
    x = np.random.default_rng(0).choice([*NUMBERS, *(-v for v in NUMBERS if signed)], (3, 77)).astype(NUMPY[source])
    graph = Graph("c", ("x",), ("y",), (Tensor("x", source, (3, 77)), Tensor("y", result, (3, 77))),
                  (OpNode("cast", "cast", ("x",), ("y",)),), (Group("g0", "vector", ("cast",)),))
    found = case("cast", graph, "g0", evaluate(graph, {"x": x}, {}, every=True))
    assert found.agrees(found.evaluated(found.func)) and np.array_equal(found.wanted, x.astype(NUMPY[result]))
    p = problem(found.func, MACHINE)
    assert p.refused == [] and all(found.agrees(found.run(p.program(c))) for c in legal(p, 0, 2))


@pytest.mark.parametrize("source", ["int64", "uint64"])
@pytest.mark.parametrize("result", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_whole_numbers_keep_their_low_bytes(source: str, result: str) -> None:
    x = np.random.default_rng(1).integers(0, 1 << 40, (3, 77)).astype(NUMPY[source])
    graph = Graph("c", ("x",), ("y",), (Tensor("x", source, (3, 77)), Tensor("y", result, (3, 77))),
                  (OpNode("cast", "cast", ("x",), ("y",)),), (Group("g0", "vector", ("cast",)),))
    found = case("cast", graph, "g0", evaluate(graph, {"x": x}, {}, every=True))
    assert np.array_equal(found.wanted, x.astype(NUMPY[result]))
    p = problem(found.func, MACHINE)
    assert p.refused == [] and all(found.agrees(found.run(p.program(c))) for c in legal(p, 0, 2))
