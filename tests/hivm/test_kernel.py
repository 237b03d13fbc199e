"""HIVM texts: golden ones, what they compute by an interpreter of the text, and what is refused."""
from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aoec import cli
from aoec.base.errors import CapacityError, CheckError, UnsupportedError
from aoec.hivm.kernel import cores_of, write_module
from aoec.hivm.words import table
from aoec.ir.index import Hole, Int, Var
from aoec.ir.program import For, Instr, Program, SetFlag, WaitFlag
from aoec.ir.text.parse import parse_program
from aoec.ir.text.simplify import simplify
from aoec.simulate.values.values import execute
from aoec.target.isa.instructions import INSTRUCTIONS, added_to
from aoec.target.machine import load
from tests.ascendc.test_groups import FEW, blank, draw, groups
from tests.ascendc.words import VECTOR, dtypes_of, feeds, program_of
from tests.hivm.interpret import launch
from tests.lowering.groups import MODELS

KERNELS = Path(__file__).parent / "kernels"
GOLDEN = ("elementwise", "reduction", "softmax", "casts", "matmul_bias_relu", "two_streams")
# which NumPy rounds in its own way, or adds up in another order
INEXACT = ("vexp", "vln", "vsqrt", "vrsqrt", "vrec", "vdiv", "vcadd", "vcgadd")
CARRIED = 0.75  # of the groups, at least


def program(name: str) -> Program:
    return simplify(parse_program((KERNELS / f"{name}.prog").read_text(), name))


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name: str) -> None:
    assert write_module(program(name), load()) == (KERNELS / f"{name}.mlir").read_text()


# ---------------------------------------------------------------- values

