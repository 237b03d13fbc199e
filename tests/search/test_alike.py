"""Choices of a hole that say the same: what differs in nothing else takes as long and is legal alike; and one of them is tried."""
from __future__ import annotations

import numpy as np
import pytest

from aoec.ir.index import Binary, Call, Hole, Int, Var, evaluate, hole_names
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.tuning import Problem, problem
from aoec.search.proof.slots import Kinds
from aoec.search.space.alike import Piece
from aoec.search.space.restrict import Restriction, parse_where
from aoec.simulate.encode.tables import first_false
from aoec.simulate.timing.time import time_rows
from aoec.target.machine import load

FUNCS = ("matmul(m=100, k=300, n=260, bias)", "conv2d(n=1, c=64, h=28, w=28, co=96, kh=3, kw=3, pad=1, bias, relu)",
         "conv2d(n=2, c=48, h=14, w=14, co=64, kh=1, kw=1, bias)", "softmax(m=300, n=700)")
TARGETS = ("Ascend910B1", "Ascend310P3", "Ascend310B1")
SHORT = ((1, 0), (0, 1), (2, 2), (3, 1))  # (func, target) that are always tried
ROWS = 5_000


def rows_of(p: Problem, sketch: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    """Random rows of a sketch, legal or not."""
    grid = p.space.grids[sketch]
    return {name: random.choice(values, ROWS) for name, values in zip(grid.names, grid.choices)}


@pytest.mark.parametrize("text, target", [pytest.param(f, t, marks=[pytest.mark.slow] * ((i, k) not in SHORT))
                                          for i, f in enumerate(FUNCS) for k, t in enumerate(TARGETS)])
def test_what_says_the_same_takes_as_long_and_is_legal_alike(text: str, target: str) -> None:
    p, random, seen = problem(lower_operator(text), load(target)), np.random.default_rng(0), set()
    for sketch, own in enumerate(p.sketches):
        for hole, tile, cap in own.ceilings:
            columns = rows_of(p, sketch, random)
            choices = np.sort(p.space.grids[sketch].choices[p.space.grids[sketch].names.index(hole)])
            each = np.stack([evaluate(tile, {**columns, hole: np.full(ROWS, c)}) for c in choices])
            least = choices[np.argmax(each >= evaluate(cap, columns), axis=0)]
            larger = np.flatnonzero((evaluate(tile, columns) >= evaluate(cap, columns)) & (columns[hole] > least))
            columns = {n: v[larger] for n, v in columns.items()}
            smallest = {**columns, hole: least[larger]}
            legal = first_false(own.encoded, columns, len(larger)) == 0
            assert (legal == (first_false(own.encoded, smallest, len(larger)) == 0)).all(), (sketch, hole)
            some = np.flatnonzero(legal)[:20]
            times = [time_rows(own.encoded, {n: v[some] for n, v in rows.items()}, p.state) for rows in (columns, smallest)]
            assert (times[0].total_ticks == times[1].total_ticks).all() and (times[0].status == times[1].status).all(), (sketch, hole)
            seen |= {hole} if len(some) else set()
    assert "softmax" in text or {"tk", "sk"} & seen, seen


@pytest.mark.parametrize("text", FUNCS[:2])
def test_of_those_that_say_the_same_the_smallest_is_tried(text: str) -> None:
    p, random = problem(lower_operator(text), load("Ascend910B1")), np.random.default_rng(1)
    for sketch, own in enumerate(p.sketches):
        kinds, columns = Kinds(sketch, p.space.grids[sketch], p), {n: v[:50] for n, v in rows_of(p, sketch, random).items()}
        for hole, tile, cap in own.ceilings:
            kinds.ceilings = [(hole, tile, cap, hole_names(tile) | hole_names(cap))]
            choices = np.sort(kinds.choices[hole])
            kept = np.stack([kinds.leading({**columns, hole: np.full(50, c)}, hole, 50) for c in choices])
            tiles = np.stack([evaluate(tile, {**columns, hole: np.full(50, c)}) for c in choices])
            large = np.broadcast_to(tiles >= evaluate(cap, columns), tiles.shape)
            assert (kept[~large]).all() and ((kept & large).sum(axis=0) == large.any(axis=0)).all(), (sketch, hole)
            assert (np.argmax(kept & large, axis=0) == np.argmax(large, axis=0)).all(), (sketch, hole)


def test_a_hole_that_is_asked_for_itself_says_more() -> None:
    func, machine = lower_operator(FUNCS[0]), load("Ascend910B1")
    holes = [{hole for s in problem(func, machine, restriction=r).sketches for hole, _, _ in s.ceilings}
             for r in (Restriction((), (), (), ()), Restriction((), (), (parse_where("sk * sk <= 16"),), ()))]
    assert "sk" in holes[0] and "sk" not in holes[1]


def test_sizes_are_no_more_than_a_cap_only_where_what_is_taken_off_is_none_below_zero() -> None:
    piece = Piece(Hole("t"), Hole("s"), {"t": (1, 2), "s": (4, 8), "u": (-1, 3)})
    moved = Binary("*", Var("i"), Hole("t"))
    assert piece.holds(Call("min", (Int(9), Binary("-", Hole("s"), moved))))
    assert not piece.holds(Binary("-", Hole("s"), Hole("u"))) and not piece.holds(Binary("+", Hole("s"), moved))
    assert not piece.holds(Int(3)) and not piece.holds(Binary("-", Hole("s"), Binary("-", Var("i"), Int(1))))
    assert piece.drop_cuts(Call("ceildiv", (Binary("+", Hole("s"), Int(1)), Hole("t")))) != Int(1)
