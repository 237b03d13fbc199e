"""Checks the law of a rule: its pattern and its replacement give the same, on random shapes and values.

A sample of a rule is a small graph that its pattern matches. Its shapes follow the rule's declarations. Sizes and numbers are drawn,
factors and operands have any order, and each line has one of its forms. Both sides are run by the operators' references. They must be equal
bit for bit. Where a rule says `rounds`, they may differ by some roundings of the largest number that the pattern meets. In 16 bits they are
then compared with the pattern in fp32.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, prod
from random import Random
from typing import Any, Union

import numpy as np

from aoec import ops
from aoec.base.errors import CheckError, one_line
from aoec.frontend.rewrites import library
from aoec.frontend.rewrites.apply import FAULTS, Rewriting, apply, result_dtype
from aoec.frontend.rewrites.match import CHAINS, COMMUTATIVE, WHOLE, Matcher
from aoec.frontend.rewrites.scene import Scene
from aoec.frontend.rewrites.sizes_of import Misfit, Open, Values, evaluate, numbers_of
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Attribute, Tensor
from aoec.ir.graph.rule import Apply, Chain, Declaration, Name, Number, Perhaps, Rule, Spread, Term
from aoec.ir.index import Binary, Expr, Var, walk
from aoec.ops.run import NUMPY, REALS

MOST_ELEMENTS, MOST_GROWN = 1 << 16, 1 << 20  # of one tensor of a sample, and of what stands in its place
TRIES = 800  # samples that are drawn for each that is compared
MOST_TRIES, FEWEST = 4000, 4  # of all samples of a user's rule; samples that it needs
SAMPLES = 24  # that a user's rule is compared on
MOST_DRAWN = 200_000  # nodes of all graphs that are drawn for the rules of a file
SIZES = (1, 2, 3, 4, 5, 8, 16, 32)
NUMBERS = (1e-5, 0.5, 1.0, 2.0, 3.0, 0.125, -1.0, -0.5, 0.0)
ROUNDING = {"fp32": 2e-5, "fp16": 2e-2, "bf16": 1e-1}  # of the largest number
END = "end of the law"  # reads what the pattern makes, so that this is no result of the graph


class _Refused(Exception):
    """A draw that is no sample: shapes that do not meet, or conditions that do not hold."""


@dataclass
class Budget:
    """Nodes that may still be drawn."""

    left: int = MOST_DRAWN


@dataclass(frozen=True)
class Sample:
    """A rule's pattern as a graph, values of its inputs, and those of all its tensors."""

    rule: Rule
    draft: Draft
    feeds: dict[str, np.ndarray]
    dtype: str
    values: dict[str, np.ndarray]


def draw(rule: Rule, random: Random) -> Sample | None:
    """Return a sample that the rule matches. Return None where none was found in so many tries."""
    return _draw(rule, random, TRIES, Budget())[0]


def _draw(rule: Rule, random: Random, tries: int, budget: Budget) -> tuple[Sample | None, int]:
    """Return (a sample, after how many tries)."""
    for number in range(tries if budget.left > 0 else 0):
        try:
            sample = _Drawing(rule, random, budget).sample()
        except (_Refused, Open, Misfit):
            continue
        if _matches(sample):
            return sample, number + 1
    return None, tries


def broken(sample: Sample) -> str:
    """Return what pattern and replacement give where they differ, as the end of a sentence. Return "" where they are the same."""
    made, before = _apply(sample), sample.values
    if made is None:
        t = sample.draft.tensors[sample.rule.result]
        return f"the replacement makes no {t.dtype}{list(t.shape)}, which the pattern makes for {_show_inputs(sample.draft)}"
    if any(prod(made.tensors[o].shape) > MOST_GROWN for n in made.nodes for o in n.outputs):
        return f"the replacement makes a tensor of more than {MOST_GROWN:,} elements of smaller ones"
    try:
        after = _every(made, sample.feeds)
    except FAULTS as e:
        return f"the replacement cannot be run: {one_line(str(e))}"
    name = sample.draft.outputs[0]
    a, b = before[name], after[name]
    if not sample.rule.rounds or sample.dtype not in REALS:
        wrong = ~((a == b) | ((a != a) & (b != b)))  # what is no number is equal to itself here
    else:
        exact = before if sample.dtype == "fp32" else _every(_in_fp32(sample.draft), sample.feeds)
        a = exact[name]
        largest = max((float(np.abs(v[np.isfinite(v)]).max(initial=0)) for v in map(_real, exact.values())), default=0.0)
        x, y = _real(a), _real(b)
        with np.errstate(all="ignore"):
            wrong = ~((x == y) | (np.abs(x - y) <= ROUNDING[sample.dtype] * largest + 1e-7) | np.isnan(x))
    if not np.any(wrong):
        return ""
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return (f"for {_show_inputs(sample.draft)} the pattern gives {_show_value(a[at])} at {sample.rule.result}{list(at)} and the "
            f"replacement {_show_value(b[at])}")


