"""Pages that programs make hold the words that these programs would write today; and pages say first what they are for."""
from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench import nodes, pages, rates, values

DOCS = Path(__file__).parents[2] / "docs"
FOR_WHOM = ("cann-banks", "events", "fidelity", "operators", "scale", "search", "throughput", "values", "zoo", *pages.PAGES,
            *(f"adding/{path.stem}" for path in sorted((DOCS / "adding").glob("*.md"))))


def page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text("utf-8")


def test_values() -> None:
    words = map(re.escape, re.split(r"\{\w+\}", values.TEXT))
    assert re.fullmatch(".*?".join(words), page("values"), re.DOTALL), "python bench/values.py --write"


def test_throughput() -> None:
    sets, target = re.findall(r"distinct groups of (.*) \(network:batch\) on (\w+)\.", page("throughput"))[0]
    summary = re.findall(r"^Geometric means .*$", page("throughput"), re.MULTILINE)[0]
    row = dict(about=False, legal=1, space=1, skipped_a_second=1, limited_a_second=1, ns_an_operation=1, slowest_ms=1)
    made = rates.page([{"group": f"{s} x", **row} for s in sets.split(", ")], summary, target)
    assert page("throughput").startswith(made[:made.rindex("|\n|---") + 1]), "python bench/rates.py --write"


def test_operators() -> None:
    def words(text: str) -> list[str]:
        lines = [re.sub(r"\d[\d,.]*", "1", line) for line in text.splitlines()]
        return [line for line in lines if line and not line.startswith(("- ", "|"))]

    made = words(nodes.document([]))
    assert words(page("operators"))[:len(made)] == made, "python bench/nodes.py --write"


@pytest.mark.parametrize("name", pages.PAGES)
def test_a_page_of_words_is_what_the_code_makes(name: str) -> None:
    assert page(name) == pages.PAGES[name](), f"python bench/pages.py {name} --write"


@pytest.mark.parametrize("name", FOR_WHOM)
def test_a_page_says_first_what_it_is_for(name: str) -> None:
    title, _, first, *_ = page(name).splitlines()
    assert title.startswith("# ") and re.match("This page (is for|says)", first) and " for those " in page(name)[:400]
