"""How good schedules are: the default against the stock block, random candidates and the bound; the tuned against the default.

    python bench/defaults.py [--network resnet50] [--batch 1] [--budget 2000] [--no-verify] [--jobs 2] [--json]
    python bench/defaults.py --list [--network NAME ...] [--operators PATTERN] [--target Ascend910B3] [--budget 60] [--no-tune]

Tunes the zoo's ResNet-50, or another network, with an empty bank. Then it holds every distinct group to the acceptance rules. Where no
stock block is legal for a group, the row says so, and the group is held to the other rules. Exit code 1 where a rule fails.

--list prints the distinct groups that take more than three times their bound, of all networks of the zoo and of ONNX's tests of operators.
Each has the reason that its measure gives (bench/gaps.py has the reasons). --no-tune uses default schedules, which takes less time. Every
time is modelled.
"""
from __future__ import annotations

import argparse
import io
import json
import math
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from aoec.artifact.artifact import load as load_artifact
from aoec.bank.bank import Bank
from aoec.cli import main as aoec
from aoec.jobs.choose.model_tasks import Task, tasks
from aoec.jobs.tune.order import keys
from aoec.jobs.tune.tuning import problem
from aoec.target.machine import load
from bench.gaps import FAR, Gap, gap_of, operator_cases
from bench.groups import Case, Clock, cases
from bench.networks import NETWORKS
from tests.oracle.opponents import NoStockBlock, best_of_random, least_ticks, stock

FURTHEST = 1.6  # geometric mean of default / bound, of ResNet-50; small networks are mostly launches


@dataclass(frozen=True)
class Row:
    """One distinct group; times in modelled µs, None where there is no such opponent."""

    group: str
    what: str
    count: int
    default_us: float
    tuned_us: float
    bound_us: float
    stock_us: float | None
    random_us: float | None
    random_legal: int
    least_us: float
    no_stock: str = ""  # why a product or convolution has no stock block
    times: str = "modelled"


def measure(task: Task, target: str, ticks: tuple[int, int], count: int) -> Row:
    """Return the row of one task whose default and tuned ticks are known."""
    machine = load(target)
    p = problem(task.func, machine, task.state)
    chance, legal = best_of_random(p)
    us = machine.us_per_tick
    block, why = None, ""
    try:
        block = stock(p, machine)
    except NoStockBlock as e:
        why = str(e)
    least = least_ticks(task.func, machine, dict(task.state))
    return Row(task.group.name, task.label, count, ticks[0] * us, ticks[1] * us, p.bound().ticks * us,
               None if block is None else block * us, None if chance is None else chance * us, legal, least * us, why)


def faults(row: Row) -> list[str]:
    """Return the rules that a row breaks, in words."""
    pairs = (("tuned", row.tuned_us, "default", row.default_us), ("default", row.default_us, "stock", row.stock_us),
             ("default", row.default_us, f"best of {row.random_legal} random", row.random_us),
             ("bound", row.bound_us, "tuned", row.tuned_us),
             ("products at peak or bytes from HBM, with launch", row.least_us, "bound", row.bound_us))
    return [f"{row.group}: {a} {x:.3f} us > {b} {y:.3f} us (modelled)" for a, x, b, y in pairs if y is not None and x > y]


def geometric_mean(rows: Sequence[Row], weighted: bool) -> float:
    """Return the geometric mean of default / bound, over all groups (`weighted`) or over distinct groups."""
    weights = [r.count if weighted else 1 for r in rows]
    return math.exp(sum(w * math.log(r.default_us / r.bound_us) for w, r in zip(weights, rows)) / sum(weights))


def tune(args: argparse.Namespace, folder: Path) -> dict[str, object]:
    """Return what tuning the network answers as JSON; bank and compiled model are left in the folder."""
    onnx.save(NETWORKS[args.network](args.batch, 0).model, folder / "net.onnx")
    words = ["compile", str(folder / "net.onnx"), "--tune", "--precision", args.precision, "--budget", args.budget, "--json",
             "--base", "none", "--bank", str(folder / "bank"), "-o", str(folder / "net.aoec"), "--jobs", str(args.jobs),
             "--verify" if args.verify else "--no-verify"]
    with redirect_stdout(io.StringIO()) as out:
        code = aoec(words)
    if code:
        raise SystemExit(f"aoec {' '.join(words)}: exit code {code}")
    return json.loads(out.getvalue())


def rows_of(folder: Path, jobs: int) -> list[Row]:
    """Return every distinct group of the compiled model, with the records of its bank."""
    artifact, bank = load_artifact(folder / "net.aoec"), Bank.open(folder / "bank", create=False)
    machine = load(artifact.target)
    distinct: dict[tuple[str, str], list[Task]] = {}
    for task in tasks(artifact.graph, machine):
        distinct.setdefault((task.func_key, task.state_text), []).append(task)
    asked = []
    for alike in distinct.values():
        default, best = (bank.best(k) for k in keys(alike[0], machine))
        assert default is not None and best is not None, f"the bank holds no record of {alike[0].label}"
        asked.append((alike[0], artifact.target, (default.ticks, best.ticks), len(alike)))
    if jobs == 1:
        return [measure(*a) for a in asked]
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        return [j.result() for j in [pool.submit(measure, *a) for a in asked]]


