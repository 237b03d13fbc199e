"""The report page: what it says is what its JSON says, names act as nothing but names, and it stays small however many groups there are."""
from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.report import page
from aoec.report.page import About, Detail, as_json, facts, pages
from aoec.report.pictures.plots import Point, Roofline, Strip, convergence, roofs
from aoec.report.table import Held, Report, Row, Stock, StockRow, Times
from tests.oracle.schemas import faults

HOSTILE = "</script><script>window.acted = 1</script><img src=x onerror=\"window.acted = 2\"> ' onclick='window.acted = 3' \u202egnp\x1b[2J"
MEASURE = {"time_us": 20.5, "launch_us": 2.25, "cycles": 33750.0, "cores": 20, "hbm_bytes": 1.5e6, "gm_bytes": 4.25e6, "bound_by": "MTE2",
           "verdict": f"memory bound: {HOSTILE}", "advice": ["larger tiles"], "pipes": [{"pipe": "MTE2", "held": 0.75}],
           "waits": [{"cycles": 1200.0, "what": "MTE1 for data in A_L1 (2 slots) from MTE2"}]}
SEARCH = {"now": True, "strategy": "portfolio", "seed": 3, "trials": 200, "size": 1741832380, "sketches": 4,
          "candidates": {"timed": 150, "wrong value": 1}, "improvements": [{"trials": 1, "us": 31.0}, {"trials": 40, "us": 24.5}],
          "best": [{"sketch": 1, "structure": "loops m n", "holes": {"tm": 128}, "us": 24.5}]}
ROOFLINE = Roofline(2 * 1024**3, "cube, fp16", 2.9e8, 1.2e6, 5e6, (Point("default", 31.0, 6e6, 9e7), Point("tuned", 24.5, 6e6, 4e7)))
DETAIL = Detail((HOSTILE, "conv_1"), ("g7",), "add", 200, {"default": "split(loop=m)\n", "tuned": f"split(loop=m)\n# {HOSTILE}\n"},
                {"default": MEASURE, "tuned": {**MEASURE, "time_us": 18.0, "pipes": [{"pipe": "aic.M", "held": 0.5}]}},
                ROOFLINE, SEARCH, {},
                {side: (Strip("aic.3", HOSTILE, (("CUBE", "<svg></svg>"),)),) for side in ("default", "tuned")}, 30.0)
ROWS = (
    Row("g0", f"conv2d {HOSTILE}", Times(31.0, 24.5, 21.0), 2, "cube", proof="space", held=Held(32, 32, 0.8, True)),
    Row("g2", "add 1x64", Times(4.0, 4.0, 3.5), 1, "launch", "vector"),
    Row("g10", "matmul 1024x1024", Times(20.0, 19.9, 2.0), 3, "MTE2", held=Held(32, 20, 1.02, False)),
    Row("g11", "NonZero", Times(20.5, 20.5, 20.5), 1, "", "host"),
    Row("g12", "reshape", Times(), 1, "", "view"))
REPORT = Report(HOSTILE, "Ascend910B3", "fp16", ROWS, Times(210.0, 160.0, 120.0), Times(230.0, 180.0, 140.0), (5000.0, 6500.0),
                "cold inputs and weights", 600, {"reading": 1.0, "searching": 40.26}, 1,
                notes=("values: fine",), held=Held(32, 31, 0.97, True))
ABOUT = About("aoec 0.1.0", "abc", "0123456789abcdef", 1800.0)
DETAILS = {"g0": DETAIL, "g2": replace(DETAIL, roofline=None, search=None, nodes=("add",)), "g10": replace(DETAIL, trials=0)}


