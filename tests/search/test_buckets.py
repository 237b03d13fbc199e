"""Plans of gradient fusion: the search finds what trying all plans finds, and its walk of a step says what a slow one says."""
from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.base.errors import CheckError
from aoec.ir.training import SCHEMES, BucketPlan, Gradient, StepTimeline, StepTrace
from aoec.search.buckets import Limits, baselines, plan, timeline
from tests.oracle.slow_step import TableCosts, slow_best, slow_step

CONTENTIONS = (1.0, 2.0, 4.0)


@st.composite
def tables(draw: st.DrawFn) -> dict[int, int]:
    """Costs by upper limits of bytes, which jump and dip: size -> µs."""
    steps = draw(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 60)), min_size=1, max_size=6))
    return dict(sorted(steps))


def cost_of(table: dict[int, int], start: int, byte: int) -> object:
    """A cost: a start-up, a time a byte, and what the table has at the last limit that is not above the size."""
    limits = sorted(table)

    def cost(size: int) -> float:
        below = [limit for limit in limits if limit <= size]
        return float(start + byte * size + (table[below[-1]] if below else 0))
    return cost


@st.composite
def costs_of(draw: st.DrawFn, contentions: tuple[float, ...] = (1.0,)) -> TableCosts:
    functions = {name: cost_of(draw(tables()), draw(st.integers(0, 20)), draw(st.integers(0, 4)))
                 for name in ("all_reduce", "reduce_scatter", "all_gather")}
    return TableCosts(functions, draw(st.sampled_from(contentions)))  # type: ignore[arg-type]


@st.composite
def traces(draw: st.DrawFn, most: int, in_order: bool = False) -> StepTrace:
    """Steps of whole µs: equal ends are equal, others differ by far more than rounding."""
    n = draw(st.integers(1, most))
    ready = np.cumsum(draw(st.lists(st.integers(0, 30), min_size=n, max_size=n)))
    forward = draw(st.integers(0, 120))
    read = draw(st.lists(st.integers(0, forward + 5), min_size=n, max_size=n))
    read = sorted(read, reverse=True) if in_order or draw(st.booleans()) else read
    gradients = tuple(Gradient(f"g{i}", draw(st.integers(1, 12)), float(ready[i]), float(read[i])) for i in range(n))
    size = sum(g.size for g in gradients)
    return StepTrace(gradients, float(forward), float(ready[-1] + draw(st.integers(0, 40))), float(size * draw(st.integers(0, 3)) * 4), "modelled")


@st.composite
def plans(draw: st.DrawFn, count: int) -> BucketPlan:
    cuts = draw(st.sets(st.integers(0, count - 1)))
    return BucketPlan(tuple(sorted(cuts | {count - 1})), draw(st.sampled_from(list(SCHEMES))), draw(st.integers(1, 3)))


def check_step(step: StepTimeline, plan: BucketPlan, trace: StepTrace) -> None:
    """Nothing overlaps on a lane, from step to step; all that is sent and computed is there once."""
    buckets = len(plan.ends)
    lanes: dict[str, list[tuple[float, float]]] = {}
    for s in step.spans:
        assert -1e-9 <= s.begin_us <= step.step_us + 1e-9 and s.begin_us <= s.end_us
        lanes.setdefault(s.lane, []).extend((s.begin_us + k * step.step_us, s.end_us + k * step.step_us) for k in range(2))
    for spans in lanes.values():
        assert all(a[1] <= b[0] + 1e-6 for a, b in pairwise(sorted(spans)))
    kinds = [s.kind for s in step.spans if s.lane != "compute"]
    assert sorted(set(kinds)) == (["all_reduce"] if plan.scheme == "all_reduce" else ["all_gather", "reduce_scatter"])
    assert len(kinds) == buckets * (1 if plan.scheme == "all_reduce" else 2)
    assert step.step_us >= step.compute_us - 1e-9
    assert step.compute_us <= trace.compute_us + 1e-9


