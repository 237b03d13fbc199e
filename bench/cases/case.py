"""The case format of bench/fidelity.py (docs/fidelity-details.md): one published measurement a row of CSV, read strictly and bounded.

What is wrong is said in one line with the file, the line and the column; nothing of a bad file is used.
"""
from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aoec.base.errors import AoecError
from bench.cases.operators import DTYPES as SPELLED_DTYPES
from bench.cases.operators import UNITS, operator_of
from bench.cases.words import Tile, parse_tile

COLUMNS = ("id", "chip", "operator", "shape", "dtype", "layout", "tile", "metric", "value", "unit", "source", "class", "pair",
           "confidence", "warning", "profiler")
REQUIRED = ("id", "chip", "operator", "shape", "dtype", "metric", "value", "unit", "source")
CLASSES = ("tile", "micro", "fused", "lib", "e2e", "comm")
CONFIDENCE = ("high", "medium", "low")
PROFILER_NAMES = ("msopprof", "other", "model")  # what each does to L2: profilers.py
DTYPES = ("fp16", "bf16", "fp32", "int8", "uint8", "int32", "int64", "bool", "mixed")
MOST_BYTES, MOST_ROWS, MOST_CELL = 16 << 20, 20_000, 65_536
MOST_SIZE = 1 << 40

# metric -> (what it is compared with, its units as factors to µs, cycles or a plain number)
TIMES = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}
METRICS = {
    "time": TIMES, "core_time": TIMES, "max_core_time": TIMES, "mac_time": TIMES, "mte1_time": TIMES, "mte2_time": TIMES,
    "mte3_time": TIMES, "fixpipe_time": TIMES, "vec_time": TIMES, "scalar_time": TIMES,
    "cycles": {"cycle": 1.0, "cycles": 1.0}, "bandwidth": {"GB/s": 1.0, "TB/s": 1e3},
    "throughput": {"samples/s": 1.0, "tokens/s": 1.0, "TFLOPS": 1.0, "TOPS": 1.0, "tokens/s/NPU": 1.0}, "utilisation": {"%": 0.01}}
ALIASES = {"latency": "time", "latency_mean": "time", "latency_median": "time", "duration": "time", "aic_time": "core_time",
           "aiv_time": "core_time", "aic_mac_time": "mac_time", "aic_mte1_time": "mte1_time", "aic_mte2_time": "mte2_time",
           "aiv_mte2_time": "mte2_time", "aiv_mte3_time": "mte3_time", "aic_fixpipe_time": "fixpipe_time", "aiv_vec_time": "vec_time",
           "aic_scalar_time": "scalar_time", "cube_utilisation": "utilisation", "hbm_bandwidth": "bandwidth"}
TIME_METRICS = tuple(m for m, units in METRICS.items() if units is TIMES) + ("cycles",)


class CaseError(AoecError):
    """A case file that cannot be read: file, line and column, what is wrong and what would help."""


@dataclass(frozen=True)
class Shape:
    """Named sizes (m=.., n=.., batch=..), or tensors of inputs and, where it is said, of the result."""

    sizes: dict[str, int] = field(default_factory=dict)
    inputs: tuple[tuple[int, ...], ...] = ()
    output: tuple[int, ...] = ()
    text: str = ""


@dataclass(frozen=True)
class Case:
    """One measurement. `value` is in µs, cycles or the metric's plain unit; `kind` is the column `class`."""

    id: str
    chip: str
    operator: str
    shape: Shape
    dtypes: tuple[str, ...]  # of the operands, then of the result
    dtype_known: bool
    layout: str
    tile: Tile
    metric: str
    value: float
    source: str
    kind: str
    pairs: tuple[tuple[str, int], ...]
    confidence: str
    warning: str
    profiler: str = ""  # the tool that measured it, where the row says so
    line: int = 0

    @property
    def family(self) -> str:
        """Return the operator class that fidelity is told of."""
        return family(self.operator)

    @property
    def publisher(self) -> str:
        """Return the source without the place in it: what the leave-one-out table leaves out."""
        return re.split(r"[@:,(]", self.source.strip(), maxsplit=1)[0].strip() or "unnamed"


