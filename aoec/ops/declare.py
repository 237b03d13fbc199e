"""What an operator is: its meaning as text in index notation, and an independent NumPy reference.

A declaration's text is a function of the ranks, shapes and attributes at hand, since index notation has no rank
polymorphism; most are one line through the templates below. Attributes that are lists reach the text as numbers of
their own (`stride` as `stride_h`, `stride_w`).
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Union

import numpy as np

from aoec.ir.graph.graph import Attribute
from aoec.ops.samples import REAL, Domain, Sample
from aoec.ops.sizes import Sizes, rows

Shape = tuple[int, ...]
Attributes = Mapping[str, Attribute]
Template = Callable[[Sequence[Shape], Attributes], str]

# list attribute -> the names of its elements in a meaning; pads are in ONNX's order
PARTS = {
    "stride": ("stride_h", "stride_w"), "dilation": ("dilation_h", "dilation_w"), "kernel": ("kernel_h", "kernel_w"),
    "pad": ("pad_top", "pad_left", "pad_bottom", "pad_right"),
}
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class Onnx:
    """A node of ONNX that does what an operator does, where its name and attributes alone say so. Export writes it, and import reads it
    where no rule of `frontend/rules` does more.

    `attributes`: those of the same names, each with its value where a node says none. `fixed`: those of one value here, each with the value
    that it has where a node says none. `types`: what the type of each argument is, the last of them for all that follow: "own" (as it is),
    "result" (that of the result), "common" (one for all). `whole`: it is of whole numbers and truths too. `since`: the first operator set
    that has it. `broadcasts`: any argument may be the smaller one; where it is not so, the result has the shape of the first.
    """

    name: str
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    fixed: Mapping[str, tuple[int | str, int | str]] = field(default_factory=dict)
    types: tuple[str, ...] = ("result",)
    whole: bool = False
    since: int = 1
    broadcasts: bool = True


@dataclass(frozen=True)
class Elements:
    """How an elementwise operator is said: its expression over $A, $B, ..., or what gives that for attributes, the numbers in it, and the
    domains of its arguments, the last of them that of all that follow."""

    expression: Union[str, Callable[[Attributes], str]]
    params: tuple[str, ...] = ()
    domains: tuple[Domain, ...] = (REAL,)

    def expression_of(self, attributes: Attributes) -> str:
        """Return the expression for attributes."""
        return self.expression if isinstance(self.expression, str) else self.expression(attributes)

    def count(self, attributes: Attributes) -> int:
        """Return how many arguments it has."""
        expression = self.expression_of(attributes)
        return sum(f"${letter}" in expression for letter in LETTERS)

    def domain(self, at: int) -> Domain:
        """Return the domain of an argument."""
        return self.domains[min(at, len(self.domains) - 1)]


@dataclass(frozen=True, slots=True)
class Op:
    """A word of the operator dictionary: all that is said of it by hand.

    `family` is what fusion rules speak of: cube, elementwise, pool, softmax, row_norm, reduce, normalise, layout, movement, view, host.
    `sizes`: how it is called by sizes alone, where it can be. `cann`: CANN's types of it by release, of which the first stands in results.
    `onnx`: the node of ONNX that does the same. `sensitive`: why it stays in fp32 where precision is mixed. `dtype`: that of its result,
    where it is not that of what is read. `elements`: how an elementwise one is said. `samples`: calls for laws, of those that have neither
    `elements` nor `sizes`.
    """

    name: str
    text: Union[str, Template]
    reference: Callable[..., np.ndarray]
    family: str
    sizes: Sizes | None = field(default=None, compare=False)
    cann: tuple[str, ...] = field(default=(), compare=False)
    onnx: Onnx | None = field(default=None, compare=False)
    sensitive: str = field(default="", compare=False)
    dtype: str = field(default="", compare=False)
    elements: Elements | None = field(default=None, compare=False)
    samples: tuple[Sample, ...] = field(default=(), compare=False)

    def meaning_text(self, shapes: Sequence[Shape], attributes: Attributes) -> str:
        """Return the meaning in index notation for arguments of these shapes."""
        return self.text if isinstance(self.text, str) else self.text(shapes, attributes)


def numbers(attributes: Attributes) -> dict[str, int | float]:
    """Return parameter name -> number, with list attributes taken apart (those of no known parts are for the template alone)."""
    out: dict[str, int | float] = {}
    for name, value in attributes.items():
        if isinstance(value, (int, float)):
            out[name] = value
        elif isinstance(value, tuple) and name in PARTS:
            out.update(zip(PARTS[name], value))
    return out


def names(letter: str, rank: int) -> list[str]:
    return [f"{letter}{axis}" for axis in range(rank)]


def tensor(name: str, indices: Sequence[str]) -> str:
    """Return `X[i0, i1]`, or `X[]` for a scalar."""
    return f"{name}[{', '.join(indices)}]"


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """Return the common shape under NumPy's rule. Raise ValueError where there is none."""
    return tuple(int(n) for n in np.broadcast_shapes(*shapes))


def elementwise(name: str, expression: Union[str, Callable[[Attributes], str]], reference: Callable[..., np.ndarray],
                params: str = "", sized: bool = True, flags: tuple[str, ...] = (), dtype: str = "", cann: tuple[str, ...] = (),
                onnx: Onnx | None = None, sensitive: str = "", of: Domain | tuple[Domain, ...] = REAL) -> Op:
    """Return the operator whose element is `expression`, or what that gives for the attributes, over A, B, ... under broadcasting (a
    dimension of extent 1 is read at 0). `sized`: it can be called by sizes; `flags`: the flags of such a call; `of`: the domain of its
    arguments, or of each. All else is as in `Op`."""
    elements = Elements(expression, tuple(p for p in params.split(", ") if p), of if isinstance(of, tuple) else (of,))

    def text(shapes: Sequence[Shape], attributes: Attributes) -> str:
        return _elementwise_text(name, elements.expression_of(attributes), params, shapes)
    sizes = rows(elements.count, elements.params, flags, dtype) if sized else None
    return Op(name, text, reference, "elementwise", sizes, cann, onnx, sensitive, dtype, elements)


def _elementwise_text(name: str, expression: str, params: str, shapes: Sequence[Shape]) -> str:
    out = broadcast(shapes)
    loops = names("i", len(out))
    arguments = []
    for letter, shape in zip(LETTERS, shapes):
        lead = len(out) - len(shape)
        own = [axis for axis in range(len(shape)) if shape[axis] == 1 != out[lead + axis]]
        dims = [f"{letter.lower()}{lead + axis}" if axis in own else loops[lead + axis] for axis in range(len(shape))]
        reads = ["0" if axis in own else loops[lead + axis] for axis in range(len(shape))]
        arguments.append(tensor(letter, dims))
        expression = expression.replace(f"${letter}", tensor(letter, reads))
    y = tensor("Y", loops)
    return f"{name}({', '.join(arguments)}{params and '; ' + params}) -> {y} {{\n  {y} = {expression}\n}}"
