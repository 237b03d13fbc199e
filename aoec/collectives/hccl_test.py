"""Reads what hccl_test prints, log lines around it included, as a system. nccl-tests' tables are read too.

hccl_test (page HCCLpertest_16_0006 of the vendor's documents) prints a table a run, with the columns data_size(Bytes), aveg_time(us) (it is
spelt so), alg_bandwidth(GB/s) and check_result. The table does not name the collective: the command in front of it does
(`mpirun -n 8 ./bin/all_reduce_test -b 8K -e 64M -f 2`). data_size is "the size of data used in collective communication on one NPU". It is
taken as the whole tensor. The page does not say so for all_gather, and a note says that.
"""
from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import PurePath
from statistics import median

from aoec.base.errors import CheckError
from aoec.base.text import nearest
from aoec.collectives.costs import COLLECTIVES, Statement, System
from aoec.collectives.curve import Curve, through

UNKNOWN = 1  # rank of a system whose table does not say them
LIMIT_CHARACTERS, MAX_ROWS, MAX_LINE = 16 << 20, 100_000, 4096
PROGRAM = re.compile(r"\b(\w+?)_(?:test|perf)\b")
RANKS = (re.compile(r"\b(?:mpirun|mpiexec|srun|horovodrun)\b[^|;&]*?\s-(?:n|np)\s+(\d{1,7})\b"), re.compile(r"\bnRanks\s+(\d{1,7})\b"))
RANK_LINE = re.compile(r"^#\s+Rank\s+(\d{1,7})\b")  # of nccl-tests, one a rank
OTHERS = ("broadcast", "reduce", "scatter", "gather", "alltoall", "alltoallv", "all_to_all", "sendrecv", "hypercube")
COMMON = {"allreduce": "all_reduce", "reducescatter": "reduce_scatter", "allgather": "all_gather"}
FAILED, UNCHECKED = ("failed",), ("null", "n/a")


@dataclass
class Table:
    """A run: its collective, "" where nothing in front of it names one, and (line, bytes, µs) of its rows. `columns`: names by place."""

    collective: str
    line: int
    columns: list[str]
    bars: bool  # columns stand between bars, as hccl_test has them
    rows: list[tuple[int, int, float]] = field(default_factory=list)
    unchecked: int = 0


def read(text: str, source: str, collective: str = "", ranks: int = 0) -> System:
    """Return the system that the tables in a text measure. `source`: the file's name, for messages.

    `collective` names the collective of a table without a command in front of it. Without `collective`, that is all_reduce. `ranks`: their
    number where no `mpirun -n` gives it. 0 means that it is not known, and the system then has 1. Several rows of a size give their median.
    Raise CheckError, with the line, where a row's check failed, or where a row is damaged. Raise it too where there is no table of a
    collective that plans use.
    """
    if len(text) > LIMIT_CHARACTERS:
        raise CheckError(f"the text has {len(text):,} characters; at most {LIMIT_CHARACTERS:,} are read", source=source)
    if collective and collective not in COLLECTIVES:
        raise CheckError(f"{collective} is no collective{nearest(collective, COLLECTIVES)}")
    found, seen = _tables(text, source)
    notes = []
    for t in found:
        if not t.collective:
            t.collective = collective or "all_reduce"
            if not collective:
                notes.append(f"line {t.line}: no command in front of the table names its collective; it is taken for all_reduce")
    used = [t for t in found if t.collective in COLLECTIVES]
    notes += [f"line {t.line}: the table of {t.collective} is not used" for t in found if t.collective not in COLLECTIVES]
    if not any(t.rows for t in used):
        there = f" ({'; '.join(notes)})" if notes and found else ""
        raise CheckError(f"no table of hccl_test with a row of all_reduce, reduce_scatter or all_gather{there}; a table has the columns "
                         "data_size(Bytes), aveg_time(us), alg_bandwidth(GB/s) and check_result", source=source)
    if ranks and seen and seen != {ranks}:
        raise CheckError(f"its commands start {', '.join(map(str, sorted(seen)))} ranks, not {ranks}", source=source)
    if len(seen) > 1:
        raise CheckError(f"its runs have different counts of ranks ({', '.join(map(str, sorted(seen)))}); a system has one", source=source)
    count = ranks or next(iter(seen), UNKNOWN)
    if count == UNKNOWN:
        notes.append("the number of ranks is not in the text; `mpirun -n N` in front of a table says it. Until then nothing is shared "
                     "among ranks")
    unchecked = sum(t.unchecked for t in used)
    if unchecked:
        notes.append(f"{unchecked} rows were not checked by the program (NULL)")
    if any(t.collective == "all_gather" for t in used):
        notes.append("sizes of all_gather are taken as those of the whole tensor; the program's page does not say it")
    curves, statements = _curves(used, source)
    return System(source, f"measured: {PurePath(source).name}", count, curves, statements, notes=tuple(notes),
                  source=f"a table of hccl_test or nccl-tests, {source}")


