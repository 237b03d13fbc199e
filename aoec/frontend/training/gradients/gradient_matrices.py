"""Gradients of products of matrices: products again, so that they run on the cube."""
from __future__ import annotations

from math import prod

from aoec.frontend.training.gradients.gradient_rows import softmax_gradient
from aoec.frontend.training.gradients.gradient_site import Rule, Site
from aoec.ir.graph.graph import Attribute


def _product(s: Site, a: str, b: str, trans_a: int = 0, trans_b: int = 0) -> str:
    given: dict[str, Attribute] = {f"trans_{x}": 1 for x, on in (("a", trans_a), ("b", trans_b)) if on}
    return s.step("matmul", [a, b], **given)


def _matmul(s: Site, at: int) -> str:
    """Return the gradient of an operand of Y = A B + C. A receives dY B^T, B receives A^T dY, and C receives the sum of the rows of dY. If
    an operand is stored transposed, so is its gradient. For a weight that all matrices of a batch share, their rows are taken as those of
    one matrix."""
    a, b, dy = s.x(0), s.x(1), s.dy
    turned_a, turned_b = s.integer("trans_a"), s.integer("trans_b")
    if at == 2:
        return s.behind(s.reshape(s.sum(dy, range(len(s.out) - 1)), s.out[-1:]), s.shape(2)[0])
    if at == 0:
        return _product(s, b, dy, turned_b, 1) if turned_a else _product(s, dy, b, 0, 1 - turned_b)
    if not turned_a and prod(s.shape(1)[:-2]) == 1 < prod(s.shape(0)[:-2]):
        a, dy = (s.reshape(x, (prod(s.n.made_shape(x)[:-1]), s.n.made_shape(x)[-1])) for x in (a, dy))
    return _product(s, dy, a, 1, turned_a) if turned_b else _product(s, a, dy, 1 - turned_a)


def _interpolate(s: Site, at: int) -> str:
    """Return the gradient of X or of W, where the forward node multiplies X with W along an axis."""
    axis, dy = s.integer("axis"), s.dy
    if at == 0:
        if s.n.draft.is_constant(s.x(1)):
            turned = s.constant("weights", s.n.draft.weights[s.x(1)].T)
        else:
            turned = s.transpose(s.x(1), (1, 0))
        return s.step("interpolate", [dy, turned], axis=axis)
    whole = _product(s, dy, s.x(0), 0, 1) if axis == len(s.out) - 2 else _product(s, dy, s.x(0), 1)
    return s.reshape(s.sum(whole, range(len(s.out) - 2)), s.shape(1))


def _attention(s: Site, at: int) -> str:
    """Return the shares P of the scores are made again: they are not kept."""
    q, k, v, dy = s.x(0), s.x(1), s.x(2), s.dy
    turned, scale = s.integer("trans_v"), s.number("scale")
    scores = s.scale(_product(s, q, k, 0, 1), scale)
    scores = s.step("add", [scores, s.x(3)]) if s.has(3) else scores
    shares = s.step("softmax", [scores], axis=len(s.out) - 1)
    if at == 2:
        return _product(s, dy, shares, 1) if turned else _product(s, shares, dy, 1)
    grown = softmax_gradient(s, shares, _product(s, dy, v, 0, 1 - turned), len(s.out) - 1)
    if at == 3:
        return grown
    grown = s.scale(grown, scale)
    return _product(s, grown, k) if at == 0 else _product(s, grown, q, 1)


RULES: dict[str, Rule] = {"matmul": _matmul, "interpolate": _interpolate, "attention": _attention}
