"""The picture of a report says what is in the report, its words stay apart, equal input gives equal bytes, docs/report.svg is of today."""
from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any
from unittest import mock
from xml.etree import ElementTree

import pytest

from bench import report_picture
from bench.report_picture import LAYER, draw, main, read_sentence

PICTURE = Path(__file__).parents[2] / "docs/report.svg"
SIZES = {"t": 14, "l": 13}  # pixels of letters by class, 12 of others
BOLD, PLAIN = 0.66, 0.58  # the width of a letter on average, as a part of its size, in DejaVu Sans: other fonts are narrower


@dataclass(frozen=True)
class Box:
    """Where a line of words stands, about."""

    words: str
    left: float
    right: float
    top: float
    bottom: float

    def meets(self, other: Box) -> bool:
        """Whether two boxes share a point."""
        return self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom


def boxes(e: ElementTree.Element, x: float = 0.0, y: float = 0.0, scale: float = 1.0) -> Iterator[Box]:
    """The lines of words below an element, moved and scaled as their parents are."""
    if moved := re.fullmatch(r"translate\(([\d.]+) ([\d.]+)\) scale\(([\d.]+)\)", e.get("transform") or ""):
        x, y, scale = x + scale * float(moved[1]), y + scale * float(moved[2]), scale * float(moved[3])
    if e.tag.endswith("}text"):
        words, kind = "".join(e.itertext()), e.get("class") or ""
        size = scale * SIZES.get(kind, 12)
        width = size * (BOLD if kind in ("t", "l", "head") else PLAIN) * len(words)
        at, down = x + scale * float(e.get("x") or 0), y + scale * float(e.get("y") or 0)
        left = at - {"end": 1.0, "middle": 0.5}.get(e.get("text-anchor") or "", 0.0) * width
        yield Box(words, left, left + width, down - 0.8 * size, down + 0.2 * size)
    for child in e:
        yield from boxes(child, x, y, scale)


def check(made: str) -> list[Box]:
    """The words of a picture, after a look at all that holds for any."""
    root = ElementTree.fromstring(made)
    width, height = (float(n) for n in (root.get("viewBox") or "").split()[2:])
    found = list(boxes(root))
    assert len(found) > 10 and width < 900 and len(made.encode()) < 150_000
    for box in found:
        assert box.left >= 0 and box.right <= width and box.top >= 0 and box.bottom <= height, box
    assert [(a.words, b.words) for a, b in combinations(found, 2) if a.meets(b)] == []
    named = {e.get("id"): e.text or "" for e in root if e.tag.endswith(("}title", "}desc"))}
    assert set((root.get("aria-labelledby") or "").split()) == set(named) and all(named.values())
    assert "prefers-color-scheme:dark" in made and "href" not in made and "<script" not in made
    for name in set(re.findall(r"var\((--[a-z]+)\)", made)):
        assert made.count(f"{name}:#") == 2, name  # in light and in dark mode
    return found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any], str]:
    """(closing sentence, report.json, index.html) of a small model, as the program draws them."""
    path, seen = tmp_path_factory.mktemp("report") / "made.svg", list[tuple[str, Any, str]]()

    def watched(sentence: str, facts: Any, page: str) -> str:
        seen.append((sentence, facts, page))
        return draw(sentence, facts, page)

    said = io.StringIO()
    with mock.patch.object(report_picture, "draw", watched), redirect_stdout(said):
        assert main(["--network", "mlp_softmax", "--target", "Ascend910B3", "--budget", "1", "--svg", str(path)]) == 0
    made = draw(*seen[0])
    assert path.read_text("utf-8") == made
    assert said.getvalue().startswith(f"{seen[0][0]}\n4 operators as imported become 3 launches; {len(made):,} characters")
    return seen[0]


def test_it_says_what_the_report_says(report: tuple[str, dict[str, Any], str]) -> None:
    sentence, facts, page = report
    made = draw(*report)
    words = [box.words for box in check(made)]
    assert made == draw(sentence, json.loads(json.dumps(facts)), page)
    assert sentence.startswith("mlp_softmax on Ascend910B3, fp16: ") and sentence.endswith("; modelled") and sentence in made
    times = {**facts["latency"], "stock_us": facts["stock"]["latency_us"]}
    for side in ("stock", "default", "tuned", "bound"):
        assert words[words.index(side) + 1] == f"{times[f'{side}_us']:,.1f} µs"
    bars = {e.get("class"): float(e.get("width") or 0) for e in ElementTree.fromstring(made) if e.get("class") in report_picture.SIDES}
    assert bars["bound"] / bars["stock"] == pytest.approx(times["bound_us"] / times["stock_us"], rel=0.01) and max(bars.values()) == 560
    assert len([e for e in ElementTree.fromstring(made).iter() if e.get("class") == "join"]) == len(facts["structure"]["launches"])
    first = facts["groups"][0]
    assert any(first["name"] in w and first["what"] in w for w in words)
    assert first["detail"]["measures"]["tuned"]["verdict"] in " ".join(words)
    assert {p["pipe"] for p in first["detail"]["measures"]["tuned"]["pipes"]} and made.count('class="lane"') >= 3


def test_a_name_is_words_and_a_page_without_a_drawing_is_refused(report: tuple[str, dict[str, Any], str]) -> None:
    sentence, facts, page = report
    assert "<b>" not in draw("<b>&", {**facts, "model": "<b>&"}, page)
    title = next(iter(ElementTree.fromstring(draw(sentence, {**facts, "model": "<b>&"}, page))))
    assert title.text == "Report of <b>& on Ascend910B3"
    with pytest.raises(SystemExit, match="no drawing of launches"):
        draw(sentence, facts, "")


def test_words_that_overlap_are_seen() -> None:
    made = PICTURE.read_text("utf-8")
    (y,) = re.findall(r'<text x="16.0" y="([\d.]+)" class="s">All times', made)
    with pytest.raises(AssertionError):
        check(made.replace(f'y="{y}" class="s">All times', 'y="26.0" class="s">All times'))


def test_the_seconds_of_a_run_are_left_out() -> None:
    assert read_sentence("m on X, fp16: 3.1 µs,\nour default schedules; modelled; 1,062 s\n\n group") == (
        "m on X, fp16: 3.1 µs, our default schedules; modelled")


def test_the_picture_of_the_readmes_can_be_read() -> None:
    words = " ".join(box.words for box in check(PICTURE.read_text("utf-8")))
    assert words.startswith(f"{LAYER} on Ascend910B3, fp16: ") and "All times are modelled" in words and "CANN's stock" in words


@pytest.mark.slow
def test_the_picture_of_the_readmes_is_of_today(tmp_path: Path) -> None:
    made = tmp_path / "made.svg"
    assert main(["--svg", str(made)]) == 0
    assert made.read_bytes() == PICTURE.read_bytes(), "python bench/report_picture.py --svg docs/report.svg"
