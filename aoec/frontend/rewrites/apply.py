"""Applies rules to a draft: each rule in turn, from the first node to the last, at every place where its pattern ends.

It records which rule was applied where. Places that are declined stay unchanged. A place is named by the tensor that the pattern makes,
whose name stays.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from math import isfinite, prod
from typing import Any, NamedTuple

import numpy as np

from aoec import ops
from aoec.base.errors import AoecError
from aoec.frontend.rewrites.match import CHAINS, MOST_STEPS, Match, Matcher, defaults, words_of
from aoec.frontend.rewrites.scene import Scene
from aoec.frontend.rewrites.sizes_of import Misfit, Open, Values, evaluate, numbers_of
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Attribute, OpNode
from aoec.ir.graph.rule import Apply, Name, Number, Rule, Term, terms
from aoec.ops.run import NUMPY, run_node

# what a word says of arguments or attributes that are none for it, or NumPy does
FAULTS = (AoecError, ValueError, TypeError, KeyError, IndexError, ArithmeticError, AssertionError)
STEPS_EACH = 64  # of a rule at each node, on average of many: so the work is linear in nodes, whatever a rule says
MOST_FOLDED = 1 << 24  # elements of a tensor of the replacement, where what it is made of is smaller


class Site(NamedTuple):
    """A rule by its name, and a place by the tensor that the rule's pattern makes there."""

    rule: str
    tensor: str


@dataclass
class Rewriting:
    """What is asked of the rewrites of one model, and what they did. `own`: rules of the user's own, applied to the cleaned graph;
    `declined`: places where a rule is not applied; `applied`: the places where rules were, in order."""

    own: Sequence[Rule] = ()
    declined: Collection[tuple[str, str]] = ()
    applied: list[Site] = field(default_factory=list)
    met: set[Site] = field(default_factory=set)  # of the declined: where the rule's pattern is

    def counts(self) -> dict[str, int]:
        """Return rule -> at how many places it was applied, those of names that come first in the alphabet first."""
        return count_rules(self.applied)


