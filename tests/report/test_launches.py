"""The drawing of a model's launches: each has a row, its bar is its time, arcs keep apart, names are names, and it stays small."""
from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.report.pictures import launches
from aoec.report.pictures.launches import Launch, Row, Structure, arc_lanes, picture, rows


def launch(at: int, us: float = 1.0, *reads: int, kind: str = "vector") -> Launch:
    return Launch(f"g{at}", kind, ((f"n{at}", "add"),), (), us, 1, tuple(f"g{i}" for i in reads))


def elements(text: str, name: str) -> list[ElementTree.Element]:
    return [e for e in ElementTree.fromstring(text).iter() if e.tag == name]


def test_a_bar_is_as_long_as_its_launch_takes() -> None:
    structure = Structure((launch(0, 2.0), launch(1, 8.0, 0, kind="cube"), replace(launch(2, 4.0, 0, 1), slices=4)))
    text = picture(structure)
    bars = [float(e.get("width") or 0) for e in elements(text, "rect")]
    assert bars == pytest.approx([launches.BAR / 4, launches.BAR, launches.BAR / 2], abs=0.06)
    assert [e.get("class") for e in elements(text, "g")] == ["vector", "cube", "vector"]
    assert "g2 in 4 slices" in text and ">8.00 " in text
    assert len([e for e in elements(text, "path") if e.get("class") == "arc"]) == 1  # g0 to g2: the others are neighbours
    tops = [float(e.get("y") or 0) for e in elements(text, "rect")]
    assert all(b - a == launches.ROW for a, b in pairwise(tops)) and picture(Structure(())) == ""


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 29), max_size=4), min_size=1, max_size=30))
def test_arcs_in_a_lane_do_not_meet(read: list[list[int]]) -> None:
    listed = [Row((launch(i, 1.0, *(r for r in own if r < i)),)) for i, own in enumerate(read)]
    arcs, lanes = arc_lanes(listed)
    assert {(a, b) for a, b, _ in arcs} == {(r, i) for i, own in enumerate(read) for r in own if r < i - 1}
    assert all(0 <= lane < lanes <= launches.MOST_LANES for _, _, lane in arcs)
    for a, b, lane in arcs:
        for c, d, other in arcs:
            if lane == other < launches.MOST_LANES - 1 and (a, b) != (c, d):
                assert a == c or b <= c or d <= a


def test_words_stay_within_the_drawing_and_names_act_as_names() -> None:
    hostile = '<script>alert("x")</script>&' * 20
    text = picture(Structure((Launch("g0", "cube", ((hostile, hostile),) * 3, ((hostile, hostile),), 3.0),)))
    assert "<script" not in text and "&lt;script&gt;" in text
    said = [("".join(e.itertext()), float(e.get("x") or 0)) for e in elements(text, "text") if "head" not in (e.get("class") or "")]
    for words, x in said:  # letters are 7 pixels wide at most, on average
        assert x - 7 * len(words) > 0 if x == launches.LEFT else x + 7 * len(words) < launches.ARCS


def test_thousands_of_launches_stay_readable() -> None:
    many = tuple(launch(i, 1.0 + i % 7 + 100 * (i % 500 == 0), max(0, i - 40)) for i in range(5000))
    listed = rows(many)
    assert len(listed) <= launches.MOST_ROWS + 1 and [x for r in listed for x in r.launches] == list(many)
    assert sum(r.us for r in listed) == pytest.approx(sum(x.us for x in many))
    assert all(len(r.launches) == 1 for r in listed if max(x.us for x in r.launches) > 100)
    text = picture(Structure(many))
    assert len(text) < 400_000 and re.search(r"\d launches", text) and len(rows(many[:150])) == 150
