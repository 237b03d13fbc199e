"""The parser of the command line, made of the commands and their options."""
from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING
from typing import Any, NoReturn

from aoec.base.errors import ParseError
from aoec.base.files.files import say
from aoec.base.text import nearest
from aoec.cli.command import READ, Command, CommandGroup, VendorOptions, all_commands, command_names, load_command
from aoec.options.option import Option, Options, default_of, options_of, title_of

CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)$")  # as argparse says it, with all that could be meant
WIDEST, COLUMN = 110, 30  # of help: longer lines are hard to follow; where what an option does begins
Container = argparse._ActionsContainer


class Help(argparse.HelpFormatter):
    """Help as wide as the terminal allows, with options to the left and what they do to the right."""

    def __init__(self, prog: str, **how: Any) -> None:
        super().__init__(prog, max_help_position=COLUMN, width=min(shutil.get_terminal_size().columns, WIDEST) - 2)

    def add_argument(self, action: argparse.Action) -> None:
        """Add the action. Commands are indented further than options. Count that width, because argparse does not."""
        super().add_argument(action)
        if isinstance(action, argparse._SubParsersAction):
            longest = max(map(len, action.choices), default=0)
            self._action_max_length = max(self._action_max_length, self._current_indent + self._indent_increment + longest)


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line in the style of every other error, and that takes no abbreviations. `page`: what its help
    says to read further."""

    page = ""

    def __init__(self, *words: Any, **more: Any) -> None:
        super().__init__(*words, **{"formatter_class": Help, **more})

    def format_help(self) -> str:
        """Return the help, whose first line names what must be given; what may be given is listed below it."""
        self.usage = self.usage or " ".join([self.prog.replace("%", "%%"), "[options]", *self._usage_words()])
        return super().format_help() + (f"{READ} {self.page}\n" if self.page else "")

    def _usage_words(self) -> list[str]:
        """Return the required words, as the line of usage has them."""
        either = {id(a): g for g in self._mutually_exclusive_groups if g.required for a in g._group_actions}
        out: list[str] = []
        for a in self._actions:
            if id(a) in either:
                words = " | ".join(f"{b.option_strings[0]} {b.metavar or ''}".strip() for b in either[id(a)]._group_actions)
                out += [f"({words})"] if f"({words})" not in out else []
            elif a.option_strings:
                out += [f"{a.option_strings[0]} {a.metavar}"] * a.required
            else:
                name = str(a.metavar or a.dest)
                more = " ..." * isinstance(a, argparse._SubParsersAction)
                out.append({"?": f"[{name}]", "+": f"{name} ..."}.get(str(a.nargs), name + more))
        return out

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return the result of argparse. Words that are left over are refused here, where the command and its options are known. A command
        that is only a choice of others shows them where none is chosen."""
        words = sys.argv[1:] if args is None else list(args)
        if not words and self._subparsers is not None:
            self.print_help(sys.stderr)
            self.exit(2)
        if bare := next((w for w in words if not w or re.fullmatch(r"--[a-z-]+=", w)), None):
            self.error(f"{bare} says nothing behind its =; is a variable of the shell not set?")
        if "" in words:
            self.error(f"word {words.index('') + 1} behind {self.prog} is empty; is a variable of the shell not set?")
        found, rest = super().parse_known_args(words, namespace)
        if unknown := [word for word in rest if word.startswith("-") and word != "-"]:
            known = [s for action in self._actions for s in action.option_strings]
            self.error(f"there is no option {unknown[0]}{nearest(unknown[0].partition('=')[0], known)}".rstrip("?"))
        if rest:
            self.error(f"{rest[0]!r} is one word too many")
        return found, rest

    def print_help(self, file: Any = None) -> None:
        """Print the help with `say`, because argparse's own method does not report output that could not be written."""
        if file is None:
            say(self.format_help())
        else:
            super().print_help(file)

    def error(self, message: str) -> NoReturn:
        if found := CHOICE.search(message):
            words = [word.strip("' ") for word in found[2].split(",")]
            message = f"{message[:found.start()]}{found[1]!r} is unknown{nearest(found[1], words)}".rstrip("?")
        self.exit(2, f"aoec: error: {message}; see {self.prog} --help\n")


