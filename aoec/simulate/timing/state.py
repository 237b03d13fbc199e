"""Memory states: what is in L2 before and after a program.

A memory state is an ordered tuple of (tensor name, bytes), most recently used last, within the machine's usable L2. Three states have a
name:
- *cold inputs*: another model has run.
- *previous launch*: the same program has just run, over and over.
- *cleared*: L2 holds nothing at all. Then what a program writes pushes nothing out, and what still fits at its end reaches HBM after it.
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from aoec.base.errors import CheckError
from aoec.ir.index import DTYPES, evaluate, holes
from aoec.ir.program import Program, Tensor
from aoec.target.machine import Machine

State = tuple[tuple[str, int], ...]
COLD: State = ()  # "cold inputs": nothing of the program is in L2
# of each input what the program leaves itself, which follows from the loops of each row (reuse.py)
PREVIOUS_LAUNCH: State = (("*", 0),)
CLEARED: State = (("", 0),)
NAMED = {"cold": COLD, "previous": PREVIOUS_LAUNCH, "cleared": CLEARED}


def footprint_bytes(tensor: Tensor, env: Mapping[str, Any]) -> Any:
    """Return bytes that the tensor takes in GM, for hole values (or columns of them)."""
    elements: Any = 1
    for extent in tensor.shape:
        elements = elements * evaluate(extent, env)
    return elements * DTYPES[tensor.dtype]


def resident_bytes(state: State, name: str) -> int:
    """Return bytes of a tensor that the state holds in L2."""
    return sum(size for n, size in state if n == name)


def fixed_sizes(program: Program, tensors: Iterable[Tensor]) -> dict[str, int]:
    """Return tensor -> bytes; CheckError where a shape is open."""
    out = {}
    for t in tensors:
        if any(holes(e) for e in t.shape):
            raise CheckError(f"program {program.name}: tensor {t.name} has a hole in its shape, so what it leaves in L2 is open; "
                             "fill it first")
        out[t.name] = int(footprint_bytes(t, {}))
    return out


def after(program: Program, state: State, machine: Machine, names: Mapping[str, str] | None = None) -> State:
    """Return the state that a filled program leaves: its inputs, then its outputs, are the most recent; temps are dead.

    `names` renames the program's tensors (a program that equal groups share is one text with one set of names).
    """
    names = names or {}
    order = [t for role in ("input", "output") for t in program.tensors if t.role == role and not t.uncached]
    fixed_sizes(program, program.tensors)
    fresh = {names.get(name, name): size for name, size in fixed_sizes(program, order).items()}
    state = COLD if state in (PREVIOUS_LAUNCH, CLEARED) else state
    return cap(tuple(e for e in state if e[0] not in fresh) + tuple(fresh.items()), machine.l2_usable_bytes)


class Resident:
    """What L2 holds during a row of programs, as `cap` has it. The cost of a step depends on what it touches, and not on what else is
    there."""

    def __init__(self, usable: int) -> None:
        self.usable, self.held_bytes, self.touches = usable, 0, 0
        self.sizes: dict[str, int] = {}  # the oldest first
        self.ages: dict[str, int] = {}

    def part(self, names: Iterable[str]) -> State:
        """Return what is there of these tensors, the oldest first."""
        return tuple((n, self.sizes[n]) for n in sorted((n for n in names if n in self.sizes), key=self.ages.__getitem__))

    def touch(self, sizes: Mapping[str, int]) -> None:
        """Make these tensors, with their bytes, the most recent. Drop what no longer fits."""
        for name, size in sizes.items():
            self.held_bytes += size - self.sizes.pop(name, 0)
            if size:
                self.sizes[name] = size
                self.ages[name] = self.touches = self.touches + 1
        while self.held_bytes > self.usable:
            oldest, size = next(iter(self.sizes.items()))
            over = self.held_bytes - self.usable
            if size > over:
                self.sizes[oldest] -= over  # in its place
            else:
                del self.sizes[oldest]
            self.held_bytes -= min(size, over)


def cap(state: State, usable: int) -> State:
    """Return the most recent part of a state that fits `usable` bytes; the oldest entry of it may be cut."""
    kept: list[tuple[str, int]] = []
    for name, size in reversed(state):
        take = min(size, usable)
        if take > 0:
            kept.append((name, take))
        usable -= take
    return tuple(reversed(kept))
