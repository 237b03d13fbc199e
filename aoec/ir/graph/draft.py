"""Draft: a graph while passes change it. The frozen Graph is what goes in and what comes out."""
from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from aoec.ir.graph.graph import Attribute, Graph, OpNode, Tensor


def digest(array: np.ndarray) -> str:
    """Return the sha256, in hex, of the array's little-endian bytes in row-major order: what `Tensor.data` names a constant by."""
    flat = np.ascontiguousarray(array)
    return hashlib.sha256(flat.astype(flat.dtype.newbyteorder("<"), copy=False).reshape(-1).view(np.uint8).data).hexdigest()


class Draft:
    """Tensors by name, nodes in topological order and constants' arrays (as stored), all free to change until `finish`."""

    def __init__(self, name: str, inputs: Iterable[str], outputs: Iterable[str], tensors: Iterable[Tensor] = (),
                 nodes: Iterable[OpNode] = (), weights: Mapping[str, np.ndarray] | None = None) -> None:
        self.name, self.inputs, self.outputs = name, tuple(inputs), tuple(outputs)
        self.tensors = {t.name: t for t in tensors}
        self.nodes = list(nodes)
        self.weights = dict(weights or {})
        self.wide: set[str] = set()  # reals that are no use in 16 bits: places, of which whole ones are taken
        self._numbers: dict[tuple[str, str], int] = {}  # the last that a name got
        self._taken: dict[str, set[str]] = {"tensor": set(self.tensors), "node": {n.name for n in self.nodes}, "group": set()}

    @classmethod
    def of(cls, graph: Graph, weights: Mapping[str, np.ndarray]) -> Draft:
        return cls(graph.name, graph.inputs, graph.outputs, graph.tensors, graph.nodes, weights)

    def fresh(self, name: str, kind: str = "tensor") -> str:
        """Return `name`, or `name_1`, ... where another of that kind (tensor, node or group) already has it. Reserve the name that is
        returned."""
        number, out = self._numbers.get((kind, name), 0), name
        while out in self._taken[kind]:
            number += 1
            out = f"{name}_{number}"
        self._numbers[kind, name] = number
        self._taken[kind].add(out)
        return out

    def reserve(self, names: Iterable[str], kind: str = "tensor") -> None:
        """Reserve these names of tensors (or nodes, or groups), so that `fresh` never returns one of them. They are added later, or
        belong to something else."""
        self._taken[kind].update(names)

    def put(self, tensor: Tensor) -> None:
        """Add the tensor, or replace the one of its name."""
        self._taken["tensor"].add(tensor.name)
        self.tensors[tensor.name] = tensor

    def tensor(self, name: str, dtype: str, shape: Iterable[int], layout: str = "ND") -> str:
        """Return the name under which a new tensor was added."""
        name = self.fresh(name)
        self.tensors[name] = Tensor(name, dtype, tuple(int(n) for n in shape), layout)
        return name

    def constant(self, name: str, array: np.ndarray, dtype: str, shape: Iterable[int] | None = None, layout: str = "ND") -> str:
        """Return the name of a new constant; `array` as stored, `shape` logical (the array's own where not given)."""
        name = self.tensor(name, dtype, array.shape if shape is None else shape, layout)
        self.weights[name] = np.asarray(array, order="C")
        return name

    def node(self, op: str, inputs: Iterable[str], output: str, attributes: Mapping[str, Attribute] | None = None,
             name: str = "") -> OpNode:
        """Return a new node (not yet among `nodes`) under a free name."""
        name = self.fresh(name or f"{op.replace('.', '_')}_0", "node")
        return OpNode(name, op, tuple(inputs), (output,), tuple((attributes or {}).items()))

    def is_constant(self, name: str) -> bool:
        return name in self.weights

    def producers(self) -> dict[str, OpNode]:
        """Return tensor name -> the node that makes it."""
        return {o: n for n in self.nodes for o in n.outputs}

    def users(self) -> dict[str, list[OpNode]]:
        """Return tensor name -> the nodes that read it, each once for every reading."""
        out: dict[str, list[OpNode]] = {}
        for n in self.nodes:
            for i in n.inputs:
                out.setdefault(i, []).append(n)
        return out

    def only_user(self, name: str, users: Mapping[str, list[OpNode]]) -> OpNode | None:
        """Return the one node that reads the tensor; None where several do or where it is a result of the graph."""
        found = users.get(name, [])
        return found[0] if len(found) == 1 and name not in self.outputs else None

    def rename(self, names: Mapping[str, str]) -> None:
        """Make nodes read `names[x]` in place of x. A chain of names is followed to its end."""
        def end(name: str) -> str:
            while name in names:
                name = names[name]
            return name
        self.nodes = [replace(n, inputs=tuple(map(end, n.inputs))) if not names.keys().isdisjoint(n.inputs) else n for n in self.nodes]

    def finish(self) -> tuple[Graph, dict[str, np.ndarray]]:
        """Return the graph and its constants; tensors that nothing names are left out, names stay."""
        used = dict.fromkeys([*self.inputs, *(name for n in self.nodes for name in (*n.inputs, *n.outputs) if name), *self.outputs])
        weights = {name: self.weights[name] for name in used if name in self.weights}
        tensors = tuple(replace(self.tensors[name], data=digest(weights[name]) if name in weights else "") for name in used)
        return Graph(self.name, self.inputs, self.outputs, tensors, tuple(self.nodes)), weights
