"""Accesses through moves: where an operand of a product lies before transposes, reshapes and slices, and where a result lies behind them.

Each such node is an index map. Maps compose, and a product whose composed maps are walkable needs no launch for the nodes.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from aoec.ir.func.tir import Buffer
from aoec.ir.graph.graph import OpNode, Tensor
from aoec.ir.index import Expr, Int, Read, Var, affine, normalise, variables
from aoec.lowering.lower.physical import interval
from aoec.ops.words.movement import MOVES

Indices = tuple[Expr, ...]
Extents = Mapping[str, int]


@dataclass(frozen=True)
class Access:
    """A tensor and the indices at which it is read or written, one of each dimension."""

    tensor: Tensor
    indices: Indices


@dataclass(frozen=True)
class Moves:
    """Moves around a product: those in front of it by what they make, and those behind it in order."""

    before: Mapping[str, OpNode]
    after: tuple[OpNode, ...]
    tensors: Mapping[str, Tensor]

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self.before or self.after)

    def is_moved(self, name: str) -> bool:
        """Return whether a tensor is made by moves in front of the product."""
        return name in self.before

    def source(self, name: str) -> str:
        """Return the tensor in which another lies before its moves."""
        while name in self.before:
            name = self.before[name].inputs[0]
        return name

    def read(self, t: Tensor, name: str, indices: Indices, extents: Extents, matrix: Sequence[Expr]) -> tuple[Buffer, Read]:
        """Return the buffer in which an operand lies before its moves, and its access. `matrix`: the indices of rows and columns."""
        return matrix_of(read_before(Access(t, indices), self.before, self.tensors, extents), name, *_names(matrix))

    def write(self, t: Tensor, name: str, indices: Indices, extents: Extents, matrix: Sequence[Expr]) -> tuple[Buffer, Read]:
        """Return the buffer in which a result lies behind its moves, and its access."""
        return matrix_of(written_behind(Access(t, indices), self.after, self.tensors, extents), name, *_names(matrix))


NO_MOVES = Moves({}, (), {})


def around_product(nodes: Sequence[OpNode], tensors: Mapping[str, Tensor]) -> tuple[Moves, list[OpNode]]:
    """Return the moves around a product in a group, and the other nodes."""
    at = product_at(nodes)
    end = next((i for i in range(at + 1, len(nodes)) if nodes[i].op in MOVES), len(nodes))
    before = {o: n for n in nodes[:at] for o in n.outputs}
    return Moves(before, tuple(nodes[end:]), tensors), list(nodes[at:end])


def product_at(nodes: Sequence[OpNode]) -> int:
    """Return the place of the first node of a group that does more than move elements; 0 where none does."""
    return next((at for at, n in enumerate(nodes) if n.op not in MOVES), 0)


def main_node(nodes: Sequence[OpNode]) -> OpNode:
    """Return the node of a group that says what it does: the first that does more than move elements."""
    return nodes[product_at(nodes)]


def _names(matrix: Sequence[Expr]) -> list[str]:
    return [i.name for i in matrix if isinstance(i, Var)]


def read_before(access: Access, moves: Mapping[str, OpNode], tensors: Mapping[str, Tensor], extents: Extents) -> Access:
    """Return where a tensor's elements lie before the nodes that move them. `moves`: result -> node. `extents`: of loops."""
    while (node := moves.get(access.tensor.name)) is not None:
        source = tensors[node.inputs[0]]
        access = Access(source, _source_indices(node, access.indices, access.tensor.shape, source.shape, extents))
    return access


def written_behind(access: Access, moves: Sequence[OpNode], tensors: Mapping[str, Tensor], extents: Extents) -> Access:
    """Return where a tensor's elements lie behind transposes and reshapes, in order."""
    for node in moves:
        target = tensors[node.outputs[0]]
        if node.op == "transpose":
            indices = tuple(access.indices[axis] for axis in _numbers(node, "perm"))
        else:
            indices = reshaped_indices(access.indices, access.tensor.shape, target.shape, extents)
        access = Access(target, indices)
    return access


