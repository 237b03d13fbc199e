"""How far proofs come, and what they cost: the spaces of a model's distinct groups, or of operators given by name, decided by bounds.

    python bench/proofs.py [resnet50 --batch 1 | MODEL.onnx | "matmul(m=1024, k=1024, n=1024, fp16)" ...] [--target Ascend910B1]
                           [--budget 200 | --tune [--budget 2000]] [--only conv2d] [--levels] [--json]
                           [--beside accelforge [--beside-python PYTHON]]

Each space has a line. It has the number of legal candidates of the space (exact, or about), and of rows that were bounded. It has the
number of candidates whose timing began, and of those that were abandoned. It has the ratios of the result to the default and to the space's
best. It has the CPU seconds to build the space with its default, the CPU seconds of the proof, and the candidates decided in a CPU second.
With --levels it also has the number of rows that were bounded, and left, at each level.

Below the lines are the CPU seconds of import, fuse, lowering and emission (of every sketch) beside those of the search. The most memory
that the process held during the search is there, too. It leaves out the making of the model before the search. Times are modelled. Ratios
compare between computers, seconds do not. With --beside a peer maps the products of the same groups in the same run. bench/beside.py says
what the peer is given, and what it leaves out. Where the peer is not installed, a line says so.
"""
from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from aoec.jobs.stages.space import legal
from aoec.jobs.tune.budget import PROOF_ROWS
from aoec.jobs.tune.tuning import Outcome, Problem, problem, search, start
from aoec.search.proof.prove import Proof, prove
from aoec.search.space.count import cuts
from aoec.search.space.trials import Status
from aoec.target.machine import Machine, load
from bench import beside
from bench.groups import Case, Clock, cases, forget_peak, peak_mib

Line = dict[str, Any]


def tuned(p: Problem, first: Outcome, budget: int) -> Proof:
    """Return what `--tune` finds and proves with a budget of so many trials; the rows that were bounded are not told."""
    found = search(p, first, "portfolio", ("trials", budget), 0)
    return Proof(found.best, found.ticks, found.floor_ticks, found.proof != "", 0, found.trials)


def line(case: Case, machine: Machine, budget: int, clock: Clock, tune: bool) -> Line:
    """Return the outcome of one space."""
    label, func, state = case
    forget_peak()
    own = Clock()
    p = own("lay out", problem, func, machine, state)
    first = own("default", start, p)
    proof = own("proof", tuned if tune else prove, *((p, first, budget) if tune else (
        p.space.grids, p, first.default, first.default_ticks, budget * PROOF_ROWS)))
    for name, seconds in own.spent.items():
        clock.spent[name] = clock.spent.get(name, 0.0) + seconds
    found = [legal(grid, cuts(grid, s.program.constraints)) for grid, s in zip(p.space.grids, p.sketches)]
    count, counts = sum(left for left, _ in found), p.ledger.counts()
    us = machine.us_per_tick
    return {"group": label, "legal": count, "about": any(error for _, error in found), "bounded": proof.bounded, "timed": proof.timed,
            "abandoned": counts[Status.ABANDONED], "default_us": first.default_ticks * us, "best_us": proof.ticks * us,
            "floor_us": proof.floor * us, "closed": proof.closed, "start_s": own.spent["lay out"] + own.spent["default"],
            "levels": proof.levels, "proof_s": own.spent["proof"], "peak_mib": peak_mib(),
            "decided_a_second": count / own.spent["proof"] if proof.closed else 0.0}


def text(row: Line) -> str:
    """Return a line for people."""
    gap = "optimal" if row["closed"] else f"within {100 * (row['best_us'] / row['floor_us'] - 1):.0f} %" if row["floor_us"] else "open"
    return (f"{row['group'][:60]:60} {'~' if row['about'] else ' '}{row['legal']:>17,} legal, {row['bounded']:>9,} bounded, "
            f"{row['timed']:>9,} timed; default {row['default_us']:9.3f} best {row['best_us']:9.3f} us modelled, {gap:11} "
            f"{row['start_s']:6.2f} + {row['proof_s']:7.2f} CPU s, {row['decided_a_second'] / 1e6:8.2f} M/s")


