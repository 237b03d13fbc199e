"""Rows of vendor kernels whose schedule is not published, held to our own."""
from __future__ import annotations

from pathlib import Path

import pytest

from bench.cases.case import Case, read_cases
from bench.cases.library import tuned

PUBLISHED = {c.id: c for c in read_cases([Path(__file__).parents[2] / "bench/cases/published.csv"])}


def published(name: str) -> Case:
    """The published case of that id."""
    return PUBLISHED[name]


@pytest.mark.parametrize("name, within", [("m0537", 0.02), ("m0664", 0.08), ("m0673", 0.08)])
def test_what_streams_through_910a_takes_as_long_as_measured(name: str, within: float) -> None:
    """Of the first, a third of it written, follows the rate of HBM without turnaround; the others are Add and Mul of other networks."""
    r = tuned(published(name), 0)
    assert r.ratio == pytest.approx(1, abs=within)
