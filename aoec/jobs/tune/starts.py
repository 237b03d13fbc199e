"""Starting points of a search beside the default: schedules of the same func that are stale or from CANN's own banks, and of near shapes.

They are claims of a bank, and their times on this machine are not known. So each is placed in the space and timed as a candidate.
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from aoec.bank.bank import Bank
from aoec.bank.near import distance, family
from aoec.bank.record import DEFAULT, IMPORTED, Record
from aoec.base.errors import AoecError
from aoec.base.text import plural
from aoec.ir.text.parse import parse_trace
from aoec.ir.text.show import show
from aoec.jobs.bank.shelf import stale
from aoec.jobs.choose.model_tasks import Task
from aoec.jobs.tune.order import Order, keys, suffices
from aoec.jobs.tune.tuning import Problem
from aoec.search.space.grid import Candidate
from aoec.search.space.nearest import nearest_candidates
from aoec.target.machine import Machine

MOST = 4  # schedules that a search is given

Starts = Mapping[str, tuple[str, ...]]  # func key -> texts of schedules


def starts(plan: Sequence[Task], machine: Machine, bank: Bank, order: Order) -> tuple[Starts, str]:
    """Return (known starting points for the searches of a job, a line that says so or "").

    Records that a run of the same job may have kept are left out. So a job that is broken off and resumes ends as it would have otherwise.
    """
    wanted = {t.func_key: t for t in tasks_to_search(plan, machine, bank, order)}
    if not wanted:
        return {}, ""
    texts = {k: show(replace(t.func, name="f")) for k, t in wanted.items()}
    old: dict[str, list[Record]] = {}
    for r in usable(bank.of_funcs(wanted), machine):
        if is_imported(r) or stale(r.key.machine_hash, r.key.model_version, machine):
            old.setdefault(r.key.func_key, []).append(r)
    planned = {t.func_key for t in plan}
    near: dict[str, list[Record]] = {}
    for r in usable(of_families(bank, map(family, texts.values())), machine):
        if r.key.func_key not in planned:
            near.setdefault(family(r.func), []).append(r)
    found = {}
    for k, text in texts.items():
        alike = sorted(near.get(family(text), ()), key=lambda r: (distance(text, r.func), r.key))
        if traces := first([*sorted(old.get(k, ()), key=lambda r: r.ticks), *alike]):
            found[k] = traces
    vendors = sum(all(map(is_imported, some)) for some in old.values())
    return found, describe_starts(len(old) - vendors, vendors, len(found.keys() - old.keys()))


def tasks_to_search(plan: Sequence[Task], machine: Machine, bank: Bank, order: Order) -> list[Task]:
    """Return the tasks of which the bank does not say enough for no search to be made."""
    asked = {keys(t, machine, order.robust)[1]: t for t in plan}
    held = {} if order.repeat else bank.claims(asked)
    return [t for k, t in asked.items() if k not in held or not suffices(held[k], order)]


def usable(records: Iterable[Record], machine: Machine) -> list[Record]:
    """Return those that a search may learn from: all of CANN's, and those that are better than their default in a model of the same chip,
    of any machine file."""
    here = (machine.name, "modelled")
    mine = [r for r in records if (r.key.target, r.key.kind) == here]
    return [r for r in mine if r.is_faster and not r.key.state.endswith(DEFAULT) or is_imported(r)]


def is_imported(record: Record) -> bool:
    """Return whether a bank of CANN said it (cann_import.py): no run of a job keeps any such."""
    return record.key.state.endswith(IMPORTED)


def of_families(bank: Bank, families: Iterable[str]) -> list[Record]:
    """Return the records of these families in the bank and in the one beneath it."""
    wanted = set(families)
    return [*bank.of_families(wanted), *(bank.base.of_families(wanted) if bank.base else ())]


def first(records: Iterable[Record]) -> tuple[str, ...]:
    """Return the schedules of the first few records, each once."""
    return tuple(dict.fromkeys(r.trace for r in records))[:MOST]


def describe_starts(stale: int, imported: int, near: int) -> str:
    """Return what is known, in words."""
    kinds = ((stale, "stale schedules, of another machine file or model version"), (imported, "CANN's own tilings"),
             (near, "schedules of near shapes"))
    parts = [f"{plural(count, 'group')} with {what}" for count, what in kinds if count]
    return f"the bank has starting points for {' and '.join(parts)}" if parts else ""


def candidates(p: Problem, traces: Iterable[str]) -> list[Candidate]:
    """Return the candidates of a problem's space that are nearest to schedules, each once. A text that is no schedule has none."""
    out: dict[Candidate, None] = {}
    for text in traces:
        try:
            out |= dict.fromkeys(nearest_candidates([s.trace for s in p.sketches], p.space.grids, parse_trace(text)))
        except AoecError:
            continue
    return list(out)
