"""Sources of kernels: golden ones, the same bytes for the same program, and what is refused."""
from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from aoec import cli
from aoec.ascendc.kernel import write_kernel
from aoec.ascendc.manifest import manifest
from aoec.base.errors import CapacityError, CheckError, UnsupportedError
from aoec.ir.index import DTYPES, Hole, Int, Var, call, evaluate, multiple, select
from aoec.ir.program import For, Instr, Program, Space
from aoec.ir.text.parse import parse_program
from aoec.ir.text.show import show
from aoec.target.machine import load
from tests.ascendc.words import program_of

KERNELS = Path(__file__).parent / "kernels"
PROGRAMS = Path(__file__).parents[1] / "programs"
GOLDEN = ("elementwise", "matmul_bias_relu", "reduction")


def read(name: str) -> Program:
    """A program beside this file."""
    path = KERNELS / f"{name}.prog"
    return parse_program(path.read_text(), str(path))


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_source(name: str, request: pytest.FixtureRequest) -> None:
    """`pytest --bless` writes down what is written now; read the diff."""
    source, path = write_kernel(read(name), load()).source, KERNELS / f"{name}.cpp"
    if request.config.getoption("--bless"):
        path.write_text(source)
    assert source == path.read_text()


@pytest.mark.parametrize("name", GOLDEN)
def test_equal_programs_have_equal_bytes(name: str) -> None:
    """In this process twice, of the program read back from its text, and in a process with another order of hashes."""
    program = read(name)
    first = write_kernel(program, load())
    again = write_kernel(parse_program(show(program), name), load())
    assert first.source == again.source and manifest(first) == manifest(again)
    done = subprocess.run([sys.executable, "-m", "aoec", "emit", str(KERNELS / f"{name}.prog"), "--as", "ascendc", "--raw"], text=True,
                          capture_output=True, check=True, env={**os.environ, "PYTHONHASHSEED": "7"})
    assert done.stdout == first.source


def test_every_line_of_the_program_is_a_line_of_the_source() -> None:
    """Instructions, flags and loops in their order, with the names that they have."""
    program = read("matmul_bias_relu")
    said = _lines(program)
    body = write_kernel(program, load()).source.partition('extern "C"')[2]
    found = re.findall(r"aoec::([a-z]\w+)\((?=\w+\[)|(SetFlag|WaitFlag)<|for \(int64_t (\w+)", body)
    assert ["".join(f) for f in found] == said
    for space in program.spaces:
        assert f", {space.name}, " in body


def _lines(program: Program) -> list[str]:
    out: list[str] = []

    def walk(items: tuple[object, ...]) -> None:
        for item in items:
            if isinstance(item, For):
                out.append(item.var)
                walk(item.body)
            elif isinstance(item, Instr):
                out.append(item.op)
            elif type(item).__name__ in ("SetFlag", "WaitFlag"):
                out.append(type(item).__name__)
    walk(program.streams[0].body)
    return out


def test_manifest_says_what_a_launch_needs() -> None:
    kernel = write_kernel(read("matmul_bias_relu"), load())
    facts = manifest(kernel)
    assert (facts["kernel"], facts["core_type"], facts["blocks"]) == ("matmul_bias_relu", "KERNEL_TYPE_AIC_ONLY", 3)
    assert [(a["name"], a["role"], a["bytes"]) for a in facts["arguments"]] == [
        ("A", "input", 3700), ("B", "input", 4096), ("bias", "input", 128), ("Y", "output", 1554)]
    order = re.findall(r"GM_ADDR (\w+)_gm", kernel.source.partition('extern "C"')[2].partition("{")[0])
    assert order == [a["name"] for a in facts["arguments"]]
    assert facts["product"] == "2201" and facts["cann"] == "8.5" and facts["workspace_bytes"] == 0 and not facts["sync_address"]
    assert all(a["alignment"] % DTYPES[a["dtype"]] == 0 for a in facts["arguments"])


def test_one_kernel_for_both_kinds_of_core() -> None:
    text = (PROGRAMS / "two_streams.prog").read_text()
    kernel = write_kernel(parse_program(text, "two_streams"), load())
    assert kernel.kind == "KERNEL_TYPE_MIX_AIC_1_2" and kernel.blocks == 1 and manifest(kernel)["sync_address"]
    cube, vector = kernel.source.partition("if ASCEND_IS_AIC {")[2].split("if ASCEND_IS_AIV {")
    assert "aoec::mmad(" in cube and "aoec::vexp(" in vector
    assert cube.count("CrossCoreSetFlag<2, PIPE_FIX>") == 1 and vector.count("CrossCoreSetFlag<2, PIPE_MTE2>") == 2
    three = parse_program(text.replace("grid [v in 2]", "grid [v in 3]"), "three")
    with pytest.raises(UnsupportedError, match="3 vector cores and 1 cube cores"):
        write_kernel(three, load())


