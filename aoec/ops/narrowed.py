"""Where a graph calculates with less precision than its model declares: told from the graph alone, whose tensors say both."""
from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aoec.base.text import plural
from aoec.ir.graph import Graph, Tensor
from aoec.ops.host import PREFIX
from aoec.ops.own import word

PRODUCTS = ("cube", "attention")  # families whose first arguments are multiplied
DECLARED = {"fp32": "", "fp16": "tensor(float16)", "bf16": "tensor(bfloat16)"}  # dtype of reals -> what a tensor declares
WIDER = ("bf16", "fp16", "fp32")  # by the bits of their fractions, which is what precision means here: the range of bf16 is that of fp32


@dataclass(frozen=True)
class Narrowed:
    """A node that makes fewer bits than the model says it does."""

    node: str
    op: str
    model: str  # dtype
    run: str


def declared(t: Tensor) -> str:
    """The dtype that the model declares for a real tensor."""
    return next((dtype for dtype, text in DECLARED.items() if text == t.declared), "fp32")


def narrowed(graph: Graph) -> list[Narrowed]:
    """The nodes of a graph with results, or factors of products, of less precision than the model declares, in order; conversions of
    layouts are none of the model's."""
    tensors = {t.name: t for t in graph.tensors}
    out = []
    for n in graph.nodes:
        if n.op.startswith(PREFIX) or word(n).family == "layout":
            continue
        made = [tensors[o] for o in n.outputs if tensors[o].dtype in WIDER]
        read = [tensors[i].dtype for i in n.inputs[:2] if word(n).family in PRODUCTS and tensors[i].dtype in WIDER]
        for t in made[:1]:
            run = min((t.dtype, *read), key=WIDER.index)
            out += [Narrowed(n.name, n.op, declared(t), run)] if WIDER.index(run) < WIDER.index(declared(t)) else []
    return out


def summary(graph: Graph, found: Sequence[Narrowed]) -> str:
    """How many nodes those are, and of which operators, in words."""
    if not found:
        return "no node has less precision than the model declares"
    common = Counter(n.op for n in found).most_common()
    listed = ", ".join(f"{op} {count}" for op, count in common[:6]) + (", ..." if len(common) > 6 else "")
    have = "has" if len(found) == 1 else "have"
    return f"{len(found):,} of {plural(len(graph.nodes), 'node')} {have} less precision than the model declares ({listed})"


def counts(graph: Graph) -> dict[str, int]:
    """Operator -> how many nodes of it those are."""
    return dict(Counter(n.op for n in narrowed(graph)).most_common())


def table(graphs: Mapping[str, Graph]) -> str:
    """Those nodes of each gear's graph as CSV; the gear of a model without any is ""."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(["gear", "node", "operator", "model", "run"])
    rows.writerows([gear, n.node, n.op, n.model, n.run] for gear, graph in graphs.items() for n in narrowed(graph))
    return out.getvalue()
