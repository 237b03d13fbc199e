"""A stack of machines has the numbers of all of them, each row those of its own."""
from __future__ import annotations

from dataclasses import fields, is_dataclass

import numpy as np
import pytest

from aoec.target.machine import Machine, load
from aoec.target.stack import APART, stack_machines, take_rows
from aoec.target.vary import vary_machine


def numbers(value, row, where):
    """(place, number) of all that a machine says, of a stack that of one row."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from numbers(inner, row, f"{where}.{key}")
    elif isinstance(value, tuple):
        for i, inner in enumerate(value):
            yield from numbers(inner, row, f"{where}.{i}")
    elif is_dataclass(value):
        for f in fields(value):
            if f.name not in APART or not isinstance(value, Machine):
                yield from numbers(getattr(value, f.name), row, f"{where}.{f.name}")
    else:
        yield where, value[row].item() if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize("chip", ["Ascend910B3", "Ascend310P3"])
def test_each_row_has_the_numbers_of_its_machine(chip):
    machines = tuple(vary_machine(load(chip), seed) for seed in range(5))
    which = np.array([3, 0, 0, 4, 1])
    rows = take_rows(stack_machines(machines), which)
    for row, machine in enumerate(which):
        assert dict(numbers(rows, row, "")) == dict(numbers(machines[machine], 0, ""))
    assert sum(isinstance(v, np.ndarray) for v in rows.constants.values()) > 20


def test_numbers_that_are_the_same_stay_numbers():
    machine = load("Ascend910B3")
    one = stack_machines((machine, machine))
    assert one.constants == machine.constants and one.hbm_bytes_per_s == machine.hbm_bytes_per_s
