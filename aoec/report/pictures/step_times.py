"""What the timeline of a training step says beyond its spans: when compute waits, how much communication is hidden, when gradients are
ready. All times in µs."""
from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from math import floor

from aoec.ir.training import StepSpan, StepTimeline, StepTrace

COMPUTE = "compute"
Stretch = tuple[float, float]  # begin and end


def compute_spans(timeline: StepTimeline) -> list[StepSpan]:
    """Return the spans of the compute lane, in order of time."""
    return sorted((s for s in timeline.spans if s.lane == COMPUTE), key=lambda s: (s.begin_us, s.end_us))


def collectives(timeline: StepTimeline) -> list[StepSpan]:
    """Return the spans of all channels, in order of time."""
    return sorted((s for s in timeline.spans if s.lane != COMPUTE), key=lambda s: (s.begin_us, s.end_us))


def channels(timeline: StepTimeline) -> list[str]:
    """Return the lanes of communication, channel 2 before channel 10."""
    return sorted({s.lane for s in collectives(timeline)}, key=lambda lane: (len(lane), lane))


def merge(spans: Iterable[StepSpan]) -> list[Stretch]:
    """Return where at least one of the spans is, as stretches that do not touch."""
    out: list[Stretch] = []
    for begin, end in sorted((s.begin_us, s.end_us) for s in spans):
        if out and begin <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((begin, end))
    return out


def common(one: Sequence[Stretch], other: Sequence[Stretch]) -> list[Stretch]:
    """Return where both are, each given as stretches in order that do not touch."""
    out, j = [], 0
    for begin, end in one:
        while j < len(other) and other[j][1] <= begin:
            j += 1
        k = j
        while k < len(other) and other[k][0] < end:
            out.append((max(begin, other[k][0]), min(end, other[k][1])))
            k += 1
    return out


def length(stretches: Iterable[Stretch]) -> float:
    return sum(end - begin for begin, end in stretches)


def waits(timeline: StepTimeline) -> list[Stretch]:
    """Return when compute does nothing between the step's begin and its end."""
    busy = [(0.0, 0.0), *merge(compute_spans(timeline)), (timeline.step_us, timeline.step_us)]
    return [(a, b) for (_, a), (b, _) in pairwise(busy) if b - a > 1e-9 * max(timeline.step_us, 1.0)]


def hidden_share(timeline: StepTimeline) -> float | None:
    """Return the part of the time of all collectives that the step does not take longer for, 0 to 1; None of a step without
    communication."""
    whole = sum(s.end_us - s.begin_us for s in collectives(timeline))
    return min(1.0, max(0.0, 1 - timeline.exposed_us / whole)) if whole > 0 else None


def fold(timeline: StepTimeline) -> StepTimeline:
    """Return the same steady state with what runs into the next step at the step's begin, where that of the step before is."""
    out: list[StepSpan] = []
    for s in timeline.spans:
        turns = floor(s.begin_us / timeline.step_us) if timeline.step_us > 0 else 0
        begin, end = s.begin_us - turns * timeline.step_us, s.end_us - turns * timeline.step_us
        while timeline.step_us > 0 and end > timeline.step_us * (1 + 1e-12):
            out.append(replace(s, begin_us=begin, end_us=timeline.step_us))
            begin, end = 0.0, end - timeline.step_us
        out.append(replace(s, begin_us=begin, end_us=end))
    return replace(timeline, spans=tuple(out))


def ready_times(trace: StepTrace, timeline: StepTimeline) -> list[float]:
    """Return when each gradient is ready on this timeline. Where the backward pass is longer here than alone, it is slower while something
    is sent, by one factor throughout."""
    passes = merge(s for s in compute_spans(timeline) if s.kind == "backward")
    pieces = list(_pieces(passes, merge(collectives(timeline))))
    plain, shared = (sum(b - a for a, b, slow in pieces if slow is which) for which in (False, True))
    rate = min(1.0, max(trace.backward_us - plain, 0.0) / shared) if shared > 0 else 1.0
    done, ends = [0.0], [pieces[0][0] if pieces else 0.0]
    for begin, end, slow in pieces:
        done.append(done[-1] + (end - begin) * (rate if slow else 1.0))
        ends.append(end)
    return [_place(g.ready_us, done, ends, pieces) for g in trace.gradients]


def _pieces(passes: Sequence[Stretch], sent: Sequence[Stretch]) -> Iterator[tuple[float, float, bool]]:
    """Yield (begin, end, whether something is sent meanwhile) of the parts of the passes, in order."""
    cuts = sorted({t for stretch in sent for t in stretch})
    for begin, end in passes:
        inside = [t for t in cuts[bisect_right(cuts, begin):] if t < end]
        for a, b in pairwise((begin, *inside, end)):
            middle = (a + b) / 2
            at = bisect_right(sent, (middle, float("inf"))) - 1
            yield a, b, at >= 0 and sent[at][1] > middle


def _place(ready: float, done: Sequence[float], ends: Sequence[float], pieces: Sequence[tuple[float, float, bool]]) -> float:
    """Return the time at which so much of the backward pass is done."""
    i = bisect_right(done, ready) - 1
    if i >= len(pieces):
        return ends[-1]
    begin, end, _ = pieces[i]
    work = done[i + 1] - done[i]
    return begin + (end - begin) * ((ready - done[i]) / work if work > 0 else 0.0)
