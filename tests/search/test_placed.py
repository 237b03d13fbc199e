"""A filled schedule is found again in its space, whatever the candidate; of another shape the nearest one is."""
from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.ir.index import Hole, Int
from aoec.ir.rewrite import fill, holes
from aoec.ir.schedule import Trace
from aoec.ir.text.parse import parse_func, parse_trace
from aoec.ir.text.show import show
from aoec.search.sketches.sketches import sketches
from aoec.search.space.grid import Grid
from aoec.search.space.nearest import nearest_candidates, nearest_choices
from aoec.target.machine import load

MATMUL = "func f(A: fp16[{m}, 512], B: fp16[512, 256] ZN) -> (Y: fp16[{m}, 256]) {{\n  local C: fp32[{m}, 256]\n  for m in {m} {{\n" \
         "    for n in 256 {{\n      for k in 512 {{\n        mm: C[m, n] += A[m, k] * B[k, n]\n      }}\n    }}\n  }}\n" \
         "  for out_m in {m} {{\n    for out_n in 256 {{\n      out: Y[out_m, out_n] = fp16(C[out_m, out_n])\n    }}\n  }}\n}}"


def space(m: int) -> tuple[list[Trace], list[Grid]]:
    """The sketches of a matrix product of so many rows, with their grids."""
    found = list(sketches(parse_func(MATMUL.format(m=m)), load()))
    return found, [Grid(tuple(h), tuple(h.values())) for h in map(holes, found)]


SPACE, OTHER = space(512), space(384)


@settings(max_examples=40)
@given(st.data())
def test_a_candidate_is_found_again(data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(SPACE[0]) - 1))
    grid = SPACE[1][number]
    values = tuple(data.draw(st.sampled_from(choices)) for choices in grid.choices)
    trace = parse_trace(show(fill(SPACE[0][number], dict(zip(grid.names, values)))))
    found = dict(nearest_candidates(*SPACE, trace))
    refilled = {n: fill(SPACE[0][n], dict(zip(SPACE[1][n].names, v))) for n, v in found.items()}
    assert refilled[number] == trace
    elsewhere = dict(nearest_candidates(*OTHER, trace))  # of a near shape: a candidate of the same sketch, whose choices hold what they can
    near = OTHER[1][number]
    assert all(v in c for v, c in zip(elsewhere[number], near.choices))
    assert all(v == w for n, v, w in zip(near.names, elsewhere[number], values) if n in ("tk", "da", "db", "pl"))


def test_another_structure_is_found_nowhere() -> None:
    assert nearest_candidates(*SPACE, parse_trace("sched {\n  split(loop=m, factor=16, outer=a, inner=b)\n}")) == []


def test_the_nearest_choice_is_by_ratio() -> None:
    choices: dict[str, tuple[int, ...]] = {"t": (16, 32, 64)}
    assert nearest_choices([(Hole("t"), 40)], choices) == {"t": 32} and nearest_choices([(Hole("t"), 50)], choices) == {"t": 64}
    assert nearest_choices([(Int(2), 3)], {"t": (16,)}) == {}


@pytest.mark.parametrize("text", ["sched {\n}", "sched {\n  bind(loop=x)\n}"])
def test_what_is_no_schedule_of_it_is_passed_over(text: str) -> None:
    assert nearest_candidates(*SPACE, parse_trace(text)) == []
