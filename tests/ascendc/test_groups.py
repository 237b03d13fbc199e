"""Groups of small models as kernels: each is written, or refused with a sentence that names an instruction.

What runs on the stand-in has the values of the model machine."""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import product
from math import prod

import numpy as np
import pytest

from aoec.ascendc.calls import product_of, table
from aoec.ascendc.kernel import Kernel, write_kernel
from aoec.base.errors import UnsupportedError
from aoec.ir.index import evaluate
from aoec.ir.program import Program, Tensor
from aoec.ir.text.simplify import simplify
from aoec.jobs.tune.tuning import problem as problem_of
from aoec.jobs.tune.tuning import start
from aoec.simulate.values.values import execute
from aoec.target.isa.instructions import INSTRUCTIONS, added_to
from aoec.target.isa.meaning import NUMPY_DTYPES
from aoec.target.machine import load
from tests.ascendc.words import VECTOR, dtypes_of, feeds, program_of
from tests.lowering.groups import MODELS, cases

FEW = ("matmul", "matmul_turned", "conv32", "conv_few", "chain", "scale_rows16", "softmax", "reduce_all", "max_pool", "concat_flat")
RELEASES = {"Ascend910B3": "9.1", "Ascend310P3": "8.5", "Ascend910A": "8.1"}
SHARES = {"Ascend910B3": 1.0, "Ascend310P3": 0.99, "Ascend910A": 0.99}  # of the groups, at least


@cache
def groups(model: str, machine: str) -> tuple[Program, ...]:
    """The programs that a search begins with, of the groups of a model, as they are shown."""
    return tuple(default_programs(model, machine))


def default_programs(model: str, machine: str) -> Iterator[Program]:
    """As `groups`, one by one."""
    for case in cases(model, machine):
        try:
            p = problem_of(case.func, load(machine))
        except UnsupportedError:  # its cube does not take the dtype
            continue
        yield simplify(p.program(start(p).best))


def is_written(program: Program, machine: str) -> bool:
    """Whether a kernel is written; else the refusal names an instruction of the program."""
    try:
        write_kernel(program, load(machine))
    except UnsupportedError as e:
        assert str(e).split(" ")[0] in INSTRUCTIONS and "page" in str(e), str(e)
        return False
    return True


@pytest.mark.parametrize("model, machine", [*[(m, "Ascend910B3") for m in FEW],
                                            *product(("matmul", "softmax"), ("Ascend310P3", "Ascend910A"))])
def test_a_group_is_written_or_refused(model: str, machine: str) -> None:
    for program in groups(model, machine):
        assert is_written(program, machine) or machine != "Ascend910B3"


@pytest.mark.slow
@pytest.mark.parametrize("machine", SHARES)
def test_share_of_groups(machine: str) -> None:
    """Printed with -s."""
    found = Counter(is_written(program, machine) for model in MODELS for program in groups(model, machine))
    share = found[True] / found.total()
    print(f"{machine}: {found[True]} of {found.total()} groups are written as kernels ({share:.0%})")
    assert share >= SHARES[machine]


# ---------------------------------------------------------------- on the stand-in

