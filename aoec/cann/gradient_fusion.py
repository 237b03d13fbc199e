"""AOE's record of gradient tuning, `<soc>_gradient_fusion.json`: what a profiling run found of a model's gradients.

An array of {"modelhash": decimal text, "modelvalue": {"gradientTime": [...], "gradientSize": [...]}}. Sizes are bytes. Times are those
between a gradient and the one before it; the first is an absolute start, which AOE does not use. No public page says their unit:
they are written and read as µs here. AOE's hash is that of its own graph compiler, and cannot be made elsewhere. The hash written here is
aoec's own, so that CANN finds no model under it. The record says what AOE would have noted; it is not a file to be put into CANN's bank.
"""
from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from aoec.base.errors import CheckError
from aoec.ir.training import StepTrace

HASH_DIGITS = 20  # most decimal digits of 64 bits
UNFILLED = [0, 0, 0, 0, 0]  # an entry that AOE has made and not filled


@dataclass(frozen=True, slots=True)
class Record:
    """One model's record. `gaps_us`: from the gradient before to each gradient."""

    key: str
    sizes: tuple[int, ...]
    gaps_us: tuple[float, ...]


def file_name(soc: str) -> str:
    """Return the name that AOE gives the file of a SoC."""
    return f"{soc}_gradient_fusion.json"


def record_of(trace: StepTrace, key: str) -> Record:
    """Return the record of a trace. `key`: a hash as hex digits, of which the first 16 become the decimal text."""
    ready = [g.ready_us for g in trace.gradients]
    gaps = [ready[0], *(b - a for a, b in pairwise(ready))]
    return Record(str(int(key[:16], 16)), tuple(g.size for g in trace.gradients), tuple(round(us, 6) for us in gaps))


def show_records(records: Sequence[Record]) -> str:
    """Return the file."""
    return json.dumps([{"modelhash": r.key, "modelvalue": {"gradientTime": list(r.gaps_us), "gradientSize": list(r.sizes)}}
                       for r in records], indent=1) + "\n"


def is_record(said: Any) -> bool:
    """Return whether a parsed JSON looks like such a file."""
    return isinstance(said, list) and bool(said) and isinstance(said[0], dict) and "modelvalue" in said[0]


def parse_record(said: Any, source: str, most: int) -> Record:
    """Return the one filled record of a parsed file. Raise CheckError where there is none, or more than one, or it cannot be. `most`:
    gradients."""
    found = [r for number, entry in enumerate(said) if (r := _entry(entry, f"entry {number}", source, most)) is not None]
    if len(found) != 1:
        keys = ", ".join(r.key for r in found[:5])
        raise CheckError(f"the record holds {len(found)} models{f' ({keys})' * bool(found)}; leave the one that is meant", source=source)
    return found[0]


def _entry(entry: Any, where: str, source: str, most: int) -> Record | None:
    """Return a record; None for one that AOE has not filled."""
    value = entry.get("modelvalue") if isinstance(entry, dict) else None
    key = entry.get("modelhash") if isinstance(entry, dict) else None
    times, sizes = (value.get(n) if isinstance(value, dict) else None for n in ("gradientTime", "gradientSize"))
    if not isinstance(key, str) or not key.isdecimal() or len(key) > HASH_DIGITS or not isinstance(times, list) or \
            not isinstance(sizes, list) or len(times) != len(sizes) or not 0 < len(sizes) <= most:
        raise CheckError(f"{where} is no modelhash with a modelvalue of as many gradientTime as gradientSize, at most {most:,}",
                         source=source)
    if times == UNFILLED and sizes == UNFILLED:
        return None
    for number, (us, size) in enumerate(zip(times, sizes)):
        if type(size) is not int or not 0 < size < 1 << 50:
            raise CheckError(f"{where}: gradientSize[{number}] is {str(size)[:40]}; give bytes above zero", source=source)
        if isinstance(us, bool) or not isinstance(us, (int, float)) or not math.isfinite(us) or not 0 <= us <= 1e18:
            raise CheckError(f"{where}: gradientTime[{number}] is {str(us)[:40]}; give a time that is not negative", source=source)
    return Record(key, tuple(sizes), tuple(map(float, times)))
