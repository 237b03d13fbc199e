"""How much faster models are by a plan that was looked for than by fixed rules: each network of the zoo, batch 1 and 16, on three targets.

    python bench/plans.py [--models resnet50 ...] [--batches 1 16] [--targets Ascend910B3 Ascend310P3 Ascend310B1] [--trials 20]
                          [--jobs 2] [--bank plans.db] [--json plans.json] [--write docs/plans.md]

*Rules*: the graph is put together by fixed rules, and no group runs in slices. *Plan*: as `compile --tune` puts it together. Both have
schedules of the same search, so many trials for each different group, and nothing of the built-in bank. With --trials 0 both have default
schedules, and only slices are looked for. Times are modelled: one inference from cold inputs and weights, fp16. Values are not checked here
(bench/zoo.py and the laws do that).

The exit code is 1 where a row is slower by its plan, or failed. Stop it and go on when you like: what was found stays in the bank, and a
finished row in a file beside it.
"""
from __future__ import annotations

import argparse
import json
import resource
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from itertools import product
from math import exp, fsum, log
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import aoec
from aoec.base.errors import AoecError
from aoec.base.files.files import read_json, write_text
from aoec.jobs.version import model_version
from bench.networks import NETWORKS
from bench.quality import change, cpu_seconds

TARGETS = ("Ascend910B3", "Ascend310P3", "Ascend310B1")
BATCHES = (1, 16)
SLICED = "groups in slices, one slice after the other: "  # how a report begins the note on its regions
WIDTH = 80
HEAD = f"{'network':18} {'batch':>5} {'target':11} {'rules us':>11} {'plan us':>11} {'change':>8} regions"


@dataclass(frozen=True)
class Case:
    """A network for a batch on a target."""

    network: str
    batch: int
    target: str


@dataclass(frozen=True)
class Row:
    """What became of a case; times in modelled µs, `regions` in words as a report has them, memory in MB at its peak. `failed` says why
    there are no times."""

    network: str
    batch: int
    target: str
    tool: str
    model_version: str
    trials: int
    rules_us: float = 0.0
    plan_us: float = 0.0
    regions: tuple[str, ...] = ()
    on_host: int = 0
    cpu_seconds: float = 0.0
    peak_mb: int = 0
    failed: str = ""

    @property
    def is_slower(self) -> bool:
        return self.plan_us > self.rules_us

    def line(self) -> str:
        """Return the row of the table on a terminal."""
        begin = f"{self.network[:18]:18} {self.batch:5} {self.target[:11]:11}"
        if self.failed:
            return f"{begin} failed: {self.failed}"[:WIDTH]
        return f"{begin} {self.rules_us:11,.1f} {self.plan_us:11,.1f} {change(self.rules_us, self.plan_us):>8} {len(self.regions):7}"

    def cells(self) -> str:
        """Return the row of the page."""
        if self.failed:
            return f"| {self.network} | {self.batch} | {self.target} | – | – | failed: {self.failed} | – |"
        return (f"| {self.network} | {self.batch} | {self.target} | {self.rules_us:,.1f} | {self.plan_us:,.1f} "
                f"| {change(self.rules_us, self.plan_us)} | {len(self.regions) or '–'} |")


@dataclass(frozen=True)
class Total:
    """Rows of one target and batch together."""

    target: str
    batch: str
    rows: tuple[Row, ...]

    @property
    def made(self) -> list[Row]:
        return [r for r in self.rows if not r.failed]

    @property
    def rules_us(self) -> float:
        return sum(r.rules_us for r in self.made)

    @property
    def plan_us(self) -> float:
        return sum(r.plan_us for r in self.made)

    @property
    def mean(self) -> float:
        """Return the geometric mean of what plans take of what rules take: each row counts alike, however long it is."""
        return exp(fsum(log(r.plan_us / r.rules_us) for r in self.made) / len(self.made)) if self.made else 1.0

    @property
    def figures(self) -> tuple[str, ...]:
        """Return cells: target, batch, models, both sums, the change of the sum and of the mean row, how many are faster and slower."""
        faster, slower = (sum(sign * (r.rules_us - r.plan_us) > 0 for r in self.made) for sign in (1, -1))
        return (self.target, self.batch, str(len(self.made)), f"{self.rules_us:,.0f}", f"{self.plan_us:,.0f}",
                change(self.rules_us, self.plan_us), change(1.0, self.mean), str(faster), str(slower))

    def line(self) -> str:
        return SUMS.format(*self.figures)


