"""What the entries of a site cost, noted once for all sites alike, of whatever sketch, and put on the tapes of their plans as a piece.

Sites are alike where their formulas, numbers and the kinds of what these read are: a plan says for each where it is read from.
"""
from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from aoec.simulate.encode.encode import Site
from aoec.simulate.encode.tables import Around, Rates, costs
from aoec.simulate.encode.tape import Tape, Traced

MOST = 1 << 12  # pieces that are kept
Brought = tuple[type, Any]  # the type of a number, and it; of a column Traced, and whether it holds reals


@dataclass(frozen=True)
class Piece:
    """Operations on single columns. Operands are by place: a column of the piece, behind these its constants, -1 none. `outputs`: places of
    (busy, latency, unit, granule)."""

    ops: tuple[int, ...]
    operands: tuple[tuple[int, ...], ...]
    constants: tuple[tuple[bool, float], ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    def put(self, tape: Tape) -> tuple[list[int], list[int]]:
        """Return (registers of the inputs, of the outputs), the piece being noted behind what the tape holds."""
        at = tape.behind(self.ops, self.operands, self.constants)
        return [at[i] for i in self.inputs], [at[i] for i in self.outputs]


pieces: dict[Hashable, Piece] = {}


def brought(value: Any) -> Brought:
    """Return what of a value a piece depends on."""
    return (Traced, value.real) if isinstance(value, Traced) else (type(value), value)


def piece(site: Site, fields: Mapping[str, Brought], around: tuple[Brought, ...], rates: Rates, lenient: bool, opened: bool) -> Piece:
    """Return how the costs of a site's entry follow from its fields, and from what is around it (the members of `Around`); inputs are in
    order."""
    key = (site.op, site.timing, site.numbers, site.gm_size, site.access is None, tuple(fields.items()), around, rates, lenient, opened)
    found = pieces.get(key)
    if found is None:
        if len(pieces) >= MOST:
            pieces.clear()
        found = pieces[key] = record_piece(site, fields, around, rates, lenient, opened)
    return found


def record_piece(site: Site, fields: Mapping[str, Brought], around: tuple[Brought, ...], rates: Rates, lenient: bool,
                 opened: bool) -> Piece:
    """Return the `piece` of these arguments, noted anew on a tape."""
    tape, inputs = Tape(), list[int]()

    def value(kind: type, number: Any) -> Any:
        if kind is not Traced:
            return number
        own = tape.input()
        inputs.append(own.register)
        return Traced(tape, own.regs, number)

    read = {name: value(*b) for name, b in fields.items()}
    parts, _ = costs(site, read, Around(*[value(*b) for b in around]), rates, lenient, opened)
    outputs = [tape.either(p, False).register for p in parts]
    numbers = frozenset(tape.constants.values())
    own = [at for at in range(tape.columns) if at not in numbers]
    place = {at: i for i, at in enumerate((*own, *tape.constants.values()))} | {-1: -1}
    ops = dict(zip(tape.ops[1::2], tape.ops[::2]))
    assert len(ops) == tape.columns, "an entry is priced by single columns"
    return Piece(tuple([ops[at] for at in own]), tuple([tuple([place[some[at]] for at in own]) for some in tape.operands]),
                 tuple(tape.constants), tuple([place[at] for at in inputs]), tuple([place[at] for at in outputs]))