def peer(args: argparse.Namespace, machine: Machine, found: Sequence[tuple[Case, Line]]) -> dict[str, Any] | None:
    """Return what the peer needs for the distinct products of the groups, beside what ours took for these groups. Return None where it
    cannot run."""
    with_products = [(beside.products(func), row) for (_, func, _), row in found]
    layers = list(dict.fromkeys((m, k, n) for products, _ in with_products for _, m, k, n in products))
    try:
        told = beside.run(machine, layers, args.beside_python) if layers else None
    except RuntimeError as e:
        print(f"accelforge is left out: {e}", file=sys.stderr)
        return None
    if told is None:
        print(f"accelforge is left out: {args.beside_python} does not have it (Python 3.12, pip install accelforge; --beside-python PYTHON)"
              if layers else "accelforge is left out: no group has a product", file=sys.stderr)
        return None
    ours = [row for products, row in with_products if products]
    return told | {"ours": {"groups": len(ours), "closed": sum(r["closed"] for r in ours), "legal": sum(r["legal"] for r in ours),
                            "search_s": sum(r["start_s"] + r["proof_s"] for r in ours)}}


def peer_text(told: dict[str, Any]) -> str:
    """Return the comparison in three lines."""
    ours, lines = told["ours"], []
    for name, words in (("core", "one core"), ("chip", "the chip: HBM, L2 and all cube cores")):
        space, evaluated, seconds = (sum(r[k] for r in told[name]) for k in ("space", "evaluated", "cpu_s"))
        lines.append(f"accelforge {told['version']}, {words}, no epilogues: {len(told[name])} distinct products, {space:,.0f} mappings, "
                     f"{evaluated:,.0f} of them evaluated, {seconds:.2f} CPU s and {told['import_s']:.2f} of imports\n")
    return ("".join(lines) + f"aoec, the {ours['groups']} groups of these products: {ours['legal']:,} legal candidates, "
            f"{ours['closed']} spaces decided, {ours['search_s']:.2f} CPU s")


def levels(row: Line) -> list[str]:
    """Return a line for each level of a proof: the rows that were bounded there, and those that no bound excluded."""
    return [f"    {name:12} {count:>10,} bounded, {left:>10,} left" for name, (count, left) in row["levels"].items()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("what", nargs="*", default=["resnet50"], help="models of the zoo, ONNX files, operators by name")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--target", default="Ascend910B1")
    parser.add_argument("--budget", type=int, help="of a proof (200), in trials as for aoec search --search proof")
    parser.add_argument("--tune", action="store_true", help="what --tune does with that many trials, 2,000 by default: search and proof")
    parser.add_argument("--only", default="", help="groups whose label holds this")
    parser.add_argument("--beside", choices=("accelforge",), help="a peer that maps the same products in the same run")
    parser.add_argument("--beside-python", default=sys.executable, metavar="PYTHON", help="the interpreter that has the peer")
    parser.add_argument("--levels", action="store_true", help="say what was bounded at each level")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    machine, clock = load(args.target), Clock()
    args.budget = args.budget or (2000 if args.tune else 200)
    found: list[tuple[Case, Line]] = []
    for case in cases(args.what, args.batch, machine, clock):
        if args.only in case[0]:
            found.append((case, line(case, machine, args.budget, clock, args.tune)))
            if not args.json:
                print(text(found[-1][1]), *levels(found[-1][1]) if args.levels else (), sep="\n", flush=True)
    rows = [row for _, row in found]
    told = peer(args, machine, found) if args.beside else None
    peak = max((r["peak_mib"] for r in rows), default=0.0)
    whole = {"closed": sum(r["closed"] for r in rows), "groups": len(rows), "cpu_s": clock.spent, "peak_mib": peak, "beside": told}
    whole["before_s"] = before = sum(clock.spent.get(name, 0.0) for name in ("import", "fuse", "lower", "lay out"))
    whole["search_s"] = search = sum(clock.spent.get(name, 0.0) for name in ("default", "proof"))
    print(json.dumps({"rows": rows, **whole}, indent=1) if args.json else
          f"{whole['closed']} of {len(rows)} spaces decided; CPU s: " + ", ".join(f"{k} {v:.2f}" for k, v in clock.spent.items())
          + f"; import, fuse, lower and emit {before:.2f}, search {search:.2f}; peak {peak:.0f} MiB"
          + ("\n" + peer_text(told) if told else ""))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
