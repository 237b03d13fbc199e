"""Whole schedules of the usual kinds of func: values stay those of NumPy, and holes may be filled before or after."""
from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

from aoec import primitives
from aoec.ir import index
from aoec.ir.func.evaluate import evaluate_func
from aoec.ir.func.tir import Loop, blocks
from aoec.ir.rewrite import fill, normalise
from aoec.ir.rewrite import holes as holes_of
from aoec.ir.text.parse import parse_func, parse_trace
from aoec.ir.text.show import show
from tests.primitives.funcs import FUNCS, REFERENCE, SCHEDULES, load, random_inputs


def candidates(schedule: str, count: int) -> list[dict[str, int]]:
    """Values for the holes: first and last choices of all, then random ones."""
    rng, holes = random.Random(7), holes_of(load(schedule)[1])
    ends = [{k: c[0] for k, c in holes.items()}, {k: c[-1] for k, c in holes.items()}]
    return (ends + [{k: rng.choice(c) for k, c in holes.items()} for _ in range(count)])[:count]


def close(got: np.ndarray, want: np.ndarray) -> bool:
    return got.shape == want.shape and bool(np.allclose(got.astype(np.float32), want, rtol=2e-3, atol=1e-4))


@pytest.mark.parametrize("name", sorted(REFERENCE))
def test_unscheduled_funcs_mean_what_numpy_says(name: str) -> None:
    func = parse_func((FUNCS / f"{name}.tir").read_text())
    inputs = random_inputs(func, 3)
    assert close(evaluate_func(func, inputs)["Y"], REFERENCE[name](inputs))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_values_are_kept(schedule: str) -> None:
    func, trace = load(schedule)
    scheduled, inputs = primitives.apply(func, trace), random_inputs(func, 5)
    want = REFERENCE[func.name](inputs)
    for values in candidates(schedule, 3):
        order = iter if values == candidates(schedule, 1)[0] else reversed
        assert close(evaluate_func(fill(scheduled, values), inputs, core_order=order)["Y"], want), values


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_filling_before_is_filling_after(schedule: str) -> None:
    func, trace = load(schedule)
    scheduled = primitives.apply(func, trace)
    for values in candidates(schedule, 12):
        before = normalise(primitives.apply(func, fill(trace, values)))
        assert show(before) == show(normalise(fill(scheduled, values))), values


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_text_of_a_scheduled_func_reads_back(schedule: str) -> None:
    func, trace = load(schedule)
    scheduled = primitives.apply(func, trace)
    assert parse_func(show(scheduled)) == scheduled
    assert parse_trace(show(trace)) == trace


def iterations(loops: tuple[Loop, ...], env: dict[str, int]) -> Iterator[dict[str, int]]:
    """The loop variables of every iteration."""
    if not loops:
        yield env
        return
    for i in range(int(index.evaluate(loops[0].extent, env))):
        yield from iterations(loops[1:], {**env, loops[0].var: i})


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_shapes_of_copies_are_their_largest_extents(schedule: str) -> None:
    func, trace = load(schedule)
    for values in candidates(schedule, 4):
        filled = fill(primitives.apply(func, trace), values)
        for block, above in blocks(filled.body):
            if block.instr == "copy" and block.name in {b.name for b in filled.locals}:
                outer, own = above[:-len(block.target.indices)], above[-len(block.target.indices):]
                seen = [[int(index.evaluate(x.extent, env)) for x in own] for env in iterations(outer, {})]
                shape = [int(index.evaluate(s, {})) for s in filled.buffer(block.name).shape]
                padding = [0, 0, 1, 1, 0] if block.name == "X_L1" else [0] * len(shape)  # a clipped window is bounded by its size
                assert all(0 <= n - max(column) <= p for n, column, p in zip(shape, zip(*seen), padding)), (block.name, shape, values)
