"""What bounds take to be found."""
from __future__ import annotations

import tracemalloc

from aoec.jobs.stages import lower_operator
from aoec.search.bounds import bound
from aoec.target.machine import load


def test_all_of_a_large_tensor_takes_no_memory():
    """Which elements of a chain's tensors are read is known as truths, a byte an element; loops over all are told by their ends."""
    func = lower_operator("gelu(m=512, n=4096, fp16)")
    tracemalloc.start()
    try:
        assert bound(func, load("Ascend910B1"), {}).cycles > 0
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    tensors = len(func.inputs) + len(func.outputs) + len(func.locals)
    assert peak < (tensors + 4) * 512 * 4096 * 1.1
