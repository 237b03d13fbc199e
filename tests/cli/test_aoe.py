"""AOE's own command line: its documented uses do what they say, under its places and names; what cannot be had is one sentence."""
from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import onnx
import pytest

from aoec import cli
from aoec.base.errors import AoecError
from aoec.cli.vendor import aoe_line as aoe
from aoec.cli.vendor.aoe_line import parse
from aoec.cli.vendor.aoe_words import WORDS, Use
from aoec.frontend.zoo import mlp_softmax
from aoec.jobs.results import opat_file as opat
from tests.jobs.small import poor_defaults
from tests.oracle.schemas import faults

pytestmark = pytest.mark.usefixtures("few")

VARIABLES = ("AOE_MODE", "TUNE_BANK_PATH", "ASCEND_CACHE_PATH", "ASCEND_WORK_PATH", "REPEAT_TUNE", "TE_PARALLEL_COMPILER",
             "ASCEND_DEVICE_ID", "ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
QUICK = ("--config=c.json",)
SMALL = '<ir_version: 8, opset_import: ["" : 17]> small (float[n, 40] x) => (float[n, 40] y) { y = Exp(x) }'


SCHEMAS = {"aoe_result_opat_*.json": "result", "aoe_result_sgat_*.json": "sgat", "aoe_result_gdat_*.json": "gdat",
           "tuning_results_*/summary.json": "summary", "tuning_results_*/op_tuning/*.json": "operator"}


@pytest.fixture()
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a model, a bank's directory and a budget that is soon spent, to work in; all results in it are of their schemas then,
    and nothing in it has a name that CANN reads."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    onnx.save(mlp_softmax(), tmp_path / "net.onnx")
    (tmp_path / "bank").mkdir()
    monkeypatch.setenv("TUNE_BANK_PATH", str(tmp_path / "bank"))
    monkeypatch.setenv("TE_PARALLEL_COMPILER", "1")
    (tmp_path / "c.json").write_text('{"max_tuning_count": 16, "search_algorithm": "GA", "target_metric": "latency"}')
    yield tmp_path
    for pattern, name in SCHEMAS.items():
        for path in tmp_path.rglob(pattern):
            assert faults(name, json.loads(path.read_text())) == [], path
    assert not [p for p in tmp_path.rglob("*") if p.suffix in (".om", ".bin")]


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
    assert (place / "bank" / "aoec.db").is_file()
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
    assert said.out.splitlines()[-1] == "2 of 2 were tuned; all times are modelled"


def test_a_model_that_cannot_be_keeps_no_other_from_its_turn(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "models").mkdir()
    onnx.save(onnx.parser.parse_model(SMALL), place / "models" / "b.onnx")
    (place / "models" / "a.onnx").write_bytes(b"no model")
    assert cli.main(["aoe", "--job_type=2", "--model_path=models", *QUICK]) == 2
    said = capsys.readouterr()
    assert "aoe: a: " in said.err and [line.split()[:2] for line in said.out.splitlines()[-4:]] == [
        ["model", "result"], ["a", "failed"], ["b", "tuning"], ["1", "of"]]


OPERATORS = [
    {"op": "MatMul", "name": "product", "input_desc": [{"format": "ND", "shape": [32, 48], "type": "float16"},
                                                        {"format": "ND", "shape": [48, 16], "type": "float16"}],
     "output_desc": [{"format": "ND", "shape": [32, 16], "type": "float16"}]},
    {"op": "Unheard", "input_desc": [], "output_desc": [{"format": "ND", "shape": [4], "type": "float16"}]},
    {"op": "SoftmaxV2", "input_desc": [{"format": "ND", "shape": [8, 40], "type": "float16"}],
     "output_desc": [{"format": "ND", "shape": [8, 40], "type": "float16"}], "attr": [{"name": "axes", "type": "list_int", "value": [-1]}]}]


@pytest.mark.parametrize("model", ["none.onnx", "cut.onnx", "folder/none.onnx"])
def test_a_model_that_cannot_be_read_leaves_nothing(model: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No folder where AOE would put what is compiled of it; what other jobs left there stays."""
    Path("cut.onnx").write_bytes(Path("net.onnx").read_bytes()[:100])
    for kept in ((), ("aoe_workspace", "aoe_workspace/other_1")):
        for name in kept:
            Path(name).mkdir()
        assert cli.main(["aoe", f"--model={model}", "--job_type=2"]) == 2
        assert model in capsys.readouterr().err
        assert sorted(str(p) for p in Path(".").rglob("*") if p.is_dir()) == sorted({*kept, "bank"})


def test_single_operators(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each is a model of its own name, which is written, tuned and counted; what has no meaning here is said, and the others go on."""
    (place / "ops.json").write_text(json.dumps(OPERATORS))
    assert cli.main(["aoe", "--job_type=2", "--singleop=ops.json", "--output=made", *QUICK]) == 2
    said = capsys.readouterr()
    assert "aoe: 1_unheard: operator Unheard has no meaning here" in said.err and "Traceback" not in said.err
    lines = [re.sub(r"-?[0-9.]+(%| ms|$)", "#", line) for line in said.out.splitlines() if "process finished" in line or "tuned;" in line]
    assert lines == ["0_product process finished. Performance improved by #", "2_softmaxv2 process finished. Performance improved by #",
                     "2 of 3 were tuned; all times are modelled"]
    assert files(place / "made") == {"0_product.aoec", "2_softmaxv2.aoec"} and len(list(place.glob("aoe_result_opat_*.json"))) == 2
    model, = place.glob("aoe_workspace/0_product_*/0_product.onnx")
    assert [n.op_type for n in onnx.load(model).graph.node] == ["MatMul", "Cast"]


def test_gears_and_a_second_search(place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    product = SMALL.replace("40] x) =>", "400] x, float[400, 720] w) =>").replace("40] y", "720] y").replace("Exp(x)", "MatMul(x, w)")
    onnx.save(onnx.parser.parse_model(product), place / "free.onnx")
    monkeypatch.setenv("REPEAT_TUNE", "True")
    words = ["aoe", "--job_type=2", "--model=free.onnx", "--input_shape=x:-1,400", "--dynamic_batch_size=2,4", *QUICK]
    with poor_defaults():
        assert cli.main(words) == 0 and cli.main(words) == 0
    first, second = (json.loads(p.read_text()) for p in sorted(place.glob("aoe_result_opat_*.json")))
    assert [g["gear"] for g in first[1]["OPAT"]["gears"]] == ["2", "4"]
    again, before = second[1]["OPAT"]["repo_summary"], first[1]["OPAT"]["repo_summary"]
    assert again["repo_update_num"] + again["repo_reserved_num"] == again["repo_hit_num"] >= before["repo_add_num"] > 0
    profiles = [p.name for p in sorted(place.glob("tuning_results_*/profiling/after_tuning/*"))]
    assert profiles == ["op_summary_gear_2.csv", "op_summary_gear_4.csv"] * 2 and "--repeat" in capsys.readouterr().err


def test_a_job_that_was_stopped_is_gone_on_with(place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """--reload after Ctrl-C behind the first operator: the compiled model is that of a job that nothing disturbed."""
    two = SMALL.replace("[n, 40] x)", "[8, 40] x, float[40, 72] w)").replace("[n, 40] y", "[8, 72] y")
    onnx.save(onnx.parser.parse_model(two.replace("y = Exp(x)", "s = Softmax(x) y = MatMul(s, w)")), place / "two.onnx")
    words = ["aoe", "--job_type=2", "--model=two.onnx", *QUICK]
    write, stopped = opat.write_text, []

    def stop(path: Path, text: str) -> None:
        write(path, text)
        stopped.append(path.name)
        if stopped.count("summary.json") == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(opat, "write_text", stop)
    assert cli.main([*words, "--output=broken"]) == 130
    assert "the same command with --reload goes on from there" in capsys.readouterr().err
    monkeypatch.setattr(opat, "write_text", write)
    assert cli.main([*words, "--reload", "--output=reloaded"]) == 0
    (place / "other").mkdir()
    monkeypatch.setenv("TUNE_BANK_PATH", str(place / "other"))
    assert cli.main([*words, "--output=whole"]) == 0
    assert (place / "reloaded.aoec").read_bytes() == (place / "whole.aoec").read_bytes() and not (place / "broken.aoec").exists()
    first, second, third = (json.loads(p.read_text())[1]["OPAT"] for p in sorted(place.glob("aoe_result_opat_*.json")))
    assert first["opat_tuning_result"] == "tuning incomplete" and second["opat_tuning_result"] == "tuning successful"
    assert second["model_result_performance(ms)"] == third["model_result_performance(ms)"]
    assert "--resume" in capsys.readouterr().err


def test_aoe_ini_is_read_where_cann_has_it(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newer place first; a variable before the file; what is out of range ends the job."""
    for conf, parallel in (("conf", "1"), ("tools/aoe/conf", "2")):
        (place / "cann" / conf).mkdir(parents=True)
        settings = f"# settings\n[aoe]\nWORK_PATH = {place}/from_{parallel}\nTUNING_PARALLEL_NUM={parallel}\n"
        (place / "cann" / conf / "aoe.ini").write_text(settings)
    monkeypatch.setenv("ASCEND_HOME_PATH", str(place / "cann"))
    monkeypatch.delenv("TE_PARALLEL_COMPILER")
    words, notes = told("--model=net.onnx")
    assert after(words, "--results") == f"{place}/from_1" and after(words, "--jobs") == "1"
    assert f"{place}/cann/conf/aoe.ini is read" in notes
    monkeypatch.setenv("ASCEND_WORK_PATH", str(place / "work"))
    assert after(told("--model=net.onnx")[0], "--results") == f"{place}/work"
    (place / "cann" / "conf" / "aoe.ini").write_text("RUN_LOOP=10\nTUNING_PARALLEL_NUM=65\n")
    with pytest.raises(AoecError, match="TUNING_PARALLEL_NUM=65 is not from 1 to 64"):
        told("--model=net.onnx")
    monkeypatch.setenv("REPEAT_TUNE", "maybe")
    with pytest.raises(AoecError, match="REPEAT_TUNE=maybe is neither"):
        told("--model=net.onnx")


def told(*words: str) -> tuple[list[str], str]:
    """The words that `aoec tune` would be given, and what is said; nothing is tuned."""
    given: list[str] = []
    notes: list[str] = []

    def tune(asked: Sequence[str]) -> int:
        given.extend(asked)
        return 2

    aoe.main(["--job_type=2", *words], tune, notes.append)
    return given, "\n".join(notes)


def after(words: list[str], option: str) -> str:
    return words[words.index(option) + 1]


def test_subgraph_tuning_is_a_job(place: Path) -> None:
    """Its words are those of `aoec tune --job sgat`, without those that say how long schedules are searched."""
    given: list[str] = []
    notes: list[str] = []
    aoe.main(["--job_type=1", M, "--tune_optimization_level=O1", "--reload"], lambda words: given.extend(words) or 2, notes.append)
    assert after(given, "--job") == "sgat" and "--budget" not in given and "--resume" in given
    assert any("--tune_optimization_level changes nothing" in n for n in notes)


@pytest.mark.parametrize("number", ["3", "4", "gdat"])
def test_gradient_tuning_is_a_job(number: str, place: Path) -> None:
    """3 is the tutorials' number. --loss_name is of tutorials too; the system is aoec's own option, for there is no cluster to ask."""
    given: list[str] = []
    notes: list[str] = []
    aoe.main([f"--job_type={number}", M, "--loss_name=mse", "--system=910b-8", "--tune_optimization_level=O1"],
             lambda words: given.extend(words) or 2, notes.append)
    assert [after(given, word) for word in ("--job", "--loss", "--system")] == ["gdat", "mse", "910b-8"] and "--budget" not in given
    assert any("job type 3 is documented nowhere" in n for n in notes) == (number == "3")
    assert "aoe: job gdat, gradient tuning" in notes


@pytest.mark.parametrize("mode, job", [("1", "sgat"), ("2", "opat"), ("4", "gdat")])
def test_the_variable_of_adapters_says_the_job_where_no_option_does(mode: str, job: str, place: Path,
                                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOE_MODE", mode)
    for words, wanted in ([[M], job], [[M, "--job_type=2"], "opat"]):
        given: list[str] = []
        aoe.main(words, lambda asked, given=given: given.extend(asked) or 2, lambda note: None)
        assert after(given, "--job") == wanted


def test_a_model_with_nothing_to_slice_is_said_to_have_gained_nothing(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["aoe", "--job_type=1", "--model=net.onnx", "--progress_bar=off"]) == 0
    assert "net process finished. Performance improved by 0.00%" in capsys.readouterr().out
    said, = place.glob("aoe_result_sgat_*.json")
    assert json.loads(said.read_text())[1]["SGAT"]["repo_summary"]["repo_unsatisfied_num"] == 1


def test_a_job_to_be_reloaded_is_found_in_the_bank(place: Path) -> None:
    words, notes = told(M, "--reload", "aoe_workspace/net_1")
    assert "--resume" in words and "--reload=aoe_workspace/net_1: what was broken off is found in the bank" in notes


M = "--model=net.onnx"
NOTHING = "changes nothing"
OPTIONS: dict[str, tuple[list[str], str]] = {  # option -> how it is given, and what it becomes of `aoec tune`; "!": an error; "~": a note
    "help": (["--help"], ""), "job_type": ([M], "--job opat"), "model": (["-m", "net.onnx"], "tune net.onnx"),
    "weight": ([M, "--weight=w"], "!aoec reads ONNX"), "model_path": (["--model_path=."], "tune net.onnx"),
    "framework": ([M, "-f", "5"], "tune net.onnx"), "singleop": (["--singleop=one.json"], "--precision keep"),
    "tune_ops_file": ([M, "--tune_ops_file=ops"], "--only ops"), "output": ([M, "--output=made/x.om"], "!there is no directory made"),
    "reload": ([M, "--reload"], "--resume"), "progress_bar": ([M, "--progress_bar=off"], "--no-progress"),
    "log": ([M, "--log=info"], "~" + NOTHING), "device": ([M, "--device=1"], "~no device is used"),
    "ip": ([M, "--ip=1.2.3.4"], "~no device is used"),
    "port": ([M, "--port=8000"], "~no device is used"), "aicore_num": ([M, "--aicore_num=4"], "!give a machine file with so many cores"),
    "virtual_type": ([M, "--virtual_type=1"], "~schedules are for all cores"), "host_env_os": ([M, "--host_env_os=linux"], "~" + NOTHING),
    "host_env_cpu": ([M, "--host_env_cpu=aarch64"], "~" + NOTHING),
    "input_format": ([M, "--input_format=NHWC"], "!an ONNX model says its own"),
    "input_shape": ([M, "--input_shape=a:1,2;b:3"], "--input-shape a:1,2 --input-shape b:3"),
    "dynamic_batch_size": ([M, "--dynamic_batch_size=1,8"], "--dynamic-batch 1,8"),
    "dynamic_image_size": ([M, '--dynamic_image_size="224,224;448,448"'], "--dynamic-dims 224,224;448,448"),
    "dynamic_dims": ([M, "--dynamic_dims=1,2;3,4"], "--dynamic-dims 1,2;3,4"),
    "input_shape_range": ([M, "--input_shape_range=a:[1~2]"], "!give gears with --dynamic_dims"),
    "out_nodes": ([M, "--out_nodes=a:0"], "!has no node a"),
    "insert_op_conf": ([M, "--insert_op_conf=a"], "~neither calculated nor timed"),
    "precision_mode": ([M, "--precision_mode=force_fp16"], "--precision force_fp16"),
    "precision_mode_v2": ([M, "--precision_mode_v2=fp16"], "--precision fp16"),
    "tune_optimization_level": ([M, "--tune_optimization_level=O1"], "--budget 10000"),
    "Fdeeper_opat": ([M, "--Fdeeper_opat"], "--budget 20000"),
    "soc_version": ([M, "--soc_version=Ascend310P3"], "--target Ascend310P3"),
    "base_result": ([M, "--base_result=old.db"], "--base old.db"),
    "tuning_time_limit": ([M, "--tuning_time_limit=30"], "--time 30s"), "om": (["--om=net.om"], "!give --model the ONNX file"),
    "config": ([M, "--config=c.json"], "--budget 16 --search genetic --metric latency"),
    **{name: ([M, f"--{name}"], "~" + NOTHING) for name in ("Fop_format", "Fnonhomo_split", "Finner_axis_cut")},
    **{name: ([M, f"--{name}=1"], "~" + NOTHING) for name in (
        "output_type", "input_fp16_nodes", "op_name_map", "is_input_adjust_hw_layout", "is_output_adjust_hw_layout", "op_precision_mode",
        "op_select_implmode", "optypelist_for_implmode", "keep_dtype", "modify_mixlist", "customize_dtypes", "disable_reuse_memory",
        "fusion_switch_file", "enable_scope_fusion_passes", "enable_small_channel", "compress_weight_conf", "compression_optimize_conf",
        "sparsity", "op_debug_level", "build_bypass", "core_type", "buffer_optimize", "enable_compress_weight", "enable_single_stream",
        "op_tune_file", "op_tune_mode", "op_tune_kernel_path", "loss_name", "system", "hccl_test")}}


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_does_what_aoe_says_or_is_answered(name: str, place: Path) -> None:
    words, wanted = OPTIONS[name]
    (place / "one.json").write_text(json.dumps(OPERATORS[:1]))
    if wanted.startswith("!"):
        with pytest.raises(AoecError, match=wanted[1:]):
            told(*words)
        return
    given, notes = told(*words)
    assert wanted[1:] in notes if wanted.startswith("~") else wanted in " ".join(given)
    assert (f"--{name} {NOTHING}" in notes) == wanted.startswith("~") and bool(given) == (name != "help")


def test_every_option_is_in_the_table() -> None:
    assert set(OPTIONS) == set(WORDS)


@pytest.mark.parametrize("words, said", [
    (["--job_type=1", "--model=net.onnx", "--tune_ops_file=ops"], "--tune_ops_file is of operator tuning, --job_type=2 (some"),
    (["--job_type=4", "--model=net.onnx", "--loss_name=mse"], "--job gdat needs a system: --system 10gbe-8"),
    (["--job_type=4", "--model=net.onnx", "--system=910b-8"], "--job gdat needs a model with --loss"),
    (["--job_type=3", "--model=net.onnx", "--system=none-8"], "there is no system none-8"),
    (["--job_type=4", "--singleop=ops"], "--singleop is of operator tuning"), (["--job_type=5"], "--job_type is 1 (sgat"),
    (["--model=net.onnx"], "--job_type is 1 (sgat"), (["--job_type=2"], "give one of --model FILE.onnx, --model_path DIRECTORY"),
    (["--job_type=2", "--om=net.om"], "a .om is compiled already: give --model the ONNX file"),
    (["--job_type=2", "--model=net.om"], "compiled already"),
    (["--job_type=2", "--model=net.pb", "--framework=3"], "--framework=3 is TensorFlow"),
    (["--job_type=2", "--model=net.onnx", "--Fdeep_opat"], "aoe has no option --Fdeep_opat; did you mean --Fdeeper_opat?"),
    (["--job_type=2", "--job_type=2"], "--job_type is given twice"), (["--model"], "--model needs a value"),
    (["--job_type=2", "--model_path=none"], "there is no directory none"),
    (["--job_type=2", "--model=net.onnx", "--tune_optimization_level=O3"], "is O1 or O2, not O3"),
    (["--job_type=2", "--model=net.onnx", "--progress_bar=maybe"], "--progress_bar is on or off, not maybe"),
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
