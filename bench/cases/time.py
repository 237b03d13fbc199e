"""Case -> result: builds the program, times it in the memory state that its launches found, and takes what the metric is about."""
from __future__ import annotations

from pathlib import Path

from aoec.base.errors import AoecError, UnsupportedError
from aoec.ir.index import DTYPES
from aoec.ir.program import Program
from aoec.simulate.timing.state import PREVIOUS_LAUNCH, State
from aoec.simulate.timing.time import Measure, measure
from aoec.target.machine import Machine
from bench.cases.build import build, unchanged
from bench.cases.case import TIME_METRICS, Case
from bench.cases.chips import chip_of, machine_of
from bench.cases.heads import machine_with_head
from bench.cases.profilers import state_of
from bench.cases.score import Result

PIPES = {"mac_time": "M", "mte1_time": "MTE1", "mte2_time": "MTE2", "mte3_time": "MTE3", "fixpipe_time": "FIXP", "vec_time": "V",
         "scalar_time": "S"}


def modelled(case: Case, folder: Path = Path(), state: State | None = None) -> Result:
    """Return the result of a case, in the state that its profiler leaves unless another is given; one that cannot be expressed has the
    reason."""
    found = state_of(case) if state is None else state
    try:
        machine = machine_with_head(machine_of(case.chip), case)
        program = build(case, machine, folder)
        told = measure(program, machine, found)
        value = of_metric(case, told, program, machine)
        warm = value if found == PREVIOUS_LAUNCH else of_metric(case, measure(program, machine, PREVIOUS_LAUNCH), program, machine)
    except AoecError as e:
        return Result(case, reason=" ".join(str(e).split()))
    assert told.reasons is not None and told.verdict is not None
    busy = {k: a.mean_busy / machine.clock_mhz for k, a in told.reasons.accounts.items()}
    remark = "; ".join(r for r in (chip_of(case.chip).remark, unchanged(case)) if r)
    return Result(case, value, told.verdict.resource, reason_of(told, machine), remark, parts_us=busy, unit=unit_of(case),
                  warm=warm)


def unit_of(case: Case) -> str:
    return "us" if case.metric in TIME_METRICS and case.metric != "cycles" else case.metric


def of_metric(case: Case, told: Measure, program: Program, machine: Machine) -> float:
    """Return the modelled value of the case's metric: of pipes and cores as profilers mean over the cores."""
    reasons = told.reasons
    assert reasons is not None
    if case.metric in PIPES:
        held = [a.mean_busy for name, a in reasons.accounts.items() if name.rpartition(".")[2] == PIPES[case.metric]]
        return sum(held) / machine.clock_mhz
    if case.metric == "core_time":
        return told.run_us / reasons.imbalance
    if case.metric == "max_core_time":
        return told.run_us
    if case.metric == "cycles":
        return told.cycles
    if case.metric == "bandwidth":
        return sum(bytes_of(program)) / told.time_us / 1e3
    if case.metric == "time":
        return told.time_us
    raise UnsupportedError(f"nothing that is modelled can be compared with {case.metric}")


def bytes_of(program: Program) -> list[int]:
    """Return bytes of each tensor."""
    sizes = []
    for t in program.tensors:
        n = DTYPES[t.dtype]
        for e in t.shape:
            n *= getattr(e, "value", 1)
        sizes.append(n)
    return sizes


def reason_of(told: Measure, machine: Machine) -> str:
    """Return where the time goes, in a line: what binds, the pipes' mean times, launch, bytes by memory."""
    assert told.reasons is not None and told.verdict is not None
    pipes = sorted(((n, a.mean_busy / machine.clock_mhz) for n, a in told.reasons.accounts.items()), key=lambda p: -p[1])[:4]
    shares = " ".join(f"{p}={us:,.2f}" for p, us in pipes)
    return (f"{told.verdict.sentence}; mean us: {shares} launch={told.launch_us:.2f}; HBM {told.hbm_bytes / 1e6:,.1f} MB, "
            f"L2 {told.l2_bytes / 1e6:,.1f} MB; {told.cores} cores, slowest/mean {told.reasons.imbalance:.2f}")