def launch(kernel: Kernel, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What a kernel writes on the stand-in, by name."""
    standin = pytest.importorskip("aoec.standin.launch", reason="the stand-in is not here")
    compiled = standin.Kernel.compile(kernel.source, kernel.name, int(kernel.product), int(kernel.release.replace(".", "")))
    zeros, program = added_to(kernel.program), kernel.program
    arrays = [given[t.name] if t.role == "input" else blank(t, t.name in zeros) for t in program.tensors]
    results = compiled.launch(arrays, kernel.blocks, 0, True, kernel.reads_on)
    return {t.name: x for t, x in zip(program.tensors, results) if t.role == "output"}


def blank(t: Tensor, zero: bool) -> np.ndarray:
    """A tensor that nothing was written to, or zeros."""
    size, dtype = prod(int(evaluate(d, {})) for d in t.shape), np.dtype(NUMPY_DTYPES[t.dtype])
    return np.full(size * dtype.itemsize, 0 if zero else 0xFF, np.uint8).view(dtype)


def draw(program: Program) -> dict[str, np.ndarray]:
    """Small whole numbers for its inputs."""
    random = np.random.default_rng(5)
    return {t.name: random.integers(-3, 4, prod(int(evaluate(d, {})) for d in t.shape)).astype(NUMPY_DTYPES[t.dtype])
            for t in program.tensors if t.role == "input"}


def assert_same(program: Program, kernel: Kernel, given: dict[str, np.ndarray]) -> None:
    """The outputs are those of the model machine, bit for bit."""
    got, wanted = launch(kernel, given), execute(program, given)
    for name, x in got.items():
        assert x.tobytes() == wanted[name].tobytes(), f"{name} of {program.name}"


@pytest.mark.parametrize("model", FEW)
def test_values_on_the_stand_in(model: str) -> None:
    for program in groups(model, "Ascend910B3"):
        assert_same(program, write_kernel(program, load(), "9.1"), draw(program))


@pytest.mark.parametrize("model, machine", [("conv", "Ascend910A"), ("max_pool", "Ascend310P3")])
def test_numbers_behind_bursts_of_whole_blocks(model: str, machine: str) -> None:
    """Images are padded in UB where copies move whole blocks and leave no number behind them."""
    for program in groups(model, machine):
        assert_same(program, write_kernel(program, load(machine), RELEASES[machine]), draw(program))


@pytest.mark.slow
@pytest.mark.parametrize("machine, release", RELEASES.items())
@pytest.mark.parametrize("model", MODELS)
def test_values_of_all_groups(model: str, machine: str, release: str) -> None:
    for program in groups(model, machine):
        if is_written(program, machine):
            assert_same(program, write_kernel(program, load(machine), release), draw(program))


@pytest.mark.parametrize("op", ["vcmp", "vsel", "vconv", "vnchwconv", "vand"])
def test_values_of_a_vector_instruction(op: str) -> None:
    check_instruction(op, 2, "Ascend910B3")


@pytest.mark.parametrize("machine, op", [
    ("Ascend310P3", "vconv"), ("Ascend310P3", "vcmax"), ("Ascend910A", "vconv"), ("Ascend910A", "vcmin"), ("Ascend910A", "vbrcb"),
    ("Ascend910A", "vnchwconv")])
def test_values_of_what_takes_several_calls(op: str, machine: str) -> None:
    check_instruction(op, 2, machine)


@pytest.mark.parametrize("machine", ["Ascend310P3", "Ascend910A"])
def test_int64_becomes_fp32_from_its_words(machine: str) -> None:
    """Rounded once within 32 bits; beyond, where both words are rounded, within a step of fp32."""
    program = program_of("vconv", ("fp32", "int64"), 0, machine)
    given, random = feeds(program), np.random.default_rng(3)
    whole = random.integers(-2**31, 2**31, given["X1"].size)
    whole[:6] = (0, -1, -2**31, 2**31 - 1, 2**24 + 1, -2**24 - 1)
    kernel = write_kernel(program, load(machine), RELEASES[machine])
    assert_same(program, kernel, given | {"X1": whole})
    given["X1"] = whole * random.integers(1, 2**20, whole.size)
    np.testing.assert_allclose(launch(kernel, given)["O"], execute(program, given)["O"], rtol=2.0**-23)


@pytest.mark.slow
@pytest.mark.parametrize("machine", SHARES)
@pytest.mark.parametrize("op", VECTOR)
def test_values_of_every_vector_instruction(op: str, machine: str) -> None:
    """All dtypes that are written: lanes, repeats and strides drawn."""
    if table().calls[op].lacks.get(product_of(load(machine))) is None:
        check_instruction(op, 99, machine)


def check_instruction(op: str, most: int, machine: str) -> None:
    """Programs of one instruction have the values of the model machine, for the first dtypes that are written."""
    done = 0
    for dtypes in dtypes_of(op):
        program = program_of(op, dtypes, done, machine)
        try:
            kernel = write_kernel(program, load(machine), RELEASES[machine])
        except UnsupportedError:
            continue
        assert_same(program, kernel, feeds(program))
        done += 1
        if done == most:
            return
    assert done
