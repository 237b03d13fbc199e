"""Rewrites from what their grammar matches."""
from __future__ import annotations

from typing import Any

from aoec.base.text import unquote
from aoec.ir.graph.rule import OF_LISTS, Apply, Chain, Declaration, Equation, Name, Number, Perhaps, Rule, Spread, Test
from aoec.ir.index import Call, Expr
from aoec.ir.text.build import IndexBuilder, Parts


class RulesBuilder(IndexBuilder):
    """rewrite.lark"""

    def rules(self, c: Parts) -> Any:
        return tuple(c)

    def rule(self, c: Parts) -> Any:
        name, about, *lines = c
        made = tuple([n[1:] for n in lines if isinstance(n, tuple) and n[0] == "made"])
        sole = tuple([n for part in lines if isinstance(part, tuple) and part[0] == "sole" for n in part[1]])
        conditions = tuple([n[1] for n in lines if isinstance(n, tuple) and n[0] == "condition"])

        kept = [n[1] for n in lines if isinstance(n, tuple) and n[0] == "keeps"]
        if len(kept) > 1:
            raise self.error("the last node of the replacement keeps one name", name)

        def of(kind: type) -> tuple[Any, ...]:
            return tuple([n for n in lines if isinstance(n, kind)])
        return self.put(Rule(unquote(name), unquote(about), of(Equation), of(Declaration), sole, conditions, of(Test),
                             "rounds" in lines, made, kept[0] if kept else ""), name)

    def equation(self, c: Parts) -> Any:
        return self.put(Equation(unquote(c[0]), tuple([t for t in c[1:] if not _is_token(t, "OR")])), c[0])

    def declaration(self, c: Parts) -> Any:
        *names, constant, kind, shape = c
        return self.put(Declaration(tuple(map(unquote, names)), unquote(kind), shape, constant is not None), names[0])

    def sole(self, c: Parts) -> Any:
        return "sole", tuple(map(unquote, c))

    def condition(self, c: Parts) -> Any:
        return "condition", c[0]

    def test(self, c: Parts) -> Any:
        return self.put(Test(unquote(c[0]), tuple(map(unquote, c[1:]))), c[0])

    def keeping(self, c: Parts) -> Any:
        return "keeps", unquote(c[0])

    def rounding(self, c: Parts) -> Any:
        return "rounds"

    def replacement(self, c: Parts) -> Any:
        return "made", unquote(c[0]), c[1]

    def total(self, c: Parts) -> Any:
        parts = tuple([p for p in c if not _is_token(p, "PLUS")])
        return self.deep(Chain("+", parts), parts, None)

    def product(self, c: Parts) -> Any:
        parts = tuple([p for p in c if not _is_token(p, "TIMES")])
        return self.deep(Chain("*", parts), parts, None)

    def name(self, c: Parts) -> Any:
        return Name(unquote(c[0]))

    def exact(self, c: Parts) -> Any:
        return Number(float(c[0].value))

    def near(self, c: Parts) -> Any:
        return Number(float(c[1].value), True)

    def perhaps(self, c: Parts) -> Any:
        return Perhaps(unquote(c[0][1:]))

    def call_word(self, c: Parts) -> Any:
        attributes = tuple([p[1:] for p in c[1:] if isinstance(p, tuple) and p[0] == "attribute"])
        args = tuple([p for p in c[1:] if p is not None and not isinstance(p, tuple)])
        return self.put(self.deep(Apply(unquote(c[0]), args, attributes), args, c[0]), c[0])

    def attribute(self, c: Parts) -> Any:
        return "attribute", unquote(c[0]), c[1]

    def variable(self, c: Parts) -> Any:
        """Return a size or number by its name; in quotes a text, which an attribute may have."""
        return unquote(c[0]) if c[0][0] == '"' else super().variable(c)

    def list(self, c: Parts) -> Any:
        return tuple([p for p in c if p is not None])

    def spread(self, c: Parts) -> Any:
        return Spread(unquote(c[1]), "", unquote(c[3]) if c[3] is not None else "")

    def spread_of(self, c: Parts) -> Any:
        return Spread(unquote(c[2]), unquote(c[1]))

    def call(self, c: Parts) -> Any:
        """Return a function of sizes, or of a list of them: `len(n)` is how many it has, `size(n)` their product."""
        if str(c[0]) in OF_LISTS and len(c) == 2:
            return self.deep(Call(str(c[0]), (c[1],)), c[1:], c[0])
        return super().call(c)


def _is_token(part: Any, kind: str) -> bool:
    return getattr(part, "type", None) == kind and not isinstance(part, Expr)
