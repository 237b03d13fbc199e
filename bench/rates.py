"""How many candidates a second are timed, of each distinct group of models.

It measures three rates: with the exact skip, with the default's time as a limit, and walked in full. It also measures how many candidates a
proof decides, the slowest candidate, and memory.

    python bench/rates.py [--set resnet50:1 resnet50:16 bert-base:1 bert-base-512:1] [--rows 12000] [--only conv2d] [--decided 20]
                          [--target Ascend910B1] [--json] [--of FILE.json ...] [--write]

Only legal candidates count. They are drawn evenly from each sketch of a group's space. The share of legal combinations is printed apart.
Rates are per CPU second of one core and include the tables, so that they nearly hold on a busy computer. --write makes docs/throughput.md.
With --of it takes the results of earlier runs with --json. In full, and alone, a tenth of the candidates are timed.
"""
from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from copy import copy
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from aoec.kernels import timeline as kernel

from aoec.base.process.garbage import seldom_collected
from aoec.base.process.heap import give_back
from aoec.jobs.stages.space import legal
from aoec.jobs.tune.budget import PROOF_ROWS
from aoec.jobs.tune.tuning import Problem, problem, start
from aoec.search.proof.prove import prove
from aoec.search.space.count import cuts
from aoec.search.space.draws import draw_rows, some
from aoec.simulate.encode.encode import Encoded
from aoec.simulate.encode.filling import Filler
from aoec.simulate.encode.tables import first_false
from aoec.simulate.reasons.detail import walks
from aoec.simulate.timing.state import State
from aoec.simulate.timing.time import ABANDONED, time_rows
from aoec.target.machine import Machine, load
from bench.groups import Case, Clock, cases, forget_peak, peak_mib