def run(text: str, p: Program, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What a text writes, by the interpreter of texts."""
    zeros = added_to(p)
    arrays = [given[t.name].copy() if t.role == "input" else blank(t, t.name in zeros) for t in p.tensors]
    launch(text, arrays, min(cores_of(s) for s in p.streams))
    return {t.name: a for t, a in zip(p.tensors, arrays) if t.role == "output"}


def assert_same(p: Program, given: dict[str, np.ndarray], text: str = "") -> None:
    """The outputs are those of the model machine: bit for bit, or nearly where NumPy rounds otherwise."""
    got, wanted = run(text or write_module(p, load()), p, given), execute(p, given)
    words = {i.op for i in instructions(p)}
    for name, x in got.items():
        want = wanted[name].ravel()
        if not words.isdisjoint(INEXACT):
            assert np.allclose(x.astype(np.float64), want.astype(np.float64), rtol=4e-3, atol=4e-3, equal_nan=True), f"{name} of {p.name}"
        else:
            assert x.tobytes() == want.tobytes(), f"{name} of {p.name}"


def instructions(p: Program) -> list[Instr]:
    def walk(items: tuple[object, ...]) -> list[Instr]:
        return [i for item in items for i in (walk(item.body) if isinstance(item, For) else [item] if isinstance(item, Instr) else [])]
    return [i for s in p.streams for i in walk(s.body)]


@pytest.mark.parametrize("name", GOLDEN)
def test_values(name: str) -> None:
    p = program(name)
    assert_same(p, draw(p))


def is_carried(p: Program) -> bool:
    """Whether a program has a text, with the values of the model machine; else the refusal names an instruction."""
    try:
        text = write_module(p, load())
    except UnsupportedError as e:
        assert str(e).split(" ")[0] in INSTRUCTIONS and "not carried by the words of HIVM" in str(e), str(e)
        return False
    assert_same(p, draw(p), text)
    return True


@pytest.mark.parametrize("model", [m for m in FEW if m not in ("conv32", "max_pool")])
def test_values_of_groups(model: str) -> None:
    for p in groups(model, "Ascend910B3"):
        is_carried(p)


@pytest.mark.slow
def test_share_of_groups() -> None:
    """Printed with -s."""
    found = [is_carried(p) for model in MODELS for p in groups(model, "Ascend910B3")]
    print(f"{sum(found)} of {len(found)} groups have an HIVM text")
    assert sum(found) / len(found) >= CARRIED


def whole_blocks(p: Program) -> Program:
    """A program of one instruction whose blocks lie one behind the other, for ops that take rows."""
    def plain(i: Instr) -> Instr:
        given = {k: Int(1) if k.endswith("_blk") else v for k, v in i.fields}
        more = {"dst_rep": Int(8)} if i.op == "vbrcb" else {"lanes": Int(32)} if i.op in ("vreducev2", "vcgadd", "vcgmax", "vcgmin") else {}
        return Instr(i.op, tuple((given | more).items()))
    stream = p.streams[0]
    return replace(p, streams=(replace(stream, body=tuple([plain(i) if isinstance(i, Instr) else i for i in stream.body])),))


def check_instruction(op: str, most: int) -> int:
    """Programs of one instruction have the values of the model machine, for the dtypes that have a text; how many have."""
    done = 0
    for dtypes in dtypes_of(op):
        drawn = program_of(op, dtypes, done)
        for p in (drawn, whole_blocks(drawn)):
            try:
                text = write_module(p, load())
            except UnsupportedError as e:
                assert str(e).startswith(f"{op} is not carried by the words of HIVM"), str(e)
                continue
            if "bf16" not in dtypes:
                assert_same(p, feeds(p), text)
            done += 1
        if done >= most:
            break
    return done


@pytest.mark.parametrize("op", ["vadd", "vconv", "vnchwconv", "vcmax", "vcopy", "vbrcb"])
def test_values_of_a_vector_instruction(op: str) -> None:
    assert check_instruction(op, 2)


@pytest.mark.slow
@pytest.mark.parametrize("op", VECTOR)
def test_values_of_every_vector_instruction(op: str) -> None:
    """All dtypes: lanes, repeats and strides drawn. What the table says is lacking has no text."""
    assert bool(check_instruction(op, 99)) != bool(table().words[op].lacks)


# ---------------------------------------------------------------- faults show

def mutants() -> list[tuple[str, str, str]]:
    """(program, what stands in its text, what stands there in a faulty one)."""
    return [("elementwise", "hivm.hir.set_flag[<PIPE_MTE2>, <PIPE_V>", "// "), ("elementwise", "%c2048_i64 = arith.constant 2048",
                                                                                "%c2048_i64 = arith.constant 196000"),
            ("matmul_bias_relu", "{b_transpose} ", ""), ("matmul_bias_relu", "hivm.hir.fixpipe", "// "),
            ("softmax", "vreduce <sum>", "vreduce <max>"), ("two_streams", "arith.constant 512 : index", "arith.constant 480 : index")]


@pytest.mark.parametrize("name, there, instead", mutants())
def test_a_fault_shows(name: str, there: str, instead: str) -> None:
    p, text = program(name), (KERNELS / f"{name}.mlir").read_text()
    assert there in text
    with pytest.raises((AssertionError, IndexError, KeyError, ValueError)):
        assert_same(p, draw(p), text.replace(there, instead, 1))


# ---------------------------------------------------------------- refusals

def changed(name: str, op: str, **fields: object) -> Program:
    """A program with other fields of each instruction of a name."""
    def walk(items: tuple[object, ...]) -> tuple[object, ...]:
        return tuple([replace(i, body=walk(i.body)) if isinstance(i, For) else
                      Instr(i.op, tuple([(k, fields.get(k, v)) for k, v in i.fields])) if isinstance(i, Instr) and i.op == op else i
                      for i in items])
    p = program(name)
    return replace(p, streams=tuple([replace(s, body=walk(s.body)) for s in p.streams]))  # type: ignore[arg-type]


def refused(p: Program) -> str:
    with pytest.raises(UnsupportedError) as e:
        write_module(p, load())
    assert "\n" not in str(e.value)
    return str(e.value)


@pytest.mark.parametrize("p, words", [
    (changed("elementwise", "vadd", dst_rep=Var("t")), ("vadd", "(vadd)", "dst_rep = t", "known only when the kernel runs")),
    (changed("elementwise", "vadd", dst_rep=Int(0)), ("vadd", "no order of its rows")),
    (changed("elementwise", "copy_gm_ub", length=Int(33)), ("copy_gm_ub", "length", "whole elements")),
    (changed("matmul_bias_relu", "load3d", stride_w=Int(2)), ("load3d", "windows of an image")),
    (changed("matmul_bias_relu", "load_l0b", src_stride=Int(3), repeat=Int(7)), ("load_l0b", "not that of one tile in L1")),
])
def test_refused_with_a_sentence(p: Program, words: tuple[str, ...]) -> None:
    said = refused(p)
    assert said.split(" ")[0] == words[0] and all(w in said for w in words), said


def without_first(p: Program, op: str) -> Program:
    """A program without its loads of a name."""
    def walk(items: tuple[object, ...]) -> tuple[object, ...]:
        return tuple([replace(i, body=walk(i.body)) if isinstance(i, For) else i for i in items
                      if not (isinstance(i, Instr) and i.op == op)])
    return replace(p, streams=tuple([replace(s, body=walk(s.body)) for s in p.streams]))  # type: ignore[arg-type]


def test_a_product_without_its_loads_is_refused() -> None:
    assert "a is filled by no loads" in refused(without_first(program("matmul_bias_relu"), "load3d"))


def test_tile_that_is_given_back_is_given_back_later() -> None:
    """What frees a buffer in L1 behind a load to L0 stands behind the product in the text; where it cannot, the program is refused."""
    text = (KERNELS / "two_streams.mlir").read_text()
    lines = [line for line in text.splitlines() if "mmadL1" in line or "set(MTE1, MTE2, 0)" in line]
    assert "mmadL1" in lines[-2] and "set(MTE1, MTE2, 0)" in lines[-1]
    p = program("two_streams")
    cube = p.streams[0]

    def walk(items: tuple[object, ...]) -> tuple[object, ...]:
        out: list[object] = []
        for i in items:
            out.append(replace(i, body=walk(i.body)) if isinstance(i, For) else i)
            if isinstance(i, SetFlag) and (i.source, i.target) == ("MTE1", "MTE2"):
                out += [WaitFlag("MTE1", "MTE2", i.id), SetFlag("MTE1", "MTE2", i.id)]
        return tuple(out)
    with pytest.raises(UnsupportedError, match="given back before the product"):
        write_module(replace(p, streams=(replace(cube, body=walk(cube.body)), p.streams[1])), load())  # type: ignore[arg-type]


def test_other_products_and_open_holes_are_refused() -> None:
    p = program("elementwise")
    for target in ("Ascend310P3", "Ascend910A", "Ascend950PR_957x"):
        with pytest.raises(UnsupportedError, match="2201"):
            write_module(p, load(target))
    with pytest.raises(CheckError, match="open holes"):
        write_module(changed("elementwise", "vadd", repeat=Hole("r", (1, 2))), load())


def test_zeros_for_a_bias_must_fit() -> None:
    p = program("matmul_bias_relu")
    last = [replace(s, address=Int(524288 - 512)) if s.name.startswith("bias") and s.scope == "L1" else s for s in p.spaces]
    with pytest.raises(CapacityError, match="product of zeros"):
        write_module(replace(p, spaces=tuple(last)), load())


def test_the_head_says_what_is_lost() -> None:
    head = re.match(r"(?://.*\n)+", (KERNELS / "matmul_bias_relu.mlir").read_text())
    assert head and all(w in head[0] for w in ("never run on an NPU", "library's own", "UnitFlag is off", "product of zeros"))


def test_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.main(["emit", str(KERNELS / "casts.prog"), "--as", "hivm"]) == 0
    assert capsys.readouterr().out == (KERNELS / "casts.mlir").read_text()
    bad = tmp_path / "bad.prog"
    bad.write_text((KERNELS / "elementwise.prog").read_text().replace("bursts=1, length=min(256, 1000 - t*256)*2", "bursts=1, length=33"))
    out = tmp_path / "bad.mlir"
    assert cli.main(["emit", str(bad), "--as", "hivm", "-o", str(out)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "copy_gm_ub is not carried" in said and not out.exists()
