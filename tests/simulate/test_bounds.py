"""Programs from strangers: what would leave memory, never end, or says no number, is refused with a sentence before anything happens."""
from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from aoec.kernels import tile

from aoec.base.errors import CheckError
from aoec.base.process import stop
from aoec.cli import main
from aoec.ir.index import Int, Var, binary
from aoec.ir.program import For, Instr, Program, Ref, Space, Stream, Tensor
from aoec.ir.text.parse import parse_program
from aoec.ir.text.show import show
from aoec.jobs import interrupt
from aoec.simulate.encode.encode import encode
from aoec.simulate.reasons.detail import walk
from aoec.simulate.timing.state import COLD
from aoec.simulate.timing.time import measure, time_rows
from aoec.simulate.values.values import Executable, execute
from aoec.target.isa.evaluate import evaluate_program
from aoec.target.isa.instructions import INSTRUCTIONS
from aoec.target.machine import load

MOVE = "bursts=1, length=128, src_gap=0, dst_gap=0"


def copies(loop: str, offset: str = "0", more: str = "") -> Program:
    """A program that copies 64 numbers in and out, again and again."""
    return parse_program(f"""program copies for Ascend910B3 {{
      input X: fp16[64]
      output Y: fp16[64]
      space S: fp16 in UB at 0 size 1024 depth 2
      stream s aiv grid [c in 1] {{
        {loop} {{
          copy_gm_ub(dst=S[0], src=X[0], {MOVE})
          set(MTE2, MTE3, 0)
          wait(MTE2, MTE3, 0)
          copy_ub_gm(dst=Y[{offset}], src=S[0], {MOVE})
          set(MTE3, MTE2, 1)
          wait(MTE3, MTE2, 1)
          {more}
        }}
      }}
    }}""")


X = {"X": np.arange(64, dtype=np.float16)}


# ---------------------------------------------------------------- bounds

def product(op: str, m: int, n: int, k: int, offset: int) -> Program:
    """An int8 product whose operands begin `offset` elements into their buffers, and what L0C holds then."""
    spaces = tuple(Space(name, dtype, scope, Int(0), Int(4096), Int(1)) for name, dtype, scope in (
        ("a", "int8", "L0A"), ("b", "int8", "L0B"), ("c", "int32", "L0C"), ("bias", "int32", "BT")))
    numbers = {"m": m, "n": n, "k": k, "init": 1, "unit": 0}
    operands = {"dst": "c", "a": "a", "b": "b", "bias": "bias"}
    word = INSTRUCTIONS[op]
    fields = [(o.name, Ref(operands[o.name], Int(offset * 4096))) for o in word.operands]
    mmad = Instr(op, (*fields, *[(n_, Int(v)) for n_, v in numbers.items()]))
    out = {"m": 16, "n": 16, "src_rows": 16, "dst_stride": 16, "relu": 0, "unit": 0, "atomic": 0}
    fixpipe = Instr("fixpipe_nd", (("dst", Ref("Y", Int(0))), ("src", Ref("c", Int(0))), *[(n_, Int(v)) for n_, v in out.items()]))
    return Program("p", "toy", (Tensor("Y", "int32", (Int(256),), "output"),), spaces, (Stream("s", "aic", (), (), (mmad, fixpipe)),))


@pytest.mark.parametrize("op", ["mmad", "mmad_bias"])
@pytest.mark.parametrize("m, n, k", [(16, 16, 0), (16, 0, 32), (0, 16, 32), (4095, 4095, 0)])
def test_an_empty_product_of_bytes_touches_nothing(op, m, n, k):
    """Wherever its operands are said to lie."""
    for offset in (0, 1 << 40):
        p = product(op, m, n, k, offset)
        assert np.array_equal(execute(p, {})["Y"], np.full(256, -1))  # what nothing has written
        if not offset:
            assert np.array_equal(execute(p, {})["Y"], evaluate_program(p, {})["Y"])


