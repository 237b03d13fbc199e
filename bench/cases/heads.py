"""What passes before a kernel's first load: the machine of a case, by how its kernel comes to know its tiling."""
from __future__ import annotations

from dataclasses import replace

from aoec.target.machine import Machine
from bench.cases.case import Case


def machine_with_head(machine: Machine, case: Case) -> Machine:
    """Return the machine whose cube cores start loading when the vendor's high-level Matmul API does, where a case is of that.

    `runtime` and `constant` are of that API, which reads and checks its tiling before it loads anything; `basic` and rows that say
    nothing have the head of MTE2 that every kernel has. A machine for which the time is not known stays as it is.
    """
    head_us = machine.tiling_runtime_us if "runtime" in case.tile else machine.tiling_constant_us if "constant" in case.tile else None
    if head_us is None or case.family != "matmul" or "aic" not in machine.cores:
        return machine
    aic = machine.cores["aic"]
    heads = (*(h for h in aic.heads if h[0] != "MTE2"), ("MTE2", head_us * machine.clock_mhz, 0.0))
    return replace(machine, cores={**machine.cores, "aic": replace(aic, heads=heads)}, hash=f"{machine.hash}-{head_us}")
