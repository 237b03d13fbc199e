"""The commands of the README and of the pages behind it do what these say: they run one after the other, as a reader would type them,
beside a small model. What the README shows of answers is what comes."""
from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from hypothesis import settings

from aoec import cli
from aoec.cli.commands import bank
from aoec.cli.parser import parser
from aoec.frontend import zoo
from bench.networks import NETWORKS
from tests.docs.told import missing

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
PAGES = {"README.md": README} | {f"docs/{name}.md": (ROOT / "docs" / f"{name}.md").read_text("utf-8") for name in ("deploy", "research")}
TEXT = "\n".join(PAGES.values())
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()]
SINGLE = list(dict.fromkeys(c for c in COMMANDS if not c.startswith("aoec sweep")))  # the sweep is run once, and its table looked at


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a model.onnx, and an `aoec` of this environment first on the path."""
    path = tmp_path_factory.mktemp("readme")
    onnx.save(zoo.mlp_softmax(), path / "model.onnx")
    (path / "docs").symlink_to(Path(__file__).parents[2] / "docs")
    (path / "bin").mkdir()
    (path / "bin" / "aoec").write_text(f"#!/bin/sh\nexec {sys.executable} -m aoec \"$@\"\n")
    (path / "bin" / "aoec").chmod(0o755)
    return path


@pytest.fixture
def typed(folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[[str], str]:
    """Types a command in the folder, and gives what it writes to standard output: a pipe in a shell, the words of a single command in this
    process, whose kernels are loaded."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f"{folder}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("TUNE_BANK_PATH", "bank.db")
    monkeypatch.setenv("COLUMNS", "120")  # the width of the page: a report in fewer columns cuts words

    def run(command: str) -> str:
        if "|" in command:
            code = subprocess.run(["bash", "-o", "pipefail", "-c", command], timeout=240).returncode
        else:
            program, *words = shlex.split(command)
            assert program == "aoec"
            code = cli.main(words)
        out, err = capfd.readouterr()
        assert code == 0, f"{command}\n{err}"
        return out

    return run


@pytest.mark.parametrize("command", SINGLE, ids=range(len(SINGLE)))
def test_command(command: str, typed: Callable[[str], str]) -> None:
    """In `make test` with a tenth of the trials, in `make test-all` as it stands there."""
    if settings.get_current_profile_name() != "random":
        command = command.replace("--budget 200", "--budget 20")
    said, named = typed(command), re.findall(r"-o (\S+)", command)
    assert all(Path(n).stat().st_size > 0 for n in named) and (named or said)


def test_the_sweep_does_what_is_shown(typed: Callable[[str], str]) -> None:
    """Words and shapes are the same, times within a fifth: a better model may move them, and then they are to be shown again."""
    (command,) = [c for c in COMMANDS if c not in SINGLE]
    shown = README.partition(command)[2].split("```text\n")[1].split("```")[0].splitlines()
    came = typed(command).splitlines()
    assert all(Path(name).stat().st_size for name in ("sweep.csv", "sweep.svg"))
    assert came[0] == shown[0] and came[1].split() == shown[1].split() and len(came) == len(shown) == 12
    for a, b in zip(came[2:], shown[2:]):
        assert a.split()[0] == b.split()[0]
        assert [float(x.strip("*")) for x in a.split()[1:]] == pytest.approx([float(x.strip("*")) for x in b.split()[1:]], rel=0.2)


def test_every_command_is_in_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    listed = set(re.findall(r"^\| `aoec (\w+)` \|", README, re.MULTILINE))
    with pytest.raises(SystemExit):
        parser().parse_args(["--help"])
    assert listed == set(re.findall(r"^    (\w+) ", capsys.readouterr().out, re.MULTILINE))


