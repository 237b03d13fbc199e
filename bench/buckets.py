"""Plans of gradient fusion: what they take to find, and what steps take by them and by the plans of others.

    python bench/buckets.py [--counts 161 1000 10000] [--systems 910b-8 a3-16 ib56-16 10gbe-16] [--backward 1.0] [--schemes all_reduce ...]
                            [--contention 1.0] [--channels 1] [--json]

161 gradients are those of ResNet-50, ready by their shares of FLOPs over 9,570 us times --backward. The forward pass takes half of that,
the optimiser a twentieth. Other counts are random gradients, drawn from one seed. All steps are modelled. CPU seconds are of one core. The
ratio holds them to one look at the cost of each bucket that there is. So it may be compared between computers.
"""
from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from aoec.collectives.system import load
from aoec.ir.training import SCHEMES, Gradient, StepTrace
from aoec.search.buckets import Costs, Limits, baselines, plan
from aoec.search.buckets.pair_costs import COLLECTIVES, PairCosts
from tests.oracle.resnet50_gradients import resnet50

RESNET50, BACKWARD_US, FORWARD, OPTIMISER = 161, 9_570.0, 0.5, 0.05
SYSTEMS = ("910b-8", "a3-16", "ib56-16", "10gbe-16")
LIMITS = {"any": Limits(), "8 buckets": Limits(8), "25 MiB": Limits(most_bytes=25 * 2**20)}


class Counted:
    """Costs of a system, with how many were asked for and a contention of its own."""

    def __init__(self, system: Costs, contention: float) -> None:
        self.system, self.ranks, self.contention, self.asked = system, system.ranks, contention, 0

    def us(self, collective: str, sizes: np.ndarray) -> np.ndarray:
        """Return the system's costs."""
        self.asked += len(sizes)
        return self.system.us(collective, sizes)


def step_of(count: int, scale: float) -> StepTrace:
    """Return a step of ResNet-50's gradients, or of random ones: sizes even in their logarithm from 40 B to 4 MB, ready at random."""
    if count == RESNET50:
        sizes, ready = resnet50()
    else:
        random = np.random.default_rng(count)
        sizes, ready = (4 * 10 ** random.uniform(1, 6, count)).astype(int).tolist(), np.sort(random.random(count)).tolist()
        scale *= count / RESNET50
    backward = BACKWARD_US * scale
    forward = backward * FORWARD
    gradients = tuple(Gradient(f"g{i}", s, r * backward, (1 - r) * forward) for i, (s, r) in enumerate(zip(sizes, ready, strict=True)))
    return StepTrace(gradients, forward, backward, backward * OPTIMISER, "modelled")


def cpu_seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU seconds of some work, and what it gives."""
    began = time.process_time()
    found = work()
    return time.process_time() - began, found


def look_at_all(trace: StepTrace, costs: Costs, scheme: str) -> None:
    """Ask for the cost of each bucket once."""
    for collective in COLLECTIVES[scheme]:  # type: ignore[index]
        for _ in PairCosts(trace, costs, collective).by_end():
            pass


def search_rows(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return rows with the time that it takes to find plans."""
    rows = []
    for count in args.counts:
        trace = step_of(count, args.backward)
        for name in args.systems:
            for scheme in args.schemes:
                costs = Counted(load(name), args.contention or load(name).contention)
                once, _ = cpu_seconds(lambda t=trace, c=costs, s=scheme: look_at_all(t, c, s))
                for limit, limits in LIMITS.items():
                    costs.asked = 0
                    wanted = Limits(limits.most_segments, limits.most_bytes, scheme, args.channels)
                    seconds, found = cpu_seconds(lambda t=trace, c=costs, w=wanted: plan(t, c, w))
                    rows.append({"gradients": count, "system": name, "scheme": scheme, "limits": limit, "cpu_s": seconds,
                                 "ratio": seconds / max(once, 1e-9), "costs_asked": costs.asked, "buckets": len(found.plan.ends),
                                 "step_us": found.timeline.step_us, "is_optimal": found.is_optimal, "gap": found.gap})
                    if not args.json:
                        r = rows[-1]
                        proved = "proved" if found.is_optimal else f"gap {100 * found.gap:.3f} %"
                        print(f"{count:>7,} {name:9} {scheme:10} {limit:9} {r['cpu_s']:8.3f} CPU s  ratio {r['ratio']:6.2f}  "
                              f"costs {costs.asked:>11,}  {r['buckets']:>4} buckets  step {r['step_us']:,.1f} us  {proved}", flush=True)
    return rows


def baseline_rows(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return what steps of ResNet-50 take by all-reduces on one channel, by each plan."""
    trace, rows = step_of(RESNET50, args.backward), []
    for name in args.systems:
        costs = Counted(load(name), args.contention or load(name).contention)
        best = plan(trace, costs, Limits())
        rows.append({"system": name, "plan": "plan", "step_us": best.timeline.step_us, "more": 0.0, "buckets": len(best.plan.ends)})
        for rule, found in baselines(trace, costs).items():
            more = found.timeline.step_us / best.timeline.step_us - 1
            rows.append({"system": name, "plan": rule, "step_us": found.timeline.step_us, "more": more, "buckets": len(found.plan.ends)})
    return rows


def print_baselines(rows: list[dict[str, Any]], systems: list[str]) -> None:
    """Print a row a plan: the step on each system, and by how much it is longer than that of the plan."""
    print(f"\nSteps of ResNet-50, us, modelled (and how much longer than by our plan)\n| plan | {' | '.join(systems)} |\n"
          f"|---|{'---|' * len(systems)}")
    for rule in dict.fromkeys(r["plan"] for r in rows):
        cells = [f"{r['step_us']:,.0f} (+{100 * r['more']:.1f} %, {r['buckets']} buckets)" for r in rows if r["plan"] == rule]
        print(f"| {rule} | {' | '.join(cells)} |")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", type=int, nargs="+", default=[RESNET50, 1_000, 10_000])
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS))
    parser.add_argument("--schemes", nargs="+", choices=list(SCHEMES), default=["all_reduce"])
    parser.add_argument("--backward", type=float, default=1.0, help="how many times as long ResNet-50's backward pass takes")
    parser.add_argument("--contention", type=float, help="compute takes so many times as long under a collective; without it, the system's")
    parser.add_argument("--channels", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    searched, compared = search_rows(args), baseline_rows(args)
    if args.json:
        print(json.dumps({"search": searched, "plans": compared}))
    else:
        print_baselines(compared, args.systems)


if __name__ == "__main__":
    main()
