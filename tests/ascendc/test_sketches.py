"""Kernels of every kind of sketch: programs with holes filled at random, small shapes with tails, run on the stand-in.

A kernel has the values of the model machine bit for bit. Where blocks add to one tensor in GM, their order is free, so inputs of such
programs are whole numbers, whose sums are exact. A program that is not written as a kernel is refused by a sentence that names an
instruction, or says what UB lacks; there are few of these.
"""
from __future__ import annotations

from collections.abc import Callable
from functools import cache
from zlib import crc32

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from aoec.ascendc.kernel import write_kernel
from aoec.base.errors import CapacityError, ScheduleError, UnsupportedError
from aoec.ir.func.tir import Func
from aoec.ir.program import Program
from aoec.ir.text.simplify import simplify
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.tuning import Problem
from aoec.jobs.tune.tuning import problem as problem_of
from aoec.search.sketches.nests import find_product
from aoec.search.sketches.sketches_attention import attention_sketches, second_product
from aoec.search.sketches.sketches_columns import columns_sketches
from aoec.search.sketches.sketches_cube import cube_sketches
from aoec.search.sketches.sketches_reduce import chunked_sketches
from aoec.search.sketches.sketches_sum import sum_sketches
from aoec.search.sketches.sketches_vector import vector_sketches
from aoec.simulate.values.values import execute
from aoec.standin.programs import draw, launch
from aoec.target.isa.instructions import INSTRUCTIONS, added_to
from aoec.target.legality.check import check
from aoec.target.machine import load
from tests.lowering.groups import cases, legal
from tests.standin.need import needs_compiler

pytestmark = needs_compiler
RULES: dict[str, Callable[..., list[object]]] = {
    "attention": attention_sketches, "cube": cube_sketches, "vector": vector_sketches, "columns": columns_sketches,
    "chunked": chunked_sketches, "sum": sum_sketches}
Source = tuple[str, ...]  # an operator with its sizes, or a model of tests/lowering/groups.py and the number of its group


@cache
def func_of(source: Source) -> Func:
    """The func of a group."""
    return lower_operator(source[0]) if len(source) == 1 else cases(source[0])[int(source[1])].func


@cache
def problem(source: Source) -> Problem:
    """Its tuning problem on 910B3."""
    return problem_of(func_of(source), load())


@cache
def sketches_of(source: Source, rule: str) -> tuple[int, ...]:
    """The numbers of the problem's sketches that a rule lays out."""
    func, machine = func_of(source), load()
    product = find_product(func)
    if rule == "attention":
        traces = attention_sketches(func, machine) if product and second_product(func) else []
    elif rule == "cube":
        traces = cube_sketches(func, product, machine) if product and not second_product(func) else []
    else:
        traces = RULES[rule](func, machine) if not product and (len(func.outputs) == 1 or rule == "vector") else []  # type: ignore[assignment]
    return tuple(i for i, s in enumerate(problem(source).sketches) if s.trace in traces)


def candidates(source: Source, sketch: int, count: int, seed: int) -> list[Program]:
    """Programs of a sketch with its holes filled at random, as they are shown."""
    p = problem(source)
    return [simplify(p.program(c)) for c in legal(p, sketch, count, seed)]


def check_program(program: Program, seed: int) -> bool:
    """Whether a kernel is written of a program; then its values are those of the model machine, in an order of the pipes by the seed."""
    machine = load()
    check(program, machine)
    try:
        kernel = write_kernel(program, machine, ("8.1", "8.5", "9.1")[seed % 3])
    except UnsupportedError as e:
        assert str(e).split(" ")[0] in INSTRUCTIONS, str(e)
        return False
    except CapacityError:
        return False
    from aoec.standin.launch import Kernel
    compiled = Kernel.compile(kernel.source, kernel.name, int(kernel.product), int(kernel.release.replace(".", "")))
    given_ = draw(program, seed, real=not added_to(program))
    with np.errstate(all="ignore"):
        wanted = execute(program, given_)
    for name, x in launch(compiled, program, given_, kernel.blocks, kernel.reads_on, seed).items():
        assert x.tobytes() == wanted[name].tobytes(), f"{name} of {program.name}"
    return True


# ---------------------------------------------------------------- one kernel a kind of sketch

FEW: dict[str, tuple[Source, ...]] = {
    "attention": (("attention(b=2, m=33, n=21, d=32)",),),
    "cube": (("matmul(m=37, k=50, n=21, bias, relu, fp16)",), ("conv2d(n=1, c=20, h=7, w=9, co=24, kh=3, kw=3, pad=1, bias, relu)",)),
    "vector": (("softmax(m=21, n=40, fp16)",),), "columns": (("add_columns", "0"),), "chunked": (("reduce_long", "0"),),
    "sum": (("sum_planes", "0"),)}


