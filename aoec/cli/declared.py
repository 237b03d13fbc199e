"""What is said where a command or an option is: what its file or folder is for, so that what is only read is never written."""
from __future__ import annotations

import argparse
import os
from argparse import Namespace
from collections.abc import Iterator
from enum import Enum

READ = "read more:"  # at the end of a command's help, before its page
Files = dict[str, "File"]  # name of an option in what is parsed -> what its file is for


class File(Enum):
    """READ: it is only read, and may be a folder. WRITTEN: a file that is written whole. BANK: a bank, which is read, and written by
    commands that keep something. FOLDER: a folder whose files are written over. ADDED: a folder that gets files of new names. NEW: a folder
    that is new or empty."""

    READ = "read"
    WRITTEN = "written"
    BANK = "bank"
    FOLDER = "folder"
    ADDED = "added to"
    NEW = "new"


def reads(action: argparse.Action) -> argparse.Action:
    """The option, whose file is only read."""
    return _declare(action, File.READ)


def writes(action: argparse.Action) -> argparse.Action:
    """The option, whose file is written whole."""
    return _declare(action, File.WRITTEN)


def holds_bank(action: argparse.Action) -> argparse.Action:
    """The option, whose file is a bank."""
    return _declare(action, File.BANK)


def fills(action: argparse.Action, use: File = File.FOLDER) -> argparse.Action:
    """The option, in whose folder files are written."""
    return _declare(action, use)


def _declare(action: argparse.Action, use: File) -> argparse.Action:
    vars(action)["file"] = use
    return action


def declared(parser: argparse.ArgumentParser) -> Files:
    """What the files of a command's own options are for."""
    return {a.dest: use for a in parser._actions if isinstance(use := getattr(a, "file", None), File)}


def named_paths(options: Namespace, *uses: File) -> Iterator[str]:
    """The paths that options name for these uses; not the standard streams."""
    for name, use in getattr(options, "files_of", {}).items():
        found = getattr(options, name, None)
        for path in found if isinstance(found, (list, tuple)) else [found]:
            if use in uses and isinstance(path, (str, os.PathLike)) and str(path) not in ("", "-"):
                yield str(path)
