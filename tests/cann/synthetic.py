"""Profiles as a device would write them that is another machine: programs timed on a machine file whose numbers are off."""
from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from functools import lru_cache
from io import StringIO
from math import exp, prod

import numpy as np

from aoec.cann.op_summary import FORMATS, TYPES
from aoec.ir.index import evaluate
from aoec.ir.program import Program
from aoec.jobs.bank.row_funcs import operand
from aoec.jobs.calibrate.calibrate import default_of
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.made import emit_trace
from aoec.simulate.timing.state import PREVIOUS_LAUNCH
from aoec.simulate.timing.time import measure
from aoec.target.machine import Machine, load, parse_machine

HEAD = ["Op Name", "OP Type", "Task Type", "Task Duration(us)", "Block Dim", "Mix Block Dim", "Input Shapes", "Input Data Types",
        "Input Formats", "Output Shapes", "Output Data Types", "Output Formats", "aicore_time(us)", "aiv_time(us)"]
NAMES = {"matmul": "MatMulV3", "conv2d": "Conv2D", "add": "Add", "relu": "Relu", "softmax": "SoftmaxV2", "layer_norm": "LayerNormV3",
         "gelu": "GeluV2", "silu": "Swish"}


def other(target: str, off: Mapping[str, float]) -> Machine:
    """The machine with numbers times e^x, by a file that says so."""
    known = load(target).sources
    text = "".join(f'{place} = {{value = {float(known[place].value * exp(x))!r}, source = "a test", confidence = "measured"}}\n'
                   for place, x in off.items())
    return parse_machine(f'extends = "{target}"\n{text}', "other.toml")


@lru_cache(maxsize=256)
def program(call: str, target: str) -> Program:
    """The default schedule's program of an operator."""
    func, machine = lower_operator(call), load(target)
    return emit_trace(func, default_of(func, machine, PREVIOUS_LAUNCH), machine)[1]


def profile(calls: Sequence[str], target: str, off: Mapping[str, float], noise: float = 0.0, seed: int = 0, repeats: int = 1) -> str:
    """The file; `noise`: standard deviation of the logarithm of each time."""
    machine, draw, out = other(target, off), np.random.default_rng(seed), StringIO()
    writer = csv.writer(out)
    writer.writerow(HEAD)
    for i, call in enumerate(calls * repeats):
        func, made = lower_operator(call), program(call, target)
        m = measure(made, machine, PREVIOUS_LAUNCH)
        cores = [prod(evaluate(extent, {}) for _, extent in s.grid) for s in made.streams]
        off_by = exp(draw.normal(0, noise)) if noise else 1.0
        run = f"{m.run_us * off_by:.6f}"
        name, cube = call.partition("(")[0], made.streams[0].core != "aiv"
        writer.writerow([f"{name}_{i}", NAMES[name], "AI_CORE" if cube else "AI_VECTOR_CORE", f"{m.time_us * off_by:.6f}", cores[0], 0,
                         *sides(func.inputs), *sides(func.outputs), *((run, "0") if cube else ("0", run))])
    return out.getvalue()


def sides(buffers: Sequence[object]) -> tuple[str, str, str]:
    """Shapes, types and formats of tensors."""
    found = [operand(b) for b in buffers]  # type: ignore[arg-type]
    return (f'"{";".join(",".join(map(str, o.shape)) for o in found)}"', ";".join(TYPES.get(o.dtype, o.dtype.upper()) for o in found),
            ";".join(FORMATS.get(o.layout, o.layout) for o in found))
