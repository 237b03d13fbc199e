"""`op_summary.csv`: a row for each task of one inference, with the column names of msprof's file of that name and `source` behind them.

Columns and their order are those of the msprof guide ("op_summary"). Chips whose cores hold both cube and vector units have one family of
metrics (`mac_time(us)`). The others have one for cube cores (`aic_mac_time(us)`) and one for vector cores (`aiv_vec_time(us)`). As the
guide defines them, total cycles are over all cores of the kind, and time = total cycles / clock / cores. A pipe's ratio is its share of
that time, on the core that ends last. What is not modelled is N/A.
"""
from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

NOT = "N/A"  # msprof's word for what there is none of
HEAD = ("Device_id", "Model Name", "Model ID", "Task ID", "Stream ID", "Op Name", "OP Type", "OP State", "Task Type", "Task Start Time(us)",
        "Task Duration(us)", "Task Wait Time(us)", "Block Dim", "Mix Block Dim", "HF32 Eligible", "Input Shapes", "Input Data Types",
        "Input Formats", "Output Shapes", "Output Data Types", "Output Formats", "Context ID")
PIPES = {"M": "mac", "V": "vec", "S": "scalar", "MTE1": "mte1", "MTE2": "mte2", "MTE3": "mte3", "FIXP": "fixpipe"}
# by kind of core: prefix of its metrics, name of its time, its pipes
SPLIT = {"aic": ("aic_", "aicore_time(us)", ("M", "S", "MTE1", "MTE2", "FIXP")),
         "aiv": ("aiv_", "aiv_time(us)", ("V", "S", "MTE2", "MTE3"))}
WHOLE = {"core": ("", "aicore_time(us)", ("V", "M", "S", "MTE1", "MTE2", "MTE3"))}
FORMATS = {"NZ": "FRACTAL_NZ", "ZN": "FRACTAL_Z"}  # the others are called as here
TYPES = {"fp32": "FLOAT", "fp16": "FLOAT16", "bf16": "DT_BF16"}


@dataclass(frozen=True)
class Operand:
    """A tensor as it lies in GM: `shape` is the stored one, without dimensions for what has none that is known."""

    shape: tuple[int, ...]
    dtype: str
    layout: str


@dataclass(frozen=True)
class Part:
    """What runs on one kind of core: on how many of them, for how long, and busy cycles by pipe of the one that ends last."""

    cores: int
    cycles: float
    busy: Mapping[str, float]


@dataclass(frozen=True)
class Launch:
    """A task. Times in µs from the beginning of the inference, modelled; `parts` by kind of core (aic, aiv, core), none on the host."""

    name: str
    types: tuple[str, ...]
    start_us: float
    duration_us: float
    wait_us: float
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    parts: Mapping[str, Part] = field(default_factory=dict)


def csv_text(model: str, launches: Sequence[Launch], clock_mhz: float, split: bool) -> str:
    """Return the file; `split`: of a chip that has cube cores and vector cores."""
    kinds, out = SPLIT if split else WHOLE, io.StringIO()
    columns = [*HEAD, *(name for kind in kinds for name in metrics(kind, kinds, None, clock_mhz)), "source"]
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    for number, launch in enumerate(launches):
        row = head(model, number, launch)
        for kind in kinds:
            row |= metrics(kind, kinds, launch.parts.get(kind), clock_mhz)
        writer.writerow(row | {"source": "modelled"})
    return out.getvalue()


def head(model: str, number: int, launch: Launch) -> dict[str, str]:
    """Return the cells of a row before its metrics. For a mix of both kinds, Block Dim is that of cube cores, and Mix Block Dim that of
    vector cores."""
    cores = [part.cores for part in launch.parts.values()]
    said = (NOT, model, NOT, str(number), NOT, launch.name, "+".join(launch.types), "static", task_type(launch), figure(launch.start_us),
            figure(launch.duration_us), figure(launch.wait_us), str(cores[0] if cores else 0), str(cores[1] if len(cores) > 1 else 0), "NO",
            *operands(launch.inputs), *operands(launch.outputs), NOT)
    return dict(zip(HEAD, said, strict=True))


def task_type(launch: Launch) -> str:
    """Return msprof's word for where a task runs."""
    if not launch.parts:
        return "AI_CPU"
    return "MIX_AIC" if len(launch.parts) > 1 else "AI_VECTOR_CORE" if "aiv" in launch.parts else "AI_CORE"


def operands(listed: Sequence[Operand]) -> tuple[str, str, str]:
    """Return shapes, data types and formats, as msprof writes those of several tensors."""
    return (f'"{";".join(",".join(map(str, o.shape)) for o in listed)}"', ";".join(TYPES.get(o.dtype, o.dtype.upper()) for o in listed),
            ";".join(FORMATS.get(o.layout, o.layout) for o in listed))


def metrics(kind: str, kinds: Mapping[str, tuple[str, str, tuple[str, ...]]], part: Part | None, clock_mhz: float) -> dict[str, str]:
    """Return column -> figure of one kind of core; zeros where a task does not use it."""
    prefix, time, pipes = kinds[kind]
    cycles, busy = (part.cycles, part.busy) if part else (0.0, {})
    out = {time: figure(cycles / clock_mhz), f"{prefix}total_cycles": str(round(cycles * part.cores)) if part else "0"}
    for pipe in pipes:
        spent = busy.get(pipe, 0.0)
        known = pipe != "S" or part is None  # the scalar unit's own time is not kept
        out[f"{prefix}{PIPES[pipe]}_time(us)"] = figure(spent / clock_mhz) if known else NOT
        out[f"{prefix}{PIPES[pipe]}_ratio"] = figure(spent / cycles if cycles else 0.0) if known else NOT
    return out | {f"{prefix}icache_miss_rate": NOT if part else "0"}


def figure(value: float) -> str:
    """Return a number to six decimals (of µs: picoseconds), without what is not needed of them."""
    return f"{round(value, 6):.6f}".rstrip("0").rstrip(".") or "0"
