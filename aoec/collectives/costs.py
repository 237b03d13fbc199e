"""The noun: a system of several devices, and what its collectives cost."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aoec.base.errors import CheckError
from aoec.base.keys import digest
from aoec.base.text import nearest
from aoec.collectives.curve import Curve

COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather")


@dataclass(frozen=True, slots=True)
class Statement:
    """Where a cost comes from: of which collective and sizes, in words, by whom, and how sure it is."""

    collective: str
    says: str
    source: str
    confidence: str


@dataclass(frozen=True, eq=False)
class System:
    """What collectives of `ranks` ranks cost. Where a table does not say how many, `ranks` is 1: sharing work among them then gains
    nothing, and no real system has one rank.

    `contention`: compute takes so many times as long while a collective runs; 1.0 where nothing is known. `name`: how it was asked for.
    `source`: where most of it comes from.
    """

    name: str
    title: str
    ranks: int
    curves: Mapping[str, Curve]
    statements: tuple[Statement, ...]
    contention: float = 1.0
    contention_source: str = "unknown; taken as 1.0"
    notes: tuple[str, ...] = ()
    source: str = "stated in the file"
    key: str = field(init=False, default="")

    def __post_init__(self) -> None:
        said = [f"{self.ranks} {self.contention!r}"]
        said += [f"{name} {curve.bounds.tolist()} {curve.terms.tolist()}" for name, curve in sorted(self.curves.items())]
        object.__setattr__(self, "key", digest("\n".join(said)))

    def us(self, collective: str, sizes: ArrayLike) -> NDArray[np.float64]:
        """Return the modelled µs of a collective of so many bytes of the whole tensor (not of a shard), in the shape of `sizes`.

        `collective` is all_reduce, reduce_scatter or all_gather. Raise CheckError where the system gives no cost for it. What holds of the
        result: it is finite, never negative, and depends on the size alone. What does not hold: it need not rise with the size. Tables may
        jump up where a library changes its protocol, noisy tables and fits may dip, and two small tensors may cost less than their sum or
        more.
        """
        curve = self.curves.get(collective)
        if curve is None:
            known = ", ".join(sorted(self.curves)) or "none"
            raise CheckError(f"the system {self.name} does not say what {collective} costs; it says: {known}" if collective in COLLECTIVES
                             else f"{collective} is no collective that is known here{nearest(collective, COLLECTIVES)}")
        return curve.us(sizes)
