"""How near costs are to published measurements: what bench/collectives.py found, by system and collective (fidelity.toml)."""
from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from aoec.collectives.costs import System


@dataclass(frozen=True)
class Fidelity:
    """Errors are shares of the measured value. `fit`: rows that the cost was made from; `held_out`: rows that gave no number. `key`: the
    system's, of the costs that were compared."""

    system: str
    collective: str
    key: str
    fit: int
    held_out: int
    fit_worst: float | None = None
    held_out_median: float | None = None
    held_out_worst: float | None = None


@lru_cache(maxsize=1)
def all_rows() -> tuple[Fidelity, ...]:
    """Return every row of the file."""
    raw = tomllib.loads(resources.files("aoec.collectives").joinpath("fidelity.toml").read_text("utf-8"))
    return tuple(Fidelity(**row) for row in raw["row"])


def rows_of(system: System) -> dict[str, Fidelity]:
    """Return the rows of a system by collective; none where its costs are not the ones that were compared."""
    return {row.collective: row for row in all_rows() if row.key == system.key}
