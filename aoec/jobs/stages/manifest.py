"""The manifest of a dump: names, ports, target, and what the search found of each group. Read before anything heavy is imported."""
from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from aoec.base.errors import CheckError
from aoec.base.files.files import read_text
from aoec.ir.graph.graph import MOST_GEARS

FIELDS = {"name": str, "target": str, "precision": str, "inputs": list, "outputs": list, "groups": dict}
GROUP_FIELDS = {"key": str, "default": str, "trace": str, "default_ticks": int, "ticks": int, "bound_ticks": int, "proof": str}
GEARS = "gears.txt"
NAME = re.compile(r"gear_[0-9]+(x[0-9]+)*")
PROOFS = ("", "space", "bound")


def folders(folder: Path) -> list[Path]:
    """Return the folders of a dump's gears, in order; the folder itself where it has none."""
    listed = folder / GEARS
    if not listed.is_file():
        return [folder]
    names = read_text(listed).split()
    if not 1 < len(set(names)) == len(names) <= MOST_GEARS or not all(NAME.fullmatch(n) for n in names):
        raise CheckError("this is no list of a dump's gears, which are called gear_8 or gear_8x448x448, one a line", source=str(listed))
    return [folder / n for n in names]


def read(folder: Path) -> dict[str, Any]:
    """Return the manifest of a dumped folder, its fields present and of their types. Raise CheckError where it is none."""
    path = folder / "manifest.json"
    if not path.exists():
        raise CheckError("this folder holds no dump: aoec compile --dump DIR writes one, with a manifest.json", source=str(folder))
    try:
        said = json.loads(read_text(path))
    except (ValueError, RecursionError) as e:
        raise CheckError(f"this is not JSON: {str(e)[:100]}", source=str(path)) from None
    if not isinstance(said, dict) or any(not isinstance(said.get(k), t) for k, t in FIELDS.items()):
        raise CheckError(f"this is no manifest of a dump, which has {', '.join(FIELDS)}", source=str(path))
    if not isinstance(said.setdefault("gear", ""), str):
        raise CheckError("the gear of a dump is a text, such as 8,448,448", source=str(path))
    often, own = said.setdefault("rewrites", {}), said.setdefault("own_rules", "")
    if not isinstance(own, str) or not isinstance(often, dict) or any(type(n) is not int or n < 0 for n in often.values()):
        raise CheckError("the rewrites of a dump are counts by their names, and own_rules is a hash", source=str(path))
    made = said.setdefault("rewrites_made", [])
    if not isinstance(made, list) or not all(isinstance(x, list) and len(x) == 2 and all(isinstance(y, str) for y in x) for x in made):
        raise CheckError("rewrites_made of a dump are pairs of a rewrite and a tensor", source=str(path))
    return said


def group(said: dict[str, Any], name: str) -> dict[str, Any]:
    """Return what a manifest's groups say of one of them. Raise CheckError where that is not usable."""
    entry = said.get(name)
    good = isinstance(entry, dict) and all(type(entry.get(k)) is t for k, t in GROUP_FIELDS.items())
    if not good or entry["proof"] not in PROOFS or not 0 <= entry["bound_ticks"] <= entry["ticks"]:  # type: ignore[index]
        raise CheckError(f"manifest.json says nothing usable of group {name}; dump again, or enter at --from lower")
    return entry  # type: ignore[return-value]
