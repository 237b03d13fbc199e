"""Schedules and plans from a file that is no bank, over another shelf: those of a model's own file, or of the folder of results of a job.
What plans a shelf has."""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from aoec.bank.bank import Bank
from aoec.bank.builtin import BuiltIn, Shelf
from aoec.bank.model_plans import ModelPlan
from aoec.bank.plans import SlicePlan
from aoec.bank.record import Key, Record


class Claimed:
    """Records that are asked for by key or func, and plans; whatever else is asked is asked of the shelf beneath. They are tried before
    use."""

    def __init__(self, records: Iterable[Record], base: Shelf | None, path: Path, plans: tuple[SlicePlan, ...] = (),
                 model_plans: tuple[ModelPlan, ...] = ()) -> None:
        self.base, self.path, self.records, self.plans, self.model_plans = base, path, {r.key: r for r in records}, plans, model_plans

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


def kept_plans(shelf: Shelf | None, target: str | None) -> Iterator[SlicePlan]:
    """Yield the plans of slices of a shelf, and then of those beneath it."""
    for one in shelves(shelf):
        if isinstance(one, Bank):
            yield from one.plans.list(target)
        elif isinstance(one, Claimed):
            yield from (p for p in one.plans if target in (None, p.target))


def kept_model_plans(shelf: Shelf | None, target: str | None, graph_key: str = "") -> Iterator[ModelPlan]:
    """Yield the plans of models of a shelf, and then of those beneath it; `graph_key`: how their key begins."""
    for one in shelves(shelf):
        if isinstance(one, Bank):
            yield from one.model_plans.list(target, graph_key)
        elif isinstance(one, Claimed | BuiltIn):
            yield from (p for p in one.model_plans if target in (None, p.target) and p.graph_key.startswith(graph_key))


def shelves(shelf: Shelf | None) -> Iterator[Shelf]:
    """Yield a shelf, and those beneath it in order."""
    while shelf is not None:
        yield shelf
        shelf = shelf.base if isinstance(shelf, Bank | Claimed) else None
