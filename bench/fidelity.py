"""How near the machine model is to published measurements: modelled against measured, case by case and in all.

    python bench/fidelity.py [CASES.csv ...] [--only ID,...] [--class tile,micro] [--json] [--svg plot.svg]
        [--eligible list.csv] [--bank kept.jsonl] [--state profiler|previous|cleared|cold] [--page [--write]]

It reads cases in the format of docs/fidelity-details.md (default: bench/cases/published.csv), and builds each program. It times each one in
the memory state that its profiler leaves before every launch (bench/cases/profilers.py). It prints the modelled value beside the measured
one, with the reason. Cases that cannot be expressed are listed with the reason. --page prints the table of docs/fidelity.md instead. With
--write the table is put into that page. The exit code is 1 where nothing could be modelled.
"""
from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from aoec.base.errors import AoecError
from aoec.simulate.timing.state import NAMED
from bench.cases.batches import text as models_text
from bench.cases.case import CLASSES, Case, read_cases
from bench.cases.eligible import why_not
from bench.cases.facts import facts_toml
from bench.cases.kept import Kept
from bench.cases.library import text as library_text
from bench.cases.library import tuned
from bench.cases.models import run
from bench.cases.near import Done
from bench.cases.page import figures, write_figures
from bench.cases.plot import svg, title_of
from bench.cases.score import Result
from bench.cases.show import as_dict, eligible_csv, text
from bench.cases.time import modelled

PROFILER = "profiler"
CLASSES_OF_PAGE = "tile,micro"
PUBLISHED = Path(__file__).parent / "cases/published.csv"


def chosen(cases: Sequence[Case], only: str, classes: str) -> list[Case]:
    """Return the cases that are asked for: ids, or else classes. Raise AoecError where an id or class is none."""
    ids, kinds = [i for i in only.split(",") if i], [k for k in classes.split(",") if k]
    known = {c.id for c in cases}
    for name in ids:
        if name not in known:
            raise AoecError(f"--only {name}: no case of that id")
    for name in kinds:
        if name not in CLASSES:
            raise AoecError(f"--class {name}: none of {', '.join(CLASSES)}")
    return [c for c in cases if c.id in ids] if ids else [c for c in cases if c.kind in kinds]


def results_of(cases: Sequence[Case], folder: Path, kept: Kept, trials: int, state: str = PROFILER, slices: bool = False) -> list[Result]:
    """Return every case with what the model says and whether it counts: of its schedule, or of our best where none is published."""
    out = []
    done = Done()
    for c in cases:
        how = f"tuned {trials} {state}" if c.kind == "lib" else f"tuned {trials}{' in slices' * slices}" if c.kind == "e2e" else state
        r = kept.of(c, how)
        if r is None:
            r = kept.put(timed(c, folder, trials, state, done, slices), how)
        out.append(replace(r, why_not=why_not(c)))
    return out


def timed(case: Case, folder: Path, trials: int, state: str, done: Done, slices: bool = False) -> Result:
    """Return one case: our best of a model, or in the named memory state (or its profiler's) of a vendor kernel, or the program of a
    schedule."""
    if case.kind == "e2e":
        return run(case, trials, done, slices)
    return tuned(case, trials, state) if case.kind == "lib" else modelled(case, folder, NAMED.get(state))


def whole_text(results: Sequence[Result]) -> str:
    """Return the tables of all classes that are there."""
    library, models = ([r for r in results if r.case.kind == k] for k in ("lib", "e2e"))
    rest = [r for r in results if r.case.kind not in ("lib", "e2e")]
    parts = [text(rest)] if rest else []
    parts += [library_text(library)] if library else []
    return "\n".join([*parts, *([models_text(models)] if models else [])])


def of_the_page(args: argparse.Namespace) -> bool:
    """Return whether the rows that are asked for are those of docs/fidelity.md."""
    return (args.cases == [PUBLISHED] and not args.only and args.kinds == CLASSES_OF_PAGE and args.state == PROFILER)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("cases", nargs="*", type=Path, default=[PUBLISHED], help="CSV files in the format of docs/fidelity-details.md")
    parser.add_argument("--only", default="", help="ids, separated by commas")
    parser.add_argument("--class", dest="kinds", default=CLASSES_OF_PAGE, help="classes, separated by commas (default tile,micro)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--svg", type=Path, help="writes the scatter plot")
    parser.add_argument("--eligible", type=Path, help="writes which cases count and why others do not, as CSV")
    parser.add_argument("--trials", type=int, default=0, help="search trials a group for lib and e2e rows (default: default schedules)")
    parser.add_argument("--slices", action="store_true", help="e2e rows: run regions of a model in slices where that is faster")
    parser.add_argument("--facts", type=Path, help="writes the figures by target and operator class that results carry (a TOML file)")
    parser.add_argument("--state", choices=(PROFILER, *NAMED), default=PROFILER,
                        help="what L2 holds at the start, of rows of single operators: what their profiler leaves (default), what an equal "
                             "launch leaves, nothing, or what another model does")
    parser.add_argument("--bank", type=Path, help="keeps results in this file; equal cases on the same model are not timed again")
    parser.add_argument("--page", action="store_true", help="print the table of docs/fidelity.md, in Markdown")
    parser.add_argument("--write", action="store_true", help="with --page: put the table into docs/fidelity.md")
    args = parser.parse_args(argv)
    if args.write and not (args.page and of_the_page(args)):
        parser.error("--write goes with --page, and the page has all published tile and micro rows as their profilers leave L2")
    try:
        cases = chosen(read_cases(args.cases), args.only, args.kinds)
        results = results_of(cases, args.cases[0].parent, Kept(args.bank), args.trials, args.state, args.slices)
        if args.write:
            write_figures(results)
    except AoecError as e:
        print(e, file=sys.stderr)
        return 2
    sys.stdout.write(json.dumps(as_dict(results), indent=1) + "\n" if args.json else figures(results) + "\n" if args.page
                     else whole_text(results))
    if args.svg:
        args.svg.write_text(svg(results, title_of(results)), "utf-8")
    if args.eligible:
        args.eligible.write_text(eligible_csv(results), "utf-8")
    if args.facts:
        args.facts.write_text(facts_toml(results), "utf-8")
    return 0 if any(r.modelled is not None for r in results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
