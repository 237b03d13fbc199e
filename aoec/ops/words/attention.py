"""Attention: shares of values, by how well queries meet keys. One operator, so that it can be done in one pass over the keys."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aoec.base.errors import ParseError
from aoec.ops.declare import Attributes, Op, Shape, names, tensor
from aoec.ops.sizes import Argument, Call, Made, Sizes


def _attention_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    """Return the text of attention. Q[.., m, d] is multiplied with K[.., n, d] and scaled, and B is added (each of its axes that of the
    scores, or 1). The shares weight V[.., n, e]; with trans_v it is V[.., e, n]."""
    lead, held = names("i", len(shapes[0]) - 2), (("Q", "md"), ("K", "nd"), ("V", "en" if attributes.get("trans_v") else "ne"))
    bias, added = ([], "") if len(shapes) < 4 else _bias(shapes, lead)
    args = ", ".join([tensor(x, [*lead, *matrix]) for x, matrix in held] + bias)
    s, scores, e = (tensor(x, [*lead, "m", "n"]) for x in "STE")
    row, total = (tensor(x, [*lead, "m"]) for x in "XL")
    result, y = (tensor(x, [*lead, "m", "e"]) for x in "OY")
    q, k, v = (tensor(x, [*lead, *matrix]) for x, matrix in held)
    return (f"attention({args}; scale) -> {y} {{\n  {s} += {q} * {k}\n  {scores} = {s} * scale{added}\n  {row} max= {scores}\n"
            f"  {e} = exp({scores} - {row})\n  {total} += {e}\n  {result} += {e} * {v}\n  {y} = {result} / {total}\n}}")


def _bias(shapes: Sequence[Shape], lead: list[str]) -> tuple[list[str], str]:
    """Return ([the argument B], what of it is added): where one of its axes is 1 it is read at 0."""
    scores = (*shapes[0][:-1], shapes[1][-2])
    axes = [*lead, "m", "n"][len(scores) - len(shapes[3]):]
    whole = [extent == size for extent, size in zip(shapes[3], scores[len(scores) - len(shapes[3]):])]
    dims = [axis if full else f"b{at}" for at, (axis, full) in enumerate(zip(axes, whole))]
    return [tensor("B", dims)], " + " + tensor("B", [axis if full else "0" for axis, full in zip(axes, whole)])


def _attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, bias: np.ndarray | None = None, *, scale: float,
               trans_v: int = 0) -> np.ndarray:
    scores = np.matmul(q, k.swapaxes(-1, -2)) * q.dtype.type(scale)
    scores = scores if bias is None else scores + bias
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.matmul(shares / shares.sum(axis=-1, keepdims=True), v.swapaxes(-1, -2) if trans_v else v)


def _sizes(call: Call) -> Made:
    """Return the arguments for b heads. `bias` adds a matrix to each head's scores; `mask` adds one row to all rows of a head."""
    sizes = {**call.sizes, "one": 1, "e": call.sizes["e"] or call.sizes["d"]}
    added = {flag: axes for flag, axes in {"bias": ("b", "m", "n"), "mask": ("b", "one", "n")}.items() if flag in call.flags}
    if len(added) > 1:
        raise ParseError("bias and mask exclude each other", source="operator")
    shapes = {"q": ("b", "m", "d"), "k": ("b", "n", "d"), "v": ("b", "n", "e"), **added}
    return Made(tuple(Argument(name, call.dtype, tuple(sizes[a] for a in axes)) for name, axes in shapes.items()),
                {"scale": call.sizes["d"] ** -0.5})


# e of 0: as d
OPS = (Op("attention", _attention_text, _attention, "attention", Sizes(("b", "m", "n", "d"), _sizes, {"e": 0}, ("bias", "mask")),
          cann=("PromptFlashAttention",)),)
