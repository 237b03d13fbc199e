"""Matrices between products in NZ: which they are, and that a graph with some of them there means what it did."""
from __future__ import annotations

import numpy as np
import pytest

from aoec.ir.graph.graph import Graph, OpNode, Tensor
from aoec.jobs.tune.tuning import problem
from aoec.lowering.arrange.fuse import fuse
from aoec.lowering.arrange.nz import Region, in_nz, regions
from aoec.lowering.lower.lower import lower
from aoec.ops.run import evaluate
from aoec.target.legality.check import check
from aoec.target.machine import load
from tests.lowering.groups import case, legal

# name -> nodes (operator, what it reads, what it gives), tensors that are no rows x 48, results
BLOCKS = {
    "mlp": ("matmul x v t, gelu t u, matmul u w y", {"v": (48, 48), "w": (48, 48)}, "y"),
    "gated": ("matmul x v a, matmul x w b, abs a c, mul c b d, matmul d v y", {"v": (48, 48), "w": (48, 48)}, "y"),
    "shared": ("abs x h, matmul h v q, matmul h w k, matmul q w y, abs q z, add k z o", {"v": (48, 48), "w": (48, 48)}, "y o"),
    "twice": ("matmul x v a, matmul a w b, abs a c, matmul c w y", {"v": (48, 48), "w": (48, 48)}, "b y"),
    "scores": ("matmul x v q, matmul x w k, matmul q k y", {"v": (48, 48), "w": (48, 48), "y": (32, 32)}, "y"),
}


def block(name: str, rows: int = 32, lead: tuple[int, ...] = ()) -> Graph:
    """A block of products and what lies between them, of rows x 48."""
    text, shapes, outputs = BLOCKS[name]
    lines = [line.split() for line in text.split(", ")]
    own = {word: (*lead, rows, 48) for line in lines for word in line[1:]} | {n: s if n in "vw" else (*lead, *s) for n, s in shapes.items()}
    tensors = sorted((Tensor(n, "fp16", s) for n, s in own.items()), key=lambda t: t.name not in "vwx")
    nodes = tuple(OpNode(f"n{i}", op, tuple(ins), (out,), (("trans_b", 1),) if (op, out) == ("matmul", "y") and len(own["y"]) and
                         own["y"][-1] == 32 else ()) for i, (op, *ins, out) in enumerate(lines))
    return Graph(name, tuple(t.name for t in tensors if t.name in "vwx"), tuple(outputs.split()), tuple(tensors), nodes)


def test_regions_grow_back_to_products_and_conversions_serve_several() -> None:
    assert regions(block("mlp")) == [Region("u", frozenset("tu"))]
    assert regions(block("gated")) == [Region("x", frozenset()), Region("v", frozenset()), Region("d", frozenset("abcd"))]
    assert regions(block("shared")) == [Region("h", frozenset()), Region("w", frozenset()), Region("q", frozenset("q"))]
    assert regions(block("twice")) == [Region("a", frozenset("a")), Region("w", frozenset())]  # c is not led back through a
    assert regions(block("mlp", 30)) == []


@pytest.mark.parametrize(("name", "target", "lead"), [
    ("mlp", "Ascend910B3", (2,)), ("gated", "Ascend910B3", ()), ("shared", "Ascend910B3", ()), ("scores", "Ascend910B3", ()),
    ("mlp", "Ascend310P3", ()), ("shared", "Ascend310P3", (2,))])
def test_a_graph_in_nz_means_what_it_did(name: str, target: str, lead: tuple[int, ...]) -> None:
    """Every group's programs give what the graph in ND does, on whole numbers where no operator rounds on its way."""
    graph, machine, random = block(name, lead=lead), load(target), np.random.default_rng(7)
    data = {t.name: random.integers(-2, 3, t.shape).astype(np.float32) / 2 for t in graph.tensors if t.name in graph.inputs}
    changed, _ = fuse(in_nz(graph, regions(graph)), {}, machine)
    layouts = {t.layout for t in changed.tensors}
    values, wanted = evaluate(changed, data, {}, every=True), evaluate(graph, data, {})
    assert layouts == {"ND", "NZ"} and all(np.array_equal(values[o], wanted[o]) for o in graph.outputs)
    for g in changed.groups:
        found = case("gelu" if name == "mlp" else name, changed, g.name, values)
        p = problem(lower(changed, g), machine)
        for c in [c for s in range(len(p.sketches)) for c in legal(p, s, 1)][:4]:
            check(p.program(c), machine)
            assert found.agrees(found.run(p.program(c))), (g, p.values(c))


def test_what_else_reads_a_region_is_given_rows() -> None:
    graph = in_nz(block("shared"), regions(block("shared")))
    assert [(n.op, n.inputs) for n in graph.nodes] == [
        ("abs", ("x",)), ("to_nz", ("h",)), ("matmul", ("h_nz", "v")), ("to_nz", ("w",)), ("matmul", ("h_nz", "w_nz")),
        ("matmul", ("q", "w_nz")), ("from_nz", ("q",)), ("abs", ("q_nd",)), ("add", ("k", "z"))]