@pytest.mark.parametrize("rule", RULES)
def test_a_kernel_of_each_kind(rule: str) -> None:
    for source in FEW[rule]:
        numbers = sketches_of(source, rule)
        assert numbers
        (program,) = candidates(source, numbers[crc32(rule.encode()) % len(numbers)], 1, 3)
        assert check_program(program, 3)


def test_every_rule_is_among_the_kinds() -> None:
    """Each sketch of these groups is one of a rule."""
    for sources in FEW.values():
        for source in sources:
            found = {i for rule in RULES for i in sketches_of(source, rule)}
            assert found == set(range(len(problem(source).sketches)))


# ---------------------------------------------------------------- many of each

def _sizes(**most: int) -> st.SearchStrategy[str]:
    parts = [st.integers(1, top).map(lambda n, name=name: f"{name}={n}") for name, top in most.items()]  # type: ignore[misc]
    return st.tuples(*parts).map(", ".join)


@st.composite
def products(draw_: st.DrawFn) -> str:
    flags = [draw_(st.sampled_from(["fp16", "fp32", "int8"]))]
    flags += [f for f in ("bias", "relu", "trans_b", "nd") if draw_(st.booleans()) and (flags[0] != "int8" or f != "relu")]
    return f"matmul({draw_(_sizes(m=70, k=150, n=90))}, {', '.join(flags)})"


@st.composite
def convolutions(draw_: st.DrawFn) -> str:
    window, pad, stride = draw_(st.integers(1, 4)), draw_(st.integers(0, 1)), draw_(st.integers(1, 2))
    flags = [f", {f}" for f in ("bias", "relu") if draw_(st.booleans())]
    h, w = draw_(st.integers(4, 14)), draw_(st.integers(4, 17))
    sizes = f"{draw_(_sizes(n=2, c=40, co=50))}, h={h}, w={w}, kh={window}, kw={window}, pad={min(pad, window - 1)}, stride={stride}"
    return f"conv2d({sizes}{''.join(flags)}, {draw_(st.sampled_from(['fp16', 'fp32']))})"


@st.composite
def rows(draw_: st.DrawFn) -> str:
    op = draw_(st.sampled_from(["softmax", "log_softmax", "layer_norm", "rms_norm", "add", "div", "gelu", "sigmoid", "transpose", "silu",
                                "erf", "tanh", "floor", "power", "less", "sign"]))
    return f"{op}({draw_(_sizes(m=70, n=700))}, {draw_(st.sampled_from(['fp16', 'fp32']))})"


@st.composite
def reductions(draw_: st.DrawFn) -> str:
    op = draw_(st.sampled_from(["reduce_sum", "reduce_mean", "reduce_max", "reduce_min"]))
    return f"{op}({draw_(_sizes(m=40, n=9000))}, {draw_(st.sampled_from(['fp16', 'fp32']))})"


ATTENTIONS = st.tuples(_sizes(b=3, m=70, n=90), st.sampled_from((16, 32, 64, 80))).map(
    lambda given_: (f"attention({given_[0]}, d={given_[1]}, fp16)",))
MADE: dict[str, st.SearchStrategy[Source]] = {
    "attention": ATTENTIONS, "cube": st.one_of(products(), convolutions()).map(lambda s: (s,)), "vector": rows().map(lambda s: (s,)),
    "columns": st.sampled_from([("add_columns", "0"), ("rotary", "0"), ("rotary32", "0"), ("places", "0")]),
    "chunked": st.one_of(reductions().map(lambda s: (s,)), st.sampled_from([
        ("softmax_long", "0"), ("sum_columns", "0"), ("reduce_rows", "0"), ("reduce_tall", "0"), ("max_planes", "0")])),
    "sum": st.sampled_from([("sum_blocks", "0"), ("sum_all", "0"), ("sum_planes", "0")])}
NOT_WRITTEN = 0.2  # of the examples of a kind, at most


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_kernels_of_all_sketches(rule: str) -> None:
    written: list[bool] = []

    @settings(max_examples=40, deadline=None)
    @given(MADE[rule], st.integers(0, 99), st.integers(0, 999))
    @example(FEW[rule][0], 0, 0)
    def law(source: Source, sketch: int, seed: int) -> None:
        try:
            numbers = sketches_of(source, rule)
        except (UnsupportedError, ScheduleError):  # of these sizes nothing is to be scheduled
            numbers = ()
        assume(numbers)
        found = candidates(source, numbers[sketch % len(numbers)], 1, seed)
        assume(found)
        written.append(check_program(found[0], seed))
    law()
    assert written.count(False) <= NOT_WRITTEN * len(written), f"{written.count(False)} of {len(written)} programs are not written"
