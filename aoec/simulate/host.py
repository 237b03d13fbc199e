"""Modelled time of operators that run on the host, as AI CPU operators do on a real device: a fixed time each, and bytes at a rate.

Both numbers are estimates, and stand here and in no machine file because nothing public measures AI CPU operators of any chip: a task that
leaves the queue of the AI Core for a CPU of the device is taken to cost some ten of its launches, and one ARM core to move 4 GB/s, through
memory and through an operator that reads its elements one by one. They say that a node on the host is dear, and no more.
"""
from __future__ import annotations

NODE_US = 20.0  # estimate
BYTES_PER_US = 4000.0  # estimate


def host_us(size_bytes: int) -> float:
    """Microseconds of an operator that reads and writes so many bytes; values of unknown size count none."""
    return NODE_US + size_bytes / BYTES_PER_US
