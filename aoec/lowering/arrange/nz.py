"""Matrices that products read in NZ, the layout of the cube, instead of ND: the candidates, and the graph in which some of them are.

A product reads NZ without reordering, and its result leaves L0C in NZ. Elementwise operators work in any layout that all their operands
share. So a *region* grows from a matrix that a product reads, back through elementwise operators to the products that make it. Any other
reader of a matrix of a region gets it converted to ND. A matrix that another operator makes is converted to NZ once, for all products
that read it. That can only pay where several products do. The matrices are whole fractals of 16-bit elements, so they have no padding.
"""
from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Graph, OpNode, Tensor
from aoec.ir.index import DTYPES
from aoec.lowering.arrange.layout import family
from aoec.ops.words.layout import FRACTAL_ROWS, c0_of

OPERANDS = 2  # inputs of a product that are matrices


@dataclass(frozen=True, slots=True)
class Region:
    """`matrix`: what a product reads. `made`: it and what leads to it, all in NZ from where they are made; empty where it is converted."""

    matrix: str
    made: frozenset[str]


def regions(graph: Graph) -> list[Region]:
    """Return the regions of a graph that is not fused yet, in order, none of which meets another; none where control flow has bodies, whose
    nodes a conversion would have to lie among."""
    if graph.bodies:
        return []
    tensors, producers, led = {t.name: t for t in graph.tensors}, {o: n for n in graph.nodes for o in n.outputs}, _nz_candidates(graph)
    readers: dict[str, int] = {}
    for name in _read_by_products(graph):
        readers[name] = readers.get(name, 0) + 1
    out: list[Region] = []
    taken: set[str] = set(graph.outputs)
    for name, count in readers.items():
        made = _grown(name, producers, taken) if name in led else None
        if made is not None:
            out.append(Region(name, made))
            taken |= made
        elif count > 1 and _fits_nz(tensors[name]) and name not in taken:
            out.append(Region(name, frozenset()))
            taken.add(name)
    return out


def _read_by_products(graph: Graph) -> Iterator[str]:
    return (i for n in graph.nodes if n.op == "matmul" for i in n.inputs[:OPERANDS])


def _fits_nz(t: Tensor) -> bool:
    """Return whether a tensor is no constant and could lie in whole fractals."""
    alone = t.layout == "ND" and not t.data and len(t.shape) > 1 and DTYPES[t.dtype] == 2
    return alone and t.shape[-2] % FRACTAL_ROWS == 0 == t.shape[-1] % c0_of(t.dtype)


def _nz_candidates(graph: Graph) -> frozenset[str]:
    """Return the tensors that could be in NZ with all that leads to them.
    Products make them, or elementwise operators of such tensors in their shape."""
    tensors, led = {t.name: t for t in graph.tensors}, set[str]()
    for n in graph.nodes:
        shapes = {tensors[i].shape for i in n.inputs if i} if n.op != "matmul" else set()
        if n.op == "matmul" or family(n) == "elementwise" and not n.definition and all(i in led for i in n.inputs if i):
            led.update(o for o in n.outputs if _fits_nz(tensors[o]) and shapes <= {tensors[o].shape})
    return frozenset(led)


def _grown(name: str, producers: dict[str, OpNode], taken: set[str]) -> frozenset[str] | None:
    """Return a matrix with all that leads to it from products through elementwise operators; None where some of that is taken."""
    made, open_ = {name}, [name]
    while open_:
        if (at := open_.pop()) in taken:
            return None
        node = producers[at]
        if node.op != "matmul":
            open_ += [i for i in node.inputs if i and i not in made]
            made.update(filter(None, node.inputs))
    return frozenset(made)


def in_nz(graph: Graph, chosen: Collection[Region]) -> Graph:
    """Return the graph, not fused yet, with these regions in NZ and the conversions that they make necessary."""
    draft = Draft.of(graph, {})
    made = frozenset().union(*(r.made for r in chosen))
    converted = frozenset(r.matrix for r in chosen if not r.made)
    for name in made:
        draft.tensors[name] = replace(draft.tensors[name], layout="NZ")
    nodes, draft.nodes = draft.nodes, []
    other: dict[str, str] = {}  # tensor -> the same in the other layout
    for node in nodes:
        product = node.op == "matmul"
        elsewhere = converted if product else made if made.isdisjoint(node.outputs) else frozenset()
        inputs = tuple(_convert_layout(draft, i, other) if i in elsewhere else i for i in node.inputs)
        draft.nodes.append(replace(node, inputs=inputs))
    return replace(graph, tensors=tuple(draft.tensors.values()), nodes=tuple(draft.nodes))


def _convert_layout(draft: Draft, name: str, other: dict[str, str]) -> str:
    """Return the tensor in the other layout. Add the node that converts it where there is none yet."""
    if name not in other:
        t = draft.tensors[name]
        op, layout = ("to_nz", "NZ") if t.layout == "ND" else ("from_nz", "ND")
        other[name] = draft.tensor(f"{name}_{layout.lower()}", t.dtype, t.shape, layout)
        draft.put(replace(draft.tensors[other[name]], declared=t.declared))
        draft.nodes.append(draft.node(op, [name], other[name]))
    return other[name]
