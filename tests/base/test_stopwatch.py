"""The parts of a piece of work add up to the whole, whatever their order, and each has its own time."""
from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from aoec.base.stopwatch import Stopwatch

PARTS = st.sampled_from(("reading", "searching", "writing"))


@given(st.integers(0, 9), st.lists(st.tuples(PARTS, st.integers(0, 10**6), st.booleans(), st.integers(0, 10**6))))
def test_parts_add_up_to_the_whole(first: int, steps: list[tuple[str, int, bool, int]]) -> None:
    now, spent, current = 100, Counter[str](), "start"
    watch = Stopwatch(clock=lambda: now)

    def passes(ticks: int, part: str) -> None:
        nonlocal now
        now += ticks
        spent[part] += ticks

    passes(first, current)
    for part, ticks, within, after in steps:
        if within:
            with watch.during(part):
                passes(ticks, part)
        else:
            watch.begin(part)
            current = part
            passes(ticks, part)
        passes(after, current)
    found = watch.read()
    assert sum(found.values()) == now - 100
    assert {part: ticks for part, ticks in found.items() if ticks} == {part: ticks for part, ticks in spent.items() if ticks}
    assert list(found) == list(dict.fromkeys(["start", *(part for part, *_ in steps)]))
