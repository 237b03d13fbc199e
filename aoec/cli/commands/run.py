"""`aoec run`: a compiled model, a func or a program on data."""
from __future__ import annotations

from aoec.base.errors import CheckError
from aoec.cli.command import Command
from aoec.options.func import RunOptions


def run(options: RunOptions) -> int:
    """Runs it and prints its modelled time, and on a device what is measured there."""
    program = options.model.endswith(".prog")
    if options.device is None and (options.check or options.limit is not None or options.runs != 1):
        raise CheckError("--check, --limit and --runs are of a run on a device: give --on npu")
    if options.device is not None and (program or options.model.endswith(".tir")):
        raise CheckError("--on npu runs a compiled model (MODEL.aoec); a program is run and timed there by aoec simulate G.prog --on npu",
                         source=options.model)
    if program and not options.func:
        raise CheckError("a program does not say what it should calculate: give its func, --func G.tir", source=options.model)
    if options.func and (not program or options.trace):
        raise CheckError("--func is the func of a program (G.prog), which is scheduled already; a func of its own is run as aoec run G.tir")
    if program or options.model.endswith(".tir"):
        from aoec.jobs.run.run_func import run_func
        return run_func(options)
    if options.trace or options.target:
        raise CheckError("--with and --target are of a func (G.tir); a compiled model has its schedules and its machine")
    if options.device is not None:
        from aoec.jobs.npu.run_on import run_on_device
        return run_on_device(options)
    from aoec.jobs.run.run import run_artifact
    return run_artifact(options)


COMMAND = Command("run", "run a compiled model, a func or a program, and print its modelled time", RunOptions, run, "deploy", 170,
                  "aoec run model.aoec --random -o out.npz")
