"""Rows of a few elements lie in UB one behind the other, and are turned there: values are those of the operators, and it pays."""
from __future__ import annotations

import numpy as np
import pytest

from aoec import ops, primitives
from aoec.ir.graph.graph import Attribute
from aoec.ir.rewrite import normalise
from aoec.ir.text.show import show
from aoec.jobs.run.execute import run_program
from aoec.jobs.tune.tuning import problem, start
from aoec.lowering.emit.emit import emit
from aoec.target.legality.check import check
from aoec.target.machine import load
from tests.lowering.groups import legal
from tests.lowering.test_copies import agree, data
from tests.lowering.test_packed import task_of

FAMILIES = ("Ascend910B3", "Ascend310P3", "Ascend910A")
COPIES: list[tuple[str, tuple[int, ...], dict[str, Attribute]]] = [
    ("transpose", (1000, 3), {"perm": (1, 0)}),
    ("transpose", (2, 531, 15), {"perm": (0, 2, 1)}),
    ("transpose", (3, 300, 4), {"perm": (2, 0, 1)}),  # columns of all images side by side
    ("transpose", (3, 1000), {"perm": (1, 0)}),  # rows made of columns
    ("transpose", (2, 15, 531), {"perm": (0, 2, 1)}),
    ("transpose", (3, 257), {"perm": (1, 0)}),  # a row behind a whole group of them
    ("transpose", (3, 2, 2, 5, 70), {"perm": (0, 3, 1, 4, 2)}),  # space made of depth
    ("slice", (5, 64, 50), {"starts": (0, 0, 0), "sizes": (5, 64, 25), "steps": (1, 1, 2)}),  # rows that follow each other
    ("slice", (5, 64, 50), {"starts": (0, 0, 1), "sizes": (5, 64, 25), "steps": (1, 1, 2)}),
    ("slice", (5, 61, 53), {"starts": (0, 1, 2), "sizes": (5, 30, 17), "steps": (1, 2, 3)}),  # every other row
    ("slice", (400, 5), {"starts": (0, 3), "sizes": (400, 1), "steps": (1, 1)}),  # an element of each
    ("slice", (2, 900), {"starts": (0, 899), "sizes": (2, 128), "steps": (1, -7)}),
    ("slice", (5, 64, 50), {"starts": (0, 0, 0), "sizes": (5, 64, 20), "steps": (1, 1, 2)}),  # rows with more behind what is taken
]


@pytest.mark.parametrize("op, own, attributes", COPIES, ids=[f"{op}-{own}-{at}" for at, (op, own, _) in enumerate(COPIES)])
def test_values_are_those_of_the_operator(op: str, own: tuple[int, ...], attributes: dict[str, Attribute]) -> None:
    for at, dtype in enumerate(("fp16", "fp32")):
        agree(op, own, dtype, FAMILIES[(len(own) + at) % 3], **attributes)


@pytest.mark.parametrize("at, dtype, target", [(0, "fp16", "Ascend910A"), (4, "fp32", "Ascend310P3"), (9, "fp16", "Ascend910B3"),
                                               (5, "fp32", "Ascend910B3")])
def test_every_sketch_does_it(at: int, dtype: str, target: str) -> None:
    """Whether its holes are filled first or last, in turns and not in bursts of an element."""
    op, own, attributes = COPIES[at]
    machine = load(target)
    task, tensors = task_of(op, own, dtype, machine, **attributes)
    p = problem(task.func, machine, task.state)
    x = data(own, dtype)
    for sketch in range(len(p.sketches)):
        for candidate in legal(p, sketch, 2):
            program = p.program(candidate)
            check(program, machine)
            assert program == normalise(emit(primitives.apply(p.func, p.trace(candidate)), machine))
            got = run_program(program, task.bindings, tensors, {"x": x})["y"]
            np.testing.assert_array_equal(got, ops.get(op).reference(x, **attributes))
            assert "vnchwconv" in show(program)


@pytest.mark.parametrize("target", FAMILIES)
@pytest.mark.parametrize("op, own, attributes", [
    ("transpose", (90000, 3), {"perm": (1, 0)}),
    ("transpose", (3, 90000), {"perm": (1, 0)}),
    ("slice", (4096, 64), {"starts": (0, 1), "sizes": (4096, 32), "steps": (1, 2)})])
def test_it_takes_about_as_long_as_the_bytes(op: str, own: tuple[int, ...], attributes: dict[str, Attribute], target: str) -> None:
    """Of the default schedule, against a copy of all that is read: in bursts of an element it took some twenty times as long."""
    machine = load(target)

    def ticks(op: str, attributes: dict[str, Attribute]) -> int:
        task, _ = task_of(op, own, "fp16", machine, **attributes)
        return start(problem(task.func, machine, task.state)).ticks
    assert ticks(op, attributes) < 3 * ticks("expand", {"shape": own})
