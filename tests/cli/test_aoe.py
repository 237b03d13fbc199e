"""AOE's own command line: its documented uses do what they say, under its places and names; what cannot be had is one sentence."""
from __future__ import annotations

import json
import shutil
from pathlib import Path

import onnx
import pytest

from aoec import cli
from aoec.cli.aoe import parse
from aoec.cli.aoe_words import WORDS, Use
from aoec.frontend.zoo import mlp_softmax

VARIABLES = ("TUNE_BANK_PATH", "ASCEND_CACHE_PATH", "ASCEND_WORK_PATH", "REPEAT_TUNE", "TE_PARALLEL_COMPILER", "ASCEND_DEVICE_ID")
QUICK = ("--config=c.json",)


@pytest.fixture()
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model, a bank's directory and a budget that is soon spent, to work in."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    onnx.save(mlp_softmax(), tmp_path / "net.onnx")
    (tmp_path / "bank").mkdir()
    monkeypatch.setenv("TUNE_BANK_PATH", str(tmp_path / "bank"))
    monkeypatch.setenv("TE_PARALLEL_COMPILER", "1")
    (tmp_path / "c.json").write_text('{"max_tuning_count": 16, "search_algorithm": "GA", "target_metric": "latency"}')
    return tmp_path


def files(place: Path) -> set[str]:
    return {p.name for p in place.rglob("*") if p.is_file()}


def test_a_model_is_tuned_where_and_as_aoe_would(place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The command of the AOE guide, with -m and -j as it writes them, twice: the second time all is reserved or unsatisfied."""
    words = ["aoe", "-m", "net.onnx", "--framework=5", "-j", "2", "--output=./out.om", "--device", "0", *QUICK]
    assert cli.main(words) == 0
    said = capsys.readouterr()
    assert "aoe: job opat, operator tuning" in said.err and "--device changes nothing: no device is used" in said.err
    assert "only atc makes a .om; the compiled model is out.aoec" in said.err
    closing, label = said.out.splitlines()[-2:]
    result, = place.glob("aoe_result_opat_*_pid*.json")
    found = json.loads(result.read_text())[1]["OPAT"]
    assert closing == f"net process finished. Performance improved by {found['model_performance_improvement']}" and "modelled" in label
    made, = place.glob("aoe_workspace/net_*/tunespace/result/net_*_tune.aoec")
    assert made.read_bytes() == (place / "out.aoec").read_bytes()
    assert (place / "bank" / "aoec.db").is_file() and not [f for f in files(place) if f.endswith((".om", ".bin"))]
    counted = found["repo_summary"]
    assert counted["total_num"] == counted["repo_add_num"] + counted["repo_unsatisfied_num"] > 0
    monkeypatch.setenv("ASCEND_WORK_PATH", str(place / "work"))
    assert cli.main(words) == 0
    again, = (place / "work").glob("aoe_result_opat_*_pid*.json")
    assert json.loads(again.read_text())[1]["OPAT"]["repo_summary"]["repo_hit_num"] == counted["repo_add_num"]


def test_a_directory_and_a_file_of_operators(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "models").mkdir()
    for name in ("a", "b"):
        shutil.copy(place / "net.onnx", place / "models" / f"{name}.onnx")
    (place / "ops").write_text('{"tune_ops_type": ["SoftmaxV2", "Nothing"]}')
    assert cli.main(["aoe", "--job_type=2", "--model_path=models", "--tune_ops_file=ops", "--output=made", *QUICK]) == 0
    said = capsys.readouterr()
    assert "no operator is named Nothing" in said.err and files(place / "made") == {"a.aoec", "b.aoec"}
    results = [json.loads(p.read_text())[1]["OPAT"] for p in sorted(place.glob("aoe_result_opat_*"))]
    assert [r["repo_summary"]["total_num"] for r in results] == [1, 1]


@pytest.mark.parametrize("words, said", [
    (["--job_type=1", "--model=net.onnx"], "job sgat, subgraph tuning, is not there yet; operator tuning is --job_type=2 (some"),
    (["--job_type=4", "--model=net.onnx"], "job gdat, gradient tuning, is not there yet"),
    (["--job_type=3", "--model=net.onnx"], "job gdat, gradient tuning, is not there yet"),
    (["--model=net.onnx"], "--job_type is 1 (sgat"), (["--job_type=2"], "give either --model FILE.onnx or --model_path DIRECTORY"),
    (["--job_type=2", "--om=net.om"], "a .om is compiled already: give --model the ONNX file"),
    (["--job_type=2", "--model=net.om"], "compiled already"),
    (["--job_type=2", "--model=net.pb", "--framework=3"], "--framework=3 is TensorFlow"),
    (["--job_type=2", "--model=net.onnx", "--Fdeep_opat"], "aoe has no option --Fdeep_opat; did you mean --Fdeeper_opat?"),
    (["--job_type=2", "--job_type=2"], "--job_type is given twice"), (["--model"], "--model needs a value"),
    (["--job_type=2", "--model_path=none"], "there is no directory none"),
    (["--job_type=2", "--model=net.onnx", "--tune_optimization_level=O3"], "is O1 or O2, not O3"),
    (["--job_type=2", "--model=net.onnx", "--tuning_time_limit=x"], "--tuning_time_limit is a whole number of seconds")])
def test_what_is_not_to_be_had_is_one_sentence(words: list[str], said: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["aoe", *words]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("aoec: error: ") and said in last


def test_a_bank_path_that_is_no_directory_ends_the_job(place: Path, capsys: pytest.CaptureFixture[str],
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNE_BANK_PATH", str(place / "nowhere"))
    assert cli.main(["aoe", "--job_type=2", "--model=net.onnx"]) == 2
    assert "must be a directory" in capsys.readouterr().err


def test_every_option_is_listed_with_what_becomes_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["aoe", "--help"]) == 0
    listed = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.startswith("--")}
    assert set(listed) == {f"--{name}" for name in WORDS}
    assert all((w.use is Use.HONOURED) != bool(w.said) for w in WORDS.values())


def test_equals_or_a_blank_stands_before_a_value() -> None:
    assert parse(["--job_type=2", "-m", "a.onnx", "--Fdeeper_opat", "--reload", "--device", "1"]) == {
        "job_type": "2", "model": "a.onnx", "Fdeeper_opat": "", "reload": "", "device": "1"}
