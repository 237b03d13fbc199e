"""Machine files that extend others: read, bounded and deeply merged, with the file that each value comes from.

`extends` names one parent or a list of them. A parent is a shipped family or machine by name, or a file by its path, relative to the
file that names it. A later file overrides an earlier one: a number as a whole (value, source and confidence together), a formula, a
list, a word. `drops` removes what a parent has and this one lacks. `carries_as` says how far to trust what is inherited (for a family
whose numbers were found on another generation). `machine.py` reads everything else of a machine file.
"""
from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from aoec.base.errors import BackendError, TargetError
from aoec.base.files.files import read_bytes

CONFIDENCE = ("official", "measured", "inferred", "estimate")  # best first
LIMIT_BYTES = 1 << 20  # far above any real machine file
DIRECTIVES = ("extends", "drops", "carries_as")


@dataclass(frozen=True, slots=True)
class Merged:
    """What a machine file and its parents say together; `origins` gives the file of each value by its place (`scopes.L1.size_bytes`)."""

    raw: dict[str, Any]
    origins: dict[str, str]


def read_merged(text: str, source: str, folder: Path | None = None) -> Merged:
    """Return the text of a machine file merged over its parents; relative paths start at `folder` (none: shipped parents only)."""
    return _merge_file(text, source, folder, (source if folder is None else str(Path(source).resolve()),))


@lru_cache(maxsize=1)
def shipped_texts() -> dict[str, str]:
    """Return the texts of the machine and family files that come with aoec, by the name of the file without .toml."""
    files = resources.files("aoec.target").iterdir()
    return {f.name.removesuffix(".toml"): f.read_text(encoding="utf-8") for f in files if f.name.endswith(".toml")}


@lru_cache(maxsize=1)
def shipped_machines() -> dict[str, str]:
    """Return names of files by the name of the machine that each describes; families describe none."""
    named = ((tomllib.loads(text).get("name"), stem) for stem, text in sorted(shipped_texts().items()))
    return {str(name): stem for name, stem in named if name is not None}


@lru_cache(maxsize=64)
def shipped_clock_mhz(name: str) -> float | None:
    """Return the clock of a machine that comes with aoec, in MHz; None of any other. Nothing else of the machine is read."""
    stem = shipped_machines().get(name)
    clock = read_merged(shipped_texts()[stem], stem).raw.get("clock_mhz") if stem else None
    return float(clock["value"]) if isinstance(clock, dict) else None


def read_file(path: Path) -> str:
    """Return the text of a machine file; TargetError where it cannot be read, is too long or no text."""
    try:
        return read_bytes(path, LIMIT_BYTES).decode("utf-8")
    except BackendError as e:
        words = str(e).removeprefix(f"cannot read {path}: ").replace(f"{path} is", "it is")
        raise TargetError(f"{path}: cannot read this machine file: {getattr(e.__cause__, 'strerror', None) or words}") from None
    except (OSError, UnicodeDecodeError, ValueError) as e:  # ValueError: a path with a NUL
        raise TargetError(f"{path}: cannot read this machine file: {getattr(e, 'strerror', None) or 'not UTF-8 text'}") from None


def is_path(name: str) -> bool:
    """Return whether a target's or parent's name is a file's path."""
    return name.endswith(".toml") or "/" in name or "\\" in name


def near(name: str, names: Iterable[str]) -> str:
    """Return a half sentence with the nearest of `names`, or all of them where none is near."""
    known = sorted(names)
    folded = {n.lower(): n for n in known}
    match = difflib.get_close_matches(name, known, n=1, cutoff=0.5) or difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.5)
    return f"did you mean {folded.get(match[0], match[0])}?" if match else f"known: {', '.join(known) or 'none'}"


def is_number(entry: Any) -> bool:
    """Return whether a table of a machine file is a number with its source, which is overridden as a whole."""
    return isinstance(entry, dict) and bool(entry.keys() & {"value", "source", "confidence"}) and not entry.keys() & {"busy", "latency"}


def _merge_file(text: str, source: str, folder: Path | None, line: tuple[str, ...]) -> Merged:
    """Return the values of a file merged over those of its parents. `line` holds the files from the first one to this one. A file that
    is in it twice would extend itself."""
    try:
        own = tomllib.loads(text)
    except (ValueError, RecursionError) as e:  # numbers of more than 4,300 digits too
        raise TargetError(f"{source}: not TOML: {str(e)[:200]}") from None
    result = Merged({}, {})
    for parent in _parents(own, source):
        _overlay(result, _parent(parent, source, folder, line), source)
    _drop(result, own, source)
    _carry(result.raw, own, source)
    mine = {k: v for k, v in own.items() if k not in DIRECTIVES}
    _overlay(result, Merged(mine, {place: source for place in _places(mine)}), source)
    return result


def _parents(own: Mapping[str, Any], source: str) -> list[str]:
    names = own.get("extends", [])
    names = [names] if isinstance(names, str) else names
    if not isinstance(names, list) or not all(isinstance(n, str) and n for n in names):
        raise TargetError(f"{source}: extends: must be a name or path in quotes, or a list of them")
    return names


