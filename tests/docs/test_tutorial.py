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

DOC = Path(__file__).parents[2] / "docs" / "tutorial.md"
BLOCKS = re.findall(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", DOC.read_text("utf-8"), re.DOTALL | re.MULTILINE)
NUMBER = r"[+-]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?"


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


def same(shown: str, came: str) -> bool:
    """Words alike, numbers within a quarter or 0.01; `...` is any text."""
    parts = re.split(rf"(\.\.\.|{NUMBER})", " ".join(shown.split()))
    pattern = "".join(".*" if p == "..." else f"({NUMBER})" if re.fullmatch(NUMBER, p) else re.escape(p) for p in parts)
    found = re.fullmatch(pattern, " ".join(came.split()))
    wanted = [p for p in parts if re.fullmatch(NUMBER, p)]
    return found is not None and all(near(a, b) for a, b in zip(wanted, found.groups()))


def near(a: str, b: str) -> bool:
    x, y = (float(n.replace(",", "")) for n in (a, b))
    return abs(x - y) <= max(0.25 * abs(x), 0.01)


@pytest.mark.parametrize("shown, came, alike", [
    ("a 10.91 us", "a  11.5 us", True), ("a 10.91 us", "a 14 us", False), ("a ... b 2", "a x y b 2", True), ("a b", "a c", False),
    ("x[3, 4]", "x[3, 4]", True)])
def test_what_counts_as_the_same(shown: str, came: str, alike: bool) -> None:
    assert same(shown, came) is alike


def test_the_tutorial_does_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TUNE_BANK_PATH", str(tmp_path / "bank.db"))
    said: list[str] = []
    with chdir(tmp_path):
        for language, name, text in BLOCKS:
            if name:
                Path(name).write_text(text)
            elif language == "sh":
                said = [line for command in text.splitlines() for line in run(command, capsys).splitlines()]
            else:
                left = iter(said)
                for shown in text.splitlines():
                    if shown.strip() not in ("", "..."):
                        assert any(same(shown, line) for line in left), f"{shown!r} is not, or no longer there, in\n" + "\n".join(said)
    made, picture = (tmp_path / "timeline.svg").read_text(), DOC.parent / "tutorial" / "timeline.svg"
    assert "<svg" in made and "<svg" in picture.read_text()
