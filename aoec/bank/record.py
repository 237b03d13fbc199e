"""Record: what a bank keeps of one search, its canonical JSON, its checks, and the join of two records of one key.

`join` takes the better schedule and keeps what either proves. It is commutative, associative and idempotent. So banks can be merged in
any order, any number of times, with one result.
"""
from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, fields, replace
from typing import Any

from aoec.base.errors import BankError

SCHEMA_VERSION = 2  # of records and of the file that holds them: 1 had no func
DEFAULT = "; default"  # ends the state of a record that keeps a default schedule
ROBUST = "; robust"  # and of one that keeps what --robust picked
IMPORTED = "; imported"  # and of one that a bank of CANN says: searches begin with it, no lookup takes it
KINDS = ("modelled", "measured")
PROOFS = ("", "space", "bound")  # weakest first: none; best of its space; meets the lower bound
NAME_LIMIT = 300  # characters
TEXT_LIMIT = 1 << 18
INTEGER_LIMIT = 1 << 62  # SQLite's integers have 64 bits; a sum of two stays inside
CREATED = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)?")


@dataclass(frozen=True, order=True)
class Key:
    """What a record answers. Cycles of different kinds do not compare, so the kind is part of it."""

    func_key: str
    target: str
    machine_hash: str
    model_version: str
    state: str
    kind: str = "modelled"

    @property
    def digest(self) -> str:
        """Return one hash of all fields."""
        return hashlib.sha256(json.dumps([getattr(self, f.name) for f in fields(self)]).encode()).hexdigest()


@dataclass(frozen=True)
class Record:
    """The best schedule known for a key. Ticks are the machine's fixed-point cycles; lower is better.

    `trials`, `seed` and `search` repeat the search that found the trace; `searched` is the most trials that any search of this
    key has spent. `created` is UTC, YYYY-MM-DDTHH:MM:SSZ, or "" where times are left out. `func`: the text of the func that the key is
    of, by which the record can be timed again and found by near shapes; "" where an older schema wrote it.
    """

    key: Key
    label: str
    trace: str
    default_ticks: int
    ticks: int
    bound_ticks: int
    trials: int = 0
    searched: int = 0
    seed: int = 0
    search: str = ""
    proof: str = ""
    verified: bool = False
    tool: str = ""
    created: str = ""
    func: str = ""

    @property
    def is_faster(self) -> bool:
        """Return whether the schedule is faster than the default; one that is not says how much was searched in vain."""
        return self.ticks < self.default_ticks

    @property
    def gap(self) -> float:
        """Return how far above the bound the schedule is: 0.08 is 8 %."""
        return self.ticks / self.bound_ticks - 1 if self.bound_ticks else float("inf")


KEY_FIELDS = tuple(f.name for f in fields(Key))
RECORD_FIELDS = tuple(f.name for f in fields(Record) if f.name != "key")
INTEGERS = ("default_ticks", "ticks", "bound_ticks", "trials", "searched", "seed")


def flat(record: Record) -> dict[str, Any]:
    """Return the record as one flat dictionary, key fields first."""
    return {n: getattr(record.key, n) for n in KEY_FIELDS} | {n: getattr(record, n) for n in RECORD_FIELDS}


def unflat(data: dict[str, Any]) -> Record:
    """Return the record of a flat dictionary; BankError where a field is missing, unknown, of the wrong type or impossible."""
    if wrong := set(data) ^ {*KEY_FIELDS, *RECORD_FIELDS}:
        names = ", ".join(sorted(str(n)[:40] for n in wrong)[:5])
        raise BankError(f"a record has the fields {', '.join(KEY_FIELDS + RECORD_FIELDS)}, no more and no less; wrong here: {names}")
    for name, value in data.items():
        _check_field(name, value)
    record = Record(Key(**{n: data[n] for n in KEY_FIELDS}), **{n: data[n] for n in RECORD_FIELDS})
    if not record.bound_ticks <= record.ticks <= record.default_ticks:
        order = f"{record.bound_ticks}, {record.ticks}, {record.default_ticks}"
        raise BankError(f"bound, tuned and default must not fall in this order: {order}")
    return record


def _check_field(name: str, value: object) -> None:
    if name in INTEGERS:
        good = type(value) is int and 0 <= value < INTEGER_LIMIT
    elif name == "verified":
        good = type(value) is bool
    else:
        good = isinstance(value, str) and _good_text(name, value)
    if not good:
        raise BankError(f"field {name} cannot be {str(value)[:60]!r}")


def _good_text(name: str, value: str) -> bool:
    if name in ("trace", "func"):
        return (name == "trace") <= len(value) <= TEXT_LIMIT and all(c.isprintable() or c == "\n" for c in value)
    choices = {"kind": KINDS, "proof": PROOFS}
    if name in choices:
        return value in choices[name]
    return len(value) <= NAME_LIMIT and value.isprintable() and (name != "created" or bool(CREATED.fullmatch(value)))


def show_record(record: Record, times: bool = True) -> str:
    """Return the record as one line of canonical JSON; without times it says nothing of when it was made."""
    data = flat(record) | {"schema": SCHEMA_VERSION}
    return json.dumps(data if times else data | {"created": ""}, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def parse_record(line: str) -> Record:
    """Return the record of a line of JSON, of this schema or an older one; BankError where it is none."""
    try:
        data = json.loads(line, parse_constant=_refuse)
    except (ValueError, RecursionError) as e:
        raise BankError(f"this is not JSON: {str(e)[:100]}") from e
    if not isinstance(data, dict):
        raise BankError("a record is a JSON object")
    schema = data.pop("schema", 1)
    if type(schema) is not int or not 1 <= schema <= SCHEMA_VERSION:
        raise BankError(f"a record of schema {str(schema)[:20]} is beyond this aoec, which knows up to {SCHEMA_VERSION}")
    return unflat(data if schema > 1 else {"func": "", **data})


def checksum(record: Record) -> str:
    """Return what is kept beside a record, to tell whether another program has changed it: 32 hex digits of the sha256 of its line."""
    return hashlib.sha256(show_record(record).encode()).hexdigest()[:32]


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not a number here")


def join(a: Record, b: Record) -> Record:
    """Return the better of two records of one key: fewer ticks, then the canonically smaller trace, then the longer search. A proof is
    kept for equal ticks, a verification for the same trace, and the effort spent always."""
    assert a.key == b.key
    best, other = sorted((a, b), key=_order)
    searched, func = max(a.searched, b.searched), max(a.func, b.func)
    if best.ticks != other.ticks:
        return replace(best, searched=searched, func=func)
    proof = max(a.proof, b.proof, key=PROOFS.index)
    verified = a.verified or b.verified if a.trace == b.trace else best.verified
    return replace(best, searched=searched, proof=proof, verified=verified, func=func)


def _order(r: Record) -> tuple[object, ...]:
    """Return which of two is the better, the lesser one: faster, then always the same; a line of an export need not say when it was
    made."""
    return (r.ticks, r.trace, -r.trials, r.search, r.seed, r.label, r.default_ticks, -r.bound_ticks, r.tool, not r.created, r.created)
