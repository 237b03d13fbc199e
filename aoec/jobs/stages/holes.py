"""The kinds of holes as facts and as text: what `aoec holes` prints. The holes of one func, with their choices: `aoec search --space`."""
from __future__ import annotations

from typing import Any

from aoec.base.errors import CheckError
from aoec.report.words.reference import align_columns, terminal_width
from aoec.search.space.holes import KINDS, SKETCHES, Kind, kind

Facts = dict[str, Any]


def facts(name: str | None) -> list[Facts]:
    """Return all kinds of holes, or the one of that name. Raise CheckError where there is none."""
    if name is not None and "(" in name:
        raise CheckError(f'the holes of one operator, with their choices: aoec lower "{name}" | aoec search - --space')
    return [_facts(k) for k in (KINDS if name is None else (kind(name),))]


def _facts(k: Kind) -> Facts:
    sketches = [{"sketch": sketch, "file": f"aoec/search/sketches/{SKETCHES[sketch][0]}", "decides": text,
                 "vendor_only": sketch in k.vendor}
                for sketch, text in k.decides.items()]
    return {"name": k.name, "primitive": k.primitive, "unit": k.unit, "sketches": sketches}


def together(found: Facts) -> dict[str, list[str]]:
    """Return what a hole decides -> the sketches in which it does."""
    out: dict[str, list[str]] = {}
    for s in found["sketches"]:
        out.setdefault(s["decides"], []).append(s["sketch"])
    return out


def show(found: list[Facts]) -> str:
    """Return a line for each hole and meaning."""
    rows = [(f"?{f['name']}", f["primitive"], f["unit"], f"{decides} ({', '.join(sketches)})")
            for f in found for decides, sketches in together(f).items()]
    lines = align_columns([("hole", "primitive", "counts", "decides (in which sketches)"), *rows], terminal_width())
    return "\n".join([*lines, "", "A search chooses their values; for one func: aoec search G.tir --space"]) + "\n"


def show_one(f: Facts) -> str:
    """Return a hole with what it decides in each kind of sketch, and the funcs that these are for."""
    lines = [f"?{f['name']}: filled in {f['primitive']}, counts {f['unit']} (aoec primitives {f['primitive']})"]
    for s in f["sketches"]:
        vendor = "; only in traces of a vendor's tiling" if s["vendor_only"] else ""
        lines += ["", f"{s['sketch']} sketches: {s['decides']}{vendor}", f"  for {SKETCHES[s['sketch']][1]} ({s['file']})"]
    return "\n".join(lines) + "\n"
