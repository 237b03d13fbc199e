"""What bounds take to be found."""
from __future__ import annotations

import tracemalloc

import pytest

from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.tuning import problem
from aoec.search.proof.bounds import bound
from aoec.simulate.timing.time import chain, measure
from aoec.target.machine import load
from tests.lowering.groups import legal


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


@pytest.mark.parametrize("target", ["Ascend310P3", "Ascend910B3"])
@pytest.mark.parametrize("text", ["matmul(m=64, k=64, n=64)", "softmax(m=512, n=768)", "add(m=8, n=64)"])
def test_no_queue_of_launches_is_faster_than_its_bound(text: str, target: str) -> None:
    """The first launch is paid for and others wait behind it: of whatever candidates, a queue takes at least what the bound says, which is
    something, however many cores a candidate launches."""
    machine = load(target)
    p = problem(lower_operator(text), machine)
    least = p.bound()
    assert 0 < least.queued_cycles <= least.cycles
    found = [measure(p.program(c), machine) for s in range(min(3, len(p.sketches))) for c in legal(p, s, 4)]
    assert found
    for count in (1, 4):
        bound_us = (least.cycles + (count - 1) * least.queued_cycles) / machine.clock_mhz
        assert all(bound_us <= chain([m] * count, machine).latency_us for m in found)
