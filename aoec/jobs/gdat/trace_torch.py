"""A gradient trace out of a torch profiler export (Chrome trace, JSON).

The gradient of a parameter is ready when autograd's AccumulateGrad has ended. Its size is said with `record_shapes=True` alone:

    with torch.profiler.profile(record_shapes=True, schedule=torch.profiler.schedule(wait=2, warmup=1, active=5, repeat=1),
                                on_trace_ready=lambda p: p.export_chrome_trace("trace.json")) as p:
        for batch in loader:
            ...forward, backward, optimizer.step()
            p.step()

Profile one process without DDP, or within `ddp.no_sync()`, so that no communication is in the times. Where the export has kernels of a CUDA
device (activities CPU and CUDA), a mark of the host counts when all kernels that were launched before it have ended. Where it has
none, times are those of the host. How torch_npu names kernels in an export is not known here: its times are taken from the host too.
"""
from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from aoec.base.errors import CheckError
from aoec.base.text import plural
from aoec.ir.training import MOST_GRADIENTS
from aoec.jobs.gdat.trace_average import Iteration, Sent, TraceRead, average_trace

ENGINE = "autograd::engine::evaluate_function: "
ACCUMULATE = "torch::autograd::AccumulateGrad"
STEP, OPTIMISER = "ProfilerStep#", "Optimizer.step#"
BYTES = {"double": 8, "float": 4, "c10::half": 2, "c10::bfloat16": 2, "half": 2, "bfloat16": 2, "long int": 8, "int": 4,
         "c10::complex<float>": 8, "c10::complex<double>": 16}
MOST_EVENTS = 5_000_000
OPTIONS = "profile with record_shapes=True (docs/gdat.md)"
Mark = tuple[float, float]  # begin and end, in µs of the file


@dataclass(frozen=True, slots=True)
class Marks:
    """What of an export says how a step goes, each sorted by time. `gradients`: end, dimensions and bytes."""

    steps: list[Mark]
    engine: list[Mark]
    optimiser: list[Mark]
    gradients: list[tuple[float, tuple[int, ...], int]]
    launches: dict[int, float]
    kernels: dict[int, float]


def is_chrome(said: Any) -> bool:
    """Return whether a parsed JSON looks like a Chrome trace."""
    return isinstance(said, dict) and "traceEvents" in said


def read_torch(said: Any, source: str) -> TraceRead:
    """Return the trace of a parsed export. Raise CheckError where it holds no gradients, or none of their sizes."""
    marks = _marks(said["traceEvents"], source)
    if not marks.gradients:
        raise CheckError(f"the export has no event {ACCUMULATE} with its Input Dims: {OPTIONS}, and with the backward pass in it",
                         source=source)
    on_device = device_time(marks.launches, marks.kernels)
    found = [one for begin, end in _bounds(marks) if (one := _one(marks, begin, end, on_device)) is not None]
    if not found:
        raise CheckError("no profiled step holds a whole backward pass", source=source)
    shapes, count = Counter(shapes for shapes, _ in found).most_common(1)[0]
    sent = [Sent(f"gradient {number} {list(dims)}", size) for number, (dims, size) in enumerate(shapes)]
    read = average_trace(sent, [i for s, i in found if s == shapes], source)
    other = len(found) - count
    notices = list(read.notices)
    notices += [f"{plural(other, 'step')} with other gradients left out"] if other else []
    notices += ["ready times follow the kernels of the device" if marks.kernels else
                "the export has no kernels of a device: times are those of the host, and on a device gradients are ready later"]
    return TraceRead(read.trace, tuple(notices))


def device_time(launches: dict[int, float], kernels: dict[int, float]) -> Callable[[float], float]:
    """Return when what the host did up to a time is done on the device too: all kernels launched before have ended. Without kernels the
    same time. `launches`, `kernels`: begin of a launch and end of its kernel, by correlation."""
    pairs = sorted((begin, kernels[n]) for n, begin in launches.items() if n in kernels)
    begins, ends = [b for b, _ in pairs], list(accumulate((e for _, e in pairs), max))

    def time(host_us: float) -> float:
        at = bisect_left(begins, host_us)
        return max(host_us, ends[at - 1]) if at else host_us

    return time


def _bounds(marks: Marks) -> list[Mark]:
    """Return the steps: as the profiler marks them, else between ends of the optimiser, else the whole export."""
    if marks.steps:
        return marks.steps
    ends = [0.0, *(end for _, end in marks.optimiser)]
    return list(pairwise(ends)) if marks.optimiser else [(0.0, math.inf)]


