"""Systems as facts and as text: what `aoec systems` prints, for 80 columns."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from textwrap import wrap
from typing import Any

from aoec.collectives.costs import COLLECTIVES, System
from aoec.collectives.fidelity import Fidelity, rows_of

WIDTH = 80
SIZES = tuple(1 << n for n in range(10, 31, 2))  # 1 KB to 1 GB
LEGEND = ("1 MB, 64 MB: modelled us of an all-reduce of so many bytes (2**20 a MB). sure: what that cost is (official, measured, inferred "
          "or an estimate). fit: the worst error of rows that a cost was made from, as a share of the measured time. held: the worst error "
          "of rows that were held out. '-': nothing is published. Each cost with its source: aoec systems NAME")


def facts_of(system: System) -> dict[str, Any]:
    """Return everything that a system says, and its costs at sizes from 1 KB to 1 GB (µs, modelled, by bytes of the whole tensor)."""
    return {
        "name": system.name, "title": system.title, "source": system.source, "ranks": system.ranks if system.ranks > 1 else None,
        "key": system.key,
        "contention": {"value": system.contention, "source": system.contention_source}, "notes": list(system.notes),
        "statements": [asdict(s) for s in system.statements],
        "fidelity": {c: {k: v for k, v in asdict(row).items() if k not in ("system", "collective", "key")}
                     for c, row in rows_of(system).items()},
        "modelled_us": {c: {str(s): float(us) for s, us in zip(SIZES, system.us(c, SIZES))} for c in COLLECTIVES if c in system.curves},
    }


def show_all(systems: Sequence[System]) -> str:
    """Return a line a system under a line of headings, then the sources by title."""
    rows: list[tuple[str, ...]] = [("system", "ranks", "1 MB", "64 MB", "sure", "fit", "held", "title")]
    for s in systems:
        found = rows_of(s)
        sure = next((x.confidence for x in s.statements if x.collective in ("all_reduce", "all")), "-")
        us = [f"{float(s.us('all_reduce', n)):,.0f}" for n in (1 << 20, 1 << 26)]
        worst = [_worst(found.values(), key) for key in ("fit_worst", "held_out_worst")]
        rows.append((s.name, str(s.ranks), *us, sure, *worst, s.title))
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(f"{c:>{w}}" if i in (1, 2, 3, 5, 6) else f"{c:<{w}}" for i, (c, w) in enumerate(zip(r, widths))).rstrip()
             for r in rows]
    lines += ["", *wrap(LEGEND, WIDTH), "", "Sources:"]
    for title in dict.fromkeys(s.title for s in systems):
        first = next(s for s in systems if s.title == title)
        lines += wrap(f"{title}: {first.source}", WIDTH, initial_indent="  ", subsequent_indent="    ")
    return "\n".join(lines) + "\n"


def _worst(rows: Any, key: str) -> str:
    found = [getattr(row, key) for row in rows if getattr(row, key) is not None]
    return f"{max(found):.0%}" if found else "-"


def show_system(system: System) -> str:
    """Return the costs of a system by size, their sources, and their errors against measurements."""
    known = [c for c in COLLECTIVES if c in system.curves]
    ranks = f"{system.ranks} ranks" if system.ranks > 1 else "ranks not known"
    lines = [*wrap(f"{system.name}: {system.title}, {ranks}", WIDTH), "", "Modelled us, by bytes of the whole tensor:", ""]
    lines.append(f"{'size':>8}" + "".join(f"{c:>18}" for c in known) + f"{'GB/s':>10}")
    columns = [system.us(c, SIZES) for c in known]
    for i, size in enumerate(SIZES):
        lines.append(f"{size_words(size):>8}" + "".join(f"{column[i]:>18,.1f}" for column in columns)
                     + f"{size / float(columns[0][i]) / 1e3 if columns[0][i] else 0:>10.3g}")
    lines += ["", f"GB/s: 10^9 bytes a second of {known[0]}, size / time, as hccl_test prints it.", "", "Where it comes from:"]
    for s in system.statements:
        lines += wrap(f"{s.collective}, {s.says} ({s.confidence}): {s.source}", WIDTH, initial_indent="  ", subsequent_indent="    ")
    lines += wrap(f"contention, a factor on compute while a collective runs: {system.contention:g}, {system.contention_source}", WIDTH,
                  initial_indent="  ", subsequent_indent="    ")
    found = rows_of(system)
    if found:
        lines += ["", "Against published measurements (docs/collectives.md):"]
        lines += [f"  {c}: {_fidelity_words(row)}" for c, row in found.items()]
    if system.notes:
        lines.append("")
        for note in system.notes:
            lines += wrap(note, WIDTH, initial_indent="note: ", subsequent_indent="      ")
    return "\n".join(lines) + "\n"


def _fidelity_words(row: Fidelity) -> str:
    fit = f"{row.fit} fitted row{'s' * (row.fit > 1)}, worst error {row.fit_worst:.0%}" if row.fit_worst is not None else "no fitted row"
    free = f"{row.held_out} held out, worst {row.held_out_worst:.0%}" if row.held_out_worst is not None else "none held out"
    return f"{fit}; {free}"


def size_words(size: int) -> str:
    """Return a size in whole KB, MB or GB of 1024."""
    return f"{size >> 30} GB" if size >= 1 << 30 else f"{size >> 20} MB" if size >= 1 << 20 else f"{size >> 10} KB"
