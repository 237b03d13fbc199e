"""`aoec search` on a restricted space: what options take, what it says when nothing is left."""
from __future__ import annotations

import json
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
    assert text.splitlines()[0] == f"g0 on Ascend910B3: 1 sketches, {facts['size']:,} candidates, {facts['legal']:,} legal"


def test_nothing_left_is_one_sentence(func: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", str(func), "--where", "t0 > 5000"]) == 2
    assert "nothing is left of the space: none of" in capsys.readouterr().err
