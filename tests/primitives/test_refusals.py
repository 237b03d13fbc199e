"""What a move refuses, and the sentence with which it does."""
from __future__ import annotations

import re

import pytest

from aoec import primitives
from aoec.base.errors import ScheduleError
from aoec.ir.text.parse import parse_func, parse_trace
from aoec.ir.text.show import show
from tests.primitives.funcs import load

REFUSALS = [
    ("matmul", "split(loop=z, factor=2)", "no loop z; there is k, m, n, om, on"),
    ("matmul", "split(loop=m)", "give either factor (iterations in a tile) or parts (number of tiles)"),
    ("matmul", "split(loop=m, factor=2, outer=n, inner=x)", "the name n is in use already; choose another"),
    ("matmul", "split(loop=m, factor=?t, outer=a, inner=b) split(loop=b, parts=2)",
     "the extent of b depends on a, so parts could be empty; split it by factor, or split the outer loop of the pair"),
    ("matmul", "reorder(loops=[m, om])", "om is not nested perfectly with m: other nodes stand between them or beside them"),
    ("matmul", "split(loop=m, factor=?t, outer=a, inner=b) reorder(loops=[b, a])",
     "the extent of b depends on a, which would be inside it; keep a outside b"),
    ("matmul", "fuse(outer=n, inner=k, fused=nk)", "mm accumulates over k and not over the other loop"),
    ("matmul", "fuse(outer=m, inner=k, fused=mk)", "k is not the only thing directly inside m"),
    ("matmul", "reorder(loops=[k, n]) compute_at(block=out, loop=k)",
     "C is not complete inside k, which mm accumulates or repeats over; move out further out"),
    ("matmul", "compute_at(block=mm, loop=k)", "mm is under k already"),
    ("matmul", "compute_inline(block=mm)", "mm accumulates; only plain assignments can be inlined"),
    ("matmul", "cache_read(block=mm, buffer=Y, scope=L1, at=k)", "mm does not read Y"),
    ("matmul", "cache_read(block=mm, buffer=A, scope=L0D, at=k)", "no scope L0D; did you mean L0C?"),
    ("matmul", "cache_read(block=mm, buffer=A, scope=L0A, at=k)", "L0A holds layout ZZ or NN, not ND"),
    ("matmul", "cache_read(block=mm, buffer=A, scope=L1, at=om)", "om is not a loop around mm; around it: m, n, k"),
    ("matmul", "cache_read(block=out, buffer=C, scope=UB, at=on) cache_read(block=mm, buffer=A, scope=L1, at=m, name=C_UB)",
     "the name C_UB is in use already; choose another"),
    ("matmul", "cache_write(block=mm, buffer=C, scope=L0C, at=n, layout=NZ)",
     "C is touched elsewhere too; use set_scope, or cache what reads it"),
    ("matmul", "set_scope(buffer=A, scope=L1)", "A is an input or output and stays in GM; use cache_read or cache_write"),
    ("matmul", "set_scope(buffer=C, scope=L0C, layout=NZ, pad=8)", "C has no rows that lie apart: pad is for matrices in UB, layout ND"),
    ("matmul", "double_buffer(buffer=C, depth=2)", "C is in GM, which has no slots; use set_scope first"),
    ("matmul", "tensorize(loop=m, instr=mmad)", "mm touches C in GM, not in L0C; use cache_read, cache_write or set_scope"),
    ("matmul", "tensorize(loop=m, instr=gemm)", "no instruction gemm; there is copy, drain, epilogue, fixpipe, "
     "load3d, mmad, padded, store, vector"),
    ("matmul", "bind(loop=k)", "k is not an outermost loop; reorder it outside m, n"),
    ("matmul", "bind(loop=m)", "m is not around everything: nodes stand beside it; use compute_at to bring them inside"),
    ("matmul", "bind(loop=m, axis=thread)", "no axis thread; there is core"),
    ("matmul", "stage(block=out, scope=UB, at=n)", "n is not a loop of out alone; its own are om, on"),
    ("matmul", "split(loop=on, factor=3, outer=a, inner=b) even(loop=a, extent=8, factor=3)",
     "a is not the outer loop of a split of 8 by 3"),
    ("softmax", "compute_at(block=wide, loop=er)", "er is neither around every reader of T nor around a writer of what wide reads"),
    ("max_pool", "cache_write(block=pool, buffer=Y, scope=UB, at=kh)",
     "pool accumulates over kh, so Y is not complete in it; use a loop further out"),
    ("max_pool", "compute_at(block=pool, loop=ph)",
     "an index of pool into P is more than one loop (h, kh); move the block before splitting its loops"),
]


SMALL = "func f(X: fp32[8, 4]) -> (Y: fp32[8, 4]) { local C: fp32[4] for i in 8 { for j in 4 { b: Y[i, j] = X[i, j] } } }"
CHAIN = SMALL.replace("{ local C: fp32[4]", "{ local T: fp32[8, 4]").replace("b: Y[i, j] = X[i, j] } }", "b: T[i, j] = X[i, j] } } "
                      "for h in 8 { for l in 4 { c: Y[h, l] = T[h, l] } }")
