"""Memo: small values that were computed once and are kept for later runs, as JSON files by key in the user's cache folder.

A value is trusted where its file belongs to this user (or root) and its checksum matches. In every other case it is computed anew. A
folder that cannot be written is no error. Each version has a folder of its own. The newest few folders are kept, and in a folder the
newest values. Nothing here is ever executed, and the files can be deleted at any time.
"""
from __future__ import annotations

import contextlib
import json
import os
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

from aoec.base.errors import BackendError
from aoec.base.files.files import remove_stale, write_bytes
from aoec.base.files.ownership import is_own

VALUE_LIMIT_BYTES = 16 << 20
VALUES, VERSIONS = 8192, 4  # the most that are kept, by version and of versions


def cache_folder() -> Path:
    """Return $AOEC_CACHE_DIR, or else aoec's folder in the user's cache."""
    named = os.environ.get("AOEC_CACHE_DIR")
    if named:
        return Path(named).expanduser()
    from platformdirs import user_cache_path
    return user_cache_path("aoec", appauthor=False)


class Memo:
    """The values of one version; a key is a list of texts."""

    def __init__(self, folder: Path, version: str) -> None:
        self.folder = folder / version
        self._tidy = False  # whether this process has looked how many values there are

    def get(self, *key: str) -> Any:
        """Return the value of a key; None where there is none that can be believed."""
        name = _name(key)
        try:
            with open(self.folder / name, "rb") as f:
                data = f.read(VALUE_LIMIT_BYTES + 1) if is_own(os.fstat(f.fileno())) else b""
        except OSError:
            return None
        head, _, body = data.partition(b"\n")
        if len(data) > VALUE_LIMIT_BYTES or head != _checksum(name, body):
            return None
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            return None

    def put(self, value: Any, *key: str) -> None:
        """Keep the value if the folder can be written and the value is not too large."""
        name, body = _name(key), json.dumps(value, separators=(",", ":")).encode()
        if len(body) > VALUE_LIMIT_BYTES // 2:
            return
        with contextlib.suppress(OSError, BackendError):
            if not self._tidy:
                self._tidy_up()
            write_bytes(self.folder / name, _checksum(name, body) + b"\n" + body)

    def _tidy_up(self) -> None:
        """Make the folder, for this user alone, and delete the oldest entries where it or the folder above has too many."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.utime(self.folder)
        remove_stale(self.folder)
        for old in _newest(self.folder.parent)[VERSIONS:]:
            shutil.rmtree(old, ignore_errors=True)
        values = _newest(self.folder)
        for old in values[VALUES // 2:] if len(values) > VALUES else ():
            old.unlink(missing_ok=True)
        self._tidy = True


def _name(key: tuple[str, ...]) -> str:
    return sha256(json.dumps(key).encode()).hexdigest() + ".json"


def _checksum(name: str, body: bytes) -> bytes:
    return sha256(name.encode() + body).hexdigest().encode()


def _newest(folder: Path) -> list[Path]:
    """Return what a folder holds, newest first."""
    with os.scandir(folder) as entries:
        return [Path(path) for _, path in sorted(((e.stat().st_mtime, e.path) for e in entries), reverse=True)]
