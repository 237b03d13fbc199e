"""`compiled_model.json`: what is in the compiled model, and what each kind of tuning has brought. AOE has no such file, so its form is
aoec's own (`schemas/compiled.json`). All times are modelled.

Every launch of the model is there once. An operator is what is launched as one, or slice by slice: then its time is that of all slices.
"""
from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aoec.report.results.opat import Policy, plain
from aoec.report.shares import Shares, as_dict

FORMAT = "aoec compiled model 1"


@dataclass(frozen=True)
class Launch:
    """A launch: the group of the compiled model, `passes` in an inference, µs of one alone by default and as compiled; when the first pass
    begins and the last ends in an inference."""

    name: str
    kind: str
    passes: float
    default_us: float
    us: float
    start_us: float
    stop_us: float


@dataclass(frozen=True)
class Operator:
    """What is launched as one, or in slices: the operators of the imported model that it does, and those that lowering added, as (name,
    word); types as CANN has them; its launches."""

    name: str
    kind: str
    imported: tuple[tuple[str, str], ...]
    added: tuple[tuple[str, str], ...]
    types: tuple[str, ...]
    launches: tuple[Launch, ...]


@dataclass(frozen=True)
class GearModel:
    """A compiled model, or one gear of it: `figures` are those of its file."""

    gear: str
    figures: Mapping[str, int]
    shares: Shares
    operators: tuple[Operator, ...]


def document(model: str, target: str, gears: Sequence[GearModel], left: Sequence[Policy]) -> dict[str, Any]:
    """Return the contents of the file. `left`: operators that were tuned on the way, and are not in the model."""
    return {"format": FORMAT, "model": model, "target": target, "times": "modelled", "gears": [of_gear(g) for g in gears],
            "tuned_not_in_model": [left_entry(p) for p in left]}


def of_gear(g: GearModel) -> dict[str, Any]:
    """Return a gear as plain values."""
    return {"gear": g.gear, "figures": dict(g.figures), "shares": as_dict(g.shares),
            "operators": [of_operator(o) for o in g.operators]}


def of_operator(o: Operator) -> dict[str, Any]:
    """Return an operator as plain values; `us`: of all passes of all its launches."""
    listed = [{"name": x.name, "passes": x.passes, "default_us": x.default_us, "us": x.us, "start_us": x.start_us, "stop_us": x.stop_us}
              for x in o.launches]
    return {"name": o.name, "kind": o.kind, "op_type": o.types[0] if len(o.types) == 1 else list(o.types),
            "imported": [list(pair) for pair in o.imported], "added": [list(pair) for pair in o.added], "slices": len(o.launches),
            "default_us": sum(x.passes * x.default_us for x in o.launches), "us": sum(x.passes * x.us for x in o.launches),
            "launches": listed}


def left_entry(p: Policy) -> dict[str, Any]:
    """Return what was tuned and is not in the model, as plain values."""
    return {"op_name": p.name, "op_type": p.types[0] if len(p.types) == 1 else list(p.types), "kind": p.kind, "outcome": p.outcome.value,
            "before_us": round(p.before_us, 4), "after_us": round(p.after_us, 4), **plain(p.before_us, p.after_us)}


def text(model: str, target: str, gears: Sequence[GearModel], left: Sequence[Policy]) -> str:
    """Return the file."""
    return json.dumps(document(model, target, gears, left), indent=1) + "\n"
