"""What an option is: a field of a frozen dataclass that says its words, its help, how its text is read, and what its file is for.

The dataclasses beside this file are the one place of an option. Command lines (`aoec/cli/parser.py`), the Python API (`aoec/api.py`), the
check of outputs (`output_check.py`) and shell completion are derived from them.
"""
from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from enum import Enum
from functools import cache
from inspect import get_annotations
from pathlib import Path
from typing import Any, ClassVar, TypeVar, Union, dataclass_transform

from aoec.base.errors import ParseError
from aoec.base.text import nearest

Place = Union[str, Path]  # of a file or folder
T = TypeVar("T")
Read = Callable[[str], Any]
SomeOptions = TypeVar("SomeOptions", bound="Options")
WHERE = "option"  # of a field's metadata


class File(Enum):
    """What becomes of the file or folder that an option names.

    READ: it is only read, and may be a folder. WRITTEN: a file that is written whole. BANK: a bank, which is read, and written by
    commands that keep something. FOLDER: a folder whose files are written over. ADDED: a folder that gets files of new names.
    NEW: a folder that is new or empty.
    """

    READ = "read"
    WRITTEN = "written"
    BANK = "bank"
    FOLDER = "folder"
    ADDED = "added to"
    NEW = "new"


@dataclass(frozen=True)
class Option:
    """How a field is written on a command line.

    `flags`: its words, such as -o and --output; none of what stands without a word. `read`: text -> value, or ParseError. `many`: it may be
    given several times. `negatable`: a switch that has a --no- form. `one_of`: the name of a set of which one at most is given.
    `required`: it, or one of its set, must be given. `with_it`: further files that are written, as endings of a file's name or as names
    in a folder. `vendor`: the names of options of AOE and ATC that mean the same, with the same values.
    """

    flags: tuple[str, ...]
    help: str
    metavar: str = ""
    read: Read | None = None
    choices: tuple[str, ...] = ()
    file: File | None = None
    many: bool = False
    negatable: bool = False
    one_of: str = ""
    required: bool = False
    with_it: tuple[str, ...] = ()
    vendor: tuple[str, ...] = ()

    def value(self, name: str, given: Any) -> Any:
        """Return the value of a field for what a caller gave: text is read, paths become text. Raise ParseError for what cannot be."""
        if given is None or isinstance(given, bool):
            return given
        if isinstance(given, Mapping):
            return {key: as_tuple(each) for key, each in given.items()}
        if self.many:
            listed = [given] if isinstance(given, (str, os.PathLike)) else given
            return tuple(self.one(name, each) for each in listed)
        return self.one(name, given)

    def one(self, name: str, given: Any) -> Any:
        """Return the value of one item of a field."""
        if self.file is not None and isinstance(given, os.PathLike):
            return str(given)
        if self.choices and given not in self.choices:
            raise ParseError(f"{name}: {str(given)[:40]!r} is unknown{nearest(str(given), list(self.choices))}".rstrip("?"))
        if self.read is None or not isinstance(given, str):
            return as_tuple(given)
        try:
            return self.read(given)
        except ParseError as e:
            raise ParseError(f"{name}: {e.message}") from None


def as_tuple(value: Any) -> Any:
    """Return a list, and those in it, as tuples; anything else as it is."""
    return tuple(map(as_tuple, value)) if isinstance(value, (list, tuple)) else value


def option(*flags: str, help: str, default: Any = MISSING, factory: Any = MISSING, metavar: str = "", read: Read | None = None,
           choices: tuple[str, ...] = (), file: File | None = None, many: bool = False, one_of: str = "", required: bool = False,
           with_it: tuple[str, ...] = (), vendor: tuple[str, ...] = (), kw_only: bool = True) -> Any:
    """Return a field that is given behind a word."""
    found = Option(flags, help, metavar, read, choices, file, many, False, one_of, required, with_it, vendor)
    return _field(found, default, factory, kw_only)


