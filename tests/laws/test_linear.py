"""Work grows as the graph does: the bytecodes of aoec that run from model to artifact and back, counted for graphs of n, 2n and 4n nodes.

A count is the same each time, which seconds are not. What grows with the square makes the second step four times the first; two is linear.
"""
from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import onnx
import pytest

import aoec
from aoec.frontend.translate.onnx import load as load_model
from aoec.jobs.compile.ports import ports
from aoec.lowering.arrange.nz import regions
from tests.frontend.models import model, node, normal

OWN = str(Path(aoec.__file__).parent)


def residual(blocks: int) -> onnx.ModelProto:
    """Blocks x + relu(x @ v + b) @ w, none of its nodes with a name."""
    nodes, constants = [], {}
    for i in range(blocks):
        constants |= {f"v{i}": normal(16, 16, seed=i), f"b{i}": normal(16, seed=i), f"w{i}": normal(16, 16, seed=i + blocks)}
        nodes += [node("MatMul", f"x{i} v{i}", f"p{i}"), node("Add", f"p{i} b{i}", f"q{i}"), node("Relu", f"q{i}", f"r{i}"),
                  node("MatMul", f"r{i} w{i}", f"s{i}"), node("Add", f"s{i} x{i}", f"x{i + 1}")]
    return model(nodes, {"x0": (16, 16)}, [f"x{blocks}"], constants)


def diamonds(blocks: int) -> onnx.ModelProto:
    """Blocks relu(x) - sigmoid(x), with a view and transposes that cancel in each."""
    nodes = []
    for i in range(blocks):
        nodes += [node("Relu", f"x{i}", f"l{i}"), node("Sigmoid", f"x{i}", f"r{i}"), node("Transpose", f"l{i}", f"t{i}", perm=[1, 0]),
                  node("Transpose", f"t{i}", f"u{i}", perm=[1, 0]), node("Identity", f"r{i}", f"i{i}"),
                  node("Sub", f"u{i} i{i}", f"x{i + 1}")]
    return model(nodes, {"x0": (16, 16)}, [f"x{blocks}"])


def bytecodes(work: Callable[[], object]) -> int:
    """How many of them run in files of the package."""
    count = 0

    def inside(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "opcode"
        return inside

    def entered(frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(OWN):
            return None
        frame.f_trace_opcodes = True
        return inside

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def steps(work: Callable[[], object], *more: Callable[[], object]) -> tuple[int, int]:
    """What the second and the third piece of work take more than the one before."""
    counts = [bytecodes(w) for w in (work, *more)]
    return counts[1] - counts[0], counts[2] - counts[1]


@pytest.mark.parametrize("net", [residual, diamonds])
def test_a_model_of_twice_the_nodes_is_twice_the_work(net: Callable[[int], onnx.ModelProto], tmp_path: Path) -> None:
    def compiled(blocks: int) -> Callable[[], object]:
        proto = net(blocks)
        return lambda: aoec.compile(proto, tmp_path / "m.aoec", bank=tmp_path / "bank.db")

    for _ in range(2):
        compiled(3)()  # what is made once for all equal groups, found in the bank from then on
    first, second = steps(compiled(8), compiled(16), compiled(32))
    assert second < 2.1 * first


def test_matrices_that_could_be_in_nz_are_found_in_one_pass() -> None:
    """The sums of a residual model lead back to its input, each through all before it: long enough to see it walked again for each."""
    first, second = steps(*(partial(regions, load_model(residual(n), {}, "fp16")[0]) for n in (20, 40, 80)))
    assert second < 2.1 * first


def test_the_count_sees_a_square() -> None:
    def pairs(n: int) -> Callable[[], object]:
        graph = load_model(residual(n), {}, "fp16")[0]
        return lambda: [ports(graph, (name,), "fp16") for name in graph.outputs * len(graph.tensors)]  # each looks at every tensor

    first, second = steps(pairs(2), pairs(4), pairs(8))
    assert second > 3 * first