SUMS = "func f(X: fp32[8, 4]) -> (Y: fp32[4]) { for k in 8 { for i in 4 { b: Y[i] += X[k, i] } } }"


@pytest.mark.parametrize("text, steps, message", [
    (SMALL, "set_scope(buffer=C, scope=UB)", "nothing reads or writes C"),
    (SMALL, "split(loop=i, parts=?p, outer=o, inner=p, deal=cyclic) cache_write(block=b, buffer=Y, scope=UB, at=o)",
     "b writes Y with gaps in one iteration of o; copy inside p, which steps over them"),
    (SMALL, "split(loop=i, factor=2, outer=t, inner=r) split(loop=t, parts=2, outer=o, inner=p, deal=cyclic) "
     "cache_write(block=b, buffer=Y, scope=UB, at=o)", "b writes Y with gaps in one iteration of o; copy inside p, which steps over them"),
    (SMALL, "cache_write(block=b, buffer=Y, scope=UB, at=j, name=W) compute_at(block=b, loop=Y_out_0) pack(block=Y_out)",
     "W is written inside Y_out_0, and is not whole before it"),
    (SMALL, "end_blocks(block=b)", "b is no copy to GM; tensorize it as one first"),
    (SMALL, "cache_read(block=[b], buffer=X, scope=UB) tensorize(loop=i, instr=copy) end_blocks(block=b)",
     "b copies rows of 4 elements, whose end is no block apart from others"),
    (SMALL, "unpack(block=b)", "b is no copy from GM; tensorize it as one first"),
    (SMALL, "join_rows(block=[b])", "parts of rows are copied by two blocks or more"),
    (SUMS, "rotate(loop=i, by=[k])", "b accumulates over k, so where it writes cannot hang on that"),
    (SUMS, "swizzle(outer=k, inner=i, fused=v, order=rows)", "b accumulates over k and not over the other loop"),
    (SMALL, "rotate(loop=j, by=[i]) split(loop=j, factor=2, outer=o, inner=p) cache_write(block=b, buffer=Y, scope=UB, at=o)",
     "what b writes to Y in one iteration of o may be two parts, at the end and at the start"),
    (CHAIN, "rotate(loop=j, by=[i]) split(loop=j, factor=2, outer=o, inner=p) compute_at(block=c, loop=o)",
     "what b writes to T in one iteration of o may be two parts, at the end and at the start")])
def test_what_would_change_the_meaning_is_refused(text: str, steps: str, message: str) -> None:
    with pytest.raises(ScheduleError, match=re.escape(message)):
        primitives.apply(parse_func(text), parse_trace(f"sched s {{ {steps} }}"))


def test_what_is_dealt_out_is_copied_inside() -> None:
    steps = "split(loop=i, parts=?p, outer=o, inner=p, deal=cyclic) cache_write(block=b, buffer=Y, scope=UB, at=p)"
    assert "Y_out" in show(primitives.apply(parse_func(SMALL), parse_trace(f"sched s {{ {steps} }}")))


@pytest.mark.parametrize("name, steps, message", REFUSALS)
def test_refusal(name: str, steps: str, message: str) -> None:
    func = load(name)[0]
    before = show(func)
    with pytest.raises(ScheduleError) as e:
        primitives.apply(func, parse_trace(f"sched s {{ {steps} }}"))
    assert str(e.value).split(": ", 1)[1] == message
    assert show(func) == before


def test_a_sum_that_outlives_the_loop_is_not_spread_over_cores() -> None:
    func = parse_func("func f(X: fp32[4]) -> (Y: fp32[1]) { for i in 4 { a: Y[0] += X[i] } }")
    with pytest.raises(ScheduleError, match="a writes the same elements of Y in every iteration of i"):
        primitives.apply(func, parse_trace("sched s { bind(loop=i) }"))


def test_a_copy_by_a_remainder_that_varies_has_a_size() -> None:
    """Of the last tile fewer elements are read; the buffer has room for a whole one."""
    func = parse_func("func f(X: fp32[3]) -> (Y: fp32[3]) { for o in 2 "
                      "{ for v in min(2, 3 - o*2) { b: Y[o*2 + v] = X[v % min(3 - o*2, 2)] } } }")
    done = primitives.apply(func, parse_trace("sched s { cache_read(block=[b], buffer=X, scope=UB, at=o) }"))
    assert "local X_UB: fp32[2] in UB" in show(done)


def test_several_readers_share_one_copy() -> None:
    func = parse_func("""func f(X: fp32[8]) -> (Y: fp32[8]) { local T: fp32[8]
      for o in 2 { for i in 4 { a: T[o*4 + i] = exp(X[o*4 + i]) } for j in 4 { b: Y[o*4 + j] = T[o*4 + j] + X[o*4 + j] } } }""")
    done = primitives.apply(func, parse_trace("sched s { cache_read(block=[b, a], buffer=X, scope=UB, at=o) }"))
    text = show(done)
    assert text.count("] = X[") == 1 and text.count("X_UB[") == 3
