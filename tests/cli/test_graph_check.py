"""A graph from text is held against the dictionary: unknown operators, operands and shapes are refused at their line."""
from __future__ import annotations

from pathlib import Path

import pytest

from aoec.base.errors import CheckError
from aoec.frontend import zoo
from aoec.frontend.translate.onnx import load
from aoec.ir.text.show import show
from aoec.jobs.stages.stages import emit_text, graph_of, schedule_text
from aoec.lowering.arrange.fuse import fuse
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


def test_nodes_named_by_exporters_are_shown_too() -> None:
    """Their names have slashes, and are quoted."""
    with pytest.raises(CheckError) as e:
        graph_of(TEXT.replace("  m: relu(y)", '  "/a/Relu_1": rely(y)'), "g.graph")
    assert (e.value.line, e.value.column) == (7, 3) and str(e.value).endswith("^")


def test_a_loop_that_cannot_be_emitted_is_shown() -> None:
    """Of a scheduled func that was edited: an instruction around two blocks."""
    folder = Path(__file__).parents[1] / "funcs"
    func = show(schedule_text((folder / "elementwise.tir").read_text(), "e.tir", (folder / "elementwise.sched").read_text(), "e.sched", {}))
    block = next(line for line in func.splitlines() if " = " in line and ":" in line and "[" in line)
    twice = func.replace(block, f"{block}\n{block.replace(block.strip().split(':')[0], 'again', 1)}", 1)
    with pytest.raises(CheckError, match="one instruction does one block") as e:
        emit_text(twice, "s.tir", "Ascend910B3", {})
    assert e.value.source == "s.tir" and twice.splitlines()[e.value.line - 1].strip().startswith("for ")
