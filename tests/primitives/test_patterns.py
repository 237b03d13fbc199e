"""The matchers find the fields of instructions, and say what does not fit."""
from __future__ import annotations

import pytest

from aoec import primitives
from aoec.base.errors import ScheduleError
from aoec.ir.func.tir import Func, blocks
from aoec.ir.index import evaluate
from aoec.ir.rewrite import fill, normalise
from aoec.ir.text.parse import parse_func
from aoec.primitives import patterns
from tests.primitives.funcs import FUNCS, load

VALUES = {"th1": 2, "gh": 2, "th0": 1, "tw": 2, "tn": 1, "gn": 2, "tk1": 1, "tk0": 4, "d1": 2}


def match(func: Func, block: str) -> object:
    """The record of a tensorized block."""
    found, above = next((b, above) for b, above in blocks(func.body) if b.name == block)
    return patterns.MATCHERS[found.instr or ""](func, found, [x for x in above if x.kind == "tensor"])


def scheduled(name: str) -> Func:
    func, trace = load(name)
    return primitives.apply(func, trace)


@pytest.mark.parametrize("func", [scheduled("conv2d"), normalise(fill(scheduled("conv2d"), VALUES))], ids=["holes", "filled"])
def test_load3d_of_the_convolution(func: Func) -> None:
    found = match(func, "im2col")
    assert isinstance(found, patterns.Load3d)
    assert (found.filter, found.stride, found.dilation, found.c0) == ((3, 2), (2, 2), (1, 1), 16)
    assert (found.h_loop, found.w_loop, found.k_loop) == ("ih", "iw", "ik")
    env = {**VALUES, "hc": 0, "ht": 0, "hm": 0, "wt": 0, "k1": 1, "k0": 1, "n": 1}
    assert evaluate(found.row, env) == evaluate(found.col, env) == -1, "the first window begins one row and column outside"
    assert evaluate(found.k_start, env) == 64, "the second tile of four fractals, counted from the channel that L1 begins with"
    env = {**env, "hc": 1}
    assert evaluate(found.row, env) == 0, "inside the image the window begins where L1 begins"


def test_load3d_counts_rows_from_the_start_of_l1() -> None:
    """With X resident over several tiles of rows, a later tile begins further down in the same image."""
    found = match(scheduled("conv2d.resident"), "im2col")
    assert isinstance(found, patterns.Load3d)
    env = {**VALUES, "hc": 0, "ht": 0, "wt": 0, "k1": 1, "k0": 1, "n": 1}
    assert [evaluate(found.row, {**env, "hm": hm}) for hm in (0, 1)] == [-1, 1]
    assert evaluate(found.k_start, env) == 96 + 64


def test_mmad_and_fixpipe_of_the_convolution() -> None:
    func = scheduled("conv2d")
    mmad, out = match(func, "mm"), match(func, "out")
    assert isinstance(mmad, patterns.Mmad) and isinstance(out, patterns.Result)
    assert (mmad.rows, mmad.column, mmad.depth) == (("hi", "wi"), "ni", "ki")
    assert (out.rows, out.column, out.relu, out.c0) == (("oh", "ow"), "oc", True, 16)


def test_mmad_and_fixpipe_of_the_matmul() -> None:
    func = scheduled("matmul")
    mmad, out = match(func, "mm"), match(func, "out")
    assert isinstance(mmad, patterns.Mmad) and isinstance(out, patterns.Result)
    assert (mmad.c.buffer, mmad.a.buffer, mmad.b.buffer) == ("C", "A_L0A", "B_L0B")
    assert (mmad.rows, mmad.column, mmad.depth, mmad.init is not None) == (("mi",), "ni", "ki", True)
    assert (out.rows, out.column, out.relu, out.c0) == (("om",), "on", True, 0)


def test_guarded_copy_of_the_pooling() -> None:
    found = match(scheduled("max_pool"), "pad")
    assert isinstance(found, patterns.Copy)
    assert found.source.buffer == "X" and len(found.guards) == 4 and found.otherwise is not None


@pytest.mark.parametrize("schedule, block, op, scalar", [
    ("softmax", "wide", "vconv", None), ("softmax", "most", "vcmax", None), ("softmax", "sub", "vsub", None),
    ("softmax", "ex", "vexp", None), ("softmax", "sum", "vcadd", None), ("softmax", "inverse", "vrec", None),
    ("softmax", "scale", "vmul", None), ("max_pool", "pool", "vmax", None),
    ("elementwise", "relu", "vrelu", None), ("global_avg_pool", "mean", "vmuls", 0.05),
    ("global_avg_pool", "sum", "vadd", None),
])
def test_vector_operations(schedule: str, block: str, op: str, scalar: float | None) -> None:
    found = match(scheduled(schedule), block)
    assert isinstance(found, patterns.Vector)
    assert (found.op, found.scalar) == (op, scalar)


@pytest.mark.parametrize("value, op, scalar", [
    ("X[i] - 2.0", "vadds", -2.0), ("3.0*X[i]", "vmuls", 3.0), ("min(X[i], 6.0)", "vmins", 6.0), ("max(1.0, X[i])", "vmaxs", 1.0),
    ("X[i]/Z[i]", "vdiv", None), ("1.5", "vdup", 1.5), ("X[i]", "vcopy", None),
    ("abs(X[i])", "vabs", None), ("fp32(X[i] + Z[i])", "vadd", None),
])
def test_vector_words(value: str, op: str, scalar: float | None) -> None:
    found = vector_of(value)
    assert isinstance(found, patterns.Vector) and (found.op, found.scalar) == (op, scalar)


@pytest.mark.parametrize("value", ["X[i] + Z[i]*2.0", "2.0 - X[i]", "X[i]/2.0", "tanh(X[i])", "select(i < 3, X[i], 0.0)", "fp16(X[i])"])
def test_what_is_no_single_vector_operation_is_refused(value: str) -> None:
    with pytest.raises(ScheduleError, match="no single vector operation"):
        vector_of(value)


def vector_of(value: str) -> object:
    locals_ = "\n".join(f"local {name}: fp32[8] in UB" for name in "XZY")
    func = parse_func(f"func f(A: fp32[8]) -> (B: fp32[8]) {{ {locals_} for i in 8 {{ b: Y[i] = {value} }} }}")
    block, above = blocks(func.body)[0]
    return patterns.match_vector(func, block, above)


CHANGES = [
    ("mm", "col[n, ho, wo, k]*W[k, co]", "col[n, ho, wo, k]*W[k, co]*2.0", "mm is no mmad: a factor is not a plain read"),
    ("out", "max(C[on, oh, ow, oc], 0.0)", "exp(C[on, oh, ow, oc])", "relu and a cast, nothing else"),
    ("im2col", "X[im, ik//96, ih*2 + ik//32%3 - 1", "X[im, ik//96, ih*2 + ik//32%3 - 2", "a condition that is not one of its bounds"),
    ("im2col", "iw*2 + ik//16%2 - 1, ik%16], 0.0)", "iw*2 + ik//16%2 - 1, ik%16], 1.0)", "it pads with something else than 0.0"),
    ("im2col", "ik//96, ih*2", "ik//64, ih*2", "k does not run over|not k //"),
]


@pytest.mark.parametrize("block, old, new, message", CHANGES)
def test_instructions_that_do_not_fit_are_refused(block: str, old: str, new: str, message: str) -> None:
    text = (FUNCS / "conv2d.tir").read_text()
    assert old in text
    with pytest.raises(ScheduleError, match=message):
        primitives.apply(parse_func(text.replace(old, new)), load("conv2d")[1])
