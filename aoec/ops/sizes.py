"""Calls an operator by sizes alone, as `aoec lower "matmul(m=64, k=64, n=64, relu)"` does: which sizes it takes, and what they make.

The rule of an operator is in its declaration. Elementwise operators get one by `declare.elementwise`.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from aoec.base.errors import ParseError
from aoec.ir.graph.graph import Attribute

Numbers = Mapping[str, Attribute]
IMAGE = ("n", "c", "h", "w")  # sizes of an image
WINDOW = {"stride": 1, "pad": 0, "dilation": 1}  # of a window, where a call does not say them


@dataclass(frozen=True)
class Call:
    """`conv2d(n=1, c=64, ..., fp16, relu)` taken apart; `numbers` are attributes of the operator that are numbers."""

    name: str
    sizes: dict[str, int]
    flags: frozenset[str]
    numbers: dict[str, int | float] = field(default_factory=dict)

    @property
    def dtype(self) -> str:
        """Return the dtype of what is read."""
        return next((dtype for dtype in ("fp32", "int8") if dtype in self.flags), "fp16")

    @property
    def result(self) -> str:
        """Return the dtype of what is written: sums of products of int8 are of int32, as MatMulInteger has them."""
        return "int32" if self.dtype == "int8" else self.dtype

    def of(self, *names: str) -> tuple[int, ...]:
        """Return the sizes of these names: a shape."""
        return tuple(self.sizes[n] for n in names)


@dataclass(frozen=True)
class Argument:
    """An argument of a call: a tensor; one that is `constant` holds zeros."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    constant: bool = False
    layout: str = "ND"


@dataclass(frozen=True)
class Made:
    """What a call makes: arguments, attributes, and the dtype of the result where it is not that of what is read."""

    arguments: tuple[Argument, ...]
    attributes: Numbers = field(default_factory=dict)
    dtype: str = ""


@dataclass(frozen=True)
class Sizes:
    """The sizes that a call must give, those with a default, flags beside the dtype, numbers that it must give, and what these make."""

    required: tuple[str, ...]
    make: Callable[[Call], Made]
    optional: Mapping[str, int] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()


def rows(count: int | Callable[[Numbers], int] = 1, numbers: tuple[str, ...] = (), flags: tuple[str, ...] = (), dtype: str = "",
         attributes: Numbers | None = None, wide: int = 1) -> Sizes:
    """Return the rule of an operator over m rows of n elements, of `count` arguments of that shape, or as many as that says of its numbers;
    `wide`: of n times so many."""
    def make(call: Call) -> Made:
        m, n = call.of("m", "n")
        size = count if isinstance(count, int) else count(call.numbers)
        arguments = tuple(Argument(name, call.dtype, (m, n * wide)) for name in "abcdefgh"[:size])
        return Made(arguments, {**(attributes or {}), **call.numbers}, dtype)
    return Sizes(("m", "n"), make, flags=flags, numbers=numbers)


def images() -> Sizes:
    """Return the rule of an operator over one image."""
    return Sizes(IMAGE, lambda call: Made((image(call),)))


def image(call: Call) -> Argument:
    """Return the image `x` of a call."""
    return Argument("x", call.dtype, call.of(*IMAGE))


def windows(call: Call) -> dict[str, Attribute]:
    """Return the attributes of a window that slides over an image. Raise ParseError where it does not fit."""
    s = call.sizes
    if min(s[i] + 2 * s["pad"] - s["dilation"] * (s[k] - 1) for i, k in (("h", "kh"), ("w", "kw"))) < 1:
        raise ParseError(f"the window {s['kh']}x{s['kw']} does not fit the image {s['h']}x{s['w']} with pad {s['pad']}", source="operator")
    return {"stride": (s["stride"],) * 2, "pad": (s["pad"],) * 4, "dilation": (s["dilation"],) * 2}


def bias(call: Call, size: int) -> tuple[Argument, ...]:
    """Return the bias of a sum, where the call has that flag."""
    return (Argument("bias", "int32" if call.dtype == "int8" else "fp32", (size,), True),) if "bias" in call.flags else ()
