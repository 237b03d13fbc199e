"""What arguments of an operator hold, so that laws can try it: which elements it is defined for, and calls of operators that are not
elementwise."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from aoec.ir.graph.graph import Attribute


@dataclass(frozen=True)
class Domain:
    """Elements of a dtype between two numbers, whole ones among them where the dtype has them."""

    dtype: str = "fp32"
    lo: float = -inf
    hi: float = inf


REAL, POSITIVE, TRUTH = Domain(), Domain(lo=0.0), Domain("bool", 0, 1)


@dataclass(frozen=True)
class Given:
    """An argument of a sample."""

    shape: tuple[int, ...]
    domain: Domain = REAL


@dataclass(frozen=True)
class Sample:
    """Arguments and attributes that fit an operator."""

    arguments: tuple[Given, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)


def sample(*arguments: tuple[int, ...] | Given, **attributes: Attribute) -> Sample:
    """Return a sample of arguments, reals of a shape where no more is said."""
    return Sample(tuple(a if isinstance(a, Given) else Given(a) for a in arguments), attributes)


def places(extent: int, *shape: int) -> Given:
    """Return an argument that says where in so many elements others are read; negative ones count from the end."""
    return Given(shape, Domain("int64", -extent, extent - 1))
