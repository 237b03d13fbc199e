"""Tables of hccl_test and nccl-tests: read with what stands around them, and refused with the line."""
from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aoec.base.errors import CheckError
from aoec.collectives.hccl_test import read

HEAD = "data_size(Bytes):    |  aveg_time(us):  | alg_bandwidth(GB/s):  | check_result:"
# the rows of the sample in the vendor's page, and log lines as MPI tags them
SAMPLE = f"""$ mpirun -n 8 ./bin/all_reduce_test -b 8K -e 64M -f 2 -d fp32 -o sum -p 8
the minbytes is 8192, maxbytes is 67108864, iters is 20, warmup_iters is 5
{HEAD}
8192                 |  764.55          |  0.01                 | success
1048576              |  1778.3          |  0.59                 | success
[W] a line of a log | that is no row
16777216             |  1940.9          |  8.64                 | success
[1,0]<stdout>:33554432 |  1714.85       |  19.57                | NULL
67108864             |  2630.2          |  25.51                | success
"""
NCCL = """# nThread 1 nGpus 2 minBytes 8 maxBytes 67108864 step: 2(factor) warmup iters: 5 iters: 20
# Collective test starting: all_gather_perf
# Using devices
#  Rank  0 Group  0 Pid   1 on host device  0 [0x01] X
#  Rank  1 Group  0 Pid   2 on host device  1 [0x02] X
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           0             0     float    none      -1     5.00    0.00    0.00      0     5.00    0.00    0.00      0
        1024           256     float    none      -1    10.00    0.10    0.05      0     9.00    0.11    0.06      0
     1048576        262144     float    none      -1   100.00   10.49    5.24    N/A    99.00   10.59    5.30    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 1.0
"""


def test_the_sample_of_the_page() -> None:
    system = read(SAMPLE, "log.txt")
    assert system.ranks == 8 and system.us("all_reduce", [8192, 1048576, 67108864]).tolist() == pytest.approx([764.55, 1778.3, 2630.2])
    assert system.us("all_reduce", 12 << 20) == pytest.approx(1778.3 + (1940.9 - 1778.3) * 11 / 15)
    assert system.us("all_reduce", 100) == pytest.approx(764.55)
    assert system.us("all_reduce", 1 << 30) > 10 * 2630.2 / 2
    assert system.us("all_gather", 1048576) == pytest.approx(1778.3 / 2)
    assert {s.collective: s.confidence for s in system.statements} == {
        "all_reduce": "measured", "reduce_scatter": "inferred", "all_gather": "inferred"}
    assert system.notes == ("1 rows were not checked by the program (NULL)",)


def test_a_run_for_each_collective() -> None:
    rows = "1000 | {us} | {bandwidth:.5f} | success\n1000 | {us} | {bandwidth:.5f} | NULL"
    text = "\n".join(f"mpirun -np 4 /opt/{op}_test -b 8 -e 8\n{HEAD}\n" + rows.format(us=us, bandwidth=1 / us)
                     for op, us in (("reduce_scatter", 5.0), ("all_gather", 4.0), ("alltoall", 9.0)))
    system = read(text, "log.txt")
    assert system.ranks == 4
    assert [float(system.us(op, 1000)) for op in ("reduce_scatter", "all_gather", "all_reduce")] == pytest.approx([5, 4, 9])
    assert any("the table of alltoall is not used" in n for n in system.notes)


def test_medians_of_equal_sizes() -> None:
    rows = "".join(f"4000 | {us} | {4 / us:.6f} | success\n" for us in (10.0, 30.0, 11.0))
    system = read(f"all_reduce_test\n{HEAD}\n{rows}", "x", ranks=2)
    assert system.us("all_reduce", 4000) == 11.0 and system.ranks == 2
    assert "medians of up to 3 rows" in system.statements[0].says


def test_nccl_tests() -> None:
    system = read(NCCL, "nccl.log")
    assert system.ranks == 2 and system.us("all_gather", [1024, 1048576]).tolist() == [10.0, 100.0]
    assert "all_reduce" not in system.curves


def test_a_table_without_a_command() -> None:
    text = f"{HEAD}\n1000 | 10 | 0.1 | success"
    system = read(text, "x")
    assert "taken for all_reduce" in system.notes[0] and "number of ranks is not in the text" in system.notes[1] and system.ranks == 1
    assert read(text, "x", collective="all_gather").us("all_gather", 1000) == 10


@pytest.mark.parametrize(("change", "words"), [
    (("0.59                 | success", "0.59                 | failed"), r"line 5: 1,048,576 bytes: .* failed \(failed\)"),
    (("0.59                 | success", "0.59                 | perhaps"), "line 5: .* says perhaps, not success"),
    (("1778.3 ", "-1778.3 "), "line 5: 1048576 bytes in -1778.3 us cannot be"),
    (("1778.3 ", "nan "), "line 5: 1048576 bytes in nan us cannot be"),
    (("1778.3 ", "17x "), "line 5: 1048576 bytes in 17x us is no row"),
    (("8.64 ", "86.4 "), "line 7: 16,777,216 bytes in 1940.9 us are 8.64 GB/s, and the row says 86.4"),
    (("all_reduce_test", "alltoall_test"), "no table .*the table of alltoall is not used"),
    (("data_size", "size"), "no table of hccl_test"),
])
def test_damaged_tables(change: tuple[str, str], words: str) -> None:
    with pytest.raises(CheckError, match=words) as error:
        read(SAMPLE.replace(*change), "log.txt")
    assert str(error.value).startswith("log.txt: ") and "\n" not in str(error.value)


def test_ranks_that_contradict() -> None:
    with pytest.raises(CheckError, match="start 8 ranks, not 4"):
        read(SAMPLE, "x", ranks=4)
    with pytest.raises(CheckError, match=r"different counts of ranks \(8, 16\)"):
        read(SAMPLE + SAMPLE.replace("-n 8", "-n 16"), "x")
    with pytest.raises(CheckError, match="no collective; did you mean all_reduce"):
        read(SAMPLE, "x", collective="allreduce")


def test_a_failed_row_of_nccl_tests() -> None:
    with pytest.raises(CheckError, match=r"line 10: 1,024 bytes: .* failed"):
        read(NCCL.replace("0.10    0.05      0 ", "0.10    0.05      7 "), "x")


@given(st.lists(st.tuples(st.integers(1, 1 << 40), st.floats(0.01, 1e9)), min_size=1, max_size=20, unique_by=lambda r: r[0]))
def test_what_is_printed_is_read(rows: list[tuple[int, float]]) -> None:
    text = f"mpirun -n 2 all_reduce_test\n{HEAD}\n" + "".join(f"{s} | {us!r} | {s / us / 1e3:.5f} | success\n" for s, us in rows)
    system = read(text, "x")
    assert [float(system.us("all_reduce", s)) for s, _ in rows] == pytest.approx([us for _, us in rows], rel=1e-6)


@given(st.text(st.sampled_from("0123456789|. \n#eE+-data_size(Bytes)time(us)failednull"), max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(CheckError):
        read(f"{HEAD}\n{text}", "x")
