"""Plans of gradient buckets on real processes: PyTorch's DDP over gloo on this machine, measured, beside what the model of a step says.

    python bench/ddp.py [--ranks 2] [--scale 16] [--backward-ms 100] [--mbit 400] [--rounds 21] [--hook] [--json] [--torch PYTHON]

The gradients are ResNet-50's 161, with 1 / scale of its elements. Compute is a timed wait in front of each gradient, in proportion to the
layer's operations (ranks/worker.py: it sleeps). The links between ranks are limited by tbf in network namespaces where the system allows
it, else they are the loopback's. First the time of an all-reduce is measured by size on these links; that table is the system. The ready
times are measured in steps without communication. Then each plan is timed in interleaved steps. A step's time is that of the slowest rank.

Three things are judged. Of two plans whose modelled steps are more than 5 % apart, the measured medians have the same order. The searched
plan is the fastest, or within 3 % of it. DDP makes the buckets of each plan. The exit code is 1 where that fails, and 3 where torch is not
installed. None of this runs on an NPU. It checks the model of a step, and the plans, on the network of this machine.
"""
from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import accumulate, combinations
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from aoec.base.errors import AoecError
from aoec.collectives.costs import Statement, System
from aoec.collectives.curve import through
from aoec.ir.training import BucketPlan, Gradient, StepTrace
from aoec.report.bucket_caps import bucket_caps
from aoec.report.ddp_hook import hook_text
from aoec.search.buckets import Limits, plan, timeline
from aoec.search.buckets.baselines import aoe_ends, ddp_ends, horovod_ends
from bench.ranks.network import Network, make_network

WORKER = Path(__file__).parent / "ranks/worker.py"
OURS = "aoec"
APART, NEAR = 0.05, 0.03
LIMIT_S = 600


@dataclass
class Row:
    """A plan: how many buckets, its modelled step, and the measured ones, all in µs."""

    name: str
    buckets: int
    modelled_us: float
    measured_us: list[float] = field(default_factory=list)
    buckets_agree: bool = False

    @property
    def median_us(self) -> float:
        return median(self.measured_us)

    @property
    def spread(self) -> float:
        """Return half the range between the quartiles, as a share of the median."""
        low, high = np.quantile(self.measured_us, (0.25, 0.75))
        return float(high - low) / 2 / self.median_us


def resnet50_gradients() -> list[tuple[int, float]]:
    """Return (elements, operations) of ResNet-50's parameters in the order of the backward pass: 161, 25,557,032 elements."""
    made: list[tuple[int, float]] = []

    def conv(inputs: int, outputs: int, kernel: int, side: int) -> None:
        made.append((inputs * outputs * kernel**2, 2.0 * inputs * outputs * kernel**2 * side**2))
        made.extend(((outputs, 4.0 * outputs * side**2), (outputs, 2.0 * outputs * side**2)))  # batch norm

    conv(3, 64, 7, 112)
    inputs, side = 64, 56
    for stage, (count, width) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512))):
        for block in range(count):
            before, side = side, side // 2 if stage and not block else side
            conv(inputs, width, 1, before)
            conv(width, width, 3, side)
            conv(width, 4 * width, 1, side)
            if not block:
                conv(inputs, 4 * width, 1, side)
            inputs = 4 * width
    made.extend(((2048 * 1000, 2.0 * 2048 * 1000), (1000, 1000.0)))
    return made[::-1]


def run_workers(job: dict[str, Any], network: Network, python: str, folder: Path) -> list[dict[str, Any]]:
    """Start a process a rank, and return what each found. Raise AoecError where one fails or time runs out."""
    path = folder / f"{job['what']}.json"
    path.write_text(json.dumps(job), "utf-8")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    started = [subprocess.Popen([*network.prefixes[r], python, str(WORKER), str(path), str(r)], env=environment, text=True,
                                stdout=subprocess.DEVNULL, stderr=(folder / f"{job['what']}.{r}.err").open("w"))
               for r in range(job["ranks"])]
    try:
        for r, p in enumerate(started):
            if p.wait(timeout=LIMIT_S):
                said = (folder / f"{job['what']}.{r}.err").read_text("utf-8").strip().splitlines()
                words = [line for line in said if not line.startswith("[W")]  # warnings of torch
                raise AoecError(f"rank {r} failed with exit code {p.returncode}{': ' * bool(words)}{words[-1] if words else ''}")
    except subprocess.TimeoutExpired:
        raise AoecError(f"the ranks did not end within {LIMIT_S} s") from None
    finally:
        for p in started:
            if p.poll() is None:
                p.kill()
            p.wait()
    return [json.loads(Path(f"{path}.{r}").read_text("utf-8")) for r in range(job["ranks"])]


