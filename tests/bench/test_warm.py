"""What bench/warm.py stops the clock for is there."""
from __future__ import annotations

from bench.warm import STEPS, stopped_clocks


def test_each_step_is_a_function_of_its_module() -> None:
    spent: dict[str, float] = {}
    with stopped_clocks(spent):
        assert len(set(STEPS.values())) == len(STEPS) and spent == {}
