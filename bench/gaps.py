"""Groups whose time is far above their bound, each with a reason that its measure gives: none is guessed.

| reason | says |
|---|---|
| launch | what is left without the launch is within the limit too, or is shorter than the launch |
| short pipeline | no core loads more than a few tiles, and no pipe is busy for most of the run: latencies follow each other |
| looser bound | a pipe is busy for most of the run, with instructions of a good size: the bound counts less work than that |
| structure | none of these: pieces are too small for their path, or pipes wait for each other in long loops |
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from aoec.base.errors import AoecError
from aoec.frontend.translate.onnx import load
from aoec.jobs.choose.model_tasks import tasks
from aoec.jobs.tune.tuning import Problem, problem, search, start
from aoec.lowering.arrange.fuse import fuse
from aoec.search.proof.bounds import Bound
from aoec.simulate.reasons.reasons import Reasons, Work
from aoec.simulate.reasons.verdict import path_rate
from aoec.simulate.timing.time import Measure, measure
from aoec.target.machine import Machine
from bench.groups import Case
from bench.nodes import model_of, tests

FAR = 3.0  # times its bound
HELD = 0.8  # share of the run from which on a pipe binds, as in verdict.py
FEW_TILES = 4  # of a core: with fewer, most of the loads, the work and the stores do not overlap
SLOW_PATH = 0.6  # of a path's rate: below it, transfers are too small or too ragged
SHORT = 16.0  # cycles of an instruction of the vector or cube unit: about what it takes without any work


@dataclass(frozen=True)
class Gap:
    """A group whose time is above FAR times its bound: modelled times, a reason of the list above, and the figures that it follows from."""

    what: str
    us: float
    bound_us: float
    launch_us: float
    reason: str
    figures: str

    def line(self) -> str:
        """Return the whole gap in a line."""
        return f"{self.what[:60]:60} {self.us:10.2f} {self.bound_us:8.2f} {self.us / self.bound_us:6.1f}   {self.reason:15} {self.figures}"


def operator_cases(pattern: str, machine: Machine) -> Iterator[Case]:
    """Yield the groups of ONNX's tests of operators whose names contain a pattern, those that compile, each once."""
    seen: set[tuple[str, str]] = set()
    for test in tests(pattern):
        try:
            graph, weights, _ = load(model_of(test))
            found = tasks(fuse(graph, weights, machine)[0], machine)
        except AoecError:
            continue
        for task in found:
            if (task.func_key, task.state_text) not in seen:
                seen.add((task.func_key, task.state_text))
                yield task.label, task.func, task.state


def gap_of(case: Case, machine: Machine, trials: int) -> Gap | None:
    """Return the gap of a group, with the default schedule or the best of so many trials. Return None where its time is near its bound, or
    where it has no schedule."""
    what, func, state = case
    try:
        p = problem(func, machine, state)
        found = start(p)
    except AoecError:
        return None
    bound = p.bound()
    if found.default_ticks > FAR * bound.ticks and trials:
        found = search(p, found, "portfolio", ("trials", trials), 0)
    return None if found.ticks <= FAR * bound.ticks else explained(what, p, measure(p.program(found.best), machine, state), bound)


def explained(what: str, p: Problem, m: Measure, bound: Bound) -> Gap:
    """Return the gap of a measured program, with its reason."""
    assert m.reasons is not None
    clock = p.machine.clock_mhz
    reason, figures = why(m, m.reasons, (bound.cycles - bound.launch_cycles) / clock, p.machine)
    return Gap(what, m.time_us, bound.cycles / clock, m.launch_us, reason, figures)


def why(m: Measure, r: Reasons, bound_us: float, machine: Machine) -> tuple[str, str]:
    """Return (reason, the figures that it follows from) of a measure; `bound_us`: the bound without its launch."""
    if m.run_us <= FAR * bound_us or m.launch_us >= m.run_us:
        return "launch", f"launch {m.launch_us:.2f} us on {m.cores} cores; without it {m.run_us:.2f} us of {bound_us:.2f}"
    pipe = max(r.accounts, key=lambda name: r.accounts[name].held_share)
    share, count, each = r.accounts[pipe].held_share, *instructions(r, pipe)
    busy = f"{pipe} busy {100 * share:.0f} % of {m.run_us:.2f} us" + (f", {count:,} instructions of {each:,.1f} cycles" if count else "")
    loads = max((w.times for w in r.work if w.gm_bytes and w.pipe.endswith("MTE2")), default=0)
    if share < HELD:
        kind = "short pipeline" if loads < FEW_TILES else "structure"
        return kind, f"{loads:,} loads a core; {busy}"
    slow = [w for w in r.work if w.pipe == pipe and is_slow(w, r, machine)]
    if sum(w.cycles for w in slow) > (1 - HELD) * r.accounts[pipe].total:
        return "structure", f"{busy}, {slow[0].op} with pieces too small: {slow[0].shape}"
    return "looser bound", busy


def instructions(r: Reasons, pipe: str) -> tuple[int, float]:
    """Return (how many instructions a pipe runs, the cycles of one in the mean)."""
    own = [w for w in r.work if w.pipe == pipe]
    count = sum(w.times for w in own)
    return count, sum(w.cycles for w in own) / max(count, 1)


def is_slow(w: Work, r: Reasons, machine: Machine) -> bool:
    """Return whether an instruction does much less than its pipe could: transfers by their path's rate, others by their length."""
    if not w.gm_bytes:
        return w.cycles < SHORT * w.times
    account = r.accounts[w.pipe]
    peak = path_rate(w, r, machine) or min(machine.paths[path].bytes_per_cycle for path in ("gm_ub", "ub_gm"))  # where data say from where
    alone = w.cycles * account.busy / max(account.busy + account.memory, 1e-9)
    return w.gm_bytes * w.times / max(alone, 1e-9) < SLOW_PATH * peak
