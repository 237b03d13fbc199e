"""The knowledge bank at the command line: list, best, export, import, merge."""
from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from aoec.bank.bank import Bank, statuses
from aoec.bank.record import DEFAULT, Record, flat
from aoec.base.errors import BankError
from aoec.base.ticks import TICKS_PER_CYCLE

SHOWN_DIGITS = 16  # of a func key: enough to name a record


def list_records(path: Path, target: str | None, as_json: bool) -> str:
    """The records as a table, or as JSON."""
    found = Bank.open(path, create=False, writable=False).list(target)
    if as_json:
        return json.dumps([flat(r) for r in found], indent=2) + "\n"
    found = tuple(r for r in found if not r.key.state.endswith(DEFAULT))  # every row says its default anyway
    if not found:
        return ""
    columns = " ".join(f"{name:>12}" for name in ("default", "tuned", "bound"))
    head = f"{'key':{SHOWN_DIGITS}}  {columns} {'gap':>7} {'trials':>7}  target, label (cycles, by kind)\n"
    return head + "".join(_row(r) for r in found)


def _row(r: Record) -> str:
    cycles = " ".join(f"{t / TICKS_PER_CYCLE:12,.0f}" for t in (r.default_ticks, r.ticks, r.bound_ticks))
    return f"{r.key.func_key[:SHOWN_DIGITS]}  {cycles} {r.gap:7.1%} {r.trials:7,}  {r.key.target}, {r.label} ({r.key.kind})\n"


def best(path: Path, key: str | None, target: str | None, as_json: bool) -> str:
    """The schedule of the record whose key begins so, as text or with the whole record as JSON."""
    if not key:
        raise BankError("which record? Give the beginning of its key, as aoec bank list shows it")
    found = Bank.open(path, create=False, writable=False).list(target, key)
    if not found:
        raise BankError(f"{path} has no record whose key begins with {key}; see aoec bank list")
    if len({(r.key.func_key, r.key.target) for r in found}) > 1:
        names = ", ".join(sorted({f"{r.key.func_key[:SHOWN_DIGITS]} on {r.key.target}" for r in found})[:5])
        raise BankError(f"{len(found)} records have a key that begins with {key} ({names}); give more of it, or --target, "
                        "or use bank list --json")
    record = min(found, key=_preference)
    return json.dumps(flat(record), indent=2) + "\n" if as_json else record.trace + "\n"


def _preference(r: Record) -> tuple[bool, bool, int]:
    """Searched before default, cold inputs before other memory states, faster before slower."""
    return r.key.state.endswith(DEFAULT), r.key.state != "cold inputs", r.ticks


def export(path: Path, file: str) -> str:
    """Nothing to print; all records go to `file` as JSON lines."""
    Bank.open(path, create=False, writable=False).export(file)
    return ""


def import_(path: Path, file: str | None) -> str:
    """What became of the records of an exported file."""
    return _taken(path, file, lambda bank, name: bank.import_(name))


def merge(path: Path, file: str | None) -> str:
    """What became of the records of another bank."""
    return _taken(path, file, lambda bank, name: bank.merge(Bank.open(name, create=False, writable=False)))


def _taken(path: Path, file: str | None, take: Callable[[Bank, str], tuple[str, ...]]) -> str:
    if not file:
        raise BankError("from which file? Give it after the word")
    if not Path(file).is_file():
        raise BankError(f"there is no file {file}")
    made = not path.exists()
    try:
        return f"{statuses(take(Bank.open(path), file))} ({path})\n"
    except BankError:
        if made:  # a refused import leaves no empty bank behind
            for leftover in path.parent.glob(path.name + "*"):
                leftover.unlink()
        raise
