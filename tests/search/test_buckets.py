"""Plans of gradient fusion: the search finds what trying all plans finds, and its walk of a step says what a slow one says."""
from __future__ import annotations

from itertools import pairwise
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.base.errors import CheckError
from aoec.ir.training import SCHEMES, BucketPlan, Gradient, StepTimeline, StepTrace
from aoec.search.buckets import Limits, baselines, plan, timeline
from aoec.search.buckets.bucket_spaces import space_of
from aoec.search.buckets.label_search import Bounds, best_cuts
from aoec.search.buckets.pair_costs import COLLECTIVES, PairCosts
from tests.oracle.slow_step import TableCosts, all_ends, slow_best, slow_step

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
def traces(draw: st.DrawFn, most: int, least: int = 1) -> StepTrace:
    """Steps of whole µs: equal ends are equal, others differ by far more than rounding."""
    n = draw(st.integers(least, most))
    ready = np.cumsum(draw(st.lists(st.integers(0, 30), min_size=n, max_size=n)))
    forward = draw(st.integers(0, 120))
    read = draw(st.lists(st.integers(0, forward + 5), min_size=n, max_size=n))
    read = sorted(read, reverse=True) if draw(st.booleans()) else read
    gradients = tuple(Gradient(f"g{i}", draw(st.integers(1, 12)), float(ready[i]), float(read[i])) for i in range(n))
    optimiser = 4 * sum(g.size for g in gradients) * draw(st.integers(0, 3))  # whole µs for each bucket, and for a shard of 4 ranks
    return StepTrace(gradients, float(forward), float(ready[-1] + draw(st.integers(0, 40))), float(optimiser), "modelled")


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
    check_plan(data.draw(traces(9)), data.draw(costs_of()), data.draw(limits_of("all_reduce")))


@given(st.data())
@settings(max_examples=15)
def test_buckets_that_come_too_late_are_left_out(data: st.DataObject) -> None:
    """Where many buckets are needed, those that are in no plan in time are not looked at: from the first one on, here."""
    with mock.patch("aoec.search.buckets.one_channel.FEW", 1), mock.patch("aoec.search.buckets.one_channel.CACHED", 4):
        check_plan(data.draw(traces(9, 5)), data.draw(costs_of()), data.draw(limits_of("all_reduce")))


@given(st.data())
@settings(max_examples=4)
def test_fourteen_gradients(data: st.DataObject) -> None:
    check_plan(data.draw(traces(14, 13)), data.draw(costs_of()), data.draw(limits_of("all_reduce")))


@given(st.data())
@settings(max_examples=20)
def test_contention_is_what_brute_force_finds(data: st.DataObject) -> None:
    check_plan(data.draw(traces(8)), data.draw(costs_of(CONTENTIONS[1:])), data.draw(limits_of("all_reduce")))


@pytest.mark.parametrize("scheme", ["split", "sharded"])
@given(st.data())
@settings(max_examples=20)
def test_two_passes_are_what_brute_force_finds(scheme: str, data: st.DataObject) -> None:
    check_plan(data.draw(traces(8)), data.draw(costs_of(CONTENTIONS)), data.draw(limits_of(scheme)))


@pytest.mark.parametrize("scheme", list(SCHEMES))
@given(st.data())
@settings(max_examples=15)
def test_channels_are_what_brute_force_finds(scheme: str, data: st.DataObject) -> None:
    check_plan(data.draw(traces(7)), data.draw(costs_of()), data.draw(limits_of(scheme, data.draw(st.integers(2, 3)))))


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "channels", "count", "contentions"), [
    ("all_reduce", 1, 14, (1.0,)), ("all_reduce", 1, 11, CONTENTIONS[1:]), ("split", 1, 10, CONTENTIONS), ("sharded", 1, 10, CONTENTIONS),
    ("all_reduce", 2, 9, (1.0,)), ("split", 2, 9, (1.0,)), ("sharded", 2, 9, (1.0,)), ("sharded", 3, 9, (1.0,))])
