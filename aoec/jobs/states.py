"""Memory states as text: in records' keys, in dumps, behind --state and in what is said of a time."""
from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from aoec.bank.record import DEFAULT, IMPORTED, ROBUST
from aoec.base.errors import CheckError
from aoec.ir.program import Program
from aoec.simulate.timing.state import CLEARED, COLD, NAMED, PREVIOUS_LAUNCH, State, fixed_sizes, resident_bytes

if TYPE_CHECKING:
    from aoec.simulate.timing.time import Measure

SPELLED = {"cold inputs": COLD, "previous launch": PREVIOUS_LAUNCH, "cleared": CLEARED}


def state_text(state: State) -> str:
    """Return a memory state as a record's key names it; a name where it has one."""
    return next((name for name, named in SPELLED.items() if named == state), "") or ",".join(f"{name}={size}" for name, size in state)


def state_of(text: str) -> State:
    """Return the memory state that a record's key names. Raise CheckError for a text that names none."""
    text = text.removesuffix(DEFAULT).removesuffix(ROBUST).removesuffix(IMPORTED)
    if text in SPELLED:
        return SPELLED[text]
    found = [re.fullmatch(r"(\w+)=([0-9]{1,15})", part) for part in text.split(",")]
    if not all(found):
        raise CheckError(f"{text[:60]!r} is no memory state")
    return tuple((m[1], int(m[2])) for m in found if m)


def measured_facts(made: Measure, state: State) -> dict[str, Any]:
    """Return a measure as plain values, labelled, with the state that it is from."""
    return {"kind": "modelled", "state": state_text(state), **asdict(made)}


def of_program(text: str, program: Program) -> State:
    """Return the state that --state gives a filled program: one of its short names, or as a record or a dump spells it. The bytes of an
    output are those that are written meanwhile. Raise CheckError where the program has no such tensor, or where an input has fewer
    bytes."""
    if text in NAMED:
        return NAMED[text]
    state, ends = state_of(text), [t for t in program.tensors if t.role != "temp"]
    inputs = fixed_sizes(program, [t for t in ends if t.role == "input"])
    for name in dict(state) if text not in SPELLED else ():
        if name not in {t.name for t in ends}:
            raise CheckError(f"--state is of {name}, and program {program.name} has {', '.join(t.name for t in ends)}")
        if (size := resident_bytes(state, name)) > inputs.get(name, size):
            raise CheckError(f"--state has {size:,} bytes of {name}, which has {inputs[name]:,}")
    return state