SET = ("resnet50:1", "resnet50:16", "bert-base:1", "bert-base-512:1")
TABLE = Path(__file__).resolve().parents[1] / "docs" / "throughput.md"
IN_FULL, OPERATIONS = 3, 4_000_000  # candidates of a sketch that are walked in full; operations of a call, which is a third of 400,000
SLOW = 3  # candidates of a sketch with the most cycles, of which the slowest is told
TRIES, TENTH = 20, 10
Line = dict[str, Any]
Drawn = list[tuple[int, dict[str, np.ndarray]]]  # sketch, columns of holes


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return CPU seconds of this process that some work takes."""
    began = time.process_time()
    work()
    return time.process_time() - began


def legal_rows(p: Problem, sketch: int, count: int) -> np.ndarray:
    """Return int64[row, hole]: up to `count` legal candidates of a sketch, each as likely as any; fewer where few of many tries are
    legal."""
    grid, encoded, found = p.space.grids[sketch], p.sketches[sketch].encoded, list[np.ndarray]()
    for seed in range(TRIES):
        rows = np.array(some(grid, p.constraints(sketch), count) if seed == 0
                        else list(zip(*draw_rows(grid, [], 20 * count, seed).values())))
        rows = rows.astype(np.int64).reshape(-1, len(grid.names))
        found.append(rows[first_false(encoded, {name: rows[:, k] for k, name in enumerate(grid.names)}, len(rows)) == 0])
        if sum(map(len, found)) >= count:
            break
    return np.concatenate(found)[:count]


def sample(p: Problem, count: int) -> Drawn:
    """Return about `count` legal candidates, as many of each sketch that has any. Leave out those that cannot be timed, as a size varies
    in other than the first and last iteration of a loop."""
    out = []
    for i, grid in enumerate(p.space.grids):
        rows = legal_rows(p, i, max(1, count // len(p.space.grids)))
        columns = {name: rows[:, k].copy() for k, name in enumerate(grid.names)}
        timed = np.flatnonzero(np.isin(time_rows(p.sketches[i].encoded, columns, p.state, 1).status, (0, ABANDONED)))
        if len(timed):
            out.append((i, {name: values[timed] for name, values in columns.items()}))
    return out


def walked_whole(encoded: Encoded) -> Encoded:
    """Return a program of which every iteration of every class of cores is walked, by the same plans."""
    fillers = {key: copy(f) for key, f in encoded.fillers.items() if isinstance(f, Filler)}
    for f in fillers.values():
        f.fixed = f.fixed | {"joined": f.fixed["joined"] * [1, 0]}
    return replace(encoded, used=np.full_like(encoded.used, kernel.NEVER), emitted=False, fillers=fillers)


def in_full(p: Problem, rows: Drawn, state: State) -> tuple[float, int]:
    """Return (CPU seconds, instructions and flag operations) of some candidates of each sketch, every iteration of every class of cores
    walked, over and over.

    Counted are those of one core of each class once; parts of a class are walked again where another has ended before it (rule 7 of the
    kernel).
    """
    seconds, operations = 0.0, 0
    for i, columns in rows:
        encoded = p.sketches[i].encoded
        few = {name: values[:IN_FULL] for name, values in columns.items()}
        count = len(next(iter(few.values()), (0,)))
        own = sum(int(w.told.operations[0]) for w in walks(encoded, few, count, state))
        times = max(1, OPERATIONS // max(own, 1))
        whole = walked_whole(encoded)
        often = {name: np.tile(values, times) for name, values in few.items()}
        seconds += cpu_seconds(lambda whole=whole, often=often: time_rows(whole, often, state))
        operations += own * times
    return seconds, operations


def slowest(p: Problem, rows: Drawn, state: State) -> float:
    """Return CPU milliseconds of the slowest of the candidates with the most cycles of each sketch, each timed alone: the lesser of two
    times, for Python may collect its garbage in one."""
    worst = 0.0
    for i, columns in rows:
        encoded = p.sketches[i].encoded
        order = np.argsort(time_rows(encoded, columns, state).ticks)[-SLOW:]
        for k in order.tolist():
            alone = {name: values[k:k + 1] for name, values in columns.items()}
            took = [cpu_seconds(lambda encoded=encoded, alone=alone: time_rows(encoded, alone, state)) for _ in range(2)]
            worst = max(worst, 1e3 * min(took))
    return worst


@seldom_collected()  # as a search has it
def line(case: Case, machine: Machine, count: int, decided: int) -> Line:
    """Return the rates of one group."""
    give_back()  # as a job does from task to task
    forget_peak()
    label, func, state = case
    p = problem(func, machine, state)
    first = start(p)
    rows = sample(p, count)

    few = [(i, {name: values[:max(1, -(-len(values) // TENTH))] for name, values in c.items()}) for i, c in rows]

    def timed(of: Drawn, limit: int) -> float:
        return cpu_seconds(lambda: [time_rows(p.sketches[i].encoded, c, state, limit) for i, c in of])

    timed(rows, first.default_ticks)  # plans are made
    limited, skipped = timed(rows, first.default_ticks), timed(rows, kernel.NEVER)
    seconds, operations = in_full(p, few, state)
    number = sum(max(1, len(next(iter(c.values()), (0,)))) for _, c in rows)
    left = [legal(grid, cuts(grid, s.program.constraints)) for grid, s in zip(p.space.grids, p.sketches)]
    kept = sum(n for n, _ in left)
    out = {"group": label, "space": p.space.size, "legal": kept, "about": any(error for _, error in left), "candidates": number,
           "skipped_a_second": number / skipped, "limited_a_second": number / limited,
           "ns_an_operation": 1e9 * seconds / max(operations, 1), "slowest_ms": slowest(p, few, state), "peak_mib": peak_mib()}
    if decided:
        proof = None

        def work() -> None:
            nonlocal proof
            proof = prove(p.space.grids, p, first.default, first.default_ticks, decided * PROOF_ROWS)

        taken = cpu_seconds(work)
        out |= {"decided_a_second": kept / taken if proof is not None and proof.closed else 0.0, "proof_peak_mib": peak_mib()}
    return out


def mean_of(lines: Sequence[Line], name: str) -> float:
    """Return the geometric mean of a figure, of those that have it."""
    values = [row[name] for row in lines if row.get(name)]
    return float(np.exp(np.mean(np.log(values)))) if values else 0.0


def several(words: Sequence[str], machine: Machine) -> Iterator[Case]:
    """Yield the groups of models at their batch sizes, equal ones once."""
    seen = set()
    for word in words:
        name, _, batch = word.partition(":")
        for case in cases([name], int(batch or 1), machine, Clock()):
            key = (case[1], case[2])
            if key not in seen:
                seen.add(key)
                yield f"{word} {case[0]}", case[1], case[2]


def found_apart(words: Sequence[str], target: str) -> list[Case]:
    """Return the groups of models, which another process has imported: so none of their weights are in the memory of this one."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(found, words, target).result()


def found(words: Sequence[str], target: str) -> list[Case]:
    """Return the groups of models."""
    return list(several(words, load(target)))


def said(row: Line) -> str:
    """Return a line for people."""
    more = f", {row['decided_a_second'] / 1e6:,.2f} M/s decided" if row.get("decided_a_second") else ""
    return (f"{row['group'][:56]:56} {'~' if row['about'] else ' '}{row['legal']:>15,} legal: {row['skipped_a_second']:8,.0f}/s, "
            f"with a limit {row['limited_a_second']:8,.0f}/s, {row['ns_an_operation']:5.1f} ns an operation in full, "
            f"slowest {row['slowest_ms']:7.2f} ms, {row['peak_mib']:4.0f} MiB{more}")


