"""`aoec check`: verdicts of the vendor's front half by our names, and what is no text, no interpreter, no verifier or no end."""
from __future__ import annotations

import json
import os
import stat
import time
from pathlib import Path

import pytest

from aoec import cli
from aoec.base.errors import UnsupportedError
from aoec.hivm.kernel import write_module
from aoec.hivm.verifier import Verdict, verify
from aoec.hivm.words import table
from aoec.ir.program import Program
from aoec.target.machine import load
from tests.ascendc.test_groups import groups
from tests.ascendc.words import VECTOR, dtypes_of, program_of
from tests.hivm.test_kernel import FEW, GOLDEN, KERNELS, whole_blocks
from tests.hivm.wheel import VARIABLE, need_wheel
from tests.lowering.groups import MODELS


def place() -> str:
    """What --check-python is given, where the wheel is."""
    need_wheel()
    return os.environ.get(VARIABLE) or str(Path(__file__).parents[2] / ".vendor")


def check(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = cli.main(["check", *words])
    said = capsys.readouterr()
    return code, said.out, said.err


# ---------------------------------------------------------------- with the wheel

def assert_verified(text: str, what: str) -> Verdict:
    verdict = verify(text, need_wheel())
    assert not verdict.refusals, f"{what}: {verdict.refusals[0].sentence()}"
    return verdict


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_texts_are_verified(name: str) -> None:
    assert assert_verified((KERNELS / f"{name}.mlir").read_text(), name).routines


def verify_groups(programs: tuple[Program, ...]) -> int:
    """How many programs have a text; each of those is verified."""
    done = 0
    for p in programs:
        try:
            text = write_module(p, load())
        except UnsupportedError:
            continue
        assert_verified(text, p.name)
        done += 1
    return done


@pytest.mark.parametrize("model", FEW)
def test_groups_are_verified(model: str) -> None:
    need_wheel()
    verify_groups(groups(model, "Ascend910B3"))


@pytest.mark.slow
def test_all_groups_are_verified() -> None:
    need_wheel()
    assert sum(verify_groups(groups(model, "Ascend910B3")) for model in MODELS) > 100


@pytest.mark.slow
@pytest.mark.parametrize("op", VECTOR)
def test_every_vector_instruction_is_verified(op: str) -> None:
    need_wheel()
    drawn = tuple(program_of(op, dtypes, seed) for seed, dtypes in enumerate(dtypes_of(op)))
    assert bool(verify_groups((*drawn, *map(whole_blocks, drawn)))) != bool(table().words[op].lacks)


def test_a_refusal_is_said_by_our_names(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    python, bad = place(), tmp_path / "bad.mlir"
    text = (KERNELS / "elementwise.mlir").read_text()
    bad.write_text(text.replace("hivm.hir.vadd ins(", "hivm.hir.vln ins(", 1))
    code, out, err = check(capsys, str(bad), "--check-python", python)
    assert (code, out) == (2, "") and err.count("\n") == 1
    assert "refuses vadd(dst=y.o[0]" in err and "in for t in 4" in err and f"{bad}:" in err
    code, out, _ = check(capsys, str(bad), "--check-python", python, "--json")
    found = json.loads(out)
    assert code == 2 and not found["verified"] and found["refusals"][0]["loops"] == ["for t in 4"]
    bad.write_text(text.replace("<PIPE_MTE3>", "<PIPE_MTE9>", 1))
    assert "refuses set(MTE3, V, d)" in check(capsys, str(bad), "--check-python", python)[2]


def test_a_verified_text(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = check(capsys, str(KERNELS / "casts.mlir"), "--check-python", place())
    assert code == 0 and "it never ran on an NPU" in out and not err


@pytest.mark.parametrize("text", ["", "module {", "\0\0\0", "func.func @f() { return }" * 3, "module { func.func @f() { hivm.hir.vadd } }",
                                  "(" * 50_000, "#" * 100_000, "module attributes {a = dense<0> : tensor<1000000000x1000000000xf32>} {}"])
def test_hostile_texts(capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str) -> None:
    """One line and exit code 2, or a verdict, in bounded time."""
    bad, start = tmp_path / "bad.mlir", time.monotonic()
    python = place()
    bad.write_text(text)
    code, out, err = check(capsys, str(bad), "--check-python", python, "--time", "10s")
    assert (code, out.count("\n") + err.count("\n")) in ((0, 1), (2, 1)) and "Traceback" not in err
    assert time.monotonic() - start < 30


@pytest.mark.parametrize("text", ["", "// nothing\n", "module {}"])
def test_a_text_without_a_function_is_not_verified(capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str) -> None:
    python, bad = place(), tmp_path / "bad.mlir"
    bad.write_text(text)
    code, out, err = check(capsys, str(bad), "--check-python", python)
    assert (code, out) == (2, "") and "the text has no function, so that nothing was verified" in err


def test_a_routine_that_the_library_lacks_is_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """fixpipe has a word for fractals of four dimensions that the verifier takes and no routine stands behind."""
    python, bad = place(), tmp_path / "bad.mlir"
    kind = "memref<2x2x16x16x{}, #hivm.address_space<{}>>"
    to, given = kind.format("f16", "gm"), kind.format("f32", "cc")
    bad.write_text(f"module {{ func.func @k(%g: {to}) attributes {{hacc.entry, hacc.function_kind = #hacc.function_kind<DEVICE>}} {{\n"
                   f"%a = arith.constant 0 : i64\n%c = hivm.hir.pointer_cast(%a) : {given}\n"
                   "hivm.hir.fixpipe {dma_mode = #hivm.dma_mode<normal>, pre_quant = #hivm.fixpipe_pre_quant_mode<F322F16>} "
                   f"ins(%c : {given}) outs(%g : {to})\nreturn }} }}")
    assert "fixpipe_normal_float_to_half_4d_to_4d, which the wheel's tile library does not have" in \
        check(capsys, str(bad), "--check-python", python)[2]


# ---------------------------------------------------------------- without it

def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def stand_in(folder: Path, tool: str) -> Path:
    """An interpreter that names a wheel whose verifier is a script."""
    script(folder / "wheel" / "bin" / "bishengir-opt", tool)
    return script(folder / "python", f"printf 'at\\n{folder / 'wheel'}\\n0.0\\n'")


@pytest.mark.parametrize("tool, words", [
    ("sleep 60", "gave no verdict in 1 s, and was ended"),
    ("sleep 60 & sleep 60", "gave no verdict in 1 s, and was ended"),
    ("kill -SEGV $$", "ended by a fault of its own (signal 11)"),
    ("exit 7", "ended with code 7 and said nothing"),
    ("true", "wrote nothing"),
    ("echo kernel.mlir:99999999:1: error: far; exit 1", "refuses it: far"),
    ("yes | head -c 200000000; exit 1", "bishengir-opt of ascendnpu-ir 0.0"),
])
def test_verifiers_that_fail(capsys: pytest.CaptureFixture[str], tmp_path: Path, tool: str, words: str) -> None:
    python, start = stand_in(tmp_path, tool), time.monotonic()
    code, out, err = check(capsys, str(KERNELS / "casts.mlir"), "--check-python", str(python), "--time", "1s")
    assert (code, out, err.count("\n")) == (2, "", 1) and words in err, err
    assert time.monotonic() - start < 10


@pytest.mark.parametrize("text, words", [
    ("echo none", "has no ascendnpu-ir; make vendor-check"), ("exit 3", "it said nothing"), ("echo nonsense", "nonsense"),
    ("printf 'at\\n/nowhere\\n1.2.0\\n'", "has no bin/bishengir-opt")])
def test_interpreters_without_the_wheel(capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, words: str) -> None:
    code, out, err = check(capsys, str(KERNELS / "casts.mlir"), "--check-python", str(script(tmp_path / "python", text)))
    assert (code, out, err.count("\n")) == (2, "", 1) and words in err, err


def test_no_interpreter_and_no_text(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = str(KERNELS / "casts.mlir")
    for given in (str(tmp_path / "none"), str(tmp_path), text):
        code, out, err = check(capsys, text, "--check-python", given)
        assert (code, out, err.count("\n")) == (2, "", 1) and "make vendor-check" in err, err
    binary = tmp_path / "x.mlir"
    binary.write_bytes(b"\xff\xfe")
    code, _, err = check(capsys, str(binary), "--check-python", str(stand_in(tmp_path, "true")))
    assert code == 2 and err.count("\n") == 1 and "UTF-8" in err
    binary.write_bytes(b"/" * (9 << 20))
    code, _, err = check(capsys, str(binary), "--check-python", str(stand_in(tmp_path, "true")))
    assert code == 2 and "at most 8,388,608 are verified" in err
