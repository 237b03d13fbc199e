"""A vector kernel with double buffering on the stand-in, and the same with one rule of the hardware broken at a time."""
from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from aoec.standin.launch import Kernel, LaunchFault
from tests.standin.need import needs_compiler

pytestmark = needs_compiler
SOURCE = (Path(__file__).parent / "kernels/add.cpp").read_text("utf-8")
(NONE, FLAG_MISSING, SET_TWICE, LEFT_SET, OFF_BY_16, TILE_TOO_LARGE, OUT_OF_BOUNDS, NO_BARRIER, ID_TOO_LARGE, NEVER_SET, FREE_MISSING,
 WRONG_ARGUMENT, BESIDE_TENSOR, COPIES_MEET, BY_HAND, READ_BACK, READ_BACK_BEHIND, OTHER_BLOCK, ENDLESS) = range(19)
BLOCKS, TILES = 3, 4


@cache
def kernel(product: int = 2201, release: int = 91) -> Kernel:
    return Kernel.compile(SOURCE, "add", product, release)


def run(fault: int = NONE, seed: int = 0, races: bool = True, product: int = 2201, release: int = 91) -> tuple[np.ndarray, np.ndarray]:
    """What the kernel writes, and what it should."""
    random = np.random.default_rng(seed)
    x, y = (random.standard_normal(BLOCKS * TILES * 1024).astype(np.float16) for _ in range(2))
    *_, z = kernel(product, release).launch([x, y, np.zeros_like(x), TILES, fault], BLOCKS, seed, races)
    return z, x + y


@pytest.mark.parametrize("product,release", [(2201, 91), (2201, 81), (2002, 85), (1001, 91)])
def test_every_order_of_the_pipes_gives_the_sum(product: int, release: int) -> None:
    for seed in range(20):
        got, want = run(BY_HAND if seed % 2 else NONE, seed, product=product, release=release)
        assert np.array_equal(got, want)




def line(text: str) -> int:
    """The line of the kernel that begins so."""
    (found,) = [i for i, row in enumerate(SOURCE.splitlines(), 1) if row.strip().startswith(text)]
    return found


FIRST, SECOND = line("DataCopy(a[off]"), line("DataCopy(b,")
SAID = {
    FLAG_MISSING: rf"block \d: Add at line {line('Add(c, a, b, fault')} \(V\): reads byte \d+ of UB, which MTE2 at line \d+ writes, "
                  r"and no flag orders them|V_MTE2 0 is set a second time",
    SET_TWICE: rf"SetFlag at line {line('if (fault == SET_TWICE)')}: V_MTE2 1 is set a second time; nobody has waited for the first, "
               rf"at line {line('SetFlag<HardEvent::V_MTE2>(s);  // free')}",
    LEFT_SET: rf"block \d: SetFlag at line {line('if (fault == LEFT_SET)')}: MTE3_MTE2 0 is left set when the kernel ends",
    OFF_BY_16: rf"DataCopy at line {FIRST} \(MTE2\): the target begins at byte \d+ of UB, which is no multiple of 32",
    TILE_TOO_LARGE: rf"DataCopy at line {FIRST} \(MTE2\): writes bytes 258048 to 260096 of UB, which has 196608",
    OUT_OF_BOUNDS: rf"block 2: DataCopy at line {line('DataCopy(gz')} \(MTE3\): writes 2048 bytes at byte 23552 of a GM buffer, which "
                   "leaves it",
    NO_BARRIER: rf"Adds at line {line('Adds(')} \(V\): reads byte \d+ of UB, which V at line {line('Add(c, a, b, N)')} writes, "
                "without PipeBarrier",
    ID_TOO_LARGE: rf"SetFlag at line {line('if (fault == ID_TOO')}: event id is 8, at most 7 on product 2201",
    NEVER_SET: rf"deadlock: block \d: .*MTE2 waits for MTE3_MTE2 2 at line {line('if (fault == NEVER_SET)')}",
    FREE_MISSING: r"deadlock: block \d: .*MTE2 waits for V_MTE2 \d",
    WRONG_ARGUMENT: rf"DataCopy at line {SECOND} \(MTE2\): reads GM at an address that no argument of the kernel reaches",
    BESIDE_TENSOR: r"Add at line \d+ \(V\): reads bytes \d+ to \d+ of UB, and its tensor lies in bytes \d+ to \d+",
    COPIES_MEET: rf"DataCopy at line {line('if (fault == COPIES')} \(MTE2\): writes byte \d+ of UB, which MTE2 at line {FIRST} writes, "
                 "without PipeBarrier",
}


@pytest.mark.parametrize("fault", SAID)
def test_a_broken_rule_ends_the_launch_with_a_sentence(fault: int) -> None:
    for seed in range(4):
        with pytest.raises(LaunchFault, match=r"^add: ") as caught:
            run(fault, seed)
        assert re.search(SAID[fault], str(caught.value)), caught.value


def test_a_missing_flag_shows_in_the_values_of_some_order() -> None:
    wrong = 0
    for seed in range(20):
        try:
            got, want = run(FLAG_MISSING, seed, races=False)
        except LaunchFault as fault:  # a pipe that does not wait runs so far ahead that it sets a flag again
            assert "set a second time" in str(fault)
        else:
            wrong += not np.array_equal(got, want)
    assert wrong
    assert all(np.array_equal(*run(NONE, seed, races=False)) for seed in range(20))


def test_ids_of_910a_end_at_three() -> None:
    with pytest.raises(LaunchFault, match="event id is 4, at most 3 on product 1001"):
        run(ID_TOO_LARGE, product=1001)


def said_of(fault: int) -> set[str]:
    """What launches of 12 seeds say: nothing, or a fault without its figures."""
    out = set()
    for seed in range(12):
        try:
            got, want = run(fault, seed)
            assert np.array_equal(got, want)
            out.add("")
        except LaunchFault as e:
            out.add(re.sub(r"\d+", "N", str(e)))
    return out


def test_global_memory_is_read_behind_its_write() -> None:
    assert said_of(READ_BACK_BEHIND) == {""}
    behind = "add: block N: DataCopy at line N (MTEN): reads byte N of a GM buffer, which MTEN at line N writes, and no flag orders them"
    assert behind in said_of(READ_BACK) <= {"", behind}  # in some orders it reads before that write
    other = behind.replace("MTEN at line N writes, and no flag orders them", "another block of this launch writes: nothing orders them")
    assert other in said_of(OTHER_BLOCK) <= {"", other}


def test_an_endless_kernel_is_stopped() -> None:
    x = np.zeros(BLOCKS * TILES * 1024, np.float16)
    with pytest.raises(LaunchFault, match="add: launch: the kernel ran longer than its limit"):
        kernel().launch([x, x, x, TILES, ENDLESS], BLOCKS, seconds=0.2)
