"""Funcs that people edit: what goes beyond a tensor is refused at its block, and what lowering and schedules make is not."""
from __future__ import annotations

import pytest

from aoec.base.errors import CheckError
from aoec.ir.text.show import show
from aoec.jobs.stages.stages import lower_operator, schedule_text
from aoec.jobs.tune.tuning import problem, start
from aoec.jobs.verify.within import read_func
from aoec.target.machine import load

TEXT = """func f(X: fp16[8, 30]) -> (Y: fp16[8, 14]) {
  for i in 8 {
    for j in 14 {
      pick: Y[i, j] = X[i, 2 * j + 3]
    }
  }
}
"""


@pytest.mark.parametrize(("old", "new", "said"), [
    ("for i in 8", "for i in 9", "block pick: X[i, 2 * j + 3]: i runs from 0 to 8, and axis 0 of X has 8"),
    ("fp16[8, 14]", "fp16[8, 13]", "j runs from 0 to 13, and axis 1 of Y has 13"),
    ("2 * j + 3", "2 * j + 4", "2 * j + 4 runs from 4 to 30, and axis 1 of X has 30"),
    ("2 * j + 3", "26 - 2 * j - 1", "runs from -1 to 25"),
])
def test_what_goes_beyond_a_tensor_is_refused(old: str, new: str, said: str) -> None:
    assert show(read_func(TEXT, "f.tir")).startswith("func f")
    with pytest.raises(CheckError) as e:
        read_func(TEXT.replace(old, new), "f.tir")
    assert said in e.value.message
    assert (e.value.line, e.value.column) == (4, 7) and e.value.message.endswith("; change the loop or the shape")


def test_a_choice_by_place_is_left_to_who_wrote_it() -> None:
    read_func(TEXT.replace("X[i, 2 * j + 3]", "select(j < 13, X[i, 2 * j + 5], 0.0)"), "f.tir")


@pytest.mark.parametrize("words", ["matmul(m=100, k=70, n=90, bias)", "conv2d(n=1, c=20, h=9, w=9, co=24, kh=3, kw=3, stride=2, pad=1)",
                                   "softmax(m=37, n=100)"])
def test_what_lowering_and_schedules_make_is_within(words: str) -> None:
    func, machine = lower_operator(words), load()
    p = problem(func, machine)
    scheduled = schedule_text(show(func), "f.tir", show(p.trace(start(p).default)), "f.sched", {})
    assert read_func(show(scheduled), "s.tir") == scheduled
