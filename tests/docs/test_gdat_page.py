"""The pages of gradient tuning: the trace that they show is planned, the answer is what they show, and both languages show the same."""
from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from aoec import cli
from aoec.cli.parser import parser
from aoec.collectives import system
from tests.docs.told import missing

ROOT = Path(__file__).parents[2]
PAGES = {name: (ROOT / "docs" / name).read_text("utf-8") for name in ("gdat.md", "gdat.zh.md")}


def block(page: str, mark: str) -> str:
    """The first block behind a mark."""
    return PAGES[page].partition(f"<!-- {mark} -->")[2].partition("```")[2].partition("\n")[2].partition("```")[0]


def test_the_example_prints_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "steps.csv").write_text(block("gdat.md", "trace"))
    command, _, wanted = block("gdat.md", "example").partition("\n")
    assert cli.main(shlex.split(command.removeprefix("$ aoec "))) == 0
    said = capsys.readouterr().out
    assert wanted and not (lacking := missing(wanted, said)), f"{lacking} is not in\n{said}"
    assert (tmp_path / "report" / "index.html").is_file()
    (found,) = tmp_path.glob("aoe_result_gdat_*.json")
    assert cli.main(["deliver", found.name, "--to", "delivery"]) == 0
    listed = {p.name for p in (tmp_path / "delivery" / "gradients").iterdir()}
    for name in ("gradient_trace.json", "plan.json", "strategies.txt"):
        assert name in listed and all(name in text for text in PAGES.values() if name != "strategies.txt")


@pytest.mark.parametrize("page", PAGES)
def test_options_and_systems_of_the_page_exist(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    known = ""
    for words in (["tune"], ["deliver"], ["systems"]):
        with pytest.raises(SystemExit):
            parser().parse_args([*words, "--help"])
        known += capsys.readouterr().out
    for option in set(re.findall(r"(?<![\w-])--[a-z][a-z_-]+", PAGES[page])) - {"--job_type"}:
        assert option in known, option
    named = set(re.findall(r"--system ([a-z0-9]+-\d+)", PAGES[page]))
    assert named and named <= set(system.names())


def test_both_languages_show_the_same() -> None:
    blocks = [re.findall(r"^```\w+\n(.*?)^```$", text, re.MULTILINE | re.DOTALL) for text in PAGES.values()]
    lines = [[re.split(" {3,}", line)[0] for b in found for line in b.splitlines()] for found in blocks]
    assert lines[0] == lines[1] and len(lines[0]) > 30
    heads = [re.findall(r"^## ", text, re.MULTILINE) for text in PAGES.values()]
    assert len(heads[0]) == len(heads[1])
