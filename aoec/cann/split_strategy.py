"""A plan as the strategy of CANN's TensorFlow adapter (hccl.split.api), and of MindSpore's parallel context.

`set_split_strategy_by_idx([20, 100, 159])`: the last gradient of each segment, ascending, at most eight segments (AOE's guide of
gradient tuning). `set_split_strategy_by_size([60, 20, 20])`: per cent of the bytes, which sum to 100. MindSpore's
`all_reduce_fusion_config` is a list of ascending ends too. Which gradient has which number follows from the order in which a framework
makes its all-reduces: the numbers here are in the order of the trace.
"""
from __future__ import annotations

from collections.abc import Sequence

from aoec.ir.training import BucketPlan, StepTrace

MOST_SEGMENTS = 8  # of AOE's strategies
HUNDREDTHS = 10_000  # of the whole: a percentage has two decimals, as AOE's default 96.54 / 3.46 has


def by_index(plan: BucketPlan) -> str:
    """Return the line with the last gradient of each segment."""
    return f"set_split_strategy_by_idx([{', '.join(map(str, plan.ends))}])"


def by_size(plan: BucketPlan, trace: StepTrace) -> str:
    """Return the line with each segment's share of the bytes, in per cent with two decimals that sum to 100."""
    shares = percentages([sum(trace.gradients[n].size for n in r) for r in plan.ranges()])
    return f"set_split_strategy_by_size([{', '.join(f'{share // 100}.{share % 100:02}' for share in shares)}])"


def percentages(sizes: Sequence[int]) -> list[int]:
    """Return each size's share of all in hundredths of a per cent, at least one each, which sum to HUNDREDTHS: rounded down, and what is
    left over goes to those that lost most."""
    whole = sum(sizes)
    shares = [max(1, size * HUNDREDTHS // whole) for size in sizes]
    order = sorted(range(len(sizes)), key=lambda n: (-(sizes[n] * HUNDREDTHS % whole), n))
    left = HUNDREDTHS - sum(shares)
    for turn in range(abs(left)):
        if left > 0:
            shares[order[turn % len(order)]] += 1
        else:  # tiny ones were rounded up: the largest gives
            shares[max(range(len(shares)), key=shares.__getitem__)] -= 1
    return shares


def mindspore(plan: BucketPlan) -> str:
    """Return the line for MindSpore's parallel context."""
    return f"mindspore.set_auto_parallel_context(all_reduce_fusion_config=[{', '.join(map(str, plan.ends))}])"
