"""Text to nouns: one LALR parser a language, built when first used; nodes are made while parsing, places kept beside them."""
from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from threading import Lock
from typing import Any

from lark import Lark
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from aoec.base.errors import ParseError
from aoec.ir.check import check
from aoec.ir.func.meaning import Meaning
from aoec.ir.func.tir import Func
from aoec.ir.graph.graph import Graph
from aoec.ir.graph.rule import Rule
from aoec.ir.index import Expr
from aoec.ir.plan import Plan
from aoec.ir.program import Program
from aoec.ir.schedule import Trace
from aoec.ir.text.build import GraphBuilder, IndexBuilder, PlanBuilder, ProgramBuilder, ScheduleBuilder, TirBuilder
from aoec.ir.text.build_rules import RulesBuilder
from aoec.ir.text.expected_words import expected_words
from aoec.ir.text.places import Places

MAX_BYTES = 64 << 20
MOST_OF_PLAN = 8 << 20  # characters: lists of the nodes of a graph, and nothing larger
# start rule -> grammar file, builder
GRAMMARS = {
    "expr": ("index", IndexBuilder), "meaning": ("index", IndexBuilder),
    "definitions": ("index", IndexBuilder), "graph": ("graph", GraphBuilder), "func": ("tir", TirBuilder),
    "trace": ("schedule", ScheduleBuilder), "program": ("program", ProgramBuilder), "rules": ("rewrite", RulesBuilder),
    "plan": ("plan", PlanBuilder),
}
PARTS = ("expr", "meaning")  # said in an option, a field or a node, and in no file of their own


class _Language:
    """A parser with the builder it feeds; one text at a time."""

    def __init__(self, start: str) -> None:
        grammar, builder = GRAMMARS[start]
        self.lock, self.builder, self.start = Lock(), builder(), start
        self.lark = Lark.open_from_package(
            "aoec.grammars", f"{grammar}.lark", ("",), parser="lalr", lexer="contextual", start=start,
            transformer=self.builder, maybe_placeholders=True)  # type: ignore[arg-type]

    def parse(self, text: str, source: str) -> tuple[Any, Places]:
        """Return the noun with its places; ParseError or CheckError where there is none."""
        with self.lock:
            self.builder.begin(text, source)
            try:
                return self.lark.parse(text), self.builder.places
            except UnexpectedInput as e:
                raise self._error(e, text, source) from None
            finally:
                self.builder.begin("", "")

    def _error(self, e: UnexpectedInput, text: str, source: str) -> ParseError:
        if isinstance(e, UnexpectedToken):
            found = "the end of the text" if e.token.type == "$END" else repr(_short(str(e.token)))
            allowed = e.accepts or e.expected
        else:
            assert isinstance(e, UnexpectedCharacters)
            found, allowed = repr(text[e.pos_in_stream or 0]), e.allowed or set()
        line, column = _end(text) if found == "the end of the text" else (e.line, e.column)
        wanted = expected_words(allowed, self.lark.terminals)
        if not text.strip() and self.start not in PARTS:
            empty = "standard input is empty: the command before it wrote nothing" if source == "-" else "the file is empty"
            return ParseError(f"{empty}; expected {wanted}", source=source)
        return ParseError(f"expected {wanted}, found {found}", text, line, column, source)


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."


def _end(text: str) -> tuple[int, int]:
    """Return line and column just after the last character that is no space."""
    text = text.rstrip()
    return text.count("\n") + 1, len(text) - text.rfind("\n")


@cache
def _language(start: str) -> _Language:
    return _Language(start)


def _parse(start: str, text: str, source: str, finish: Callable[[Any, Places], None]) -> Any:
    if len(text) > MAX_BYTES:
        raise ParseError(f"{len(text):,} characters are too many; the limit is {MAX_BYTES:,}", source=source)
    noun, places = _language(start).parse(text, source)
    finish(noun, places)
    return noun


@lru_cache(maxsize=1 << 12)  # machine files that extend one another say the same formulas, some hundred each
def parse_expr(text: str, source: str = "") -> Expr:
    """Return the expression that `text` says; its names are not checked. ParseError or CheckError with the place."""
    return _parse("expr", text, source, lambda e, at: None)  # type: ignore[no-any-return]


def parse_meaning(text: str, source: str = "") -> Meaning:
    """Return the checked meaning of an operator that `text` says; ParseError or CheckError with the place."""
    return _parse("meaning", text, source, check)  # type: ignore[no-any-return]


def parse_definitions(text: str, source: str = "") -> tuple[Meaning, ...]:
    """Return the checked meanings, each of another name, that `text` says one after the other; ParseError or CheckError with the place."""
    def finish(meanings: tuple[Meaning, ...], at: Places) -> None:
        at.unique([(m.name, m) for m in meanings], "operator", "definitions")
        for m in meanings:
            check(m, at)

    return _parse("definitions", text, source, finish)  # type: ignore[no-any-return]


def parse_plan(text: str, source: str = "") -> Plan:
    """Return the checked plan that `text` says; what a model makes of it is asked later. ParseError or CheckError with the place."""
    return place_plan(text, source)[0]


def place_plan(text: str, source: str = "") -> tuple[Plan, Places]:
    """Return (the plan that `text` says, the places of its lines), for what is refused of it later."""
    kept: list[Places] = []

    def finish(plan: Plan, at: Places) -> None:
        check(plan, at)
        kept.append(at)

    if len(text) > MOST_OF_PLAN:
        raise ParseError(f"{len(text):,} characters are too many for a plan; the limit is {MOST_OF_PLAN:,}", source=source)
    return _parse("plan", text, source, finish), kept[0]


def parse_graph(text: str, source: str = "") -> Graph:
    """Return the checked graph that `text` says; ParseError or CheckError with the place."""
    return _parse("graph", text, source, check)  # type: ignore[no-any-return]


def parse_func(text: str, source: str = "") -> Func:
    """Return the checked func that `text` says; ParseError or CheckError with the place."""
    return _parse("func", text, source, check)  # type: ignore[no-any-return]


def parse_trace(text: str, source: str = "") -> Trace:
    """Return the trace that `text` says; its steps are checked by primitives.check. ParseError or CheckError with the place."""
    return _parse("trace", text, source, check)  # type: ignore[no-any-return]


def parse_program(text: str, source: str = "") -> Program:
    """Return the program that `text` says, its names checked, its instructions not (target.check). ParseError or CheckError with the
    place."""
    return _parse("program", text, source, check)  # type: ignore[no-any-return]


def parse_rules(text: str, source: str = "") -> tuple[Rule, ...]:
    """Return the rewrites, each of another name, that `text` says; their words are checked by frontend.rewrites. ParseError or CheckError
    with the place."""
    def finish(rules: tuple[Rule, ...], at: Places) -> None:
        at.unique([(r.name, r) for r in rules], "rule", "rules")
        for r in rules:
            check(r, at)

    return _parse("rules", text, source, finish)  # type: ignore[no-any-return]
