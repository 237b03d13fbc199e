"""What sentences quote: a line whole, or up to a comma with how much more there is, so that its place is found again."""
from __future__ import annotations

import pytest

from aoec.base.text import WHOLE, beginning, clip_name, plural, quote_line
from aoec.jobs.stages.places import number_lines, quoted_place

FIELDS = ", ".join(f"field_{i}=x[{i} * 128]" for i in range(200))


@pytest.mark.parametrize("line", ["", "advance(i)", "x" * WHOLE])
def test_lines_are_quoted_whole(line: str) -> None:
    assert quote_line(line) == beginning(line) == line


@pytest.mark.parametrize("line, end", [(f"vadds({FIELDS})", ","), ("x" * 1000, "x")])
def test_a_very_long_line_is_cut_where_all_see_it(line: str, end: str) -> None:
    start = beginning(line)
    assert line.startswith(start) and start.endswith(end) and WHOLE // 2 < len(start) <= WHOLE
    assert quote_line(line) == f"{start} [... {len(line) - len(start):,} more characters]"


def test_the_line_at_which_a_message_begins_is_its_place() -> None:
    """Even where it quotes a longer one."""
    text = f"# set(V, S, 0)\n  vadds({FIELDS})\n  set(V,  S, 0)  # here\n"
    message = f"set(V, S, 0): comes before {quote_line(f'vadds({FIELDS})')} is done"
    assert quoted_place(message, text) == (3, 3)
    assert number_lines(message, text, 3) == message.replace(" is done", " in line 2 is done")
    assert number_lines("set(V, S, 0) comes twice", "\nset(V, S, 0)\n", 2) == "set(V, S, 0) comes twice"  # the caret says where
    assert quoted_place("program f has none", text) == (0, 0)


def test_one_of_a_word_is_no_plural() -> None:
    assert (plural(0, "node"), plural(1, "node"), plural(5000, "node")) == ("0 nodes", "1 node", "5,000 nodes")


def test_a_long_name_or_one_of_several_lines_takes_one_line() -> None:
    assert clip_name("data") == "data" and clip_name("a\nb") == r"a\nb"
    assert clip_name("n" * 1_000_000) == "n" * 59 + "…" and len(clip_name("\n" * 60)) == 60
