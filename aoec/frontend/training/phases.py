"""Says to which part of a training step each tensor belongs. This follows from what it is made of and what is made of it, in any graph,
fused or not."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from aoec.ir.graph.graph import Graph

Phase = Literal["forward", "backward", "optimiser"]
ORDER: tuple[Phase, ...] = ("forward", "backward", "optimiser")


def phases(graph: Graph, loss: str, gradients: Iterable[str]) -> dict[str, Phase]:
    """Return tensor that a node makes -> its part of the step. forward: tensors that the loss is made of, and those that follow from these
    alone, as running statistics do. backward: other tensors that a gradient is made of, and those that follow from them. optimiser: tensors
    that are made of a gradient and are part of none. `gradients`: the tensors of the gradients."""
    makers = {o: n for n in graph.nodes for o in n.outputs if o}
    sent = list(gradients)

    def made_of(roots: Iterable[str]) -> set[str]:
        found, left = set[str](), list(roots)
        while left:
            name = left.pop()
            if name in makers and name not in found:
                found.add(name)
                left += makers[name].inputs
        return found

    of_loss, of_gradients = made_of([loss]), made_of(sent)
    out: dict[str, Phase] = {}
    after = set(sent)  # gradients, and what is made of them
    for n in graph.nodes:
        read, made = [i for i in n.inputs if i], [o for o in n.outputs if o]
        follows = not after.isdisjoint(read)
        for o in made:
            if o in of_loss:
                out[o] = "forward"
            elif o in of_gradients:
                out[o] = "backward"
            elif follows:
                out[o] = "optimiser"
            else:
                out[o] = max((out[i] for i in read if i in out), key=ORDER.index, default="forward")
        if follows:
            after.update(o for o in made if out[o] == "optimiser")
    return _give_back(graph, out, of_loss | of_gradients)


def _give_back(graph: Graph, out: dict[str, Phase], needed: set[str]) -> dict[str, Phase]:
    """Return the phases, where what neither loss nor gradients need is the optimiser's if it reads any of that: its own numbers, and their
    next values."""
    readers: dict[str, list[str]] = {}
    for n in graph.nodes:
        for i in n.inputs:
            readers.setdefault(i, []).extend(o for o in n.outputs if o)
    for n in reversed(graph.nodes):
        out.update((o, "optimiser") for o in n.outputs if o and o not in needed and "optimiser" in {out[r] for r in readers.get(o, [])})
    for n in graph.nodes:
        out.update((o, "optimiser") for o in n.outputs if o and o not in needed and "optimiser" in {out.get(i) for i in n.inputs})
    return out
