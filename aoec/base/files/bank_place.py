"""Where the bank is unless told otherwise; apart from the bank itself, because saying so must not load a database."""
from __future__ import annotations

import os
import re
from pathlib import Path

import platformdirs

from aoec.base.errors import BankError

NAME = "aoec.db"  # in a directory that is named: CANN's own files may lie beside it
OLD_NAME = "bank.db"  # of earlier releases, where it is there and the other is not
NO_BASE = "none"


def bank_path(named: str | Path | None) -> Path:
    """Return the path of the bank that is named, else of $TUNE_BANK_PATH, else of $ASCEND_CACHE_PATH (AOE's order), else of the user
    data directory. The first two may be files, or directories that hold one. The third is a directory, of which AOE uses `aoe_data`."""
    if path := named or os.environ.get("TUNE_BANK_PATH"):
        at = (path if isinstance(path, Path) else path_of(path)).expanduser()
        return in_folder(at) if os.path.isdir(at) else at  # which a folder that may not be looked into is not
    return default_bank()


def path_of(name: str) -> Path:
    """Return the path that a name of a bank means: the name itself, or PATH of sqlite:///PATH. SQLAlchemy and tuners that use it write
    the latter (with four slashes for an absolute path). Raise BankError for any other address, for which folders would be made here."""
    if found := re.fullmatch(r"sqlite:///(.+)", name):
        return Path(found[1])
    if found := re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/+", name):
        raise BankError(f"bank {name} is an address ({found[0]}), and a bank is one SQLite file: give its path")
    return Path(name)


def default_bank() -> Path:
    """Return the bank where neither an option nor $TUNE_BANK_PATH names one."""
    if root := os.environ.get("ASCEND_CACHE_PATH"):
        return in_folder(Path(root).expanduser() / "aoe_data")
    return default_path()


def in_folder(folder: Path) -> Path:
    """Return the bank of a directory: aoec.db, or what earlier releases called it."""
    old, new = folder / OLD_NAME, folder / NAME
    return old if old.is_file() and not new.exists() else new


def default_path() -> Path:
    """Return bank.db in the user's data directory."""
    return platformdirs.user_data_path("aoec") / "bank.db"


def check_base(named: str | None) -> None:
    """Raise BankError where the bank beneath is not there: asked before any work."""
    asked = base_named(named)
    if asked not in ("", NO_BASE) and not path_of(asked).expanduser().exists():
        raise BankError(f"there is no bank {asked} (this is the bank beneath, of {'--base' if named else '$AOEC_BASE_BANK'})")


def base_named(named: str | None) -> str:
    """Return the bank beneath it that is named, else $AOEC_BASE_BANK, which may be NO_BASE too; "": the built-in one."""
    return named or os.environ.get("AOEC_BASE_BANK", "")