def read_own(paths: Sequence[str]) -> tuple[Rule, ...]:
    """Return the rules of a user's files, each of which holds on random graphs. Raise an AoecError for a file that is none, or a rule that
    is false."""
    out: list[Rule] = []
    for path, rules in library.read_files(paths):
        check_laws(rules, path)
        out += rules
    return tuple(out)


def check_laws(rules: Sequence[Rule], source: str = "", samples: int = SAMPLES, seed: int = 0) -> None:
    """Raise CheckError, with a counterexample, for a rule whose replacement does not equal its pattern. Raise it, too, for a rule of which
    no sample was found."""
    budget = Budget()
    for rule in rules:
        random, tries = Random(f"{seed} {rule.name}"), MOST_TRIES
        for number in range(samples):
            sample, used = _draw(rule, random, min(TRIES, tries), budget)
            if budget.left <= 0:
                raise CheckError(f"the rules up to {rule.name} take more than {MOST_DRAWN:,} nodes of random graphs to try; give fewer or "
                                 "simpler rules in a file", source=source)
            tries -= used
            if sample is None and number >= FEWEST:
                break
            if sample is None:
                raise CheckError(f"rule {rule.name} could not be tried: of {TRIES} random graphs of its pattern it matches none; declare "
                                 "the shapes of its tensors, as in x: real[*n, c]", source=source)
            if said := broken(sample):
                hint = "" if rule.rounds else "; where the two only round differently, write rounds"
                raise CheckError(f"rule {rule.name} is false: {said}{hint}", source=source)


def _show_inputs(draft: Draft) -> str:
    return ", ".join(f"{n} {t.dtype}{list(t.shape)}" for n, t in draft.tensors.items() if n in draft.inputs or draft.is_constant(n))


def _show_value(value: Any) -> str:
    return f"{float(value):.6g}"


def _real(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64)


def _copy(draft: Draft) -> Draft:
    return Draft(draft.name, draft.inputs, draft.outputs, draft.tensors.values(), draft.nodes, draft.weights)


def _matches(sample: Sample) -> bool:
    """Return whether the rule's pattern is what the sample says."""
    scene = Scene(sample.draft)
    return Matcher(sample.rule, scene).at(scene.producers[sample.rule.result]) is not None


def _apply(sample: Sample) -> Draft | None:
    """Return the sample's graph with the rule applied at its end. Return None where the replacement cannot stand there."""
    out, done = _copy(sample.draft), Rewriting()
    apply((sample.rule,), out, done)
    return out if any(s.tensor == sample.rule.result for s in done.applied) else None


def _in_fp32(draft: Draft) -> Draft:
    """Return the graph with its reals in fp32."""
    out = _copy(draft)
    out.tensors = {n: replace(t, dtype="fp32" if t.dtype in REALS else t.dtype) for n, t in out.tensors.items()}
    out.weights = {n: w.astype(np.float32) if out.tensors[n].dtype == "fp32" else w for n, w in out.weights.items()}
    return out


