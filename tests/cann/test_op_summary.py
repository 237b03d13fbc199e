"""Profiles read and joined: what is written is read, every spelling says the same, and what no profile is, is refused with its place."""
from __future__ import annotations

import csv
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aoec.base.errors import AoecError, CheckError
from aoec.cann.op_summary import Launch, Operand, Part, csv_text
from aoec.cann.op_summary_join import Timed, Work, join, list_timed, work
from aoec.cann.op_summary_read import LIMIT_ROWS, parse, read
from aoec.cann.op_types import plain
from aoec.cli import main

HEAD = ["Op Name", "OP Type", "Task Type", "Task Duration(us)", "Block Dim", "Input Shapes", "Input Data Types", "Input Formats",
        "Output Shapes", "Output Data Types", "Output Formats", "aicore_time(us)", "aiv_time(us)"]
ROW = ["MatMul_0", "MatMulV2", "AI_CORE", "12.5", "20", '"128,768;768,3072"', "FLOAT16;DT_BF16", "ND;FRACTAL_NZ", '"128,3072"', "FLOAT",
       "ND", "10.25", "0"]


def table(*rows: list[str], head: list[str] = HEAD) -> bytes:
    out = StringIO()
    csv.writer(out).writerows([head, *rows])
    return out.getvalue().encode()


def changed(**cells: str) -> list[str]:
    named = {n.replace(" ", "_").split("(")[0]: i for i, n in enumerate(HEAD)}
    row = list(ROW)
    for name, value in cells.items():
        row[named[name]] = value
    return row


def test_a_row_is_read() -> None:
    (row,) = parse(table(ROW), "p.csv").rows
    assert (row.name, row.type, row.where, row.duration_us, row.cores, row.core_us, row.line) == (
        "MatMul_0", "MatMulV2", "AI_CORE", 12.5, 20, 10.25, 2)
    assert row.inputs == (Operand((128, 768), "fp16", "ND"), Operand((768, 3072), "bf16", "NZ"))
    assert row.outputs == (Operand((128, 3072), "fp32", "ND"),)


@pytest.mark.parametrize("old, new", [
    ("Block Dim", "Block Num"), ("OP Type", "Op Type"), ("Op Name", "Name"), ("OP Type", " type "), ("Task Type", "Accelerator Core"),
    ("Task Duration(us)", "Duration(us)"), ("Task Duration(us)", "Task Duration (μs)"), ("aicore_time(us)", "aic_time(us)")])
def test_every_spelling_says_the_same(old: str, new: str) -> None:
    found = parse(b"\xef\xbb\xbf" + table(ROW, head=[new if h == old else h for h in HEAD]), "p.csv")
    assert found.rows == parse(table(ROW), "p.csv").rows and not found.unread and found.kind == "measured"


@pytest.mark.parametrize("unit, cell", [("ns", "12500"), ("ms", "0.0125"), ("s", "1.25e-5")])
def test_units_are_the_headings(unit: str, cell: str) -> None:
    head = [f"Task Duration({unit})" if h.startswith("Task Duration") else h for h in HEAD]
    assert parse(table(changed(Task_Duration=cell), head=head), "p.csv").rows[0].duration_us == pytest.approx(12.5)


def test_what_is_not_used_is_said() -> None:
    found = parse(table([*ROW, "3"], [*changed(Task_Duration="N/A"), "4"], head=[*HEAD, "cube_utilization(%)"]), "p.csv")
    assert found.unread == ("cube_utilization(%)",) and found.passed_over == ((3, "no Task Duration(us)"),) and len(found.rows) == 1
    assert len(found.notes) == 2 and "cube_utilization" in found.notes[0] and "line 3" in found.notes[1]


@pytest.mark.parametrize("cells, words", [
    ({"Task_Duration": "-3"}, "Task Duration(us) is '-3'"), ({"Task_Duration": "nan"}, "'nan'"), ({"Task_Duration": "inf"}, "'inf'"),
    ({"Task_Duration": "fast"}, "'fast'"), ({"Block_Dim": "-2"}, "Block Dim is"), ({"Block_Dim": "2.5"}, "Block Dim is"),
    ({"Input_Shapes": '"-1,3"'}, "Input Shapes"), ({"Input_Shapes": "1,a"}, "is no shape"), ({"Output_Shapes": "9" * 20}, "is no shape"),
    ({"Output_Shapes": ",".join("1" * 17)}, "is no shape"), ({"Input_Shapes": ";".join("1" * 300)}, "300 inputs"),
    ({"Op_Name": ""}, "Op Name has 0"), ({"Op_Name": "x" * 3000}, "3,000 characters")])
