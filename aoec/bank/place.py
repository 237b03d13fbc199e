"""Where the bank is unless told otherwise; apart from the bank itself, because saying so must not load a database."""
from __future__ import annotations

from pathlib import Path

import platformdirs


def default_path() -> Path:
    """bank.db in the user's data directory."""
    return platformdirs.user_data_path("aoec") / "bank.db"
