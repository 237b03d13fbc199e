"""The results of a job as the folder that public tutorials of AOE show: `summary.json`, `op_tuning/` with a file for each operator, and
`profiling/before_tuning` and `after_tuning` (cann/op_summary.py). No release of AOE writes it, so what its files say is aoec's own
(`schemas/`). Before is a build with the bank as it was when the job began, as
the model's baseline is. All times are modelled. What operators' files say of schedules is
what a bank's records say, so that a later compile can take them from here (`--base`)."""
from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from aoec.base.errors import CheckError
from aoec.base.files.files import read_json
from aoec.report.results.opat import Policy, Tuning, improvement, plain, status, summary

BEFORE, AFTER = "before_tuning", "after_tuning"
COMPILED = "compiled_model.json"
FOLDER = "tuning_results_"  # and when it began: their names sort by time
OPERATORS = "op_tuning"
MOST_OPERATORS = 20_000
NAME_LIMIT = 60  # of an operator's name in that of its file: exporters nest names without end


@dataclass(frozen=True)
class Operator:
    """What became of one operator and how it is scheduled; `key` and `ticks` are what the bank keeps of it, schedules are texts,
    `candidates` says how many ended how, `spent` what looked at them (jobs/tune/budget.py), `us_per_tick` is the machine's."""

    policy: Policy
    nodes: tuple[str, ...]
    target: str
    key: Mapping[str, str]
    ticks: Mapping[str, int]
    us_per_tick: float
    default_schedule: str
    schedule: str
    proof: str
    candidates: Mapping[str, int]
    spent: Mapping[str, Any]


def file_of(number: int, name: str) -> str:
    """Return where the n-th operator is, below the folder: node names may hold anything, file names may not."""
    return f"{OPERATORS}/{number:03d}_{re.sub(r'[^A-Za-z0-9_-]+', '_', name)[:NAME_LIMIT].strip('_') or 'operator'}.json"


def profile_of(when: str, gear: str) -> str:
    """Return where the times of each operator are, below the folder; of a model for several shapes for each gear."""
    return f"profiling/{when}/op_summary{'_gear_' + re.sub(r'[,;]', 'x', gear) if gear else ''}.csv"


def summary_text(t: Tuning, target: str, result: str, profiles: tuple[str, ...]) -> str:
    """Return the text of `summary.json`. `result` is the name of AOE's result file of the same job."""
    said: dict[str, Any] = {"model": t.name, "target": target, "times": "modelled", "result_file": result, "status": status(t)}
    if t.seconds is not None:
        said["tuning_seconds"] = round(t.seconds, 3)
    if t.baseline_ms is not None and t.result_ms is not None:
        said |= {"latency_before_ms": round(t.baseline_ms, 6), "latency_after_ms": round(t.result_ms, 6),
                 **plain(t.baseline_ms, t.result_ms)}
    return _text(said | {"counters": summary(t.policies), "searches": dict(t.searches), "failed": list(t.failed),
                         "profiles": list(profiles), "operators": [
        {"name": p.name, "types": list(p.types), "file": file_of(i, p.name), "outcome": p.outcome.value, "before_us": round(p.before_us, 4),
         "after_us": round(p.after_us, 4), **plain(p.before_us, p.after_us)} for i, p in enumerate(t.policies)]})


def operator_text(op: Operator) -> str:
    """Return a file of `op_tuning`."""
    p, us = op.policy, op.us_per_tick
    return _text({
        "name": p.name, "nodes": list(op.nodes), "types": list(p.types), "target": op.target, "times": "modelled",
        "outcome": p.outcome.value, "kind": p.kind, "default_us": round(op.ticks["default"] * us, 4), "before_us": round(p.before_us, 4),
        "after_us": round(p.after_us, 4), "bound_us": round(op.ticks["bound"] * us, 4),
        "performance_improvement": improvement(p.before_us, p.after_us),
        **plain(p.before_us, p.after_us), "proof": op.proof, "trials": op.spent["trials"],
        "candidates": dict(op.candidates), "spent": dict(op.spent),
        **op.key, "ticks": dict(op.ticks),
        "default_schedule": op.default_schedule.splitlines(), "schedule": op.schedule.splitlines()})


def latest(place: Path) -> Path | None:
    """Return the folder of results that a directory is, or the last one in it. Return None where there is none."""
    within = [place, *sorted(place.glob(f"{FOLDER}*"), reverse=True)] if place.is_dir() else []
    return next((f for f in within if (f / OPERATORS).is_dir()), None)


def operators(folder: Path) -> Iterator[tuple[Path, Any]]:
    """Yield the files of a folder's operators, and what they say as JSON. Raise CheckError where one is none, or they are too many."""
    files = list(islice((folder / OPERATORS).glob("*.json"), MOST_OPERATORS + 1))
    if len(files) > MOST_OPERATORS:
        raise CheckError(f"{folder / OPERATORS} holds more than {MOST_OPERATORS:,} files")
    for file in sorted(files):
        yield file, read_json(file)


def _text(said: Mapping[str, Any]) -> str:
    return json.dumps(said, indent=2) + "\n"
