"""`unit` and `atomic`: fields that are 0 where they are not written; what they mean and which programs may use them."""
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.base.errors import CheckError
from aoec.ir.index import DTYPES
from aoec.ir.text.keys import key
from aoec.ir.text.parse import parse_program
from aoec.ir.text.show import show
from aoec.simulate.values.values import execute
from aoec.target.isa.evaluate import evaluate_program
from aoec.target.isa.meaning import NUMPY_DTYPES
from aoec.target.legality.check import check
from aoec.target.machine import load

TOY = load("toy")
SUMS = """program sums for toy {{
  input X: {dtype}[4, 256]
  {role} Y: {dtype}[256]
  space x: {dtype} in UB at 0 size 1024
  stream vec aiv grid [c in {cores}] {{
    copy_gm_ub(dst=x[0], src=X[c*256], bursts={bursts}, length={length}, src_gap=0, dst_gap=0)
    set(MTE2, MTE3, 0)
    wait(MTE2, MTE3, 0)
    copy_ub_gm(dst=Y[0], src=x[0], bursts={bursts}, length={length}, src_gap=0, dst_gap={gap}, atomic=1)
  }}
}}
"""


def sums(dtype="fp32", cores=2, bursts=2, length=64, gap=0, role="output"):
    return parse_program(SUMS.format(dtype=dtype, cores=cores, bursts=bursts, length=length, gap=gap, role=role))


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(("fp32", "fp16", "bf16", "int32")), st.integers(1, 2), st.integers(0, 3), st.integers(1, 9), st.integers(0, 9),
       st.integers(0, 9))
def test_atomic_copies_add_to_zeros_in_any_dtype(dtype, cores, bursts, elements, gap, seed):
    size = DTYPES[dtype]
    p = sums(dtype, cores, bursts, elements * size, gap * size)
    x = (np.random.default_rng(seed).standard_normal((4, 256)) * 50).astype(NUMPY_DTYPES[dtype])
    check(p, TOY)
    fast, slow = execute(p, {"X": x})["Y"], evaluate_program(p, {"X": x})["Y"]
    assert np.array_equal(fast, slow)
    if bursts:
        total = x[0, :elements].astype(np.float32)
        for other in x[1:cores, :elements]:  # one rounding a sum
            total = (total + other.astype(np.float32)).astype(NUMPY_DTYPES[dtype]).astype(np.float32)
        assert np.array_equal(fast[:elements].astype(np.float32), total)
    assert not fast[bursts * (elements + gap):].any()


def test_an_atomic_write_adds_to_what_the_caller_gives():
    x, y = np.arange(1024, dtype=np.float32).reshape(4, 256), np.full(256, 7.0, np.float32)
    got = execute(sums(cores=1, bursts=1, length=1024), {"X": x, "Y": y})["Y"]
    assert np.array_equal(got, x[0] + 7)


@pytest.mark.parametrize("change, words", [
    ({"dtype": "int8"}, "an atomic write adds fp32, fp16, bf16 or int32"),
    ({"length": 6}, "an atomic copy adds whole elements"), ({"gap": 2}, "an atomic copy adds whole elements")])
def test_what_atomic_writes_cannot_do_is_refused(change, words):
    p = sums(**change)
    with pytest.raises(CheckError, match=words):
        check(p, TOY)
    with pytest.raises(CheckError, match=words):
        execute(p, {"X": np.zeros((4, 256), NUMPY_DTYPES[change.get("dtype", "fp32")])})


def test_an_optional_field_of_zero_has_one_text_and_one_key():
    plain = sums()
    text = show(plain).replace(", atomic=1", "")
    spelt = parse_program(text.replace("dst_gap=0)\n  }", "dst_gap=0, atomic=0)\n  }"))
    assert spelt == parse_program(text) and key(spelt) == key(parse_program(text)) != key(plain)
    assert show(spelt) == text and spelt.streams[0].body[-1]["atomic"] == plain.streams[0].body[0]["atomic"]


PAIR = """program pair for toy {{
  input M: fp16[256]
  input X: fp32[256]
  output Y: fp32[256]
  space m: fp16 in L1 at 0 size 512
  space a: fp16 in L0A at 0 size 512
  space b: fp16 in L0B at 0 size 512
  space c: fp32 in L0C at 0 size 1024
  space x: fp32 in UB at 0 size 1024
  stream cube aic {{
    copy_gm_l1(dst=m[0], src=M[0], bursts=1, length=16, src_gap=0, dst_gap=0)
    set(MTE2, MTE1, 0)
    wait(MTE2, MTE1, 0)
    load_l0a(dst=a[0], src=m[0], repeat=1, src_stride=1, dst_gap=0, transpose=0)
    load_l0b(dst=b[0], src=m[0], repeat=1, src_stride=1, dst_gap=0, transpose=0)
    set(MTE1, M, 0)
    wait(MTE1, M, 0)
    mmad(dst=c[0], a=a[0], b=b[0], m=16, n=16, k=16, init=1{unit})
    set(M, FIXP, 0)
    wait(M, FIXP, 0)
    fixpipe_nd(dst=Y[0], src=c[0], m=16, n=16, src_rows=16, dst_stride=16, relu=0{drain}{cube})
    cross_set(FIXP, vec, 0)
  }}
  stream vec aiv grid [v in 2] {{
    copy_gm_ub(dst=x[0], src=X[0], bursts=1, length=1024, src_gap=0, dst_gap=0)
    set(MTE2, MTE3, 0)
    wait(MTE2, MTE3, 0)
    copy_ub_gm(dst=Y[0], src=x[0], bursts=1, length=1024, src_gap=0, dst_gap=0{vec})
    cross_wait(MTE3, cube, 0)
  }}
}}
"""


def pair(unit="", drain="", cube=", atomic=1", vec=", atomic=1"):
    return parse_program(PAIR.format(unit=unit, drain=drain, cube=cube, vec=vec))


def test_sums_of_two_cores_need_no_order_and_plain_writes_do():
    p = pair()
    check(p, TOY)
    x, m = np.arange(256, dtype=np.float32), np.eye(16, dtype=np.float16)
    got = execute(p, {"X": x, "M": m})["Y"].reshape(16, 16)
    assert np.array_equal(got, 2 * x.reshape(16, 16) + np.eye(16))
    assert np.array_equal(got.reshape(-1), evaluate_program(p, {"X": x, "M": m})["Y"])
    for broken in (pair(cube=""), pair(vec=""), pair(cube="", vec="")):
        with pytest.raises(CheckError, match="writes Y"):
            check(broken, TOY)


def test_both_sides_of_a_hand_over_in_granules_agree():
    check(pair(unit=", unit=1", drain=", unit=1"), TOY)
    with pytest.raises(CheckError, match="unit is 1 here and 0 in mmad, which shares c"):
        check(pair(drain=", unit=1"), TOY)
