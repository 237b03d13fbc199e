"""A plan as `bucket_cap_mb_list` of PyTorch's DistributedDataParallel.

DDP closes a bucket as soon as it holds at least its cap (torch/nn/parallel/distributed.py of torch 2.13: `int(cap_mb * 1024 * 1024)`
bytes). So a cap above the bytes of all gradients of a bucket but the last, and not above all of them, makes exactly this bucket. DDP
applies the list to the order in which gradients were ready in the first iteration, from the second one on.
"""
from __future__ import annotations

from decimal import Decimal

from aoec.ir.training import BucketPlan, StepTrace

MIB = 1 << 20
DECIMALS = 12  # most that a cap needs: a byte is 9.5e-7 MiB


def bucket_caps(plan: BucketPlan, trace: StepTrace) -> list[float]:
    """Return the cap of each bucket in MiB, with as few decimals as tell its bytes from one gradient less. The last bucket takes what is
    left."""
    caps = []
    for listed in plan.ranges():
        whole = sum(trace.gradients[n].size for n in listed)
        less = whole - trace.gradients[listed[-1]].size
        caps.append(next(cap for d in range(DECIMALS + 1) for cap in (_floor(whole, d),) if less < int(cap * MIB) <= whole))
    return caps


def _floor(size: int, decimals: int) -> float:
    """Return a size in MiB, rounded down."""
    scale = 10 ** decimals
    return float(size * scale // MIB / scale) if decimals < DECIMALS else size / MIB


def caps_line(plan: BucketPlan, trace: StepTrace) -> str:
    """Return the argument as it is written."""
    return f"bucket_cap_mb_list=[{', '.join(_plain(cap) for cap in bucket_caps(plan, trace))}]"


def _plain(cap: float) -> str:
    """Return a number with all its digits and no exponent."""
    text = format(Decimal(repr(cap)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
