"""CANN's groupings without tuning, as data: which operators it runs as one, by product (fusions.toml, docs/stock.md)."""
from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TABLE = Path(__file__).with_name("fusions.toml")
PRODUCTS = {"910B": "Ascend910B", "310P": "Ascend310P"}  # a column of the table -> how names of its chips begin


@dataclass(frozen=True)
class Fusion:
    """One line of the table. `steps` is empty where nothing is to be grouped, and `here` says why; `listed`: by product; `words`: how."""

    pattern: str
    source: str
    listed: Mapping[str, bool]
    words: Mapping[str, str]
    steps: tuple[str, ...] = ()
    here: str = ""
    most: int = 0
    after: str = ""
    last: tuple[int, ...] = ()
    except_dtype: str = ""


@cache
def fusions() -> tuple[Fusion, ...]:
    """Return the table, in its order: of two that fit the first is taken."""
    said = tomllib.loads(TABLE.read_text("utf-8"))["fusion"]
    return tuple(Fusion(
        f["pattern"], f["source"], {p: f[p] for p in PRODUCTS}, {p: f[f"words_{p}"] for p in PRODUCTS}, tuple(f.get("steps", ())),
        f.get("here", ""), f.get("most", 0), f.get("after", ""), tuple(f.get("last", ())), f.get("except_dtype", "")) for f in said)


def product_of(machine_name: str) -> str:
    """Return the column of the table that a chip is of; "" where it has none."""
    return next((product for product, begins in PRODUCTS.items() if machine_name.startswith(begins)), "")


def fusions_of(product: str) -> tuple[Fusion, ...]:
    """Return the fusions that a product has and that group operators of our graphs."""
    return tuple(f for f in fusions() if f.listed[product] and f.steps)
