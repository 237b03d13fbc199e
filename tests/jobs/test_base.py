"""A bank beneath the user's own: asked after it, counted as AOE counts its built-in one, never written; a stale one is said to be so."""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest

from aoec import cli
from aoec.bank import builtin
from aoec.bank.bank import Bank
from aoec.frontend.zoo import mlp_softmax
from aoec.jobs.tune import solve

pytestmark = pytest.mark.usefixtures("poor", "few")

TARGET = "Ascend910B3"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small model, its bank, and that bank as a built-in one."""
    folder = tmp_path_factory.mktemp("base")
    onnx.save(mlp_softmax(), folder / "net.onnx")
    assert cli.main(["compile", "--tune", str(folder / "net.onnx"), "--budget", "16", "--jobs", "1", "--bank", str(folder / "made.db"),
                     "-o", str(folder / "net.aoec")]) == 0
    builtin.write(TARGET, Bank.open(folder / "made.db").list(), folder)
    return folder


@pytest.fixture
def job(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Tunes the model with a bank of its own and says how AOE's counters stand: add, update, reserved, unsatisfied; `job.searched` names
    what was searched, `job.err` is what was said."""
    real = solve.attempt
    monkeypatch.setattr(builtin, "_place", lambda target: made / f"{target}.jsonl")
    monkeypatch.setattr(solve, "attempt", lambda task, *more: (run.searched.append(task.group.name), real(task, *more))[1])  # type: ignore[attr-defined]

    def run(*words: str, code: int = 0) -> tuple[int, ...]:
        run.searched = []  # type: ignore[attr-defined]
        out = ["--bank", str(tmp_path / "own.db"), "--results", str(tmp_path), "-o", str(tmp_path / "net.aoec")]
        assert cli.main(["tune", str(made / "net.onnx"), "--budget", "16", "--jobs", "1", *out, *words]) == code
        run.err = capsys.readouterr().err  # type: ignore[attr-defined]
        if code:
            return ()
        said = json.loads(max(tmp_path.glob("aoe_result_opat_*.json")).read_text())[1]["OPAT"]["repo_summary"]
        return tuple(said[f"repo_{k}_num"] for k in ("add", "update", "reserved", "unsatisfied"))

    return run


def own(tmp_path: Path) -> int:
    return len(Bank.open(tmp_path / "own.db").list())


def test_the_built_in_bank_answers_and_nothing_is_searched_or_written(job: Any, made: Path, tmp_path: Path,
                                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    assert job()[0] > 0 and job.searched  # conftest: no built-in bank unless a test asks for it
    (tmp_path / "own.db").unlink()
    monkeypatch.setenv("AOEC_BASE_BANK", "")
    before = (made / f"{TARGET}.jsonl").read_bytes()
    add, update, reserved, unsatisfied = job()
    assert add == update == 0 < reserved and not job.searched and own(tmp_path) == 0
    assert job("--frozen") == (0, 0, reserved, unsatisfied) and "built-in" not in job.err
    more = job("--repeat", "--budget", "32")
    assert more[1] + more[2] == reserved and more[0] + more[3] == unsatisfied and job.searched and own(tmp_path) > 0
    assert (made / f"{TARGET}.jsonl").read_bytes() == before


def test_a_bank_that_is_named_is_asked_in_its_place(job: Any, made: Path, tmp_path: Path) -> None:
    before = Bank.open(made / "made.db").list()
    assert job("--base", str(made / "made.db"))[2] > 0 and not job.searched and own(tmp_path) == 0
    assert Bank.open(made / "made.db").list() == before
    job("--base", str(made / "no.db"), code=2)
    assert "no.db" in job.err


@pytest.mark.parametrize("field, words", [("model_version", "model version"), ("machine_hash", "machine file")])
def test_a_stale_one_is_not_used_and_that_is_said_once(field: str, words: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                       capsys: pytest.CaptureFixture[str]) -> None:
    lines = (made / f"{TARGET}.jsonl").read_text().splitlines()
    monkeypatch.setattr(builtin, "_place", lambda target: tmp_path / f"{target}.jsonl")
    monkeypatch.setenv("AOEC_BASE_BANK", "")
    for value, stale in ((json.loads(lines[0])["common"][field], 0), ("0" * 16, 1)):
        head = json.loads(lines[0])
        head["common"][field] = value
        (tmp_path / f"{TARGET}.jsonl").write_text("\n".join([json.dumps(head), *lines[1:]]) + "\n")
        capsys.readouterr()
        assert cli.main(["tasks", str(made / "net.onnx"), "--json", "--budget", "16", "--bank", str(tmp_path / "none.db")]) == 0
        out, err = capsys.readouterr()
        assert err.count(f"the built-in bank of {TARGET} is of another {words} and is not used\n") == err.count("built-in") == stale
        assert {t["bank"] == "none" for t in json.loads(out)["tasks"]} == {bool(stale)}


def test_what_is_to_be_done_knows_it(job: Any, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["tasks", str(made / "net.onnx"), "--json", "--budget", "16", "--bank", str(tmp_path / "none.db")]
    assert cli.main(words) == 0
    assert {t["bank"] for t in json.loads(capsys.readouterr().out)["tasks"]} == {"none"}
    assert cli.main([*words, "--base", str(made / "made.db")]) == 0
    assert not any(t["to_do_s"] for t in json.loads(capsys.readouterr().out)["tasks"])
