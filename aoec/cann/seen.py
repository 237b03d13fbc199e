"""An operator as CANN's own files list it: after its fusions, in the layouts that it chose."""
from __future__ import annotations

from dataclasses import dataclass

from aoec.cann.op_summary import Operand


@dataclass(frozen=True)
class Seen:
    """An operator by CANN's name and type; `duration_us`: the mean of its calls, measured on a device, where the file says it."""

    name: str
    type: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    duration_us: float | None = None
    calls: int = 1

    @property
    def all_us(self) -> float:
        """Return the time of all calls in us, or 0 where no time is known."""
        return (self.duration_us or 0.0) * self.calls
