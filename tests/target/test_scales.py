"""Words of scales for FIXPIPE: what they hold is found again, and a program's tensors of them are known."""
from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aoec.ir.index import Int
from aoec.ir.program import Instr, Program, Ref, Space, Stream, Tensor
from aoec.target.isa.scales import bring_words, round_scales, scale_words, split_words, word_tensors

SCALES = st.lists(st.floats(2.0**-100, 2.0**100, width=32), min_size=1, max_size=9).map(lambda x: np.array(x, np.float32))


@given(SCALES, st.integers(-256, 255), st.integers(0, 2**13 - 1))
def test_a_word_holds_a_rounded_scale_and_a_zero_point(scales: np.ndarray, zero: int, lost: int) -> None:
    words = scale_words(scales, zero)
    got, zeros = split_words(words | np.uint64(lost))  # bits that do not count
    assert (zeros == zero).all()
    assert (words >> np.uint64(46) == 1).all()
    np.testing.assert_array_equal(got, round_scales(scales))
    np.testing.assert_array_equal(round_scales(got), got)


@given(st.floats(2.0**-100, 2.0**100, width=32))
def test_rounding_is_to_the_nearest_of_ten_bits(scale: float) -> None:
    (got,) = round_scales(np.array([scale], np.float32))
    step = Fraction(2) ** (int(np.frexp(np.float32(scale))[1]) - 11)  # between neighbours with ten bits of fraction
    assert Fraction(float(got)) / step % 1 == 0
    assert abs(Fraction(float(got)) - Fraction(scale)) <= step / 2


def test_tensors_of_words_are_found_through_l1() -> None:
    at = Int(0)
    copied = (("bursts", Int(1)), ("length", Int(4)), ("src_gap", at), ("dst_gap", at))
    sizes = (("m", Int(1)), ("n", Int(16)), ("src_rows", Int(16)), ("dst_stride", Int(16)), ("relu", at), ("zero", Int(-7)))
    body = (Instr("copy_gm_l1", (("dst", Ref("s", at)), ("src", Ref("S", at)), *copied)),
            Instr("load_fb", (("dst", Ref("fb", at)), ("src", Ref("s", at)), ("length", Int(4)))),
            Instr("fixpipe_nd_scale", (("dst", Ref("Y", at)), ("src", Ref("c", at)), ("scale", Ref("fb", at)), *sizes)))
    tensors = (Tensor("S", "uint64", (Int(16),), "input"), Tensor("Y", "int8", (Int(16),), "output"))
    spaces = (Space("s", "uint64", "L1", at, Int(128)), Space("fb", "uint64", "FB", at, Int(128)),
              Space("c", "int32", "L0C", at, Int(1024)))
    found = word_tensors(Program("p", "Ascend910B3", tensors, spaces, (Stream("aic", "aic", (), (), body),)))
    assert found == {"S": -7}
    one = np.float32([0.5])
    assert bring_words(one, "S", found)[0] == scale_words(one, -7)[0]
    assert bring_words(one, "Y", found) is one
