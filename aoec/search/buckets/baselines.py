"""The plans of others, under the same costs and the same walk of a step.

Each is a rule as its source says it. What a rule asks of costs, it asks of ours. None of them is their code.
"""
from __future__ import annotations

import numpy as np

from aoec.ir.training import BucketPlan, StepTrace, check_trace
from aoec.search.buckets.bucket_search import EQUAL, Planned
from aoec.search.buckets.pair_costs import Costs, check_scheme, price
from aoec.search.buckets.step_timeline import timeline

MIB = 2**20
AOE_SEGMENTS = 8
AOE_SHARES = (0.9654, 0.0346)  # of all bytes
DDP_FIRST, DDP_CAP = 1 * MIB, 25 * MIB
HOROVOD_BUFFER, HOROVOD_CYCLE_US = 64 * MIB, 5_000.0
FITTED_SIZES = 32  # of the fit of a start-up and a time a byte

Ends = tuple[int, ...]


def baselines(trace: StepTrace, costs: Costs) -> dict[str, Planned]:
    """Return the plans of other tools by name, each with its step as all-reduces on one channel. Their bound is the step without
    communication. Raise CheckError where the trace or a cost is none."""
    check_trace(trace)
    check_scheme("all_reduce", 1, costs)
    n = len(trace.gradients)
    rules: dict[str, tuple[Ends, str]] = {
        "aoe": (aoe_ends(trace, costs), "AOE's gradient tuning: a greedy growth of at most 8 segments"),
        "aoe_default": (share_ends(trace), "HCCL's default: 96.54 % and 3.46 % of the bytes"),
        "ddp": (ddp_ends(trace), "PyTorch DDP: 1 MiB first, then 25 MiB"),
        "horovod": (horovod_ends(trace), "Horovod: what is ready every 5 ms, in buffers of 64 MiB"),
        "mg_wfbp": (mg_wfbp_ends(trace, costs), "MG-WFBP's rule of merging, under a fit of a start-up and a time a byte"),
        "one": ((n - 1,), "all gradients in one bucket"),
        "alone": (tuple(range(n)), "each gradient alone"),
    }
    out = {}
    for name, (ends, rule) in rules.items():
        step = timeline(trace, BucketPlan(ends), costs)
        is_optimal = step.step_us <= step.compute_us * (1 + EQUAL)
        out[name] = Planned(BucketPlan(ends), step, step.compute_us, is_optimal, f"Nothing is proved; the plan follows a rule: {rule}.")
    return out


def _sums(trace: StepTrace) -> np.ndarray:
    """Return bytes in front of each gradient, and of all: shape (n + 1,)."""
    return np.concatenate(([0], np.cumsum([g.size for g in trace.gradients], dtype=np.int64)))


def aoe_ends(trace: StepTrace, costs: Costs) -> Ends:
    """Return the segments of AOE's GDAT, as the public sources of GE's HCCL engine have it. For each end of the first segment, each next
    one grows until the backward pass takes as long from the end of the one before as that one's collective, start-up included; segment 8
    takes what is left. The plan whose last collective ends first is kept. One segment alone is given up for the default.
    AOE's own formula of a collective's time is not used: the costs given are."""
    sums, ready = _sums(trace), np.array([g.ready_us for g in trace.gradients])
    n = len(ready)
    begin, last = np.zeros(n, np.int64), np.arange(n)  # of the segment that was grown last, for each end of the first one
    first_us = price(costs, "all_reduce", sums[1:])
    end_us, ends = ready + first_us, [last]
    us = first_us
    for number in range(2, AOE_SEGMENTS + 1):
        grown = np.searchsorted(ready, ready[last] + us)
        grown = np.full(n, n - 1) if number == AOE_SEGMENTS else np.minimum(np.maximum(grown, last + 1), n - 1)
        goes_on = last < n - 1
        begin, last = np.where(goes_on, last + 1, begin), np.where(goes_on, grown, last)
        us = price(costs, "all_reduce", sums[last + 1] - sums[begin])
        end_us = np.where(goes_on, np.maximum(end_us, ready[last]) + us, end_us)
        ends.append(last)
    best = int(np.argmin(end_us))
    found = tuple(dict.fromkeys(int(e[best]) for e in ends))
    return found if len(found) > 1 else share_ends(trace)


