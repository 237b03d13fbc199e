"""A sum, what of it lies above 0, and a cast of that: one instruction where the machine has it, and the same values where it has not."""
from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from aoec import primitives
from aoec.frontend.translate.onnx import load as load_model
from aoec.ir.func.meaning import Statement
from aoec.ir.graph.graph import Graph, OpNode, Tensor
from aoec.ir.index import Expr, Float, Read, Var, call
from aoec.ir.program import Program
from aoec.ir.text.show import show
from aoec.jobs.choose.model_tasks import tasks
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.tuning import Problem, problem, start
from aoec.lowering.arrange.fuse import fuse
from aoec.lowering.lower.vector.lower_operations import sums_cut_off
from aoec.lowering.lower.work import Work
from aoec.ops.run import evaluate
from aoec.target.legality.check import check
from aoec.target.machine import Machine, load, parse_machine
from tests.frontend.models import model, node
from tests.laws.turns import SAME
from tests.lowering.coupled import TEXT
from tests.lowering.groups import Case, case, cases, legal

pytestmark = pytest.mark.usefixtures("small")  # defaults of short lists will do
HALF = 2 if SAME else 1  # `make test` draws half as many candidates, of half as many sketches where each is one
WITH = parse_machine(TEXT, "coupled")
WITHOUT = parse_machine(TEXT.replace('lacks = ["', 'lacks = ["vaddrelu", "vaddreluconv", "'), "coupled")
CHIPS = {"Ascend910B3": True, "Ascend310P3": True, "Ascend310B1": True, "Ascend950PR_957x": True, "Ascend910A": False, "Ascend310": False}


def words(p: Program) -> set[str]:
    """The vector instructions of a program."""
    return set(re.findall(r"\b(v[a-z0-9]+)\(", show(p)))


@cache
def residual(dtype: str, rows: int, columns: int, broadcast: bool = False) -> Case:
    """Relu of a sum."""
    sizes = {n: (1 if n == "z" and broadcast else rows, columns) for n in "xzsy"}
    nodes = (OpNode("s", "add", ("x", "z"), ("s",)), OpNode("y", "relu", ("s",), ("y",)))
    graph = fuse(Graph("g", ("x", "z"), ("y",), tuple(Tensor(n, dtype, s) for n, s in sizes.items()), nodes), {})[0]
    random = np.random.default_rng(rows)
    feeds = {n: random.standard_normal(sizes[n]).astype(np.float32) for n in ("x", "z")}
    return case("residual", graph, "g0", evaluate(graph, feeds, {}, every=True))


@pytest.mark.parametrize("chip, has", CHIPS.items())
def test_it_is_one_instruction_where_the_chip_has_it(chip: str, has: bool) -> None:
    found = words(default(residual("fp16", 40, 96), chip))
    assert found & {"vadd", "vrelu", "vaddrelu"} == ({"vaddrelu"} if has else {"vadd", "vrelu"})


def default(c: Case, chip: str) -> Program:
    p = problem(c.func, load(chip))
    return p.program(start(p).default)


@pytest.mark.parametrize("machine", [WITH, WITHOUT], ids=["with", "without"])
@pytest.mark.parametrize("dtype, rows, columns, broadcast", [
    ("fp16", 9, 37, False), ("fp32", 5, 70, False), ("bf16", 7, 33, False), ("fp16", 21, 48, True), ("fp32", 6, 30, True)])
def test_values_are_those_of_the_reference(machine: Machine, dtype: str, rows: int, columns: int, broadcast: bool) -> None:
    c = residual(dtype, rows, columns, broadcast)
    p = problem(c.func, machine)
    for sketch in range(len(p.sketches)):
        for candidate in legal(p, sketch, 2):
            made = p.program(candidate)
            check(made, machine)
            assert np.array_equal(c.run(made), c.wanted)


def test_a_sum_that_something_else_reads_stays() -> None:
    """As do one that is kept in another dtype, and one that is added to."""
    def shortened(*made: tuple[str, str, Expr], dtype: str = "fp16") -> list[str]:
        at = (Var("i"),)
        statements = [Statement(Read(n, at), op, e, None) for n, op, e in made]
        names = {"x", "z", *(n for n, _, _ in made)}
        work = Work(statements, {"i": 9}, dict.fromkeys(names, (9,)), dict.fromkeys(names, "fp16") | {"s": dtype})
        return [s.target.buffer for s in sums_cut_off(work).statements]

    total, above = ("s", "=", X + Z), ("r", "=", call("max", S, Float(0.0)))
    assert shortened(total, above) == ["r"]
    assert shortened(total, above, ("y", "=", S * X)) == ["s", "r", "y"]
    assert shortened(total, above, dtype="fp32") == ["s", "r"]
    assert shortened(("s", "+=", X), above) == ["s", "r"]
    assert shortened(total, ("r", "=", call("max", S, Float(1.0)))) == ["s", "r"]
    assert shortened(("s", "=", X - Z), above) == ["s", "r"]


X, Z, S = (Read(n, (Var("i"),)) for n in "xzs")


