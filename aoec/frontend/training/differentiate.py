"""Builds the backward graph: the gradients of a loss with respect to parameters, by reverse accumulation over a draft.

Nodes are visited from the loss back. A node is differentiated once the gradients of its result from all its readers are known. These
gradients are added. Only nodes on a path from a parameter to the loss are differentiated. Nodes are added in the order in which the
backward pass runs. The gradient of a weight comes before that of the data of the same node, so that it can be sent early.
"""
from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

import numpy as np

from aoec.base.errors import CheckError, UnsupportedError
from aoec.frontend.own.own import Words
from aoec.frontend.training.gradients.gradient_moves import join_slices
from aoec.frontend.training.gradients.gradient_rules import gradient_of
from aoec.frontend.training.gradients.gradient_site import Site, make_node
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode
from aoec.ops.host.host import PREFIX
from aoec.ops.run import REALS


def differentiate(draft: Draft, loss: str, parameters: Sequence[str]) -> dict[str, str]:
    """Return parameter -> the tensor of its gradient, which has the parameter's shape.

    The nodes that make it are added to the draft behind the others. The draft is as ONNX was translated, before clean-up passes. The loss
    is a tensor of reals. If it has many elements, their sum is differentiated. A parameter has no gradient, and is left out, where the loss
    does not depend on it or depends on it only through steps (a floor, a comparison). Raise CheckError where loss or parameters are none of
    the draft's tensors of reals. Raise UnsupportedError with operator and node where a node on the path has no gradient.
    """
    return _Backward(draft, loss, parameters).run()


class _Backward:
    """A backward pass in the making. `parts`: tensor -> the tensors whose sum its gradient is."""

    def __init__(self, draft: Draft, loss: str, parameters: Sequence[str]) -> None:
        self.draft, self.loss, self.parameters = draft, loss, tuple(dict.fromkeys(parameters))
        for what, name in (("the loss", loss), *(("parameter", p) for p in self.parameters)):
            if name not in draft.tensors:
                raise CheckError(f"{what} {name} is no tensor of the graph; aoec import shows those that there are")
            if draft.tensors[name].dtype not in REALS:
                raise CheckError(f"{what} {name} is of {draft.tensors[name].dtype}, and only reals have gradients")
        self.known = Words({}, {n.op: n.definition for n in draft.nodes if n.definition})
        self.depth = self._depths()
        self.path = self._path()
        self.parts: dict[str, list[str]] = {}

    def _depths(self) -> dict[str, int]:
        """Return tensor of reals that depends on a parameter -> the most nodes between them."""
        depth = dict.fromkeys(self.parameters, 0)
        for n in self.draft.nodes:
            found = [depth[i] for i in n.inputs if i in depth]
            for o in n.outputs:
                if found and o not in depth and self.draft.tensors[o].dtype in REALS:
                    depth[o] = max(found) + 1
        return depth

    def _path(self) -> list[OpNode]:
        """Return the nodes between a parameter and the loss."""
        if self.loss not in self.depth:
            raise CheckError(f"the loss {self.loss} does not depend on a parameter, so nothing can be trained by it")
        wanted, out = {self.loss}, []
        for n in reversed(self.draft.nodes):
            if any(o in wanted and o in self.depth for o in n.outputs):
                out.append(n)
                wanted |= {i for i in n.inputs if i in self.depth}
        return out[::-1]

    def _of_parameters(self) -> set[str]:
        """Return tensors that follow from parameters and constants alone."""
        own = {*self.parameters, *self.draft.weights, ""}
        for n in self.draft.nodes:
            if own.issuperset(n.inputs):
                own.update(n.outputs)
        return own

    def run(self) -> dict[str, str]:
        """Return the gradients; the draft has the nodes that make them."""
        weights = self._of_parameters()
        number = {n.name: at for at, n in enumerate(self.path)}
        makers = {o: n for n in self.path for o in n.outputs}
        missing: dict[str, int] = dict.fromkeys(number, 0)  # node -> readers of its results that are to come
        for n in self.path:
            for maker in {makers[i].name: 0 for i in n.inputs if i in makers}:
                missing[maker] += 1
        waiting: list[tuple[bool, int]] = []  # what makes weights first, then the last

        def look(n: OpNode) -> None:
            if not missing[n.name]:
                heappush(waiting, (not weights.issuperset(n.outputs), -number[n.name]))
        ones = np.ones(self.draft.tensors[self.loss].shape, np.float32)
        self.parts[self.loss] = [self.draft.constant(f"{self.loss}_gradient", ones, "fp32")]
        for n in self.path:
            look(n)
        while waiting:
            n = self.path[-heappop(waiting)[1]]
            self._differentiate(n)
            for before in {makers[i].name: makers[i] for i in n.inputs if i in makers}.values():
                missing[before.name] -= 1
                look(before)
        return {p: total for p in self.parameters if (total := self._total(p))}

    def _differentiate(self, n: OpNode) -> None:
        """Add to the gradients of a node's arguments on the path what they receive from this node."""
        given = [o for o in n.outputs if self.parts.get(o)]
        if not given:
            return
        try:
            if n.op.startswith(PREFIX) or len(n.outputs) > 1:
                raise UnsupportedError("it has no gradient, as it is calculated on the host")
            total = self._total(n.outputs[0])
            wanted = sorted({at for at, i in enumerate(n.inputs) if i in self.depth}, key=lambda at: (self.depth[n.inputs[at]], -at))
            for at in wanted:
                self._add(n, at, total)
        except UnsupportedError as e:
            between = f"it lies between a parameter and the loss {self.loss}"
            raise UnsupportedError(f"node {n.name} ({n.op.removeprefix(PREFIX)}) cannot be trained through: {e}; {between}") from e

    def _add(self, n: OpNode, at: int, total: str) -> None:
        x = n.inputs[at]
        builder, _ = make_node(self.draft, f"{n.name}_backward", f"{x}_gradient")
        made = gradient_of(Site(builder, n, total, self.known), at)
        if made:
            self.parts.setdefault(x, []).append(made)

    def _total(self, x: str) -> str:
        """Return the gradient of a tensor: the sum of its parts, made now. Return "" where it has none."""
        parts = self.parts.get(x, [])
        if len(parts) > 1:
            builder, _ = make_node(self.draft, f"{x}_backward", f"{x}_gradient")
            parts = join_slices(builder, parts)
            while len(parts) > 1:
                parts = [builder.step("add", parts[:2]), *parts[2:]]
            self.parts[x] = parts
        return parts[0] if parts else ""
