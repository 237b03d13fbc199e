"""Machines that write whole blocks into GM refuse programs whose cores write parts of one block."""
from __future__ import annotations

import pytest

from aoec.base.errors import CheckError
from aoec.target.legality.check import check
from aoec.target.machine import load
from tests.ascendc.test_bursts import program_of


@pytest.mark.parametrize("target", ["Ascend310P3", "Ascend910A"])
@pytest.mark.parametrize("length, step, is_legal", [(16, 16, True), (24, 24, True), (8, 8, False), (5, 16, True)])
def test_cores_own_whole_blocks(target: str, length: int, step: int, is_legal: bool) -> None:
    """Of fp16: a block, more than one, half of one side by side, and less than one alone in its block."""
    program, machine = program_of(target, "fp16", 1, length, 0, 0, cores=2, step=step), load(target)
    if is_legal:
        check(program, machine)
        return
    with pytest.raises(CheckError, match=r"writes whole blocks of 32 bytes .* another core .* give each core whole blocks"):
        check(program, machine)
