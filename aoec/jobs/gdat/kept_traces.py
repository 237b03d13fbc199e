"""Measured traces in the bank: kept when one is read from a file, and found again for a model with gradients of the same sizes."""
from __future__ import annotations

import json
from datetime import UTC, datetime
from importlib.metadata import version

from aoec.bank.bank import Bank
from aoec.bank.gradient_traces import TRACE_LIMIT, GradientTrace, sizes_key
from aoec.base.errors import CheckError
from aoec.ir.training import StepTrace
from aoec.jobs.gdat.trace_average import TraceRead
from aoec.jobs.gdat.trace_files import read_text_of_trace
from aoec.jobs.gdat.trace_json import show_own

BANK = "bank"  # of --trace: look there


def keep_trace(bank: Bank, trace: StepTrace, target: str, label: str) -> str:
    """Put a measured trace into the bank, and return a line that says so. Return "" where the trace is modelled or too long, or where the
    bank cannot be written."""
    text = json.dumps(json.loads(show_own(trace)), separators=(",", ":"))
    if trace.source != "measured" or len(text) > TRACE_LIMIT or not bank.writable:
        return ""
    key = sizes_key(g.size for g in trace.gradients)
    bank.gradient_traces.put_all([GradientTrace(key, target, label[:100], len(trace.gradients), round(1e3 * trace.compute_us), text,
                                                "aoec " + version("aoec"), datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))])
    return f"the trace is kept in the bank for {target}: --trace {BANK} takes it for a model with gradients of these sizes"


def find_trace(bank: Bank, like: StepTrace, target: str) -> TraceRead:
    """Return the measured trace of gradients of the same sizes. Raise CheckError where the bank has none."""
    found = bank.gradient_traces.find(target, sizes_key(g.size for g in like.gradients))
    if found is None:
        raise CheckError(f"the bank has no trace of {len(like.gradients):,} gradients of these sizes for {target}: measure one, "
                         "and give its file to --trace once")
    read = read_text_of_trace(found.trace, f"bank {bank.path}")
    return TraceRead(read.trace, (f"times were measured, and are those that the bank has of {found.label}",))
