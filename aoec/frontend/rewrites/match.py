"""Matches a rule's pattern that ends at a node, and returns what its names stand for.

Terms are matched from the result back. Each order of operands, factors or terms is tried. Then shapes, attributes and conditions are solved
together. The number of steps for one node is bounded, so that no rule takes longer than that.
"""
from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import isnan
from typing import Any, Union

import numpy as np

from aoec.frontend.rewrites.conditions import CONDITIONS
from aoec.frontend.rewrites.scene import Scene
from aoec.frontend.rewrites.sizes_of import Given, Misfit, Open, Values, evaluate, is_near, unify
from aoec.ir.graph.graph import OpNode
from aoec.ir.graph.rule import Apply, Chain, Declaration, List, Name, Number, Perhaps, Rule, Term, terms
from aoec.ir.index import Expr
from aoec.ops import OPS
from aoec.ops.run import REALS

MOST_STEPS = 4096  # of one rule at one node
STEPS_TO_SETTLE = 8
COMMUTATIVE = frozenset(("add", "mul", "maximum", "minimum"))
CHAINS = {"*": ("mul", "muls", 1.0), "+": ("add", "adds", 0.0)}  # words of two tensors and of a number, what changes nothing
WHOLE = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


class Exhausted(Exception):
    """More steps than one node is worth."""


@dataclass(frozen=True)
class Match:
    """What the names of a rule stand for: `tensors` by what the rule calls them, and sizes and numbers."""

    tensors: Mapping[str, str]
    values: Values


@dataclass(frozen=True)
class _Found:
    """What is matched so far; `open`: attributes to be settled."""

    tensors: dict[str, str]
    numbers: Values
    open: tuple[tuple[Union[Expr, List, str], Given], ...] = ()

    def with_tensor(self, name: str, tensor: str) -> _Found:
        return _Found({**self.tensors, name: tensor}, self.numbers, self.open)

    def with_number(self, name: str, value: float) -> _Found:
        return _Found(self.tensors, {**self.numbers, name: value}, self.open)

    def with_attributes(self, more: tuple[tuple[Union[Expr, List, str], Given], ...]) -> _Found:
        return _Found(self.tensors, self.numbers, self.open + more)


@lru_cache(maxsize=256)
def defaults(op: str) -> Mapping[str, Any]:
    """Return attribute of a word -> what it is where a node does not say it."""
    return {name: value for name, value in attributes_of(op).items() if value is not inspect.Parameter.empty}


@lru_cache(maxsize=256)
def attributes_of(op: str) -> Mapping[str, Any]:
    """Return attribute of a word -> what it is where a node does not say it, `inspect.Parameter.empty` where a node has to."""
    if op not in OPS:
        return {}
    elements, given = OPS[op].elements, inspect.signature(OPS[op].reference).parameters
    if elements is not None:
        return {name: given[name].default if name in given else inspect.Parameter.empty for name in elements.params}
    return {p.name: p.default for p in given.values() if p.kind is p.KEYWORD_ONLY}


@dataclass(frozen=True)
class Words:
    """Words of a rule: those of nodes that its pattern can end at, and those without which a graph has no place for it."""

    rule: Rule
    ends: frozenset[str]
    needs: frozenset[str]


_known: dict[int, Words] = {}  # of a rule by its identity: to hash all of it takes longer than most look-ups save
MOST_KNOWN = 4096


def words_of(rule: Rule) -> Words:
    """Return the words of a rule, found once for each."""
    known = _known.get(id(rule))
    if known is None or known.rule is not rule:
        if len(_known) >= MOST_KNOWN:
            _known.clear()
        known = _known[id(rule)] = Words(rule, _ends(rule), _needs(rule))
    return known


def _ends(rule: Rule) -> frozenset[str]:
    forms = {e.name: e.forms for e in rule.equations}
    out, rest = set[str](), list(rule.equations[0].forms)
    while rest:
        form = rest.pop()
        if isinstance(form, Chain):
            out.update(CHAINS[form.op][:2])
            rest += [p for p in form.parts if any(isinstance(o, Perhaps) for o in form.parts) and not isinstance(p, Number | Perhaps)]
        elif isinstance(form, Apply):
            out.add(form.op)
        elif isinstance(form, Name):
            rest += forms.get(form.name, ())
    return frozenset(out)


def _needs(rule: Rule) -> frozenset[str]:
    """Return the words that each form of a line has."""
    words = [[frozenset(t.op for t in terms(f) if isinstance(t, Apply)) for f in e.forms] for e in rule.equations]
    return frozenset[str]().union(*[frozenset.intersection(*forms) for forms in words])