def test_whole_numbers_are_left_as_they_are() -> None:
    """The instruction adds reals."""
    sizes = {n: (9, 37) for n in "xzsy"}
    nodes = (OpNode("s", "add", ("x", "z"), ("s",)), OpNode("y", "relu", ("s",), ("y",)))
    graph = fuse(Graph("g", ("x", "z"), ("y",), tuple(Tensor(n, "int32", s) for n, s in sizes.items()), nodes), {})[0]
    x = np.arange(-160, 173, dtype=np.int32).reshape(9, 37)
    c = case("residual", graph, "g0", evaluate(graph, {"x": x, "z": 3 * x}, {}, every=True))
    p = problem(c.func, WITH)
    made = p.program(legal(p, 0, 1)[0])
    assert "vaddrelu" not in words(made) and np.array_equal(c.run(made), c.wanted)


# ---------------------------------------------------------------- bias, relu and cast of what leaves L0C

def several(p: Problem) -> list[Program]:
    return [p.program(c) for sketch in range(len(p.sketches)) for c in legal(p, sketch, 4 // HALF)]


@pytest.mark.parametrize("model", ["conv", "point", "conv_few"])
def test_bias_relu_and_cast_are_one_instruction_a_column_and_change_no_bit(model: str) -> None:
    """Channels that end within a fractal, pixels that end within four rows, several columns a part; the same schedules with and without."""
    c = next(c for c in cases(model) if "cols" in {b.name for b in c.func.locals})
    fused, plain = problem(c.func, WITH), problem(c.func, WITHOUT)
    made = several(fused)
    assert all("vaddreluconv" in words(p) and not words(p) & {"vadd", "vconv", "vrelu"} for p in made)
    assert any(len({s.size_bytes for s in p.spaces if s.name.startswith("scratch")} - {512}) > 0 for p in made) or model != "point"
    for p in made:
        check(p, WITH)
        assert c.agrees(c.run(p))
    for sketch in range(len(plain.sketches)):
        for candidate in legal(plain, sketch, 2 // HALF):
            if fused.legal([candidate]) == [True]:
                got, wanted = c.run(fused.program(candidate)), c.run(plain.program(candidate))
                assert "vaddreluconv" not in words(plain.program(candidate)) and np.array_equal(got, wanted)


@pytest.mark.parametrize("text", ["conv2d(n=1, c=64, h=28, w=28, co=64, kh=3, kw=3, pad=1, bias, relu)"])
def test_it_is_faster(text: str) -> None:
    chip = load("Ascend310P3")
    names = frozenset({"vaddrelu", "vaddreluconv"})
    plain = replace(chip, timing={k: v for k, v in chip.timing.items() if k not in names})
    func = lower_operator(text)
    assert start(problem(func, chip)).default_ticks < start(problem(func, plain)).default_ticks


# ---------------------------------------------------------------- one rounding

@pytest.mark.parametrize("model, kept", [("product_erf", "ND"), ("product_erf_alone", "ND"),
                                         pytest.param("active_wide", "NZ", marks=pytest.mark.slow)])
def test_a_result_that_is_read_as_fp32_is_rounded_where_it_leaves(model: str, kept: str) -> None:
    """No cast but the last, which makes the rows that are stored; what leaves L0C is worked on where it lies."""
    func = next(c.func for c in cases(model, "Ascend310P3") if "C" in {b.name for b in c.func.locals})
    assert [b.dtype for b in func.locals if b.name == "E"] == ["fp32"]
    p = problem(func, load("Ascend310P3"))
    for sketch in range(0, len(p.sketches), HALF):
        made = p.program(legal(p, sketch, 1)[0])
        check(made, p.machine)
        assert show(made).count("vconv(") == 1
    scheduled = primitives.apply(func, p.trace(start(p).default))
    assert [b.layout for b in scheduled.locals if b.name == "E"] == ["NZ"]
    assert {b.layout for b in scheduled.locals if b.name.startswith("E") and b.dtype == "fp16"} == {kept}


def test_what_a_bias_is_added_to_is_legal_at_full_size() -> None:
    """Many rows of a tile are added to by several instructions a column: they read nothing that others of the block wrote."""
    nodes = [node("MatMul", "x w", "t"), node("Add", "t b", "u"), node("Gelu", "u", "y")]
    constants = {"w": np.ones((96, 384), np.float32), "b": np.ones(384, np.float32)}
    graph, weights, _ = load_model(model(nodes, {"x": (3136, 96)}, ["y"], constants, opset=20), precision="fp16")
    machine = load("Ascend310P3")
    task, = tasks(fuse(graph, weights, machine)[0], machine)
    p = problem(task.func, machine)
    made = p.program(start(p).default)
    assert "vadd(" in show(made)
    check(made, machine)


def test_a_result_that_is_read_as_it_is_stays_as_it_was() -> None:
    """An operation in fp16 behind a product takes what was rounded, and so does one whose rows something is added to; fewer rows than a
    fractal has would be worked on sixteen at a time."""
    for name in ("product_active", "product_joined", "product_erf_joined", "product_erf_few"):
        assert [b.dtype for b in cases(name, "Ascend310P3")[-1].func.locals if b.name == "E"] == ["fp16"], name
