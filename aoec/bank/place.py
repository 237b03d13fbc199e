"""Where the bank is unless told otherwise; apart from the bank itself, because saying so must not load a database."""
from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def chosen(named: str | None) -> Path:
    """The bank that is named, else $TUNE_BANK_PATH (a file, or a directory that holds one), else the user data directory's."""
    path = named or os.environ.get("TUNE_BANK_PATH")
    if not path:
        return default_path()
    at = Path(path).expanduser()
    return at / "bank.db" if at.is_dir() else at


def default_path() -> Path:
    """bank.db in the user's data directory."""
    return platformdirs.user_data_path("aoec") / "bank.db"
