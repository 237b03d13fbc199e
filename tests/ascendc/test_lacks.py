"""Operators whose instructions 310P and 910A lack, or whose calls mean something else: kernels have the values of the model machine."""
from __future__ import annotations

import numpy as np
import pytest

from aoec.ascendc.kernel import write_kernel
from aoec.ir.graph.graph import Graph, Group, OpNode, Tensor
from aoec.ir.text.simplify import simplify
from aoec.jobs.tune.tuning import problem, start
from aoec.lowering.lower.lower import lower
from aoec.ops.run import NUMPY
from aoec.target.machine import load
from tests.ascendc.test_groups import RELEASES, assert_same

OPERATORS = (("round", "fp32", "fp32"), ("floor", "fp32", "fp32"), ("ceil", "fp16", "fp16"), ("cast", "fp32", "int32"),
             ("cast", "int32", "int8"), ("cast", "fp32", "uint8"))


CUT = (("cast", "int64", "int32"), ("cast", "int32", "int16"))  # Cast limits what is too large, and these keep the low bytes
EVERY = [(t, *o) for t in ("Ascend310P3", "Ascend910A") for o in (*OPERATORS, *CUT[:1])]
EVERY += [("Ascend310P3", *CUT[1]), *[("Ascend910B3", *o) for o in CUT]]


@pytest.mark.parametrize("target, op, source, result", EVERY, ids=[" ".join(e) for e in EVERY])
def test_kernels_have_the_values_of_the_model_machine(target: str, op: str, source: str, result: str) -> None:
    shape, machine = (5, 700), load(target)
    graph = Graph("g", ("x",), ("y",), (Tensor("x", source, shape), Tensor("y", result, shape)), (OpNode("n", op, ("x",), ("y",)),),
                  (Group("g0", "vector", ("n",)),))
    p = problem(lower(graph, "g0"), machine)
    program = simplify(p.program(start(p).best))
    name = next(t.name for t in program.tensors if t.role == "input")
    x = np.arange(3500).reshape(shape) * (7919 if source == "int32" else 7919**3) - 9999999
    x = x if source.startswith("int") else np.random.default_rng(0).standard_normal(shape) * 60
    assert_same(program, write_kernel(program, machine, RELEASES[target]), {name: x.astype(NUMPY[source])})
