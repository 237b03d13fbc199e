"""A profile of a device read: `op_summary_*.csv` of msprof, `kernel_details.csv` of the profiler of PyTorch, or our own file of that form.

Names of columns are those of the msprof guide and its older spellings: "OP Type" or "Op Type", "Block Dim" or "Block Num". Metrics may
begin with `aic_` or `aiv_`. Times are in ns, us, ms or s as the heading says. The file is not trusted: its size is limited, and an
impossible cell is refused with its line and column. Columns that are not read are listed.
"""
from __future__ import annotations

import csv
import hashlib
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from aoec.base.errors import CheckError, one_line
from aoec.base.files.files import read_bytes
from aoec.base.text import plural
from aoec.cann.op_summary import FORMATS, NOT, TYPES, Operand

LIMIT_BYTES, LIMIT_ROWS, LIMIT_COLUMNS = 256 << 20, 200_000, 500
NAME_LIMIT, MOST_OPERANDS, MOST_DIMENSIONS, MOST_SIZE = 2000, 256, 16, 1 << 40
MOST_US = 1e12  # eleven days: no task of a device
US = {"ns": 1e-3, "us": 1.0, "μs": 1.0, "µs": 1.0, "ms": 1e3, "s": 1e6}
# what is read -> how its column may be called, in small letters, without a unit
NEEDED = {"name": ("op name", "name"), "type": ("op type", "type"), "duration": ("task duration", "duration"),
          "input shapes": ("input shapes",), "output shapes": ("output shapes",)}
OTHERS = {"input types": ("input data types",), "input formats": ("input formats",), "output types": ("output data types",),
          "output formats": ("output formats",), "where": ("task type", "accelerator core"), "cores": ("block dim", "block num"),
          "mixed cores": ("mix block dim", "mix block num"), "cube": ("aicore_time", "aic_time"), "vector": ("aiv_time",),
          "kind": ("source",)}
TIMES = ("duration", "cube", "vector")
OURS = {**{theirs: ours for ours, theirs in TYPES.items()}, "FLOAT32": "fp32", "BF16": "bf16", "BFLOAT16": "bf16"}
LAYOUTS = {theirs: ours for ours, theirs in FORMATS.items()}
HEADING = re.compile(r"(.*?)\s*(?:\(\s*([a-zμµ]+)\s*\))?")


@dataclass(frozen=True)
class Row:
    """A task. Times in µs; `core_us`: of the kind of cores that is busy longest, without what a launch takes, where the file says it.

    `cores`: on how many, of a mix cube cores; operands as they lie in GM. `line`: of the file.
    """

    line: int
    name: str
    type: str
    where: str
    duration_us: float
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    cores: int | None = None
    core_us: float | None = None


@dataclass(frozen=True)
class Profile:
    """A file: its tasks in order, what their times are (measured, or modelled as our own say of themselves), columns that nothing here
    reads, and lines without a time, with the reason. `digest`: the first 16 hex digits of the sha256 of its bytes."""

    source: str
    digest: str
    kind: str
    rows: tuple[Row, ...]
    unread: tuple[str, ...]
    passed_over: tuple[tuple[int, str], ...]

    @property
    def notes(self) -> list[str]:
        """Return the parts of the file that are not used, in words."""
        out = [f"{self.source}: columns that are not read: {', '.join(self.unread)}"] if self.unread else []
        first = ", ".join(f"line {line}: {why}" for line, why in self.passed_over[:3])
        return [*out, f"{self.source}: {plural(len(self.passed_over), 'task')} without a time left out ({first})"] if first else out


def read(path: str | Path) -> Profile:
    """Return the profile in a file, or in standard input for `-`. Raise CheckError where it is none, with line and column."""
    return parse(read_bytes(path, LIMIT_BYTES), str(path))


