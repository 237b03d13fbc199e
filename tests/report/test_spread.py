"""Ranges of modelled times: from machines, widened by published small kernels, and of wholes."""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aoec.report import spread
from aoec.report.fidelity import Small, small_kernels
from aoec.report.spread import Within, range_about, sum_of, widen
from aoec.report.table import as_dict, show_table
from tests.report.test_table import REPORT

TIMES = st.lists(st.floats(50.0, 200.0), min_size=32, max_size=32)
KNOWN = Small(40.0, 35, 0.9, 1.25, 2.5)


@given(TIMES, st.floats(60.0, 190.0))
def test_nine_in_ten_of_the_machines_are_in_the_range_and_so_is_the_time(times, us):
    found = range_about(us, times)
    assert found.low_us <= us <= found.high_us and not found.published
    assert sum(found.low_us <= t <= found.high_us for t in times) >= 0.85 * len(times)


@pytest.mark.parametrize("us, low, high, published", [(10.0, 9.0, 25.0, True), (39.9, 35.91, 99.75, True), (40.0, 38.0, 42.0, False)])
def test_small_kernels_have_the_range_of_published_ones(us, low, high, published):
    found = widen(Within(us, 0.95 * us, 1.05 * us, 32), KNOWN)
    assert (found.low_us, found.high_us, found.published) == (pytest.approx(low), pytest.approx(high), published)


def test_a_whole_of_one_part_has_its_range_and_many_parts_vary_less(monkeypatch):
    """Parts that differ by chance even out, what is common to all of them does not: published kernels of KNOWN take a quarter more."""
    monkeypatch.setattr(spread, "small_kernels", lambda: KNOWN)
    times = [10.0] * 32
    one = range_about(10.0, times)
    assert sum_of(10.0, [(1, one, times)]).high_us == pytest.approx(one.high_us)
    many = sum_of(1000.0, [(1, one, times)] * 100)
    assert 1250 < many.high_us < 1500 and 950 < many.low_us <= 1000
    assert sum_of(500.0, [(1, one, times)] * 100).high_us == pytest.approx(many.high_us / 2)  # launches that overlap


def test_what_a_machine_does_to_one_part_it_does_to_all():
    times = list(np.linspace(80.0, 120.0, 32))
    one = range_about(100.0, times)
    both, opposed = (sum_of(200.0, [(1, one, times), (1, one, t)]) for t in (times, times[::-1]))
    assert (both.low_us, both.high_us) == (pytest.approx(2 * one.low_us), pytest.approx(2 * one.high_us))
    assert (opposed.low_us, opposed.high_us) == (pytest.approx(200.0), pytest.approx(200.0))


@pytest.mark.parametrize("low, high, text", [(92.0, 108.0, "±8%"), (95.0, 266.0, "-5% +166%"), (100.0, 100.0, "±0%")])
def test_ranges_in_words(low, high, text):
    assert str(Within(100.0, low, high, 32)) == text


def test_a_table_has_a_column_of_ranges_where_they_were_asked_for():
    w = Within(24.5, 22.0, 27.0, 32)
    ranged = replace(REPORT, rows=(replace(REPORT.rows[0], within=w), *REPORT.rows[1:]), within={"latency": w, "isolated": w})
    assert "±10%" in show_table(ranged, 80)  # who asked for it sees it, without gain and gap
    shown = show_table(ranged, 100)
    assert "±10%" in shown and "within" in shown and max(map(len, shown.splitlines())) <= 100 and "within" not in show_table(REPORT, 100)
    assert as_dict(ranged)["groups"][0]["within"]["high_us"] == 27.0 and as_dict(REPORT)["within"] == {}


def test_the_facts_have_small_kernels():
    known = small_kernels()
    assert known is not None and known.rows >= 20 and known.least < known.median < known.most and f"{known.rows} published" in str(known)
