"""A gradient trace as CSV: a row for each gradient, in the order in which the backward pass makes them.

    # forward_us = 4100
    # optimiser_us = 350
    name,bytes,ready_us,read_us,iteration
    fc.weight,8192000,31.5,4050,0

`read_us` and `iteration` may be left out, and so may the lines with #. Other columns are passed over. AOE's `gradient_summary.csv` has
columns gradient_node_name and gradient_size(byte), which are taken; it holds no times, so a column ready_us must be added.
"""
from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator

import numpy as np

from aoec.base.errors import CheckError
from aoec.ir.training import MOST_GRADIENTS
from aoec.jobs.gdat.trace_average import Iteration, Sent, TraceRead, average_trace
from aoec.jobs.gdat.trace_numbers import check_rising, read_name, read_size, read_time

SPELLINGS = {"name": ("name", "gradient_node_name"), "bytes": ("bytes", "gradient_size(byte)", "size", "gradient_size"),
             "ready_us": ("ready_us", "ready(us)", "ready time(us)", "ready_time(us)"), "read_us": ("read_us",),
             "iteration": ("iteration", "step")}
NEEDED = ("name", "bytes", "ready_us")
SETTING = re.compile(r"#\s*(forward_us|backward_us|optimiser_us)\s*[=:,]\s*(.*?)[\s,]*")


def read_csv(text: str, source: str) -> TraceRead:
    """Return the trace of a file's text. Raise CheckError with the row where it is none."""
    passes: dict[str, float] = {}
    rows = _rows(text, passes, source)
    head = next(rows, None)
    if head is None:
        raise CheckError("the file has no rows", source=source)
    columns = find_columns(head[1], source)
    sent: dict[str, list[Sent]] = {}
    ready: dict[str, list[float]] = {}
    for count, (line, row) in enumerate(rows):
        if count >= MOST_GRADIENTS:
            raise CheckError(f"the file has more than {MOST_GRADIENTS:,} rows, the most that a trace can have", source=source)
        where = f"row {line}"
        said = {name: row[at] if at < len(row) else None for name, at in columns.items()}
        iteration = str(said.get("iteration") or "")[:40]
        times = ready.setdefault(iteration, [])
        sent.setdefault(iteration, []).append(
            Sent(read_name(said["name"], where, source), read_size(said["bytes"], "the size", where, source),
                 read_time(said.get("read_us") or 0.0, "read_us", where, source)))
        us = read_time(said["ready_us"], "ready_us", where, source)
        check_rising(us, times[-1] if times else 0.0, where, source)
        times.append(us)
    return _join(sent, ready, passes, source)


def _join(sent: dict[str, list[Sent]], ready: dict[str, list[float]], passes: dict[str, float], source: str) -> TraceRead:
    """Return the trace of all iterations, which are of the same gradients."""
    if not sent:
        raise CheckError("the file has no gradients", source=source)
    (first, gradients), *others = sent.items()
    for name, other in others:
        if [(s.name, s.size) for s in other] != [(s.name, s.size) for s in gradients]:
            raise CheckError(f"iteration {name} has other gradients than iteration {first}, or has them in another order", source=source)
    backward = passes.get("backward_us")
    for name, times in ready.items():
        if backward is not None and times[-1] > backward * (1 + 1e-9):
            raise CheckError(f"the last gradient of iteration {name or 0} is ready at {times[-1]:g} µs, after the backward pass, "
                             f"which takes {backward:g}", source=source)
    return average_trace(gradients, [Iteration(np.array(times), passes.get("forward_us"), backward, passes.get("optimiser_us"))
                                     for times in ready.values()], source)


def _rows(text: str, passes: dict[str, float], source: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each row with its number in the file; settings go to `passes`."""
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        for row in reader:
            if row and row[0].lstrip().startswith("#"):
                if found := SETTING.fullmatch(",".join(row).strip()):
                    passes[found[1]] = read_time(found[2], found[1], f"row {reader.line_num}", source)
            elif any(cell.strip() for cell in row):
                yield reader.line_num, row
    except csv.Error as e:
        raise CheckError(f"row {reader.line_num} is no CSV: {e}", source=source) from e


def find_columns(head: list[str], source: str) -> dict[str, int]:
    """Return which column is what. Raise CheckError where one that is needed is missing."""
    names = [cell.strip().lstrip("\ufeff").lower() for cell in head]
    found = {what: names.index(spelling) for what, spellings in SPELLINGS.items()
             for spelling in (next((s for s in spellings if s in names), None),) if spelling is not None}
    if missing := [name for name in NEEDED if name not in found]:
        of_aoe = "; AOE's gradient_summary.csv holds no times: add a column ready_us" if "allreduce_node_name" in names else ""
        raise CheckError(f"there is no column {missing[0]} in the first row ({', '.join(names)[:100]}){of_aoe}", source=source)
    return found
