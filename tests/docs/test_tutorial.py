"""The tutorial is true: its files are written, its commands run one after the other, and they answer what it shows."""
from __future__ import annotations

import re
import runpy
import shlex
import subprocess
from contextlib import chdir
from pathlib import Path

import pytest

from aoec.cli import main
from tests.docs.told import missing, same

DOC = Path(__file__).parents[2] / "docs" / "tutorial.md"
BLOCKS = re.findall(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", DOC.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def run(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What a command says, on both streams; aoec's run in this process, which spares the start of each."""
    words = shlex.split(command)
    if words[0] == "aoec":
        main(words[1:] + ["--jobs", "1"] * (words[1] == "compile"))  # a test starts no processes
        said = capsys.readouterr()
        return said.err + said.out
    if words[0] == "python":
        runpy.run_path(words[1])
        return ""
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("shown, came, alike", [
    ("a 10.91 us", "a  11.5 us", True), ("a 10.91 us", "a 14 us", False), ("a ... b 2", "a x y b 2", True), ("a b", "a c", False),
    ("x[3, 4]", "x[3, 4]", True)])
def test_what_counts_as_the_same(shown: str, came: str, alike: bool) -> None:
    assert same(shown, came) is alike


def test_the_tutorial_does_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TUNE_BANK_PATH", str(tmp_path / "bank.db"))
    monkeypatch.setenv("COLUMNS", "120")  # the width of the page: a report in fewer columns cuts words
    said = ""
    with chdir(tmp_path):
        for language, name, text in BLOCKS:
            if name:
                Path(name).write_text(text)
            elif language == "sh":
                said = "".join(run(command, capsys) for command in text.splitlines())
            else:
                assert not (lacking := missing(text, said)), f"{lacking[0]!r} is not, or no longer there, in\n{said}"
    made, picture = (tmp_path / "timeline.svg").read_text(), DOC.parent / "tutorial" / "timeline.svg"
    assert "<svg" in made and "<svg" in picture.read_text()
