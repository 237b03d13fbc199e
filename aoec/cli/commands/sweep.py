"""`aoec sweep`: schedules timed over ranges of sizes, holes and machines."""
from __future__ import annotations

from aoec.cli.command import Command
from aoec.cli.kernels import ready_kernels
from aoec.options.func import SweepOptions


def run(options: SweepOptions) -> int:
    """Times all combinations."""
    from aoec.jobs.sweep.sweep import sweep
    ready_kernels()
    return sweep(options)


COMMAND = Command("sweep", "time schedules over ranges of sizes, holes and machines", SweepOptions, run, "sweep", 295,
                  'aoec sweep g.tir --with a.sched --with b.sched --set "m=128..8192*2" -o out.csv --plot out.svg')