def _source_indices(node: OpNode, indices: Indices, shape: Sequence[int], source: Sequence[int], extents: Extents) -> Indices:
    if node.op == "transpose":
        perm = _numbers(node, "perm")
        return tuple(indices[perm.index(axis)] for axis in range(len(perm)))
    if node.op == "slice":
        return tuple(normalise(i * step + start) for i, start, step in zip(indices, _numbers(node, "starts"), _numbers(node, "steps")))
    return reshaped_indices(indices, shape, source, extents)


def _numbers(node: OpNode, name: str) -> tuple[int, ...]:
    value = node.attribute(name)
    assert isinstance(value, tuple)
    return tuple(int(v) for v in value)


def reshaped_indices(indices: Indices, shape: Sequence[int], other: Sequence[int], extents: Extents) -> Indices:
    """Return the indices in a shape `other` of the element that is at `indices` in row-major order of `shape`."""
    flat: Expr = Int(0)
    for i, n in zip(indices, shape, strict=True):
        flat = flat * n + i
    flat, out = normalise(flat), list[Expr]()
    for n in reversed(other):
        flat, rest = divide(flat, n, extents)
        out.append(rest)
    return tuple(reversed(out))


def divide(e: Expr, n: int, extents: Extents) -> tuple[Expr, Expr]:
    """Return (e // n, e % n): of a sum, terms that are multiples of n are taken apart where the others stay below n."""
    low, high = interval(e, dict(extents))
    if low >= 0 and high < n:
        return Int(0), e
    found = affine(e, variables(e))
    if found is None or not isinstance(found[1], Int):
        return normalise(e // n), normalise(e % n)
    start = found[1].value
    whole: Expr = Int(start // n)
    rest: Expr = Int(start % n)
    for v, factor in found[0].items():
        if not isinstance(factor, Int):
            return normalise(e // n), normalise(e % n)
        multiple = factor.value % n == 0
        whole, rest = (whole + Var(v) * (factor.value // n), rest) if multiple else (whole, rest + Var(v) * factor.value)
    rest = normalise(rest)
    low, high = interval(rest, dict(extents))
    return (normalise(whole), rest) if low >= 0 and high < n else (normalise(e // n), normalise(e % n))


def is_walkable(access: Access, row: str, column: str) -> bool:
    """Return whether a tile of rows and columns is a box of a matrix in the tensor, in rows or in columns.

    Both axes step by one element of their own dimension, and one of them is the last. Other axes only move the box.
    """
    parts = [affine(i, variables(i)) for i in access.indices]
    if any(p is None or not isinstance(p[1], Int) or not all(isinstance(f, Int) for f in p[0].values()) for p in parts):
        return False
    steps = [{v: f.value for v, f in p[0].items() if isinstance(f, Int)} for p in parts if p is not None]
    at = {axis: [d for d, found in enumerate(steps) if axis in found] for axis in (row, column)}
    if any(len(places) != 1 or steps[places[0]][axis] != 1 for axis, places in at.items()):
        return False
    inner = variables(access.indices[last_dimension(access)]) & {row, column}
    return len(inner) == 1 and access.tensor.layout == "ND"


def last_dimension(access: Access) -> int:
    """Return the last dimension of more than one element, or with an index that is not 0."""
    dims = enumerate(zip(access.indices, access.tensor.shape))
    return max((d for d, (i, n) in dims if n > 1 or variables(i)), default=0)


def matrix_of(access: Access, name: str, row: str, column: str) -> tuple[Buffer, Read]:
    """Return a walkable tensor as a buffer, and its access: dimensions of one element go, those behind the outer axis are one."""
    dims = [(i, n) for i, n in zip(access.indices, access.tensor.shape) if n > 1 or variables(i)]
    outer = next((d for d, (i, _) in enumerate(dims[:-1]) if variables(i) & {row, column}), len(dims) - 2)
    lead, tail = dims[:outer + 1], dims[outer + 1:]
    index: Expr = Int(0)
    for i, n in tail:
        index = index * n + i
    shape = (*(n for _, n in lead), prod(n for _, n in tail))
    buffer = Buffer(name, access.tensor.dtype, tuple(Int(n) for n in shape), "GM", "ND")
    return buffer, Read(name, (*(i for i, _ in lead), normalise(index)))
