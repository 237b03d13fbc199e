"""Small drawings of gradient tuning for a page: what more buckets bring, and the bytes that are ready by a time, with the plan's cuts."""
from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import ceil

from aoec.ir.training import BucketPlan, StepTrace
from aoec.report.pictures.chart import Scale, path
from aoec.report.pictures.panel import text
from aoec.report.pictures.plots import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Axes, draw_dot, plot

NEAR = 2.0  # times the spread of the line: so far below it, what is without communication is drawn
MOST_POINTS, MOST_CUTS = 400, 64  # of a line; cuts that have a line of their own


def limit_chart(limits: Sequence[tuple[int, float]], compute_us: float, others: Sequence[tuple[str, int, float]]) -> str:
    """Draw step time over the number of buckets, of the best plan of at most so many. `others`: (name, buckets, µs) of other plans, as dots
    where they have no more buckets than the line. The dashed line is the step without communication."""
    most = max(count for count, _ in limits)
    near = [(name, count, us) for name, count, us in others if count <= most]
    times = [us / 1000 for us in (*(us for _, us in limits), *(us for _, _, us in near))]
    high, span = max(times), max(max(times) - min(times), 0.02 * max(times), 1e-6)
    seen = min(times) - compute_us / 1000 < NEAR * span
    low = min(*times, compute_us / 1000) if seen else min(times)
    room = max(high - low, span)
    axes = Axes(Scale(0.5, most + 0.5, LEFT, WIDTH - RIGHT, False), Scale(low - 0.1 * room, high + 0.1 * room, HEIGHT - BOTTOM, TOP, False),
                "buckets at most", "step, ms")
    y = axes.up.at(compute_us / 1000) if seen else HEIGHT - BOTTOM
    words = "without communication" if seen else f"without communication {compute_us / 1000:,.3f} ms: below"
    line = path([(axes.across.at(count), axes.up.at(us / 1000)) for count, us in limits])
    parts = [f'<line class="bound" x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>' if seen else "",
             text(LEFT + 4, y - 4, words, "n"), f'<path class="curve" d="{line}"/>']
    parts += [draw_dot(axes.across.at(count), axes.up.at(us / 1000), "default", 3.5, f"{name}, {count} buckets: {us / 1000:,.4f} ms")
              for name, count, us in near]
    parts += [draw_dot(axes.across.at(count), axes.up.at(us / 1000), "tuned", 3, f"at most {count} buckets: {us / 1000:,.4f} ms")
              for count, us in limits]
    return plot(axes, parts, f"step time of the best plan of at most 1 to {most} buckets: {limits[0][1] / 1000:,.4f} to "
                             f"{limits[-1][1] / 1000:,.4f} ms")


def byte_chart(trace: StepTrace, plan: BucketPlan) -> str:
    """Draw the MB that are ready by a time of the backward pass, as steps, with a dot where a bucket is cut."""
    sums = list(accumulate(g.size for g in trace.gradients))
    across = Scale(0.0, max(trace.backward_us / 1000, 1e-6), LEFT, WIDTH - RIGHT, False)
    axes = Axes(across, Scale(0.0, sums[-1] * 1.05 / 1e6, HEIGHT - BOTTOM, TOP, False), "ms of the backward pass", "MB ready")
    every = ceil(len(sums) / MOST_POINTS)
    shown = sorted({*range(0, len(sums), every), len(sums) - 1})
    corners = [(axes.across.at(0.0), axes.up.at(0.0))]
    for i in shown:
        x = axes.across.at(trace.gradients[i].ready_us / 1000)
        corners += [(x, corners[-1][1]), (x, axes.up.at(sums[i] / 1e6))]
    parts = [f'<path class="curve" d="{path(corners)}"/>']
    for number, end in list(enumerate(plan.ends))[::ceil(len(plan.ends) / MOST_CUTS)]:
        x, y = axes.across.at(trace.gradients[end].ready_us / 1000), axes.up.at(sums[end] / 1e6)
        if len(plan.ends) <= MOST_CUTS:
            parts.append(f'<line class="grid" x1="{x:.1f}" y1="{y:.1f}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}"/>')
        words = f"bucket {number} ends: {sums[end] / 1e6:,.2f} MB are ready at {trace.gradients[end].ready_us / 1000:,.4f} ms"
        parts.append(draw_dot(x, y, "tuned", 3, words))
    return plot(axes, parts, f"{sums[-1] / 1e6:,.2f} MB of {len(sums):,} gradients over {trace.backward_us / 1000:,.4f} ms; "
                             f"cut after {len(plan.ends):,} buckets")
