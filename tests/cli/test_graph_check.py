"""A graph from text is held against the dictionary: unknown operators, operands and shapes are refused at their line."""
from __future__ import annotations

import pytest

from aoec.base.errors import CheckError
from aoec.frontend import zoo
from aoec.frontend.onnx import load
from aoec.jobs.stages import graph_of
from aoec.lowering.fuse import fuse
from aoec.ops.check import check

TEXT = """graph g {
  input x: fp16[4, 6]
  input z: fp16[6, 5]
  tensor y: fp16[4, 5]
  tensor r: fp16[4, 5]
  n: matmul(x, z) -> y
  m: relu(y) -> r
  output r
}
"""


def test_good_graphs_pass() -> None:
    assert [n.op for n in graph_of(TEXT, "g.graph").nodes] == ["matmul", "relu"]
    graph, weights, _ = load(zoo.tiny_resnet())
    check(graph)
    check(fuse(graph, weights)[0])


@pytest.mark.parametrize("old, new, place, message", [
    ("relu(y)", "rely(y)", "7:3", "node m: operator rely is not in the dictionary; did you mean relu?"),
    ("r: fp16[4, 5]", "r: fp16[4, 50]", "7:3", "node m: relu gives [4, 5], and tensor r is declared as [4, 50]"),
    ("y: fp16[4, 5]", "y: fp16[5, 4]", "6:3", "node n: matmul gives [4, 5], and tensor y is declared as [5, 4]"),
    ("matmul(x, z)", "matmul(z, x)", "6:3", "node n: "),
    ("matmul(x, z)", "matmul(x)", "6:3", "node n: "),
    ("relu(y)", "softmax(y)", "7:3", "node m: "),
])
def test_bad_graphs_are_refused_at_their_line(old: str, new: str, place: str, message: str) -> None:
    with pytest.raises(CheckError) as e:
        graph_of(TEXT.replace(old, new), "g.graph")
    assert str(e.value).startswith(f"g.graph:{place}: {message}") and str(e.value).endswith("^")