@given(st.data())
def test_a_step_is_what_a_slow_walk_says(data: st.DataObject) -> None:
    trace, costs = data.draw(traces(9)), data.draw(costs_of(CONTENTIONS))
    found = data.draw(plans(len(trace.gradients)))
    step = timeline(trace, found, costs)
    assert step.step_us == pytest.approx(slow_step(trace, found.ends, found.scheme, found.channels, costs), rel=1e-12, abs=1e-9)
    check_step(step, found, trace)


@given(st.data())
def test_nothing_is_sent_before_it_is_ready(data: st.DataObject) -> None:
    trace, costs = data.draw(traces(9)), data.draw(costs_of(CONTENTIONS))
    found = data.draw(plans(len(trace.gradients)))
    step = timeline(trace, found, costs)
    backward = [s.begin_us for s in step.spans if s.kind == "backward"]
    for k, members in enumerate(found.ranges()):
        sent = next(s for s in step.spans if s.kind in ("all_reduce", "reduce_scatter") and s.name == f"bucket {k}")
        if backward and found.scheme != "split":  # whose reduce-scatters may begin in the next step
            assert sent.begin_us >= backward[0] + trace.gradients[members[-1]].ready_us - 1e-6
        if found.scheme == "all_reduce":
            later = [s.begin_us for s in step.spans if s.kind == "optimiser"]
            assert all(begin >= sent.end_us - 1e-6 for begin in later)
        else:
            arrived = next(s for s in step.spans if s.kind == "all_gather" and s.name == f"bucket {k}")
            updates = [s for s in step.spans if s.kind == "optimiser" and s.name == f"bucket {k}"]
            assert all(s.begin_us >= arrived.end_us - 1e-6 for s in updates)


def check_plan(trace: StepTrace, costs: TableCosts, limits: Limits) -> None:
    """The plan has the shortest step of all plans, and the fewest buckets of these."""
    best = slow_best(trace, limits.scheme, limits.channels, costs, limits.most_segments, limits.most_bytes)
    if best is None:
        with pytest.raises(CheckError, match="allow more buckets or larger ones"):
            plan(trace, costs, limits)
        return
    found = plan(trace, costs, limits)
    assert found.is_optimal
    assert found.timeline.step_us == pytest.approx(best[0], rel=1e-9, abs=1e-6)
    assert found.lower_bound_us == pytest.approx(best[0], rel=1e-9, abs=1e-6)
    assert len(found.plan.ends) == best[1]
    assert found.plan == plan(trace, costs, limits).plan


@st.composite
def limits_of(draw: st.DrawFn, scheme: str, channels: int = 1) -> Limits:
    return Limits(draw(st.none() | st.integers(1, 5)), draw(st.none() | st.integers(1, 60)), scheme, channels)  # type: ignore[arg-type]


@given(st.data())
def test_one_channel_is_what_brute_force_finds(data: st.DataObject) -> None:
    check_plan(data.draw(traces(10)), data.draw(costs_of()), data.draw(limits_of("all_reduce")))


@given(st.data())
@settings(max_examples=5)
def test_fourteen_gradients(data: st.DataObject) -> None:
    check_plan(data.draw(traces(14).filter(lambda t: len(t.gradients) >= 13)), data.draw(costs_of()), data.draw(limits_of("all_reduce")))


@given(st.data())
def test_contention_is_what_brute_force_finds(data: st.DataObject) -> None:
    check_plan(data.draw(traces(9)), data.draw(costs_of(CONTENTIONS[1:])), data.draw(limits_of("all_reduce")))


@pytest.mark.parametrize("scheme", ["split", "sharded"])
@given(st.data())
def test_two_passes_are_what_brute_force_finds(scheme: str, data: st.DataObject) -> None:
    check_plan(data.draw(traces(9)), data.draw(costs_of(CONTENTIONS)), data.draw(limits_of(scheme)))


@pytest.mark.parametrize("scheme", list(SCHEMES))
@given(st.data())
def test_channels_are_what_brute_force_finds(scheme: str, data: st.DataObject) -> None:
    check_plan(data.draw(traces(8)), data.draw(costs_of()), data.draw(limits_of(scheme, data.draw(st.integers(2, 3)))))