def measured_system(found: Sequence[dict[str, Any]], sizes: Sequence[int], how: str) -> System:
    """Return the system that the all-reduces measured: at each size the median over the repetitions of the slowest rank."""
    points = []
    for i, size in enumerate(sizes):
        slowest = np.max([f["costs_us"][i] for f in found], axis=0)
        points.append((float(size), float(np.median(slowest))))
    said = Statement("all_reduce", f"{len(points)} sizes of {sizes[0]:,} to {sizes[-1]:,} bytes", how, "measured")
    return System("here", f"gloo over {how}", len(found), {"all_reduce": through(points)}, (said,))


def measured_trace(found: Sequence[dict[str, Any]], sizes: Sequence[int]) -> StepTrace:
    """Return the step as it is without communication: medians over the repetitions and ranks."""
    steps = [s for f in found for s in f["compute"]]
    ready = list(accumulate(np.median([s["ready_us"] for s in steps], axis=0), max))
    backward = max(ready[-1], float(np.median([s["backward_us"] for s in steps])))
    gradients = tuple(Gradient(f"g{i}", size, float(us)) for i, (size, us) in enumerate(zip(sizes, ready)))
    return StepTrace(gradients, float(np.median([s["forward_us"] for s in steps])), backward, 0.0, "measured")


