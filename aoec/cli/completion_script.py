"""The script with which a shell completes the words of `aoec`. It is written once; a shell that completes a word starts no Python."""
from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from aoec.base.errors import BackendError
from aoec.cli.vendor.vendor_words import Use, Word
from aoec.options.option import File

NEEDS = "aoec completion needs the package shtab: pip install shtab"
MACHINE = "NAME|FILE"  # how the place of a machine begins in help
FOLDERS = (File.FOLDER, File.ADDED, File.NEW)
VENDOR_FILES = ("model", "singleop", "tune_ops_file", "config", "output")  # of AOE's and ATC's options that are honoured
VENDOR_FOLDERS = ("model_path", "base_result", "op_bank_path", "op_compiler_cache_dir", "exec")


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """Return the script that completes a parser's words in a shell. Raise BackendError where shtab, which writes it, is not installed."""
    try:
        import shtab
    except ImportError as e:
        raise BackendError(NEEDS) from e
    commands = dict(_walk(parser))
    for name in ("aoe", "atc"):
        _add_vendor_words(name, commands[f"{parser.prog} {name}"])
    for p in commands.values():
        _mark(p, shtab)
    return str(shtab.complete(parser, shell=shell)).rstrip("\n") + "\n"


def _walk(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield a parser and those of its commands, each with the words before its own."""
    yield parser.prog, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for p in action.choices.values():
                yield from _walk(p)


def _mark(parser: argparse.ArgumentParser, shtab: Any) -> None:
    """Mark each option of a parser that takes a file, a folder or a machine, so that these are completed."""
    for action in parser._actions:
        use = getattr(action, "file", None)
        if str(action.metavar).startswith(MACHINE):
            vars(action)["complete"] = _machines()
        elif use is not None:
            vars(action)["complete"] = shtab.DIRECTORY if use in FOLDERS else shtab.FILE


def _machines() -> Mapping[str, Any]:
    """Return how each shell completes the name of a machine that comes with aoec, or a file."""
    from aoec.target.inherit import shipped_machines
    names = shlex.join(shipped_machines())
    bash = f'_aoec_machines_or_files() {{\n  compgen -W "{names}" -- "$1"\n  compgen -f -- "$1"\n}}'
    zsh = f"_aoec_machines_or_files() {{\n  _alternative 'machines:machine:({names})' 'files:file:_files'\n}}"
    return {"bash": "_aoec_machines_or_files", "zsh": "_aoec_machines_or_files", "tcsh": f"({names})",
            "preamble": {"bash": bash, "zsh": zsh}}


def _add_vendor_words(tool: str, parser: argparse.ArgumentParser) -> None:
    """Add the options of a vendor's tool, which are not the parser's own, to the parser of its command."""
    if tool == "aoe":
        from aoec.cli.vendor.aoe_words import WORDS
    else:
        from aoec.cli.vendor.atc_words import WORDS
    for word in WORDS.values():
        if word.use is not Use.REFUSED and word.name != "help":
            _add_vendor_word(word, parser)


def _add_vendor_word(word: Word, parser: argparse.ArgumentParser) -> None:
    """Add one option. Its help says what its effect is."""
    said = (word.use.value + (f": {word.said}" if word.said else "")).replace("%", "%%")
    if word.bare:
        parser.add_argument(f"--{word.name}", action="store_true", help=said)
        return
    action = parser.add_argument(f"--{word.name}", help=said, metavar=MACHINE if word.name == "soc_version" else None)
    if word.name in VENDOR_FILES + VENDOR_FOLDERS:
        vars(action)["file"] = File.READ if word.name in VENDOR_FILES else File.FOLDER
