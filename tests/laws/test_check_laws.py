"""Laws of the checker, on programs written by hand with edits drawn at random.

What it lets pass gives the same memory in every order that the chip may choose, over all iterations; and its walk through a
few iterations of each loop says what a walk through all of them says.
"""
from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from aoec.base.errors import AoecError
from aoec.ir.program import For, Instr, Program, Ref
from aoec.ir.text.parse import parse_program
from aoec.simulate.values.values import execute
from aoec.target.legality import trace
from aoec.target.legality.check import check
from aoec.target.legality.footprint import Box
from aoec.target.legality.hazard import boxes_meet
from aoec.target.machine import load
from tests.oracle.any_order import Broken, run_in_any_order

FOLDER = Path(__file__).parents[1] / "programs"
TOY = load("toy")

# the programs by hand at other trip counts: (text, its replacement by a drawn number of iterations)
SIZES = {
    "matmul": lambda n: [("for mt in 3", f"for mt in {n % 3 + 1}"), ("72", str(8 + n * 24))],
    "vector": lambda n: [("1000", str(232 + n * 256)), ("for t in 4", f"for t in {n + 1}"), ("2000", str(2 * (232 + n * 256)))],
    "two_streams": lambda n: [("mt in 5", f"mt in {n}"), ("t in 5", f"t in {n}"), ("[160, 32]", f"[{32 * max(n, 1)}, 32]")],
}


def triple(n):
    """The vector pipeline with three slots of everything."""
    return [*SIZES["vector"](n), ("depth 2", "depth 3"), ("at 1024", "at 1536"), ("at 2048", "at 3072"), ("for d in 2", "for d in 3"),
            ("for e in 2", "for e in 3")]


SIZES["triple"] = triple


def sized(name: str, n: int) -> Program:
    text = (FOLDER / f"{'vector' if name == 'triple' else name}.prog").read_text("utf-8")
    for old, new in SIZES[name](n):
        assert old in text
        text = text.replace(old, new)
    if name == "matmul":
        text = text.replace("for k1 in 3", f"for k1 in {-(-(8 + n * 24) // 32)}")
    return parse_program(text, name)


def flat(body):
    """Every body in a stream, with the path to it."""
    yield (), body
    for i, item in enumerate(body):
        if isinstance(item, For):
            for path, inner in flat(item.body):
                yield (i, *path), inner


def put(body, path, new):
    if not path:
        return new
    i = path[0]
    return body[:i] + (replace(body[i], body=put(body[i].body, path[1:], new)),) + body[i + 1:]


def edit(draw, p: Program) -> Program:
    """The program with one thing dropped, moved, or given another slot or id."""
    s = draw(st.integers(0, len(p.streams) - 1))
    path, body = draw(st.sampled_from([(path, b) for path, b in flat(p.streams[s].body) if b]))
    i = draw(st.integers(0, len(body) - 1))
    kind, item = draw(st.sampled_from(("drop", "move", "move", "move", "change"))), body[i]
    if kind == "drop":
        new = body[:i] + body[i + 1:]
    elif kind == "move":
        j = draw(st.integers(max(0, i - 4), min(len(body) - 1, i + 4)))
        rest = body[:i] + body[i + 1:]
        new = rest[:j] + (item,) + rest[j:]
    elif isinstance(item, Instr):
        by = draw(st.integers(-1, 1))
        fields = tuple((k, replace(v, slot=v.slot + by) if isinstance(v, Ref) else v) for k, v in item.fields)
        new = body[:i] + (Instr(item.op, fields),) + body[i + 1:]
    else:
        assume(hasattr(item, "id"))
        new = body[:i] + (replace(item, id=item.id + draw(st.integers(-1, 1))),) + body[i + 1:]
    streams = list(p.streams)
    streams[s] = replace(streams[s], body=put(streams[s].body, path, new))
    return replace(p, streams=tuple(streams))


@st.composite
def edited(draw):
    p = sized(draw(st.sampled_from(sorted(SIZES))), draw(st.sampled_from((0, 1, 2, 3, 4, 5, 6, 9))))
    for _ in range(draw(st.integers(0, 2))):
        p = edit(draw, p)
    return p


def verdict(p: Program) -> str:
    try:
        check(p, TOY)
    except AoecError as error:
        return type(error).__name__
    return "legal"


def feeds(p: Program, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {t.name: rng.integers(-4, 5, [d.value for d in t.shape]).astype(np.float16) for t in p.tensors if t.role == "input"}


@pytest.mark.parametrize("name", sorted(SIZES))
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5])
def test_programs_by_hand_are_legal_at_every_trip_count(name, n):
    check(sized(name, n), TOY)


@settings(max_examples=60, deadline=None)
@given(edited(), st.integers(0, 9))
def test_what_is_legal_gives_one_result_in_every_order(p, seed):
    outcome = verdict(p)
    event(outcome)
    assume(outcome == "legal")
    x = feeds(p, seed)
    expected = execute(p, x)
    for order in range(2):
        got = run_in_any_order(p, x, seed * 2 + order)
        for name, value in expected.items():
            assert np.array_equal(got[name], value, equal_nan=True), name


@settings(max_examples=60, deadline=None)
@given(edited())
def test_a_few_iterations_say_what_all_of_them_say(p):
    few = verdict(p)
    event(few)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace, "visits", lambda trips, period: [(i, 1) for i in range(trips)])
        assert verdict(p) == few


def test_the_oracle_sees_what_the_checker_refuses():
    """Without a flag that the checker misses, some order gives another result: the oracle can tell."""
    p = sized("vector", 3)
    def kept(body):
        return tuple(replace(i, body=kept(i.body)) if isinstance(i, For) else i for i in body
                     if (getattr(i, "source", ""), getattr(i, "target", "")) != ("V", "MTE3"))
    dropped = replace(p, streams=(replace(p.streams[0], body=kept(p.streams[0].body)),))
    assert verdict(dropped) == "CheckError"
    x, results = feeds(p, 0), set()
    for seed in range(20):
        try:
            results.add(run_in_any_order(dropped, x, seed)["Y"].tobytes())
        except Broken as error:
            results.add(str(error))
    assert len(results) > 1


boxes = st.builds(Box, st.integers(0, 30), st.integers(1, 9), st.integers(0, 12), st.integers(1, 5))


@given(boxes, boxes)
def test_boxes_meet_where_they_share_a_byte(a, b):
    def covered(x):
        return {x.start + r * x.stride + i for r in range(x.runs) for i in range(x.length)}
    assert boxes_meet(a, b) == bool(covered(a) & covered(b))


@given(st.integers(0, 60), st.integers(1, 6))
def test_walked_iterations_keep_first_last_and_every_counter(trips, period):
    walked = trace.visits(trips, period)
    iterations = [i for i, _ in walked]
    assert sum(weight for _, weight in walked) == trips
    assert iterations == sorted(set(iterations)) and set(iterations) <= set(range(trips))
    if trips:
        assert iterations[0] == 0 and iterations[-1] == trips - 1
        assert (trips - len(walked)) % period == 0
    assert len(walked) <= 2 * period + 3
