"""Counts that repeat a run by time. They are read again from a report, a summary of results or the JSON of a command."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from aoec.base.errors import CheckError
from aoec.base.files.files import read_json
from aoec.jobs.tune.budget import Limits, parse_limits

Counts = Mapping[str, Limits | None]  # search (order.py: search_of) -> what it had, None where it had no time


def facts(counts: Counts, strategy: str, seed: int, robust: bool) -> dict[str, Any]:
    """Return what is written of a run's searches; nothing where it had none."""
    return {"search": strategy, "seed": seed, "robust": robust,
            "limits": {name: None if known is None else asdict(known) for name, known in counts.items()}} if counts else {}


def read(path: str | Path, strategy: str, seed: int, robust: bool) -> Counts:
    """Return the counts in a file. Raise CheckError where it says none, or those of searches that were made otherwise."""
    said = read_json(path)
    if isinstance(said, Mapping) and isinstance(gears := said.get("gears"), list) and gears and "searches" not in said:
        said = gears[0]
    try:
        of = said["searches"]
        counts = {str(name): None if known is None else parse_limits(known) for name, known in of["limits"].items()}
        asked = {"search": of["search"], "seed": of["seed"], "robust": of["robust"]}
    except (ValueError, TypeError, LookupError, AttributeError) as e:
        raise CheckError(f"{path} says no counts of searches; report.json of --report, summary.json of aoec tune and what --json prints "
                         "do, of a run that searched") from e
    own = {"search": strategy, "seed": seed, "robust": robust}
    if wrong := [f"{name} {str(value)[:40]} and here {own[name]}" for name, value in asked.items() if value != own[name]]:
        raise CheckError(f"{path} has the counts of other searches: {', '.join(wrong)}; give the same options")
    return counts