@pytest.mark.parametrize("word", ["fixpipe_nd", "fixpipe_nz"])
@pytest.mark.parametrize("m, n", [(0, 16), (16, 0), (0, 0)])
def test_a_fixpipe_of_nothing_writes_nothing(word, m, n):
    for dtype in ("fp32", "fp16"):
        numbers = {"m": m, "n": n, "src_rows": 16, "dst_stride": 16, "relu": 1, "unit": 0, "atomic": 0}
        item = Instr(word, (("dst", Ref("Y", Int(0))), ("src", Ref("c", Int(0))), *[(n_, Int(v)) for n_, v in numbers.items()]))
        p = Program("p", "toy", (Tensor("Y", dtype, (Int(256),), "output"),), (Space("c", "fp32", "L0C", Int(0), Int(1024), Int(1)),),
                    (Stream("s", "aic", (), (), (item,)),))
        assert np.isnan(execute(p, {})["Y"].astype(np.float32)).all()


@pytest.mark.parametrize("offset", [1, 64, 2**40, 2**61, 2**62, 2**63 - 64, 2**63 - 1, -1, -2**63])
def test_an_offset_is_refused_however_large(offset):
    """In elements: 2^61 of eight bytes, or 2^63 - 64 and what is touched behind, are 0 and less in 64 bits."""
    with pytest.raises(CheckError, match=r"reaches byte .* of Y, which has 128 bytes"):
        execute(copies("for i in 1", str(offset)), X)


@pytest.mark.parametrize("expression", ["i * 4611686018427387904 * 4", "(i + 9223372036854775807) * 2 + 2",
                                        "abs(-9223372036854775807 - i - 1)",
                                        "(-9223372036854775807 - i) // (i - 2)"])
def test_a_sum_that_leaves_64_bits_is_no_other_number(expression):
    """In the last iteration; the numbers that are left in 64 bits are 0 or so, which would be taken."""
    p = copies("for i in ceildiv(2, 1 + (c < 0))", f"select(i < 1, 0, {expression})")
    with pytest.raises(CheckError, match=r"64 bits|reaches byte"):
        execute(p, X)


def test_numbers_of_many_digits_are_refused():
    p = copies("for i in 1")
    big = binary("*", binary("*", Int(2**62), Var("c")), Int(2**40))
    items = p.streams[0].body[0].body
    ref = Ref("Y", binary("+", big, Int(2**70)))
    changed = [Instr(i.op, (("dst", ref), *i.fields[1:])) if isinstance(i, Instr) and i.op == "copy_ub_gm" else i for i in items]
    stream = Stream("s", "aiv", p.streams[0].grid, (), (For("i", Int(1), tuple(changed)),))
    with pytest.raises(CheckError, match="does not fit 64 bits"):
        execute(Program(p.name, p.target, p.tensors, p.spaces, (stream,)), X)


@pytest.mark.parametrize("text, change, words", [
    ("c in 1", "c in 1000000000", "runs on 1,000,000,000 cores; at most 4,096"),
    ("size 1024 depth 2", "size 1024 depth 1000000000000", "bytes on chip for each of 1 cores"),
    ("input X: fp16[64]", "input X: fp16[9000000000000000000]", "take 18,000,000,000,000,000,128 bytes"),
])
def test_memory_and_cores_have_a_limit(text, change, words):
    shown = show(copies("for i in 1"))
    assert text in shown
    with pytest.raises(CheckError, match=words):
        Executable(parse_program(shown.replace(text, change)))


# ---------------------------------------------------------------- programs that never end

@pytest.fixture
def most_steps():
    yield stop.allow
    stop.allow(stop.MOST_STEPS)


@pytest.mark.parametrize("more", ["", "for j in 1000000000000000000 { }"])
def test_a_program_that_never_ends_is_stopped(most_steps, more):
    most_steps(100_000)
    for loop in ("for i in 1000000000000000000", "for i in 2"):
        if not more and loop.endswith("2"):
            continue
        with pytest.raises(CheckError, match=r"takes more than 100,000 steps.*--most-steps N allows more"):
            execute(copies(loop, more=more), X)