class Read(HTMLParser):
    """The numbers of a page as (place, value, text), its tags, and the text that is not script or style."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.numbers: list[list[str]] = []
        self._open = False
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        self.tags.append((tag, told))
        self._open = tag == "data" and "data-at" in told
        if self._open:
            self.numbers.append([told["data-at"] or "", told["value"] or "", ""])

    def handle_data(self, data: str) -> None:
        if self._open:
            self.numbers[-1][2] += data
            self._open = False


def at(said: Any, place: str) -> Any:
    """What stands at a place of the facts."""
    for name in place.split("."):
        said = said[int(name)] if isinstance(said, list) else said[name]
    return said


def check_numbers(said: Any, numbers: list[list[str]]) -> None:
    """Every number of a page is the one that its place in the JSON holds, and is shown to at least three digits of it, or two decimals."""
    for place, value, shown in numbers:
        exact = at(said, place)
        assert float(value) == exact, place
        digits = shown.replace(",", "").removesuffix("%").strip()
        scale = 100 if shown.endswith("%") else 1
        for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), (" B", 1), (" ms", 1e3)):
            if digits.endswith(unit):
                digits, scale = digits.removesuffix(unit), 1 / size
        assert float(digits) == pytest.approx(exact * scale, rel=5e-3, abs=0.0501), place


def made(report: Report = REPORT, details: dict[str, Detail] = DETAILS) -> tuple[Any, dict[str, str]]:
    said = facts(report, details, ABOUT)
    return json.loads(as_json(said)), pages(said, details)


def test_the_numbers_are_those_of_the_json() -> None:
    said, files = made()
    assert faults("report", said) == []
    read = Read(files["index.html"])
    check_numbers(said, read.numbers)
    shown = {place for place, _, _ in read.numbers}
    for n, g in enumerate(said["groups"]):
        assert {f"groups.{n}.{key}" for key in ("default_us", "tuned_us", "bound_us", "gain", "gap") if g[key] is not None} <= shown
    assert {"latency.default_us", "latency.tuned_us", "latency.bound_us", "isolated.tuned_us", "counts.proven"} <= shown
    assert [g["name"] for g in said["groups"]] == ["g10", "g0", "g11", "g2", "g12"]  # by what they take in all
    assert said["counts"] == {"groups": 6, "distinct": 3, "proven": 1, "proven_share": pytest.approx(49 / 133.2)}


def test_the_stock_model_is_among_the_facts_and_its_time_on_the_page() -> None:
    rows = (StockRow("g0", HOSTILE, 2, 12.5, 9.0, "proxy", "Conv3DV2's rules", (HOSTILE,)),)
    shares = {"rule": 0.125, "proxy": 0.75, "fixed block": 0.0, "no stock rule": 0.125}
    said, files = made(replace(REPORT, stock=Stock("910B", 250.0, 300.0, None, shares, rows, 1.5)))
    assert faults("report", said) == [] and said["stock"]["groups"][0]["differs"] == [HOSTILE]
    read = Read(files["index.html"])
    check_numbers(said, read.numbers)
    assert {"stock.latency_us", "stock.shares.rule", "stock.shares.proxy"} <= {place for place, _, _ in read.numbers}
    assert not [tag for tag, _ in read.tags if tag == "img"] and made()[0]["stock"] is None
    assert faults("report", {**said, "stock": {**said["stock"], "product": 910}})


def test_the_schema_refuses_what_is_not_said_to_be_modelled() -> None:
    said, _ = made()
    for key, wrong in (("times", "measured"), ("groups", [{}]), ("latency", {"tuned_us": 1.0})):
        assert faults("report", {**said, key: wrong}), key


def test_hostile_names_are_only_names() -> None:
    _, files = made()
    text = files["index.html"]
    tags = Read(text).tags
    assert [a for tag, a in tags if tag == "script"] == [{}] and not [tag for tag, _ in tags if tag == "img"]
    assert not [name for _, a in tags for name in a if name.startswith("on")]
    assert "\u202e" not in text and "\x1b" not in text and "&lt;script&gt;window.acted" in text
    assert not [a for _, a in tags for name in ("src", "href") if "//" in (a.get(name) or "")]  # nothing from any network
    policy = next(a["content"] for tag, a in tags if tag == "meta" and a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None and "default-src 'none'" in policy and "script-src 'sha256-" in policy


@settings(max_examples=15)
@given(st.text(max_size=30), st.text(max_size=30))
def test_any_name_leaves_the_page_as_it_is(name: str, what: str) -> None:
    row = replace(ROWS[0], name=name, what=what)
    _, files = made(replace(REPORT, model=what, rows=(row,)), {name: replace(DETAIL, nodes=(name, what))})
    _, plain = made(replace(REPORT, model="x", rows=(replace(row, name="x", what="x"),)), {"x": replace(DETAIL, nodes=("x", "x"))})
    assert [tag for tag, _ in Read(files["index.html"]).tags] == [tag for tag, _ in Read(plain["index.html"]).tags]


def test_the_page_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "PAGE_BYTES", 40_000)
    monkeypatch.setattr(page, "ROWS", 20)
    rows = tuple(replace(ROWS[2], name=f"g{n}") for n in range(30))
    said, files = made(replace(REPORT, rows=rows), {r.name: DETAIL for r in rows})
    assert len(said["groups"]) == 30 and len(files["index.html"]) < 120_000 and 20 < len(files) < 30
    tags = Read(files["index.html"]).tags
    linked = {a["href"].partition("#")[0] for tag, a in tags if tag == "a" and "#" in (a.get("href") or "")}  # type: ignore[union-attr]
    assert sum(tag == "tr" and "data-group" in a for tag, a in tags) == 20 and linked - {""} <= set(files)
    other = next(text for name, text in files.items() if name != "index.html")
    check_numbers(said, Read(other).numbers)
    assert Read(other).numbers


def test_drawings_hold_what_is_extreme() -> None:
    assert "bound 0.01 µs: below" in convergence([{"trials": 1, "us": 100.0}, {"trials": 5, "us": 99.0}], 5, 0.01)
    assert 'class="bound"' in convergence([{"trials": 1, "us": 100.0}, {"trials": 5, "us": 80.0}], 5, 79.0)
    assert "nan" not in convergence([{"trials": 1, "us": 5.0}], 1, 5.0)
    none = {"operations": 10, "unit": "u", "peak_per_us": 5.0, "hbm_bytes_per_us": 1.0, "l2_bytes_per_us": 2.0,
            "points": [{"name": "tuned", "us": 9.0, "hbm_bytes": 0.0, "gm_bytes": 0.0}]}
    assert "circle" not in roofs(none) and "circle" in roofs({**none, "points": [{**none["points"][0], "gm_bytes": 4.0}]})  # type: ignore[index]
