"""Rows on several machines at once take what they take on each of them by itself, bit for bit."""
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.frontend.translate.onnx import load as load_onnx
from aoec.jobs.choose.model_tasks import tasks
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.tuning import problem
from aoec.lowering.arrange.fuse import fuse
from aoec.lowering.arrange.wide_sums import widen_sums
from aoec.search.space.draws import some
from aoec.simulate.timing import machines as several
from aoec.simulate.timing.machines import times_on
from aoec.simulate.timing.state import CLEARED, COLD, PREVIOUS_LAUNCH
from aoec.simulate.timing.time import time_rows
from aoec.target.machine import load
from aoec.target.vary import vary_machine
from tests.frontend.models import model, node

TARGETS = ("Ascend910B3", "Ascend310P3", "Ascend910A", "Ascend310B1")
OPERATORS = ("matmul(m={a}, k={b}, n={c}, fp16, bias)", "conv2d(n=2, c={c}, h={a}, w=19, co={b}, kh=3, kw=3, pad=1, relu)",
             "max_pool(n=1, c={c}, h={a}, w={b}, kh=3, kw=3, stride=2, pad=1)", "softmax(m={a}, n={b})", "layer_norm(m={b}, n={c})",
             "add(m={a}, n={b})", "attention(b=2, m={a}, n={b}, d=64)")
sizes = st.integers(2, 300)
states = st.sampled_from([COLD, PREVIOUS_LAUNCH, CLEARED, (("A", 4096), ("C", 1024))])


def assert_same(encoded, machines, rows, state):
    """The times on all machines together are those on each."""
    together = times_on(encoded, machines, rows, state)
    assert len(together) == len(machines)
    for machine, found in zip(machines, together):
        alone = time_rows(encoded.on(machine), rows, state)
        for column in ("ticks", "launch_ticks", "status", "cores"):
            assert np.array_equal(getattr(found, column), getattr(alone, column)), (machine.name, column)
    return together


def drawn(p, sketch, count):
    """Candidates of a sketch by hole: some that keep its constraints, and the smallest and largest of all choices, which may not."""
    grid = p.space.grids[sketch]
    found = [*some(grid, p.constraints(sketch), count), tuple(c[0] for c in grid.choices), tuple(c[-1] for c in grid.choices)]
    columns = np.array(found, np.int64).reshape(len(found), -1)
    return {name: columns[:, k].copy() for k, name in enumerate(grid.names)}


@settings(max_examples=14, deadline=None)
@given(st.sampled_from(TARGETS), st.sampled_from(OPERATORS), sizes, sizes, sizes, states,
       st.sets(st.integers(0, 99), min_size=2, max_size=5))
def test_candidates(target, operator, a, b, c, state, seeds):
    machine = load(target)
    p = problem(lower_operator(operator.format(a=a, b=b, c=c)), machine)
    machines = [machine, *[vary_machine(machine, seed) for seed in sorted(seeds)]]
    for sketch in range(min(3, len(p.sketches))):
        assert_same(p.sketches[sketch].encoded, machines, drawn(p, sketch, 4), state)


@pytest.mark.parametrize("most", [1, 5, 256])
def test_however_many_rows_are_done_at_once(monkeypatch, most):
    monkeypatch.setattr(several, "AT_ONCE", most)
    machine = load("Ascend910B3")
    p = problem(lower_operator("matmul(m=300, k=200, n=100, fp16)"), machine)
    machines = [vary_machine(machine, seed) for seed in range(4)]
    found = assert_same(p.sketches[0].encoded, machines, drawn(p, 0, 3), COLD)
    assert len({tuple(times.total_ticks) for times in found}) == 4  # they are told apart


def test_what_adds_to_its_outputs_has_their_zeros_first():
    """A long sum that several cores make parts of."""
    machine = load("Ascend910B3")
    graph, weights, _ = load_onnx(model([node("MatMul", "x w", "y")], {"x": (16, 2048), "w": (2048, 512)}, ["y"]))
    graph, weights = fuse(widen_sums(graph, [n.name for n in graph.nodes]), weights, machine)
    p = problem(tasks(graph, machine)[0].func, machine)
    adds = next(i for i, s in enumerate(p.sketches) if s.encoded.adds)
    assert_same(p.sketches[adds].encoded, [vary_machine(machine, seed) for seed in range(3)], drawn(p, adds, 4), COLD)


def test_rows_of_which_none_is_legal():
    machine = load("Ascend310P3")
    p = problem(lower_operator("softmax(m=40, n=9000)"), machine)
    rows = {name: values[-1:] for name, values in drawn(p, 0, 1).items()}
    assert (assert_same(p.sketches[0].encoded, [vary_machine(machine, 1), machine], rows, COLD)[0].status > 0).all()
