"""Rows of vendor kernels whose schedule is not published: aoec tunes the operator; its best against theirs, and against the bound."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aoec.base.errors import AoecError, UnsupportedError
from aoec.ir.graph import Graph
from aoec.jobs.plan import Task, tasks
from aoec.jobs.tuning import problem, search, start
from aoec.simulate.time import Measure, measure
from aoec.target.machine import Machine
from bench.cases.case import TIME_METRICS, Case
from bench.cases.chips import chip_of, machine_of
from bench.cases.graphs import graph_of
from bench.cases.near import Done, scheduled
from bench.cases.score import Result
from bench.cases.show import line, percent

FAST, SLOW, FULL = 0.6, 1.1, 0.7  # below: is ours too good? above: is ours too slow? the share of the roof from which a vendor runs well
FULL_LOW = 0.8


@dataclass(frozen=True)
class Tuned:
    """The best schedules of a graph's groups: their measures in order, µs with launches, and of the bounds."""

    measures: tuple[Measure, ...]
    time_us: float
    bound_us: float
    bound_by: str


def tune(graph: Graph, machine: Machine, trials: int, done: Done | None = None) -> Tuned:
    """Every AI Core group of a graph scheduled, in the state that an equal run before it leaves; 0 trials: the default schedule.

    Equal tasks are done once, also across calls that share `done`, and what differs in its batch alone starts from what was found.
    """
    found = Done() if done is None else done
    plan = tasks(graph, machine, warm=True)
    if host := [g for g in graph.groups if g.kind == "host"]:
        raise UnsupportedError(f"{len(host)} groups run on the host, such as {', '.join(host[0].nodes)}")
    made = [one(task, machine, trials, found) for task in plan]
    longest = max(made, key=lambda m: m[0].time_us)[0]
    assert longest.verdict is not None
    return Tuned(tuple(m for m, _ in made), sum(m.time_us for m, _ in made), sum(b for _, b in made), longest.verdict.sentence)


def one(task: Task, machine: Machine, trials: int, done: Done) -> tuple[Measure, float]:
    """(measure, bound in µs) of one task."""
    at = task.func_key, f"{machine.hash} {task.state_text} {trials}"
    if at not in done.measures:
        if trials:
            p = problem(task.func, machine, task.state)
            best = search(p, start(p), "genetic", ("trials", trials), 0)
        else:
            p, best = scheduled(task, machine, done)
        done.measures[at] = measure(p.program(best.best), machine, task.state), best.bound_ticks * machine.us_per_tick
    return done.measures[at]


def tuned(case: Case, trials: int) -> Result:
    """The result of a case whose schedule is not known."""
    try:
        if case.metric not in TIME_METRICS:
            raise UnsupportedError(f"{case.metric} is neither a time nor cycles")
        machine = machine_of(case.chip)
        best = tune(graph_of(case, case.family == "elementwise", machine), machine, trials)
    except AoecError as e:
        return Result(case, reason=" ".join(str(e).split()))
    above, theirs = best.time_us / best.bound_us, case.value / best.bound_us
    reason = f"{best.bound_by}; bound {best.bound_us:,.2f} us, modelled {above:.2f} of it, measured {theirs:.2f}"
    return Result(case, best.time_us, best.bound_by.split(":")[0], reason, chip_of(case.chip).remark, bound=best.bound_us)


def guess(r: Result) -> str:
    """What a vendor kernel probably does that takes so much longer than our best: from what its row and the bound tell."""
    assert r.bound is not None
    machine = machine_of(r.case.chip)
    count = next(iter(machine.cores.values())).count
    used = r.case.tile.one("cores", 0)
    if used and used < count:
        return f"runs on {used} of {count} cores"
    if r.case.value < 25 and r.bound < 5:
        return "pays a floor of scalar work and launch that its size does not explain"
    if r.case.family == "conv":
        return "also sums its output for the batch norm" if "bn" in r.case.operator else "a static tiling with small tiles of pixels"
    if r.case.family in ("norm", "reduce"):
        return "several passes over UB by row, with scalar work for each row"
    if r.case.family == "matmul" and r.case.shape.sizes.get("m", 0) <= 256:
        return "runs inside a model, where its weights come from HBM each time; the rule for all rows finds them in L2"
    if r.case.family == "matmul":
        return "a static tiling that reads operands again from HBM"
    return "small tiles, loads and stores one after another"


def text(results: Sequence[Result]) -> str:
    """The table of tuned against vendor kernels, and what stands out of it."""
    told = [r for r in results if r.ratio is not None and r.bound is not None]
    fast = [r for r in told if r.ratio is not None and r.ratio < FAST]
    slow = [r for r in told if r.ratio is not None and r.ratio > SLOW]
    full = [r for r in told if r.bound is not None and r.bound > FULL * r.case.value]
    low = [r for r in told if r.bound is not None and r.modelled is not None and r.modelled < r.bound * (1 - 1e-9)]
    beyond = [r for r in told if r.bound is not None and r.case.value < r.bound]
    lines = [line(r) for r in results]
    good = sum(1 for r in told if r.ratio is not None and r.ratio <= SLOW)
    share = percent(good / len(told) if told else None)
    lines += ["", f"tuned: {len(told)} of {len(results)} rows; modelled / measured <= {SLOW} for {good} = {share}; "
                  f"below the bound: {len(low)}; measured below our bound: {len(beyond)}{_ids(beyond)}"]
    inside = [r for r in full if r.ratio is not None and FULL_LOW <= r.ratio <= SLOW]
    lines += [f"rows that the vendor runs above {FULL:.0%} of the roof: {len(full)}, "
              f"of them {len(inside)} within {FULL_LOW} to {SLOW}{_ids(full)}"]
    lines += ["", f"over {SLOW} (a fault of the model or of the space):" + (" none" if not slow else ""), *[f"  {line(r)}" for r in slow]]
    lines += ["", f"under {FAST} (what the vendor kernel probably does):" + (" none" if not fast else ""),
              *[f"  {r.case.id} {r.ratio:.2f} binds {r.bound_by}: {guess(r)}" for r in fast]]
    return "\n".join(lines) + "\n"


def _ids(results: Sequence[Result]) -> str:
    return f" ({', '.join(f'{r.case.id} {r.ratio:.2f}' for r in results)})" if results else ""