def test_options_named_in_the_text_exist(capsys: pytest.CaptureFixture[str]) -> None:
    known, listed = "", [[command] for command in re.findall(r"^\| `aoec (\w+)` \|", README, re.MULTILINE)]
    for words in [*listed, *(["bank", action.name] for action in bank.COMMAND.actions)]:
        if words[0] in ("aoe", "atc"):  # whose options are not the parser's
            cli.main([*words, "--help"])
        else:
            with pytest.raises(SystemExit):
                parser().parse_args([*words, "--help"])
        known += capsys.readouterr().out
    for option in set(re.findall(r"`(?!pip )[^`\n]*?(--[a-z-]+)", TEXT)):  # options of pip are not ours
        assert option in known, option


LINKED = [path.relative_to(ROOT).as_posix() for path in (*ROOT.glob("README*.md"), *(ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page, link", [(page, link) for page in LINKED
                                        for link in re.findall(r"\]\(([^)#\s]+)\)", (ROOT / page).read_text("utf-8")) if "://" not in link])
def test_links_lead_somewhere(page: str, link: str) -> None:
    assert (ROOT / page).parent.joinpath(link).exists()


def shown(mark: str) -> str:
    """The block of text behind a mark in the README."""
    return README.partition(f"<!-- {mark} -->")[2].partition("```text\n")[2].partition("```")[0]


def test_the_explanation_is_what_is_shown(typed: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the block of commands above it, in a folder without a bank."""
    monkeypatch.chdir(tmp_path)
    script = README.partition("<!-- explain -->")[0].rpartition("```sh\n")[2].partition("```")[0]
    said = "".join(typed(command) for command in script.splitlines() if command)
    assert shown("explain") and not (lacking := missing(shown("explain"), said)), f"{lacking} is not in\n{said}"


@pytest.mark.slow
def test_the_demo_prints_what_is_shown(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "aoec", "demo", "--budget", "40", "--bank", "bank.db"]
    said = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=1200)
    assert shown("demo") and not (lacking := missing(shown("demo"), said.stdout)), f"{lacking} is not in\n{said.stdout}{said.stderr}"


def resnet50_prints(mark: str, folder: Path) -> None:
    """Run the command of the block behind a mark on ResNet-50, batch 32, with an empty bank, and hold what it prints against the block."""
    block = README.partition(f"<!-- {mark} -->")[2].partition("```console\n$ aoec ")[2].partition("```")[0]
    command, _, wanted = block.partition("\n")
    onnx.save(NETWORKS["resnet50"](32, 0).model, folder / "resnet50-b32.onnx")
    words = [sys.executable, "-m", "aoec", *shlex.split(command), "--bank", "bank.db", "--base", "none"]
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | {"PYTHONPATH": str(ROOT)}
    said = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=1800, env=environment)
    assert wanted and not (lacking := missing(wanted, said.stdout)), f"{lacking} is not in\n{said.stdout}{said.stderr}"


@pytest.mark.slow
def test_subgraph_tuning_prints_what_is_shown(tmp_path: Path) -> None:
    resnet50_prints("sgat", tmp_path)


@pytest.mark.slow
def test_gradient_tuning_prints_what_is_shown(tmp_path: Path) -> None:
    resnet50_prints("gdat", tmp_path)


def test_the_chinese_page_is_in_step() -> None:
    """Its commands, what it shows of answers, its figures and its table of commands are those of the README."""
    chinese = (ROOT / "README.zh.md").read_text("utf-8")
    blocks = [re.findall(r"^```\w+\n(.*?)^```$", text, re.MULTILINE | re.DOTALL) for text in (README, chinese)]
    lines = [[re.split(" {2,}", line)[0] for block in found for line in block.splitlines() if not line.startswith(" ")] for found in blocks]
    assert lines[0] == lines[1] and len(lines[0]) > 40  # comments behind two blanks are translated
    for pattern in (r"^\| `aoec (\w+)` \|", r"^ g\d+ .*$", r"^ latency .*$", r"^ *\d+ +[\d.]+\*? +[\d.]+\*?$", r"(?:\d+ %|0\.997)"):
        english, other = (re.findall(pattern, text, re.MULTILINE) for text in (README, chinese))
        assert english and english == other, pattern