def page(lines: Sequence[Line], summary: str, target: str) -> str:
    """Return the text of docs/throughput.md."""
    sets = ", ".join(dict.fromkeys(row["group"].partition(" ")[0] for row in lines))
    head = f"""# How fast candidates are timed

This page says how fast a search can time candidates, for those who work on the machine model or choose a search budget.
`python bench/rates.py --write` makes it again.

The rows are the distinct groups of {sets} (network:batch) on {target}. Of each group some thousands of legal
candidates are timed, drawn evenly from each sketch, those of a sketch in one call. Illegal candidates are not timed and not counted. All
rates are *measured*, per CPU second of one core, with all that a candidate takes: legality, tables, walk.

| column | says |
|---|---|
| with the skip | candidates timed to their end; loops that repeat are skipped exactly |
| with a limit | the same with the default's time as a limit, as a search has it; what is abandoned there takes longer for certain |
| in full | nanoseconds of an instruction or flag operation where every iteration is walked, some million in one call |
| slowest | the worst of the candidates with the most cycles, timed alone |
| decided | legal candidates of a space that a proof decides, in a CPU second |

Other work on the same computer takes caches away. Two such runs differed by 10 to 14 % with four and with eight processes at work on two
cores.

{summary}

| group | legal candidates | of all combinations | with the skip, /s | with a limit, /s | in full, ns | slowest, ms | decided, M/s |
|---|---:|---:|---:|---:|---:|---:|---:|
"""
    rows = [f"| {row['group']} | {'~' if row['about'] else ''}{row['legal']:,} | {row['legal'] / row['space']:.2%} "
            f"| {row['skipped_a_second']:,.0f} | {row['limited_a_second']:,.0f} | {row['ns_an_operation']:.1f} | {row['slowest_ms']:.1f} "
            f"| {format(row['decided_a_second'] / 1e6, ',.2f') if row.get('decided_a_second') else '–'} |" for row in lines]
    return head + "\n".join(rows) + "\n"


def summed_up(lines: Sequence[Line]) -> str:
    """Return the means, and the most memory that was held, in MiB."""
    skipped, limited, ns, decided = (mean_of(lines, name) for name in (
        "skipped_a_second", "limited_a_second", "ns_an_operation", "decided_a_second"))
    count = sum(1 for row in lines if row.get("decided_a_second"))
    which = "all spaces" if count == len(lines) else f"{count} spaces, the others not with this effort"
    tail = f"; decided {which}: {decided / 1e6:,.2f} M candidates/s" if decided else ""
    peak, proofs = (max(row.get(name, 0.0) for row in lines) for name in ("peak_mib", "proof_peak_mib"))
    return (f"Geometric means of {len(lines)} groups, a CPU second of one core: {skipped:,.0f} candidates/s with the skip, {limited:,.0f} "
            f"with a limit, {ns:.1f} ns an operation in full ({1e3 / ns:.0f} million a second){tail}. Cores take rows together: two, by "
            f"CPU seconds of both, {2 * skipped:,.0f} and {2 * limited:,.0f} candidates a second. Slowest candidate "
            f"{max(row['slowest_ms'] for row in lines):.1f} ms. Most memory of a group {peak:.0f} MiB"
            f"{f', {proofs:.0f} in its proof' if decided else ''}; models are imported by another process.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--set", nargs="+", default=list(SET), help="networks of the zoo, ONNX files or operators by name, with :batch")
    parser.add_argument("--rows", type=int, default=12000, help="candidates of a group that are timed, about")
    parser.add_argument("--only", default="", help="groups whose label holds this")
    parser.add_argument("--decided", type=int, default=0, help="tries a proof of each space with the effort of so many trials")
    parser.add_argument("--target", default="Ascend910B1")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--of", nargs="+", default=[], metavar="FILE.json")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    lines = list[Line]()
    for told in (json.loads(Path(name).read_text("utf-8")) for name in args.of):
        lines += told["groups"]
    for case in [] if args.of else found_apart(args.set, args.target):
        if args.only in case[0]:
            lines.append(line(case, load(args.target), args.rows, args.decided))
            print(said(lines[-1]), file=sys.stderr if args.json else sys.stdout, flush=True)
    summary = summed_up(lines)
    print(json.dumps({"groups": lines}, indent=1) if args.json else summary)
    if args.write:
        TABLE.write_text(page(lines, summary, args.target), "utf-8")


if __name__ == "__main__":
    main()
