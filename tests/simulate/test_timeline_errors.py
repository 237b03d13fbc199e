"""What the timeline refuses: by a status of the row where values decide, by a sentence where the structure does."""
from __future__ import annotations

import numpy as np
import pytest
from aoec.kernels import timeline as kernel

from aoec.base.errors import CheckError, TargetError, UnsupportedError
from aoec.ir.text.parse import parse_program
from aoec.simulate.encode.encode import encode
from aoec.simulate.encode.sizes import VARIES
from aoec.simulate.encode.tables import DEPTH_RANGE
from aoec.simulate.timing.time import ERRORS, measure, time_rows
from aoec.target.machine import load

TOY = load("toy")
COPY = "copy_gm_ub(dst=X[0], src=A[0], bursts=1, length={}, src_gap=0, dst_gap=0)"


def program(body, grid="c in 1", counters="", require="", more=""):
    return parse_program(f"""program p for toy {{
  input A: fp16[512]
  space X: fp16 in UB at 0 size 1024
  {require}
  stream v aiv grid [{grid}] {counters} {{
{body}
  }}
  {more}
}}
""")


def status(p, **rows):
    return time_rows(encode(p, TOY), {n: np.array(v) for n, v in rows.items()}).status.tolist()


@pytest.mark.parametrize("body, code", [
    ("set(V, MTE2, 0)\nset(V, MTE2, 0)\nwait(V, MTE2, 0)", kernel.SET_ON_SET),
    ("wait(V, MTE2, 0)\nset(V, MTE2, 0)", kernel.WAIT_WITHOUT_SET),
    ("set(V, MTE2, 0)\nwait(V, MTE2, 1)", kernel.WAIT_WITHOUT_SET),
    ("set(V, MTE2, 0)\nwait(MTE2, V, 0)", kernel.WAIT_WITHOUT_SET),
    ("set(V, MTE2, 0)", kernel.LEFT_SET),
    ("set(V, MTE2, 4)\nwait(V, MTE2, 4)", kernel.FLAG_RANGE),
    ("set(V, MTE2, 3 - 4)\nwait(V, MTE2, 0)", kernel.FLAG_RANGE),
    # a set that comes while the wait before it still stands in the queue: the copy ahead of that wait takes 20 cycles
    (COPY.format(640) + "\nset(V, MTE2, 0)\nwait(V, MTE2, 0)\nset(V, MTE2, 0)\nwait(V, MTE2, 0)", kernel.SET_ON_SET),
])
def test_flags(body, code):
    assert status(program(body)) == [code]
    with pytest.raises(CheckError, match=ERRORS[code][:20]):
        measure(program(body), TOY)


def test_streams_that_wait_for_each_other():
    other = "stream u aic grid [m in 1] {{\n cross_wait(MTE2, v, 0)\n cross_set(MTE2, v, 0)\n }}".replace("{{", "{").replace("}}", "}")
    assert status(program("cross_wait(MTE2, u, 0)\ncross_set(MTE2, u, 0)", more=other)) == [kernel.DEADLOCK]
    assert status(program("cross_set(MTE2, u, 0)\ncross_wait(MTE2, u, 0)", more=other)) == [0]


def test_more_tokens_than_a_counter_holds():
    other = "stream u aic grid [m in 1] {{\n cross_wait(MTE2, v, 1)\n for j in {n} {{\n cross_wait(MTE2, v, 0)\n }}\n }}"
    for n, code in ((3, 0), (4, kernel.DEADLOCK)):
        body = f"for i in {n} {{\n cross_set(MTE2, u, 0)\n}}\ncross_set(MTE2, u, 1)"
        assert status(program(body, more=other.format(n=n))) == [code]


def test_core_counts_that_do_not_pair():
    other = "stream u aic grid [m in 3] {\n cross_wait(MTE2, v, 0)\n }"
    assert status(program("cross_set(MTE2, u, 0)", grid="c in 2", more=other)) == [kernel.UNPAIRED]


