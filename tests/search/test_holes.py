"""What is said of holes is what sketches have: no more and no less, by kind of sketch, in the primitive that is named."""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from aoec.ir.func.tir import Func
from aoec.ir.index import Expr, hole_names
from aoec.ir.schedule import Trace
from aoec.ir.text.parse import parse_func
from aoec.jobs.stages.stages import lower_call, lower_operator
from aoec.primitives.primitive import primitives
from aoec.search import sketches as rules
from aoec.search.sketches.nests import Nest, find_product, writer
from aoec.search.sketches.plan import factors
from aoec.search.sketches.sketches import sketches
from aoec.search.sketches.sketches_columns import columns_sketches
from aoec.search.sketches.sketches_cube import conv_sketch
from aoec.search.sketches.sketches_matmul import Form, matmul_sketch
from aoec.search.sketches.sketches_reduce import chunked_sketches
from aoec.search.sketches.sketches_sum import sum_sketches
from aoec.search.sketches.sketches_vector import vector_sketches
from aoec.search.space.holes import KINDS, SKETCHES, Kind
from aoec.target.machine import load
from tests.lowering.groups import cases

MACHINES = ("Ascend910B3", "Ascend310P3")
RULES = {"vector": vector_sketches, "columns": columns_sketches, "rows in parts": chunked_sketches, "sum": sum_sketches}
OWN = str(Path(__file__).parents[1] / "jobs" / "own.op")
SUM = """func g(X: fp32[4096, 1000]) -> (Y: fp32[1000]) {
  local S: fp32[1000]
  for i in 4096 { for j in 1000 { s: S[j] += X[i, j] } }
  for o in 1000 { out: Y[o] = S[o] }
}"""
TEXTS = {
    "matmul": ["matmul(m=256, k=256, n=256)", "matmul(m=64, k=8192, n=64, fp32)", "matmul(m=8192, k=4096, n=8192)"],
    "convolution": ["conv2d(n=2, c=64, h=14, w=14, co=64, kh=3, kw=3, pad=1)",
                    "conv2d(n=1, c=64, h=56, w=56, co=64, kh=1, kw=1, stride=2)"],
    "attention": ["attention(b=3, m=150, n=300, d=32)"],
    "rows": ["softmax(m=40, n=9000)", "add(m=64, n=6400)", "max_pool(n=1, c=32, h=20, w=20, kh=3, kw=3, stride=2, pad=1)"]}


def funcs(sketch: str) -> Iterator[Func]:
    """Return funcs with sketches of a kind; together these have all of its holes."""
    yield from map(lower_operator, TEXTS["rows" if sketch in RULES else sketch])
    if sketch in RULES:
        yield from (parse_func(SUM), lower_call("scale_bias_gelu(m=512, n=8192, alpha=1.7)", [OWN]))
    if sketch == "matmul":
        yield lower_call("batched(b=4, m=64, k=64, n=64)", [OWN], "g0")
    if sketch == "convolution":
        found = [*cases("grouped"), *cases("joined", "Ascend310P3")]
        products = [(c.func, p) for c in found if (p := find_product(c.func)) is not None]
        yield from (func for func, p in products if writer(func, factors(p)[0].buffer) is not None)  # no product that makes planes


@cache
def laid_out(sketch: str) -> tuple[Trace, ...]:
    """Return sketches of a kind that a search lays out."""
    rule = RULES.get(sketch, sketches)
    return tuple(trace for func in funcs(sketch) for machine in MACHINES for trace in rule(func, load(machine)))


def of_vendor(sketch: str) -> list[Trace]:
    """Return sketches of forms that only the vendor's tilings have."""
    if sketch == "matmul":
        func, machine = lower_operator("matmul(m=512, k=512, n=512)"), load(MACHINES[0])
        given = [Form("left", steps="m"), Form("right", "m", steps="n"), Form(spread="single"), Form(spread="deal m", larger=""),
                 Form(spread="walk rows")]
        return [matmul_sketch(func, product(func), machine, form) for form in given]
    if sketch == "convolution":
        func = lower_operator(TEXTS["convolution"][0])
        gather = writer(func, factors(product(func))[0].buffer)
        assert gather is not None
        return [conv_sketch(func, product(func), gather, load(MACHINES[0]), "none", True, False, larger="image")]
    return []


def product(func: Func) -> Nest:
    found = find_product(func)
    assert found is not None
    return found


def filled_in(traces: Iterable[Trace]) -> dict[str, set[str]]:
    """Return hole -> the primitives that have it in a field."""
    out: dict[str, set[str]] = {}
    for step in (s for trace in traces for s in trace.steps):
        for name in (n for _, value in step.fields if isinstance(value, Expr) for n in hole_names(value)):
            out.setdefault(name, set()).add(step.primitive)
    return out


def told(name: str, sketch: str) -> list[Kind]:
    """Return what is said of a hole of a sketch of that kind."""
    return [k for k in KINDS if k.is_named(name) and sketch in k.decides]


@pytest.mark.parametrize("sketch", SKETCHES)
def test_what_is_said_of_holes_is_what_sketches_have(sketch: str) -> None:
    own, vendor = filled_in(laid_out(sketch)), filled_in(of_vendor(sketch))
    for name, where in (own | vendor).items():
        (one,) = told(name, sketch)
        assert one.primitive in where
    seen = {k.name for name in own | vendor for k in told(name, sketch)}
    assert seen == {k.name for k in KINDS if sketch in k.decides}
    assert {k.name for k in KINDS if sketch in k.vendor} == seen - {k.name for name in own for k in told(name, sketch)}


def test_what_is_named_is_there() -> None:
    assert {k.primitive for k in KINDS} <= primitives().keys() and len({k.name for k in KINDS}) == len(KINDS)
    assert all((Path(rules.__file__ or "").parent / file).is_file() for file, _ in SKETCHES.values())
    assert all(set(k.vendor) <= k.decides.keys() <= SKETCHES.keys() for k in KINDS)
