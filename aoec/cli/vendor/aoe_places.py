"""What AOE's environment and its `aoe.ini` ask for, in the order that CANN documents: a variable first, then the file, then the default.

`aoe.ini` lies below an installed CANN, which its variables name: in tools/aoe/conf up to CANN 8.3, in conf since 8.5."""
from __future__ import annotations

import os
import re
from pathlib import Path

from aoec.base.errors import CheckError
from aoec.base.files.bank_place import bank_path
from aoec.base.files.files import read_text
from aoec.cli.vendor.aoe_models import Note

CANN = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
INI = ("conf/aoe.ini", "tools/aoe/conf/aoe.ini")  # newest first
RANGES = {"TE_PARALLEL_COMPILER": 32, "TUNING_PARALLEL_NUM": 64, "RUN_LOOP": 2048}  # from 1 to this


def ini(note: Note) -> dict[str, str]:
    """Return key -> value of the aoe.ini that is found first. Return nothing where there is none."""
    roots = [Path(root) for name in CANN if (root := os.environ.get(name))]
    found = next((root / place for root in roots for place in INI if (root / place).is_file()), None)
    if found is None:
        return {}
    note(f"aoe: {found} is read")
    lines = (re.fullmatch(r"\s*([A-Z_]+)\s*=\s*(.*?)\s*", line) for line in read_text(found).splitlines())
    return {match[1]: match[2] for match in lines if match and match[2]}


def work_folder(said: dict[str, str]) -> Path:
    """Return where workspace and results go: $ASCEND_WORK_PATH, else WORK_PATH of aoe.ini, else the current directory."""
    return Path(os.environ.get("ASCEND_WORK_PATH") or said.get("WORK_PATH") or ".").expanduser()


def bank_words(base: str | None) -> list[str]:
    """Return where the bank is, as aoec's own commands look for it (AOE asks for a directory in $TUNE_BANK_PATH), and the one beneath it,
    which is only read: --base_result."""
    root = os.environ.get("TUNE_BANK_PATH")
    if root and not (Path(root).is_dir() and os.access(root, os.R_OK | os.W_OK | os.X_OK)):
        raise CheckError(f"TUNE_BANK_PATH={root} must be a directory that can be read and written")
    return ["--bank", str(bank_path(None)), *(["--base", base] if base is not None else [])]


def environment(said: dict[str, str], note: Note) -> list[str]:
    """Return the words for `aoec tune` that follow from other variables and from aoe.ini."""
    words = []
    repeat = os.environ.get("REPEAT_TUNE", "")
    if repeat.lower() not in ("", "true", "false"):
        raise CheckError(f"REPEAT_TUNE={repeat[:40]} is neither True nor False")
    if repeat.lower() == "true":
        words.append("--repeat")
    counts = {name: _count(name, value) for name in RANGES if (value := os.environ.get(name) or said.get(name))}
    if together := counts.get("TE_PARALLEL_COMPILER") or counts.get("TUNING_PARALLEL_NUM"):
        words += ["--jobs", str(min(together, os.cpu_count() or 1))]
    if "ASCEND_DEVICE_ID" in os.environ:
        note("aoe: ASCEND_DEVICE_ID changes nothing: no device is used, times are modelled")
    if "RUN_LOOP" in counts:
        note("aoe: RUN_LOOP changes nothing: modelled times are the same each time")
    return words


def _count(name: str, value: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,3}", value) or int(value) > RANGES[name]:
        raise CheckError(f"{name}={value[:40]} is not from 1 to {RANGES[name]}")
    return int(value)