TOTALS = ("target", "batch", "models", "rules us", "plan us", "change", "mean", "faster", "slower")
SUMS = "{:11} {:>5} {:>6} {:>11} {:>11} {:>8} {:>8} {:>6} {:>6}"


def compared(case: Case, trials: int, bank: Path) -> Row:
    """Return the row of a case, by rules and by plan, in this process."""
    row = Row(case.network, case.batch, case.target, f"aoec {version('aoec')}", model_version(), trials)
    started = cpu_seconds()
    try:
        model = NETWORKS[case.network](case.batch, 0).model
        rules, plan = times(model, case.target, trials, bank)
    except (AoecError, MemoryError, ArithmeticError, LookupError, TypeError, ValueError, AssertionError) as e:
        return replace(row, failed=f"{type(e).__name__}: {' '.join(str(e).split())}"[:300], cpu_seconds=cpu_seconds() - started)
    noted = [n.removeprefix(SLICED).split(", ") for n in plan["notes"] if n.startswith(SLICED)]
    return replace(row, rules_us=rules, plan_us=plan["latency"]["tuned_us"], regions=tuple(r for n in noted for r in n),
                   on_host=sum(g["count"] for g in plan["groups"] if g["runs_on"] != "AI Core"), cpu_seconds=cpu_seconds() - started,
                   peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)


def times(model: Any, target: str, trials: int, bank: Path) -> tuple[float, dict[str, Any]]:
    """Return (µs by rules, the report of the model by its plan), with schedules of equal searches."""
    def report(**how: Any) -> dict[str, Any]:
        with TemporaryDirectory() as folder:
            return aoec.compile(model, Path(folder) / "network.aoec", target=target, bank=bank, base="none", verify=False, stock=False,
                                **how).report

    if not trials:  # what a compile of default schedules begins with is the model by rules
        plan = report(slices="auto")
        return plan["latency"]["default_us"], plan
    rules = report(tune=True, budget=trials, slices="none")["latency"]["tuned_us"]
    return rules, report(tune=True, budget=trials)


