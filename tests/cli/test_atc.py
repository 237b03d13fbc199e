"""ATC's own command line: a model is compiled from the bank and nothing is searched; each option's fate is said, and so is the line for the
real one, which --exec runs."""
from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import aoec
from aoec import cli
from aoec.bank.bank import Bank
from aoec.base.errors import AoecError
from aoec.cli.vendor import atc_line as atc
from aoec.cli.vendor.atc_words import NOT_ATC, VALUES, WORDS
from aoec.cli.vendor.vendor_words import Use
from aoec.jobs.compile import begin
from tests.cli.test_aoe import OPERATORS, VARIABLES

pytestmark = pytest.mark.usefixtures("few")

DONE = "ATC run success, welcome to the next use."
FAILED = "ATC run failed, Please check the detail log, Try 'atc --help' for more information"
M, SOC = "--model=net.onnx", "--soc_version=Ascend310P3"
LINE = [M, "--framework=5", SOC, "--output=net"]
NET = ('<ir_version: 8, opset_import: ["" : 17]> net (float[4, 40] data) => (float[4, 40] y) <float[40] b = {%s}>'
       '{ h = Exp(data) r = Relu(h) y = Add(r, b) }')
REAL = '#!/bin/sh\necho "$TUNE_BANK_PATH|$*" >> calls\n'


@pytest.fixture()
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model and a bank of its own, and no atc on the path, to work in."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TE_PARALLEL_COMPILER", "1")
    monkeypatch.chdir(tmp_path)
    net = onnx.parser.parse_model(NET % ", ".join(map(str, range(40))))
    for node, name in zip(net.graph.node, ("hidden", "hidden_relu", "scores")):
        node.name = name
    onnx.save(net, tmp_path / "net.onnx")
    monkeypatch.setenv("ASCEND_CACHE_PATH", str(tmp_path / "cache"))
    (tmp_path / "cache/aoe_data").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    return tmp_path


def real(place: Path, rest: str = "exit 0") -> Path:
    """An atc on the path, which notes how it was called."""
    path = place / "bin/atc"
    path.write_text(REAL + rest + "\n")
    path.chmod(0o755)
    return path


def delivered(folder: Path, soc: str = "Ascend310P3") -> Path:
    """A directory with a bank of CANN's."""
    (folder / soc / "unified_bank").mkdir(parents=True)
    (folder / soc / "unified_bank" / f"{soc}_8_AiCore_MatMulV3_runtime_kb.json").write_text("")
    return folder


def told(*words: str, code: int = 0) -> tuple[list[str], str]:
    """The words that `aoec compile` would be given, and what is said; nothing is compiled."""
    given: list[str] = []
    notes: list[str] = []

    def compile_(asked: Sequence[str]) -> int:
        given.extend(asked)
        return code

    atc.main(words, compile_, notes.append)
    return given, "\n".join(notes)


def after(words: list[str], option: str) -> str:
    return words[words.index(option) + 1]


# ---------------------------------------------------------------- whole runs

