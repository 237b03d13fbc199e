"""What a command is to write, asked for before any work: it can be written, and nothing that is read is lost by it."""
from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path

from aoec.bank.place import choose_path
from aoec.base.errors import BackendError
from aoec.base.files import files
from aoec.base.files.files import check_folder, check_writable
from aoec.cli.declared import File, named_paths

BESIDE = ("import", "fuse", "slice")  # commands that write constants beside their output, as <output>.npz
PAGE = ("index.html", "report.json")  # what --report writes into its folder


def ready_output(options: Namespace) -> None:
    """Nothing, or BackendError: what will be written is asked for before any work."""
    for path in written(options):
        check_writable(path)
    for folder in named_paths(options, File.FOLDER, File.ADDED, File.NEW):
        check_folder(folder)
    check_apart(options)


def written(options: Namespace) -> list[str]:
    """The files that a command is to write; not what goes to the standard streams."""
    found = list(named_paths(options, File.WRITTEN))
    if getattr(options, "command", "") in BESIDE and getattr(options, "output", "-") != "-":
        found.append(options.output + ".npz")
    return list(dict.fromkeys(found))


def check_apart(options: Namespace) -> None:
    """Nothing, or BackendError where what is read, or another thing that is written, would be written over."""
    read = [*named_paths(options, File.READ), *([str(choose_path(options.bank))] if holds_bank(options) else [])]
    page = [os.path.join(folder, name) for folder in filter(None, [getattr(options, "report", None)]) for name in PAGE]
    targets = [*written(options), *page]
    files.check_apart(targets, read)
    for folder in named_paths(options, File.FOLDER):
        if any(os.path.isdir(other) and files.same(folder, other) for other in read):
            raise BackendError(f"cannot write into {folder}: it is read here, and would be changed; name another folder")
    for number, path in enumerate(targets):
        if any(Path(path).absolute() == Path(other).absolute() for other in targets[:number]):
            raise BackendError(f"cannot write {path}: two outputs have this name; name another file")


def holds_bank(options: Namespace) -> bool:
    """Whether a command has a bank, named or not."""
    return File.BANK in getattr(options, "files_of", {}).values()
