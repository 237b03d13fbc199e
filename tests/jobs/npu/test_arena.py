"""The arena: what is alive at one time shares no byte, and what is not may."""
from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aoec.jobs.npu.arena import ALIGN_BYTES, Life, align, place_lives

SPANS = st.tuples(st.integers(1, 5000), st.integers(-1, 12), st.integers(0, 6))


def lives_of(spans: list[tuple[int, int, int]]) -> list[Life]:
    return [Life(f"t{i}", size, first, first + more) for i, (size, first, more) in enumerate(spans)]


@given(st.lists(SPANS, max_size=24))
def test_what_is_alive_together_lies_apart(spans: list[tuple[int, int, int]]) -> None:
    lives = lives_of(spans)
    starts, total = place_lives(lives)
    for i, a in enumerate(lives):
        assert starts[a.name] % ALIGN_BYTES == 0 and starts[a.name] + a.size <= total
        for b in lives[:i]:
            apart = starts[a.name] + a.size <= starts[b.name] or starts[b.name] + b.size <= starts[a.name]
            assert apart or a.last < b.first or b.last < a.first
    peak = max((sum(align(x.size) for x in lives if x.first <= at <= x.last) for at in range(-1, 20)), default=0)
    assert peak <= total <= sum(align(x.size) for x in lives)


def test_a_row_of_tensors_takes_what_two_take() -> None:
    """Each is read by what makes the next."""
    starts, total = place_lives([Life(f"t{i}", 4096, i, i + 1) for i in range(9)])
    assert total == 2 * 4096 and set(starts.values()) == {0, 4096}


def test_nothing_takes_nothing() -> None:
    assert place_lives([]) == ({}, 0)
