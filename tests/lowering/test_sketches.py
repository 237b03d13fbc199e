"""Every sketch of every operator: lowering means the reference, filling commutes with emission, candidates are legal, bounded and exact."""
from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from aoec import primitives
from aoec.base.errors import AoecError, CheckError
from aoec.ir.evaluate import evaluate_func
from aoec.ir.program import CrossSet, CrossWait, For, Item, Program, SetFlag, WaitFlag
from aoec.ir.rewrite import fill, normalise
from aoec.jobs.operators import graph_of
from aoec.jobs.stages import lower_operator
from aoec.jobs.tuning import Problem, problem, start
from aoec.lowering.emit import emit
from aoec.lowering.fuse import fuse
from aoec.lowering.lower import lower, operands
from aoec.ops import evaluate
from aoec.ops.layout import to_logical, to_physical
from aoec.simulate.time import measure
from aoec.simulate.values import execute
from aoec.target.check import check
from aoec.target.machine import load

OPERATORS = (
    "matmul(m=37, k=50, n=21, bias, relu)", "matmul(m=20, k=24, n=40, fp32)",
    "conv2d(n=1, c=20, h=7, w=6, co=18, kh=3, kw=3, pad=1, bias, relu)",
    "conv2d(n=2, c=16, h=9, w=8, co=16, kh=2, kw=3, stride=2, dilation=2, pad=2)",
    "max_pool(n=1, c=20, h=9, w=7, kh=3, kw=3, stride=2, pad=1)",
    "global_avg_pool(n=2, c=20, h=5, w=3)", "softmax(m=5, n=37)", "add(m=9, n=70, relu)")
NUMPY = {"fp16": np.float16, "fp32": np.float32}


@cache
def tuning(text: str) -> Problem:
    return problem(lower_operator(text), load())


@cache
def case(text: str) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """(inputs of the operator's func by name, as stored; the expected output, as stored) on small whole numbers where sums are exact."""
    graph, weights = graph_of(text)
    random = np.random.default_rng(1)
    weights = {n: random.integers(-1, 2, w.shape).astype(w.dtype) for n, w in weights.items()}
    fused, stored = fuse(graph, weights)
    group = next(g for g in fused.groups if graph.name in g.nodes)
    func = lower(fused, group)
    tensors = {t.name: t for t in graph.tensors}
    feeds = {n: random.integers(-2, 3, tensors[n].shape).astype(np.float32) for n in graph.inputs}
    result = evaluate(graph, feeds, weights)[graph.outputs[0]]
    taken, made = operands(fused, group)
    source = dict(zip((t.name for t in taken if t.name not in stored), feeds.values()))
    inputs = {b.name: stored[t.name] if t.name in stored else to_physical(source[t.name].astype(NUMPY[t.dtype]), t)
              for b, t in zip(func.inputs, taken)}
    return inputs, to_physical(result.reshape(made[0].shape).astype(NUMPY[made[0].dtype]), made[0])


def close(text: str, got: np.ndarray, want: np.ndarray) -> bool:
    """Equality, but for softmax and averages, which round on the way."""
    got = got.reshape(want.shape).astype(np.float32)
    return np.allclose(got, want, rtol=4e-3, atol=1e-3) if text.startswith(("softmax", "global")) else np.array_equal(got, want)


def legal(p: Problem, sketch: int, count: int) -> list[tuple[int, tuple[int, ...]]]:
    """Some legal candidates of a sketch, drawn by a fixed seed."""
    random = np.random.default_rng(sketch)
    first, last = ([*p.space.starts, p.space.size][sketch + i] for i in (0, 1))
    drawn = [p.space.at(int(r)) for r in sorted({int(x) for x in random.integers(first, last, 400)})]
    found = [c for c, cost in zip(drawn, p.cost(drawn)) if cost is not None]
    return [found[int(i)] for i in random.permutation(len(found))[:count]]


def everywhere(text: str, count: int) -> list[tuple[int, tuple[int, ...]]]:
    p = tuning(text)
    return [c for s in range(len(p.sketches)) for c in legal(p, s, count)]


@pytest.mark.parametrize("text", OPERATORS)
def test_a_func_means_its_operator(text: str) -> None:
    inputs, want = case(text)
    func = tuning(text).func
    shaped = {b.name: _as_indexed(inputs[b.name], b) for b in func.inputs}
    assert close(text, next(iter(evaluate_func(func, shaped).values())), want)


