"""Slices (SGAT): which groups of a model run slice by slice, and what there is to say of it."""
from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from aoec.ir.graph import Graph
from aoec.lowering.slices import Region, sliced

Asked = Sequence[tuple[str, str, int]]  # first group, last group, slices
FIRST = re.compile(r"(.+)_1of([0-9]+)")


def asked(graph: Graph, regions: Asked) -> Graph:
    """The fused graph with these regions in slices; UnsupportedError where one cannot run so."""
    return sliced(graph, [Region(*r) for r in regions])


def told(graph: Graph) -> tuple[str, ...]:
    """A sentence on the regions of a graph that run in slices; none where none do."""
    found = [FIRST.fullmatch(g.name) for g in graph.groups]
    runs = [[m for m in run if m] for count, run in groupby(found, lambda m: m and m[2]) if count]
    named = ", ".join(f"{run[0][1]}{f'..{run[-1][1]}' * (len(run) > 1)} in {run[0][2]}" for run in runs)
    return (f"groups in slices, one slice after the other: {named}",) if runs else ()
