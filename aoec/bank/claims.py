"""Schedules from a file that is no bank, over another shelf: those of a model's own file, or of the folder of results of a job."""
from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from aoec.bank.builtin import Shelf
from aoec.bank.plans import SlicePlan
from aoec.bank.record import Key, Record


class Claimed:
    """Records that are asked for by key or func, and plans of slices; whatever else is asked is asked of the shelf beneath. They are tried
    before use."""

    def __init__(self, records: Iterable[Record], base: Shelf | None, path: Path, plans: tuple[SlicePlan, ...] = ()) -> None:
        self.base, self.path, self.records, self.plans = base, path, {r.key: r for r in records}, plans

    def all_of(self, wanted: Iterable[Key]) -> dict[Key, Record]:
        asked = set(wanted)
        return (self.base.all_of(asked - self.records.keys()) if self.base else {}) | {k: r for k, r in self.records.items() if k in asked}

    def of_funcs(self, func_keys: Iterable[str]) -> tuple[Record, ...]:
        wanted = set(func_keys)
        own = (r for r in self.records.values() if r.key.func_key in wanted)
        return *own, *(self.base.of_funcs(wanted) if self.base else ())

    def of_families(self, families: Iterable[str]) -> tuple[Record, ...]:
        return self.base.of_families(families) if self.base else ()

    def list(self, target: str | None = None, func_key: str = "", kind: str | None = None) -> tuple[Record, ...]:
        return self.base.list(target, func_key, kind) if self.base else ()
