"""The table of words: a row for each instruction, a reason or an op, and no dtype or pipe that the ISA does not have."""
from __future__ import annotations

from aoec.hivm.kernel import FUNCTIONS
from aoec.hivm.words import table
from aoec.ir.index import DTYPES
from aoec.ir.program import PIPES
from aoec.target.isa.instructions import CASTS, INSTRUCTIONS
from tests.hivm.wheel import need_wheel

PARTS = ("load_l0a", "load_l0b", "load3d", "load_bt", "mmad", "mmad_bias")  # of mmadL1


def test_every_instruction_has_an_op_or_a_reason() -> None:
    for name, row in table().words.items():
        assert row.op or row.lacks, name
        assert set(row.types) <= DTYPES.keys(), name
        assert bool(row.lacks) != (name in FUNCTIONS or name in PARTS), name
    assert table().words.keys() == INSTRUCTIONS.keys() and table().pipes.keys() == set(PIPES)


def test_casts_are_those_of_the_isa() -> None:
    for pair in (*table().casts, *table().no_casts):
        assert frozenset(pair.split()) in CASTS, pair
    assert not table().casts.keys() & table().no_casts.keys()


def test_the_wheel_is_the_one_of_the_table() -> None:
    assert need_wheel().name == table().wheel
