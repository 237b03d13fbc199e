"""`aoec doctor` tells what is there, and trouble is told, not raised."""
from __future__ import annotations

import json
from pathlib import Path

import pytest

from aoec import cli
from aoec.jobs import doctor


@pytest.fixture
def no_cann(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (*doctor.CANN_VARIABLES, "TUNE_BANK_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.mark.usefixtures("no_cann")
def test_bare_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert f"bank      {tmp_path}/data/aoec/bank.db (not there yet" in shown and "CANN      not seen" in shown
    assert not (tmp_path / "data").exists()  # looking changes nothing


@pytest.mark.usefixtures("no_cann")
def test_cann_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    library = tmp_path / "x86_64-linux" / "lib64" / "libascendcl.so"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "atc").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "atc").chmod(0o755)
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert cli.main(["doctor", "--json"]) == 0
    cann = json.loads(capsys.readouterr().out)["cann"]
    assert cann == {"seen": True, "ASCEND_HOME_PATH": str(tmp_path), "ASCEND_TOOLKIT_HOME": None, "ASCEND_OPP_PATH": None,
                    "atc": str(tmp_path / "bin" / "atc"), "libascendcl": str(library)}


def test_bank_path_by_option_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def path(*words: str) -> str:
        assert cli.main(["doctor", "--json", *words]) == 0
        return json.loads(capsys.readouterr().out)["bank"]["path"]
    monkeypatch.setenv("TUNE_BANK_PATH", str(tmp_path / "named.db"))
    assert path() == str(tmp_path / "named.db")
    assert path("--bank", str(tmp_path / "other.db")) == str(tmp_path / "other.db")
    monkeypatch.setenv("TUNE_BANK_PATH", str(tmp_path))  # AOE's own variable names a directory
    assert path() == str(tmp_path / "aoec.db")
    monkeypatch.delenv("TUNE_BANK_PATH")
    monkeypatch.setenv("ASCEND_CACHE_PATH", str(tmp_path))
    assert path() == str(tmp_path / "aoe_data" / "aoec.db")


def test_a_place_where_no_bank_can_be_made_is_trouble(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert cli.main(["doctor", "--bank", str(tmp_path / "file" / "bank.db")]) == 0
    assert f"cannot be made: {tmp_path}/file is no folder" in capsys.readouterr().out
