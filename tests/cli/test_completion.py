"""What a shell completes with the script of `aoec completion`, asked of bash itself; and that zsh's and tcsh's hold every word."""
from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aoec import cli
from aoec.cli.commands import bank
from aoec.cli.commands.completion import SHELLS
from aoec.cli.parser import parser
from aoec.cli.vendor.aoe_words import WORDS as AOE_WORDS
from aoec.cli.vendor.vendor_words import Use

COMPLETE = ("source {script}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _shtab_aoec; "
            "printf '%s\\n' \"${{COMPREPLY[@]}}\"")


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The script for bash, beside a file, a folder and nothing else."""
    folder = tmp_path_factory.mktemp("completion")
    (folder / "model.onnx").touch()
    (folder / "made").mkdir()
    assert cli.main(["completion", "bash", "-o", str(folder / "script")]) == 0
    return folder / "script"


def completed(script: Path, *words: str) -> set[str]:
    """What bash offers for the last of the words."""
    command = COMPLETE.format(script=script, words=shlex.join(words))
    done = subprocess.run(["bash", "-u", "-c", command], cwd=script.parent, capture_output=True, text=True, check=True)
    return {line for line in done.stdout.splitlines() if line}


@pytest.mark.parametrize("words, offered", [
    (["comp"], {"compile", "completion"}), (["completion", ""], set(SHELLS)), (["bank", ""], {a.name for a in bank.COMMAND.actions}),
    (["compile", "--tu"], {"--tune"}), (["compile", "mod"], {"model.onnx"}), (["compile", "model.onnx", "--report", ""], {"made"}),
    (["compile", "--effort", ""], {"none", "quick", "full"}), (["compile", "--target", "Ascend310P"], {"Ascend310P3"}),
    (["compile", "--target", "m"], {"model.onnx", "made"}), (["targets", "show", "Ascend910_938"], {"Ascend910_9382"}),
    (["aoe", "--job"], {"--job_type"}), (["aoe", "--soc_version", "Ascend310P"], {"Ascend310P3"}),
    (["atc", "--model", "mo"], {"model.onnx"}), (["run", "--ra"], {"--random"})],
    ids=lambda v: " ".join(v if isinstance(v, list) else sorted(v)))
def test_bash_offers_what_may_stand_there(words: list[str], offered: set[str], script: Path) -> None:
    assert completed(script, "aoec", *words) == offered


def commands(p: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The parsers of all commands."""
    for action in p._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, other in action.choices.items():
                yield name, other
                yield from commands(other)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_names_every_command_and_option(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", shell]) == 0
    text = capsys.readouterr().out
    found = dict(commands(parser()))
    options = {o for p in found.values() for a in p._actions for o in a.option_strings if o.startswith("--")}
    options |= {f"--{w.name}" for w in AOE_WORDS.values() if w.use is not Use.REFUSED}
    assert len(found) > 30 and len(options) > 100
    for word in [*found, *(o.removeprefix("--") for o in options), "Ascend910B3"]:
        assert word in text, word
    if program := shutil.which(shell):
        assert subprocess.run([program, "-n"], input=text, capture_output=True, text=True).stderr == ""


def test_without_shtab_one_line_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert cli.main(["completion", "bash"]) == 2
    out, err = capsys.readouterr()
    assert not out and err == "aoec: error: aoec completion needs the package shtab: pip install shtab\n"


def test_nothing_of_it_is_imported_by_other_commands() -> None:
    code = "import sys\nfrom aoec.cli import main\nmain(['targets'])\nassert not {'shtab', 'aoec.cli.completion_script'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
