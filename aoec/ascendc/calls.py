"""The table of calls as it was read: of each instruction its call, its page, what each product takes or lacks; and what releases renamed.

`calls.toml` says what its words mean. Nothing here writes text of a kernel.
"""
from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from aoec.base.errors import UnsupportedError
from aoec.base.text import nearest
from aoec.target.machine import Machine

WRITTEN = ("2201", "2002", "1001")  # products that sources are written for
DEFAULT_RELEASE = "8.5"


@dataclass(frozen=True)
class Call:
    """An instruction's row. `types`, `lacks`, `unlisted` and `reserves` are by product; `page` is below that of the table; `framework`:
    products on which a kernel with the call takes the TBuf spelling."""

    name: str
    call: str
    fields: str
    units: str
    page: str
    unknown: str = ""
    differs: str = ""
    types: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    lacks: Mapping[str, str] = field(default_factory=dict)
    unlisted: Mapping[str, str] = field(default_factory=dict)
    reserves: Mapping[str, int] = field(default_factory=dict)
    framework: tuple[str, ...] = ()


@dataclass(frozen=True)
class Release:
    """How a release of CANN spells what others call otherwise. `static`: whether a LocalTensor can be made with an address."""

    name: str
    static: bool
    scalar_compare: str
    reduce_max: str
    reduce_min: str
    reduce_sum: str
    block_max: str
    block_min: str
    block_sum: str
    atomic_end: str
    hf32_off: str


@dataclass(frozen=True)
class Table:
    """All that the file says. `events`, `casts`, `atomics` and `ub` (bytes) are by product."""

    calls: Mapping[str, Call]
    releases: Mapping[str, Release]
    products: Mapping[str, str]
    unwritten: Mapping[str, str]
    families: Mapping[str, str]
    pages: Mapping[str, str]
    events: Mapping[str, Mapping[str, frozenset[str]]]
    casts: Mapping[str, Mapping[str, str]]
    atomics: Mapping[str, tuple[str, ...]]
    ub: Mapping[str, int]
    casts_page: str
    events_page: str
    atomics_page: str
    hash: str

    def page(self, short: str) -> str:
        """Return a page in full: its short name begins with a key of `pages`."""
        key, _, rest = short.partition("/")
        return f"{self.pages[key]}/{rest}" if key in self.pages else short


def _call(name: str, row: Mapping[str, Any]) -> Call:
    types = {p: tuple(t) for p, t in row.get("types", {}).items()}
    rest = {k: v for k, v in row.items() if k not in ("types", "framework")}
    return Call(name, **rest, types=types, framework=tuple(row.get("framework", ())))


@cache
def table() -> Table:
    """Return the table that comes with aoec."""
    text = resources.files("aoec.ascendc").joinpath("calls.toml").read_text("utf-8")
    raw = tomllib.loads(text)
    calls = {name: _call(name, row) for name, row in raw["calls"].items()}
    events = {p: {core: frozenset(names) for core, names in kinds.items()} for p, kinds in raw["events"].items() if p != "page"}
    casts = {p: pairs for p, pairs in raw["casts"].items() if p != "page"}
    atomics = {p: tuple(dtypes) for p, dtypes in raw["atomics"].items() if p != "page"}
    releases = {name: Release(name, **row) for name, row in raw["releases"].items()}
    return Table(calls, releases, raw["products"], raw["unwritten"], raw["families"], raw["pages"], events, casts, atomics, raw["ub"],
                 raw["casts"]["page"],
                 raw["events"]["page"], raw["atomics"]["page"], hashlib.sha256(text.encode()).hexdigest())


def product_of(machine: Machine) -> str:
    """Return the product of a machine, by the family that its file extends. Raise UnsupportedError where sources are written for none of
    it."""
    t, files = table(), {origin.rpartition("/")[2].removesuffix(".toml") for origin in machine.merged.origins.values()}
    found = next((product for family, product in t.families.items() if family in files), "")
    if found not in WRITTEN:
        what = f"product {found}, {t.products[found]}" if found else "no product of Ascend C that aoec knows"
        written = ", ".join(f"{p} ({t.products[p]})" for p in WRITTEN)
        why = f" ({t.unwritten[found]})" if found in t.unwritten else ""
        raise UnsupportedError(f"{machine.name} is of {what}{why}; aoec writes Ascend C for {written}")
    return found


def release_of(name: str) -> Release:
    """Return the spelling of a release of CANN; UnsupportedError names those that are known."""
    known = table().releases
    if name not in known:
        raise UnsupportedError(f"release {name} of CANN is unknown{nearest(name, list(known))}; known are {', '.join(known)}")
    return known[name]


def refusal(name: str, product: str, why: str) -> UnsupportedError:
    """Return the message for an instruction that has no call on a product: instruction, call, product, reason and page."""
    t, row = table(), table().calls[name]
    return UnsupportedError(f"{name} has no call on product {product} ({row.call}): {why}; page {t.page(row.page)}")


def check_call(name: str, product: str, dtype: str) -> Call:
    """Return the row of an instruction. Raise UnsupportedError where the product lacks its call, or the call does not take elements of
    `dtype`."""
    row = table().calls[name]
    if product in row.lacks:
        raise refusal(name, product, row.lacks[product])
    if product in row.types and dtype not in row.types[product]:
        raise refusal(name, product, f"{row.call} takes {', '.join(row.types[product])}, and not {dtype}")
    return row