def count_rules(sites: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Return rule -> how many of the sites are its own, by name."""
    return dict(sorted(Counter(rule for rule, _ in sites).items()))


def apply(rules: Sequence[Rule], draft: Draft, rewriting: Rewriting) -> None:
    """Apply the rules to the draft, one after the other."""
    words = {n.op for n in draft.nodes} | {t.op for r in rules for _, made in r.made for t in terms(made) if isinstance(t, Apply)}
    rules = [r for r in rules if _may_occur(r, words)]
    scene = Scene(draft) if rules else None
    for rule in rules if scene is not None else ():
        assert scene is not None
        if _may_occur(rule, scene.words()):
            _sweep(rule, scene, rewriting)
    if scene is not None:
        scene.finish()


def _may_occur(rule: Rule, words: Collection[str]) -> bool:
    known = words_of(rule)
    return known.needs <= words and not known.ends.isdisjoint(words)  # type: ignore[operator]


def _sweep(rule: Rule, scene: Scene, rewriting: Rewriting) -> None:
    """Apply one rule at all its places."""
    ends, matcher = words_of(rule).ends, Matcher(rule, scene)
    tensors = [n.outputs[0] for n in scene.nodes() if n.op in ends and n.outputs]
    most = 16 * MOST_STEPS + STEPS_EACH * len(tensors)
    for tensor in tensors:
        node, site = scene.producers.get(tensor), Site(rule.name, tensor)
        if node is None or node.op not in ends:
            continue
        if matcher.spent > most:
            break
        found = matcher.at(node)
        if found is not None and site in rewriting.declined:
            rewriting.met.add(site)
        elif found is not None and Replacement(rule, scene, node, found).put():
            rewriting.applied.append(site)


class _Undone(Exception):
    """A replacement that cannot be: of another shape or dtype than what it replaces, or of a number that is none."""


class Replacement:
    """What stands in place of one match. Tensors and constants get names after the tensor that is made, nodes after the node that is
    replaced."""

    def __init__(self, rule: Rule, scene: Scene, root: OpNode, found: Match) -> None:
        self.rule, self.scene, self.draft, self.root, self.found = rule, scene, scene.draft, root, found
        self.tensors = dict(found.tensors)
        self.made: list[tuple[str, list[str], str, dict[str, Attribute]]] = []  # word, inputs, result, attributes
        self.shapes: dict[str, tuple[str, tuple[int, ...]]] = {}  # result -> dtype, shape
        self.constants: dict[str, np.ndarray] = {}
        self.shared: dict[str, tuple[object, ...]] = {}  # constant -> what it is made of
        del self.tensors[rule.result]

    def put(self) -> bool:
        """Return whether the scene has the replacement in place of the match; nothing is changed where it cannot be."""
        result = self.root.outputs[0]
        t = self.draft.tensors[result]
        try:
            for name, term in self.rule.made:
                self.tensors[name] = self._build(term, name)
        except (_Undone, Open, Misfit):
            return False
        made = self.tensors[self.rule.result]
        if self._type(made) != (t.dtype, t.shape):
            return False
        if made not in self.shapes:
            return self.scene.rename(self.root, made)
        if made in self.constants or not self.made or self.made[-1][2] != made:
            return False  # a constant in place of a node: folding makes those
        self._emit(made, result)
        return True

    def _type(self, name: str) -> tuple[str, tuple[int, ...]]:
        if name in self.shapes:
            return self.shapes[name]
        t = self.draft.tensors[name]
        return t.dtype, t.shape

    # ------------------------------------------------------------ terms

    def _build(self, term: Term, name: str) -> str:
        """Return the tensor that a term is; `name`: what the rule calls it."""
        if isinstance(term, Name):
            return self.tensors[term.name] if term.name in self.tensors else self._number(self._value(Name(term.name)), name)
        if isinstance(term, Number):
            return self._number(term.value, name)
        if isinstance(term, Apply):
            args = [self._build(a, f"{name}_{at}" if isinstance(a, Number) else a.op if isinstance(a, Apply) else name)
                    for at, a in enumerate(term.args)]
            return self._node(term.op, args, {k: self._attribute(v) for k, v in term.attributes}, name)
        assert not isinstance(term, Name) and hasattr(term, "parts")
        return self._chain(term, name)

    def _chain(self, chain: Any, name: str) -> str:
        """Return a product or sum from left to right, its numbers together at last."""
        two, one, total = CHAINS[chain.op]
        numbers = [self._value(p) for p in chain.parts if self._is_number(p)]
        parts = [self._build(p, name) for p in chain.parts if not self._is_number(p)]
        out = parts[0]
        for part in parts[1:]:
            out = self._node(two, [out, part], {}, name)
        for n in numbers:
            total = total * n if chain.op == "*" else total + n
        return self._node(one, [out], {"scalar": total}, name) if numbers else out

    def _is_number(self, term: Term) -> bool:
        return isinstance(term, Number) or isinstance(term, Name) and term.name not in self.tensors

    def _value(self, term: Term) -> float:
        if isinstance(term, Number):
            return term.value
        assert isinstance(term, Name)
        value = self.found.values.get(term.name)
        if not isinstance(value, int | float):
            raise _Undone(term.name)
        return float(value)

    def _number(self, value: float, name: str) -> str:
        """Return a constant of one element in the result's dtype."""
        dtype = self.draft.tensors[self.root.outputs[0]].dtype
        try:
            with np.errstate(all="ignore"):
                return self._constant(np.asarray(value).astype(NUMPY[dtype]), dtype, name)
        except FAULTS as e:
            raise _Undone(str(e)) from e

    def _attribute(self, value: Any) -> Attribute:
        values: Values = self.found.values
        return numbers_of(value, values) if isinstance(value, tuple) else evaluate(value, values)

    # ------------------------------------------------------------ nodes

    def _node(self, op: str, inputs: list[str], attributes: dict[str, Attribute], name: str) -> str:
        """Return what a node gives: a constant where all that it reads is constant."""
        types = [self._type(i) for i in inputs]
        usual = defaults(op)
        attributes = {k: v for k, v in attributes.items() if not (v == 0 and isinstance(v, int) and usual.get(k) == 0)}
        for k, v in attributes.items():
            if isinstance(v, float) and not isfinite(v) and op not in ("clip",):
                raise _Undone(k)
        try:
            shape = ops.shape(op, [s for _, s in types], attributes)
        except FAULTS as e:
            raise _Undone(str(e)) from e
        if any(type(n) is not int for n in shape) or op == "reshape" and prod(shape) != prod(types[0][1]):
            raise _Undone(f"{op} of {types[0][1]}")
        dtype = result_dtype(op, [d for d, _ in types])
        if prod(shape) > max(MOST_FOLDED, 2 * sum(prod(s) for _, s in types)):
            raise _Undone(f"{prod(shape)} elements")
        if all(i in self.constants or self.draft.is_constant(i) for i in inputs):
            known = (op, tuple(inputs), tuple(sorted(attributes.items())))
            if known in self.scene.folded:
                return self.scene.folded[known]
            arrays = [self.constants[i] if i in self.constants else self.draft.weights[i] for i in inputs]
            try:
                value = run_node(OpNode("", op, tuple(inputs), ("",), tuple(attributes.items())), list(arrays))[0]
            except FAULTS as e:
                raise _Undone(str(e)) from e
            if value.shape != shape:
                raise _Undone(f"{op} of {types[0][1]}")
            made = self._constant(np.asarray(value, NUMPY[dtype], order="C"), dtype, name)
            self.shared[made] = known
            return made
        made = f"{len(self.made)}:{name}"  # no tensor of the draft yet
        self.made.append((op, inputs, made, attributes))
        self.shapes[made] = dtype, shape
        return made

    def _constant(self, value: np.ndarray, dtype: str, name: str) -> str:
        made = f"{len(self.constants)}:const:{name}"
        self.constants[made] = value
        self.shapes[made] = dtype, value.shape
        return made

    def _emit(self, last: str, result: str) -> None:
        """Put the tensors, constants and nodes into the draft under free names."""
        names = {last: result}
        for made, value in self.constants.items():
            names[made] = self.draft.constant(f"{result}_{made.rpartition(':')[2]}", value, self.shapes[made][0])
            if all(i not in self.constants for i in self.shared.get(made, ((), (made,)))[1]):  # type: ignore[attr-defined]
                self.scene.folded[self.shared[made]] = names[made]
        for _, _, made, _ in self.made[:-1]:
            names[made] = self.draft.tensor(f"{result}_{made.rpartition(':')[2]}", *self.shapes[made])
        kept = self.rule.keeps
        keeper = self.scene.producers.get(self.found.tensors.get(kept, "")) if kept else None
        nodes = []
        for op, inputs, made, attributes in self.made:
            label = keeper.name if keeper is not None and made == last else self.draft.fresh(self.root.name, "node")
            nodes.append(OpNode(label, op, tuple(names.get(i, i) for i in inputs), (names[made],), tuple(attributes.items())))
        self.scene.put(nodes, self.root, self._place_of(keeper or self.root))

    def _place_of(self, keeper: OpNode) -> int:
        """Return where the keeper stands, if all that is read is made before, else where the pattern ends."""
        place, at = self.scene.place, self.scene.place[keeper.name]
        makers = [self.scene.producers[i] for _, inputs, _, _ in self.made for i in inputs if i in self.scene.producers]
        return at if all(place[m.name] < at for m in makers) else place[self.root.name]


def result_dtype(op: str, dtypes: Sequence[str]) -> str:
    """Return the dtype of what a word makes of arguments."""
    own = ops.get(op).dtype if op in ops.OPS else ""
    return own or dtypes[1 if op == "where" and len(dtypes) > 1 else 0]