def test_bad_cells_are_one_line_with_their_place(cells: dict[str, str], words: str) -> None:
    with pytest.raises(CheckError) as e:
        parse(table(ROW, changed(**cells)), "p.csv")
    assert words in str(e.value) and "p.csv: line 3" in str(e.value) and "\n" not in str(e.value) and len(str(e.value)) < 300


@pytest.mark.parametrize("data, words", [
    (b"", "lacks the columns op name"), (table(), "no task with a time"), (table(head=HEAD[:4]), "lacks the columns input shapes"),
    (table(ROW[:-1]), "12 cells"), (table(ROW, head=[*HEAD[:-1], "Name"]), "both say name"),
    (b"\x89PNG\r\n\x1a\n\0\xff", "not UTF-8"), (b"a\0b", "NUL"),
    (table(changed(Task_Duration="0")), "line 2"), (table(ROW) + b'"open', "no CSV"),
    (b",".join(b"c%d" % i for i in range(600)), "600 columns"), (b"Op Name\n" + b"x\n" * (LIMIT_ROWS + 5), "at most 200,000 tasks"),
    (table([*ROW, "modelled"], [*ROW, ""], head=[*HEAD, "source"]), "some rows say that they are modelled")])
def test_what_no_profile_is_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(CheckError, match=words) as e:
        parse(data, "p.csv")
    assert "\n" not in str(e.value)


@given(st.binary(max_size=300), st.integers(0, 500))
def test_damaged_files_are_read_or_refused(junk: bytes, at: int) -> None:
    whole = table(ROW, ROW)
    try:
        assert parse(whole[:at] + junk + whole[at + len(junk):], "p.csv").rows
    except AoecError as e:
        assert "\n" not in str(e)


operands = st.builds(Operand, st.lists(st.integers(0, 200), max_size=5).map(tuple), st.sampled_from(["fp16", "fp32", "bf16", "int8"]),
                     st.sampled_from(["ND", "NZ", "ZN", "NC1HWC0"]))
sides = st.lists(operands.filter(lambda o: o.shape), min_size=1, max_size=3).map(tuple)


@given(st.text("ab+/:", min_size=1, max_size=9), sides, sides, st.floats(0.001, 1e6), st.integers(1, 48))
def test_what_we_write_is_read(name: str, inputs: tuple[Operand, ...], outputs: tuple[Operand, ...], us: float, cores: int) -> None:
    launch = Launch(name, ("add", "relu"), 1.0, us, 0.5, inputs, outputs, {"aiv": Part(cores, us * 900, {"V": 1.0})})
    found = parse(csv_text("net", [launch], 1800.0, True).encode(), "p.csv")
    (row,) = found.rows
    assert found.kind == "modelled" and (row.name, row.type, row.inputs, row.outputs, row.cores) == (
        name, "add+relu", inputs, outputs, cores)
    assert row.duration_us == pytest.approx(us, abs=1e-6) and row.core_us == pytest.approx(us / 2, abs=2e-6)


# ---------------------------------------------------------------- join

@pytest.mark.parametrize("theirs, ours", [
    ("MatMulV3", "matmul"), ("BatchMatMulV2", "matmul"), ("MatMul", "matmul_packed"), ("Conv2D", "conv2d_packed"),
    ("TransposeD", "transpose"), ("LayerNormV4", "layer_norm"),
    ("SoftmaxV2", "softmax"), ("ReduceMeanD", "reduce_mean"), ("TransData", "to_nc1hwc0"),
    ("RealDiv", "div"), ("Gelu", "gelu_tanh"), ("FlashAttentionScore", "attention"), ("Add", "add"), ("RmsNorm", "rms_norm")])
def test_types_have_one_word(theirs: str, ours: str) -> None:
    assert plain(theirs) == plain(ours)


def test_an_operator_is_the_same_however_it_lies() -> None:
    rows = [Operand((100, 768), "fp16", "ND"), Operand((768, 3072), "fp16", "ND")], [Operand((100, 3072), "fp16", "ND")]
    fractals = [Operand((48, 7, 16, 16), "fp16", "NZ"), Operand((48, 192, 16, 16), "fp16", "ZN")], [Operand((192, 7, 16, 16), "fp16", "NZ")]
    folded = [Operand((2, 50, 768), "fp16", "ND"), Operand((3072, 768), "fp16", "ND")], [Operand((2, 50, 3072), "fp16", "ND")]
    wanted = Work("matmul", "fp16", (1, 112, 768, 3072))
    assert [work([t], *side) for t, side in (("MatMulV2", rows), ("matmul", fractals), ("BatchMatMul", folded))] == [wanted] * 3
    heads = [Operand((4, 12, 128, 64), "fp16", "ND"), Operand((4, 12, 64, 128), "fp16", "ND")], [Operand((4, 12, 128, 128), "fp16", "ND")]
    assert work(["BatchMatMul"], *heads) == Work("matmul", "fp16", (48, 128, 64, 128))
    five = [Operand((1, 4, 56, 56, 16), "fp16", "NC1HWC0"), Operand((36, 4, 16, 16), "fp16", "ZN")]
    image = [Operand((1, 64, 56, 56), "fp16", "NCHW"), Operand((64, 64, 3, 3), "fp16", "NCHW")]
    assert work(["Conv2D"], five, [replace(five[0], shape=(1, 4, 28, 28, 16))]) == work(
        ["conv2d", "relu"], image, [replace(image[0], shape=(1, 64, 28, 28))]) == Work("conv2d", "fp16", (1, 56, 56, 64, 28, 28, 64, 576))
    assert work(["Add"], [], []) is None and work(["MatMul"], [heads[0][0]] * 2, [Operand((3,), "fp16", "ND")]) is None


