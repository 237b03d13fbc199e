"""Fused mappings: the search finds what brute force finds, and what it says of a mapping a slow walk of the mapping says too."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import permutations, product
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.ir.text.parse import parse_meaning
from aoec.search.fused.chain import Access, Chain, Index, Machine, Operator, Tensor, chain_of
from aoec.search.fused.fused import Step, fuse
from aoec.search.fused.leaf import Stand, slides
from aoec.search.fused.places import Place, Shared
from aoec.search.fused.spans import Spans, cut, spans
from tests.oracle.fused_walk import Walk, Walked

KINDS = ("product", "window", "elementwise")


def operator(kind: str, i: int, sizes: dict[str, int], made: dict[str, Tensor], draw: st.DrawFn) -> Operator:
    """An operator that reads T{i} and writes T{i + 1}: a product, a depthwise window along the first dimension, or an elementwise sum."""
    rows, columns = made[f"T{i}"].shape
    m, c = f"m{i}", f"c{i}"
    bits = draw(st.sampled_from((8, 16)))
    if kind == "product":
        n = draw(st.sampled_from((1, 2, 3)))
        sizes |= {m: rows, c: columns, f"n{i}": n}
        reads = (("T", (Index(((m, 1),)), Index(((c, 1),)))), ("W", (Index(((c, 1),)), Index(((f"n{i}", 1),)))))
        writes, shapes = (Index(((m, 1),)), Index(((f"n{i}", 1),))), {"W": (columns, n)}
    elif kind == "window":
        stride = draw(st.sampled_from((1, 2))) if rows > 3 else 1
        window = draw(st.integers(max(stride, 2), 3))
        pad = draw(st.integers(0, 1))
        out = max((rows + 2 * pad - window) // stride + 1, 1)
        sizes |= {m: out, c: columns, f"r{i}": window}
        reads = (("T", (Index(((m, stride), (f"r{i}", 1)), -pad), Index(((c, 1),)))), ("W", (Index(((f"r{i}", 1),)), Index(((c, 1),)))))
        writes, shapes = (Index(((m, 1),)), Index(((c, 1),))), {"W": (window, columns)}
    else:
        sizes |= {m: rows, c: columns}
        reads = (("T", (Index(((m, 1),)), Index(((c, 1),)))), ("W", (Index(((c, 1),)),)))
        writes, shapes = (Index(((m, 1),)), Index(((c, 1),))), {"W": (columns,)}
    made |= {f"W{i}": Tensor(shapes["W"], bits)}
    made |= {f"T{i + 1}": Tensor(tuple(sizes[d.terms[0][0]] for d in writes), draw(st.sampled_from((8, 16))))}
    loops = dict.fromkeys(v for a in (writes, *(d for _, d in reads)) for d in a for v, _ in d.terms)
    return Operator(f"op{i}", tuple((v, sizes[v]) for v in loops), tuple(Access(f"{t}{i}", d) for t, d in reads), Access(f"T{i + 1}", writes))


@st.composite
def chains(draw: st.DrawFn, most: int, extent: int) -> Chain:
    made = {"T0": Tensor((draw(st.integers(2, extent)), draw(st.integers(1, 3))), 8)}
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=most))
    operators = tuple(operator(kind, i, {}, made, draw) for i, kind in enumerate(kinds))
    return Chain(made, operators)


machines = st.builds(Machine, st.sampled_from((1.0, 2.0)), st.sampled_from((1.0, 5.0, 1000.0)), st.sampled_from((1.0, 1000.0)),
                     st.integers(20, 600))


@given(chains(4, 7), machines)
@settings(max_examples=150, deadline=None)
def test_a_walk_moves_what_the_search_says(chain: Chain, machine: Machine) -> None:
    """Every value that is read from the buffer is whole, the bits that move give the stated time, and what is held fits."""
    try:
        found = fuse(chain, machine)
    except ValueError:
        return
    walked = Walked(chain, found.steps, machine)
    assert walked.seconds == pytest.approx(found.seconds, rel=1e-9)
    assert walked.most <= machine.buffer_bits