FAMILIES = {"matmul": ("matmul", "batch_matmul", "grouped_matmul", "quant_matmul", "fully_connected"), "conv": ("conv",),
            "copy": ("copy", "nd2nz", "trans_data", "transpose", "concat", "slice", "gather", "broadcast"),
            "reduce": ("reduce", "square_sum", "bias_grad", "bn_grad"),
            "norm": ("softmax", "log_softmax", "layernorm", "rmsnorm", "add_rmsnorm", "batch_norm", "bn_"),
            "attention": ("flash", "mla", "attention", "sparse_mla"), "model": ("model",)}


def family(operator: str) -> str:
    """Return the family: matmul, conv, copy, reduce, norm, attention, model, or else elementwise."""
    for name, starts in FAMILIES.items():
        if operator.startswith(starts):
            return name
    return "elementwise"


def read_cases(paths: Sequence[str | Path]) -> list[Case]:
    """Return the cases of all files in order. Raise CaseError where a file, a row or an id is not right."""
    out: list[Case] = []
    seen: dict[str, str] = {}
    for path in paths:
        for case in parse_cases(_text(Path(path)), str(path)):
            if case.id in seen:
                raise CaseError(f"{path}, line {case.line}: id {case.id} stands in {seen[case.id]} already; every case needs its own")
            seen[case.id] = f"{path}, line {case.line}"
            out.append(case)
    return out


def _text(path: Path) -> str:
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise CaseError(f"{path}: {size:,} bytes are more than the {MOST_BYTES:,} of a case file; split it")
        return path.read_text("utf-8-sig")
    except OSError as e:
        raise CaseError(f"{path}: cannot be read: {e.strerror or e}") from None
    except UnicodeDecodeError as e:
        raise CaseError(f"{path}: byte {e.start:,} is no UTF-8; save the file as UTF-8") from None


def parse_cases(text: str, source: str = "cases") -> list[Case]:
    """Return the cases of a CSV text; CaseError at the first that is not right."""
    if "\0" in text:
        raise CaseError(f"{source}: a NUL character: this is no text file")
    try:
        reader = csv.DictReader(io.StringIO(text), strict=True, restkey="")
        names = _header(reader.fieldnames, source)
        rows = []
        for row in reader:
            if len(rows) == MOST_ROWS:
                raise CaseError(f"{source}, line {reader.line_num}: more than {MOST_ROWS:,} cases; split the file")
            rows.append(_case(row, names, source, reader.line_num))
    except csv.Error as e:
        raise CaseError(f"{source}, line {reader.line_num}: no CSV: {e}") from None
    _unique(rows, source)
    return rows


def _header(names: Iterable[str] | None, source: str) -> tuple[str, ...]:
    found = tuple((n or "").strip() for n in names or ())
    for name in REQUIRED:
        if name not in found:
            raise CaseError(f"{source}, line 1: the header has no column {name}; it needs {', '.join(REQUIRED)}")
    for name in found:
        if name not in COLUMNS:
            raise CaseError(f"{source}, line 1: unknown column {name[:40]!r}; known: {', '.join(COLUMNS)}")
    if len(set(found)) < len(found):
        raise CaseError(f"{source}, line 1: a column stands twice")
    return found


def _unique(cases: Sequence[Case], source: str) -> None:
    seen: dict[str, int] = {}
    for c in cases:
        if c.id in seen:
            raise CaseError(f"{source}, line {c.line}: id {c.id} stands in line {seen[c.id]} already; give every case an id of its own")
        seen[c.id] = c.line


def _case(row: dict[str, str | None], names: tuple[str, ...], source: str, line: int) -> Case:
    where = f"{source}, line {line}"
    if "" in row or any(v is None for v in row.values()):
        raise CaseError(f"{where}: {len(names)} cells are needed, as the header has; quote cells that hold commas")
    cell = {k.strip(): (v or "").strip() for k, v in row.items()}
    for name, text in cell.items():
        _plain(name, text, where)
    for name in REQUIRED:
        if not cell[name]:
            raise CaseError(f"{where}: column {name} is empty")
    try:
        return _parsed(cell, line)
    except ValueError as e:
        raise CaseError(f"{where} ({cell['id'][:40]}): {e}") from None


def _plain(name: str, text: str, where: str) -> None:
    if len(text) > MOST_CELL:
        raise CaseError(f"{where}: column {name} has {len(text):,} characters, {MOST_CELL:,} are allowed")
    if bad := next((c for c in text if not c.isprintable() and c not in "\n\t"), ""):
        raise CaseError(f"{where}: column {name} holds the control character {ord(bad):#x}")