sizes = st.integers(1, 5000)


@given(sizes, sizes, sizes, st.sampled_from(["fp16", "fp32"]))
def test_other_sizes_are_other_work(m: int, k: int, n: int, dtype: str) -> None:
    def product(m: int, k: int, n: int) -> Work | None:
        return work(["MatMulV2"], [Operand((m, k), dtype, "ND"), Operand((k, n), dtype, "ND")], [Operand((m, n), dtype, "ND")])

    assert product(m, k, n) != product(m, k + 16, n) and product(m, k, n) != product(m, k, n + 16)
    assert product(m, k, n) == product(m, k, n)


def test_the_nearest_of_several_is_joined() -> None:
    a, y = Operand((64, 64), "fp16", "ND"), Operand((64, 64), "fp16", "ND")
    theirs = Timed(("MatMulV2",), (a, a), (y,), 2.0, "measured")
    wide, packed, plain_one = (replace(theirs, types=("matmul",), kind="modelled", **of) for of in (
        {"outputs": (replace(y, dtype="fp32"),)}, {"inputs": (a, Operand((4, 4, 16, 16), "fp16", "ZN"))}, {}))
    assert join([theirs], [wide, packed, plain_one]) == [(0, 2)] and join([theirs], [wide, packed]) == [(0, 1)] and join([theirs], []) == []
    assert join([theirs], [replace(theirs, outputs=(Operand((50, 64), "fp16", "ND"),))]) == []


def test_calls_of_one_operator_are_one() -> None:
    rows = table(ROW, changed(Task_Duration="20", Op_Name="b"), changed(Task_Duration="14"), changed(OP_Type="Add"))
    found = list_timed(parse(rows, "p.csv"))
    assert [(t.us, t.calls, t.names, t.least_us, t.most_us) for t in found] == [
        (14.0, 3, ("MatMul_0", "b"), 12.5, 20.0), (12.5, 1, ("MatMul_0",), 12.5, 12.5)]


def test_two_profiles_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    theirs, ours = tmp_path / "theirs.csv", tmp_path / "ours.csv"
    add = changed(OP_Type="Add", Op_Name="small", Task_Duration="1", Input_Shapes='"8,8;8,8"', Output_Shapes='"8,8"')
    theirs.write_bytes(table(add, changed(Op_Name="a\x1b[2J"), changed(OP_Type="Cast", Op_Name="cast", Task_Duration="7.5")))
    operands = tuple(Operand(s, "fp16", "ND") for s in ((128, 768), (768, 3072)))
    ours.write_text(csv_text("net", [Launch("m", ("matmul", "relu"), 0.0, 10.0, 0.0, (operands[0], replace(operands[1], dtype="bf16")), (
        Operand((128, 3072), "fp32", "ND"),)), Launch("s", ("add",), 0.0, 2.0, 0.0, (Operand((8, 8), "fp16", "ND"),) * 2, (
            Operand((8, 8), "fp32", "ND"),))], 1800.0, True))
    assert main(["explain", "--op-summary", str(theirs), str(ours)]) == 0
    said = capsys.readouterr().out
    assert said.index("matmul 128x768x3072") < said.index("add 8x8->8x8") and "\x1b" not in said
    assert "theirs.csv (measured), 3" in said and "(modelled), 2" in said and "cast" in said
    assert "64.3% of theirs and 100.0% of ours" in said
    assert main(["explain", "--op-summary", str(theirs)]) == 2 and main(["explain", "--op-summary", str(tmp_path), str(ours)]) == 2
    assert all(line.startswith("aoec: error: ") for line in capsys.readouterr().err.splitlines())


def test_a_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "op_summary.csv"
    path.write_bytes(table(ROW))
    assert read(path).source == str(path) and len(read(path).digest) == 16
