"""Rule: a rewrite of graphs, as data. A pattern in the graph's own words, conditions, and what stands in its place."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from aoec.ir.index import Expr

KINDS = ("any", "real", "whole", "number")  # of a tensor that a rule declares, beside names of dtypes
FILLS = ("zeros", "ones", "axes")  # lists that are as long as another: of 0, of 1, of 0, 1, 2, ...

OF_LISTS = ("len", "size")  # functions of a list


@dataclass(frozen=True, slots=True)
class Name:
    """A tensor, by what the rule calls it; among factors or terms a number, where it is declared as one."""

    name: str


@dataclass(frozen=True, slots=True)
class Number:
    """A number; `near`: within 1 / 10,000 of it, as exporters round. As an argument it is a constant of one element."""

    value: float
    near: bool = False


@dataclass(frozen=True, slots=True)
class Perhaps:
    """A number among factors (or terms) that may be left out, and is 1 (or 0) then."""

    name: str


@dataclass(frozen=True, slots=True)
class Spread:
    """A list in a list: `name`, or `fill` (one of FILLS) as long as that; `wide`: the list to which `name` broadcasts."""

    name: str
    fill: str = ""
    wide: str = ""


List = tuple[Union[Expr, Spread], ...]


@dataclass(frozen=True, slots=True)
class Apply:
    """A word of the dictionary on terms, with attributes; those that it does not name have the values that they have by default."""

    op: str
    args: tuple[Term, ...]
    attributes: tuple[tuple[str, Union[Expr, List, str]], ...] = ()


@dataclass(frozen=True, slots=True)
class Chain:
    """A product ("*") or sum ("+") in any order and any grouping, over `mul` and `muls`, or `add` and `adds`."""

    op: str
    parts: tuple[Term, ...]


Term = Union[Name, Number, Perhaps, Apply, Chain]


@dataclass(frozen=True, slots=True)
class Equation:
    """What a tensor is made of: one of the `forms`."""

    name: str
    forms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Declaration:
    """What tensors are. `kind`: one of KINDS or a dtype; `shape`: a list of sizes, None for any; `constant`: they are constants."""

    names: tuple[str, ...]
    kind: str
    shape: Union[List, None] = None
    constant: bool = False


@dataclass(frozen=True, slots=True)
class Test:
    """A condition that is no arithmetic, by its name, on tensors of the pattern."""

    name: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """`equations`: the pattern, its result first. `sole`: tensors that nothing else reads, and that are no result of the graph.
    `conditions` and `tests` hold of what was matched. `rounds`: the replacement may round otherwise than the pattern. `made`: the
    replacement; last its result, of the name of the pattern's. `keeps`: what the node of the pattern makes whose name and place the last
    node of the replacement takes; "" for a name after the node that is replaced."""

    name: str
    about: str
    equations: tuple[Equation, ...]
    declarations: tuple[Declaration, ...]
    sole: tuple[str, ...]
    conditions: tuple[Expr, ...]
    tests: tuple[Test, ...]
    rounds: bool
    made: tuple[tuple[str, Term], ...]
    keeps: str = ""

    @property
    def result(self) -> str:
        """Return the name of the tensor that pattern and replacement make."""
        return self.equations[0].name


def terms(term: Term) -> list[Term]:
    """Return the term and all under it, parents first."""
    out, rest = [], [term]
    while rest:
        at = rest.pop()
        out.append(at)
        rest += reversed(at.args if isinstance(at, Apply) else at.parts if isinstance(at, Chain) else ())
    return out
