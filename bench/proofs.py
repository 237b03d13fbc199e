"""How far proofs come, and what they cost: the spaces of a model's distinct groups, or of operators given by name, decided by bounds.

    python bench/proofs.py [resnet50 --batch 1 | MODEL.onnx | "matmul(m=1024, k=1024, n=1024, fp16)" ...] [--target Ascend910B1]
                           [--budget 200] [--only conv2d] [--json]

A line for each: legal candidates of the space (exact, or about), the rows that were bounded, the candidates whose timing began and those
of them that were abandoned, how the result stands to the default and to the space's best, CPU seconds of laying the space out with its
default and of the proof, and candidates decided a CPU second. Below it the CPU seconds of import, fuse and lowering beside those of the
search. Times are modelled; ratios compare between computers, seconds do not.
"""
from __future__ import annotations

import argparse
import json
import resource
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from aoec.jobs.space import legal
from aoec.jobs.tuning import PROOF_ROWS, problem, start
from aoec.search.count import cuts
from aoec.search.prove import prove
from aoec.search.trials import Status
from aoec.target.machine import Machine, load
from bench.groups import Case, Clock, cases

Line = dict[str, Any]


def line(case: Case, machine: Machine, budget: int, clock: Clock) -> Line:
    """What became of one space."""
    label, func, state = case
    own = Clock()
    p = own("lay out", problem, func, machine, state)
    first = own("default", start, p)
    proof = own("proof", prove, p.space.grids, p, first.default, first.default_ticks, budget * PROOF_ROWS)
    for name, seconds in own.spent.items():
        clock.spent[name] = clock.spent.get(name, 0.0) + seconds
    found = [legal(grid, cuts(grid, s.program.constraints)) for grid, s in zip(p.space.grids, p.sketches)]
    count, counts = sum(left for left, _ in found), p.ledger.counts()
    us = machine.us_per_tick
    return {"group": label, "legal": count, "about": any(error for _, error in found), "bounded": proof.bounded, "timed": proof.timed,
            "abandoned": counts[Status.ABANDONED], "default_us": first.default_ticks * us, "best_us": proof.ticks * us,
            "floor_us": proof.floor * us, "closed": proof.closed, "start_s": own.spent["lay out"] + own.spent["default"],
            "proof_s": own.spent["proof"], "decided_a_second": count / own.spent["proof"] if proof.closed else 0.0}


def text(row: Line) -> str:
    """A line for people."""
    gap = "optimal" if row["closed"] else f"within {100 * (row['best_us'] / row['floor_us'] - 1):.0f} %" if row["floor_us"] else "open"
    return (f"{row['group'][:60]:60} {'~' if row['about'] else ' '}{row['legal']:>17,} legal, {row['bounded']:>9,} bounded, "
            f"{row['timed']:>9,} timed; default {row['default_us']:9.3f} best {row['best_us']:9.3f} us modelled, {gap:11} "
            f"{row['start_s']:6.2f} + {row['proof_s']:7.2f} CPU s, {row['decided_a_second'] / 1e6:8.2f} M/s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("what", nargs="*", default=["resnet50"], help="models of the zoo, ONNX files, operators by name")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--target", default="Ascend910B1")
    parser.add_argument("--budget", type=int, default=200, help="of a proof, in trials as for aoec search --search proof")
    parser.add_argument("--only", default="", help="groups whose label holds this")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    machine, clock, rows = load(args.target), Clock(), []
    for case in cases(args.what, args.batch, machine, clock):
        if args.only in case[0]:
            rows.append(line(case, machine, args.budget, clock))
            if not args.json:
                print(text(rows[-1]), flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    whole = {"closed": sum(r["closed"] for r in rows), "groups": len(rows), "cpu_s": clock.spent, "peak_mib": peak}
    print(json.dumps({"rows": rows, **whole}, indent=1) if args.json else
          f"{whole['closed']} of {len(rows)} spaces decided; CPU s: " + ", ".join(f"{k} {v:.2f}" for k, v in clock.spent.items())
          + f"; peak {peak:.0f} MiB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
