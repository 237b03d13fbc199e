"""A user's gradient trace: JSON, CSV, a torch profiler export, or AOE's record, told apart by what they say."""
from __future__ import annotations

import json

from aoec.base.errors import CheckError
from aoec.base.files.files import read_bytes
from aoec.cann.gradient_fusion import is_record, parse_record
from aoec.ir.training import MOST_GRADIENTS
from aoec.jobs.gdat.trace_average import Iteration, Sent, TraceRead, average_trace
from aoec.jobs.gdat.trace_csv import read_csv
from aoec.jobs.gdat.trace_json import read_own
from aoec.jobs.gdat.trace_torch import is_chrome, read_torch

TRACE_LIMIT_BYTES = 128 << 20


def read_trace(path: str) -> TraceRead:
    """Return the trace in a file, - for standard input. Raise CheckError or BackendError in one sentence, with file and row, where it is
    none."""
    data = read_bytes(path, TRACE_LIMIT_BYTES)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise CheckError(f"this is no UTF-8 text (byte {e.start} is 0x{data[e.start]:02x}); give a trace as JSON or CSV",
                         source=path) from e
    del data
    return read_text_of_trace(text, path)


def read_text_of_trace(text: str, source: str) -> TraceRead:
    """Return the trace that a text is. Raise CheckError where it is none."""
    if not text.strip():
        raise CheckError("the file is empty; give a trace as JSON or CSV (docs/gdat.md)", source=source)
    if text.lstrip()[0] not in "[{":
        return read_csv(text, source)
    try:
        said = json.loads(text)
    except (ValueError, RecursionError) as e:  # the first of numbers with more than 4,300 digits too
        raise CheckError(f"this is not JSON: {str(e)[:100]}", source=source) from e
    if is_chrome(said):
        return read_torch(said, source)
    return read_record(said, source) if is_record(said) else read_own(said, source)


def read_record(said: object, source: str) -> TraceRead:
    """Return the trace that AOE's record holds. Raise CheckError where it holds none, or several."""
    import numpy as np
    record = parse_record(said, source, MOST_GRADIENTS)
    ready = np.cumsum([0.0, *record.gaps_us[1:]])
    read = average_trace([Sent(f"gradient {n}", size) for n, size in enumerate(record.sizes)], [Iteration(ready)], source)
    unit = "the times of AOE's record are read as µs between gradients, the first of them not counted"
    return TraceRead(read.trace, (*read.notices, unit))
