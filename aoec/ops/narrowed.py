"""Finds where a graph calculates with less precision than its model declares. It needs only the graph, whose tensors hold both."""
from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aoec.base.text import plural
from aoec.ir.graph.graph import Graph, OpNode, Tensor
from aoec.ops.host.host import PREFIX
from aoec.ops.own import word
from aoec.ops.run import NUMPY

PRODUCTS = ("cube", "attention")  # families whose first arguments are multiplied
DECLARED = {"fp32": "", "fp16": "tensor(float16)", "bf16": "tensor(bfloat16)"}  # dtype of reals -> what a tensor declares
WIDER = ("bf16", "fp16", "fp32")  # by the bits of their fractions, which is what precision means here: the range of bf16 is that of fp32
# the smallest normal number of dtypes of 16 bits: below it numbers have fewer bits, or are 0 where a processor has no others
NORMAL = {"fp16": 2.0**-14, "bf16": 2.0**-126}


@dataclass(frozen=True)
class Narrowed:
    """A node that makes fewer bits than the model says it does."""

    node: str
    op: str
    model: str  # dtype
    run: str


def declared_dtype(t: Tensor) -> str:
    """Return the dtype that the model declares for a real tensor."""
    return next((dtype for dtype, text in DECLARED.items() if text == t.declared), "fp32")


def holds(number: float, dtype: str) -> bool:
    """Return whether a dtype of 16 bits has a number to the bits that it has of others; a power of two below its normal numbers, too."""
    small = 0 < abs(number) < NORMAL[dtype]
    return not small or rounded_to(number, dtype) == number


def rounded_to(number: float, dtype: str) -> float:
    """Return the nearest number that a dtype of reals has."""
    with np.errstate(over="ignore"):
        return float(np.float32(number).astype(NUMPY[dtype]))


def nodes_kept(graph: Graph, precision: str) -> list[tuple[OpNode, float]]:
    """Return the nodes that stay in fp32 in a precision of 16 bits, each with its own number that would be another one there: less than the
    smallest normal number, or rounded to 0 or 1."""
    if precision not in (*NORMAL, "mixed"):
        return []
    dtype, wide = "bf16" if precision == "bf16" else "fp16", {t.name for t in graph.tensors if t.dtype == "fp32"}

    def lost(value: float) -> bool:
        return not holds(value, dtype) or abs(value) != 1 and abs(rounded_to(value, dtype)) == 1

    return [(n, min(found)) for n in graph.nodes if wide.issuperset(n.outputs) and not n.op.startswith(PREFIX)
            and (found := [v for k, v in n.attributes if k in ("scalar", "lo", "hi") and isinstance(v, float) and lost(v)])]


def kept_words(graph: Graph, precision: str) -> list[str]:
    """Return a sentence on those nodes, if there are any."""
    found = nodes_kept(graph, precision)
    listed = ", ".join(f"{n.name} ({number:g})" for n, number in found[:3]) + ", ..." * (len(found) > 3)
    return [f"fp32, as 16 bits do not hold their numbers: {listed}"] if found else []


def find_narrowed(graph: Graph) -> list[Narrowed]:
    """Return the nodes of a graph with results, or factors of products, of less precision than the model declares, in order; conversions of
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
            out += [Narrowed(n.name, n.op, declared_dtype(t), run)] if WIDER.index(run) < WIDER.index(declared_dtype(t)) else []
    return out


def summary(graph: Graph, found: Sequence[Narrowed]) -> str:
    """Return how many nodes those are, and of which operators, in words."""
    if not found:
        return "no node has less precision than the model declares"
    common = Counter(n.op for n in found).most_common()
    listed = ", ".join(f"{op} {count}" for op, count in common[:6]) + (", ..." if len(common) > 6 else "")
    have = "has" if len(found) == 1 else "have"
    return f"{len(found):,} of {plural(len(graph.nodes), 'node')} {have} less precision than the model declares ({listed})"


def counts(graph: Graph) -> dict[str, int]:
    """Return operator -> how many nodes of it those are."""
    return dict(Counter(n.op for n in find_narrowed(graph)).most_common())


def table(graphs: Mapping[str, Graph], precision: str) -> str:
    """Return those nodes of each gear's graph as CSV, and behind them those that are fp32 for a number that they have; the gear of a model
    without any is ""."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(["gear", "node", "operator", "model", "run"])
    for gear, graph in graphs.items():
        rows.writerows([gear, n.node, n.op, n.model, n.run] for n in find_narrowed(graph))
        declares = {t.name: declared_dtype(t) for t in graph.tensors}
        rows.writerows([gear, n.name, n.op, declares[n.outputs[0]], "fp32"] for n, _ in nodes_kept(graph, precision))
    return out.getvalue()
