"""Rows of vendor kernels whose schedule is not published: aoec tunes the operator; its best against theirs, and against the bound."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from aoec.base.errors import AoecError, UnsupportedError
from aoec.ir.graph.graph import Graph
from aoec.ir.text.show import show
from aoec.jobs.choose.model_tasks import Task, Walk, tasks
from aoec.jobs.tune.tuning import problem, search, start
from aoec.simulate.timing.state import CLEARED, NAMED
from aoec.simulate.timing.time import Measure, measure
from aoec.target.machine import Machine
from bench.cases.case import TIME_METRICS, Case
from bench.cases.chips import chip_of, machine_of
from bench.cases.graphs import graph_of
from bench.cases.kernels import REMARKS
from bench.cases.near import Done, scheduled
from bench.cases.profilers import profiler_of
from bench.cases.score import Result
from bench.cases.show import line, percent

FAST, SLOW, FULL = 0.6, 1.1, 0.7  # below: is ours too good? above: is ours too slow? the share of the roof from which a vendor runs well
FULL_LOW = 0.8
WEIGHTS = {"matmul": 1, "gather": 0}  # the operand that a model holds, where it is no batch of matrices


@dataclass(frozen=True)
class Tuned:
    """The best schedules of a graph's groups: their measures and bounds in µs in order, µs with launches, and what the longest hangs on."""

    measures: tuple[Measure, ...]
    time_us: float
    bounds_us: tuple[float, ...]
    bound_by: str

    @property
    def bound_us(self) -> float:
        return sum(self.bounds_us)


def tune(graph: Graph, machine: Machine, trials: int, done: Done | None = None, before: str = "previous") -> Tuned:
    """Return every AI Core group of a graph scheduled, in the state that what ran `before` leaves; 0 trials: the default schedule.

    Equal tasks are done once, also across calls that share `done`, and what differs in its batch alone starts from what was found.
    """
    found = Done() if done is None else done
    todo = plan(graph, machine, before)
    if host := [g for g in graph.groups if g.kind == "host"]:
        raise UnsupportedError(f"{len(host)} groups run on the host, such as {', '.join(host[0].nodes)}")
    made = [one(task, machine, trials, found) for task in todo]
    longest = max(made, key=lambda m: m[0].time_us)[0]
    assert longest.verdict is not None
    return Tuned(tuple(m for m, _ in made), sum(m.time_us for m, _ in made), tuple(b for _, b in made), longest.verdict.sentence)


def plan(graph: Graph, machine: Machine, before: str) -> list[Task]:
    """Return the tasks of a graph after an equal run (previous), another model (cold), with L2 cleared, or as part of a model.

    As part of a model what it works on has just been made, the first of it last, as far as L2 holds it; its weights and tables were last
    read a run of the model ago.
    """
    if before != "model":
        found = tasks(graph, machine, warm=before != "cold")
        return [replace(t, state=CLEARED) for t in found] if before == "cleared" else found
    walk, of = Walk(graph, machine, {}, {}), {t.name: t for t in graph.tensors}
    held = {n.inputs[WEIGHTS[n.op]] for n in graph.nodes if n.op in WEIGHTS}
    walk.touch([of[name] for name in reversed(graph.inputs) if name not in held or len(of[name].shape) > 2])
    return walk.run()


def before_of(case: Case, state: str) -> str:
    """Return what ran before a case's launches: by its profiler, unless a named state is asked for."""
    return state if state in NAMED else {"msopprof": "cleared", "model": "model"}.get(profiler_of(case), "previous")


def one(task: Task, machine: Machine, trials: int, done: Done) -> tuple[Measure, float]:
    """Return (measure, bound in µs) of one task."""
    at = done.at(task, machine, trials)
    if at not in done.measures:
        if trials:
            p = problem(task.func, machine, task.state)
            best = search(p, start(p), "genetic", ("trials", trials), 0)
        else:
            p, best = scheduled(task, machine, done)
        done.measures[at] = measure(p.program(best.best), machine, task.state), best.bound_ticks * machine.us_per_tick
        done.traces[at] = show(p.trace(best.best))
    return done.measures[at]


def tuned(case: Case, trials: int, state: str = "") -> Result:
    """Return the result of a case whose schedule is not known, in a named state of L2 if one is given."""
    try:
        if case.metric not in TIME_METRICS:
            raise UnsupportedError(f"{case.metric} is neither a time nor cycles")
        machine = machine_of(case.chip)
        graph = graph_of(case, case.family == "elementwise", machine)
        best = tune(graph, machine, trials, before=before_of(case, state))
    except AoecError as e:
        return Result(case, reason=" ".join(str(e).split()))
    bound = max(best.bounds_us)  # of what are several programs of ours another may make one
    reason = f"{best.bound_by}; bound {bound:,.2f} us, modelled {best.time_us / bound:.2f} of it, measured {case.value / bound:.2f}"
    remark = "; ".join(r for r in (chip_of(case.chip).remark, REMARKS.get(case.operator, "")) if r)
    return Result(case, best.time_us, best.bound_by.split(":")[0], reason, remark, bound=bound)


def guess(r: Result) -> str:
    """Return what a vendor kernel probably does that takes so much longer than our best: from what its row and the bound tell."""
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
        return "loads its weights in rows of 128 bytes, which leave HBM at 1.07 TB/s where longer ones reach 1.4 (asc-devkit DataCopy)"
    if r.case.family == "matmul":
        return "a static tiling that reads operands again from HBM"
    return "small tiles, loads and stores one after another"


def text(results: Sequence[Result]) -> str:
    """Return the table of tuned against vendor kernels, and what stands out of it."""
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
