"""A kernel of cube and vector cores on the stand-in: flags between cores, and what shows without them."""
from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from aoec.standin.launch import Kernel, LaunchFault
from tests.standin.need import needs_compiler

pytestmark = needs_compiler
BLOCKS, ROUNDS = 3, 4
NO_WAIT, NOT_FREED, FOR_NOBODY = 1, 2, 3


SOURCE = (Path(__file__).parent / "kernels/mixed.cpp").read_text("utf-8")
SAID = "    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);\n"


@cache
def kernel(kind: str = SAID) -> Kernel:
    """The kernel, with its core type said in its body, or before its name."""
    source = SOURCE if kind == SAID else SOURCE.replace(SAID, "").replace("__global__ __aicore__", f"__global__ {kind}")
    return Kernel.compile(source, "mixed")


def run(fault: int, seed: int, kind: str = SAID) -> bool:
    """Whether the values are right."""
    random = np.random.default_rng(seed)
    a, b = (random.integers(-4, 5, (BLOCKS, ROUNDS, 16, 16)).astype(np.float16) for _ in range(2))
    zn = np.ascontiguousarray(b.swapaxes(2, 3))
    work, out = np.zeros((BLOCKS, 16, 16), np.float32), np.zeros((BLOCKS, ROUNDS, 16, 16), np.float32)
    *_, got = kernel(kind).launch([a, zn, work, out, ROUNDS, fault], BLOCKS, seed)
    return np.array_equal(got, 2 * (a.astype(np.float32) @ b.astype(np.float32)))


def test_flags_between_cores_order_global_memory() -> None:
    assert all(run(0, seed) for seed in range(20))
    assert run(0, 1, "__mix__(1, 2)")


def test_a_flag_that_nobody_waits_for_is_left_set() -> None:
    with pytest.raises(LaunchFault, match="flag 0 between cores is left set when the kernel ends"):
        run(NO_WAIT, 0)
    with pytest.raises(LaunchFault, match=r"this core has no pipe|a kernel of one kind of cores alone has no flags between cores"):
        run(0, 0, "__cube__")
    with pytest.raises(LaunchFault, match="flag 5 between cores is left set when the kernel ends"):
        run(FOR_NOBODY, 0)


def test_a_missing_flag_between_cores_shows_in_the_values_of_some_order() -> None:
    assert not all(run(NOT_FREED, seed) for seed in range(20))
