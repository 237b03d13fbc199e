"""What a command is to write, checked before any work: it can be written, and nothing that is read is lost by it."""
from __future__ import annotations

import os
from pathlib import Path

from aoec.base.errors import BackendError
from aoec.base.files import files
from aoec.base.files.bank_place import bank_path
from aoec.base.files.files import check_folder, check_writable
from aoec.options.option import File, Options, named_paths, options_of


def check_outputs(options: Options) -> None:
    """Raise BackendError where an output cannot be written, or would replace an input or another output."""
    for path in written_files(options):
        check_writable(path)
    for folder in named_paths(options, File.FOLDER, File.ADDED, File.NEW):
        check_folder(folder)
    check_apart(options)


def written_files(options: Options) -> list[str]:
    """Return the files that a command writes whole, without the standard streams."""
    return list(dict.fromkeys([*named_paths(options, File.WRITTEN), *further_files(options, File.WRITTEN)]))


def further_files(options: Options, use: File) -> list[str]:
    """Return the files that are written beside an output, or in a folder, whose names follow from its name."""
    out = list[str]()
    for name, found in options_of(type(options)).items():
        path = getattr(options, name)
        if found.file is use and path not in (None, "", "-"):
            out += [os.path.join(path, each) if use is File.FOLDER else f"{path}{each}" for each in found.with_it]
    return out


def check_apart(options: Options) -> None:
    """Raise BackendError where an output would overwrite an input or another output."""
    read = [*named_paths(options, File.READ), *banks(options)]
    targets = [*written_files(options), *further_files(options, File.FOLDER)]
    files.check_apart(targets, read)
    for folder in named_paths(options, File.FOLDER):
        if any(os.path.isdir(other) and files.same(folder, other) for other in read):
            raise BackendError(f"cannot write into {folder}: it is read here, and would be changed; name another folder")
    for number, path in enumerate(targets):
        if any(Path(path).absolute() == Path(other).absolute() for other in targets[:number]):
            raise BackendError(f"cannot write {path}: two outputs have this name; name another file")


def banks(options: Options) -> list[str]:
    """Return the bank of a command that has one, named or not."""
    return [str(bank_path(getattr(options, name))) for name, found in options_of(type(options)).items() if found.file is File.BANK]
