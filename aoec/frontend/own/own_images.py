"""Sums of an image under a filter in definitions of the user's own: convolutions, whichever way their dimensions are written.

`Y[b, o, h, w] += X[b, c, 2*h + p - 1, 2*w + q - 1] else 0.0 * W[o, c, p, q]` steps by 2 and is padded by 1. Without the channels o and
with c kept it is a convolution of each channel alone. Loops that only the image has are its batch.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from aoec.base.errors import CheckError
from aoec.frontend.rules.convolution import fit_load3d
from aoec.frontend.rules.window import Window, convolve, crop
from aoec.frontend.translate.node import Node
from aoec.ir.func.meaning import Meaning, Statement
from aoec.ir.index import Binary, Call, Expr, Int, Read, Var, affine, is_zero, normalise, reads, variables
from aoec.ops import own as words
from aoec.ops.meanings import loops

RANKS = (1, 2, 3)  # dimensions of an image
ALONE = 2  # dimensions from which channels alone are a convolution: of fewer their taps are elementwise work, which is faster


@dataclass(frozen=True)
class Image:
    """A convolution in a definition's own loops: each group of labels is a dimension of the words' tensors, those of `space` and `taps` one
    each, with `strides`, `dilations` and the first place that the window reads (`begins`). `padded`: what lies outside is 0."""

    image: Read
    filter: Read
    target: Read
    batch: tuple[str, ...]
    channels: tuple[str, ...]
    results: tuple[str, ...]
    alone: tuple[str, ...]
    space: tuple[str, ...]
    taps: tuple[str, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begins: tuple[int, ...]
    padded: bool
    extents: Mapping[str, int]

    def sizes(self, labels: Sequence[str]) -> tuple[int, ...]:
        """Return the extents of loops."""
        return tuple(self.extents[v] for v in labels)


def image_of(s: Statement, extents: Mapping[str, int]) -> Image | None:
    """Return the convolution that a statement with its numbers is. Return None where it is none, or steps back, or starts inside its
    image."""
    e = s.value
    if s.op != "+=" or s.init is not None or not isinstance(e, Binary) or e.op != "*":
        return None
    for one, other in ((e.left, e.right), (e.right, e.left)):
        read, padded = _split_padding(one)
        if read is not None and isinstance(other, Read) and (found := _image(read, padded, other, s.target, extents)) is not None:
            return found
    return None


def filters_of(m: Meaning, shapes: Sequence[Sequence[int]], params: Mapping[str, int | float]) -> frozenset[str]:
    """Return the arguments of a definition that are nothing but filters of images, for arguments of these shapes; none where these do not
    fit."""
    try:
        bound = words.bound(m, [tuple(s) for s in shapes], params)
    except CheckError:  # which the node that is made of it says better
        return frozenset()
    found = [image_of(s, loops(bound, s)) for s in bound.statements]
    other = {r.buffer for s, image in zip(bound.statements, found) if image is None for e in (s.value, s.init) if e is not None
             for r in reads(e)} | {image.image.buffer for image in found if image is not None}
    filters = frozenset(image.filter.buffer for image in found if image is not None)
    return filters & {a.name for a in m.inputs} - other


def _split_padding(e: Expr) -> tuple[Read | None, bool]:
    """Return (the read of an operand, whether it is 0 outside)."""
    if isinstance(e, Call) and e.fn == "guard" and isinstance(e.args[0], Read):
        return (e.args[0], True) if is_zero(e.args[1]) or e.args[1] == Int(0) else (None, False)
    return (e, False) if isinstance(e, Read) else (None, False)


def _image(x: Read, padded: bool, w: Read, y: Read, extents: Mapping[str, int]) -> Image | None:
    kept, weights = _names(y), _names(w)
    places = [i for i in x.indices if not isinstance(i, Var)]
    plain = tuple(i.name for i in x.indices if isinstance(i, Var))
    steps = [_steps(i, kept, weights) for i in places]
    if not kept or not weights or len(places) not in RANKS or len(set(plain)) < len(plain) or any(step is None for step in steps):
        return None
    space, taps, strides, dilations, begins = zip(*[step for step in steps if step is not None])
    if len(set(space)) < len(space) or len(set(taps)) < len(taps) or {*space, *taps} & set(plain):
        return None
    channels = tuple(v for v in plain if v in weights and v not in kept)
    alone = tuple(v for v in plain if v in weights and v in kept)
    batch = tuple(v for v in plain if v in kept and v not in weights)
    results = tuple(v for v in weights if v not in (*plain, *taps))
    whole = {*channels, *alone, *batch} == set(plain) and set(results) <= set(kept) and {*batch, *results, *alone, *space} == set(kept)
    if not whole or alone and (channels or results or len(space) < ALONE) or not alone and not (channels and results):
        return None
    return Image(x, w, y, batch, channels, results, alone, space, taps, strides, dilations, begins, padded, extents)


def _names(r: Read) -> tuple[str, ...]:
    """Return the loops of a read at loops alone, each once. Return none for any other read."""
    found = tuple(i.name for i in r.indices if isinstance(i, Var))
    return found if len(found) == len(set(found)) == len(r.indices) else ()


def _steps(i: Expr, kept: Sequence[str], weights: Sequence[str]) -> tuple[str, str, int, int, int] | None:
    """Return (loop of results, loop of the filter, stride, dilation, first place) of an index of an image. Return None for any other."""
    found = affine(normalise(i), variables(i))
    if found is None or len(found[0]) != 2:
        return None
    at = {v: c.value for v, c in found[0].items() if isinstance(c, Int) and c.value > 0}
    h, p = next((v for v in at if v in kept), ""), next((v for v in at if v in weights and v not in kept), "")
    if not h or not p or not isinstance(found[1], Int) or found[1].value > 0:
        return None
    return h, p, at[h], at[p], found[1].value


def make_convolution(n: Node, c: Image, held: Mapping[str, str]) -> str:
    """Return the tensor of a convolution in the order that its definition writes; "", and no node, where no unit takes its window."""
    image, size = held[c.image.buffer], dict(zip(c.space, [d for i, d in zip(c.image.indices, n.made_shape(held[c.image.buffer]))
                                                          if not isinstance(i, Var)]))
    names = [i.name if isinstance(i, Var) else _space(i, c) for i in c.image.indices]
    if any(d != c.extents[v] for v, d in zip(names, n.made_shape(image)) if v not in c.space) or \
            n.made_shape(held[c.filter.buffer]) != c.sizes(_names(c.filter)):
        return ""
    kernel = c.sizes(c.taps)
    w = Window(kernel, c.strides, c.dilations, tuple(-b for b in c.begins), tuple(
        (c.extents[h] - 1) * s + d * (k - 1) + 1 - size[h] + b
        for h, s, d, k, b in zip(c.space, c.strides, c.dilations, kernel, c.begins)))
    if not c.padded and max(*w.before, *w.after) > 0:
        return ""
    group = prod(c.sizes(c.alone))
    made = len(n.draft.nodes)
    x = _arrange(n, image, names, [c.batch, (*c.channels, *c.alone), *[(v,) for v in c.space]])
    f = _arrange(n, held[c.filter.buffer], _names(c.filter), [(*c.results, *c.alone), c.channels, *[(v,) for v in c.taps]])
    x, w = crop(n, x, w)
    found = fit_load3d(n, x, f, w)
    if found is None:
        del n.draft.nodes[made:]
        return ""
    y = convolve(n, found[:2], found[2], group)
    apart = (*c.batch, *c.results, *c.alone, *c.space)
    y = _reshape(n, y, c.sizes(apart))
    perm = tuple(apart.index(v) for v in _names(c.target))
    return n.step("transpose", [y], {"perm": perm}) if perm != tuple(range(len(perm))) else y


def _space(i: Expr, c: Image) -> str:
    return next(v for v in c.space if v in variables(i))


def _arrange(n: Node, x: str, labels: Sequence[str], groups: Sequence[Sequence[str]]) -> str:
    """Return a tensor with a dimension for each group of its labels, in their order."""
    perm = tuple(labels.index(v) for g in groups for v in g)
    shape = n.made_shape(x)
    x = n.step("transpose", [x], {"perm": perm}) if perm != tuple(range(len(perm))) else x
    return _reshape(n, x, tuple(prod(shape[labels.index(v)] for v in g) for g in groups))


def _reshape(n: Node, x: str, shape: tuple[int, ...]) -> str:
    return x if n.made_shape(x) == shape else n.step("reshape", [x], {"shape": shape})
