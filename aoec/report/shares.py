"""What of a model's gain is whose: operator tuning's (OPAT) and subgraph tuning's (SGAT).

OPAT's gain leads from default schedules to tuned ones, both in the default plan: the groups and layouts that a model gets by rules. SGAT's
gain is the rest: what another plan brings, with the tuned schedules of its own groups. So the two add up to the whole. All is modelled.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

WHAT = {"latency": "one inference", "throughput": "from one inference to the next"}


@dataclass(frozen=True)
class Shares:
    """Whole nanoseconds: by default schedules in the default plan, by tuned ones there, and of the compiled model."""

    default_ns: int
    opat_ns: int
    compiled_ns: int
    metric: str = "latency"

    @property
    def gains_ns(self) -> tuple[int, int]:
        """Return the gains of OPAT and SGAT in ns."""
        return self.default_ns - self.opat_ns, self.opat_ns - self.compiled_ns

    @property
    def parts(self) -> tuple[float, float] | None:
        """Return OPAT's and SGAT's part of the gain, which make 1. Return None where nothing is gained or lost."""
        opat, sgat = self.gains_ns
        return (opat / (opat + sgat), sgat / (opat + sgat)) if opat + sgat else None


def as_dict(s: Shares) -> dict[str, Any]:
    """Return the shares as plain values, in microseconds: gains add up, as decimals of three places."""
    opat, sgat = s.gains_ns
    times = {"default_us": s.default_ns, "after_opat_us": s.opat_ns, "after_sgat_us": s.compiled_ns, "opat_gain_us": opat,
             "sgat_gain_us": sgat, "gain_us": opat + sgat}
    parts = s.parts or (None, None)
    return {"metric": s.metric, **{name: ns / 1000 for name, ns in times.items()}, "opat_share": parts[0], "sgat_share": parts[1]}


def words(s: Shares) -> str:
    """Return the shares in a sentence. Return "" where nothing is gained."""
    if s.parts is None:
        return ""
    opat, sgat = (f"{100 * part:.0f} %" for part in s.parts)
    return (f"gain, {WHAT[s.metric]}: by default {s.default_ns / 1000:,.2f} µs; with operators tuned (OPAT) {s.opat_ns / 1000:,.2f}, "
            f"{opat} of the gain; with layouts and slices chosen too (SGAT) {s.compiled_ns / 1000:,.2f}, {sgat}")