def argument(metavar: str, *, help: str, default: Any = MISSING, read: Read | None = None, choices: tuple[str, ...] = (),
             file: File | None = None, many: bool = False, kw_only: bool = True) -> Any:
    """Return a field that is given without a word. It may be left out where it has a default."""
    return _field(Option((), help, metavar, read, choices, file, many), default, MISSING, kw_only)


def switch(*flags: str, help: str, default: Any = False, negatable: bool = False, one_of: str = "", required: bool = False,
           kw_only: bool = True) -> Any:
    """Return a field that is true where its word is given."""
    return _field(Option(flags, help, negatable=negatable, one_of=one_of, required=required), default, MISSING, kw_only)


def redeclare(of: type[Options], name: str, *, default: Any = MISSING, kw_only: bool = True, **changes: Any) -> Any:
    """Return a field of another class with another default, or with other words (`changes`: fields of Option)."""
    was = of.__dataclass_fields__[name]
    found = Option(**{**(vars(was.metadata[WHERE]) if WHERE in was.metadata else {}), **changes})
    return _field(found, was.default if default is MISSING else default, was.default_factory, kw_only)


def _field(found: Option, default: Any, factory: Any, kw_only: bool) -> Any:
    return field(default=default, default_factory=factory, kw_only=kw_only, metadata={WHERE: found})


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(option, argument, switch, redeclare, field))
def options(cls: type[T]) -> type[T]:
    """Make a frozen dataclass of a class of options."""
    return dataclass(frozen=True, kw_only=True)(cls)


@options
class Options:
    """The options of a command, or those that several have in common.

    `title`: of the group in help in which those of a class stand. `hidden`: fields that the command line of a class does not have.
    """

    title: ClassVar[str] = ""
    hidden: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for name, found in options_of(type(self)).items():
            object.__setattr__(self, name, found.value(name, getattr(self, name)))

    def left_behind(self) -> str:
        """Return what a Ctrl-C leaves behind, in words."""
        return "nothing was written"

    def into(self, other: type[SomeOptions], **changes: Any) -> SomeOptions:
        """Return the options of another command, with the values of all fields that both have, and `changes`."""
        common = {f.name: getattr(self, f.name) for f in fields(other) if hasattr(self, f.name)}
        return other(**{**common, **changes})


def options_of(cls: type[Options]) -> dict[str, Option]:
    """Return name -> option, of the fields that a command line has; those of the class itself first, then those of its bases as listed."""
    return _options_of(cls)  # type: ignore[arg-type]  # mypy takes the hash of its instances


@cache
def _options_of(cls: Any) -> dict[str, Option]:
    all_fields, out = cls.__dataclass_fields__, dict[str, Option]()
    for owner in cls.__mro__:
        for name in get_annotations(owner):
            if name in all_fields and name not in cls.hidden and WHERE in all_fields[name].metadata:
                out.setdefault(name, all_fields[name].metadata[WHERE])
    return out


def vendor_words(cls: type[Options]) -> dict[str, str]:
    """Return name of an option of AOE or ATC -> the word of ours that means the same."""
    return {theirs: found.flags[-1] for found in options_of(cls).values() for theirs in found.vendor}


def title_of(cls: type[Options], name: str) -> str:
    """Return the title of the group that a field stands under in help: that of the outermost class with a title that has the field."""
    owners = [c for c in cls.__mro__ if issubclass(c, Options) and name in c.__dataclass_fields__]
    return next((str(c.__dict__["title"]) for c in owners if "title" in c.__dict__), "")


def default_of(cls: type[Options], name: str) -> Any:
    """Return the default of a field; MISSING where it has none."""
    found = cls.__dataclass_fields__[name]
    return found.default if found.default_factory is MISSING else found.default_factory()


def named_paths(given: Options, *uses: File) -> Iterator[str]:
    """Yield the paths that options name for these uses, without the standard streams."""
    for name, found in options_of(type(given)).items():
        value = getattr(given, name)
        for path in value if isinstance(value, tuple) else [value]:
            if found.file in uses and isinstance(path, (str, os.PathLike)) and str(path) not in ("", "-"):
                yield str(path)
