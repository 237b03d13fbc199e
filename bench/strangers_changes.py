"""Files changed by their structure: decoded, changed in what they say, field by field, and encoded again. See strangers.py."""
from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import re
import sqlite3
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.descriptor import FieldDescriptor

Random = np.random.Generator
INTEGERS = (0, 1, -1, 2, 3, 16, 17, 255, 65535, 65536, 2**31 - 1, 2**31, -2**31, 2**32, 2**40, 2**53 + 1, 2**62, 2**63 - 1, -2**63)
REALS = (0.0, -0.0, 1e-45, 1e-300, 1e300, 3.5, -1.0, math.inf, -math.inf, math.nan)
WORDS = ("", "x", "y", "NOTSET", "as", "if", "0", "../../etc/passwd", "\0", "\u202e", "ü" * 40, "a" * 5000, "%s%n", "\n", "'", '"', "g0",
         "fp16")


def pick(items: Any, random: Random) -> Any:
    """Return one of the items. Return None where there is none."""
    return items[int(random.integers(len(items)))] if len(items) else None


def number(random: Random, old: int) -> int:
    """Return a number near the old one, or from the ends of what types hold."""
    return int(old + pick((-1, 1, 2, -old, old), random)) if random.random() < 0.4 else int(pick(INTEGERS, random))


def changes(random: Random) -> int:
    """Return how many changes a file gets: mostly one, so that what lies behind the first check is reached."""
    return int(pick((1, 1, 1, 1, 1, 2, 2, 3, 4), random))


# ---------------------------------------------------------------- protobuf

SMALL = {FieldDescriptor.TYPE_INT32: 32, FieldDescriptor.TYPE_INT64: 64, FieldDescriptor.TYPE_UINT64: 64, FieldDescriptor.TYPE_ENUM: 6}


def change_message(data: bytes, random: Random) -> bytes:
    """Return the model with one to four fields changed, wherever they stand."""
    model = onnx.ModelProto()
    model.ParseFromString(data)
    for _ in range(changes(random)):
        found: list[tuple[Any, Any]] = []
        _walk(model, found, 4000)
        message, field = pick(found, random)
        with contextlib.suppress(ValueError, TypeError, OverflowError):  # of a value that the field cannot hold
            _change_field(message, field, found, random)
    try:
        return model.SerializeToString()
    except ValueError:  # a text that is no text
        return data


def _walk(message: Any, found: list[tuple[Any, Any]], most: int) -> None:
    """Return nothing; `found` gets each (message, field) below, up to so many."""
    for field in message.DESCRIPTOR.fields:
        if len(found) >= most:
            return
        value = getattr(message, field.name)
        repeated = hasattr(value, "append") or hasattr(value, "add")
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            if repeated:
                if value:
                    found.append((message, field))
                for v in value:
                    _walk(v, found, most)
            elif message.HasField(field.name):
                found.append((message, field))
                _walk(value, found, most)
        elif repeated and len(value) or not repeated and field.has_presence and message.HasField(field.name):
            found.append((message, field))


def _change_field(message: Any, field: Any, found: list[tuple[Any, Any]], random: Random) -> None:
    value, way = getattr(message, field.name), random.integers(6)
    if hasattr(value, "append") or hasattr(value, "add"):
        at = int(random.integers(len(value))) if len(value) else 0
        if way == 0 and len(value):
            del value[at]
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            if way == 1:
                value.add().CopyFrom(value[at])
            elif way == 2:
                message.ClearField(field.name)
            else:  # one from elsewhere in the model
                others = [getattr(m, f.name) for m, f in found if f.type == field.type and f.message_type == field.message_type]
                other = pick(others, random)
                taken = (pick(other, random) if hasattr(other, "add") else other).SerializeToString()
                value.add().ParseFromString(taken)  # by way of bytes: it may hold the place that it is put into
        elif way == 1:
            value.append(_value(field, value[at] if len(value) else 0, found, random))
        elif way == 2:
            value.extend(list(value[:50]))
        elif len(value):
            value[at] = _value(field, value[at], found, random)
    elif field.type == FieldDescriptor.TYPE_MESSAGE or way == 0:
        message.ClearField(field.name)
    else:
        setattr(message, field.name, _value(field, value, found, random))