def test_a_model_is_compiled_from_the_bank_and_nothing_is_searched(place: Path, capsys: pytest.CaptureFixture[str],
                                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    """What tuning left in $TUNE_BANK_PATH is in the compiled model, by the very same line with atc's name; and nothing is called .om."""
    (place / "bank").mkdir()
    monkeypatch.setenv("TUNE_BANK_PATH", str(place / "bank"))
    words = ["--soc_version=Ascend910B3", "--model=net.onnx"]
    (place / "c.json").write_text('{"max_tuning_count": 16}')
    assert cli.main(["aoe", "--job_type=2", *words, "--output=tuned", "--config=c.json", "--progress_bar=off"]) == 0
    known = list(Bank.open(place / "bank/aoec.db").lines())
    capsys.readouterr()
    assert cli.main(["atc", *words, "--framework=5", "--output=net.om", "--log=error"]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[0] == "ATC start working now, please wait for a moment." and said.out.splitlines()[-1] == DONE
    assert f"atc: $TUNE_BANK_PATH={place}/bank: {place}/bank/aoec.db is the bank" in said.err
    assert "atc: --output=net.om: replaced by net.aoec: only atc makes a .om" in said.err
    assert said.err.splitlines()[-1].endswith("atc --soc_version=Ascend910B3 --model=net.onnx --framework=5 --output=net --log=error")
    assert (place / "net.aoec").read_bytes() == (place / "tuned.aoec").read_bytes() and not list(place.rglob("*.om"))
    assert list(Bank.open(place / "bank/aoec.db").lines()) == known


def test_single_operators_are_compiled_each(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "ops.json").write_text(json.dumps(OPERATORS))
    assert cli.main(["atc", "--singleop=ops.json", "--output=made", SOC]) == 2
    said = capsys.readouterr()
    assert "operator Unheard has no meaning here" in said.err and said.out.splitlines()[-1] == FAILED
    (place / "ops.json").write_text(json.dumps([o for o in OPERATORS if o["op"] != "Unheard"]))
    assert cli.main(["atc", "--singleop=ops.json", "--output=made", SOC]) == 0
    said = capsys.readouterr()
    assert {"0_product.aoec", "1_softmaxv2.aoec"} <= {p.name for p in (place / "made").iterdir()}
    assert "--precision keep" in said.err and "atc --singleop=ops.json --output=made" in said.err


def test_a_model_may_end_earlier(place: Path) -> None:
    """--out_nodes: the compiled copy gives what the whole model has there."""
    assert cli.main(["atc", *LINE, "--out_nodes=hidden_relu:0", "--precision_mode_v2=origin"]) == 0
    session = aoec.Session(str(place / "net.aoec"))
    net, copy = (onnx.load(place / f"{name}.onnx") for name in ("net", "net_out_nodes"))
    name = next(n.output[0] for n in net.graph.node if n.name == "hidden_relu")
    assert [n.name for n in copy.graph.node] == ["hidden", "hidden_relu"] and len(copy.graph.initializer) < len(net.graph.initializer)
    net.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    x = np.linspace(-1, 1, 160, dtype=np.float32).reshape(4, 40)
    want, = ReferenceEvaluator(net).run([name], {"data": x})
    assert [o.name for o in session.get_outputs()] == [name]
    assert np.allclose(session.run(None, {"data": x})[0], want, rtol=1e-4, atol=1e-4)


# ---------------------------------------------------------------- options

NOTHING = "ignored: "
OPTIONS: dict[str, tuple[list[str], str]] = {  # option -> how it is given, and what becomes of it; "!": an error; "~": a note
    "help": (["--help"], ""), "model": ([M], "compile net.onnx"), "framework": ([M, "--framework", "5"], "compile net.onnx"),
    "output": ([M, "--output=x.om"], "-o x.aoec"), "soc_version": ([M, SOC], "--target Ascend310P3"),
    "input_format": ([M, "--input_format=NHWC"], "!an ONNX model says its own"),
    "input_shape": ([M, '--input_shape="a:1,2;b:3"'], "--input-shape a:1,2 --input-shape b:3"),
    "dynamic_batch_size": ([M, "--dynamic_batch_size=1,8"], "--dynamic-batch 1,8"),
    "dynamic_image_size": ([M, '--dynamic_image_size="224,224;448,448"'], "--dynamic-dims 224,224;448,448"),
    "dynamic_dims": ([M, "--dynamic_dims=1,2;3,4"], "--dynamic-dims 1,2;3,4"),
    "precision_mode": ([M, "--precision_mode=force_fp32"], "--precision force_fp32"),
    "precision_mode_v2": ([M, "--precision_mode_v2=mixed_float16"], "--precision mixed_float16"),
    "singleop": (["--singleop=one.json"], "--precision keep"), "out_nodes": ([M, "--out_nodes=hidden:0"], "compile net_out_nodes.onnx"),
    "op_bank_path": ([M, "--op_bank_path=bank"], "--bank bank/aoec.db"), "mode": ([M, "--mode=1"], "!aoec import MODEL.onnx"),
    "op_compiler_cache_dir": ([M, "--op_compiler_cache_dir=bank"], "--bank bank/aoec.db"),
    "exec": ([M, "--exec"], "!there is no delivered bank"),
    "op_compiler_cache_mode": ([M, "--op_compiler_cache_mode=enable"], "~replaced by what aoec remembers"),
    "oo_level": ([M, "--oo_level=O1"], "~replaced by the clean-up passes"),
    "weight": ([M, "--weight=w"], "!aoec reads ONNX"), "om": (["--om=net.om"], "!aoec compile --dump"),
    "json": (["--json=x"], "!aoec compile --dump"), "input_shape_range": ([M, "--input_shape_range=a:[1~2]"], "!given as gears"),
    "input_hint_shape": ([M, "--input_hint_shape=0:[1]"], "!given as gears"),
    "aicore_num": ([M, "--aicore_num=4"], "!give a machine file with so many cores"),
    **{name: ([M, f"--{name}={VALUES.get(name, ('x',))[-1]}"], "~" + NOTHING + w.said) for name, w in WORDS.items() if w.use is Use.NOTED}}


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_does_what_atc_says_or_is_answered(name: str, place: Path) -> None:
    words, wanted = OPTIONS[name]
    (place / "one.json").write_text(json.dumps(OPERATORS[:1]))
    Bank.open(place / "bank/aoec.db").put_all([]) if not (place / "bank").mkdir() else None
    if wanted.startswith("!"):
        with pytest.raises(AoecError, match=wanted[1:]):
            told(*words)
        return
    given, notes = told(*words)
    assert wanted[1:] in notes if wanted.startswith("~") else wanted in " ".join(given)
    assert bool(given) == (name != "help") and "--tune" not in given
    if name != "help":
        line = notes.splitlines()[-1].partition("by us): ")[2]
        assert line.startswith("atc ") and (f"--{name}=" in line) == (name not in NOT_ATC) and "--soc_version=" in line


def test_every_option_is_in_the_table_and_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(OPTIONS) == set(WORDS) >= set(VALUES)
    assert cli.main(["atc", "--help"]) == 0
    listed = {line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("--")}
    assert listed == {f"--{name}" for name in WORDS} and all((w.use is Use.HONOURED) != bool(w.said) for w in WORDS.values())


@pytest.mark.parametrize("words, said", [
    ([M, "--modle=x"], "atc has no option --modle; did you mean --mode?"),
    ([M, "-soc-versoin=x"], "atc has no option --soc_versoin; did you mean --soc_version?"),
    ([M, "--model_path=x"], "atc has no option --model_path"), ([M, M], "--model is given twice"), (["--model"], "--model needs a value"),
    (["--framework=5"], "give --model FILE.onnx, or --singleop"), ([M, "--singleop=x"], "and not both"),
    (["--model=net.om"], "net.om is compiled already"),
    (["--model=net.pb", "--framework=3"], "--framework=3 is TensorFlow; aoec reads ONNX"),
    (["--model=none.onnx"], "none.onnx"), ([M, "--log=loud"], "--log is one of debug, info, warning, error, null, not 'loud'"),
    ([M, "--soc_version=Ascend999"], "Ascend999"), ([M, "--input_shape=data:1~8,40"], "holds ranges; shapes that vary are given as gears"),
    ([M, "--dynamic_dims=1", "--dynamic_batch_size=1"], "--dynamic_batch_size and --dynamic_dims exclude each other"),
    ([M, "--precision_mode=force_fp16", "--precision_mode_v2=fp16"], "exclude each other"),
    ([M, "--precision_mode_v2=cube_hif8"], "no chip here calculates in hif8"),
    ([M, SOC, "--precision_mode=allow_fp32_to_bf16"], "Ascend310P3 has neither"), ([M, "--output=none/x"], "there is no directory none"),
    ([M, "--out_nodes=hiden:0"], "the model has no node hiden; did you mean hidden?"),
    ([M, "--out_nodes=hidden:3"], "has no output 3; it has 1"),
    ([M, "--out_nodes=hidden"], "is not of the form NODE:0"), ([M, "--input_shape=data"], "is not of the form NAME:1,3,224,224"),
    (["--singleop=net.onnx"], "net.onnx")])
def test_what_is_not_to_be_had_is_one_sentence(words: list[str], said: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["atc", *words]) == 2
    found = capsys.readouterr()
    assert said in found.err.splitlines()[-1] and found.err.splitlines()[-1].startswith("aoec: error: ")
    assert found.out.splitlines()[-1] == FAILED and {p.name for p in place.iterdir()} == {"net.onnx", "bin", "cache"}


@pytest.mark.parametrize("soc, mode, wanted", [
    ("Ascend910B3", "allow_fp32_to_fp16", "keep"), ("Ascend310P3", "allow_fp32_to_fp16", "cube16"),
    ("Ascend910B3", "allow_fp32_to_bf16", "keep"), ("Ascend910B3", "allow_mix_precision_bf16", "bf16")])
def test_modes_that_choose_by_what_operators_support(soc: str, mode: str, wanted: str, place: Path) -> None:
    words, notes = told(M, f"--soc_version={soc}", f"--precision_mode={mode}")
    assert after(words, "--precision") == wanted and f"--precision_mode={mode}: replaced by --precision {wanted}" in notes


# ---------------------------------------------------------------- banks

def test_what_tuning_wrote_is_compiled_from_without_its_bank(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--op_compiler_cache_dir as tutorials mean it: the folder of results. Files that say too little are refused."""
    words = ["--model=net.onnx", "--soc_version=Ascend910B3"]
    assert cli.main(["tune", "net.onnx", "--budget", "16", "--target", "Ascend910B3", "--bank", "one.db", "-o", "tuned.aoec", "--results",
                     "here"]) == 0
    from_here = ["atc", *words, "--framework=5", "--output=net", "--op_compiler_cache_dir=here"]
    assert cli.main(from_here) == 0
    assert (place / "net.aoec").read_bytes() == (place / "tuned.aoec").read_bytes()
    file, = place.glob("here/tuning_results_*/op_tuning/*.json")
    said = json.loads(file.read_text())
    file.write_text(json.dumps(said | {"model_version": "0" * 16}))
    capsys.readouterr()
    assert cli.main([*from_here, "--op_bank_path=fresh"]) == 0
    assert "are of another model version and are not used" in capsys.readouterr().err
    file.write_text(json.dumps({n: v for n, v in said.items() if n != "ticks"}))
    assert cli.main(from_here) == 2 and "does not say what a schedule takes: 'ticks' is missing" in capsys.readouterr().err


def test_banks_are_asked_in_the_order_of_atc(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """$TUNE_BANK_PATH, --op_bank_path, what tutorials take for it, the default; what holds none is passed over, the old name is found."""
    options = ["--op_bank_path=b", "--op_compiler_cache_dir=c"]
    for name in "abc":
        (place / name).mkdir()
    monkeypatch.setenv("TUNE_BANK_PATH", str(place / "a"))
    words, notes = told(M, *options)
    assert after(words, "--bank") == str(place / "cache/aoe_data/aoec.db")
    assert notes.count("no bank of aoec's (aoec.db); the next place") == 3
    for run in "12":
        (place / f"c/tuning_results_{run}/op_tuning").mkdir(parents=True)
    words, notes = told(M, *options)
    assert after(words, "--base") == "c/tuning_results_2" and after(words, "--bank") == str(place / "cache/aoe_data/aoec.db")
    assert "--op_compiler_cache_dir=c: honoured: the schedules in c/tuning_results_2 are taken where the bank has none" in notes
    Bank.open(place / "c/bank.db").put_all([])
    assert after(told(M, *options)[0], "--bank") == "c/bank.db"
    assert after(told(M, *options, "--op_compiler_cache_mode=disable")[0], "--bank") == str(place / "cache/aoe_data/aoec.db")
    Bank.open(place / "b/aoec.db").put_all([])
    words, notes = told(M, *options)
    assert after(words, "--bank") == "b/aoec.db" and "--op_compiler_cache_dir=c: ignored: --op_bank_path comes before it" in notes
    Bank.open(place / "a/aoec.db").put_all([])
    words, notes = told(M, *options)
    assert after(words, "--bank") == str(place / "a/aoec.db")
    assert "--op_bank_path=b: ignored: $TUNE_BANK_PATH comes before it, as in ATC" in notes


# ---------------------------------------------------------------- the real one

def test_the_real_one_runs_with_the_delivered_bank(place: Path, capsys: pytest.CaptureFixture[str],
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    """Its options are those of the line that is shown, its exit code is passed on, and ours does not speak in its place."""
    monkeypatch.setattr(begin, "compile_model", lambda options: 0)
    path, bank = real(place, 'echo "real atc speaks"; exit 7'), delivered(place / "to the board")
    monkeypatch.setenv("TUNE_BANK_PATH", str(place / "elsewhere"))
    words = ["atc", *LINE, "--aoe_mode=1", "--op_compiler_cache_mode=enable", "--input_shape=data:4,40", f"--exec={bank}"]
    assert cli.main(words) == 7
    said = capsys.readouterr()
    line = next(x for x in said.err.splitlines() if "not yet run on a device" in x).partition("by us): ")[2]
    where, name, *options = shlex.split(line)
    assert where == f"TUNE_BANK_PATH={bank}" and name == "atc" and "--op_compiler_cache_mode=force" in options
    assert (place / "calls").read_text() == f"{bank}|{' '.join(options)}\n" and not [o for o in options if "aoe_mode" in o or "exec" in o]
    assert DONE not in said.out and FAILED not in said.out and f"{path} ended with exit code 7" in said.err
    real(place)
    whole = delivered(place / "delivery" / "bank").parent  # as aoec deliver writes it
    for words in ([f"--op_bank_path={bank}", "--exec"], [f"--exec={whole}"]):
        assert cli.main(["atc", *LINE, *words]) == 0
    assert [x.partition("|")[0] for x in (place / "calls").read_text().splitlines()[1:]] == [str(bank), str(whole / "bank")]


def test_the_real_one_is_not_run_where_it_cannot_be(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No atc, no bank, a bank of another chip, or a model that is none: each is one sentence before anything runs."""
    bank = delivered(place / "d", "Ascend910B3")
    for words, said in (([*LINE, f"--exec={bank}"], f"{bank} has a bank for Ascend910B3 and none for Ascend310P3"),
                        ([*LINE, "--exec=none"], "there is no delivered bank in none (Ascend310P3/unified_bank/"),
                        ([M, "--soc_version=Ascend910B3", f"--exec={bank}"], "there is no atc on the path")):
        assert cli.main(["atc", *words]) == 2
        assert said in capsys.readouterr().err.splitlines()[-1]
    real(place)
    (place / "net.onnx").write_bytes(b"no model")
    assert cli.main(["atc", M, "--soc_version=Ascend910B3", f"--exec={bank}"]) == 2
    assert not (place / "calls").exists() and capsys.readouterr().out.splitlines()[-1] == FAILED


@pytest.mark.parametrize("rest, code", [
    ("trap 'echo stopped >> calls; exit 3' INT; echo ready >> ready; while :; do sleep 0.05; done", 130), ("kill -9 $$", 137)])
def test_ctrl_c_and_signals(rest: str, code: int, place: Path) -> None:
    """Ctrl-C to us alone reaches it, and nothing is left running; where a signal ended it, the code is that of shells."""
    real(place, rest)
    bank = delivered(place / "d")
    program = ("import signal, sys\nfrom aoec.cli import main\nfrom aoec.cli.vendor import atc_exec\nfrom aoec.jobs.compile import begin\n"
               "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # what runs in the background of a shell ignores it
               "atc_exec.TOLD_S, begin.compile_model = 0.1, lambda options: 0\n"
               f"sys.exit(main({['atc', *LINE, f'--exec={bank}']!r}))")
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 120
    while code == 130 and not (place / "ready").exists() and child.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    if code == 130:
        child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=120)
    assert child.returncode == code, err
    if code == 130:
        assert (place / "calls").read_text().splitlines()[-1] == "stopped" and "interrupted; a model that was compiled is kept" in err