def parse(data: bytes, source: str) -> Profile:
    """Return the profile that the bytes of a file are; errors as of `read`."""
    reader = _Reader(source)
    lines = csv.reader(io.StringIO(reader.text(data), newline=""), strict=True)
    try:
        reader.head(next(lines, []))
        rows = list(reader.rows(lines))
    except csv.Error as e:
        raise reader.fail(lines.line_num, f"is no CSV: {e}") from None
    if not rows:
        raise CheckError("no task with a time is in this profile" + reader.first_reason(), source=source)
    kinds = reader.kinds or {"measured"}
    if len(kinds) > 1:
        raise CheckError("some rows say that they are modelled and some do not; give one profile a file", source=source)
    return Profile(source, hashlib.sha256(data).hexdigest()[:16], kinds.pop(), tuple(rows), tuple(reader.unread), tuple(reader.passed_over))


class _Reader:
    """Reads one file; every refusal names it, the line, and the column."""

    def __init__(self, source: str) -> None:
        self.source, self.at = source, dict[str, tuple[int, str, float]]()  # what -> column, its heading, its unit in µs
        self.unread: list[str] = []
        self.passed_over: list[tuple[int, str]] = []
        self.kinds: set[str] = set()

    def fail(self, line: int, message: str) -> CheckError:
        return CheckError(f"line {line}: {message}", source=self.source)

    def first_reason(self) -> str:
        return f" (line {self.passed_over[0][0]}: {self.passed_over[0][1]})" if self.passed_over else ""

    def text(self, data: bytes) -> str:
        """Return the file's text. Raise CheckError where it is none."""
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as e:
            raise CheckError(f"this is not UTF-8 text (byte {e.start} is 0x{data[e.start]:02x}); msprof exports op_summary_*.csv so",
                             source=self.source) from None
        if "\0" in text:
            raise CheckError("this is no CSV: it holds a NUL", source=self.source)
        if (count := text.count("\n")) > LIMIT_ROWS + 1:  # no cell of a profile has a line break
            raise CheckError(f"{count:,} lines, and at most {LIMIT_ROWS:,} tasks are read; export fewer iterations of the profile",
                             source=self.source)
        return text

    def head(self, cells: Sequence[str]) -> None:
        """Note which column holds what. Raise CheckError where a column is missing, or is there twice."""
        if len(cells) > LIMIT_COLUMNS:
            raise CheckError(f"{len(cells):,} columns; a profile has at most {LIMIT_COLUMNS}", source=self.source)
        names = {spelt: what for what, spellings in {**NEEDED, **OTHERS}.items() for spelt in spellings}
        for i, cell in enumerate(cells):
            found = HEADING.fullmatch(cell.strip().lower())
            what = names.get(found[1], "") if found else ""
            unit = found[2] or "us" if found else ""
            if not what or what in TIMES and unit not in US:
                self.unread.append(one_line(cell.strip()[:80]))
            elif what in self.at:
                raise CheckError(f"columns {self.at[what][1]} and {one_line(cell.strip()[:80])} both say {what}", source=self.source)
            else:
                self.at[what] = i, cell.strip(), US.get(unit, 1.0)
        missing = [spellings[0] for what, spellings in NEEDED.items() if what not in self.at]
        if missing:
            seen = ", ".join(self.unread[:6]) or "none that is known"
            raise CheckError(f"this is no op_summary of msprof: it lacks the columns {', '.join(missing)} (it has {seen}). Shapes "
                             "are in a profile that was taken with --task-time=l1",
                             source=self.source)
        self.count = len(cells)

    def rows(self, lines: Iterator[list[str]]) -> Iterator[Row]:
        """Yield the tasks that have a time."""
        for number, cells in enumerate(lines, 2):
            if not cells:
                continue
            if len(cells) != self.count:
                raise self.fail(number, f"{len(cells)} cells, and there are {self.count} columns")
            row = self.row(number, cells)
            if row is not None:
                yield row

    def row(self, line: int, cells: Sequence[str]) -> Row | None:
        said = {what: cells[i].strip() for what, (i, _, _) in self.at.items()}
        duration = self.time(line, "duration", said["duration"])
        if not duration:
            self.passed_over.append((line, f"no {self.at['duration'][1]}"))
            return None
        self.kinds.add("modelled" if said.get("kind") == "modelled" else "measured")
        cores = [c for c in (self.time(line, what, said.get(what, "")) for what in ("cube", "vector")) if c]
        return Row(line, self.word(line, "name", said), self.word(line, "type", said), said.get("where", "")[:80], duration,
                   self.operands(line, "input", said), self.operands(line, "output", said), self.whole_number(line, "cores", said),
                   max(cores, default=None))

    def word(self, line: int, what: str, said: Mapping[str, str]) -> str:
        if not 0 < len(said[what]) <= NAME_LIMIT:
            raise self.fail(line, f"column {self.at[what][1]} has {len(said[what]):,} characters, not 1 to {NAME_LIMIT:,}")
        return one_line(said[what])

    def time(self, line: int, what: str, cell: str) -> float | None:
        """Return a time in µs, or None where there is none. Raise CheckError where the cell is no time."""
        if cell in ("", NOT):
            return None
        _, heading, unit = self.at[what]
        try:
            us = float(cell) * unit
        except ValueError:
            us = math.nan
        if not 0 <= us <= MOST_US:
            raise self.fail(line, f"column {heading} is {one_line(cell[:40])!r} and must be a time of 0 or more")
        return us

    def whole_number(self, line: int, what: str, said: Mapping[str, str]) -> int | None:
        cell = said.get(what, "")
        if cell in ("", NOT):
            return None
        if not re.fullmatch(r"[0-9]{1,6}", cell):
            raise self.fail(line, f"column {self.at[what][1]} is {one_line(cell[:40])!r} and must be a whole number")
        return int(cell)

    def operands(self, line: int, side: str, said: Mapping[str, str]) -> tuple[Operand, ...]:
        """Return the tensors of a side. Shapes say how many; a type or format that is missing for one is ""."""
        shapes, types, formats = (_list(said.get(f"{side} {what}", "")) for what in ("shapes", "types", "formats"))
        if len(shapes) > MOST_OPERANDS:
            raise self.fail(line, f"{len(shapes):,} {side}s; at most {MOST_OPERANDS} are read")
        many = range(max(len(shapes), len(types), len(formats)))
        types, formats = ([*listed, *[""] * len(many)] for listed in (types, formats))
        shapes += [""] * (len(many) - len(shapes))  # of scalars at the end msprof writes nothing
        return tuple(Operand(self.shape(line, side, shapes[i]), dtype(types[i]), LAYOUTS.get(formats[i].upper(), formats[i].upper()[:40]))
                     for i in many)

    def shape(self, line: int, side: str, cell: str) -> tuple[int, ...]:
        sizes = [s.strip() for s in cell.split(",")] if cell else []
        good = len(sizes) <= MOST_DIMENSIONS and all(re.fullmatch(r"[0-9]{1,13}", s) for s in sizes)
        if not good or math.prod(map(int, sizes)) > MOST_SIZE:
            raise self.fail(line, f"column {self.at[f'{side} shapes'][1]}: {one_line(cell[:60])!r} is no shape, which is at most "
                                  f"{MOST_DIMENSIONS} sizes with commas between")
        return tuple(map(int, sizes))


def _list(cell: str) -> list[str]:
    """Return the parts of a cell for several tensors, which msprof puts into quotes of its own; none of an empty one or of N/A."""
    inner = cell.strip().strip('"').strip()
    return [] if inner in ("", NOT) else [part.strip() for part in inner.split(";")]


def dtype(name: str) -> str:
    """Return our word for one of CANN's data types, or "" where there is none."""
    plain = name.upper().strip()
    return OURS.get(plain) or OURS.get(plain.removeprefix("DT_")) or plain.removeprefix("DT_").lower()[:40]