def make_plans(trace: StepTrace, system: System, scale: int) -> dict[str, BucketPlan]:
    """Return the searched plan and five others. Sizes of rules are scaled as the gradients are."""
    n, mib = len(trace.gradients), 1 << 20
    others = {"one bucket": (n - 1,), "each alone": tuple(range(n)), "ddp 1+25 MB": ddp_ends(trace, mib // scale, 25 * mib // scale),
              "horovod 64 MB": horovod_ends(trace, 64 * mib // scale), "aoe greedy": aoe_ends(trace, system)}
    return {OURS: plan(trace, system, Limits()).plan} | {name: BucketPlan(tuple(map(int, ends))) for name, ends in others.items()}


def judge(rows: Sequence[Row]) -> list[str]:
    """Return a sentence for each check that fails."""
    wrong = [f"{r.name}: DDP's buckets are not those of the plan" for r in rows if not r.buckets_agree]
    for a, b in combinations(sorted(rows, key=lambda r: r.modelled_us), 2):
        if b.modelled_us > a.modelled_us * (1 + APART) and b.median_us < a.median_us:
            wrong.append(f"{a.name} is modelled {b.modelled_us / a.modelled_us - 1:.0%} faster than {b.name} and measured "
                         f"{a.median_us / b.median_us - 1:.1%} slower")
    ours, fastest = next(r for r in rows if r.name == OURS), min(rows, key=lambda r: r.median_us)
    if ours.median_us > fastest.median_us * (1 + NEAR):
        wrong.append(f"the searched plan is {ours.median_us / fastest.median_us - 1:.1%} slower than {fastest.name}")
    return wrong


def run(args: argparse.Namespace, folder: Path) -> tuple[list[Row], dict[str, Any]]:
    """Measure the links and the compute, plan, and time the plans."""
    layers = resnet50_gradients()
    counts = [max(1, n // args.scale) for n, _ in layers]
    times = np.cumsum([max(f, 1.0) for _, f in layers])
    sizes = [n * 4 for n in counts]
    measured = sorted({4 * max(1, int(b) // 4) for b in np.geomspace(256, sum(sizes), args.sizes)} | {sum(sizes)})
    common = {"ranks": args.ranks, "counts": counts, "ready_s": [float(t / times[-1] * args.backward_ms / 1e3) for t in times],
              "use_hook": args.hook}
    with make_network(args.ranks, args.mbit) as network:
        with socket.socket() as s:  # of loopback; in a namespace any port is free
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        common |= {"host": network.host, "interface": network.interface, "port": port}
        found = run_workers(common | {"what": "costs", "sizes": measured, "repetitions": args.repetitions,
                                      "compute_repetitions": args.repetitions}, network, args.torch, folder)
        system, trace = measured_system(found, measured, network.how), measured_trace(found, sizes)
        plans = make_plans(trace, system, args.scale)
        told = {}
        for name, p in plans.items():
            hook = folder / f"{name.replace(' ', '_')}.py"
            hook.write_text(hook_text(p, trace), "utf-8")
            told[name] = {"caps": bucket_caps(p, trace), "hook": str(hook)}
        steps = run_workers(common | {"what": "steps", "plans": told, "rounds": args.rounds}, network, args.torch, folder)
    rows = []
    for name, p in plans.items():
        row = Row(name, len(p.ends), timeline(trace, p, system).step_us)
        row.measured_us = [float(us) for us in np.max([s["steps"][name]["us"] for s in steps], axis=0)]
        expected = [sum(sizes[n] for n in listed) for listed in p.ranges()]
        counted = [len(listed) for listed in p.ranges()]
        told_by = [s["steps"][name] for s in steps]
        row.buckets_agree = all(s["bucket_bytes"] == expected and s["assigned"] == counted for s in told_by)
        rows.append(row)
    facts = {"ranks": args.ranks, "network": network.how, "torch": found[0]["torch"], "gradients": len(sizes), "bytes": sum(sizes),
             "forward_us": trace.forward_us, "backward_us": trace.backward_us, "rounds": args.rounds,
             "all_reduce_us": {str(s): float(system.us("all_reduce", s)) for s in measured}}
    return rows, facts


def text(rows: Sequence[Row], facts: dict[str, Any], wrong: Sequence[str], is_judged: bool) -> str:
    """Return the table, plans by their measured time."""
    costs = facts["all_reduce_us"]
    few = list(costs)[::max(1, len(costs) // 5)]
    lines = [f"{facts['ranks']} ranks, torch {facts['torch']} with gloo over {facts['network']}",
             f"{facts['gradients']} gradients, {facts['bytes']:,} bytes; without communication, measured: forward "
             f"{facts['forward_us'] / 1e3:.1f} ms, backward {facts['backward_us'] / 1e3:.1f} ms",
             "all-reduce, measured: " + ", ".join(f"{int(s):,} B {costs[s] / 1e3:.2f} ms" for s in few), "",
             f"{'plan':14} {'buckets':>7} {'modelled ms':>12} {'measured ms':>12} {'spread':>7} {'modelled/measured':>18}  DDP's buckets"]
    lines += [f"{r.name:14} {r.buckets:7} {r.modelled_us / 1e3:12.1f} {r.median_us / 1e3:12.1f} {r.spread:7.1%} "
              f"{r.modelled_us / r.median_us:18.3f}  {'as planned' if r.buckets_agree else 'other ones'}"
              for r in sorted(rows, key=lambda r: r.median_us)]
    lines += ["", f"medians of {facts['rounds']} interleaved steps; spread: half the range between the quartiles"]
    pairs = sum(b.modelled_us > a.modelled_us * (1 + APART) for a, b in combinations(sorted(rows, key=lambda r: r.modelled_us), 2))
    lines += [f"{pairs} pairs of plans are modelled more than {APART:.0%} apart"]
    lines += [f"{'wrong' if is_judged else 'seen, not judged'}: {w}" for w in wrong]
    lines += ["all of them are measured in that order; DDP makes the buckets of each plan"] if pairs and not wrong else []
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2, choices=range(2, 9), help="processes (default 2; more are reported, not judged)")
    parser.add_argument("--scale", type=int, default=16, help="gradients have 1 / scale of ResNet-50's elements")
    parser.add_argument("--backward-ms", type=float, default=100.0, help="what the waits of a backward pass add up to")
    parser.add_argument("--mbit", type=int, default=400, help="10^6 bits a second of each link, where it can be limited")
    parser.add_argument("--rounds", type=int, default=21, help="steps of each plan")
    parser.add_argument("--repetitions", type=int, default=15, help="of each size, and of the step without communication")
    parser.add_argument("--sizes", type=int, default=25, help="sizes of which an all-reduce is measured")
    parser.add_argument("--hook", action="store_true", help="buckets by the communication hook, in place of bucket_cap_mb_list")
    parser.add_argument("--torch", default=sys.executable, metavar="PYTHON", help="a Python that has torch (default: this one)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    asked = [args.torch, "-c", "import torch.distributed"]
    if not shutil.which(args.torch) or subprocess.run(asked, capture_output=True, check=False).returncode:
        print(f"{args.torch} has no torch; --torch names a Python that has it", file=sys.stderr)
        return 3
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that namespaces are removed
    with tempfile.TemporaryDirectory() as folder:
        try:
            rows, facts = run(args, Path(folder))
        except AoecError as e:
            print(e, file=sys.stderr)
            return 2
    wrong, is_judged = judge(rows), args.ranks == 2
    if args.json:
        print(json.dumps(facts | {"plans": [asdict(r) | {"median_us": r.median_us, "spread": r.spread} for r in rows], "wrong": wrong,
                                  "is_judged": is_judged}, indent=1))
    else:
        sys.stdout.write(text(rows, facts, wrong, is_judged))
    return 1 if wrong and is_judged else 0


if __name__ == "__main__":
    raise SystemExit(main())
