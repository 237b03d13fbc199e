"""A chain of operators in index notation, and a machine of two memories and one rate of computation."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

from aoec.ir.func.meaning import Meaning
from aoec.ir.index import Int, Read, affine, reads, variables


@dataclass(frozen=True, slots=True)
class Index:
    """One index of a tensor, `sum of step * loop, + offset`."""

    terms: tuple[tuple[str, int], ...]
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Access:
    """A tensor and the index of each of its dimensions."""

    tensor: str
    dims: tuple[Index, ...]

    def loops(self) -> frozenset[str]:
        """Return the loops that its indices name."""
        return frozenset(v for dim in self.dims for v, _ in dim.terms)

    def dim_of(self, loop: str) -> int | None:
        """Return the only dimension that a loop indexes; None where there is none, or more than one."""
        found = [i for i, dim in enumerate(self.dims) if any(v == loop for v, _ in dim.terms)]
        return found[0] if len(found) == 1 else None


@dataclass(frozen=True)
class Operator:
    """A nest of loops that writes one tensor, a step of computation for each point. The indices of what it writes are loops alone."""

    name: str
    extents: tuple[tuple[str, int], ...]
    inputs: tuple[Access, ...]
    output: Access

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Return loop -> trips."""
        return dict(self.extents)

    @cached_property
    def steps(self) -> int:
        """Return points of the nest."""
        return prod(n for _, n in self.extents)


@dataclass(frozen=True)
class Tensor:
    """Extents of a tensor and bits of an element."""

    shape: tuple[int, ...]
    bits: int

    @property
    def size(self) -> int:
        """Return its bits in all."""
        return prod(self.shape) * self.bits


@dataclass(frozen=True)
class Chain:
    """Operators in order. What one writes the next one reads, and nothing else does; every other tensor lies in GM."""

    tensors: Mapping[str, Tensor]
    operators: tuple[Operator, ...]

    def __post_init__(self) -> None:
        """Check the chain. Raise ValueError that names the operator that breaks it."""
        if not self.operators:
            raise ValueError("a chain needs an operator")
        for i, op in enumerate(self.operators):
            for dim in op.output.dims:
                if len(dim.terms) != 1 or dim.terms[0][1] != 1 or dim.offset:
                    raise ValueError(f"{op.name}: an index of what it writes must be one loop")
            for a in (op.output, *op.inputs):
                if any(a.dim_of(v) is None for v in a.loops()):
                    raise ValueError(f"{op.name}: a loop indexes {a.tensor} twice")
            names = [a.tensor for a in op.inputs]
            if len(set(names)) < len(names) or op.output.tensor in names:
                raise ValueError(f"{op.name}: a tensor occurs twice")
            readers = [other.name for other in self.operators for a in other.inputs if a.tensor == op.output.tensor]
            after = [self.operators[i + 1].name] if i + 1 < len(self.operators) else []
            if readers != after:
                raise ValueError(f"{op.name}: what it writes is read by {readers}, where a chain has {after}")

    def link(self, i: int) -> Access | None:
        """Return how operator `i` reads what the one before it writes."""
        if not i:
            return None
        return next(a for a in self.operators[i].inputs if a.tensor == self.operators[i - 1].output.tensor)


@dataclass(frozen=True)
class Machine:
    """Two memories and a rate: GM without end, a buffer of so many bits, bits a second of each, steps of computation a second."""

    gm_rate: float
    buffer_rate: float
    step_rate: float
    buffer_bits: int

    def __post_init__(self) -> None:
        """Check the numbers. Raise ValueError where one is not positive."""
        if min(self.gm_rate, self.buffer_rate, self.step_rate, self.buffer_bits) <= 0:
            raise ValueError("the rates and the buffer of a machine must be positive")


def chain_of(meaning: Meaning, bits: int | Mapping[str, int]) -> Chain:
    """Return the chain whose operators are the statements of a meaning, with extents as numbers. ValueError where an index is not affine,
    or an extent is unknown."""
    sizes: dict[str, int] = {}
    for dim in (*meaning.loops, *(d for a in (*meaning.inputs, *meaning.outputs) for d in a.dims)):
        if isinstance(dim.extent, Int):
            sizes[dim.name] = dim.extent.value
    shapes = {a.name: tuple(sizes.get(d.name, 0) for d in a.dims) for a in meaning.inputs}

    def access(read: Read) -> Access:
        dims = []
        for index in read.indices:
            form = affine(index, variables(index))
            if form is None or not isinstance(form[1], Int) or not all(isinstance(c, Int) for c in form[0].values()):
                raise ValueError(f"{read.buffer}: an index is not affine")
            dims.append(Index(tuple((v, c.value) for v, c in sorted(form[0].items()) if isinstance(c, Int)), form[1].value))
        return Access(read.buffer, tuple(dims))

    operators = []
    for statement in meaning.statements:
        output, inputs = access(statement.target), tuple(access(r) for r in dict.fromkeys(reads(statement.value)))
        loops = dict.fromkeys([v for a in (output, *inputs) for dim in a.dims for v, _ in dim.terms])
        missing = [v for v in loops if not sizes.get(v)]
        if missing:
            raise ValueError(f"{output.tensor}: the extent of loop {missing[0]} is unknown")
        shapes[output.tensor] = tuple(sizes[v] for dim in output.dims for v, _ in dim.terms)
        operators.append(Operator(output.tensor, tuple((v, sizes[v]) for v in loops), inputs, output))
    return Chain({name: Tensor(shape, bits if isinstance(bits, int) else bits[name]) for name, shape in shapes.items()}, tuple(operators))