class Version(argparse.Action):
    """Prints the version and leaves; the package's data are read only when it is asked for."""

    def __init__(self, option_strings: list[str], dest: str) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, default=argparse.SUPPRESS, help="print the version")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from aoec import __version__
        say(f"aoec {__version__}\n")
        parser.exit()


def parser(only: str = "") -> Parser:
    """Return the parser of `aoec`. Of what it returns, `command` is the command that was named. `only`: the one command that it knows,
    where that is known already: the others need not be loaded."""
    p = Parser(prog="aoec", allow_abbrev=False, description=(
        "Open Ascend Optimization Engine. It tunes ONNX models for Ascend NPUs on a model of the machine, and shows why."),
        epilog="Begin with: aoec compile --tune model.onnx. All times are modelled: they come from the machines that aoec targets lists, "
               "not from a device.")
    p.add_argument("--version", action=Version)
    p.add_argument("--traceback", action="store_true", help="after an internal fault, show where it happened")
    commands = p.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)
    for c in [load_command(only)] if only else all_commands():
        _add_command(commands, c)
    return p


def _add_command(commands: argparse._SubParsersAction, c: Command[Any] | CommandGroup, page: str = "") -> None:
    """Add the parser of one command, whose help names its page under docs/, with its options or its actions."""
    about = c.about.replace("%", "%%")
    p: Parser = commands.add_parser(c.name, help=about.partition(". ")[0], description=f"{about[0].upper()}{about[1:]}.",
                                    allow_abbrev=False, epilog=f"example: {c.example}" if c.example else None)
    p.page = f"docs/{c.page or page}.md"
    if isinstance(c, CommandGroup):
        actions = p.add_subparsers(title="actions", metavar="ACTION", required=True, parser_class=Parser)
        for action in c.actions:
            _add_command(actions, action, c.page)
        return
    p.set_defaults(command=c)
    add_options(p, c.options)


def add_options(p: argparse.ArgumentParser, cls: type[Options]) -> None:
    """Add the words of a class of options to a parser, in the groups that their classes name."""
    groups: dict[str, Container] = {"": p}
    sets: dict[str, Container] = {}
    found = options_of(cls)
    for name, said in found.items():
        title = title_of(cls, name)
        place = groups.get(title) or groups.setdefault(title, p.add_argument_group(title))
        if said.one_of and sum(other.one_of == said.one_of for other in found.values()) > 1:
            needed = any(other.required for other in found.values() if other.one_of == said.one_of)
            place = sets.get(said.one_of) or sets.setdefault(said.one_of, place.add_mutually_exclusive_group(required=needed))
        _add_option(place, name, said, default_of(cls, name))


def _add_option(place: Container, name: str, said: Option, default: Any) -> None:
    """Add the word of one field. An option that is not given leaves the field's own default."""
    given: dict[str, Any] = {"help": said.help.replace("%", "%%") or None, "default": argparse.SUPPRESS}
    if isinstance(default, bool) or said.negatable:
        given["action"] = argparse.BooleanOptionalAction if said.negatable else "store_true"
    else:
        given |= {"metavar": said.metavar or None, "choices": said.choices or None}
        if said.read is not None:
            given["type"] = reader(said.read)
        if said.many and said.flags:
            given["action"] = "append"
    if said.flags:
        given |= {"dest": name, "required": said.required and not said.one_of}
    else:
        given |= {"nargs": "+" if said.many else None} if default is MISSING else {"nargs": "?", "default": default}
    action = place.add_argument(*(said.flags or (name,)), **given)
    vars(action)["file"] = said.file


def reader(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a reader of text in argparse's form. Its error names the option."""
    def value(text: str) -> Any:
        try:
            return read(text)
        except ParseError as e:
            raise argparse.ArgumentTypeError(e.message) from None
    return value


def parse(words: Sequence[str], behind: Sequence[str] = ()) -> tuple[Command[Any], Options]:
    """Return the command that words name, and its options. `behind`: the words that follow a vendor's command."""
    named = next((word for word in words if not word.startswith("-")), "")
    found = vars(parser(named if named in command_names() else "").parse_args(words))
    command = found.pop("command")
    del found["traceback"]
    cls = command.options
    for name, said in options_of(cls).items():
        if said.many and name in found and isinstance(default_of(cls, name), dict):
            found[name] = dict(found[name])
    if issubclass(cls, VendorOptions):
        found["words"] = tuple(behind)
    return command, cls(**found)
