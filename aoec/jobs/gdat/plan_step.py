"""Planning: a trace, modelled or a user's own, and a system become a plan with its baselines."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aoec.bank.bank import Bank
from aoec.base.errors import CheckError
from aoec.cann.split_strategy import MOST_SEGMENTS
from aoec.collectives import system
from aoec.collectives.system import System
from aoec.ir.training import SCHEMES, Gradient, Scheme, StepTrace
from aoec.jobs.gdat.found import GdatFound
from aoec.jobs.gdat.kept_traces import BANK, find_trace, keep_trace
from aoec.jobs.gdat.model_trace import model_trace
from aoec.jobs.gdat.trace_average import TraceRead
from aoec.jobs.gdat.trace_files import read_trace
from aoec.search.buckets import Limits, Planned, baselines, plan

if TYPE_CHECKING:
    from aoec.jobs.compile.compiled_model import Made
    from aoec.jobs.context import Job
    from aoec.options.compile import TuneOptions
    from aoec.options.gdat import GradientOptions

MOST_PLANNED = 20_000  # gradients: planning takes their number squared, and no known network has so many parameters


TRIAL = StepTrace((Gradient("a", 1 << 20, 1.0), Gradient("b", 1 << 20, 2.0)), 1.0, 2.0, 1.0, "modelled")  # to try costs and limits on


def check_options(options: Any, alone: bool) -> None:
    """Raise CheckError where options say too little, or ask for what gradient tuning cannot do. `alone`: no other job of the run needs a
    model."""
    costs = read_system(options)
    if options.trace not in (None, BANK) and alone and options.model:
        raise CheckError(f"--trace {options.trace} says what a model would: leave {options.model} out, or tune it too: --job opat,gdat")
    if options.trace in (None, BANK) and (not options.model or options.training is None):
        raise CheckError("--job gdat needs a model with --loss (mse, cross_entropy or the name of an output), or --trace FILE")
    if options.dynamic_batch or options.dynamic_dims:
        raise CheckError("a training step has one shape: --dynamic-batch and --dynamic-dims are not for --job gdat")
    if not options.model:
        return
    if options.trace == "-":
        raise CheckError("--trace - is read when the model is tuned, which may take hours: give a file")
    if options.trace not in (None, BANK):
        read_trace(str(options.trace))  # what is wrong with it, or with the system, is said before hours of tuning, not after
    plan_trace(TraceRead(TRIAL, ()), costs, options, "trial", "", None)


def plan_model(models: Sequence[Made], job: Job) -> GdatFound:
    """Return the plan of a compiled training graph, or of the user's own trace where the options name one."""
    options: Any = job.options
    made = models[0]
    if options.trace is None or options.trace == BANK:
        modelled = model_trace(made, job.machine)
        read = find_trace(job.bank, modelled, job.machine.name) if options.trace == BANK else TraceRead(modelled, ())
    else:
        read = read_and_keep(options, job.bank, job.machine.name)
    return plan_trace(read, read_system(options), options, made.model.name, job.machine.name, batch_of(made))


def batch_of(made: Made) -> int | None:
    """Return the first dimension of the model's first input. Return None where there is none."""
    shapes = [p.shape for p in made.model.inputs if p.shape]
    return shapes[0][0] if shapes else None


def read_system(options: GradientOptions) -> System:
    """Return the system that options name."""
    if options.hccl_test is not None:
        from aoec.base.files.files import read_text
        from aoec.collectives import hccl_test
        return hccl_test.read(read_text(options.hccl_test), str(options.hccl_test))
    return load_system(options)


def load_system(options: GradientOptions) -> System:
    """Return the system of --system. Raise CheckError where there is none of that name."""
    options.check_system(", ".join(system.names()))
    return system.load(str(options.system))


def plan_trace(read: TraceRead, costs: System, options: GradientOptions, name: str, target: str, batch: int | None) -> GdatFound:
    """Return the plan of a trace. Raise CheckError where it has too many gradients to be planned."""
    trace = read.trace
    if len(trace.gradients) > MOST_PLANNED:
        raise CheckError(f"the trace has {len(trace.gradients):,} gradients, and at most {MOST_PLANNED:,} are planned; "
                         "leave small ones out, or join those that are ready together")
    limits = Limits(options.max_buckets, options.max_bucket_size, channels=options.channels)
    whole = plan(trace, costs, limits)
    segments = whole
    if len(whole.plan.ends) > MOST_SEGMENTS:
        segments = plan(trace, costs, replace(limits, most_segments=MOST_SEGMENTS, most_bytes=None))
    asked = {"scheme": options.scheme, "max_buckets": options.max_buckets, "max_bucket_bytes": options.max_bucket_size,
             "channels": options.channels}
    return GdatFound(name, target, batch, trace, choose(trace, costs, limits, options.scheme, whole), whole, segments,
                     baselines(trace, costs), costs, asked, read.notices)


def choose(trace: StepTrace, costs: System, limits: Limits, scheme: str, by_all_reduce: Planned) -> Planned:
    """Return the plan of a scheme; of "auto" that of the shortest step, the simplest scheme among equals."""
    schemes: list[Scheme] = [s for s in SCHEMES if scheme in (s, "auto")]
    found = [by_all_reduce if s == "all_reduce" else plan(trace, costs, replace(limits, scheme=s)) for s in schemes]
    return min(found, key=lambda p: p.timeline.step_us)


def read_and_keep(options: TuneOptions, bank: Bank, target: str) -> TraceRead:
    """Return the trace of a file, which the bank keeps where it was measured."""
    read = read_trace(str(options.trace))
    said = keep_trace(bank, read.trace, target, Path(str(options.trace)).name)
    return TraceRead(read.trace, (*read.notices, *([said] if said else [])))


def plan_file(options: TuneOptions, target: str) -> GdatFound:
    """Return the plan of the trace file that options name."""
    read = read_and_keep(options, Bank.open(options.bank_path), target)
    name = "trace" if str(options.trace) == "-" else Path(str(options.trace)).stem
    return plan_trace(read, read_system(options), options, name, target, None)
