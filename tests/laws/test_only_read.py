"""What an option names to be read is never written and never made, whatever the command and whatever else is asked for."""
from __future__ import annotations

import argparse
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest

from aoec import cli
from aoec.bank.bank import Bank
from aoec.cli.commands.doctor import DoctorOptions
from aoec.cli.parser import parser
from aoec.options.option import File, options_of
from tests.bank.test_bank import RECORD
from tests.jobs.small import layers

PATHS = re.compile(r"FILE|DIR|\.\w+|MODEL|BANK|^[AB]$")  # in what stands for a value: it is a path, or may be one
NO_PATH = {"--core", "--input-shape", "--slices", "--regions", "--pin", "--exclude"}  # dots, and no file


def commands() -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    def below(p: argparse.ArgumentParser, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
        inner = [a for a in p._actions if isinstance(a, argparse._SubParsersAction)]
        yield from [] if inner else [(words, p)]
        for a in inner:
            for name, q in a.choices.items():
                yield from below(q, (*words, name))
    return below(parser(), ())


COMMANDS = dict(commands())


def word(a: argparse.Action) -> str:
    return a.option_strings[-1] if a.option_strings else str(a.metavar or a.dest)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_path_says_what_it_is_for(command: tuple[str, ...]) -> None:
    for a in COMMANDS[command]._actions:
        path = bool(PATHS.search(str(a.metavar or ""))) and word(a) not in NO_PATH
        assert path == isinstance(getattr(a, "file", None), File), (command, word(a))


def given(p: argparse.ArgumentParser, there: Path, but: argparse.Action | None = None, value: str = "") -> list[str]:
    """Words that give a command all that it needs, of files that are there, and one option a value."""
    out, options = list[str](), list[str]()
    needed = {id(g._group_actions[0]) for g in p._mutually_exclusive_groups if g.required and but not in g._group_actions}
    for a in p._actions:
        text = value if a is but else str(there / "file") if isinstance(getattr(a, "file", None), File) else "g0..g1/2"
        if a.option_strings and (a is but or a.required or id(a) in needed):
            options += [word(a)] if a.nargs == 0 else [word(a), text]
        elif not a.option_strings and (a is but or a.nargs in (None, "+")):
            out.append(str(next(iter(a.choices))) if a.choices and a is not but else text)
        elif not a.option_strings and a.choices:
            out.append("show")  # of targets: what stands before a name
    return [*out, *options]


def each(*uses: File) -> list[tuple[tuple[str, ...], argparse.Action]]:
    return [(c, a) for c, p in COMMANDS.items() for a in p._actions if getattr(a, "file", None) in uses]


def named(case: tuple[tuple[str, ...], argparse.Action]) -> str:
    return f"{' '.join(case[0])} {word(case[1])}"


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file that is none of any command's, in another than the current one."""
    for name in ("AOEC_BASE_BANK", "TUNE_BANK_PATH", "ASCEND_CACHE_PATH", "ASCEND_WORK_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "here").mkdir()
    (tmp_path / "in").mkdir()
    (tmp_path / "in/file").write_bytes(b"neither this nor that\n")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "in"


@pytest.mark.parametrize("case", [c for c in each(File.READ) if named(c) != "demo --only"], ids=named)  # which are names, and it runs
def test_what_is_not_there_is_not_made(case: tuple[tuple[str, ...], argparse.Action], there: Path) -> None:
    """By no command, whatever it does about it; nor is what else it reads touched."""
    command, action = case
    for name in ("gone", "gone/deeper.db"):
        cli.main([*command, *given(COMMANDS[command], there, action, str(there / name))])
        assert sorted(os.listdir(there)) == ["file"] and (there / "file").read_bytes() == b"neither this nor that\n"


@pytest.mark.parametrize("case", each(File.READ, File.BANK), ids=named)
def test_what_is_read_is_never_written_over(case: tuple[tuple[str, ...], argparse.Action], there: Path,
                                            capsys: pytest.CaptureFixture[str]) -> None:
    """Every output of the same command is refused where it is the same file, before any work: by its name, and by a link."""
    command, action = case
    p = COMMANDS[command]
    source = there / f"read{'.csv' if action.dest != 'bank' else '.db'}"
    source.write_bytes(b"keep me\n")
    link = there / "link.csv"
    link.symlink_to(source)
    words = given(p, there, action, str(source))
    for output in (a for a in p._actions if getattr(a, "file", None) is File.WRITTEN and a.option_strings):
        if output.required and word(output) in words:
            at = words.index(word(output))
            rest = words[:at] + words[at + 2:]
        else:
            rest = words
        for path in (source, link):
            code = cli.main([*command, *rest, word(output), str(path)])
            assert code == 2 and source.read_bytes() == b"keep me\n" and link.is_symlink(), (word(output), capsys.readouterr())


# ---------------------------------------------------------------- commands that do their work

def state(folder: Path) -> dict[str, str]:
    """Every file of a folder, and what it holds."""
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("shape", ["bank", "folder of a bank", "results", "empty folder", "file of text"])
def test_a_base_is_only_read(shape: str, there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By compile and by AOE's --base_result: a bank, one in a folder, results of a tuning; what is none of these is an error."""
    onnx.save(layers(32, 48), "net.onnx")
    base = {"bank": there / "old.db", "folder of a bank": there / "old", "results": there / "old", "empty folder": there / "old",
            "file of text": there / "file"}[shape]
    if "folder" in shape or shape == "results":
        base.mkdir()
    if "bank" in shape:
        Bank.open(base if shape == "bank" else base / "aoec.db").put(RECORD)
        for extra in [*there.rglob("*-wal"), *there.rglob("*-shm")]:
            extra.unlink()
    if shape == "results":
        assert cli.main(["tune", "net.onnx", "--budget", "5", "--base", "none", "--bank", "x.db", "--results", str(base), "--jobs", "1",
                         "--no-verify", "-o", "x.aoec"]) == 0
    before, good = state(there), shape not in ("empty folder", "file of text")
    code = cli.main(["compile", "net.onnx", "--base", str(base), "--bank", "own.db", "-o", "a.aoec"])
    assert (code == 0) == good and state(there) == before
    if shape == "results":
        code = cli.main(["aoe", "--job_type=2", "--model=net.onnx", "--framework=5", f"--base_result={base}", "--output=b"])
        told = capsys.readouterr()
        assert code == 0 and state(there) == before and f"--base {base}" in told.err
        assert "nothing new was found" in told.out  # it is tuned from there on, and here that was all


def test_a_command_without_files_has_none() -> None:
    assert {name: o.file for name, o in options_of(DoctorOptions).items() if o.file} == {"bank": File.BANK, "report": File.WRITTEN}
