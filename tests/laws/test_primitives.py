"""Laws of the schedule moves, on small funcs with tails and on any sequence of moves that a coin picks.

A move keeps the meaning or refuses and changes nothing; holes may be filled before or after; text is kept.
"""
from __future__ import annotations

import contextlib
from dataclasses import dataclass
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from aoec import primitives
from aoec.base.errors import ScheduleError
from aoec.ir.func.evaluate import evaluate_func
from aoec.ir.func.tir import Func, blocks
from aoec.ir.index import Int, evaluate
from aoec.ir.rewrite import fill, holes, normalise
from aoec.ir.schedule import Step, Trace
from aoec.ir.text.parse import parse_func, parse_trace
from aoec.ir.text.show import show
from aoec.primitives.primitive import from_step
from aoec.report.words.primitives import facts

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
EXAMPLES = {example["name"]: example for example in facts()}  # of docstrings: primitive -> what it is applied to
# how often a move is tried: each once, or as often as stands here
WEIGHT = {"split": 5, "compute_at": 6, "cache_read": 4, "cache_write": 4, "set_scope": 4, "reorder": 3, "fuse": 3, "tensorize": 2}


def make_func(random: Random) -> Func:
    """A small func: three times in four one of the texts above, else what some primitive's example is applied to."""
    if random.randrange(4):
        return parse_func(random.choice([MATMUL, ROWS, STENCIL, GUARDED]).format(**{size: random.randint(1, 6) for size in "mnk"}))
    func = parse_func(EXAMPLES[random.choice(sorted(EXAMPLES))]["before"])
    return fill(func, {hole: random.randint(1, 4) for hole in holes(func)})


@dataclass
class Scheduled:
    """A func, the steps that were accepted, and what came of them; `values` fill the holes."""

    func: Func
    steps: list[Step]
    result: Func
    values: dict[str, int]


def make_step(random: Random, func: Func) -> Step:
    """Some move with names that are there: most often ones that go together, not always."""
    word = random.choice([w for w in sorted(primitives.primitives()) for _ in range(WEIGHT.get(w, 1))])
    return primitives.primitives()[word].sample(func, random).step()


def make_schedule(seed: int) -> Scheduled:
    """Up to 16 moves that were tried one after the other, without those that were refused."""
    random = Random(seed)
    func = make_func(random)
    done = Scheduled(func, [], func, {})
    for _ in range(random.randint(1, 16)):
        step = make_step(random, done.result)
        before = show(done.result)
        try:
            after = primitives.apply(done.result, Trace((step,)))
            values = done.values | {hole: choices[0] for hole, choices in holes(Trace((step,))).items() if choices}
            if not all(evaluate(c.condition, values) for c in after.constraints):
                continue  # the candidate is illegal
            done.steps.append(step)
            done.values = values
        except ScheduleError as e:
            assert str(e).startswith("step 1, ")
            after = done.result
        assert show(done.result) == before
        done.result = after
    return done


def schedules() -> st.SearchStrategy[Scheduled]:
    return st.integers(0, 2**32 - 1).map(make_schedule)


def inputs(func: Func) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {b.name: rng.integers(-3, 4, [int(evaluate(s, {})) for s in b.shape]).astype(np.float32) for b in func.inputs}


SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
LAW = settings(max_examples=100, deadline=None, suppress_health_check=SLOW)


@LAW
@given(schedules())
def test_moves_keep_the_meaning(s: Scheduled) -> None:
    """Exactly, but where a sum of rounded numbers has another order. Not where a part of quotients is written and copied: whether it begins
    on a whole multiple shows only once holes are filled, and sketches take whole units."""
    words = {step.primitive for step in s.steps}
    quotients = words & {"fuse", "swizzle"} or any("%" in show(i) for b, _ in blocks(s.func.body) for i in b.target.indices)
    assume("cache_write" not in words or not quotients)
    arrays = inputs(s.func)
    got, wanted = evaluate_func(fill(s.result, s.values), arrays, core_order=reversed), evaluate_func(s.func, arrays)
    for b in s.func.outputs:
        np.testing.assert_allclose(got[b.name], wanted[b.name], rtol=1e-5 if "exp" in show(s.func) else 0)


@pytest.mark.parametrize("word", sorted(EXAMPLES))
def test_a_primitive_can_be_tried(word: str) -> None:
    """Some of the calls that it makes up for its own example are legal, and text says each."""
    func, found = parse_func(EXAMPLES[word]["before"]), []
    for seed in range(200):
        call = primitives.primitives()[word].sample(func, Random(seed))
        text = show(Trace((call.step(),)))
        assert show(parse_trace(text)) == text
        with contextlib.suppress(ScheduleError):
            found.append(call.apply(func))
    assert found


@LAW
@given(schedules())
def test_text_keeps_a_scheduled_func(s: Scheduled) -> None:
    assert parse_func(show(s.result)) == s.result


@LAW
@given(schedules())
def test_holes_are_filled_before_or_after(s: Scheduled) -> None:
    """Not for a quotient of a loop that a bare hole splits: whether its tiles begin on whole multiples shows only once
    the hole is filled. Sketches split such loops in whole units (test_convolutions). Nor where loops are dealt out: the size of a buffer is
    bounded less closely by numbers than by names."""
    assume("//" not in show(s.func) and all(step.primitive != "fuse" and "deal" not in dict(step.fields) for step in s.steps))
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
