"""CANN's run-time knowledge bank: files of JSON lines, one tiling of one operator for one key each; read strictly, written whole.

The loader looks up the exact key: first a 32-bit hash of the packed key, then its bytes. It computes the hash itself, ignores the stored
`id`, and keeps the first of equal keys. `version` is stored and never checked. Only the file's name holds the SoC and the count of cores.
The hash function is not public, so `id` is a value of our own, the same for the same key. Source: CANN's runtime_bank_manager.cpp (2026).
"""
from __future__ import annotations

import json
import math
import re
import tomllib
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from aoec.base.errors import BankError
from aoec.base.files.files import read_bytes

Fields = Mapping[str, int | float | bool]

FILE_LIMIT_BYTES = 64 << 20  # the largest public file has 0.8 MB
LINE_LIMIT_BYTES = 64 << 10  # and the longest line 1.8 KB
LINES_LIMIT = 200_000  # of a file
FILES_LIMIT = 10_000  # of a folder
SUFFIX = "_runtime_kb.json"
NAME = re.compile(r"(?P<soc>[A-Za-z0-9][A-Za-z0-9_-]{0,60})_(?P<cores>\d{1,4})_AiCore_(?P<op>[A-Za-z0-9]{1,60})_runtime_kb\.json")
PARTS = ("id", "info_dict", "knowledge", "op", "version")
LIMITS = {"i8": (-(1 << 7), 1 << 7), "i32": (-(1 << 31), 1 << 31), "i64": (-(1 << 63), 1 << 63), "u8": (0, 1 << 8), "u32": (0, 1 << 32),
          "u64": (0, 1 << 64), "dtype": (0, 1 << 8), "format": (0, 1 << 8)}
SAID = {"f32": "a real number", "bool": "true or false", "dtype": "the number of a data type", "format": "the number of a format"}


@dataclass(frozen=True, slots=True)
class Kind:
    """The fields of one operator's records: name -> type. `optional`: what a tiling may have further."""

    op: str
    key: Mapping[str, str]
    knowledge: Mapping[str, str]
    optional: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Line:
    """A record: its key and its tiling, as they stand. `number`: of the line in its file, from 1."""

    op: str
    key: Fields
    knowledge: Fields
    number: int = 0

    @property
    def identity(self) -> tuple[object, ...]:
        """Return the fields by which the loader compares records: the operator and the key."""
        return (self.op, *[self.key[n] for n in sorted(self.key)])


@dataclass(frozen=True, slots=True)
class Unread:
    """A line that is no record, and why. `op`: what it says of itself, "" where it says nothing."""

    number: int
    op: str
    why: str


@dataclass(frozen=True, slots=True)
class File:
    """What a file holds. `soc`, `cores`: as its name says, "" and 0 where it does not."""

    path: Path
    soc: str
    cores: int
    lines: tuple[Line, ...]
    unread: tuple[Unread, ...]


@cache
def kinds() -> dict[str, Kind]:
    """Return the operators whose records are known, by name."""
    text = (Path(__file__).parent / "runtime_bank.toml").read_text("utf-8")
    return {op: Kind(op, *[dict(f.split(":") for f in part.get(n, "").split()) for n in ("key", "knowledge", "optional")])
            for op, part in tomllib.loads(text).items()}


def kind_of(op: str) -> Kind:
    """Return the fields of an operator's records. Raise BankError where none are known."""
    if op not in kinds():
        raise BankError(f"operator {op[:60]}: its records are not known here; known are {', '.join(kinds())}")
    return kinds()[op]


# ---------------------------------------------------------------- reading

def parse_line(text: str, number: int = 0) -> Line:
    """Return the record of a line; BankError that names the field where one is missing, unknown, or of a type or size that it cannot
    have."""
    data = _object(text)
    _names("a record", data, PARTS)
    op, version = data["op"], data["version"]
    if not isinstance(op, str):
        raise BankError("op must be the name of an operator")
    kind = kind_of(op)
    if type(version) is not int or not 0 <= version < 1 << 32:
        raise BankError(f"version {_quote_value(version)} must be a whole number")
    if type(data["id"]) is not int or not 0 <= data["id"] < 1 << 63:  # the vendor's own files hold ids of more than 32 bits
        raise BankError(f"id {_quote_value(data['id'])} must be a whole number from 0")
    return Line(op, _part(f"{op} info_dict", data["info_dict"], kind.key, {}),
                _part(f"{op} knowledge", data["knowledge"], kind.knowledge, kind.optional), number)


def _object(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text, parse_constant=_refuse, object_pairs_hook=_once)
    except (ValueError, RecursionError) as e:
        raise BankError(f"this is no line of JSON: {str(e)[:100]}") from None
    if not isinstance(data, dict):
        raise BankError("a record is a JSON object")
    return data


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no number here")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        twice = next(n for i, (n, _) in enumerate(pairs) if n in dict(pairs[:i]))
        raise ValueError(f"field {twice[:60]} stands twice")
    return out


def _names(of: str, data: Mapping[str, Any], wanted: Iterable[str], further: Iterable[str] = ()) -> None:
    """Raise BankError that names what is missing or too many."""
    missing, unknown = [n for n in wanted if n not in data], sorted(set(data) - {*wanted, *further})
    if missing:
        raise BankError(f"{of} lacks {', '.join(missing[:5])}" + f" and {len(missing) - 5} more" * (len(missing) > 5))
    if unknown:
        raise BankError(f"{of} has {', '.join(_quote_value(n) for n in unknown[:5])}, which it does not know")


