"""Writes rotary embedding on halves of rows: x * cos + (x2, x1) * sin, where x1 and x2 are the halves of a row of x.

Exporters swap the halves by two slices and a concat, which is a launch that only moves. On rows of two halves the swap is one slice in
steps of -1, and elementwise work reads through it: the whole embedding is one group.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aoec.frontend.passes.find import Finder
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Attribute, OpNode

WHOLE = 16  # elements: halves are whole blocks of UB in 16 bits


@dataclass(frozen=True)
class Rotary:
    """One embedding: rows of `source` times `cosine`, and with their halves swapped times `sine`; `products` are what `last` adds."""

    source: str
    cosine: str
    sine: str
    products: tuple[OpNode, OpNode]
    last: OpNode


def write_on_halves(draft: Draft) -> None:
    """Rewrite each rotary embedding with a row as two halves."""
    find = Finder.of(draft)
    found = {r.last.name: r for n in draft.nodes if n.op == "add" and (r := _rotary(find, n)) is not None}
    gone = {n.name for r in found.values() for n in r.products}
    nodes, draft.nodes = draft.nodes, []
    for node in nodes:
        draft.nodes += _on_halves(draft, found[node.name]) if node.name in found else [] if node.name in gone else [node]


def _rotary(find: Finder, last: OpNode) -> Rotary | None:
    """Return the embedding that an addition ends, if it does."""
    products = [find.producer(i, "mul") for i in last.inputs]
    for plain, swapped in (products, products[::-1]):
        if plain is None or swapped is None or any(find.only_user(n.outputs[0]) is not last for n in (plain, swapped)):
            continue
        for at, name in enumerate(swapped.inputs):
            source = _swaps_halves(find, name)
            if source and source in plain.inputs:
                cosine, sine = plain.inputs[1 - plain.inputs.index(source)], swapped.inputs[1 - at]
                if all(_in_halves(find.draft, i, source) for i in (cosine, sine)):
                    return Rotary(source, cosine, sine, (plain, swapped), last)
    return None


def _swaps_halves(find: Finder, name: str) -> str:
    """Return the tensor whose second and first half of each row a concat puts together, for one reader; "" where it does not."""
    joined = find.producer(name, "concat")
    if joined is None or len(joined.inputs) != 2 or find.only_user(name) is None:
        return ""
    shape = find.draft.tensors[name].shape
    half = shape[-1] // 2
    if joined.attribute("axis") != len(shape) - 1 or shape[-1] % (2 * WHOLE):
        return ""
    sources = set()
    for part, start in zip(joined.inputs, (half, 0)):
        cut = find.producer(part, "slice")
        if cut is None or find.draft.tensors[cut.inputs[0]].shape != shape or find.draft.tensors[part].shape != (*shape[:-1], half):
            return ""
        if cut.attribute("starts") != (*(0,) * (len(shape) - 1), start) or cut.attribute("steps") != (1,) * len(shape):
            return ""
        sources.add(cut.inputs[0])
    return sources.pop() if len(sources) == 1 else ""


def _in_halves(draft: Draft, name: str, source: str) -> bool:
    """Return whether a factor has a value for each element of a row, or one for all of them, and no more axes than the rows."""
    shape, rows = draft.tensors[name].shape, draft.tensors[source].shape
    return len(shape) <= len(rows) and (not shape or shape[-1] in (1, rows[-1]))


def _on_halves(draft: Draft, found: Rotary) -> list[OpNode]:
    """Return the nodes of an embedding whose rows are two halves."""
    out: list[OpNode] = []
    rows = draft.tensors[found.source].shape
    whole = (*rows[:-1], 2, rows[-1] // 2)

    def make(op: str, inputs: Sequence[str], like: str, shape: Sequence[int], attributes: dict[str, Attribute] | None = None) -> str:
        made = draft.tensor(f"{like}_halves", draft.tensors[like].dtype, shape)
        out.append(draft.node(op, inputs, made, attributes, found.last.name))
        return made

    def in_halves(name: str) -> str:
        shape = draft.tensors[name].shape
        wide = (*shape[:-1], *((2, rows[-1] // 2) if shape and shape[-1] == rows[-1] else (1, 1)))
        return make("reshape", [name], name, wide, {"shape": wide})

    source = in_halves(found.source)
    starts, steps = (*(0,) * (len(rows) - 1), 1, 0), (*(1,) * (len(rows) - 1), -1, 1)
    swapped = make("slice", [source], found.source, whole, {"starts": starts, "sizes": whole, "steps": steps})
    plain, other = (node.outputs[0] for node in found.products)
    terms = [make("mul", [source, in_halves(found.cosine)], plain, whole), make("mul", [swapped, in_halves(found.sine)], other, whole)]
    total = make("add", terms, found.last.outputs[0], whole)
    out.append(draft.node("reshape", [total], found.last.outputs[0], {"shape": rows}, found.last.name))
    return out
