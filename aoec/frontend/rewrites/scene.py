"""A draft while rules change it. It keeps the maker and the readers of each tensor, and updates them with every change."""
from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode


class Scene:
    """The nodes of a draft by what they make, and the readers of each tensor, once for every reading."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.outputs = frozenset(draft.outputs)
        self.producers: dict[str, OpNode] = draft.producers()
        self.users: dict[str, list[OpNode]] = draft.users()
        self.place = {n.name: at for at, n in enumerate(draft.nodes)}
        self.folded: dict[tuple[object, ...], str] = {}  # what is done to which constants -> the constant that this makes
        self.slots: list[list[OpNode]] = [[n] for n in draft.nodes]  # place of a node -> what stands there now

    def nodes(self) -> list[OpNode]:
        """Return all nodes, in order."""
        return [n for slot in self.slots for n in slot]

    def words(self) -> Collection[str]:
        """Return the words of all nodes."""
        return {n.op for n in self.producers.values()}

    def only_user(self, name: str) -> OpNode | None:
        """Return the one node that reads a tensor. Return None where several do or where it is a result of the graph."""
        found = self.users.get(name, ())
        return found[0] if len(found) == 1 and name not in self.outputs else None

    def same(self, a: str, b: str) -> bool:
        """Return True for one tensor, or two that equal nodes make of the same."""
        if a == b:
            return True
        left, right = self.producers.get(a), self.producers.get(b)
        return left is not None and right is not None and (left.op, left.inputs, left.attributes) == (
            right.op, right.inputs, right.attributes)

    def put(self, made: Sequence[OpNode], gone: OpNode, at: int) -> None:
        """Put the nodes in place of the one that is `gone`, at a place of the draft. Remove the nodes that only led to that one, too."""
        self._remove(gone)
        for node in made:
            self.place[node.name] = at
            for o in node.outputs:
                self.producers[o] = node
            for i in node.inputs:
                self.users.setdefault(i, []).append(node)
        self.slots[at] += made
        self._drop(gone.inputs)

    def rename(self, old: OpNode, to: str) -> bool:
        """Return whether all that read what a node makes read another tensor now. Where the node makes a result of the graph, the maker of
        the other tensor makes that, if nothing else reads it."""
        name = old.outputs[0]
        if name not in self.outputs:
            readers = list({n.name: n for n in self.users.get(name, ())}.values())
            self._remove(old)
            for n in readers:
                self._swap(n, replace(n, inputs=tuple(to if i == name else i for i in n.inputs)))
            self._drop(old.inputs)
            return True
        maker = self.producers.get(to)
        if maker is None or to in self.outputs or [n.name for n in self.users[to]] != [old.name]:
            return False
        self._remove(old)
        self._swap(maker, replace(maker, outputs=tuple(name if o == to else o for o in maker.outputs)))
        return True

    def finish(self) -> None:
        """Give the draft the nodes as they are now."""
        self.draft.nodes = self.nodes()

    def _swap(self, old: OpNode, new: OpNode) -> None:
        at = self.place[old.name]
        slot = self.slots[at]
        slot[slot.index(old)] = new
        for o in old.outputs:
            self.producers.pop(o, None)
        self._forget(old)
        for o in new.outputs:
            self.producers[o] = new
        for i in new.inputs:
            self.users.setdefault(i, []).append(new)

    def _remove(self, node: OpNode) -> None:
        self.slots[self.place[node.name]].remove(node)
        for o in node.outputs:
            self.producers.pop(o, None)
        self._forget(node)

    def _forget(self, node: OpNode) -> None:
        for i in set(node.inputs):
            self.users[i] = [n for n in self.users[i] if n is not node]

    def _drop(self, names: Iterable[str]) -> None:
        """Remove nodes whose results nobody reads any more, from these tensors back."""
        rest = list(names)
        while rest:
            node = self.producers.get(rest.pop())
            if node is not None and not any(self.users.get(o) or o in self.outputs for o in node.outputs):
                self._remove(node)
                rest += node.inputs
