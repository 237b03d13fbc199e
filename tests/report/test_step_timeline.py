"""The drawing of a training step: spans are where their times are, words stand within the drawing and never on each other."""
from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.ir.training import BucketPlan, StepSpan, StepTimeline, StepTrace
from aoec.report.pictures import step_timeline
from aoec.report.pictures.step_timeline import LEFT, PLOT, WIDTH, Step, picture
from aoec.report.pictures.step_times import collectives, common, compute_spans, fold, hidden_share, length, merge, ready_times, waits
from aoec.report.pictures.step_trace import events
from tests.report.steps import even_plan, step, trace

SVG = "{http://www.w3.org/2000/svg}"
SIZES = st.lists(st.integers(1, 1 << 26), min_size=1, max_size=40)
HOSTILE = "</title><script>window.acted = 1</script>\u202e\x1b[2J"


def elements(text: str, name: str) -> list[ElementTree.Element]:
    return [e for e in ElementTree.fromstring(text).iter() if e.tag == SVG + name]


def boxes(text: str) -> list[tuple[float, float, float, str]]:
    """(row, left, right, words) of all words, as wide as their letters are at most."""
    out = []
    for e in elements(text, "text"):
        words, x, kind = "".join(e.itertext()), float(e.get("x") or 0), e.get("class") or ""
        wide = len(words) * (step_timeline.BOLD if kind in ("t", "dw") else step_timeline.LETTER)
        left = x - {"start": 0.0, "middle": wide / 2, "end": wide}[e.get("text-anchor") or "start"]
        out.append((float(e.get("y") or 0), left, left + wide, words))
    return out


def check_words(text: str) -> None:
    """Words are within the drawing, and none lie on others."""
    height = float(ElementTree.fromstring(text).get("height") or 0)
    rows: dict[float, list[tuple[float, float, str]]] = {}
    for y, left, right, words in boxes(text):
        assert left >= 0 and right <= WIDTH and 8 <= y <= height - 3, words
        rows.setdefault(y, []).append((left, right, words))
    for mine in rows.values():
        assert all(a[1] <= b[0] for a, b in pairwise(sorted(mine))), mine
    ordered = sorted(rows)
    assert all(b - a >= 10 for a, b in pairwise(ordered)), ordered


@settings(max_examples=60, deadline=None)
@given(SIZES, st.integers(1, 40), st.integers(1, 3), st.floats(1.0, 1e7), st.floats(0.0, 5000.0), st.floats(0.0, 2000.0))
def test_words_never_lie_on_each_other(sizes: list[int], buckets: int, channels: int, us: float, start: float, rate: float) -> None:
    t = trace(sizes, us, us / 3, us / 9)
    plan = even_plan(len(sizes), min(buckets, len(sizes)), channels)
    one = even_plan(len(sizes), 1)
    drawn = picture(t, [Step("before: one bucket", one, step(t, one, start, rate)), Step("after", plan, step(t, plan, start, rate))])
    check_words(drawn)
    assert len(elements(drawn, "rect")) < 6 * WIDTH


@pytest.mark.parametrize("buckets, channels", [(1, 1), (3, 1), (54, 1), (161, 1), (161, 4)])
def test_a_span_is_where_its_time_is(buckets: int, channels: int) -> None:
    t = trace([4 * (1 + 7919 * i % 600_000) for i in range(161)])
    plan = even_plan(161, buckets, channels)
    timeline = step(t, plan)
    text = picture(t, [Step("a plan", plan, timeline)])
    check_words(text)
    scale = PLOT / timeline.step_us
    for kind in ("forward", "backward", "optimiser", "all_reduce"):
        expected = merge(s for s in timeline.spans if s.kind == kind)
        drawn = [(float(e.get("x") or 0), float(e.get("x") or 0) + float(e.get("width") or 0)) for e in elements(text, "rect")
                 if (e.get("class") or "").split()[0] == kind and e.get("height") == str(step_timeline.LANE)]
        got = merge(StepSpan("", kind, "", a, b) for a, b in drawn)
        assert abs(length(got) - length(expected) * scale) < 1.5 * (len(expected) + 1), kind  # pixels
        assert min(a for a, _ in got) == pytest.approx(LEFT + expected[0][0] * scale, abs=0.6)
        assert max(b for _, b in got) == pytest.approx(LEFT + expected[-1][1] * scale, abs=0.6)
    (waited,) = [e for e in elements(text, "rect") if e.get("class") == "w" and e.get("height") == str(step_timeline.LANE)]
    assert float(waited.get("width") or 0) == pytest.approx(timeline.exposed_us * scale, abs=0.6)
    marks = [e for e in elements(text, "line") if e.get("class") == "k"]
    assert 155 <= len(marks) <= 162  # some share a pixel; one is in the key


