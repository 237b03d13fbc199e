"""Plans: which groups of a subgraph run in slices, kept beside the records. Like these a plan is a claim: what it says is timed again in a
model before it is taken.

A subgraph is named by the canonical text of its groups, without the values of constants; a plan names groups by their place in it.
"""
from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from sqlalchemy import Column, Integer, String, Table, delete, inspect, select
from sqlalchemy.dialects.sqlite import insert

from aoec.bank import lines
from aoec.bank.record import CREATED, INTEGER_LIMIT, NAME_LIMIT, TEXT_LIMIT
from aoec.bank.store import Store, metadata
from aoec.base.errors import BankError, ParseError
from aoec.base.regions import regions

VERSION = 1  # of a line of an export
METRICS = ("latency", "throughput")
INTEGERS = ("before_ns", "after_ns")
HASHES = {"graph_key": 64, "schedules": 16}  # hex digits


@dataclass(frozen=True, order=True)
class SlicePlan:
    """`schedules`: a hash of those that the groups had whole when the plan was looked for; `metric`: by what a model with it was held
    against one without. `regions`: as `--slices` takes them, groups being g0, g1, ... in order; "" where nothing is faster in slices.
    `before_ns`, `after_ns`: modelled, of the subgraph in one inference, or of the time between two, by the metric, whole and with the
    plan."""

    graph_key: str
    target: str
    machine_hash: str
    model_version: str
    schedules: str
    metric: str
    label: str
    regions: str
    before_ns: int
    after_ns: int
    tool: str = ""
    created: str = ""

    @property
    def is_faster(self) -> bool:
        """Whether something is faster in slices; a plan in which nothing is says that it was looked for in vain."""
        return bool(self.regions)


KEY = tuple(f.name for f in fields(SlicePlan))[:6]
table = Table("plans", metadata, *[
    Column(f.name, Integer if f.name in INTEGERS else String, primary_key=f.name in KEY, nullable=False) for f in fields(SlicePlan)])


class Plans:
    """The plans in a bank's file."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def put_all(self, found: Iterable[SlicePlan]) -> tuple[str, ...]:
        """"added", "updated" or "kept" for each, in one transaction: of two of one key the faster stays."""
        given, out = [check_fields(asdict(p)) for p in found], []
        with self._store.writing() as c:
            for p in given:
                row = c.execute(select(table).where(*[table.c[n] == getattr(p, n) for n in KEY])).first()
                held = check_fields(dict(row._mapping)) if row is not None else None
                better = held is None or _order(p) < _order(held)
                if better:
                    c.execute(insert(table).prefix_with("OR REPLACE"), [asdict(p)])
                news = better and (held is None or replace(held, created=p.created) != p)  # when it was made is none
                out.append("added" if held is None else "updated" if news else "kept")
        return tuple(out)

    def list(self, target: str | None = None, graph_key: str = "") -> tuple[SlicePlan, ...]:
        """Plans, sorted; `target` selects by name, `graph_key` by how the key begins. A bank that an older aoec wrote has none."""
        query = select(table).where(table.c.graph_key.startswith(graph_key, autoescape=True))
        query = query.where(table.c.target == target) if target is not None else query
        with self._store.reading() as c:
            found = c.execute(query).all() if inspect(c).has_table(table.name) else []
        return tuple(sorted(check_fields(dict(row._mapping)) for row in found))

    def drop(self, plans: Iterable[SlicePlan]) -> int:
        """How many of these plans the bank had and now has not; one that was replaced meanwhile stays."""
        with self._store.writing() as c:
            return sum(c.execute(delete(table).where(*[table.c[n] == v for n, v in asdict(p).items()])).rowcount for p in plans)


def _order(p: SlicePlan) -> tuple[object, ...]:
    """Which of two of one key stays, the lesser one: faster, then always the same."""
    return p.after_ns, p.regions, p.before_ns, p.label, p.tool, not p.created, p.created


def check_fields(data: dict[str, Any]) -> SlicePlan:
    """The plan of its fields; BankError where one is missing, unknown or impossible."""
    names = [f.name for f in fields(SlicePlan)]
    if wrong := set(data) ^ set(names):
        listed = ", ".join(sorted(str(n)[:40] for n in wrong)[:5])
        raise BankError(f"a plan of slices has the fields {', '.join(names)}, no more and no less; wrong here: {listed}")
    for name, value in data.items():
        if not _good(name, value):
            raise BankError(f"field {name} of a plan of slices cannot be {str(value)[:60]!r}")
    p = SlicePlan(**data)
    if p.after_ns > p.before_ns or p.regions and p.after_ns == p.before_ns:
        raise BankError(f"a plan of slices is faster than none: {p.before_ns}, {p.after_ns}")
    return p


def _good(name: str, value: object) -> bool:
    if name in INTEGERS:
        return type(value) is int and 0 < value < INTEGER_LIMIT
    if not isinstance(value, str) or not value.isprintable() or len(value) > (TEXT_LIMIT if name == "regions" else NAME_LIMIT):
        return False
    if name in HASHES:
        return bool(re.fullmatch(f"[0-9a-f]{{{HASHES[name]}}}", value))
    if name == "regions":
        return not value or all(re.fullmatch("g[0-9]+", g) for first, last, _ in _regions(value) for g in (first, last))
    return value in METRICS if name == "metric" else bool(CREATED.fullmatch(value)) if name == "created" else True


def _regions(text: str) -> tuple[tuple[str, str, int], ...]:
    try:
        return regions(text)
    except ParseError as e:
        raise BankError(f"a plan of slices names its regions: {e.message}") from None


def show(p: SlicePlan, times: bool = True) -> str:
    """One line of canonical JSON; without times it says nothing of when it was made."""
    return lines.show(asdict(p), "plan", VERSION, times)


def parse(line: str) -> SlicePlan | None:
    """The plan of a line of an export; None of a line that is of something else."""
    data = lines.parse(line, "plan", VERSION, "a plan of slices")
    return None if data is None else check_fields(data)
