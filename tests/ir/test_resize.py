"""A func made longer or shorter is the func lowered at that size; what does not say how it follows is refused."""
from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.base.errors import CheckError
from aoec.ir.func.resize import resize
from aoec.ir.text.parse import parse_func
from aoec.ir.text.show import show
from aoec.jobs.stages.stages import lower_operator

SIZES = st.integers(1, 60).map(lambda n: n * 16)


@settings(max_examples=25)
@given(st.sampled_from(["matmul(m={m}, k={k}, n={n}, fp16)", "matmul(m={m}, k={k}, n={n}, fp16, relu)", "matmul(m={m}, k={k}, n={n}, nd)"]),
       st.fixed_dictionaries({v: SIZES for v in "mkn"}), st.sampled_from("mkn"), SIZES)
def test_resized_is_lowered_at_that_size(call: str, sizes: dict[str, int], loop: str, extent: int) -> None:
    made = resize(lower_operator(call.format(**sizes)), loop, extent)
    assert show(made) == show(lower_operator(call.format(**sizes | {loop: extent})))


def test_a_row_operator_keeps_its_name_and_all_its_loops() -> None:
    func = lower_operator("softmax(m=40, n=64)")
    rows = next(line.split()[1] for line in show(func).splitlines() if line.strip().startswith("for") and " 40 " in line)
    assert show(resize(func, rows, 8)) == show(lower_operator("softmax(m=8, n=64)"))


PLAIN = """func f(A: fp16[8, 6]) -> (Y: fp16[8]) {
  local S: fp32[8]
  for i in 8 { for j in 6 { s: S[i] += A[i, j] } }
  for o in 8 { y: Y[o] = fp16(S[o] * 0.25) }
}"""


@pytest.mark.parametrize("text, loop, words", [
    (PLAIN, "q", "has no loop q; its loops are i, j, o"),
    (PLAIN.replace("A[i, j]", "A[i, 5 - j]"), "j", "does not say how the dimension follows"),
    (PLAIN.replace("0.25", "0.16666667"), "j", "the constant 0.16666667 in block y of func f may follow from j, whose extent is 6"),
    (PLAIN.replace("for j in 6", "for j in 5"), "j", "its extent is 5, dimension 1 of A is 6"),
    (PLAIN.replace("for o in 8", "for o in 7"), "i", "its extent is 8, loop o is 7"),
    (PLAIN.replace("+= A[i, j]", "+= select(j < 3, A[i, j], 0.0)"), "j", "calculates with loop j itself"),
    (PLAIN.replace("for j in 6", "for j in min(6, 8 - i)"), "i", "the extent of loop j in func f follows another"),
    (PLAIN.replace("for o in 8 {", "for o in 8 core {"), "i", "is scheduled already"),
    (PLAIN.replace("for j in 6", "for j in ?n"), "j", "has the extent \\?n, which is no number"),
])
def test_what_is_ambiguous_is_refused(text: str, loop: str, words: str) -> None:
    with pytest.raises(CheckError, match=words):
        resize(parse_func(text), loop, 4)


def test_sizes_below_one_are_refused() -> None:
    with pytest.raises(CheckError, match="cannot have an extent of 0"):
        resize(parse_func(PLAIN), "i", 0)


def test_a_constant_is_free_where_nothing_is_summed_over_the_loop() -> None:
    assert "fp16[2]" in show(resize(parse_func(PLAIN.replace("0.25", "0.125")), "i", 2))
