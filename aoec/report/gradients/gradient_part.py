"""The part of a delivery that is of gradient tuning: its figures, its lines of the table, and how to apply each file."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aoec.base.text import clip_name, plural

FOLDER = "gradients"
TENSORFLOW, MINDSPORE, DDP = ("AOE, by index", "AOE, by size"), "MindSpore", "PyTorch DDP"  # names of lines in the result file


@dataclass(frozen=True)
class GradientPart:
    """What gradient tuning found, out of its result file. Times in µs, sizes in bytes. `times`: what is modelled and what measured, in
    words. `before`: whose plan the step is held against. `lines`: to copy, by what takes it. `files`: name -> what it is."""

    name: str
    system: str
    ranks: int
    times: str
    gradients: int
    size: int
    before: str
    before_us: float
    step_us: float
    buckets: int
    scheme: str
    lines: Mapping[str, str]
    files: Mapping[str, str]
    notes: tuple[str, ...] = ()

    @property
    def change(self) -> float:
        """Return the share by which the step is longer than before. It is below zero where the step is shorter."""
        return (self.step_us - self.before_us) / self.before_us if self.before_us else 0.0


def facts(p: GradientPart) -> dict[str, Any]:
    """Return the part as a program reads it."""
    return {"model": p.name, "system": p.system, "ranks": p.ranks, "times": p.times, "gradients": p.gradients, "bytes": p.size,
            "before": p.before, "before_us": p.before_us, "step_us": p.step_us, "buckets": p.buckets, "scheme": p.scheme,
            "lines": dict(p.lines), "notes": list(p.notes)}


def totals(p: GradientPart) -> list[str]:
    """Return the result of the plan in a line."""
    return [f"gradients of {clip_name(p.name)} on {clip_name(p.system)}, {plural(p.ranks, 'rank')}: a step {p.before_us / 1000:,.3f} -> "
            f"{p.step_us / 1000:,.3f} ms ({p.change:+.1%}) against {p.before}, with {plural(p.buckets, 'bucket')}; {p.times}"]


def apply(p: GradientPart) -> list[str]:
    """Return the section of APPLY.md: each format, where it goes, what to measure, and how to undo it."""
    out = ["## Gradients", "Each of these says the same plan to another framework. Take the one that you train with. Indices count "
           "gradients in the order in which the backward pass makes them. Whether your framework counts alike is not tried by us: print "
           "its buckets first."]
    if listed := [p.lines[name] for name in TENSORFLOW if name in p.lines]:
        out += ["### TensorFlow with CANN's adapter", _block("python", "from hccl.split.api import set_split_strategy_by_idx, "
                                                            "set_split_strategy_by_size", "# one of the two:", *listed),
                "Call it when HCCL is up, and before the optimiser makes its all-reduces. Communication runs beside compute only with "
                "`hcom_parallel=True`. A strategy has at most 8 segments. Undo: leave the call out; HCCL then splits 96.54 % and 3.46 %."]
    if MINDSPORE in p.lines:
        out += ["### MindSpore", _block("python", "import mindspore", p.lines[MINDSPORE]),
                "Call it before the network is built, in data parallel mode. Undo: leave the argument out."]
    if DDP in p.lines:
        hook = f"`{FOLDER}/ddp_hook.py`" if f"{FOLDER}/ddp_hook.py" in p.files else "a hook of your own (`register_comm_hook`)"
        out += ["### PyTorch DDP", _block("python", f"network = DistributedDataParallel(network, {p.lines[DDP]})"),
                f"A torch without `bucket_cap_mb_list` needs {hook}. DDP takes the buckets from its second iteration on, in the order in "
                "which gradients were ready in the first. Undo: leave the argument out; DDP then makes buckets of 1 MiB and 25 MiB."]
    out += ["### Measure", "Take the mean of 20 steps or more behind ten that are not counted, before and after, on all ranks, with the "
            "same batch. Send back both times, the version of CANN, the output of hccl_test on your system, and `deliver.json`."]
    return out


def _block(language: str, *lines: str) -> str:
    return "\n".join([f"```{language}", *(_plain(line) for line in lines), "```"])


def _plain(line: str) -> str:
    """Return a line of code without what would end its block or hide in it."""
    return "".join(c if c.isprintable() and c != "`" else "?" for c in line)
