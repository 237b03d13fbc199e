"""Laws of definitions of the user's own: whatever lowering writes can be read again and means what the definition says, or it is refused
with the statement and the reason."""
from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from aoec.base.errors import UnsupportedError
from aoec.ir.func.evaluate_whole import evaluate_whole, takes
from aoec.ir.func.tir import Func
from aoec.ir.text.parse import parse_func, parse_meaning
from aoec.ir.text.show import show
from aoec.jobs.stages.operators import graph_of, sized_operators
from aoec.jobs.verify.within import read_func
from aoec.lowering.arrange.fuse import fuse
from aoec.lowering.lower.lower import lower, operands
from aoec.ops import OPS
from aoec.ops.interpret import interpret
from aoec.ops.meanings import bind
from aoec.ops.own import read_definitions

# names of dimensions: plain ones, and those that lowering has uses of its own for
DIMENSIONS = (("m", "n"), ("pad0", "pad1"), ("single", "c1"), ("c", "c1"), ("cast0", "pad0"), ("n_1", "n"), ("t0", "out"))
SIZES, ROWS = (6, 32), 9
READS = ("A[{m}, {n}]", "B[{m}, {n}]", "V[{n}]", "R[{m}]", "A[{m} - 1, {n}] else 0.0", "A[{m} + 1, {n}] else 0.0",
         "A[{m}, {n} + 2] else 1.5", "B[{m} - 2, {n}] else 0.0", "A[{m}, ({n} + 5) % 32]", "T[I[{m}], {n}]", "T[J[{m}, {n}], {n}]",
         "T[I[{m}] + 1, {n}]", "2.5")
LOOPS = ("{n} < 7", "({m} + {n}) % 2 == 0", "{m} >= 3")


@st.composite
def values(draw: st.DrawFn, names: tuple[str, ...], depth: int = 2) -> str:
    """A value over reads, locals that are there, and loops."""
    kind = draw(st.sampled_from(("read", "read", "local", "sum", "max", "call", "select"))) if depth else "read"
    if kind in ("read", "local"):
        return draw(st.sampled_from(names if kind == "local" and names else READS))
    one = draw(values(names, depth - 1))
    if kind == "call":
        return f"{draw(st.sampled_from(('exp', 'abs', 'sigmoid', 'tanh')))}({one} * 0.25)"
    other = draw(values(names, depth - 1))
    if kind == "select":
        return f"select({draw(st.sampled_from(LOOPS))}, {one}, {other})"
    return f"max({one}, {other})" if kind == "max" else f"({one} {draw(st.sampled_from('+-*'))} {other})"


@st.composite
def definitions(draw: st.DrawFn) -> str:
    """An operator of some statements: locals of rows and of elements, sums and maxima, the result written once or twice."""
    m, n = draw(st.sampled_from(DIMENSIONS))
    lines, known = [], []
    for at in range(draw(st.integers(0, 2))):
        value = draw(values(tuple(known)))
        if draw(st.booleans()):
            lines.append(f"S{at}[{{m}}] {draw(st.sampled_from(('+=', 'max=')))} {value}")
            known.append(f"S{at}[{{m}}]")
        else:
            lines.append(f"L{at}[{{m}}, {{n}}] = {value}")
            known.append(f"L{at}[{{m}}, {{n}}]")
    for _ in range(draw(st.integers(1, 2))):
        lines.append(f"Y[{{m}}, {{n}}] = {draw(values(tuple(known)))}")
        known.append("Y[{m}, {n}]")
    body = "\n".join(lines).format(m=m, n=n)
    arguments = {"A": f"A[{m}, {n}]", "B": f"B[{m}, {n}]", "V": f"V[{n}]", "R": f"R[{m}]", "T": f"T[rows, {n}]", "I": f"I[{m}]",
                 "J": f"J[{m}, {n}]"}
    used = [text for name, text in arguments.items() if re.search(rf"\b{name}\[", body)]
    if not any(a.startswith("A") for a in used):  # which every size is known by
        body, used = f"{body}\nY[{m}, {n}] = Y[{m}, {n}] + A[{m}, {n}]", [arguments["A"], *used]
    return f"own({', '.join(used)}) -> Y[{m}, {n}] {{\n{body}\n}}"


def call_of(definition: str) -> str:
    dims = dict.fromkeys(d.name for a in parse_meaning(definition).inputs for d in a.dims)
    sizes = iter(SIZES)
    given = [f"{d}={ROWS if d == 'rows' else next(sizes)}" for d in dims]
    return f"own({', '.join(given)}, fp32)"


def readable(func: Func) -> None:
    """The func is what its text says, and no access goes beyond its tensor."""
    assert parse_func(show(func)) == func
    read_func(show(func), "f")


def arrays(func_inputs: list[tuple[str, str, tuple[int, ...]]]) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {name: random.integers(-12, 12, shape).astype(np.int32) if dtype.startswith("int") else
            random.standard_normal(shape).astype(np.float32) for name, dtype, shape in func_inputs}


@settings(max_examples=80, phases=(Phase.generate,))
@given(definitions())
def test_what_is_lowered_can_be_read_and_means_the_definition(definition: str) -> None:
    """Every group of the graph; and the graph's values, each func doing its group, are those of the definition, interpreted."""
    own = read_definitions(definition)
    try:
        graph, weights = fuse(*graph_of(call_of(definition), own))
    except UnsupportedError as e:
        pytest.fail(f"a model with this operator would be refused: {e}")
    tensors = {t.name: t for t in graph.tensors}
    known = dict(weights) | arrays([(i, tensors[i].dtype, tensors[i].shape) for i in graph.inputs])
    for group in graph.groups:
        if group.kind not in ("cube", "vector"):
            return  # views: values are compared of graphs without them
        try:
            func = lower(graph, group)
        except UnsupportedError as e:
            assert re.match(r"own: \w+: .{20}", str(e)), e
            return
        readable(func)
        if not takes(func):
            return
        ins, outs = operands(graph, group)
        feeds = {b.name: np.asarray(known[t.name]).reshape([e.value for e in b.shape]) for b, t in zip(func.inputs, ins)}  # type: ignore[attr-defined]
        made = evaluate_whole(func, feeds)
        known |= {t.name: made[b.name].reshape(t.shape) for b, t in zip(func.outputs, outs)}
    m = parse_meaning(own["own"])
    (wanted,) = interpret(bind(m, [tensors[a.name].shape for a in m.inputs]), [known[a.name] for a in m.inputs])
    np.testing.assert_allclose(known[graph.outputs[0]], wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", sized_operators())
def test_funcs_of_every_operator_by_name_can_be_read(name: str) -> None:
    rule = OPS[name].sizes
    assert rule
    required, flags = rule.required, rule.flags
    small = {"kh": 3, "kw": 3, "h": 9, "w": 11}
    sizes = ", ".join([*(f"{r}={small.get(r, 32)}" for r in required), *(f"{n}=0.5" for n in rule.numbers)])
    for words in (["fp16"], ["fp32"], *[["fp16", f] for f in flags if f not in ("int8",)]):
        graph, _ = fuse(*graph_of(f"{name}({sizes}, {', '.join(words)})"))
        for group in graph.groups:
            if group.kind in ("cube", "vector"):
                readable(lower(graph, group))
