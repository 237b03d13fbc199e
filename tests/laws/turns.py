"""How much of a law `make test` asks; make test-all (HYPOTHESIS_PROFILE=random) and mutants ask all of it."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet
from hypothesis import settings

SAME = settings.get_current_profile_name() == "same"


def examples(count: int) -> int:
    """So many drawn examples; in `make test` half of them."""
    return (count + 1) // 2 if SAME else count


def in_turn(rows: Iterable[Any], columns: Sequence[Any], first: int = 0) -> list[ParameterSet]:
    """Each row with each column, as parameters. `make test` asks of each row one column, of the next row the next one. Others are slow."""
    out = []
    for at, row in enumerate(rows):
        for number, column in enumerate(columns):
            marks = [pytest.mark.slow] * (number != (at + first) % len(columns))
            out.append(pytest.param(*(row if isinstance(row, tuple) else (row,)), column, marks=marks))
    return out