def _part(of: str, data: Any, fields: Mapping[str, str], further: Mapping[str, str]) -> Fields:
    """Return the fields of a key or tiling, checked."""
    if not isinstance(data, dict):
        raise BankError(f"{of} must be an object")
    _names(of, data, fields, further)
    for name, value in data.items():
        if why := wrong(value, fields.get(name) or further[name]):
            raise BankError(f"{of}: {name} {_quote_value(value)} must be {why}")
    return data


def wrong(value: object, kind: str) -> str:
    """Return what a value of a type must be, where it is not. Return "" where it is."""
    if kind == "bool":
        good = type(value) is bool
    elif kind == "f32":
        good = type(value) in (int, float) and math.isfinite(value) and abs(value) < 3.5e38  # type: ignore[arg-type]
    else:
        low, high = LIMITS[kind]
        good = type(value) is int and low <= value < high
    return "" if good else SAID.get(kind) or f"a whole number of {kind[1:]} bits" + " from 0" * (kind[0] == "u")


def _quote_value(value: object) -> str:
    return repr(value)[:60] if isinstance(value, (str, int, float, bool)) else type(value).__name__


def read_file(path: str | Path) -> File:
    """Return all that a file holds, line by line; what is no record is among `unread`. Raise BackendError where it cannot be read or is too
    large."""
    path = Path(path)
    text = read_bytes(path, FILE_LIMIT_BYTES).decode("utf-8-sig", errors="replace")  # some begin with a mark
    lines, unread = list[Line](), list[Unread]()
    for number, line in enumerate(text.split("\n"), 1):
        if number > LINES_LIMIT:
            raise BankError(f"{path} has more than {LINES_LIMIT:,} lines")
        if line.strip():
            try:
                lines.append(_check_size(line, number))
            except BankError as e:
                unread.append(Unread(number, _op_in(line), str(e)))
    named = NAME.fullmatch(path.name)
    return File(path, named["soc"] if named else "", int(named["cores"]) if named else 0, tuple(lines), tuple(unread))


def _check_size(line: str, number: int) -> Line:
    if len(line) > LINE_LIMIT_BYTES:
        raise BankError(f"a line of {len(line):,} characters; a record has at most {LINE_LIMIT_BYTES:,}")
    return parse_line(line, number)


def _op_in(line: str) -> str:
    """Return the operator that a line names, as far as one can see."""
    found = re.search(r'"op"\s*:\s*"(\w{1,60})"', line[-LINE_LIMIT_BYTES:])
    return found[1] if found else ""


def files_in(path: str | Path) -> Iterator[Path]:
    """Yield the file itself, or all run-time banks below a folder, sorted. Raise BankError where there are none, or too many."""
    path = Path(path)
    if not path.is_dir():
        yield path
        return
    found = sorted(p for p in path.rglob(f"*{SUFFIX}") if p.is_file())
    if not found or len(found) > FILES_LIMIT:
        many = f"more than {FILES_LIMIT:,}" if found else "no"
        raise BankError(f"{path} holds {many} run-time banks (*{SUFFIX})")
    yield from found


def firsts(lines: Iterable[Line]) -> tuple[list[Line], list[Line]]:
    """Return (the first of each key, which the loader keeps; the others)."""
    seen, first, others = set[tuple[object, ...]](), list[Line](), list[Line]()
    for line in lines:
        (others if line.identity in seen else first).append(line)
        seen.add(line.identity)
    return first, others


# ---------------------------------------------------------------- writing

def line(op: str, key: Fields, knowledge: Fields) -> str:
    """Return a record as a line, fields in the vendor's order, without its end. Raise BankError where a field is wrong, by name."""
    kind = kind_of(op)
    _part(f"{op} info_dict", dict(key), kind.key, {})
    _part(f"{op} knowledge", dict(knowledge), kind.knowledge, kind.optional)
    own = {n: _check_type(key[n], t) for n, t in kind.key.items()}
    tiling = {n: _check_type(knowledge[n], t) for n, t in {**kind.knowledge, **kind.optional}.items() if n in knowledge}
    return json.dumps({"id": record_id(op, key), "info_dict": own, "knowledge": tiling, "op": op, "version": 0}, separators=(",", ":"))


def _check_type(value: int | float | bool, kind: str) -> int | float | bool:
    return float(value) if kind == "f32" else value


def record_id(op: str, key: Fields) -> int:
    """Return 32 bits that are the same for the same key. They are our own: the loader's hash is not public, and it ignores this one."""
    kind = kind_of(op)
    text = json.dumps([op, [[n, _check_type(key[n], t)] for n, t in sorted(kind.key.items())]], separators=(",", ":"))
    return zlib.crc32(text.encode())


def file_name(soc: str, cores: int, op: str) -> str:
    """Return the name of the file that holds an operator's records: Ascend910B3_20_AiCore_MatMulV3_runtime_kb.json."""
    name = f"{soc}_{cores}_AiCore_{op}{SUFFIX}"
    if not NAME.fullmatch(name):
        raise BankError(f"no run-time bank can be named for SoC {soc!r}, {cores} cores, operator {op!r}")
    return name


def folders(soc: str) -> tuple[str, str, str]:
    """Return where CANN looks for a user's records: below $TUNE_BANK_PATH; else below the home directory, as of 2026 and as before."""
    home = "Ascend/cann/data/aoe/custom/op"
    return f"{soc}/unified_bank", f"{home}/{soc}/unified_bank", f"Ascend/latest/data/aoe/custom/op/{soc}"
