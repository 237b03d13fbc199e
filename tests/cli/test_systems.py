"""`aoec systems`: all of them, one of them, a file of one's own, and what hccl_test printed."""
from __future__ import annotations

import json
from pathlib import Path

import pytest

from aoec import cli
from aoec.collectives.show_systems import SIZES
from aoec.collectives.system import load, names
from tests.collectives.test_hccl_test import SAMPLE
from tests.collectives.test_systems import GOOD


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = cli.main(["systems", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_all_systems_in_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys)
    lines = out.splitlines()
    assert code == 0 and max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines[1:1 + len(names())]] == names()
    assert next(line for line in lines if line.startswith("910b-8 ")).split()[1:7] == ["8", "41", "931", "official", "-", "13%"]
    facts = json.loads(run(capsys, "--json")[1])
    assert [f["name"] for f in facts] == names() and all(f["source"] for f in facts)


@pytest.mark.parametrize("name", names())
def test_one_system_with_its_sources(capsys: pytest.CaptureFixture[str], name: str) -> None:
    code, out, _ = run(capsys, name)
    assert code == 0 and max(map(len, out.splitlines())) <= 80 and "1 GB" in out and "contention" in out
    facts = json.loads(run(capsys, name, "--json")[1])
    system = load(name)
    assert facts["modelled_us"]["all_reduce"] == {str(s): pytest.approx(float(system.us("all_reduce", s))) for s in SIZES}
    assert {s["source"] for s in facts["statements"]} == {s.source for s in system.statements}


def test_files_of_ones_own(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    own, log = tmp_path / "own.toml", tmp_path / "hccl.log"
    own.write_text(GOOD, "utf-8")
    log.write_text(SAMPLE, "utf-8")
    code, out, _ = run(capsys, str(own))
    assert code == 0 and ["size", "all_reduce", "GB/s"] in [line.split() for line in out.splitlines()]
    code, out, _ = run(capsys, str(log))
    assert code == 0 and "8 ranks" in out and "not measured: half of all_reduce" in " ".join(out.split())


@pytest.mark.parametrize(("words", "says"), [
    (("910b-9",), "there is no system 910b-9; did you mean 910b-8?"),
    (("no.toml",), "no.toml: cannot read this file of a system"),
    (("910b-8", "--ranks", "8"), "--ranks goes with a table of hccl_test"),
    (("--ranks", "8"), "--ranks goes with a table of hccl_test"),
    (("./no.log",), "cannot read ./no.log"),
])
def test_what_is_not_there(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str) -> None:
    code, out, err = run(capsys, *words)
    assert code == 2 and out == "" and says in err and len(err.splitlines()) == 1
