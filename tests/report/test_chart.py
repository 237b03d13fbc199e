"""Sheets and charts of sweeps: every row and number is where it belongs, and the picture's places follow the numbers."""
from __future__ import annotations

import csv
import json
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aoec.report.pictures.chart import HEIGHT, TOP, WIDTH, Scale, chart, marks, x_scale, y_scale
from aoec.report.sweep import Sheet, csv_text, json_text, lines, summary, table

NUMBERS = st.floats(1e-3, 1e9)


def row(m: int | None, us: float | None, schedule: str = "a", target: str = "T", **more: Any) -> dict[str, Any]:
    """A row of a sweep over m; illegal without a time."""
    facts = {"status": "timed", "reason": "", "kind": "modelled", "cycles": us * 1000, "time_us": us, "bound_us": us / 2} if us else {
        "status": "illegal", "reason": "L1 holds 4, and 5 are needed, \"more\""}
    return {**({"m": m} if m is not None else {}), "schedule": schedule, "target": target, **facts, **more}


def sheet(*slabs: list[dict[str, Any]], swept: tuple[str, ...] = ("m",), apart: tuple[str, ...] = ()) -> Sheet:
    made = Sheet("f", "cold inputs", swept, swept[0] if swept else "", apart)
    for slab in slabs:
        made.add(slab)
    return made


def test_slabs_with_other_columns_join() -> None:
    made = sheet([row(1, 2.5, **{"busy_cycles.M": 3.0}), row(2, None)], [], [row(3, 1 / 3, **{"busy_cycles.V": 4.25, "cores": 7})])
    assert made.count == 3
    read = list(csv.DictReader(csv_text(made).splitlines()))
    assert [r["m"] for r in read] == ["1", "2", "3"] and [r["time_us"] for r in read] == ["2.5", "", "0.333333"]
    assert [(r["busy_cycles.M"], r["busy_cycles.V"], r["cores"]) for r in read] == [("3", "", ""), ("", "", ""), ("", "4.25", "7")]
    assert read[1]["reason"] == "L1 holds 4, and 5 are needed, \"more\""
    facts = json.loads(json_text(made))
    assert facts["kind"] == "modelled" and [r.get("busy_cycles") for r in facts["rows"]] == [{"M": 3}, None, {"V": 4.25}]
    assert "3 rows: 2 timed, 1 illegal; the first reason: L1 holds 4" in summary(made, 3) and "3 of 9 rows" in summary(made, 9)


def test_lines_take_the_fastest_over_holes_and_keep_sizes_and_machines_apart() -> None:
    rows = [row(m, us * k, target=t, k=k, **{"?h": h}) for m in (1, 2) for k in (1, 2) for t in "TU" for h, us in ((8, 3.0), (9, 5.0))]
    drawn, bounds = lines(sheet(rows, swept=("m", "k", "?h"), apart=("k",)))
    assert [line.label for line in drawn] == ["a k=1 T", "a k=1 U", "a k=2 T", "a k=2 U"]
    assert drawn[0].best == {1: 3.0, 2: 3.0} and drawn[2].best == {1: 6.0, 2: 6.0} and len(drawn[0].every) == 4
    assert [b.label for b in bounds] == ["bound k=1 T", "bound k=1 U", "bound k=2 T", "bound k=2 U"]


def test_a_size_is_illegal_where_no_row_of_it_has_a_time() -> None:
    drawn, _ = lines(sheet([row(1, None), row(1, 4.0), row(2, None)]))
    assert drawn[0].best == {1: 4.0} and list(drawn[0].illegal) == [2]


def test_a_schedule_without_the_hole_has_no_row_of_its_own() -> None:
    """A level line has its time at every x, and a refused one a dash; the rows go up, whatever the order of times and refusals."""
    rows = [row(256, 9.0), row(512, 4.0), row(64, None), row(None, None, "b", "U"), row(None, 5.0, "c")]
    drawn = [line.split() for line in table(sheet(rows)).splitlines()[2:]]
    assert [d[0] for d in drawn] == ["64", "256", "512"]
    assert [d[2:] for d in drawn] == [["-", "5.00*"], ["-", "5.00*"], ["-", "5.00"]]
    assert "-1" not in chart(sheet(rows))


def test_the_table_marks_the_fastest_and_shows_what_is_not_there() -> None:
    text = table(sheet([row(16, 1234.5), row(16, 99.25, "b"), row(32, None), row(32, 7.0, "b")]))
    assert text.splitlines() == [
        "f: µs, modelled, cold inputs; * the fastest", " m         a       b", "16  1,234.50   99.25*", "32         -    7.00*"]


