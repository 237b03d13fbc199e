"""Schedules out of the folder of results of a tuning, as a bank has them."""
from __future__ import annotations

from pathlib import Path
from typing import Any

from aoec.bank.record import DEFAULT, Record, unflat
from aoec.base.errors import BankError, CheckError
from aoec.report.results.folder import operators

NOT_SAID = {"seed": 0, "search": "", "kind": "modelled", "verified": False, "tool": "", "created": "", "func": ""}
LABEL_LIMIT = 60


def schedules(folder: Path) -> tuple[Record, ...]:
    """Return the default schedule and the best one of each operator. Raise BankError where a file does not say them. Times are tried before
    use."""
    try:
        return tuple(r for file, said in operators(folder) for r in _records(file, said))
    except CheckError as e:
        raise BankError(str(e)) from e


def _records(file: Path, said: Any) -> tuple[Record, Record]:
    """Return (default, best) of an operator's file."""
    try:
        ticks, types = said["ticks"], "+".join(said["types"])
        common = {**NOT_SAID, **{n: said[n] for n in ("func_key", "target", "machine_hash", "model_version", "trials")},
                  "label": types[:LABEL_LIMIT], "searched": said["trials"], "default_ticks": ticks["default"],
                  "bound_ticks": ticks["bound"]}
        default, best = ("\n".join(said[name]) + "\n" for name in ("default_schedule", "schedule"))
        return (unflat({**common, "state": said["state"] + DEFAULT, "trace": default, "ticks": ticks["default"], "proof": ""}),
                unflat({**common, "state": said["state"], "trace": best, "ticks": ticks["best"], "proof": said["proof"]}))
    except (BankError, KeyError, TypeError) as e:
        why = f"{e} is missing; an older aoec wrote it, or another program" if isinstance(e, KeyError) else str(e)[:200]
        raise BankError(f"{file} does not say what a schedule takes: {why}") from e
