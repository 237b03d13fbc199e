"""Modelled time of operators that run on the host, as AI CPU operators do on a real device: a fixed time each, and bytes at a rate.

Both numbers are estimates. They are here and in no machine file because nothing public measures AI CPU operators of any chip. A task that
leaves the queue of the AI Core for a CPU of the device is taken to cost some ten of its launches. One ARM core is taken to move 4 GB/s,
through memory and through an operator that reads its elements one by one. The numbers say that a node on the host is expensive, and no
more.

The host walks each Loop or Scan whose body is compiled. It has a task of its own in every round: it waits for the round's condition, passes
on the carried values and launches the body. This task is taken to cost as much as a node. Where data decide how often a Loop runs, nobody
knows the number before it runs: a few times is assumed, and the report says so. Each branch of an If counts half.
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