def share_ends(trace: StepTrace) -> Ends:
    """Return the segments of HCCL's default split, 96.54 % and 3.46 % of the bytes (hccl.split.api in the vendor's TensorFlow adapter).
    The first segment ends at the gradient that reaches its share; how HCCL itself rounds is unknown."""
    sums = _sums(trace)
    n = len(trace.gradients)
    first = int(np.searchsorted(sums[1:], AOE_SHARES[0] * sums[-1]))
    return (first, n - 1) if first < n - 1 else (n - 1,)


def ddp_ends(trace: StepTrace, first: int = DDP_FIRST, cap: int = DDP_CAP) -> Ends:
    """Return the buckets of PyTorch's DDP: gradients in backward order, a bucket closes when it holds its cap or more
    (`_compute_bucket_assignment_by_size` of torch.distributed; `bucket_cap_mb` 25, and 1 MiB for the first bucket). All gradients are
    taken for one dtype and device."""
    ends, held, limit = [], 0, first
    for number, g in enumerate(trace.gradients):
        held += g.size
        if held >= limit:
            ends.append(number)
            held, limit = 0, cap
    n = len(trace.gradients)
    return tuple(ends) if ends and ends[-1] == n - 1 else (*ends, n - 1)


def horovod_ends(trace: StepTrace, buffer: int = HOROVOD_BUFFER, cycle_us: float = HOROVOD_CYCLE_US) -> Ends:
    """Return the buckets of Horovod's tensor fusion (arXiv 1802.05799; HOROVOD_FUSION_THRESHOLD, HOROVOD_CYCLE_TIME): every cycle, what has
    become ready is sent in order, as many gradients at once as the buffer holds. Cycles are counted from the begin of the backward pass.
    The walk of a step sends a bucket when its last gradient is made, not when the cycle ends: that flatters it."""
    ends: list[int] = []
    held, cycle = 0, -1
    for number, g in enumerate(trace.gradients):
        now = int(-(-g.ready_us // cycle_us))
        if number and (now != cycle or held + g.size > buffer):
            ends.append(number - 1)
            held = 0
        held, cycle = held + g.size, now
    return (*ends, len(trace.gradients) - 1)


def fit_line(trace: StepTrace, costs: Costs) -> tuple[float, float]:
    """Return start-up in µs and µs a byte of all-reduces, by least squares over sizes in geometric steps from the smallest gradient to all
    of them. MG-WFBP's paper fits its measured sizes; the start-up is not below zero."""
    least = min(g.size for g in trace.gradients)
    sizes = np.unique(np.geomspace(least, trace.size, FITTED_SIZES).astype(np.int64))
    us = price(costs, "all_reduce", sizes)
    if len(sizes) < 2:
        return 0.0, float(us[0] / sizes[0])
    byte_us, start_us = np.polyfit(sizes.astype(np.float64), us, 1)
    return max(0.0, float(start_us)), max(0.0, float(byte_us))


def mg_wfbp_ends(trace: StepTrace, costs: Costs) -> Ends:
    """Return the merged gradients of MG-WFBP (Shi, Chu, Li, arXiv 1912.09268, theorem 1 and algorithm 1). A gradient is merged with the
    next one where that is made before the collective of the first could have begun and passed its start-up. The rule runs on its own fit
    of start-up and time a byte; the step is walked under the costs given."""
    start_us, byte_us = fit_line(trace, costs)
    ends, end_us, held = [], 0.0, 0
    for number, g in enumerate(trace.gradients):
        held += g.size
        begin_us = max(end_us, g.ready_us)
        if number < len(trace.gradients) - 1 and trace.gradients[number + 1].ready_us < begin_us + start_us:
            continue
        ends.append(number)
        end_us, held = begin_us + start_us + byte_us * held, 0
    return tuple(ends)
