"""`aoec primitives`, `aoec instructions`, `aoec holes`: all words, one word, an unknown one; and every command's help names its page."""
from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from aoec import cli
from aoec.cli.parser import parser
from aoec.primitives import primitives
from aoec.search.space.holes import KINDS
from aoec.target.isa.instructions import INSTRUCTIONS

ROOT = Path(__file__).parents[2]
WORDS = {"primitives": tuple(primitives()), "instructions": tuple(INSTRUCTIONS), "holes": tuple(k.name for k in KINDS)}


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = cli.main(list(words))
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize("command", WORDS)
def test_all_words_are_listed(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, command)
    first = [line.split()[0].removeprefix("?") for line in out.splitlines() if line]
    assert code == 0 and set(WORDS[command]) <= set(first)
    assert [f["name"] for f in json.loads(run(capsys, command, "--json")[1])] == list(WORDS[command])


@pytest.mark.parametrize("words, shown", [
    ("primitives split", ["split(loop, [factor], [parts]", "  split(loop=i, factor=?t, outer=io, inner=ii)", "default: none"]),
    ("instructions mmad", ["mmad on pipe M", "0 to 4,095", "rows", "mmad_head + ceildiv(m, 16) * ceildiv(n, 16) * ceildiv(k, kf)",
                           "asc-devkit 8192^3 sample"]),
    ("instructions mmad --target Ascend310P3", ["chips: Ascend310P3", "carried over"]),
    ("instructions copy_gm_l1_nd2nz --target Ascend310P3", ["chips: none of them", "not on: Ascend310P3"]),
    ("holes ?tm", ["?tm: filled in split", "rows of an L0 tile of the result"]), ("holes gb1", ["?gb<axis>"]),
    ("holes pm", ["only in traces of a vendor's tiling"])])
def test_one_word_is_shown(words: str, shown: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, *words.split())
    assert code == 0 and [text for text in shown if text not in out] == []
    assert json.loads(run(capsys, *words.split(), "--json")[1])["name"] == out.split()[0].split("(")[0].strip("?:")


@pytest.mark.parametrize("words, complaint", [
    (["primitives", "spilt"], "there is no primitive spilt; did you mean split?"),
    (["instructions", "mmda"], "there is no instruction mmda; did you mean mmad?"),
    (["instructions", "quux"], "there is no instruction quux; aoec instructions lists them"),
    (["instructions", "mmad", "--target", "Ascend910B33"], "target Ascend910B33 is unknown; did you mean Ascend910B3?"),
    (["holes", "tmm"], "no sketch has a hole tmm; did you mean tm?"), (["holes", ""], "word 2 behind aoec is empty"),
    (["holes", "matmul(m=64,k=64,n=64)"], 'aoec lower "matmul(m=64,k=64,n=64)" | aoec search - --space')])
def test_an_unknown_word_is_answered_with_what_may_be_meant(words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *words)
    assert code == 2 and complaint in err and err.count("\n") == 1 and not out


def test_a_machine_of_ones_own_has_what_its_file_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('name = "mine"\nextends = "Ascend910B3"\nlacks = ["vexp"]\n[timing.mmad]\nbusy = "mmad_head + 7"\n'
                    '[numbers]\nmmad_head = {value = 12, source = "our board", confidence = "measured"}\n')
    listed = run(capsys, "instructions", "--target", str(file))[1]
    assert "vexp" not in listed and "vln" in listed
    shown = run(capsys, "instructions", "mmad", "--target", str(file))[1]
    assert "busy = mmad_head + 7" in shown and "12 cycles" in shown and "our board" in shown and str(file) in shown


# ---------------------------------------------------------------- pages

def commands(p: argparse.ArgumentParser, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    for a in p._actions:
        if isinstance(a, argparse._SubParsersAction):
            for name, below in a.choices.items():
                yield (*words, name), below
                yield from commands(below, (*words, name))


@pytest.mark.parametrize("words", [words for words, _ in commands(parser())], ids=" ".join)
def test_the_help_of_a_command_names_a_page_that_speaks_of_it(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*words, "--help"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("read more: docs/")
    assert f"aoec {words[0]}" in (ROOT / last.removeprefix("read more: ")).read_text("utf-8")


@pytest.mark.parametrize("words", [["primitives"], ["instructions"], ["holes"]])
def test_lists_are_as_wide_as_the_terminal(words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    said = {}
    for columns in ("80", "400"):
        monkeypatch.setenv("COLUMNS", columns)
        assert cli.main(words) == 0
        said[columns] = capsys.readouterr().out
    assert max(map(len, said["80"].splitlines())) <= 80 and said["80"].split() == said["400"].split()
