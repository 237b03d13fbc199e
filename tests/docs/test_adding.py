"""The pages of docs/adding are true: what a page adds is added to a copy of the sources, its commands run there and answer what it shows.

In a page a block whose first line is `# FILE` is a file. A block of `diff` changes the file of its first line: each part of it, divided by
`@@`, is in the file once. A block of `sh` is commands, which exit with 0, or as `# exit N` behind one says; the text behind it is what
they answer: words as they are, numbers within a quarter, `...` for what is left out.
"""
from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.told import missing

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "adding").glob("*.md"))
LONGER = ("chip", "result-format")  # whose commands time candidates
COPIED = ("aoec", "grammars", "kernels", "tests", "pyproject.toml")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# runs commands one after the other, those of aoec in one process: prints (exit code, what it said on both streams) of each
RUN = """
import contextlib, io, json, shlex, subprocess, sys
from aoec.cli import main
out = []
for command in json.loads(sys.argv[1]):
    words, said = shlex.split(command, comments=True), io.StringIO()
    if words[0] == "aoec":
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = main(words[1:])
        out.append((code, said.getvalue()))
    else:
        words[0] = sys.executable if words[0] == "python" else words[0]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        out.append((done.returncode, done.stdout))
print(json.dumps(out))
"""


class Tree:
    """Holds a copy of the sources that imports itself; kernels that the checkout has compiled are not compiled again."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in COPIED:
            if (ROOT / name).is_dir():  # with times, by which Python and Numba know what they have compiled
                shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns(".hypothesis", "*.jsonl"))
            else:
                shutil.copy2(ROOT / name, root)
        for package in ("kernels", "grammars"):
            (root / "aoec" / package).symlink_to(root / package)
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
        self.environment |= {"PYTHONPATH": str(root), "TUNE_BANK_PATH": str(root / "bank.db"), "COLUMNS": "120",
                             "AOEC_CACHE_DIR": str(root / "cache"), "PYTEST_ADDOPTS": "-p no:cacheprovider"}

    def write(self, name: str, text: str) -> None:
        """Write a new file, and make the folders around it."""
        path = self.root / name
        assert not path.exists(), f"{name} is there already"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

    def change(self, name: str, text: str) -> None:
        """Make each part of a change: its lines that are kept or taken out stand once in the file, and give way to those kept or added."""
        path = self.root / name
        for part in re.split(r"^@@\n", text, flags=re.MULTILINE):
            lines = part.splitlines(keepends=True)
            assert all(line[0] in " +-\n" for line in lines), f"{name}: a line of a change begins with a blank, + or -"
            old, new = ("".join(line[1:] or line for line in lines if line[0] != sign) for sign in "+-")
            now = path.read_text("utf-8")
            assert now.count(old) == 1, f"{name} has {now.count(old)} times\n{old}"
            path.write_text(now.replace(old, new), "utf-8")

    def run(self, commands: list[str]) -> Iterator[tuple[str, int, str]]:
        """Return (command, exit code, what it said) of each."""
        done = subprocess.run([sys.executable, "-c", RUN, json.dumps(commands)], cwd=self.root, env=self.environment, capture_output=True,
                              text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        for command, (code, said) in zip(commands, json.loads(done.stdout.splitlines()[-1]), strict=True):
            yield command, code, said


def wanted(command: str) -> int:
    """Return the exit code that a command is to have."""
    found = re.search(r"# exit (\d+)$", command)
    return int(found[1]) if found else 0


@pytest.mark.parametrize("page", [pytest.param(p, id=p.stem, marks=[pytest.mark.slow] * (p.stem in LONGER)) for p in PAGES])
def test_a_page_adds_what_it_says(page: Path, tmp_path: Path) -> None:
    tree, said = Tree(tmp_path), ""
    for language, text in BLOCK.findall(page.read_text("utf-8")):
        first, _, rest = text.partition("\n")
        if language == "sh":
            came = list(tree.run(text.splitlines()))
            said = "".join(answer for _, _, answer in came)
            assert [(c, code) for c, code, _ in came] == [(c, wanted(c)) for c, _, _ in came], said
        elif language == "diff":
            tree.change(first, rest)
        elif named := re.fullmatch(r"# (\S+\.\w+)", first):
            tree.write(named[1], rest)
        else:
            assert not (lacking := missing(text, said)), f"{page.name}: {lacking[0]!r} is not, or no longer there, in\n{said}"


def test_there_is_a_page_for_each_kind() -> None:
    assert [p.stem for p in PAGES] == ["chip", "command", "operator", "primitive", "result-format"]


def test_a_change_that_does_not_fit_is_noticed(tmp_path: Path) -> None:
    tree = object.__new__(Tree)
    tree.root = tmp_path
    (tmp_path / "a.py").write_text("x = 1\ny = 2\nx = 1\n")
    tree.change("a.py", " y = 2\n+z = 3\n")
    assert (tmp_path / "a.py").read_text() == "x = 1\ny = 2\nz = 3\nx = 1\n"
    for text in ("-x = 1\n+x = 2\n", " w = 2\n+z = 3\n"):  # twice there, and not there
        with pytest.raises(AssertionError, match=r"a\.py has [20] times"):
            tree.change("a.py", text)
