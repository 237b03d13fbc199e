"""How near the costs of collectives are to published measurements: modelled against measured, row by row.

    python bench/collectives.py [ROWS.csv] [--system NAME] [--json] [--page [--write]] [--facts aoec/collectives/fidelity.toml]

Rows (default: bench/cases/collectives.csv) are of three kinds. A *fit* is a row that a cost was made from, so that its error is that of
the fit. No cost was made from a row that is *held out*. All others are not covered, each with the reason: they are no collectives of
gradients, or there is no system for them. --page prints the tables of docs/collectives.md. With --write they are put into that page.
--facts writes the errors by system that `aoec systems` shows. The exit code is 1 where no row could be compared.
"""
from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from aoec.base.errors import AoecError, CheckError
from aoec.collectives.system import COLLECTIVES, load, names
from aoec.report.words.reference import grid
from bench.cases.page import with_blocks

ROWS = Path(__file__).parent / "cases/collectives.csv"
PAGE = Path(__file__).parents[1] / "docs/collectives.md"
COLUMNS = ("id", "chip", "operation", "ranks", "bytes", "size_of", "dtype", "setting", "metric", "value", "unit", "system", "role",
           "source", "confidence", "remark")
ROLES = ("fit", "held out")
FACTS = """# How near costs of collectives are to published measurements, by system and collective. Written by
#     python bench/collectives.py --facts aoec/collectives/fidelity.toml
# fit: rows that the cost was made from, and their worst error; held_out: rows that gave no number, with median and worst error. Errors are
# |modelled - measured| / measured.
"""


