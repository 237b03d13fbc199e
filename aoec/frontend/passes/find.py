"""Finds patterns that exporters write in several operators, backwards and forwards in a draft. A query returns what it found, or None."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode


@dataclass(frozen=True)
class Finder:
    """A draft with who makes and who reads each tensor."""

    draft: Draft
    producers: Mapping[str, OpNode]
    users: Mapping[str, list[OpNode]]

    @classmethod
    def of(cls, draft: Draft) -> Finder:
        return cls(draft, draft.producers(), draft.users())

    def producer(self, name: str, op: str) -> OpNode | None:
        """Return the node that makes the tensor, where it is an `op`."""
        node = self.producers.get(name)
        return node if node is not None and node.op == op else None

    def only_user(self, name: str) -> OpNode | None:
        """Return the one node that reads the tensor, where the graph's results do not hold it."""
        return self.draft.only_user(name, self.users)

    def unary(self, name: str, op: str) -> str | None:
        """Return what the `op` that makes the tensor reads."""
        node = self.producer(name, op)
        return node.inputs[0] if node else None

    def scalar(self, name: str, op: str) -> tuple[str, float] | None:
        """Return what the `op` with a number (adds, muls) that makes the tensor reads, and the number."""
        node = self.producer(name, op)
        return (node.inputs[0], float(dict(node.attributes)["scalar"])) if node else None  # type: ignore[arg-type]

    def same(self, a: str, b: str) -> bool:
        """Return True for one tensor, or two that equal nodes make of the same."""
        left, right = self.producers.get(a), self.producers.get(b)
        return a == b or left is not None and right is not None and (left.op, left.inputs, left.attributes) == (right.op, right.inputs,
                                                                                                              right.attributes)

    def square(self, name: str) -> str | None:
        """Return what is multiplied with itself to make the tensor."""
        node = self.producer(name, "mul")
        return node.inputs[0] if node and node.inputs[0] == node.inputs[1] else None

    def row_mean(self, name: str) -> str | None:
        """Return the tensor whose means over the last dimension these are, with that dimension kept."""
        node = self.producer(name, "reduce_mean")
        if node is None:
            return None
        rank = len(self.draft.tensors[node.inputs[0]].shape)
        return node.inputs[0] if dict(node.attributes)["axes"] == (rank - 1,) else None