def text(result: dict[str, object], rows: Sequence[Row]) -> str:
    """Return the result for people."""
    head = f"{'group':6} {'what':44} {'x':>2} {'default':>8} {'tuned':>8} {'bound':>8} {'stock':>8} {'random':>8}   {result['title']}"
    out = [head]
    for r in rows:
        more = [f"{v:8.2f}" if v is not None else f"{'-':>8}" for v in (r.default_us, r.tuned_us, r.bound_us, r.stock_us, r.random_us)]
        out.append(f"{r.group:6} {r.what[:44]:44} {r.count:2} {' '.join(more)}   modelled us" + (f"; {r.no_stock}" if r.no_stock else ""))
    out += [f"{k.replace('_', ' ')}: {v:.4g}" if isinstance(v, float) else f"{k.replace('_', ' ')}: {v}"
            for k, v in result.items() if k not in ("title", "rows", "faults")]
    return "\n".join([*out, *[f"FAULT {f}" for f in result["faults"]]])  # type: ignore[attr-defined]


def list_gaps(networks: Sequence[str], pattern: str, target: str, trials: int) -> list[Gap]:
    """Return the gaps of all distinct groups, printed as they are found (equal lines once), then how many there are of each reason."""
    machine, clock = load(target), Clock()

    def every() -> Iterator[tuple[str, Case]]:
        for network in networks:
            yield from ((network, case) for case in cases([network], 1, machine, clock))
        yield from (("onnx", case) for case in (operator_cases(pattern, machine) if pattern != "none" else ()))

    print(f"{'group':72} {'us':>10} {'bound':>8} {'ratio':>6}   {target}, modelled, of {FAR:g} times the bound and more")
    seen, said = set[tuple[object, object]](), set[str]()
    found = []
    for origin, case in every():
        if case[1:] not in seen:
            seen.add(case[1:])
            if gap := gap_of(case, machine, trials):
                line = f"{origin[:16]:16} {gap.line()}"
                if line not in said:
                    print(line, flush=True)
                found.append(gap)
                said.add(line)
    counts = Counter(gap.reason for gap in found)
    print(f"{len(found)} of {len(seen)} distinct groups: " + (", ".join(f"{r} {n}" for r, n in sorted(counts.items())) or "none"))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--network", nargs="+", choices=sorted(NETWORKS), metavar="NAME", help="default: resnet50; with --list all")
    parser.add_argument("--list", action="store_true", help="print groups far above their bound, with reasons")
    parser.add_argument("--operators", default="", metavar="PATTERN", help="with --list: those tests of ONNX, or none (default: all)")
    parser.add_argument("--target", default="Ascend910B3", metavar="NAME", help="with --list (default: Ascend910B3)")
    parser.add_argument("--tune", action=argparse.BooleanOptionalAction, default=True, help="with --list: search so far")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--precision", choices=("fp16", "fp32"), default="fp16")
    parser.add_argument("--budget", help="trials of a group (default: 2000; with --list 60)")
    parser.add_argument("--verify", action=argparse.BooleanOptionalAction, default=True, help="check values, as aoec demo does")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.list:
        list_gaps(args.network or sorted(NETWORKS), args.operators, args.target, int(args.budget or 60) if args.tune else 0)
        return 0
    if args.network and len(args.network) > 1:
        parser.error("several networks are for --list")
    args.network, args.budget = (args.network or ["resnet50"])[0], args.budget or "2000"
    with tempfile.TemporaryDirectory() as name:
        started = time.monotonic()
        report = tune(args, Path(name))
        seconds = time.monotonic() - started
        rows = rows_of(Path(name), args.jobs)
    mean = geometric_mean(rows, True)
    broken = [f for r in rows for f in faults(r)]
    if args.network == "resnet50" and mean > FURTHEST:
        broken.append(f"geometric mean of default / bound {mean:.3f} > {FURTHEST}")
    latency = report["latency"]
    assert isinstance(latency, dict)
    result: dict[str, object] = {
        "title": f"{args.network} {args.precision}, batch {args.batch}, on {report['target']}, {report['state']}", "times": "modelled",
        "latency_default_us": latency["default_us"], "latency_tuned_us": latency["tuned_us"], "latency_gain": latency["gain"],
        "gap_to_bound": latency["gap"], "default_over_bound": mean, "default_over_bound_of_distinct_groups": geometric_mean(rows, False),
        "trials": report["trials"], "distinct_groups": len(rows), "wall_seconds": seconds, "rules_broken": len(broken), "faults": broken}
    print(json.dumps({**result, "rows": [asdict(r) for r in rows]}, indent=1) if args.json else text(result, rows))
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
