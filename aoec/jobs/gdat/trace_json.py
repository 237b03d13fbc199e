"""A gradient trace as JSON of aoec's own (`aoec/report/schemas/gradient_trace.json`).

    {"format": "aoec gradient trace 1", "times": "measured", "forward_us": 4100, "backward_us": 9570, "optimiser_us": 350,
     "gradients": [{"name": "fc.weight", "bytes": 8192000, "ready_us": 31.5, "read_us": 4050}, ...]}

Gradients stand in the order in which the backward pass makes them. `ready_us` counts from the begin of the backward pass. `read_us` says
when the forward pass first reads the parameter; it may be left out. Several iterations stand in `iterations`, a list of objects with
forward_us, backward_us, optimiser_us and ready_us, a list with a time for each gradient; `gradients` then say names and bytes alone.
"""
from __future__ import annotations

import json
from typing import Any

import numpy as np

from aoec.base.errors import CheckError
from aoec.ir.training import MOST_GRADIENTS, StepTrace
from aoec.jobs.gdat.trace_average import Iteration, Sent, TraceRead, average_trace
from aoec.jobs.gdat.trace_numbers import check_rising, read_name, read_size, read_time

FORMAT = "aoec gradient trace 1"
PASSES = ("forward_us", "backward_us", "optimiser_us")
MOST_ITERATIONS = 1_000


def read_own(said: Any, source: str) -> TraceRead:
    """Return the trace of a parsed file. Raise CheckError with the entry where it is none."""
    if not isinstance(said, dict) or said.get("format") != FORMAT:
        raise CheckError(f'this JSON has no "format": "{FORMAT}" (docs/gdat.md)', source=source)
    times = said.get("times", "measured")
    if times not in ("measured", "modelled"):
        raise CheckError(f'"times" is {str(times)[:40]!r}; it is "measured" or "modelled"', source=source)
    listed = read_list(said.get("gradients"), "gradients", MOST_GRADIENTS, source)
    sent, own = list[Sent](), list[float]()
    iterated = "iterations" in said
    for number, entry in enumerate(listed):
        where = f"gradients[{number}]"
        if not isinstance(entry, dict):
            raise CheckError(f"{where} is no object", source=source)
        sent.append(Sent(read_name(entry.get("name"), where, source), read_size(entry.get("bytes"), '"bytes"', where, source),
                         read_time(entry.get("read_us", 0.0), '"read_us"', where, source)))
        if not iterated:
            own.append(read_time(entry.get("ready_us"), '"ready_us"', where, source))
            check_rising(own[-1], own[-2] if number else 0.0, where, source)
    if not iterated:
        return average_trace(sent, [_iteration(said, own, "the trace", source)], source, times)
    return average_trace(sent, _iterations(said["iterations"], len(sent), source), source, times)


def _iterations(said: Any, count: int, source: str) -> list[Iteration]:
    out = []
    for at, entry in enumerate(read_list(said, "iterations", MOST_ITERATIONS, source)):
        where = f"iterations[{at}]"
        if not isinstance(entry, dict):
            raise CheckError(f"{where} is no object", source=source)
        ready = read_list(entry.get("ready_us"), f"{where}.ready_us", MOST_GRADIENTS, source)
        if len(ready) != count or (at + 1) * count > 4 * MOST_GRADIENTS:
            raise CheckError(f"{where} has {len(ready):,} ready times for {count:,} gradients", source=source)
        times, before = [], 0.0
        for number, us in enumerate(ready):
            place = f"{where}.ready_us[{number}]"
            times.append(read_time(us, "the time", place, source))
            check_rising(times[-1], before, place, source)
            before = times[-1]
        out.append(_iteration(entry, times, where, source))
    return out


def _iteration(said: dict[str, Any], ready: list[float], where: str, source: str) -> Iteration:
    passes = [read_time(said[name], f'"{name}"', where, source) if name in said else None for name in PASSES]
    if passes[1] is not None and ready and ready[-1] > passes[1] * (1 + 1e-9):
        raise CheckError(f"{where}: the last gradient is ready at {ready[-1]:g} µs, after the backward pass, which takes {passes[1]:g}",
                         source=source)
    return Iteration(np.array(ready), *passes)


def read_list(said: Any, what: str, most: int, source: str) -> list[Any]:
    """Return a list with entries. Raise CheckError where it is none, empty or too long."""
    if not isinstance(said, list) or not said:
        raise CheckError(f"{what} is no list with entries", source=source)
    if len(said) > most:
        raise CheckError(f"{what} has {len(said):,} entries; the limit is {most:,}", source=source)
    return said


def show_own(trace: StepTrace) -> str:
    """Return a trace as such a file."""
    entries = [{"name": g.name, "bytes": g.size, "ready_us": round(g.ready_us, 6), "read_us": round(g.read_us, 6)} for g in trace.gradients]
    head = {"format": FORMAT, "times": trace.source, "forward_us": round(trace.forward_us, 6), "backward_us": round(trace.backward_us, 6),
            "optimiser_us": round(trace.optimiser_us, 6)}
    lines = ",\n".join(f"  {json.dumps(e)}" for e in entries)
    return json.dumps(head, indent=1)[:-2] + f',\n "gradients": [\n{lines}\n ]\n}}\n'