def _one(marks: Marks, begin: float, end: float,
         on_device: Callable[[float], float]) -> tuple[tuple[tuple[tuple[int, ...], int], ...], Iteration] | None:
    """Return (dimensions and bytes of each gradient, times) of one step. Return None where it has no backward pass."""
    first, last = bisect_left(marks.gradients, (begin,)), bisect_right(marks.gradients, (end, (1 << 62,)))
    gradients = marks.gradients[first:last]
    engine = _marks_between(marks.engine, begin, end)
    if not gradients or not engine:
        return None
    backward, stop = on_device(engine[0][0]), on_device(max(e for _, e in engine))
    ready = np.maximum.accumulate([max(0.0, on_device(at) - backward) for at, _, _ in gradients])
    updates = _marks_between(marks.optimiser, begin, end)
    start = begin if begin > 0 else None
    forward = max(0.0, backward - on_device(start)) if start is not None else None
    update = sum(max(0.0, on_device(e) - max(on_device(b), stop)) for b, e in updates) if updates else None
    return tuple((dims, size) for _, dims, size in gradients), Iteration(ready, forward, max(stop - backward, float(ready[-1])), update)


def _marks_between(marks: Sequence[Mark], begin: float, end: float) -> Sequence[Mark]:
    return marks[bisect_left(marks, (begin,)):bisect_right(marks, (end, math.inf))]


def _marks(events: Any, source: str) -> Marks:
    if not isinstance(events, list) or len(events) > MOST_EVENTS:
        raise CheckError(f"traceEvents is no list of at most {MOST_EVENTS:,} events", source=source)
    out = Marks([], [], [], [], {}, {})
    for number, event in enumerate(events):
        if isinstance(event, dict) and event.get("ph") == "X":
            _take(event, out, number, source)
    if len(out.gradients) > MOST_GRADIENTS:
        raise CheckError(f"the export has {len(out.gradients):,} gradients; the limit is {MOST_GRADIENTS:,}", source=source)
    for listed in (out.steps, out.engine, out.optimiser, out.gradients):
        listed.sort()  # type: ignore[attr-defined]
    return out


def _take(event: dict[str, Any], out: Marks, number: int, source: str) -> None:
    """Add an event to the marks that it belongs to."""
    name, kind = event.get("name"), event.get("cat")
    if not isinstance(name, str):
        return
    if kind in ("kernel", "cuda_runtime", "cuda_driver"):
        begin, end = _span(event, number, source)
        correlation = event["args"].get("correlation") if isinstance(event.get("args"), dict) else None
        if type(correlation) is int:
            if kind == "kernel":
                out.kernels[correlation] = max(end, out.kernels.get(correlation, end))
            else:
                out.launches[correlation] = begin
    elif name == ACCUMULATE:
        dims, size = _size(event, number, source)
        if size:
            out.gradients.append((_span(event, number, source)[1], dims, size))
    elif name.startswith(ENGINE):
        out.engine.append(_span(event, number, source))
    elif name.startswith(STEP):
        out.steps.append(_span(event, number, source))
    elif name.startswith(OPTIMISER):
        out.optimiser.append(_span(event, number, source))


def _span(event: dict[str, Any], number: int, source: str) -> Mark:
    """Return begin and end of an event in µs."""
    begin, took = event.get("ts"), event.get("dur", 0)
    for us in (begin, took):
        if isinstance(us, bool) or not isinstance(us, (int, float)) or not 0 <= us <= 1e18:  # since 1970, in µs
            raise CheckError(f"traceEvents[{number}] begins at {str(begin)[:40]} and takes {str(took)[:40]}, which are no times",
                             source=source)
    return float(begin), float(begin) + float(took)  # type: ignore[arg-type]


def _size(event: dict[str, Any], number: int, source: str) -> tuple[tuple[int, ...], int]:
    """Return (dimensions, bytes) of a gradient; 0 bytes where shapes were not recorded."""
    args = event.get("args")
    shapes, types = (args.get("Input Dims"), args.get("Input type")) if isinstance(args, dict) else (None, None)
    if not isinstance(shapes, list) or not isinstance(types, list) or not shapes or not types:
        return (), 0
    dims, dtype = shapes[0], types[0]
    if not isinstance(dims, list) or len(dims) > 32 or any(type(d) is not int or not 0 <= d <= 1 << 40 for d in dims):
        raise CheckError(f"traceEvents[{number}]: Input Dims of {ACCUMULATE} are no list of sizes", source=source)
    if not isinstance(dtype, str) or dtype not in BYTES:
        raise CheckError(f"traceEvents[{number}]: a gradient of type {str(dtype)[:40]!r}, whose size is not known here", source=source)
    return tuple(dims), math.prod(dims) * BYTES[dtype]
