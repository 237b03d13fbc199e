"""Bursts into GM that are no whole blocks, where copies move these alone: values on the stand-in, and which ones are refused."""
from __future__ import annotations

import numpy as np
import pytest

from aoec.ascendc.kernel import write_kernel
from aoec.base.errors import UnsupportedError
from aoec.ir.index import DTYPES, Expr, Int, Var
from aoec.ir.program import Instr, Program, Ref, SetFlag, Space, Stream, Tensor, WaitFlag
from aoec.target.machine import load
from tests.ascendc.test_groups import RELEASES, assert_same, draw

CHIPS = ("Ascend310P3", "Ascend910A")
FEW = ((1, 1, 0, 0), (1, 37, 0, 0), (3, 21, 5, 1), (9, 12, 0, 0), (5, 9, 7, 2))


def program_of(machine: str, dtype: str, bursts: int, length: int, gap: int, src_gap: int, cores: int = 1, step: int = 0) -> Program:
    """Each core copies bursts of `length` elements, `gap` apart in GM, to `step` elements behind those of the core before."""
    size, row = DTYPES[dtype], -(-length * DTYPES[dtype] // 32) * 32 + src_gap * 32
    total = (cores - 1) * step + bursts * (length + gap) - gap
    tensors = (Tensor("X", dtype, (Int(bursts * row // size),), "input"), Tensor("Y", dtype, (Int(total),), "output"))
    first: Expr = Var("c") * step if cores > 1 else Int(0)
    body = (Instr("copy_gm_ub", (("dst", Ref("u", Int(0))), ("src", Ref("X", Int(0))), ("bursts", Int(1)), ("length", Int(bursts * row)),
                                 ("src_gap", Int(0)), ("dst_gap", Int(0)))),
            SetFlag("MTE2", "MTE3", Int(0)), WaitFlag("MTE2", "MTE3", Int(0)),
            Instr("copy_ub_gm", (("dst", Ref("Y", first)), ("src", Ref("u", Int(0))), ("bursts", Int(bursts)),
                                 ("length", Int(length * size)), ("src_gap", Int(src_gap)), ("dst_gap", Int(gap * size)),
                                 ("atomic", Int(0)))))
    stream = Stream("core", "core", (("c", Int(cores)),), (), body)
    return Program("bursts", machine, tensors, (Space("u", dtype, "UB", Int(0), Int(bursts * row)),), (stream,))


def check_values(machine: str, dtype: str, *fields: int) -> None:
    """The kernel writes what the model machine does, and leaves the rest as it was."""
    program = program_of(machine, dtype, *fields)
    assert_same(program, write_kernel(program, load(machine), RELEASES[machine]), draw(program))


@pytest.mark.parametrize("fields", FEW)
def test_bursts_have_the_values_of_the_model_machine(fields: tuple[int, ...]) -> None:
    check_values(CHIPS[FEW.index(fields) % 2], "fp16" if FEW.index(fields) % 3 else "fp32", *fields)


@pytest.mark.slow
@pytest.mark.parametrize("machine", CHIPS)
@pytest.mark.parametrize("seed", range(12))
def test_drawn_bursts_have_the_values_of_the_model_machine(machine: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    dtype = ("fp16", "fp32", "int8")[seed % 3]
    fields = [int(random.integers(1, n)) for n in (20, 40)] + [int(random.integers(0, n)) for n in (12, 3)]
    check_values(machine, dtype, *fields)


@pytest.mark.parametrize("machine", CHIPS)
def test_a_block_of_two_cores_is_refused(machine: str) -> None:
    """Six elements a core: the second half of a block is another core's. Of 16 a core all blocks are its own, and of 21 what is left."""
    with pytest.raises(UnsupportedError, match="another core writes into the block"):
        write_kernel(program_of(machine, "fp16", 3, 2, 0, 0, 4, 6), load(machine), RELEASES[machine])
    for length in (16, 21):
        write_kernel(program_of(machine, "fp16", 1, length, 0, 0, 4, length), load(machine), RELEASES[machine])
