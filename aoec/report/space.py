"""The facts of a space in lines for people."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aoec.base.text import plural
from aoec.report.reasons import table

Facts = Mapping[str, Any]
SHOWN = 12  # choices of a hole at most


def lines(facts: Facts) -> str:
    """Return the text of a space's facts."""
    many = len(facts["sketches"])
    head = (f"{facts['func']} on {facts['target']}: {many} sketch{'es' * (many != 1)}, {plural(facts['size'], 'candidate')}, "
            f"{count(facts['legal'], facts['error'])} legal")
    refused = [f"refused: {reason}" for reason in facts["refused"]]
    return "\n".join([head, *refused, *(overview(facts["sketches"]) if many > 1 else []),
                      *[line for s in facts["sketches"] for line in ["", *sketch(s)]],
                      *["", "what a hole decides: aoec holes NAME"] * any(s["holes"] for s in facts["sketches"])]) + "\n"


def overview(sketches: Sequence[Facts]) -> list[str]:
    """Return a line for each sketch, with how many candidates it has; how to see one alone."""
    rows = [(str(s["sketch"]), f"{s['size']:,}", f"{'about ' * bool(s['error'])}{s['legal']:,}", s["structure"]) for s in sketches]
    heads = ("sketch", "candidates", "legal", "")
    widths = [max(len(r[i]) for r in [heads, *rows]) for i in range(3)]
    return ["", *("  ".join([*(c.rjust(w) for c, w in zip(r, widths)), r[3]]).rstrip() for r in [heads, *rows]),
            "what each limit leaves, sketch by sketch (--sketch N shows one):"]


def sketch(facts: Facts) -> list[str]:
    """Return one sketch: its structure, holes with their choices, and what each constraint leaves; those that take nothing are counted."""
    rows = [[f"{facts['size']:,}", "all"]]
    before = facts["size"]
    for c in facts["constraints"]:
        if c["left"] != before:
            rows.append([count(c["left"], c["error"]), because(c)])
        before = c["left"]
    idle = len(facts["constraints"]) + 1 - len(rows)
    aside = [f"  not restricted by {option}, whose holes it has not" for option in facts["not_restricted_by"]]
    holes = table(["hole", "choices"], [[name, str(len(v))] for name, v in facts["holes"].items()]) if facts["holes"] else []
    holes = [f"  {line}  {text}".rstrip() for line, text in zip(holes, ["", *map(choices, facts["holes"].values())])]
    width = max(len(left) for left, _ in rows)
    steps = [f"  {left.rjust(width)}  {text}" for left, text in rows]
    last = [f"  {idle} more constraints take nothing"] * bool(idle)
    return [f"sketch {facts['sketch']}: {facts['structure']}", *aside, *holes, *steps, *last]


def because(constraint: Facts) -> str:
    """Return a constraint in a line: its reason without what would help, and the holes that it reads."""
    return f"{constraint['reason'].partition(';')[0]} ({', '.join(constraint['holes'])})"


def count(left: int, error: float) -> str:
    """Return a count, or an estimate with its standard error."""
    return f"{left:,}" if not error else f"about {left:,} (estimate, standard error {error:,.0f})"


def choices(values: Sequence[int]) -> str:
    """Return the choices of a hole, as many as a line takes."""
    if len(values) > 2 and list(values) == list(range(values[0], values[0] + len(values))):
        return f"{values[0]} to {values[-1]}"
    shown = values if len(values) <= SHOWN else [*values[:SHOWN - 3], "...", *values[-2:]]
    return " ".join(map(str, shown))
