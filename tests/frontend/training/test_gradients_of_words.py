"""Law: the backward graph of every operator, run in fp64, gives what finite differences of the graph give."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aoec import ops
from aoec.ops.samples import Sample, sample
from tests.frontend.training.graphs import Sketch, agrees
from tests.laws.operators import samples_of
from tests.laws.test_gradients import MORE, REAL_ONES, arrays

def of_word(op: str, call: Sample, seed: int = 0) -> None:
    """The law for one operator: all arguments that are real are parameters."""
    sketch = Sketch()
    inputs = [sketch.input(f"x{at}", x) for at, x in enumerate(arrays(call, seed))]
    dtype = ops.registry.OPS[op].dtype or "fp32"
    if dtype != "fp32" or not sketch.draft.inputs:
        return
    y = sketch.add(op, *inputs, dtype=dtype, **dict(call.attributes))
    agrees(sketch, sketch.weighted(y))


@pytest.mark.parametrize("op", REAL_ONES)
def test_every_operator_of_reals(op: str) -> None:
    for one in samples_of(ops.OPS[op]):
        of_word(op, one)


@pytest.mark.parametrize("op, call", MORE, ids=lambda x: x if isinstance(x, str) else "")
def test_of_other_shapes(op: str, call: Sample) -> None:
    of_word(op, call)
