"""Kernels that are compiled beforehand are those that programs use: each is compiled once, for arrays of one type."""
from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from aoec.kernels import columns, registers, tile
from aoec.kernels import timeline as kernel

from aoec.ir.index import Int
from aoec.ir.text.show import show
from aoec.jobs import kernels as begun
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.tuning import problem, start
from aoec.simulate.compile_kernels import PARTS
from aoec.simulate.timing.time import measure
from aoec.simulate.values.values import execute
from aoec.target.machine import load

COMPILED = (kernel.find_rows.compiled, kernel.walk, columns.fill, columns.fill_ints, registers.distinct, registers.settle, tile.run_groups)


def test_kernels_are_compiled_for_one_type_of_each_argument() -> None:
    for compile_part in PARTS.values():
        compile_part()
    machine = load()
    p = problem(lower_operator("matmul(m=64, k=64, n=64)"), machine)
    first = start(p)
    program = p.program(first.default)
    measure(program, machine)
    inputs = {t.name: np.zeros([e.value for e in t.shape if isinstance(e, Int)], np.float16) for t in program.tensors if t.role == "input"}
    execute(program, inputs)
    assert {k.py_func.__name__: len(k.signatures) for k in COMPILED} == {k.py_func.__name__: 1 for k in COMPILED}


def test_what_numba_keeps_is_recognised_without_reading_its_pickles() -> None:
    """Numba's own index, as this version writes it, is the witness."""
    for compile_part in PARTS.values():
        compile_part()
    assert set(PARTS) == set(begun.KERNELS)
    if begun.kernel_cache()["writable"]:
        assert begun.missing(list(begun.KERNELS)) == []


@pytest.mark.parametrize("name", [name for functions in begun.KERNELS.values() for _, name in functions])
def test_listed_kernels_are_there(name: str) -> None:
    assert name in {k.py_func.__name__ for k in COMPILED}


class Child:
    """A process that ends when it is told to."""

    def __init__(self, command: list[str], **_: object) -> None:
        self.part, self.code = command[-1], None
        BORN.append(self)

    def poll(self) -> int | None:
        return self.code


BORN: list[Child] = []


def test_as_many_processes_as_cores_and_what_is_waited_for_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    BORN.clear()
    monkeypatch.delenv("NUMBA_DISABLE_JIT", raising=False)
    monkeypatch.setattr(begun.subprocess, "Popen", Child)
    monkeypatch.setattr(begun, "cores", lambda: 1)
    monkeypatch.setattr(begun, "missing", list)
    monkeypatch.setattr(begun, "kernel_cache", lambda: {"cache": "", "writable": True})
    monkeypatch.setattr(begun, "_running", {})
    monkeypatch.setattr(begun, "_queue", [])
    assert begun.start(["walk", "rows", "values"]) == begun.NOTICE
    assert [c.part for c in BORN] == ["walk"] and begun.start(["walk", "rows"]) == ""
    assert begun.pending(["walk", "rows"]) == 2
    told = []

    def tell(words: str, done: int, left_s: float | None) -> None:
        told.append(done)
        BORN[-1].code = 1 if BORN[-1].part == "values" else 0  # one that fails is as good as one that does not
    begun.wait(["values"], tell)
    assert [c.part for c in BORN][:2] == ["walk", "values"] and told[0] == 0 and not begun.pending(["values"])
    begun.wait(["walk", "rows"], tell)
    assert begun.pending(list(begun.KERNELS)) == 0


def test_nothing_is_begun_that_nobody_could_read(monkeypatch: pytest.MonkeyPatch) -> None:
    BORN.clear()
    monkeypatch.delenv("NUMBA_DISABLE_JIT", raising=False)
    monkeypatch.setattr(begun.subprocess, "Popen", Child)
    monkeypatch.setattr(begun, "missing", list)
    monkeypatch.setattr(begun, "kernel_cache", lambda: {"cache": "", "writable": False})
    assert begun.start(["walk"]) == begun.NOTICE and not BORN
    monkeypatch.setattr(begun, "missing", lambda parts: [])
    assert begun.start(["walk"]) == ""
    monkeypatch.setattr(begun, "missing", list)
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert begun.start(["walk"]) == ""


def test_another_numba_or_source_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = begun.kernel_sources() / "timeline.py"
    index = tmp_path / "beside" / f"timeline.walk-1.py{sys.version_info.major}{sys.version_info.minor}.nbi"
    index.parent.mkdir()
    right = version("numba").encode() + b" and " + hashlib.sha256(source.read_bytes()).digest()
    for data, there in ((right, True), (right.replace(b".", b"!"), False), (right[:-1] + bytes([right[-1] ^ 1]), False), (b"", False)):
        index.write_bytes(data)
        assert begun.is_compiled(tmp_path, "timeline", "walk") is there
    assert not begun.is_compiled(tmp_path, "timeline", "find_rows") and not begun.is_compiled(tmp_path / "none", "timeline", "walk")


TIMED_BY_ANOTHER_NUMBA = """
import sys
import numba
numba.__version__ = "9.9.9"
import numpy as np
from pathlib import Path
from aoec.ir.text.parse import parse_program
from aoec.kernels import linked
from aoec.simulate.timing.time import measure
from aoec.simulate.values.values import execute
from aoec.target.machine import load
program = parse_program(Path(sys.argv[1]).read_text())
x = np.arange(64 * 64, dtype=np.float16).reshape(64, 64) / 512
assert "pipeline_class" not in linked._entry
out = execute(program, {t.name: x for t in program.tensors if t.role == "input"})
print(measure(program, load()).ticks, out.popitem()[1].sum(dtype=float))
"""


@pytest.mark.slow
def test_a_numba_that_was_not_tried_compiles_in_its_own_way(tmp_path: Path) -> None:
    """Times and values are those of linked kernels."""
    machine = load()
    p = problem(lower_operator("matmul(m=64, k=64, n=64)"), machine)
    program = p.program(start(p).default)
    (tmp_path / "f.prog").write_text(show(program))
    x = np.arange(64 * 64, dtype=np.float16).reshape(64, 64) / 512
    inputs = {t.name: x for t in program.tensors if t.role == "input"}
    done = subprocess.run([sys.executable, "-c", TIMED_BY_ANOTHER_NUMBA, tmp_path / "f.prog"], capture_output=True, text=True, check=True,
                          env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kernels")})
    assert done.stdout.split() == [str(measure(program, machine).ticks), str(execute(program, inputs).popitem()[1].sum(dtype=float))]