def _value(field: Any, old: Any, found: list[tuple[Any, Any]], random: Random) -> Any:
    """Return another value of a field's type; a text is often one that stands elsewhere in the model."""
    if field.type in SMALL:
        return int(random.integers(40)) if SMALL[field.type] <= 32 and random.random() < 0.7 else number(random, old)
    if field.type in (FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE):
        return float(pick(REALS, random))
    if field.type == FieldDescriptor.TYPE_BYTES:
        return pick((old[:-1], old[:len(old) // 2], old + old, b"", b"\xff" * len(old), b"\0" * 7), random)
    names = [v for m, f in found if f.type == FieldDescriptor.TYPE_STRING for v in [getattr(m, f.name)] if isinstance(v, str)]
    return pick(names, random) if names and random.random() < 0.7 else pick(WORDS, random)


# ---------------------------------------------------------------- JSON

DIGITS, NEST = "__digits__", "__nest__"


def change_json(text: str, random: Random) -> str:
    """Return JSON, or lines of it, with one to four values changed; some into what no writer makes: 10^5 digits, 10^5 brackets."""
    lines = text.splitlines() if text.startswith("{") and "\n{" in text else [text]
    at = int(random.integers(len(lines)))
    try:
        said = [json.loads(lines[at])]
    except ValueError:
        return text
    for _ in range(changes(random)):
        holders: list[tuple[Any, Any]] = []
        left: list[Any] = [said]
        while left:
            here = left.pop()
            for key in here if isinstance(here, dict) else range(len(here)):
                holders.append((here, key))
                if isinstance(here[key], (dict, list)):
                    left.append(here[key])
        holder, key = pick(holders, random)
        _change_value(holder, key, holders, random)
        if not said:
            break
    out = json.dumps(said[0] if said else None)
    out = out.replace(f'"{DIGITS}"', "9" * 100_000).replace(f'"{NEST}"', "[" * 100_000 + "]" * 100_000)
    lines[at] = out
    return "\n".join(lines) + "\n"


def _change_value(holder: Any, key: Any, holders: list[tuple[Any, Any]], random: Random) -> None:
    old, way = holder[key], random.integers(8)
    if way == 0:
        del holder[key]
    elif way == 1 and isinstance(holder, dict):
        holder[pick([k for _, k in holders if isinstance(k, str)] or ["x"], random)] = old
    elif way == 1:
        holder.extend([old] * 3)
    elif way == 2:
        other, where = pick(holders, random)
        if where in (other if isinstance(other, dict) else range(len(other))):
            holder[key] = json.loads(json.dumps(other[where]))
    elif way == 3:
        holder[key] = pick((None, True, [], {}, DIGITS, NEST, [[]], {"": 0}, 1e400, -1), random)
    elif isinstance(old, bool):
        holder[key] = not old
    elif isinstance(old, int):
        holder[key] = number(random, old)
    elif isinstance(old, float):
        holder[key] = float(pick(REALS, random))
    elif isinstance(old, str):
        holder[key] = change_text(old, random) if old and random.random() < 0.6 else pick(WORDS, random)
    else:
        holder[key] = pick(WORDS, random)


# ---------------------------------------------------------------- texts

TOKEN = re.compile(r"[A-Za-z_]\w*|\d+(?:\.\d+)?(?:e-?\d+)?|\s+|\"[^\"\n]*\"|//|[<>=!+\-*]=|->|\.\.|.", re.DOTALL)


def change_text(text: str, random: Random) -> str:
    """Return the text with one to four tokens or lines changed: a number into another, a name or operator into one of its kind that stands
    elsewhere, a line doubled, moved or left out, a term put into itself."""
    for _ in range(changes(random)):
        tokens = TOKEN.findall(text)
        if not tokens:
            return text
        at, way = int(random.integers(len(tokens))), random.integers(10)
        kind = _kind(tokens[at])
        alike = [t for t in tokens if _kind(t) == kind]
        if way < 5 and kind == "number":
            tokens[at] = str(number(random, int(float(tokens[at])) if float(tokens[at]) < 1e18 else 1))
        elif way < 7:
            tokens[at] = pick(alike, random)
        elif way == 7:
            lines = text.splitlines(keepends=True)
            a, b = sorted(int(v) for v in random.integers(len(lines) + 1, size=2))
            part = lines[a:min(b, a + 3)]
            rest = lines[:a] + lines[a + len(part):] if random.random() < 0.5 else lines
            put = int(random.integers(len(rest) + 1))
            text = "".join([*rest[:put], *part * int(random.integers(3)), *rest[put:]])
            continue
        elif way == 8:
            wild = ("(" * 3000 + "1" + ")" * 3000, "9" * 5000, "-" * 2000 + "1", "1 // 0", "1 % 0", "?h", "i", "0", "-1", "1.5")
            tokens[at] = pick(wild, random)
        else:
            del tokens[at:at + int(random.integers(1, 4))]
        text = "".join(tokens)
    return text


def _kind(token: str) -> str:
    if token[0].isdigit():
        return "number"
    return "name" if token[0].isalpha() or token[0] == "_" else "space" if token.isspace() else "quoted" if token[0] == '"' else "sign"


# ---------------------------------------------------------------- CSV

def change_csv(text: str, random: Random) -> str:
    """Return the table with one to five cells, columns or rows changed."""
    rows = list(csv.reader(io.StringIO(text)))
    for _ in range(changes(random)):
        if not rows:
            break
        row = int(random.integers(len(rows)))
        if not rows[row]:
            continue
        column, way = int(random.integers(len(rows[row]))), random.integers(8)
        if way == 0:
            del rows[row]
        elif way == 1:
            rows.insert(row, list(rows[row]))
        elif way == 2:
            rows = [r[:column] + r[column + 1:] for r in rows]
        elif way == 3:
            del rows[row][column]
        elif way == 4:
            rows[row][column] = pick([r[column] for r in rows if len(r) > column], random)
        else:
            old = rows[row][column]
            new = [change_text(old, random) if old else "1", str(pick(INTEGERS, random)), str(pick(REALS, random)), pick(WORDS, random),
                   "9" * 6000, ";".join([old] * 400), '""', "1,2,3;", "1e400"]
            rows[row][column] = str(pick(new, random))
    out = io.StringIO()
    csv.writer(out, lineterminator=pick(("\n", "\r\n"), random)).writerows(rows)
    return out.getvalue().replace("\0", "\\0")


# ---------------------------------------------------------------- banks

def change_bank(data: bytes, random: Random) -> bytes:
    """Return the SQLite file with one to four cells, rows, tables or marks changed."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "bank.db")
        path.write_bytes(data)
        c = sqlite3.connect(path, isolation_level=None)
        c.execute("PRAGMA journal_mode = DELETE")
        for _ in range(changes(random)):
            with contextlib.suppress(sqlite3.Error, TypeError):  # of a view, which has no rows of its own
                _change_table(c, random)
        with contextlib.suppress(sqlite3.Error):
            c.execute("PRAGMA journal_mode = WAL")
        c.close()
        return path.read_bytes()


def _change_table(c: sqlite3.Connection, random: Random) -> None:
    tables = [t for t, in c.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    filled = [t for t in tables if c.execute(f'SELECT count(*) FROM "{t}"').fetchone()[0]]
    table = pick(filled if random.random() < 0.9 else tables, random)
    if table is None:
        return
    columns = [row[1] for row in c.execute(f'PRAGMA table_info("{table}")')]
    column, way = pick(columns, random), random.integers(14)
    if way == 0:
        c.execute(f'DROP TABLE "{table}"')
    elif way == 1:
        c.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "other"')
    elif way == 2:
        c.execute(f"PRAGMA application_id = {int(random.integers(2))}")
    elif way == 3:
        c.execute(f'ALTER TABLE "{table}" ADD COLUMN "more" DEFAULT 7')
    elif way == 4:
        c.execute(f'DELETE FROM "{table}"')
    elif way == 5:
        c.execute(f'DROP TABLE "{table}"')
        c.execute(f'CREATE VIEW "{table}" AS SELECT * FROM sqlite_master')
    else:
        rows = [r for r, in c.execute(f'SELECT rowid FROM "{table}"')]
        row = pick(rows, random)
        old = c.execute(f'SELECT "{column}" FROM "{table}" WHERE rowid = ?', (row,)).fetchone()[0]
        changed = [number(random, old)] if isinstance(old, int) else [change_text(old, random)] * 3 if isinstance(old, str) and old else []
        new = pick([*changed * 2, None, "", b"\xff\xfe", b"", 1.5, math.inf, "9" * 5000, *WORDS, *(v for v in INTEGERS)], random)
        c.execute(f'UPDATE OR REPLACE "{table}" SET "{column}" = ? WHERE rowid = ?', (new, row))


# ---------------------------------------------------------------- artifacts

def change_artifact(data: bytes, random: Random) -> bytes:
    """Return the archive with one entry changed as what it is, or left out, doubled or put in another's place."""
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        entries = [(i.filename, z.read(i)) for i in z.infolist()]
    at, way = int(random.integers(len(entries))), random.integers(14)
    if way > 9:  # the manifest says most
        at = next(i for i, (name, _) in enumerate(entries) if name == "manifest.json")
    name, content = entries[at]
    if way == 0:
        del entries[at]
    elif way == 1:
        entries.append((name, content))
    elif way == 2:
        entries[at] = (name, pick(entries, random)[1])
    elif name.endswith(".json"):
        entries[at] = (name, change_json(content.decode(), random).encode("utf-8", "replace"))
    elif name.endswith(".npy"):
        head = change_text(content[:128].decode("latin-1"), random).encode("latin-1", "replace")
        entries[at] = (name, pick((content[:-3], content + b"\0" * 16, head + content[128:], content[:128] + content[:200]), random))
    else:
        entries[at] = (name, change_text(content.decode(), random).encode("utf-8", "replace"))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED if random.random() < 0.98 else zipfile.ZIP_DEFLATED) as z:
        for entry, value in entries:
            z.writestr(zipfile.ZipInfo(entry, (1980, 1, 1, 0, 0, 0)), value)
    return out.getvalue()


# ---------------------------------------------------------------- all of them

def _of_text(change: Callable[[str, Random], str]) -> Callable[[bytes, Random], bytes]:
    return lambda data, random: change(data.decode(), random).encode("utf-8", "replace")


CHANGES: dict[str, Callable[[bytes, Random], bytes]] = {
    "onnx": change_message, "artifact": change_artifact, "text": _of_text(change_text), "bank": change_bank,
    "json": _of_text(change_json), "csv": _of_text(change_csv)}