def _curves(tables: list[Table], source: str) -> tuple[dict[str, Curve], tuple[Statement, ...]]:
    """Return the curves of the collectives that were measured, and of the others what follows from them."""
    curves: dict[str, Curve] = {}
    said = []
    for name in COLLECTIVES:
        times: dict[int, list[float]] = {}
        for t in tables:
            for _, size, us in t.rows if t.collective == name else ():
                times.setdefault(size, []).append(us)
        if times:
            points = [(float(size), median(us)) for size, us in sorted(times.items())]
            curves[name] = through(points)
            most = max(map(len, times.values()))
            runs = f", medians of up to {most} rows" if most > 1 else ""
            said.append(Statement(name, f"{len(points)} sizes of {points[0][0]:,.0f} to {points[-1][0]:,.0f} bytes{runs}, straight between "
                                        "them", source, "measured"))
    if "all_reduce" not in curves and len(curves) == 2:
        curves["all_reduce"] = curves["reduce_scatter"].plus(curves["all_gather"])
        said.append(Statement("all_reduce", "not measured: the sum of reduce_scatter and all_gather", source, "inferred"))
    for name in ("reduce_scatter", "all_gather"):
        if name not in curves and "all_reduce" in curves:
            curves[name] = curves["all_reduce"].scale(us=0.5)
            said.append(Statement(name, f"not measured: half of all_reduce; {name}_test measures it", source, "inferred"))
    return curves, tuple(said)


def _tables(text: str, source: str) -> tuple[list[Table], set[int]]:
    """Return the tables of a text, and the counts of ranks that it names."""
    found: list[Table] = []
    seen: set[int] = set()
    listed = -1
    name, count = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > MAX_LINE:
            continue  # no row of a table
        program = None if "|" in line else _program(line)
        if program is not None:
            name = program
        for pattern in RANKS:
            seen |= {int(n) for n in pattern.findall(line)} - {0}
        if rank := RANK_LINE.match(line):
            listed = max(listed, int(rank[1]))
        columns, bars = _columns(line)
        if columns:
            found.append(Table(name, number, columns, bars))
        elif found and (row := _cells(line, found[-1])):
            count += 1
            if count > MAX_ROWS:
                raise CheckError(f"its tables have more than {MAX_ROWS:,} rows, the most that is read", source=source)
            _take(found[-1], row, number, source)
    return found, seen | ({listed + 1} if listed >= 0 else set())


def _program(line: str) -> str | None:
    """Return the collective whose program a line names, None where it names none."""
    for word in PROGRAM.findall(line):
        plain = word.lower().replace("_", "")
        if plain in COMMON:
            return COMMON[plain]
        if word.lower() in OTHERS:
            return str(word.lower())
    return None


def _columns(line: str) -> tuple[list[str], bool]:
    """Return the columns of a table's head and whether bars part them; none of any other line."""
    words = line.lower()
    if "data_size" in words and "time" in words:
        cells = [c.strip().rstrip(":").strip() for c in words.split("|")]
        names = ["size" if "data_size" in c else "time" if "time" in c else "bandwidth" if "bandwidth" in c else
                 "check" if "check" in c else c for c in cells]
        return (names, True) if {"size", "time"} <= set(names) else ([], True)
    cells = words.replace("#wrong", "wrong").lstrip("# ").split()
    if cells[:2] == ["size", "count"] and "time" in cells:
        return ["bandwidth" if c == "algbw" else "check" if c in ("wrong", "error") else c for c in cells], False
    return [], False


def _cells(line: str, table: Table) -> dict[str, str]:
    """Return the cells of a row by column, the first of a name; nothing where the line is none of the table. Words of a log may stand in
    front of it."""
    parts = [c.strip() for c in line.split("|")] if table.bars else line.split()
    if len(parts) < len(table.columns) or (not table.bars and line.lstrip().startswith("#")):
        return {}
    parts = parts[-len(table.columns):]
    row: dict[str, str] = {}
    for name, cell in zip(table.columns, parts):
        row.setdefault(name, cell)
    if table.columns[0] == "size" and table.bars:
        row["size"] = (row["size"].split() or [""])[-1].rpartition(":")[2]
    return row if any(_digits(row[c]) for c in ("size", "time")) else {}


def _digits(cell: str) -> bool:
    return cell[:1].isdigit()


def _take(table: Table, row: dict[str, str], number: int, source: str) -> None:
    """Add a row to its table. Raise CheckError, with the line, where it is damaged or its check failed."""
    where = f"line {number}"
    try:
        size, us = int(row["size"]), float(row["time"])
    except (ValueError, OverflowError):
        raise CheckError(f"{where}: {row['size'][:40]} bytes in {row['time'][:40]} us is no row of a table", source=source) from None
    if size == 0:
        return  # nccl-tests begins with it
    if not 0 < us < 1e12 or not 0 < size < 1 << 50:
        raise CheckError(f"{where}: {size} bytes in {us:g} us cannot be: both are above zero and bounded", source=source)
    _check_result(table, row.get("check", "success"), f"{where}: {size:,} bytes", source)
    _check_bandwidth(row.get("bandwidth", ""), size, us, where, source)
    table.rows.append((number, size, us))


def _check_result(table: Table, word: str, what: str, source: str) -> None:
    plain = word.lower()
    if plain in UNCHECKED:
        table.unchecked += 1
    elif plain in FAILED or (_digits(plain) and plain.strip("0.e+") != ""):
        raise CheckError(f"{what}: the program's check of the result failed ({word}), so its time counts for nothing; run it again or take "
                         "the row out", source=source)
    elif plain != "success" and not _digits(plain):
        raise CheckError(f"{what}: its check says {word[:40]}, not success, failed or NULL", source=source)


def _check_bandwidth(word: str, size: int, us: float, where: str, source: str) -> None:
    """Raise CheckError where the bandwidth of a row is not size / time, in 10^9 bytes a second, as far as its digits go."""
    try:
        said = float(word)
    except ValueError:
        return
    digits = len(word.partition(".")[2])
    expected = size / us / 1e3
    if abs(said - expected) > 10.0 ** -digits + 0.02 * expected:
        raise CheckError(f"{where}: {size:,} bytes in {us:g} us are {expected:.3g} GB/s, and the row says {word}: columns are other ones "
                         "than they seem, or the row is damaged", source=source)
