"""Einsum: a product of two operands after the other, each a matrix product where something is summed, else an elementwise one."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from aoec.frontend.rules.rule import Rule
from aoec.frontend.translate.node import Node

DOTS = "..."


@dataclass(frozen=True)
class Term:
    """A tensor with a label for each of its dimensions."""

    tensor: str
    labels: tuple[str, ...]


def _einsum(n: Node) -> bool:
    parsed = _parse(n.text("equation", ""), [n.shape_of(at) for at in range(len(n.inputs()))])
    if parsed is None or any(0 in n.shape_of(at) for at in range(len(n.inputs()))):
        return False
    given, out = parsed
    terms = [_diagonal(n, Term(name, labels)) for name, labels in zip(n.inputs(), given)]
    sizes = {label: max(_sizes(n, t).get(label, 1) for t in terms) for labels in given for label in labels}
    terms = [_without_ones(n, t, sizes) for t in terms]
    whole = terms[0]
    for at, term in enumerate(terms[1:], 1):
        needed = {*out, *(label for t in terms[at + 1:] for label in t.labels)}
        whole = product(n, _sum_out(n, whole, needed | {*term.labels}), _sum_out(n, term, needed | {*whole.labels}), needed)
    whole = arrange(n, _sum_out(n, whole, set(out)), [label for label in out if label in whole.labels])
    return n.emit("reshape", [whole.tensor], {"shape": n.shape()})


def _parse(equation: str, shapes: Sequence[tuple[int, ...]]) -> tuple[list[tuple[str, ...]], tuple[str, ...]] | None:
    """Return (labels of each operand, labels of the result); what dots stand for is labelled by its place from the right. Return None where
    the equation does not fit the operands."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    texts = left.split(",")
    if len(texts) != len(shapes):
        return None
    most = max((len(s) - len(t.replace(DOTS, "")) for t, s in zip(texts, shapes) if DOTS in t), default=0)
    given = [_labels(t, len(s) - len(t.replace(DOTS, ""))) for t, s in zip(texts, shapes)]
    if any(len(labels) != len(s) for labels, s in zip(given, shapes)):
        return None
    letters = left.replace(DOTS, "").replace(",", "")
    once = "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    return given, _labels(right if arrow else DOTS * (DOTS in left) + once, most)


def _labels(text: str, dotted: int) -> tuple[str, ...]:
    before, dots, after = text.partition(DOTS)
    return (*before, *(f".{at}" for at in range(dotted - 1, -1, -1) if dots), *after)


def _sizes(n: Node, t: Term) -> dict[str, int]:
    return dict(zip(t.labels, n.made_shape(t.tensor)))


def _diagonal(n: Node, t: Term) -> Term:
    """Return the term with every label once. A diagonal of a square at the end of rows is every (size + 1)th element of the rows."""
    twice = next((label for label in t.labels if t.labels.count(label) > 1), None)
    if twice is None:
        return t
    first = t.labels.index(twice)
    second = t.labels.index(twice, first + 1)
    rest = [at for at in range(len(t.labels)) if at not in (first, second)]
    turned = n.step("transpose", [t.tensor], {"perm": (*rest, first, second)})
    *lead, size, _ = n.made_shape(turned)
    rows = n.step("reshape", [turned], {"shape": (*lead, size * size)})
    place = {"starts": (0,) * (len(lead) + 1), "sizes": (*lead, size), "steps": (*(1 for _ in lead), size + 1)}
    return _diagonal(n, Term(n.step("slice", [rows], place), (*(t.labels[at] for at in rest), twice)))


def _without_ones(n: Node, t: Term, sizes: dict[str, int]) -> Term:
    """Return the term without dimensions of extent 1 along which it is broadcast."""
    kept = [(label, size) for label, size in zip(t.labels, n.made_shape(t.tensor)) if size == sizes[label]]
    return t if len(kept) == len(t.labels) else Term(
        n.step("reshape", [t.tensor], {"shape": tuple(size for _, size in kept)}), tuple(label for label, _ in kept))


def _sum_out(n: Node, t: Term, needed: set[str]) -> Term:
    """Sum the term over the labels that nobody needs."""
    axes = tuple(at for at, label in enumerate(t.labels) if label not in needed)
    if not axes:
        return t
    kept = tuple(label for label in t.labels if label in needed)
    total = n.step("reduce_sum", [t.tensor], {"axes": axes})
    return Term(n.step("reshape", [total], {"shape": tuple(_sizes(n, t)[label] for label in kept)}), kept)


def arrange(n: Node, t: Term, labels: Sequence[str]) -> Term:
    perm = tuple(t.labels.index(label) for label in labels)
    return Term(n.step("transpose", [t.tensor], {"perm": perm}) if perm != tuple(range(len(perm))) else t.tensor, tuple(labels))


def product(n: Node, a: Term, b: Term, needed: set[str]) -> Term:
    """Return the product of two terms, summed over what both have and nobody needs. A sum for each pair of rows is the cube's; where an
    operand has no rows of its own on either side, it is elementwise work."""
    both = [label for label in a.labels if label in b.labels and label in needed]
    inner = [label for label in a.labels if label in b.labels and label not in needed]
    rows, columns = ([label for label in t.labels if label not in (*both, *inner)] for t in (a, b))
    if not inner or not rows and not columns:
        return _elementwise(n, a, b, [*both, *rows, *columns], inner)
    sizes = _sizes(n, a) | _sizes(n, b)
    m, k, width = (prod(sizes[label] for label in group) for group in (rows, inner, columns))
    lead = tuple(sizes[label] for label in both)
    left = n.step("reshape", [arrange(n, a, [*both, *rows, *inner]).tensor], {"shape": (*lead, m, k)})
    as_it_lies = list(b.labels) == [*both, *inner, *columns]
    order, shape = ([*both, *inner, *columns], (*lead, k, width)) if as_it_lies else ([*both, *columns, *inner], (*lead, width, k))
    right = n.step("reshape", [arrange(n, b, order).tensor], {"shape": shape})
    y = n.step("matmul", [left, right], {} if as_it_lies else {"trans_b": 1})
    done = (*both, *rows, *columns)
    return Term(n.step("reshape", [y], {"shape": tuple(sizes[label] for label in done)}), done)


def _elementwise(n: Node, a: Term, b: Term, kept: Sequence[str], inner: Sequence[str]) -> Term:
    """Return the product element by element, each operand with an extent of 1 for what it has not, then summed."""
    labels = (*kept, *inner)
    wide = []
    for t in (a, b):
        own = arrange(n, t, [label for label in labels if label in t.labels])
        sizes = _sizes(n, own)
        wide.append(n.step("reshape", [own.tensor], {"shape": tuple(sizes.get(label, 1) for label in labels)}))
    return _sum_out(n, Term(n.step("mul", wide), labels), set(kept))


RULES: dict[str, Rule] = {"Einsum": _einsum}
