"""The folder of a job: names of files that any operator's name may become, and msprof's table, column by column."""
from __future__ import annotations

import csv
import json
from io import StringIO

from hypothesis import given
from hypothesis import strategies as st

from aoec.cann.op_summary import Launch, Operand, Part, csv_text
from aoec.report.results.folder import file_of, profile_of, summary_text
from aoec.report.results.opat import Outcome, Policy, Tuning
from tests.oracle.schemas import faults

ROWS = Operand((4, 40), "fp16", "ND")
CONV = Launch("conv", ("conv2d", "relu"), 1.0, 2.0, 0.5, (Operand((1, 16, 56, 56, 16), "fp16", "NC1HWC0"), Operand((8,), "fp32", "ND")),
              (ROWS,), {"aic": Part(20, 3600.0, {"M": 1800.0, "MTE2": 900.0})})
MIX = Launch("attention", ("attention",), 3.0, 1.0, 0.0, (ROWS,), (ROWS,),
             {"aic": Part(8, 1800.0, {"M": 450.0, "FIXP": 18.0}), "aiv": Part(16, 1800.0, {"V": 900.0, "MTE3": 180.0})})
HOST = Launch("unique", ("host.Unique",), 4.0, 20.0, 0.0, (Operand((9,), "int64", "ND"),), (Operand((), "opaque", "ND"),))
GOLDEN = """\
N/A,net,N/A,0,N/A,conv,conv2d+relu,static,AI_CORE,1,2,0.5,20,0,NO,"1,16,56,56,16;8",FLOAT16;FLOAT,NC1HWC0;ND,"4,40",FLOAT16,ND,N/A,\
2,72000,1,0.5,N/A,N/A,0,0,0.5,0.25,0,0,N/A,0,0,0,0,0,0,0,0,0,0,0,modelled
N/A,net,N/A,1,N/A,attention,attention,static,MIX_AIC,3,1,0,8,16,NO,"4,40",FLOAT16,ND,"4,40",FLOAT16,ND,N/A,\
1,14400,0.25,0.25,N/A,N/A,0,0,0,0,0.01,0.01,N/A,1,28800,0.5,0.5,N/A,N/A,0,0,0.1,0.1,N/A,modelled
N/A,net,N/A,2,N/A,unique,host.Unique,static,AI_CPU,4,20,0,0,0,NO,"9",INT64,ND,"",OPAQUE,ND,N/A,\
0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,modelled
"""
COMMON = ["aicore_time(us)", "aic_total_cycles", "aic_mac_time(us)", "aic_mac_ratio", "aic_mte2_ratio", "aic_fixpipe_time(us)",
          "aiv_time(us)", "aiv_vec_ratio", "aiv_mte3_time(us)", "Op Name", "OP Type", "Task Duration(us)", "Block Dim", "Mix Block Dim",
          "Input Shapes", "Output Formats", "source"]


def test_the_table_of_a_chip_of_two_kinds_of_cores() -> None:
    """1800 MHz: 3600 cycles are 2 µs, of each of 20 cores; what a task does not use is 0, what is not modelled N/A."""
    made = csv_text("net", [CONV, MIX, HOST], 1800.0, True)
    wanted = list(csv.reader(StringIO(GOLDEN)))
    assert [[w.strip('"') for w in row] for row in csv.reader(StringIO(made))][1:] == wanted
    assert set(COMMON) <= set(next(csv.reader(StringIO(made))))


def test_the_table_of_a_chip_of_one_kind() -> None:
    launch = Launch("conv", ("conv2d",), 0.0, 1.0, 0.0, (ROWS,), (ROWS,), {"core": Part(8, 1000.0, {"V": 250.0, "M": 500.0})})
    row, = csv.DictReader(StringIO(csv_text("net", [launch], 1000.0, False)))
    assert (row["aicore_time(us)"], row["total_cycles"], row["vec_ratio"], row["mac_time(us)"], row["mte3_ratio"], row["Task Type"]) == (
        "1", "8000", "0.25", "0.5", "0", "AI_CORE")
    assert not [name for name in row if name.startswith(("aic_", "aiv_"))]


@given(st.text(max_size=200), st.integers(0, 9999))
def test_any_name_is_that_of_a_file(name: str, number: int) -> None:
    folder, file = file_of(number, name).split("/")
    assert folder == "op_tuning" and file.isascii() and ".." not in file and len(file) < 80
    assert file_of(number, name) != file_of(number + 1, name)


def test_gears_have_tables_of_their_own() -> None:
    assert profile_of("after_tuning", "") == "profiling/after_tuning/op_summary.csv"
    assert profile_of("after_tuning", "8,448") == "profiling/after_tuning/op_summary_gear_8x448.csv"


def test_a_summary_of_a_job_that_did_not_end() -> None:
    said = json.loads(summary_text(Tuning("net", (Policy("a/b", ("add",), "Schedule", 2.0, 1.0, Outcome.ADD),)), "toy", "r.json", ()))
    assert faults("summary", said) == [] and said["status"] == "tuning incomplete" and "latency_after_ms" not in said
    assert faults("summary", said | {"status": "done"}) and faults("summary", said | {"more": 1})
