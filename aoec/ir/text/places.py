"""Where the nodes of a parsed noun stand in its text. Nodes carry no positions; a check that fails asks here."""
from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable
from typing import Protocol

from aoec.base.errors import CheckError
from aoec.base.text import nearest, quote, word


class Place(Protocol):
    """A token: an offset in the text, and its line and column from 1."""

    start_pos: int | None
    line: int | None
    column: int | None


class Places:
    """The text of a noun with the places of its nodes, by identity; empty for a noun that was built, not parsed."""

    def __init__(self, text: str = "", source: str = "") -> None:
        self.text, self.source = text, source
        self._at: dict[int, tuple[object, Place]] = {}  # holds the node too, so that its identity stays its own
        self._marks: dict[object, Place] = {}  # what a line says that has no node -> the line

    def put(self, node: object, place: Place) -> None:
        self._at[id(node)] = (node, place)

    def mark(self, said: Hashable, place: Place) -> None:
        """Note the place of a line that is no node, by the content of the line."""
        self._marks[said] = place

    def of(self, node: object) -> Place | None:
        """Return the place of a node, None where it has none."""
        found = self._at.get(id(node))
        return found[1] if found else self._marks.get(node) if isinstance(node, tuple) else None

    def error(self, message: str, node: object = None, name: str = "") -> CheckError:
        """Return the error at `node`, or at the first `name` after its start, so that the caret points to the cause."""
        place = self.of(node)
        if place is None:
            return CheckError(message, source=self.source)
        start = place.start_pos or 0
        if name:
            hit = re.compile(_word_pattern(name)).search(self.text, start)
            start = hit.start() if hit else start
        line = self.text.count("\n", 0, start) + 1
        return CheckError(message, self.text, line, start - self.text.rfind("\n", 0, start), self.source)

    def unique(self, items: Iterable[tuple[str, object]], what: str, where: str) -> dict[str, object]:
        """Return name -> node. Raise the error of the text for a name that occurs twice."""
        out: dict[str, object] = {}
        for name, node in items:
            if name in out:
                raise self.error(f"{where}: {what} {name} is declared twice; give each its own name", node, name)
            out[name] = node
        return out

    def check_known(self, name: str, words: Iterable[str], what: str, where: str, node: object = None) -> None:
        """Refuse a name that is none of `words`."""
        if name not in words:
            raise self.error(f"{where}: unknown {what} {name}{nearest(name, words)}", node, name)

    def refuse(self, bad: bool, message: Callable[[], str], node: object = None, name: str = "") -> None:
        """Raises the error where `bad`; the sentence is made only then."""
        if bad:
            raise self.error(message(), node, name)


def _word_pattern(name: str) -> str:
    """Return a pattern for `name` as a whole word, bare or quoted."""
    return rf"(?<![A-Za-z0-9_]){re.escape(name)}(?![A-Za-z0-9_])" if word(name) == name else re.escape(quote(name))
