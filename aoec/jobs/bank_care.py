"""`aoec bank prune` and `stats`: what may go, what there is."""
from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from aoec.bank.bank import Bank
from aoec.bank.record import DEFAULT, IMPORTED, SCHEMA_VERSION, Record, flat
from aoec.jobs.bank import SHOWN_DIGITS
from aoec.jobs.shelf import Machines, age


def dispensable(records: Iterable[Record], machines: Machines, keep_days: int, now: datetime) -> list[tuple[Record, str]]:
    """The stale records, which no lookup takes, each with the reason: those older than so many days, and those of an older schema, whose
    func is not kept, so that they cannot be timed again."""
    since = (now - timedelta(days=keep_days)).strftime("%Y-%m-%dT%H:%M:%SZ")
    out = []
    for r in records:
        why = age(r, machines)
        if why.startswith("stale") and (not r.func or not keep_days or r.created < since):
            out.append((r, why + "; of an older schema" * (not r.func)))
    return out


def prune(bank: Bank, machines: Machines, target: str | None, keep_days: int, yes: bool) -> tuple[str, list[dict[str, Any]]]:
    """(what goes, or would go, in words; the same as a program reads it); records are dropped where `yes` is said."""
    found = dispensable(bank.list(target), machines, keep_days, datetime.now(UTC))
    gone = bank.drop([r for r, _ in found]) if yes and found else 0
    rows = [f"{r.key.func_key[:SHOWN_DIGITS]}  {r.key.target}, {r.label}, {r.key.state}: {why}" for r, why in found]
    said = f"{gone:,} records removed" if yes else f"{len(found):,} records would go" + "; --yes removes them" * bool(found)
    return "\n".join([*rows, said]) + "\n", [{"why": why, "removed": yes, **flat(r)} for r, why in found]


# ---------------------------------------------------------------- what there is

def stats(bank: Bank, machines: Machines, target: str | None) -> dict[str, Any]:
    """Counts of a bank's records by target and kind, as plain values."""
    by: dict[tuple[str, str], list[Record]] = {}
    for r in bank.list(target):
        by.setdefault((r.key.target, r.key.kind), []).append(r)
    return {"path": str(bank.path), "bytes": bank.path.stat().st_size, "schema": SCHEMA_VERSION,
            "targets": [{"target": target, "kind": kind, **counted(records, machines)} for (target, kind), records in sorted(by.items())]}


def counted(records: list[Record], machines: Machines) -> dict[str, int]:
    """What some records are."""
    best = [r for r in records if not r.key.state.endswith((DEFAULT, IMPORTED))]
    return {"records": len(records), "funcs": len({r.key.func_key for r in records}), "tuned": sum(r.gained for r in best),
            "nothing_better": sum(not r.gained for r in best), "proved": sum(bool(r.proof) for r in best),
            "imported": sum(r.key.state.endswith(IMPORTED) for r in records),
            "verified": sum(r.verified for r in best), "stale": sum(age(r, machines).startswith("stale") for r in records),
            "trials": sum(r.trials for r in records)}


def stats_told(facts: dict[str, Any]) -> str:
    """The counts as a table."""
    head = f"bank {facts['path']}, {facts['bytes']:,} bytes, schema {facts['schema']}"
    rows = facts["targets"]
    if not rows:
        return f"{head}: no records\n"
    names = list(rows[0])
    table = [[n.replace("_", " ") for n in names], *([f"{row[n]:,}" if isinstance(row[n], int) else row[n] for n in names] for row in rows)]
    widths = [max(len(row[i]) for row in table) for i in range(len(names))]
    lines = ("  ".join(f"{c:<{w}}" if i < 2 else f"{c:>{w}}" for i, (c, w) in enumerate(zip(row, widths))) for row in table)
    return "\n".join([head, *lines]) + "\n"
