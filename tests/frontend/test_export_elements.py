"""Law: an elementwise operator that is written as ONNX gives there what its reference gives, whether it names a node of ONNX or not."""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from aoec import ops
from aoec.base.errors import UnsupportedError
from aoec.frontend.export import export_words
from aoec.frontend.export.export import export
from aoec.frontend.export.steps import OPSET, End
from aoec.ir.graph.graph import Graph, OpNode, Tensor
from aoec.ir.text.parse import parse_meaning
from aoec.ir.text.show import show
from aoec.ops.declare import Op, elementwise
from aoec.ops.samples import Sample
from tests.laws.operators import Arrays, draw_arrays, samples_of

ELEMENTWISE = sorted(name for name, op in ops.OPS.items() if op.elements)
BITS = ("bitand", "bitor", "bitxor", "bitnot")  # of whole numbers: operator set 18 has them
NAMES = "abcdefgh"
EXPRESSIONS = [  # of what no declaration says, and of numbers beside tensors
    "trunc($A)", "$A % $B", "fmod($A, $B)", "rsqrt(abs($A) + 1)", "select($A < $B, $A, 2)",
    "select($A > 0 and not($B > $A), 1, 0) * $A", "max($A, $B, 0.5) + 1 - min($A, 1)", "($A != $B) + ($A >= 0)",
    "(1 - sigmoid($A)) / ($B * $B + 2)", "fp32(int32($A)) + pow(2.0, $B / 9)", "($A + sqrt($A * $A + 4.0)) * 0.5"]


def graph_of(op: str, sample: Sample, arrays: Arrays, dtype: str, definition: str = "", shape: tuple[int, ...] | None = None) -> Graph:
    """A graph with one node; its arguments are inputs."""
    dtypes = {"float32": "fp32"}
    given = [Tensor(name, dtypes.get(a.dtype.name, a.dtype.name), a.shape) for name, a in zip(NAMES, arrays)]
    shape = ops.shape(op, [a.shape for a in arrays], sample.attributes) if shape is None else shape
    node = OpNode("n", op, tuple(t.name for t in given), ("y",), tuple(sample.attributes.items()), definition=definition)
    return Graph("g", node.inputs, ("y",), (*given, Tensor("y", dtype, shape)), (node,))


def run(graph: Graph, arrays: Arrays) -> np.ndarray:
    """What ONNX's own evaluator makes of the graph as a model that its checker takes."""
    dtypes = {t.name: t.dtype for t in graph.tensors}
    proto = export(graph, {}, [End(i, i, dtypes[i]) for i in graph.inputs], [End("y", "y", dtypes["y"])])
    onnx.checker.check_model(proto, full_check=True)
    with np.errstate(all="ignore"):
        return np.asarray(ReferenceEvaluator(proto).run(None, dict(zip(graph.inputs, arrays)))[0])


def agree(found: np.ndarray, expected: np.ndarray, largest: float = 1.0) -> None:
    assert found.shape == expected.shape
    if expected.dtype.kind in "iub":
        np.testing.assert_array_equal(found, expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=3e-5, atol=1e-6 * largest)


def result_dtype(op: Op, arrays: Arrays) -> str:
    """The dtype of a result: that of the last argument where the declaration says no other, as a choice has it."""
    return op.dtype or {"float32": "fp32"}.get(arrays[-1].dtype.name, arrays[-1].dtype.name)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_an_elementwise_operator(name: str) -> None:
    op = ops.get(name)
    for seed, sample in enumerate(samples_of(op)):
        arrays = draw_arrays(sample, np.random.default_rng(seed))
        dtype = result_dtype(op, arrays)
        graph = graph_of(name, sample, arrays, dtype)
        if op.onnx and op.onnx.since > OPSET and any(word in show(ops.meaning(op, [a.shape for a in arrays])) for word in BITS):
            with pytest.raises(UnsupportedError, match="no operators of ONNX"):
                run(graph, arrays)
            continue
        with np.errstate(all="ignore"):
            expected = np.asarray(op.reference(*arrays, **sample.attributes))
        agree(run(graph, arrays), expected.astype({"fp32": np.float32, "bool": np.bool_}.get(dtype, dtype)))


@pytest.mark.parametrize("name", [n for n in ELEMENTWISE if ops.OPS[n].onnx or n in export_words.RULES])
def test_its_meaning_is_what_its_node_is(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a declaration or a rule names nodes, those made of the meaning give the same."""
    op = ops.get(name)
    sample = samples_of(op)[0]
    arrays = draw_arrays(sample, np.random.default_rng(7))
    graph = graph_of(name, sample, arrays, result_dtype(op, arrays))
    if any(word in show(ops.meaning(op, [a.shape for a in arrays], sample.attributes)) for word in (*BITS, "shl", "shr")):
        return
    named = run(graph, arrays)
    monkeypatch.setitem(ops.OPS, name, replace(op, onnx=None))
    monkeypatch.delitem(export_words.RULES, name, raising=False)
    agree(run(graph, arrays), named)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_any_expression(expression: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an operator that says no more, and of a definition of the user's own; reals and whole numbers."""
    op = elementwise("any", expression, np.add)
    monkeypatch.setitem(ops.OPS, "any", op)
    for seed, sample in enumerate(samples_of(op)):
        arrays = draw_arrays(sample, np.random.default_rng(seed))
        meaning = ops.meaning(op, [a.shape for a in arrays])
        expected = ops.own.interpret(meaning, arrays)[0].astype(np.float32)
        largest = max(float(np.abs(a).max()) for a in arrays)
        agree(run(graph_of("any", sample, arrays, "fp32"), arrays), expected, largest)
        definition = show(parse_meaning(op.meaning_text([a.shape for a in arrays], {}).replace("any(", "own_any(")))
        agree(run(graph_of("own_any", sample, arrays, "fp32", definition, expected.shape), arrays), expected, largest)


@pytest.mark.parametrize("text", ["f(X[i, j]) -> Y[j, i] { Y[j, i] = X[i, j] }", "f(X[i]) -> Y[j: 2] { Y[j] += X[i] }",
                                  "f(X[i]) -> Y[j: 1] { Y[j] = X[j + 1] }"])
def test_what_is_not_elementwise_is_refused(text: str) -> None:
    m = parse_meaning(text)
    x = np.ones((2,) * len(m.inputs[0].dims), np.float32)
    graph = graph_of("f", Sample(()), [x], "fp32", show(m), (1, 2)[:len(m.outputs[0].dims)])
    with pytest.raises(UnsupportedError, match="it is not elementwise"):
        run(graph, [x])