def test_the_difference_of_steps_is_said_and_as_long_as_it_is() -> None:
    t = trace([4_000_000] * 10)
    slow, fast = even_plan(10, 1), even_plan(10, 5)
    steps = [Step("before", slow, step(t, slow)), Step("after", fast, step(t, fast))]
    text = picture(t, steps)
    a, b = (s.timeline.step_us for s in steps)
    (said,) = [e for e in elements(text, "text") if e.get("class") == "dw"]
    assert said.text == f"step -{(a - b) / 1000:.4f} ms ({(b - a) / a:+.1%})"
    (bracket,) = [e.get("d") or "" for e in elements(text, "path") if e.get("class") == "d"]
    ends = [float(x) for x in re.findall(r"M([\d.]+),", bracket)]
    assert ends[-1] - ends[0] == pytest.approx((a - b) * PLOT / a, abs=0.2)
    assert "both steps take the same time" in picture(t, [steps[0], steps[0]]) and "dw" not in {
        e.get("class") for e in elements(picture(t, steps[:1]), "text")}
    assert "step +" in picture(t, steps[::-1])


def test_names_act_as_names_and_a_part_of_a_page_has_no_colours() -> None:
    t = trace([1000, 2000])
    t = replace(t, gradients=tuple(replace(g, name=HOSTILE) for g in t.gradients))
    plan = BucketPlan((0, 1))
    hostile = Step(HOSTILE, plan, step(t, plan))
    for alone in (True, False):
        text = picture(t, [hostile], alone)
        assert "<script" not in text and "\u202e" not in text and bool(elements(text, "style")) == alone
        check_words(text)


def test_a_million_gradients_are_a_small_drawing() -> None:
    t = trace([4096] * 200_000)
    plan = even_plan(200_000, 100_000)
    assert len(picture(t, [Step("many", plan, step(t, plan, 0.0, 0.1))])) < 400_000


# ---------------------------------------------------------------- times

def test_split_schemes_are_drawn_with_their_waits() -> None:
    """Two collectives a bucket; compute waits in the forward pass too."""
    t = trace([1_000_000, 2_000_000], 200.0, 100.0, 10.0)
    spans = (StepSpan("channel 0", "all_gather", "bucket 1", 0.0, 30.0), StepSpan("channel 0", "all_gather", "bucket 0", 30.0, 80.0),
             StepSpan("compute", "forward", "forward", 30.0, 50.0), StepSpan("compute", "forward", "forward", 80.0, 160.0),
             StepSpan("compute", "backward", "backward", 160.0, 360.0), StepSpan("channel 0", "reduce_scatter", "bucket 0", 260.0, 300.0),
             StepSpan("channel 0", "reduce_scatter", "bucket 1", 360.0, 420.0), StepSpan("compute", "optimiser", "optimiser", 420.0, 430.0))
    timeline = StepTimeline(spans, 430.0, 310.0)
    assert waits(timeline) == [(0.0, 30.0), (50.0, 80.0), (360.0, 420.0)] and length(waits(timeline)) == timeline.exposed_us
    assert hidden_share(timeline) == pytest.approx((20 + 40) / (80 + 40 + 60)) and fold(timeline) == timeline
    assert ready_times(t, timeline) == [260.0, 360.0]
    text = picture(t, [Step("split", BucketPlan((0, 1), "split"), timeline)])
    check_words(text)
    assert {"all-gather", "reduce-scatter"} <= {e.text for e in elements(text, "text")}
    assert len([e for e in elements(text, "path") if e.get("class") == "c"]) == 2


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500)), max_size=12))
def test_what_runs_into_the_next_step_is_at_the_begin(spans: list[tuple[int, int]]) -> None:
    """Each time of a step, taken modulo the step, is in as many spans as before."""
    before = StepTimeline(tuple(StepSpan("channel 0", "all_reduce", f"bucket {i}", a, a + n) for i, (a, n) in enumerate(spans)), 200.0, 1.0)
    after = fold(before)
    assert all(0 <= s.begin_us <= s.end_us <= 200 for s in after.spans)
    counted = [sorted((s.name, t % 200) for s in x.spans for t in range(int(s.begin_us), int(s.end_us))) for x in (before, after)]
    assert counted[0] == counted[1]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(1.0, 100.0), min_size=1, max_size=8), st.floats(1.0, 2.0), st.lists(st.floats(0.0, 1.0), min_size=2, max_size=8))