@given(st.data())
def test_brute_force_of_more_gradients(scheme: str, channels: int, count: int, contentions: tuple[float, ...], data: st.DataObject) -> None:
    check_plan(data.draw(traces(count, count - 1)), data.draw(costs_of(contentions)), data.draw(limits_of(scheme, channels)))


@given(st.data())
@settings(max_examples=20)
def test_the_fewest_buckets_of_a_step_that_is_allowed(data: st.DataObject) -> None:
    """By labels, of all steps up to a limit, which need not be the shortest."""
    trace, scheme = data.draw(traces(7, 4)), data.draw(st.sampled_from(list(SCHEMES)))
    costs = data.draw(costs_of((2.0,)))
    pairs = [PairCosts(trace, costs, collective) for collective in COLLECTIVES[scheme]]
    space = space_of(trace, costs, scheme, 1, pairs, 0.5)
    steps = {ends: slow_step(trace, ends, scheme, 1, costs) for ends in all_ends(len(trace.gradients))}
    for ends, us in steps.items():
        assert space.walk([e + 1 for e in ends]) == pytest.approx(us, rel=1e-12)
    until = min(steps.values()) + data.draw(st.integers(0, 60)) + 0.25
    found = best_cuts(space, Bounds(space), until, 1_000, len(trace.gradients), is_fewest=True)
    assert found.step_us <= until and len(found.cuts) == min(len(ends) for ends, us in steps.items() if us <= until)


@given(st.data())
@settings(max_examples=25)
def test_no_plan_of_others_is_faster(data: st.DataObject) -> None:
    trace, costs = data.draw(traces(40)), data.draw(costs_of())
    others = baselines(trace, costs)
    assert list(others) == ["aoe", "aoe_default", "ddp", "horovod", "mg_wfbp", "one", "alone"]
    best = plan(trace, costs, Limits())
    for name, other in others.items():
        other.plan.check(len(trace.gradients))
        assert other.timeline == timeline(trace, other.plan, costs)
        assert other.timeline.step_us >= best.timeline.step_us * (1 - 1e-9), name
        assert other.lower_bound_us <= best.lower_bound_us * (1 + 1e-9)
        assert not other.is_optimal or other.timeline.step_us == pytest.approx(best.timeline.step_us)
    eight = plan(trace, costs, Limits(8))
    assert len(eight.plan.ends) <= 8 and eight.timeline.step_us <= others["aoe"].timeline.step_us * (1 + 1e-9)


@given(st.data())
@settings(max_examples=10)
def test_contention_on_several_channels_keeps_its_bound(data: st.DataObject) -> None:
    """What is not proved is said: the bound is below every plan, and the gap is that to the bound."""
    trace, costs, scheme = data.draw(traces(7)), data.draw(costs_of(CONTENTIONS[1:])), data.draw(st.sampled_from(list(SCHEMES)))
    found = plan(trace, costs, Limits(scheme=scheme, channels=2))
    best = slow_best(trace, scheme, 2, costs)
    assert best is not None and found.lower_bound_us <= best[0] * (1 + 1e-9) <= found.timeline.step_us * (1 + 2e-9)
    assert not found.is_optimal or found.timeline.step_us == pytest.approx(best[0])
    assert found.is_optimal == (found.gap <= 1e-9) and (found.is_optimal or "% more" in found.proof)


def wide(count: int) -> tuple[StepTrace, TableCosts]:
    """A step whose plans on two channels have very many labels that none beats."""
    rng = np.random.default_rng(3)
    ready = np.sort(rng.random(count)) * 2_000
    gradients = tuple(Gradient(f"g{i}", int(s), float(r), float(1_000 - r / 2))
                      for i, (s, r) in enumerate(zip(rng.integers(1, 2_000, count), ready, strict=True)))
    cost = {name: (lambda size, start=start: start + size ** 0.9 / 20) for name, start in
            (("all_reduce", 40.0), ("reduce_scatter", 20.0), ("all_gather", 20.0))}
    return StepTrace(gradients, 1_000.0, 2_000.0, 0.0, "modelled"), TableCosts(cost)


