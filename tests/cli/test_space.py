"""`aoec search` on a restricted space: what options take, what it says when nothing is left."""
from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from aoec.cli import main


@pytest.fixture(scope="module")
def func(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("space") / "g.tir"
    assert main(["lower", "softmax(m=256, n=512)", "-o", str(path)]) == 0
    return path


def test_a_pinned_and_conditioned_search_gives_such_a_schedule(func: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", str(func), "--pin", "g0=8,16", "--where", "t0*g0 >= 64", "--budget", "20", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    shares = [int(line.partition("parts=")[2].split(",")[0]) for line in facts["schedule"].splitlines() if "parts=" in line]
    assert shares[0] in (8, 16)


@pytest.mark.parametrize(("words", "message"), [
    (["--pin", "t0"], "'t0' is not of the form tm=64 or tm=64,128"), (["--exclude", "t0=a"], "is not of the form"),
    (["--sketch", "x"], "is not the number of a sketch"), (["--pin", "t0=12345"], "--pin t0=12345 leaves nothing of the space"),
    (["--where", "t0 <"], "--where:1:5: expected")])
def test_wrong_options_are_one_sentence(func: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", str(func), *words]) == 2
    err = capsys.readouterr().err
    assert message in err and "Traceback" not in err


def test_a_space_is_shown_and_not_searched(func: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", str(func), "--space", "--pin", "g0=8,16"]) == 0
    text = capsys.readouterr().out
    assert main(["search", str(func), "--space", "--pin", "g0=8,16", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["kind"] == "space" and 0 < facts["legal"] < facts["size"] and facts["sketches"][0]["holes"]["g0"] == [8, 16]
    assert text.splitlines()[0] == f"g0 on Ascend910B3: 1 sketch, {facts['size']:,} candidates, {facts['legal']:,} legal"


def test_nothing_left_is_one_sentence(func: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", str(func), "--where", "t0 > 5000"]) == 2
    assert "nothing is left of the space: none of" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_trials_are_written_beside_the_schedule(func: Path, suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / f"t{suffix}"
    assert main(["search", str(func), "--pin", "g0=8", "--budget", "9", "--trials", str(table), "-o", str(tmp_path / "g.sched")]) == 0
    told, lines = capsys.readouterr().err, table.read_text().splitlines()
    counts = [int(n.replace(",", "")) for n in re.findall(r"([0-9,]+) (?:timed|cached|illegal|abandoned)", told)]
    assert sum(counts) == len(lines) - (suffix == ".csv") and (tmp_path / "g.sched").read_text().startswith("sched {")


@pytest.mark.parametrize(("words", "message"), [
    (["--trials", "t.txt"], "t.txt ends in none of .csv, .jsonl"), (["--trials", "no/t.csv"], "there is no directory no"),
    (["--trials", "t.csv", "--space"], "--space searches nothing")])
def test_a_table_that_cannot_be_written_is_refused_first(func: Path, words: list[str], message: str,
                                                         capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", str(func), *words]) == 2
    assert message in capsys.readouterr().err


def test_what_a_search_found_is_said_in_lines_and_its_schedule_is_a_whole_text(func: Path, tmp_path: Path,
                                                                                capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", str(func), "--budget", "20", "-o", str(tmp_path / "g.sched")]) == 0
    out, err = capsys.readouterr()
    assert not out and (tmp_path / "g.sched").read_text().endswith("}\n")
    lines = err.splitlines()[-8:]
    assert [line[:11].strip() for line in lines] == ["modelled", "bound", "space", "looked at", "", "proof", "holds", "accuracy"]
    assert re.match(r" {11}20 trials of the search, \d+ for the default schedule", lines[4])
    assert re.fullmatch(r"modelled   default [\d.]+ us, tuned [\d.]+ us \([\d.]+ % saved\) on Ascend910B3", lines[0])
