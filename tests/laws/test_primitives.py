"""Laws of the schedule moves, on small funcs with tails and on any sequence of moves that a coin picks.

A move keeps the meaning or refuses and changes nothing; holes may be filled before or after; text is kept.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from aoec import primitives
from aoec.base.errors import ScheduleError
from aoec.ir.func.evaluate import block_reads, evaluate_func
from aoec.ir.func.tir import Func, Loop, blocks, walk
from aoec.ir.index import Call, Hole, Int, evaluate
from aoec.ir.rewrite import fill, normalise
from aoec.ir.schedule import Step, Trace, Value
from aoec.ir.text.parse import parse_func
from aoec.ir.text.show import show
from aoec.primitives.primitive import from_step

MATMUL = """
func f(A: fp16[{m}, {k}], B: fp16[{k}, {n}], bias: fp32[{n}]) -> (Y: fp16[{m}, {n}]) {{
  local C: fp32[{m}, {n}]
  for i in {m} {{ for j in {n} {{ for k in {k} {{ mm: C[i, j] += A[i, k]*B[k, j] init bias[j] }} }} }}
  for oi in {m} {{ for oj in {n} {{ out: Y[oi, oj] = fp16(max(C[oi, oj], 0.0)) }} }}
}}"""
ROWS = """
func f(X: fp16[{m}, {n}]) -> (Y: fp16[{m}, {n}]) {{
  local M: fp32[{m}]
  local D: fp32[{m}, {n}]
  local S: fp32[{m}]
  for a in {m} {{ for b in {n} {{ most: M[a] max= X[a, b] }} }}
  for c in {m} {{ for d in {n} {{ sub: D[c, d] = X[c, d] - M[c] }} }}
  for e in {m} {{ for g in {n} {{ sum: S[e] += D[e, g] }} }}
  for h in {m} {{ for l in {n} {{ out: Y[h, l] = D[h, l] + S[h] }} }}
}}"""
STENCIL = """
func f(X: fp32[{m}, {n}]) -> (Y: fp32[{m}, {n}]) {{
  local P: fp32[{m} + 2, {n}*2]
  for a in {m} + 2 {{ for b in {n}*2 {{ pad: P[a, b] = select(0 <= a - 1 and a - 1 < {m}, X[a - 1, b//2], -1.0) }} }}
  for i in {m} {{ for j in {n} {{ for t in 3 {{ for u in 2 {{ pool: Y[i, j] max= P[i + t, j*2 + u] }} }} }} }}
}}"""
GUARDED = """
func f(X: fp32[2, {m}, 4], W: fp32[24, {n}]) -> (Y: fp32[{m}, {n}]) {{
  local col: fp32[{m}, 24]
  for a in {m} {{ for q in 24 {{
    im2col: col[a, q] = select(0 <= a + q//4%3 - 1 and a + q//4%3 - 1 < {m}, X[q//12, a + q//4%3 - 1, q%4], 0.0)
  }} }}
  for i in {m} {{ for j in {n} {{ for k in 24 {{ mm: Y[i, j] += col[i, k]*W[k, j] }} }} }}
}}"""
SIZES = st.integers(1, 6)


@st.composite
def funcs(draw: st.DrawFn) -> Func:
    text = draw(st.sampled_from([MATMUL, ROWS, STENCIL, GUARDED]))
    return parse_func(text.format(m=draw(SIZES), n=draw(SIZES), k=draw(SIZES)))


@dataclass
class Scheduled:
    """A func, the steps that were accepted, and what came of them; `values` fill the holes."""

    func: Func
    steps: list[Step]
    result: Func
    values: dict[str, int]


def step_for(draw: st.DrawFn, func: Func, number: int, values: dict[str, int]) -> Step:
    """Some move with names that are there: most often ones that go together, not always."""
    word = draw(st.sampled_from([w for w in sorted(primitives.primitives()) for _ in range(WEIGHT.get(w, 1))]))
    block, above = draw(st.sampled_from(blocks(func.body)))
    loops = [n.var for n, _ in walk(func.body) if isinstance(n, Loop)]
    own = [x.var for x in above] or loops
    sensible = draw(st.integers(0, 4)) > 0
    loop = draw(st.sampled_from(own if sensible else loops))
    if word == "split":
        return split_step(draw, loop, number, values)
    if word == "reorder":
        return Step(word, (("loops", tuple(draw(st.permutations(own)))[:draw(st.integers(1, 4))]),))
    reads = [r.buffer for r in block_reads(block)] or [block.target.buffer]
    buffer = draw(st.sampled_from(reads if sensible else [b.name for b in func.buffers]))
    local = draw(st.sampled_from([b.name for b in func.locals] or ["Y"]))
    fields: dict[str, list[tuple[str, Value]]] = {
        "fuse": [("outer", loop), ("inner", own[(own.index(loop) + 1) % len(own)] if loop in own else loops[0]), ("fused", f"v{number}")],
        "compute_at": [("block", block.name), ("loop", draw(st.sampled_from([v for v in loops if v not in own] or loops)))],
        "compute_inline": [("block", block.name)],
        "cache_read": [("block", (block.name,)), ("buffer", buffer), ("at", loop), ("scope", "UB"), ("name", f"r{number}")],
        "cache_write": [("block", block.name), ("buffer", block.target.buffer), ("at", loop), ("scope", "UB"), ("name", f"w{number}")],
        "set_scope": [("buffer", local), ("scope", "UB")],
        "stage": [("block", block.name), ("scope", "UB"), *[("at", loop)] * draw(st.integers(0, 1))],
        "postpone_init": [("block", block.name)],
        "pack": [("block", block.name)],
        "double_buffer": [("buffer", local), ("depth", Int(2))],
        "place": [("buffer", local), ("skew", Int(256))],
        "bind": [("loop", loop)],
        "even": [("loop", loop), *split_of(func, loop)[draw(st.integers(0, 1)):]],
        "rotate": [("loop", loop), ("by", tuple(own[:1]))],
        "add_parts": [("block", block.name), ("loop", loop)],
        "unit_flag": [("buffer", local)],
        "preload": [("buffer", local)],
        "postpone": [("buffer", local)],
        "online": [("block", block.name), ("rows", Int(2)), ("keys", Int(4))],
        "tensorize": [("loop", loop), ("instr", draw(st.sampled_from(["vector", "copy"])))],
    }
    return Step(word, tuple(fields[word]))


WEIGHT = {"split": 5, "compute_at": 6, "cache_read": 4, "cache_write": 4, "set_scope": 4, "reorder": 3, "fuse": 3, "tensorize": 2}


def split_of(func: Func, loop: str) -> list[tuple[str, Value]]:
    """What the loop was split from, where it is the outer one of a split."""
    e = next(n.extent for n, _ in walk(func.body) if isinstance(n, Loop) and n.var == loop)
    total, tile = e.args if isinstance(e, Call) and e.fn == "ceildiv" else (e, Int(1))
    return [("extent", total), ("factor", tile)]


def split_step(draw: st.DrawFn, loop: str, number: int, values: dict[str, int]) -> Step:
    size = draw(st.integers(1, 5))
    if draw(st.booleans()):
        values[f"h{number}"] = size
    what = Hole(f"h{number}", (size, 7)) if f"h{number}" in values else Int(size)
    how = draw(st.sampled_from(["factor", "factor", "parts", "deal"]))
    fields = (("loop", loop), ("parts" if how == "deal" else how, what), ("outer", f"o{number}"), ("inner", f"i{number}"))
    most = (("most", draw(st.sampled_from([what, Int(3)]))),) * draw(st.integers(0, 1)) if how == "factor" else ()
    return Step("split", (*fields, ("deal", "cyclic")) if how == "deal" else (*fields, *most))


@st.composite
def schedules(draw: st.DrawFn) -> Scheduled:
    func = draw(funcs())
    done = Scheduled(func, [], func, {})
    for number in range(draw(st.integers(1, 12))):
        step = step_for(draw, done.result, number, done.values)
        before = show(done.result)
        try:
            after = primitives.apply(done.result, Trace((step,)))
            if step.primitive == "even" and not all(evaluate(c.condition, done.values) for c in after.constraints):
                continue  # its tiles do not come out even: the candidate is illegal
            done.steps.append(step)
        except ScheduleError as e:
            assert str(e).startswith("step 1, ")
            after = done.result
        assert show(done.result) == before
        done.result = after
    return done


def inputs(func: Func) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {b.name: rng.integers(-3, 4, [int(evaluate(s, {})) for s in b.shape]).astype(np.float32) for b in func.inputs}


SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
LAW = settings(max_examples=100, deadline=None, suppress_health_check=SLOW)


@LAW
@given(schedules())
def test_moves_keep_the_meaning(s: Scheduled) -> None:
    arrays = inputs(s.func)
    got = evaluate_func(fill(s.result, s.values), arrays, core_order=reversed)
    np.testing.assert_array_equal(got["Y"], evaluate_func(s.func, arrays)["Y"])


@LAW
@given(schedules())
def test_text_keeps_a_scheduled_func(s: Scheduled) -> None:
    assert parse_func(show(s.result)) == s.result


@LAW
@given(schedules())
def test_holes_are_filled_before_or_after(s: Scheduled) -> None:
    """Not for a quotient of a loop that a bare hole splits: whether its tiles begin on whole multiples shows only once
    the hole is filled. Sketches split such loops in whole units (test_convolutions)."""
    assume("//" not in show(s.func) and all(step.primitive != "fuse" for step in s.steps))
    trace = Trace(tuple(s.steps))
    early = primitives.apply(s.func, fill(trace, s.values))
    assert show(normalise(early)) == show(normalise(fill(s.result, s.values)))


@LAW
@given(schedules())
def test_a_step_and_its_primitive_say_the_same(s: Scheduled) -> None:
    for step in s.steps:
        primitive = from_step(step)
        assert from_step(primitive.step()) == primitive


@pytest.mark.parametrize("step, message", [
    (Step("splt", ()), "step 1, splt: unknown primitive splt; did you mean split?"),
    (Step("split", (("loop", "i"), ("factr", Int(2)))), "step 1, split: split has no field factr; did you mean factor?"),
    (Step("split", (("loop", Int(2)),)), "step 1, split: split's loop is a name, not an expression"),
    (Step("split", (("loop", "i"), ("factor", "t"))), "step 1, split: split's factor is a number or a hole, not the name t"),
    (Step("reorder", ()), "step 1, reorder: reorder needs loops"),
])
def test_a_trace_is_checked_without_a_func(step: Step, message: str) -> None:
    with pytest.raises(ScheduleError) as e:
        primitives.check(Trace((step,)))
    assert str(e.value) == message