def _parent(name: str, source: str, folder: Path | None, line: tuple[str, ...]) -> Merged:
    if is_path(name):
        if folder is None:
            raise TargetError(f"{source}: extends: {name} is a path, and this text is no file that it could start from")
        path = folder / name
        key, text, folder = str(path.resolve()), read_file(path), path.parent
        shown = str(path)
    else:
        stems = {s.lower(): s for s in shipped_texts()} | {m.lower(): s for m, s in shipped_machines().items()}
        if name.lower() not in stems:
            raise TargetError(f"{source}: extends: {name} is unknown; {near(name, {*shipped_machines(), *_families()})}")
        stem = stems[name.lower()]
        key = shown = f"{stem}.toml"
        text, folder = shipped_texts()[stem], None
    if key in line:
        raise TargetError(f"{source}: extends: {name} extends itself, by way of {' and '.join(line)}")
    return _merge_file(text, shown, folder, (*line, key))


def _families() -> set[str]:
    return shipped_texts().keys() - set(shipped_machines().values())


def _overlay(below: Merged, above: Merged, source: str) -> None:
    """Puts `above` over `below`, in place."""
    _merge(below.raw, above.raw, source, "")
    for place in above.origins:
        for old in [p for p in below.origins if p.startswith(f"{place}.") or place.startswith(f"{p}.")]:
            del below.origins[old]
    below.origins.update(above.origins)


def _merge(below: dict[str, Any], above: Mapping[str, Any], source: str, where: str) -> None:
    for key, value in above.items():
        at = f"{where}.{key}" if where else key
        old = below.get(key)
        if isinstance(old, dict) != isinstance(value, dict) and old is not None:
            help_ = f", a number with its source; write it as {key} = {{value = {value}, source = \"...\", confidence = \"estimate\"}}" \
                if is_number(old) and isinstance(value, (int, float)) else ""
            kind = "a table" if isinstance(old, dict) else "no table"
            raise TargetError(f"{source}: {at}: is {kind} in the file that this one extends{help_}")
        if isinstance(old, dict) and isinstance(value, dict) and not is_number(value):
            _merge(old, value, source, at)
        else:
            below[key] = _copy_tables(value)


def _copy_tables(value: Any) -> Any:
    return {k: _copy_tables(v) for k, v in value.items()} if isinstance(value, dict) else value


def _places(raw: Mapping[str, Any], where: str = "") -> list[str]:
    """Return the dotted places of all values: numbers, formulas, lists and words."""
    places: list[str] = []
    for key, value in raw.items():
        at = f"{where}.{key}" if where else key
        places += _places(value, at) if isinstance(value, dict) and not is_number(value) else [at]
    return places


def _drop(merged: Merged, own: Mapping[str, Any], source: str) -> None:
    drops = own.get("drops", [])
    if not isinstance(drops, list) or not all(isinstance(d, str) for d in drops):
        raise TargetError(f"{source}: drops: must be a list of places in quotes, such as \"scopes.FB\"")
    for place in drops:
        *tables, key = place.split(".")
        table: Any = merged.raw
        for name in tables:
            table = table.get(name) if isinstance(table, dict) else None
        if not isinstance(table, dict) or key not in table:
            known = {".".join(p.split(".")[:len(tables) + 1]) for p in merged.origins}
            raise TargetError(f"{source}: drops: nothing that this file extends has {place}; {near(place, known)}")
        del table[key]
        for gone in [p for p in merged.origins if p == place or p.startswith(f"{place}.")]:
            del merged.origins[gone]


def _carry(raw: dict[str, Any], own: Mapping[str, Any], source: str) -> None:
    """Lower the confidence of numbers inherited from another generation to `carries_as`, where it is higher, and add their origin to
    their source."""
    limit = own.get("carries_as")
    if limit is None:
        return
    if limit not in CONFIDENCE:
        raise TargetError(f"{source}: carries_as: is {limit!r}; one of {', '.join(CONFIDENCE)} is needed")
    for value in raw.values():
        if is_number(value) and value.get("confidence") in CONFIDENCE:
            if CONFIDENCE.index(value["confidence"]) < CONFIDENCE.index(limit):
                value["confidence"] = limit
            value["source"] = f"carried over from another generation: {value.get('source')}"
        elif isinstance(value, dict):
            _carry(value, {"carries_as": limit}, source)


def show_machine_file(raw: Mapping[str, Any]) -> str:
    """Return the merged content as one machine file that extends nothing. Reading it gives equal content."""
    plain = [f"{_key(k)} = {_value(v)}" for k, v in raw.items() if not isinstance(v, dict) or is_number(v)]
    return "\n".join([*plain, *_tables(raw, "")]) + "\n"


def _tables(raw: Mapping[str, Any], where: str) -> list[str]:
    lines: list[str] = []
    for key, value in raw.items():
        if isinstance(value, dict) and not is_number(value):
            at = f"{where}.{_key(key)}" if where else _key(key)
            lines += ["", f"[{at}]", *(f"{_key(k)} = {_value(v)}" for k, v in value.items() if not isinstance(v, dict) or is_number(v))]
            lines += _tables(value, at)
    return lines


def _key(key: str) -> str:
    return key if key.isascii() and key.replace("_", "").replace("-", "").isalnum() else _value(key)


def _value(value: Any) -> str:
    """Return a value as TOML writes it. Text has the escapes of JSON, which TOML shares but for one control character."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
