"""Elementwise programs of every dtype: whole numbers that wrap, truths, selections, and functions made of other instructions."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from aoec.ir.graph.graph import Graph, Group, OpNode, Tensor
from aoec.jobs.run.execute import run_program
from aoec.jobs.tune.tuning import problem
from aoec.lowering.lower.lower import lower, operands
from aoec.ops import shape
from aoec.ops.run import NUMPY, evaluate
from aoec.target.machine import Machine, load
from tests.lowering.groups import legal

MACHINE = load("Ascend910B3")
REALS, WHOLE = ("fp32", "fp16"), ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def ran(op: str, inputs: Sequence[tuple[str, np.ndarray]], result: str, machine: Machine = MACHINE,
        **attributes: float) -> tuple[np.ndarray, np.ndarray]:
    """What the program of one operator writes on a machine, and what its reference gives."""
    arrays = [x.astype(NUMPY[dtype]) for dtype, x in inputs]
    names = [f"x{at}" for at in range(len(arrays))]
    given = [Tensor(n, dtype, x.shape) for n, (dtype, _), x in zip(names, inputs, arrays)]
    out = Tensor("y", result, shape(op, [x.shape for x in arrays], attributes))
    node = OpNode("n", op, tuple(names), ("y",), tuple(attributes.items()))
    graph = Graph("g", tuple(names), ("y",), (*given, out), (node,), (Group("g0", "vector", ("n",)),))
    func = lower(graph, "g0")
    ins, outs = operands(graph, graph.groups[0])
    bindings = tuple(zip([b.name for b in (*func.inputs, *func.outputs)], [t.name for t in (*ins, *outs)]))
    p = problem(func, machine)
    program = p.program(legal(p, 0, 1)[0])
    feeds = dict(zip(names, arrays))
    got = run_program(program, bindings, {t.name: t for t in graph.tensors}, feeds)["y"]
    return got.reshape(out.shape), evaluate(graph, feeds, {})["y"]


def numbers(dtype: str, count: int, seed: int, small: bool = False) -> np.ndarray:
    """Values of both signs and all sizes that a dtype of whole numbers has, its ends among them; or small ones."""
    limits = np.iinfo(NUMPY[dtype])
    random = np.random.default_rng(seed)
    x = random.integers(max(limits.min, -9), 10, count)
    if small:
        return x.astype(NUMPY[dtype])
    x = np.where(random.random(count) < 0.5, random.integers(limits.min, limits.max, count, NUMPY[dtype], True), x.astype(NUMPY[dtype]))
    x[:2] = limits.min, limits.max
    return x


@pytest.mark.parametrize("dtype", WHOLE)
@pytest.mark.parametrize("op", ["add", "mul", "maximum", "whole_div", "bit_xor", "less"])
def test_whole_numbers_are_exact_and_wrap(op: str, dtype: str) -> None:
    """Of whole rows and of one row for all, as NumPy broadcasts."""
    a, b = numbers(dtype, 3 * 37, 1).reshape(3, 37), numbers(dtype, 37, 2, small=op == "whole_div")
    got, wanted = ran(op, [(dtype, a), (dtype, b)], "bool" if op == "less" else dtype)
    assert np.array_equal(got, wanted)


@pytest.mark.parametrize("op, dtype", [("mod", "int8"), ("mod", "int64"), ("whole_rem", "int32"), ("sub", "uint8"), ("bit_and", "int16"),
                                       ("bit_or", "uint64"), ("shift_left", "int64"),
                                       ("shift_right", "uint8"), ("power", "int32"), ("minimum", "uint64")])
def test_more_of_whole_numbers(op: str, dtype: str) -> None:
    """An element for each row on one side, a row on the other."""
    a, b = numbers(dtype, 21, 3).reshape(21, 1), numbers(dtype, 19, 4, small=True)
    b = np.where(b == 0, 3, np.abs(b) if op in ("power", "shift_left", "shift_right") else b)
    got, wanted = ran(op, [(dtype, a), (dtype, b)], dtype)
    assert np.array_equal(got, wanted)


@pytest.mark.parametrize("dtype", [*REALS, "bf16", "int8", "int32", "int64", "uint32", "bool"])
def test_a_choice_by_truths(dtype: str) -> None:
    """Truths for each element, and one for all."""
    random = np.random.default_rng(5)
    a, b = (random.integers(0, 2 if dtype == "bool" else 100, (5, 33)) for _ in range(2))
    for truths in (random.integers(0, 2, (5, 33)), np.ones(()), random.integers(0, 2, (5, 1))):
        got, wanted = ran("where", [("bool", truths), (dtype, a), (dtype, b[0])], dtype)
        assert np.array_equal(got, wanted)


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("op", ["equal", "less", "greater_equal", "unlike", "is_nan", "is_inf", "sign", "floor", "ceil", "round"])
def test_reals_beside_what_is_no_number(op: str, dtype: str) -> None:
    x = np.array([0.0, -0.0, 1.5, 2.5, -1.5, np.inf, -np.inf, np.nan, 3.0, -0.4] * 5)
    inputs = [(dtype, x), (dtype, np.roll(x, 3))][:2 if op in ("equal", "less", "greater_equal", "unlike") else 1]
    got, wanted = ran(op, inputs, dtype if op in ("sign", "floor", "ceil", "round") else "bool")
    assert np.array_equal(got, wanted, equal_nan=got.dtype.kind == "f")


CASTS = [("int64", "int32"), ("int64", "int8"), ("int32", "uint8"), ("uint8", "int64"), ("bool", "int64"), ("int64", "bool"),
         ("fp32", "bool"), ("bool", "fp16"), ("fp32", "int64"), ("int64", "fp32"), ("uint64", "fp32"), ("fp16", "int16"),
         ("uint16", "fp32"), ("uint32", "int64")]


@pytest.mark.parametrize("source, result", CASTS)
def test_casts_keep_low_bytes_and_cut_off(source: str, result: str) -> None:
    fixed = {"bool": np.arange(42) % 2, **dict.fromkeys(REALS, np.array([0.0, 1.9, -1.9, 100.5, -3.0, 7.0] * 7))}
    x = fixed[source] if source in fixed else numbers(source, 42, 6)
    got, wanted = ran("cast", [(source, x)], result)
    assert np.array_equal(got, wanted)


def test_powers() -> None:
    """Whole exponents of bases of both signs, others of positive ones; infinities where they are due."""
    a, b = np.meshgrid(np.array([-3.0, -1.0, 0.5, 2.0, 7.25, 0.0], np.float32), np.array([-2, -1, 0, 1, 2, 5, 31, 40, 0.5, 2.25]))
    got, _ = ran("power", [("fp32", a), ("fp32", b)], "fp32")
    with np.errstate(all="ignore"):
        wanted = np.power(a.astype(np.float64), b)
    np.testing.assert_allclose(got, wanted, rtol=1e-5)


def test_truths_between_operators_stay_in_ub() -> None:
    """A comparison and the choice by it are one group, in which no byte of a truth is made."""
    x = Tensor("x", "fp32", (300,))
    nodes = (OpNode("less", "less", ("x", "z"), ("m",)), OpNode("where", "where", ("m", "x", "z"), ("y",)))
    tensors = (x, Tensor("z", "fp32", (300,)), Tensor("m", "bool", (300,)), Tensor("y", "fp32", (300,)))
    graph = Graph("g", ("x", "z"), ("y",), tensors, nodes, (Group("g0", "vector", ("less", "where")),))
    func = lower(graph, "g0")
    assert {b.dtype for b in func.buffers} == {"fp32"} and len(func.locals) == 1
