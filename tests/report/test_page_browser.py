"""The report page in a real browser, light and dark, wide and on a phone. Skipped where there is no Chromium: on Debian,
`apt-get install chromium` brings it."""
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.report.browser import Browser, program
from tests.report.test_gradient_page import made as make_gradients
from tests.report.test_gradient_page import report as gradients
from tests.report.test_page import HOSTILE, check_numbers, made

pytestmark = pytest.mark.skipif(program() is None, reason="there is no Chromium here, so the page was opened in no browser")
NUMBERS = "[...document.querySelectorAll('data[data-at]')].map(d => [d.dataset.at, d.value, d.textContent])"
COLUMN = "[...document.querySelector('#table').tBodies[0].rows].map(r => r.dataset.group)"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as b:
        yield b


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, str]:
    """(its facts, its address)"""
    folder = tmp_path_factory.mktemp("report")
    said, files = made()
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")
    return said, (folder / "index.html").as_uri()


def colours(browser: Browser) -> tuple[float, float]:
    """Brightness of the paper and of the words, 0 to 255."""
    said = browser.evaluate("['backgroundColor', 'color'].map(c => getComputedStyle(document.body)[c])")
    paper, ink = (sum(map(int, c[c.index("(") + 1:-1].split(",")[:3])) / 3 for c in said)
    return paper, ink


@pytest.mark.parametrize("scheme, width", [("light", 1200), ("dark", 1200), ("light", 360), ("dark", 360)])
def test_it_opens_without_complaint_and_says_the_numbers(browser: Browser, report: tuple[Any, str], scheme: str, width: int) -> None:
    said, address = report
    browser.look(scheme, width)
    browser.open(address)
    numbers = browser.evaluate(NUMBERS)
    assert len(numbers) > 60
    check_numbers(said, numbers)
    paper, ink = colours(browser)
    assert (paper > 200 and ink < 60) if scheme == "light" else (paper < 50 and ink > 200)
    assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it is wider than the window"
    assert browser.evaluate("window.acted") is None, "a name was run"
    assert browser.complaints == []


@pytest.mark.parametrize("scheme, width", [("light", 1200), ("dark", 360)])
def test_the_page_of_gradient_tuning_opens_and_sorts(browser: Browser, tmp_path: Path, scheme: str, width: int) -> None:
    """Its drawing has the colours of the page, and scrolls by itself where it is wider."""
    said, files = make_gradients(gradients(HOSTILE))
    (tmp_path / "index.html").write_text(files[""], "utf-8")
    browser.look(scheme, width)
    browser.open((tmp_path / "index.html").as_uri())
    check_numbers(said, browser.evaluate(NUMBERS))
    assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it is wider than the window"
    ink = browser.evaluate("getComputedStyle(document.querySelector('.step .t')).fill")
    assert ink == ("rgb(28, 33, 38)" if scheme == "light" else "rgb(228, 231, 234)")
    rows = "[...document.querySelector('#table').tBodies[0].rows].map(r => r.dataset.plan)"
    assert browser.evaluate(rows) == [p["name"] for p in sorted(said["plans"], key=lambda p: p["step_us"])]
    browser.evaluate("document.querySelector('th[data-key=\"buckets\"] button').click()")
    assert browser.evaluate(rows) == [p["name"] for p in sorted(said["plans"], key=lambda p: -p["buckets"])]
    assert browser.evaluate("window.acted") is None and browser.complaints == []


def test_headings_sort_by_mouse_and_by_keyboard(browser: Browser, report: tuple[Any, str]) -> None:
    said, address = report
    browser.look("light", 1200)
    browser.open(address)
    assert browser.evaluate(COLUMN) == [g["name"] for g in said["groups"] if g["runs_on"] != "view"] == ["g10", "g0", "g11", "g2"]
    assert "One more is a view, which moves nothing" in browser.evaluate("document.querySelector('main').textContent")
    heading = "document.querySelector('th[data-key=\"{}\"]')"
    for key in ("default_us", "tuned_us", "count", "gain", "name"):
        values = {g["name"]: g[key] for g in said["groups"]}
        browser.evaluate(f"{heading.format(key)}.querySelector('button').click()")
        down = browser.evaluate(COLUMN)
        browser.evaluate(f"{heading.format(key)}.querySelector('button').focus()")
        browser.press("Enter", 13)
        up = browser.evaluate(COLUMN)
        if key == "name":
            assert down == ["g0", "g2", "g10", "g11"] and up == down[::-1]
        else:
            there = [name for name in down if values[name] is not None]
            assert [values[n] for n in there] == sorted((values[n] for n in there), reverse=True) and down[:len(there)] == there
            assert [values[n] for n in up if values[n] is not None] == sorted(values[n] for n in there) and set(up) == set(down)
            assert up[len(there):] == down[len(there):], "what has no number stays last"
        assert browser.evaluate(f"{heading.format(key)}.getAttribute('aria-sort')") == ("descending" if key == "name" else "ascending")
        assert browser.evaluate("document.querySelectorAll('th[aria-sort]').length") == 1
    assert browser.complaints == []


def test_the_switch_and_links_to_groups(browser: Browser, report: tuple[Any, str]) -> None:
    browser.look("light", 1200)
    browser.open(report[1])
    seen = []
    for _ in range(3):
        browser.evaluate("document.querySelector('#theme').click()")
        seen.append((browser.evaluate("document.querySelector('#theme').textContent"), colours(browser)[0] > 200))
    assert seen == [("theme: light", True), ("theme: dark", False), ("theme: auto", True)]
    assert not browser.evaluate("document.querySelector('#d3').open")
    browser.evaluate("document.querySelector('tr[data-group=\"g2\"] a').focus()")
    browser.press("Enter", 13)
    assert browser.evaluate("new Promise(done => setTimeout(() => done(document.querySelector('#d3').open), 50))")
    assert browser.complaints == []
