"""Cores that are sure to end no later than another are not walked, those whose epoch ends go on from where they stopped: times are those
of all cores walked, from their start, in every epoch."""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.tuning import problem
from aoec.search.space.draws import some
from aoec.simulate.encode.tables import first_false
from aoec.simulate.reasons.detail import walks
from aoec.simulate.timing.state import COLD, PREVIOUS_LAUNCH
from aoec.simulate.timing.time import ABANDONED, time_rows
from aoec.target.machine import load

ROWS, FEW = 40, 3
TARGETS = ("Ascend910B3", "Ascend310P3", "Ascend910A", "Ascend310B1")
OPERATORS = ("matmul(m={a}, k={b}, n={c}, fp16)", "conv2d(n=2, c={c}, h={a}, w=19, co={b}, kh=3, kw=3, pad=1, relu)",
             "conv2d(n=1, c=32, h={a}, w={b}, co={c}, kh=1, kw=1, stride=2)",
             "max_pool(n=1, c={c}, h={a}, w={b}, kh=3, kw=3, stride=2, pad=1)",
             "softmax(m={a}, n={b})", "layer_norm(m={b}, n={c})", "add(m={a}, n={b})", "global_avg_pool(n=3, c={c}, h={a}, w=7)")
sizes = st.integers(2, 400)


def assert_same(p, sketch, rows, state):
    """Times of rows with what is known of emitted programs are those without it, and so with a limit, where they are not abandoned."""
    encoded = p.sketches[sketch].encoded
    assert encoded.emitted
    whole = replace(encoded, emitted=False, fillers={})
    a, b = (time_rows(e, rows, state) for e in (encoded, whole))
    assert np.array_equal(a.ticks, b.ticks)
    assert np.array_equal(a.status, b.status)
    limit = int(np.median(b.total_ticks[b.status == 0])) if (b.status == 0).any() else 1
    limited = time_rows(encoded, rows, state, limit)
    timed = limited.status != ABANDONED
    assert np.array_equal(limited.ticks[timed], b.ticks[timed])
    assert (b.total_ticks[~timed] >= limit).all()
    return a


def drawn(p, sketch, count):
    """Legal candidates of a sketch, by hole."""
    grid = p.space.grids[sketch]
    found = np.array(some(grid, p.constraints(sketch), count), np.int64).reshape(-1, len(grid.names))
    rows = {name: found[:, k].copy() for k, name in enumerate(grid.names)}
    kept = first_false(p.sketches[sketch].encoded, rows, len(found)) == 0
    return {name: values[kept] for name, values in rows.items()}


@settings(max_examples=12, deadline=None)
@given(st.sampled_from(TARGETS), st.sampled_from(OPERATORS), sizes, sizes, sizes, st.sampled_from([COLD, PREVIOUS_LAUNCH]),
       st.integers(0, 99))
def test_candidates(target, operator, a, b, c, state, number):
    """Every shape has tails somewhere; some transfers are held back by those of other cores, some are not."""
    p = problem(lower_operator(operator.format(a=a, b=b, c=c)), load(target))
    sketch = number % len(p.sketches)
    rows = drawn(p, sketch, ROWS)
    if len(next(iter(rows.values()), ())):
        assert_same(p, sketch, rows, state)


@pytest.mark.parametrize("operator", [
    "matmul(m=1000, k=300, n=1400, fp16)", "conv2d(n=1, c=64, h=57, w=57, co=96, kh=3, kw=3, pad=1, relu)", "softmax(m=1003, n=700)",
    "add(m=1001, n=3000)"])
def test_walks_with_probes(operator):
    """Which walk all cores from their start, under the epochs that they found."""
    p = problem(lower_operator(operator), load("Ascend910B1"))
    for sketch in range(0, len(p.sketches), 2):
        rows = drawn(p, sketch, ROWS)
        found = assert_same(p, sketch, rows, COLD)
        few = {name: values[found.status == 0][:FEW] for name, values in rows.items()}
        count = len(next(iter(few.values()), ()))
        if count:
            ticks = [w.ticks for w in walks(p.sketches[sketch].encoded, few, count, COLD)]
            assert ticks == found.ticks[found.status == 0][:FEW].tolist()
