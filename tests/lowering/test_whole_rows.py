"""Scores in rows of whole fractals between two products: the same values, and only where the model machine is faster so."""
from __future__ import annotations

import numpy as np
import pytest

from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Graph, Tensor
from aoec.jobs.choose.attention import fuse_exceptions
from aoec.lowering.arrange.fuse import fuse
from aoec.lowering.arrange.whole_rows import ragged_scores
from aoec.ops.run import evaluate
from aoec.target.machine import load


def graph(every: int, mask: str = "", turned: bool = True, batch: int = 2) -> Graph:
    """Products around a softmax of rows of `every` scores, with what is added to them."""
    q, k, v = (batch, 21, 32), (batch, every, 32) if turned else (batch, 32, every), (batch, every, 48)
    d = Draft("g", ("q", "k", "v"), ("y",), [Tensor(n, "fp16", s) for n, s in (("q", q), ("k", k), ("v", v), ("y", (batch, 21, 48)))])
    scores = d.tensor("scores", "fp16", (batch, 21, every))
    d.nodes.append(d.node("matmul", ["q", "k"], scores, {"trans_b": int(turned)}))
    steps = [("muls", [], {"scalar": 0.125})]
    if mask:
        d.put(Tensor("mask", "fp16", {"row": (batch, 1, every), "one": (batch, 1, 1)}[mask]))
        d.inputs += ("mask",)
        steps.append(("add", ["mask"], {}))
    for op, others, given in steps:
        made = d.tensor(op, "fp16", (batch, 21, every))
        d.nodes.append(d.node(op, [scores, *others], made, given))
        scores = made
    shares = d.tensor("shares", "fp16", (batch, 21, every))
    d.nodes.append(d.node("softmax", [scores], shares, {"axis": 2}, "softmax"))
    d.nodes.append(d.node("matmul", [shares, "v"], "y"))
    return d.finish()[0]


@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.parametrize("mask", ["", "row", "one"])
def test_values_are_the_same_whoever_is_masked(mask: str, turned: bool) -> None:
    """Also of a row in which every score is as low as numbers are."""
    plain = graph(37, mask, turned)
    fused, packed = fuse(plain, {}, load("Ascend310P3"), ("softmax",))
    wide = {t.shape[-1] for t in fused.tensors if t.name.startswith(("scores", "shares", "muls"))}
    assert wide == {48} and (sum(n.op == "add" for n in fused.nodes) == 1 if mask != "one" else True)
    random = np.random.default_rng(5)
    feeds = {i: random.standard_normal(next(t.shape for t in plain.tensors if t.name == i)).astype(np.float32) for i in plain.inputs}
    if mask == "row":
        feeds["mask"] = np.where(random.random(feeds["mask"].shape) < 0.3, -65504.0, 0.0).astype(np.float32)
        feeds["mask"][0] = -65504.0
    got, wanted = evaluate(fused, feeds, packed)["y"], evaluate(plain, feeds, {})["y"]
    assert np.abs(got.astype(np.float32) - wanted).max() < 4e-3


def test_what_others_look_into_stays_as_it_is() -> None:
    whole = graph(48)
    assert not ragged_scores(Draft.of(whole, {}))
    seen = graph(37)
    assert ragged_scores(Draft.of(seen, {}))
    shown = Draft.of(seen, {})
    shown.outputs = (*shown.outputs, "shares")
    assert not ragged_scores(shown)


@pytest.mark.usefixtures("small")
def test_few_rows_are_not_made_whole() -> None:
    assert fuse_exceptions(graph(17, batch=1), load("Ascend910B3")) == frozenset()


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_rows_are_made_whole_where_that_is_faster() -> None:
    assert fuse_exceptions(graph(197, batch=96), load("Ascend910A")) == {"softmax"}
    assert fuse_exceptions(graph(197, batch=96), load("Ascend310P3")) == frozenset()  # which packs them
