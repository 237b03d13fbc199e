"""What a command is to write, asked for before any work: it can be written, and nothing that is read is lost by it."""
from __future__ import annotations

import os
from argparse import Namespace

from aoec.base.errors import BackendError
from aoec.base.files import check_folder, check_writable

READ = ("model", "input", "other", "trace", "inputs", "func", "read", "before", "weights", "bank")  # options that name a file to read
WRITTEN = ("output", "embed", "svg", "trials", "plot", "lowered", "events")  # and one to write
BOTH = {"simulate": "trace", "import": "weights"}  # command -> what of the former it writes


def ready_output(options: Namespace) -> None:
    """Nothing, or BackendError: what will be written is asked for before any work."""
    for path in written(options):
        check_writable(path)
    check_apart(options)
    for folder in filter(None, (getattr(options, name, None) for name in ("dump", "report"))):
        check_folder(folder)


def written(options: Namespace) -> list[str]:
    """The files that a command is to write; not what goes to the standard streams."""
    names = (*WRITTEN, BOTH.get(options.command, "output"))
    return list(dict.fromkeys(path for name in names if isinstance(path := getattr(options, name, None), str) and path not in ("", "-")))


def check_apart(options: Namespace) -> None:
    """Nothing, or BackendError where what is read would be written over."""
    names = [name for name in READ if name != BOTH.get(options.command)]
    read = [path for name in names if isinstance(path := getattr(options, name, None), str) and os.path.isfile(path)]
    for path in written(options):
        if os.path.exists(path) and any(os.path.samefile(path, other) for other in read):
            raise BackendError(f"cannot write {path}: it is read here, and would be lost; name another file")