@dataclass(frozen=True)
class Row:
    """A published measurement with what a system says of it; `modelled` is None where none stands for it."""

    id: str
    chip: str
    operation: str
    ranks: int
    size: int  # bytes of the whole tensor
    setting: str
    value: float
    unit: str
    system: str
    role: str
    source: str
    remark: str
    modelled: float | None

    @property
    def ratio(self) -> float | None:
        return None if self.modelled is None else self.modelled / self.value

    @property
    def error(self) -> float:
        return abs(self.modelled - self.value) / self.value if self.modelled is not None else 0.0


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a file, timed. Raise CheckError with the line where one is damaged."""
    rows = []
    with path.open(newline="", encoding="utf-8") as f:
        lines = csv.DictReader(f)
        if tuple(lines.fieldnames or ()) != COLUMNS:
            raise CheckError(f"its first line must be {','.join(COLUMNS)}", source=str(path))
        for number, cells in enumerate(lines, 2):
            try:
                rows.append(make_row(cells))
            except (ValueError, TypeError, AoecError) as e:
                raise CheckError(f"line {number}: {e}", source=str(path)) from None
    return rows


def make_row(cells: dict[str, str]) -> Row:
    """Return a row of cells, with its modelled time."""
    ranks, size = int(cells["ranks"] or 0), int(cells["bytes"] or 0) * (int(cells["ranks"]) if cells["size_of"] == "shard" else 1)
    modelled = None
    if cells["system"]:
        if cells["role"] not in ROLES or cells["operation"] not in COLLECTIVES or cells["unit"] != "us":
            raise ValueError(f"a row of a system has a role ({' or '.join(ROLES)}), a collective and a time in us")
        modelled = float(load(cells["system"]).us(cells["operation"], size))
    return Row(cells["id"], cells["chip"], cells["operation"], ranks, size, cells["setting"], float(cells["value"]), cells["unit"],
               cells["system"], cells["role"], cells["source"], cells["remark"], modelled)


def by_system(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    """Return the rows that are compared, by system and collective, in the order of the systems."""
    keys = [(s, c) for s in names() for c in COLLECTIVES]
    found = {k: [r for r in rows if (r.system, r.operation) == k] for k in keys}
    return {k: v for k, v in found.items() if v}


def facts_toml(rows: Sequence[Row]) -> str:
    """Return the text of aoec/collectives/fidelity.toml."""
    lines = [FACTS.rstrip()]
    for (system, collective), found in by_system(rows).items():
        fit, free = ([r.error for r in found if r.role == role] for role in ROLES)
        lines += ["", "[[row]]", f'system = "{system}"', f'collective = "{collective}"', f'key = "{load(system).key}"', f"fit = {len(fit)}"]
        lines += [f"fit_worst = {max(fit):.4f}"] if fit else []
        lines += [f"held_out = {len(free)}"]
        lines += [f"held_out_median = {median(free):.4f}", f"held_out_worst = {max(free):.4f}"] if free else []
    return "\n".join(lines) + "\n"


# ---------------------------------------------------------------- text

def size_words(size: int) -> str:
    """Return bytes in the largest unit of 1024 that leaves a number above one."""
    for unit, factor in (("MB", 1 << 20), ("KB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:.4g} {unit}"
    return f"{size} B"


def percent(x: float) -> str:
    return f"{100 * x:.1f} %"


def figures(rows: Sequence[Row]) -> str:
    """Return the tables of the page: errors by system, and the rows."""
    heads = ("system", "collective", "fits", "worst error", "held out", "median error", "worst error")
    lines = []
    for (system, collective), found in by_system(rows).items():
        fit, free = ([r.error for r in found if r.role == role] for role in ROLES)
        lines.append([system, collective, str(len(fit)), percent(max(fit)) if fit else "-", str(len(free)),
                      percent(median(free)) if free else "-", percent(max(free)) if free else "-"])
    rest = [[r.id, r.system, r.operation, size_words(r.size), f"{r.value:g}", f"{r.modelled:.1f}", f"{r.ratio:.2f}",
             r.role, "; ".join(w for w in (r.setting, r.remark) if w)] for r in rows if r.modelled is not None]
    return "\n".join([*grid(heads, lines), "", *grid(("row", "system", "collective", "tensor", "measured µs", "modelled µs", "ratio",
                                                       "role", "how it was measured"), rest)])


def left_out(rows: Sequence[Row]) -> str:
    """Return the table of the rows that nothing stands for."""
    rest = [[r.id, r.chip, r.operation, r.setting, f"{r.value:g} {r.unit}", r.remark] for r in rows if r.modelled is None]
    return "\n".join(grid(("row", "chip", "operation", "setting", "measured", "why it is not covered"), rest))


def systems_table() -> str:
    """Return the table of the systems that come with aoec."""
    made = []
    for name in names():
        s = load(name)
        sure = sorted({f"{x.collective}: {x.confidence}" for x in s.statements})
        made.append([f"`{name}`", s.title, str(s.ranks), "; ".join(sure)])
    return "\n".join(grid(("name", "what it is", "ranks", "how sure"), made))


def text(rows: Sequence[Row]) -> str:
    """Return the rows that are compared as lines, the errors, and how many are not covered."""
    lines = [f"{'row':7} {'system':8} {'collective':14} {'tensor':>9} {'measured':>9} {'modelled':>9} {'ratio':>6}  role      how"]
    lines += [f"{r.id:7} {r.system:8} {r.operation:14} {size_words(r.size):>9} {r.value:9.1f} {r.modelled:9.1f} {r.ratio:6.2f}  "
              f"{r.role:8}  {r.setting}" for r in rows if r.modelled is not None]
    for role in ROLES:
        errors = [r.error for r in rows if r.modelled is not None and r.role == role]
        if errors:
            lines.append(f"{role}: {len(errors)} rows, median error {percent(median(errors))}, worst {percent(max(errors))}")
    missing = [r for r in rows if r.modelled is None]
    lines.append(f"not covered: {len(missing)} rows")
    lines += [f"  {r.id} {r.chip} {r.operation}, {r.setting}: {r.remark}" for r in missing]
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rows", nargs="?", type=Path, default=ROWS, help="CSV in the columns of bench/cases/collectives.csv")
    parser.add_argument("--system", default="", help="only rows of this system")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--page", action="store_true", help="print the tables of docs/collectives.md, in Markdown")
    parser.add_argument("--write", action="store_true", help="with --page: put the tables into docs/collectives.md")
    parser.add_argument("--facts", type=Path, help="writes the errors that `aoec systems` shows (a TOML file)")
    args = parser.parse_args(argv)
    if args.write and not (args.page and args.rows == ROWS and not args.system):
        parser.error("--write goes with --page, and the page has all rows of bench/cases/collectives.csv")
    try:
        rows = [r for r in read_rows(args.rows) if not args.system or r.system == load(args.system).name]
        blocks = {"systems": systems_table(), "figures": figures(rows), "not covered": left_out(rows)}
        if args.write:
            PAGE.write_text(with_blocks(PAGE.read_text("utf-8"), blocks), "utf-8")
    except (AoecError, OSError) as e:
        print(e, file=sys.stderr)
        return 2
    if args.json:
        json.dump([asdict(r) | {"ratio": r.ratio} for r in rows], sys.stdout, indent=1)
        print()
    else:
        sys.stdout.write("\n\n".join(blocks.values()) + "\n" if args.page else text(rows))
    if args.facts:
        args.facts.write_text(facts_toml(rows), "utf-8")
    return 0 if any(r.modelled is not None for r in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
