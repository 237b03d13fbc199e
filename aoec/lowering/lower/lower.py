"""A group of a fused graph -> func: the meanings of its operators, on tensors as they lie in GM, not yet scheduled."""
from __future__ import annotations

from math import prod

from aoec.base.errors import UnsupportedError
from aoec.ir.func.tir import Func
from aoec.ir.graph.graph import Graph, Group, OpNode, Tensor
from aoec.ir.index import DTYPES
from aoec.lowering.lower.access import around_product
from aoec.lowering.lower.lower_cube import lower_cube
from aoec.lowering.lower.movement.lower_convert import lower_conversion
from aoec.lowering.lower.vector.lower_nz import lower_nz
from aoec.lowering.lower.vector.lower_vector import lower_vector
from aoec.ops.words.layout import PIXEL, c0_of, pixel_channels

BLOCKS = (*PIXEL, "NZ")  # layouts in which an element's place follows from how many fill a block
PRODUCTS = ("matmul", "interpolate", "attention")  # words whose funcs have a buffer for each argument


def lower(graph: Graph, group: Group | str) -> Func:
    """Return the func of a cube or vector group, given or named; UnsupportedError for host and view groups, which have none."""
    if isinstance(group, str):
        group = next(g for g in graph.groups if g.name == group)
    return Indexed(graph).lower(group)


def operands(graph: Graph, group: Group) -> tuple[list[Tensor], list[Tensor]]:
    """Return (inputs, outputs) of the group's func as graph tensors, in the func's order."""
    return Indexed(graph).operands(group)


class Indexed:
    """A fused graph with what lowering asks of it for every group: its tensors and nodes by name, and who reads each tensor."""

    def __init__(self, graph: Graph) -> None:
        self.tensors = {t.name: t for t in graph.tensors}
        self.nodes = {n.name: (at, n) for at, n in enumerate(graph.nodes)}
        self.outputs = frozenset((*graph.outputs, *(o for b in graph.bodies for o in b.outputs)))
        self.readers: dict[str, list[str]] = {}
        for n in graph.nodes:
            for i in n.inputs:
                self.readers.setdefault(i, []).append(n.name)

    def lower(self, group: Group) -> Func:
        """Return the func of a cube or vector group; UnsupportedError for host and view groups, and for what has no lowering."""
        if group.kind not in ("cube", "vector"):
            raise UnsupportedError(f"group {group.name} is a {group.kind} group: only cube and vector groups have a func")
        tensors, nodes = self.tensors, [self.nodes[n][1] for n in group.nodes]
        empty = next((t for n in nodes for t in (*n.inputs, *n.outputs) if t and 0 in tensors[t].shape), None)
        if empty:
            raise UnsupportedError(f"group {group.name}: {empty} has no elements, and a program would have nothing to do")
        if nodes[0].op in ("to_nc1hwc0", "from_nc1hwc0") and len(nodes) == 1:
            return lower_conversion(group.name, nodes[0], tensors)
        if group.kind == "cube":
            return lower_cube(group.name, nodes, tensors)
        if why := other_blocks(nodes, tensors):
            raise UnsupportedError(f"group {group.name}: {why}")
        if any(tensors[t].layout == "NZ" for n in nodes for t in (*n.inputs, *n.outputs) if t):
            return lower_nz(group.name, nodes, tensors, self.escaping(group))
        return lower_vector(group.name, nodes, tensors, self.escaping(group))

    def operands(self, group: Group) -> tuple[list[Tensor], list[Tensor]]:
        """Return (inputs, outputs) of the group's func as graph tensors, in the func's order."""
        inputs, outputs = group_inputs(self._in_order(group)), self.escaping(group)
        return [self.tensors[i] for i in inputs], [self.tensors[o] for o in outputs]

    def escaping(self, group: Group) -> tuple[str, ...]:
        """Return tensors that the group makes and others need, in order, the largest last, and of these what has the fewest bytes."""
        made, own = [o for n in self._in_order(group) for o in n.outputs], set(group.nodes)
        found = [t for t in made if t in self.outputs or not own.issuperset(self.readers.get(t, ()))]
        sizes = {t: (prod(self.tensors[t].shape), -DTYPES.get(self.tensors[t].dtype, 0)) for t in found}
        return tuple(sorted(found, key=sizes.__getitem__) if group.kind == "vector" else found)

    def _in_order(self, group: Group) -> list[OpNode]:
        """Return the nodes of a group as the graph has them."""
        return [n for _, n in sorted((self.nodes[name] for name in group.nodes), key=lambda place: place[0])]


def other_blocks(nodes: list[OpNode], tensors: dict[str, Tensor]) -> str:
    """Return why vector work cannot go from block to block, as a clause; "" where it can: images, or matrices in NZ, of another number of
    bytes an element lie in blocks of another number of elements, and planes of them do not begin at the same places."""
    found: dict[int, str] = {}
    for t in (tensors[t] for n in nodes for t in (*n.inputs, *n.outputs) if t):
        if t.layout in BLOCKS:
            found.setdefault(pixel_channels(t) if t.layout in PIXEL else c0_of(t.dtype), t.name)
    if len(found) < 2:
        return ""
    (one, a), (other, b), *_ = found.items()
    return f"{a} lies in blocks of {one} elements and {b} in blocks of {other}, which a product makes of each other on its way out alone"


def group_inputs(nodes: list[OpNode]) -> list[str]:
    """Return tensors that a group reads from GM, in order of first use: of products one for each argument, which may be the same."""
    made = {o for n in nodes for o in n.outputs}
    moves, (main, *_) = around_product(nodes, {})
    own = [moves.source(i) for i in main.inputs if i] if main.op in PRODUCTS else []
    return own + [i for i in dict.fromkeys(i for n in nodes for i in n.inputs if i and i not in made) if i not in own]