def test_only_lines_of_the_same_sizes_compare() -> None:
    rows = [row(1, us, schedule, k=k) for k, us, schedule in ((1, 2.0, "a"), (1, 3.0, "b"), (2, 5.0, "a"), (2, 4.0, "b"), (3, 9.0, "a"))]
    assert table(sheet(rows, swept=("m", "k"), apart=("k",))).splitlines()[2].split() == ["1", "2.00*", "3.00", "5.00", "4.00*", "9.00"]


@given(st.lists(NUMBERS, min_size=2, max_size=9, unique=True), st.booleans())
def test_scales_keep_order_and_stay_inside(values: list[float], log: bool) -> None:
    values.sort()
    scale = Scale(values[0], values[-1], 10.0, 90.0, log)
    places = [scale.at(v) for v in values]
    assert places == sorted(places) and places[0] == pytest.approx(10) and places[-1] == pytest.approx(90)


@given(st.lists(st.floats(1e-2, 1e7), min_size=1, max_size=9))
def test_times_lie_inside_the_plot_and_marks_are_few(times: list[float]) -> None:
    scale = y_scale(times)
    assert all(TOP - 1e-6 <= scale.at(t) <= TOP + HEIGHT + 1e-6 for t in times)
    assert all(scale.low * 0.999 <= v <= scale.high * 1.001 for v in marks(scale)) and 2 <= len(marks(scale)) <= 18


def test_axes_are_logarithmic_from_a_decade_on() -> None:
    assert x_scale([16, 8192]).log and not x_scale([16, 159]).log and not x_scale([0, 100]).log
    assert y_scale([1.0, 10.0]).log and not y_scale([1.0, 9.9]).log


def drawn(made: Sheet) -> dict[str, list[ElementTree.Element]]:
    """The elements of a chart, by tag."""
    out: dict[str, list[ElementTree.Element]] = {}
    for e in ElementTree.fromstring(chart(made)).iter():
        out.setdefault(e.tag.rpartition("}")[2], []).append(e)
    return out


def test_a_line_does_not_go_through_what_is_illegal() -> None:
    made = drawn(sheet([row(m, us) for m, us in ((1, 5.0), (2, 6.0), (3, None), (4, 8.0), (5, 9.0))]))
    paths = [e.get("d", "") for e in made["path"] if e.get("class") == "p" and e.get("d", "").count("L") == 1 and e.find("*") is None]
    through = [d for d in paths if not d.endswith(",554") and d.count(",") == 2]
    assert sum(TOP <= float(d.split(",")[-1]) <= TOP + HEIGHT for d in through) == 2
    crosses = [t.text for t in made["title"] if "illegal" in (t.text or "")]
    assert crosses == ["a, 3: illegal: L1 holds 4, and 5 are needed, \"more\""]


def test_smaller_times_are_lower_and_larger_sizes_further_right() -> None:
    made = drawn(sheet([row(1, 5.0), row(2, 2.0), row(9, 3.0)]))
    dots = [(float(e.get("cx", 0)), float(e.get("cy", 0))) for e in made["circle"]]
    assert dots[0][0] < dots[1][0] < dots[2][0] < WIDTH and dots[1][1] > dots[2][1] > dots[0][1]


def test_a_schedule_without_the_variable_is_a_level_line() -> None:
    made = sheet([row(None, 5.0, **{"?h": 1}), row(None, 4.0, **{"?h": 2}), row(None, 3.0, "default")], swept=("?h",))
    found, _ = lines(made)
    assert [line.level for line in found] == [None, 3.0] and found[0].best == {1: 5.0, 2: 4.0}
    assert any(t.text == "default: 3.00 µs modelled" for t in drawn(made)["title"])


@pytest.mark.parametrize("rows", [[], [row(4, None)], [row(4, 2.0)]], ids=["none", "illegal", "one"])
def test_what_is_little_is_drawn_too(rows: list[dict[str, Any]]) -> None:
    assert drawn(sheet(rows))["svg"] and table(sheet(rows)) and csv_text(sheet(rows)).startswith("m,schedule,target,status")


def test_names_are_escaped() -> None:
    assert drawn(sheet([row(1, 2.0, "a<&>b"), row(2, None, "a<&>b")]))["svg"]