def test_grids_without_cores():
    bad = kernel.CORE_RANGE
    assert status(program(COPY.format(32), grid="c in ?g"), g=[0, 1, 5000, -1]) == [bad, 0, bad, bad]


def test_constraints_name_the_first_that_is_false():
    p = program(COPY.format("?t"), require='require ?t <= 1024 "fits"\n  require ?t % 32 == 0 "is whole blocks"')
    times = time_rows(encode(p, TOY), {"t": np.array([64, 2048, 33, 2049])})
    assert times.status.tolist() == [0, 1, 2, 1]
    assert times.reason(2, p) == "not legal: is whole blocks" and times.reason(0, p) == ""
    assert times.ticks[1] == 0


def test_no_row_is_legal():
    p = program(COPY.format("?t"), require='require ?t <= 1024 "fits"')
    times = time_rows(encode(p, TOY), {"t": np.array([2000, 3000])})
    assert times.status.tolist() == [1, 1] and times.ticks.tolist() == [0, 0]
    assert len(time_rows(encode(p, TOY), {"t": np.array([], int)}).ticks) == 0


def test_sizes_that_vary_in_the_middle_of_a_loop():
    assert status(program("for i in 5 {\n" + COPY.format("32 + 32*i*?s") + "\n}"), s=[0, 1]) == [0, VARIES]
    assert status(program("for i in 4 {\nfor j in i*?s + 1 {\n" + COPY.format(32) + "\n}\n}"), s=[0, 1]) == [0, VARIES]


def test_a_size_by_a_remainder_is_refused():
    with pytest.raises(UnsupportedError, match="varies with i by a remainder"):
        encode(program("for i in 8 {\n" + COPY.format("32 + 32*(i % 2)") + "\n}"), TOY)


def test_flag_ids_are_linear():
    with pytest.raises(UnsupportedError, match="advance"):
        encode(program("for i in 4 {\nset(V, MTE2, i % 2)\nwait(V, MTE2, i % 2)\n}"), TOY)
    with pytest.raises(CheckError, match="grid axis c"):
        encode(program("set(V, MTE2, c)\nwait(V, MTE2, c)", grid="c in 2"), TOY)


def test_depths():
    body = "set(V, MTE2, a)\nwait(V, MTE2, a)\nadvance(a)"
    assert status(program(body, counters="counters [a depth ?d]"), d=[1, 0, 2]) == [0, DEPTH_RANGE, 0]


def test_open_holes_and_other_machines():
    p = program(COPY.format("?t"))
    with pytest.raises(CheckError, match="nothing gives a value to t"):
        measure(p, TOY)
    with pytest.raises(CheckError, match="is for toy and the machine is Ascend910B3"):
        measure(p, load())
    with pytest.raises(CheckError, match="different lengths"):
        time_rows(encode(p, TOY), {"t": np.array([1, 2]), "u": np.array([1])})


def test_a_pipe_that_the_core_has_not():
    with pytest.raises(CheckError, match="pipe M is not on a core of kind aiv"):
        encode(program("set(M, V, 0)\nwait(M, V, 0)"), TOY)


def test_a_dtype_without_timing():
    text = """program p for toy {
  space A0: int32 in L0A at 0 size 512
  space B0: int32 in L0B at 0 size 512
  space C: int32 in L0C at 0 size 1024
  stream u aic grid [m in 1] {
    mmad(dst=C[0], a=A0[0], b=B0[0], m=16, n=16, k=8, init=1)
  }
}
"""
    with pytest.raises(UnsupportedError, match="no timing of mmad for int32"):
        encode(parse_program(text), TOY)


def test_unknown_cost():
    with pytest.raises(TargetError, match="did you mean vsqrt"):
        TOY.cost("vsqr")


def test_many_rows_of_a_program_that_does_nothing():
    idle = program("", grid="c in ?c")
    times = time_rows(encode(idle, TOY), {"c": np.full(200, 2)})
    assert set(times.ticks) == {measure(program("", grid="c in 2"), TOY).ticks} and not times.status.any()
