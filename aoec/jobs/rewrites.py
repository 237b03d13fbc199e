"""The rewrites of graphs as facts and as text: what `aoec rewrites` prints, aoec's own or those of a user's files."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aoec.base.errors import CheckError
from aoec.base.text import nearest
from aoec.frontend.rewrites.law import read_own
from aoec.frontend.rewrites.library import FOLDER, SUFFIX, rules, subjects
from aoec.ir.graph.rule import Rule
from aoec.ir.text.show import show as shown
from aoec.report.words.reference import align_columns, terminal_width

Facts = dict[str, Any]


def facts(name: str | None = None, files: Sequence[str] = ()) -> list[Facts]:
    """Return all rules, file by file in the order of names, or the one of that name. Where `files` are given, return their rules, after
    each was tried. Raise CheckError with the nearest name where there is none."""
    if files:
        found = [(file, r) for file in files for r in read_own([file])]
    else:
        found = [(f"{FOLDER.replace('.', '/')}/{subject}{SUFFIX}", r) for subject in subjects() for r in rules(subject)]
    names = [r.name for _, r in found]
    if name is not None and name not in names:
        raise CheckError(f"there is no rule {name}{nearest(name, names)}")
    return [_facts(file, r) for file, r in found if name in (None, r.name)]


def _facts(file: str, r: Rule) -> Facts:
    lines = shown(r).splitlines()[1:-1]
    at = next(number for number, line in enumerate(lines) if line.startswith("  => "))
    made = [lines[at].replace("=> ", "", 1), *lines[at + 1:]]
    return {"name": r.name, "does": r.about, "file": file, "pattern": [line.strip() for line in lines[:at]],
            "replacement": [line.strip() for line in made], "rounds": r.rounds}


def show(found: Sequence[Facts]) -> str:
    """Return a line for each rule."""
    rows = [(f["name"], f["does"]) for f in found]
    return "\n".join([*align_columns(rows, terminal_width()), "", "The pattern of one: aoec rewrites NAME"]) + "\n"


def show_one(f: Facts) -> str:
    """Return a rule with its pattern and what stands in its place."""
    return "\n".join([f"{f['name']}: {f['does']}  ({f['file']})", "", *[f"  {line}" for line in f["pattern"]], "", "becomes:", "",
                      *[f"  {line}" for line in f["replacement"]]]) + "\n"
