"""What is in L2 before and after a program, and what share of its traffic that makes hits.

A memory state is an ordered tuple of (tensor name, bytes), most recently used last, within the machine's usable L2.
"""
from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from aoec.base.errors import CheckError
from aoec.ir.index import DTYPES, evaluate, holes
from aoec.ir.program import Program, Tensor
from aoec.target.machine import Machine

State = tuple[tuple[str, int], ...]
COLD: State = ()  # "cold inputs": nothing is in L2, as after another model has run
STATES: dict[str, State] = {"cold inputs": COLD}


def footprint_bytes(tensor: Tensor, env: Mapping[str, Any]) -> Any:
    """Bytes that the tensor takes in GM, for hole values (or columns of them)."""
    elements: Any = 1
    for extent in tensor.shape:
        elements = elements * evaluate(extent, env)
    return elements * DTYPES[tensor.dtype]


def hbm_share(role: str, footprint: Any, passes: Any, resident: Any, working_set: Any, usable: float) -> Any:
    """The share (0 to 1) of a tensor's traffic that reaches HBM; the rest hits L2. Works on columns.

    Of `passes` crossings of its footprint, the first comes from HBM except for the resident bytes; later ones hit L2 as
    far as the program's working set fits: keep = min(1, usable / working set). What is written is absorbed by L2 and
    reaches HBM as far as it does not fit; a tensor that the program itself writes (output, temp) has no first touch.
    Every transfer of the tensor is charged its average share: which tile hits is not followed.
    """
    keep = np.minimum(1.0, usable / np.maximum(working_set, 1))
    first = footprint - np.minimum(resident, footprint) if role == "input" else footprint * (1.0 - keep)
    reach = first + (passes - 1) * footprint * (1.0 - keep)
    return np.clip(reach / np.maximum(passes * footprint, 1), 0.0, 1.0)


def resident_bytes(state: State, name: str) -> int:
    """Bytes of a tensor that the state holds in L2."""
    return sum(size for n, size in state if n == name)


def hbm_shares(program: Program, env: Mapping[str, Any], state: State, machine: Machine) -> dict[str, Any]:
    """Tensor name -> HBM share of its traffic, for hole values or columns of them."""
    sizes = {t.name: footprint_bytes(t, env) for t in program.tensors}
    working_set = sum(sizes.values())
    return {t.name: hbm_share(t.role, sizes[t.name], evaluate(t.passes, env), resident_bytes(state, t.name), working_set,
                              machine.l2_usable_bytes) for t in program.tensors}


def both_ways(program: Program, env: Mapping[str, Any], shares: Mapping[str, Any], machine: Machine) -> Any:
    """How much longer a transfer holds the chip's memory because reads and writes share it: (r + w) / max(r, w).

    r and w are the times of all reads and writes of the program at the chip's full rates. Loads and stores run on different
    pipes, each at the rate that its core is given; so stretched, they take r + w together when they overlap, and the chip
    never moves more than its rate. Between 1 (one way only) and 2. A temp is read as much as it is written.
    """
    times = {"input": 0.0, "output": 0.0, "temp": 0.0}
    for t in program.tensors:
        share, moved = shares[t.name], footprint_bytes(t, env) * evaluate(t.passes, env)
        times[t.role] = times[t.role] + moved * (share / machine.hbm_bytes_per_cycle + (1.0 - share) / machine.l2_bytes_per_cycle)
    reads, writes = times["input"] + times["temp"] / 2, times["output"] + times["temp"] / 2
    longer = np.maximum(reads, writes)
    return np.where(longer > 0, (reads + writes) / np.where(longer > 0, longer, 1.0), 1.0)


def compulsory_hbm_bytes(program: Program, state: State, machine: Machine) -> int:
    """Bytes that must cross HBM under this model whatever the schedule: first touch of inputs that are not resident.

    For a filled program, or one whose tensor shapes hold no holes. Outputs count only as far as L2 cannot hold them:
    1 - keep of the working set.
    """
    sizes = {t.name: int(footprint_bytes(t, {})) for t in program.tensors}
    keep = min(1.0, machine.l2_usable_bytes / max(sum(sizes.values()), 1))
    first = sum(max(sizes[t.name] - resident_bytes(state, t.name), 0) for t in program.tensors if t.role == "input")
    return first + math.floor(sum(sizes[t.name] for t in program.tensors if t.role == "output") * (1.0 - keep))


def after(program: Program, state: State, machine: Machine, names: Mapping[str, str] | None = None) -> State:
    """The state that a filled program leaves: its inputs, then its outputs, are the most recent; temps are dead.

    `names` renames the program's tensors (a program that equal groups share is one text with one set of names).
    """
    names = names or {}
    for t in program.tensors:
        if any(holes(e) for e in t.shape):
            raise CheckError(f"program {program.name}: tensor {t.name} has a hole in its shape, so what it leaves in L2 is open; "
                             "fill it first")
    order = [t for role in ("input", "output") for t in program.tensors if t.role == role]
    touched = [(names.get(t.name, t.name), int(footprint_bytes(t, {}))) for t in order]
    fresh = dict(touched)
    return cap(tuple(e for e in state if e[0] not in fresh) + tuple(touched), machine.l2_usable_bytes)


def cap(state: State, usable: int) -> State:
    """The most recent part of a state that fits `usable` bytes; the oldest entry of it may be cut."""
    kept: list[tuple[str, int]] = []
    for name, size in reversed(state):
        take = min(size, usable)
        if take > 0:
            kept.append((name, take))
        usable -= take
    return tuple(reversed(kept))