def test_the_limit_is_of_all_cores_together_whatever_the_threads(most_steps):
    """Of 8 cores, each with 2 rows of code around a loop of 100 times 3: the copies and the end of the iteration."""
    p = copies("for i in 100")
    p = Program(p.name, p.target, p.tensors, p.spaces, (Stream("s", "aiv", (("c", Int(8)),), (), p.streams[0].body),))
    made = Executable(p)
    for threads in (1, 2):
        found = []
        for limit in range(2400, 2450):
            most_steps(limit)
            try:
                found.append(bool(made.run(X, threads)))
            except CheckError:
                found.append(False)
        first = found.index(True)
        assert first > 0 and all(found[first:]) and not any(found[:first])
        assert 2400 + first == 8 * (1 + 100 * 3 + 1)


def test_a_walk_without_end_is_stopped(most_steps):
    """The walk for time takes steps in one leap; the events of a core are walked one by one."""
    machine = load()
    program = copies("for i in 1000000000000", more="for j in 3 { }")
    assert measure(program, machine).cycles > 1e14
    most_steps(100_000)
    with pytest.raises(CheckError, match="takes more than 100,000 steps"):
        walk(encode(program, machine), COLD).log(0, 0, 10)
    assert not time_rows(encode(program, machine), {}).status[0]
    with pytest.raises(CheckError, match="longer than is counted"):
        measure(copies("for i in 1000000000000000000"), machine)


def test_the_limit_is_an_option(most_steps, tmp_path, capsys):
    (tmp_path / "g.prog").write_text(show(copies("for i in 100000", more="for j in 3 { }")) + "\n", "utf-8")
    assert main(["explain", str(tmp_path / "g.prog"), "--most-steps", "1000", "-o", str(tmp_path / "out")]) == 2
    assert "takes more than 1,000 steps" in capsys.readouterr().err and not (tmp_path / "out").exists()
    assert main(["explain", str(tmp_path / "g.prog"), "--most-steps", "1000000000000", "-o", str(tmp_path / "out")]) == 0


INTERRUPTED = """
import signal, sys, threading, time
import numpy as np
from aoec.base.process import stop
sys.path.insert(0, {here!r})
from test_bounds import X, copies, execute, walk, encode, load, COLD
stop.allow(10**18)
execute(copies("for i in 2"), X)
measured = walk(encode(copies("for i in 3", more="for j in 3 {{ }}"), load()), COLD).log(0, 0, 10)
print("ready", flush=True)
try:
    {work}
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("work", [
    'execute(copies("for i in 1000000000000000000"), X)',
    'execute(copies("for i in 2", more="for j in 1000000000000000000 { }"), X)',
    'walk(encode(copies("for i in 1000000000000000000", more="for j in 3 { }"), load()), COLD).log(0, 0, 10)'])
def test_ctrl_c_ends_a_kernel(work):
    code = INTERRUPTED.format(here=str(Path(__file__).parent), work=work)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        asked = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[0] == "interrupted\n"
        assert time.monotonic() - asked < 20
    finally:
        process.kill()


def test_where_ctrl_c_is_only_noted_the_run_is_made_anew():
    made = Executable(copies("for i in 300000"))
    made.run(X)
    with pytest.raises(KeyboardInterrupt), interrupt.note_interrupts():
        threading.Timer(0.01, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        for _ in range(100):
            assert np.array_equal(made.run(X)["Y"], X["X"])
            if interrupt.is_asked():
                break
        assert interrupt.is_asked() and not stop.stop_flag[0]


def test_signals_go_on_to_whoever_waited_for_them():
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer)
    try:
        with interrupt.note_interrupts(), stop.catch_interrupts() as flag:
            os.kill(os.getpid(), signal.SIGINT)
            assert os.read(reader, 1) == bytes([signal.SIGINT])
            assert flag[0] == 1
            interrupt._noted.clear()
        assert signal.set_wakeup_fd(before) == writer
    finally:
        signal.set_wakeup_fd(before)
        os.close(reader), os.close(writer)


def test_looks_are_often_enough():
    assert tile.LOOK <= 4096
