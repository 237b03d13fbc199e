"""Lines of an export that are no records: canonical JSON, with a word that says what of, and its version."""
from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from aoec.base.errors import BankError


def show(data: Mapping[str, Any], word: str, version: int, times: bool) -> str:
    """Return one line; without `times` it says nothing of when it was made."""
    known = {**data, word: version}
    return json.dumps(known if times else known | {"created": ""}, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def parse(line: str, word: str, version: int, name: str) -> dict[str, Any] | None:
    """Return the fields of a line with this word; None of a line that is of something else. BankError where it is of another version."""
    if not line.startswith("{") or f'"{word}":' not in line:
        return None
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return strip(data, word, version, name) if isinstance(data, dict) else None


def strip(data: Mapping[str, Any], word: str, version: int, name: str) -> dict[str, Any] | None:
    """Return values less this word, which has a version; None where they do not have it, or as a field. BankError where it is another
    version."""
    found = data.get(word, "")
    if isinstance(found, str):
        return None
    if found != version:
        raise BankError(f"{name} of version {str(found)[:20]} is beyond this aoec, which knows {version}")
    return {n: v for n, v in data.items() if n != word}