def _parsed(cell: dict[str, str], line: int) -> Case:
    """Return the case of stripped cells. Raise ValueError with the reason."""
    metric = ALIASES.get(cell["metric"], cell["metric"])
    dtypes, known = parse_dtype(cell["dtype"])
    unit = UNITS.get(cell["unit"].lower(), cell["unit"])
    return Case(
        cell["id"], cell["chip"], operator_of(cell["operator"]), parse_shape(cell["shape"]), dtypes, known,
        cell.get("layout", "").lower() or "nd",
        parse_tile(cell.get("tile", "")), metric, parse_value(cell["value"], metric, unit), cell["source"],
        one_of("class", cell.get("class") or "tile", CLASSES), parse_pairs(cell.get("pair", "")),
        one_of("confidence", cell.get("confidence") or "high", CONFIDENCE), cell.get("warning", ""),
        one_of("profiler", cell.get("profiler", ""), ("", *PROFILER_NAMES)), line)


def one_of(column: str, text: str, known: Sequence[str]) -> str:
    """Return the text, if it is one of the known words; ValueError."""
    if text not in known:
        raise ValueError(f"{column} {text[:40]!r} is none of {', '.join(k for k in known if k)}")
    return text


def parse_value(text: str, metric: str, unit: str) -> float:
    """Return the positive finite value in µs, cycles or the metric's plain unit."""
    one_of("metric", metric, tuple(METRICS))
    one_of("unit", unit, tuple(METRICS[metric]))
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"value {text[:40]!r} is no number") from None
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"value {text[:40]} must be finite and above zero")
    return value * METRICS[metric][unit]


def parse_dtype(text: str) -> tuple[tuple[str, ...], bool]:
    """Return (dtypes, known): `fp16`, `int8->bf16` (operands -> result); a question mark at the end says that the source does not state
    it."""
    known = not text.endswith("?")
    parts = tuple(SPELLED_DTYPES.get(p.strip().lower(), p.strip()) for p in text.rstrip("?").split("->"))
    if len(parts) > 2:
        raise ValueError(f"dtype {text[:40]!r} has more than one arrow")
    for p in parts:
        one_of("dtype", p, DTYPES)
    return (parts if len(parts) == 2 else parts * 2), known


def parse_pairs(text: str) -> tuple[tuple[str, int], ...]:
    """Parse `name:step` words. Cases of one name are compared with the next step. Raise ValueError where a word has another form."""
    out = []
    for word in text.split():
        name, _, step = word.rpartition(":")
        if not name or not step.isascii() or not step.isdigit() or len(step) > 6:
            raise ValueError(f"pair {word[:40]!r} is no name:step, as in ladder:3")
        out.append((name, int(step)))
    return tuple(out)


def parse_shape(text: str) -> Shape:
    """Parse a shape: sizes such as `m=128 n=256 k=64`, or tensors such as `8192x8192 + 8192 -> 8192x8192`."""
    text = " ".join(text.split())
    if "=" in text:
        return Shape(sizes=dict(_sizes(text)), text=text)
    given, _, result = text.partition("->")
    return Shape(inputs=tuple(_extents(t) for t in given.split("+")), output=_extents(result) if result else (), text=text)


def _sizes(text: str) -> Iterable[tuple[str, int]]:
    """Yield (name, size) of words `m=1`, and of `m=n=k=8192`, which gives one size to several; `image=3x224x224` gives c, h, w."""
    for word in text.split():
        *names, value = word.lower().split("=")
        if not names or not all(n.isidentifier() for n in names):
            raise ValueError(f"shape word {word[:40]!r} is no name=size")
        numbers = _extents(value)
        if len(numbers) > 1 and len(names) == 1:
            yield from ((f"{names[0]}{i}", n) for i, n in enumerate(numbers))
        elif len(numbers) == 1:
            yield from ((n, numbers[0]) for n in names)
        else:
            raise ValueError(f"shape word {word[:40]!r} gives several sizes to several names")


def _extents(text: str) -> tuple[int, ...]:
    parts = text.strip().split("x")
    if not all(p.isascii() and p.isdigit() and len(p) <= 12 for p in parts) or len(parts) > 8:
        raise ValueError(f"shape {text.strip()[:40]!r} is no tensor such as 8192x8192")
    sizes = tuple(int(p) for p in parts)
    if math.prod(sizes) > MOST_SIZE:
        raise ValueError(f"shape {text.strip()[:40]!r} has more than {MOST_SIZE:,} elements")
    return sizes
