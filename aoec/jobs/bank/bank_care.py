"""`aoec bank prune` and `stats`: what may go, what there is."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from aoec.bank.bank import Bank
from aoec.bank.record import DEFAULT, IMPORTED, SCHEMA_VERSION, Record, flat
from aoec.base.text import plural
from aoec.jobs.bank.bank import SHOWN_DIGITS, Plan, title_of
from aoec.jobs.bank.shelf import Machines, age, age_of


def dispensable(records: Iterable[Record], machines: Machines, keep_days: int, now: datetime) -> list[tuple[Record, str]]:
    """Return the stale records, which no lookup uses, each with the reason. They are those older than so many days, and those of an older
    schema. Records of an older schema lack their func, so they cannot be timed again."""
    since = days_before(now, keep_days)
    out = []
    for r in records:
        why = age(r, machines)
        if why.startswith("stale") and (not r.func or not keep_days or r.created < since):
            out.append((r, why + "; of an older schema" * (not r.func)))
    return out


def days_before(now: datetime, days: int) -> str:
    """Return a time as banks have it."""
    return (now - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")


def stale_plans(bank: Bank, machines: Machines, target: str | None, keep_days: int, now: datetime) -> list[tuple[Plan, str]]:
    """Return the plans of slices, and then of models, that no compile takes, as `dispensable` has records."""
    kept: list[Plan] = [*bank.plans.list(target), *bank.model_plans.list(target)]
    found = [(p, age_of(p, machines)) for p in kept]
    return [(p, why) for p, why in found if why.startswith("stale") and (not keep_days or p.created < days_before(now, keep_days))]


def prune(bank: Bank, machines: Machines, target: str | None, keep_days: int, yes: bool) -> tuple[str, list[dict[str, Any]]]:
    """Return (what goes, or would go, in words; the same as a program reads it); records are dropped where `yes` is said."""
    now = datetime.now(UTC)
    changed = [(r, "changed by another program since it was written") for r in bank.changed_records() if target in (None, r.key.target)]
    other = {r for r, _ in changed}
    found = changed + dispensable([r for r in bank.list(target) if r not in other], machines, keep_days, now)
    plans = stale_plans(bank, machines, target, keep_days, now)
    gone = bank.drop_all([*(r for r, _ in found), *(p for p, _ in plans)]) if yes and (found or plans) else 0
    rows = [f"{r.key.func_key[:SHOWN_DIGITS]}  {r.key.target}, {r.label}, {r.key.state}: {why}" for r, why in found]
    rows += [f"{p.graph_key[:SHOWN_DIGITS]}  {p.target}, {p.label}, {title_of(p)}: {why}" for p, why in plans]
    hint = f"; --yes removes {'it' if len(rows) == 1 else 'them'}" * bool(rows)
    said = f"{plural(gone, 'record')} removed" if yes else f"{plural(len(rows), 'record')} would go{hint}"
    return "\n".join([*rows, said]) + "\n", [{"why": why, "removed": yes, **values}
                                             for values, why in [*((flat(r), w) for r, w in found), *((asdict(p), w) for p, w in plans)]]


# ---------------------------------------------------------------- what there is

PLANS = {"plans": "slices", "model_plans": "models"}  # count -> what the plans are of


def stats(bank: Bank, machines: Machines, target: str | None) -> dict[str, Any]:
    """Return counts of a bank's records by target and kind, as plain values."""
    by: dict[tuple[str, str], list[Record]] = {}
    for r in bank.list(target):
        by.setdefault((r.key.target, r.key.kind), []).append(r)
    return {"path": str(bank.path), "bytes": bank.path.stat().st_size, "schema": SCHEMA_VERSION, "plans": len(bank.plans.list(target)),
            "model_plans": len(bank.model_plans.list(target)),
            "targets": [{"target": target, "kind": kind, **count_records(records, machines)}
                        for (target, kind), records in sorted(by.items())]}


def count_records(records: list[Record], machines: Machines) -> dict[str, int]:
    """Return what some records are."""
    best = [r for r in records if not r.key.state.endswith((DEFAULT, IMPORTED))]
    return {"records": len(records), "funcs": len({r.key.func_key for r in records}), "tuned": sum(r.is_faster for r in best),
            "nothing_better": sum(not r.is_faster for r in best), "proved": sum(bool(r.proof) for r in best),
            "imported": sum(r.key.state.endswith(IMPORTED) for r in records),
            "verified": sum(r.verified for r in best), "stale": sum(age(r, machines).startswith("stale") for r in records),
            "trials": sum(r.trials for r in records)}


def stats_told(facts: dict[str, Any]) -> str:
    """Return the counts as a table."""
    plans = "".join(f", {plural(facts[name], 'plan')} of {what}" * bool(facts[name]) for name, what in PLANS.items())
    head = f"bank {facts['path']}, {facts['bytes']:,} bytes, schema {facts['schema']}{plans}"
    rows = facts["targets"]
    if not rows:
        return f"{head}: no records\n"
    names = list(rows[0])
    table = [[n.replace("_", " ") for n in names], *([f"{row[n]:,}" if isinstance(row[n], int) else row[n] for n in names] for row in rows)]
    widths = [max(len(row[i]) for row in table) for i in range(len(names))]
    lines = ("  ".join(f"{c:<{w}}" if i < 2 else f"{c:>{w}}" for i, (c, w) in enumerate(zip(row, widths))) for row in table)
    return "\n".join([head, *lines]) + "\n"