class Shelf:
    """Finished rows, in a file that is written whole after each. A row is of one version of the model; one that failed is tried again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        said = read_json(path) if path.is_file() else {}
        self.rows = {key: Row(**{**row, "regions": tuple(row["regions"])}) for key, row in said.get("rows", {}).items()}

    def find(self, case: Case, trials: int) -> Row | None:
        found = self.rows.get(self.key(case, trials))
        return None if found is None or found.failed else found

    def put(self, case: Case, trials: int, row: Row) -> None:
        self.rows[self.key(case, trials)] = row
        write_text(self.path, json.dumps({"rows": {k: asdict(r) for k, r in self.rows.items()}}, indent=1))

    def key(self, case: Case, trials: int) -> str:
        return f"{case.network} {case.batch} {case.target} {trials} {model_version()}"


def rows_of(cases: Sequence[Case], trials: int, bank: Path, jobs: int, shelf: Shelf) -> Iterator[tuple[Case, Row]]:
    """Yield each case with its row, as soon as it is made; in processes of their own where there are several."""
    missing = []
    for case in cases:
        found = shelf.find(case, trials)
        if found is None:
            missing.append(case)
        else:
            yield case, found
    for case, row in run_all(missing, trials, bank, jobs):
        shelf.put(case, trials, row)
        yield case, row


def run_all(cases: Sequence[Case], trials: int, bank: Path, jobs: int) -> Iterator[tuple[Case, Row]]:
    if jobs == 1:
        yield from ((case, compared(case, trials, bank)) for case in cases)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn"), max_tasks_per_child=1) as pool:
        begun = {pool.submit(compared, case, trials, bank): case for case in cases}
        for done in as_completed(begun):
            yield begun[done], done.result()


def totals(rows: Iterable[Row]) -> list[Total]:
    """Return the sums of each target and batch, and of all."""
    listed = tuple(rows)
    pairs = dict.fromkeys((r.target, r.batch) for r in listed)
    apart = [Total(target, str(batch), tuple(r for r in listed if (r.target, r.batch) == (target, batch))) for target, batch in pairs]
    return [*apart, Total("all", "", listed)]


def page(rows: Sequence[Row]) -> str:
    """Return the page of docs/: what is compared, sums, rows."""
    first = rows[0]
    by = f"{first.trials} trials for each different group" if first.trials else "default schedules"
    found = "what `compile --tune` finds" if first.trials else "the slices that `tune --job sgat` finds"
    lines = [
        "# Plans against fixed rules", "",
        "Each network of the zoo (`bench/networks`), batch 1 and 16, as fixed rules put it together and as its plan does. Every time is "
        "modelled: one inference in fp16, from cold inputs and weights, by aoec's model of the AI Core. Nothing ran on an NPU.", "",
        f"*Rules*: groups and layouts by fixed rules, and no slices. *Plan*: {found}. Both have schedules of equal searches: {by}. "
        "*Regions*: groups that run in slices. *Mean*: of rows, geometric. "
        f"Made by `python bench/plans.py --trials {first.trials} --write docs/plans.md`; "
        f"{first.tool}, model version {first.model_version}.", "",
        f"| {' | '.join(TOTALS)} |", "|---" * len(TOTALS) + "|",
        *[f"| {' | '.join(t.figures)} |" for t in totals(rows)], "",
        "| network | batch | target | rules us | plan us | change | regions |", "|---|---|---|---|---|---|---|",
        *[r.cells() for r in rows], ""]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--models", nargs="+", choices=NETWORKS, default=list(NETWORKS), metavar="NAME", help=f"of {', '.join(NETWORKS)}")
    parser.add_argument("--batches", nargs="+", type=int, default=BATCHES, metavar="N", help="(default: 1 16)")
    parser.add_argument("--targets", nargs="+", default=TARGETS, metavar="NAME", help=f"(default: {' '.join(TARGETS)})")
    parser.add_argument("--trials", type=int, default=20, metavar="N",
                        help="for each different group; with 0 slices alone are looked for, by default schedules (default: 20)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes, one a row (default: 1)")
    parser.add_argument("--bank", type=Path, default=Path("plans.db"), metavar="FILE", help="what is found stays there (plans.db)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows and the sums there")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page there")
    args = parser.parse_args(argv)
    cases = [Case(*c) for c in product(args.models, args.batches, args.targets)]
    found: dict[Case, Row] = {}
    print(HEAD, flush=True)
    for case, row in rows_of(cases, args.trials, args.bank, args.jobs, Shelf(args.bank.with_suffix(".json"))):
        found[case] = row
        print(row.line(), flush=True)
    rows = [found[c] for c in cases]
    sums = totals(rows)
    print("\n" + "\n".join([SUMS.format(*TOTALS), *[t.line() for t in sums]]))
    print("modelled: one inference in fp16, from cold inputs and weights; mean: of rows, geometric")
    if args.json:
        write_text(args.json, json.dumps({"times": "modelled", "rows": [asdict(r) for r in rows],
                                          "sums": [dict(zip(TOTALS, t.figures)) for t in sums]}, indent=1))
    if args.write:
        write_text(args.write, page(rows))
    return int(any(r.failed or r.is_slower for r in rows))


if __name__ == "__main__":
    raise SystemExit(main())
