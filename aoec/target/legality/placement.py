"""Where the operands of an instruction are, for timing formulas: byte addresses in the operand's scope.

`x_at` is where operand x starts in its buffer's first slot, and `x_last` the same place in its last slot. Both are those of the first
iteration of every loop. What a formula derives from them must hold for the other iterations too. Emission makes slots and the steps of
loops whole multiples of 512 bytes, or steps all operands alike. So the distance of two operands modulo that period is constant.
"""
from __future__ import annotations

from collections.abc import Mapping

from aoec.ir.index import DTYPES, Expr, Int, normalise, substitute, variables
from aoec.ir.program import Instr, Ref, Space
from aoec.target.isa.instructions import INSTRUCTIONS, Instruction

PARTS = ("at", "last")


def placed_names(instruction: Instruction) -> tuple[str, ...]:
    """Return the names under which formulas see the places of an instruction's on-chip operands."""
    return tuple(f"{o.name}_{part}" for o in instruction.operands if "GM" not in o.scopes for part in PARTS)


def placement(item: Instr, spaces: Mapping[str, Space], wanted: frozenset[str]) -> dict[str, Expr]:
    """Return name -> byte address over holes, of those names that are wanted."""
    refs = {o.name: r for o in INSTRUCTIONS[item.op].operands if isinstance(r := item[o.name], Ref) and r.buffer in spaces}
    return {f"{name}_{part}": address(ref, spaces[ref.buffer], part) for name, ref in refs.items() for part in PARTS
            if f"{name}_{part}" in wanted}


def address(ref: Ref, space: Space, part: str) -> Expr:
    """Return the byte address of an operand in its first slot (`at`) or its last (`last`), loops at their first iteration."""
    start = space.address + first(ref.offset) * DTYPES[space.dtype]
    return normalise(start if part == "at" else start + (space.depth - 1) * space.size_bytes)


def first(e: Expr) -> Expr:
    """Return `e` in the first iteration of every loop and on the first core."""
    return substitute(e, {v: Int(0) for v in variables(e)})