@pytest.mark.parametrize("new", [2, 1_000])
def test_labels_that_are_dropped_stay_below_the_bound(new: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for three labels a cut, what is called a bound is below what much room finds, and the gap is told."""
    trace, costs = wide(30)
    exact = plan(trace, costs, Limits(scheme="split", channels=2))
    monkeypatch.setattr("aoec.search.buckets.label_search.MOST_LABELS", 3)
    monkeypatch.setattr("aoec.search.buckets.label_search.FEWEST_LABELS", 3)
    monkeypatch.setattr("aoec.search.buckets.label_search.FIRST_LABELS", ())
    monkeypatch.setattr("aoec.search.buckets.label_search.NEW_LABELS", new)
    narrow = plan(trace, costs, Limits(scheme="split", channels=2))
    assert exact.is_optimal and narrow.lower_bound_us <= exact.lower_bound_us <= narrow.timeline.step_us
    assert not narrow.is_optimal and f"this one takes {100 * narrow.gap:.3f} % more" in narrow.proof


def test_many_gradients_are_asked_for_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Costs that are not kept, asked for a few at a time, give the same plans."""
    trace, costs = wide(30)
    spaces = [Limits(), Limits(2), Limits(most_bytes=4_000), Limits(scheme="split"), Limits(channels=2)]
    kept = [plan(trace, costs, limits) for limits in spaces]
    monkeypatch.setattr("aoec.search.buckets.pair_costs.KEPT", 1)
    monkeypatch.setattr("aoec.search.buckets.pair_costs.BLOCK", 7 * 30)
    assert [plan(trace, costs, limits) for limits in spaces] == kept


ONE = StepTrace((Gradient("a", 8, 1.0), Gradient("b", 8, 2.0)), 1.0, 2.0, 0.0, "modelled")


def flat(value: float = 1.0, contention: float = 1.0) -> TableCosts:
    return TableCosts(dict.fromkeys(("all_reduce", "reduce_scatter", "all_gather"), lambda size: value), contention)


@pytest.mark.parametrize(("limits", "costs", "says"), [
    (Limits(0), flat(), "at most 0 segments: give one or more"),
    (Limits(most_bytes=0), flat(), "at most 0 bytes of a bucket"),
    (Limits(1, 8), flat(), "2 buckets of at most 8 bytes are needed, and the limit is 1; allow more buckets or larger ones"),
    (Limits(scheme="ring"), flat(), "there is no scheme 'ring'; there are all_reduce, split, sharded"),  # type: ignore[arg-type]
    (Limits(channels=0), flat(), "0 channels; give one or more"),
    (Limits(), flat(contention=0.5), "a contention of 0.5; give 1.0"),
    (Limits(), flat(-1.0), "all_reduce of 8 bytes costs -1 µs; a cost is a number of µs that is not negative"),
    (Limits(), flat(float("nan")), "all_reduce of 8 bytes costs nan µs"),
])
def test_what_is_no_plan_is_said(limits: Limits, costs: TableCosts, says: str) -> None:
    with pytest.raises(CheckError, match=says):
        plan(ONE, costs, limits)


def test_a_gradient_above_the_limit_goes_alone() -> None:
    gradients = tuple(Gradient(name, size, 2.0) for name, size in (("a", 4), ("b", 100), ("c", 4), ("d", 4)))
    assert plan(StepTrace(gradients, 1.0, 2.0, 0.0, "modelled"), flat(), Limits(most_bytes=8)).plan.ends == (0, 1, 3)


def test_the_proof_says_what_is_proved() -> None:
    assert plan(ONE, flat(), Limits(8)).proof == (
        "No plan of 2 gradients (all-reduce on 1 channel, at most 8 buckets) has a step below 4.000 us under these modelled costs, and "
        "none of an equal step has fewer than 1 buckets.")
