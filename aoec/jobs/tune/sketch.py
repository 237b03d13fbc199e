"""One sketch of a tuning problem: its trace, and what becomes of it once for all of its candidates."""
from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from aoec.ir.index import Int, hole_names
from aoec.ir.program import Program
from aoec.ir.rewrite import holes as holes_of
from aoec.ir.schedule import Trace
from aoec.ir.text.show import show
from aoec.search.space.alike import Ceiling, ceilings
from aoec.search.space.grid import Rows
from aoec.simulate.encode.encode import Encoded, encode
from aoec.simulate.timing.floors import placing_holes

LOOSE = 4  # times as many flags are there for the walk of a core that is to be a bound: slots of several buffers share a pair of pipes


@dataclass(frozen=True)
class Sketch:
    """A trace with holes, and what it becomes: the program with the same holes, encoded for the timeline. `number`: among all that are
    laid out, of which a user may have left some."""

    trace: Trace
    program: Program
    encoded: Encoded
    number: int

    def question(self, columns: Rows) -> list[bytes]:
        """Return what names rows of this sketch in a question: its text, and each hole with its values."""
        return [self.text, *[part for name, values in columns.items() for part in (name.encode(), values.tobytes())]]

    @cached_property
    def loose(self) -> Encoded:
        """Return the program encoded for a machine that gives lower bounds. That machine has more flags, for as many slots as each buffer
        may have, whether the real machine's flags suffice or not. Where L0C is handed over in granules, each granule is there at once. So
        it is there no later than with real granules or without."""
        own, of = self.encoded, self.encoded.machine
        machine = replace(of, flag_ids=LOOSE * of.flag_ids, timing={n: replace(t, granule=Int(0)) for n, t in of.timing.items()})
        return replace(encode(self.program, machine), units=own.units, noted=own.noted, emitted=own.emitted)

    @cached_property
    def slots(self) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
        """Return the holes that count slots, and which of these change no cost: see Problem.slots."""
        found = frozenset().union(*(hole_names(depth) for _, depth in self.encoded.counters))
        return found, found - self.encoded.work_holes, found - placing_holes(self.encoded)

    @cached_property
    def ceilings(self) -> list[Ceiling]:
        """Return holes with what they are large enough from: see Bounds.ceilings."""
        return ceilings(self.program, holes_of(self.trace))

    @cached_property
    def text(self) -> bytes:
        """Return the trace as text."""
        return show(self.trace).encode()
