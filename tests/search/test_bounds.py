"""What bounds take to be found."""
from __future__ import annotations

import tracemalloc

import pytest

from aoec.ir.text.parse import parse_func
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


@pytest.mark.parametrize("target", ["Ascend310P3", "Ascend910B3", "Ascend310B1"])
@pytest.mark.parametrize("text", ["matmul(m=64, k=64, n=64)", "matmul(m=1024, k=32, n=256)", "softmax(m=512, n=768)", "add(m=8, n=64)"])
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



def test_results_that_fixpipe_narrows_take_the_bytes_of_their_own_type() -> None:
    """A quantised convolution of few channels on a machine whose L0C leaves at 20 bytes a cycle: no candidate is below the bound."""
    p = problem(parse_func(REQUANTISED), load("Ascend310B1"))
    least = p.bound()
    assert max(least.parts, key=least.parts.__getitem__) == "FIXP"
    found = [measure(p.program(c), p.machine) for s in range(len(p.sketches)) for c in legal(p, s, 16)]
    assert found and all(least.ticks <= m.ticks for m in found)


REQUANTISED = """func f(X: int8[1, 1, 1, 784, 32], W: int8[32, 64] ZN, bias: int32[64], S: fp32[64]) -> (Y: int8[1, 2, 1, 784, 32]) {
  local cols: int8[1, 1, 784, 32]
  local C: int32[1, 1, 784, 64]
  for im_n in 1 {
    for im_ho in 1 {
      for im_wo in 784 {
        for im_k in 32 {
          im2col: cols[im_n, im_ho, im_wo, im_k] = X[im_n, im_k // 32, im_ho, im_wo, im_k % 32]
        }
      }
    }
  }
  for n in 1 {
    for ho in 1 {
      for wo in 784 {
        for co in 64 {
          for k in 32 {
            mm: C[n, ho, wo, co] += cols[n, ho, wo, k] * W[k, co] init bias[co]
          }
        }
      }
    }
  }
  for out_n in 1 {
    for out_ho in 1 {
      for out_wo in 784 {
        for out_co in 64 {
          out: Y[out_n, out_co // 32, out_ho, out_wo, out_co % 32] =
            int8(round(fp32(C[out_n, out_ho, out_wo, out_co]) * S[out_co]) + -128.0)
        }
      }
    }
  }
}"""