class Matcher:
    """One rule over a scene."""

    def __init__(self, rule: Rule, scene: Scene) -> None:
        self.rule, self.scene = rule, scene
        self.forms = {e.name: e.forms for e in rule.equations}
        self.kinds = {name: d for d in rule.declarations for name in d.names}
        self.steps = self.spent = 0  # of one node, and of all before

    def at(self, node: OpNode) -> Match | None:
        """Return the first match that ends at a node. Return None where there is none."""
        self.spent, self.steps = self.spent + self.steps, 0
        try:
            for found in self._term(Name(self.rule.result), node.outputs[0], _Found({}, {})):
                self.steps += STEPS_TO_SETTLE
                values = self._settle(found)
                if values is not None:
                    return Match(found.tensors, values)
        except Exhausted:
            pass
        return None

    # ------------------------------------------------------------ terms

    def _term(self, term: Term, tensor: str, found: _Found) -> Iterator[_Found]:
        """Yield each way that a term is a tensor."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise Exhausted
        if isinstance(term, Name):
            yield from self._name(term.name, tensor, found)
        elif isinstance(term, Apply):
            yield from self._apply(term, tensor, found)
        elif isinstance(term, Chain):
            yield from self._chain(term, tensor, found)
        elif isinstance(term, Number) and (value := self._single(tensor)) is not None and is_near(value, term.value, term.near):
            yield found

    def _name(self, name: str, tensor: str, found: _Found) -> Iterator[_Found]:
        if name in found.tensors:
            if self.scene.same(found.tensors[name], tensor):
                yield found
            return
        kind = self.kinds.get(name)
        if kind is not None and kind.kind == "number":
            value = self._single(tensor)
            if value is not None and (name not in found.numbers or is_near(found.numbers[name], value, False)):  # type: ignore[arg-type]
                yield found.with_number(name, value)
            return
        if kind is not None and not self._is_kind(kind, tensor):
            return
        more = found.with_tensor(name, tensor)
        if name not in self.forms:
            yield more
        for form in self.forms.get(name, ()):
            yield from self._term(form, tensor, more)

    def _is_kind(self, kind: Declaration, tensor: str) -> bool:
        """Return whether a tensor is what a rule declares, its shape apart."""
        draft = self.scene.draft
        dtype = draft.tensors[tensor].dtype
        fits = {"any": True, "real": dtype in REALS, "whole": dtype in WHOLE}.get(kind.kind, dtype == kind.kind)
        return fits and (not kind.constant or draft.is_constant(tensor))

    def _single(self, tensor: str) -> float | None:
        """Return the number that a constant of one element is."""
        array = self.scene.draft.weights.get(tensor)
        if array is None or array.size != 1 or array.dtype == np.bool_:
            return None
        value = float(array.reshape(())[()])
        return None if isnan(value) else value

    def _apply(self, term: Apply, tensor: str, found: _Found) -> Iterator[_Found]:
        node = self.scene.producers.get(tensor)
        if node is None or node.op != term.op or node.definition or len(node.inputs) != len(term.args) or "" in node.inputs:
            return
        open_ = self._attributes(term, node)
        if open_ is None:
            return
        found = found.with_attributes(open_)
        yield from self._args(term.args, node.inputs, found)
        if term.op in COMMUTATIVE and len(node.inputs) == 2 and node.inputs[0] != node.inputs[1]:
            yield from self._args(term.args, node.inputs[::-1], found)

    def _args(self, args: tuple[Term, ...], inputs: tuple[str, ...], found: _Found) -> Iterator[_Found]:
        if not args:
            yield found
            return
        for more in self._term(args[0], inputs[0], found):
            yield from self._args(args[1:], inputs[1:], more)

    def _attributes(self, term: Apply, node: OpNode) -> tuple[tuple[Any, Given], ...] | None:
        """Return (what the term says, what the node says) of each attribute. Return None where one that the term does not name is no
        default."""
        held, out = {**defaults(node.op), **dict(node.attributes)}, []
        rank = len(self.scene.draft.tensors[node.inputs[0]].shape) if node.inputs else 0
        for name, value in term.attributes:
            if name not in held:
                return None
            out.append((value, _from_front(name, held.pop(name), rank)))
        usual = defaults(node.op)
        return tuple(out) if all(name in usual and _plain(usual[name]) == _plain(value) for name, value in held.items()) else None

    # ------------------------------------------------------------ products and sums

    def _chain(self, chain: Chain, tensor: str, found: _Found) -> Iterator[_Found]:
        """Yield each way that a product or sum is a tensor: its numbers together in any places, all else each once."""
        numbers = [p for p in chain.parts if isinstance(p, Number)]
        free = [p.name for p in chain.parts if isinstance(p, Perhaps) or isinstance(p, Name) and self._is_number(p.name)]
        left = tuple(p for p in chain.parts
                     if not isinstance(p, Number | Perhaps) and not (isinstance(p, Name) and self._is_number(p.name)))
        must = bool(numbers) or any(isinstance(p, Name) and p.name in free for p in chain.parts)
        known, near = CHAINS[chain.op][2], any(n.near for n in numbers)
        for n in numbers:
            known = known * n.value if chain.op == "*" else known + n.value
        for total, seen, more in self._links(chain.op, (tensor,), left, CHAINS[chain.op][2], 0, bool(numbers or free), found):
            if must and not seen or not free and numbers and not is_near(total, known, near):
                continue
            if not free:
                yield more
                continue
            if chain.op == "*" and known == 0:
                continue
            value = (total / known if chain.op == "*" else total - known) if seen else CHAINS[chain.op][2]
            if free[0] not in more.numbers:
                yield more.with_number(free[0], value)
            elif is_near(more.numbers[free[0]], value, False):  # type: ignore[arg-type]
                yield more

    def _is_number(self, name: str) -> bool:
        return name in self.kinds and self.kinds[name].kind == "number"

    def _links(self, op: str, todo: tuple[str, ...], left: tuple[Term, ...], total: float, seen: int, counts: bool,
               found: _Found) -> Iterator[tuple[float, int, _Found]]:
        """Yield (the numbers together, how many, what is matched) for each way that tensors are all that is left of a chain."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise Exhausted
        if not todo:
            if not left:
                yield total, seen, found
            return
        if len(todo) > len(left):
            return
        two, one, _ = CHAINS[op]
        first, rest = todo[0], todo[1:]
        node = self.scene.producers.get(first)
        if node is not None and node.op == one and counts:
            c = float(dict(node.attributes)["scalar"])  # type: ignore[arg-type]
            together = total * c if op == "*" else total + c
            yield from self._links(op, (node.inputs[0], *rest), left, together, seen + 1, counts, found)
        if node is not None and node.op == two and len(rest) + 2 <= len(left):
            yield from self._links(op, (*node.inputs, *rest), left, total, seen, counts, found)
        for at, part in enumerate(left):
            if part not in left[:at]:
                for more in self._term(part, first, found):
                    yield from self._links(op, rest, left[:at] + left[at + 1:], total, seen, counts, more)

    # ------------------------------------------------------------ shapes, attributes, conditions

    def _settle(self, found: _Found) -> Values | None:
        """Return sizes and numbers that make shapes and attributes what they are, where all conditions hold. Return None where none do."""
        shapes = self.scene.draft.tensors
        rest = [(d.shape, shapes[found.tensors[name]].shape) for d in self.rule.declarations if d.shape is not None
                for name in d.names if name in found.tensors]
        values = settle([*rest, *found.open], found.numbers)
        if values is None or any(self.scene.only_user(found.tensors[name]) is None for name in self.rule.sole if name in found.tensors):
            return None
        try:
            if not all(evaluate(c, values) for c in self.rule.conditions):
                return None
        except (Open, Misfit):
            return None
        named = ([found.tensors.get(name) for name in t.names] for t in self.rule.tests)
        fits = all(None not in names and CONDITIONS[t.name](self.scene, *names) for t, names in zip(self.rule.tests, named))
        return values if fits else None


def settle(pairs: list[tuple[Any, Given]], numbers: Values) -> Values | None:
    """Return the values that make each of the pairs equal. Return None where nothing does."""
    values, rest = dict(numbers), pairs
    while rest:
        later, known = [], len(values)
        for value, given in rest:
            try:
                unify(value, given, values)  # what it told before it was found open holds
            except Open:
                later.append((value, given))
            except Misfit:
                return None
        if len(later) == len(rest) and len(values) == known:
            return None
        rest = later
    return values


def _from_front(name: str, value: Any, rank: int) -> Any:
    """Return an attribute with axes counted from the first."""
    if name == "axis" and isinstance(value, int):
        return value + rank if value < 0 else value
    return tuple(a + rank if a < 0 else a for a in value) if name == "axes" and isinstance(value, tuple) else _plain(value)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
