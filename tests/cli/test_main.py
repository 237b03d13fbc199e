"""The frame of the command line: exit codes, one line for every failure, quiet pipes."""
from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aoec import cli
from aoec.base.errors import CheckError, ParseError, UnsupportedError
from aoec.cli import in_full
from aoec.cli.command import Command, all_commands
from aoec.cli.parser import parse
from aoec.options.compile import CompileOptions
from aoec.options.shared import HoleOptions

COMMANDS = ("compile", "run", "demo", "import", "fuse", "lower", "schedule", "emit", "simulate", "search", "targets", "bank", "doctor")


def aoec(*words: str, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "aoec", *words], capture_output=True, text=True, timeout=60, **more)  # type: ignore[call-overload]


def test_help_names_every_command_and_is_quick() -> None:
    before = os.times()
    done = aoec("--help")
    assert done.returncode == 0 and not done.stderr
    assert all(f"\n    {c} " in done.stdout for c in COMMANDS)
    after = os.times()
    assert after.children_user + after.children_system - before.children_user - before.children_system < 2  # CPU seconds


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_a_function(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([command, "--help"]) == 0
    assert f"aoec {command}" in capsys.readouterr().out
    assert command in [c.name for c in all_commands()]


@pytest.mark.parametrize("words, usage", [
    ([], "aoec [options] COMMAND ..."), (["compile"], "aoec compile [options] MODEL.onnx|DIR"),
    (["run"], "aoec run [options] MODEL.aoec|G.tir|G.prog (--inputs FILE.npz | --random)"),
    (["results"], "aoec results [options] FILE.json|DIR ..."),
    (["calibrate"], "aoec calibrate [options] --read FILE.csv -o FILE.toml"), (["bank", "diff"], "aoec bank diff [options] A [B]")])
def test_help_begins_with_what_must_be_given(words: list[str], usage: str, capsys: pytest.CaptureFixture[str],
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert cli.main([*words, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"usage: {usage}" and max(map(len, lines)) <= 100


@pytest.mark.parametrize("words, complaint", [
    (["polish"], "'polish' is unknown; known: aoe, atc"), (["compiel"], "did you mean compile; see aoec --help"),
    (["compile"], "required: MODEL.onnx"),
    (["compile", "m.onnx", "--input-shape", "x"], "'x' is not of the form NAME:1,3,224,224"),
    (["compile", "m.onnx", "--input-shape", "x:0,3"], "'x:0,3' is not of the form"),
    (["compile", "m.onnx", "--budget", "fast"], "'fast' is no number of trials (2000)"),
    (["compile", "m.onnx", "--time", "0s"], "'0s' is no time such as 90s, 15m or 2h"),
    (["compile", "m.onnx", "--time", "30s", "--budget", "9"], "not allowed with argument"),
    (["compile", "m.onnx", "--budget", "30s"], "'30s' is a time; --time 30s is for all searches together"),
    (["compile", "m.onnx", "--budget", "99999999999"], "'99999999999' is not from 0 to 999999999, a whole number of trials"),
    (["compile", "m.onnx", "--budget", "1.5"], "'1.5' is not from 0 to 999999999, a whole number of trials"),
    (["compile", ""], "word 2 behind aoec is empty; is a variable of the shell not set?"),
    (["compile", "m.onnx", "--target", ""], "word 4 behind aoec is empty; is a variable of the shell not set?"),
    (["compile", "m.onnx", "--target="], "--target= says nothing behind its =; is a variable of the shell not set?"),
    (["compile", "m.onnx", "--jobs", "0"], "'0' is not a whole number above 0"),
    (["compile", "m.onnx", "--seed", "-1"], "'-1' is not a whole number"),
    (["compile", "m.onnx", "--precision", "fp8"], "'fp8' is not one of fp16, bf16, mixed, "),
    (["emit", "x", "--set", "tm"], "'tm' is not of the form tm=64"),
    (["run", "m.aoec"], "one of the arguments --inputs --random is required"),
    (["run", "m.aoec", "--random", "--inputs", "x"], "not allowed with argument"),
    (["simulate", "x", "--js"], "there is no option --js; did you mean --json; see aoec simulate --help"),
])
def test_wrong_options_are_one_line(words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == 2
    out, err = capsys.readouterr()
    assert complaint in err and err.startswith("aoec: error: ") and err.count("\n") == 1 and not out


@pytest.mark.parametrize("words, listed", [([], "compile an ONNX model"), (["bank"], "time each record again")])
def test_a_command_that_is_a_choice_of_others_shows_them(words: list[str], listed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == 2
    out, err = capsys.readouterr()
    assert listed in " ".join(err.split()) and not out


@pytest.mark.parametrize("error, code, text", [
    (CheckError("the tile is too large"), 2, "aoec: error: the tile is too large\n"),
    (ParseError("expected ')'", "split(m\n", 1, 8, "g.sched"), 2, "aoec: error: g.sched:1:8: expected ')'\n  split(m\n         ^\n"),
    (UnsupportedError("x is [N]; for example: --input-shape x:1", "--input-shape x:1"), 2,
     "aoec: error: x is [N]; for example: aoec doctor --input-shape x:1\n"),
    (OSError(28, "No space left on device", "out.tir"), 2, "aoec: error: out.tir: no space left on device\n"),
    (MemoryError(), 2, "aoec: error: out of memory; a smaller model or batch, or more memory, would help\n"),
    (KeyboardInterrupt(), 130, "aoec: interrupted; nothing was written\n"),
    (ZeroDivisionError("by\nzero"), 70,
     "aoec: internal fault: ZeroDivisionError: by; please report it with the output of: aoec --traceback doctor\n"),
    (BrokenPipeError(), 141, ""),
])
def test_every_failure_has_its_code_and_sentence(
        error: BaseException, code: int, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(*_: object) -> int:
        raise error
    monkeypatch.setattr(Command, "start", fail)
    monkeypatch.setattr(cli, "quiet_stdout", lambda: None)
    assert cli.main(["doctor"]) == code
    assert capsys.readouterr().err == text


def test_traceback_on_demand(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(Command, "start", lambda *_: 1 // 0)
    assert cli.main(["--traceback", "doctor"]) == 70
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_interrupted_search_says_what_is_kept(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Before there is a bank it is nothing."""
    def stop(*_: object) -> int:
        raise KeyboardInterrupt
    monkeypatch.setattr(Command, "start", stop)
    bank = tmp_path / "b.db"
    assert cli.main(["compile", "m.onnx", "--bank", str(bank)]) == 130
    assert capsys.readouterr().err == "aoec: interrupted; nothing was written\n"
    bank.touch()
    assert cli.main(["compile", "m.onnx", "--bank", str(bank)]) == 130
    assert f"kept in the bank {bank}; the same command with --resume" in capsys.readouterr().err


def test_closed_pipe_is_quiet() -> None:
    done = subprocess.run(f"{sys.executable} -m aoec doctor | true; echo ${{PIPESTATUS[0]}}", shell=True, executable="/bin/bash",
                          capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() in ("141", "0") and not done.stderr


def test_version() -> None:
    assert aoec("--version").stdout.startswith("aoec 0.")


def test_values_of_options() -> None:
    _, options = parse(["compile", "m.onnx", "--input-shape", "a:b:1,3", "--time", "1.5m", "--no-verify"])
    assert isinstance(options, CompileOptions)
    assert options.input_shape == {"a:b": (1, 3)} and options.seconds == 90.0 and options.verify is False
    _, options = parse(["emit", "-", "--set", "?tm=64"])
    assert isinstance(options, HoleOptions) and options.holes == {"tm": 64}


def test_a_program_is_timed_from_cold_inputs_or_after_itself(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(Path(__file__).parents[1] / "programs" / "matmul.prog")
    found = []
    for words in ([], ["--state", "previous"]):
        assert cli.main(["simulate", path, "--json", *words]) == 0
        found.append(json.loads(capsys.readouterr().out))
    cold, warm = found
    assert warm["hbm_bytes"] == 0 < cold["hbm_bytes"] and warm["cycles"] < cold["cycles"]


@pytest.mark.parametrize("words", [["--input-shape", "x:1,-1", "-o", "y"], ["-o", "y", "--input-shape=x:1,-1"], ["-o", "y"]])
def test_an_option_that_would_help_takes_the_place_of_its_like(words: list[str]) -> None:
    error = UnsupportedError("x is [N]; for example: --input-shape x:1,2", "--input-shape x:1,2")
    other = ["--input-shape", "z:4"]
    assert in_full(error, ["import", *words, *other]) == \
        "x is [N]; for example: aoec import -o y --input-shape z:4 --input-shape x:1,2"
