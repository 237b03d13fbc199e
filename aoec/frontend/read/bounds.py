"""Bounds the growth of a small model file: the nodes that its functions expand to, and the work of one node."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

import onnx

from aoec.base.errors import ParseError, UnsupportedError
from aoec.frontend.read.values import subgraphs
from aoec.ir.graph.graph import OPAQUE, Graph, OpNode, Tensor
from aoec.ops import word
from aoec.ops.host import host
from aoec.ops.meanings import loops, meaning

MOST_NODES = 1 << 16  # that the calls of a model's own functions stand for, all together
MOST_BYTES = 256 << 20  # of these nodes
MOST_CALLS = 64  # one within the other
MOST_POINTS = 1 << 48  # of all loops of a node: some seconds of a whole chip. Counts of candidates and ticks stay far below 64 bits

Name = tuple[str, str, str]


def check_functions(name: str, proto: onnx.ModelProto) -> None:
    """Raise UnsupportedError where the model's functions stand for more than the limits above, and ParseError where one calls itself."""
    if not proto.functions:
        return
    known = {(f.domain, f.name, f.overload): f for f in proto.functions}
    calls = {at: [c for n in every_node(f.node) if (c := _function_name(n)) in known] for at, f in known.items()}
    nodes, sizes, deep = dict[Name, int](), dict[Name, int](), dict[Name, int]()
    for at in _inner_first(name, calls):
        own = calls[at]
        nodes[at] = sum(1 for _ in every_node(known[at].node)) + sum(nodes[c] for c in own)
        sizes[at] = known[at].ByteSize() + sum(sizes[c] for c in own)
        deep[at] = 1 + max((deep[c] for c in own), default=0)
    called = [c for n in every_node(proto.graph.node) if (c := _function_name(n)) in known]
    for what, found, most in (("nodes", sum(nodes[c] for c in called), MOST_NODES), ("bytes", sum(sizes[c] for c in called), MOST_BYTES),
                              ("calls within each other", max((deep[c] for c in called), default=0), MOST_CALLS)):
        if found > most:
            count = f"{found:,}" if found < 10 ** 15 else "more than 10^15"
            raise UnsupportedError(f"{name}: the model's own functions stand for {count} {what}, and at most {most:,} are taken; "
                                   "export the model without functions, or in parts")


def every_node(nodes: list[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield the nodes and those of their bodies."""
    left = list(nodes)
    while left:
        n = left.pop()
        yield n
        left += [inner for g in subgraphs(n) for inner in g.node]


def _function_name(n: onnx.NodeProto) -> Name:
    return n.domain, n.op_type, n.overload


def _inner_first(name: str, calls: dict[Name, list[Name]]) -> list[Name]:
    """Return the functions, each behind those that it calls."""
    done: dict[Name, None] = {}
    for first in calls:
        path, waiting = dict[Name, None](), [(first, False)]
        while waiting:
            at, left = waiting.pop()
            if left:
                path.pop(at)
                done[at] = None
            elif at in path:
                raise ParseError(f"the ONNX graph is invalid: its function {at[1]} calls itself", source=name)
            elif at not in done:
                path[at] = None
                waiting += [(at, True), *((c, False) for c in dict.fromkeys(calls[at]))]
    return list(done)


# ONNX's inference holds an axis against the rank of most operators, and not of these; Flatten may name the place behind the last
AXIS_OF_ITS_OWN = frozenset(("Compress", "Concat", "Flatten", "Gather", "GatherElements", "Hardmax", "LayerNormalization", "LogSoftmax",
                             "LpNormalization", "ScatterElements", "Softmax", "Split", "Unique"))


def axis_fault(n: onnx.NodeProto, types: Mapping[str, onnx.TypeProto]) -> str:
    """Return why the axis that a node states is none of its first argument, as a sentence. Return "" where it is one, or no rank is
    known."""
    axis = next((a.i for a in n.attribute if a.name == "axis"), None)
    if axis is None or n.op_type not in AXIS_OF_ITS_OWN or n.domain not in host.OWN_DOMAIN or n.input[0] not in types:
        return ""
    t = types[n.input[0]].tensor_type
    rank = len(t.shape.dim) if t.HasField("shape") else None
    if rank is None or -max(rank, 1) <= axis < max(rank, 1) + (n.op_type == "Flatten"):
        return ""
    return f"axis {axis} is none of a tensor of {rank} dimensions"


def check_work(name: str, graph: Graph) -> None:
    """Raise UnsupportedError where the loops of a node have more than MOST_POINTS points."""
    tensors = {t.name: t for t in graph.tensors}
    for n in graph.nodes:
        if n.op.startswith(host.PREFIX) or _surely_few(n, tensors):
            continue
        known = [tensors[i] for i in n.inputs if i]
        if word(n).family == "host" or any(t.dtype == OPAQUE for t in known):
            continue
        m = meaning(word(n), [t.shape for t in known], n.attributes)
        if (points := sum(prod(loops(m, s).values()) for s in m.statements)) > MOST_POINTS:
            raise UnsupportedError(f"{name}: node {n.name} ({n.op}) goes over {points:,} points, and at most {MOST_POINTS:,} are "
                                   "taken; its window or its tensors are not those of a model that runs")


def _surely_few(n: OpNode, tensors: dict[str, Tensor]) -> bool:
    """Return whether the loops of a node are few: they go over what it makes, and for each over a window or over what it reads."""
    counts = [value for name, value in n.attributes if name == "kernel" or n.definition]
    numbers = [abs(v) for value in counts for v in (value if isinstance(value, tuple) else (value,)) if type(v) is int and v]
    read, made = (max((prod(tensors[name].shape) for name in names if name), default=1) for names in (n.inputs, n.outputs))
    return prod(numbers) * max(read, 1) * max(made, 1) <= MOST_POINTS