def _as_indexed(array: np.ndarray, buffer: object) -> np.ndarray:
    """The array as the func's indices see it: a fractal matrix by rows and columns."""
    from aoec.ir.graph import Tensor
    shape = tuple(e.value for e in buffer.shape)  # type: ignore[attr-defined]
    layout = buffer.layout  # type: ignore[attr-defined]
    return array.reshape(shape) if layout == "ND" else to_logical(array, Tensor("b", buffer.dtype, shape, layout))  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", OPERATORS)
def test_filling_first_or_last_is_the_same_program_and_time(text: str) -> None:
    p = tuning(text)
    candidates = everywhere(text, 2)
    assert {c[0] for c in candidates} == set(range(len(p.sketches)))
    for c, cost in zip(candidates, p.cost(candidates)):
        before = normalise(emit(primitives.apply(p.func, p.trace(c)), p.machine))
        after = normalise(fill(emit(primitives.apply(p.func, p.sketches[c[0]].trace), p.machine), p.values(c)))
        assert before == after == p.program(c)
        m = measure(after, p.machine)
        assert cost == m.ticks + round(m.launch_us * p.machine.clock_mhz * 1024)


@pytest.mark.parametrize("text", OPERATORS)
def test_candidates_are_checked_exact_and_above_the_bound(text: str) -> None:
    p = tuning(text)
    inputs, want = case(text)
    for c in everywhere(text, 3):
        program = p.program(c)
        check(program, p.machine)
        names = [t.name for t in program.tensors if t.role == "input"]
        shapes = {t.name: tuple(e.value for e in t.shape) for t in program.tensors}  # type: ignore[union-attr]
        got = execute(program, {n: _fitted(inputs[n], shapes[n]) for n in names})
        assert close(text, next(iter(got.values())).ravel()[:want.size], want)
        assert p.cost([c])[0] >= p.bound().ticks > 0  # type: ignore[operator]


def _fitted(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The array in the stored shape that a program states, with zeros where that is larger."""
    out = np.zeros(shape, array.dtype)
    out.ravel()[:array.size] = array.ravel()
    return out


def without(body: tuple[Item, ...], at: int) -> tuple[tuple[Item, ...], int]:
    """(the body without the flag instruction number `at`, how many flags it holds before that)."""
    out: list[Item] = []
    for item in body:
        if isinstance(item, For):
            inner, at = without(item.body, at)
            out.append(replace(item, body=inner))
            continue
        if isinstance(item, (SetFlag, WaitFlag, CrossSet, CrossWait)):
            at -= 1
            if at == -1:
                continue
        out.append(item)
    return tuple(out), at


@pytest.mark.parametrize("text", OPERATORS)
def test_a_program_without_one_of_its_flags_is_refused(text: str) -> None:
    p = tuning(text)
    program = p.program(start(p).default)
    check(program, p.machine)
    body, left = without(program.streams[0].body, 10_000)
    flags = 10_000 - left
    assert body == program.streams[0].body and flags > 1
    for at in range(flags):
        cut: Program = replace(program, streams=(replace(program.streams[0], body=without(program.streams[0].body, at)[0]),))
        with pytest.raises(CheckError):
            check(cut, p.machine)


@pytest.mark.parametrize("text", [
    "conv2d(n=1, c=64, h=56, w=56, co=64, kh=3, kw=3, pad=1, bias, relu)", "conv2d(n=1, c=256, h=56, w=56, co=64, kh=1, kw=1, bias, relu)",
    "matmul(m=1, k=2048, n=1000, bias)", "add(m=256, n=3136, relu)"])
def test_the_default_is_no_slower_than_the_best_of_fifty(text: str) -> None:
    p = tuning(text)
    first = start(p)
    others = [cost for cost in p.cost(everywhere(text, 50 // len(p.sketches) + 1)) if cost is not None]
    assert p.bound().ticks <= first.ticks <= min(others)


def test_a_func_without_a_schedule_is_refused_by_name() -> None:
    with pytest.raises(AoecError, match=r"toy"):
        problem(lower_operator("matmul(m=100000, k=16, n=16, fp16)"), replace(load("toy"), scopes={}))