def test_gradients_are_late_by_what_sending_takes_from_compute(works: list[float], factor: float, cuts: list[float]) -> None:
    """Against stepping through the backward pass, which takes `factor` times as long while something is sent."""
    total = sum(works)
    borders = sorted({0.0, *(c * total * factor for c in cuts)})
    sent = [(a, b) for i, (a, b) in enumerate(pairwise(borders)) if i % 2 == 0 and b - a > 1e-3]
    edges, ends, now, left = [t for stretch in sent for t in stretch], [], 0.0, 0.0
    for work in works:
        left = work
        while left > 1e-12:
            slow = any(a <= now < b for a, b in sent)
            until = min([t for t in edges if t > now], default=float("inf"))
            take = min(left * (factor if slow else 1.0), until - now)
            left -= take / (factor if slow else 1.0)
            now += take
        ends.append(now)
    t = trace([1] * len(works), total, 0.0, 0.0)
    done = [sum(works[:i + 1]) for i in range(len(works))]
    t = replace(t, gradients=tuple(replace(g, ready_us=d) for g, d in zip(t.gradients, done)))
    spans = [StepSpan("compute", "backward", "backward", 0.0, now),
             *(StepSpan("channel 0", "all_reduce", "", a, b) for a, b in sent if a < now)]
    assert ready_times(t, StepTimeline(tuple(spans), now, total)) == pytest.approx(ends, rel=1e-6, abs=1e-6)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9))), st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9))))
def test_stretches_are_sets_of_times(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    sides = [merge(StepSpan("", "", "", a, a + n) for a, n in side) for side in (one, other)]
    units = [{t for a, n in side for t in range(a, a + n)} for side in (one, other)]
    assert [{t for a, b in side for t in range(int(a), int(b))} for side in sides] == units
    assert length(sides[0]) == len(units[0]) and length(common(*sides)) == len(units[0] & units[1])


# ---------------------------------------------------------------- the trace

@pytest.mark.parametrize("buckets, channels", [(1, 1), (161, 2)])
def test_the_trace_has_all_spans_and_no_two_on_one_thread_meet(buckets: int, channels: int) -> None:
    t: StepTrace = trace([1000 + i for i in range(161)])
    plan = even_plan(161, buckets, channels)
    timeline = step(t, plan)
    said = json.loads(events(t, [Step("before", plan, timeline), Step("after", plan, timeline)], {"system": "a"}))
    assert said["otherData"] == {"times": "modelled", "system": "a"}
    listed = said["traceEvents"]
    for pid in (0, 1):
        mine = [e for e in listed if e["pid"] == pid and e["ph"] == "X"]
        sent = [e for e in mine if e["cat"] == "all_reduce"]
        assert len(sent) == buckets == len(collectives(timeline)) and sum(e["args"]["bytes"] for e in sent) == t.size
        assert [e["cat"] for e in sorted(mine, key=lambda e: e["ts"]) if e["tid"] == 0] == ["forward", "backward", "wait", "optimiser"]
        for tid in {e["tid"] for e in mine}:
            row = sorted((e["ts"], e["ts"] + e["dur"]) for e in mine if e["tid"] == tid)
            assert all(a[1] <= b[0] + 1e-9 for a, b in pairwise(row))
        ready = [e["ts"] for e in listed if e["pid"] == pid and e["ph"] == "i"]
        assert ready == pytest.approx([t.forward_us + g.ready_us for g in t.gradients], abs=1e-3)
    assert len(compute_spans(timeline)) == 3
