"""Modelled time of operators that run on the host, as AI CPU operators do on a real device: a fixed time each, and bytes at a rate.

Both numbers are estimates, and stand here and in no machine file because nothing public measures AI CPU operators of any chip: a task that
leaves the queue of the AI Core for a CPU of the device is taken to cost some ten of its launches, and one ARM core to move 4 GB/s, through
memory and through an operator that reads its elements one by one. They say that a node on the host is dear, and no more.

The host that walks a Loop or Scan whose body is compiled has a task of its own in every round: it waits for the round's condition, hands on
what is carried and launches the body, which is taken to cost as much as a node. How often a Loop goes round where data decide it, nobody
knows before it runs: a few times is assumed, and said; of an If each branch counts half.
"""
from __future__ import annotations

NODE_US = 20.0  # estimate
BYTES_PER_US = 4000.0  # estimate
ROUND_US = NODE_US  # estimate
ROUNDS_OF_A_LOOP = 10.0  # assumed
SHARE_OF_A_BRANCH = 0.5  # assumed


def host_us(size_bytes: int) -> float:
    """Return microseconds of an operator that reads and writes so many bytes; values of unknown size count none."""
    return NODE_US + size_bytes / BYTES_PER_US


def walk_us(rounds: float) -> float:
    """Return microseconds of the host between the rounds of a loop whose body is compiled."""
    return rounds * ROUND_US
