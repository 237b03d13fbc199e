"""Calls of every operator of the dictionary, from its declaration alone: what laws about operators are tried with."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from aoec.ops.declare import Elements, Op
from aoec.ops.samples import REAL, Domain, Given, Sample
from aoec.ops.sizes import Call, Sizes

Arrays = list[np.ndarray]
SIZES = {"h": 6, "w": 7, "kh": 3, "kw": 2, "m": 3, "n": 4}  # others are SIZE
SIZE = 2
OF_DTYPES = ("relu", "int8")  # flags that are of what is behind an operator, or of its dtype
REALS = ("fp32", "fp16", "bf16")


def samples_of(op: Op, seed: int = 0, shapes: Sequence[tuple[int, ...]] = ((2, 3), (2, 1), (3,), ())) -> list[Sample]:
    """Calls of an operator: of an elementwise one with arguments of these shapes, those that are too many left out, and the first ones."""
    if op.elements:
        return list(element_samples(op.elements, seed, shapes))
    if op.sizes:
        return [*map(sized_sample, flags_of(op.sizes, op.name)), *op.samples]
    assert op.samples, f"{op.name} is not elementwise, so its declaration needs `sizes` or `samples` (aoec/ops/samples.py)"
    return list(op.samples)


def element_samples(elements: Elements, seed: int, shapes: Sequence[tuple[int, ...]]) -> Iterator[Sample]:
    """Of one shape for all arguments, and of another for each."""
    random = np.random.default_rng(seed)
    numbers = {name: float(np.float32(random.uniform(0.125, 2))) for name in elements.params}
    count = elements.count(numbers)
    for own in ([shapes[0]] * count, [shapes[at % len(shapes)] for at in range(1, count + 1)]):
        yield Sample(tuple(Given(shape, elements.domain(at)) for at, shape in enumerate(own)), numbers)


def flags_of(sizes: Sizes, name: str) -> Iterator[tuple[Sizes, Call]]:
    """Calls by sizes: without flags, and with each."""
    own = {size: SIZES.get(size, SIZE) for size in sizes.required} | dict(sizes.optional)
    for flags in ({"fp32"}, *({"fp32", flag} for flag in sizes.flags if flag not in OF_DTYPES)):
        yield sizes, Call(name, own, frozenset(flags), dict.fromkeys(sizes.numbers, 0.5))


def sized_sample(call: tuple[Sizes, Call]) -> Sample:
    made = call[0].make(call[1])
    return Sample(tuple(Given(a.shape, Domain(a.dtype) if a.dtype not in REALS else REAL) for a in made.arguments), made.attributes)


def draw_arrays(sample: Sample, random: np.random.Generator) -> Arrays:
    """Arguments with elements of all magnitudes, whatever their signs, within their domains."""
    return [elements_of(given, random) for given in sample.arguments]


def elements_of(given: Given, random: np.random.Generator) -> np.ndarray:
    """An argument's elements."""
    domain, shape = given.domain, given.shape
    if domain.dtype not in REALS:
        return random.integers(int(domain.lo), int(domain.hi), shape, dtype=np.int64, endpoint=True).astype(domain.dtype)
    x = random.standard_normal(shape) * 10.0 ** random.integers(-2, 3, shape)
    return np.asarray(into(x, domain), np.float32)


def into(x: np.ndarray, domain: Domain) -> Any:
    """Numbers brought into a domain, away from its ends, where it has some."""
    bounded = np.isfinite([domain.lo, domain.hi])
    if bounded.all():
        return domain.lo + (domain.hi - domain.lo) * (0.5 + 0.49 * np.tanh(x / 3))
    return domain.lo + 0.01 + np.abs(x) if bounded[0] else domain.hi - 0.01 - np.abs(x) if bounded[1] else x
