"""What a parser expected, in people's words."""
from __future__ import annotations

from collections.abc import Iterable

from lark.lexer import PatternStr, TerminalDef

from aoec.base.text import list_words

WORDS = {
    "NAME": "a name", "SITE": "a name", "MICROSECONDS": "microseconds such as 6.81",
    "HOLE": "a hole", "STRING": "a text in quotes", "INT": "a whole number", "FLOAT": "a real number", "INF": "'inf'",
    "SHAPE": "a shape such as [1, 3, 224, 224]", "HASH": "sha256:...", "LAYOUT": "a layout (NZ, ZN, ...)", "OPERATOR": "an operator",
    "ASSIGN": "'=', '+=', 'max=' or 'min='", "$END": "the end of the text", "COMPARE": "a comparison", "PRODUCT": "'*'", "MINUS": "'-'",
    "OR": "'or'", "AND": "'and'",
}
OPERATORS = {"COMPARE", "PRODUCT", "PLUS", "MINUS", "OR", "AND"}
# several terminals that together are one thing to a reader; the first name of a group stands for it
GROUPS: tuple[tuple[frozenset[str], frozenset[str], str], ...] = (
    (frozenset({"NAME", "HOLE", "INT", "FLOAT", "LPAR"}), frozenset({"INF", "MINUS"}), "an expression"),
    (frozenset({"INT", "FLOAT", "MINUS"}), frozenset({"INF"}), "a number"),
    (frozenset({"INT", "MINUS"}), frozenset(), "a whole number"),
)


def expected_words(names: Iterable[str], terminals: Iterable[TerminalDef]) -> str:
    """Write `an expression or ')'`, for the terminals that a parser would have taken."""
    left = {name.replace("index__", "") for name in names} - {"COMMENT", "SPACE"}
    patterns = {t.name.replace("index__", ""): t for t in terminals}
    out: list[str] = []
    for needed, also, said in GROUPS:
        if needed <= left:
            left -= needed | also
            out.append(said)
    if len(left | set(out)) > len(left & OPERATORS):
        left -= OPERATORS  # what may follow in any case says nothing about what is missing
    out += sorted(said for name in left for said in _say(name, patterns))
    return list_words(out[:8] + ["..."] if len(out) > 8 else out)


def _say(name: str, patterns: dict[str, TerminalDef]) -> list[str]:
    if name in WORDS or name not in patterns:
        return [WORDS.get(name, name)]
    pattern = patterns[name].pattern
    if isinstance(pattern, PatternStr):
        return [f"'{pattern.value}'"]
    choices = pattern.value.split("(?!")[0].strip("()").split("|")  # a keyword: its words, without the guard of a whole word
    return [f"'{c}'" for c in choices]
