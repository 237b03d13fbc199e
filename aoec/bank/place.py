"""Where the bank is unless told otherwise; apart from the bank itself, because saying so must not load a database."""
from __future__ import annotations

import os
from pathlib import Path

import platformdirs

NAME = "aoec.db"  # in a directory that AOE's variables name: CANN's own files may lie beside it
NO_BASE = "none"


def chosen(named: str | None) -> Path:
    """The bank that is named, else $TUNE_BANK_PATH's, else $ASCEND_CACHE_PATH's (AOE's order), else the user data directory's.

    The first two may be files, or directories that hold one; the third is a directory, of which AOE uses `aoe_data`.
    """
    if path := named or os.environ.get("TUNE_BANK_PATH"):
        at = Path(path).expanduser()
        return at / NAME if at.is_dir() else at
    if root := os.environ.get("ASCEND_CACHE_PATH"):
        return Path(root).expanduser() / "aoe_data" / NAME
    return default_path()


def default_path() -> Path:
    """bank.db in the user's data directory."""
    return platformdirs.user_data_path("aoec") / "bank.db"


def base_named(named: str | None) -> str:
    """The bank beneath it that is named, else $AOEC_BASE_BANK, which may be NO_BASE too; "": the built-in one."""
    return named or os.environ.get("AOEC_BASE_BANK", "")
