"""Codes of ACL as errors: which class, what it means, what would help. The table is codes.toml; unknown codes keep their number."""
from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from aoec.base.npu_errors import CLASSES, MOST_TEXT, NpuError


@dataclass(frozen=True)
class Meaning:
    """What a code says."""

    kind: type[NpuError]
    name: str
    hint: str


@cache
def _tables() -> tuple[Mapping[int, Meaning], tuple[tuple[str, Meaning], ...]]:
    """Return meanings by code, and those of unknown codes by their leading digit."""
    raw = tomllib.loads(resources.files("aoec.acl").joinpath("codes.toml").read_text("utf-8"))
    known: dict[int, Meaning] = {}
    for group in raw["groups"]:
        for key, name in group.items():
            if key[0].isdigit():
                first, _, last = key.partition("-")
                known |= {code: Meaning(CLASSES[group["class"]], name, group["hint"]) for code in range(int(first), int(last or first) + 1)}
    return known, tuple((u["digit"], Meaning(CLASSES[u["class"]], u["name"], u["hint"])) for u in raw["unknown"])


def codes() -> tuple[int, ...]:
    """Return all codes that the table has."""
    return tuple(_tables()[0])


def meaning(code: int) -> Meaning:
    """Return the meaning of a code, by the table or by its leading digit."""
    known, unknown = _tables()
    return known[code] if code in known else next(m for digit, m in unknown if str(code).startswith(digit))


def error_of(function: str, code: int, vendor: str = "", device: int = -1, launch: int = -1, kind: type[NpuError] | None = None,
             what: str = "", schedule: str = "") -> NpuError:
    """Return the error that a function's code is. `kind`: a class that is known better; `what`: which kernel or bytes it is about."""
    m = meaning(code)
    text = " ".join(vendor.split())[:MOST_TEXT]
    where = f" on device {device}" if device >= 0 else ""
    about = f" for {what}" if what else ""
    return (kind or m.kind)(f"{function}{about} answered {code} ({m.name}){where}{f': {text}' if text else ''}; {m.hint}",
                            function=function, code=code, vendor=vendor, device=device, launch=launch, schedule=schedule)
