"""What a command is: its name, its page, its options and what it does. Each file of `commands/` has one."""
from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

from aoec.base.files.files import write_text
from aoec.base.modules import module_names
from aoec.options.option import Options, options
from aoec.options.output_check import check_outputs

SomeOptions = TypeVar("SomeOptions", bound=Options)
COMMANDS = "aoec.cli.commands"
READ = "read more:"  # at the end of a command's help, before its page


@dataclass(frozen=True)
class Command(Generic[SomeOptions]):
    """A command of `aoec`.

    `about`: what it does, in sentences; the first stands in the list of commands. `page`: the page under docs/ that speaks of it. `order`:
    its place in the list of commands: models from 100, stages from 200, machines and banks from 300, words from 400. `check`: what is
    looked at before outputs are.
    """

    name: str
    about: str
    options: type[SomeOptions]
    run: Callable[[SomeOptions], int]
    page: str = ""
    order: int = 0
    example: str = ""
    check: Callable[[SomeOptions], None] | None = None

    def start(self, given: SomeOptions) -> int:
        """Check what is to be written, run the command, and return its exit code."""
        if self.check is not None:
            self.check(given)
        check_outputs(given)
        return self.run(given)


@dataclass(frozen=True)
class CommandGroup:
    """A command that is a choice of others, such as `aoec bank`."""

    name: str
    about: str
    actions: tuple[Command[Any], ...]
    page: str
    order: int
    example: str = ""


@options
class VendorOptions(Options):
    """The `words` of a command line that is the vendor's."""

    words: Sequence[str] = ()


def command_names() -> tuple[str, ...]:
    """Return the name of every command: that of its file in `commands/`. No list names them."""
    return module_names(COMMANDS)


@cache
def load_command(name: str) -> Command[Any] | CommandGroup:
    """Return the command of this name."""
    found: Command[Any] | CommandGroup = importlib.import_module(f"{COMMANDS}.{name}").COMMAND
    return found


def all_commands() -> tuple[Command[Any] | CommandGroup, ...]:
    """Return every command, in the order of the list."""
    return tuple(sorted(map(load_command, command_names()), key=lambda c: (c.order, c.name)))


def as_json(facts: Any) -> str:
    """Return facts as a program reads them."""
    return json.dumps(facts, indent=2) + "\n"


def write_line(path: Any, text: str) -> None:
    """Write a text to a file or pipe. Add a line break where it ends without one."""
    write_text(path, text + "\n")