def _every(draft: Draft, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    graph, weights = draft.finish()
    return ops.evaluate(graph, {n: feeds[n] for n in graph.inputs}, weights, every=True)


# ---------------------------------------------------------------- drawing a sample

class _Drawing:
    """One draw."""

    def __init__(self, rule: Rule, random: Random, budget: Budget) -> None:
        self.rule, self.random, self.budget = rule, random, budget
        self.pool = random.sample(SIZES, random.randint(1, 3))
        self.dtype = random.choice(("fp32", "fp32", "fp32", "fp16", "bf16"))
        self.whole = random.choice(("int32", "int64"))
        self.forms = {e.name: random.choice(e.forms) for e in rule.equations}
        self.kinds = {name: d for d in rule.declarations for name in d.names}
        self.values: Values = {}
        self.draft = Draft("law", (), (END,))
        self.tensors: dict[str, str] = {}
        self.feeds: dict[str, np.ndarray] = {}
        self.numbers = np.random.default_rng(random.getrandbits(32))

    def sample(self) -> Sample:
        """Return a graph of the pattern, whatever its conditions say."""
        for name, kind in self.kinds.items():
            if kind.kind == "number":
                self.values[name] = self.random.choice(NUMBERS)
        made = self._tensor(Name(self.rule.result))
        if made != self.rule.result or made not in {o for n in self.draft.nodes for o in n.outputs}:
            raise _Refused
        t = self.draft.tensors[made]
        self._node("transpose", [made], {"perm": tuple(range(len(t.shape)))}, END)
        inputs = tuple(self.feeds)
        out = Draft("law", inputs, (END,), [*(self.draft.tensors[n] for n in inputs), *(
            t for n, t in self.draft.tensors.items() if n not in inputs)], self.draft.nodes, self.draft.weights)
        try:
            values = _every(out, self.feeds)
        except FAULTS as e:
            raise _Refused from e  # such as a bound of infinity for whole numbers
        return Sample(self.rule, out, self.feeds, self.draft.tensors[made].dtype, values)

    # ------------------------------------------------------------ tensors

    def _tensor(self, term: Term, label: str = "") -> str:
        """Return the tensor that a term is, made now."""
        if isinstance(term, Name):
            return self._name(term.name)
        if isinstance(term, Number):
            return self._single(term.value)
        if isinstance(term, Chain):
            return self._chain(term, label)
        assert isinstance(term, Apply)
        args = [self._tensor(a) for a in term.args]
        if term.op in COMMUTATIVE and len(args) == 2 and self.random.random() < 0.5:
            args.reverse()
        return self._node(term.op, args, {k: self._attribute(k, v, args) for k, v in term.attributes}, label)

    def _name(self, name: str) -> str:
        kind = self.kinds.get(name)
        if kind is not None and kind.kind == "number":
            return self._single(float(self.values[name]))  # type: ignore[arg-type]
        if name not in self.tensors:
            self.tensors[name] = self._tensor(self.forms[name], name) if name in self.forms else self._leaf(name, kind)
        return self.tensors[name]

    def _leaf(self, name: str, kind: Declaration | None) -> str:
        """Return an input or constant."""
        said = "any" if kind is None else kind.kind
        dtype = {"any": self.random.choice((self.dtype, self.dtype, self.whole)), "real": self.dtype, "whole": self.whole}.get(said, said)
        if kind is None or kind.shape is None:
            shape = tuple(self.random.choice(self.pool) for _ in range(self.random.randint(1, 4)))
        else:
            shape = tuple(int(n) for item in kind.shape for n in self._sizes(item))
        if min(shape, default=0) < 0 or prod(shape) > MOST_ELEMENTS:
            raise _Refused
        self.draft.put(Tensor(name, dtype, shape))
        drawn = self.numbers.integers(-5, 6, shape) if dtype in (*WHOLE, "bool") else self.numbers.standard_normal(shape) * 2
        values = (drawn > 0 if dtype == "bool" else np.abs(drawn) if dtype.startswith("uint") else drawn).astype(NUMPY[dtype])
        if kind is not None and kind.constant:
            self.draft.weights[name] = values
        else:
            self.feeds[name] = values
        return name

    def _single(self, value: float) -> str:
        """Return a constant of one element."""
        with np.errstate(all="ignore"):
            array = np.full((1,) * self.random.randint(0, 2), value).astype(NUMPY[self.dtype])
        return self.draft.constant("number", array, self.dtype)

    def _node(self, op: str, inputs: list[str], attributes: dict[str, Attribute], label: str) -> str:
        types = [self.draft.tensors[i] for i in inputs]
        self.budget.left -= 1
        if self.budget.left <= 0:
            raise _Refused
        try:
            shape = ops.shape(op, [t.shape for t in types], attributes)
        except FAULTS as e:
            raise _Refused from e
        if prod(shape) > MOST_ELEMENTS:
            raise _Refused
        name = label or self.draft.fresh(op)
        self.draft.put(Tensor(name, result_dtype(op, [t.dtype for t in types]), tuple(int(n) for n in shape)))
        self.draft.nodes.append(self.draft.node(op, inputs, name, attributes))
        return name

    def _chain(self, chain: Chain, label: str) -> str:
        """Return a product or sum of its parts in any order and grouping."""
        two, one, _ = CHAINS[chain.op]
        parts: list[Union[str, float]] = []
        for p in chain.parts:
            if isinstance(p, Number):
                parts.append(p.value)
            elif isinstance(p, Perhaps):
                if p.name not in self.values and self.random.random() < 0.5:
                    self.values[p.name] = parts_value = self.random.choice(NUMBERS)
                    parts.append(float(parts_value))
            elif isinstance(p, Name) and p.name in self.kinds and self.kinds[p.name].kind == "number":
                parts.append(float(self.values[p.name]))  # type: ignore[arg-type]
            else:
                parts.append(self._tensor(p))
        self.random.shuffle(parts)
        while len(parts) > 1:
            at = self.random.randrange(len(parts) - 1)
            a, b = parts[at:at + 2]
            last = label if len(parts) == 2 else ""
            if isinstance(a, float) and isinstance(b, float):
                made: Union[str, float] = a * b if chain.op == "*" else a + b
            elif isinstance(a, str) and isinstance(b, str):
                made = self._node(two, [a, b], {}, last)
            else:
                tensor, number = (a, b) if isinstance(a, str) else (b, a)
                assert isinstance(tensor, str) and isinstance(number, float)
                made = self._node(one, [tensor], {"scalar": number}, last)
            parts[at:at + 2] = [made]
        assert isinstance(parts[0], str)
        return parts[0]

    # ------------------------------------------------------------ sizes and attributes

    def _sizes(self, item: Union[Expr, Spread]) -> tuple[int, ...]:
        """Return what an item of a shape is: names without a value get one."""
        if isinstance(item, Spread):
            if item.name not in self.values:
                wide = self.values.get(item.wide) if item.wide else None
                self.values[item.name] = self._list(wide) if item.wide or not item.fill else (1,) * self.random.randint(0, 2)
            return numbers_of((item,), self.values)
        for e in walk(item):
            if isinstance(e, Var) and e.name not in self.values:
                self.values[e.name] = self._pick(e.name)
        return numbers_of((item,), self.values)

    def _pick(self, name: str) -> int:
        """Return a size: often one that a condition asks for."""
        asked = []
        for e in (e for c in self.rule.conditions for e in walk(c) if isinstance(e, Binary) and e.op == "=="):
            for own, other in ((e.left, e.right), (e.right, e.left)):
                try:
                    if own == Var(name):
                        asked.append(evaluate(other, self.values))
                    elif isinstance(own, Binary) and own.op == "%" and own.left == Var(name):
                        asked.append(evaluate(own.right, self.values))
                except (Open, Misfit):
                    continue
        sizes = [n for n in asked if isinstance(n, int)]
        return self.random.choice(sizes) if sizes and self.random.random() < 0.8 else self.random.choice(self.pool)

    def _list(self, wide: Any) -> tuple[int, ...]:
        """Return a list of sizes; one that broadcasts to `wide` where that is one."""
        if not isinstance(wide, tuple):
            return tuple(self.random.choice(self.pool) for _ in range(self.random.randint(0, 3)))
        return tuple(self.random.choice((1, n)) for n in wide[self.random.randint(0, len(wide)):])

    def _attribute(self, name: str, value: Any, args: list[str]) -> Attribute:
        if isinstance(value, Var) and value.name not in self.values:
            self.values[value.name] = self._free(name, self.draft.tensors[args[0]].shape if args else ())
        if isinstance(value, tuple):
            for item in value:
                self._sizes(item)
            return numbers_of(value, self.values)
        for e in walk(value) if isinstance(value, Expr) else ():
            if isinstance(e, Var) and e.name not in self.values:
                self.values[e.name] = self._pick(e.name)
        return evaluate(value, self.values)

    def _free(self, name: str, shape: tuple[int, ...]) -> Any:
        """Return an attribute that the pattern leaves open, by its name."""
        random, rank = self.random, len(shape)
        if name in ("axes", "perm"):
            axes = list(range(rank))
            random.shuffle(axes)
            return tuple(axes) if name == "perm" else tuple(sorted(axes[:random.randint(1, max(1, rank))]))
        if name in ("shape", "sizes"):
            return random.choice((shape, (prod(shape),), (*shape, 1), (1, *shape), shape[::-1]))
        if name == "starts":
            return tuple(random.choice((0, 0, 1, max(0, n - 1))) for n in shape)
        if name in ("before", "after"):
            return tuple(random.choice((0, 0, 0, 1)) for _ in shape)
        if name == "steps":
            return tuple(random.choice((1, 1, 1, -1)) for _ in shape)
        if name in ("stride", "dilation", "kernel"):
            return tuple(random.choice((1, 1, 2)) for _ in range(2))
        if name == "pad":
            return tuple(random.choice((0, 0, 1)) for _ in range(4))
        if name in ("scalar", "value", "epsilon", "scale", "lo", "hi"):
            return random.choice((1e-5, 1e-3)) if name == "epsilon" else random.choice((*NUMBERS, inf))
        return random.randint(0, 1) if name.startswith("trans") else random.randrange(max(rank, 2))