def test_releases_and_products_have_their_spelling() -> None:
    program = program_of("vcmps", ("fp32", "fp32"))
    for release, compare in (("8.1", "CompareScalar("), ("8.5", "CompareScalar("), ("9.1", "Compares(")):
        source = write_kernel(program, load(), release).source
        assert compare in source and "\n#define AOEC_TBUF\n" in source  # Select is not for tensors made by address
    plain = program_of("vadd", ("fp32",) * 3)
    assert "\n#define AOEC_TBUF\n" in write_kernel(plain, load(), "8.1").source
    assert "\n#define AOEC_TBUF\n" not in write_kernel(plain, load(), "9.1").source
    assert "WholeReduceMax(" in write_kernel(program_of("vcmax", ("fp32", "fp32")), load(), "8.5").source
    assert "ReduceRepeat<ReduceType::MAX>(" in write_kernel(program_of("vcmax", ("fp32", "fp32")), load(), "9.1").source


def test_open_holes_are_refused() -> None:
    program = read("elementwise")
    space = replace(program.spaces[0], size_bytes=Hole("tm", (512, 1024)))
    with pytest.raises(CheckError, match=r"open holes \?tm"):
        write_kernel(replace(program, spaces=(space, *program.spaces[1:])), load())


@pytest.mark.parametrize("name", GOLDEN)
def test_nothing_of_a_hole_or_a_format_is_left(name: str) -> None:
    """The text has no open hole, no field of a template, and its brackets match."""
    source = write_kernel(read(name), load()).source
    assert "?" not in re.sub(r" \? [^:;]+ : ", " ", source) and "None" not in source
    for a, b in ("()", "{}", "[]"):
        assert source.count(a) == source.count(b)
    assert not re.search(r"\{(dst|src|mask|repeat)\d?\}", source)


def test_full_ub_leaves_no_room_for_a_comparison() -> None:
    program, size = program_of("vcmp", ("fp32",) * 3), load().scope("UB").size_bytes
    big = replace(program.spaces[0], size_bytes=Int(size - 8192 - 3 * 16384 + 16384))
    at = int(evaluate(big.size_bytes, {}))
    rest = tuple(replace(s, address=Int(at + i * 16384)) for i, s in enumerate(program.spaces[1:]))
    with pytest.raises(CapacityError, match=r"vcmp \(Compare, Select\) needs 64 bytes of UB besides the buffers"):
        write_kernel(replace(program, spaces=(big, *rest)), load())
    last = Space("last", "fp32", "UB", Int(size - 4096), Int(4096))
    with pytest.raises(CapacityError, match="last ends at byte 196,608 of UB, and calls of this kernel keep the last 8,192 bytes: vcmp"):
        write_kernel(replace(program, spaces=(*program.spaces, last)), load())


def test_names_that_mean_something_else_are_changed() -> None:
    text = show(read("elementwise")).replace("X[", "half[").replace("input X:", "input half:")
    source = write_kernel(parse_program(text, "x"), load()).source
    assert "GlobalTensor<half> half_2;" in source and "GM_ADDR half_gm" in source


def test_multiples_are_proved() -> None:
    i = Var("i")
    assert multiple(i * 32 + 64) == 32 and multiple(call("min", i * 64, 96)) == 32 and multiple(i + 32) == 1
    assert multiple(select(i, Int(96), Int(64))) == 32 and multiple(Int(0)) == 0


def test_emit_writes_source_and_manifest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "k.cpp"
    assert cli.main(["emit", str(KERNELS / "reduction.prog"), "--as", "ascendc", "--cann", "9.1", "-o", str(out)]) == 0
    facts = json.loads((tmp_path / "k.cpp.json").read_text())
    first = "// Kernel reduction for Ascend910B3 (product 2201), spelt for CANN 9.1; 3 blocks."
    assert facts["cann"] == "9.1" and out.read_text().startswith(first)
    assert cli.main(["emit", str(PROGRAMS / "vector.prog"), "--as", "ascendc"]) == 2
    assert "toy is of no product of Ascend C" in capsys.readouterr().err
    assert cli.main(["emit", str(KERNELS / "reduction.prog")]) == 2


def test_emit_takes_a_scheduled_func(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    funcs = PROGRAMS.parent / "funcs"
    scheduled = tmp_path / "e.tir"
    assert cli.main(["schedule", str(funcs / "elementwise.tir"), "--with", str(funcs / "elementwise.sched"), "-o", str(scheduled)]) == 0
    words = ["emit", str(scheduled), "--as", "ascendc", "--short", "-o", str(tmp_path / "a.cpp")]
    assert cli.main(words) == 2 and "a kernel has none; fill them with --set" in capsys.readouterr().err
    assert cli.main([*words, "--set", "t=64", "--set", "g=1", "--set", "d=2"]) == 0
    assert "aoec::copy_gm_ub(" in (tmp_path / "a.cpp").read_text()
