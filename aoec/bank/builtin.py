"""The built-in bank: schedules of well-known networks that come with aoec, one text file for each target. It is read, never written.

The first line states the schema of the file and what most records have in common (machine, model version, seed, ...). Each further line
is a record, sorted by key, with only the fields in which it differs. So a change of the model version that changes no schedule is a
change of one line. Lines of plans of models follow, sorted by key. They state target, machine and model version where these are not
those of the records. `bench/builtin.py` makes the files.
"""
from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from aoec.bank.model_plans import MODEL_PLANS, ModelPlan
from aoec.bank.near import family
from aoec.bank.record import DEFAULT, SCHEMA_VERSION, Key, Record, flat, unflat
from aoec.bank.rows import values
from aoec.base.errors import BankError
from aoec.base.files.files import read_bytes, write_text

LIMIT_BYTES = 8 << 20
LINE = re.compile(rb'^\{"func_key":"([0-9a-f]{64})".*$', re.MULTILINE)
PLAN_LINE = re.compile(rb'^\{"graph_key":".*$', re.MULTILINE)
SHARED = ("target", "machine_hash", "model_version")  # fields of a plan that the first line has
OMITTED = {"tool": "", "created": ""}  # they would differ with nothing else


class Shelf(Protocol):
    """What records are looked up in: a bank, or the built-in one."""

    @property
    def path(self) -> Path: ...
    def all_of(self, keys: Iterable[Key]) -> dict[Key, Record]: ...
    def of_funcs(self, func_keys: Iterable[str]) -> tuple[Record, ...]: ...
    def of_families(self, families: Iterable[str]) -> tuple[Record, ...]: ...
    def list(self, target: str | None = None, func_key: str = "", kind: str | None = None) -> tuple[Record, ...]: ...


class BuiltIn:
    """The records of one target; a shelf like a bank. Only the lines that are asked for are read as JSON."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._data = read_bytes(path, LIMIT_BYTES)
        self._common = self._head()

    @staticmethod
    def of(target: str) -> BuiltIn | None:
        """Return the built-in bank of a target by its name; None where there is none."""
        path = _place(target)
        return BuiltIn(path) if path is not None and path.is_file() else None

    @property
    def made_for(self) -> tuple[str, str]:
        """Return (machine hash, model version) of its records: for any other machine or model they say nothing."""
        return self._common["machine_hash"], self._common["model_version"]

    def all_of(self, keys: Iterable[Key]) -> dict[Key, Record]:
        """Return the records of those of the keys that have one."""
        wanted = set(keys)
        return {r.key: r for r in self.of_funcs(k.func_key for k in wanted) if r.key in wanted}

    def of_funcs(self, func_keys: Iterable[str]) -> tuple[Record, ...]:
        """Return all records of these funcs, sorted by key."""
        return tuple(r for f in sorted(set(func_keys)) for r in self._of(f))

    def of_families(self, families: Iterable[str]) -> tuple[Record, ...]:
        """Return all records of the funcs of these families (near.py), sorted by key."""
        wanted = set(families) - {""}
        return tuple(r for r in self.list() if family(r.func) in wanted) if wanted else ()

    def list(self, target: str | None = None, func_key: str = "", kind: str | None = None) -> tuple[Record, ...]:
        """Return records sorted by key; as of a bank."""
        found = (r for f in self._places if f.startswith(func_key) for r in self._of(f))
        return tuple(r for r in found if target in (None, r.key.target) and kind in (None, r.key.kind))

    @cached_property
    def model_plans(self) -> tuple[ModelPlan, ...]:
        """Return all plans of models, sorted; BankError where a line is none."""
        common = {n: self._common.get(n) for n in SHARED} | OMITTED
        given = (_object(m[0], self.path) for m in PLAN_LINE.finditer(self._data))
        return tuple(sorted(p for g in given if (p := MODEL_PLANS.read(common | g)) is not None))

    @cached_property
    def _places(self) -> dict[str, tuple[int, int]]:
        """Return func key -> begin and end of its lines, which are contiguous."""
        out: dict[str, tuple[int, int]] = {}
        for m in LINE.finditer(self._data):
            name = m[1].decode()
            out[name] = out.get(name, m.span())[0], m.end()
        return out

    def _of(self, func_key: str) -> Iterator[Record]:
        start, end = self._places.get(func_key, (0, 0))
        for line in self._data[start:end].splitlines():
            yield unflat(self._common | _object(line, self.path))

    def _head(self) -> dict[str, Any]:
        head = _object(self._data.split(b"\n", 1)[0], self.path)
        if head.get("schema") != SCHEMA_VERSION or not isinstance(head.get("common"), dict):
            raise BankError(f"the built-in bank {self.path} has schema {str(head.get('schema'))[:20]} and this aoec knows {SCHEMA_VERSION}")
        return dict(head["common"])


def built_in() -> tuple[BuiltIn, ...]:
    """Return all that come with aoec, by target."""
    return tuple(BuiltIn(p) for p in sorted(Path(__file__).parent.glob("*.jsonl")))


def _place(target: str) -> Path | None:
    """Return where a target's file is, or would be; None of a name that is no file's."""
    return Path(__file__).parent / f"{target}.jsonl" if re.fullmatch(r"\w+", target) else None


def _object(line: bytes, path: Path) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as e:
        raise BankError(f"the built-in bank {path} is damaged: {str(e)[:100]}; install aoec again") from e
    if not isinstance(found, dict):
        raise BankError(f"the built-in bank {path} is damaged: a line is no JSON object; install aoec again")
    return found


def write(target: str, records: Iterable[Record], folder: Path | None = None, plans: Iterable[ModelPlan] = ()) -> Path:
    """Write the built-in bank of a target with these records and plans of models, and return its path. Equal ones give equal bytes. A
    default's record has no func, since the best record of the same key has it. Funcs that have only defaults, of layouts that were not
    chosen, are left out."""
    records = sorted(records, key=lambda r: r.key)
    tuned = {r.key.func_key for r in records if not r.key.state.endswith(DEFAULT)}
    rows = [flat(r) | OMITTED | ({"func": ""} if r.key.state.endswith(DEFAULT) else {}) for r in records if r.key.func_key in tuned]
    usual = {n: Counter(row[n] for row in rows).most_common(1)[0] for n in rows[0] if n != "func_key"}
    common = {n: value for n, (value, count) in usual.items() if 2 * count >= len(rows)} | {"func": ""}
    lines = [{"schema": SCHEMA_VERSION, "common": common},
             *({n: v for n, v in row.items() if n not in common or common[n] != v} for row in rows),
             *(_plan_line(p, common) for p in sorted(plans))]
    place = _place(target)
    assert place is not None  # the name of a shipped machine
    place = place if folder is None else folder / place.name
    write_text(place, "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    return place


def _plan_line(p: ModelPlan, common: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a plan's line: its word, and what differs from the first line."""
    return {n: v for n, v in values(p).items() if n not in OMITTED and (n not in SHARED or common.get(n) != v)} | MODEL_PLANS.mark
